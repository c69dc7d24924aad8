"""Exact greedy lists: the argmax over all items at each position, without looking at all items.

Groups of items with the same topics (:mod:`thali.groups`) stand eight to a block, and blocks are visited with eight
lanes at once. Five facts, none an approximation:

- Gains only shrink as a list grows, so a bound that only falls with them holds for all later positions. There are two:
  Σ_j x_j·(θ̄_j + α·sqrt((M⁻¹)_jj))⁺ and x·θ̄⁺ + α·sqrt(xᵀ(M⁻¹)⁺x). A block is visited while its bound is the best.
- On a ray of parallel items the index is proportional to the scale: while it is positive, the largest item decides.
- Over a box of items the index is at most x·θ̄ + α·sqrt(xᵀM⁻¹x) with each term at its larger corner. The boxes of a
  tree lie within one another, so that most of its items are never seen.
- An index changes only where coverage has changed: a tree none of whose topics were shown since keeps its best item.
- A value is above another where their squares are, so most visits take no root.

A bound prunes only when it is below the best index by more than rounding; what survives is compared by its index, ties
to the lowest item. Where no index is above 0, all items are scored: larger is then no longer better.
"""

from math import inf, sqrt

import numpy as np

from thali.kernels.groups import (
    BLOCK_HIGH,
    BLOCK_INDEX,
    BLOCK_KIND,
    BLOCK_NUMBERS,
    BLOCK_SIZE,
    BOXES,
    COUNT,
    FEW,
    ITEMS,
    KIND,
    NONE,
    RAY,
    SIZE,
    STEP,
    STRIDE,
    TOPICS,
    WEIGHTS,
    block_numbers,
    box_bytes,
)
from thali.kernels.index import FIXED, MAX, cover, gain, terms, value
from thali.kernels.jit import inlined, kernel
from thali.kernels.lanes import WIDTH, gather, hopeful, larger, largest, load, load_bytes, lowest, positive, prefetch, reaches, root, rough_inverse, rough_root, smaller, spread, store

EPSILON = 2.220446049250313e-16
# What a bound made with a rough root is multiplied by.
ROUGH = 1.0 + 1e-5
# Added to every bound: squares of gains below this underflow, so relative slack alone would not cover them.
TINY = 1e-140
# Whatever indexes an array here is unsigned: Numba then leaves out its test for negative indices.
# How far below the best index a tree is searched, as a share of it, so that later positions need not look again.
MARGIN = 0.1
U0, U1, U2, U3, FOUR, W = (np.uint64(n) for n in (0, 1, 2, 3, 4, WIDTH))


@inlined
def aligned(n):
    """An empty array of n floats that begins with a line of memory, so that no vector lies across two."""
    whole = np.empty(n + W)
    first = np.uint64(whole.ctypes.data) // np.uint64(8) % W
    return whole[(W - first) % W :][:n]


@inlined
def lane_gains(kind, weights, state):
    """Δ_j(e|S) in each lane; the state of fixed features is 1."""
    return positive(weights - state) if kind == MAX else weights * state


@inlined
def lane_values(kind, size, t, topics, pool, at, state, theta, minv, alpha, x):
    """The indices of 8 items with the same topics, each by the operations of :func:`thali.kernels.index.terms`."""
    m, q = spread(0.0), spread(0.0)
    for a in range(size):
        i = np.uint64(topics[t + a])
        g = lane_gains(kind, load(pool, at + a * W), spread(state[i]))
        store(x, a * W, g)
        m = m + g * theta[i]
        mixed = spread(0.0)
        for b in range(a):
            mixed = mixed + load(x, b * W) * minv[i, np.uint64(topics[t + b])]
        q = q + g * (g * minv[i, i] + mixed * 2.0)
    return m + root(positive(q)) * alpha


