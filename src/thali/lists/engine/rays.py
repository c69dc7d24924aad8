"""The best item among rays, eight at a time."""

from math import inf

import numpy as np

from thali.lists.engine.bounds import U0, U1, U2, U3, U4, W, lane_gains
from thali.lists.engine.layout import (
    BLOCK_HIGH,
    BLOCK_INDEX,
    BLOCK_NUMBERS,
    BLOCK_SIZE,
    COUNT,
    ITEMS,
    NONE,
    SIZE,
    WEIGHTS,
)
from thali.lists.engine.scratch import enter, index_of
from thali.tools.jit import inlined, kernel
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


@inlined
def visit_rays(b, best, items, layout, used, belief, known, scratch):
    """The best after a block of rays, whose bounds are updated. O(s²)."""
    if not known.ready[b]:
        make_ready(b, layout, used, belief, known)
    size, index = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_INDEX])
    at = np.uint64(layout.blocks[b, BLOCK_NUMBERS])
    if size == U1:
        m, q, upper = one_topic(index, layout.root_index, known.numbers, at, belief)
    elif size == U2:
        m, q, upper = two_topics(index, layout.root_index, known.numbers, at, belief)
    elif size == U3:
        m, q, upper = three_topics(index, layout.root_index, known.numbers, at, belief)
    elif size == U4:
        m, q, upper = four_topics(index, layout.root_index, known.numbers, at, belief)
    else:
        m, q, upper = many_topics(size, index, layout.root_index, known.numbers, at, belief, scratch.x, scratch.y)
    # No index on a ray is above that of its first unused item, after rounding, if that is above 0.
    width, _ = rough_roots(positive(q) + belief.error_q)
    limit = m + belief.error_m + width * (belief.alpha * belief.rough)
    upper = upper * belief.rough + belief.error_m
    store(known.bound, b * W, upper)
    store(known.now, b * W, smaller(limit, upper))
    hope = reaching(limit, best.index)
    if hope:
        store(scratch.values, U0, fused(root(positive(q)), belief.alpha, m))
        store(known.limits, U0, limit)
    while hope:
        n = lowest(hope)
        hope &= hope - U1
        here = known.head[b * W + n]
        if here == NONE or known.limits[n] < best.index:
            continue
        score, item = min(belief.cap, scratch.values[n]), layout.lane_item[here]
        row = layout.groups[layout.root_group[b * W + n]]
        stop = np.uint64(row[ITEMS]) + np.uint64(row[COUNT])
        step = layout.pool[np.uint64(row[WEIGHTS]) + np.uint64(here) - stop]
        if step > 0.0 and known.limits[n] * step >= score:
            score, item = along_ray(here, stop, items, layout.lane_item, used, belief, scratch.x)
        best = enter(best, score, item, b)
    return best


@inlined
def make_ready(b, layout, used, belief, known):
    """Collect the numbers of a block of rays for this user."""
    size, i = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_INDEX])
    at, high = np.uint64(layout.blocks[b, BLOCK_NUMBERS]), np.uint64(layout.blocks[b, BLOCK_HIGH])
    for a in range(size):
        store(known.numbers, at, load(layout.root_high, high + a * W))
        store(known.numbers, at + W, gather(belief.theta, layout.root_index, i))
        at += U2 * W
        i += W
        for _ in range(a + U1):
            store(known.numbers, at, gather(belief.flat, layout.root_index, i))
            at += W
            i += W
    if known.passed[b]:
        for n in range(b * W, b * W + W):
            if known.head[n] != NONE:
                e = layout.lane_item[known.head[n]]
                if e == NONE or used[e]:
                    advance(n, layout, used, known)
    known.ready[b] = True


@inlined
def advance(n, layout, used, known):
    """Moves the head of the ray in seat n on to its next unused item, and its lane of numbers with it."""
    row = layout.groups[layout.root_group[n]]
    first, size = np.uint64(row[ITEMS]), np.uint64(row[SIZE])
    stop, here = first + np.uint64(row[COUNT]), np.uint64(known.head[n])
    while here < stop and (layout.lane_item[here] == NONE or used[layout.lane_item[here]]):
        here += U1
    known.head[n] = np.uint32(here) if here < stop else NONE
    at = np.uint64(layout.blocks[n // W, BLOCK_NUMBERS]) + n % W
    for a in range(size):
        known.numbers[at] = layout.pool[np.uint64(row[WEIGHTS]) + (here - first) * size + a] if here < stop else 0.0
        at += W * (a + U3)


@kernel
def along_ray(lo, hi, items, lane_item, used, belief, x):
    """The best unused item among lane_item[lo:hi]: where rounding could put another item of a ray before its first."""
    best, best_item = -inf, NONE
    for n in range(lo, hi):
        e = lane_item[n]
        if e != NONE and not used[e]:
            score = index_of(e, items, belief, x)
            if score > best or (score == best and e < best_item):
                best, best_item = score, e
    return best, best_item
