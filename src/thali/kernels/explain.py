"""Why each item of a list is there, for one user."""

from math import sqrt

import numpy as np

from thali.kernels.index import cover, empty, terms
from thali.kernels.jit import kernel


@kernel
def explain(kind, items, chosen, estimate, inverse, alpha):
    """The parts of each index of a list chosen (K,), and the gains they are made of.

    Returns belief xᵀθ̄ (K,), exploration α·sqrt(xᵀM⁻¹x) (K,), how many topics each item has (K,), which they are (n,)
    and x there (n,), item after item. belief + exploration is the index that the search compares, but for the rounding
    of one sum. Cost: O(K·s²).
    """
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
        m, q, _, _ = terms(kind, lo, hi, items.topics, items.weights, state, estimate, inverse, True, x)
        belief[k], exploration[k] = m, alpha * sqrt(max(0.0, q))
        for a in range(lo, hi):
            j = items.topics[a]
            topics[at] = j
            state[j] = cover(kind, items.weights[a], state[j])
            at += 1
    return belief, exploration, sizes, topics, values


@kernel
def distance(sizes, topics):
    """The mean over pairs of items of 1 - the cosine of their sets of topics, as of explain; O(K²·s).

    A pair with an item of no topics counts 0; a list of one item counts 1.
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
