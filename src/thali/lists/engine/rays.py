"""The search through rays, eight at a time."""

from math import inf
from typing import Any, NamedTuple

import numpy as np

from thali.lists.engine.bounds import U0, U1, U2, U3, U4, W, lane_gains
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

# Numbers of rows. Numba compiles a function again for each literal argument, but not for these.
N = tuple(np.uint64(n) for n in range(18))

# The functions below return two results for 8 items: the sums of which m = x·θ̄ and q = xᵀM⁻¹x consist, and a bound over
# [0, x] with (M⁻¹)⁺ that is valid at all later positions. m and q are computed by the same operations as in
# plain.mean_and_variance(). The 8 items may have different topics. For up to four topics, which covers most items, the
# loops are unrolled. ``operands`` contains, for each topic a, the weights, θ̄_a, and (M⁻¹)_ab for b up to a. Each is a
# row of 8 lanes.


class Sums(NamedTuple):
    """The parts of m = x·θ̄ and q = xᵀM⁻¹x: sums over all topics but the last, and what belongs to the last topic."""

    mean: Any
    """Σ_a x_a·θ̄_a over all topics but the last."""
    variance: Any
    """xᵀM⁻¹x over all topics but the last."""
    covariance: Any
    """Σ_a (M⁻¹)_la·x_a over all topics a but the last topic l."""
    last: Any
    """x_l."""
    last_mean: Any
    """θ̄_l."""
    last_variance: Any
    """(M⁻¹)_ll."""


@inlined
def mean_of(sums):
    """Return m."""
    return fused(sums.last, sums.last_mean, sums.mean)


@inlined
def variance_of(sums):
    """Return q."""
    return fused(sums.last, fused(sums.covariance, 2.0, sums.last * sums.last_variance), sums.variance)


@inlined
def row(operands, at, n):
    """Return the n-th row of 8 lanes."""
    return load(operands, at + n * W)


@inlined
def topic_gains(operands, at, n, gather_index, gather_at, i, belief):
    """Return the gains on a topic. Its weights are row n of operands, and its numbers are row i of gather_index."""
    return lane_gains(belief.kind, row(operands, at, n), gather(belief.state, gather_index, gather_at + i * W))


@inlined
def topic_term(x, product, factor, theta):
    """Return what one topic adds to the bound. product is the topic's entry of (M⁻¹)⁺x."""
    return positive(x * fused(product, factor, theta))


@inlined
def one_topic(gather_at, gather_index, operands, at, belief):
    """Return the sums and the bound for items with one topic."""
    a = topic_gains(operands, at, N[0], gather_index, gather_at, N[0], belief)
    theta, own = row(operands, at, N[1]), row(operands, at, N[2])
    r, inverse = rough_roots(a * (a * own))
    half, zero = spread(0.5 * belief.alpha), spread(0.0)
    upper = fused(r, half, topic_term(a, a * own, inverse * half, theta))
    return Sums(zero, zero, zero, a, theta, own), upper


@inlined
def two_topics(gather_at, gather_index, operands, at, belief):
    """Return the sums and the bound for items with two topics, a and b."""
    a = topic_gains(operands, at, N[0], gather_index, gather_at, N[0], belief)
    b = topic_gains(operands, at, N[3], gather_index, gather_at, N[2], belief)
    theta_a, theta_b = row(operands, at, N[1]), row(operands, at, N[4])
    aa, ba, bb = a * row(operands, at, N[2]), row(operands, at, N[5]), b * row(operands, at, N[6])
    sums = Sums(a * theta_a, a * aa, a * ba, b, theta_b, row(operands, at, N[6]))
    ba = positive(ba)
    of_a, of_b = fused(b, ba, aa), fused(a, ba, bb)
    r, inverse = rough_roots(fused(a, of_a, b * of_b))
    half = spread(0.5 * belief.alpha)
    factor = inverse * half
    return sums, fused(r, half, topic_term(a, of_a, factor, theta_a) + topic_term(b, of_b, factor, theta_b))


@inlined
def three_topics(gather_at, gather_index, operands, at, belief):
    """Return the sums and the bound for items with three topics, a, b and c."""
    a = topic_gains(operands, at, N[0], gather_index, gather_at, N[0], belief)
    b = topic_gains(operands, at, N[3], gather_index, gather_at, N[2], belief)
    c = topic_gains(operands, at, N[7], gather_index, gather_at, N[5], belief)
    theta_a, theta_b, theta_c = row(operands, at, N[1]), row(operands, at, N[4]), row(operands, at, N[8])
    aa, ba, bb = a * row(operands, at, N[2]), row(operands, at, N[5]), b * row(operands, at, N[6])
    ca, cb, cc = row(operands, at, N[9]), row(operands, at, N[10]), c * row(operands, at, N[11])
    m, q = fused(b, theta_b, a * theta_a), fused(b, fused(a * ba, 2.0, bb), a * aa)
    sums = Sums(m, q, fused(b, cb, a * ca), c, theta_c, row(operands, at, N[11]))
    ba, ca, cb = positive(ba), positive(ca), positive(cb)
    of_a, of_b = fused(c, ca, fused(b, ba, aa)), fused(c, cb, fused(a, ba, bb))
    of_c = fused(b, cb, fused(a, ca, cc))
    r, inverse = rough_roots(fused(a, of_a, fused(b, of_b, c * of_c)))
    half = spread(0.5 * belief.alpha)
    factor = inverse * half
    upper = fused(r, half, topic_term(a, of_a, factor, theta_a) + topic_term(b, of_b, factor, theta_b))
    return sums, upper + topic_term(c, of_c, factor, theta_c)