@inlined
def lane_values_tiled(kind, size, pool, at, state, theta, entries, alpha, x):
    """The same for many topics, whose state, θ̄ and entries of M⁻¹ (size, size) are given: four sums at a time, which do
    not wait for one another.
    """
    m, q = spread(0.0), spread(0.0)
    for a in range(size):
        g = lane_gains(kind, load(pool, at + a * W), spread(state[a]))
        store(x, a * W, g)
        m = m + g * theta[a]
    whole = size // FOUR * FOUR
    for a in range(U0, whole, FOUR):
        e0, e1, e2, e3 = a * size, (a + U1) * size, (a + U2) * size, (a + U3) * size
        s0, s1, s2, s3 = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
        for b in range(a):
            g = load(x, b * W)
            s0 = s0 + g * entries[e0 + b]
            s1 = s1 + g * entries[e1 + b]
            s2 = s2 + g * entries[e2 + b]
            s3 = s3 + g * entries[e3 + b]
        g0, g1, g2, g3 = load(x, a * W), load(x, (a + U1) * W), load(x, (a + U2) * W), load(x, (a + U3) * W)
        s1 = s1 + g0 * entries[e1 + a]
        s2 = s2 + g0 * entries[e2 + a] + g1 * entries[e2 + a + U1]
        s3 = s3 + g0 * entries[e3 + a] + g1 * entries[e3 + a + U1] + g2 * entries[e3 + a + U2]
        q = q + g0 * (g0 * entries[e0 + a] + s0 * 2.0)
        q = q + g1 * (g1 * entries[e1 + a + U1] + s1 * 2.0)
        q = q + g2 * (g2 * entries[e2 + a + U2] + s2 * 2.0)
        q = q + g3 * (g3 * entries[e3 + a + U3] + s3 * 2.0)
    for a in range(whole, size):
        g, mixed = load(x, a * W), spread(0.0)
        for b in range(a):
            mixed = mixed + load(x, b * W) * entries[a * size + b]
        q = q + g * (g * entries[a * size + a] + mixed * 2.0)
    return m + root(positive(q)) * alpha


@inlined
def lane_bounds(kind, size, t, topics, boxes, at, corner, state, theta, minv, alpha, error_m, error_q, x, y):
    """Bounds of the index over 8 boxes with the same topics, at this coverage.

    For any r > 0 the index is at most Σ_j x_j·(θ̄_j + α/(2r)·(M⁻¹x)_j) + α·r/2. Here each (M⁻¹x)_j is replaced by its
    bound y_j over the box, and each x_j then stands at one end. corner: what a byte of the boxes counts in each topic.
    The errors are what rounding may add. O(s²).
    """
    low = at + size * W
    for a in range(size):
        i = np.uint64(topics[t + a])
        up = lane_gains(kind, load_bytes(boxes, at + a * W) * corner[a], spread(state[i]))
        down = lane_gains(kind, load_bytes(boxes, low + a * W) * corner[a], spread(state[i]))
        store(x, U2 * a * W, up)
        store(x, U2 * a * W + W, down)
        sum_ = up * minv[i, i]
        for b in range(a):
            entry = minv[i, np.uint64(topics[t + b])]
            side = U0 if entry >= 0.0 else W
            sum_ = sum_ + load(x, U2 * b * W + side) * entry
            store(y, b * W, load(y, b * W) + load(x, U2 * a * W + side) * entry)
        store(y, a * W, sum_)
    square = spread(error_q)
    for a in range(size):
        square = square + load(x, U2 * a * W) * positive(load(y, a * W))
    r = rough_root(square)
    factor = rough_inverse(r) * (0.5 * alpha)
    total = r * (0.5 * alpha * ROUGH) + factor * error_q + error_m
    for a in range(size):
        each = load(y, a * W) * factor + theta[np.uint64(topics[t + a])]
        total = total + larger(load(x, U2 * a * W) * each, load(x, U2 * a * W + W) * each)
    return total


@inlined
def corner_bounds(kind, size, index, root_index, root_high, high, state, theta, flat, alpha, slack, error_m, x, y):
    """Bounds of the index in 8 trees, now and later, from their upper corners.

    As :func:`lane_bounds` over [0, corner], with (M⁻¹)⁺. And the sum of an item's weights is lower than that of the
    corner by the excess or more, so some topic lacks that much of its corner, or is 0: the least loss counts. O(s²).
    """
    excess = load(root_high, high + size * W)
    at = index
    for a in range(size):
        weight, covering = load(root_high, high + a * W), gather(state, root_index, at)
        g = lane_gains(kind, weight, covering)
        store(x, U2 * a * W, g)
        store(x, U2 * a * W + W, g - lane_gains(kind, positive(weight - excess), covering))
        at += W
        sum_ = spread(0.0)
        for b in range(a):
            entry = positive(gather(flat, root_index, at))
            sum_ = sum_ + load(x, U2 * b * W) * entry
            store(y, U2 * b * W, load(y, U2 * b * W) + g * entry)
            at += W
        variance = gather(flat, root_index, at)
        store(y, U2 * a * W, sum_ + g * variance)
        store(y, U2 * a * W + W, variance)
        at += W
    square, less = spread(0.0), spread(inf)
    for a in range(size):
        g, lost, product = load(x, U2 * a * W), load(x, U2 * a * W + W), load(y, U2 * a * W)
        square = square + g * product
        less = smaller(less, lost * (product * 2.0 - lost * load(y, U2 * a * W + W)))
    r = rough_root(square - less)
    factor = rough_inverse(r) * (0.5 * alpha)
    total, least, at = r * (0.5 * alpha), spread(inf), index
    for a in range(size):
        g, lost, product = load(x, U2 * a * W), load(x, U2 * a * W + W), load(y, U2 * a * W)
        estimated = gather(theta, root_index, at)
        whole = positive(g * (product * factor + estimated))
        part = positive((g - lost) * ((product - lost * load(y, U2 * a * W + W)) * factor + estimated))
        total = total + whole
        least = smaller(least, whole - part)
        at += W * (a + U2)
    return total * ROUGH - least + error_m


