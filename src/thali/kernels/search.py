"""Exact greedy lists: the argmax over all items at each position, without looking at all items.

Groups of items with the same topics (:mod:`thali.groups`) sit eight to a block, and blocks are visited, eight lanes at
once. Four facts, none an approximation:

- A bound that holds at all later positions (:mod:`thali.kernels.bounds`) is kept for each group, and made tighter when
  a visit finds nothing: a block is visited while one of its bounds is as good as the best index.
- An index changes only where coverage has changed: a much tighter bound, the index of a group's best item where it is
  known, holds until one of its topics is shown.
- On a ray of parallel items the index is proportional to the scale: while it is positive, the largest item decides
  (:mod:`thali.kernels.rays`).
- The boxes of a tree lie within one another, so that most of its items are never seen (:mod:`thali.kernels.trees`).

A bound prunes only when it is below the best index by more than rounding; what survives is compared by its index, ties
to the lowest item. Where no index is above 0, all items are scored: larger is then no longer better.
"""

from math import inf, sqrt

import numpy as np

from thali.kernels.bounds import EPSILON, TINY, U0, U1, U2, Belief, W, worths
from thali.kernels.index import FIXED, MAX, cover, empty, terms, value
from thali.kernels.jit import inlined, kernel
from thali.kernels.lanes import gather, largest, load, prefetch, reaches, spread, store, where_any
from thali.kernels.layout import (
    BLOCK_HIGH,
    BLOCK_INDEX,
    BLOCK_KIND,
    BLOCK_NUMBERS,
    BLOCK_SIZE,
    FEW,
    ITEMS,
    KIND,
    NONE,
    RAY,
    bit_of,
    block_numbers,
)
from thali.kernels.rays import advance, visit_rays
from thali.kernels.sheet import Race, index_of, new_desk, new_sheet
from thali.kernels.trees import look_into_waiting, visit_trees


@kernel
def greedy(kind, items, layout, used, skip, skip_start, estimate, inverse, alpha, cap, out):
    """Greedy lists for a batch of users: Algorithm 1, lines 5-11; Eq. greedy maximization where alpha is 0.

    estimate (users, d), inverse (users, d, d) or (1, d, d) for all, alpha (users,), out (users, K). An index
    is min(cap, index). used (L,), all False before and after. What a user must not be shown: skip[skip_start[u]:
    skip_start[u + 1]]; where skip_start is (2,), the same for all.

    Cost a user: O(d²), O(s) for each group of s topics, O(s²) for each block of 8 groups visited, and for each 8 boxes
    or items of a tree looked at; O(L·s²) at a position where no index is above 0.
    """
    users, K = out.shape
    d, B = np.uint64(estimate.shape[1]), np.uint64(len(layout.blocks))
    slack = 8.0 * (d + 8.0) * EPSILON
    # Rough roots are right to 1e-5; and where xᵀM⁻¹x cancels, its root is off by the root of what rounding adds.
    rough = 1.0 + 2e-5 + 4.0 * sqrt(slack)
    length, crowded = U0, False
    for b in range(B):
        size = np.uint64(layout.blocks[b, BLOCK_SIZE])
        crowded |= size > FEW
        if layout.blocks[b, BLOCK_KIND] == RAY:
            length = np.uint64(layout.blocks[b, BLOCK_NUMBERS]) + np.uint64(block_numbers(RAY, size))
    # What head and passed of a sheet are before a list.
    first, gone = np.empty(B * W, dtype=np.uint32), np.zeros(B, dtype=np.bool_)
    for n in range(B * W):
        g, first[n] = layout.root_group[n], NONE
        if g != NONE and layout.groups[g, KIND] == RAY:
            first[n] = layout.groups[g, ITEMS]
            gone[n // W] |= layout.lane_item[first[n]] == NONE
    state, worth, majorants = np.empty(d), np.empty(d), np.empty(d)
    sheet, desk = new_sheet(B, length), new_desk(d)
    everyone = inverse.ravel()
    for user in range(users):
        width = alpha[user]
        minv = inverse[user % len(inverse)]
        flat, theta = minv.ravel(), estimate[user]
        error_m, error_q = worths(theta, flat, width, slack, desk.x, worth)
        for j in range(d):
            state[j] = 0.0 if kind == MAX else 1.0
            if crowded:
                majorants[j] = 0.0
                for i in range(d):
                    majorants[j] += max(0.0, minv[i, j])
        belief = Belief(kind, state, theta, minv, flat, width, cap, majorants, rough, error_m, error_q)
        own = user if skip_start.size > 2 else 0
        start, stop = skip_start[own], skip_start[own + 1]
        leader = begin(first, gone, skip, start, stop, worth, slack, layout, used, belief, sheet)
        near = np.uint64(min(user + 1, len(inverse))) * d * d
        far = min(near + d * d, np.uint64(everyone.size))
        fill_list(leader, items, layout, used, belief, sheet, desk, everyone, near, far, out[user])
        for k in range(K):
            used[out[user, k]] = False
        for n in range(start, stop):
            used[skip[n]] = False


@inlined
def begin(first, gone, skip, start, stop, worth, slack, layout, used, belief, sheet):
    """Writes the sheet of a user who must not be shown skip[start:stop]. Returns the block of the best bound."""
    B = np.uint64(len(layout.blocks))
    for n in range(B * W):
        sheet.head[n], sheet.best_item[n] = first[n], NONE
    for b in range(B):
        sheet.passed[b], sheet.ready[b] = gone[b], False
    for n in range(start, stop):
        used[skip[n]] = True
        g = layout.item_group[skip[n]]
        if g != NONE:
            sheet.passed[np.uint64(layout.root_seat[g]) // W] = True
    leader, most = U0, -inf
    for b in range(B):
        size, index = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_INDEX])
        high = np.uint64(layout.blocks[b, BLOCK_HIGH])
        upper = spread(0.0)
        for a in range(size):
            upper = upper + load(layout.root_high, high + a * W) * gather(worth, layout.root_index, index)
            index += W * (a + U2)
        upper = upper * (1.0 + slack) + TINY * max(1.0, belief.alpha)
        store(sheet.bound, b * W, upper)
        store(sheet.now, b * W, upper)
        if reaches(upper, most):
            leader, most = b, largest(upper)
    return leader


