"""Priors: what is read from a state, what is learned from other people, and what is refused."""

import json
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import thali
from thali import theory
from thali.lab.problems import synthetic
from thali.policies import POLICIES
from thali.policies.linear.policy import LinearPolicy
from thali.policies.linear.prior import Normal, People

L, D, K = 30, 5, 4
LINEAR = [name for name in POLICIES if issubclass(thali.policies.class_of(name), LinearPolicy)]


def catalog(seed=0, d=D, **rest):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.05, 0.7, (L, d)) * (rng.random((L, d)) < 0.5)
    return thali.Catalog(weights, topics=[f"topic {j}" for j in range(d)], **rest)


def some_prior(seed=0, d=D, scale=0.1):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((d, 2 * d))
    return thali.Prior(rng.uniform(0.0, 0.4, d), scale**2 * (A @ A.T) / (2 * d))


def history(policy, users, steps, seed=0):
    """Return a state after some lists with random clicks, and what was examined: [(user, x, click), ...]."""
    rng = np.random.default_rng(seed)
    state, seen = policy.init(users), []
    for _ in range(steps):
        lists = np.array([rng.permutation(L)[:K] for _ in range(users)])
        clicks = rng.random((users, K)) < 0.15
        gains = policy.gains(lists)
        policy.update(state, lists, clicks)
        for user in range(users):
            last = int(np.argmax(clicks[user])) if clicks[user].any() and policy.examined == "first-click" else K - 1
            seen += [(user, gains[user, k], float(clicks[user, k])) for k in range(last + 1)]
    return state, seen


def plain_posterior(prior, sigma, seen, user, d=D):
    """The textbook formula: θ ~ N(μ, Σ), c = x·θ + noise of variance σ²."""
    P, h = np.linalg.inv(prior.covariance), np.linalg.inv(prior.covariance) @ prior.mean
    for who, x, click in seen:
        if who == user:
            P, h = P + np.outer(x, x) / sigma**2, h + x * click / sigma**2
    return np.linalg.solve(P, h), np.linalg.inv(P)


