"""The base classes of policies that know the likes of other people."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from thali.catalog.candidates import ALL, Choice
from thali.catalog.catalog import Catalog
from thali.datasets.interactions import Interactions
from thali.lab.rivals.likes import KnownLikes
from thali.lists.top import top_lists
from thali.policies.base import Policy
from thali.policies.examined import FIRST_CLICK, examined
from thali.policies.state import State
from thali.tools import checks
from thali.tools.jit import kernel
from thali.tools.types import Booleans, Floats, Integers


class LikesPolicy(Policy):
    """Lists the K items with the largest scores, computed from the likes of others and what a person clicked so far.

    The state contains ``examined`` and ``clicked`` (users, L), booleans: whether each person examined and clicked each
    item. Positions count as examined up to the first click. Ties go to the lowest item number.

    Parameters
    ----------
    likes: the likes of other people, as Interactions or :class:`KnownLikes`, with the same items as the catalog.

    Cost for each user, besides the scores: O(L) to recommend, O(K) to learn, and 2 bytes of memory per item.

    """

    uses_gains = False

    def __init__(self, catalog: Catalog, K: int, likes: Interactions | KnownLikes, *, threads: int = 1) -> None:
        super().__init__(catalog, K, threads=threads)
        self.likes = KnownLikes.of(f"likes of {self.name}", likes)
        known = self.likes.interactions.items
        if len(known) != catalog.L or tuple(catalog.items) != known:
            raise ValueError(
                f"likes of {self.name} must have the same items as the catalog, which has {catalog.L}, got {len(known)}"
                + (" others" if len(known) == catalog.L else "")
            )

    @property
    def settings(self) -> dict[str, Any]:
        """The settings on which a state depends: only the items, because it has no likes of other people."""
        return {"items": self.catalog.items_digest}

    @abstractmethod
    def scores(self, state: State) -> Floats:
        """Return a score for each user and item (users, L). A user's scores do not depend on the other users."""

    def start(self, users: int) -> State:
        """Return the initial state: nothing examined, nothing clicked."""
        return self.new_state(
            examined=np.zeros((users, self.catalog.L), dtype=np.bool_),
            clicked=np.zeros((users, self.catalog.L), dtype=np.bool_),
            updates=np.zeros(users, dtype=np.int64),
        )

    def choose(self, state: State, rng: Any) -> Integers:
        """Return the K items with the largest scores for each user."""
        return self.choose_among(state, rng, ALL)

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """Return the K items with the largest scores, from those that each user may be shown."""
        self._check_items()
        out = np.empty((state.users, self.K), dtype=np.int64)
        top_lists(self.scores(state), out, *choice.items_if_limited(state.users, self.catalog))
        return out

    def predict(self, state: State, lists: Any) -> Floats:
        """Return the score of each item of lists (users, any length). The state does not change."""
        self.check(state)
        self._check_items()
        lists = checks.item_lists("lists", lists, state.users, self.catalog.L)
        return np.take_along_axis(self.scores(state), lists, axis=1)

    def learn(self, state: State, lists: Integers, clicks: Booleans, gains: Floats) -> None:
        """Mark the examined items, and the one that was clicked."""
        mark(state.examined, state.clicked, lists, clicks)
        state.updates += 1

    def _check_items(self) -> None:
        known = len(self.likes.interactions.items)
        if known != self.catalog.L:
            raise ValueError(
                f"likes of {self.name} must have {self.catalog.L} items, as the catalog, got {known}: items were added "
                "after the policy was created"
            )


class PersonalPolicy(LikesPolicy):
    """Scores items by what the person clicked, plus ``popularity`` times the standardized popularity of the item.

    Until the first click, the score is the standardized popularity alone, so the first list has the most popular items.

    Parameters
    ----------
    likes: as in :class:`LikesPolicy`.
    popularity: weight of the popularity, at least 0. See :attr:`KnownLikes.standardized`.

    """

    def __init__(
        self, catalog: Catalog, K: int, likes: Interactions | KnownLikes, *, popularity: float = 0.0, threads: int = 1
    ) -> None:
        super().__init__(catalog, K, likes, threads=threads)
        self.popularity = checks.number(f"popularity of {self.name}", popularity, low=0.0)

    @abstractmethod
    def personal(self, clicked: sp.csr_array) -> Floats:
        """Return scores (users, L), given what each user clicked: a matrix (users, L) with 1 for each click."""

    def scores(self, state: State) -> Floats:
        """Return the scores of :meth:`personal`, with the popularity added."""
        known = self.likes.standardized
        out = np.tile(known, (state.users, 1))
        have = np.flatnonzero(state.clicked.any(axis=1))
        if have.size:
            out[have] = self.personal(sp.csr_array(state.clicked[have].astype(np.float64))) + self.popularity * known
        return out


@kernel
def mark(seen: Booleans, clicked: Booleans, lists: Integers, clicks: Booleans) -> None:
    """Mark every examined item in seen (users, L), and the first click in clicked (users, L). Cost: O(K) per user."""
    for user in range(lists.shape[0]):
        for k in range(examined(clicks[user], FIRST_CLICK)):
            seen[user, lists[user, k]] = True
            if clicks[user, k]:
                clicked[user, lists[user, k]] = True
