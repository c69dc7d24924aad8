"""The best item of a tree: boxes within boxes, the most promising first."""

from math import inf

import numpy as np

from thali.catalog.coverage import MAX
from thali.lists.engine.bounds import U0, U1, U2, W, corner_bounds, lane_bounds, lane_sums, lane_values, two_values
from thali.lists.engine.layout import (
    BLOCK_HIGH,
    BLOCK_INDEX,
    BLOCK_SIZE,
    BOXES,
    FEW,
    ITEMS,
    NONE,
    SIZE,
    STEP,
    STRIDE,
    TOPICS,
    WEIGHTS,
    box_bytes,
    corner_of,
    largest_sum,
)
from thali.lists.engine.scratch import enter
from thali.tools.jit import inlined
from thali.tools.lanes import largest, load, lowest, prefetch, reaches, reaching, smaller, spread, store


@inlined
def visit_trees(b, best, waiting, layout, belief, known, scratch):
    """The best after those trees of a block whose best item is known, and how many trees wait to be looked into.

    Updates the bounds of all of them. O(s²).
    """
    size, index = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_INDEX])
    upper = corner_bounds(size, index, np.uint64(layout.blocks[b, BLOCK_HIGH]), layout, belief, scratch.x, scratch.y)
    upper = smaller(upper, load(known.bound, b * W))  # so that now stays below bound only where it was before
    store(known.bound, b * W, upper)
    upper = smaller(upper, load(known.now, b * W))
    store(known.now, b * W, upper)
    hope = reaching(upper, best.index)
    while hope:
        n = b * W + lowest(hope)
        hope &= hope - U1
        if layout.root_group[n] == NONE:
            continue
        if known.best_item[n] != NONE and known.now[n] < known.bound[n]:
            best = enter(best, known.now[n], known.best_item[n], b)
        else:
            known.waiting[waiting] = n
            waiting += U1
            prefetch(layout.boxes, np.uint64(layout.groups[layout.root_group[n], BOXES]))
    return best, waiting


@inlined
def look_into_waiting(waiting, best, layout, used, belief, known, scratch):
    """The best after the waiting trees: they come last, when the memory they need has arrived."""
    for i in range(waiting):
        n = known.waiting[i]
        if known.now[n] >= best.index:
            score, item, rest = look_into(layout.root_group[n], known.now[n], best.index, layout, used, belief, scratch)
            known.best_item[n] = item if score > rest else NONE
            known.now[n] = score if score > rest else min(known.now[n], rest)
            if item != NONE:
                best = enter(best, score, item, n // W)
    return best


@inlined
def look_into(group, limit, best, layout, used, belief, scratch):
    """The best unused item of a tree and its index, if that is at least best; and a bound for all others there.

    limit bounds them all. Cost: O(s²), or O(s) for boxes of many topics, for each 8 boxes or items looked at.
    """
    row = layout.groups[group]
    size, t, stride = np.uint64(row[SIZE]), np.uint64(row[TOPICS]), np.uint64(row[STRIDE])
    items, weights = np.uint64(row[ITEMS]), np.uint64(row[WEIGHTS])
    pool, values, corner = layout.pool, scratch.values, scratch.corner
    level_size, level_at = scratch.level_size, scratch.level_at
    open_level, open_node, open_bound = scratch.open_level, scratch.open_node, scratch.open_bound
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
    high = corner_of(group, layout)
    most = largest_sum(np.int64(size), layout.root_high, high) * STEP
    for a in range(size):
        corner[a] = layout.root_high[np.uint64(high) + a * W] * STEP
    crowded = size > FEW
    d = np.uint64(belief.theta.size)
    states, thetas, majorant, entries = scratch.states, scratch.thetas, scratch.majorant, scratch.entries
    if crowded:
        for a in range(size):
            i = np.uint64(layout.topics[t + a])
            states[a], thetas[a] = belief.state[i], belief.theta[i]
            majorant[a] = belief.majorants[i] * belief.state[i] * belief.state[i]
            for b in range(size):
                entries[a * size + b] = belief.flat[i * d + np.uint64(layout.topics[t + b])]
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
                found, more = two_values(size, pool, at, to, states, thetas, entries, belief, scratch.x, scratch.y)
            else:
                found = more = lane_values(size, t, layout.topics, pool, at, belief, scratch.x)
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
                e = layout.lane_item[items + (node if n < W else other) * W + n % W]
                if e != NONE and not used[e] and (values[n] > score or (values[n] == score and e < item)):
                    score, item = values[n], e
                    floor = max(floor, score)
            continue
        at = level_at[level] + node * block
        if crowded and belief.kind != MAX:
            found = lane_sums(size, layout.boxes, at, corner, most, states, thetas, majorant, belief)
        else:
            found = lane_bounds(size, t, layout.topics, layout.boxes, at, corner, belief, scratch.x, scratch.y)
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
