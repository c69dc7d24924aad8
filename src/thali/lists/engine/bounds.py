"""Indices and upper bounds on indices, for eight items or boxes at once.

All bounds follow from two facts about h(x) = x·θ̄ + α·sqrt(xᵀM⁻¹x) for x ≥ 0. First, h is sublinear:
h(x) ≤ Σ_j x_j·h(e_j). Second, sqrt(q) ≤ r/2 + q/(2r) for any r > 0, with equality at r = sqrt(q). Therefore

    h(x) ≤ α·r/2 + Σ_j x_j·(θ̄_j + α/(2r)·(M⁻¹x)_j).

Now replace (M⁻¹x)_j by an upper bound that does not depend on x. Then the right side is a sum over topics, and each
term is largest at one end of the range of x_j. Separate bounds on x·θ̄ and on the square root would be looser. In this
bound, a topic with negative θ̄_j cannot widen the interval without also lowering the mean. Any r > 0 gives a valid
bound, so r need not be computed exactly.

A bound over [0, x] is valid at this position and at every later one, because gains can only decrease. The index itself
may increase, because M⁻¹ has negative entries.
"""

from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from thali.catalog.coverage import MAX
from thali.tools.jit import inlined
from thali.tools.lanes import (
    WIDTH,
    fused,
    gather,
    larger,
    largest,
    load,
    load_bytes,
    positive,
    root,
    rough_roots,
    smaller,
    spread,
    store,
)

EPSILON = 2.220446049250313e-16
# Added to every bound. The squares of gains below this value underflow, so a relative slack alone would not cover them.
TINY = 1e-140
# All array indices here are unsigned, so that Numba omits its check for negative indices.
U0, U1, U2, U3, U4, W = (np.uint64(n) for n in (0, 1, 2, 3, 4, WIDTH))


class Belief(NamedTuple):
    """The learner's beliefs about one user at one position of the list, and the slack that covers rounding."""

    kind: Any
    """The kind of coverage, as in :mod:`thali.catalog.coverage`."""
    state: Any
    """(d,): the state of each topic, as in :mod:`thali.catalog.coverage`; 1 for fixed features."""
    theta: Any
    """θ̄ (d,)."""
    minv: Any
    """M⁻¹ (d, d)."""
    minv_flat: Any
    """M⁻¹ (d·d,), flat."""
    alpha: Any
    cap: Any
    """The largest value of an index. Larger values are replaced by it."""
    majorants: Any
    """G (d,): for each topic, the sum of the positive entries of its row of M⁻¹. Set only if items have many topics."""
    rough_factor: Any
    """The factor by which a bound is multiplied so that it stays valid although it uses an approximate root."""
    mean_error: Any
    """The largest possible rounding error of x·θ̄ and of a bound."""
    variance_error: Any
    """The largest possible rounding error of xᵀM⁻¹x."""


@inlined
def lane_gains(kind, weights, state):
    """Return Δ_j(e|S) in each lane. The state of fixed features must be 1."""
    return positive(weights - state) if kind == MAX else weights * state


