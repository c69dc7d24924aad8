"""The linear family: one model with two switches, from which the paper's algorithm and two of its baselines follow.

| | features="gains" (diverse) | features="items" |
|---|---|---|
| examined="first-click" | CascadeLSB | CascadeLinUCB |
| examined="all" | LSBGreedy | |
"""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar

import numpy as np

from thali import checks, theory
from thali.candidates import ALL, Choice
from thali.catalog import Catalog
from thali.kernels import index, learn, posterior
from thali.lists import Builder, greedy
from thali.policies.base import Policy
from thali.policies.state import State
from thali.threads import by_parts
from thali.types import Booleans, Floats, Integers

#: The default optimism is this over sigma; docs/decisions.md has the measurement.
DEFAULT_OPTIMISM = 0.8
# Beyond this, products in the search's bounds would overflow.
MOST_OPTIMISM = 1e100

EVERYONE = slice(None)
EXAMINED = {"first-click": learn.FIRST_CLICK, "all": learn.ALL}


class LinearState(State):
    """M (users, d, d), B (users, d) and updates (users,), with what follows from them.

    inverse = M⁻¹, solution = M⁻¹B (so θ̄ = σ⁻²·solution) and logdet = log det M are functions of M and B alone: they
    are not saved, and a state that was loaded decides the same to the last bit.
    """

    family = "linear"

    def __init__(self, learner: str, settings: dict[str, Any], /, M: Floats, B: Floats, updates: Integers) -> None:
        super().__init__(learner, settings, M=M, B=B, updates=updates)
        users, d = B.shape
        if M.shape != (users, d, d) or updates.shape != (users,) or not M.dtype == B.dtype == np.float64:
            raise ValueError(f"M, B and updates must fit, M and B as floats: {M.shape}, {B.shape}, {updates.shape}")
        self.inverse: Floats = np.empty_like(M)
        self.solution: Floats = np.empty_like(B)
        self.logdet: Floats = np.empty(users)
        self.refresh()

    def refresh(self, users: slice = EVERYONE) -> None:
        """Recompute what follows from M and B; call it if you have written into them yourself. O(d³) a user."""
        M, B = self.arrays["M"], self.arrays["B"]  # rather than by attribute, a slow road in a step of some µs
        posterior.refresh(M[users], B[users], self.inverse[users], self.solution[users], self.logdet[users])

    def check(self) -> None:
        """M symmetric with no eigenvalue below 1, B finite, updates counts."""
        if not (np.isfinite(self.M).all() and np.isfinite(self.B).all()) or (self.updates < 0).any():
            raise ValueError("M and B must be finite, and updates counts")
        eigenvalues = np.linalg.eigvalsh(self.M)
        if (self.M.transpose(0, 2, 1) != self.M).any() or (eigenvalues[:, 0] < 1 - 1e-9 * eigenvalues[:, -1]).any():
            raise ValueError("M must be symmetric, the identity and more")


