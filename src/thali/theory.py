"""The paper's α, γ and bounds: one function for each formula, with the theorem or lemma that states it.

The paper states Theorem 2 and its lemmas for gains Δ ∈ [0, 1]^d. However, the proofs that it cites (Zong et al. 2016)
assume ‖x‖₂ ≤ 1, and without this assumption the bounds are false. For example, an item that fully covers ten topics has
an initial width of √10, but Lemma 2 promises at most 1.17 (σ=1, n=1; ``tests/test_theory.py``). The parameter
``gain_norm`` is the largest ‖Δ‖₂. With its default of 1, every formula is the one in the paper. With the true norm, the
same proofs hold for any gains. See docs/theory.md.
"""

from __future__ import annotations

from math import e, exp, log, sqrt
from typing import Any

import numpy as np

from thali.catalog.catalog import Catalog
from thali.tools import checks
from thali.tools.types import Floats

#: The smallest σ allowed. σ⁻² is the weight of one observation relative to the prior. With a smaller σ, M would
#: soon be too large for an accurate M⁻¹ (:func:`thali.policies.linear.posterior.first_inexact`).
LEAST_SIGMA = 1e-3


def click_share(K: int, b_max: float) -> float:
    """Return max{1/K, 1 - (K-1)/2·B}, the share in Lemma 1: if all b_k are in [0, B], then 1 - Π(1-b_k) is at least
    this share of Σ b_k.

    b_max: B.
    """
    K = checks.integer("K", K, low=1)
    b_max = checks.number("b_max", b_max, low=0.0, high=1.0)
    return max(1.0 / K, 1.0 - (K - 1) / 2.0 * b_max)


def approximation_ratio(K: int, c_max: float) -> float:
    """Return γ = (1 - 1/e)·max{1/K, 1 - (K-1)/2·c_max}, the guarantee for the greedy list (Theorem 1).

    >>> round(approximation_ratio(2, 0.3), 4)
    0.5373
    """
    c_max = checks.number("c_max", c_max, low=0.0, high=1.0)
    return (1.0 - 1.0 / e) * click_share(K, c_max)


def largest_click_probability(catalog: Catalog, theta: Any) -> Floats:
    """Return c_max = max_e ⟨c({e}), θ⟩ for each user (users,), as in Theorem 1, given theta (users, d)."""
    theta = checks.preferences("theta", theta, catalog.d)
    alone = catalog.item_gains(np.arange(catalog.L)[:, None])[:, 0]
    return np.asarray(np.minimum(1.0, (theta @ alone.T).max(axis=1)))  # rounding errors may push it above 1


def _information(d: int, K: int, n: int, sigma: float, gain_norm: float, variance: float = 1.0) -> float:
    """Return d·log(1 + nK·‖Δ‖²·λ/(dσ²)), an upper bound on log det M′_n - log det Σ⁻¹.

    λ = variance is the largest eigenvalue of Σ. Without a prior, Σ = I.
    """
    d, K, n = (checks.integer(name, x, low=1) for name, x in (("d", d), ("K", K), ("n", n)))
    sigma = checks.number("sigma", sigma, low=LEAST_SIGMA)
    gain_norm = checks.number("gain_norm", gain_norm, low=0.0, strict=True)
    return d * log(1.0 + n * K * gain_norm**2 * variance / (d * sigma**2))


def optimism(
    d: int,
    K: int,
    n: int,
    sigma: float,
    theta_norm: float = 1.0,
    *,
    delta: float | None = None,
    gain_norm: float = 1.0,
) -> float:
    """Return α = (1/σ)·sqrt(d·log(1 + nK/(dσ²)) + 2·log(1/δ)) + ‖θ*‖₂ (Lemma 3).

    This is the lowest α for which Theorem 2 holds. δ is 1/n by default, as in Theorem 2. The analysis of CascadeLinUCB
    uses δ = 1/(nK) (Zong et al. 2016).

    >>> round(optimism(3, 2, 20_000, sigma=0.1), 1)
    79.8
    """
    information = _information(d, K, n, sigma, gain_norm)
    delta = 1.0 / n if delta is None else checks.number("delta", delta, low=0.0, strict=True, high=1.0)
    theta_norm = checks.number("theta_norm", theta_norm, low=0.0)
    return sqrt(information + 2.0 * log(1.0 / delta)) / sigma + theta_norm


def prior_optimism(
    d: int,
    K: int,
    n: int,
    sigma: float,
    variance: float,
    *,
    delta: float | None = None,
    gain_norm: float = 1.0,
) -> float:
    """Return α = (1/σ)·sqrt(d·log(1 + nK·λ/(dσ²)) + 2·log(1/δ)) + sqrt(d) + sqrt(2·log(1/δ)), with λ = variance.

    This is Lemma 3 with a prior N(μ, Σ), where λ is the largest eigenvalue of Σ. In place of ‖θ*‖₂, there is a bound on
    ‖θ* - μ‖ in the norm of Σ⁻¹ (:func:`prior_radius`). For a person within this bound, all attractions lie in their
    intervals with probability 1 - δ. δ is 1/n by default. docs/theory.md has the derivation and its limits.
    """
    n = checks.integer("n", n, low=1)
    delta = 1.0 / n if delta is None else checks.number("delta", delta, low=0.0, strict=True, high=1.0)
    variance = checks.number("variance", variance, low=0.0, strict=True)
    information = _information(d, K, n, sigma, gain_norm, variance)
    return sqrt(information + 2.0 * log(1.0 / delta)) / sigma + prior_radius(d, delta)


