"""Interactions of users with items, and the topics of the items. All loaders return this class."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from thali.tools import checks
from thali.tools.randomness import stream
from thali.tools.types import Integers


class Interactions:
    """Values such as stars or plays for pairs of users and items, and the topics of every item.

    Each pair has at most one value. The object is immutable, and each selection returns a new one. The paper's F and G
    (Section 7.4) are typically selected from a data set by
    ``data.most_active(users=1000, items=1000).attracted(at_least=5).top_topics(18)``.

    Attributes
    ----------
    users, items, topics: names. Users and items are in ascending order, topics in the order of their selection. The
        arrays below refer to them by number, from 0.
    user, item, value: one entry per interaction.
    membership: G (items, topics), a scipy.sparse.csr_array of booleans.
    time: when each interaction happened, as a number in any unit, such as seconds; None if that is unknown.

    Examples
    --------
    >>> import thali
    >>> data = thali.datasets.Interactions.of(
    ...     [("ana", "Heat", 5), ("ana", "Fargo", 5), ("bob", "Heat", 5), ("bob", "Ronin", 3)],
    ...     {"Heat": ["crime"], "Fargo": ["crime", "comedy"], "Ronin": ["crime"]},
    ... )
    >>> data
    Interactions(2 users, 3 items, 2 topics, 4 values)
    >>> loved = data.attracted(at_least=5).top_topics(2)
    >>> loved.topics, len(loved)
    (('crime', 'comedy'), 3)
    >>> thali.Catalog.estimate(loved).weights.toarray()      # Fargo, Heat, Ronin
    array([[0.5, 1. ],
           [1. , 0. ],
           [0. , 0. ]])
    >>> thali.preferences(loved)                             # ana, bob
    array([[0.66666667, 0.33333333],
           [1.        , 0.        ]])

    """

    def __init__(
        self,
        users: Sequence[Hashable],
        items: Sequence[Hashable],
        topics: Sequence[Hashable],
        *,
        user: NDArray[np.int32],
        item: NDArray[np.int32],
        value: NDArray[np.float64],
        membership: sp.csr_array,
        time: NDArray[np.float64] | None = None,
    ) -> None:
        self.users, self.items, self.topics = tuple(users), tuple(items), tuple(topics)
        self.user, self.item, self.value, self.membership, self.time = user, item, value, membership, time
        for array in (user, item, value, membership.data, membership.indices, membership.indptr):
            array.flags.writeable = False
        if time is not None:
            time.flags.writeable = False

    @classmethod
    def of(cls, rows: Iterable[tuple[Any, ...]], topics: Mapping[Any, Iterable[Hashable]] | None = None) -> Self:
        """Create interactions from rows (user, item, value) or (user, item, value, time). For files, use the loaders.

        rows: the time is a number, in any unit. Either all rows have one, or none.
        topics: the topics of each item. Items that are only here are kept. Without it, the items are those in rows, and
            they have no topics.
        """
        listed = list(rows)
        for row in listed:
            if (
                not isinstance(row, tuple | list)
                or len(row) not in (3, 4)
                or not all(isinstance(x, Hashable) for x in row[:2])
            ):
                raise TypeError(
                    "rows must be tuples (user, item, value) or (user, item, value, time) with hashable user and item, "
                    f"got {row!r}"
                )
        timed = bool(listed) and len(listed[0]) == 4
        users = sorted_names({row[0] for row in listed})
        items = sorted_names({row[1] for row in listed} if topics is None else topics)
        user_at, item_at = {name: at for at, name in enumerate(users)}, {name: at for at, name in enumerate(items)}
        for row in listed:
            who, what, value = row[:3]
            if what not in item_at:
                raise ValueError(
                    f"topics must have an entry for every item in rows, but item {what!r} of user {who!r} has none"
                )
            checks.number(f"value of {who!r} and {what!r}", value, low=-np.inf)
            if (len(row) == 4) != timed:
                raise ValueError(f"rows must all have a time, or none of them, got {listed[0]!r} and {row!r}")
            if timed:
                checks.number(f"time of {who!r} and {what!r}", row[3], low=-np.inf)
        names, membership = memberships([() if topics is None else topics[name] for name in items])
        interactions = cls(
            users,
            items,
            names,
            user=np.array([user_at[row[0]] for row in listed], dtype=np.int32),
            item=np.array([item_at[row[1]] for row in listed], dtype=np.int32),
            value=np.array([row[2] for row in listed], dtype=np.float64),
            membership=membership,
            time=np.array([row[3] for row in listed], dtype=np.float64) if timed else None,
        )
        repeated = interactions.repeated()
        if repeated is not None:
            who, what = listed[repeated][:2]
            raise ValueError(
                f"rows must contain each pair of user and item only once, got user {who!r} and item {what!r} twice"
            )
        return interactions

    def __repr__(self) -> str:
        return (
            f"Interactions({len(self.users)} users, {len(self.items)} items, {len(self.topics)} topics, "
            f"{len(self)} values)"
        )

    def __len__(self) -> int:
        return len(self.value)

    @property
    def density(self) -> float:
        """The share of all pairs of users and items that have a value (after ``attracted``, that are attractions)."""
        return len(self) / max(1, len(self.users) * len(self.items))

    def most_active(
        self, *, users: int | None = None, items: int | None = None, by: Literal["count", "value"] = "count"
    ) -> Self:
        """Keep the users and items with the most interactions (by="count") or the largest total value (by="value").

        users, items: the largest number of users and of items to keep; None for all. Ties go to the smaller name. The
        totals of users and of items are both computed on all data, before anything is removed.
        """
        if by not in ("count", "value"):
            raise ValueError(f"argument 'by' of most_active must be 'count' or 'value', got {by!r}")
        weights = None if by == "count" else self.value
        kept_users = _most(self.user, weights, len(self.users), "users of most_active", users)
        kept_items = _most(self.item, weights, len(self.items), "items of most_active", items)
        return self._take(kept_users, kept_items)

    def attracted(self, at_least: float) -> Self:
        """Keep the interactions with at least this value, for which F(u, i) = 1. All users and items are kept."""
        at_least = checks.number("at_least of attracted", at_least, low=-np.inf)
        keep = self.value >= at_least
        return self._rows(keep)

    def top_topics(self, d: int) -> Self:
        """Keep the d topics with the most items, in descending order. Ties go to the smaller name.

        Items that have none of these topics are kept.
        """
        counts = self.topic_counts()
        d = checks.integer("d of top_topics", d, low=1)
        if d > len(counts):
            raise ValueError(f"d of top_topics must be at most the number of topics ({len(counts)}), got {d}")
        at = {name: j for j, name in enumerate(self.topics)}
        order = sorted((at[name] for name in sorted_names(self.topics)), key=lambda j: -counts[j])[:d]
        chosen = sp.csr_array(self.membership[:, order])
        chosen.sort_indices()
        return self._with(topics=[self.topics[j] for j in order], membership=chosen)

    def topic_counts(self) -> Integers:
        """Return the number of items with each topic (topics,)."""
        return np.bincount(self.membership.indices, minlength=len(self.topics))

    def split_users(self, seed: int = 0) -> tuple[Self, Self]:
        """Split the users at random into two halves, and return (train, test). Both halves have all items and topics.

        If the number of users is odd, the test half has one more user.
        """
        order = stream(seed, "split").permutation(len(self.users))
        half = len(order) // 2
        every = np.arange(len(self.items))
        return self._take(np.sort(order[:half]), every), self._take(np.sort(order[half:]), every)

    def hold_out(self, people: int, seed: int = 0) -> tuple[Self, Self]:
        """Hold out this many users, chosen at random. Return (the others, those held out); both have all items."""
        people = checks.integer("people of hold_out", people, low=1, high=len(self.users) - 1)
        order, every = stream(seed, "hold out").permutation(len(self.users)), np.arange(len(self.items))
        return self._take(np.sort(order[people:]), every), self._take(np.sort(order[:people]), every)

    def take_users(self, users: Integers) -> Self:
        """Keep only the users with these numbers, in this order. All items are kept."""
        return self._take(np.asarray(users), np.arange(len(self.items)))

    def without_users(self, users: Integers) -> Self:
        """Keep all users except those with these numbers. All items are kept."""
        return self.take_users(np.setdiff1d(np.arange(len(self.users)), users))

    def matrix(self) -> sp.csr_array:
        """Return F (users, items), which is 1 for each interaction."""
        ones = np.ones(len(self), dtype=np.int64)
        return sp.csr_array((ones, (self.user, self.item)), shape=(len(self.users), len(self.items)))

    def topics_of(self, name: Hashable) -> tuple[Hashable, ...]:
        """Return the topics of the item with this name."""
        if name not in self.items:
            raise ValueError(f"item must be in the data, got {name!r}")
        row = self.items.index(name)
        start, stop = self.membership.indptr[row : row + 2]
        return tuple(self.topics[j] for j in self.membership.indices[start:stop])

    def repeated(self) -> int | None:
        """Return the first row with the same user and item as an earlier row, or None. Cost: a sort of all pairs."""
        pairs = self.user.astype(np.int64) * len(self.items) + self.item
        ordered = np.sort(pairs)
        again = ordered[1:][ordered[1:] == ordered[:-1]]
        if not again.size:
            return None
        # Among the rows of repeated pairs, find the first row that is not the first one of its pair.
        rows = np.flatnonzero(np.isin(pairs, again))
        seen: set[int] = set()
        for row in rows:
            if int(pairs[row]) in seen:
                return int(row)
            seen.add(int(pairs[row]))
        raise AssertionError("no row repeats an earlier one, although some pair appears twice")

    def _take(self, users: Integers, items: Integers) -> Self:
        """Keep only these users and items, in this order."""
        new_user = np.full(len(self.users), -1, dtype=np.int32)
        new_item = np.full(len(self.items), -1, dtype=np.int32)
        new_user[users] = np.arange(len(users), dtype=np.int32)
        new_item[items] = np.arange(len(items), dtype=np.int32)
        kept = self._rows((new_user[self.user] >= 0) & (new_item[self.item] >= 0))
        return kept._with(
            users=[self.users[at] for at in users],
            items=[self.items[at] for at in items],
            user=new_user[kept.user],
            item=new_item[kept.item],
            membership=sp.csr_array(self.membership[items]),
        )

    def _rows(self, keep: NDArray[np.bool_]) -> Self:
        """Keep only these interactions."""
        time = None if self.time is None else self.time[keep]
        return self._with(user=self.user[keep], item=self.item[keep], value=self.value[keep], time=time)

    def _with(self, **changes: Any) -> Self:
        fields = ("users", "items", "topics", "user", "item", "value", "membership", "time")
        return type(self)(**({name: getattr(self, name) for name in fields} | changes))


def memberships(topics: Sequence[Iterable[Hashable]]) -> tuple[list[Hashable], sp.csr_array]:
    """Return the names of all topics in ascending order, and G (items, topics), from the topics of each item."""
    sets = [set(_topics(names)) for names in topics]
    names = sorted_names(set().union(*sets))
    at = {name: j for j, name in enumerate(names)}
    columns = [sorted(at[name] for name in of_item) for of_item in sets]
    indptr = np.cumsum([0, *map(len, columns)], dtype=np.int32)
    indices = np.array([j for row in columns for j in row], dtype=np.int32)
    data = np.ones(len(indices), dtype=bool)
    return names, sp.csr_array((data, indices, indptr), shape=(len(sets), len(names)))


def _topics(names: Iterable[Hashable]) -> Iterable[Hashable]:
    if isinstance(names, str | bytes):  # otherwise its letters would become topics
        raise TypeError(f"topics of an item must be a list of names, not a single string, got {names!r}")
    return names


def _most(codes: NDArray[np.int32], weights: Any, size: int, name: str, wanted: int | None) -> Integers:
    """Return the numbers of the users or items with the largest totals, in ascending order."""
    if wanted is None:
        return np.arange(size)
    totals = np.bincount(codes, weights=weights, minlength=size)
    return np.sort(np.argsort(-totals, kind="stable")[: checks.integer(name, wanted, low=1)])


def sorted_names(names: Iterable[Any]) -> list[Any]:
    """Return names in ascending order. If they have different types, they are ordered by their text."""
    listed = list(names)
    try:
        return sorted(listed)
    except TypeError:
        return sorted(listed, key=str)
