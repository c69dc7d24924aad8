"""Exact greedy lists from a catalog in which few items have the same topics: a bound for each item, and a shortlist.

The groups of :mod:`thali.lists.engine.search` would contain one item each here. Instead, the search bounds the index of
each item once per list. At each position, it first scores the items on a *shortlist*, which is empty at the beginning.
Then it puts every other item on the shortlist whose bound reaches the best index found so far, and scores it. So most
items are never scored.

The bound of an item with the gains x is the sum of two parts, and takes O(s) for s topics:

- x·θ̄, with x_j at its current value if θ̄_j is positive, and otherwise at the smallest value that x_j will have while
  the list grows. The search assumes that the coverage of a topic with negative θ̄_j does not exceed 1/2 (there are few
  such items on the list). If it does, all bounds are computed again.
- α·sqrt((Σ_j a_j·x_j)² + Σ_j (b_j·x_j)²), where a_i·a_j ≥ (M⁻¹)_ij for all i ≠ j, and a_j² + b_j² ≥ (M⁻¹)_jj. This is
  never less than α·sqrt(xᵀM⁻¹x), and grows with each x_j.

So the bound is valid at all later positions. It includes slack for rounding (:mod:`thali.lists.engine.bounds`).

The shortlist has copies of the weights, θ̄ and M⁻¹ of its items, so that eight of them are scored at once. Each lane
performs the same operations as the plain loop, so it computes the same bits.
"""

from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from thali.catalog.coverage import FIXED, MAX, PROBABILISTIC, cover_item
from thali.catalog.items import size_of
from thali.lists.engine.bounds import EPSILON, TINY, U0, U1, U2, U3, U4, Belief, W, lane_gains
from thali.lists.engine.layout import NONE
from thali.lists.engine.scratch import Best, index_of, update_best
from thali.tools.jit import called, inlined, kernel
from thali.tools.lanes import (
    fused,
    gather,
    larger,
    largest,
    load,
    load4,
    lowest,
    positive,
    reaching,
    root,
    smaller,
    spread,
    store,
)

U5 = np.uint64(5)
# The largest number of blocks of 8 items on the shortlist, and of numbers in Shortlist.operands.
MOST_BLOCKS, MOST_OPERANDS = np.uint64(256), np.uint64(2**20)
# Above this, rounding errors of x·θ̄ and α·sqrt(xᵀM⁻¹x) may exceed the slack, and all items are scored.
LARGEST = 1e100
# Less than every index, if they do not exceed that.
LOWEST = -1e300


class Topics(NamedTuple):
    """What is needed to bound the index of an item, for each topic."""

    a: Any
    b: Any
    """α·a_j and α·b_j (d,)."""
    least: Any
    """(d,): the share of its weight that a gain on this topic is assumed to keep until the list is complete."""
    worth: Any
    """(d, 4), flat: what a weight of 1 adds to the mean, to Σ_j α·a_j·x_j, and to the vector of all α·b_j·x_j, at the
    current coverage; then 0."""
    sums: Any
    """(64,): for each of 8 items, the sums of these numbers over its topics (4,), and of their squares (4,)."""
    of_sums: Any
    """Where the first, second and seventh of these sums are: three rows of 8 lanes."""
    zeros: Any
    """(4,): zeros."""


class Shortlist(NamedTuple):
    """The items on the shortlist, in blocks of 8 seats."""

    item: Any
    """The item in each seat."""
    limit: Any
    """For each seat, inf, or -inf if it is empty or its item is on the list."""
    rows: Any
    """For each block, the largest number of topics of its items."""
    topics: Any
    """The topics of these items, in rows of 8 lanes. There are S rows for each block."""
    operands: Any
    """The numbers from which indices are computed, in rows of 8 lanes. For each topic a: the weights, or 0 for an item
    that has no further topic; θ̄_a; and (M⁻¹)_ab for b up to a. There are S·(S + 5)/2 rows for each block."""
    values: Any
    """(8,): the indices of a block."""