@inlined
def topic_bounds(theta, minv_flat, alpha, slack, inverse_root, out):
    """Write (θ̄_j + α·D_j)⁺ to out (d,): an upper bound on h(e_j), or 0 if the bound is negative.

    D is chosen such that D_i·D_j ≥ (M⁻¹)_ij for all i and j. inverse_root (d + 8,) is scratch space. Returns
    Σ_j (|θ̄_j| + α·D_j) and (Σ_j D_j)², each multiplied by slack. These are ``mean_error`` and ``variance_error`` of
    :class:`Belief`. Cost: O(d²).
    """
    d = np.uint64(theta.size)
    largest_variance = 0.0
    for j in range(d):
        largest_variance = max(largest_variance, minv_flat[j * d + j])
    for j in range(d):
        # This must be above 0 even after rounding, because we divide by it.
        out[j] = max(minv_flat[j * d + j], 1e-24 * largest_variance + 1e-280)
        inverse_root[j] = 1.0 / sqrt(out[j])
    # Correlations exceed 1 only because of rounding, but by a lot if M is nearly singular.
    correlations, remaining = spread(1.0), 1.0
    whole = d // W * W
    for i in range(d):
        row = spread(0.0)
        for j in range(U0, whole, W):
            row = larger(row, load(minv_flat, i * d + j) * load(inverse_root, j))
        correlations = larger(correlations, row * inverse_root[i])
        for j in range(whole, d):
            remaining = max(remaining, minv_flat[i * d + j] * inverse_root[i] * inverse_root[j])
    correlation = max(remaining, largest(correlations))
    total, width_sum = 0.0, 0.0
    for j in range(d):
        width = sqrt(correlation * out[j])
        # If the two terms cancel, the rounding error is relative to their sizes, not to their small sum.
        out[j] = max(0.0, theta[j] + alpha * width + slack * (abs(theta[j]) + alpha * width))
        total += abs(theta[j]) + alpha * width
        width_sum += width
    return slack * total + TINY, slack * (width_sum * width_sum)


@inlined
def lane_values(size, topics_at, topics, pool, at, belief, x):
    """Return the indices of 8 items with the same topics.

    They are computed by the same operations as in :func:`thali.lists.plain.index`.
    """
    m, q = spread(0.0), spread(0.0)
    for a in range(size):
        i = np.uint64(topics[topics_at + a])
        g = lane_gains(belief.kind, load(pool, at + a * W), spread(belief.state[i]))
        store(x, a * W, g)
        m = fused(g, belief.theta[i], m)
        mixed = spread(0.0)
        for b in range(a):
            mixed = fused(load(x, b * W), belief.minv[i, np.uint64(topics[topics_at + b])], mixed)
        q = fused(g, fused(mixed, 2.0, g * belief.minv[i, i]), q)
    return fused(root(positive(q)), belief.alpha, m)


@inlined
def two_values(size, pool, at, other, states, thetas, entries, belief, x, y):
    """Return the indices of two blocks of 8 items with many topics. The blocks are at ``at`` and ``other`` in ``pool``.

    states, thetas and entries are the coverage state, θ̄ and M⁻¹ (size, size) of these topics. Eight independent sums
    are computed at a time, so that the processor does not have to wait for any one of them.
    """
    m, q, n, p = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
    for a in range(size):
        g = lane_gains(belief.kind, load(pool, at + a * W), spread(states[a]))
        h = lane_gains(belief.kind, load(pool, other + a * W), spread(states[a]))
        store(x, a * W, g)
        store(y, a * W, h)
        m = fused(g, thetas[a], m)
        n = fused(h, thetas[a], n)
    whole = size // U4 * U4
    for a in range(U0, whole, U4):
        e0, e1, e2, e3 = a * size, (a + U1) * size, (a + U2) * size, (a + U3) * size
        s0, s1, s2, s3 = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
        t0, t1, t2, t3 = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
        for b in range(a):
            g, h = load(x, b * W), load(y, b * W)
            s0, t0 = fused(g, entries[e0 + b], s0), fused(h, entries[e0 + b], t0)
            s1, t1 = fused(g, entries[e1 + b], s1), fused(h, entries[e1 + b], t1)
            s2, t2 = fused(g, entries[e2 + b], s2), fused(h, entries[e2 + b], t2)
            s3, t3 = fused(g, entries[e3 + b], s3), fused(h, entries[e3 + b], t3)
        q = add_four_topics(a, size, e0, e1, e2, e3, s0, s1, s2, s3, x, entries, q)
        p = add_four_topics(a, size, e0, e1, e2, e3, t0, t1, t2, t3, y, entries, p)
    for a in range(whole, size):
        g, mixed = load(x, a * W), spread(0.0)
        h, other_mixed = load(y, a * W), spread(0.0)
        for b in range(a):
            mixed = fused(load(x, b * W), entries[a * size + b], mixed)
            other_mixed = fused(load(y, b * W), entries[a * size + b], other_mixed)
        q = fused(g, fused(mixed, 2.0, g * entries[a * size + a]), q)
        p = fused(h, fused(other_mixed, 2.0, h * entries[a * size + a]), p)
    return fused(root(positive(q)), belief.alpha, m), fused(root(positive(p)), belief.alpha, n)


