"""CascadeKL-UCB: the one baseline of the paper that learns item by item."""

from __future__ import annotations

from typing import Any

import numpy as np

from thali.candidates import ALL, Choice
from thali.kernels import klucb, learn
from thali.policies.base import Policy
from thali.policies.state import State
from thali.threads import by_parts
from thali.types import Booleans, Floats, Integers


class CascadeKLUCB(Policy):
    """Maximises the probability of a click in the cascade model, learning each item's attraction alone.

    Kveton et al. 2015. The index of item e is the largest q with T_e·kl(ŵ_e, q) ≤ f(t): ŵ_e is its share of clicks
    among T_e examinations, f(t) = log t + 3·log max(1, log t), t the number of updates + 1. The list holds the K
    largest in descending order.

    Departs from its paper: no initial round over the items; an item never examined has index 1. Ties go to the lowest
    item.

    Cost a user: a look at the counts of L items to recommend, with the index computed once for each pair of counts
    that may be on the list (:func:`thali.kernels.klucb.kl_lists`); O(K) to learn; O(L) memory.

    Examples
    --------
    >>> import thali
    >>> policy = thali.CascadeKLUCB(thali.Catalog([[0.5], [0.2], [0.4]]), K=2)
    >>> state = policy.init(users=1)
    >>> policy.update(state, [[0, 1]], [[False, True]])
    >>> state.shown, state.clicked
    (array([[1, 1, 0]]), array([[0, 1, 0]]))

    """

    @property
    def settings(self) -> dict[str, Any]:
        """What the counts depend on."""
        return {"items": self.catalog.items_digest}

    def start(self, users: int) -> State:
        """Nothing shown, nothing clicked."""
        counts = (users, self.catalog.L)
        return self.new_state(
            shown=np.zeros(counts, dtype=np.int64),
            clicked=np.zeros(counts, dtype=np.int64),
            updates=np.zeros(users, dtype=np.int64),
        )

    def choose(self, state: State, rng: Any) -> Integers:
        """The K largest indices. Deterministic: rng is not used."""
        return self.choose_among(state, rng, ALL)

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """The same, from what each user may be shown."""
        out = np.empty((state.users, self.K), dtype=np.int64)
        items = start = None
        if not (choice is ALL and len(self.catalog) == self.catalog.L):
            items, start = choice.chosen(state.users, self.catalog.present)

        def choose(users: slice) -> None:
            part = start if start is None or start.size == 2 else start[users.start : users.stop + 1]
            klucb.kl_lists(state.shown[users], state.clicked[users], state.updates[users], out[users], items, part)

        by_parts(choose, state.users, self.threads)
        return out

    def learn_now(self, state: State, lists: Integers, clicks: Booleans) -> None:
        """The same: gains are not used."""
        self.learn(state, lists, clicks, np.empty(0))

    def learn(self, state: State, lists: Integers, clicks: Booleans, gains: Floats) -> None:
        """Count what was examined, up to the first click; gains are not used."""
        klucb.count(state.shown, state.clicked, lists, clicks, learn.FIRST_CLICK)
        state.updates += 1
