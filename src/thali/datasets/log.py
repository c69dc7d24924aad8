"""Lists that were shown, in order, and what was clicked."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from thali.datasets import log_files
from thali.datasets.interactions import Interactions, memberships, sorted_names
from thali.datasets.log_arrays import EXAMINED, check_arrays, looked_at, positions_of
from thali.tools import checks
from thali.tools.randomness import stream
from thali.tools.types import Booleans, Integers

#: How many names of dropped items are kept.
FIRST_NAMES = 10


class ShownList(NamedTuple):
    """One list of a log, by the numbers of its user and items."""

    user: int
    items: NDArray[np.int32]
    """(K,), in the order shown."""
    clicked: Booleans
    """(K,)"""
    time: float
    """In seconds; NaN if unknown."""


class Pairs(NamedTuple):
    """What is known about pairs of user and item from a log, with one entry for each examined position."""

    user: NDArray[np.int32]
    item: NDArray[np.int32]
    clicked: Booleans


class Dropped(NamedTuple):
    """What :meth:`Log.within` has dropped."""

    items: int = 0
    """The number of items that were shown in the log, but are not in the catalog."""
    positions: int = 0
    """The number of positions that were removed from lists."""
    clicks: int = 0
    """How many of these positions were clicked."""
    lists: int = 0
    """The number of lists of which nothing is left."""
    names: tuple[Hashable, ...] = ()
    """The first 10 of the items, in the order of the log's items."""