@inlined
def four_topics(gather_at, gather_index, operands, at, belief):
    """Return the sums and the bound for items with four topics, a, b, c and e."""
    a = topic_gains(operands, at, N[0], gather_index, gather_at, N[0], belief)
    b = topic_gains(operands, at, N[3], gather_index, gather_at, N[2], belief)
    c = topic_gains(operands, at, N[7], gather_index, gather_at, N[5], belief)
    e = topic_gains(operands, at, N[12], gather_index, gather_at, N[9], belief)
    theta_a, theta_b = row(operands, at, N[1]), row(operands, at, N[4])
    theta_c, theta_e = row(operands, at, N[8]), row(operands, at, N[13])
    aa, ba, bb = a * row(operands, at, N[2]), row(operands, at, N[5]), b * row(operands, at, N[6])
    ca, cb, cc = row(operands, at, N[9]), row(operands, at, N[10]), c * row(operands, at, N[11])
    ea, eb, ec = row(operands, at, N[14]), row(operands, at, N[15]), row(operands, at, N[16])
    ee = e * row(operands, at, N[17])
    m = fused(c, theta_c, fused(b, theta_b, a * theta_a))
    q = fused(b, fused(a * ba, 2.0, bb), a * aa)
    q = fused(c, fused(fused(b, cb, a * ca), 2.0, cc), q)
    sums = Sums(m, q, fused(c, ec, fused(b, eb, a * ea)), e, theta_e, row(operands, at, N[17]))
    ba, ca, cb, ea, eb, ec = positive(ba), positive(ca), positive(cb), positive(ea), positive(eb), positive(ec)
    of_a, of_b = fused(e, ea, fused(c, ca, fused(b, ba, aa))), fused(e, eb, fused(c, cb, fused(a, ba, bb)))
    of_c, of_e = fused(e, ec, fused(b, cb, fused(a, ca, cc))), fused(c, ec, fused(b, eb, fused(a, ea, ee)))
    r, inverse = rough_roots(fused(a, of_a, fused(b, of_b, fused(c, of_c, e * of_e))))
    half = spread(0.5 * belief.alpha)
    factor = inverse * half
    upper = fused(r, half, topic_term(a, of_a, factor, theta_a) + topic_term(b, of_b, factor, theta_b))
    return sums, upper + topic_term(c, of_c, factor, theta_c) + topic_term(e, of_e, factor, theta_e)


@inlined
def many_topics(size, gather_at, gather_index, operands, at, belief, x, y):
    """Return the sums and the bound for items with any number of topics."""
    zero, P, own = spread(0.0), spread(0.0), at
    sums = Sums(zero, zero, zero, zero, zero, zero)
    for a in range(size):
        m, q = mean_of(sums), variance_of(sums)
        g = lane_gains(belief.kind, load(operands, at), gather(belief.state, gather_index, gather_at))
        gather_at += W * (a + U2)
        store(x, a * W, g)
        theta = load(operands, at + W)
        at += U2 * W
        mixed, plus = spread(0.0), spread(0.0)
        for c in range(a):
            entry, other = load(operands, at), load(x, c * W)
            mixed = fused(other, entry, mixed)
            plus = fused(other, positive(entry), plus)
            store(y, c * W, fused(g, positive(entry), load(y, c * W)))
            at += W
        sums = Sums(m, q, mixed, g, theta, load(operands, at))
        entry = g * sums.last_variance
        store(y, a * W, plus + entry)
        at += W
        P = fused(g, fused(plus, 2.0, entry), P)
    r, inverse = rough_roots(P)
    half = spread(0.5 * belief.alpha)
    factor, upper, at = inverse * half, r * half, own + W
    for a in range(size):
        upper = upper + topic_term(load(x, a * W), load(y, a * W), factor, load(operands, at))
        at += W * (a + U3)
    return sums, upper


@inlined
def sums_and_bounds(b, layout, belief, known, scratch):
    """Return the sums and the bounds for the 8 items whose weights are in the operands of block b. Cost: O(s²)."""
    size, gather_at = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_GATHER])
    at = np.uint64(layout.blocks[b, BLOCK_OPERANDS])
    if size == U1:
        sums, upper = one_topic(gather_at, layout.gather_index, known.operands, at, belief)
    elif size == U2:
        sums, upper = two_topics(gather_at, layout.gather_index, known.operands, at, belief)
    elif size == U3:
        sums, upper = three_topics(gather_at, layout.gather_index, known.operands, at, belief)
    elif size == U4:
        sums, upper = four_topics(gather_at, layout.gather_index, known.operands, at, belief)
    else:
        sums, upper = many_topics(
            size, gather_at, layout.gather_index, known.operands, at, belief, scratch.x, scratch.y
        )
    return sums, upper * belief.rough_factor + belief.mean_error


@inlined
def visit_rays(b, best, items, layout, used, belief, known, scratch):
    """Visit a block of rays: update the bounds of the block, and return the best item so far. Cost: O(s²)."""
    if not known.ready[b]:
        make_ready(b, layout, used, belief, known)
    sums, upper = sums_and_bounds(b, layout, belief, known, scratch)
    m, q = mean_of(sums), variance_of(sums)
    # If the index of a ray's head is positive, the other indices on the ray exceed it at most by rounding errors.
    width, _ = rough_roots(positive(q) + belief.variance_error)
    limit = m + belief.mean_error + width * (belief.alpha * belief.rough_factor)
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
