"""Replays: learning from a log of past lists and clicks, each exactly once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from thali.service.recommender.handlers.lists import check_past, positions
from thali.service.recommender.operations import AddPast, Refused, SetMeta, checked, item_name
from thali.service.recommender.recommender import Recommender
from thali.tools import checks

# How many lines are learned in one transaction.
PAGE = 250
#: The store keeps the progress of replays as values whose names begin with this.
PREFIX = "replay:"
FIELDS = ("user", "items", "clicked", "time", "learner")
#: A mark in the store that records progress: its name, with a digest of the lines so far, and the number of the line.
Mark = tuple[str, str]


class Replayed(NamedTuple):
    """The result of a replay."""

    learned: int
    """The number of lines that this replay learned."""
    before: int
    """The number of lines of the same file that were already learned previously."""
    shortened: int = 0
    """How many of the learned lines had items that the catalog does not have. They were learned without them."""
    skipped: int = 0
    """The number of lines of which nothing was left without such items. They are not among the learned lines."""
    missing: Mapping[str, int] = MappingProxyType({})
    """The names of these items, and at how many positions of the lists each of them was."""

    def plus(self, page: list[Shortened]) -> Replayed:
        """Return this result after one more page."""
        learned, before, shortened, skipped, missing = self
        kept = [line for line in page if line.past is not None]
        return Replayed(
            learned + len(kept),
            before,
            shortened + sum(bool(line.missing) for line in kept),
            skipped + len(page) - len(kept),
            dict(Counter(missing) + Counter(name for line in page for name in line.missing)),
        )


class Shortened(NamedTuple):
    """A line without the items that the catalog does not have."""

    past: AddPast | None
    """What is left of the line, or None if nothing is left."""
    missing: tuple[str, ...] = ()
    """The names of these items."""


class Interrupted(KeyboardInterrupt):
    """A replay was interrupted. done: what it had learned by then, which is in the store."""

    def __init__(self, done: Replayed) -> None:
        super().__init__(f"the replay was interrupted after it had learned from {done.learned} lists")
        self.done = done


def replay(
    recommender: Recommender, path: str | Path, progress: Callable[[int], None] = lambda lines: None
) -> Replayed:
    """Learn from a log with one line of JSON for each list that was shown. The lines may be in any order.

    A line looks like this:
    ``{"user": "ana", "items": ["Heat", "Fargo"], "clicked": [1], "time": 1730000000, "learner": "default"}``.
    clicked contains the clicked positions, counted from 0. It is [] if there was no click, and null if that is unknown.
    time, in seconds since 1970, and learner are optional. Gains are computed with the current weights of the items.
    Lists that are too old to be kept are learned, but not stored as impressions.

    Items that the catalog does not have, because they were removed, are left out of the lists, as :func:`shorten`
    describes. A line of which nothing is left is skipped. The result counts and names what was left out.

    The whole file is checked before anything is learned. The store records the progress, with a digest of the lines
    so far. An interrupted replay therefore resumes where it stopped, replaying the same file again does nothing, and
    replaying a log that has grown learns only the new lines. A KeyboardInterrupt becomes :class:`Interrupted`, which
    says how many lines were learned. If two processes replay the same log at the same time, one of them fails with
    :class:`Conflict`.
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"log must be an existing file with lines of JSON, found nothing at {source}")
    before, mark = _find_progress(source, recommender.meta_with_prefix(PREFIX))
    done, next_mark = Replayed(0, before), mark
    page: list[AddPast] = []
    try:
        _check(recommender, source, before)
        for page, next_mark in _pages(source, before):
            done = done.plus(_learn(recommender, page, mark, next_mark))
            mark = next_mark
            progress(len(page))
    except KeyboardInterrupt:
        # The interrupt may have come after the commit. The mark in the store tells.
        if next_mark is not None and next_mark != mark and next_mark[0] in recommender.meta_with_prefix(PREFIX):
            done = done.plus([shorten(recommender, past) for past in page])
        raise Interrupted(done) from None
    return done