@inlined
def add_four_topics(a, size, e0, e1, e2, e3, s0, s1, s2, s3, x, entries, q):
    """Return q with topics a to a + 3 added. s0 to s3 are their sums Σ_b (M⁻¹)_ab·x_b over all topics b before a."""
    g0, g1, g2, g3 = load(x, a * W), load(x, (a + U1) * W), load(x, (a + U2) * W), load(x, (a + U3) * W)
    s1 = fused(g0, entries[e1 + a], s1)
    s2 = fused(g1, entries[e2 + a + U1], fused(g0, entries[e2 + a], s2))
    s3 = fused(g2, entries[e3 + a + U2], fused(g1, entries[e3 + a + U1], fused(g0, entries[e3 + a], s3)))
    q = fused(g0, fused(s0, 2.0, g0 * entries[e0 + a]), q)
    q = fused(g1, fused(s1, 2.0, g1 * entries[e1 + a + U1]), q)
    q = fused(g2, fused(s2, 2.0, g2 * entries[e2 + a + U2]), q)
    return fused(g3, fused(s3, 2.0, g3 * entries[e3 + a + U3]), q)


@inlined
def lane_bounds(size, topics_at, topics, boxes, at, unit, belief, x, y):
    """Return bounds on the index over 8 boxes [low, high] with the same topics, at the current coverage. Cost: O(s²).

    (M⁻¹x)_j is bounded over the box entry by entry. unit: for each topic, the weight that one unit of a byte
    represents.
    """
    low = at + size * W
    for a in range(size):
        i = np.uint64(topics[topics_at + a])
        covering = spread(belief.state[i])
        up = lane_gains(belief.kind, load_bytes(boxes, at + a * W) * unit[a], covering)
        down = lane_gains(belief.kind, load_bytes(boxes, low + a * W) * unit[a], covering)
        store(x, U2 * a * W, up)
        store(x, U2 * a * W + W, down)
        product = up * belief.minv[i, i]
        for b in range(a):
            entry = belief.minv[i, np.uint64(topics[topics_at + b])]
            side = U0 if entry >= 0.0 else W
            product = fused(load(x, U2 * b * W + side), entry, product)
            store(y, b * W, fused(load(x, U2 * a * W + side), entry, load(y, b * W)))
        store(y, a * W, product)
    square = spread(belief.variance_error)
    for a in range(size):
        square = fused(load(x, U2 * a * W), positive(load(y, a * W)), square)
    r, inverse = rough_roots(square)
    factor = inverse * (0.5 * belief.alpha * belief.rough_factor)
    total = r * (0.5 * belief.alpha * belief.rough_factor) + factor * belief.variance_error + belief.mean_error
    for a in range(size):
        each = fused(load(y, a * W), factor, belief.theta[np.uint64(topics[topics_at + a])])
        total = total + larger(load(x, U2 * a * W) * each, load(x, U2 * a * W + W) * each)
    return total


