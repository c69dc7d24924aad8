"""Why each item of a list is there: the two parts of its index, and what it adds in each of its topics."""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from thali.catalog.catalog import Catalog
from thali.catalog.coverage import FIXED, cover, empty
from thali.catalog.items import Items
from thali.lists.plain import mean_and_variance
from thali.tools.jit import kernel
from thali.tools.types import Floats, Integers


class Explanation(NamedTuple):
    """The parts of the indices of a list of K items, and the gains that they are made of."""

    belief: Floats
    """(K,): xᵀθ̄."""
    exploration: Floats
    """(K,): α·sqrt(xᵀM⁻¹x)."""
    sizes: Integers
    """(K,): how many topics each item has."""
    topics: Integers
    """(n,): which they are, item after item."""
    gains: Floats
    """(n,): its gain in each of them, x."""


def explain(
    catalog: Catalog, chosen: Integers, estimate: Floats, inverse: Floats, alpha: float, *, features: str = "gains"
) -> Explanation:
    """The explanation of a list chosen (K,) for one user, with estimate θ̄ (d,) and inverse M⁻¹ (d, d).

    belief + exploration is the index that was compared, except for the rounding of one sum. Cost: O(K·s²).
    """
    if catalog.custom is None:
        kind = catalog.kind if features == "gains" else FIXED
        return Explanation(*parts(kind, catalog.sparse, chosen, estimate, inverse, alpha))
    x = (catalog.gains if features == "gains" else catalog.item_gains)(chosen[None])[0]
    width = np.sqrt(np.maximum(0.0, ((x @ inverse) * x).sum(axis=1)))
    rows, topics = np.nonzero(catalog.csr[chosen].toarray())
    sizes = np.bincount(rows, minlength=chosen.size)
    return Explanation(x @ estimate, alpha * width, sizes, topics, x[rows, topics])


@kernel
def parts(kind: int, items: Items, chosen: Integers, estimate: Floats, inverse: Floats, alpha: float) -> Any:
    """The fields of an :class:`Explanation` of a list chosen (K,)."""
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
            j = items.topics[a]
            topics[at] = j
            state[j] = cover(kind, items.weights[a], state[j])
            at += 1
    return belief, exploration, sizes, topics, values


@kernel
def distance(sizes: Integers, topics: Integers) -> float:
    """The mean over pairs of items of 1 - the cosine of their sets of topics, from an explanation. Cost: O(K²·s).

    The same as :func:`thali.lists.diversity.intra_list_distance`: a pair with an item of no topics counts 0; a list of
    one item counts 1.
    """
    K = sizes.size
    if K == 1:
        return 1.0
    start = np.zeros(K + 1, dtype=np.int64)
    for k in range(K):
        start[k + 1] = start[k] + sizes[k]
    total = 0.0
    for k in range(K):
        for i in range(k):
            if sizes[k] == 0 or sizes[i] == 0:
                continue
            common, a, b = 0, start[k], start[i]
            while a < start[k + 1] and b < start[i + 1]:  # both ascend
                if topics[a] == topics[b]:
                    common += 1
                    a += 1
                    b += 1
                elif topics[a] < topics[b]:
                    a += 1
                else:
                    b += 1
            total += max(0.0, 1.0 - common / sqrt(float(sizes[k] * sizes[i])))
    return total / (K * (K - 1) / 2)