class LinearPolicy(Policy):
    """Greedy lists under optimistic linear attraction: item e is worth xᵀθ̄ + α·sqrt(xᵀM⁻¹x).

    Algorithm 1 of the paper and its relatives. Symbols: M, B, θ̄ = σ⁻²M⁻¹B as there; x = Δ(e|S) for
    features="gains", Δ(e|∅) for "items". A position counts as examined up to the first click ("first-click"; all K if
    there is none) or always ("all").

    Departs from the paper: M⁻¹ and θ̄ come from one LDLᵀ of M after each update; the argmax is searched, not
    scanned, with the same result; ties go to the lowest item.

    Parameters
    ----------
    catalog, K: what to choose from, and how many (1 ≤ K ≤ L).
    sigma: σ ≥ 1e-6, the learning rate.
    alpha: α ≥ 0; "theory" for what the policy's own analysis asks; by default 0.8/σ, which needs no horizon.
    horizon: n, for alpha="theory" where the analysis needs it.
    build: how the list is built (:class:`thali.lists.Builder`); greedily by default.
    threads: how many share the users of a batch; what comes out does not depend on it.

    Cost a user: to recommend, see :mod:`thali.kernels.search`; O(K·s² + d³) to learn; O(d²) memory.

    """

    features: ClassVar[str]
    examined: ClassVar[str]
    cap: float = inf

    def __init__(
        self,
        catalog: Catalog,
        K: int,
        *,
        sigma: float = 0.1,
        alpha: float | str | None = None,
        horizon: int | None = None,
        build: Builder = greedy,
        threads: int = 1,
    ) -> None:
        super().__init__(catalog, K, threads=threads)
        self.sigma = checks.number(f"sigma of {self.name}", sigma, low=theory.LEAST_SIGMA)
        self.horizon = None if horizon is None else checks.integer(f"horizon of {self.name}", horizon, low=1)
        if not callable(build):
            raise TypeError(f"build of {self.name} must be a function like thali.lists.greedy, got {build!r}")
        self.build = build
        self.alpha: float | str
        if alpha is None:
            self.alpha = DEFAULT_OPTIMISM / self.sigma
        elif isinstance(alpha, str):
            if alpha != "theory":
                raise ValueError(f"alpha of {self.name} must be a number of at least 0, or 'theory', got {alpha!r}")
            self.alpha = alpha
            self.theoretical_alpha(self.init(1))  # what is missing for it is an error now, not at the first list
        else:
            self.alpha = checks.number(f"alpha of {self.name}", alpha, low=0.0)
            if self.alpha > MOST_OPTIMISM:
                raise ValueError(f"alpha of {self.name} must be at most {MOST_OPTIMISM:g}, got {alpha!r}")

    @property
    def settings(self) -> dict[str, Any]:
        """What M and B depend on."""
        return {
            "topics": self.catalog.topics_digest,
            "sigma": self.sigma,
            "features": self.features,
            "examined": self.examined,
        }

    def start(self, users: int) -> State:
        """M = I_d, B = 0 (Algorithm 1, line 2)."""
        d = self.catalog.d
        M = np.tile(np.eye(d), (users, 1, 1))
        return LinearState(type(self).__name__, self.settings, M, np.zeros((users, d)), np.zeros(users, dtype=np.int64))

    def estimate(self, state: State) -> Floats:
        """θ̄ = σ⁻²M⁻¹B (users, d), Algorithm 1, line 4."""
        self.check(state)
        return np.asarray(state.solution * self.sigma**-2)

    def optimism(self, state: State) -> Floats:
        """α of each user now (users,)."""
        self.check(state)
        return self._optimism(state)

    def _optimism(self, state: State) -> Floats:
        if self.alpha == "theory":
            return self.theoretical_alpha(state)
        alpha = np.empty(state.users)
        alpha.fill(self.alpha)
        return alpha

    def theoretical_alpha(self, state: State) -> Floats:
        """α of Theorem 2 for this horizon, with ‖θ*‖ ≤ 1 (users,)."""
        return np.full(state.users, theory.optimism(self.catalog.d, self.K, self._horizon(), self.sigma))

    def gains(self, lists: Any) -> Floats:
        """The features x of every position as shown (users, K, d): Δ(a_k|a_1..a_{k-1}), or Δ(a_k|∅) for "items"."""
        return self.catalog.gains(lists) if self.features == "gains" else self.catalog.item_gains(lists)

    def choose(self, state: State, rng: Any) -> Integers:
        """Algorithm 1, lines 4-11. Deterministic: rng is not used."""
        return self.choose_among(state, rng, ALL)

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """The same, from what each user may be shown."""
        assert isinstance(state, LinearState)
        estimate, alpha = state.solution * self.sigma**-2, self._optimism(state)
        if self.threads == 1:
            return self._build(estimate, state.inverse, alpha, choice)
        lists = np.empty((state.users, self.K), dtype=np.int64)
        if self.catalog.own is None:
            self.catalog.groups  # noqa: B018 (made once, before several threads ask for it)

        def build(users: slice) -> None:
            lists[users] = self._build(estimate[users], state.inverse[users], alpha[users], choice.part(users))

        by_parts(build, state.users, self.threads)
        return lists

    def _build(self, estimate: Floats, inverse: Floats, alpha: Floats, choice: Choice) -> Integers:
        """By the builder, which need not know of choices where there is none to make."""
        among = {} if choice is ALL else {"choice": choice}
        return self.build(
            self.catalog, estimate, inverse, alpha, K=self.K, features=self.features, cap=self.cap, **among
        )

    def learn(self, state: State, lists: Integers, clicks: Booleans, gains: Floats) -> None:
        """Algorithm 1, lines 13-17."""
        assert isinstance(state, LinearState)
        learn.accumulate(state.M, state.B, gains, clicks, EXAMINED[self.examined], self.sigma**-2)
        state.updates += 1
        state.refresh()

    def learn_now(self, state: State, lists: Integers, clicks: Booleans) -> None:
        """The same, to the last bit, straight from the weights; unless gains or learning are of one's own."""
        mine, c = type(self), self.catalog
        if c.own is not None or mine.gains is not LinearPolicy.gains or mine.learn is not LinearPolicy.learn:
            super().learn_now(state, lists, clicks)
            return
        assert isinstance(state, LinearState)
        kind = c.kind if self.features == "gains" else index.FIXED
        rule, precision = EXAMINED[self.examined], self.sigma**-2
        M, B = state.arrays["M"], state.arrays["B"]

        def observe(users: slice) -> None:
            learn.observe(kind, c.sparse, lists[users], clicks[users], rule, precision, M[users], B[users])
            state.refresh(users)

        by_parts(observe, state.users, self.threads)
        state.arrays["updates"] += 1

    def _horizon(self) -> int:
        if self.horizon is None:
            raise ValueError(f"horizon of {self.name} must be given for alpha='theory', got None")
        return self.horizon


