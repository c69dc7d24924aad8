"""One diverse list for everybody."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from thali.catalog.candidates import Choice
from thali.lab.rivals.base import LikesPolicy
from thali.policies.state import State
from thali.tools.jit import kernel
from thali.tools.types import Booleans, Floats, Integers


class StaticDiverse(LikesPolicy):
    """Lists items so that as many training people as possible like at least one of them. It does not learn.

    The list is built greedily: each position gets the item that is liked by the most people who like none of the items
    above it. So at least a share 1 - 1/e of the largest possible number of people like an item on the list. Ties go to
    the more popular item, then to the lowest item number. Everybody who may be shown the same items gets the same list.
    If candidates or exclusions are given, the list is built from what each user may be shown.

    Parameters
    ----------
    likes: as in :class:`LikesPolicy`.

    Cost for each set of items that users may be shown: O(L + likes of all people), but usually much less, because the
    number of people who like an item limits how many it can add.

    Examples
    --------
    >>> import thali
    >>> data = thali.datasets.Interactions.of(
    ...     [("ana", "Heat", 5), ("ana", "Fargo", 5), ("bob", "Heat", 5), ("bob", "Fargo", 5), ("cy", "Up", 5)],
    ...     {"Heat": [], "Fargo": [], "Up": []},
    ... )
    >>> policy = StaticDiverse(thali.Catalog([[0.5]] * 3, items=data.items), 2, data)
    >>> [policy.catalog.items[e] for e in policy.recommend(policy.init(users=1))[0]]
    ['Fargo', 'Up']

    """

    predicts_probabilities = True

    @cached_property
    def _columns(self) -> tuple[Integers, Integers, Integers]:
        """Return the people who like each item, as (people, begin), and the items in descending order of popularity."""
        columns = self.likes.matrix.tocsc()
        counts = np.diff(columns.indptr)
        order = np.argsort(-counts, kind="stable")
        return columns.indices.astype(np.int64), columns.indptr.astype(np.int64), order

    def scores(self, state: State) -> Floats:
        """Return the share of training people who like each item, the same for every user (users, L)."""
        return np.tile(self.likes.popularity, (state.users, 1))

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """Return the list built from the items that each user may be shown."""
        self._check_items()
        people, begin, order = self._columns
        rows = 1 if choice.start.size == 2 else state.users
        excluded = np.stack([choice.excluded(user, self.catalog.present) for user in range(rows)])
        sets, which = _distinct(excluded)
        out = np.empty((len(sets), self.K), dtype=np.int64)
        diverse_lists(people, begin, order, len(self.likes.interactions.users), excluded[sets], out)
        return np.tile(out[which], (state.users // rows, 1))


def _distinct(rows: Booleans) -> tuple[Integers, Integers]:
    """Return the first of each set of equal rows (n, L), and for each row, which of these sets it belongs to (n,)."""
    packed = [row.tobytes() for row in np.packbits(rows, axis=1)]
    number: dict[bytes, int] = {}
    which = np.array([number.setdefault(row, len(number)) for row in packed])
    return np.unique(which, return_index=True)[1], which


@kernel
def diverse_lists(
    people: Integers, begin: Integers, order: Integers, n: int, excluded: Booleans, out: Integers
) -> None:
    """Write the greedy lists of :class:`StaticDiverse` to out (sets, K), one for each set of excluded items (sets, L).

    people[begin[e]:begin[e + 1]]: who likes item e, of n people. order (L,): the items, most popular first. What an
    item adds can only shrink as the list grows, so what it added when it was last counted is an upper bound. An item is
    counted again only if its bound is above the best item so far.
    """
    sets, K = out.shape
    L = order.size
    bound = np.empty(L, dtype=np.int64)
    covered = np.full(n, -1, dtype=np.int64)  # the last set for which a person likes an item on the list
    for number in range(sets):
        for e in range(L):
            bound[e] = -1 if excluded[number, e] else begin[e + 1] - begin[e]
        for k in range(K):
            best, most = -1, -1
            for e in order:
                if begin[e + 1] - begin[e] <= most:
                    break  # the items after this one are even less popular
                if bound[e] > most:
                    adds = 0
                    for at in range(begin[e], begin[e + 1]):
                        adds += covered[people[at]] != number
                    bound[e] = adds
                    if adds > most:
                        best, most = e, adds
            out[number, k] = best
            bound[best] = -1
            for at in range(begin[best], begin[best + 1]):
                covered[people[at]] = number
