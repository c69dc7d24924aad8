"""The linear family of policies: one class, whose settings give the paper's algorithm and most of its relatives.

| | features="gains" (diverse) | features="items" |
|---|---|---|
| examined="first-click" | CascadeLSB | CascadeLinUCB, C3UCB |
| examined="last-click" | CascadeLSB(examined="last-click") | CascadeLinUCB(examined="last-click") |
| examined="all" | LSBGreedy | CombLinUCB, CombLinTS |

Each of these policies can explore by optimism, by sampling or at random (``explore``), and can forget old impressions
(``discount``, ``window``). The named policies are defined in :mod:`thali.policies.linear.members`.
"""

from __future__ import annotations

from copy import copy
from math import inf
from typing import Any, ClassVar, Self

import numpy as np

from thali import theory
from thali.catalog.candidates import ALL, Choice
from thali.catalog.catalog import Catalog
from thali.catalog.coverage import FIXED
from thali.lists import greedy
from thali.lists.greedy import Builder
from thali.policies.base import Policy
from thali.policies.examined import RULES
from thali.policies.linear import posterior
from thali.policies.linear.forgetting import ClickReading, Discount, Forgetting, Window
from thali.policies.linear.learning import accumulate, observe
from thali.policies.linear.posterior import Posterior, Reading
from thali.policies.linear.prior import Prior
from thali.policies.linear.state import LinearState
from thali.policies.state import State
from thali.tools import checks
from thali.tools.threads import by_parts
from thali.tools.types import Booleans, Floats, Integers

#: The default α is this number divided by σ. docs/decisions.md has the measurement.
DEFAULT_OPTIMISM = 0.8
#: The default σ, which is that of the paper; and the default σ for sampling, where it is the assumed noise
#: (docs/decisions.md).
DEFAULT_SIGMA, SAMPLING_SIGMA = 0.1, 0.2
#: The default σ with a prior (docs/prior-alpha.md).
PRIOR_SIGMA = 0.3
# A larger α could make products in the bounds of the search engine overflow.
MOST_OPTIMISM = 1e100
# The square of a larger σ of a state could overflow.
MOST_SIGMA = 1e100

EXPLORE = ("optimism", "sampling", "epsilon")