def shorten(recommender: Recommender, past: AddPast) -> Shortened:
    """Leave out the items of a list that the catalog does not have, and renumber the clicked positions.

    If a left-out item was clicked, everything below it is left out too, because it cannot be told any more what was
    examined there. The items above it then count as examined up to the first or last click among them or, without one,
    all of them. If the learner counts all positions of a list as examined, whatever was clicked, only the items
    themselves are left out.
    """
    names = checked("items", checks.sequence, past.items)
    known = [
        recommender.live.find(name if type(name) is str else item_name(f"items[{index}]", name)) is not None
        for index, name in enumerate(names)
    ]
    if all(known):
        return Shortened(past)
    if len(set(map(str, names))) < len(names):
        raise Refused("items", f"must not contain an item twice, got {names!r:.200}")
    clicked = None if past.clicked is None else positions(past.clicked, len(names))
    learner = recommender.find_learner(past.user, past.learner)
    end = len(names)
    if learner.policy.examined != "all":
        end = next((k for k in clicked or () if not known[k]), end)
    kept = [k for k in range(end) if known[k]]
    missing = tuple(str(name) for name, is_known in zip(names, known, strict=True) if not is_known)
    if not kept:
        return Shortened(None, missing)
    clicked = None if clicked is None else [new for new, k in enumerate(kept) if k in clicked]
    return Shortened(replace(past, items=[names[k] for k in kept], clicked=clicked), missing)


def _check(recommender: Recommender, source: Path, before: int) -> None:
    """Check all lines after the first ``before``."""
    now = recommender.clock()
    for number, _, past in _lines(source):
        if number > before:
            try:
                left = shorten(recommender, past).past
                if left is not None:
                    check_past(recommender, left, now)
                elif past.at is not None:  # everything else has been checked
                    checked("time", checks.number, past.at, low=0.0, high=now + 60.0)
            except Refused as refusal:
                raise ValueError(f"{source}, line {number}: {refusal}") from None


def _pages(source: Path, before: int) -> Iterator[tuple[list[AddPast], Mark]]:
    """Yield the lines after the first ``before``, page by page, and the mark for the progress after each page."""
    new = ((number, digest, past) for number, digest, past in _lines(source) if number > before)
    while lines := list(islice(new, PAGE)):
        number, digest, _ = lines[-1]
        yield [past for _, _, past in lines], (f"{PREFIX}{digest}", str(number))


def _learn(recommender: Recommender, page: list[AddPast], mark: Mark | None, new: Mark) -> list[Shortened]:
    """Learn lines, and replace the mark that records the progress. Return what was learned.

    Fails with Conflict if another process has replaced the mark in the meantime.
    """
    marks = [SetMeta(*new, expected=None)]
    if mark is not None:
        marks.insert(0, SetMeta(mark[0], None, expected=mark[1]))
    lines = [shorten(recommender, past) for past in page]
    while True:
        try:
            recommender.perform([*marks, *(line.past for line in lines if line.past is not None)], whole=True)
        except Refused:
            # The transaction has noticed the changes of other processes. They may have removed items.
            previous, lines = lines, [shorten(recommender, past) for past in page]
            if lines == previous:
                raise
        else:
            return lines


def _find_progress(path: Path, marks: dict[str, str]) -> tuple[int, Mark | None]:
    """Return how many lines of a file were already learned, and the mark that records it."""
    progress: tuple[int, Mark | None] = 0, None
    if marks:
        for number, digest, _ in _lines(path):
            name = f"{PREFIX}{digest}"
            if marks.get(name) == str(number):
                progress = number, (name, marks[name])
    return progress


def _lines(path: Path) -> Iterator[tuple[int, str, AddPast]]:
    """Yield the number of each line that is not empty, a digest of all lines up to it, and its content."""
    digest = sha256()
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, start=1):
            if line := text.strip():
                digest.update(line.encode() + b"\n")
                try:
                    past = _past(json.loads(line))
                except json.JSONDecodeError as error:
                    raise ValueError(f"{path}, line {number}: must be valid JSON: {error.msg}") from None
                except ValueError as error:
                    raise ValueError(f"{path}, line {number}: {error}") from None
                yield number, digest.hexdigest(), past


def _past(line: Any) -> AddPast:
    if not isinstance(line, dict) or not {"user", "items", "clicked"} <= line.keys() <= set(FIELDS):
        raise ValueError(
            f"must be an object with user, items and clicked, and optionally time and learner, got {line!r:.80}"
        )
    return AddPast(line["user"], line["items"], line["clicked"], line.get("time"), line.get("learner"))