@inlined
def lane_sums(size, boxes, at, corner, most, state, theta, majorant, alpha, error):
    """Bounds of the index over 8 boxes with the same topics, at this probabilistic coverage, for many topics. O(s).

    With G_j ≥ Σ_i (M⁻¹)⁺_ij, xᵀM⁻¹x ≤ Σ_j G_j·x_j², so for any r > 0 the index is at most α·r/2 + Σ_j φ_j(w_j) with
    convex φ_j(w) = θ̄_j·x + α/(2r)·G_j·x², x = w·(1 - c_j). And for any λ ≥ 0, as Σ_j w_j is at most the largest sum S in
    the box, that is at most λ·S + Σ_j (φ_j(w_j) - λ·w_j) with each w_j at one end. λ is the largest φ_j(w)/w.
    """
    total = load_bytes(boxes, at + U2 * size * W) * most
    steepest = spread(0.0)
    for a in range(size):
        steepest = larger(steepest, load_bytes(boxes, at + a * W) * (corner[a] * majorant[a]))
    r = rough_root(steepest * total)
    factor = rough_inverse(r) * (0.5 * alpha * ROUGH)
    slope = spread(0.0)
    for a in range(size):
        slope = larger(slope, load_bytes(boxes, at + a * W) * (corner[a] * majorant[a]) * factor + theta[a] * state[a])
    upper = r * (0.5 * alpha * ROUGH) + slope * total * ROUGH + error
    for a in range(size):
        low, high = load_bytes(boxes, at + (size + a) * W) * corner[a], load_bytes(boxes, at + a * W) * corner[a]
        rest = slope - theta[a] * state[a]
        upper = upper - smaller(low * (rest - low * majorant[a] * factor), high * (rest - high * majorant[a] * factor))
    return upper


# The sums behind the index of 8 items with topics of their own, one in each lane of a block: (m, q, bound), the first
# two by the operations of terms(), the bound as in lane_bounds over [0, x] and with (M⁻¹)⁺: it holds at all later
# positions. Written out for up to three topics, which most items have.


@inlined
def one_topic(kind, index, root_index, numbers, at, state, alpha):
    """For items of one topic."""
    x = lane_gains(kind, load(numbers, at), gather(state, root_index, index))
    theta, entry = load(numbers, at + W), x * load(numbers, at + U2 * W)
    m, q = x * theta, x * entry
    r = rough_root(q)
    half = spread(0.5 * alpha)
    return m, q, r * half + positive(x * (entry * (rough_inverse(r) * half) + theta))


@inlined
def two_topics(kind, index, root_index, numbers, at, state, alpha):
    """For items of two topics."""
    x = lane_gains(kind, load(numbers, at), gather(state, root_index, index))
    z = lane_gains(kind, load(numbers, at + U3 * W), gather(state, root_index, index + U2 * W))
    theta, eta = load(numbers, at + W), load(numbers, at + FOUR * W)
    xx, zz = x * load(numbers, at + U2 * W), z * load(numbers, at + np.uint64(6) * W)
    zx = load(numbers, at + np.uint64(5) * W)
    m = x * theta + z * eta
    q = x * xx + z * (zz + x * zx * 2.0)
    plus = positive(zx)
    of_x, of_z = xx + z * plus, zz + x * plus
    r = rough_root(x * of_x + z * of_z)
    half = spread(0.5 * alpha)
    factor = rough_inverse(r) * half
    return m, q, r * half + positive(x * (of_x * factor + theta)) + positive(z * (of_z * factor + eta))


