"""Records passed between the recommender and a store, and the binary layout of their numbers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from thali.lists.explain import Explanation
from thali.tools.types import Floats, Integers

#: The key of statistics: a user and a learner.
Key = tuple[str, str]
#: Amounts by hour, learner and counter name.
Counts = dict[tuple[int, str, str], float]
# The types in which numbers are stored, whatever the byte order of the machine.
FLOAT, INTEGER = np.dtype("<f8"), np.dtype("<u2")


class StoreError(RuntimeError):
    """The store cannot be used at the moment: it is broken, full, locked or unreachable.

    A request that fails with this error was never carried out in part. It was not carried out at all, with one
    exception: if the connection was lost during the commit, everything may have been stored. Callers can therefore
    retry. Operations that must not be repeated have an id, by which a repetition is recognized.
    """


class UnusableRecord(StoreError):  # noqa: N818 (the record is unusable, not the store)
    """A record that this process cannot use, because it is damaged or has newer topics.

    Other records of the store can be used.
    """


@dataclass(slots=True)
class Statistics:
    """M and B of one user under one learner."""

    topics: int
    """The number of the set of topics that M and B refer to."""
    updates: int
    """The number of impressions that M and B were learned from."""
    sequence: int
    """Grows with each change. It orders impressions by the time at which they were learned."""
    numbers: bytes
    """B, then the lower triangle of M row by row: 8·d·(d + 3)/2 bytes. See :func:`pack`."""
    seen: bytes | None = None
    """What the user has seen, if the service hides it. See :class:`thali.service.recommender.seen.SeenLists`."""


@dataclass(slots=True)
class Impression:
    """A list as it was shown, and the answer to it."""

    id: bytes
    """16 bytes that begin with the time when the list was shown, so that ids sort by time. See :func:`new_id`."""
    user: str
    learner: str
    topics: int
    items: list[Any]
    """The names of the items."""
    numbers: bytes
    """Beliefs, explorations and gains. See :func:`pack_shown`."""
    predicted: float
    """The click probability that was estimated when the list was shown."""
    clicked: list[int] | None = None
    """The clicked positions, or None while there is no answer."""
    answer: str | None = None
    """The kind of answer: "feedback" or "time-out"."""
    answered_at: float | None = None
    sequence: int | None = None
    """The sequence of the statistics after they learned from this impression."""
    number: int | None = None
    """Which list of the user this is, counted from 1 over answered lists. None if thali showed it before version 2 of
    the tables."""
    others: bytes | None = None
    """The part of each belief that comes from the prior, K numbers. None if it is 0 because there is no prior."""
    rates_items: bool = False
    """Whether its clicks are counted for the quality of items. They are if the catalog had one when it was shown."""
    start: float | None = None
    """The click probability that the prior of the start would have estimated, if the learner used a learned prior."""
    expected: bytes | None = None
    """What was to be expected of each item, apart from its quality, and how much the user cares for quality: K + 1
    numbers, if the catalog had a quality. See :class:`thali.RelativeQuality`."""

    def expected_clicks(self, clicked: Sequence[int]) -> tuple[list[float], float]:
        """Return what to expect of each item (K,) and how much the user cares for quality, if these were clicked.

        A version before 4 of the tables did not keep this. Then as many clicks count as expected as there were.
        """
        if self.expected is None:
            return [float(k in clicked) for k in range(len(self.items))], 0.0
        *by_topics, care = np.frombuffer(self.expected, dtype="<f8").tolist()
        return by_topics, care

    @property
    def shown_at(self) -> float:
        """The time when the list was shown, in seconds since 1970, to the millisecond."""
        return shown_at(self.id)


@dataclass(slots=True)
class History:
    """What is known about a user from elsewhere: the sums S and B that were added to the statistics of one learner."""

    user: str
    learner: str
    name: str
    topics: int
    """The number of the set of topics that the sums refer to."""
    matrix: str | None
    """The digest under which the store keeps S, if several people share it."""
    numbers: bytes
    """B, and then S as in :func:`pack` unless people share it."""
    digest: str
    """The digest of the user's data."""
    at: float
    sequence: int
    """The sequence of the statistics after they learned from this history."""


class StoredPrior(NamedTuple):
    """The prior that a learner uses instead of the one that it started with."""

    version: int
    """Grows with each prior that is put into use."""
    at: float
    people: int
    """The number of people from whom it was learned."""
    fell_back: bool
    """Whether the service itself has returned to the prior that the learner started with."""
    prior: str | None
    """The prior as JSON, or None for the one that the learner started with."""


@dataclass(slots=True)
class Change:
    """Change number seq of a catalog: an item was added or changed (weights by topic), or removed (None).

    If the item is None, the quality of all items was refreshed.
    """

    seq: int
    item: Any
    weights: dict[str, float] | None
    at: float


class Heading(NamedTuple):
    """The store's record of the current catalog."""

    epoch: int
    """The number of catalogs that the store has had so far."""
    digest: str
    changes: int
    """The number of items that were added, changed or removed since this catalog was loaded."""


