"""The named policies of the linear family: the paper's algorithm, its baselines, and their relatives."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from thali import theory
from thali.catalog.catalog import Catalog
from thali.policies.linear.policy import LinearPolicy
from thali.policies.state import State
from thali.tools import checks
from thali.tools.types import Floats


class CascadeLSB(LinearPolicy):
    """Maximizes the probability of a click on a diverse list, under the diverse cascade model. This is Algorithm 1.

    See :class:`LinearPolicy` for the parameters, the differences from the paper, and the cost. alpha="theory" is the
    lowest α for which Theorem 2 holds. With examined="last-click", the policy learns from several clicks, which the
    paper leaves for future work.

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


class CascadeHybrid(CascadeLSB):
    """CascadeLSB for items that attract both by their relevance and by what they add to the list (Li et al. 2020).

    Item a_k attracts with probability ⟨z_k, β*⟩ + ⟨Δ(a_k|a_1..a_{k-1}), θ*⟩. The relevance features z_k are the weights
    of the item on the steady topics of the catalog, such as its quality or the score of another model. The gains Δ are
    those on the topics that fade (``fading`` of :class:`thali.Catalog`). If every topic fades, this policy is
    CascadeLSB. If no topic does, its lists are those of CascadeLinUCB with the same α.

    The index and the update are those of CascadeLSB, with x = (Δ, z): one regression learns β and θ. Li et al. compute
    the same estimates and intervals from blocks of M. This policy departs from theirs as CascadeLSB does: σ need not be
    1, and α is 0.8/σ by default. See :class:`LinearPolicy` for the parameters and the cost.

    Examples
    --------
    >>> import thali
    >>> films = [[0.5, 0.0, 0.2], [0.5, 0.0, 0.9], [0.0, 0.5, 0.1]]
    >>> catalog = thali.Catalog(films, topics=["crime", "comedy", "quality"], fading=[True, True, False])
    >>> policy = thali.CascadeHybrid(catalog, K=2)
    >>> state = policy.init(users=1)
    >>> policy.update(state, [[1, 2]], [[True, False]])
    >>> policy.estimate(state).round(2)
    array([[0.47, 0.  , 0.84]])

    """


class LSBGreedy(LinearPolicy):
    """Maximizes the expected number of clicks on a diverse list if users examine all positions (Yue and Guestrin 2011).

    It learns from all positions. So if users leave after a click, it underestimates items at lower positions. See
    :class:`LinearPolicy`. alpha="theory" is (1/σ)·sqrt(log det M_t + 2·log(1/δ)) + 1, computed for each user at each
    step; it does not depend on a horizon. With a prior, it is that of :func:`thali.theory.prior_optimism`, with
    log det M′ - log det Σ⁻¹ in place of its bound. delta: δ in (0, 1].
    """

    features = "gains"
    examined = "all"

    def __init__(self, catalog: Catalog, K: int, *, delta: float = 0.05, **settings: Any) -> None:
        self.delta = checks.number(f"delta of {self.name}", delta, low=0.0, strict=True, high=1.0)
        super().__init__(catalog, K, **settings)

    def theoretical_alpha(self, state: State) -> Floats:
        """Return the α that is computed from det M (users,)."""
        radius = 1.0 if self.prior is None else theory.prior_radius(self.catalog.d, self.delta)
        return theory.determinant_optimism(self.information(state), self.sigma, self.delta, radius)


class CascadeLinUCB(LinearPolicy):
    """Maximizes the probability of a click if items attract independently of one another (Zong et al. 2016).

    The model is a cascade with features x_e = Δ(e|∅), as in the paper's experiments, so lists are not diversified. See
    :class:`LinearPolicy`. alpha="theory" is the α of Theorem 2 with 2·log(nK) in place of 2·log n.

    Unlike in the policy of Zong et al., indices are capped at 1 only if ``capped`` is True. With the theoretical α, the
    cap would make all items tie.
    """

    features = "items"
    examined = "first-click"

    def __init__(self, catalog: Catalog, K: int, *, capped: bool = False, **settings: Any) -> None:
        self.cap = 1.0 if checks.flag(f"capped of {self.name}", capped) else inf
        super().__init__(catalog, K, **settings)

    def theoretical_alpha(self, state: State) -> Floats:
        """Return the α of Zong et al. for this horizon (users,)."""
        return self._horizon_alpha(state, 1.0 / (self._horizon() * self.K))


class C3UCB(CascadeLinUCB):
    """CascadeLinUCB in which clicks at lower positions are worth less (Li et al. 2016).

    This is the disjunctive case of contextual combinatorial cascades: the reward of a first click at position k is v_k,
    with 1 = v_1 ≥ v_2 ≥ … > 0. In the regression, each examined position is weighted by v_k, so M = I + σ⁻²Σ v_k²·xxᵀ
    and B = Σ v_k²·x·click. The list contains the K items with the largest indices in descending order, which is optimal
    for any such v. With all v_k = 1, this policy is CascadeLinUCB.

    Li et al. do not specify v. By default, v_k = 0.9^(k-1). This policy departs from theirs in two ways: indices are
    capped at 1 only if ``capped`` is True, and alpha="theory" is the α of CascadeLinUCB, not their β, which is computed
    from the determinant of M.

    Parameters, in addition to those of :class:`LinearPolicy`
    ---------------------------------------------------------
    position_discounts: v (K,), in (0, 1], never increasing, with v_1 = 1.
    """

    def __init__(self, catalog: Catalog, K: int, *, position_discounts: Any = None, **settings: Any) -> None:
        super().__init__(catalog, K, **settings)
        setting = f"position_discounts of {self.name}"
        given = 0.9 ** np.arange(self.K) if position_discounts is None else position_discounts
        v = checks.floats(setting, given, (self.K,), "(K,)")
        if v[0] != 1.0 or (np.diff(v) > 0.0).any() or v[-1] <= 0.0:
            raise ValueError(f"{setting} must begin with 1, never increase, and stay above 0, got {v.tolist()}")
        self.positions = v**2

    @property
    def settings(self) -> dict[str, Any]:
        """The settings on which M and B depend."""
        return {**super().settings, "positions": self.positions.tolist()}


class CombLinUCB(LinearPolicy):
    """Maximizes the expected number of clicks if users examine all positions and items attract independently.

    This is a combinatorial semi-bandit with linear generalization that chooses the K best items (Wen et al. 2015). See
    :class:`LinearPolicy`. alpha="theory" is the c of Wen et al., (1/σ)·sqrt(d·log(1 + nK/(dσ²)) + 2·log(nK)) + 1.
    """

    features = "items"
    examined = "all"
    theoretical_alpha = CascadeLinUCB.theoretical_alpha


class CombLinTS(CombLinUCB):
    """CombLinUCB that explores by sampling (Wen et al. 2015).

    For each list, it draws θ ~ N(θ̄, M⁻¹) and lists the K best items under this θ. It has no α. See
    :class:`LinearPolicy`.
    """

    explore = "sampling"


class EpsilonGreedy(CascadeLSB):
    """CascadeLSB with random exploration: it shows the greedy list under θ̄ or, with probability ε, a random list.

    See :class:`LinearPolicy`. epsilon is 0.1 by default.
    """

    explore = "epsilon"
