"""Indices and bounds on them, for eight items or boxes at once.

All bounds come from two facts about h(x) = x·θ̄ + α·sqrt(xᵀM⁻¹x), x ≥ 0. It is sublinear: h(x) ≤ Σ_j x_j·h(e_j). And
sqrt(q) ≤ r/2 + q/(2r) for any r > 0, with equality at r = sqrt(q), so that

    h(x) ≤ α·r/2 + Σ_j x_j·(θ̄_j + α/(2r)·(M⁻¹x)_j).

Where (M⁻¹x)_j is replaced by something no smaller that does not depend on x, the right side is a sum over topics, each
of which is largest at one end of its range. Unlike bounds that take each part of the index where it is largest, this
one knows that a topic that is disliked cannot add width without adding dislike. As any r will do, a rough one does.

Bounds over [0, x] hold at this and every later position, because gains only shrink. M⁻¹ has negative entries, so the
index itself may rise.
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
# Added to every bound: squares of gains below this underflow, so relative slack alone would not cover them.
TINY = 1e-140
# Whatever indexes an array here is unsigned: Numba then leaves out its test for negative indices.
U0, U1, U2, U3, U4, W = (np.uint64(n) for n in (0, 1, 2, 3, 4, WIDTH))


class Belief(NamedTuple):
    """What is believed of one user, at one position of their list, and the slack that rounding needs."""

    kind: Any
    """Of the coverage."""
    state: Any
    """(d,): of each topic, as in :mod:`thali.catalog.coverage`; 1 for fixed features."""
    theta: Any
    """θ̄ (d,)."""
    minv: Any
    """M⁻¹ (d, d)."""
    flat: Any
    """The same (d·d,)."""
    alpha: Any
    cap: Any
    """An index is min(cap, index)."""
    majorants: Any
    """G (d,): the sums of the positive entries of M⁻¹ by topic; only where some items have many topics."""
    rough: Any
    """What a bound made with a rough root is multiplied by."""
    error_m: Any
    """What rounding can add to x·θ̄, and to the bounds, at most."""
    error_q: Any
    """What rounding can add to xᵀM⁻¹x, at most."""


@inlined
def lane_gains(kind, weights, state):
    """Δ_j(e|S) in each lane; the state of fixed features is 1."""
    return positive(weights - state) if kind == MAX else weights * state


@inlined
def worths(theta, flat, alpha, slack, scratch, out):
    """(θ̄_j + α·D_j)⁺ into out (d,), where D_i·D_j ≥ (M⁻¹)_ij for all i and j: h(e_j), or a little more.

    scratch (d + 8,). Returns Σ_j (|θ̄_j| + α·D_j) and (Σ_j D_j)², each times slack. O(d²).
    """
    d = np.uint64(theta.size)
    most = 0.0
    for j in range(d):
        most = max(most, flat[j * d + j])
    for j in range(d):
        out[j] = max(flat[j * d + j], 1e-24 * most + 1e-280)  # not 0, not even by rounding: it is divided by
        scratch[j] = 1.0 / sqrt(out[j])
    # No correlation is above 1 but by rounding, which is large where M is nearly singular.
    stretches, rest = spread(1.0), 1.0
    whole = d // W * W
    for i in range(d):
        row = spread(0.0)
        for j in range(U0, whole, W):
            row = larger(row, load(flat, i * d + j) * load(scratch, j))
        stretches = larger(stretches, row * scratch[i])
        for j in range(whole, d):
            rest = max(rest, flat[i * d + j] * scratch[i] * scratch[j])
    stretch = max(rest, largest(stretches))
    total, widths = 0.0, 0.0
    for j in range(d):
        wide = sqrt(stretch * out[j])
        # Where the two cancel, rounding is as large as they are, not as what is left.
        out[j] = max(0.0, theta[j] + alpha * wide + slack * (abs(theta[j]) + alpha * wide))
        total += abs(theta[j]) + alpha * wide
        widths += wide
    return slack * total + TINY, slack * (widths * widths)


@inlined
def lane_values(size, t, topics, pool, at, belief, x):
    """The indices of 8 items with the same topics, each by the operations of :func:`thali.lists.plain.index`."""
    m, q = spread(0.0), spread(0.0)
    for a in range(size):
        i = np.uint64(topics[t + a])
        g = lane_gains(belief.kind, load(pool, at + a * W), spread(belief.state[i]))
        store(x, a * W, g)
        m = fused(g, belief.theta[i], m)
        mixed = spread(0.0)
        for b in range(a):
            mixed = fused(load(x, b * W), belief.minv[i, np.uint64(topics[t + b])], mixed)
        q = fused(g, fused(mixed, 2.0, g * belief.minv[i, i]), q)
    return fused(root(positive(q)), belief.alpha, m)


@inlined
def two_values(size, pool, at, other, states, thetas, entries, belief, x, y):
    """The same for two eights of items with many topics, whose state, θ̄ and entries of M⁻¹ (size, size) are given:
    eight sums at a time, which do not wait for one another.
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
        q = corner_of_four(a, size, e0, e1, e2, e3, s0, s1, s2, s3, x, entries, q)
        p = corner_of_four(a, size, e0, e1, e2, e3, t0, t1, t2, t3, y, entries, p)
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
def corner_of_four(a, size, e0, e1, e2, e3, s0, s1, s2, s3, x, entries, q):
    """Adds topics a to a + 3 to q: s0 to s3 are their sums with all topics before a."""
    g0, g1, g2, g3 = load(x, a * W), load(x, (a + U1) * W), load(x, (a + U2) * W), load(x, (a + U3) * W)
    s1 = fused(g0, entries[e1 + a], s1)
    s2 = fused(g1, entries[e2 + a + U1], fused(g0, entries[e2 + a], s2))
    s3 = fused(g2, entries[e3 + a + U2], fused(g1, entries[e3 + a + U1], fused(g0, entries[e3 + a], s3)))
    q = fused(g0, fused(s0, 2.0, g0 * entries[e0 + a]), q)
    q = fused(g1, fused(s1, 2.0, g1 * entries[e1 + a + U1]), q)
    q = fused(g2, fused(s2, 2.0, g2 * entries[e2 + a + U2]), q)
    return fused(g3, fused(s3, 2.0, g3 * entries[e3 + a + U3]), q)