@kernel
def greedy(kind, items, S, removed, skip, skip_start, estimate, inverse, alpha, cap, out):
    """Write greedy lists for a batch of users to out (users, K), as :func:`thali.lists.plain.greedy` does.

    S: the largest number of topics of any item. removed (L,): which items are not in the catalog any more. The other
    arguments are those of :func:`thali.lists.engine.search.greedy`.

    Cost for each user: O(d² + L·s) to begin, O(L) for each position, and O(s²) for each item put on the shortlist and
    for each 8 items scored.
    """
    users, K = out.shape
    d, L, S = np.uint64(estimate.shape[1]), np.uint64(removed.size), np.uint64(max(S, 1))
    slack = 8.0 * (d + 8.0) * EPSILON
    state, no_majorants, x = np.empty(d), np.empty(0), np.empty((d + S) * W)
    topics, short = new_topics(d), new_shortlist(S)
    blocks = (L + W - U1) // W
    # Added to the bound of each item: 0, or -inf if the item must not be put on the shortlist.
    offset, bound = np.full(blocks * W, -inf), np.empty(blocks * W)
    # For each block of 8 items, a bound on their bounds.
    highest = np.full(blocks + W, -inf)
    for e in range(L):
        offset[e] = -inf if removed[e] else 0.0
    for user in range(users):
        minv, theta = inverse[user % len(inverse)], estimate[user]
        error = begin(kind, items.fading, theta, minv.ravel(), alpha[user], slack, x, state, topics)
        belief = Belief(kind, state, theta, minv, minv.ravel(), alpha[user], cap, no_majorants, 1.0 + slack, error, 0.0)
        set_number = user if skip_start.size > 2 else 0
        skipped = skip[skip_start[set_number] : skip_start[set_number + 1]]
        for n in range(skipped.size):
            offset[skipped[n]] = -inf
        safe, bounded, seats = error < slack * LARGEST, False, U0
        for k in range(K):
            best, at, scored = Best(LOWEST if safe else -inf, NONE), U0, False
            # The blocks of 8 items up to ``looked`` have been compared with the best index. The bits of blocks_left are
            # those of them that reach it, and the bits of ``left`` are the items of ``block`` that do.
            looked, blocks_left, block, left = U0, U0, U0, U0
            if not safe:
                bound[:] = inf
                best = scan(best, items, offset, bound, belief, x)
            elif not bounded:
                first, bounded = all_bounds(items, offset, belief, topics, bound, highest), True
                if k == 0:  # begin with the item that has the largest bound
                    block, left = first // W, U1 << first % W
            while safe:
                if at >= seats and not scored:
                    scored, at = True, seats // W * W
                if scored:
                    # Fill the block of seats at ``at``, or take one seat if there is no item to compare with yet.
                    before, stop = seats, at + W if best.item != NONE else seats + U1
                    while seats < stop and (left or blocks_left or looked < blocks):
                        if not left and not blocks_left:
                            blocks_left = reaching(load(highest, looked), best.index)
                            looked += W
                            continue
                        if not left:
                            block = looked - W + lowest(blocks_left)
                            blocks_left &= blocks_left - U1
                            upper = load(bound, block * W)
                            left, highest[block] = reaching(upper, best.index), largest(upper)
                            continue
                        e = block * W + lowest(left)
                        left &= left - U1
                        if k > 0:
                            bound[e] = bound_of(e, items, belief, topics)
                        if bound[e] < best.index:
                            continue
                        if seats == short.item.size:
                            best = scan(best, items, offset, bound, belief, x)
                            left, blocks_left, looked = U0, U0, blocks
                            continue
                        take_seat(seats, e, S, items, belief, short)
                        offset[e], bound[e] = -inf, -inf
                        seats += U1
                    if seats == before:
                        break
                best = score(at, best, S, belief, short, x)
                at = seats // W * W if scored else at + W
            out[user, k] = best.item
            offset[best.item], bound[best.item] = -inf, -inf
            for n in range(seats):
                if short.item[n] == best.item:
                    short.limit[n] = -inf
            if kind != FIXED:
                cover_item(kind, items, best.item, state)
                bounded &= update(items, best.item, belief, topics)
        for k in range(K):
            offset[out[user, k]] = 0.0
        for n in range(seats):
            offset[short.item[n]] = 0.0
        for n in range(skipped.size):
            offset[skipped[n]] = -inf if removed[skipped[n]] else 0.0


