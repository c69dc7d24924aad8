"""Kernels for policies that keep counts for each item: the KL-UCB index, and lists of items with the largest index."""

from __future__ import annotations

from math import exp, expm1, log, log1p, sqrt

import numpy as np

from thali.tools.jit import inlined, kernel
from thali.tools.types import Integers

# The number of entries in the table of indices by (examined, clicked). There are more entries than pairs needed for a
# list, but few enough that the table stays in the processor's cache.
SLOTS = 1024

# The relative error of kl_index, for any counts.
PRECISION = 4e-15


@kernel
def kl_index(p: float, limit: float) -> float:
    """Return the largest q in [p, 1] with kl(p, q) ≤ limit, accurate to PRECISION.

    This is Halley's method for x = q - p. It uses kl = -p·log(1 + x/p) - (1-p)·log(1 - x/(1-p)), a form that stays
    accurate for small x, with kl' = x/(q(1-q)) and kl'' = p/q² + (1-p)/(1-q)². The starting point is the expansion of
    the root in sqrt(limit), or an upper bound on the root if that is smaller. The upper bounds are the points where 2x²
    and (1-p)·log((1-p)/(1-q)) + p·log p, neither of which exceeds kl, reach limit. Each step cubes the error, so two or
    three steps are enough.
    """
    if p >= 1.0 or limit <= 0.0:
        return min(p, 1.0)
    if p <= 0.0:
        return -expm1(-limit)
    r = 1.0 - p
    x = min(sqrt(0.5 * limit), sqrt(2.0 * p * r * limit) + max(0.0, (r - p) / 1.5) * limit)
    if p + x > 0.5:
        x = min(x, r - r * exp(-(limit - p * log(p)) / r))
    over_p, over_r = 1.0 / p, 1.0 / r
    for _ in range(64):
        q, rest = p + x, r - x
        if rest <= 0.0:
            break
        excess = -p * log1p(x * over_p) - r * log1p(-x * over_r) - limit
        bend = x * x - 0.5 * excess * (p * rest * rest + r * q * q)
        step = excess * q * rest * x / max(bend, 0.5 * x * x)
        x = max(0.5 * x, min(x - step, 0.5 * (x + r)))
        if abs(step) <= 1e-6 * min(x, rest) + 2e-16 * q:
            break
    return min(p + x, 1.0)


@inlined
def tangent(p: float, q: float) -> tuple[float, float]:
    """Return (a, b) with a·c + b·(T - c) ≤ T·kl(c/T, q) for all counts T and c.

    At c/T = p, the two sides are equal except for a little slack that covers rounding. T·kl(c/T, q) is convex and
    homogeneous in (c, T - c), so its slopes at one point give a lower bound everywhere. If p ≥ q, a = b = 0.
    """
    if not 0.0 <= p < q:
        return 0.0, 0.0
    of_clicks = log(p / q) if p > 0.0 else -1e300  # not -inf, which times 0 clicks would be NaN
    return of_clicks * (1.0 + 1e-14) - 1e-14, log((1.0 - p) / (1.0 - q)) * (1.0 - 1e-14) - 1e-14


@inlined
def kl_bound(count: int, ones: int, q: float) -> float:
    """Return T·kl(c/T, q) for T = count and c = ones if c/T < q, else 0. If this is at most f(t), the index is ≥ q."""
    p = ones / max(1, count)
    if count == 0 or p >= q:
        return 0.0
    if q >= 1.0:
        return np.inf
    own = p * log(p / q) if p > 0.0 else 0.0
    return count * (own + (1.0 - p) * log((1.0 - p) / (1.0 - q)))


@kernel
def kl_lists(
    shown: Integers,
    clicked: Integers,
    updates: Integers,
    out: Integers,
    items: Integers,
    start: Integers,
) -> None:
    """Write the K items with the largest index to out (users, K), in descending order of the index.

    Ties go to the lowest item number. f(t) = log t + 3·log max(1, log t), where t = updates + 1. An item that was never
    examined has index 1.

    items, start: user u may be shown items[start[u]:start[u + 1]], which are in ascending order. These should be at
    least K items; otherwise, the list is filled with -1. start has shape (users + 1,), or (2,) if all users share one
    range. If it is empty, every item is allowed.

    Cost for each user: O(1) for each item, usually to read its counts. A list is complete as soon as it has K items
    with index 1. Items with the same counts T and c have the same index, so the index is computed once for each pair
    (T, c) and cached. The next user can use the cache too, if t is the same. The index need not be computed if
    T·kl(c/T, q) > f(t), where q is the index to beat. Two lower bounds are used to test this: the tangent at the last
    pair that failed, which takes two products, and the tangent at the pair's own c/T, which takes two logarithms.
    """
    users, K = out.shape
    top = np.empty(K)
    pairs = np.empty((SLOTS, 2), dtype=np.int64)
    bound = np.empty(SLOTS)  # the index of the pair, or an upper bound on it
    exact = np.empty(SLOTS, dtype=np.bool_)
    budget, slack = 0.0, 0.0
    begin, end = 0, shown.shape[1]
    for user in range(users):
        if user == 0 or updates[user] != updates[user - 1]:
            log_t = log(updates[user] + 1.0)
            budget = log_t + 3.0 * log(max(1.0, log_t))
            slack = budget * (1.0 + 1e-9) + 1e-9
            pairs[:] = -1
        if start.size > 0:
            own = user if start.size > 2 else 0
            begin, end = start[own], start[own + 1]
        size = 0
        last = -1.0  # the index to beat
        a, b = 0.0, 0.0
        counts, hits = shown[user], clicked[user]
        for position in range(begin, end):
            item = np.uint64(position if start.size == 0 else items[position])
            count, ones = counts[item], hits[item]
            slot = (np.uint64(37) * np.uint64(count) + np.uint64(ones)) % np.uint64(SLOTS)
            known = (pairs[slot, 0] == count) & (pairs[slot, 1] == ones)
            index = bound[slot]
            if known & (index <= last):
                continue
            if not (known & exact[slot]):
                if a * ones + b * (count - ones) > slack:
                    continue
                pairs[slot, 0], pairs[slot, 1] = count, ones
                own_a, own_b = tangent(ones / count, last * (1.0 - PRECISION))
                if own_a * ones + own_b * (count - ones) > slack:
                    bound[slot], exact[slot] = last, False
                    a, b = own_a, own_b
                    continue
                index = kl_index(ones / count, budget / count) if count > 0 else 1.0
                bound[slot], exact[slot] = index, True
                if index <= last:
                    continue
            at = min(size, K - 1)
            while at > 0 and top[at - 1] < index:
                top[at] = top[at - 1]
                out[user, at] = out[user, at - 1]
                at -= 1
            top[at] = index
            out[user, at] = item
            size = min(size + 1, K)
            if size == K:
                last = top[K - 1]
                if last >= 1.0:
                    break
        out[user, size:] = -1
