"""Explain why each item is in a list: the two parts of its index, and what it adds to each of its topics."""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from thali.catalog.catalog import Catalog
from thali.catalog.coverage import FIXED, cover_item, empty
from thali.catalog.items import Items
from thali.lists.plain import mean_and_variance
from thali.tools.jit import kernel
from thali.tools.types import Booleans, Floats, Integers


class Explanation(NamedTuple):
    """The two parts of the index of each of K items, and the gains from which they are computed."""

    belief: Floats
    """(K,): xᵀθ̄."""
    exploration: Floats
    """(K,): α·sqrt(xᵀM⁻¹x)."""
    sizes: Integers
    """(K,): the number of topics of each item."""
    topics: Integers
    """(n,): the topics of the first item, then those of the second item, and so on."""
    gains: Floats
    """(n,): the gains x on these topics."""


def explain(
    catalog: Catalog, chosen: Integers, estimate: Floats, inverse: Floats, alpha: float, *, features: str = "gains"
) -> Explanation:
    """Explain one user's list ``chosen`` (K,), given estimate θ̄ (d,) and inverse M⁻¹ (d, d).

    belief + exploration is the index by which items were compared, except for the rounding of this sum. Cost: O(K·s²).
    """
    if catalog.custom is None:
        kind = catalog.kind if features == "gains" else FIXED
        return Explanation(*parts(kind, catalog.sparse, chosen, estimate, inverse, alpha))
    x = (catalog.gains if features == "gains" else catalog.item_gains)(chosen[None])[0]
    width = np.sqrt(np.maximum(0.0, ((x @ inverse) * x).sum(axis=1)))
    rows, topics = np.nonzero(catalog.csr[chosen].toarray())
    sizes = np.bincount(rows, minlength=chosen.size)
    return Explanation(x @ estimate, alpha * width, sizes, np.ascontiguousarray(topics), x[rows, topics])


@kernel
def parts(kind: int, items: Items, chosen: Integers, estimate: Floats, inverse: Floats, alpha: float) -> Any:
    """Return the fields of an :class:`Explanation` of the list chosen (K,)."""
    K = chosen.size
    belief, exploration, sizes = np.empty(K), np.empty(K), np.empty(K, dtype=np.int64)
    n = 0
    for k in range(K):
        sizes[k] = items.end[chosen[k]] - items.begin[chosen[k]]
        n += sizes[k]
    topics, values = np.empty(n, dtype=np.int64), np.empty(n)
    state = np.empty(estimate.size)
    state[:] = empty(kind)
    at = 0
    for k in range(K):
        lo, hi = items.begin[chosen[k]], items.end[chosen[k]]
        x = values[at : at + sizes[k]]
        mean, variance = mean_and_variance(kind, lo, hi, items.topics, items.weights, state, estimate, inverse, True, x)
        belief[k], exploration[k] = mean, alpha * sqrt(max(0.0, variance))
        for a in range(lo, hi):
            topics[at] = items.topics[a]
            at += 1
        cover_item(kind, items, chosen[k], state)
    return belief, exploration, sizes, topics, values


@kernel
def distance(sizes: Integers, topics: Integers, fading: Booleans) -> float:
    """Return the mean of (1 - cosine of the two sets of topics) over all pairs of items, given their topics.

    sizes and topics are those of an :class:`Explanation`. Only topics that fade count (fading (d,)). The result is the
    same as that of :func:`thali.lists.diversity.intra_list_distance`. A pair in which an item has no topics counts as
    0, and a list of one item counts as 1. Cost: O(K²·s).
    """
    K = sizes.size
    if K == 1:
        return 1.0
    start, counted = np.zeros(K + 1, dtype=np.int64), np.zeros(K, dtype=np.int64)
    for k in range(K):
        start[k + 1] = start[k] + sizes[k]
        for a in range(start[k], start[k + 1]):
            counted[k] += fading[topics[a]]
    total = 0.0
    for k in range(K):
        for i in range(k):
            if counted[k] == 0 or counted[i] == 0:
                continue
            common, a, b = 0, start[k], start[i]
            while a < start[k + 1] and b < start[i + 1]:  # both are in ascending order
                if topics[a] == topics[b]:
                    common += fading[topics[a]]
                    a += 1
                    b += 1
                elif topics[a] < topics[b]:
                    a += 1
                else:
                    b += 1
            total += max(0.0, 1.0 - common / sqrt(float(counted[k] * counted[i])))
    return total / (K * (K - 1) / 2)