def prior_radius(d: int, delta: float) -> float:
    """Return sqrt(d) + sqrt(2·log(1/δ)), which ‖z‖₂ exceeds with probability at most δ if z ~ N(0, I_d).

    If θ* ~ N(μ, Σ), then ‖θ* - μ‖ in the norm of Σ⁻¹ has the distribution of ‖z‖₂. E‖z‖₂ ≤ sqrt(d), and ‖z‖₂ is a
    1-Lipschitz function of z, so it exceeds its mean by t with probability at most exp(-t²/2).
    """
    d = checks.integer("d", d, low=1)
    delta = checks.number("delta", delta, low=0.0, strict=True, high=1.0)
    return sqrt(d) + sqrt(2.0 * log(1.0 / delta))


def failure_probability(
    d: int, K: int, n: int, sigma: float, alpha: float, theta_norm: float = 1.0, *, gain_norm: float = 1.0
) -> float:
    """Return the smallest δ for which, with this α, all attractions lie in their intervals with probability 1 - δ.

    This is the inverse of :func:`optimism` (Lemma 3). It is 1 if α is too small to guarantee anything.
    """
    alpha = checks.number("alpha", alpha, low=0.0)
    theta_norm = checks.number("theta_norm", theta_norm, low=0.0)
    information = _information(d, K, n, sigma, gain_norm)
    reach = sigma * (alpha - theta_norm)
    return exp(min(0.0, (information - reach**2) / 2.0)) if reach > 0.0 else 1.0


def determinant_optimism(logdet: Floats, sigma: float, delta: float = 0.05, theta_norm: float = 1.0) -> Floats:
    """Return α_t = (1/σ)·sqrt(log det M_t + 2·log(1/δ)) + ‖θ*‖₂, the α of LSBGreedy (Yue and Guestrin 2011).

    It does not depend on a horizon. With a prior, pass log det M′_t - log det Σ⁻¹ as logdet and :func:`prior_radius` as
    theta_norm, as in :func:`prior_optimism`.
    """
    sigma = checks.number("sigma", sigma, low=LEAST_SIGMA)
    delta = checks.number("delta", delta, low=0.0, strict=True, high=1.0)
    theta_norm = checks.number("theta_norm", theta_norm, low=0.0)
    if not (np.asarray(logdet) >= -1e-9).all():
        raise ValueError(f"logdet must be at least 0, because no eigenvalue of M is below 1, got {np.min(logdet)}")
    return np.asarray(np.sqrt(np.maximum(0.0, logdet) + 2.0 * log(1.0 / delta)) / sigma + theta_norm)


def width_sum_bound(d: int, K: int, n: int, sigma: float, *, gain_norm: float = 1.0) -> float:
    """Return K·sqrt(d·n·log[1 + nK/(dσ²)] / log(1 + 1/σ²)), the bound of Lemma 2.

    It bounds Σ_t Σ_k sqrt(ΔᵀM⁻¹Δ), summed over the examined positions.
    """
    information = _information(d, K, n, sigma, gain_norm)
    return K * gain_norm * sqrt(n * information / log(1.0 + gain_norm**2 / sigma**2))


def regret_bound(d: int, K: int, n: int, sigma: float, alpha: float, gamma: float, *, gain_norm: float = 1.0) -> float:
    """Return (2αK/γ)·sqrt(d·n·log[1 + nK/(dσ²)] / log(1 + 1/σ²)) + 1, the bound of Theorem 2.

    It bounds R^γ(n) if α is at least the value of :func:`optimism`.
    """
    alpha = checks.number("alpha", alpha, low=0.0)
    gamma = checks.number("gamma", gamma, low=0.0, strict=True, high=1.0)
    return 2.0 * alpha / gamma * width_sum_bound(d, K, n, sigma, gain_norm=gain_norm) + 1.0


def scaled_regret(best: Any, shown: Any, gamma: float, steps: int) -> Floats:
    """Return R^γ(n) = Σ_t [f(A*, θ*) - f(A_t, θ*)/γ], the scaled regret of Section 6.

    best: f(A*, θ*). shown: Σ_t f(A_t, θ*) over all steps, such as ``run.value[:, -1]`` of a simulation.
    """
    gamma = checks.number("gamma", gamma, low=0.0, strict=True, high=1.0)
    steps = checks.integer("steps", steps, low=1)
    for name, values in (("best", best), ("shown", shown)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite, got {values}")
    return np.asarray(steps * np.asarray(best) - np.asarray(shown) / gamma)
