"""What a search writes on: a sheet with what it knows of each group, and a desk to compute on."""

from typing import Any, NamedTuple

import numpy as np

from thali.kernels.bounds import U1, U2, W
from thali.kernels.index import terms, value
from thali.kernels.jit import inlined, kernel


class Race(NamedTuple):
    """The best item at a position so far, and its block; and the best of another block, which will lead the next."""

    best: Any
    item: Any
    block: Any
    second: Any
    second_block: Any


@inlined
def enter(race, score, item, block):
    """The race after one more item; of equals, the lowest wins."""
    if score > race.best or (score == race.best and item < race.item):
        if block == race.block:
            return Race(score, item, block, race.second, race.second_block)
        return Race(score, item, block, race.best, race.block)
    if score > race.second and block != race.block:
        return Race(race.best, race.item, race.block, score, block)
    return race


class Sheet(NamedTuple):
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
def new_sheet(B, length):
    """A sheet for so many blocks, and numbers."""
    seats = B * W
    return Sheet(
        aligned(seats), aligned(seats), np.empty(seats, dtype=np.uint32), np.empty(seats, dtype=np.uint32),
        np.empty(B, dtype=np.bool_), np.empty(B, dtype=np.bool_), aligned(length), np.empty(B + U1, dtype=np.uint64),
        np.empty(seats, dtype=np.uint64), aligned(W),
    )  # fmt: skip


class Desk(NamedTuple):
    """Arrays to work on, made once for a batch of users."""

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
def new_desk(d):
    """A desk for d topics."""
    return Desk(
        aligned(U2 * d * W + W), aligned(U2 * d * W + W), aligned(U2 * W), np.empty(d), np.empty(d), np.empty(d),
        np.empty(d), np.empty(d * d),
        np.empty(16, dtype=np.uint64), np.empty(16, dtype=np.uint64), np.empty(128, dtype=np.int64),
        np.empty(128, dtype=np.uint64), np.empty(128),
    )  # fmt: skip


@kernel
def aligned(n):
    """An empty array of n floats that begins with a line of memory, so that no vector lies across two."""
    whole = np.empty(n + W)
    first = np.uint64(whole.ctypes.data) // np.uint64(8) % W
    return whole[(W - first) % W :][:n]


@inlined
def index_of(e, items, belief, x):
    """The index of one item, by the one scalar definition."""
    m, q, _, _ = terms(
        belief.kind, items.begin[e], items.end[e], items.topics, items.weights, belief.state, belief.theta, belief.minv,
        belief.alpha != 0.0, x,
    )  # fmt: skip
    return min(belief.cap, value(m, q, belief.alpha))