@inlined
def fill_list(leader, items, layout, used, belief, sheet, desk, others, start, stop, out):
    """One user's list into out (K,); meanwhile others[start:stop], what is needed for the next, is brought near."""
    part = (stop - start) // np.uint64(out.size) + U1
    for k in range(out.size):
        for i in range(start, min(start + part, stop), W):
            prefetch(others, i)
        start += part
        race = best_of(leader, items, layout, used, belief, sheet, desk)
        item = race.item
        if race.best < 2.0 * TINY:
            item = scan(items, layout.item_group, used, belief, desk.x)
        if race.second > -inf:
            leader = race.second_block
        out[k] = item
        show(item, items, layout, used, belief, sheet)


@inlined
def best_of(leader, items, layout, used, belief, sheet, desk):
    """The race of one position: first the block that leads, then all others that may be better."""
    B = np.uint64(len(layout.blocks))
    race = Race(-inf, NONE, B, -inf, B)
    sheet.todo[0], count = leader, U1
    for others in range(2):
        if others:
            count = U0
            for b in range(B):
                sheet.todo[count] = b
                count += np.uint64(reaches(load(sheet.now, b * W), race.best) & (b != leader))
        waiting = U0
        for i in range(count):
            b = sheet.todo[i]
            if others and not reaches(load(sheet.now, b * W), race.best):
                continue
            if layout.blocks[b, BLOCK_KIND] == RAY:
                race = visit_rays(b, race, items, layout, used, belief, sheet, desk)
            else:
                race, waiting = visit_trees(b, race, waiting, layout, belief, sheet, desk)
        race = look_into_waiting(waiting, race, layout, used, belief, sheet, desk)
    return race


@inlined
def show(item, items, layout, used, belief, sheet):
    """Puts an item on the list: covers its topics, and forgets what held while they were not shown."""
    used[item] = True
    g = layout.item_group[item]
    n = np.uint64(layout.root_seat[g])
    if belief.kind != FIXED:
        for b in range(np.uint64(len(layout.blocks))):
            later, now = load(sheet.bound, b * W), load(sheet.now, b * W)
            store(sheet.now, b * W, where_any(layout.seat_masks, b * W, layout.seat_masks[n], later, now))
        for a in range(items.begin[item], items.end[item]):
            j = items.topics[a]
            belief.state[j] = cover(belief.kind, items.weights[a], belief.state[j])
    sheet.now[n], sheet.best_item[n] = sheet.bound[n], NONE
    if not sheet.ready[n // W]:  # a tree; rays were visited, unless indices are not numbers
        sheet.passed[n // W] = True
    elif sheet.head[n] != NONE and layout.lane_item[sheet.head[n]] == item:
        advance(n, layout, used, sheet)


@kernel
def scan(items, item_group, used, belief, x):
    """The best item by looking at all of them: the plain loop."""
    best, best_item = -inf, NONE
    for e in range(item_group.size):
        if item_group[e] != NONE and not used[e]:
            score = index_of(e, items, belief, x)
            if score > best or best_item == NONE:
                best, best_item = score, np.uint32(e)
    return best_item


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
        minv = inverse[user % len(inverse)]
        state[:] = empty(kind)
        for n in range(size):
            bound[n] = inf
            found_at[n] = -1
            masks[n] = 0
            for a in range(items.begin[among[first + n]], items.end[among[first + n]]):
                masks[n] |= bit_of(items.topics[a])
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
                        covered[i] |= bit_of(items.topics[a])
                for a in range(items.begin[e], items.end[e]):
                    state[items.topics[a]] = cover(kind, items.weights[a], state[items.topics[a]])