@inlined
def three_topics(kind, index, root_index, numbers, at, state, alpha):
    """For items of three topics."""
    x = lane_gains(kind, load(numbers, at), gather(state, root_index, index))
    z = lane_gains(kind, load(numbers, at + U3 * W), gather(state, root_index, index + U2 * W))
    v = lane_gains(kind, load(numbers, at + np.uint64(7) * W), gather(state, root_index, index + np.uint64(5) * W))
    theta, eta, zeta = load(numbers, at + W), load(numbers, at + FOUR * W), load(numbers, at + np.uint64(8) * W)
    xx, zz = x * load(numbers, at + U2 * W), z * load(numbers, at + np.uint64(6) * W)
    vv = v * load(numbers, at + np.uint64(11) * W)
    zx, vx = load(numbers, at + np.uint64(5) * W), load(numbers, at + np.uint64(9) * W)
    vz = load(numbers, at + np.uint64(10) * W)
    m = x * theta + z * eta + v * zeta
    q = x * xx + z * (zz + x * zx * 2.0) + v * (vv + (x * vx + z * vz) * 2.0)
    zx, vx, vz = positive(zx), positive(vx), positive(vz)
    of_x, of_z, of_v = xx + z * zx + v * vx, zz + x * zx + v * vz, vv + x * vx + z * vz
    r = rough_root(x * of_x + z * of_z + v * of_v)
    half = spread(0.5 * alpha)
    factor = rough_inverse(r) * half
    upper = r * half + positive(x * (of_x * factor + theta)) + positive(z * (of_z * factor + eta))
    return m, q, upper + positive(v * (of_v * factor + zeta))


@inlined
def four_topics(kind, index, root_index, numbers, at, state, alpha):
    """For items of four topics."""
    x = lane_gains(kind, load(numbers, at), gather(state, root_index, index))
    z = lane_gains(kind, load(numbers, at + U3 * W), gather(state, root_index, index + U2 * W))
    v = lane_gains(kind, load(numbers, at + np.uint64(7) * W), gather(state, root_index, index + np.uint64(5) * W))
    w = lane_gains(kind, load(numbers, at + np.uint64(12) * W), gather(state, root_index, index + np.uint64(9) * W))
    theta, eta, zeta = load(numbers, at + W), load(numbers, at + FOUR * W), load(numbers, at + np.uint64(8) * W)
    iota = load(numbers, at + np.uint64(13) * W)
    xx, zz = x * load(numbers, at + U2 * W), z * load(numbers, at + np.uint64(6) * W)
    vv, ww = v * load(numbers, at + np.uint64(11) * W), w * load(numbers, at + np.uint64(17) * W)
    zx, vx = load(numbers, at + np.uint64(5) * W), load(numbers, at + np.uint64(9) * W)
    vz, wx = load(numbers, at + np.uint64(10) * W), load(numbers, at + np.uint64(14) * W)
    wz, wv = load(numbers, at + np.uint64(15) * W), load(numbers, at + np.uint64(16) * W)
    m = x * theta + z * eta + v * zeta + w * iota
    q = x * xx + z * (zz + x * zx * 2.0) + v * (vv + (x * vx + z * vz) * 2.0)
    q = q + w * (ww + (x * wx + z * wz + v * wv) * 2.0)
    zx, vx, vz, wx, wz, wv = positive(zx), positive(vx), positive(vz), positive(wx), positive(wz), positive(wv)
    of_x, of_z = xx + z * zx + v * vx + w * wx, zz + x * zx + v * vz + w * wz
    of_v, of_w = vv + x * vx + z * vz + w * wv, ww + x * wx + z * wz + v * wv
    r = rough_root(x * of_x + z * of_z + v * of_v + w * of_w)
    half = spread(0.5 * alpha)
    factor = rough_inverse(r) * half
    upper = r * half + positive(x * (of_x * factor + theta)) + positive(z * (of_z * factor + eta))
    return m, q, upper + positive(v * (of_v * factor + zeta)) + positive(w * (of_w * factor + iota))


@inlined
def many_topics(kind, size, index, root_index, numbers, at, state, alpha, x, y):
    """For items of any number of topics."""
    m, q, P, own = spread(0.0), spread(0.0), spread(0.0), at
    for a in range(size):
        g = lane_gains(kind, load(numbers, at), gather(state, root_index, index))
        index += W * (a + U2)
        store(x, a * W, g)
        m = m + g * load(numbers, at + W)
        at += U2 * W
        mixed, plus = spread(0.0), spread(0.0)
        for c in range(a):
            entry, other = load(numbers, at), load(x, c * W)
            mixed = mixed + other * entry
            plus = plus + other * positive(entry)
            store(y, c * W, load(y, c * W) + g * positive(entry))
            at += W
        entry = g * load(numbers, at)
        store(y, a * W, plus + entry)
        at += W
        q = q + g * (entry + mixed * 2.0)
        P = P + g * (entry + plus * 2.0)
    r = rough_root(P)
    half = spread(0.5 * alpha)
    factor, upper, at = rough_inverse(r) * half, r * half, own + W
    for a in range(size):
        upper = upper + positive(load(x, a * W) * (load(y, a * W) * factor + load(numbers, at)))
        at += W * (a + U3)
    return m, q, upper


