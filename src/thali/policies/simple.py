"""Policies that learn nothing: the floors and the ceiling of a comparison."""

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
    """Learns nothing: it only counts its updates."""

    uses_gains = False

    def start(self, users: int) -> State:
        """No updates."""
        return self.new_state(updates=np.zeros(users, dtype=np.int64))

    def choose(self, state: State, rng: Any) -> Integers:
        """What :meth:`choose_among` chooses from everything."""
        return self.choose_among(state, rng, ALL)

    def learn(self, state: State, lists: Integers, clicks: Booleans, gains: Floats) -> None:
        """Nothing is learned."""
        state.updates += 1


class Random(_Fixed):
    """K items at random for every list. Cost: O(L) a list."""

    samples = True

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """From what each user may be shown."""
        items, start = choice.items_of(state.users, self.catalog.present)
        ends = [(start[0], start[1])] * state.users if start.size == 2 else pairwise(start)
        return np.stack([g.choice(items[a:b], self.K, replace=False) for g, (a, b) in zip(rng, ends, strict=True)])


class MostPopular(_Fixed):
    """The K most popular items, the same for everybody, in descending order; ties to the lowest item.

    popularity: (L,), any numbers; by default Σ_j w̄(e,j), in which an item attracts a person of even tastes.
    Cost: O(L) a list.
    """

    def __init__(self, catalog: Catalog, K: int, *, popularity: Any = None, threads: int = 1) -> None:
        super().__init__(catalog, K, threads=threads)
        self.popularity = None
        if popularity is not None:
            self.popularity = checks.floats(f"popularity of {self.name}", popularity, (catalog.L,), "(L,)")

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """From what each user may be shown."""
        known = np.asarray(self.catalog.csr.sum(axis=1)).ravel() if self.popularity is None else self.popularity
        if len(known) != self.catalog.L:
            raise ValueError(
                f"popularity of {self.name} must be of all {self.catalog.L} items of the catalog, which has grown, "
                f"got {len(known)}"
            )
        items, start = choice.items_if_limited(state.users, self.catalog)
        rows = 1 if start is None or start.size == 2 else state.users
        out = np.empty((rows, self.K), dtype=np.int64)
        top_lists(np.tile(known, (rows, 1)), out, items, start)
        return np.tile(out, (state.users // rows, 1))


class Oracle(_Fixed):
    """Knows θ*, and shows the greedy list under it: what is left to lose once preferences have been learned.

    It knows the learner's weights w̄, not the person's, and takes people to click by the diverse cascade model. A state
    holds theta (users, d). See :func:`thali.greedy_lists` for its cost.

    Parameters
    ----------
    theta: θ* (users, d), of which a state takes the first, or (d,) for all; even preferences by default.
    build: how the list is built (:class:`thali.lists.Builder`); greedily by default.
    features: what the builder is told to use, "gains" or "items".

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
            raise ValueError(f"theta of {self.name} must be of at least one user, got none")

    @property
    def settings(self) -> dict[str, Any]:
        """What a state of it depends on."""
        return {"topics": self.catalog.topics_digest}

    def start(self, users: int) -> State:
        """Everybody's θ*."""
        if 1 < len(self.theta) < users:
            raise ValueError(f"users of init must be at most the {len(self.theta)} of theta, got {users}")
        rows = np.tile(self.theta, (users, 1)) if len(self.theta) == 1 else self.theta[:users].copy()
        return self.new_state(theta=rows, updates=np.zeros(users, dtype=np.int64))

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """The greedy list, from what each user may be shown."""
        return greedy.under(state.theta, self.catalog, self.K, choice=choice, build=self.build, features=self.features)