@inlined
def lane_sums(size, boxes, at, unit, sum_unit, states, thetas, majorant, belief):
    """Return bounds on the index over 8 boxes that share many topics, at the current coverage. Cost: O(s).

    This is only for probabilistic coverage and fixed features. With G_j = Σ_i (M⁻¹)⁺_ij, xᵀM⁻¹x ≤ Σ_j G_j·x_j². So the
    index is at most α·r/2 + Σ_j φ_j(w_j), where φ_j(w) = θ̄_j·x + α/(2r)·G_j·x² with x = w·(1 - c_j) is convex. Let S be
    the largest sum of weights of any item in the box. Because Σ_j w_j ≤ S, for any λ ≥ 0 this sum is at most
    λ·S + Σ_j (φ_j(w_j) - λ·w_j), and each term is largest with w_j at one end of its range. λ is the largest φ_j(w)/w
    at the upper corner, or 0 if that is negative.

    unit, sum_unit: what one unit of a byte represents in each topic and in S. majorant: G_j·(1 - c_j)².
    """
    total, steepest = load_bytes(boxes, at + U2 * size * W) * sum_unit, spread(0.0)
    for a in range(size):
        steepest = larger(steepest, load_bytes(boxes, at + a * W) * (unit[a] * majorant[a]))
    r, inverse = rough_roots(steepest * total)
    half = 0.5 * belief.alpha * belief.rough_factor
    factor, slope = inverse * half, spread(0.0)
    for a in range(size):
        steep = load_bytes(boxes, at + a * W) * (unit[a] * majorant[a]) * factor
        slope = larger(slope, steep + thetas[a] * states[a])
    upper = r * half + slope * total * belief.rough_factor + belief.mean_error
    for a in range(size):
        low, high = load_bytes(boxes, at + (size + a) * W) * unit[a], load_bytes(boxes, at + a * W) * unit[a]
        net = slope - thetas[a] * states[a]
        upper = upper - smaller(low * (net - low * majorant[a] * factor), high * (net - high * majorant[a] * factor))
    return upper


@inlined
def corner_bounds(size, gather_at, corner_at, layout, belief, x, y):
    """Return bounds on the index in the 8 trees of a block, at this and all later positions. Cost: O(s²).

    These are bounds over [0, corner] with (M⁻¹)⁺ in place of M⁻¹. The excess makes them tighter: the sum of an item's
    weights is smaller than the sum of its tree's corner by at least the excess. The index is convex, so over the
    polytope of such weights it is largest at a vertex. At a vertex, the weight of some topic is below the corner by the
    excess, or is 0, which lowers the bound by an amount that depends on the topic. So the bound at the corner can be
    lowered by the smallest of these amounts.
    """
    excess, at = load(layout.corners, corner_at + size * W), gather_at
    for a in range(size):
        weight, covering = load(layout.corners, corner_at + a * W), gather(belief.state, layout.gather_index, at)
        g = lane_gains(belief.kind, weight, covering)
        store(x, U2 * a * W, g)
        store(x, U2 * a * W + W, g - lane_gains(belief.kind, positive(weight - excess), covering))
        at += W
        product = spread(0.0)
        for b in range(a):
            entry = positive(gather(belief.minv_flat, layout.gather_index, at))
            product = fused(load(x, U2 * b * W), entry, product)
            store(y, U2 * b * W, fused(g, entry, load(y, U2 * b * W)))
            at += W
        variance = gather(belief.minv_flat, layout.gather_index, at)
        store(y, U2 * a * W, fused(g, variance, product))
        store(y, U2 * a * W + W, variance)
        at += W
    square, least_lost = spread(0.0), spread(inf)
    for a in range(size):
        g, lost, product = load(x, U2 * a * W), load(x, U2 * a * W + W), load(y, U2 * a * W)
        square = fused(g, product, square)
        least_lost = smaller(least_lost, lost * (product * 2.0 - lost * load(y, U2 * a * W + W)))
    r, inverse = rough_roots(square - least_lost)
    half = 0.5 * belief.alpha
    factor, total, least_cost, at = inverse * half, r * half, spread(inf), gather_at
    for a in range(size):
        g, lost, product = load(x, U2 * a * W), load(x, U2 * a * W + W), load(y, U2 * a * W)
        theta = gather(belief.theta, layout.gather_index, at)
        whole = positive(g * fused(product, factor, theta))
        part = positive((g - lost) * fused(product - lost * load(y, U2 * a * W + W), factor, theta))
        total = total + whole
        least_cost = smaller(least_cost, whole - part)
        at += W * (a + U2)
    return total * belief.rough_factor - least_cost + belief.mean_error
