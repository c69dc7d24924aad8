"""The options of the linear family, the perceptron and the baselines, against transcriptions of their papers."""

import math

import numpy as np
import pytest
import reference
import reference_neighbours as plain
from instances import STYLES, weights
from plain import plain_list
from scipy import stats

import thali
from thali.lists.greedy import build as greedy
from thali.policies.linear import posterior


def same(a, b):
    return a.arrays.keys() == b.arrays.keys() and all(np.array_equal(a.arrays[k], b.arrays[k]) for k in a.arrays)


# For each learner: its class, its settings, which positions count as examined, whether x is diverse, and the weights
# of the positions.
LEARNERS = {
    "CascadeLSB": (thali.CascadeLSB, {}, "first-click", True, None),
    "CascadeLSB last click": (thali.CascadeLSB, {"examined": "last-click"}, "last-click", True, None),
    "CascadeLinUCB last click": (thali.CascadeLinUCB, {"examined": "last-click"}, "last-click", False, None),
    "LSBGreedy": (thali.LSBGreedy, {}, "all", True, None),
    "CombLinUCB": (thali.CombLinUCB, {}, "all", False, None),
    "C3UCB": (thali.C3UCB, {}, "first-click", False, [1.0, 0.9, 0.81, 0.729]),
    "C3UCB steep": (
        thali.C3UCB,
        {"position_discounts": [1, 0.5, 0.5, 1e-3]},
        "first-click",
        False,
        [1, 0.5, 0.5, 1e-3],
    ),
}
CASES = [(learner, forgetting) for learner in LEARNERS for forgetting in ({"discount": 0.9}, {"window": 5})]
CASES += [("CascadeLSB", forgetting) for forgetting in ({}, {"discount": 0.3}, {"window": 1}, {"window": 50})]
CASES += [("C3UCB", {}), ("CombLinUCB", {}), ("CascadeLSB last click", {}), ("CascadeLinUCB last click", {})]


@pytest.mark.parametrize(("learner", "forgetting"), CASES, ids=str)
def test_statistics_equal_a_sum_over_everything_shown(learner, forgetting, tmp_path):
    """Feedback arrives in order, or in any order with some of it missing. The state is saved and loaded halfway."""
    make, settings, rule, diverse, v = LEARNERS[learner]
    rng = np.random.default_rng(len(learner))
    for style, kind, L, K in (("sparse", "probabilistic", 15, 4), ("extremes", "max", 4, 4), ("parallel", "max", 9, 4)):
        W = weights(style, L, 3, rng)
        policy = make(thali.Catalog(W, coverage=kind), K, sigma=0.5, **settings, **forgetting)
        n = max(60, 5 * forgetting.get("window", 0) + 20)
        late = np.cumsum(rng.integers(1, 4, size=n))[rng.permutation(n)]
        for numbers in (range(n), late):
            state, seen = policy.init(1), []
            for step, number in enumerate(numbers):
                lists = policy.recommend(state) if step % 2 else rng.permutation(L)[None, :K]
                clicks = plain.some_clicks(rng, K)
                policy.update(state, lists, clicks[None], shown_at=None if numbers is not late else [number])
                seen.append((number, plain.features(W, lists[0].tolist(), kind, diverse), clicks))
                if step < 12 or step % 10 == 0 or step == n - 1:  # the sum takes most of the time
                    M, B = plain.regression(seen, 3, 0.5, rule=rule, v=v, **forgetting)
                    np.testing.assert_allclose(state.M[0], M, rtol=1e-10, atol=1e-12)
                    np.testing.assert_allclose(state.B[0], B, rtol=1e-10, atol=1e-12)
                    np.testing.assert_allclose(policy.estimate(state)[0], 4 * np.linalg.solve(M, B), atol=1e-8)
                if step == n // 2:
                    state.save(tmp_path / "middle")
                    state = thali.load_state(tmp_path / "middle")


@pytest.mark.parametrize("kind", ["probabilistic", "max"])
@pytest.mark.parametrize("style", STYLES)
def test_options_at_their_limits_change_nothing(style, kind):
    """Last click with at most one click, a discount of 1, and v = 1: each equals the policy without the option."""
    W = weights(style, 20, 4, np.random.default_rng(1))
    catalog = thali.Catalog(W, coverage=kind)
    pairs = (
        (thali.CascadeLSB, {}, thali.CascadeLSB, {"examined": "last-click"}, 1),
        (thali.CascadeLinUCB, {}, thali.CascadeLinUCB, {"examined": "last-click"}, 1),
        (thali.CascadeLSB, {}, thali.CascadeLSB, {"discount": 1.0}, None),
        (thali.CascadeLinUCB, {}, thali.C3UCB, {"position_discounts": np.ones(4)}, None),
    )
    for one, settings, other, other_settings, max_clicks in pairs:
        policies = (one(catalog, 4, **settings), other(catalog, 4, **other_settings))
        states = [policy.init(3) for policy in policies]
        rng = np.random.default_rng(2)
        for _ in range(60):
            lists = [policy.recommend(state) for policy, state in zip(policies, states, strict=True)]
            np.testing.assert_array_equal(*lists)
            clicks = np.array([plain.some_clicks(rng, 4, max_clicks) for _ in range(3)])
            for policy, state in zip(policies, states, strict=True):
                policy.update(state, lists[0], clicks)
        assert same(*states)


