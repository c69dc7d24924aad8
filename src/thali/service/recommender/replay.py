"""Learn from a log of past impressions and clicks, in bulk and exactly once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from thali.service.recommender.handlers.lists import check_past
from thali.service.recommender.operations import AddPast, Refused, SetMeta
from thali.service.recommender.recommender import Recommender

# Lines that are learned in one transaction.
PAGE = 250
#: The names of stored values that say how far replays have come begin with this.
PREFIX = "replay:"
FIELDS = ("user", "items", "clicked", "time", "learner")


class Replayed(NamedTuple):
    """What a replay did."""

    learned: int
    """Lines that were learned from now."""
    before: int
    """Lines of the same file that had been learned before."""


def replay(
    recommender: Recommender, path: str | Path, progress: Callable[[int], None] = lambda lines: None
) -> Replayed:
    """Learn from a log: a line of JSON for each list that was shown, in any order.

    ``{"user": "ana", "items": ["Heat", "Fargo"], "clicked": [1], "time": 1730000000, "learner": "default"}``: clicked
    positions from 0, [] for none, null if it is not known; time in seconds since 1970 and learner may be missing. Gains
    are those that the items have now. Lists older than what is kept are learned from, but not kept as impressions.

    The whole file is looked through before anything is learned. The store remembers how far it is, by a digest of the
    lines: a replay that was stopped goes on from there, one of the same file again does nothing, and one of a log that
    has grown learns what is new. Two at once are a :class:`Conflict`.
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"log must be a file of JSON lines, found nothing at {source}")
    done, mark = _done(source, recommender.metas(PREFIX))
    before, now = done, recommender.clock()
    for number, _, past in _lines(source):
        if number > done:
            try:
                check_past(recommender, past, now)
            except Refused as refusal:
                raise ValueError(f"{source}, line {number}: {refusal}") from None
    page: list[AddPast] = []
    learned = 0
    for number, digest, past in _lines(source):
        if number <= before:
            continue
        page.append(past)
        if len(page) == PAGE:
            mark = _learn(recommender, page, mark, digest, number)
            learned += len(page)
            progress(len(page))
            page.clear()
    if page:
        _learn(recommender, page, mark, digest, number)
        learned += len(page)
        progress(len(page))
    return Replayed(learned, before)


def _learn(
    recommender: Recommender, page: list[AddPast], mark: tuple[str, str] | None, digest: str, number: int
) -> tuple[str, str]:
    """Learn, and move the mark, which nobody else may have moved meanwhile."""
    new = f"{PREFIX}{digest}", str(number)
    moved = [SetMeta(*new, was=None)]
    if mark is not None:
        moved.insert(0, SetMeta(mark[0], None, was=mark[1]))
    recommender.perform([*moved, *page], whole=True)
    return new


def _done(path: Path, marks: dict[str, str]) -> tuple[int, tuple[str, str] | None]:
    """How many lines were learned before, and the mark that says so: the longest beginning that has one."""
    done: tuple[int, tuple[str, str] | None] = 0, None
    if marks:
        for number, digest, _ in _lines(path):
            name = f"{PREFIX}{digest}"
            if marks.get(name) == str(number):
                done = number, (name, marks[name])
    return done


def _lines(path: Path) -> Iterator[tuple[int, str, AddPast]]:
    """Number, digest of all up to it, and content of each line that is not empty."""
    digest = sha256()
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, start=1):
            if line := text.strip():
                digest.update(line.encode() + b"\n")
                try:
                    past = _past(json.loads(line))
                except json.JSONDecodeError as error:
                    raise ValueError(f"{path}, line {number}: must be JSON: {error.msg}") from None
                except ValueError as error:
                    raise ValueError(f"{path}, line {number}: {error}") from None
                yield number, digest.hexdigest(), past


def _past(line: Any) -> AddPast:
    if not isinstance(line, dict) or not {"user", "items", "clicked"} <= line.keys() <= set(FIELDS):
        raise ValueError(f"must be an object with user, items, clicked and perhaps time, learner, got {line!r:.80}")
    return AddPast(line["user"], line["items"], line["clicked"], line.get("time"), line.get("learner"))