@pytest.mark.parametrize("kind", [thali.CascadeLSB, thali.LSBGreedy, thali.CascadeLinUCB, thali.CombLinUCB])
@pytest.mark.parametrize("scale", [0.01, 0.3, 20.0])
def test_the_posterior_and_the_lists_are_those_of_the_textbook_formula(kind, scale):
    prior = some_prior(scale=scale)
    policy = kind(catalog(), K, prior=prior, sigma=0.3, alpha=0.7)
    state, seen = history(policy, users=3, steps=15)
    inverse, _, logdet = policy.posterior(state)
    lists = policy.recommend(state)
    for user in range(3):
        mean, covariance = plain_posterior(prior, 0.3, seen, user)
        np.testing.assert_allclose(policy.estimate(state)[user], mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(inverse[user], covariance, rtol=1e-8, atol=1e-10 * scale**2)
        assert logdet[user] == pytest.approx(-np.linalg.slogdet(covariance)[1], abs=1e-8)
        covered = np.zeros(D)
        for k, item in enumerate(lists[user]):
            X = policy.catalog.weights * (1.0 - covered) if policy.features == "gains" else policy.catalog.weights
            index = X @ mean + 0.7 * np.sqrt(np.einsum("ei,ij,ej->e", X, covariance, X))
            index[lists[user, :k]] = -np.inf
            assert index[item] >= index.max() - 1e-9
            covered = 1.0 - (1.0 - covered) * (1.0 - policy.catalog.weights[item])


@pytest.mark.parametrize("name", LINEAR)
def test_the_prior_of_the_paper_equals_no_prior_bit_for_bit(name):
    items, states, lists = catalog(1), [], []
    settings = {"sigma": 0.2} | ({"alpha": 1.5} if thali.policies.optimistic(name) else {})
    for prior in (None, thali.Prior(0, np.eye(D))):
        policy = POLICIES[name](items, K, prior=prior, **settings)
        model = thali.DiverseCascade(items, np.random.default_rng(3).dirichlet(np.ones(D), 4))
        run = thali.simulate(policy, model, steps=60, seed=2, points=60)
        states.append(run.state)
        lists.append(run.lists)
        posterior = policy.posterior(run.state)
        states[-1].arrays.update(zip(("inverse", "solution", "logdet"), posterior, strict=True))
    np.testing.assert_array_equal(*lists)
    for array in states[0].arrays:
        np.testing.assert_array_equal(states[0].arrays[array], states[1].arrays[array])


def test_a_wide_prior_is_not_cut_off():
    """An M′ of 0.25·I must invert to 4·I, although no eigenvalue of M is below 1."""
    for scale in (4.0, 1e4, 1e-4):
        policy = thali.CascadeLSB(catalog(), K, prior=thali.Prior(0.1, scale * np.eye(D)), explore="sampling")
        state = policy.init(2)
        inverse, _, logdet = policy.posterior(state)
        np.testing.assert_allclose(inverse, np.tile(scale * np.eye(D), (2, 1, 1)), rtol=1e-12)
        np.testing.assert_allclose(logdet, -D * np.log(scale), rtol=1e-12)
        np.testing.assert_allclose(policy.estimate(state), 0.1, rtol=1e-12)


def test_determinants_below_the_range_of_doubles():
    policy = thali.CascadeLSB(catalog(d=60), K, prior=thali.Prior(0.0, 1e6 * np.eye(60)))
    assert policy.posterior(policy.init(1)).logdet[0] == pytest.approx(-60 * np.log(1e6), rel=1e-12)


def test_samples_follow_the_posterior_with_the_prior():
    prior = some_prior(4, scale=0.5)
    policy = thali.CascadeLSB(catalog(), K, prior=prior, sigma=0.3, explore="sampling")
    drawn = []
    policy.build = lambda catalog, estimate, *rest, **more: (
        drawn.append(estimate.copy()) or np.tile(np.arange(K), (1, 1))
    )
    state, seen = history(policy, users=1, steps=5)
    for seed in range(4000):
        policy.recommend(state, rng=seed)
    mean, covariance = plain_posterior(prior, 0.3, seen, 0)
    samples = np.concatenate(drawn)
    spread = np.sqrt(np.diag(covariance))
    assert np.abs((samples.mean(axis=0) - mean) / spread).max() < 5 / np.sqrt(4000)
    assert np.abs(np.cov(samples.T) - covariance).max() < 0.12 * spread.max() ** 2


@pytest.mark.parametrize("how", [{}, {"discount": 0.9}, {"window": 3}])
def test_forgetting_forgets_observations_but_never_the_prior(how):
    prior = some_prior(5)
    policy = thali.CascadeLSB(catalog(), K, prior=prior, sigma=0.3, alpha=0.0, **how)
    state = policy.init(1)
    P, h = np.linalg.inv(prior.covariance), np.linalg.inv(prior.covariance) @ prior.mean
    S, b, kept, rng = np.zeros((D, D)), np.zeros(D), [], np.random.default_rng(0)
    for _ in range(8):
        lists = rng.permutation(L)[None, :K]
        policy.update(state, lists, np.zeros((1, K), bool))
        x = policy.gains(lists)[0]
        kept.append(x.T @ x)
        S = sum(kept[-3:]) if "window" in how else S * how.get("discount", 1.0) + x.T @ x
    np.testing.assert_allclose(policy.estimate(state)[0], np.linalg.solve(P + S / 0.09, h + b), rtol=1e-8)


@pytest.mark.parametrize("how", [{}, {"discount": 0.9}, {"window": 3}])
def test_a_state_of_another_sigma_is_read_as_if_it_had_been_learned_with_the_own_one(how):
    prior = some_prior(6)
    old, new = (thali.CascadeLSB(catalog(), K, sigma=sigma, prior=prior, **how) for sigma in (0.1, 0.3))
    (at_old, _), (at_new, _) = (history(policy, users=3, steps=10) for policy in (old, new))
    before = {name: array.copy() for name, array in at_old.arrays.items()}
    for ours, theirs in zip(new.posterior(at_old), new.posterior(at_new), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(new.recommend(at_old), new.recommend(at_new))
    assert at_old.settings["sigma"] == 0.1
    for name, array in at_old.arrays.items():
        np.testing.assert_array_equal(array, before[name])
    # Learning with the new policy keeps the format: M is still that of the old σ.
    lists, clicks = new.recommend(at_old), np.eye(3, K, dtype=bool)
    other = at_old.copy()
    new.update(at_old, lists, clicks)
    old.update(other, lists, clicks)
    for name, array in at_old.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name])


