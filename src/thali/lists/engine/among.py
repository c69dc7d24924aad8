"""Exact greedy lists from a few candidates: every candidate has a bound, and is scored only while that may win."""

from math import inf, sqrt

import numpy as np

from thali.catalog.coverage import FIXED, cover, empty, gain
from thali.lists.engine.bounds import EPSILON, TINY
from thali.lists.engine.layout import bit_of
from thali.lists.plain import optimistic
from thali.tools.jit import inlined, kernel
from thali.tools.lanes import fused


@kernel
def greedy(kind, items, among, among_start, estimate, inverse, alpha, cap, out):
    """Greedy lists where user u chooses from among[among_start[u]:among_start[u + 1]] alone, ascending.

    The same lists as :func:`thali.lists.plain.greedy`; arguments as there.

    The bound x·θ̄⁺ + α·sqrt(xᵀ(M⁻¹)⁺x) of each candidate holds at all later positions, and an index stays while none of
    its topics is shown. Cost a user: at most O(n·(s² + K)) for n candidates with s topics each; memory O(n).
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
                    found[n], found_at[n] = min(cap, optimistic(m, q, width)), k
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


@inlined
def terms(kind, lo, hi, topics, weights, state, estimate, inverse, wide, x):
    """The sums behind one item's index and a bound on it, over its topics[lo:hi] in ascending order.

    Returns (m, q, p, P): m = x·θ̄ and q = xᵀM⁻¹x, by the operations of :func:`thali.lists.plain.mean_and_variance`, make
    the index; p = x·θ̄⁺ and P = xᵀ(M⁻¹)⁺x make a bound that can only fall as coverage grows. ``wide`` False leaves the
    quadratic forms out; ``x`` is scratch. Cost: O(s²) for an item of s topics.
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
