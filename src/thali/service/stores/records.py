"""Records passed between the recommender and a store, and the binary layout of their numbers."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from thali.lists.explain import Explanation
from thali.tools.types import Floats, Integers

#: A user and a learner: the key of statistics.
Key = tuple[str, str]
#: Amounts by hour, learner and counter name.
Counts = dict[tuple[int, str, str], float]
NUMBER, WHOLE = np.dtype("<f8"), np.dtype("<u2")  # the stored types, on any machine


class StoreError(RuntimeError):
    """The store cannot be used now: broken, full, locked or unreachable. A request is never done in part.

    It is not done at all, with one exception: if the connection is lost during the commit, it may have been done. So
    callers retry what must not be lost, and what must not be done twice has an id.
    """


class Unusable(StoreError):  # noqa: N818 (the record is unusable, not the store)
    """A record that this process cannot use: it is damaged or has newer topics. The rest of the store is usable."""


@dataclass(slots=True)
class Statistics:
    """M and B of one user under one learner."""

    topics: int
    """The number of their set of topics."""
    updates: int
    """The number of impressions they were learned from."""
    sequence: int
    """Increases with everything learned; orders impressions by when they were learned."""
    numbers: bytes
    """B, then the lower triangle of M row by row: 8·d·(d + 3)/2 bytes. See :func:`pack`."""


@dataclass(slots=True)
class Impression:
    """A list as it was shown, and the answer to it."""

    id: bytes
    """16 bytes that start with the time shown in milliseconds (:func:`new_id`), so ids sort by that time."""
    user: str
    learner: str
    topics: int
    items: list[Any]
    """The names of the items."""
    numbers: bytes
    """Beliefs, explorations and gains: see :func:`pack_shown`."""
    predicted: float
    """The estimated probability of a click when the list was shown."""
    clicked: list[int] | None = None
    """Clicked positions; None while there is no answer."""
    answer: str | None = None
    """Where it came from: "feedback" or "time-out"."""
    answered_at: float | None = None
    sequence: int | None = None
    """The statistics' sequence when they learned from this impression."""

    @property
    def shown_at(self) -> float:
        """When it was shown, in seconds since 1970, to the millisecond."""
        return shown_at(self.id)


@dataclass(slots=True)
class Change:
    """Change number seq of a catalog: an item added or changed (weights by topic) or removed (None)."""

    seq: int
    item: Any
    weights: dict[str, float] | None
    at: float


class Heading(NamedTuple):
    """The store's record of the current catalog."""

    epoch: int
    """The number of catalogs so far."""
    digest: str
    changes: int
    """The number of items added, changed or removed since."""


@dataclass(slots=True)
class Writes:
    """Everything that a batch writes."""

    shown: list[Impression] = field(default_factory=list)
    answered: dict[bytes, Impression] = field(default_factory=dict)
    statistics: dict[Key, Statistics] = field(default_factory=dict)
    counts: Counts = field(default_factory=dict)
    """Amounts to add to the counters."""

    def count(self, hour: int, learner: str, **amounts: float) -> None:
        """Add to counters."""
        for name, amount in amounts.items():
            key = hour, learner, name
            self.counts[key] = self.counts.get(key, 0.0) + amount


def new_id(now: float) -> bytes:
    """An id that cannot be guessed: 48 bits of milliseconds since 1970, then 80 random ones (as UUID version 7)."""
    noise = bytearray(os.urandom(10))
    noise[0] = 0x70 | noise[0] & 0x0F
    noise[2] = 0x80 | noise[2] & 0x3F
    return id_floor(now)[:6] + bytes(noise)


def id_floor(at: float) -> bytes:
    """A bound: less than every id of an impression shown at this time or later, more than all earlier ids."""
    return int(at * 1000).to_bytes(6, "big") + bytes(10)


def shown_at(id: bytes) -> float:
    """The time in an id, in seconds."""
    return int.from_bytes(id[:6], "big") / 1000


def pack(M: Floats, B: Floats) -> bytes:
    """Pack M (d, d) and B (d,) into bytes. M is symmetric to the last bit, so its lower triangle is enough."""
    return bytes(np.concatenate([B, M[_lower(B.size)]]).astype(NUMBER, copy=False).tobytes())


def unpack(numbers: bytes, d: int) -> tuple[Floats, Floats]:
    """Unpack M and B, equal to the last bit."""
    values = np.frombuffer(numbers, dtype=NUMBER).astype(np.float64)
    if values.size != statistics_size(d):
        raise Unusable(f"stored statistics must be of {d} topics, {statistics_size(d)} numbers, got {values.size}")
    M, lower = np.empty((d, d)), _lower(d)
    M[lower] = values[d:]
    M.T[lower] = values[d:]
    return M, values[:d].copy()


def statistics_size(d: int) -> int:
    """The number of 8-byte numbers stored for a user and learner."""
    return d * (d + 3) // 2


@cache
def _lower(d: int) -> tuple[Integers, Integers]:
    rows, columns = np.tril_indices(d)
    return rows, columns


def gains_of(shown: Explanation, place: Integers, d: int) -> Floats:
    """The gains x (K, d) of a list as it was shown, over the current topics.

    place (topics then,): the current position of each topic, -1 if it was dropped.
    """
    out = np.zeros((shown.sizes.size, d))
    rows, columns = np.repeat(np.arange(shown.sizes.size), shown.sizes), place[shown.topics]
    kept = columns >= 0
    out[rows[kept], columns[kept]] = shown.gains[kept]
    return out


def pack_shown(shown: Explanation) -> bytes:
    """Pack beliefs, explorations, gains, sizes and topics: 18·K + 10·n bytes for K items with n topics in all."""
    belief, exploration, sizes, topics, gains = shown
    numbers = (np.asarray(part, dtype=NUMBER).tobytes() for part in (belief, exploration, gains))
    wholes = (np.asarray(part, dtype=WHOLE).tobytes() for part in (sizes, topics))
    return b"".join((*numbers, *wholes))


def unpack_shown(numbers: bytes, K: int) -> Explanation:
    """Unpack the numbers."""
    n = (len(numbers) - 18 * K) // 10
    floats = np.frombuffer(numbers, dtype=NUMBER, count=2 * K + n)
    wholes = np.frombuffer(numbers, dtype=WHOLE, offset=8 * floats.size).astype(np.int64)
    return Explanation(floats[:K], floats[K : 2 * K], wholes[:K], wholes[K:], floats[2 * K :])
