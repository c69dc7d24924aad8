"""Each policy against the plain transcription in reference.py, which learns separately from the same clicks."""

import math

import numpy as np
import pytest
import reference
from instances import STYLES, weights

import thali
from thali.policies.linear.policy import LinearPolicy

SWITCHES = {
    thali.CascadeLSB: ("gains", "first-click"),
    thali.LSBGreedy: ("gains", "all"),
    thali.CascadeLinUCB: ("items", "first-click"),
}


def random_clicks(rng, K):
    """Return no click, one click or several clicks."""
    return rng.random(K) < rng.choice([0.0, 0.1, 0.5])


@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("policy_class", SWITCHES)
def test_linear_family_equals_transcription(policy_class, style, coverage):
    rng = np.random.default_rng([STYLES.index(style), len(coverage)])
    for sigma, alpha in ((0.1, 8.0), (1.0, 0.3), (0.5, 2.0)):
        L, d, K = 25, 5, 4
        W = weights(style, L, d, rng)
        features, examined = SWITCHES[policy_class]
        plain = reference.PlainLinear(
            W, K, sigma=sigma, alpha=alpha, features=features, examined=examined, kind=coverage
        )
        policy = policy_class(thali.Catalog(W, coverage=coverage), K, sigma=sigma, alpha=alpha)
        state = policy.init(1)
        for step in range(150):
            lists = policy.recommend(state)
            if step < 25 or step % 10 == 0:  # the transcription takes most of the time
                # The same estimate up to rounding; the reference inverts its own M.
                np.testing.assert_allclose(policy.estimate(state)[0], plain.estimate(), rtol=1e-8, atol=1e-10)
                assert lists[0].tolist() == plain.recommend(
                    policy.estimate(state)[0], policy.posterior(state).inverse[0]
                ), step
            clicks = random_clicks(rng, K)
            policy.update(state, lists, clicks[None])
            plain.update(lists[0].tolist(), clicks)
        np.testing.assert_allclose(state.M[0], plain.M, rtol=1e-12)
        np.testing.assert_allclose(state.B[0], plain.B, rtol=1e-12)


@pytest.mark.parametrize("policy_class", SWITCHES)
def test_linear_family_equals_an_independent_transcription(policy_class):
    """The transcription uses its own θ̄ and M⁻¹. Without ties, both must choose the same lists for hundreds of steps."""
    rng = np.random.default_rng(5)
    W = weights("sparse", 40, 6, rng)
    features, examined = SWITCHES[policy_class]
    plain = reference.PlainLinear(W, 5, sigma=0.1, alpha=8.0, features=features, examined=examined)
    policy = policy_class(thali.Catalog(W), 5, sigma=0.1, alpha=8.0)
    state = policy.init(1)
    for _ in range(400):
        lists = policy.recommend(state)
        assert lists[0].tolist() == plain.recommend()
        clicks = random_clicks(rng, 5)
        policy.update(state, lists, clicks[None])
        plain.update(lists[0].tolist(), clicks)


def test_theoretical_optimism_of_lsb_greedy_and_capped_lin_ucb_equal_transcription():
    rng = np.random.default_rng(12)
    W = weights("sparse", 30, 5, rng)
    catalog, K = thali.Catalog(W), 4

    def width(M):
        return math.sqrt(np.linalg.slogdet(M)[1] + 2 * math.log(20)) / 0.1 + 1

    pairs = [
        (
            thali.LSBGreedy(catalog, K, alpha="theory"),
            reference.PlainLinear(W, K, sigma=0.1, alpha=width, features="gains", examined="all"),
        ),
        (
            thali.CascadeLinUCB(catalog, K, alpha=2.0, sigma=0.5, capped=True),
            reference.PlainLinear(W, K, sigma=0.5, alpha=2.0, features="items", examined="first-click", cap=1.0),
        ),
    ]
    for policy, plain in pairs:
        state = policy.init(1)
        for _ in range(300):
            lists = policy.recommend(state)
            assert lists[0].tolist() == plain.recommend()
            clicks = random_clicks(rng, K)
            policy.update(state, lists, clicks[None])
            plain.update(lists[0].tolist(), clicks)


