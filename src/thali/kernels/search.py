"""Exact greedy lists: the argmax over all items at each position, without looking at all items.

Groups of items with the same topics (:mod:`thali.groups`) sit eight to a block, and blocks are visited, eight lanes at
once. Four facts, none an approximation:

- A bound that holds for all later positions (:mod:`thali.kernels.bounds`) is kept for each block, and made tighter
  when a visit finds nothing: a block is visited while its bound is the best.
- On a ray of parallel items the index is proportional to the scale: while it is positive, the largest item decides.
- The boxes of a tree lie within one another, so that most of its items are never seen (:mod:`thali.kernels.trees`).
- An index changes only where coverage has changed: a tree none of whose topics were shown since keeps its best item.

A bound prunes only when it is below the best index by more than rounding; what survives is compared by its index, ties
to the lowest item. Where no index is above 0, all items are scored: larger is then no longer better.
"""

from math import inf, sqrt

import numpy as np

from thali.kernels.bounds import (
    EPSILON,
    TINY,
    U0,
    U1,
    U2,
    U3,
    U4,
    Belief,
    W,
    corner_bounds,
    four_topics,
    many_topics,
    one_topic,
    three_topics,
    two_topics,
    worths,
)
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
    WEIGHTS,
    block_numbers,
)
from thali.kernels.index import FIXED, MAX, cover, empty, terms, value
from thali.kernels.jit import inlined, kernel
from thali.kernels.lanes import (
    fused,
    gather,
    hopeful,
    largest,
    load,
    lowest,
    positive,
    prefetch,
    reaches,
    root,
    spread,
    store,
)  # fmt: skip
from thali.kernels.trees import aligned, look_into, new_desk


@inlined
def index_of(e, items, belief, x):
    """The index of one item, by the one scalar definition."""
    m, q, _, _ = terms(
        belief.kind, items.begin[e], items.end[e], items.topics, items.weights, belief.state, belief.theta, belief.minv,
        belief.alpha != 0.0, x,
    )  # fmt: skip
    return min(belief.cap, value(m, q, belief.alpha))


@kernel
def scan(items, item_group, used, belief, x):
    """The best item by looking at all of them: the plain loop."""
    best, best_item = -inf, NONE
    for e in range(item_group.size):
        if item_group[e] != NONE and not used[e]:
            score = index_of(e, items, belief, x)
            if score > best or best_item == NONE:
                best, best_item = score, np.uint32(e)
    return best, best_item


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


@inlined
def advance(group, n, layout, used, head, numbers, at):
    """Moves head[n] on to the ray's next unused item, and the lane's weights with it; at is where they begin."""
    row = layout.groups[group]
    first, size = np.uint64(row[ITEMS]), np.uint64(row[SIZE])
    stop, here = first + np.uint64(row[COUNT]), np.uint64(head[n])
    while here < stop and (layout.lane_item[here] == NONE or used[layout.lane_item[here]]):
        here += U1
    head[n] = np.uint32(here) if here < stop else NONE
    for a in range(size):
        numbers[at] = layout.pool[np.uint64(row[WEIGHTS]) + (here - first) * size + a] if here < stop else 0.0
        at += W * (a + U3)


