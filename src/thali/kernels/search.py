"""Exact greedy lists: the argmax over all items at each position, without looking at all items.

Items are searched by ray (see :mod:`thali.rays`): the items of a ray have parallel weights, largest first. Four facts,
none an approximation:

- On a ray the index is proportional to the item's scale, so one end of the ray decides for all of it.
- The index changes only where coverage has changed: a ray that shares no topic with the items shown since keeps it.
- p + α·sqrt(P) (see :func:`thali.kernels.index.terms`) bounds the index of every item below the ray's head, now and at
  every later position, because gains only shrink. So a ray is looked at again only while its bound is the best.
- Two looser bounds of the same kind take a few products instead: Σ_j x_j·(θ̄_j + α·D_j)⁺ where D_i·D_j ≥ (M⁻¹)_ij, and
  p + α·sqrt(ρ·Σ_j x_j²·(M⁻¹)_jj) where ρ = 1 + (s-1)·(the largest positive correlation of two of its s topics in M⁻¹).

A bound prunes only when it is lower than the best index by more than rounding; what survives is compared by its index,
ties to the lowest item.
"""

from math import inf, sqrt

import numpy as np

from thali.kernels.index import FIXED, cover, empty, gain, terms, value
from thali.kernels.jit import inlined, kernel

EPSILON = 2.220446049250313e-16
# Added to every bound: squares of gains below this underflow, so relative slack alone would not cover them.
TINY = 1e-140


@kernel
def topic_bounds(estimate, inverse, alpha, variance, spread, out):
    """What the looser bounds are made of, for one user. O(d²).

    variance_j = (M⁻¹)_jj, floored so that rounding cannot make it 0; spread_ij = the positive part of the correlation
    (M⁻¹)_ij / sqrt(variance_i·variance_j); out_j = (θ̄_j + α·D_j)⁺, where D_i·D_j ≥ (M⁻¹)_ij for all i and j.
    """
    d = estimate.size
    largest = 0.0
    for j in range(d):
        largest = max(largest, inverse[j, j])
    for j in range(d):
        variance[j] = max(inverse[j, j], 1e-24 * largest + 1e-280)
        out[j] = 1.0 / sqrt(variance[j])
    stretch = 1.0
    for i in range(d):
        for j in range(i):
            spread[i, j] = spread[j, i] = max(0.0, inverse[i, j] * out[i] * out[j])
            stretch = max(stretch, spread[i, j])
    for j in range(d):
        width = alpha * sqrt(stretch * variance[j])
        # Where the two cancel, rounding is as large as they are, not as what is left.
        out[j] = max(0.0, estimate[j] + width + 8.0 * (d + 8.0) * EPSILON * (abs(estimate[j]) + width))


@kernel
def search_ray(
    kind, indptr, topics, weights, ray_item, ray_scale, ray_same, start, end, reach,
    used, state, theta, minv, alpha, cap, x,
):  # fmt: skip
    """The best unused item of ray_item[start:end] and its index, where the ray's head alone does not decide.

    reach bounds the index of an item of the head's scale. Where it is negative, the smallest items come first.
    Cost: O(s²) for each item that could still be the best.
    """
    best, best_item = -inf, -1
    for n in range(end - start):
        at = start + n if reach >= 0.0 else end - 1 - n
        item = ray_item[at]
        if used[item] or (reach >= 0.0 and n > 0 and ray_same[at] and not used[ray_item[at - 1]]):
            continue
        if reach * (ray_scale[at] / ray_scale[start]) < best:
            break
        m, q, _, _ = terms(kind, indptr[item], indptr[item + 1], topics, weights, state, theta, minv, alpha != 0.0, x)
        score = min(cap, value(m, q, alpha))
        if score > best or (score == best and item < best_item):
            best, best_item = score, item
    return best, best_item


@inlined
def loose_bound(kind, lo, hi, topics, weights, state, positive, variance, stretch, topic_bound, alpha, slack):
    """The lower of the two looser bounds for the item of topics[lo:hi]; stretch is its ρ. O(s)."""
    by_topic, linear, square = 0.0, 0.0, 0.0
    for a in range(lo, hi):
        i = topics[a]
        x = gain(kind, weights[a], state[i])
        by_topic += x * topic_bound[i]
        linear += x * positive[i]
        square += x * x * variance[i]
    jointly = linear + alpha * sqrt(square * stretch)
    return min(by_topic, jointly) * (1.0 + slack) + TINY