def test_a_saved_state_does_not_contain_the_prior(tmp_path):
    plain, with_prior = thali.CascadeLSB(catalog(), K), thali.CascadeLSB(catalog(), K, sigma=0.1, prior=some_prior())
    one, other = (history(policy, users=2, steps=5)[0] for policy in (plain, with_prior))
    for n, state in enumerate((one, other)):
        state.save(tmp_path / str(n))
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()
    loaded = thali.load_state(tmp_path / "0")
    np.testing.assert_array_equal(with_prior.recommend(loaded), with_prior.recommend(other))


def test_another_prior_serves_everybody_at_once():
    """The posterior follows the policy that asks, also if two policies take turns with one state."""
    priors = [None, some_prior(1), some_prior(2)]
    policies = [thali.CascadeLSB(catalog(), K, sigma=0.3, prior=prior) for prior in priors]
    shared = policies[0].init(4)
    for step in range(6):
        for policy in policies:
            fresh = shared.copy()
            for ours, theirs in zip(policy.posterior(shared), policy.posterior(fresh), strict=True):
                np.testing.assert_array_equal(ours, theirs)
            lists = policy.recommend(shared)
            policies[step % 3].update(shared, lists, np.zeros((4, K), bool))


@pytest.mark.parametrize("d", [5, 18, 40])
def test_a_person_in_a_batch_gets_the_same_bits_as_alone(d):
    policy = thali.CascadeLSB(catalog(d=d), K, prior=some_prior(d=d))
    state, _ = history(policy, users=7, steps=10)
    together = policy.posterior(state)
    lists = policy.recommend(state)
    for user in range(7):
        alone = state.take([user])
        for whole, part in zip(together, policy.posterior(alone), strict=True):
            np.testing.assert_array_equal(whole[[user]], part)
        np.testing.assert_array_equal(lists[[user]], policy.recommend(alone))


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(8)), seed=st.integers(0, 100))
def test_the_order_of_feedback_does_not_matter(order, seed):
    policy = thali.CascadeLSB(catalog(seed), K, prior=some_prior(seed))
    rng = np.random.default_rng(seed)
    lists = np.array([rng.permutation(L)[:K] for _ in range(8)])
    clicks = rng.random((8, K)) < 0.3
    one, other = policy.init(1), policy.init(1)
    for state, numbers in ((one, range(8)), (other, order)):
        for n in numbers:
            policy.update(state, lists[[n]], clicks[[n]])
    np.testing.assert_allclose(policy.estimate(one), policy.estimate(other), rtol=1e-9, atol=1e-12)


def test_threads_and_excluded_items_with_a_prior():
    prior = some_prior()
    one, two = (thali.CascadeLSB(catalog(), K, prior=prior, threads=n) for n in (1, 2))
    state, _ = history(one, users=9, steps=12)
    exclude = [[user, user + 1] for user in range(9)]
    lists = one.recommend(state, exclude=exclude)
    np.testing.assert_array_equal(two.recommend(state, exclude=exclude), lists)
    M = (state.M - np.eye(D)) + prior.precision
    for user in range(9):
        estimate = np.linalg.solve(M[user], state.B[user] / one.sigma**2 + prior.precision @ prior.mean)
        allowed = [e for e in range(L) if e not in exclude[user]]
        chosen: list[int] = []
        for _ in range(K):
            x = {e: catalog().gains([[*chosen, e]])[0, -1] for e in allowed if e not in chosen}
            alpha = one.optimism(state)[user]
            index = {e: g @ estimate + alpha * np.sqrt(g @ np.linalg.solve(M[user], g)) for e, g in x.items()}
            chosen.append(max(index, key=index.__getitem__))
        assert lists[user].tolist() == chosen


