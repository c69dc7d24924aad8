"""The most popular items, for everybody."""

from __future__ import annotations

from typing import Any

import numpy as np

from thali.catalog.candidates import Choice
from thali.catalog.catalog import Catalog
from thali.datasets.interactions import Interactions
from thali.lab.rivals.base import LikesPolicy
from thali.lab.rivals.likes import KnownLikes
from thali.lists.top import top_lists
from thali.policies.state import State
from thali.tools import checks
from thali.tools.types import Floats, Integers


class Popular(LikesPolicy):
    """Lists the K most popular items in descending order.

    The popularity of an item is the share of the n training people who like it, s/n. With learning="learning", it also
    counts the people in the state: (s + number of people who clicked it)/(n + number of people who examined it). These
    people share one popularity, so a person in a batch does not get what they would get alone.

    Parameters
    ----------
    likes: as in :class:`LikesPolicy`.
    learning: "frozen" or "learning".
    skipping: whether to show what the person has examined only if nothing else is left.

    Cost for each user: O(L) to recommend.

    Examples
    --------
    >>> import thali
    >>> data = thali.datasets.Interactions.of(
    ...     [("ana", "Heat", 5), ("ana", "Fargo", 5), ("bob", "Heat", 5)], {"Heat": [], "Fargo": [], "Ronin": []}
    ... )
    >>> policy = Popular(thali.Catalog([[0.5]] * 3, items=data.items), 2, data)
    >>> state = policy.init(users=1)
    >>> lists = policy.recommend(state)
    >>> [policy.catalog.items[e] for e in lists[0]], policy.predict(state, lists)
    (['Heat', 'Fargo'], array([[1. , 0.5]]))

    """

    predicts_probabilities = True

    def __init__(
        self,
        catalog: Catalog,
        K: int,
        likes: Interactions | KnownLikes,
        *,
        learning: str = "frozen",
        skipping: bool = False,
        threads: int = 1,
    ) -> None:
        super().__init__(catalog, K, likes, threads=threads)
        self.learning = checks.one_of(f"learning of {self.name}", learning, ("frozen", "learning"))
        self.skipping = checks.flag(f"skipping of {self.name}", skipping)

    def scores(self, state: State) -> Floats:
        """Return the popularity of each item, the same for every user (users, L)."""
        known = self.likes.popularity
        if self.learning == "learning":
            n = len(self.likes.interactions.users)
            known = (n * known + state.clicked.sum(axis=0)) / (n + state.examined.sum(axis=0))
        return np.tile(known, (state.users, 1))

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """Return the most popular items that each user may be shown. If skipping, examined items come last."""
        if not self.skipping:
            return super().choose_among(state, rng, choice)
        self._check_items()
        out = np.empty((state.users, self.K), dtype=np.int64)
        unseen_first = self.scores(state) - 2.0 * state.examined
        top_lists(unseen_first, out, *choice.items_if_limited(state.users, self.catalog))
        return out
