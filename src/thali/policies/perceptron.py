"""The diversifying perceptron, which learns from preferences between rankings."""

from __future__ import annotations

from typing import Any

import numpy as np

from thali.catalog.candidates import ALL, Choice
from thali.lists import greedy
from thali.policies.base import Policy
from thali.policies.state import State
from thali.tools.types import Booleans, Floats, Integers


class PreferencePerceptron(Policy):
    """Learns that a list with its clicked items moved to the top is better than the list as shown (Raman et al. 2012).

    The utility of a list A is ⟨w, φ(A)⟩ with φ(A) = Σ_k Δ(a_k|a_1..a_{k-1})/log2(1 + k), a coverage in which higher
    positions count more. The policy shows the greedy list under w. Let Ā be the list with the clicked items first and
    the other items after them, both in the order in which they were shown. The update is w += φ(Ā) - φ(A). It compares
    whole rankings, so it treats an item without a click as less wanted even if the user did not examine it. For this
    reason, Gupta et al. do not compare their algorithm with this one.

    Differences from Raman et al.: w starts from even preferences 1/d, because with w = 0 all lists would be equally
    good. Negative entries of w count as 0 when a list is built, but stay in w, so the order of feedback does not
    matter. (The "clipped" perceptron of Raman et al. clips w itself.) Both φ use the current weights instead of the
    weights at the time of showing, because Ā was never shown.

    Cost for each user: as in :func:`thali.greedy_lists` to recommend, O(K·d) to learn, and 8·d bytes of memory.

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
        """The settings on which w depends."""
        return {"topics": self.catalog.topics_digest}

    def start(self, users: int) -> State:
        """Return the initial state: even preferences."""
        d = self.catalog.d
        return self.new_state(w=np.full((users, d), 1.0 / d), updates=np.zeros(users, dtype=np.int64))

    def choose(self, state: State, rng: Any) -> Integers:
        """Return the greedy lists under w."""
        return self.choose_among(state, rng, ALL)

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """Return the greedy lists under w, from the items that each user may be shown."""
        return greedy.under(np.maximum(state.w, 0.0), self.catalog, self.K, choice=choice)

    def learn(self, state: State, lists: Integers, clicks: Booleans, gains: Floats) -> None:
        """Update w += φ(Ā) - φ(A)."""
        discount = 1.0 / np.log2(np.arange(2, self.K + 2))
        preferred = np.take_along_axis(lists, np.argsort(~clicks, axis=1, kind="stable"), axis=1)
        better = self.catalog.gains(preferred) - self.catalog.gains(lists)
        state.w += np.einsum("k,ukd->ud", discount, better)
        state.updates += 1
