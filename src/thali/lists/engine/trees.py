"""The search through trees, which opens nested boxes, the most promising one first."""

from math import inf

import numpy as np

from thali.catalog.coverage import MAX
from thali.lists.engine.bounds import U0, U1, U2, W, corner_bounds, lane_bounds, lane_sums, lane_values, two_values
from thali.lists.engine.layout import (
    BLOCK_CORNERS,
    BLOCK_GATHER,
    BLOCK_SIZE,
    BOXES,
    FEW_TOPICS,
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
from thali.lists.engine.scratch import update_best
from thali.tools.jit import inlined
from thali.tools.lanes import largest, load, lowest, reaches, reaching, smaller, spread, store


@inlined
def visit_trees(b, best, layout, used, belief, known, scratch):
    """Visit a block of trees: update their bounds, search those that may contain a better item than the best so far,
    and return the best item. Cost: O(s²), plus that of the searches.
    """
    size, gather_at = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_GATHER])
    upper = corner_bounds(
        size, gather_at, np.uint64(layout.blocks[b, BLOCK_CORNERS]), layout, belief, scratch.x, scratch.y
    )
    # current_bound is below bound afterwards only in those lanes where it already was.
    upper = smaller(upper, load(known.bound, b * W))
    store(known.bound, b * W, upper)
    upper = smaller(upper, load(known.current_bound, b * W))
    store(known.current_bound, b * W, upper)
    lanes_left = reaching(upper, best.index)
    while lanes_left:
        n = b * W + lowest(lanes_left)
        lanes_left &= lanes_left - U1
        if layout.seat_group[n] == NONE or known.current_bound[n] < best.index:
            continue
        if known.best_item[n] == NONE or known.current_bound[n] >= known.bound[n]:
            score, item, pruned = search_tree(
                layout.seat_group[n], known.current_bound[n], best.index, layout, used, belief, scratch
            )
            known.best_item[n] = item if score > pruned else NONE
            known.current_bound[n] = score if score > pruned else min(known.current_bound[n], pruned)
            best = update_best(best, score, item)
        else:
            best = update_best(best, known.current_bound[n], known.best_item[n])
    return best


@inlined
def search_tree(group, limit, best, layout, used, belief, scratch):
    """Return (score, item, pruned): a tree's best unused item with its index, and a bound on the items not looked at.

    The item is NONE if no index reaches ``best``. No unused item of the tree has an index above max(score, pruned).
    limit is a bound on the whole tree. Cost: O(s²) for each 8 boxes or items looked at, or O(s) for 8 boxes with many
    topics.
    """
    row = layout.groups[group]
    size, topics_at, stride = np.uint64(row[SIZE]), np.uint64(row[TOPICS]), np.uint64(row[STRIDE])
    items, weights = np.uint64(row[ITEMS]), np.uint64(row[WEIGHTS])
    pool, values, unit = layout.pool, scratch.values, scratch.unit
    level_size, level_start = scratch.level_size, scratch.level_start
    stack_level, stack_node, stack_bound = scratch.stack_level, scratch.stack_node, scratch.stack_bound
    block_bytes = np.uint64(box_bytes(size))
    level, node_count = 0, stride
    while node_count > W:
        node_count = (node_count + W - U1) // W
        level += 1
        level_size[level] = node_count
    at = np.uint64(row[BOXES])
    for n in range(level, 0, -1):
        level_start[n] = at
        at += (level_size[n] + W - U1) // W * block_bytes
    corner_at = corner_of(group, layout)
    sum_unit = largest_sum(np.int64(size), layout.corners, corner_at) * STEP
    for a in range(size):
        unit[a] = layout.corners[np.uint64(corner_at) + a * W] * STEP
    many = size > FEW_TOPICS
    d = np.uint64(belief.theta.size)
    states, thetas, majorant, entries = scratch.states, scratch.thetas, scratch.majorant, scratch.entries
    if many:
        for a in range(size):
            i = np.uint64(layout.topics[topics_at + a])
            states[a], thetas[a] = belief.state[i], belief.theta[i]
            majorant[a] = belief.majorants[i] * belief.state[i] * belief.state[i]
            for b in range(size):
                entries[a * size + b] = belief.minv_flat[i * d + np.uint64(layout.topics[topics_at + b])]
    score, item, pruned = -inf, NONE, -inf
    # The first box encloses the whole tree. Box n of a level encloses block n of the level below. Items are level 0.
    stack_level[0], stack_node[0], stack_bound[0] = level + 1, U0, limit
    depth = 1
    while depth > 0:
        depth -= 1
        floor = max(best, score)
        if stack_bound[depth] < floor:
            pruned = max(pruned, stack_bound[depth])
            continue
        level, node = stack_level[depth] - 1, stack_node[depth]
        if level == 0:
            other, count = node, W  # with many topics, score two blocks of items at a time if there are two to score
            if many and depth > 0 and stack_level[depth - 1] == 1 and stack_bound[depth - 1] >= floor:
                depth -= 1
                other, count = stack_node[depth], U2 * W
            at, other_at = weights + node * size * W, weights + other * size * W
            if many:
                found, other_found = two_values(
                    size, pool, at, other_at, states, thetas, entries, belief, scratch.x, scratch.y
                )
            else:
                found = other_found = lane_values(size, topics_at, layout.topics, pool, at, belief, scratch.x)
            found, other_found = smaller(found, spread(belief.cap)), smaller(other_found, spread(belief.cap))
            if not (reaches(found, floor) or reaches(other_found, floor)):
                pruned = max(pruned, largest(found), largest(other_found))
                continue
            store(values, U0, found)
            store(values, W, other_found)
            for n in range(count):
                if values[n] < floor:
                    pruned = max(pruned, values[n])
                    continue
                e = layout.slot_item[items + (node if n < W else other) * W + n % W]
                if e != NONE and not used[e] and (values[n] > score or (values[n] == score and e < item)):
                    score, item = values[n], e
                    floor = max(floor, score)
            continue
        at = level_start[level] + node * block_bytes
        if many and belief.kind != MAX:
            found = lane_sums(size, layout.boxes, at, unit, sum_unit, states, thetas, majorant, belief)
        else:
            found = lane_bounds(size, topics_at, layout.topics, layout.boxes, at, unit, belief, scratch.x, scratch.y)
        if not reaches(found, floor):
            pruned = max(pruned, largest(found))
            continue
        store(values, U0, found)
        best_at, best_bound = -1, -inf
        for n in range(min(W, level_size[level] - node * W)):
            if values[n] < floor:
                pruned = max(pruned, values[n])
                continue
            stack_level[depth], stack_node[depth], stack_bound[depth] = level, node * W + n, values[n]
            if values[n] > best_bound:
                best_at, best_bound = depth, values[n]
            depth += 1
        if best_at >= 0:  # put the most promising box on top of the stack
            i, j = best_at, depth - 1
            stack_node[i], stack_node[j] = stack_node[j], stack_node[i]
            stack_bound[i], stack_bound[j] = stack_bound[j], stack_bound[i]
    return score, item, pruned
