"""The search through fans, eight at a time.

In a fan, the weights on the fading topics are parallel, and there is one steady topic. So the gains of an item are
s·g + z·e, where g are the gains of the item with the largest scale on the fading topics, s is the item's scale relative
to it, z is the item's steady weight, and e is the unit vector of the steady topic. The index is therefore

    s·(g·θ̄) + z·θ̄_e + α·sqrt(s²·gᵀM⁻¹g + 2sz·gᵀM⁻¹e + z²·(M⁻¹)_ee).

The sums in this formula (:class:`thali.lists.engine.rays.Sums`) are computed once for the whole fan. The index is a
convex function of (s, z) and 0 at the origin. So over a polygon that has the origin as a vertex, it is at most its
largest value at another vertex, if that is positive.
"""

from math import inf

import numpy as np

from thali.lists.engine.bounds import U0, U1, U2, U3, U4, W
from thali.lists.engine.layout import (
    BLOCK_CORNERS,
    BLOCK_SIZE,
    ITEMS,
    NONE,
    STRIDE,
    VERTICES,
    WEIGHTS,
)
from thali.lists.engine.rays import Sums, make_ready, sums_and_bounds
from thali.lists.engine.scratch import index_of, update_best
from thali.tools.jit import inlined
from thali.tools.lanes import (
    fused,
    larger,
    largest,
    load,
    lowest,
    positive,
    reaching,
    rough_roots,
    smaller,
    spread,
    store,
)


@inlined
def fan_limits(s, z, sums, belief):
    """Return upper bounds on the indices at the points (s, z), at the current coverage."""
    mean = fused(z, sums.last_mean, s * sums.mean)
    square = fused(s, fused(s, sums.variance, z * (sums.covariance * 2.0)), z * z * sums.last_variance)
    width, _ = rough_roots(positive(square) + belief.variance_error)
    return mean + belief.mean_error + width * (belief.alpha * belief.rough_factor)


@inlined
def visit_fans(b, best, items, layout, used, belief, known, scratch):
    """Visit a block of fans: update their bounds, search those that may contain a better item than the best so far,
    and return the best item. Cost: O(s²), plus that of the searches.
    """
    if not known.ready[b]:
        make_ready(b, layout, used, belief, known)
    sums, upper = sums_and_bounds(b, layout, belief, known, scratch)
    size, limit = np.uint64(layout.blocks[b, BLOCK_SIZE]), spread(-inf)
    at = np.uint64(layout.blocks[b, BLOCK_CORNERS]) + (size + U1) * W
    for _ in range(VERTICES):
        limit = larger(limit, fan_limits(load(layout.corners, at), load(layout.corners, at + W), sums, belief))
        at += U2 * W
    # If one of a fan's topics was shown, its current_bound is its bound, and its best item is no longer known.
    outdated = reaching(load(known.current_bound, b * W) - load(known.bound, b * W), 0.0)
    for lane in range(W):
        known.best_item[b * W + lane] |= NONE * np.uint32((outdated >> lane) & U1)
    upper = smaller(upper, load(known.bound, b * W))
    store(known.bound, b * W, upper)
    limit = smaller(smaller(limit, upper), load(known.current_bound, b * W))
    store(known.current_bound, b * W, limit)
    lanes_left = reaching(limit, best.index)
    if lanes_left:
        store(scratch.fan, U0, sums.mean)
        store(scratch.fan, W, sums.variance)
        store(scratch.fan, U2 * W, sums.covariance)
        store(scratch.fan, U3 * W, sums.last_mean)
        store(scratch.fan, U4 * W, sums.last_variance)
    # The most promising lane comes first. If some index is NaN, there may be none.
    promising = lowest(reaching(limit, largest(limit)) | (U1 << W))
    while lanes_left:
        lane = promising if (lanes_left >> promising) & U1 else lowest(lanes_left)
        lanes_left ^= U1 << lane
        n = b * W + lane
        if layout.seat_group[n] == NONE or known.current_bound[n] < best.index:
            continue
        if known.best_item[n] == NONE:
            score, item, pruned = search_fan(n, best.index, items, layout, used, belief, scratch)
            known.best_item[n] = item if score > pruned else NONE
            known.current_bound[n] = score if score > pruned else min(known.current_bound[n], pruned)
            best = update_best(best, score, item)
        else:
            best = update_best(best, known.current_bound[n], known.best_item[n])
    return best


@inlined
def search_fan(n, best, items, layout, used, belief, scratch):
    """Return (score, item, pruned) for the fan in seat n, as ``trees.search_tree`` does for a tree."""
    row, fan, values, lane = layout.groups[layout.seat_group[n]], scratch.fan, scratch.values, n % W
    sums = Sums(fan[lane], fan[W + lane], fan[U2 * W + lane], 0.0, fan[U3 * W + lane], fan[U4 * W + lane])
    at, slot = np.uint64(row[WEIGHTS]), np.uint64(row[ITEMS])
    score, item, pruned = -inf, NONE, -inf
    for _ in range(np.uint64(row[STRIDE]) // W):
        limit = fan_limits(load(layout.pool, at), load(layout.pool, at + W), sums, belief)
        top, floor = largest(limit), max(best, score)
        while top >= floor and top > -inf:
            which = lowest(reaching(limit, top))
            e = layout.slot_item[slot + which]
            if e != NONE and not used[e]:
                found = index_of(e, items, belief, scratch.x)
                if found > score or (found == score and e < item):
                    score, item = found, e
                    floor = max(floor, score)
            store(values, U0, limit)
            values[which] = -inf
            limit = load(values, U0)
            top = largest(limit)
        pruned = max(pruned, top)
        at += U2 * W
        slot += W
    return score, item, pruned
