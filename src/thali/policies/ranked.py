"""A bandit for every position: ranked bandits and independent bandits."""

from __future__ import annotations

import math
from math import exp, inf, log, sqrt
from typing import Any, ClassVar

import numpy as np

from thali.catalog.candidates import ALL as EVERYTHING
from thali.catalog.candidates import Choice
from thali.catalog.catalog import Catalog
from thali.lists.top import holds
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
    """Each position is a bandit of its own, rewarded by a click there: ranked bandits (Radlinski et al. 2008).

    The first learns what most people click, the second what those click who did not click the first, and so on.
    Symbols: T showings of an item at a position, ŵ its share of rewards there, t the number of updates + 1.
    base="ucb1": the largest ŵ + sqrt(2·log(t - 1)/T) (Auer et al. 2002a); "kl-ucb": KL-UCB with f(t) = log t +
    3·log max(1, log t) (Garivier and Cappé 2011); an item never shown at a position has an index of ∞, and of 1.
    base="exp3": drawn with probability (1-γ)·exp(γ·s/n)/Σ + γ/n among n items, s the sum of rewards over their
    probabilities (Auer et al. 2002b). Only the first click is a reward: whoever clicked is satisfied (Slivkins et al.
    2013).

    Departs from its papers: a bandit chooses among the items that are not above it, instead of having its choice
    replaced by any other and rewarded with nothing, as which item was replaced is not to be seen in the list. Exp3
    takes a reward's probability from the state at the time of the update, as if all items there are could have been
    shown: with candidates= or exclude= it is biased.

    Parameters
    ----------
    base: "ucb1", "kl-ucb" or "exp3".
    gamma: γ in (0, 1], for base="exp3"; by default min(1, sqrt(L·log L/((e - 1)·n))) for a horizon n, else 0.1.
    horizon: n, for gamma.

    Cost a user: O(K·L) to recommend, O(K) to learn (O(L) for Exp3 after a click); 16·K bytes an item (8·K for Exp3).

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

    #: Which clicks are rewards: the first, or any (every position examined).
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
        for told, given in (("gamma", gamma), ("horizon", horizon)):
            if not self.samples and given is not None:
                raise ValueError(f"{told} of {self.name} must come with base='exp3', got {given!r}")
        if gamma is not None and horizon is not None:
            raise ValueError(f"horizon of {self.name} must not come with gamma, got {horizon!r}")
        if gamma is None:
            n = None if horizon is None else checks.integer(f"horizon of {self.name}", horizon, low=1)
            L = len(catalog)
            gamma = 0.1 if n is None else min(1.0, max(1e-9, sqrt(L * log(L) / ((math.e - 1.0) * n))))
        self.gamma = checks.number(f"gamma of {self.name}", gamma, low=0.0, strict=True, high=1.0)
        if self.samples:
            self.order_matters = "Exp3 divides rewards by probabilities of showing, which follow from what was learned"

    @property
    def settings(self) -> dict[str, Any]:
        """What the statistics depend on."""
        own = {"items": self.catalog.items_digest, "K": self.K, "base": self.base}
        return {**own, "gamma": self.gamma} if self.base == "exp3" else own

    def start(self, users: int) -> State:
        """Nothing shown, nothing clicked, at any position."""
        shape, updates = (users, self.K, self.catalog.L), np.zeros(users, dtype=np.int64)
        if self.base == "exp3":
            return self.new_state(score=np.zeros(shape), updates=updates)
        return self.new_state(
            shown=np.zeros(shape, dtype=np.int64), clicked=np.zeros(shape, dtype=np.int64), updates=updates
        )

    def choose(self, state: State, rng: Any) -> Integers:
        """Position by position, the choice of its bandit among what is left."""
        return self.choose_among(state, rng, EVERYTHING)

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """The same, from what each user may be shown."""
        users, K, L = state.users, self.K, self.catalog.L
        out = np.empty((users, K), dtype=np.int64)
        if self.base == "exp3":
            luck = np.stack([generator.random(K) for generator in rng])
            rows = 1 if choice.start.size == 2 else users
            excluded = np.stack([choice.excluded(user, self.catalog.present) for user in range(rows)])
            exp3_lists(state.score, self.gamma, luck, excluded, out)
            return out
        items, start = choice.items_if_limited(users, self.catalog)
        if items is not None and start is not None and start.size > 2:  # a range for every position
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
        """Each position from its own reward."""
        if self.base == "exp3":
            exp3_learn(state.score, self.gamma, lists, clicks, self.rule, ~self.catalog.present)
        else:
            count_positions(state.shown, state.clicked, lists, clicks, self.rule)
        state.updates += 1


class IndependentBandits(RankedBandits):
    """Ranked bandits whose positions do not compete: any click is a reward for its position (Kohli et al. 2013).

    Each position's bandit chooses among the items not above it and learns how often its items are clicked, whatever
    was clicked elsewhere: the probability ranking principle. Where people click once at most, the same as ranked
    bandits as they are here. See :class:`RankedBandits`.
    """

    rule = ALL


@kernel
def first_free(tops: Integers, out: Integers) -> None:
    """Position by position, the first item of its own ranking tops (users, K, K) not in the list yet; into out."""
    users, K = out.shape
    for user in range(users):
        out[user] = -1
        for k in range(K):
            for rank in range(K):
                if not holds(out[user], tops[user, k, rank]):
                    out[user, k] = tops[user, k, rank]
                    break


@kernel
def count_positions(shown: Integers, clicked: Integers, lists: Integers, clicks: Booleans, rule: int) -> None:
    """Adds one showing of each item at its position, and one reward where it was clicked; (users, K, L).

    By the rule, only the first click is a reward, or any is. O(K) a user.
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
    """(n, m, Σ) over the n open items: m the largest score, Σ the sum of exp(γ·(score - m)/n). Most scores are 0."""
    n, most = 0, 0.0
    for e in range(score.size):
        if not excluded[e]:
            n += 1
            most = max(most, score[e])
    total, rate = 0.0, gamma / n
    nothing = exp(-rate * most)
    for e in range(score.size):
        if not excluded[e]:
            total += nothing if score[e] == 0.0 else exp(rate * (score[e] - most))
    return n, most, total


