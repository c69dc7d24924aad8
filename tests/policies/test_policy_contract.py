"""The contract that every policy in the registry must meet, without exceptions."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from instances import OwnEpsilonGreedy, Saturating, weights

import thali

L, d, K = 20, 4, 3


# A custom policy that samples must meet the same contract.
POLICIES = {**thali.POLICIES, "OwnEpsilonGreedy": OwnEpsilonGreedy}


@pytest.fixture(params=list(POLICIES))
def make(request):
    """The class that creates the policy from a catalog and K."""
    return POLICIES[request.param]


@pytest.fixture
def policy(make):
    return make(thali.Catalog(weights("sparse", L, d, np.random.default_rng(1))), K)


def learned(policy, users=1, steps=30, seed=2):
    """A state after some random feedback."""
    rng = np.random.default_rng(seed)
    state = policy.init(users)
    for _ in range(steps):
        policy.update(state, policy.recommend(state, rng=list(rng.spawn(users))), rng.random((users, K)) < 0.2)
    return state


def equal(a, b):
    return a.arrays.keys() == b.arrays.keys() and all(np.array_equal(a.arrays[k], b.arrays[k]) for k in a.arrays)


def test_recommends_distinct_items_and_leaves_the_state_unchanged(policy):
    state = learned(policy, users=5)
    before = state.copy()
    lists = policy.recommend(state, rng=[np.random.default_rng(u) for u in range(5)])
    assert lists.dtype == np.int64
    assert lists.shape == (5, K)
    assert all(len(set(row)) == K for row in lists.tolist())
    assert lists.min() >= 0
    assert lists.max() < L
    assert equal(state, before)


def test_a_user_in_a_batch_gets_what_they_would_get_alone(policy):
    rng = np.random.default_rng(3)
    batch, alone = policy.init(100), policy.init(1)
    user = 37
    for step in range(40):
        lists = policy.recommend(batch, rng=[np.random.default_rng([step, u]) for u in range(100)])
        own = policy.recommend(alone, rng=[np.random.default_rng([step, user])])
        np.testing.assert_array_equal(lists[user], own[0])
        clicks = rng.random((100, K)) < 0.2
        policy.update(batch, lists, clicks)
        policy.update(alone, own, clicks[[user]])
    for name, array in alone.arrays.items():
        np.testing.assert_array_equal(batch.arrays[name][user], array[0])


def test_order_of_feedback_matters_only_if_the_policy_says_so(policy):
    rng = np.random.default_rng(4)
    shown = np.array([rng.permutation(L)[:K] for _ in range(500)])
    clicked = rng.random((500, K)) < 0.2
    states = []
    for order in (range(500), rng.permutation(500)):
        state = policy.init(1)
        for t in order:
            policy.update(state, shown[[t]], clicked[[t]], shown_at=[t])
        states.append(state)
    first, second = (state.arrays for state in states)
    same = [np.allclose(first[name], second[name], rtol=1e-12, atol=1e-12) for name in first]
    assert all(same) == (not policy.order_matters)


def test_late_clicks_are_learned_with_the_gains_as_shown(policy):
    given, computed = policy.init(2), policy.init(2)
    lists = policy.recommend(given, rng=1)
    clicks = np.array([[False, True, False], [False, False, False]])
    policy.update(given, lists, clicks, gains=policy.gains(lists))
    policy.update(computed, lists, clicks)
    assert equal(given, computed)


def test_a_saved_and_loaded_state_continues_bit_for_bit(policy, tmp_path):
    state = learned(policy, users=3)
    path = tmp_path / "taste.thali"
    state.save(path)
    loaded = thali.load_state(path)
    assert equal(state, loaded)
    rng = np.random.default_rng(5)
    for step in range(30):
        generators = [[np.random.default_rng([step, u]) for u in range(3)] for _ in range(2)]
        lists = policy.recommend(state, generators[0])
        np.testing.assert_array_equal(lists, policy.recommend(loaded, generators[1]))
        clicks = rng.random((3, K)) < 0.3
        policy.update(state, lists, clicks)
        policy.update(loaded, lists, clicks)
    assert equal(state, loaded)


def test_works_with_a_custom_coverage(policy, make):
    catalog = thali.Catalog(policy.catalog.weights, coverage=Saturating())
    custom = make(catalog, K)
    model = thali.DiverseCascade(catalog, np.full((2, d), 1 / d))
    run = thali.simulate(custom, model, steps=20, seed=1, points=range(1, 21))
    # The regret must be that of the shown lists with this coverage, computed here directly.
    for user in range(2):
        lost = []
        for shown in [*model.best_lists(K)[[user]], *run.lists[user]]:
            covered = [Saturating().coverage(shown[:k], catalog.weights[shown[:k]]) for k in range(K + 1)]
            lost.append(np.prod(1 - np.diff(covered, axis=0) @ model.theta[user]))
        np.testing.assert_allclose(run.regret[user], np.cumsum(np.array(lost[1:]) - lost[0]), atol=1e-12)


def test_some_users_can_be_taken_out_and_put_back(policy):
    state, whole = learned(policy, users=5), learned(policy, users=5)
    part = state.take([3, 1])
    lists, clicks = policy.recommend(part, rng=1), np.array([[True, False, False], [False, True, False]])
    policy.update(part, lists, clicks)
    assert equal(state, whole)
    state.put([3, 1], part)
    for name, array in part.arrays.items():
        np.testing.assert_array_equal(state.arrays[name][[3, 1]], array)
        np.testing.assert_array_equal(
            np.delete(state.arrays[name], [3, 1], 0), np.delete(whole.arrays[name], [3, 1], 0)
        )
    np.testing.assert_array_equal(policy.recommend(state.take(3), rng=2), policy.recommend(part.take(0), rng=2))
    for bad in ([5], [-1], [1, 1], [0.5], [], "x"):
        with pytest.raises((ValueError, TypeError), match="users must be"):
            state.take(bad)
    with pytest.raises(ValueError, match="argument 'part' of put must be a state of the same policy with 1 users"):
        state.put([0], part)


def larger(make, **settings):
    """The same policy on a new catalog with trees, rays and single items, for which no index was built yet."""
    rng = np.random.default_rng(6)
    W = np.concatenate([weights(style, 60, d, rng) for style in ("sparse", "dense", "parallel", "duplicates")])
    return make(thali.Catalog(W), K, **settings)


def session(policy, users, steps=12):
    """Return all lists of a session, and the final state."""
    rng, state, shown = np.random.default_rng(users), policy.init(users), []
    for step in range(steps):
        shown.append(policy.recommend(state, rng=[np.random.default_rng([step, u]) for u in range(users)]))
        policy.update(state, shown[-1], rng.random((users, K)) < 0.3)
    return np.array(shown), state


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(make, threads):
    for users in (1, 2, 4, 7):
        single, threaded = larger(make), larger(make, threads=threads)
        lists, state = session(single, users)
        threaded_lists, threaded_state = session(threaded, users)
        np.testing.assert_array_equal(threaded_lists, lists)
        assert equal(threaded_state, state)
        if make is not OwnEpsilonGreedy:  # it has no choose_among
            per_user = [np.arange(user, 200) for user in range(users)]
            for query in (
                {"exclude": per_user},
                {"candidates": per_user},
                {"candidates": per_user[0][:20]},
                {"exclude": [1, 2]},
            ):
                threaded_lists = threaded.recommend(threaded_state, rng=7, **query)
                np.testing.assert_array_equal(threaded_lists, single.recommend(state, rng=7, **query))


@pytest.mark.parametrize("threads", [1, 2])
def test_one_policy_serves_several_python_threads_at_once(make, threads):
    expected = [session(larger(make), users) for users in (1, 2, 3, 4)]
    for _ in range(2):  # the first lists are requested before the catalog's index is built
        shared = larger(make, threads=threads)
        with ThreadPoolExecutor(4) as pool:
            sessions = list(pool.map(lambda users: session(shared, users), (1, 2, 3, 4)))  # noqa: B023 (done before the next iteration)
        for (lists, state), (own_lists, own_state) in zip(expected, sessions, strict=True):
            np.testing.assert_array_equal(lists, own_lists)
            assert equal(state, own_state)


def test_bad_arguments_are_refused_and_nothing_is_learned(policy, make):
    """No policy bypasses the checks of the base class. tests/policies/test_base.py tests these checks in full."""
    state = learned(policy)
    before = state.copy()
    lists, clicks = [[0, 1, 2]], np.zeros((1, K), bool)
    for call, message in (
        (lambda: make(policy.catalog, L + 1), f"K of {policy.name} must be"),
        (lambda: make(policy.catalog, K, threads=0), f"threads of {policy.name} must be"),
        (lambda: policy.init(0), "users of init must be"),
        (lambda: policy.update(state, [[0, 1, 1]], clicks), "lists must contain distinct"),
        (lambda: policy.update(state, lists, [[2, 0, 0]]), "clicks must be an array of booleans"),
        (lambda: policy.update(state, lists, clicks, gains=np.full((1, K, d), 2.0)), "gains must"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call()
    assert equal(state, before)


def test_a_state_of_another_learner_is_refused(policy):
    mine = policy.init(1)
    for other in POLICIES.values():
        stranger = other(policy.catalog, K).init(1)
        kept, own = (
            {name: value for name, value in state.settings.items() if name not in policy.reading_settings}
            for state in (stranger, mine)
        )
        if (stranger.learner, kept) == (mine.learner, own):
            policy.check(stranger)  # the same statistics, interpreted differently
        else:
            with pytest.raises(
                ValueError, match="state of .* must come from (the same policy|a policy with the same settings)"
            ):
                policy.recommend(stranger, rng=1)
    with pytest.raises(TypeError, match="state of"):
        policy.recommend({"M": 1}, rng=1)


def test_a_state_of_another_catalog_is_refused(policy, make):
    names = {"items": [f"item {e}" for e in range(L)], "topics": [f"topic {j}" for j in range(d)]}
    for other in (thali.Catalog(np.full((L + 1, d + 1), 0.5)), thali.Catalog(policy.catalog.weights, **names)):
        with pytest.raises(ValueError, match="must come from a policy with the same settings"):
            make(other, K).recommend(policy.init(1), rng=1)


def test_a_state_with_arrays_of_another_shape_is_refused_before_it_is_read(policy):
    state = policy.init(2)
    name, array = next(iter(state.arrays.items()))
    setattr(state, name, array[:, :1] if array.ndim > 1 else array[:, None])
    for call in (
        lambda: policy.recommend(state, rng=1),
        lambda: policy.update(state, [[0, 1, 2]] * 2, [[True] * 3] * 2),
    ):
        with pytest.raises(
            ValueError, match=f"state of {policy.name} must have arrays with these types and shapes for each user"
        ):
            call()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sigma": 0.0}, "sigma of .* must be a number of at least 0.001, got 0.0"),
        ({"sigma": -1.0}, "sigma of .* must be a number of at least 0.001, got -1.0"),
        ({"sigma": float("nan")}, "sigma of .* must be a number of at least 0.001, got nan"),
        ({"alpha": -1.0}, "alpha of .* must be a number of at least 0, got -1.0"),
        ({"alpha": float("inf")}, "alpha of .* must be"),
        ({"alpha": "much"}, "alpha of .* must be a number of at least 0, 'theory' or 'default', got 'much'"),
        ({"horizon": 0}, "horizon of .* must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_settings_of_the_linear_family_are_refused(settings, message):
    catalog = thali.Catalog(np.eye(3))
    for policy_class in (thali.CascadeLSB, thali.LSBGreedy, thali.CascadeLinUCB):
        with pytest.raises(ValueError, match=message):
            policy_class(catalog, 2, **settings)


def test_theory_without_a_horizon_is_refused_where_the_analysis_needs_one():
    for policy_class in (thali.CascadeLSB, thali.CascadeLinUCB):
        with pytest.raises(ValueError, match="horizon of .* must be given for alpha='theory', got None"):
            policy_class(thali.Catalog(np.eye(3)), 2, alpha="theory")
