"""What people have seen, as far as a rule needs it to hide items: for a batch of users, and for one user."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thali.policies.examined import RULES, examined_positions
from thali.policies.hide import FOREVER, NEVER, Hide, longest_unseen
from thali.tools import checks
from thali.tools.types import Booleans, Floats, Integers

Times = NDArray[np.int32]


class Seen:
    """What a batch of users has seen: when each item was last examined and clicked, and how tired of it they are.

    Memory: 8 bytes for each user and item, and 8 more if the rule has fatigue. Cost: O(K) for each user to record a
    list, and O(L) to find what is hidden.

    Parameters
    ----------
    rule: the rule by which items are hidden.
    users, L: the numbers of users and items.

    Attributes
    ----------
    now: (users,), the number of lists that each user has been shown.
    examined, clicked: int32 (users, L), the number of the list (from 0) at which an item was last examined or clicked.
        -1 if it never was.
    fatigue: (users, L), the fatigue at the last examination; None if the rule has no fatigue.

    Examples
    --------
    >>> import thali
    >>> catalog = thali.Catalog([[0.9, 0.0], [0.8, 0.0], [0.0, 0.7], [0.0, 0.6]])
    >>> policy = thali.CascadeLSB(catalog, K=2)
    >>> state, seen = policy.init(users=1), thali.Seen(thali.Hide.named("examined"), users=1, L=catalog.L)
    >>> for clicks in ([[True, False]], [[False, False]]):
    ...     lists = policy.recommend(state, exclude=seen.excluded(policy.K, catalog.present))
    ...     policy.update(state, lists, clicks)
    ...     seen.record(lists, clicks)
    ...     print(lists)
    [[0 2]]
    [[2 1]]

    """

    def __init__(self, rule: Hide, users: int, L: int) -> None:
        self.rule: Hide = checks.instance("rule of Seen", rule, Hide)
        shape = checks.integer("users of Seen", users, low=1), checks.integer("L of Seen", L, low=1)
        self.now: Integers = np.zeros(shape[0], dtype=np.int64)
        self.examined: Times = np.full(shape, NEVER, dtype=np.int32)
        self.clicked: Times = np.full(shape, NEVER, dtype=np.int32)
        self.fatigue: Floats | None = None if rule.fatigue is None else np.zeros(shape)

    def record(self, lists: Any, clicks: Any, *, shown_at: Any = None) -> None:
        """Record that each user was shown a list. If an argument is not valid, nothing is recorded.

        lists: (users, K), item numbers. clicks: bool (users, K). shown_at: (users,), how many lists each user had been
        shown before this one, for clicks that arrive late. By default, these lists are the latest.
        """
        users, L = self.examined.shape
        lists = checks.item_lists("lists", lists, users, L)
        clicks = checks.click_matrix("clicks", clicks, *lists.shape)
        at = self.now if shown_at is None else checks.counts("shown_at", shown_at, users)
        if at.max() >= FOREVER:
            raise ValueError(f"shown_at must be below {FOREVER}, got {at.max()}")
        user, position = np.nonzero(_seen(clicks, self.rule.until))
        item, when = lists[user, position], at[user]
        fatigue = 0.0 if self.fatigue is None else self.fatigue[user, item]
        self.examined[user, item], fatigue = self.rule.examine(when, self.examined[user, item], fatigue)
        if self.fatigue is not None:
            self.fatigue[user, item] = fatigue
        on = clicks[user, position]
        self.clicked[user[on], item[on]] = np.maximum(self.clicked[user[on], item[on]], when[on])
        self.now = np.maximum(self.now, at + 1)

    def excluded(self, K: int, present: Any = None) -> Booleans:
        """Return which items are hidden from the next list of each user (users, L). At least K others are left.

        The result can be passed to :meth:`thali.Policy.recommend` as ``exclude``. present: bool (L,), the items that
        can be shown at all, such as ``catalog.present``; all by default. If there are fewer than K, none is hidden.
        """
        K = checks.integer("K of excluded", K, low=1)
        seen = np.flatnonzero(self.examined != NEVER)  # usually a small part, so only these are computed
        users, available = self.examined.shape
        fatigue = 0.0 if self.fatigue is None else self.fatigue.ravel()[seen]
        times = self.now[seen // available], self.examined.ravel()[seen], self.clicked.ravel()[seen]
        hidden = np.zeros((users, available), dtype=np.bool_)
        hidden.ravel()[seen] = self.rule.hides(*times, fatigue)
        if present is not None:
            present = checks.booleans("present", present, (available,), "(L,)", "one for each item")
            available = int(np.count_nonzero(present))
            hidden &= present
        left = available - np.count_nonzero(hidden, axis=1)
        for user in np.flatnonzero(left < K):
            items = np.flatnonzero(hidden[user])
            hidden[user, longest_unseen(items, self.examined[user, items], K - left[user])] = False
        return hidden


class RecentlySeen:
    """What one user has seen, with bounded memory. It hides the same items as :class:`Seen`, until it forgets some.

    It remembers at most ``most`` items. When there are more, it first forgets items that are not hidden any more, and
    then the longest unseen. Memory: 24 bytes for each item that it remembers. Cost: O(most) to record a list; the count
    of the available items, O(L), and O(most) to find what is hidden.

    Parameters
    ----------
    rule: the rule by which items are hidden.
    most: how many items to remember, at least 1.
    arrays: what :meth:`arrays` returned, to continue from there.

    Attributes
    ----------
    now: the number of lists that the user has been shown.
    items: (n,), the numbers of the items that are remembered, ascending.
    examined, clicked, fatigue: (n,), as in :class:`Seen`. Without fatigue in the rule, it is 0.

    Examples
    --------
    >>> import thali
    >>> seen = thali.policies.RecentlySeen(thali.Hide(clicked=True), most=100)
    >>> seen.record([7, 4, 9], [False, True, False])
    >>> seen.excluded(3, present=[True] * 10)
    array([4])

    """

    def __init__(self, rule: Hide, most: int = 1000, arrays: dict[str, NDArray[Any]] | None = None) -> None:
        self.rule: Hide = checks.instance("rule of RecentlySeen", rule, Hide)
        self.most = checks.integer("most of RecentlySeen", most, low=1)
        stored = arrays or {}
        self.now = int(stored.get("now", 0))
        self.items: Integers = np.array(stored.get("items", ()), dtype=np.int64)
        self.examined: Times = np.array(stored.get("examined", ()), dtype=np.int32)
        self.clicked: Times = np.array(stored.get("clicked", ()), dtype=np.int32)
        self.fatigue: Floats = np.array(stored.get("fatigue", ()), dtype=np.float64)
        sizes = self.items.size, self.examined.size, self.clicked.size, self.fatigue.size
        if len(set(sizes)) > 1:
            raise ValueError("arrays of RecentlySeen must have the same length, got {}, {}, {} and {}".format(*sizes))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that is remembered, as arrays that can be stored."""
        return {
            "now": np.array(self.now),
            "items": self.items.copy(),
            "examined": self.examined.copy(),
            "clicked": self.clicked.copy(),
            "fatigue": self.fatigue.copy(),
        }

    def record(self, items: Any, clicks: Any, *, shown_at: int | None = None) -> None:
        """Record that the user was shown a list. If an argument is not valid, nothing is recorded.

        items: (K,), item numbers. clicks: bool (K,). shown_at: as in :meth:`Seen.record`.
        """
        lists = checks.item_lists("items", np.asarray(items)[None], 1, np.iinfo(np.int64).max)
        clicks = checks.click_matrix("clicks", np.asarray(clicks)[None], *lists.shape)
        at = self.now if shown_at is None else checks.integer("shown_at", shown_at, low=0, high=FOREVER - 1)
        counted = _seen(clicks, self.rule.until)
        new, clicked = lists[counted], clicks[counted]
        every = np.union1d(self.items, new)
        before, now = np.searchsorted(every, self.items), np.searchsorted(every, new)
        last_examined, last_clicked = np.full((2, every.size), NEVER, dtype=np.int32)
        fatigue = np.zeros(every.size)
        last_examined[before], last_clicked[before], fatigue[before] = self.examined, self.clicked, self.fatigue
        last_examined[now], fatigue[now] = self.rule.examine(at, last_examined[now], fatigue[now])
        last_clicked[now[clicked]] = np.maximum(last_clicked[now[clicked]], at)
        self.now = max(self.now, at + 1)
        kept = np.arange(every.size)
        if every.size > self.most:
            hidden = self.rule.hides(self.now, last_examined, last_clicked, fatigue)
            kept = np.sort(np.lexsort((every, last_examined, hidden))[-self.most :])
        self.items, self.examined, self.clicked = every[kept], last_examined[kept], last_clicked[kept]
        self.fatigue = fatigue[kept]

    def excluded(self, K: int, present: Any) -> Integers:
        """Return the items that are hidden from the next list, as item numbers in ascending order.

        present: bool (L,), the items that can be shown. At least K others are left, as in :meth:`Seen.excluded`.
        """
        K = checks.integer("K of excluded", K, low=1)
        present = checks.booleans("present", present, (None,), "(L,)", "one for each item")
        if self.items.size and self.items[-1] >= present.size:
            raise ValueError(f"present must have an entry for item {self.items[-1]}, got {present.size} entries")
        hidden = self.rule.hides(self.now, self.examined, self.clicked, self.fatigue) & present[self.items]
        items = self.items[hidden]
        missing = K - (int(np.count_nonzero(present)) - items.size)
        if missing > 0:
            items = items[~np.isin(items, longest_unseen(items, self.examined[hidden], missing))]
        return np.asarray(items)


def _seen(clicks: Booleans, until: str) -> Booleans:
    """Return which positions of each list were seen (users, K). A clicked one was, even below the first click."""
    return np.asarray(examined_positions(clicks, RULES[until]) | clicks)
