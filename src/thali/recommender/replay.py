"""Past impressions and clicks from a log, learned in bulk and once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from thali.recommender.core import Recommender
from thali.recommender.handlers import checked_past
from thali.recommender.operations import Mark, Past, Refused

# Lines that are learned in one transaction.
PAGE = 250
FIELDS = ("user", "items", "clicked", "time", "learner")


class Replayed(NamedTuple):
    """What a replay did."""

    learned: int
    """Lines that were learned from now."""
    before: int
    """Lines of the same file that had been learned before."""


def replay(home: Recommender, path: str | Path, progress: Callable[[int], None] = lambda lines: None) -> Replayed:
    """Learn from a log: a line of JSON for each list that was shown, in any order.

    ``{"user": "ana", "items": ["Heat", "Fargo"], "clicked": [1], "time": 1730000000, "learner": "default"}``: clicked
    positions from 0, [] for none, null if it is not known; time in seconds since 1970 and learner may be missing. Gains
    are those that the items have now. Lists older than what is kept are learned from, but not kept as impressions.

    The whole file is looked through before anything is learned. The store remembers how far it is: a replay that was
    stopped goes on from there, and one of the same file again does nothing.
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"log must be a file of JSON lines, found nothing at {source}")
    digest = sha256()
    with open(source, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    mark, now = f"replay:{digest.hexdigest()}", home.clock()
    done = int(home.word(mark) or 0)
    for number, past in _lines(source):
        if number > done:
            try:
                checked_past(home, past, now)
            except Refused as refusal:
                raise ValueError(f"{source}, line {number}: {refusal}") from None
    page: list[Past] = []
    learned, last = 0, done

    def learn() -> None:
        home.perform([*page, Mark(mark, str(last))], whole=True)
        progress(len(page))
        page.clear()

    for number, past in _lines(source):
        if number > done:
            page.append(past)
            learned, last = learned + 1, number
            if len(page) == PAGE:
                learn()
    if page:
        learn()
    return Replayed(learned, done)


def _lines(path: Path) -> Iterator[tuple[int, Past]]:
    """Number and content of each line that is not empty."""
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, start=1):
            if text.strip():
                try:
                    yield number, _past(json.loads(text))
                except ValueError as error:
                    raise ValueError(f"{path}, line {number}: {error}") from None


def _past(line: Any) -> Past:
    if not isinstance(line, dict) or not {"user", "items", "clicked"} <= line.keys() <= set(FIELDS):
        raise ValueError(f"must be an object with user, items, clicked and perhaps time, learner, got {line!r:.80}")
    return Past(line["user"], line["items"], line["clicked"], line.get("time"), line.get("learner"))
