"""CascadeKL-UCB: Bernoulli upper confidence bounds item by item."""

from math import exp, expm1, log, sqrt

import numpy as np

from thali.kernels.jit import kernel
from thali.kernels.learn import examined


@kernel
def kl_index(p, limit):
    """The largest q in [p, 1] with kl(p, q) ≤ limit.

    kl(p, ·) is convex and rises above p, so Newton's method from a point right of the root only descends to it.
    It starts at the lower of two such points: Pinsker's, and where (1-p)·log((1-p)/(1-q)) + p·log p reaches limit.
    """
    if p >= 1.0 or limit <= 0.0:
        return min(p, 1.0)
    if p <= 0.0:
        return -expm1(-limit)
    constant = p * log(p) + (1.0 - p) * log(1.0 - p)
    q = min(p + sqrt(0.5 * limit), 1.0 - (1.0 - p) * exp(-(limit - p * log(p)) / (1.0 - p)))
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
    Newton's method only for items whose Pinsker bound could still enter the list.
    """
    users, K = out.shape
    L = shown.shape[1]
    top = np.empty(K)
    for user in range(users):
        log_t = log(updates[user] + 1.0)
        budget = log_t + 3.0 * log(max(1.0, log_t))
        size = 0
        for item in range(L):
            count = shown[user, item]
            if count == 0:
                index = 1.0
            else:
                p = clicked[user, item] / count
                if size == K and p + sqrt(0.5 * budget / count) < top[K - 1]:
                    continue
                index = kl_index(p, budget / count)
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


@kernel
def count(shown, clicked, lists, clicks, rule):
    """Adds one examination, and one click where there was one, to every examined item. O(K) a user."""
    for user in range(lists.shape[0]):
        for k in range(examined(clicks[user], rule)):
            shown[user, lists[user, k]] += 1
            if clicks[user, k]:
                clicked[user, lists[user, k]] += 1
