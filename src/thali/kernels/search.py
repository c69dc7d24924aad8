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
from typing import Any, NamedTuple

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
    largest,
    load,
    lowest,
    positive,
    prefetch,
    reaches,
    reaching,
    root,
    rough_roots,
    smaller,
    spread,
    store,
    where_any,
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
    return best_item


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


class Race(NamedTuple):
    """The best item at a position so far, and its block; and the best of another block, which will lead the next."""

    best: Any
    item: Any
    block: Any
    second: Any
    second_block: Any


@inlined
def enter(race, score, item, block):
    """The race after one more item; of equals, the lowest wins."""
    if score > race.best or (score == race.best and item < race.item):
        if block == race.block:
            return Race(score, item, block, race.second, race.second_block)
        return Race(score, item, block, race.best, race.block)
    if score > race.second and block != race.block:
        return Race(race.best, race.item, race.block, score, block)
    return race


class Sheet(NamedTuple):
    """What is known of each seat and block at this position of a user's list. Arrays are made once for a batch."""

    bound: Any
    """(B·8,): of any index in the group, now and later."""
    now: Any
    """(B·8,): the same, while no topic of the group is shown; or the index of its best item."""
    best_item: Any
    """(B·8,): of a tree, the item whose index is now; NONE if unknown. It holds while now is below bound."""
    head: Any
    """(B·8,): where the first unused item of a ray is, in lane_item."""
    ready: Any
    """(B,): whether numbers of a block of rays are those of this user."""
    passed: Any
    """(B,): whether the first item of some ray there may be used or gone."""
    numbers: Any
    """Of rays, for each topic of the lanes: weights, θ̄, and entries of M⁻¹."""
    todo: Any
    """Blocks to visit."""
    waiting: Any
    """Seats of trees to look into."""
    limits: Any
    """(8,)."""


@kernel
def new_sheet(B, length):
    """A sheet for so many blocks, and numbers."""
    seats = B * W
    return Sheet(
        aligned(seats), aligned(seats), np.empty(seats, dtype=np.uint32), np.empty(seats, dtype=np.uint32),
        np.empty(B, dtype=np.bool_), np.empty(B, dtype=np.bool_), aligned(length), np.empty(B + U1, dtype=np.uint64),
        np.empty(seats, dtype=np.uint64), aligned(W),
    )  # fmt: skip


@inlined
def advance(n, layout, used, sheet):
    """Moves the head of the ray in seat n on to its next unused item, and its lane of numbers with it."""
    row = layout.groups[layout.root_group[n]]
    first, size = np.uint64(row[ITEMS]), np.uint64(row[SIZE])
    stop, here = first + np.uint64(row[COUNT]), np.uint64(sheet.head[n])
    while here < stop and (layout.lane_item[here] == NONE or used[layout.lane_item[here]]):
        here += U1
    sheet.head[n] = np.uint32(here) if here < stop else NONE
    at = np.uint64(layout.blocks[n // W, BLOCK_NUMBERS]) + n % W
    for a in range(size):
        sheet.numbers[at] = layout.pool[np.uint64(row[WEIGHTS]) + (here - first) * size + a] if here < stop else 0.0
        at += W * (a + U3)


@inlined
def make_ready(b, layout, used, belief, sheet):
    """Collects the numbers of a block of rays."""
    size, i = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_INDEX])
    at, high = np.uint64(layout.blocks[b, BLOCK_NUMBERS]), np.uint64(layout.blocks[b, BLOCK_HIGH])
    for a in range(size):
        store(sheet.numbers, at, load(layout.root_high, high + a * W))
        store(sheet.numbers, at + W, gather(belief.theta, layout.root_index, i))
        at += U2 * W
        i += W
        for _ in range(a + U1):
            store(sheet.numbers, at, gather(belief.flat, layout.root_index, i))
            at += W
            i += W
    if sheet.passed[b]:
        for n in range(b * W, b * W + W):
            if sheet.head[n] != NONE:
                e = layout.lane_item[sheet.head[n]]
                if e == NONE or used[e]:
                    advance(n, layout, used, sheet)
    sheet.ready[b] = True


