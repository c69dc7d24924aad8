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

from thali.kernels.index import MAX
from thali.kernels.jit import inlined
from thali.kernels.lanes import (
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
    """(d,): of each topic, as in :mod:`thali.kernels.index`; 1 for fixed features."""
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
    """The indices of 8 items with the same topics, each by the operations of :func:`thali.kernels.index.terms`."""
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


# The sums behind the index of 8 items with topics of their own, one in each lane of a block: m and q by the operations
# of terms(), and a bound over [0, x], with (M⁻¹)⁺, which holds at all later positions. Written out for up to four
# topics, which most items have. ``numbers`` holds, for each topic a, weights, θ̄ and (M⁻¹)_ab for b up to a; eight each.


@inlined
def row(numbers, at, n):
    """The n-th eight."""
    return load(numbers, at + np.uint64(n) * W)


@inlined
def gained(numbers, at, n, root_index, index, i, belief):
    """The gains in a topic, whose weights are the n-th eight of numbers and whose number the i-th of root_index."""
    return lane_gains(belief.kind, row(numbers, at, n), gather(belief.state, root_index, index + np.uint64(i) * W))


@inlined
def part(x, product, factor, theta):
    """What one topic adds to the bound."""
    return positive(x * fused(product, factor, theta))


@inlined
def one_topic(index, root_index, numbers, at, belief):
    """For items of one topic."""
    a = gained(numbers, at, 0, root_index, index, 0, belief)
    theta, aa = row(numbers, at, 1), a * row(numbers, at, 2)
    q = a * aa
    r, inverse = rough_roots(q)
    half = spread(0.5 * belief.alpha)
    return a * theta, q, fused(r, half, part(a, aa, inverse * half, theta))


@inlined
def two_topics(index, root_index, numbers, at, belief):
    """For items of two topics, a and b."""
    a = gained(numbers, at, 0, root_index, index, 0, belief)
    b = gained(numbers, at, 3, root_index, index, 2, belief)
    theta_a, theta_b = row(numbers, at, 1), row(numbers, at, 4)
    aa, ba, bb = a * row(numbers, at, 2), row(numbers, at, 5), b * row(numbers, at, 6)
    m = fused(b, theta_b, a * theta_a)
    q = fused(b, fused(a * ba, 2.0, bb), a * aa)
    ba = positive(ba)
    of_a, of_b = fused(b, ba, aa), fused(a, ba, bb)
    r, inverse = rough_roots(fused(a, of_a, b * of_b))
    half = spread(0.5 * belief.alpha)
    factor = inverse * half
    return m, q, fused(r, half, part(a, of_a, factor, theta_a) + part(b, of_b, factor, theta_b))


@inlined
def three_topics(index, root_index, numbers, at, belief):
    """For items of three topics, a, b and c."""
    a = gained(numbers, at, 0, root_index, index, 0, belief)
    b = gained(numbers, at, 3, root_index, index, 2, belief)
    c = gained(numbers, at, 7, root_index, index, 5, belief)
    theta_a, theta_b, theta_c = row(numbers, at, 1), row(numbers, at, 4), row(numbers, at, 8)
    aa, ba, bb = a * row(numbers, at, 2), row(numbers, at, 5), b * row(numbers, at, 6)
    ca, cb, cc = row(numbers, at, 9), row(numbers, at, 10), c * row(numbers, at, 11)
    m = fused(c, theta_c, fused(b, theta_b, a * theta_a))
    q = fused(b, fused(a * ba, 2.0, bb), a * aa)
    q = fused(c, fused(fused(b, cb, a * ca), 2.0, cc), q)
    ba, ca, cb = positive(ba), positive(ca), positive(cb)
    of_a, of_b = fused(c, ca, fused(b, ba, aa)), fused(c, cb, fused(a, ba, bb))
    of_c = fused(b, cb, fused(a, ca, cc))
    r, inverse = rough_roots(fused(a, of_a, fused(b, of_b, c * of_c)))
    half = spread(0.5 * belief.alpha)
    factor = inverse * half
    upper = fused(r, half, part(a, of_a, factor, theta_a) + part(b, of_b, factor, theta_b))
    return m, q, upper + part(c, of_c, factor, theta_c)


@inlined
def four_topics(index, root_index, numbers, at, belief):
    """For items of four topics, a, b, c and e."""
    a = gained(numbers, at, 0, root_index, index, 0, belief)
    b = gained(numbers, at, 3, root_index, index, 2, belief)
    c = gained(numbers, at, 7, root_index, index, 5, belief)
    e = gained(numbers, at, 12, root_index, index, 9, belief)
    theta_a, theta_b = row(numbers, at, 1), row(numbers, at, 4)
    theta_c, theta_e = row(numbers, at, 8), row(numbers, at, 13)
    aa, ba, bb = a * row(numbers, at, 2), row(numbers, at, 5), b * row(numbers, at, 6)
    ca, cb, cc = row(numbers, at, 9), row(numbers, at, 10), c * row(numbers, at, 11)
    ea, eb, ec, ee = row(numbers, at, 14), row(numbers, at, 15), row(numbers, at, 16), e * row(numbers, at, 17)
    m = fused(e, theta_e, fused(c, theta_c, fused(b, theta_b, a * theta_a)))
    q = fused(b, fused(a * ba, 2.0, bb), a * aa)
    q = fused(c, fused(fused(b, cb, a * ca), 2.0, cc), q)
    q = fused(e, fused(fused(c, ec, fused(b, eb, a * ea)), 2.0, ee), q)
    ba, ca, cb, ea, eb, ec = positive(ba), positive(ca), positive(cb), positive(ea), positive(eb), positive(ec)
    of_a, of_b = fused(e, ea, fused(c, ca, fused(b, ba, aa))), fused(e, eb, fused(c, cb, fused(a, ba, bb)))
    of_c, of_e = fused(e, ec, fused(b, cb, fused(a, ca, cc))), fused(c, ec, fused(b, eb, fused(a, ea, ee)))
    r, inverse = rough_roots(fused(a, of_a, fused(b, of_b, fused(c, of_c, e * of_e))))
    half = spread(0.5 * belief.alpha)
    factor = inverse * half
    upper = fused(r, half, part(a, of_a, factor, theta_a) + part(b, of_b, factor, theta_b))
    return m, q, upper + part(c, of_c, factor, theta_c) + part(e, of_e, factor, theta_e)


@inlined
def many_topics(size, index, root_index, numbers, at, belief, x, y):
    """For items of any number of topics."""
    m, q, P, own = spread(0.0), spread(0.0), spread(0.0), at
    for a in range(size):
        g = lane_gains(belief.kind, load(numbers, at), gather(belief.state, root_index, index))
        index += W * (a + U2)
        store(x, a * W, g)
        m = fused(g, load(numbers, at + W), m)
        at += U2 * W
        mixed, plus = spread(0.0), spread(0.0)
        for c in range(a):
            entry, other = load(numbers, at), load(x, c * W)
            mixed = fused(other, entry, mixed)
            plus = fused(other, positive(entry), plus)
            store(y, c * W, fused(g, positive(entry), load(y, c * W)))
            at += W
        entry = g * load(numbers, at)
        store(y, a * W, plus + entry)
        at += W
        q = fused(g, fused(mixed, 2.0, entry), q)
        P = fused(g, fused(plus, 2.0, entry), P)
    r, inverse = rough_roots(P)
    half = spread(0.5 * belief.alpha)
    factor, upper, at = inverse * half, r * half, own + W
    for a in range(size):
        upper = upper + part(load(x, a * W), load(y, a * W), factor, load(numbers, at))
        at += W * (a + U3)
    return m, q, upper
