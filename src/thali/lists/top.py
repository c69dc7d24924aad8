"""Lists of the items with the largest values."""

from __future__ import annotations

from typing import Any

import numpy as np

from thali.tools.jit import inlined, kernel
from thali.tools.types import Floats, Integers


@inlined
def range_of(user: int, start: Integers, everything: int) -> tuple[Any, Any]:
    """Return the range (begin, end) in ``items`` that a user may be shown. If start is empty, every item is allowed."""
    if start.size == 0:
        return np.int64(0), np.int64(everything)
    set_number = user if start.size > 2 else 0
    return np.int64(start[set_number]), np.int64(start[set_number + 1])


@inlined
def insert(item: Any, value: float, size: int, top: Floats, out: Integers) -> int:
    """Insert an item into out (K,), which contains the ``size`` best items so far in descending order of their values.

    An item goes below items with an equal value. top (K,) contains the values of the items in out. Returns the new
    size, which is at most K.
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
def top_lists(values: Floats, out: Integers, items: Integers, start: Integers) -> None:
    """Write the K items with the largest values (users, L) to out (users, K), in descending order of their values.

    Ties go to the lowest item number. items, start: user u may be shown items[start[u]:start[u + 1]], which are in
    ascending order. If start has shape (2,), all users share one range. If it is empty, every item is allowed. Cost:
    O(L) for each user.
    """
    users, K = out.shape
    top = np.empty(K)
    for user in range(users):
        size = 0
        begin, end = range_of(user, start, values.shape[1])
        for position in range(begin, end):
            item = position if start.size == 0 else items[position]
            size = insert(item, values[user, item], size, top, out[user])


@inlined
def contains(row: Integers, item: Any) -> bool:
    """Return whether an item is in a list."""
    found = False
    for k in range(row.size):
        found = found or row[k] == item
    return found
