"""The best item of a tree: boxes within boxes, the most promising first."""

from math import inf
from typing import Any, NamedTuple

import numpy as np

from thali.kernels.bounds import U0, U1, U2, W, lane_bounds, lane_sums, lane_values, two_values
from thali.kernels.groups import BLOCK_HIGH, BOXES, FEW, ITEMS, NONE, SIZE, STEP, STRIDE, TOPICS, WEIGHTS, box_bytes
from thali.kernels.index import MAX
from thali.kernels.jit import inlined, kernel
from thali.kernels.lanes import largest, prefetch, reaches, smaller, spread, store


class Desk(NamedTuple):
    """Arrays to work on, made once for a batch of users."""

    x: Any
    y: Any
    """Vectors for each topic, twice."""
    values: Any
    """(16,)."""
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
def look_into(group, limit, best, layout, used, belief, desk):
    """The best unused item of a tree and its index, if that is at least best; and a bound for all others there.

    limit bounds them all. Cost: O(s²), or O(s) for boxes of many topics, for each 8 boxes or items looked at.
    """
    row, seat = layout.groups[group], np.uint64(layout.root_seat[group])
    size, t, stride = np.uint64(row[SIZE]), np.uint64(row[TOPICS]), np.uint64(row[STRIDE])
    items, weights = np.uint64(row[ITEMS]), np.uint64(row[WEIGHTS])
    x, y, values, corner, level_size, level_at = (
        desk.x, desk.y, desk.values, desk.corner, desk.level_size, desk.level_at,
    )  # fmt: skip
    open_level, open_node, open_bound = desk.open_level, desk.open_node, desk.open_bound
    pool, boxes, lane_item, topics, root_high = (
        layout.pool, layout.boxes, layout.lane_item, layout.topics, layout.root_high,
    )  # fmt: skip
    block = np.uint64(box_bytes(size))
    level, width = 0, stride
    while width > W:
        width = (width + W - U1) // W
        level += 1
        level_size[level] = width
    at = np.uint64(row[BOXES])
    for n in range(level, 0, -1):
        level_at[n] = at
        at += (level_size[n] + W - U1) // W * block
    most = 0.0
    if level > 0:
        high = np.uint64(layout.blocks[seat // W, BLOCK_HIGH]) + seat % W
        for a in range(size):
            most += root_high[high + a * W]
            corner[a] = root_high[high + a * W] * STEP
        most = (most - root_high[high + size * W]) * (1.0 + 1e-12) * STEP
    crowded = size > FEW
    d = np.uint64(belief.theta.size)
    states, thetas, majorant, entries = desk.states, desk.thetas, desk.majorant, desk.entries
    if crowded:
        for a in range(size):
            i = np.uint64(topics[t + a])
            states[a], thetas[a] = belief.state[i], belief.theta[i]
            majorant[a] = belief.majorants[i] * belief.state[i] * belief.state[i]
            for b in range(size):
                entries[a * size + b] = belief.flat[i * d + np.uint64(topics[t + b])]
    score, item, rest = -inf, NONE, -inf
    # The first is around everything. What a box is around, a block of boxes or items, has the same number.
    open_level[0], open_node[0], open_bound[0] = level + 1, U0, limit
    depth = 1
    while depth > 0:
        depth -= 1
        floor = max(best, score)
        if open_bound[depth] < floor:
            rest = max(rest, open_bound[depth])
            continue
        level, node = open_level[depth] - 1, open_node[depth]
        if level == 0:
            other, count = node, W  # two blocks of items of many topics at a time, if two are to be looked at
            if crowded and depth > 0 and open_level[depth - 1] == 1 and open_bound[depth - 1] >= floor:
                depth -= 1
                other, count = open_node[depth], U2 * W
            at, to = weights + node * size * W, weights + other * size * W
            if crowded:
                found, more = two_values(size, pool, at, to, states, thetas, entries, belief, x, y)
            else:
                found = more = lane_values(size, t, topics, pool, at, belief, x)
            found, more = smaller(found, spread(belief.cap)), smaller(more, spread(belief.cap))
            if not (reaches(found, floor) or reaches(more, floor)):
                rest = max(rest, largest(found), largest(more))
                continue
            store(values, U0, found)
            store(values, W, more)
            for n in range(count):
                if values[n] < floor:
                    rest = max(rest, values[n])
                    continue
                e = lane_item[items + (node if n < W else other) * W + n % W]
                if e != NONE and not used[e] and (values[n] > score or (values[n] == score and e < item)):
                    score, item = values[n], e
                    floor = max(floor, score)
            continue
        at = level_at[level] + node * block
        if crowded and belief.kind != MAX:
            found = lane_sums(size, boxes, at, corner, most, states, thetas, majorant, belief)
        else:
            found = lane_bounds(size, t, topics, boxes, at, corner, belief, x, y)
        if not reaches(found, floor):
            rest = max(rest, largest(found))
            continue
        store(values, U0, found)
        promising, most_promising = -1, -inf
        for n in range(min(W, level_size[level] - node * W)):
            if values[n] < floor:
                rest = max(rest, values[n])
                continue
            if level == 1:
                for a in range(size):
                    prefetch(pool, weights + ((node * W + n) * size + a) * W)
            open_level[depth], open_node[depth], open_bound[depth] = level, node * W + n, values[n]
            if values[n] > most_promising:
                promising, most_promising = depth, values[n]
            depth += 1
        if promising >= 0:  # the last is the next to be looked into
            i, j = promising, depth - 1
            open_node[i], open_node[j] = open_node[j], open_node[i]
            open_bound[i], open_bound[j] = open_bound[j], open_bound[i]
    return score, item, rest
