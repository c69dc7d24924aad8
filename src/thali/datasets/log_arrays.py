"""The arrays of a log: lists one after the other, of which list n is at ``start[n]:start[n + 1]``."""

from __future__ import annotations

from typing import Any

import numpy as np

from thali.tools import checks
from thali.tools.types import Booleans, Floats, Integers

#: How far people looked: up to their first click, up to their last click, or at all positions. Without a click, it is
#: always all positions. Policies use the same words.
EXAMINED = ("first-click", "last-click", "all")


def looked_at(start: Integers, clicked: Booleans, examined: str) -> Booleans:
    """Return which positions were examined (shown,)."""
    seen = np.diff(start)  # how many positions were examined in each list
    owner = np.repeat(np.arange(seen.size), seen)
    place = np.arange(clicked.size) - start[owner]
    if examined != "all":
        clicks = np.flatnonzero(clicked)
        gap = {"prepend": -1} if examined == "first-click" else {"append": -1}
        ends = clicks[np.diff(owner[clicks], **gap) != 0]  # the first or the last click of each list
        seen[owner[ends]] = place[ends] + 1
    return np.asarray(place < seen[owner])


def positions_of(start: Integers, lists: Integers) -> tuple[Integers, Integers]:
    """Return the positions of some lists in the arrays of items, one list after the other, and their new ``start``."""
    lengths = np.diff(start)[lists]
    new = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.repeat(start[:-1][lists] - new[:-1], lengths) + np.arange(new[-1]), new


def check_arrays(users: int, items: int, user: Any, start: Any, item: Any, clicked: Any, time: Floats) -> None:
    """Check the arrays of a log: their types and shapes, the numbers in them, and that no item is twice in a list."""
    for name, array in (("user", user), ("start", start), ("item", item)):
        if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
            raise TypeError(f"{name} of Log must be an array of whole numbers with one axis, got {array.dtype} array")
    if start.size != user.size + 1 or start[0] != 0 or start[-1] != item.size or (np.diff(start) < 1).any():
        raise ValueError(
            "start of Log must have one number for each list and one more, increase from 0 to the number of items "
            f"shown ({item.size}), and leave no list empty, got {start!r:.200} for {user.size} lists"
        )
    for name, array, count in (("user", user, users), ("item", item, items)):
        if array.size and (array.min() < 0 or array.max() >= count):
            wrong = array.min() if array.min() < 0 else array.max()
            raise ValueError(f"{name} of Log must be numbers from 0 to {count - 1}, got {wrong}")
    checks.booleans("clicked of Log", clicked, item.shape, "(shown,)", "one for each item shown")
    if time.shape != user.shape or np.isinf(time).any():
        raise ValueError(f"time of Log must have one finite number or NaN for each list, got {time!r:.200}")
    owner = np.repeat(np.arange(user.size), np.diff(start))
    pairs = owner * max(1, items) + item
    if len(np.unique(pairs)) < len(pairs):
        ordered = np.sort(pairs)
        twice = int(ordered[1:][ordered[1:] == ordered[:-1]][0])
        raise ValueError(f"item of Log must not repeat an item in a list, got {twice % items} twice in one list")