@kernel
def exp3_lists(score: Floats, gamma: float, luck: Floats, excluded: Booleans, out: Integers) -> None:
    """Position by position, an item drawn with Exp3's probabilities among those open and not in the list yet.

    p_e = (1-γ)·exp(γ·score_e/n)/Σ + γ/n over the n items left; score (users, K, L), luck (users, K) uniform numbers,
    excluded (users or 1, L) is restored. Cost: O(K·L) a user.
    """
    users, K, L = score.shape
    for user in range(users):
        closed = excluded[user % excluded.shape[0]]
        for k in range(K):
            n, most, total = exp3_sums(score[user, k], gamma, closed)
            rate = gamma / n
            nothing = exp(-rate * most)
            left, chosen = luck[user, k], -1
            for e in range(L):
                if closed[e]:
                    continue
                chosen = e
                weight = nothing if score[user, k, e] == 0.0 else exp(rate * (score[user, k, e] - most))
                left -= (1.0 - gamma) * weight / total + gamma / n
                if left < 0.0:
                    break
            out[user, k] = chosen
            closed[chosen] = True
        for k in range(K):
            closed[out[user, k]] = False


@kernel
def exp3_learn(score: Floats, gamma: float, lists: Integers, clicks: Booleans, rule: int, gone: Booleans) -> None:
    """Score += 1/p for every reward (by the rule, the first click or any), p as in exp3_lists with the list above it.

    gone (L,): items no longer there. Cost: O(L) a user and reward.
    """
    excluded = gone.copy()
    for user in range(lists.shape[0]):
        rewarded = examined(clicks[user], rule)
        for k in range(rewarded):
            e = lists[user, k]
            if clicks[user, k]:
                excluded[e] = False  # it was shown, though it may be gone by now
                n, most, total = exp3_sums(score[user, k], gamma, excluded)
                p = (1.0 - gamma) * exp(gamma / n * (score[user, k, e] - most)) / total + gamma / n
                score[user, k, e] += 1.0 / p
            excluded[e] = True
        for k in range(rewarded):
            excluded[lists[user, k]] = gone[lists[user, k]]