@kernel
def new_topics(d):
    """Allocate the arrays for d topics."""
    of_sums = np.empty(U3 * W, dtype=np.uint32)
    for n in range(W):
        of_sums[n], of_sums[W + n], of_sums[U2 * W + n] = n * W, n * W + U1, n * W + np.uint64(6)
    return Topics(np.empty(d), np.empty(d), np.empty(d), np.zeros(U4 * d), np.zeros(W * W), of_sums, np.zeros(U4))


@kernel
def new_shortlist(S):
    """Allocate the arrays for items with up to S topics."""
    blocks = max(U1, min(MOST_BLOCKS, MOST_OPERANDS // (S * (S + U5) // U2 * W)))
    return Shortlist(
        np.zeros(blocks * W, dtype=np.uint32), np.empty(blocks * W), np.zeros(blocks, dtype=np.uint64),
        np.zeros(blocks * S * W, dtype=np.uint32), np.zeros(blocks * (S * (S + U5) // U2) * W), np.empty(W),
    )  # fmt: skip


@inlined
def begin(kind, fading, theta, minv, alpha, slack, x, state, topics):
    """Set ``state`` and ``topics`` for a user, whose list is empty. Return the slack of a bound. Cost: O(d²).

    x (d + 8,) is scratch space.
    """
    d, a, b = np.uint64(theta.size), topics.a, topics.b
    largest_variance = 0.0
    for j in range(d):
        largest_variance = max(largest_variance, minv[j * d + j])
    for j in range(d):
        # The variance must be above 0 even after rounding, because we divide by its root.
        b[j] = sqrt(max(minv[j * d + j], 1e-24 * largest_variance + 1e-280))
        a[j], x[j] = 0.0, 1.0 / b[j]
    if alpha != 0.0:
        for i in range(d):  # a_i becomes the largest correlation of topic i with another topic, or 0
            row, own = spread(0.0), a[i]
            for j in range(U0, i // W * W, W):
                correlation = load(minv, i * d + j) * load(x, j) * x[i]
                row = larger(row, correlation)
                store(a, j, larger(load(a, j), correlation))
            for j in range(i // W * W, i):
                correlation = minv[i * d + j] * x[i] * x[j]
                own, a[j] = max(own, correlation), max(a[j], correlation)
            a[i] = max(own, largest(row))
    total = 0.0
    for j in range(d):
        a[j], b[j] = alpha * sqrt(a[j]) * b[j], alpha * sqrt(max(0.0, 1.0 - a[j])) * b[j]
        total += abs(theta[j]) + a[j] + b[j]
        state[j] = 0.0 if kind == MAX else 1.0
        topics.least[j] = 1.0
        if fading[j] and kind != FIXED:
            topics.least[j] = 0.25 if kind == PROBABILISTIC else 0.0
        set_worth(j, kind, state, theta, topics)
    return slack * total + TINY * max(1.0, alpha)


@inlined
def set_worth(j, kind, state, theta, topics):
    """Set the numbers for topic j at the current coverage."""
    most = state[j] if kind == PROBABILISTIC else 1.0
    topics.worth[U4 * j] = theta[j] * (most if theta[j] > 0.0 else topics.least[j])
    topics.worth[U4 * j + U1] = topics.a[j] * most
    topics.worth[U4 * j + U2] = topics.b[j] * most


@inlined
def update(items, e, belief, topics):
    """Update ``topics`` after item e was put on the list. Return whether all bounds are still valid."""
    valid = True
    for n in range(items.begin[e], items.end[e]):
        j = np.uint64(items.topics[n])
        if belief.kind == PROBABILISTIC:
            if belief.theta[j] < 0.0 and belief.state[j] < topics.least[j]:
                topics.least[j], valid = 0.25 * belief.state[j], False
            set_worth(j, belief.kind, belief.state, belief.theta, topics)
    return valid


@inlined
def add_up(e, items, topics, at):
    """Write the sums from which the bound of item e is computed to topics.sums[at : at + 8]. Cost: O(s)."""
    linear, squares = load4(topics.zeros, U0), load4(topics.zeros, U0)
    for n in range(np.uint64(items.begin[e]), np.uint64(items.end[e])):
        part = load4(topics.worth, U4 * np.uint64(items.topics[n])) * items.weights[n]
        linear, squares = linear + part, fused(part, part, squares)
    store(topics.sums, at, linear)
    store(topics.sums, at + U4, squares)


@inlined
def bound_of(e, items, belief, topics):
    """Return a bound on the index of item e, at this and all later positions."""
    add_up(e, items, topics, U0)
    mean, a, b = topics.sums[0], topics.sums[1], topics.sums[6]
    return mean + sqrt(a * a + b) * belief.rough_factor + belief.mean_error


@inlined
def all_bounds(items, offset, belief, topics, bound, highest):
    """Write the sum of such a bound and the offset of each item to bound (L,), and the largest sum of each block of 8
    items to highest. Return the item with the largest sum.
    """
    first, top, L = U0, -inf, np.uint64(items.begin.size)
    for at in range(U0, L, W):
        for n in range(min(W, L - at)):
            add_up(at + n, items, topics, n * W)
        mean, a = gather(topics.sums, topics.of_sums, U0), gather(topics.sums, topics.of_sums, W)
        width = root(fused(a, a, gather(topics.sums, topics.of_sums, U2 * W)))
        upper = fused(width, belief.rough_factor, mean) + belief.mean_error + load(offset, at)
        store(bound, at, upper)
        highest[at // W] = largest(upper)
        if highest[at // W] > top:
            top = highest[at // W]
            first = at + lowest(reaching(upper, top))
    return first


@inlined
def take_seat(seat, e, S, items, belief, short):
    """Put item e on the shortlist. Cost: O(s²)."""
    block, lane, d = seat // W, seat % W, np.uint64(belief.theta.size)
    lo, size = np.uint64(items.begin[e]), np.uint64(size_of(items, e))
    if lane == U0:
        short.rows[block] = U0
        for n in range(seat, seat + W):
            short.limit[n] = -inf
    short.item[seat], short.limit[seat], short.rows[block] = e, inf, max(short.rows[block], size)
    at = block * (S * (S + U5) // U2) * W + lane
    for a in range(size):
        i = np.uint64(items.topics[lo + a])
        short.topics[(block * S + a) * W + lane] = i
        short.operands[at], short.operands[at + W] = items.weights[lo + a], belief.theta[i]
        if belief.alpha != 0.0:
            for b in range(a + U1):
                short.operands[at + (b + U2) * W] = belief.minv_flat[i * d + np.uint64(items.topics[lo + b])]
        at += (a + U3) * W
    for a in range(size, S):
        short.operands[at] = 0.0
        at += (a + U3) * W


@inlined
def score(at, best, S, belief, short, x):
    """Return the best item so far, after comparing it with the 8 items in seats ``at`` to at + 7. Cost: O(s²).

    The indices are computed by the same operations as in :func:`thali.lists.plain.index`.
    """
    block, m, q, operands = at // W, spread(0.0), spread(0.0), short.operands
    topic_at, operand_at = block * S * W, block * (S * (S + U5) // U2) * W
    for a in range(short.rows[block]):
        g = lane_gains(belief.kind, load(operands, operand_at), gather(belief.state, short.topics, topic_at + a * W))
        store(x, a * W, g)
        m = fused(g, load(operands, operand_at + W), m)
        operand_at += U2 * W
        if belief.alpha != 0.0:
            mixed = spread(0.0)
            for b in range(a):
                mixed = fused(load(x, b * W), load(operands, operand_at + b * W), mixed)
            q = fused(g, fused(mixed, 2.0, g * load(operands, operand_at + a * W)), q)
        operand_at += (a + U1) * W
    found = smaller(smaller(fused(root(positive(q)), belief.alpha, m), spread(belief.cap)), load(short.limit, at))
    left = reaching(found, best.index)
    if left:
        store(short.values, U0, found)
    while left:
        n = lowest(left)
        left &= left - U1
        best = update_best(best, short.values[n], short.item[at + n])
    return best


@called
def scan(best, items, offset, bound, belief, x):
    """Return the best item, after comparing it with all items that are not on the shortlist, as in the plain loop."""
    for e in range(items.begin.size):
        if offset[e] == 0.0 and not bound[e] < best.index:
            score = index_of(e, items, belief, x)
            if best.item == NONE or score > best.index or (score == best.index and e < best.item):
                best = Best(score, np.uint32(e))
    return best
