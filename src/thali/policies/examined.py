"""Which positions of a list were examined, given the clicks."""

import numpy as np

from thali.tools.jit import kernel
from thali.tools.types import Booleans

# Examined positions: up to the first click, all, or up to the last click.
FIRST_CLICK, ALL, LAST_CLICK = 0, 1, 2
RULES = {"first-click": FIRST_CLICK, "last-click": LAST_CLICK, "all": ALL}


@kernel
def examined(clicks: Booleans, rule: int) -> int:
    """Return how many positions a user examined, from the top, given the clicks (K,). Without a click, it is all K."""
    K = clicks.size
    if rule == FIRST_CLICK:
        for k in range(K):
            if clicks[k]:
                return k + 1
    elif rule == LAST_CLICK:
        for k in range(K, 0, -1):
            if clicks[k - 1]:
                return k
    return K


def examined_positions(clicks: Booleans, rule: int) -> Booleans:
    """Return whether each position was examined (users, K), given clicks (users, K): as :func:`examined` counts them.

    For code that handles a batch of lists with NumPy.
    """
    if rule == FIRST_CLICK:
        return np.cumsum(clicks, axis=1) - clicks == 0  # no click above
    if rule == LAST_CLICK:
        clicks_from_here = np.cumsum(clicks[:, ::-1], axis=1)[:, ::-1]
        return (clicks_from_here > 0) | ~clicks.any(axis=1, keepdims=True)
    return np.ones_like(clicks)
