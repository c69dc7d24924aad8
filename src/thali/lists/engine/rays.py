"""The search through rays, eight at a time."""

from math import inf

import numpy as np

from thali.lists.engine.bounds import U0, U1, U2, U3, W, lane_gains
from thali.lists.engine.layout import (
    BLOCK_CORNERS,
    BLOCK_GATHER,
    BLOCK_OPERANDS,
    BLOCK_SIZE,
    COUNT,
    ITEMS,
    NONE,
    SIZE,
    WEIGHTS,
)
from thali.lists.engine.scratch import index_of, update_best
from thali.tools.jit import called, inlined
from thali.tools.lanes import (
    fused,
    gather,
    load,
    lowest,
    positive,
    reaching,
    root,
    rough_roots,
    smaller,
    spread,
    store,
)

# The functions below return three results for the 8 items at the heads of a block's rays: m = x·θ̄ and q = xᵀM⁻¹x,
# computed by the same operations as in plain.mean_and_variance(), and a bound over [0, x] with (M⁻¹)⁺ that is valid at
# all later positions. The 8 items may have different topics. For up to four topics, which covers most items, the loops
# are unrolled. ``operands`` contains, for each topic a, the weights, θ̄_a, and (M⁻¹)_ab for b up to a. Each is a row of
# 8 lanes.


@inlined
def topic_term(x, product, factor, theta):
    """Return what one topic adds to the bound. product is the topic's entry of (M⁻¹)⁺x."""
    return positive(x * fused(product, factor, theta))


@inlined
def many_topics(size, gather_at, gather_index, operands, at, belief, x, y):
    """Return m, q and the bound for items with any number of topics."""
    m, q, P, own = spread(0.0), spread(0.0), spread(0.0), at
    for a in range(size):
        g = lane_gains(belief.kind, load(operands, at), gather(belief.state, gather_index, gather_at))
        gather_at += W * (a + U2)
        store(x, a * W, g)
        m = fused(g, load(operands, at + W), m)
        at += U2 * W
        mixed, plus = spread(0.0), spread(0.0)
        for c in range(a):
            entry, other = load(operands, at), load(x, c * W)
            mixed = fused(other, entry, mixed)
            plus = fused(other, positive(entry), plus)
            store(y, c * W, fused(g, positive(entry), load(y, c * W)))
            at += W
        entry = g * load(operands, at)
        store(y, a * W, plus + entry)
        at += W
        q = fused(g, fused(mixed, 2.0, entry), q)
        P = fused(g, fused(plus, 2.0, entry), P)
    r, inverse = rough_roots(P)
    half = spread(0.5 * belief.alpha)
    factor, upper, at = inverse * half, r * half, own + W
    for a in range(size):
        upper = upper + topic_term(load(x, a * W), load(y, a * W), factor, load(operands, at))
        at += W * (a + U3)
    return m, q, upper


@inlined
def visit_rays(b, best, items, layout, used, belief, known, scratch):
    """Visit a block of rays: update the bounds of the block, and return the best item so far. Cost: O(s²)."""
    if not known.ready[b]:
        make_ready(b, layout, used, belief, known)
    size, gather_at = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_GATHER])
    at = np.uint64(layout.blocks[b, BLOCK_OPERANDS])
    m, q, upper = many_topics(size, gather_at, layout.gather_index, known.operands, at, belief, scratch.x, scratch.y)
    # If the index of a ray's head is positive, the other indices on the ray exceed it at most by rounding errors.
    width, _ = rough_roots(positive(q) + belief.variance_error)
    limit = m + belief.mean_error + width * (belief.alpha * belief.rough_factor)
    upper = upper * belief.rough_factor + belief.mean_error
    store(known.bound, b * W, upper)
    store(known.current_bound, b * W, smaller(limit, upper))
    lanes_left = reaching(limit, best.index)
    if lanes_left:
        store(scratch.values, U0, fused(root(positive(q)), belief.alpha, m))
        store(known.ray_limits, U0, limit)
    while lanes_left:
        n = lowest(lanes_left)
        lanes_left &= lanes_left - U1
        head = known.head[b * W + n]
        if head == NONE or known.ray_limits[n] < best.index:
            continue
        score, item = min(belief.cap, scratch.values[n]), layout.slot_item[head]
        row = layout.groups[layout.seat_group[b * W + n]]
        stop = np.uint64(row[ITEMS]) + np.uint64(row[COUNT])
        next_share = layout.pool[np.uint64(row[WEIGHTS]) + np.uint64(head) - stop]
        if next_share > 0.0 and known.ray_limits[n] * next_share >= score:
            score, item = along_ray(head, stop, items, layout.slot_item, used, belief, scratch.x)
        best = update_best(best, score, item)
    return best


@inlined
def make_ready(b, layout, used, belief, known):
    """Fill the operands of a block of rays for this user."""
    size, gather_at = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_GATHER])
    operand_at, corner_at = np.uint64(layout.blocks[b, BLOCK_OPERANDS]), np.uint64(layout.blocks[b, BLOCK_CORNERS])
    for a in range(size):
        store(known.operands, operand_at, load(layout.corners, corner_at + a * W))
        store(known.operands, operand_at + W, gather(belief.theta, layout.gather_index, gather_at))
        operand_at += U2 * W
        gather_at += W
        for _ in range(a + U1):
            store(known.operands, operand_at, gather(belief.minv_flat, layout.gather_index, gather_at))
            operand_at += W
            gather_at += W
    if known.heads_used[b]:
        for n in range(b * W, b * W + W):
            if known.head[n] != NONE:
                e = layout.slot_item[known.head[n]]
                if e == NONE or used[e]:
                    advance(n, layout, used, known)
    known.ready[b] = True


@inlined
def advance(n, layout, used, known):
    """Move the head of the ray in seat n to its next unused item, and update its lane of operands."""
    row = layout.groups[layout.seat_group[n]]
    first, size = np.uint64(row[ITEMS]), np.uint64(row[SIZE])
    stop, head = first + np.uint64(row[COUNT]), np.uint64(known.head[n])
    while head < stop and (layout.slot_item[head] == NONE or used[layout.slot_item[head]]):
        head += U1
    known.head[n] = np.uint32(head) if head < stop else NONE
    at = np.uint64(layout.blocks[n // W, BLOCK_OPERANDS]) + n % W
    for a in range(size):
        known.operands[at] = layout.pool[np.uint64(row[WEIGHTS]) + (head - first) * size + a] if head < stop else 0.0
        at += W * (a + U3)


@called
def along_ray(lo, hi, items, slot_item, used, belief, x):
    """Return the index of the best unused item in slot_item[lo:hi], and the item.

    This is needed if two items of a ray are so close that rounding could give a later item a larger index than the
    head.
    """
    best, best_item = -inf, NONE
    for n in range(lo, hi):
        e = slot_item[n]
        if e != NONE and not used[e]:
            score = index_of(e, items, belief, x)
            if score > best or (score == best and e < best_item):
                best, best_item = score, e
    return best, best_item