def test_an_impression_learned_twice_within_the_window_is_refused_and_nothing_is_learned():
    policy = thali.CascadeLSB(thali.Catalog(np.eye(3)), 2, window=5)
    state = policy.init(2)
    for number in (0, 3, 9, 7):
        policy.update(state, [[0, 1], [1, 2]], [[True, False]] * 2, shown_at=[number, number + 10])
    before = state.copy()
    for again in ([9, 18], [8, 17]):
        with pytest.raises(ValueError, match=r"shown_at must be .* not learned from yet, got \d+ again for user"):
            policy.update(state, [[0, 1], [1, 2]], [[True, True]] * 2, shown_at=again)
        assert same(state, before)
    policy.update(state, [[0, 1]] * 2, [[True, True]] * 2, shown_at=[3, 12])  # too old to matter
    np.testing.assert_array_equal(state.M, before.M)


def test_a_window_forgets_completely(tmp_path):
    """The state equals that of a new user who learns only the last W impressions, whatever came before them."""
    rng = np.random.default_rng(5)
    policy = thali.CascadeLSB(thali.Catalog(weights("sparse", 12, 4, rng)), 3, sigma=1e-3, window=7)
    state, seen = policy.init(1), []
    for step in range(700):
        seen.append((rng.permutation(12)[None, :3], plain.some_clicks(rng, 3)[None]))
        policy.update(state, *seen[-1])
        if step % 13 == 12:
            new_user = policy.init(1)
            for lists, clicks in seen[-7:]:
                policy.update(new_user, lists, clicks)
            np.testing.assert_allclose(state.M, new_user.M, rtol=1e-13, atol=0)
            np.testing.assert_allclose(state.B, new_user.B, rtol=1e-13, atol=0)
            state.save(tmp_path / "state")
            thali.load_state(tmp_path / "state")


def drawn_by(make, W, kind="probabilistic", **settings):
    """Return a policy, and the estimates from which it builds its lists."""
    estimates = []

    def spy(catalog, estimate, inverse, alpha, **rest):
        assert not np.any(alpha)
        estimates.append(estimate.copy())
        return greedy(catalog, estimate, inverse, alpha, **rest)

    return make(thali.Catalog(W, coverage=kind), 3, build=spy, **settings), estimates


@pytest.mark.parametrize("kind", ["probabilistic", "max"])
@pytest.mark.parametrize("make", [thali.CascadeLSB, thali.CombLinTS, thali.LSBGreedy])
def test_sampling_is_greedy_under_one_draw_from_the_posterior(make, kind):
    for style in STYLES:
        rng = np.random.default_rng(STYLES.index(style))
        W = weights(style, 20, 4, rng)
        policy, estimates = drawn_by(make, W, kind, explore="sampling", sigma=0.3)
        state = policy.init(2)
        for step in range(20):
            lists = policy.recommend(state, [np.random.default_rng([step, user]) for user in range(2)])
            for user, theta in enumerate(estimates[-1]):
                z = np.random.default_rng([step, user]).standard_normal(4)
                expected = plain.gaussian(state.M[user], state.B[user], 0.3, z)
                np.testing.assert_allclose(theta, expected, rtol=1e-8, atol=1e-10)
                assert lists[user].tolist() == plain_list(W, kind, theta, np.eye(4), 0.0, 3, policy.features)
            policy.update(state, lists, np.array([plain.some_clicks(rng, 3) for _ in range(2)]))
        np.testing.assert_array_equal(policy.recommend(state, rng=5), policy.recommend(state, rng=5))


