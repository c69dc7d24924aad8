"""Exact greedy lists: the argmax over all items at each position, without looking at all items.

Groups of items with the same topics (``engine/index.py``) sit eight to a block, and blocks are visited, eight lanes at
once. Four facts make that fast; none of them is an approximation:

- A bound that holds at all later positions (``bounds.py``) is kept for each group, and made tighter when a visit finds
  nothing: a block is visited while one of its bounds is as good as the best index.
- An index changes only where coverage has changed: a much tighter bound, the index of a group's best item where it is
  known, holds until one of its topics is shown.
- On a ray of parallel items the index is proportional to the scale: while it is positive, the largest item decides
  (``rays.py``).
- The boxes of a tree lie within one another, so that most of its items are never seen (``trees.py``).

A bound prunes only when it is below the best index by more than rounding; what survives is compared by its index, ties
to the lowest item. Where no index is above 0, all items are scored: larger is then no longer better.
"""

from math import inf, sqrt

import numpy as np

from thali.catalog.coverage import FIXED, MAX, cover
from thali.lists.engine.bounds import EPSILON, TINY, U0, U1, U2, Belief, W, worths
from thali.lists.engine.layout import (
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
    block_numbers,
)
from thali.lists.engine.rays import advance, visit_rays
from thali.lists.engine.scratch import Best, index_of, new_known, new_scratch
from thali.lists.engine.trees import look_into_waiting, visit_trees
from thali.tools.jit import inlined, kernel
from thali.tools.lanes import gather, largest, load, prefetch, reaches, spread, store, where_any


@kernel
def greedy(kind, items, layout, used, skip, skip_start, estimate, inverse, alpha, cap, out):
    """Greedy lists for a batch of users: Algorithm 1, lines 5-11. The same lists as :func:`thali.lists.plain.greedy`.

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
    # What head and passed are before a list.
    first, gone = np.empty(B * W, dtype=np.uint32), np.zeros(B, dtype=np.bool_)
    for n in range(B * W):
        g, first[n] = layout.root_group[n], NONE
        if g != NONE and layout.groups[g, KIND] == RAY:
            first[n] = layout.groups[g, ITEMS]
            gone[n // W] |= layout.lane_item[first[n]] == NONE
    state, worth, majorants = np.empty(d), np.empty(d), np.empty(d)
    known, scratch = new_known(B, length), new_scratch(d)
    everyone = inverse.ravel()
    for user in range(users):
        width = alpha[user]
        minv = inverse[user % len(inverse)]
        flat, theta = minv.ravel(), estimate[user]
        error_m, error_q = worths(theta, flat, width, slack, scratch.x, worth)
        for j in range(d):
            state[j] = 0.0 if kind == MAX else 1.0
            if crowded:
                majorants[j] = 0.0
                for i in range(d):
                    majorants[j] += max(0.0, minv[i, j])
        belief = Belief(kind, state, theta, minv, flat, width, cap, majorants, rough, error_m, error_q)
        own = user if skip_start.size > 2 else 0
        start, stop = skip_start[own], skip_start[own + 1]
        leader = begin(first, gone, skip, start, stop, worth, slack, layout, used, belief, known)
        near = np.uint64(min(user + 1, len(inverse))) * d * d
        far = min(near + d * d, np.uint64(everyone.size))
        fill_list(leader, items, layout, used, belief, known, scratch, everyone, near, far, out[user])
        for k in range(K):
            used[out[user, k]] = False
        for n in range(start, stop):
            used[skip[n]] = False


@inlined
def begin(first, gone, skip, start, stop, worth, slack, layout, used, belief, known):
    """Reset what is known, for a user who must not be shown skip[start:stop]. Returns the block of the best bound."""
    B = np.uint64(len(layout.blocks))
    for n in range(B * W):
        known.head[n], known.best_item[n] = first[n], NONE
    for b in range(B):
        known.passed[b], known.ready[b] = gone[b], False
    for n in range(start, stop):
        used[skip[n]] = True
        g = layout.item_group[skip[n]]
        if g != NONE:
            known.passed[np.uint64(layout.root_seat[g]) // W] = True
    leader, most = U0, -inf
    for b in range(B):
        size, index = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_INDEX])
        high = np.uint64(layout.blocks[b, BLOCK_HIGH])
        upper = spread(0.0)
        for a in range(size):
            upper = upper + load(layout.root_high, high + a * W) * gather(worth, layout.root_index, index)
            index += W * (a + U2)
        upper = upper * (1.0 + slack) + TINY * max(1.0, belief.alpha)
        store(known.bound, b * W, upper)
        store(known.now, b * W, upper)
        if reaches(upper, most):
            leader, most = b, largest(upper)
    return leader


@inlined
def fill_list(leader, items, layout, used, belief, known, scratch, others, start, stop, out):
    """One user's list into out (K,). Meanwhile others[start:stop], which the next user needs, is prefetched."""
    part = (stop - start) // np.uint64(out.size) + U1
    for k in range(out.size):
        for i in range(start, min(start + part, stop), W):
            prefetch(others, i)
        start += part
        best = best_of(leader, items, layout, used, belief, known, scratch)
        item = best.item
        if best.index < 2.0 * TINY:
            item = scan(items, layout.item_group, used, belief, scratch.x)
        if best.second > -inf:
            leader = best.second_block
        out[k] = item
        show(item, items, layout, used, belief, known)


@inlined
def best_of(leader, items, layout, used, belief, known, scratch):
    """The best item at one position: first the leading block, then all others that may hold a better one."""
    B = np.uint64(len(layout.blocks))
    best = Best(-inf, NONE, B, -inf, B)
    known.todo[0], count = leader, U1
    for others in range(2):
        if others:
            count = U0
            for b in range(B):
                known.todo[count] = b
                count += np.uint64(reaches(load(known.now, b * W), best.index) & (b != leader))
        waiting = U0
        for i in range(count):
            b = known.todo[i]
            if others and not reaches(load(known.now, b * W), best.index):
                continue
            if layout.blocks[b, BLOCK_KIND] == RAY:
                best = visit_rays(b, best, items, layout, used, belief, known, scratch)
            else:
                best, waiting = visit_trees(b, best, waiting, layout, belief, known, scratch)
        best = look_into_waiting(waiting, best, layout, used, belief, known, scratch)
    return best


@inlined
def show(item, items, layout, used, belief, known):
    """Put an item on the list: cover its topics, and drop the bounds that held while they were not shown."""
    used[item] = True
    g = layout.item_group[item]
    n = np.uint64(layout.root_seat[g])
    if belief.kind != FIXED:
        for b in range(np.uint64(len(layout.blocks))):
            later, now = load(known.bound, b * W), load(known.now, b * W)
            store(known.now, b * W, where_any(layout.seat_masks, b * W, layout.seat_masks[n], later, now))
        for a in range(items.begin[item], items.end[item]):
            j = items.topics[a]
            belief.state[j] = cover(belief.kind, items.weights[a], belief.state[j])
    known.now[n], known.best_item[n] = known.bound[n], NONE
    if not known.ready[n // W]:  # a tree; rays were visited, unless indices are not numbers
        known.passed[n // W] = True
    elif known.head[n] != NONE and layout.lane_item[known.head[n]] == item:
        advance(n, layout, used, known)


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
