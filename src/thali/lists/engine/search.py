"""Exact greedy lists: the best item at each position, found without scoring all items.

Groups of items with the same topics (``engine/index.py``) are arranged in blocks of eight. The search visits blocks,
and bounds or scores the eight groups of a block at once. Five facts make it fast. None of them is an approximation:

- Each group has a bound that is valid at all later positions (``bounds.py``). Each visit makes this bound tighter. A
  block needs a visit only if one of its bounds reaches the best index found so far.
- The index of an item changes only if the coverage of one of its topics changes. So a much tighter bound, such as the
  index of the group's best item, is valid until an item with one of the group's topics is shown. Steady topics do not
  count here, because their gains never change.
- On a ray of parallel items, the index is proportional to the scale of the item. As long as the index is positive, the
  largest unused item is the best one (``rays.py``).
- The boxes of a tree are nested, so the search never looks at most of its items (``trees.py``).
- In a fan, two numbers describe each item, so that its index is bounded by a few operations (``fans.py``).

Every bound includes slack for rounding. Items that are not ruled out by a bound are compared by their exact index, and
ties go to the lowest item number. If no index is positive, all items are scored, because then the largest item of a ray
is no longer the best one.
"""

from math import inf, sqrt

import numpy as np

from thali.catalog.coverage import FIXED, MAX, cover_item
from thali.lists.engine.bounds import EPSILON, TINY, U0, U1, U2, Belief, W, topic_bounds
from thali.lists.engine.fans import visit_fans
from thali.lists.engine.layout import (
    BLOCK_CORNERS,
    BLOCK_GATHER,
    BLOCK_KIND,
    BLOCK_OPERANDS,
    BLOCK_SIZE,
    FAN,
    FEW_TOPICS,
    ITEMS,
    KIND,
    NONE,
    RAY,
    TREE,
    block_operands,
)
from thali.lists.engine.rays import advance, visit_rays
from thali.lists.engine.scratch import Best, index_of, new_known, new_scratch
from thali.lists.engine.trees import visit_trees
from thali.tools.jit import called, inlined, kernel
from thali.tools.lanes import gather, largest, load, reaches, spread, store, where_any