@kernel
def greedy(
    kind,
    indptr,
    topics,
    weights,
    ray_start,
    ray_item,
    ray_scale,
    ray_same,
    ray_topics,
    estimate,
    inverse,
    alpha,
    cap,
    out,
):
    """Greedy lists for a batch of users: Algorithm 1, lines 5-11; Eq. greedy maximization where alpha is 0.

    estimate (users, d), inverse (users, d, d) or (1, d, d) where alpha is 0, alpha (users,), out (users, K). An
    index is min(cap, index). Whatever indexes an array here is unsigned: Numba then leaves out its test for negative
    indices. Cost a user: O(d² + K·R) comparisons for R rays, and O(s²) for each ray looked at.
    """
    users, K = out.shape
    d = estimate.shape[1]
    rays = ray_start.size - 1
    slack = 8.0 * (d + 8.0) * EPSILON
    state = np.empty(d)
    x = np.empty(d)
    topic_bound = np.empty(d)
    positive = np.empty(d)
    variance = np.empty(d)
    spread = np.empty((d, d))
    stretch = np.empty(rays)  # the ray's ρ
    bound = np.empty(rays)  # of any index on the ray, now and later
    first = np.empty(rays, dtype=np.uint32)  # where the ray's unused items begin
    index = np.empty(rays)  # the best on the ray when it was looked at, with its item and the position; -1: never
    index_item = np.empty(rays, dtype=np.uint32)
    index_at = np.empty(rays, dtype=np.int64)
    covered = np.empty(K, dtype=np.int64)  # covered[k]: the topics (as ray_topics) of the items shown from k on
    used = np.zeros(ray_item.size, dtype=np.bool_)
    for user in range(users):
        theta, width = estimate[user], alpha[user]
        wide = width != 0.0
        minv = inverse[user if wide else 0]
        topic_bounds(theta, minv, width, variance, spread, topic_bound)
        for j in range(d):
            positive[j] = max(0.0, theta[j])
        state[:] = empty(kind)
        for ray in range(np.uint32(rays)):
            head = ray_item[ray_start[ray]]
            lo, hi = indptr[head], indptr[head + 1]
            correlation = 0.0
            for a in range(lo, hi):
                for b in range(lo, a):
                    correlation = max(correlation, spread[topics[a], topics[b]])
            stretch[ray] = 1.0 + (hi - lo - 1.0) * correlation
            bound[ray] = loose_bound(
                kind, lo, hi, topics, weights, state, positive, variance, stretch[ray], topic_bound, width, slack
            )
            first[ray] = ray_start[ray]
            index_at[ray] = -1
        following = np.argmax(bound)  # the ray to look at first: later, the second best of the position before
        for k in range(K):
            covered[k] = 0
            best, best_item, best_ray, second = -inf, -1, -1, -inf
            leader = following
            for turn in range(-1, rays):
                ray = np.uint32(leader if turn < 0 else turn)
                if bound[ray] < best:
                    continue
                if index_at[ray] < 0 or ray_topics[ray] & covered[index_at[ray]]:
                    start, end = first[ray], ray_start[ray + 1]
                    while start < end and used[ray_item[start]]:
                        start += 1
                    first[ray] = start
                    if start == end:
                        bound[ray] = -inf
                        continue
                    item = ray_item[start]
                    lo, hi = indptr[item], indptr[item + 1]
                    if k > 0:
                        loose = loose_bound(
                            kind,
                            lo,
                            hi,
                            topics,
                            weights,
                            state,
                            positive,
                            variance,
                            stretch[ray],
                            topic_bound,
                            width,
                            slack,
                        )
                        bound[ray] = min(bound[ray], loose)
                        if bound[ray] < best:
                            continue
                    m, q, p, P = terms(kind, lo, hi, topics, weights, state, theta, minv, wide, x)
                    score = min(cap, value(m, q, width))
                    bound[ray] = min(bound[ray], (p + width * sqrt(P)) * (1.0 + slack) + TINY)
                    at = start + 1
                    if at < end:
                        # The largest index that an item of the head's scale on this ray could show after rounding.
                        reach = m + slack * (2.0 * p - m) + width * sqrt(max(0.0, q) + slack * (2.0 * P - q)) + TINY
                        while at < end and (used[ray_item[at]] or (ray_same[at] and not used[ray_item[at - 1]])):
                            at += 1
                        if at < end and (reach < 0.0 or reach * (ray_scale[at] / ray_scale[start]) >= score):
                            score, item = search_ray(
                                kind, indptr, topics, weights, ray_item, ray_scale, ray_same, start, end, reach,
                                used, state, theta, minv, width, cap, x,
                            )  # fmt: skip
                    index[ray], index_item[ray], index_at[ray] = score, item, k
                if index[ray] > best or (index[ray] == best and index_item[ray] < best_item):
                    second, following = best, best_ray
                    best, best_item, best_ray = index[ray], index_item[ray], ray
                elif index[ray] > second and ray != best_ray:
                    second, following = index[ray], ray
            if following < 0:
                following = best_ray
            out[user, k] = best_item
            used[best_item] = True
            index_at[best_ray] = -1
            if kind != FIXED:
                for i in range(k + 1):
                    covered[i] |= ray_topics[best_ray]
                for a in range(indptr[best_item], indptr[best_item + 1]):
                    state[topics[a]] = cover(kind, weights[a], state[topics[a]])
        for k in range(K):
            used[out[user, k]] = False