@inlined
def visit_rays(b, race, items, layout, used, belief, sheet, desk):
    """The race after the items of a block of rays; new bounds for them. O(s²)."""
    if not sheet.ready[b]:
        make_ready(b, layout, used, belief, sheet)
    size, index = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_INDEX])
    at = np.uint64(layout.blocks[b, BLOCK_NUMBERS])
    if size == U1:
        m, q, upper = one_topic(index, layout.root_index, sheet.numbers, at, belief)
    elif size == U2:
        m, q, upper = two_topics(index, layout.root_index, sheet.numbers, at, belief)
    elif size == U3:
        m, q, upper = three_topics(index, layout.root_index, sheet.numbers, at, belief)
    elif size == U4:
        m, q, upper = four_topics(index, layout.root_index, sheet.numbers, at, belief)
    else:
        m, q, upper = many_topics(size, index, layout.root_index, sheet.numbers, at, belief, desk.x, desk.y)
    # No index on a ray is above that of its first unused item, after rounding, if that is above 0.
    width, _ = rough_roots(positive(q) + belief.error_q)
    limit = m + belief.error_m + width * (belief.alpha * belief.rough)
    upper = upper * belief.rough + belief.error_m
    store(sheet.bound, b * W, upper)
    store(sheet.now, b * W, smaller(limit, upper))
    hope = reaching(limit, race.best)
    if hope:
        store(desk.values, U0, fused(root(positive(q)), belief.alpha, m))
        store(sheet.limits, U0, limit)
    while hope:
        n = lowest(hope)
        hope &= hope - U1
        here = sheet.head[b * W + n]
        if here == NONE:
            continue
        score, item = min(belief.cap, desk.values[n]), layout.lane_item[here]
        row = layout.groups[layout.root_group[b * W + n]]
        stop = np.uint64(row[ITEMS]) + np.uint64(row[COUNT])
        step = layout.pool[np.uint64(row[WEIGHTS]) + np.uint64(here) - stop]
        if step > 0.0 and sheet.limits[n] * step >= score:
            score, item = along_ray(here, stop, items, layout.lane_item, used, belief, desk.x)
        race = enter(race, score, item, b)
    return race


@inlined
def visit_trees(b, race, waiting, layout, belief, sheet, desk):
    """The race after the trees of a block whose best item is known; new bounds; those to look into are put among the
    waiting, whose number is returned too. O(s²).
    """
    size, index = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_INDEX])
    upper = corner_bounds(size, index, np.uint64(layout.blocks[b, BLOCK_HIGH]), layout, belief, desk.x, desk.y)
    upper = smaller(upper, load(sheet.bound, b * W))  # so that now stays below bound only where it was before
    store(sheet.bound, b * W, upper)
    upper = smaller(upper, load(sheet.now, b * W))
    store(sheet.now, b * W, upper)
    hope = reaching(upper, race.best)
    while hope:
        n = b * W + lowest(hope)
        hope &= hope - U1
        if layout.root_group[n] == NONE:
            continue
        if sheet.best_item[n] != NONE and sheet.now[n] < sheet.bound[n]:
            race = enter(race, sheet.now[n], sheet.best_item[n], b)
        else:
            sheet.waiting[waiting] = n
            waiting += U1
            prefetch(layout.boxes, np.uint64(layout.groups[layout.root_group[n], BOXES]))
    return race, waiting


@inlined
def look_into_waiting(waiting, race, layout, used, belief, sheet, desk):
    """The race after the trees that wait: after all blocks, when what they need has come from memory."""
    for i in range(waiting):
        n = sheet.waiting[i]
        if sheet.now[n] >= race.best:
            score, item, rest = look_into(layout.root_group[n], sheet.now[n], race.best, layout, used, belief, desk)
            sheet.best_item[n] = item if score > rest else NONE
            sheet.now[n] = score if score > rest else min(sheet.now[n], rest)
            if item != NONE:
                race = enter(race, score, item, n // W)
    return race


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
            store(sheet.now, b * W, where_any(layout.seat_masks, b * W, layout.masks[g], later, now))
        for a in range(items.begin[item], items.end[item]):
            j = items.topics[a]
            belief.state[j] = cover(belief.kind, items.weights[a], belief.state[j])
    sheet.now[n], sheet.best_item[n] = sheet.bound[n], NONE
    if not sheet.ready[n // W]:
        sheet.passed[n // W] = True
    elif sheet.head[n] != NONE and layout.lane_item[sheet.head[n]] == item:
        advance(n, layout, used, sheet)


@inlined
def fill_list(leader, items, layout, used, belief, sheet, desk, out):
    """One user's list into out (K,)."""
    for k in range(out.size):
        race = best_of(leader, items, layout, used, belief, sheet, desk)
        item = race.item
        if race.best < 2.0 * TINY:
            item = scan(items, layout.item_group, used, belief, desk.x)
        if race.second > -inf:
            leader = race.second_block
        out[k] = item
        show(item, items, layout, used, belief, sheet)


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
    first, gone = (
        np.empty(B * W, dtype=np.uint32),
        np.zeros(B, dtype=np.bool_),
    )  # head and passed, at first
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
        minv = inverse[user if width != 0.0 else 0]
        flat, theta = minv.ravel(), estimate[user]
        if user + 1 < len(inverse):  # the next user's will be there when it is their turn
            for i in range(U0, d * d, W):
                prefetch(everyone, np.uint64(user + 1) * d * d + i)
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
        fill_list(leader, items, layout, used, belief, sheet, desk, out[user])
        for k in range(K):
            used[out[user, k]] = False
        for n in range(start, stop):
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
