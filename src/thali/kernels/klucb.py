"""CascadeKL-UCB: Bernoulli upper confidence bounds item by item."""

from math import exp, expm1, log, log1p, sqrt

import numpy as np

from thali.kernels.jit import inlined, kernel
from thali.kernels.learn import examined

# n·log n of small counts, which most are.
ENTROPY = np.array([0.0] + [n * log(n) for n in range(1, 4096)])


@inlined
def entropy(n):
    """n·log n."""
    return ENTROPY[np.uint64(n)] if n < ENTROPY.size else n * log(n)


@kernel
def kl_index(p, limit):
    """The largest q in [p, 1] with kl(p, q) ≤ limit.

    kl(p, ·) is convex and rises above p, so Newton's method from a point right of the root only descends to it.
    It starts at the lowest of three such points: where 2(q-p)², (q-p)²/(2q) or (1-p)·log((1-p)/(1-q)) + p·log p
    reaches limit, as kl(p, q) is no less than any of them.
    """
    if p >= 1.0 or limit <= 0.0:
        return min(p, 1.0)
    if p <= 0.0:
        return -expm1(-limit)
    constant = p * log(p) + (1.0 - p) * log(1.0 - p)
    q = p + min(sqrt(0.5 * limit), limit + sqrt(limit * (limit + 2.0 * p)))
    if q > 0.5:
        q = min(q, 1.0 - (1.0 - p) * exp(-(limit - p * log(p)) / (1.0 - p)))
    for _ in range(64):
        if q >= 1.0 or q <= p:
            break
        excess = constant - p * log(q) - (1.0 - p) * log(1.0 - q) - limit
        following = q - excess * q * (1.0 - q) / (q - p)
        if excess <= 0.0 or following >= q:
            break
        q = following
    return min(max(q, p), 1.0)


@kernel
def kl_lists(shown, clicked, updates, out):
    """The K items of largest index, in descending order, ties to the lowest item; into out (users, K).

    f(t) = log t + 3 log max(1, log t), t = updates + 1; an item never examined has index 1. Cost: O(L) a user, with
    Newton's method only for items that enter the list: others have T·kl(ŵ, q) > f(t) at the index q to beat, which
    takes three look-ups, as log q and log(1 - q) are known.
    """
    users, K = out.shape
    L = shown.shape[1]
    top = np.empty(K)
    for user in range(users):
        log_t = log(updates[user] + 1.0)
        budget = log_t + 3.0 * log(max(1.0, log_t))
        slack = budget * (1.0 + 1e-9) + 1e-9
        size = 0
        last, log_last, log_rest = 0.0, 0.0, 0.0  # the index q to beat, log q and log(1 - q)
        for item in range(L):
            count, ones = shown[user, item], clicked[user, item]
            known = entropy(ones) + entropy(count - ones) - entropy(count)
            if (known - ones * log_last - (count - ones) * log_rest > slack) & (ones < last * count):
                continue
            index = 1.0 if count == 0 else kl_index(ones / count, budget / count)
            if size == K and index <= top[K - 1]:
                continue
            at = size if size < K else K - 1
            while at > 0 and top[at - 1] < index:
                top[at] = top[at - 1]
                out[user, at] = out[user, at - 1]
                at -= 1
            top[at] = index
            out[user, at] = item
            size = min(size + 1, K)
            if size == K:
                last = top[K - 1]
                log_last = log(last) if last > 0.0 else 0.0
                log_rest = log1p(-last) if last < 1.0 else -1e300  # not infinite, which times no misses is no number


@kernel
def count(shown, clicked, lists, clicks, rule):
    """Adds one examination, and one click where there was one, to every examined item. O(K) a user."""
    for user in range(lists.shape[0]):
        for k in range(examined(clicks[user], rule)):
            shown[user, lists[user, k]] += 1
            if clicks[user, k]:
                clicked[user, lists[user, k]] += 1
