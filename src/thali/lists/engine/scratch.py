"""The state of a running search: the best item so far, what is known about each group, and scratch arrays."""

from typing import Any, NamedTuple

import numpy as np

from thali.lists.engine.bounds import U1, U2, W
from thali.lists.plain import index
from thali.tools.jit import inlined, kernel


class Best(NamedTuple):
    """The best item found so far at a position, with its index."""

    index: Any
    item: Any


@inlined
def update_best(best, score, item):
    """Compare the best item so far with one more item, and return the better one. Ties go to the lowest item number.

    The other item may be NONE, with the score -inf.
    """
    if score > best.index or (score == best.index and item < best.item):
        return Best(score, item)
    return best


class Known(NamedTuple):
    """What the search knows about each seat and block at a position of a user's list. Allocated once per batch."""

    bound: Any
    """(B·8,): an upper bound on every index in the group, at this and all later positions."""
    current_bound: Any
    """(B·8,): a tighter bound that is valid until a topic of the group is shown. It may be the index of the group's
    best item itself."""
    best_item: Any
    """(B·8,): for a tree or fan, its best item, whose index is ``current_bound``; NONE if it is unknown. It is valid
    only while ``current_bound`` is below ``bound``."""
    head: Any
    """(B·8,): for a ray, the position in ``slot_item`` of its first unused item; NONE if there is none."""
    ready: Any
    """(B,): for a block of rays or fans, whether ``operands`` has been filled for this user."""
    heads_used: Any
    """(B,): for a block of rays, whether the head of some ray may be an item that is already used or was removed."""
    operands: Any
    """For blocks of rays, the numbers from which the indices of the heads are computed, in rows of 8 lanes. For each
    topic a: the weight, θ̄_a, and (M⁻¹)_ab for b up to a. For blocks of fans, the weights are those of the corners."""
    to_visit: Any
    """(B + 1,): the blocks to visit."""
    ray_limits: Any
    """(8,): for each ray of the block being visited, a bound on the indices of all its items."""


@kernel
def new_known(B, operand_length):
    """Allocate the arrays for B blocks."""
    seats = B * W
    return Known(
        np.empty(seats), np.empty(seats), np.empty(seats, dtype=np.uint32), np.empty(seats, dtype=np.uint32),
        np.empty(B, dtype=np.bool_), np.empty(B, dtype=np.bool_), np.empty(operand_length),
        np.empty(B + U1, dtype=np.uint64), np.empty(W),
    )  # fmt: skip


class Scratch(NamedTuple):
    """Scratch arrays, allocated once for a batch of users."""

    x: Any
    y: Any
    """x, y: two vectors of 8 lanes for each topic."""
    values: Any
    """(16,): indices of items, or bounds on boxes."""
    unit: Any
    """(d,): for each topic of a tree, the weight that one unit of a byte in a box represents."""
    states: Any
    """For a tree with many topics, contiguous copies of the values for its s topics: the coverage state (``states``), θ̄
    (``thetas``), G_j·(1 - c_j)² (``majorant``) and the entries of M⁻¹, (s·s,) (``entries``)."""
    thetas: Any
    majorant: Any
    entries: Any
    level_size: Any
    """The number of boxes on each level of a tree, and the offset of the level in ``boxes`` (``level_start``). Level 1
    contains the boxes around blocks of items."""
    level_start: Any
    stack_level: Any
    """A stack of boxes to open: for each, its level, its number within the level (``stack_node``) and its bound
    (``stack_bound``)."""
    stack_node: Any
    stack_bound: Any
    fan: Any
    """(40,): for each fan of the block being visited, the five sums from which its indices follow (``rays.Sums``)."""


@kernel
def new_scratch(d):
    """Allocate the arrays for d topics."""
    return Scratch(
        np.empty(U2 * d * W + W), np.empty(U2 * d * W + W), np.empty(U2 * W), np.empty(d), np.empty(d), np.empty(d),
        np.empty(d), np.empty(d * d),
        np.empty(16, dtype=np.uint64), np.empty(16, dtype=np.uint64), np.empty(128, dtype=np.int64),
        np.empty(128, dtype=np.uint64), np.empty(128), np.empty(5 * 8),
    )  # fmt: skip


@inlined
def index_of(e, items, belief, x):
    """Return the index of one item, computed by its definition in :func:`thali.lists.plain.index`."""
    return index(belief.kind, e, items, belief.state, belief.theta, belief.minv, belief.alpha, belief.cap, x)