@inlined
def worths(theta, flat, alpha, slack, scratch, out):
    """θ̄_j + α·D_j into out (d,), where D_i·D_j ≥ (M⁻¹)_ij for all i and j: what a topic alone is worth, or a little more.

    scratch (d + 8,). O(d²).
    """
    d = np.uint64(theta.size)
    largest_variance = 0.0
    for j in range(d):
        largest_variance = max(largest_variance, flat[j * d + j])
    for j in range(d):
        out[j] = max(flat[j * d + j], 1e-24 * largest_variance + 1e-280)
        scratch[j] = 1.0 / sqrt(out[j])
    store(scratch, d, spread(0.0))
    # No correlation is above 1 but by rounding, which is large where M is nearly singular.
    most = spread(1.0)
    for i in range(d):
        row = spread(0.0)
        for n in range(d // W):
            row = larger(row, load(flat, i * d + n * W) * load(scratch, n * W))
        most = larger(most, row * scratch[i])
        for j in range(d // W * W, d):
            most = larger(most, spread(flat[i * d + j] * scratch[i] * scratch[j]))
    stretch = largest(most)
    error_m, error_q = 0.0, 0.0
    for j in range(d):
        wide = alpha * sqrt(stretch * out[j])
        # Where the two cancel, rounding is as large as they are, not as what is left.
        out[j] = theta[j] + wide + slack * (abs(theta[j]) + wide)
        error_m += abs(theta[j]) + wide
        error_q += sqrt(stretch / scratch[j]) / sqrt(scratch[j])
    return slack * error_m + TINY, slack * (error_q * error_q)


@kernel
def scan(kind, begin, end, topics, weights, item_group, used, state, theta, minv, alpha, cap, x):
    """The best item by looking at all of them: the plain loop."""
    best, best_item = -inf, NONE
    for e in range(item_group.size):
        if item_group[e] != NONE and not used[e]:
            m, q, _, _ = terms(kind, begin[e], end[e], topics, weights, state, theta, minv, alpha != 0.0, x)
            score = min(cap, value(m, q, alpha))
            if score > best:
                best, best_item = score, np.uint32(e)
    return best, best_item


@kernel
def along_ray(kind, begin, end, topics, weights, lane_item, lo, hi, used, state, theta, minv, alpha, cap, x):
    """The best unused item among lane_item[lo:hi]: where rounding could put another item of a ray before its first."""
    best, best_item = -inf, NONE
    for n in range(lo, hi):
        e = lane_item[n]
        if e != NONE and not used[e]:
            m, q, _, _ = terms(kind, begin[e], end[e], topics, weights, state, theta, minv, alpha != 0.0, x)
            score = min(cap, value(m, q, alpha))
            if score > best or (score == best and e < best_item):
                best, best_item = score, e
    return best, best_item


@inlined
def look_into(
    kind, row, high, limit, best, topics, pool, lane_item, boxes, root_high, used, state, theta, minv, alpha, cap, error_m, error_q,
    flat, majorants, many, level_size, level_at, open_level, open_node, open_bound, values, corner, x, y,
):  # fmt: skip
    """The best unused item of a tree and its index, if that is at least best; and a bound for all others there."""
    size, t, stride = np.uint64(row[SIZE]), np.uint64(row[TOPICS]), np.uint64(row[STRIDE])
    items, weights = np.uint64(row[ITEMS]), np.uint64(row[WEIGHTS])
    block = np.uint64(box_bytes(size))
    score, item, rest = -inf, NONE, -inf
    width, level = stride, 0
    while width > W:
        width = (width + W - U1) // W
        level += 1
        level_size[level] = width
    at = np.uint64(row[BOXES])
    for n in range(level, 0, -1):
        level_at[n] = at
        at += (level_size[n] + W - U1) // W * block
    most_sum = 0.0
    if level > 0:
        for a in range(size):
            most_sum += root_high[high + a * W]
            corner[a] = root_high[high + a * W] * STEP
        most_sum = (most_sum - root_high[high + size * W]) * (1.0 + 1e-12) * STEP
    # With many topics, what each leaf needs of them is copied side by side.
    crowded = size > FEW
    if crowded:
        d = np.uint64(theta.size)
        states, thetas, majorant, entries = many[:d], many[d : U2 * d], many[U2 * d : U3 * d], many[U3 * d :]
        for a in range(size):
            i = np.uint64(topics[t + a])
            states[a], thetas[a] = state[i], theta[i]
            majorant[a] = majorants[i] * state[i] * state[i]
            for b in range(size):
                entries[a * size + b] = flat[i * d + np.uint64(topics[t + b])]
    # Open are boxes to look into, the most promising last. A block of items or boxes is within a box of the level above.
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
            at = weights + node * size * W
            if crowded:
                found = lane_values_tiled(kind, size, pool, at, states, thetas, entries, alpha, x)
            else:
                found = lane_values(kind, size, t, topics, pool, at, state, theta, minv, alpha, x)
            found = smaller(found, spread(cap))
            if not reaches(found, floor):
                rest = max(rest, largest(found))
                continue
            store(values, U0, found)
            for n in range(W):
                if values[n] < floor:
                    rest = max(rest, values[n])
                    continue
                e = lane_item[items + node * W + n]
                if e != NONE and not used[e] and (values[n] > score or (values[n] == score and e < item)):
                    score, item = values[n], e
                    floor = max(floor, score)
            continue
        at = level_at[level] + node * block
        if not crowded or kind == MAX:
            found = lane_bounds(
                kind, size, t, topics, boxes, at, corner, state, theta, minv, alpha, error_m, error_q, x, y
            )
        else:
            found = lane_sums(size, boxes, at, corner, most_sum, states, thetas, majorant, alpha, error_m)
        if not reaches(found, floor):
            rest = max(rest, largest(found))
            continue
        store(values, U0, found)
        promising, most = -1, -inf
        for n in range(min(W, level_size[level] - node * W)):
            if values[n] < floor:
                rest = max(rest, values[n])
                continue
            if level == 1:
                prefetch(pool, weights + (node * W + n) * size * W)
            open_level[depth], open_node[depth], open_bound[depth] = level, node * W + n, values[n]
            if values[n] > most:
                promising, most = depth, values[n]
            depth += 1
        if promising >= 0:
            i, j = promising, depth - 1
            open_node[i], open_node[j] = open_node[j], open_node[i]
            open_bound[i], open_bound[j] = open_bound[j], open_bound[i]
    return score, item, rest


@inlined
def advance(row, lane_item, pool, used, head, n, numbers, at):
    """Moves head[n] on to the ray's next unused item, and the lane's weights with it; at is where they begin."""
    stop, here = row[ITEMS] + row[COUNT], np.uint64(head[n])
    while here < stop and (lane_item[here] == NONE or used[lane_item[here]]):
        here += U1
    head[n] = np.uint32(here) if here < stop else NONE
    for a in range(np.uint64(row[SIZE])):
        w = np.uint64(row[WEIGHTS]) + (here - np.uint64(row[ITEMS])) * np.uint64(row[SIZE]) + a
        numbers[at] = pool[w] if here < stop else 0.0
        at += W * (a + U3)


@kernel
def greedy(
    kind, begin, end, item_topics, item_weights, item_group,
    groups, masks, topics, pool, lane_item, boxes, blocks, root_index, root_high, root_group, root_seat, block_masks,
    used, estimate, inverse, alpha, cap, out,
):  # fmt: skip
    """Greedy lists for a batch of users: Algorithm 1, lines 5-11; Eq. greedy maximization where alpha is 0.

    estimate (users, d), inverse (users, d, d) or (1, d, d) where alpha is 0, alpha (users,), out (users, K). An index
    is min(cap, index). used (L,): items not to be shown, and all False again in the end for those that were.
    Cost a user: O(s) for each group of s topics, O(s²) for each block of 8 groups visited, and O(s²) for each 8 boxes or
    items of a tree looked into; O(L·s²) at a position where no index is above 0.
    """
    users, K = out.shape
    d = np.uint64(estimate.shape[1])
    G, B = len(groups), np.uint64(len(blocks))
    slack = 8.0 * (d + 8.0) * EPSILON
    state = np.empty(d)
    worth = np.empty(d)
    topic_bound = np.empty(d)  # worth, or 0
    bound = np.empty(B)  # of any index in the block, now and later
    ready = np.empty(B, dtype=np.bool_)  # whether the block's numbers are those of this user
    crowded = False
    for b in range(B):
        crowded |= blocks[b, BLOCK_SIZE] > FEW
    last = U0
    if B > U0:
        size = np.uint64(blocks[B - U1, BLOCK_SIZE])
        last = np.uint64(blocks[B - U1, BLOCK_NUMBERS]) + np.uint64(block_numbers(size))
    numbers = aligned(last)  # of rays, for each topic of the lanes: weights, θ̄, and entries of M⁻¹
    head = np.empty(B * W, dtype=np.uint32)  # where the best unused item of a ray is, in lane_item
    seen = np.empty(B)  # the largest index in the block when it was visited, or a bound, and the position
    seen_at = np.empty(B, dtype=np.int64)
    known = np.empty(G)  # of a tree: the best when it was looked into, or a bound, with its item and the position
    known_item = np.empty(G, dtype=np.uint32)
    known_at = np.empty(G, dtype=np.int64)
    covered = np.empty(K, dtype=np.int64)  # covered[k]: the topics (as masks) of the items shown from k on
    x, y = aligned(U2 * d * W + W), aligned(U2 * d * W + W)
    corner, majorants, many = np.empty(d), np.empty(d), np.empty(U3 * d + d * d)
    values, limits = aligned(W), aligned(W)
    waiting_group, waiting_limit = np.empty(G, dtype=np.uint32), np.empty(G)
    level_size, level_at = np.empty(16, dtype=np.uint64), np.empty(16, dtype=np.uint64)
    open_level, open_node = np.empty(128, dtype=np.int64), np.empty(128, dtype=np.uint64)
    open_bound = np.empty(128)
    for user in range(users):
        theta, width = estimate[user], alpha[user]
        minv = inverse[user if width != 0.0 else 0]
        flat = minv.ravel()
        error_m, error_q = worths(theta, flat, width, slack, x, worth)
        if crowded:
            for j in range(d):
                majorants[j] = 0.0
                for i in range(d):
                    majorants[j] += max(0.0, minv[i, j])
        for j in range(d):
            state[j] = 0.0 if kind == MAX else 1.0
            topic_bound[j] = max(0.0, worth[j])
        following, most = U0, -inf
        for b in range(B):
            size, index = np.uint64(blocks[b, BLOCK_SIZE]), np.uint64(blocks[b, BLOCK_INDEX])
            high = np.uint64(blocks[b, BLOCK_HIGH])
            upper = spread(0.0)
            for a in range(size):
                upper = upper + load(root_high, high + a * W) * gather(topic_bound, root_index, index)
                index += W * (a + U2)
            bound[b] = largest(upper) * (1.0 + slack) + TINY
            ready[b] = False
            seen_at[b] = -1
            if bound[b] > most:
                following, most = b, bound[b]
        for g in range(G):
            known_at[g] = -1
        for k in range(K):
            covered[k] = 0
            best, best_item, best_block = -inf, NONE, B
            second, second_block = -inf, B
            leader = following  # the block to visit first: the best bound, later the second best of the position before
            waiting = 0
            for turn in range(-1, np.int64(B) + 1):
                b = leader if turn < 0 else np.uint64(turn)
                if turn < 0 or not (
                    b == B
                    or b == leader
                    or bound[b] < best
                    or (seen_at[b] >= 0 and seen[b] < best and not block_masks[b] & covered[seen_at[b]])
                ):
                    size, index = np.uint64(blocks[b, BLOCK_SIZE]), np.uint64(blocks[b, BLOCK_INDEX])
                    high = np.uint64(blocks[b, BLOCK_HIGH])
                    if blocks[b, BLOCK_KIND] == RAY:
                        own = np.uint64(blocks[b, BLOCK_NUMBERS])
                        if not ready[b]:
                            ready[b] = True
                            at = own
                            i = index
                            for a in range(size):
                                store(numbers, at, load(root_high, high + a * W))
                                store(numbers, at + W, gather(theta, root_index, i))
                                at += U2 * W
                                i += W
                                for _ in range(a + U1):
                                    store(numbers, at, gather(flat, root_index, i))
                                    at += W
                                    i += W
                            for n in range(b * W, b * W + W):
                                g = root_group[n]
                                head[n] = NONE
                                if g != NONE:
                                    head[n] = groups[g, ITEMS]
                                    e = lane_item[head[n]]
                                    if e == NONE or used[e]:
                                        advance(groups[g], lane_item, pool, used, head, n, numbers, own + n - b * W)
                        if size == U1:
                            m, q, upper = one_topic(kind, index, root_index, numbers, own, state, width)
                        elif size == U2:
                            m, q, upper = two_topics(kind, index, root_index, numbers, own, state, width)
                        elif size == U3:
                            m, q, upper = three_topics(kind, index, root_index, numbers, own, state, width)
                        elif size == FOUR:
                            m, q, upper = four_topics(kind, index, root_index, numbers, own, state, width)
                        else:
                            m, q, upper = many_topics(kind, size, index, root_index, numbers, own, state, width, x, y)
                        # No index on a ray is above mean + width·sqrt(square), after rounding.
                        mean, square = m + error_m, positive(q) + error_q
                        hope = hopeful(mean, square, best, width * width * (1.0 + slack))
                        if hope:
                            store(values, U0, m + root(positive(q)) * width)
                            store(limits, U0, mean + root(square) * width)
                            while hope:
                                n = lowest(hope)
                                hope &= hope - U1
                                if limits[n] < best or head[b * W + n] == NONE:
                                    continue
                                score, item = min(cap, values[n]), lane_item[head[b * W + n]]
                                row = groups[root_group[b * W + n]]
                                stop = np.uint64(row[ITEMS]) + np.uint64(row[COUNT])
                                step = pool[np.uint64(row[WEIGHTS]) + np.uint64(head[b * W + n]) - stop]
                                if step > 0.0 and limits[n] * step >= score:
                                    score, item = along_ray(
                                        kind, begin, end, item_topics, item_weights, lane_item, head[b * W + n], stop,
                                        used, state, theta, minv, width, cap, x,
                                    )  # fmt: skip
                                if score > best or (score == best and item < best_item):
                                    if best_block != b:
                                        second, second_block = best, best_block
                                    best, best_item, best_block = score, item, b
                                elif score > second and best_block != b:
                                    second, second_block = score, b
                        if best_block != b:
                            bound[b] = largest(upper) * ROUGH + error_m
                    else:
                        upper = corner_bounds(
                            kind, size, index, root_index, root_high, high, state, theta, flat, width, slack, error_m,
                            x, y,
                        )  # fmt: skip
                        bound[b] = largest(upper)
                        seen[b], seen_at[b] = bound[b], k
                        if reaches(upper, best):
                            store(limits, U0, upper)
                            seen[b] = -inf
                            for n in range(W):
                                g = root_group[b * W + n]
                                if g == NONE:
                                    continue
                                limit = limits[n]
                                if limit >= best and known_at[g] >= 0 and not masks[g] & covered[known_at[g]]:
                                    limit = min(limit, known[g])
                                    if limit >= best and known_item[g] != NONE:
                                        if known[g] > best or known_item[g] < best_item:
                                            if best_block != b:
                                                second, second_block = best, best_block
                                            best, best_item, best_block = known[g], known_item[g], b
                                        seen[b] = max(seen[b], known[g])
                                        continue
                                if limit < best:
                                    seen[b] = max(seen[b], limit)
                                    continue
                                waiting_group[waiting], waiting_limit[waiting] = g, limit
                                waiting += 1
                                prefetch(boxes, np.uint64(groups[g, BOXES]))
                if turn >= 0 and b < B:
                    continue
                # Trees are looked into after all blocks, when what they need has come from memory; the leader's first.
                for n3 in range(waiting):
                    g = waiting_group[n3]
                    b = np.uint64(root_seat[g]) // W
                    if waiting_limit[n3] < best:
                        seen[b] = max(seen[b], waiting_limit[n3])
                        continue
                    score, item, rest = look_into(
                        kind, groups[g], np.uint64(blocks[b, BLOCK_HIGH]) + np.uint64(root_seat[g]) % W,
                        waiting_limit[n3], best, topics, pool, lane_item, boxes, root_high, used, state, theta, minv,
                        width, cap, error_m, error_q, flat, majorants, many, level_size, level_at, open_level, open_node,
                        open_bound, values, corner, x, y,
                    )  # fmt: skip
                    known[g], known_at[g] = max(score, rest), k
                    known_item[g] = item if score > rest else NONE
                    seen[b] = max(seen[b], known[g])
                    if item != NONE and (score > best or (score == best and item < best_item)):
                        if best_block != b:
                            second, second_block = best, best_block
                        best, best_item, best_block = score, item, b
                waiting = 0
            if best < 2.0 * TINY:
                best, best_item = scan(
                    kind, begin, end, item_topics, item_weights, item_group, used, state, theta, minv, width, cap, x
                )
            following = second_block if second_block < B else leader
            out[user, k] = best_item
            used[best_item] = True
            g = item_group[best_item]
            if groups[g, KIND] == RAY:
                n = np.uint64(root_seat[g])
                if ready[n // W] and head[n] != NONE and lane_item[head[n]] == best_item:
                    advance(groups[g], lane_item, pool, used, head, n, numbers, np.uint64(blocks[n // W, BLOCK_NUMBERS]) + n % W)
            known_at[g] = -1
            seen_at[root_seat[g] // W] = -1
            if kind != FIXED:
                for i in range(k + 1):
                    covered[i] |= masks[g]
                for a in range(begin[best_item], end[best_item]):
                    state[item_topics[a]] = cover(kind, item_weights[a], state[item_topics[a]])
        for k in range(K):
            used[out[user, k]] = False
