"""Groups of items whose weights are parallel: what the exact search looks at instead of single items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thali.types import Booleans, Floats, Indices, Integers

# Weights count as parallel when every entry agrees to this; the search's slack for rounding allows for it.
TOLERANCE = 4 * np.finfo(np.float64).eps
# Below this, products of two weights could underflow and make different directions look alike.
SMALLEST = 1e-100


class Rays(NamedTuple):
    """Items ordered by ray, largest first: item, scale and same (L,), start (rays + 1,), topics (rays,).

    scale is the item's largest weight; same says that an item's weights equal those of the item before it.
    topics, for each ray: a bit for each topic it has a weight on (j and j + 63 share one).
    """

    start: Indices
    item: Indices
    scale: Floats
    same: Booleans
    topics: Integers


def build(indptr: Indices, topics: Indices, weights: Floats, *, parallel: bool) -> Rays:
    """Rays of the rows of a CSR matrix: parallel rows together if parallel, else only equal rows.

    Rows meet by a hash of their support and (rounded) direction and are then compared entry by entry with the head of
    their ray; one that does not agree gets a ray of its own. Cost: O(nnz + L log L).
    """
    L = indptr.size - 1
    begin = indptr.astype(np.int64)
    lengths = np.diff(begin)
    row = np.repeat(np.arange(L), lengths)
    scale = np.zeros(L)
    np.maximum.at(scale, row, weights)
    if parallel:
        direction = np.rint(np.ldexp(weights / scale[row], 40)).astype(np.uint64)
    else:
        direction = weights.view(np.uint64)
    key = np.zeros(L, dtype=np.uint64)
    np.add.at(key, row, _mix(direction + _mix(topics.astype(np.uint64))))
    # Rays of one support size lie together, so that the search's inner loops keep their length for a while.
    order = np.lexsort((np.arange(L), -scale, key, lengths))

    first = np.ones(L, dtype=np.bool_)
    first[1:] = (key[order[1:]] != key[order[:-1]]) | (np.diff(lengths[order]) != 0)
    head = order[first][np.cumsum(first) - 1]
    alone = ~_agree(begin, topics, weights, scale, order, head, tolerance=TOLERANCE if parallel else 0.0)
    if parallel:
        least = np.ones(L)
        np.minimum.at(least, row, weights)
        alone |= (least[order] < SMALLEST) & (lengths[order] > 0)
    alone &= ~first
    # Rows that left their group follow it, each as a ray of its own.
    ray = np.cumsum(first) - 1
    shuffle = np.lexsort((np.arange(L), alone, ray))
    order, first = order[shuffle], first[shuffle] | alone[shuffle]
    same = np.zeros(L, dtype=np.bool_)
    same[1:] = ~first[1:] & _agree(begin, topics, weights, scale, order[1:], order[:-1], tolerance=0.0)
    start = np.append(np.flatnonzero(first), L)
    bits = np.zeros(L, dtype=np.int64)
    np.bitwise_or.at(bits, row, np.int64(1) << (topics % 63))
    return Rays(start.astype(np.uint32), order.astype(np.uint32), scale[order], same, bits[order[start[:-1]]])


def twins(rays: Rays) -> Integers:
    """For each item, the item before it with the same weights, or -1 (L,)."""
    twin = np.full(rays.item.size, -1, dtype=np.int64)
    at = np.flatnonzero(rays.same)
    twin[rays.item[at]] = rays.item[at - 1]
    return twin


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A well-spread 64-bit hash (the finaliser of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _agree(
    indptr: Integers,
    topics: Indices,
    weights: Floats,
    scale: Floats,
    rows: Integers,
    heads: Integers,
    *,
    tolerance: float,
) -> Booleans:
    """Whether each row has its head's topics, and weights parallel to its head's (equal, if tolerance is 0)."""
    lengths = np.diff(indptr)
    agree = np.asarray(lengths[rows] == lengths[heads])
    rows, heads = rows[agree], heads[agree]
    size = lengths[rows]
    owner = np.repeat(np.arange(rows.size), size)
    offset = np.arange(owner.size) - np.repeat(np.cumsum(size) - size, size)
    mine, theirs = indptr[rows][owner] + offset, indptr[heads][owner] + offset
    if tolerance:
        left = weights[mine] * scale[heads[owner]]
        right = weights[theirs] * scale[rows[owner]]
        wrong = np.abs(left - right) > tolerance * right
    else:
        wrong = weights[mine] != weights[theirs]
    wrong |= topics[mine] != topics[theirs]
    agree[agree] = np.bincount(owner, weights=wrong, minlength=rows.size) == 0
    return agree
