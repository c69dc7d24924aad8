"""Policies with one bandit for each position: ranked bandits and independent bandits."""

from __future__ import annotations

import math
from math import exp, inf, log, sqrt
from typing import Any, ClassVar

import numpy as np

from thali.catalog.candidates import ALL as EVERYTHING
from thali.catalog.candidates import Choice
from thali.catalog.catalog import Catalog
from thali.lists.top import contains
from thali.policies.base import Policy
from thali.policies.examined import ALL, FIRST_CLICK, examined
from thali.policies.items import ucb_lists
from thali.policies.klucb import kl_lists
from thali.policies.state import State
from thali.tools import checks
from thali.tools.jit import inlined, kernel
from thali.tools.types import Booleans, Floats, Integers

BASES = ("ucb1", "kl-ucb", "exp3")


class RankedBandits(Policy):
    """Ranked bandits (Radlinski et al. 2008): each position has a separate bandit, which is rewarded by a click there.

    The first bandit learns what most users click. The second bandit learns what users click who did not click the first
    item, and so on. Only the first click is a reward, because a user who has clicked is satisfied (Slivkins et al.
    2013). Symbols: T, how often an item was shown at a position; ŵ, the share of these showings that were rewarded; t,
    the number of updates + 1.

    There are three kinds of bandits. base="ucb1" shows the item with the largest ŵ + sqrt(2·log(t - 1)/T) (Auer et al.
    2002a); an item that was never shown at a position has index ∞. base="kl-ucb" is KL-UCB with
    f(t) = log t + 3·log max(1, log t) (Garivier and Cappé 2011); an item that was never shown has index 1. base="exp3"
    draws one of n items, each with probability (1-γ)·exp(γ·s/n)/Σ + γ/n, where s is the sum of the item's rewards, each
    divided by the probability of showing the item (Auer et al. 2002b).

    This policy departs from the original papers in two ways. First, a bandit chooses only among items that are not
    above it. In the papers, a bandit may choose an item that is already above it. The item is then replaced by another
    one, and the bandit gets no reward. That is not possible here, because a list does not show which of its items were
    replaced. Second, Exp3 computes the probability of showing an item from the state at the time of the update, as if
    every item of the catalog could have been shown. So it is biased if candidates= or exclude= is used.

    Parameters
    ----------
    base: "ucb1", "kl-ucb" or "exp3".
    gamma: γ in (0, 1], for base="exp3"; by default min(1, sqrt(L·log L/((e - 1)·n))) if a horizon n is given, else 0.1.
    horizon: n, for the default of gamma.

    Cost for each user: O(K·L) to recommend, O(K) to learn (Exp3: O(L) after a click), and 16·K bytes of memory per item
    (Exp3: 8·K).

    Examples
    --------
    >>> import thali
    >>> policy = thali.RankedBandits(thali.Catalog([[0.5], [0.2], [0.4]]), K=2, base="ucb1")
    >>> state = policy.init(users=1)
    >>> policy.update(state, [[0, 1]], [[False, True]])
    >>> state.clicked[0]
    array([[0, 0, 0],
           [0, 1, 0]])

    """

    #: Which clicks are rewards: only the first (FIRST_CLICK), or all (ALL).
    rule: ClassVar[int] = FIRST_CLICK
    uses_gains = False

    def __init__(
        self,
        catalog: Catalog,
        K: int,
        *,
        base: str = "ucb1",
        gamma: float | None = None,
        horizon: int | None = None,
        threads: int = 1,
    ) -> None:
        super().__init__(catalog, K, threads=threads)
        self.base = checks.one_of(f"base of {self.name}", base, BASES)
        self.samples = self.base == "exp3"
        for setting, given in (("gamma", gamma), ("horizon", horizon)):
            if not self.samples and given is not None:
                raise ValueError(
                    f"{setting} of {self.name} can only be given with base='exp3', got {setting}={given!r} and "
                    f"base={self.base!r}"
                )
        if gamma is not None and horizon is not None:
            raise ValueError(
                f"gamma and horizon of {self.name} must not be given together, got {gamma!r} and {horizon!r}"
            )
        if gamma is None:
            n = None if horizon is None else checks.integer(f"horizon of {self.name}", horizon, low=1)
            L = len(catalog)
            gamma = 0.1 if n is None else min(1.0, max(1e-9, sqrt(L * log(L) / ((math.e - 1.0) * n))))
        self.gamma = checks.number(f"gamma of {self.name}", gamma, low=0.0, strict=True, high=1.0)
        if self.samples:
            self.order_matters = (
                "Exp3 divides each reward by the probability of showing the item, which depends on what was learned"
            )

    @property
    def settings(self) -> dict[str, Any]:
        """The settings on which a state depends."""
        own = {"items": self.catalog.items_digest, "K": self.K, "base": self.base}
        return {**own, "gamma": self.gamma} if self.base == "exp3" else own

    def start(self, users: int) -> State:
        """Return the initial state: nothing shown and nothing clicked at any position."""
        shape, updates = (users, self.K, self.catalog.L), np.zeros(users, dtype=np.int64)
        if self.base == "exp3":
            return self.new_state(score=np.zeros(shape), updates=updates)
        return self.new_state(
            shown=np.zeros(shape, dtype=np.int64), clicked=np.zeros(shape, dtype=np.int64), updates=updates
        )

    def choose(self, state: State, rng: Any) -> Integers:
        """Return lists in which each bandit chooses among the items not above it."""
        return self.choose_among(state, rng, EVERYTHING)

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """Return lists as :meth:`choose` does, from the items that each user may be shown."""
        users, K, L = state.users, self.K, self.catalog.L
        out = np.empty((users, K), dtype=np.int64)
        if self.base == "exp3":
            uniforms = np.stack([generator.random(K) for generator in rng])
            rows = 1 if choice.start.size == 2 else users
            excluded = np.stack([choice.excluded(user, self.catalog.present) for user in range(rows)])
            exp3_lists(state.score, self.gamma, uniforms, excluded, out)
            return out
        items, start = choice.items_if_limited(users, self.catalog)
        if start.size > 2:  # repeat each user's range for every position
            items = np.concatenate([np.tile(own, K) for own in np.split(items, start[1:-1])])
            start = np.append(0, np.cumsum(np.repeat(np.diff(start), K)))
        tops = np.empty((users * K, K), dtype=np.int64)
        shown, clicked = state.shown.reshape(-1, L), state.clicked.reshape(-1, L)
        updates = np.repeat(state.updates, K)
        if self.base == "ucb1":
            ucb_lists(shown, clicked, updates, 2.0, inf, tops, items, start)
        else:
            kl_lists(shown, clicked, updates, tops, items, start)
        first_free(tops.reshape(users, K, K), out)
        return out

    def learn(self, state: State, lists: Integers, clicks: Booleans, gains: Floats) -> None:
        """Update the bandit of each position with its own reward."""
        if self.base == "exp3":
            exp3_learn(state.score, self.gamma, lists, clicks, self.rule, ~self.catalog.present)
        else:
            count_positions(state.shown, state.clicked, lists, clicks, self.rule)
        state.updates += 1