class CascadeLSB(LinearPolicy):
    """Maximises the probability of a click on a diverse list, under the diverse cascade model. Algorithm 1.

    See :class:`LinearPolicy` for parameters, departures and cost. alpha="theory" is Theorem 2's lowest.

    Examples
    --------
    >>> import thali
    >>> catalog = thali.Catalog([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5]])
    >>> policy = thali.CascadeLSB(catalog, K=2)
    >>> state = policy.init(users=1)
    >>> lists = policy.recommend(state)
    >>> policy.update(state, lists, [[False, True]])
    >>> lists, policy.estimate(state).round(2)
    (array([[0, 2]]), array([[0.  , 1.92]]))

    """

    features = "gains"
    examined = "first-click"


class LSBGreedy(LinearPolicy):
    """Maximises the expected number of clicks on a diverse list, if every position is examined (Yue and Guestrin 2011).

    Learns from all positions, so on people who leave after a click it underrates what stands lower.
    See :class:`LinearPolicy`. alpha="theory" is (1/σ)·sqrt(log det M_t + 2·log(1/δ)) + 1, for each user at each step;
    it needs no horizon. delta: δ in (0, 1].
    """

    features = "gains"
    examined = "all"

    def __init__(self, catalog: Catalog, K: int, *, delta: float = 0.05, **settings: Any) -> None:
        self.delta = checks.number(f"delta of {self.name}", delta, low=0.0, strict=True, high=1.0)
        super().__init__(catalog, K, **settings)

    def theoretical_alpha(self, state: State) -> Floats:
        """The determinant-based width (users,)."""
        return theory.determinant_optimism(state.logdet, self.sigma, self.delta)


class CascadeLinUCB(LinearPolicy):
    """Maximises the probability of a click where items attract independently of one another (Zong et al. 2016).

    A cascade with features x_e = Δ(e|∅), as the paper sets it for comparison: no diversity.
    See :class:`LinearPolicy`. alpha="theory" is Theorem 2's with 2·log(nK) in place of 2·log n.

    Departs from its paper: indices are capped at 1 only if ``capped``; at theoretical α the cap makes every item tie.
    """

    features = "items"
    examined = "first-click"

    def __init__(self, catalog: Catalog, K: int, *, capped: bool = False, **settings: Any) -> None:
        if not isinstance(capped, bool):
            raise TypeError(f"capped of {self.name} must be True or False, got {capped!r}")
        self.cap = 1.0 if capped else inf
        super().__init__(catalog, K, **settings)

    def theoretical_alpha(self, state: State) -> Floats:
        """α of Zong et al. for this horizon (users,)."""
        n = self._horizon()
        alpha = theory.optimism(self.catalog.d, self.K, n, self.sigma, delta=1.0 / (n * self.K))
        return np.full(state.users, alpha)