def test_a_prior_without_doubt_never_moves():
    mean = np.random.default_rng(8).dirichlet(np.ones(D))
    expected = thali.greedy_lists(catalog(), mean[None], K)
    for variance in (1e-9, 1e-15, 1e-30):
        policy = thali.CascadeLSB(catalog(), K, prior=thali.Prior(mean, variance * np.eye(D)))
        state, _ = history(policy, users=1, steps=30)
        np.testing.assert_allclose(policy.estimate(state)[0], mean, rtol=1e-4)
        np.testing.assert_array_equal(policy.recommend(state), expected)


def test_topics_are_matched_by_name():
    prior, items = some_prior(), catalog()
    named = thali.Prior(prior.mean, prior.covariance, items.topics)
    order = [3, 1, 4, 0, 2]
    mixed = thali.Prior(prior.mean[order], prior.covariance[np.ix_(order, order)], [items.topics[j] for j in order])
    state, _ = history(thali.CascadeLSB(items, K, prior=prior), users=2, steps=5)
    expected = thali.CascadeLSB(items, K, prior=prior).estimate(state)
    for same in (named, mixed):
        np.testing.assert_allclose(thali.CascadeLSB(items, K, prior=same).estimate(state), expected, rtol=1e-12)


# Learning from other people


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


def plain_em_step(sums, mean, covariance, default, weight, sigma):
    """One iteration of EM over people (S, b), by the formulas, person by person."""
    P = np.linalg.inv(covariance)
    first, second = default.mean.copy(), np.zeros_like(P)
    found = []
    for S, b in sums:
        V = np.linalg.inv(P + S / sigma**2)
        found.append((V @ (P @ mean + b / sigma**2), V))
        first += found[-1][0]
    new = first / (len(sums) + 1)
    for m, V in found:
        second += V + np.outer(m - new, m - new)
    off = new - default.mean
    return new, (second + np.outer(off, off) + weight * default.covariance) / (len(sums) + weight)


def plain_likelihood(people, mean, covariance, default, weight, sigma):
    """The density of the clicks c ~ N(Xμ, σ²I + XΣXᵀ), and the penalty."""
    total = 0.0
    for X, c in people:
        total += multivariate_normal(X @ mean, sigma**2 * np.eye(len(c)) + X @ covariance @ X.T).logpdf(c)
    off, P = mean - default.mean, np.linalg.inv(covariance)
    logdet = np.linalg.slogdet(covariance)[1]
    return total - 0.5 * (off @ P @ off + weight * (logdet + np.trace(default.covariance @ P)))


