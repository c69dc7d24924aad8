"""Priors that are learned from other people."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import thali
from thali.policies.linear.prior import MOST_COUNTED, Default, Normal, People

from .prior_cases import D, K, catalog, history


def test_known_preferences_give_their_mean_and_covariance_but_never_a_singular_one():
    rng = np.random.default_rng(9)
    theta = rng.dirichlet(np.linspace(0.2, 2.0, D), size=20_000)
    prior = thali.Prior.from_preferences(theta, topics=list("abcde"))
    np.testing.assert_allclose(prior.mean, theta.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(prior.covariance, np.cov(theta.T), atol=1e-4)
    assert np.linalg.eigvalsh(prior.covariance)[0] > 0.0
    assert np.linalg.eigvalsh(np.cov(theta.T))[0] < 1e-12  # because preferences sum to 1
    same = thali.Prior.from_preferences(np.tile([0.7, 0.2, 0.1], (1_000_000, 1)))  # everybody agrees
    np.testing.assert_allclose(same.mean, [0.7, 0.2, 0.1], rtol=1e-5)
    with_zeros = np.vstack([np.zeros((7, D)), theta, np.zeros((1, D))])
    assert thali.Prior.from_preferences(with_zeros, topics=list("abcde")) == prior


@pytest.mark.parametrize("people", [1, 2, 10])
@pytest.mark.parametrize("how", ["preferences", "statistics"])
def test_few_people_give_a_prior_that_is_far_from_certain(people, how):
    """No direction may be believed to vary less than a tenth of what varies by default, even if all people agree."""
    d = 20
    theta = np.tile(np.random.default_rng(10).dirichlet(np.ones(d)), (people, 1))
    if how == "preferences":
        prior = thali.Prior.from_preferences(theta)
    else:
        items = catalog(d=d)
        policy = thali.CascadeLSB(items, K, sigma=0.3)
        run = thali.simulate(policy, thali.DiverseCascade(items, theta), steps=30, seed=4)
        prior = thali.Prior.learn(policy, run.state)
        assert prior.topics == tuple(items.topics)
    variances = np.linalg.eigvalsh(prior.covariance)
    assert variances[0] > 0.05 / d**2
    assert variances[-1] < 1.0
    assert np.abs(prior.mean).max() < 1.0
    if how == "preferences" or people == 10:  # 30 lists of one or two people say too little
        distance = np.linalg.norm(prior.mean - theta[0])
        assert distance < np.linalg.norm(1.0 / d - theta[0])  # closer to these people than the default


def plain_em_step(sums, mean, covariance, default, sigma):
    """One iteration of EM over people (S, b), by the formulas, person by person."""
    P, ((start, spread), in_mean, in_covariance) = np.linalg.inv(covariance), default
    first, second = in_mean * start, np.zeros_like(P)
    found = []
    for S, b in sums:
        V = np.linalg.inv(P + S / sigma**2)
        found.append((V @ (P @ mean + b / sigma**2), V))
        first += found[-1][0]
    new = first / (len(sums) + in_mean)
    for m, V in found:
        second += V + np.outer(m - new, m - new)
    off = new - start
    second += in_mean * np.outer(off, off) + in_covariance * spread
    return new, second / (len(sums) + in_covariance)


def plain_likelihood(people, mean, covariance, default, sigma):
    """The density of the clicks c ~ N(Xμ, σ²I + XΣXᵀ), and the penalty."""
    total, ((start, spread), in_mean, in_covariance) = 0.0, default
    for X, c in people:
        total += multivariate_normal(X @ mean, sigma**2 * np.eye(len(c)) + X @ covariance @ X.T).logpdf(c)
    off, P = mean - start, np.linalg.inv(covariance)
    logdet = np.linalg.slogdet(covariance)[1]
    return total - 0.5 * (in_mean * (off @ P @ off) + in_covariance * (logdet + np.trace(spread @ P)))


@pytest.mark.parametrize("in_mean", [1.0, 40.0])
@pytest.mark.parametrize("state_sigma", [0.3, 0.1])
def test_em_is_that_of_a_plain_transcription_and_its_penalized_likelihood_never_decreases(state_sigma, in_mean):
    policy = thali.CascadeLSB(catalog(), K, sigma=state_sigma)
    state, seen = history(policy, users=6, steps=12)
    data = [
        (np.array([x for who, x, _ in seen if who == user]), np.array([c for who, _, c in seen if who == user]))
        for user in range(6)
    ]
    sums = [(X.T @ X, X.T @ c) for X, c in data]
    start = Normal(np.full(D, 0.1), 0.02 * np.eye(D))
    default = Default(Normal(np.full(D, 0.2), 0.05 * np.eye(D)), in_mean, max(5.0, in_mean))
    people = People(state.M, state.B, state_sigma, 0.3)
    _, steps = people.em(start, default, 12)
    likelihoods = [likelihood for _, likelihood in steps]
    assert len(steps) > 2
    for (before, value), (after, later) in pairwise(steps):
        mean, covariance = plain_em_step(sums, *before, default, 0.3)
        np.testing.assert_allclose(after.mean, mean, rtol=1e-9)
        np.testing.assert_allclose(after.covariance, covariance, rtol=1e-8, atol=1e-14)
        expected = plain_likelihood(data, *after, default, 0.3) - plain_likelihood(data, *before, default, 0.3)
        assert later - value == pytest.approx(expected, rel=1e-6, abs=1e-8)
    assert (np.diff(likelihoods) >= -1e-9).all()
    result, _ = people.em(start, default, 1)
    np.testing.assert_allclose(result.mean, plain_em_step(sums, *start, default, 0.3)[0], rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    users=st.integers(1, 12),
    counted=st.tuples(st.floats(0.5, 40.0), st.floats(0.5, 40.0)),
    spherical=st.booleans(),
)
def test_the_penalized_likelihood_never_decreases(seed, users, counted, spherical):
    policy = thali.CascadeLSB(catalog(seed), K, sigma=0.3)
    state, _ = history(policy, users=users, steps=1 + seed % 20, seed=seed)
    rng = np.random.default_rng(seed)
    start = Normal(rng.random(D), np.eye(D) * rng.uniform(1e-4, 1.0))
    default = Default(Normal(rng.random(D), np.eye(D) * rng.uniform(1e-4, 1.0)), *counted)
    _, steps = People(state.M, state.B, 0.3, 0.3).em(start, default, 30, spherical=spherical)
    values = np.array([value for _, value in steps])
    assert (np.diff(values) >= -1e-9 * np.abs(values[:-1]).max()).all()


def test_the_learned_prior_is_close_to_the_truth_with_many_people():
    rng = np.random.default_rng(12)
    items = catalog()
    theta = rng.dirichlet([4.0, 2.0, 1.0, 0.5, 0.5], size=1500)
    policy = thali.CascadeLSB(items, K, sigma=0.3)
    run = thali.simulate(policy, thali.DiverseCascade(items, theta), steps=100, seed=3)
    prior = thali.Prior.learn(policy, run.state)
    np.testing.assert_allclose(prior.mean, theta.mean(axis=0), atol=0.03)
    # The prior that knows the tastes themselves is not much better for new people than the learned one.
    people = thali.DiverseCascade(items, rng.dirichlet([4.0, 2.0, 1.0, 0.5, 0.5], size=200))
    value = {
        name: thali.simulate(thali.CascadeLSB(items, K, prior=which), people, steps=20, seed=1).value[:, -1].mean()
        for name, which in (("learned", prior), ("known", thali.Prior.from_preferences(theta)), ("none", None))
    }
    assert value["learned"] > 0.99 * value["known"]
    assert value["learned"] > value["none"]


def test_a_prior_is_learned_with_the_sigma_that_the_policy_has_with_a_prior():
    state, _ = history(thali.CascadeLSB(catalog(), K), users=5, steps=20)

    def learned(**settings):
        return thali.Prior.learn(thali.CascadeLSB(catalog(), K, **settings), state)

    assert learned() == learned(sigma=0.3)
    assert learned(explore="sampling") == learned(sigma=0.3)
    assert learned(sigma=0.1) != learned()


def test_people_who_were_shown_nothing_are_ignored_and_the_policys_prior_is_the_default():
    policy = thali.CascadeLSB(catalog(), K, sigma=0.3)
    state, _ = history(policy, users=3, steps=10)
    more = policy.init(5)
    more.put([1, 2, 4], state)
    assert thali.Prior.learn(policy, more) == thali.Prior.learn(policy, state)
    sure = thali.Prior(0.3, 1e-6 * np.eye(D), policy.catalog.topics)
    learned = thali.Prior.learn(thali.CascadeLSB(catalog(), K, sigma=0.3, prior=sure), state)
    np.testing.assert_allclose(learned.mean, 0.3, atol=0.01)


@pytest.mark.parametrize("users", [6, 1200])
def test_a_prior_from_many_people_counts_as_so_many_when_another_is_learned_from_it(users):
    """EM then only moves a little from it. It counts as at most 1,000 people, and keeps σ and the factor of α."""
    items = catalog()
    state, _ = history(thali.CascadeLSB(items, K, sigma=0.3), users=users, steps=8)
    moved = {}
    for people in (None, 1, 40, MOST_COUNTED, 10 * MOST_COUNTED):
        prior = thali.Prior(0.1, 0.05 * np.eye(D), items.topics, sigma=0.3, optimism=0.2, people=people)
        learned = thali.Prior.learn(thali.CascadeLSB(items, K, prior=prior), state)
        assert (learned.sigma, learned.optimism) == (0.3, 0.2)
        moved[people] = np.linalg.norm(learned.mean - prior.mean)
        few = People(state.M, state.B, 0.3, 0.3)
        counted = float(min(people or 0, MOST_COUNTED))
        default = Default(Normal(prior.mean, prior.covariance), max(1.0, counted), max(float(D), counted))
        optimum = Normal(learned.mean, learned.covariance)
        for _ in range(200):
            (optimum, _) = few.em(optimum, default, 1)
        np.testing.assert_allclose(learned.mean, optimum.mean, atol=0.1 * moved[people] + 1e-3)
    assert moved[None] == moved[1] > moved[40] > moved[MOST_COUNTED] == moved[10 * MOST_COUNTED] > 0.0


@pytest.mark.parametrize("people", [None, 30])
@pytest.mark.parametrize("users", [5, 1500])
def test_a_learned_prior_says_from_how_many_people_it_comes_and_counts_those_who_are_hardly_known_less(users, people):
    items, known = catalog(), []
    for steps in (1, 60):
        state, _ = history(thali.CascadeLSB(items, K, sigma=0.3), users=users, steps=steps)
        prior = thali.Prior(0.1, 0.05 * np.eye(D), items.topics, sigma=0.3, people=people)
        learned = thali.Prior.learn(thali.CascadeLSB(items, K, prior=prior), state)
        precision = np.linalg.inv(learned.covariance)
        shares = [1.0 - np.trace(precision @ np.linalg.inv(M - np.eye(D) + precision)) / D for M in state.M]
        assert learned.people == pytest.approx((people or 0) + sum(shares), abs=max(0.51, 0.05 * sum(shares)))
        known.append(sum(shares))
    assert 0.0 < 3.0 * known[0] < known[1] < users