@dataclass(slots=True)
class Writes:
    """Everything that a transaction writes at its end."""

    shown: list[Impression] = field(default_factory=list)
    answered: dict[bytes, Impression] = field(default_factory=dict)
    statistics: dict[Key, Statistics] = field(default_factory=dict)
    counts: Counts = field(default_factory=dict)
    """Amounts to add to the counters."""
    examined: dict[str, int] = field(default_factory=dict)
    """How often each item was examined, by its name as text."""
    hits: dict[str, int] = field(default_factory=dict)
    """How often each item was clicked when it was examined, by its name as text."""
    by_topics: dict[str, float] = field(default_factory=dict)
    """What was to be expected when each item was examined, apart from its quality, by its name as text."""
    care: dict[str, float] = field(default_factory=dict)
    """How much those who examined each item care for quality, by its name as text."""

    def examine(self, names: list[str], clicked: list[int], by_topics: list[float], care: float, times: int) -> None:
        """Count the examined items of a list, the clicks on them and what was to be expected, so many times.

        names: at least the examined items of the list. by_topics and care: what was to be expected of each of them.
        """
        for name, topical in zip(names, by_topics, strict=False):
            self.examined[name] = self.examined.get(name, 0) + times
            self.by_topics[name] = self.by_topics.get(name, 0.0) + times * topical
            self.care[name] = self.care.get(name, 0.0) + times * care
        for k in clicked:
            if k < len(by_topics):
                self.hits[names[k]] = self.hits.get(names[k], 0) + times

    def count(self, hour: int, learner: str, **amounts: float) -> None:
        """Add amounts to counters of an hour and a learner, by counter name."""
        for name, amount in amounts.items():
            key = hour, learner, name
            self.counts[key] = self.counts.get(key, 0.0) + amount


def new_id(now: float) -> bytes:
    """Return an id that cannot be guessed, a UUID of version 7.

    It has 48 bits of milliseconds since 1970, then 80 bits, of which 74 are random and 6 state the version and variant.
    """
    random_bytes = bytearray(os.urandom(10))
    random_bytes[0] = 0x70 | random_bytes[0] & 0x0F
    random_bytes[2] = 0x80 | random_bytes[2] & 0x3F
    return id_floor(now)[:6] + bytes(random_bytes)


def id_floor(at: float) -> bytes:
    """Return a bound between ids: ids from this time on are greater, and earlier ids are smaller."""
    return int(at * 1000).to_bytes(6, "big") + bytes(10)


def shown_at(id: bytes) -> float:
    """Return the time in an id, in seconds since 1970."""
    return int.from_bytes(id[:6], "big") / 1000


def pack(M: Floats, B: Floats) -> bytes:
    """Pack M (d, d) and B (d,) into bytes. M is exactly symmetric, so its lower triangle is enough."""
    return bytes(np.concatenate([B, M[_lower_triangle(B.size)]]).astype(FLOAT, copy=False).tobytes())


def history_numbers(S: Floats, B: Floats, *, shared: bool) -> tuple[bytes, bytes | None]:
    """Pack the sums of a history, S (d, d) and B (d,). If several people share S, it is packed apart."""
    numbers = pack(S, B)
    return (numbers[: 8 * B.size], numbers[8 * B.size :]) if shared else (numbers, None)


def unpack(numbers: bytes, d: int) -> tuple[Floats, Floats]:
    """Unpack M and B, exactly as they were packed."""
    values = np.frombuffer(numbers, dtype=FLOAT).astype(np.float64)
    if values.size != statistics_size(d):
        raise UnusableRecord(
            f"the stored statistics of a user must be {statistics_size(d)} numbers for {d} topics, got {values.size}"
        )
    M, lower = np.empty((d, d)), _lower_triangle(d)
    M[lower] = values[d:]
    M.T[lower] = values[d:]
    return M, values[:d].copy()


def with_sigma(M: Floats, sigma: float, wanted: float) -> Floats:
    """Convert M (d, d) = I + σ⁻²Σxxᵀ to another σ. Return M itself if the σ is the same."""
    if sigma == wanted:
        return M
    identity = np.eye(len(M))
    return identity + (sigma / wanted) ** 2 * (M - identity)


def different_settings(stored: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the stored settings of a learner that differ from the given ones and on which its statistics depend.

    σ is not among them, because statistics with one σ can be read with another.
    """
    names = {**stored, **given}.keys() - {"sigma"}
    return {name: stored.get(name) for name in sorted(names) if stored.get(name) != given.get(name)}


def statistics_size(d: int) -> int:
    """Return how many 8-byte numbers are stored per user and learner."""
    return d * (d + 3) // 2


@cache
def _lower_triangle(d: int) -> tuple[Integers, Integers]:
    rows, columns = np.tril_indices(d)
    return rows, columns


def gains_of(shown: Explanation, positions: Integers, d: int) -> Floats:
    """Return the gains x (K, d) of a list as it was shown, over the current topics.

    positions: for each topic at the time of the list, its position among the current topics, or -1 if it was dropped.
    """
    gains = np.zeros((shown.sizes.size, d))
    rows, columns = np.repeat(np.arange(shown.sizes.size), shown.sizes), positions[shown.topics]
    kept = columns >= 0
    gains[rows[kept], columns[kept]] = shown.gains[kept]
    return gains


def pack_shown(shown: Explanation) -> bytes:
    """Pack beliefs, explorations, gains, sizes and topics into bytes.

    K items that have n topics in total take 18·K + 10·n bytes.
    """
    belief, exploration, sizes, topics, gains = shown
    floats = (np.asarray(part, dtype=FLOAT).tobytes() for part in (belief, exploration, gains))
    integers = (np.asarray(part, dtype=INTEGER).tobytes() for part in (sizes, topics))
    return b"".join((*floats, *integers))


def unpack_shown(numbers: bytes, K: int) -> Explanation:
    """Unpack what :func:`pack_shown` packed for a list of K items."""
    n = (len(numbers) - 18 * K) // 10
    floats = np.frombuffer(numbers, dtype=FLOAT, count=2 * K + n)
    integers = np.frombuffer(numbers, dtype=INTEGER, offset=8 * floats.size).astype(np.int64)
    return Explanation(floats[:K], floats[K : 2 * K], integers[:K], integers[K:], floats[2 * K :])