class Log:
    """Lists that were shown to users, in order, and which of their items were clicked.

    The lists may have different lengths. No item appears twice in a list. The object is immutable, and each selection
    returns a new one. Create it with :meth:`of` or :meth:`read`.

    Parameters and attributes
    -------------------------
    users, items, topics: names. Users and items are in ascending order unless you chose another order. The arrays below
        refer to them by number, from 0.
    user: int32 (lists,), ascending. The lists of one user are ordered by time. Lists with equal times stay in their
        order, and lists without a time come last. (The constructor sorts the lists.)
    start: int64 (lists + 1,). The items of list n are ``item[start[n]:start[n + 1]]``.
    item, clicked: int32 and bool (shown,): the items of all lists, one list after the other, and whether each was
        clicked.
    time: float64 (lists,), in seconds; NaN if unknown.
    membership: (items, topics), a scipy.sparse.csr_array of booleans. There may be no topics.
    examined: how far people looked: "first-click", "last-click" or "all".
    titles: the titles of items by name, if they are known.
    unanswered: the number of lists in the file that were left out, because it is not known what was clicked.
    dropped: what :meth:`within` has dropped.

    Examples
    --------
    >>> import thali
    >>> log = thali.Log.of(
    ...     [("ana", ["Heat", "Fargo", "Ronin"], [1]), ("bob", ["Ronin", "Heat"], []), ("ana", ["Alien", "Heat"], [0])],
    ...     {"Heat": ["crime"], "Fargo": ["crime", "comedy"], "Alien": ["horror"], "Ronin": ["crime"]},
    ... )
    >>> log
    Log(2 users, 4 items, 3 topics, 3 lists, 2 clicks)
    >>> [log.items[e] for e in log[0].items], log[0].clicked
    (['Heat', 'Fargo', 'Ronin'], array([False,  True, False]))
    >>> len(log.pairs().clicked)                             # ana did not look at Ronin, nor at the second Heat
    5
    >>> log.interactions()
    Interactions(2 users, 4 items, 3 topics, 2 values)
    >>> known = log.within(["Heat", "Ronin"])
    >>> known, known.dropped.names
    (Log(2 users, 2 items, 3 topics, 2 lists, 0 clicks), ('Alien', 'Fargo'))

    """

    def __init__(
        self,
        users: Sequence[Hashable],
        items: Sequence[Hashable],
        topics: Sequence[Hashable],
        *,
        user: Any,
        start: Any,
        item: Any,
        clicked: Any,
        time: Any,
        membership: sp.csr_array,
        examined: str = "first-click",
        titles: Mapping[Any, str] | None = None,
        unanswered: int = 0,
        dropped: Dropped | None = None,
    ) -> None:
        self.users, self.items, self.topics = tuple(users), tuple(items), tuple(topics)
        self.examined = checks.one_of("examined of Log", examined, EXAMINED)
        self.titles = dict(titles or {})
        self.unanswered, self.dropped = unanswered, Dropped() if dropped is None else dropped
        user, start, item = (np.asarray(array) for array in (user, start, item))
        clicked, time = np.asarray(clicked), np.asarray(time, dtype=np.float64)
        check_arrays(len(self.users), len(self.items), user, start, item, clicked, time)
        shape = len(self.items), len(self.topics)
        if membership.shape != shape:
            raise ValueError(f"membership of Log must have shape (items, topics) = {shape}, got {membership.shape}")
        order = np.lexsort((time, user))
        positions, self.start = positions_of(start, order)
        self.user, self.time = user[order].astype(np.int32), time[order]
        self.item, self.clicked = item[positions].astype(np.int32), clicked[positions]
        self.membership = sp.csr_array(membership, dtype=bool, copy=True)
        for array in (self.user, self.start, self.item, self.clicked, self.time):
            array.flags.writeable = False
        for array in (self.membership.data, self.membership.indices, self.membership.indptr):
            array.flags.writeable = False

    @classmethod
    def of(
        cls,
        rows: Iterable[tuple[Any, ...]],
        topics: Mapping[Any, Iterable[Hashable]] | None = None,
        *,
        examined: str = "first-click",
    ) -> Self:
        """Create a log from rows (user, items, clicked) or (user, items, clicked, time).

        Parameters
        ----------
        rows: one for each list: the user, the items in the order shown, the clicked positions from 0, and optionally
            the time in seconds. Clicked is [] if there was no click. It is None if that is not known; such lists are
            left out and counted in ``unanswered``.
        topics: the topics of items. Items without an entry have no topics. Items that are only here are kept.
        examined: how far people looked: "first-click", "last-click" or "all".

        """
        lists, unanswered = [], 0
        for number, row in enumerate(rows):
            if not isinstance(row, tuple | list) or len(row) not in (3, 4) or not isinstance(row[0], Hashable):
                raise TypeError(
                    "rows of Log.of must be tuples (user, items, clicked) or (user, items, clicked, time) with a "
                    f"hashable user, got {row!r:.200} as row {number}"
                )
            try:
                found = log_files.shown(*row, *[None][: 4 - len(row)])
            except (ValueError, TypeError) as error:
                raise type(error)(f"rows of Log.of must be valid lists, got row {number}: {error}") from None
            if found is None:
                unanswered += 1
            else:
                lists.append(found)
        return cls._build(log_files.Content(lists, topics or {}, {}, unanswered), examined)

    @classmethod
    def read(
        cls,
        path: str | Path,
        items: str | Path | None = None,
        *,
        examined: str = "first-click",
        separator: str = "|",
        topics: str = "genres",
    ) -> Self:
        """Read a log from a file with one JSON object per line, which may be compressed by gzip.

        Parameters
        ----------
        path: the file. Its lines are those of ``thali replay``, such as
            ``{"user": "ana", "items": ["Heat", "Fargo"], "clicked": [1], "time": 1730000000}``, where clicked contains
            positions from 0 and time, in seconds, is optional. Lists with ``"clicked": null`` are left out and counted
            in ``unanswered``. Or its lines are the events of Metarank, of which item, ranking and interaction are used.
            Each interaction counts as a click. The first line tells which format it is.
        items: a table with the columns item and topics, as for :func:`thali.datasets.tables`. An item in a list that is
            not in the table is kept, without topics.
        examined: how far people looked: "first-click", "last-click" or "all".
        separator: the text between two topics in the table of items.
        topics: the field of Metarank's item events with the topics of the item. The titles are in the field title.

        If the names of all users are whole numbers, they are converted to whole numbers, and the same for items.
        An error names the file and the line: invalid JSON, a missing field, an item twice in a list, a clicked position
        outside the list, an interaction with an unknown ranking, or with an item that its ranking did not show.

        Cost: one pass over the lines with the json module.

        """
        checks.one_of("examined of Log", examined, EXAMINED)  # before the file is read
        table = None if items is None else Path(items)
        return cls._build(log_files.read(Path(path), table, separator, topics), examined)

    @classmethod
    def _build(cls, content: log_files.Content, examined: str) -> Self:
        rows, topics, titles, unanswered = content
        users = sorted_names({row.user for row in rows})
        items = sorted_names(set(topics).union(*(row.items for row in rows)))
        user_at, item_at = ({name: n for n, name in enumerate(names)} for names in (users, items))
        start = np.cumsum([0, *(len(row.items) for row in rows)], dtype=np.int64)
        clicked = np.zeros(start[-1], dtype=np.bool_)
        clicked[[begin + k for begin, row in zip(start.tolist(), rows, strict=False) for k in row.clicked]] = True
        names, membership = memberships([topics.get(name, ()) for name in items])
        return cls(
            users,
            items,
            names,
            user=np.array([user_at[row.user] for row in rows], dtype=np.int32),
            start=start,
            item=np.array([item_at[name] for row in rows for name in row.items], dtype=np.int32),
            clicked=clicked,
            time=np.array([row.time for row in rows], dtype=np.float64),
            membership=membership,
            examined=examined,
            titles=titles,
            unanswered=unanswered,
        )

    def __repr__(self) -> str:
        return (
            f"Log({len(self.users)} users, {len(self.items)} items, {len(self.topics)} topics, {len(self)} lists, "
            f"{np.count_nonzero(self.clicked)} clicks)"
        )

    def __len__(self) -> int:
        """Return the number of lists."""
        return len(self.user)

    def __getitem__(self, n: int) -> ShownList:
        """Return list n, from 0."""
        if not 0 <= n < len(self):
            raise IndexError(f"n of Log must be from 0 to {len(self) - 1}, got {n!r}")
        part = slice(self.start[n], self.start[n + 1])
        return ShownList(int(self.user[n]), self.item[part], self.clicked[part], float(self.time[n]))

    @property
    def lengths(self) -> Integers:
        """The length of each list (lists,)."""
        return np.diff(self.start)

    @property
    def number(self) -> Integers:
        """The number of each list among those of its user, from 0 (lists,)."""
        return np.asarray(np.arange(len(self)) - np.searchsorted(self.user, self.user))

    def looked_at(self) -> Booleans:
        """Return which positions were examined, according to ``examined`` (shown,). Cost: O(shown)."""
        return looked_at(self.start, self.clicked, self.examined)

    def pairs(self) -> Pairs:
        """Return user, item and whether it was clicked, for every examined position. A pair may occur several times."""
        seen = self.looked_at()
        return Pairs(np.repeat(self.user, self.lengths)[seen], self.item[seen], self.clicked[seen])

    def interactions(self) -> Interactions:
        """Return all pairs of a user and an item that the user clicked, each once, with value 1.

        All users, items and topics are kept. The time of a pair is that of the last click on it, or NaN if no click on
        it has a time. If no list has a time, the interactions have none.
        """
        clicked = np.repeat(self.user, self.lengths)[self.clicked].astype(np.int64) * len(self.items)
        pairs, number = np.unique(clicked + self.item[self.clicked], return_inverse=True)
        user, item = np.divmod(pairs, max(1, len(self.items)))
        time = np.full(len(pairs), np.nan)
        np.fmax.at(time, number, np.repeat(self.time, self.lengths)[self.clicked])
        return Interactions(
            self.users,
            self.items,
            self.topics,
            user=user.astype(np.int32),
            item=item.astype(np.int32),
            value=np.ones(len(user)),
            membership=self.membership.copy(),
            time=None if np.isnan(self.time).all() else time,
        )

    def split_users(self, seed: int = 0) -> tuple[Self, Self]:
        """Split the users at random into two halves, and return (train, test). Both halves have all items and topics.

        If the number of users is odd, the test half has one more user.
        """
        order = stream(seed, "split").permutation(len(self.users))
        half = len(order) // 2
        return self._take(np.sort(order[:half])), self._take(np.sort(order[half:]))

    def take_users(self, numbers: Any) -> Self:
        """Keep only the users with these numbers, in this order. All items and topics are kept."""
        chosen = [
            checks.integer("numbers of take_users", n, low=0, high=len(self.users) - 1)
            for n in checks.sequence("numbers of take_users", numbers)
        ]
        if len(set(chosen)) < len(chosen):
            twice = next(n for at, n in enumerate(chosen) if n in chosen[:at])
            raise ValueError(f"numbers of take_users must be different from one another, got {twice} twice")
        return self._take(np.array(chosen, dtype=np.int64))

    def _take(self, users: Integers) -> Self:
        new_user = np.full(len(self.users), -1, dtype=np.int32)
        new_user[users] = np.arange(len(users), dtype=np.int32)
        kept = np.flatnonzero(new_user[self.user] >= 0)
        positions, start = positions_of(self.start, kept)
        return self._with(
            users=[self.users[u] for u in users],
            user=new_user[self.user[kept]],
            start=start,
            item=self.item[positions],
            clicked=self.clicked[positions],
            time=self.time[kept],
        )

    def within(self, items: Iterable[Hashable]) -> Self:
        """Keep only these items, such as those of a catalog, which then have these numbers. All users are kept.

        Other items are removed from the lists, and ``dropped`` of the result says how many and which. A list without
        any of these items is dropped. If the click is dropped up to which a person looked, and no other click says
        more, the items below it are dropped too. Otherwise they would count as examined.

        items: names, all different. If a name is not in the log, the text of the name is compared, so 7 and "7" can be
        the same item. An item that is not in the log is kept, without topics.
        """
        names = checks.sequence("items of within", items)
        if len(set(names)) < len(names):
            twice = next(name for at, name in enumerate(names) if name in names[:at])
            raise ValueError(f"items of within must be different from one another, got {twice!r} twice")
        new_item = self._numbers_in(names)
        owner = np.repeat(np.arange(len(self)), self.lengths)
        known = new_item[self.item] >= 0
        keep = known.copy()
        if self.examined != "all":
            keep &= self._still_known(owner, known)
        lengths = np.bincount(owner[keep], minlength=len(self))
        kept = lengths > 0
        unknown = np.unique(self.item[~known])
        rows = np.full(len(names), len(self.items))  # those that are not in the log get an empty row
        rows[new_item[new_item >= 0]] = np.flatnonzero(new_item >= 0)
        nothing = sp.csr_array((1, len(self.topics)), dtype=bool)
        title_of = dict(zip(self.items, new_item.tolist(), strict=True))
        return self._with(
            items=names,
            user=self.user[kept],
            start=np.concatenate([[0], np.cumsum(lengths[kept])]),
            item=new_item[self.item[keep]],
            clicked=self.clicked[keep],
            time=self.time[kept],
            membership=sp.csr_array(sp.vstack([self.membership, nothing], format="csr")[rows]),
            titles={names[title_of[e]]: title for e, title in self.titles.items() if title_of.get(e, -1) >= 0},
            dropped=Dropped(
                items=len(unknown),
                positions=int(np.count_nonzero(~keep)),
                clicks=int(np.count_nonzero(self.clicked & ~keep)),
                lists=int(np.count_nonzero(~kept)),
                names=tuple(self.items[e] for e in unknown[:FIRST_NAMES]),
            ),
        )

    def _numbers_in(self, names: list[Any]) -> NDArray[np.int32]:
        """Return the number of each item of the log in names, or -1 (items,). No number occurs twice."""
        at = {name: n for n, name in enumerate(names)}
        number = np.array([at.get(name, -1) for name in self.items], dtype=np.int32)
        free = {str(names[n]): n for n in sorted(set(range(len(names))) - set(number.tolist()), reverse=True)}
        for e in np.flatnonzero(number < 0):
            number[e] = free.pop(str(self.items[e]), -1)
        return number

    def _still_known(self, owner: Integers, known: Booleans) -> Booleans:
        """Return which positions keep their meaning if unknown items are dropped (shown,).

        A position that was not examined must not count as examined afterwards. That would happen if the click up to
        which the person looked is dropped, and no other click takes its place.
        """
        seen = self.looked_at()
        clicks = self.clicked & known & (seen if self.examined == "first-click" else True)
        remains = np.bincount(owner[clicks], minlength=len(self)) > 0
        return np.asarray(seen | remains[owner])

    def _with(self, **changes: Any) -> Self:
        fields = (
            *("users", "items", "topics", "user", "start", "item", "clicked", "time"),
            *("membership", "examined", "titles", "unanswered", "dropped"),
        )
        return type(self)(**({name: getattr(self, name) for name in fields} | changes))