@kernel
def greedy(kind, items, layout, used, skip, skip_start, estimate, inverse, alpha, cap, out):
    """Greedy lists for a batch of users: Algorithm 1, lines 5-11; Eq. greedy maximization where alpha is 0.

    estimate (users, d), inverse (users, d, d) or (1, d, d) where alpha is 0, alpha (users,), out (users, K). An index
    is min(cap, index). used (L,), all False before and after. What a user must not be shown: skip[skip_start[u]:
    skip_start[u + 1]]; where skip_start is (2,), the same for all.

    Cost a user: O(d²), O(s) for each group of s topics, O(s²) for each block of 8 groups visited, and for each 8 boxes
    or items of a tree looked at; O(L·s²) at a position where no index is above 0.
    """
    users, K = out.shape
    d = np.uint64(estimate.shape[1])
    G, B = len(layout.groups), np.uint64(len(layout.blocks))
    slack = 8.0 * (d + 8.0) * EPSILON
    state, worth, majorants = np.empty(d), np.empty(d), np.empty(d)
    bound = aligned(B * W)  # of any index in each lane of the blocks, now and later
    ready = np.empty(B, dtype=np.bool_)  # whether the numbers of a block of rays are those of this user
    length, crowded = U0, False
    for b in range(B):
        size = np.uint64(layout.blocks[b, BLOCK_SIZE])
        crowded |= size > FEW
        if layout.blocks[b, BLOCK_KIND] == RAY:
            length = np.uint64(layout.blocks[b, BLOCK_NUMBERS]) + np.uint64(block_numbers(RAY, size))
    numbers = aligned(length)  # of rays, for each topic of the lanes: weights, θ̄, and entries of M⁻¹
    head = np.empty(B * W, dtype=np.uint32)  # where the best unused item of a ray is, in lane_item
    seen = np.empty(B)  # of a block of trees: a bound for its indices when it was visited, and the position
    seen_at = np.empty(B, dtype=np.int64)
    known = np.empty(G)  # of a tree: its best index when it was looked into, or a bound; its item, and the position
    known_item = np.empty(G, dtype=np.uint32)
    known_at = np.empty(G, dtype=np.int64)
    covered = np.empty(K, dtype=np.int64)  # covered[k]: the topics (as masks) of the items shown from k on
    waiting_group, waiting_limit = np.empty(G, dtype=np.uint32), np.empty(G)  # trees to look into
    limits = aligned(W)
    desk = new_desk(d)
    values, x, y = desk.values, desk.x, desk.y
    everyone = inverse.ravel()
    for user in range(users):
        width = alpha[user]
        minv = inverse[user if width != 0.0 else 0]
        flat, theta = minv.ravel(), estimate[user]
        if user + 1 < len(inverse):  # the next user's will be there when it is their turn
            for i in range(U0, d * d, W):
                prefetch(everyone, np.uint64(user + 1) * d * d + i)
        error_m, error_q = worths(theta, flat, width, slack, x, worth)
        for j in range(d):
            state[j] = 0.0 if kind == MAX else 1.0
            worth[j] = max(0.0, worth[j])
            if crowded:
                majorants[j] = 0.0
                for i in range(d):
                    majorants[j] += max(0.0, minv[i, j])
        # Rough roots are right to 1e-7; and where xᵀM⁻¹x cancels, its root is off by the root of what rounding adds.
        rough = 1.0 + 1e-5 + 4.0 * sqrt(slack)
        belief = Belief(kind, state, theta, minv, flat, width, cap, majorants, rough, error_m, error_q)
        own_skip = user if skip_start.size > 2 else 0
        for n in range(skip_start[own_skip], skip_start[own_skip + 1]):
            used[skip[n]] = True
        leader, most = U0, -inf  # the block to visit first: that of the best bound
        for b in range(B):
            size, index = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_INDEX])
            high = np.uint64(layout.blocks[b, BLOCK_HIGH])
            upper = spread(0.0)
            for a in range(size):
                upper = upper + load(layout.root_high, high + a * W) * gather(worth, layout.root_index, index)
                index += W * (a + U2)
            upper = upper * (1.0 + slack) + TINY * max(1.0, width)
            store(bound, b * W, upper)
            ready[b] = False
            seen_at[b] = -1
            if reaches(upper, most):
                leader, most = b, largest(upper)
        for g in range(G):
            known_at[g] = -1
        for k in range(K):
            covered[k] = 0
            best, best_item, best_block = -inf, NONE, B
            second, second_block = -inf, B
            waiting = 0
            for turn in range(-1, np.int64(B) + 1):
                b = leader if turn < 0 else np.uint64(turn)
                if turn < 0 or not (
                    b == B
                    or b == leader
                    or not reaches(load(bound, b * W), best)
                    or (seen_at[b] >= 0 and seen[b] < best and not layout.block_masks[b] & covered[seen_at[b]])
                ):
                    size, index = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_INDEX])
                    high = np.uint64(layout.blocks[b, BLOCK_HIGH])
                    if layout.blocks[b, BLOCK_KIND] == RAY:
                        own = np.uint64(layout.blocks[b, BLOCK_NUMBERS])
                        if not ready[b]:
                            ready[b] = True
                            at, i = own, index
                            for a in range(size):
                                store(numbers, at, load(layout.root_high, high + a * W))
                                store(numbers, at + W, gather(theta, layout.root_index, i))
                                at += U2 * W
                                i += W
                                for _ in range(a + U1):
                                    store(numbers, at, gather(flat, layout.root_index, i))
                                    at += W
                                    i += W
                            for n in range(b * W, b * W + W):
                                g = layout.root_group[n]
                                head[n] = NONE
                                if g != NONE:
                                    head[n] = layout.groups[g, ITEMS]
                                    e = layout.lane_item[head[n]]
                                    if e == NONE or used[e]:
                                        advance(g, n, layout, used, head, numbers, own + n - b * W)
                        if size == U1:
                            m, q, upper = one_topic(index, layout.root_index, numbers, own, belief)
                        elif size == U2:
                            m, q, upper = two_topics(index, layout.root_index, numbers, own, belief)
                        elif size == U3:
                            m, q, upper = three_topics(index, layout.root_index, numbers, own, belief)
                        elif size == U4:
                            m, q, upper = four_topics(index, layout.root_index, numbers, own, belief)
                        else:
                            m, q, upper = many_topics(size, index, layout.root_index, numbers, own, belief, x, y)
                        # No index on a ray is above mean + width·sqrt(square), after rounding.
                        mean, square = m + error_m, positive(q) + error_q
                        hope = hopeful(mean, square, best, width * width * (1.0 + slack))
                        if hope:
                            store(values, U0, fused(root(positive(q)), width, m))
                            store(limits, U0, mean + root(square) * width)
                        while hope:
                            n = lowest(hope)
                            hope &= hope - U1
                            here = head[b * W + n]
                            if limits[n] < best or here == NONE:
                                continue
                            score, item = min(cap, values[n]), layout.lane_item[here]
                            row = layout.groups[layout.root_group[b * W + n]]
                            stop = np.uint64(row[ITEMS]) + np.uint64(row[COUNT])
                            step = layout.pool[np.uint64(row[WEIGHTS]) + np.uint64(here) - stop]
                            if step > 0.0 and limits[n] * step >= score:
                                score, item = along_ray(here, stop, items, layout.lane_item, used, belief, x)
                            if score > best or (score == best and item < best_item):
                                if best_block != b:
                                    second, second_block = best, best_block
                                best, best_item, best_block = score, item, b
                            elif score > second and best_block != b:
                                second, second_block = score, b
                        if best_block != b:
                            store(bound, b * W, upper * belief.rough + error_m)
                    else:
                        upper = corner_bounds(size, index, high, layout, belief, x, y)
                        store(bound, b * W, upper)
                        seen_at[b] = k
                        if not reaches(upper, best):
                            seen[b] = largest(upper)
                        else:
                            store(limits, U0, upper)
                            seen[b] = -inf
                            for n in range(W):
                                g = layout.root_group[b * W + n]
                                if g == NONE:
                                    continue
                                limit = limits[n]
                                if limit >= best and known_at[g] >= 0 and not layout.masks[g] & covered[known_at[g]]:
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
                                prefetch(layout.boxes, np.uint64(layout.groups[g, BOXES]))
                if turn >= 0 and b < B:
                    continue
                # Trees are looked into after all blocks, when what they need has come from memory; the leader's first.
                for n in range(waiting):
                    g = waiting_group[n]
                    b = np.uint64(layout.root_seat[g]) // W
                    if waiting_limit[n] < best:
                        seen[b] = max(seen[b], waiting_limit[n])
                        continue
                    score, item, rest = look_into(g, waiting_limit[n], best, layout, used, belief, desk)
                    known[g], known_at[g] = max(score, rest), k
                    known_item[g] = item if score > rest else NONE
                    seen[b] = max(seen[b], known[g])
                    if item != NONE and (score > best or (score == best and item < best_item)):
                        if best_block != b:
                            second, second_block = best, best_block
                        best, best_item, best_block = score, item, b
                waiting = 0
            if best < 2.0 * TINY:
                best, best_item = scan(items, layout.item_group, used, belief, x)
            leader = second_block if second_block < B else leader
            out[user, k] = best_item
            used[best_item] = True
            g = layout.item_group[best_item]
            known_at[g] = -1
            n = np.uint64(layout.root_seat[g])
            seen_at[n // W] = -1
            if layout.groups[g, KIND] == RAY and ready[n // W] and head[n] != NONE:
                if layout.lane_item[head[n]] == best_item:
                    at = np.uint64(layout.blocks[n // W, BLOCK_NUMBERS]) + n % W
                    advance(g, n, layout, used, head, numbers, at)
            if kind != FIXED:
                for i in range(k + 1):
                    covered[i] |= layout.masks[g]
                for a in range(items.begin[best_item], items.end[best_item]):
                    j = items.topics[a]
                    state[j] = cover(kind, items.weights[a], state[j])
        for k in range(K):
            used[out[user, k]] = False
        for n in range(skip_start[own_skip], skip_start[own_skip + 1]):
            used[skip[n]] = False


@kernel
def greedy_among(kind, items, among, among_start, estimate, inverse, alpha, cap, out):
    """The same lists, with user u choosing from among[among_start[u]:among_start[u + 1]] alone; see :func:`greedy`.

    The bound x·θ̄⁺ + α·sqrt(xᵀ(M⁻¹)⁺x) of each candidate holds at all later positions, and an index stays while none of
    its topics is shown. Cost a user: O(n·(s² + K)) for n candidates with s topics each, at most; no more than that of n
    is kept.
    """
    users, K = out.shape
    d = estimate.shape[1]
    slack = 8.0 * (d + 8.0) * EPSILON
    state, x = np.empty(d), np.empty(d)
    longest = 0
    for own in range(among_start.size - 1):
        longest = max(longest, among_start[own + 1] - among_start[own])
    bound, found, found_at = np.empty(longest), np.empty(longest), np.empty(longest, dtype=np.int64)
    masks, covered = np.empty(longest, dtype=np.int64), np.empty(K, dtype=np.int64)
    for user in range(users):
        own = user if among_start.size > 2 else 0
        first, size = among_start[own], among_start[own + 1] - among_start[own]
        theta, width = estimate[user], alpha[user]
        minv = inverse[user if width != 0.0 else 0]
        state[:] = empty(kind)
        for n in range(size):
            bound[n] = inf
            found_at[n] = -1
            masks[n] = 0
            for a in range(items.begin[among[first + n]], items.end[among[first + n]]):
                masks[n] |= np.int64(1) << np.int64(items.topics[a] % 63)
        for k in range(K):
            covered[k] = 0
            best, best_at = -inf, -1
            for n in range(size):
                if bound[n] < best:
                    continue
                if found_at[n] < 0 or masks[n] & covered[found_at[n]]:
                    e = among[first + n]
                    m, q, p, P = terms(
                        kind, items.begin[e], items.end[e], items.topics, items.weights, state, theta, minv,
                        width != 0.0, x,
                    )  # fmt: skip
                    found[n], found_at[n] = min(cap, value(m, q, width)), k
                    bound[n] = (p + width * sqrt(P)) * (1.0 + slack) + TINY
                # Candidates ascend, so ties stay with the lowest. An index may be -inf, if θ̄ is that large.
                if found[n] > best or (best_at < 0 and bound[n] > -inf):
                    best, best_at = found[n], n
            e = among[first + best_at]
            out[user, k] = e
            bound[best_at] = found[best_at] = -inf
            found_at[best_at], masks[best_at] = k, 0
            if kind != FIXED:
                for i in range(k + 1):
                    for a in range(items.begin[e], items.end[e]):
                        covered[i] |= np.int64(1) << np.int64(items.topics[a] % 63)
                for a in range(items.begin[e], items.end[e]):
                    state[items.topics[a]] = cover(kind, items.weights[a], state[items.topics[a]])
