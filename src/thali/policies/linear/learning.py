"""Algorithm 1, lines 13-17: learning from clicks on a list."""

import numpy as np

from thali.catalog.coverage import cover_item, empty, gain
from thali.catalog.items import Items
from thali.policies.examined import examined
from thali.tools.jit import kernel
from thali.tools.types import Booleans, Floats, Integers


@kernel
def add(
    M: Floats,
    B: Floats,
    gains: Floats,
    clicks: Booleans,
    count: int,
    precision: float,
    positions: Floats,
    factor: float,
    support: Integers,
) -> None:
    """For one user, update M += factor·v_k·σ⁻²·xxᵀ and B += factor·v_k·x·click over the first ``count`` positions.

    These are lines 14-17 of Algorithm 1, with σ⁻² = precision and v_k = positions[k]. support (d,) is scratch space.
    """
    d = B.size
    for k in range(count):
        size = 0
        for j in range(d):
            if gains[k, j] != 0.0:
                support[size] = j
                size += 1
        weight = factor * positions[k]
        for a in range(size):
            i = support[a]
            for b in range(size):
                j = support[b]
                M[i, j] += (precision * weight) * (gains[k, i] * gains[k, j])  # this order keeps M exactly symmetric
            if clicks[k]:
                B[i] += weight * gains[k, i]


@kernel
def accumulate(
    M: Floats,
    B: Floats,
    gains: Floats,
    clicks: Booleans,
    rule: int,
    precision: float,
    positions: Floats,
    factor: Floats,
) -> None:
    """Update M += σ⁻²·xxᵀ and B += x·click over the examined positions (Algorithm 1, lines 13-17).

    Clicks on positions that were not examined do not count. precision: σ⁻². positions (K,): a weight for each position.
    factor (users,): a weight for each user's list. In Algorithm 1, all these weights are 1. Cost: O(K·(d + s²)) for
    each user, if items have gains on s topics.
    """
    users, _, d = gains.shape
    support = np.empty(d, dtype=np.int64)
    for user in range(users):
        count = examined(clicks[user], rule)
        add(M[user], B[user], gains[user], clicks[user], count, precision, positions, factor[user], support)


@kernel
def observe(
    kind: int,
    items: Items,
    lists: Integers,
    clicks: Booleans,
    rule: int,
    precision: float,
    positions: Floats,
    M: Floats,
    B: Floats,
) -> None:
    """Update M and B as :func:`accumulate` does, with the same result bit for bit, but directly from the lists.

    Cost: O(d + K·s²) for each user.
    """
    users, d = B.shape
    state = np.empty(d)
    x = np.empty(d)
    for user in range(users):
        state[:] = empty(kind)
        for k in range(examined(clicks[user], rule)):
            item = lists[user, k]
            lo, hi = items.begin[item], items.end[item]
            weight = positions[k]
            for a in range(lo, hi):
                i = items.topics[a]
                x[i] = gain(kind, items.weights[a], state[i])
                if clicks[user, k]:
                    B[user, i] += weight * x[i]
            for a in range(lo, hi):
                i = items.topics[a]
                for b in range(lo, hi):
                    j = items.topics[b]
                    M[user, i, j] += (precision * weight) * (x[i] * x[j])
            cover_item(kind, items, item, state)


@kernel
def discount(M: Floats, B: Floats, factor: Floats) -> None:
    """Set M = I + factor·(M - I) and B = factor·B, with factor (users,). Cost: O(d²) for each user with factor ≠ 1."""
    users, d = B.shape
    for user in range(users):
        if factor[user] == 1.0:
            continue
        for i in range(d):
            B[user, i] *= factor[user]
            for j in range(d):
                own = 1.0 if i == j else 0.0
                M[user, i, j] = own + factor[user] * (M[user, i, j] - own)