@inlined
def lane_bounds(size, t, topics, boxes, at, corner, belief, x, y):
    """Bounds of the index over 8 boxes [low, high] with the same topics, at this coverage. O(s²).

    (M⁻¹x)_j is bounded over the box entry by entry. corner: what a byte of the boxes counts in each topic.
    """
    low = at + size * W
    for a in range(size):
        i = np.uint64(topics[t + a])
        covering = spread(belief.state[i])
        up = lane_gains(belief.kind, load_bytes(boxes, at + a * W) * corner[a], covering)
        down = lane_gains(belief.kind, load_bytes(boxes, low + a * W) * corner[a], covering)
        store(x, U2 * a * W, up)
        store(x, U2 * a * W + W, down)
        product = up * belief.minv[i, i]
        for b in range(a):
            entry = belief.minv[i, np.uint64(topics[t + b])]
            side = U0 if entry >= 0.0 else W
            product = fused(load(x, U2 * b * W + side), entry, product)
            store(y, b * W, fused(load(x, U2 * a * W + side), entry, load(y, b * W)))
        store(y, a * W, product)
    square = spread(belief.error_q)
    for a in range(size):
        square = fused(load(x, U2 * a * W), positive(load(y, a * W)), square)
    r, inverse = rough_roots(square)
    factor = inverse * (0.5 * belief.alpha * belief.rough)
    total = r * (0.5 * belief.alpha * belief.rough) + factor * belief.error_q + belief.error_m
    for a in range(size):
        each = fused(load(y, a * W), factor, belief.theta[np.uint64(topics[t + a])])
        total = total + larger(load(x, U2 * a * W) * each, load(x, U2 * a * W + W) * each)
    return total


