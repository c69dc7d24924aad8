"""Learning from preferences between rankings: the diversifying perceptron."""

from __future__ import annotations

from typing import Any

import numpy as np

from thali.catalog.candidates import ALL, Choice
from thali.lists import greedy
from thali.policies.base import Policy
from thali.policies.state import State
from thali.tools.types import Booleans, Floats, Integers


class PreferencePerceptron(Policy):
    """Prefers the shown list with its clicked items moved to the top to the list as shown (Raman et al. 2012).

    The utility of a list A is ⟨w, φ(A)⟩ with φ(A) = Σ_k Δ(a_k|a_1..a_{k-1})/log2(1 + k), a coverage in which the top
    counts more. Shown is the greedy list under w; with Ā, the clicked items first and the others after them, each in
    the order shown, the update is w += φ(Ā) - φ(A). It compares whole rankings, so it takes what was not clicked as
    less wanted, examined or not: the paper's reason to leave it out.

    Departs from its paper: starts from even preferences w = 1/d, not from 0, where every list is as good; w is kept as
    it is and its negative entries count as 0 when a list is made (their "clipped" perceptron cuts w itself), so
    that the order of feedback does not matter. Both φ are by the weights of now, not of showing: Ā was never shown.

    Cost a user: as :func:`thali.greedy_lists` to recommend; O(K·d) to learn; 8·d bytes.

    Examples
    --------
    >>> import thali
    >>> policy = thali.PreferencePerceptron(thali.Catalog([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5]]), K=2)
    >>> state = policy.init(users=1)
    >>> policy.update(state, [[0, 2]], [[False, True]])
    >>> state.w.round(3)
    array([[0.315, 0.685]])

    """

    uses_gains = False

    @property
    def settings(self) -> dict[str, Any]:
        """What w depends on."""
        return {"topics": self.catalog.topics_digest}

    def start(self, users: int) -> State:
        """Even preferences."""
        d = self.catalog.d
        return self.new_state(w=np.full((users, d), 1.0 / d), updates=np.zeros(users, dtype=np.int64))

    def choose(self, state: State, rng: Any) -> Integers:
        """The greedy list under w."""
        return self.choose_among(state, rng, ALL)

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """The same, from what each user may be shown."""
        return greedy.under(np.maximum(state.w, 0.0), self.catalog, self.K, choice=choice)

    def learn(self, state: State, lists: Integers, clicks: Booleans, gains: Floats) -> None:
        """W += φ(Ā) - φ(A)."""
        discount = 1.0 / np.log2(np.arange(2, self.K + 2))
        preferred = np.take_along_axis(lists, np.argsort(~clicks, axis=1, kind="stable"), axis=1)
        better = self.catalog.gains(preferred) - self.catalog.gains(lists)
        state.w += np.einsum("k,ukd->ud", discount, better)
        state.updates += 1
