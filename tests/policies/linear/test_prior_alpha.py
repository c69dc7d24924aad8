"""The default and the theoretical α with a prior."""

import numpy as np
import pytest

import thali
from thali import theory
from thali.lab.problems import synthetic

from .prior_cases import D, K, L, catalog, history, some_prior


def test_the_default_alpha_with_a_prior_grows_from_0_with_the_lists_that_are_remembered():
    prior = some_prior()
    for forgetting, most in (({}, np.inf), ({"window": 4}, 4.0), ({"discount": 0.9}, 10.0)):
        policy = thali.CascadeLSB(catalog(), K, prior=prior, **forgetting)
        assert policy.sigma == 0.3
        state = policy.init(2)
        np.testing.assert_array_equal(
            policy.recommend(state), np.tile(thali.greedy_lists(catalog(), prior.mean[None], K), (2, 1))
        )
        for t in range(15):
            np.testing.assert_allclose(policy.optimism(state), np.sqrt(np.log(1 + min(t, most))), rtol=1e-12)
            policy.update(state, policy.recommend(state), np.zeros((2, K), dtype=bool))


@pytest.mark.slow
@pytest.mark.parametrize("mean", [(1 / 3, 1 / 3, 1 / 3), (0.2, 0.2, 0.6)])
def test_with_a_wrong_prior_nobody_is_stuck_on_another_list(mean):
    """Nobody is stuck on the paper's synthetic problem, where α = 0 leaves people on another list forever."""
    problem = synthetic(20)
    prior = thali.Prior(mean, 0.2**2 * np.eye(3))
    stuck = {}
    for alpha in (None, 0.0):
        policy = thali.CascadeLSB(problem.catalog, problem.K, prior=prior, alpha=alpha)
        run = thali.simulate(policy, problem.model, steps=20_000, seed=1)
        unchanged = (run.lists[:, 50:] == run.lists[:, -1:]).all(axis=(1, 2))
        stuck[alpha] = unchanged & (run.last_loss > 0.01 * run.best)
    assert not stuck[None].any()
    assert stuck[0.0].any()


def test_the_theoretical_alpha_with_a_prior():
    prior, n = some_prior(), 1000
    most = np.linalg.eigvalsh(prior.covariance)[-1]
    for kind, delta in ((thali.CascadeLSB, 1 / n), (thali.CascadeLinUCB, 1 / (n * K)), (thali.CombLinUCB, 1 / (n * K))):
        policy = kind(catalog(), K, prior=prior, sigma=0.3, alpha="theory", horizon=n)
        information = D * np.log(1 + n * K * most / (D * 0.3**2))
        log = 2 * np.log(1 / delta)
        expected = np.sqrt(information + log) / 0.3 + np.sqrt(D) + np.sqrt(log)
        np.testing.assert_allclose(policy.optimism(policy.init(2)), expected, rtol=1e-12)
    greedy = thali.LSBGreedy(catalog(), K, prior=prior, sigma=0.3, alpha="theory", delta=0.1)
    state, _ = history(greedy, users=2, steps=9)
    information = greedy.posterior(state).logdet - np.linalg.slogdet(np.linalg.inv(prior.covariance))[1]
    log = 2 * np.log(10)
    np.testing.assert_allclose(
        greedy.optimism(state), np.sqrt(information + log) / 0.3 + np.sqrt(D) + np.sqrt(log), rtol=1e-9
    )
    assert (information > 0).all()


def test_the_theoretical_alpha_contains_the_truth_at_every_step():
    """‖θ̄ - θ*‖ in the norm of M′ is at most α, if θ* is within the radius of the prior and gains have norm ≤ 1."""
    rng, n = np.random.default_rng(14), 200
    weights = rng.uniform(0.0, 1.0, (L, D)) * (rng.random((L, D)) < 0.4)
    short = thali.Catalog(weights / max(1.0, np.linalg.norm(weights, axis=1).max()))
    theta = rng.dirichlet(np.ones(D), size=30)
    prior = thali.Prior.from_preferences(theta)
    policy = thali.CascadeLSB(short, K, prior=prior, alpha="theory", horizon=n)
    off = theta - prior.mean
    assert (np.sqrt(np.einsum("ui,ij,uj->u", off, prior.precision, off)) < theory.prior_radius(D, 1 / n)).all()
    model, state, largest = thali.DiverseCascade(short, theta), policy.init(30), 0.0
    for _ in range(n):
        lists = policy.recommend(state)
        policy.update(state, lists, model.sample(lists, rng))
        off = policy.estimate(state) - theta
        M = (state.M - np.eye(D)) + prior.precision
        largest = max(largest, np.sqrt(np.einsum("ui,uij,uj->u", off, M, off)).max())
    assert 1.0 < largest <= policy.optimism(state)[0]


def test_the_bounds_behind_the_theoretical_alpha_hold():
    """‖θ* - μ‖ in the norm of Σ⁻¹, and log det M′ - log det Σ⁻¹, for people who follow the prior."""
    rng, prior = np.random.default_rng(13), some_prior(scale=0.3)
    drawn = rng.multivariate_normal(prior.mean, prior.covariance, size=20_000) - prior.mean
    radius = np.sqrt(np.einsum("ni,ij,nj->n", drawn, prior.precision, drawn))
    for delta in (0.3, 0.1, 0.01):
        assert (radius > theory.prior_radius(D, delta)).mean() <= delta
    weights = rng.random((L, D))
    short = thali.Catalog(weights / np.linalg.norm(weights, axis=1).max())  # ‖x‖₂ ≤ 1, as the proof assumes
    policy = thali.LSBGreedy(short, K, prior=prior, sigma=0.3)
    for steps in (1, 10, 100):
        state, _ = history(policy, users=2, steps=steps)
        bound = D * np.log(1 + steps * K * prior.largest_variance / (D * 0.3**2))
        assert (policy.information(state) <= bound).all()
