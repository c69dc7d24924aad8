"""What a search keeps while it runs: the best item so far, what is known of each group, and scratch arrays."""

from typing import Any, NamedTuple

import numpy as np

from thali.lists.engine.bounds import U1, U2, W
from thali.lists.plain import index
from thali.tools.jit import inlined, kernel


class Best(NamedTuple):
    """The best item at a position so far, its index and its block; and the best of any other block.

    The block of the second best is the first to be visited at the next position.
    """

    index: Any
    item: Any
    block: Any
    second: Any
    second_block: Any


@inlined
def enter(best, score, item, block):
    """The best after one more item; of equals, the lowest wins."""
    if score > best.index or (score == best.index and item < best.item):
        if block == best.block:
            return Best(score, item, block, best.second, best.second_block)
        return Best(score, item, block, best.index, best.block)
    if score > best.second and block != best.block:
        return Best(best.index, best.item, best.block, score, block)
    return best


class Known(NamedTuple):
    """What is known of each seat and block at this position of a user's list. Arrays are made once for a batch."""

    bound: Any
    """(B·8,): of any index in the group, now and later."""
    now: Any
    """(B·8,): the same, while no topic of the group is shown; or the index of its best item."""
    best_item: Any
    """(B·8,): of a tree, the item whose index is now; NONE if unknown. It holds while now is below bound."""
    head: Any
    """(B·8,): where the first unused item of a ray is, in lane_item."""
    ready: Any
    """(B,): whether numbers of a block of rays are those of this user."""
    passed: Any
    """(B,): whether the first item of some ray there may be used or gone."""
    numbers: Any
    """Of rays, for each topic of the lanes: weights, θ̄, and entries of M⁻¹."""
    todo: Any
    """Blocks to visit."""
    waiting: Any
    """Seats of trees to look into."""
    limits: Any
    """(8,): of the rays of the block that is visited, what no index on them exceeds."""


@kernel
def new_known(B, length):
    """The arrays for B blocks, with this length of numbers."""
    seats = B * W
    return Known(
        aligned(seats), aligned(seats), np.empty(seats, dtype=np.uint32), np.empty(seats, dtype=np.uint32),
        np.empty(B, dtype=np.bool_), np.empty(B, dtype=np.bool_), aligned(length), np.empty(B + U1, dtype=np.uint64),
        np.empty(seats, dtype=np.uint64), aligned(W),
    )  # fmt: skip


class Scratch(NamedTuple):
    """Arrays to compute in, made once for a batch of users."""

    x: Any
    y: Any
    """Vectors for each topic, twice."""
    values: Any
    """(16,): indices of items, or bounds of boxes."""
    corner: Any
    """(d,): what a byte of the boxes counts in each topic."""
    states: Any
    """Of the topics of a tree of many, side by side: their state, θ̄, majorants, and (s·s,) entries of M⁻¹."""
    thetas: Any
    majorant: Any
    entries: Any
    level_size: Any
    """How many boxes a level has, from those around blocks of items, and where they are."""
    level_at: Any
    open_level: Any
    """Boxes to look into: their level and number, and a bound."""
    open_node: Any
    open_bound: Any


@kernel
def new_scratch(d):
    """The arrays for d topics."""
    return Scratch(
        aligned(U2 * d * W + W), aligned(U2 * d * W + W), aligned(U2 * W), np.empty(d), np.empty(d), np.empty(d),
        np.empty(d), np.empty(d * d),
        np.empty(16, dtype=np.uint64), np.empty(16, dtype=np.uint64), np.empty(128, dtype=np.int64),
        np.empty(128, dtype=np.uint64), np.empty(128),
    )  # fmt: skip


@kernel
def aligned(n):
    """An empty array of n floats that starts on a cache line, so that no vector lies across two."""
    whole = np.empty(n + W)
    first = np.uint64(whole.ctypes.data) // np.uint64(8) % W
    return whole[(W - first) % W :][:n]


@inlined
def index_of(e, items, belief, x):
    """The index of one item, by the scalar definition."""
    return index(belief.kind, e, items, belief.state, belief.theta, belief.minv, belief.alpha, belief.cap, x)
