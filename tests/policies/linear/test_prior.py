"""Priors: what is read from a state, and what is refused."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thali
from thali.policies import POLICIES

from .prior_cases import LINEAR, D, K, L, catalog, history, some_prior


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


# The σ and α that suit the people of a prior


def suited(sigma=0.4, optimism=0.1, topics=None):
    prior = some_prior()
    return thali.Prior(prior.mean, prior.covariance, topics, sigma=sigma, optimism=optimism)


def test_a_policy_uses_the_sigma_and_optimism_of_its_prior_unless_others_are_set():
    for prior, sigma, factor in (
        (suited(), 0.4, 0.1),
        (suited(sigma=None), 0.3, 0.1),
        (suited(optimism=None), 0.4, 1.0),
        (suited(optimism=0.0), 0.4, 0.0),
    ):
        policy = thali.CascadeLSB(catalog(), K, prior=prior)
        state, _ = history(policy, users=2, steps=3)
        assert policy.sigma == sigma
        np.testing.assert_allclose(policy.optimism(state), factor * np.sqrt(np.log(4)), rtol=1e-12)
    policy = thali.CascadeLSB(catalog(), K, prior=suited(), sigma=0.2, alpha=3.0)
    assert (policy.sigma, policy.optimism(policy.init(1)).tolist()) == (0.2, [3.0])
    assert thali.CascadeLSB(catalog(), K, prior=suited(), explore="sampling").sigma == 0.4
    named = thali.CascadeLSB(catalog(), K, prior=suited(), alpha="default")
    np.testing.assert_allclose(named.optimism(state), 0.1 * np.sqrt(np.log(4)), rtol=1e-12)


@pytest.mark.parametrize("settings", [{}, {"optimism": None}, {"sigma": None}, {"sigma": 0.001, "optimism": 0.0}])
def test_sigma_and_optimism_go_wherever_the_prior_goes(tmp_path, settings):
    topics = catalog().topics
    prior = suited(**settings, topics=topics)
    expected = prior.sigma, prior.optimism
    prior.save(tmp_path / "prior.json")
    mixed = thali.Catalog(catalog().weights[:, ::-1].copy(), topics=topics[::-1])
    policy = thali.CascadeLSB(catalog(), K, prior=prior)
    state, _ = history(policy, users=3, steps=4)
    for other in (
        thali.Prior.load(tmp_path / "prior.json"),
        pickle.loads(pickle.dumps(prior)),
        thali.CascadeLSB(mixed, K, prior=prior).prior,
        thali.Prior.learn(policy, state),
    ):
        assert (other.sigma, other.optimism) == expected
    assert thali.Prior.load(tmp_path / "prior.json") == pickle.loads(pickle.dumps(prior)) == prior
    assert thali.Prior.learn(thali.CascadeLSB(catalog(), K), state).sigma is None


def test_priors_with_another_sigma_or_optimism_are_not_equal_and_show_it():
    priors = [suited(), suited(sigma=0.5), suited(sigma=None), suited(optimism=0.2), suited(optimism=None)]
    for n, one in enumerate(priors):
        assert [one == other for other in priors] == [n == m for m in range(5)]
    assert "sigma=0.4, optimism=0.1" in repr(suited())
    assert repr(some_prior()) == "Prior(d=5, topics=None)"


def test_a_file_of_an_earlier_version_has_neither(tmp_path):
    suited(sigma=None, optimism=None).save(tmp_path / "new.json")
    content = json.loads((tmp_path / "new.json").read_text())
    assert list(content) == ["format", "topics", "mean", "covariance"]  # so earlier versions can read it, too
    loaded = thali.Prior.load(tmp_path / "new.json")
    assert (loaded, loaded.sigma, loaded.optimism) == (some_prior(), None, None)
    (tmp_path / "bad.json").write_text(json.dumps(content | {"sigma": 0}))
    with pytest.raises(ValueError, match="must be a complete file written by prior.save, .* sigma of Prior must be"):
        thali.Prior.load(tmp_path / "bad.json")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sigma": 0.0}, "sigma of Prior must be a number of at least 0.001, got 0.0"),
        ({"sigma": np.nan}, "sigma of Prior must be a number of at least 0.001, got nan"),
        ({"sigma": "0.3"}, "sigma of Prior must be a number of at least 0.001, got '0.3'"),
        ({"optimism": -1}, r"optimism of Prior must be a number from 0 to 1e\+06, got -1"),
        ({"optimism": 1e7}, r"optimism of Prior must be a number from 0 to 1e\+06, got 10000000.0"),
        ({"optimism": True}, r"optimism of Prior must be a number from 0 to 1e\+06, got True"),
    ],
)
def test_an_impossible_sigma_or_optimism_is_refused(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        thali.Prior(0.0, np.eye(2), **settings)