@kernel
def greedy(kind, items, layout, used, skip, skip_start, estimate, inverse, alpha, cap, out):
    """Write greedy lists for a batch of users to out (users, K), as :func:`thali.lists.plain.greedy` does.

    This is Algorithm 1, lines 5-11. estimate (users, d). inverse (users, d, d), or (1, d, d) if all users share one.
    alpha (users,). Indices above cap are replaced by cap. used (L,) is scratch space; all its entries are False before
    and after. skip[skip_start[u]:skip_start[u + 1]] are the items that user u must not be shown. If skip_start has
    shape (2,), they are the same for all users.

    Cost for each user: O(d²), O(s) for each group of s topics, O(s²) for each block of 8 groups that is visited, and
    O(s²) for each 8 boxes or items of a tree that are examined. At a position where no index is positive: O(L·s²).
    """
    users, K = out.shape
    d, B = np.uint64(estimate.shape[1]), np.uint64(len(layout.blocks))
    slack = 8.0 * (d + 8.0) * EPSILON
    # rough_roots() is accurate to 1e-5. If terms of xᵀM⁻¹x cancel, its root is off by the root of the rounding error.
    rough_factor = 1.0 + 2e-5 + 4.0 * sqrt(slack)
    operand_length, many = U0, False
    for b in range(B):
        size = np.uint64(layout.blocks[b, BLOCK_SIZE])
        many |= size > FEW_TOPICS
        if layout.blocks[b, BLOCK_KIND] != TREE:
            operand_length = np.uint64(layout.blocks[b, BLOCK_OPERANDS]) + np.uint64(block_operands(RAY, size))
    # The values of known.head and known.heads_used at the start of a list.
    first_head, head_removed = np.empty(B * W, dtype=np.uint32), np.zeros(B, dtype=np.bool_)
    for n in range(B * W):
        g, first_head[n] = layout.seat_group[n], NONE
        if g != NONE and layout.groups[g, KIND] == RAY:
            first_head[n] = layout.groups[g, ITEMS]
            head_removed[n // W] |= layout.slot_item[first_head[n]] == NONE
    state, by_topic, majorants = np.empty(d), np.empty(d), np.empty(d)
    known, scratch = new_known(B, operand_length), new_scratch(d)
    for user in range(users):
        user_alpha = alpha[user]
        minv = inverse[user % len(inverse)]
        minv_flat, theta = minv.ravel(), estimate[user]
        mean_error, variance_error = topic_bounds(theta, minv_flat, user_alpha, slack, scratch.x, by_topic)
        for j in range(d):
            state[j] = 0.0 if kind == MAX else 1.0
            if many:
                majorants[j] = 0.0
                for i in range(d):
                    majorants[j] += max(0.0, minv[i, j])
        belief = Belief(
            kind, state, theta, minv, minv_flat, user_alpha, cap, majorants, rough_factor, mean_error, variance_error
        )
        set_number = user if skip_start.size > 2 else 0
        start, stop = skip_start[set_number], skip_start[set_number + 1]
        first_block = begin(first_head, head_removed, skip, start, stop, by_topic, slack, layout, used, belief, known)
        for k in range(K):
            # Visit first_block, then all other blocks that may have a better item.
            best = Best(-inf, NONE)
            known.to_visit[0], count = first_block, U1
            for second_pass in range(2):
                if second_pass:
                    count = U0
                    for b in range(B):
                        known.to_visit[count] = b
                        count += np.uint64(reaches(load(known.current_bound, b * W), best.index) & (b != first_block))
                for i in range(count):
                    b = known.to_visit[i]
                    if second_pass and not reaches(load(known.current_bound, b * W), best.index):
                        continue
                    if layout.blocks[b, BLOCK_KIND] == RAY:
                        best = visit_rays(b, best, items, layout, used, belief, known, scratch)
                    elif layout.blocks[b, BLOCK_KIND] == FAN:
                        best = visit_fans(b, best, items, layout, used, belief, known, scratch)
                    else:
                        best = visit_trees(b, best, layout, used, belief, known, scratch)
            item = best.item
            if best.index < 2.0 * TINY:
                item = scan(items, layout.item_group, used, belief, scratch.x)
            out[user, k] = item
            show(item, items, layout, used, belief, known)
        for k in range(K):
            used[out[user, k]] = False
        for n in range(start, stop):
            used[skip[n]] = False


@inlined
def begin(first_head, head_removed, skip, start, stop, by_topic, slack, layout, used, belief, known):
    """Reset ``known`` for a user who must not be shown skip[start:stop]. Return the block with the largest bound.

    by_topic (d,): the result of :func:`topic_bounds`, from which the first bounds are computed.
    """
    B = np.uint64(len(layout.blocks))
    for n in range(B * W):
        known.head[n], known.best_item[n] = first_head[n], NONE
    for b in range(B):
        known.heads_used[b], known.ready[b] = head_removed[b], False
    for n in range(start, stop):
        used[skip[n]] = True
        g = layout.item_group[skip[n]]
        if g != NONE:
            known.heads_used[np.uint64(layout.group_seat[g]) // W] = True
    first_block, largest_bound = U0, -inf
    for b in range(B):
        size, gather_at = np.uint64(layout.blocks[b, BLOCK_SIZE]), np.uint64(layout.blocks[b, BLOCK_GATHER])
        corner_at = np.uint64(layout.blocks[b, BLOCK_CORNERS])
        upper = spread(0.0)
        for a in range(size):
            upper = upper + load(layout.corners, corner_at + a * W) * gather(by_topic, layout.gather_index, gather_at)
            gather_at += W * (a + U2)
        upper = upper * (1.0 + slack) + TINY * max(1.0, belief.alpha)
        store(known.bound, b * W, upper)
        store(known.current_bound, b * W, upper)
        if reaches(upper, largest_bound):
            first_block, largest_bound = b, largest(upper)
    return first_block


@inlined
def show(item, items, layout, used, belief, known):
    """Put an item on the list: cover its topics, and discard the bounds that were valid until one of them is shown."""
    used[item] = True
    group = layout.item_group[item]
    seat = np.uint64(layout.group_seat[group])
    if belief.kind != FIXED:
        for b in range(np.uint64(len(layout.blocks))):
            later, current = load(known.bound, b * W), load(known.current_bound, b * W)
            store(
                known.current_bound, b * W, where_any(layout.seat_mask, b * W, layout.seat_mask[seat], later, current)
            )
        cover_item(belief.kind, items, item, belief.state)
    known.current_bound[seat], known.best_item[seat] = known.bound[seat], NONE
    if not known.ready[seat // W]:  # a tree; a block of rays has already been visited, unless indices are NaN
        known.heads_used[seat // W] = True
    elif known.head[seat] != NONE and layout.slot_item[known.head[seat]] == item:
        advance(seat, layout, used, known)


@called
def scan(items, item_group, used, belief, x):
    """Return the best item by scoring all items, as in the plain loop."""
    best, best_item = -inf, NONE
    for e in range(item_group.size):
        if item_group[e] != NONE and not used[e]:
            score = index_of(e, items, belief, x)
            if score > best or best_item == NONE:
                best, best_item = score, np.uint32(e)
    return best_item