@pytest.mark.parametrize("make", [thali.CascadeLSB, thali.CombLinTS])
def test_draws_have_the_mean_and_covariance_of_the_posterior(make):
    rng = np.random.default_rng(3)
    policy, estimates = drawn_by(make, weights("sparse", 20, 5, rng), explore="sampling", sigma=0.5)
    state = policy.init(1)
    for _ in range(30):
        policy.update(state, rng.permutation(20)[None, :3], plain.some_clicks(rng, 3)[None])
    many = state.take([0])
    for _ in range(3000):
        policy.recommend(many, rng)
    z = (np.concatenate(estimates) - policy.estimate(state)) @ np.linalg.cholesky(state.M[0])
    assert stats.kstest((z**2).sum(axis=1), stats.chi2(5).cdf).pvalue > 1e-3
    assert stats.chi2(5).sf(len(z) * (z.mean(axis=0) ** 2).sum()) > 1e-3  # the mean, in every direction
    whitened = z.T @ z / len(z)
    np.testing.assert_allclose(whitened, np.eye(5), atol=5 * math.sqrt(2 / len(z)))


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e8, 1e10])
def test_draw_equals_numpy_also_for_an_ill_conditioned_matrix(scale):
    rng = np.random.default_rng(4)
    for d in (1, 2, 7, 18):
        X = rng.random((2 * d, d)) * rng.choice([0.0, 1e-3, 1.0], size=(2 * d, 1))
        M, mean, z = np.eye(d) + scale * X.T @ X, rng.random(d), rng.standard_normal(d)
        out = np.empty((1, d))
        reading = posterior.Reading(np.eye(len(mean)), np.zeros(len(mean)), 1.0, 1.0)
        posterior.draw(M[None], reading, mean[None], z[None], out)
        root = np.linalg.cholesky(M)
        expected = np.linalg.solve(root.T, z)
        np.testing.assert_allclose(out[0] - mean, expected, rtol=0, atol=1e-15 * np.linalg.cond(M) + 1e-14)
        np.testing.assert_allclose(root.T @ (out[0] - mean), z, rtol=0, atol=1e-15 * np.linalg.norm(M) + 1e-8)


def uniform_p_value(lists, items):
    """The smallest p-value of chi-square tests that each position shows these items equally often."""
    assert set(np.unique(lists)) == set(items)
    counts = [[int((column == e).sum()) for e in items] for column in lists.T]
    return min(stats.chisquare(row).pvalue for row in counts)


def test_epsilon_greedy_with_epsilon_zero_one_and_half():
    rng = np.random.default_rng(6)
    W = weights("sparse", 12, 4, rng)
    never, estimates = drawn_by(thali.EpsilonGreedy, W, epsilon=0.0)
    always, half = (drawn_by(thali.EpsilonGreedy, W, epsilon=e)[0] for e in (1.0, 0.5))
    state = never.init(1)
    for _ in range(40):
        lists = never.recommend(state, rng)
        np.testing.assert_allclose(estimates[-1], never.estimate(state))
        assert lists[0].tolist() == plain_list(W, "probabilistic", estimates[-1][0], np.eye(4), 0.0, 3)
        never.update(state, lists, plain.some_clicks(rng, 3)[None])
    many = always.init(1).take([0])
    random = np.concatenate([always.recommend(many, rng) for _ in range(3000)])
    assert uniform_p_value(random, range(12)) > 1e-3
    with_exclusions = np.concatenate([always.recommend(many, rng, exclude=[0, 3, 7]) for _ in range(2000)])
    assert uniform_p_value(with_exclusions, sorted({*range(12)} - {0, 3, 7})) > 1e-3
    shown = np.concatenate([half.recommend(state, rng) for _ in range(2000)])
    random_share = 1 - (shown == never.recommend(state, rng)).all(axis=1).mean()
    assert abs(random_share - 0.5 * (1 - 1 / (12 * 11 * 10))) < 4 * math.sqrt(0.25 / 2000)


@pytest.mark.parametrize("make", [thali.CombLinUCB, thali.C3UCB])
def test_lists_of_independent_items_equal_the_plain_loop(make):
    rng = np.random.default_rng(7)
    for style in STYLES:
        W = weights(style, 20, 4, rng)
        policy = make(thali.Catalog(W), 4, sigma=0.5, alpha=1.5)
        state = policy.init(1)
        for _ in range(60):
            lists = policy.recommend(state)
            own = (policy.estimate(state)[0], policy.posterior(state).inverse[0], 1.5, 4)
            assert lists[0].tolist() == plain_list(W, "probabilistic", *own, features="items")
            policy.update(state, lists, plain.some_clicks(rng, 4)[None])


@pytest.mark.parametrize("make", [thali.CombLinUCB, thali.C3UCB, thali.CascadeLinUCB])
def test_theoretical_optimism_equals_that_of_the_papers(make):
    for d, K, n, sigma in ((3, 2, 1000, 0.1), (7, 4, 10, 2.0)):
        policy = make(thali.Catalog(np.eye(d)), K, sigma=sigma, alpha="theory", horizon=n)
        assert policy.optimism(policy.init(1))[0] == pytest.approx(plain.cascade_width(d, K, n, sigma), rel=1e-12)


