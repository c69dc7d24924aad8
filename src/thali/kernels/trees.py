"""The best item of a tree: boxes within boxes, the most promising first."""

from math import inf

import numpy as np

from thali.kernels.bounds import U0, U1, U2, W, corner_bounds, lane_bounds, lane_sums, lane_values, two_values
from thali.kernels.index import MAX
from thali.kernels.jit import inlined
from thali.kernels.lanes import largest, load, lowest, prefetch, reaches, reaching, smaller, spread, store
from thali.kernels.layout import (
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
from thali.kernels.sheet import enter


@inlined
def visit_trees(b, race, waiting, layout, belief, sheet, desk):
    """The race after the trees of a block whose best item is known; new bounds; those to look into are put among the
    waiting, whose number is returned too. O(s²).
    """
    size, index = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_INDEX])
    upper = corner_bounds(size, index, np.uint64(layout.blocks[b, BLOCK_HIGH]), layout, belief, desk.x, desk.y)
    upper = smaller(upper, load(sheet.bound, b * W))  # so that now stays below bound only where it was before
    store(sheet.bound, b * W, upper)
    upper = smaller(upper, load(sheet.now, b * W))
    store(sheet.now, b * W, upper)
    hope = reaching(upper, race.best)
    while hope:
        n = b * W + lowest(hope)
        hope &= hope - U1
        if layout.root_group[n] == NONE:
            continue
        if sheet.best_item[n] != NONE and sheet.now[n] < sheet.bound[n]:
            race = enter(race, sheet.now[n], sheet.best_item[n], b)
        else:
            sheet.waiting[waiting] = n
            waiting += U1
            prefetch(layout.boxes, np.uint64(layout.groups[layout.root_group[n], BOXES]))
    return race, waiting


@inlined
def look_into_waiting(waiting, race, layout, used, belief, sheet, desk):
    """The race after the trees that wait: after all blocks, when what they need has come from memory."""
    for i in range(waiting):
        n = sheet.waiting[i]
        if sheet.now[n] >= race.best:
            score, item, rest = look_into(layout.root_group[n], sheet.now[n], race.best, layout, used, belief, desk)
            sheet.best_item[n] = item if score > rest else NONE
            sheet.now[n] = score if score > rest else min(sheet.now[n], rest)
            if item != NONE:
                race = enter(race, score, item, n // W)
    return race


@inlined
def look_into(group, limit, best, layout, used, belief, desk):
    """The best unused item of a tree and its index, if that is at least best; and a bound for all others there.

    limit bounds them all. Cost: O(s²), or O(s) for boxes of many topics, for each 8 boxes or items looked at.
    """
    row = layout.groups[group]
    size, t, stride = np.uint64(row[SIZE]), np.uint64(row[TOPICS]), np.uint64(row[STRIDE])
    items, weights = np.uint64(row[ITEMS]), np.uint64(row[WEIGHTS])
    pool, values, corner = layout.pool, desk.values, desk.corner
    level_size, level_at = desk.level_size, desk.level_at
    open_level, open_node, open_bound = desk.open_level, desk.open_node, desk.open_bound
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
    states, thetas, majorant, entries = desk.states, desk.thetas, desk.majorant, desk.entries
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
                found, more = two_values(size, pool, at, to, states, thetas, entries, belief, desk.x, desk.y)
            else:
                found = more = lane_values(size, t, layout.topics, pool, at, belief, desk.x)
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
            found = lane_bounds(size, t, layout.topics, layout.boxes, at, corner, belief, desk.x, desk.y)
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