class IndependentBandits(RankedBandits):
    """Ranked bandits in which every click is a reward for its position, not only the first click (Kohli et al. 2013).

    Each bandit chooses among the items not above it. It learns how often items are clicked at its position, no matter
    what was clicked at other positions. This is the probability ranking principle. If users click at most once, this
    policy is the same as :class:`RankedBandits`.
    """

    rule = ALL


@kernel
def first_free(tops: Integers, out: Integers) -> None:
    """Write lists to out (users, K). tops (users, K, K): a ranking for each position.

    Each position gets the first item of its ranking that is not yet on the list.
    """
    users, K = out.shape
    for user in range(users):
        out[user] = -1
        for k in range(K):
            for rank in range(K):
                if not contains(out[user], tops[user, k, rank]):
                    out[user, k] = tops[user, k, rank]
                    break


@kernel
def count_positions(shown: Integers, clicked: Integers, lists: Integers, clicks: Booleans, rule: int) -> None:
    """Count each item as shown at its position in shown (users, K, L), and each reward in clicked (users, K, L).

    rule: whether only the first click is a reward, or every click. Cost: O(K) for each user.
    """
    users, K = lists.shape
    for user in range(users):
        last = examined(clicks[user], rule)
        for k in range(K):
            shown[user, k, lists[user, k]] += 1
            if k < last and clicks[user, k]:
                clicked[user, k, lists[user, k]] += 1


@inlined
def exp3_sums(score: Floats, gamma: float, excluded: Booleans) -> tuple[int, float, float]:
    """Return (n, m, Σ) for the n items not excluded: m is the largest score, and Σ the sum of exp(γ·(score - m)/n).

    Most scores are 0, so the exponential for a score of 0 is computed only once.
    """
    n, most = 0, 0.0
    for e in range(score.size):
        if not excluded[e]:
            n += 1
            most = max(most, score[e])
    total, rate = 0.0, gamma / n
    zero_weight = exp(-rate * most)
    for e in range(score.size):
        if not excluded[e]:
            total += zero_weight if score[e] == 0.0 else exp(rate * (score[e] - most))
    return n, most, total


@kernel
def exp3_lists(score: Floats, gamma: float, uniforms: Floats, excluded: Booleans, out: Integers) -> None:
    """Write lists to out (users, K). Each item is drawn by Exp3 from the items not excluded and not yet on the list.

    The probability of item e is p_e = (1-γ)·exp(γ·score_e/n)/Σ + γ/n, where n is the number of these items. score
    (users, K, L). uniforms (users, K): uniform random numbers. excluded (users or 1, L): it is changed while a list is
    drawn and then restored. Cost: O(K·L) for each user.
    """
    users, K, L = score.shape
    for user in range(users):
        unavailable = excluded[user % excluded.shape[0]]
        for k in range(K):
            n, most, total = exp3_sums(score[user, k], gamma, unavailable)
            rate = gamma / n
            zero_weight = exp(-rate * most)
            left, chosen = uniforms[user, k], -1
            for e in range(L):
                if unavailable[e]:
                    continue
                chosen = e
                weight = zero_weight if score[user, k, e] == 0.0 else exp(rate * (score[user, k, e] - most))
                left -= (1.0 - gamma) * weight / total + gamma / n
                if left < 0.0:
                    break
            out[user, k] = chosen
            unavailable[chosen] = True
        for k in range(K):
            unavailable[out[user, k]] = False


@kernel
def exp3_learn(score: Floats, gamma: float, lists: Integers, clicks: Booleans, rule: int, removed: Booleans) -> None:
    """Add 1/p to the score for every reward, where p is the item's probability in exp3_lists, given the items above it.

    rule: whether only the first click is a reward, or every click. removed (L,): whether each item was removed. Cost:
    O(L) for each user and reward.
    """
    excluded = removed.copy()
    for user in range(lists.shape[0]):
        rewarded = examined(clicks[user], rule)
        for k in range(rewarded):
            e = lists[user, k]
            if clicks[user, k]:
                excluded[e] = False  # it was shown, though it may have been removed since
                n, most, total = exp3_sums(score[user, k], gamma, excluded)
                p = (1.0 - gamma) * exp(gamma / n * (score[user, k, e] - most)) / total + gamma / n
                score[user, k, e] += 1.0 / p
            excluded[e] = True
        for k in range(rewarded):
            excluded[lists[user, k]] = removed[lists[user, k]]
