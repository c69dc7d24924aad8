"""Exact greedy lists: the argmax over all items at each position, without looking at all items.

Items are searched by ray (see :mod:`thali.rays`): the items of a ray have parallel weights, largest first. Four facts,
none an approximation:

- On a ray the index is proportional to the item's scale, so one end of the ray decides for all of it.
- The index changes only where coverage has changed: a ray that shares no topic with the last item keeps its index.
- p + α·sqrt(P) (see :func:`thali.kernels.index.terms`) bounds the index of every item below the ray's head, now and at
  every later position, because gains only shrink. So a ray is looked at again only while its bound is the best.
- So does Σ_j x_j·(θ̄_j + α·D_j)⁺ for its head, where D_i·D_j ≥ (M⁻¹)_ij: looser, but a few products.

A bound prunes only when it is lower than the best index by more than rounding; what survives is compared by its index,
ties to the lowest item.
"""

from math import inf, sqrt

import numpy as np

from thali.kernels.index import FIXED, cover, empty, gain, terms, value
from thali.kernels.jit import kernel

EPSILON = 2.220446049250313e-16
# Added to every bound: squares of gains below this underflow, so relative slack alone would not cover them.
TINY = 1e-140


@kernel
def topic_bounds(estimate, inverse, alpha, out):
    """out_j = (θ̄_j + α·D_j)⁺, with D_i·D_j ≥ (M⁻¹)_ij even where rounding made M⁻¹ indefinite. O(d²)."""
    d = estimate.size
    stretch = 1.0
    for i in range(d):
        out[i] = sqrt(max(0.0, inverse[i, i]))
    for i in range(d):
        for j in range(i):
            product = out[i] * out[j]
            if inverse[i, j] > stretch * product:
                stretch = inverse[i, j] / product if product > 0.0 else inf
    stretch = sqrt(stretch)
    for i in range(d):
        if alpha == 0.0:
            out[i] = max(0.0, estimate[i])
        elif stretch == inf:
            out[i] = inf
        else:
            out[i] = max(0.0, estimate[i] + alpha * stretch * out[i])


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
    topic_start,
    topic_ray,
    topic_weight,
    estimate,
    inverse,
    alpha,
    cap,
    out,
):
    """Greedy lists for a batch of users: Algorithm 1, lines 5-11; Eq. greedy maximization where alpha is 0.

    estimate (users, d), inverse (users, d, d) or (1, d, d) where alpha is 0, alpha (users,), out (users, K). An
    index is min(cap, index). Cost a user: O(d² + K·R) comparisons for R rays, and O(s²) for each ray looked at.
    """
    users, K = out.shape
    d = estimate.shape[1]
    rays = ray_start.size - 1
    slack = 8.0 * (d + 8.0) * EPSILON
    state = np.empty(d)
    x = np.empty(d)
    topic_bound = np.empty(d)
    loose = np.empty(rays)  # bounds of any index on the ray, now and later: by topic, kept up to date
    bound = np.empty(rays)  # ... and as tight as when the ray was last looked at
    limit = np.empty(rays)  # the ray's index where it is known now, else the lower of its bounds
    known = np.empty(rays, dtype=np.int64)  # the item with that index, -1 where the ray must be looked at
    first = np.empty(rays, dtype=np.int64)
    used = np.zeros(ray_item.size, dtype=np.bool_)
    for user in range(users):
        theta, width = estimate[user], alpha[user]
        wide = width != 0.0
        minv = inverse[user if wide else 0]
        topic_bounds(theta, minv, width, topic_bound)
        state[:] = empty(kind)
        for ray in range(rays):
            head = ray_item[ray_start[ray]]
            total = 0.0
            for a in range(indptr[head], indptr[head + 1]):
                total += weights[a] * topic_bound[topics[a]]
            loose[ray] = bound[ray] = limit[ray] = total * (1.0 + (K + 1) * slack) + TINY
            known[ray] = -1
            first[ray] = ray_start[ray]
        for k in range(K):
            best, best_item, best_ray = -inf, -1, -1
            leader = np.argmax(limit)
            for turn in range(-1, rays):
                ray = leader if turn < 0 else turn
                if limit[ray] < best:
                    continue
                if known[ray] < 0:
                    start, end = first[ray], ray_start[ray + 1]
                    while start < end and used[ray_item[start]]:
                        start += 1
                    first[ray] = start
                    if start == end:
                        limit[ray] = bound[ray] = -inf
                        continue
                    item = ray_item[start]
                    lo, hi = indptr[item], indptr[item + 1]
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
                    limit[ray], known[ray] = score, item
                if limit[ray] > best or (limit[ray] == best and known[ray] < best_item):
                    best, best_item, best_ray = limit[ray], known[ray], ray
            out[user, k] = best_item
            used[best_item] = True
            known[best_ray] = -1
            limit[best_ray] = min(loose[best_ray], bound[best_ray])
            if kind != FIXED:
                for a in range(indptr[best_item], indptr[best_item + 1]):
                    j = topics[a]
                    before, after = state[j], cover(kind, weights[a], state[j])
                    state[j] = after
                    for b in range(topic_start[j], topic_start[j + 1]):
                        ray = topic_ray[b]
                        lost = gain(kind, topic_weight[b], before) - gain(kind, topic_weight[b], after)
                        loose[ray] -= lost * topic_bound[j]
                        limit[ray] = min(loose[ray], bound[ray])
                        known[ray] = -1
        for k in range(K):
            used[out[user, k]] = False
