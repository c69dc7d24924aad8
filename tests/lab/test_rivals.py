"""What people would use instead: each policy against a plain transcription, and what all of them must do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import thali
from thali.datasets.interactions import Interactions
from thali.lab.rivals import EASE, IALS, RIVALS, ItemKNN, KnownLikes, Popular, StaticDiverse

L, N, K = 14, 40, 3
SMALL = {"IALS": {"factors": 4}}


def interactions(liked):
    """The likes (people, items) as Interactions. Everybody must like something, to be in the data."""
    rows = [(f"person {u:03}", int(e), 1.0) for u, e in zip(*np.nonzero(liked), strict=True)]
    return Interactions.of(rows, {e: ["film"] for e in range(liked.shape[1])})


def random_likes(seed=0, people=N, items=L):
    rng = np.random.default_rng(seed)
    tastes = rng.random((people, 3)) @ rng.random((3, items))
    liked = rng.random((people, items)) < tastes / tastes.max() * np.linspace(0.2, 0.9, items)
    liked[:, 0] = True
    return liked


LIKED = random_likes()
LIKES = KnownLikes(interactions(LIKED))


def make(name, likes=LIKES, **settings):
    return RIVALS[name](likes.catalog, K, likes, **{**SMALL.get(name, {}), **settings})


@pytest.fixture(params=list(RIVALS))
def policy(request):
    return make(request.param)


def after(policy, clicked):
    """A state in which each person clicked the items of one row, each at the top of a list."""
    state = policy.init(len(clicked))
    for user, items in enumerate(clicked):
        part = state.take(user)
        for item in items:
            shown = [item, *(e for e in range(L) if e != item)][:K]
            policy.update(part, [shown], [[True] + [False] * (K - 1)])
        state.put(user, part)
    return state


def session(policy, users=5, steps=12, seed=2):
    rng, state = np.random.default_rng(seed), policy.init(users)
    for _ in range(steps):
        policy.update(state, [rng.permutation(L)[:K] for _ in range(users)], rng.random((users, K)) < 0.2)
    return state


# Each policy against a plain transcription.


@pytest.mark.parametrize("regularization", [0.5, 20.0])
def test_ease_is_the_ridge_regression_of_each_item_on_the_others(regularization):
    X, B = LIKED.astype(float), np.zeros((L, L))
    for j in range(L):
        others = [i for i in range(L) if i != j]
        A = np.vstack([X[:, others], np.sqrt(regularization) * np.eye(L - 1)])
        B[others, j] = np.linalg.lstsq(A, np.append(X[:, j], np.zeros(L - 1)), rcond=None)[0]
    policy = make("EASE", regularization=regularization)
    np.testing.assert_allclose(policy.weights, B, atol=1e-10)
    state = after(policy, [[3, 7], [1]])
    np.testing.assert_allclose(policy.scores(state), [B[3] + B[7], B[1]], atol=1e-10)


@pytest.mark.parametrize(("neighbours", "shrink"), [(2, 0.0), (5, 10.0), (100, 3.5)])
def test_item_knn_sums_the_similarities_to_clicked_neighbours(neighbours, shrink):
    policy = make("ItemKNN", neighbours=neighbours, shrink=shrink)
    clicked = [[3, 7, 11], [1], [0, 2, 4, 6, 8]]
    expected = np.zeros((len(clicked), L))
    for target in range(L):
        similar = []
        for other in range(L):
            if other != target:
                both = sum(LIKED[:, target] & LIKED[:, other])
                similar.append((both / (np.sqrt(sum(LIKED[:, target]) * sum(LIKED[:, other])) + shrink), other))
        nearest = sorted(similar, key=lambda pair: (-pair[0], pair[1]))[:neighbours]
        for user, items in enumerate(clicked):
            expected[user, target] = sum(value for value, other in nearest if other in items)
    np.testing.assert_allclose(policy.scores(after(policy, clicked)), expected, atol=1e-12)


def test_ials_folds_a_person_in_as_implicit_does():
    policy = make("IALS", factors=5, regularization=0.3, confidence=7.0)
    clicked = [[3, 7, 11], [1], [0, 2, 4, 6, 8]]
    model = policy.fit()
    rows = np.zeros((3, L))
    for user, items in enumerate(clicked):
        rows[user, items] = 1.0
    expected = model.recalculate_user(np.arange(3), csr_matrix(rows)) @ model.item_factors.T
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(policy.scores(after(policy, clicked)), expected, atol=1e-4)  # implicit uses float32


def test_ials_depends_only_on_its_settings():
    first, second, other = (IALS(LIKES.catalog, K, interactions(LIKED), factors=4, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.item_factors, second.item_factors)
    assert not np.allclose(first.item_factors, other.item_factors)


def test_popular_shows_what_most_training_people_like_and_counts_clicks_if_it_learns():
    order = sorted(range(L), key=lambda e: (-LIKED[:, e].sum(), e))
    frozen, learning = make("Popular"), make("Popular-learning")
    state, shared = session(frozen), session(learning)
    assert frozen.recommend(state).tolist() == [order[:K]] * 5
    np.testing.assert_array_equal(frozen.predict(state, [order] * 5), [LIKED.mean(axis=0)[order]] * 5)
    expected = (LIKED.sum(axis=0) + shared.clicked.sum(axis=0)) / (N + shared.examined.sum(axis=0))
    np.testing.assert_allclose(learning.predict(shared, [order] * 5), [expected[order]] * 5, rtol=1e-15)
    everybody = learning.init(500)
    learning.update(everybody, [order[:K]] * 500, np.zeros((500, K), bool))
    assert learning.recommend(everybody).tolist() == [order[K : 2 * K]] * 500, "nobody clicked what was popular"


def test_popular_can_skip_what_a_person_examined_until_nothing_else_is_left():
    policy = make("Popular", skipping=True)
    state, order = policy.init(2), np.argsort(-LIKED.sum(axis=0), kind="stable")
    seen = []
    for _ in range(L // K):
        lists = policy.recommend(state)
        policy.update(state, lists, np.array([[False] * K, [True] + [False] * (K - 1)]))
        seen.extend(lists[0].tolist())
    assert seen == order[: len(seen)].tolist(), "the first person examines every list to the end"
    assert policy.recommend(state)[0].tolist() == [*order[len(seen) :], *order][:K]
    assert policy.recommend(state)[1].tolist() == order[L // K :][:K].tolist(), "the second one, only the first item"


def diverse(liked, allowed):
    chosen, reached = [], np.zeros(len(liked), bool)
    for _ in range(K):
        left = [e for e in allowed if e not in chosen]
        chosen.append(max(left, key=lambda e: (sum(liked[:, e] & ~reached), sum(liked[:, e]), -e)))
        reached |= liked[:, chosen[-1]]
    return chosen


@given(st.integers(0, 10_000))
def test_static_diverse_is_greedy_for_people_who_like_nothing_on_the_list_yet(seed):
    rng = np.random.default_rng(seed)
    liked = rng.random((rng.integers(1, 12), L)) < rng.uniform(0.05, 0.6)
    liked[:, rng.integers(L)] |= ~liked.any(axis=1)
    likes = KnownLikes(interactions(liked))
    policy = StaticDiverse(likes.catalog, K, likes)
    exclude = rng.random((6, L)) < 0.5
    exclude[:, :K] = False
    exclude[5] = exclude[0]
    expected = [diverse(liked, np.flatnonzero(~row)) for row in exclude]
    assert policy.recommend(policy.init(6), exclude=exclude).tolist() == expected
    assert policy.recommend(policy.init(2)).tolist() == [diverse(liked, range(L))] * 2


# What all of them must do.


def test_lists_have_the_largest_scores_of_what_each_person_may_be_shown(policy):
    rng = np.random.default_rng(1)
    exclude = rng.random((5, L)) < 0.6
    exclude[:, :K] = False
    state = session(policy)
    before = state.copy()
    lists, every = policy.recommend(state, exclude=exclude), np.tile(np.arange(L), (5, 1))
    assert not np.take_along_axis(exclude, lists, axis=1).any()
    for name, array in state.arrays.items():
        np.testing.assert_array_equal(array, before.arrays[name])
    if not isinstance(policy, StaticDiverse):
        for user, scores in enumerate(policy.predict(state, every)):
            order = sorted(np.flatnonzero(~exclude[user]), key=lambda e: (-scores[e], e))
            assert lists[user].tolist() == order[:K]


def test_a_removed_item_is_not_shown(policy):
    catalog = thali.Catalog(LIKES.catalog.weights, items=LIKES.interactions.items)
    own = make(policy.name, learning=policy.learning) if isinstance(policy, Popular) else make(policy.name)
    own.catalog = catalog
    favorite = own.recommend(own.init(1))[0, 0]
    catalog.remove(int(favorite))
    assert favorite not in own.recommend(own.init(1))


@pytest.mark.parametrize("name", ["ItemKNN", "IALS", "EASE"])
def test_before_the_first_click_the_list_is_popular_and_afterwards_popularity_has_its_weight(name):
    share = LIKED.mean(axis=0)
    popular = sorted(range(L), key=lambda e: (-share[e], e))
    for weight in (0.0, 0.5):
        policy = make(name, popularity=weight)
        state = policy.init(1)
        policy.update(state, [[2, 3, 4]], [[False] * 3])  # without a click, nothing is known
        assert policy.recommend(state)[0].tolist() == popular[:K]
    clicked = after(policy, [[5, 9]])
    added = policy.scores(clicked) - make(name).scores(clicked)
    np.testing.assert_allclose(added[0], 0.5 * (share - share.mean()) / share.std(), atol=1e-12)


def test_only_examined_positions_and_the_first_click_are_learned(policy):
    state = policy.init(3)
    policy.update(state, [[4, 5, 6]] * 3, np.array([[False, True, True], [False, False, False], [True, False, True]]))
    assert [np.flatnonzero(row).tolist() for row in state.examined] == [[4, 5], [4, 5, 6], [4]]
    assert [np.flatnonzero(row).tolist() for row in state.clicked] == [[5], [], [4]]
    assert state.updates.tolist() == [1, 1, 1]


def test_a_person_in_a_batch_gets_what_they_would_get_alone(policy):
    state, every = session(policy, users=20), np.tile(np.arange(L), (20, 1))
    together, lists = policy.predict(state, every), policy.recommend(state)
    alone = np.concatenate([policy.predict(state.take(user), every[[user]]) for user in range(20)])
    if isinstance(policy, Popular) and policy.learning == "learning":
        assert not np.array_equal(together, alone), "they share one popularity"
    else:
        np.testing.assert_array_equal(together, alone)
        np.testing.assert_array_equal(lists, np.concatenate([policy.recommend(state.take(u)) for u in range(20)]))


def test_a_saved_state_continues_and_serves_other_settings_of_the_same_policy(policy, tmp_path):
    state = session(policy)
    state.save(tmp_path / "taste")
    loaded = thali.load_state(tmp_path / "taste")
    np.testing.assert_array_equal(policy.recommend(loaded), policy.recommend(state))
    policy.update(loaded, policy.recommend(state), np.ones((5, K), bool))
    policy.update(state, policy.recommend(state), np.ones((5, K), bool))
    for name, array in state.arrays.items():
        np.testing.assert_array_equal(array, loaded.arrays[name])
    other = KnownLikes(interactions(random_likes(seed=1)))
    type(policy)(other.catalog, K, other, **SMALL.get(policy.name, {})).recommend(loaded)


def test_policies_of_the_same_likes_share_a_fitted_model():
    likes = KnownLikes(interactions(LIKED))
    one, other, third = (
        EASE(likes.catalog, K, likes, regularization=r, popularity=p) for r, p in ((5, 0), (5, 1), (6, 0))
    )
    assert one.weights is other.weights
    assert third.weights is not one.weights
    assert EASE(likes.catalog, K, likes, regularization=6).weights is third.weights
    assert one.weights is other.weights, "a policy keeps its model"


def test_bad_input_is_refused():
    catalog = LIKES.catalog
    nobody = Interactions.of([], {e: ["film"] for e in range(L)})
    others = thali.Catalog(np.ones((L, 1)), items=[f"item {e}" for e in range(L)])
    for call, message in (
        (lambda: EASE(catalog, K, LIKED), "likes of EASE must be thali.datasets.Interactions or KnownLikes, got"),
        (lambda: EASE(catalog, K, nobody), "interactions of KnownLikes must contain at least one like, got none"),
        (
            lambda: EASE(others, K, LIKES),
            "likes of EASE must have the same items as the catalog, .* got 14 others",
        ),
        (lambda: EASE(thali.Catalog([[1.0]] * 9), K, LIKES), "same items as the catalog, which has 9, got 14"),
        (lambda: EASE(catalog, K, LIKES, regularization=0), "regularization of EASE must be a number above 0, got 0"),
        (lambda: EASE(catalog, K, LIKES, popularity=-1), "popularity of EASE must be a number of at least 0, got -1"),
        (
            lambda: ItemKNN(catalog, K, LIKES, neighbours=0),
            "neighbours of ItemKNN must be a whole number",
        ),
        (
            lambda: ItemKNN(catalog, K, LIKES, shrink=np.nan),
            "shrink of ItemKNN must be a number of at least 0",
        ),
        (lambda: IALS(catalog, K, LIKES, confidence=0.5), "confidence of IALS must be a number of at least 1, got 0.5"),
        (lambda: IALS(catalog, K, LIKES, factors=2.5), "factors of IALS must be a whole number of at least 1, got 2.5"),
        (lambda: Popular(catalog, K, LIKES, learning="no"), "learning of Popular must be one of 'frozen', 'learning'"),
        (lambda: Popular(catalog, K, LIKES, skipping=1), "skipping of Popular must be True or False, got 1"),
        (lambda: make("EASE").predict(make("EASE").init(1), [[0, 0]]), "lists must contain distinct item numbers"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call()


def test_items_added_to_the_catalog_later_are_not_guessed_at(policy):
    policy.catalog = thali.Catalog(LIKES.catalog.weights, items=LIKES.interactions.items)
    policy.catalog.put("new", [0.5])
    state = policy.init(1)
    for call in (lambda: policy.recommend(state), lambda: policy.predict(state, [[0, 1]])):
        with pytest.raises(ValueError, match="must have 15 items, as the catalog, got 14: items were added after"):
            call()