@pytest.mark.parametrize("kind", ["probabilistic", "max"])
@pytest.mark.parametrize("style", STYLES)
def test_perceptron_equals_transcription(style, kind):
    rng = np.random.default_rng(9)
    W = weights(style, 15, 4, rng)
    policy = thali.PreferencePerceptron(thali.Catalog(W, coverage=kind), 4)
    state, w = policy.init(1), np.full(4, 0.25)
    for _ in range(60):
        lists = policy.recommend(state)
        assert lists[0].tolist() == plain_list(W, kind, np.maximum(state.w[0], 0.0), np.eye(4), 0.0, 4)
        before = state.w.copy()
        for top in range(5):  # no clicks, or only clicks at the top: nothing to learn
            policy.update(state, lists, np.arange(4)[None] < top)
            np.testing.assert_array_equal(state.w, before)
        clicks = plain.some_clicks(rng, 4)
        policy.update(state, lists, clicks[None])
        w = plain.perceptron_step(w, W, lists[0].tolist(), clicks, kind)
        np.testing.assert_allclose(state.w[0], w, rtol=1e-12, atol=1e-13)


def test_oracle_most_popular_and_random():
    rng = np.random.default_rng(10)
    for style in STYLES:
        W = weights(style, 20, 4, rng)
        catalog, theta = thali.Catalog(W), rng.dirichlet(np.ones(5), size=6)[:, :4]
        oracle = thali.Oracle(catalog, 5, theta=theta)
        state = oracle.init(6)
        np.testing.assert_array_equal(oracle.recommend(state), thali.greedy_lists(catalog, theta, 5))
        assert oracle.recommend(state)[0].tolist() == reference.greedy_list(W, theta[0], 5, "probabilistic")
        excluded = [[0, 1, 2], [], [19], [5, 6], [7], [8]]
        expected = thali.greedy_lists(catalog, theta, 5, exclude=excluded)
        np.testing.assert_array_equal(oracle.recommend(state, exclude=excluded), expected)
        for popularity in (None, rng.integers(-3, 3, size=20).astype(float)):
            most = thali.MostPopular(catalog, 20, popularity=popularity)
            own = W.sum(axis=1) if popularity is None else popularity
            assert most.recommend(most.init(1))[0].tolist() == plain.top(own.tolist(), 20)
    random = thali.Random(thali.Catalog(np.ones((7, 1))), 3)
    state = random.init(4000)
    assert uniform_p_value(random.recommend(state, rng), range(7)) > 1e-3
    assert uniform_p_value(random.recommend(state, rng, candidates=[0, 2, 3, 6]), [0, 2, 3, 6]) > 1e-3


def test_a_custom_learner_that_forgets_needs_learn_late_for_late_feedback():
    class Logged(thali.CascadeLSB):
        def learn(self, state, lists, clicks, gains):
            super().learn(state, lists, clicks, gains)

    catalog, lists, clicks = thali.Catalog(np.eye(3)), [[0, 1]], [[False, True]]
    remembering, forgetful = Logged(catalog, 2), Logged(catalog, 2, discount=0.5)
    state = remembering.init(1)
    remembering.update(state, lists, clicks, shown_at=[3])
    assert state.updates[0] == 1
    state = forgetful.init(1)
    with pytest.raises(TypeError, match="Logged must define learn_late"):
        forgetful.update(state, lists, clicks, shown_at=[3])
    forgetful.update(state, lists, clicks)
    assert state.clock[0] == 1


@pytest.mark.parametrize("bad", [[-1], [2**53 + 1], np.array([2**63], dtype=np.uint64), [0.5], [1, 2], "now"])
def test_bad_values_of_shown_at_are_refused_and_nothing_is_learned(bad):
    policy = thali.CascadeLSB(thali.Catalog(np.eye(3)), 2, discount=0.9)
    state = policy.init(1)
    with pytest.raises((ValueError, TypeError), match="shown_at must"):
        policy.update(state, [[0, 1]], [[False, True]], shown_at=bad)
    assert state.clock[0] == state.updates[0] == 0


def test_a_perceptron_learns_nothing_from_a_change_of_the_catalog():
    catalog = thali.Catalog(np.eye(3) * 0.5)
    policy = thali.PreferencePerceptron(catalog, 2)
    state, lists = policy.init(1), [[0, 1]]
    gains = policy.gains(lists)
    catalog.put(0, [0.1, 0.9, 0.9])
    policy.update(state, lists, [[False, False]], gains)
    np.testing.assert_array_equal(state.w, np.full((1, 3), 1 / 3))
