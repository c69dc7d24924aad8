"""Policies that do not learn. They show the lower and upper limits in a comparison of policies."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from thali.catalog.candidates import ALL, Choice
from thali.catalog.catalog import Catalog
from thali.lists import greedy
from thali.lists.greedy import Builder
from thali.lists.top import top_lists
from thali.policies.base import Policy
from thali.policies.state import State
from thali.tools import checks
from thali.tools.types import Booleans, Floats, Integers


class _Fixed(Policy):
    """A policy that does not learn. It only counts its updates."""

    uses_gains = False

    def start(self, users: int) -> State:
        """Return the initial state: no updates."""
        return self.new_state(updates=np.zeros(users, dtype=np.int64))

    def choose(self, state: State, rng: Any) -> Integers:
        """Return lists from all items."""
        return self.choose_among(state, rng, ALL)

    def learn(self, state: State, lists: Integers, clicks: Booleans, gains: Floats) -> None:
        """Count the update."""
        state.updates += 1


class Random(_Fixed):
    """Lists K random items. Cost: O(L) for each list."""

    samples = True

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """Return lists from the items that each user may be shown."""
        items, start = choice.items_of(state.users, self.catalog.present)
        ends = [(start[0], start[1])] * state.users if start.size == 2 else pairwise(start)
        return np.stack([g.choice(items[a:b], self.K, replace=False) for g, (a, b) in zip(rng, ends, strict=True)])


class MostPopular(_Fixed):
    """Lists the K most popular items in descending order, the same for every user. Ties go to the lowest item number.

    popularity: (L,), any numbers. By default, the popularity of item e is Σ_j w̄(e,j), which is proportional to its
    attraction for a user who likes all topics equally. Cost: O(L) for each list.
    """

    def __init__(self, catalog: Catalog, K: int, *, popularity: Any = None, threads: int = 1) -> None:
        super().__init__(catalog, K, threads=threads)
        self.popularity = None
        if popularity is not None:
            self.popularity = checks.floats(f"popularity of {self.name}", popularity, (catalog.L,), "(L,)")

    def predict(self, state: State, lists: Any) -> Floats:
        """Return the popularity of the item at each position (users, K), a score."""
        self.check(state)
        return self._known()[checks.item_lists("lists", lists, state.users, self.catalog.L)]

    def _known(self) -> Floats:
        """Return the popularity of all items (L,)."""
        known = np.asarray(self.catalog.csr.sum(axis=1)).ravel() if self.popularity is None else self.popularity
        if len(known) != self.catalog.L:
            raise ValueError(
                f"popularity of {self.name} must have {self.catalog.L} numbers, one for each item of the catalog, "
                f"got {len(known)}: items were added after the policy was created"
            )
        return known

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """Return lists from the items that each user may be shown."""
        items, start = choice.items_if_limited(state.users, self.catalog)
        rows = state.users if start.size > 2 else 1
        out = np.empty((rows, self.K), dtype=np.int64)
        top_lists(np.tile(self._known(), (rows, 1)), out, items, start)
        return np.tile(out, (state.users // rows, 1))


class Oracle(_Fixed):
    """Shows the greedy list for θ*, which it is given. Its regret is what remains after a policy has learned θ*.

    It uses the weights w̄ in its catalog, not the true weights, and assumes that users click according to the diverse
    cascade model. Its state contains theta (users, d). For the cost, see :func:`thali.greedy_lists`.

    Parameters
    ----------
    theta: θ* (users, d), or (d,) if all users have the same preferences. A state for fewer users uses the first rows.
        By default, all users like all topics equally.
    build: the function that builds lists (:class:`thali.lists.Builder`); greedy by default.
    features: the features that this function uses, "gains" or "items".

    """

    def __init__(
        self,
        catalog: Catalog,
        K: int,
        *,
        theta: Any = None,
        build: Builder = greedy.build,
        features: str = "gains",
        threads: int = 1,
    ) -> None:
        super().__init__(catalog, K, threads=threads)
        if not callable(build):
            raise TypeError(f"build of {self.name} must be a function like thali.lists.greedy.build, got {build!r}")
        self.build, self.features = build, checks.one_of(f"features of {self.name}", features, ("gains", "items"))
        known = np.full(catalog.d, 1.0 / catalog.d) if theta is None else np.asarray(theta)
        self.theta = checks.preferences(f"theta of {self.name}", known[None] if known.ndim == 1 else known, catalog.d)
        if not len(self.theta):
            raise ValueError(f"theta of {self.name} must have at least one row, got none")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings on which a state depends."""
        return {"topics": self.catalog.topics_digest}

    def start(self, users: int) -> State:
        """Return a state with the θ* of each user."""
        if 1 < len(self.theta) < users:
            raise ValueError(
                f"users of init must be at most the number of rows in theta ({len(self.theta)}), got {users}"
            )
        rows = np.tile(self.theta, (users, 1)) if len(self.theta) == 1 else self.theta[:users].copy()
        return self.new_state(theta=rows, updates=np.zeros(users, dtype=np.int64))

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """Return the greedy lists, from the items that each user may be shown."""
        return greedy.under(state.theta, self.catalog, self.K, choice=choice, build=self.build, features=self.features)