def test_theoretical_optimism_of_each_policy():
    catalog, K, n, sigma = thali.Catalog(np.eye(3)), 2, 20_000, 0.1
    information = 3 * math.log(1 + n * K / (3 * sigma**2))
    lsb = thali.CascadeLSB(catalog, K, sigma=sigma, alpha="theory", horizon=n)
    assert lsb.optimism(lsb.init(1))[0] == pytest.approx(math.sqrt(information + 2 * math.log(n)) / sigma + 1)
    lin = thali.CascadeLinUCB(catalog, K, sigma=sigma, alpha="theory", horizon=n)
    assert lin.optimism(lin.init(1))[0] == pytest.approx(math.sqrt(information + 2 * math.log(n * K)) / sigma + 1)
    yue = thali.LSBGreedy(catalog, K, sigma=sigma, alpha="theory")
    state = yue.init(2)
    for clicks in ([True, False], [False, False]):
        yue.update(state, [[0, 1], [2, 1]], [clicks, clicks])
    for user in range(2):
        logdet = np.linalg.slogdet(state.M[user])[1]
        expected = math.sqrt(logdet + 2 * math.log(1 / 0.05)) / sigma + 1
        assert yue.optimism(state)[user] == pytest.approx(expected, rel=1e-12)


def test_default_optimism_is_proportional_to_one_over_sigma():
    catalog = thali.Catalog(np.eye(3))
    for policy_class in SWITCHES:
        low, high = (policy_class(catalog, 2, sigma=sigma).alpha for sigma in (0.1, 0.4))
        assert low == pytest.approx(4 * high)


def test_published_cap_of_cascade_lin_ucb_makes_all_items_tie_at_theoretical_optimism():
    rng = np.random.default_rng(8)
    catalog = thali.Catalog(rng.uniform(0.2, 1, size=(30, 3)))
    free, capped = (
        thali.CascadeLinUCB(catalog, 4, alpha="theory", horizon=20_000, capped=capped) for capped in (False, True)
    )
    assert capped.recommend(capped.init(1)).tolist() == [[0, 1, 2, 3]]
    assert free.recommend(free.init(1)).tolist() != [[0, 1, 2, 3]]


def test_first_click_learners_ignore_everything_after_the_first_click():
    catalog = thali.Catalog(np.random.default_rng(9).random((10, 4)))
    for policy in (thali.CascadeLSB(catalog, 4), thali.CascadeLinUCB(catalog, 4), thali.CascadeKLUCB(catalog, 4)):
        several, first = policy.init(1), policy.init(1)
        lists = policy.recommend(several)
        policy.update(several, lists, [[False, True, False, True]])
        policy.update(first, lists, [[False, True, False, False]])
        for name, array in several.arrays.items():
            np.testing.assert_array_equal(array, first.arrays[name])


def test_list_builder_can_be_replaced():
    """The paper's bound holds for any γ-approximation. This test uses the plain loop instead of the search."""

    def plain(catalog, estimate, inverse, alpha, *, K, features, cap):
        learner = reference.PlainLinear(catalog.weights, K, sigma=0.1, alpha=float(alpha[0]), features=features)
        return np.array([learner.recommend(e, i) for e, i in zip(estimate, inverse, strict=True)])

    catalog = thali.Catalog(np.random.default_rng(10).random((12, 3)))
    usual, exchanged = thali.CascadeLSB(catalog, 3), thali.CascadeLSB(catalog, 3, build=plain)
    assert isinstance(exchanged, LinearPolicy)
    model = thali.DiverseCascade(catalog, [[0.2, 0.5, 0.3]])
    runs = [thali.simulate(policy, model, steps=50, seed=1) for policy in (usual, exchanged)]
    np.testing.assert_array_equal(runs[0].lists, runs[1].lists)


@pytest.mark.slow
@pytest.mark.parametrize("policy_class", [thali.CascadeLSB, thali.LSBGreedy])
def test_a_million_updates_do_not_drift(policy_class):
    """One user always sees a fixed list, one sees it first and recommended lists later, one sees recommended lists."""
    rng = np.random.default_rng(11)
    catalog = thali.Catalog(rng.random((30, 18)))
    policy = policy_class(catalog, 4, sigma=0.1)
    state = policy.init(3)
    fixed = np.array([3, 1, 4, 15])
    lists = policy.recommend(state)
    for step in range(1_000_000):
        if step % 100 == 0:
            lists = policy.recommend(state)
            clicks = rng.random((100, 3, 4)) < 0.1
        lists[0] = fixed
        if step < 500_000:
            lists[1] = fixed
        policy.update(state, lists, clicks[step % 100])
    assert np.linalg.cond(state.M[0]) > 1e8
    gains = policy.gains(lists)
    for user in range(3):
        fresh = np.linalg.solve(state.M[user], state.B[user]) / 0.1**2
        np.testing.assert_allclose(gains[user] @ policy.estimate(state)[user], gains[user] @ fresh, rtol=0, atol=1e-7)
        ours = np.sqrt(np.einsum("ki,ij,kj->k", gains[user], policy.posterior(state).inverse[user], gains[user]))
        solved = np.sqrt(np.einsum("ki,ik->k", gains[user], np.linalg.solve(state.M[user], gains[user].T)))
        np.testing.assert_allclose(ours, solved, rtol=1e-6)
