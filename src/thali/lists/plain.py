"""Algorithm 1, lines 5-11, as a plain loop over all items. This is the definition of an exact list.

Each position gets the item with the largest index

    x·θ̄ + α·sqrt(xᵀM⁻¹x),   x = Δ(e|S),

where S is the list so far. Ties go to the lowest item number. The function :func:`index` computes the index of one
item. Any faster way to build lists (:mod:`thali.lists.engine`) must return the same lists, bit for bit.

This loop differs from the paper only in rounding and range. A product and the sum to which it is added are computed as
one fused operation, which rounds only once. And an index is limited to ``cap``.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

import numpy as np

from thali.catalog.candidates import ALL, Choice
from thali.catalog.catalog import Catalog
from thali.catalog.coverage import FIXED, cover_item, empty, gain
from thali.catalog.items import Items
from thali.tools.jit import inlined, kernel
from thali.tools.lanes import fused
from thali.tools.types import Floats, Integers


@kernel
def greedy(
    kind: int,
    items: Items,
    allowed: Integers,
    start: Integers,
    estimate: Floats,
    inverse: Floats,
    alpha: Floats,
    cap: float,
    out: Integers,
) -> None:
    """Write lists to out (users, K): Algorithm 1, lines 5-11, for a batch of users.

    estimate: θ̄ (users, d). inverse: M⁻¹ (users, d, d), or (1, d, d) if all users share one. alpha: α (users,).
    allowed[start[u]:start[u + 1]]: the items that user u may be shown, in ascending order. If start has shape (2,), all
    users share one set of items. Cost: O(K·n·s²) for each user, if n items with s topics each are allowed.
    """
    users, K = out.shape
    state, x = np.empty(estimate.shape[1]), np.empty(estimate.shape[1])
    for user in range(users):
        theta, minv = estimate[user], inverse[user % len(inverse)]
        set_number = user if start.size > 2 else 0
        choices = allowed[start[set_number] : start[set_number + 1]]
        listed = np.zeros(choices.size, dtype=np.bool_)
        state[:] = empty(kind)  # line 5: S = ∅
        for k in range(K):  # line 6
            best, chosen = -inf, -1
            for n in range(choices.size):  # lines 7-9
                if not listed[n]:
                    score = index(kind, choices[n], items, state, theta, minv, alpha[user], cap, x)
                    if score > best or chosen < 0:
                        best, chosen = score, n
            item = choices[chosen]
            out[user, k] = item
            listed[chosen] = True  # line 10: S = S ∪ {a_k}
            cover_item(kind, items, item, state)


@inlined
def index(
    kind: int,
    e: Any,
    items: Items,
    state: Floats,
    estimate: Floats,
    inverse: Floats,
    alpha: float,
    cap: float,
    x: Floats,
) -> float:
    """Return the index of item e, min(cap, x·θ̄ + α·sqrt(xᵀM⁻¹x)) (Algorithm 1, line 9). x is scratch space."""
    lo, hi = items.begin[e], items.end[e]
    mean, variance = mean_and_variance(
        kind, lo, hi, items.topics, items.weights, state, estimate, inverse, alpha != 0.0, x
    )
    return min(cap, optimistic(mean, variance, alpha))


@inlined
def mean_and_variance(
    kind: int,
    lo: int,
    hi: int,
    topics: Any,
    weights: Any,
    state: Floats,
    estimate: Floats,
    inverse: Floats,
    wide: bool,
    x: Floats,
) -> tuple[float, float]:
    """Return x·θ̄ and xᵀM⁻¹x for one item with the topics topics[lo:hi], which are in ascending order.

    state (d,) is the coverage so far (:mod:`thali.catalog.coverage`). The gains are written to x, which has at least s
    entries. If ``wide`` is False, xᵀM⁻¹x is not computed and 0 is returned for it. Cost: O(s²) for an item with s
    topics.
    """
    mean, variance = 0.0, 0.0
    for a in range(hi - lo):
        i = topics[lo + a]
        x[a] = gain(kind, weights[lo + a], state[i])  # line 8
        mean = fused(x[a], estimate[i], mean)
        if wide:
            mixed = 0.0
            for b in range(a):
                mixed = fused(inverse[i, topics[lo + b]], x[b], mixed)
            variance = fused(x[a], fused(2.0, mixed, inverse[i, i] * x[a]), variance)
    return mean, variance


@inlined
def optimistic(mean: float, variance: float, alpha: float) -> float:
    """Return mean + α·sqrt(variance)."""
    value: float = fused(alpha, sqrt(max(0.0, variance)), mean)
    return value


def build(
    catalog: Catalog,
    estimate: Floats,
    inverse: Floats,
    alpha: Floats,
    *,
    K: int,
    features: str = "gains",
    cap: float = inf,
    choice: Choice = ALL,
) -> Integers:
    """Return lists (users, K) as defined by :func:`greedy`. This is a :class:`thali.lists.greedy.Builder`.

    x = Δ(e|S) for features="gains", and x = Δ(e|∅) for features="items". Cost for each user: O(K·L·s²). With a custom
    coverage object: O(K·L·d²), and L calls of its method at each position.
    """
    out = np.empty((len(estimate), K), dtype=np.int64)
    if catalog.custom is None:
        kind = catalog.kind if features == "gains" else FIXED
        items, start = choice.items_of(len(estimate), catalog.present)
        greedy(kind, catalog.sparse, items, start, estimate, inverse, alpha, cap, out)
        return out
    scores = np.empty(catalog.L)
    for user, listed in enumerate(out):
        excluded = choice.excluded(user, catalog.present)
        X = catalog.all_gains(listed[:0])
        for k in range(K):
            if k and features == "gains":
                X = catalog.all_gains(listed[:k])
            indices(X, estimate[user], inverse[user % len(inverse)], alpha[user], scores)
            np.minimum(scores, cap, out=scores)
            scores[excluded] = -inf
            scores[listed[:k]] = -inf
            listed[k] = np.argmax(scores)
    return out


@kernel
def indices(X: Floats, estimate: Floats, inverse: Floats, alpha: float, out: Floats) -> None:
    """Write the index of each item to out (L,), for one user, given the features X (L, d) of all items."""
    L, d = X.shape
    topics = np.arange(d)
    x = np.empty(d)
    for e in range(L):
        mean, variance = mean_and_variance(FIXED, 0, d, topics, X[e], x, estimate, inverse, alpha != 0.0, x)
        out[e] = optimistic(mean, variance, alpha)