class LinearPolicy(Policy):
    """Greedy lists under linear attraction: the index of item e is xᵀθ̄ + α·sqrt(xᵀM⁻¹x).

    With a prior θ ~ N(μ, Σ), M′ = (M - I) + Σ⁻¹ and B′ = B + σ²Σ⁻¹μ take the place of M and B in the index and in θ̄.
    The state still holds M and B, so a policy with another prior can use it. In the same way, a state of a policy with
    another σ can be used: M is then read as I + (σ_M/σ)²·(M - I).

    This class implements Algorithm 1 of the paper and its relatives. Symbols: M, B and θ̄ = σ⁻²M⁻¹B as in the paper;
    x = Δ(e|S) for features="gains", and x = Δ(e|∅) for features="items". The policy learns from the positions that
    count as examined: those up to the first click (examined="first-click"), those up to the last click ("last-click"),
    or all positions ("all"). Without a click, all K positions count as examined.

    Differences from the paper: M⁻¹ and θ̄ are computed by an LDLᵀ factorization of M after each update. The argmax is
    found by the search engine, with the same result. Ties go to the lowest item number.

    Parameters
    ----------
    catalog, K: the items to choose from, and the length of a list (1 ≤ K ≤ L).
    sigma: σ ≥ 0.001, the learning rate, 0.1 by default. With explore="sampling", it is the assumed noise, 0.2 by
        default (about the standard deviation of a click that has probability 0.04). With a prior, by default the σ of
        the prior or, if it has none, 0.3.
    alpha: α ≥ 0, or "theory" for the value in the theoretical analysis of the policy. By default ("default") 0.8/σ,
        which does not depend on a horizon. With a prior, by default sqrt(log(1 + t)) times the ``optimism`` of the
        prior, where t is the number of lists that the policy has learned from for this user (:meth:`default_alpha`).
    prior: what is believed about people before their first click (:class:`thali.Prior`). By default N(0, I), as in the
        paper.
    horizon: n, the number of steps, for alpha="theory" if the analysis needs it.
    examined: "first-click" or "last-click". It cannot be changed for policies that learn from all positions.
    explore: "optimism" ranks by the index above, with its bonus for uncertainty. "sampling" shows the greedy list under
        θ ~ N(θ̄, M⁻¹), drawn for each list (Thompson sampling, without α). "epsilon" shows the greedy list under θ̄ or,
        with probability epsilon, a random list.
    epsilon: ε in [0, 1], for explore="epsilon"; 0.1 by default.
    discount: γ in (0, 1]. An impression counts γ^age, where age is the number of the user's impressions since then. 1
        by default, so that nothing is forgotten.
    window: W. Only the last W impressions of each user count. The state stores them, which takes a little more than
        W·(8Kd + K + 8) bytes for each user. alpha="theory" does not take forgetting into account.
    build: the function that builds lists (:class:`thali.lists.Builder`); greedy by default.
    threads: the number of threads that share a batch of users. The results do not depend on it.

    Cost for each user: to recommend, see docs/engine.md, plus O(d³) for sampling. To learn, O(K·s² + d³), plus
    O(√W·(d² + K·d)) for a window. Memory: O(d²).

    """

    features: ClassVar[str]
    examined: str
    explore: str = "optimism"
    cap: float = inf
    reading_settings = frozenset({"sigma"})
    predicts_probabilities = True

    def __init__(
        self,
        catalog: Catalog,
        K: int,
        *,
        sigma: float | None = None,
        alpha: float | str | None = None,
        prior: Prior | None = None,
        horizon: int | None = None,
        examined: str | None = None,
        explore: str | None = None,
        epsilon: float | None = None,
        discount: float = 1.0,
        window: int | None = None,
        build: Builder = greedy.build,
        threads: int = 1,
    ) -> None:
        super().__init__(catalog, K, threads=threads)
        self.horizon = None if horizon is None else checks.integer(f"horizon of {self.name}", horizon, low=1)
        if not callable(build):
            raise TypeError(f"build of {self.name} must be a function like thali.lists.greedy.build, got {build!r}")
        self.build = build
        if examined is not None:
            allowed = ("all",) if self.examined == "all" else ("first-click", "last-click")
            self.examined = checks.one_of(f"examined of {self.name}", examined, allowed)
        if explore is not None:
            self.explore = checks.one_of(f"explore of {self.name}", explore, EXPLORE)
        self.samples = self.explore != "optimism"
        self._given_sigma = (
            None if sigma is None else checks.number(f"sigma of {self.name}", sigma, low=theory.LEAST_SIGMA)
        )
        self._set_prior(prior)
        if epsilon is not None and self.explore != "epsilon":
            raise ValueError(
                f"epsilon of {self.name} can only be given with explore='epsilon', got epsilon={epsilon!r} and "
                f"explore={self.explore!r}"
            )
        self.epsilon = checks.number(f"epsilon of {self.name}", 0.1 if epsilon is None else epsilon, low=0.0, high=1.0)
        self.positions: Floats = np.ones(self.K)
        self.forgetting: Forgetting | None = None
        if window is not None and discount != 1.0:
            raise ValueError(
                f"window and discount of {self.name} must not be given together, got {window!r} and {discount!r}"
            )
        if window is not None:
            self.forgetting = Window(window, self.name)
        else:
            fading = Discount(discount, self.name)
            self.forgetting = None if fading.gamma == 1.0 else fading
        self._given_alpha = alpha
        self.alpha = self._alpha(alpha)
        if self.alpha == "theory":
            self.theoretical_alpha(self.init(1))  # if a setting is missing, raises an error now, not at the first list

    def _set_prior(self, prior: Prior | None) -> None:
        """Check and set the prior, and the σ that follows from it."""
        if prior is not None:
            prior = checks.instance(f"prior of {self.name}", prior, Prior).arranged(self.name, self.catalog.topics)
        self._prior = prior
        given = self._given_sigma
        suited = PRIOR_SIGMA if prior is None or prior.sigma is None else prior.sigma
        #: The σ of this policy with a prior, whether or not it has one: the given σ or the default.
        self.sigma_with_prior: float = suited if given is None else given
        if prior is not None:
            self.sigma = self.sigma_with_prior
        elif given is None:
            self.sigma = SAMPLING_SIGMA if self.explore == "sampling" else DEFAULT_SIGMA
        else:
            self.sigma = given
        # For each σ of a state, how the policy reads its M and B. Variants of the policy share it.
        self._readings: dict[float, Reading] = {}

    def with_prior(self, prior: Prior | None, catalog: Catalog | None = None) -> Self:
        """Return the same policy with another prior and, if given, another catalog.

        The settings that you gave stay. Defaults that depend on the prior, such as α and σ, are those of the new prior.
        A state of this policy can be used with another prior, and with another catalog that has the same topics.
        """
        other = copy(self)
        if catalog is not None:
            other.catalog = checks.instance(f"catalog of {self.name}", catalog, Catalog)
        other._expected = None
        other._set_prior(prior)
        other.alpha = other._alpha(self._given_alpha)
        return other

    def _alpha(self, alpha: float | str | None) -> float | str:
        """Check α and return the value to use. "default" stands for :meth:`default_alpha`."""
        if self.explore != "optimism":
            if alpha is not None:
                raise ValueError(f"alpha of {self.name} must not be given with explore={self.explore!r}, got {alpha!r}")
            return 0.0
        if alpha is None or (isinstance(alpha, str) and alpha == "default"):
            return DEFAULT_OPTIMISM / self.sigma if self.prior is None else "default"
        if isinstance(alpha, str):
            if alpha != "theory":
                raise ValueError(
                    f"alpha of {self.name} must be a number of at least 0, 'theory' or 'default', got {alpha!r}"
                )
            return alpha
        checked = checks.number(f"alpha of {self.name}", alpha, low=0.0)
        if checked > MOST_OPTIMISM:
            raise ValueError(f"alpha of {self.name} must be at most {MOST_OPTIMISM:g}, got {alpha!r}")
        return checked

    @property
    def prior(self) -> Prior | None:
        """What is believed about people before their first click. For another prior, create another policy."""
        return self._prior

    @property
    def given_sigma(self) -> float | None:
        """The σ that this policy was created with, or None if it uses the default, which depends on the prior."""
        return self._given_sigma

    @property
    def settings(self) -> dict[str, Any]:
        """The settings on which M and B depend."""
        return {
            "topics": self.catalog.topics_digest,
            "sigma": self.sigma,
            "features": self.features,
            "examined": self.examined,
            "discount": self.forgetting.gamma if isinstance(self.forgetting, Discount) else 1.0,
            "window": self.forgetting.size if isinstance(self.forgetting, Window) else None,
        }

    def start(self, users: int) -> State:
        """Return the initial state: M = I_d, B = 0 (Algorithm 1, line 2)."""
        d = self.catalog.d
        more = {} if self.forgetting is None else self.forgetting.arrays(users, self.K, d)
        M, B, updates = np.tile(np.eye(d), (users, 1, 1)), np.zeros((users, d)), np.zeros(users, dtype=np.int64)
        return LinearState(type(self).__name__, self.settings, M=M, B=B, updates=updates, **more)

    def estimate(self, state: State) -> Floats:
        """Return θ̄ = σ⁻²M⁻¹B (users, d) (Algorithm 1, line 4). With a prior, σ⁻²M′⁻¹B′."""
        return np.asarray(self.posterior(state).solution * self.sigma**-2)

    def posterior(self, state: State) -> Posterior:
        """Return M⁻¹, M⁻¹B and log det M of each user or, with a prior, M′⁻¹, M′⁻¹B′ and log det M′.

        θ ~ N(θ̄, M′⁻¹) is what the policy believes about each user. Do not change the arrays.
        """
        self.check(state)
        return self._posterior(state)

    def _posterior(self, state: State) -> Posterior:
        assert isinstance(state, LinearState)
        return state.posterior(self.reading(state))

    def reading(self, state: State) -> Reading:
        """Return how the policy reads M and B of a state, given its prior and the σ of both."""
        own = state.settings.get("sigma")
        found = self._readings.get(own) if isinstance(own, float) else None
        return self._new_reading(own) if found is None else found

    def _new_reading(self, state_sigma: Any) -> Reading:
        own = checks.number(f"sigma of a state of {self.name}", state_sigma, low=theory.LEAST_SIGMA, high=MOST_SIGMA)
        if self.prior is None:
            d = self.catalog.d
            reading = Reading(np.eye(d), np.zeros(d), (own / self.sigma) ** 2, 1.0)
        else:
            reading = self.prior.reading(self.sigma, own)
        return self._readings.setdefault(own, reading)

    def information(self, state: State) -> Floats:
        """Return log det M′ - log det Σ⁻¹ (users,): how much has been learned about each user. It is 0 at first.

        Without a prior, this is log det M.
        """
        before = 0.0 if self.prior is None else self.prior.logdet
        return np.maximum(0.0, self._posterior(state).logdet - before)

    def optimism(self, state: State) -> Floats:
        """Return the current α of each user (users,)."""
        self.check(state)
        return self._optimism(state)

    def _optimism(self, state: State) -> Floats:
        if self.alpha == "theory":
            return self.theoretical_alpha(state)
        if self.alpha == "default":
            return self.default_alpha(state)
        alpha = np.empty(state.users)
        alpha.fill(self.alpha)
        return alpha

    def default_alpha(self, state: State) -> Floats:
        """Return the default α with a prior (users,): c·sqrt(log(1 + t)), if the policy has learned from t lists.

        c is the ``optimism`` of the prior, or 1 if it has none. So the first list is the greedy list under the mean of
        the prior. α grows without bound unless c is 0, so a mistake in the prior is corrected in the end, although
        slowly if c or the covariance is small. A policy that forgets counts at most the lists that it remembers: W for
        a window, 1/(1-γ) for a discount. It may never correct a wrong prior.
        """
        memory = inf if self.forgetting is None else self.forgetting.memory
        factor = 1.0 if self.prior is None or self.prior.optimism is None else self.prior.optimism
        return np.asarray(factor * np.sqrt(np.log1p(np.minimum(state.arrays["updates"], memory))))

    def theoretical_alpha(self, state: State) -> Floats:
        """Return the α of Theorem 2 for this horizon (users,), which assumes ‖θ*‖ ≤ 1.

        With a prior, return the corresponding α for people as far from the mean as θ* ~ N(μ, Σ) (docs/theory.md).
        """
        return self._horizon_alpha(state, 1.0 / self._horizon())

    def _horizon_alpha(self, state: State, delta: float) -> Floats:
        about = self.catalog.d, self.K, self._horizon(), self.sigma
        if self.prior is None:
            alpha = theory.optimism(*about, delta=delta)
        else:
            alpha = theory.prior_optimism(*about, self.prior.largest_variance, delta=delta)
        return np.full(state.users, alpha)

    def gains(self, lists: Any) -> Floats:
        """Return the features x at every position (users, K, d).

        They are Δ(a_k|a_1..a_{k-1}) for features="gains", and Δ(a_k|∅) for features="items".
        """
        return self.catalog.gains(lists) if self.features == "gains" else self.catalog.item_gains(lists)

    def predict(self, state: State, lists: Any) -> Floats:
        """Return the estimated attraction ⟨x, θ̄⟩ of the item at each position (users, K), with x as in :meth:`gains`.

        It includes no bonus for uncertainty. It may be below 0 or above 1. Cost: O(K·d) for each user.
        """
        self.check(state)
        lists = checks.item_lists("lists", lists, state.users, self.catalog.L)
        return np.asarray(np.einsum("ukd,ud->uk", self.gains(lists), self.estimate(state)))

    def choose(self, state: State, rng: Any) -> Integers:
        """Return lists as in Algorithm 1, lines 4-11. rng is used only for sampling and random exploration."""
        return self.choose_among(state, rng, ALL)

    def choose_among(self, state: State, rng: Any, choice: Choice) -> Integers:
        """Return lists as :meth:`choose` does, but only with items that each user may be shown."""
        assert isinstance(state, LinearState)
        inverse, solution, _ = self._posterior(state)
        estimate, alpha = solution * self.sigma**-2, self._optimism(state)
        if self.explore == "sampling":
            normal = np.stack([generator.standard_normal(self.catalog.d) for generator in rng])
            posterior.draw(state.arrays["M"], self.reading(state), estimate, normal, estimate)
        if self.threads == 1:
            lists = self._build(estimate, inverse, alpha, choice)
        else:
            lists = np.empty((state.users, self.K), dtype=np.int64)

            def build(users: slice) -> None:
                lists[users] = self._build(estimate[users], inverse[users], alpha[users], choice.part(users))

            by_parts(build, state.users, self.threads)
        if self.explore == "epsilon":
            at_random = [user for user, generator in enumerate(rng) if generator.random() < self.epsilon]
            for user in at_random:
                items = np.flatnonzero(~choice.excluded(user, self.catalog.present))
                lists[user] = rng[user].choice(items, self.K, replace=False)
        return lists

    def _build(self, estimate: Floats, inverse: Floats, alpha: Floats, choice: Choice) -> Integers:
        """Call the builder. ``choice`` is passed only if it excludes items, so a simple builder need not support it."""
        among = {} if choice is ALL else {"choice": choice}
        return self.build(
            self.catalog, estimate, inverse, alpha, K=self.K, features=self.features, cap=self.cap, **among
        )

    def learn(self, state: State, lists: Integers, clicks: Booleans, gains: Floats) -> None:
        """Update M and B as in Algorithm 1, lines 13-17. If the policy forgets, these lists count as the latest."""
        self._learn(state, clicks, gains, None)

    def learn_late(self, state: State, lists: Integers, clicks: Booleans, gains: Floats, shown_at: Integers) -> None:
        """Update M and B as :meth:`learn` does, for the impressions with these numbers."""
        if type(self).learn is LinearPolicy.learn:
            self._learn(state, clicks, gains, shown_at)
        elif self.forgetting is None:
            self.learn(state, lists, clicks, gains)
        else:
            raise TypeError(
                f"{self.name} must define learn_late() to accept shown_at, because it forgets old feedback and "
                "overrides learn()"
            )

    def _learn(self, state: State, clicks: Booleans, gains: Floats, number: Integers | None) -> None:
        assert isinstance(state, LinearState)
        self.check_precision(state)
        if self.forgetting is None:
            self.add(state, clicks, gains)
        else:
            latest = state.clock if number is None else number
            how = ClickReading(RULES[self.examined], state.settings["sigma"] ** -2, self.positions)
            self.forgetting.learn(state, gains, clicks, latest, how)
        state.updates += 1
        state.refresh()

    def add(self, state: State, clicks: Booleans, gains: Floats, *, times: float = 1.0) -> None:
        """Update M and B of a state in place, as in Algorithm 1, lines 13-17, without forgetting.

        M keeps the σ of the state. times=-1 subtracts what an earlier call has added, except for rounding. The caller
        then calls ``state.refresh()``.
        """
        M, B, precision = state.arrays["M"], state.arrays["B"], state.settings["sigma"] ** -2
        accumulate(M, B, gains, clicks, RULES[self.examined], precision, self.positions, np.full(len(B), times))

    def check_precision(self, state: State) -> None:
        """Raise an error if M is too large for an accurate M′⁻¹ after one more list."""
        memory = inf if self.forgetting is None else self.forgetting.memory
        reading, updates = self.reading(state), state.arrays["updates"]
        largest_error = min(1.0, reading.least / reading.ratio)
        user = posterior.first_inexact(state.arrays["M"], updates, self.K, memory, largest_error)
        if user >= 0:
            wide = "" if self.prior is None else f", and a prior with variances up to {self.prior.largest_variance:g},"
            raise ValueError(
                f"sigma of {self.name} must be larger{', or the covariance of the prior smaller,' if wide else ''} to "
                "learn from so many lists, because rounding errors would make M⁻¹ wrong, got "
                f"sigma={state.settings['sigma']:g}{wide} after {updates[user]} lists for user {user}"
            )

    def variant(self, K: int, alpha: float | str | None = None) -> Self:
        """Return the same policy with another list length K and, if given, another α.

        Both policies accept the same states. K may exceed the current number of items, so that the policy can learn
        from a list that was shown when there were more items.
        """
        other = copy(self)
        other.K = checks.integer(f"K of {self.name}", K, low=1)
        if (self.positions != 1.0).any():
            raise TypeError(f"variant needs a policy that gives all positions the same weight, got {self.name}")
        other.positions = np.ones(other.K)
        if alpha is not None:
            other._given_alpha = alpha
            other.alpha = other._alpha(alpha)
        return other

    def learn_now(self, state: State, lists: Integers, clicks: Booleans) -> None:
        """Update M and B as :meth:`learn` does, with the same result bit for bit, but without an array of gains.

        The array is still used in subclasses that override gains or learn, with a custom coverage object, and if the
        policy forgets.
        """
        own_class, c = type(self), self.catalog
        overridden = own_class.gains is not LinearPolicy.gains or own_class.learn is not LinearPolicy.learn
        if overridden or c.custom is not None or self.forgetting is not None:
            super().learn_now(state, lists, clicks)
            return
        assert isinstance(state, LinearState)
        kind = c.kind if self.features == "gains" else FIXED
        rule, precision, positions = RULES[self.examined], state.settings["sigma"] ** -2, self.positions
        M, B = state.arrays["M"], state.arrays["B"]
        self.check_precision(state)

        def learn(users: slice) -> None:
            observe(kind, c.sparse, lists[users], clicks[users], rule, precision, positions, M[users], B[users])
            state.refresh(users)

        by_parts(learn, state.users, self.threads)
        state.arrays["updates"] += 1

    def _horizon(self) -> int:
        if self.horizon is None:
            raise ValueError(f"horizon of {self.name} must be given for alpha='theory', got None")
        return self.horizon