@pytest.mark.parametrize("state_sigma", [0.3, 0.1])
def test_em_is_that_of_a_plain_transcription_and_its_penalized_likelihood_never_decreases(state_sigma):
    policy = thali.CascadeLSB(catalog(), K, sigma=state_sigma)
    state, seen = history(policy, users=6, steps=12)
    data = [
        (np.array([x for who, x, _ in seen if who == user]), np.array([c for who, _, c in seen if who == user]))
        for user in range(6)
    ]
    sums = [(X.T @ X, X.T @ c) for X, c in data]
    start = Normal(np.full(D, 0.1), 0.02 * np.eye(D))
    default = Normal(np.full(D, 0.2), 0.05 * np.eye(D))
    people = People(state.M, state.B, state_sigma, 0.3)
    _, steps = people.em(start, default, 5.0, 12)
    likelihoods = [likelihood for _, likelihood in steps]
    assert len(steps) > 3
    for (before, value), (after, later) in pairwise(steps):
        mean, covariance = plain_em_step(sums, *before, default, 5.0, 0.3)
        np.testing.assert_allclose(after.mean, mean, rtol=1e-9)
        np.testing.assert_allclose(after.covariance, covariance, rtol=1e-8, atol=1e-14)
        expected = plain_likelihood(data, *after, default, 5.0, 0.3) - plain_likelihood(
            data, *before, default, 5.0, 0.3
        )
        assert later - value == pytest.approx(expected, rel=1e-6, abs=1e-8)
    assert (np.diff(likelihoods) >= -1e-9).all()
    result, _ = people.em(start, default, 5.0, 1)
    np.testing.assert_allclose(result.mean, plain_em_step(sums, *start, default, 5.0, 0.3)[0], rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), users=st.integers(1, 12), weight=st.floats(0.5, 40.0), spherical=st.booleans())
def test_the_penalized_likelihood_never_decreases(seed, users, weight, spherical):
    policy = thali.CascadeLSB(catalog(seed), K, sigma=0.3)
    state, _ = history(policy, users=users, steps=1 + seed % 20, seed=seed)
    rng = np.random.default_rng(seed)
    start = Normal(rng.random(D), np.eye(D) * rng.uniform(1e-4, 1.0))
    default = Normal(rng.random(D), np.eye(D) * rng.uniform(1e-4, 1.0))
    _, steps = People(state.M, state.B, 0.3, 0.3).em(start, default, weight, 30, spherical=spherical)
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


# Optimism


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


# Files and bad input


def test_a_saved_prior_is_loaded_exactly(tmp_path):
    for prior in (some_prior(), thali.Prior([0.1, 1 / 3], np.diag([1e-7, 1.0]), topics=["é", 5])):
        prior.save(tmp_path / "prior.json")
        loaded = thali.Prior.load(tmp_path / "prior.json")
        assert loaded == prior
        assert loaded.topics == prior.topics
    with pytest.raises(FileNotFoundError, match="found nothing at"):
        thali.Prior.load(tmp_path / "none.json")
    text = (tmp_path / "prior.json").read_text()
    content = json.loads(text)
    for broken in (
        text[:-9],
        "[]",
        "",
        "{}",
        "\udcff".encode("utf-8", "surrogateescape"),
        json.dumps(content | {"mean": "x"}),
    ):
        (tmp_path / "broken.json").write_bytes(broken if isinstance(broken, bytes) else broken.encode())
        with pytest.raises(ValueError, match="must be a complete file written by prior.save"):
            thali.Prior.load(tmp_path / "broken.json")


@pytest.mark.parametrize(
    ("mean", "covariance", "more", "message"),
    [
        (
            [0, 0],
            [[1, 0.5], [0, 1]],
            {},
            r"covariance of Prior must be symmetric, got 0.5 at \(0, 1\) and 0 at \(1, 0\)",
        ),
        ([0, 0], [[1, 2], [2, 1]], {}, "covariance of Prior must be positive definite.* from -1 to 3"),
        ([0, 0], [[0, 0], [0, 0]], {}, "positive definite.* from 0 to 0"),
        ([0, 0], [[1, 1], [1, 1]], {}, "positive definite"),
        ([0, 0], [[1, 0], [0, 1e-14]], {}, "positive definite, with no eigenvalue above 1e12 times the smallest"),
        ([0, 0], np.eye(2) * 1e40, {}, "eigenvalues of the covariance of Prior must be from 1e-30 to 1e\\+06"),
        ([0, 0], [[1, np.nan], [np.nan, 1]], {}, "covariance of Prior must be finite, got nan"),
        ([np.inf, 0], np.eye(2), {}, "mean of Prior must be finite, got inf"),
        ([0, 0, 0], np.eye(2), {}, r"mean of Prior must have shape \(d,\) = \(2\), got \(3,\)"),
        ([0, 0], np.ones((2, 3)), {}, r"covariance of Prior must have shape \(d, d\), got \(2, 3\)"),
        ([], np.empty((0, 0)), {}, "covariance of Prior must have shape"),
        ([0, 0], np.eye(2), {"topics": ["a"]}, "topics of Prior must have one name for each of the 2 rows"),
        ([0, 0], np.eye(2), {"topics": ["a", "a"]}, "topics of Prior must be different.*'a' twice"),
        (["x", 0], np.eye(2), {}, "mean of Prior must be an array of numbers"),
        ("x", np.eye(2), {}, "mean of Prior must be an array of numbers"),
    ],
)
def test_an_impossible_prior_is_refused(mean, covariance, more, message):
    with pytest.raises((ValueError, TypeError), match=message):
        thali.Prior(mean, covariance, **more)


