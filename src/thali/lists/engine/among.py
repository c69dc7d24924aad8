"""Exact greedy lists from a few candidates. A candidate is scored only if its upper bound allows it to win."""

from math import inf, sqrt

import numpy as np

from thali.catalog.coverage import FIXED, cover_item, empty, gain
from thali.lists.engine.bounds import EPSILON, TINY
from thali.lists.engine.layout import bit_of
from thali.lists.plain import optimistic
from thali.tools.jit import inlined, kernel
from thali.tools.lanes import fused


@kernel
def greedy(kind, items, among, among_start, estimate, inverse, alpha, cap, out):
    """Write greedy lists to out (users, K), where user u may be shown only among[among_start[u]:among_start[u + 1]].

    These candidates are in ascending order. The lists and the other arguments are the same as in
    :func:`thali.lists.plain.greedy`.

    The bound x·θ̄⁺ + α·sqrt(xᵀ(M⁻¹)⁺x) of a candidate is valid at all later positions. Its index does not change until
    an item that shares one of its fading topics is put on the list. Cost for each user, with n candidates of s topics
    each: usually O(n·(s² + K)), at most O(K·n·s²); memory O(n).
    """
    users, K = out.shape
    d = estimate.shape[1]
    slack = 8.0 * (d + 8.0) * EPSILON
    state, x = np.empty(d), np.empty(d)
    longest = 0
    for set_number in range(among_start.size - 1):
        longest = max(longest, among_start[set_number + 1] - among_start[set_number])
    bound, score, scored_at = np.empty(longest), np.empty(longest), np.empty(longest, dtype=np.int64)
    masks, shown_since = np.empty(longest, dtype=np.int64), np.empty(K, dtype=np.int64)
    for user in range(users):
        set_number = user if among_start.size > 2 else 0
        first, size = among_start[set_number], among_start[set_number + 1] - among_start[set_number]
        theta, user_alpha = estimate[user], alpha[user]
        minv = inverse[user % len(inverse)]
        state[:] = empty(kind)
        for n in range(size):
            bound[n] = inf
            scored_at[n] = -1
            masks[n] = 0
            for a in range(items.begin[among[first + n]], items.end[among[first + n]]):
                if items.fading[items.topics[a]]:
                    masks[n] |= bit_of(items.topics[a])
        for k in range(K):
            shown_since[k] = 0
            best, best_at = -inf, -1
            for n in range(size):
                if bound[n] < best:
                    continue
                if scored_at[n] < 0 or masks[n] & shown_since[scored_at[n]]:
                    e = among[first + n]
                    m, q, p, P = terms(
                        kind, items.begin[e], items.end[e], items.topics, items.weights, state, theta, minv,
                        user_alpha != 0.0, x,
                    )  # fmt: skip
                    score[n], scored_at[n] = min(cap, optimistic(m, q, user_alpha)), k
                    bound[n] = (p + user_alpha * sqrt(P)) * (1.0 + slack) + TINY
                # Candidates are in ascending order, so the lowest wins a tie. If θ̄ is huge, even the best index may
                # be -inf.
                if score[n] > best or (best_at < 0 and bound[n] > -inf):
                    best, best_at = score[n], n
            e = among[first + best_at]
            out[user, k] = e
            bound[best_at] = score[best_at] = -inf
            shown, masks[best_at], scored_at[best_at] = masks[best_at], 0, k
            if kind != FIXED:
                for i in range(k + 1):
                    shown_since[i] |= shown
                cover_item(kind, items, e, state)


@inlined
def terms(kind, lo, hi, topics, weights, state, estimate, inverse, wide, x):
    """Return the sums (m, q, p, P) for one item with the topics topics[lo:hi], which are in ascending order.

    m = x·θ̄ and q = xᵀM⁻¹x determine the index. They are computed by the same operations as in
    :func:`thali.lists.plain.mean_and_variance`. p = x·θ̄⁺ and P = xᵀ(M⁻¹)⁺x determine a bound that can only decrease as
    coverage grows. If ``wide`` is False, q and P are 0. ``x`` is scratch space. Cost: O(s²) for an item with s topics.
    """
    m, p, q, P = 0.0, 0.0, 0.0, 0.0
    for a in range(hi - lo):
        i = topics[lo + a]
        x[a] = gain(kind, weights[lo + a], state[i])
        m = fused(x[a], estimate[i], m)
        p += max(0.0, x[a] * estimate[i])
        if wide:
            mixed, positive = 0.0, 0.0
            for b in range(a):
                entry = inverse[i, topics[lo + b]]
                mixed = fused(entry, x[b], mixed)
                positive += max(0.0, entry * x[b])
            own = inverse[i, i] * x[a]
            q = fused(x[a], fused(2.0, mixed, own), q)
            P += x[a] * (max(0.0, own) + 2.0 * positive)
    return m, q, p, P
