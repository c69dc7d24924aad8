"""What a store keeps, as it passes between the recommender and the store; and the layout of the numbers in it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from thali.tools.types import Floats, Integers

#: A user and a learner: whose statistics.
Key = tuple[str, str]
#: Amounts by hour, learner and name of a counter.
Counts = dict[tuple[int, str, str], float]
NUMBER, WHOLE = np.dtype("<f8"), np.dtype("<u2")  # as stored, whatever the machine


class StoreError(RuntimeError):
    """The store cannot be used now: broken, full, locked or unreachable. What was asked for is not done in part.

    It is not done at all, but for one case: a connection that is lost during the commit. So what must not be lost is
    asked for again, and what must not be done twice has an id.
    """


class Unusable(StoreError):  # noqa: N818 (said of the thing, not of the store)
    """Something in the store that this process cannot use: of newer topics, or damaged. The rest can be used."""


@dataclass(slots=True)
class Statistics:
    """M and B of one user under one learner."""

    topics: int
    """The number of the set of topics that they are about."""
    updates: int
    """How many impressions they were learned from."""
    sequence: int
    """Grows with everything learned; gives impressions the order in which they were."""
    numbers: bytes
    """B, then the lower triangle of M row by row: 8·d·(d + 3)/2 bytes. See :func:`pack`."""


@dataclass(slots=True)
class Impression:
    """A list as it was shown, and the answer to it."""

    id: bytes
    """16 bytes, the milliseconds of showing first (:func:`new_id`): so the order of ids is that of showing."""
    user: str
    learner: str
    topics: int
    items: list[Any]
    """The names of the items."""
    numbers: bytes
    """Beliefs, explorations and gains: see :func:`pack_shown`."""
    predicted: float
    """The probability of a click that was believed."""
    clicked: list[int] | None = None
    """Positions; None while there is no answer."""
    answer: str | None = None
    """Where it came from: "feedback" or "time-out"."""
    answered_at: float | None = None
    sequence: int | None = None
    """The statistics' sequence when this was learned."""

    @property
    def shown_at(self) -> float:
        """When it was shown, in seconds since 1970, to the millisecond."""
        return shown_at(self.id)


@dataclass(slots=True)
class Change:
    """An item put (with its weights by topic) or removed (None), as number seq of the changes of a catalog."""

    seq: int
    item: Any
    weights: dict[str, float] | None
    at: float


class Heading(NamedTuple):
    """What a store says of the catalog in force."""

    epoch: int
    """How many catalogs there have been."""
    digest: str
    changes: int
    """How many items were put or removed since."""


@dataclass(slots=True)
class Writes:
    """All that a batch writes, at once."""

    shown: list[Impression] = field(default_factory=list)
    answered: dict[bytes, Impression] = field(default_factory=dict)
    statistics: dict[Key, Statistics] = field(default_factory=dict)
    counts: Counts = field(default_factory=dict)
    """What to add to the counters."""

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
    """Less than every id of an impression shown at this time or later, and more than those before."""
    return int(at * 1000).to_bytes(6, "big") + bytes(10)


def shown_at(id: bytes) -> float:
    """The time in an id, in seconds."""
    return int.from_bytes(id[:6], "big") / 1000


def pack(M: Floats, B: Floats) -> bytes:
    """M (d, d) and B (d,) as bytes; M is symmetric to the last bit, so its lower triangle is all of it."""
    return bytes(np.concatenate([B, M[_lower(B.size)]]).astype(NUMBER, copy=False).tobytes())


def unpack(numbers: bytes, d: int) -> tuple[Floats, Floats]:
    """M and B again, equal to the last bit."""
    values = np.frombuffer(numbers, dtype=NUMBER).astype(np.float64)
    if values.size != statistics_size(d):
        raise Unusable(f"stored statistics must be of {d} topics, {statistics_size(d)} numbers, got {values.size}")
    M, lower = np.empty((d, d)), _lower(d)
    M[lower] = values[d:]
    M.T[lower] = values[d:]
    return M, values[:d].copy()


def statistics_size(d: int) -> int:
    """How many numbers of 8 bytes are stored for a user and learner."""
    return d * (d + 3) // 2


@cache
def _lower(d: int) -> tuple[Integers, Integers]:
    rows, columns = np.tril_indices(d)
    return rows, columns


class AsShown(NamedTuple):
    """The numbers of a list of K items as it was shown."""

    belief: Floats
    """(K,): xᵀθ̄."""
    exploration: Floats
    """(K,): α·sqrt(xᵀM⁻¹x)."""
    sizes: Integers
    """(K,): how many topics each item has."""
    topics: Integers
    """(n,): which, item after item."""
    values: Floats
    """(n,): its gain in each, x."""

    def gains(self, place: Integers, d: int) -> Floats:
        """The features x (K, d) over topics of now: place (topics then,) says where each is now, -1 if nowhere."""
        out = np.zeros((self.sizes.size, d))
        rows, columns = np.repeat(np.arange(self.sizes.size), self.sizes), place[self.topics]
        kept = columns >= 0
        out[rows[kept], columns[kept]] = self.values[kept]
        return out


def pack_shown(shown: AsShown) -> bytes:
    """As bytes, 18·K + 10·n for K items of n topics in all: beliefs, explorations, gains, then sizes and topics."""
    belief, exploration, sizes, topics, values = shown
    numbers = (np.asarray(part, dtype=NUMBER).tobytes() for part in (belief, exploration, values))
    wholes = (np.asarray(part, dtype=WHOLE).tobytes() for part in (sizes, topics))
    return b"".join((*numbers, *wholes))


def unpack_shown(numbers: bytes, K: int) -> AsShown:
    """The numbers again."""
    n = (len(numbers) - 18 * K) // 10
    floats = np.frombuffer(numbers, dtype=NUMBER, count=2 * K + n)
    wholes = np.frombuffer(numbers, dtype=WHOLE, offset=8 * floats.size).astype(np.int64)
    return AsShown(floats[:K], floats[K : 2 * K], wholes[:K], wholes[K:], floats[2 * K :])