def test_a_prior_is_a_value():
    prior = some_prior()
    again = pickle.loads(pickle.dumps(prior))
    assert again == prior
    for array in (again.mean, again.covariance, again.precision):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(TypeError, match="unhashable"):
        hash(prior)
    policy = thali.CascadeLSB(catalog(), K, prior=prior)
    with pytest.raises(AttributeError, match="prior"):
        policy.prior = None
    assert thali.CascadeLSB(catalog(), K, prior=prior, alpha=policy.alpha).alpha == policy.alpha


def test_a_prior_that_is_too_wide_to_learn_from_many_lists_is_named():
    policy = thali.CascadeLSB(catalog(), K, prior=thali.Prior(0.0, 1e6 * np.eye(D)), sigma=0.001)
    with pytest.raises(ValueError, match=r"covariance of the prior smaller, .* variances up to 1e\+06, after"):
        history(policy, users=1, steps=1000)


def test_a_prior_for_other_topics_is_refused_by_name():
    items = catalog()
    for prior, message in (
        (thali.Prior(0, np.eye(4)), r"prior of CascadeLSB must have as many topics as the catalog \(5\), got 4"),
        (
            thali.Prior(0, np.eye(D), ["topic 0", "topic 1", "opera", "topic 3", "war"]),
            "got a prior without 'topic 2', 'topic 4', but with 'opera', 'war'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            thali.CascadeLSB(items, K, prior=prior)
    with pytest.raises(TypeError, match="prior of CascadeLSB must be a thali.Prior, got"):
        thali.CascadeLSB(items, K, prior=(np.zeros(D), np.eye(D)))


def test_a_prior_cannot_be_learned_from_nobody_or_from_another_family():
    policy = thali.CascadeLSB(catalog(), K)
    with pytest.raises(ValueError, match="at least one person who has been shown a list"):
        thali.Prior.learn(policy, policy.init(3))
    items = thali.CascadeKLUCB(policy.catalog, K)
    with pytest.raises(TypeError, match="policy of Prior.learn must be one of the linear family.*CascadeKLUCB"):
        thali.Prior.learn(items, items.init(1))
    with pytest.raises(ValueError, match="state of CascadeLSB must come from"):
        thali.Prior.learn(policy, items.init(1))
    for theta in (np.zeros((3, D)), np.empty((0, D))):
        with pytest.raises(ValueError, match="theta of from_preferences must have at least one row that is not all 0"):
            thali.Prior.from_preferences(theta)
    with pytest.raises(ValueError, match="theta of from_preferences must be finite, got nan"):
        thali.Prior.from_preferences([[0.5, np.nan]])


def test_a_state_with_an_impossible_sigma_is_refused():
    policy = thali.CascadeLSB(catalog(), K)
    for sigma in (0.0, -1.0, None, "x", [0.1], 1e300, float("nan")):
        state = policy.init(1)
        state.settings["sigma"] = sigma
        with pytest.raises((ValueError, TypeError), match="sigma of a state of CascadeLSB must be a number"):
            policy.recommend(state)
