"""Lists of the items with the largest values."""

from __future__ import annotations

from typing import Any

import numpy as np

from thali.tools.jit import inlined, kernel
from thali.tools.types import Floats, Integers


@inlined
def range_of(user: int, start: Integers | None, everything: int) -> tuple[Any, Any]:
    """Where in items the items that a user may be shown are; among all items where start is None."""
    if start is None:
        return np.int64(0), np.int64(everything)
    own = user if start.size > 2 else 0
    return np.int64(start[own]), np.int64(start[own + 1])


@inlined
def insert(item: Any, value: float, size: int, top: Floats, out: Integers) -> int:
    """Insert an item into the list out of the size best so far, in descending order; of equals, the first stays first.

    top (K,) holds their values. Returns the new size, at most K.
    """
    K = out.size
    if size == K and value <= top[K - 1]:
        return size
    at = min(size, K - 1)
    while at > 0 and top[at - 1] < value:
        top[at] = top[at - 1]
        out[at] = out[at - 1]
        at -= 1
    top[at] = value
    out[at] = item
    return min(size + 1, K)


@kernel
def top_lists(values: Floats, out: Integers, items: Integers | None = None, start: Integers | None = None) -> None:
    """The K items of largest value (users, L), in descending order, ties to the lowest item; into out (users, K).

    items, start: what each user may be shown, all by default: items[start[u]:start[u + 1]], ascending; start
    (2,) where all users share one range. Cost: O(L) a user.
    """
    users, K = out.shape
    top = np.empty(K)
    for user in range(users):
        size = 0
        begin, end = range_of(user, start, values.shape[1])
        for position in range(begin, end):
            item = position if items is None else items[position]
            size = insert(item, values[user, item], size, top, out[user])


@inlined
def holds(row: Integers, item: Any) -> bool:
    """Whether an item is in a list."""
    found = False
    for k in range(row.size):
        found = found or row[k] == item
    return found