@inlined
def lane_sums(size, boxes, at, corner, most, states, thetas, majorant, belief):
    """Bounds of the index over 8 boxes with the same many topics, at this probabilistic or fixed coverage. O(s).

    With G_j = Σ_i (M⁻¹)⁺_ij, xᵀM⁻¹x ≤ Σ_j G_j·x_j², so the index is at most α·r/2 + Σ_j φ_j(w_j) with convex
    φ_j(w) = θ̄_j·x + α/(2r)·G_j·x², x = w·(1 - c_j). And for any λ ≥ 0, as Σ_j w_j is at most the largest sum S in the
    box, that is at most λ·S + Σ_j (φ_j(w_j) - λ·w_j) with each w_j at one end. λ is the largest φ_j(w)/w there.
    corner, most: what a byte of the boxes counts in each topic, and in S. majorant: G_j·(1 - c_j)².
    """
    total, steepest = load_bytes(boxes, at + U2 * size * W) * most, spread(0.0)
    for a in range(size):
        steepest = larger(steepest, load_bytes(boxes, at + a * W) * (corner[a] * majorant[a]))
    r, inverse = rough_roots(steepest * total)
    half = 0.5 * belief.alpha * belief.rough
    factor, slope = inverse * half, spread(0.0)
    for a in range(size):
        steep = load_bytes(boxes, at + a * W) * (corner[a] * majorant[a]) * factor
        slope = larger(slope, steep + thetas[a] * states[a])
    upper = r * half + slope * total * belief.rough + belief.error_m
    for a in range(size):
        low, high = load_bytes(boxes, at + (size + a) * W) * corner[a], load_bytes(boxes, at + a * W) * corner[a]
        rest = slope - thetas[a] * states[a]
        upper = upper - smaller(low * (rest - low * majorant[a] * factor), high * (rest - high * majorant[a] * factor))
    return upper


@inlined
def corner_bounds(size, index, high, layout, belief, x, y):
    """Bounds of the index in the 8 trees of a block, now and later, from their upper corners. O(s²).

    Over [0, corner], and with (M⁻¹)⁺. The sum of an item's weights is lower than that of its tree's corner by the
    excess or more. The weights of that kind make a polytope, over which the index, being convex, is largest at a
    vertex; and a vertex lacks the excess in one topic, or has 0 there: the least that this costs counts.
    """
    excess, at = load(layout.root_high, high + size * W), index
    for a in range(size):
        weight, covering = load(layout.root_high, high + a * W), gather(belief.state, layout.root_index, at)
        g = lane_gains(belief.kind, weight, covering)
        store(x, U2 * a * W, g)
        store(x, U2 * a * W + W, g - lane_gains(belief.kind, positive(weight - excess), covering))
        at += W
        product = spread(0.0)
        for b in range(a):
            entry = positive(gather(belief.flat, layout.root_index, at))
            product = fused(load(x, U2 * b * W), entry, product)
            store(y, U2 * b * W, fused(g, entry, load(y, U2 * b * W)))
            at += W
        variance = gather(belief.flat, layout.root_index, at)
        store(y, U2 * a * W, fused(g, variance, product))
        store(y, U2 * a * W + W, variance)
        at += W
    square, less = spread(0.0), spread(inf)
    for a in range(size):
        g, lost, product = load(x, U2 * a * W), load(x, U2 * a * W + W), load(y, U2 * a * W)
        square = fused(g, product, square)
        less = smaller(less, lost * (product * 2.0 - lost * load(y, U2 * a * W + W)))
    r, inverse = rough_roots(square - less)
    half = 0.5 * belief.alpha
    factor, total, least, at = inverse * half, r * half, spread(inf), index
    for a in range(size):
        g, lost, product = load(x, U2 * a * W), load(x, U2 * a * W + W), load(y, U2 * a * W)
        theta = gather(belief.theta, layout.root_index, at)
        whole = positive(g * fused(product, factor, theta))
        part = positive((g - lost) * fused(product - lost * load(y, U2 * a * W + W), factor, theta))
        total = total + whole
        least = smaller(least, whole - part)
        at += W * (a + U2)
    return total * belief.rough - least + belief.error_m
