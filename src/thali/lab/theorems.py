"""The paper's theorems and lemmas, compared with runs and brute force."""

from __future__ import annotations

from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from thali import theory
from thali.catalog.catalog import Catalog
from thali.lab.problems import Problem
from thali.lists import greedy, greedy_lists, optimal_list
from thali.people import DiverseCascade
from thali.policies import CascadeLSB
from thali.tools.randomness import streams
from thali.tools.types import Booleans, Floats


def greedy_ratio(catalog: Catalog, theta: Floats, K: int) -> tuple[float, float]:
    """f(A_greedy, θ)/f(A*, θ) for one θ (d,), and the γ that Theorem 1 promises for it."""
    model = DiverseCascade(catalog, theta[None])
    best = model.click_probability(optimal_list(catalog, theta, K)[None])[0]
    greedy_value = model.click_probability(greedy_lists(catalog, theta[None], K))[0]
    gamma = theory.approximation_ratio(K, float(theory.largest_click_probability(catalog, theta[None])[0]))
    return (float(greedy_value / best) if best > 0.0 else 1.0), gamma


def optimistic_ratio(catalog: Catalog, estimate: Floats, inverse: Floats, alpha: float, K: int) -> float:
    """h(A_t, U)/max_A h(A, U) for one user: the greedy list compared with the best of all lists, by their indices.

    U(A) is the index projected onto [0, 1], and h(A, U) = 1 - Π_k (1 - U(A^k)), as in the paper's proof. The paper
    asserts that this is at least the γ of Theorem 1. Cost: all K-permutations of the items.
    """

    def h(lists: Any) -> Floats:
        x = catalog.gains(lists)
        width = np.sqrt(np.maximum(0.0, np.einsum("aki,ij,akj->ak", x, inverse, x)))
        return np.asarray(1.0 - np.prod(1.0 - np.clip(x @ estimate + alpha * width, 0.0, 1.0), axis=1))

    best = h(np.array(list(permutations(range(catalog.L), K)))).max()
    greedy_value = h(greedy.build(catalog, estimate[None], inverse[None], np.array([alpha]), K=K))[0]
    return float(greedy_value / best) if best > 0.0 else 1.0


class Widths(NamedTuple):
    """The quantities in the proof of the regret bound, measured over a run for each user."""

    summed: Floats
    """(users,): Σ_t Σ_k sqrt(ΔᵀM⁻¹Δ) over examined positions (Lemma 2)."""
    furthest: Floats
    """(users,): the largest ‖θ̄_t - θ*‖_M. With this α, every interval would have contained the true value (Lemma 3)."""
    ratios: list[tuple[float, bool]]
    """For some states of the run: :func:`optimistic_ratio`, and whether all intervals contained the true values."""


def follow(problem: Problem, policy: CascadeLSB, steps: int, *, seed: int, look: int = 0) -> Widths:
    """Run the policy on the problem and record the quantities of the lemmas.

    look: compute optimistic ratios every ``look`` steps (0: never).
    """
    model, theta = problem.model, problem.theta
    state: Any = policy.init(model.users)
    generators = streams(seed, "luck", range(model.users))
    summed, furthest = np.zeros(model.users), np.zeros(model.users)
    ratios = []
    for step in range(steps):
        error = policy.estimate(state) - theta
        distance = np.sqrt(np.einsum("ui,uij,uj->u", error, state.M, error))
        furthest = np.maximum(furthest, distance)
        if look and step % look == look - 1:
            for user in range(model.users):
                alpha = float(policy.optimism(state)[user])
                estimate = policy.estimate(state)[user]
                ratio = optimistic_ratio(
                    problem.catalog, estimate, policy.posterior(state).inverse[user], alpha, problem.K
                )
                ratios.append((ratio, bool(distance[user] <= alpha)))
        lists = policy.recommend(state)
        gains = policy.gains(lists)
        clicks = model.sample(lists, generators)
        seen: Booleans = np.cumsum(clicks, axis=1) - clicks == 0  # no click above
        widths = np.sqrt(np.maximum(0.0, np.einsum("uki,uij,ukj->uk", gains, policy.posterior(state).inverse, gains)))
        summed += (widths * seen).sum(axis=1)
        policy.update(state, lists, clicks, gains)
    return Widths(summed, furthest, ratios)
