"""Candidates and exclusions: lists are those of the plain loop over what each user may be shown."""

import numpy as np
import pytest
from instances import OwnEpsilonGreedy, Saturating
from plain import plain_list

import thali
from thali.lists.plain import indices

USERS, K = 4, 5
LINEAR = [thali.CascadeLSB, thali.LSBGreedy, thali.CascadeLinUCB]


def some_weights(L, d, rng):
    """Rays, trees and single items: a few sets of topics, some parallel, some equal, some zero."""
    supports = rng.random((6, d)) < 0.5
    W = rng.random((L, d)) * supports[rng.integers(6, size=L)]
    W[: L // 5] = rng.random((L // 5, 1)) * supports[0]
    W[L // 2 : L // 2 + 5] = W[0]
    return rng.permutation(W)


def learned(policy, rng, users=USERS):
    state = policy.init(users)
    for _ in range(15):
        policy.update(
            state,
            [rng.permutation(policy.catalog.L)[: policy.K] for _ in range(users)],
            rng.random((users, policy.K)) < 0.2,
        )
    return state


def forms(sets, L, rng):
    """The ways to say, for each user, which items: a set for each, or one for all where they are the same."""
    masks = np.zeros((len(sets), L), dtype=bool)
    for mask, items in zip(masks, sets, strict=True):
        mask[items] = True
    repeated = [rng.permutation(np.concatenate([items, items[:3]])) for items in sets]
    found = [
        masks,
        repeated,
        tuple(items.tolist() for items in repeated),
        list(masks),
        [items.astype(np.uint16) for items in sets],
    ]
    if all(items is sets[0] for items in sets):
        found += [masks[0], repeated[0], repeated[0].tolist(), masks[0].tolist()]
    return found


def questions(L, removed, rng):
    """Candidates and exclusions in all forms, and which items that leaves to each user (users, L)."""
    present = np.ones(L, dtype=bool)
    present[removed] = False
    for share in (0.0, 0.05, 0.2, 0.9):  # below and above what is searched as candidates, or as all but some
        for shared in (True, False):
            sets = [rng.permutation(L)[: max(2 * K + len(removed), int(share * L))] for _ in range(USERS)]
            sets = [sets[0]] * USERS if shared else sets
            few = [rng.permutation(L)[:K] for _ in range(USERS)]
            few = few if rng.random() < 0.5 else [few[0]] * USERS
            for chosen in forms(sets, L, rng):
                left = np.zeros((USERS, L), dtype=bool)
                for user in range(USERS):
                    left[user, sets[user]] = True
                without = left.copy()
                for user in range(USERS):
                    without[user, few[user]] = False
                yield {"candidates": chosen}, left & present
                yield {"candidates": chosen, "exclude": forms(few, L, rng)[rng.integers(4)]}, without & present
                yield {"exclude": chosen}, ~left & present


@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
@pytest.mark.parametrize("policy_class", LINEAR)
@pytest.mark.parametrize("removed", [0, 7])
def test_lists_are_those_of_the_plain_loop_over_what_is_left(policy_class, coverage, removed):
    rng = np.random.default_rng([removed, len(coverage)])
    L, d = 240, 6
    W = some_weights(L, d, rng)
    catalog = thali.Catalog(W, coverage=coverage)
    policy = policy_class(catalog, K, threads=int(rng.integers(1, 3)))
    state = learned(policy, rng)
    gone = rng.permutation(L)[:removed]
    for e in gone.tolist():
        catalog.remove(e)
    estimate, alpha = policy.estimate(state), policy.optimism(state)
    theta = rng.dirichlet(np.ones(d), size=USERS)
    before = state.copy()
    refused = 0
    for question, left in questions(L, gone, rng):
        if left.sum(axis=1).min() < K:
            refused += 1
            with pytest.raises(ValueError, match=f"must leave at least K = {K} items"):
                policy.recommend(state, **question)
            continue
        found = policy.recommend(state, **question)
        known = thali.greedy_lists(catalog, theta, K, **question)
        for user in range(USERS):
            plain = plain_list(
                W, coverage, estimate[user], state.inverse[user], alpha[user], K, policy.features, shown=left[user]
            )
            assert found[user].tolist() == plain
            plain = plain_list(W, coverage, theta[user], np.eye(d), 0.0, K, shown=left[user])
            assert known[user].tolist() == plain
    assert refused < 20
    assert all(np.array_equal(before.arrays[name], array) for name, array in state.arrays.items())


@pytest.mark.parametrize("removed", [0, 7])
def test_lists_of_counts_are_those_of_all_items_without_the_others(removed):
    rng = np.random.default_rng(removed)
    L = 240
    catalog = thali.Catalog(rng.random((L, 3)))
    policy = thali.CascadeKLUCB(catalog, K, threads=2)
    state = learned(policy, rng)
    gone = rng.permutation(L)[:removed]
    for e in gone.tolist():
        catalog.remove(e)
    everything = thali.CascadeKLUCB(catalog, len(catalog)).recommend(state)
    for question, left in questions(L, gone, rng):
        if left.sum(axis=1).min() >= K:
            found = policy.recommend(state, **question)
            for user in range(USERS):
                ranked = everything[user]
                assert found[user].tolist() == ranked[left[user, ranked]][:K].tolist()


@pytest.mark.parametrize("policy_class", LINEAR)
def test_with_a_coverage_of_ones_own(policy_class):
    rng = np.random.default_rng(5)
    L, d = 50, 4
    catalog = thali.Catalog(some_weights(L, d, rng), coverage=Saturating())
    policy = policy_class(catalog, K)
    state = learned(policy, rng)
    estimate, alpha, values = policy.estimate(state), policy.optimism(state), np.empty(L)
    catalog.remove(3)
    asked = list(questions(L, np.array([3]), rng))
    for question, left in [asked[n] for n in rng.permutation(len(asked))[:12]]:
        if left.sum(axis=1).min() < K:
            continue
        found = policy.recommend(state, **question)
        for user in range(USERS):
            chosen, shown = [], left[user].copy()
            for _ in range(K):
                above = chosen if policy.features == "gains" else []
                indices(
                    catalog.all_gains(np.array(above, dtype=np.int64)),
                    estimate[user],
                    state.inverse[user],
                    alpha[user],
                    values,
                )
                chosen.append(int(np.argmax(np.where(shown, values, -np.inf))))
                shown[chosen[-1]] = False
            assert found[user].tolist() == chosen


@pytest.mark.parametrize("policy_class", [*LINEAR, thali.CascadeKLUCB])
def test_exactly_as_many_as_a_list_takes_can_be_left(policy_class):
    rng = np.random.default_rng(6)
    L = 100
    policy = policy_class(thali.Catalog(some_weights(L, 5, rng)), K)
    state = learned(policy, rng)
    sets = [rng.permutation(L) for _ in range(USERS)]
    for question in ({"candidates": [row[:K] for row in sets]}, {"exclude": [row[K:] for row in sets]}):
        found = policy.recommend(state, **question)
        np.testing.assert_array_equal(np.sort(found), np.sort([row[:K] for row in sets]))
    for question in ({"candidates": [row[:K] for row in sets]}, {"exclude": [row[K:] for row in sets]}):
        policy.catalog.remove(int(sets[2][0 if "candidates" in question else 1]))
        with pytest.raises(ValueError, match=rf"must leave at least K = {K} items .* for user 2, got"):
            policy.recommend(state, **question)


def test_nothing_excluded_and_everything_a_candidate_is_as_if_nothing_was_said():
    rng = np.random.default_rng(7)
    policy = thali.CascadeLSB(thali.Catalog(some_weights(100, 5, rng)), K)
    state = learned(policy, rng)
    for question in (
        {"exclude": []},
        {"exclude": [[]] * USERS},
        {"candidates": range(100)},
        {"exclude": np.zeros(100, bool)},
    ):
        np.testing.assert_array_equal(policy.recommend(state, **question), policy.recommend(state))


@pytest.mark.parametrize("name", ["candidates", "exclude"])
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([0, 20], ValueError, r" must contain item numbers from 0 to 19, got 20"),
        ([-1, 3], ValueError, r" must contain item numbers from 0 to 19, got -1"),
        ([[0, 1], [0, 99]], ValueError, r"\[1\] must contain item numbers from 0 to 19, got 99"),
        (
            np.array([2**63], dtype=np.uint64),
            ValueError,
            r" must contain item numbers from 0 to 19, got 9223372036854775808",
        ),
        (np.zeros(19, bool), ValueError, r", given as a mask, must have shape \(L,\) = \(20,\), got \(19,\)"),
        (np.zeros((2, 19), bool), ValueError, r"\[0\], given as a mask, must have shape \(L,\) = \(20,\), got \(19,\)"),
        (
            np.zeros((3, 20), bool),
            ValueError,
            r" must be one set .* for all users, or one row for each of the 2 users, got 3 rows",
        ),
        (
            [[0], [1], [2]],
            ValueError,
            r" must be one set .* for all users, or one row for each of the 2 users, got 3 rows",
        ),
        (np.zeros((2, 2, 20), bool), ValueError, r", given as a mask, must have shape"),
        (np.zeros((2, 5, 1), int), TypeError, r" must be item numbers \(n,\) or a boolean mask \(L,\), got"),
        ([0.0, 1.0], TypeError, r" must be item numbers \(n,\) or a boolean mask \(L,\), got \[0.0, 1.0\]"),
        ([[0.5], [1]], TypeError, r"\[0\] must be item numbers \(n,\) or a boolean mask \(L,\), got \[0.5\]"),
        ("all", TypeError, r" must be item numbers \(n,\) or a boolean mask \(L,\), got 'all'"),
        (7, TypeError, r" must be item numbers \(n,\) or a boolean mask \(L,\), got 7"),
        ({1, 2}, TypeError, r" must be item numbers \(n,\) or a boolean mask \(L,\), got \{1, 2\}"),
        (["a"], TypeError, r" must be item numbers \(n,\) or a boolean mask \(L,\), got \['a'\]"),
        ([[1], 2], TypeError, r" must be item numbers \(n,\) or a boolean mask \(L,\), got \[\[1\], 2\]"),
        (np.ma.masked_array([1, 2], [True, False]), TypeError, r" must be item numbers \(n,\)"),
        (np.ma.masked_array(np.ones(20, bool), True), TypeError, r" must be item numbers \(n,\)"),
    ],
)
def test_what_is_no_set_of_items_is_refused_and_nothing_is_changed(name, given, error, message):
    catalog = thali.Catalog(np.random.default_rng(1).random((20, 3)))
    theta = np.full((2, 3), 0.2)
    before = thali.greedy_lists(catalog, theta, 3)
    with pytest.raises(error, match=rf"{name}{message}"):
        thali.greedy_lists(catalog, theta, 3, **{name: given})
    for policy_class in (thali.CascadeLSB, thali.CascadeKLUCB):
        policy = policy_class(catalog, 3)
        state = policy.init(2)
        lists = policy.recommend(state)
        with pytest.raises(error, match=rf"{name}{message}"):
            policy.recommend(state, **{name: given})
        np.testing.assert_array_equal(policy.recommend(state), lists)
    np.testing.assert_array_equal(thali.greedy_lists(catalog, theta, 3), before)


def test_a_policy_that_does_not_choose_among_some_says_so():
    catalog = thali.Catalog(np.random.default_rng(1).random((20, 3)))
    policy = OwnEpsilonGreedy(catalog, 3)
    state = policy.init(2)
    for question in ({"candidates": range(10)}, {"exclude": [3]}):
        with pytest.raises(TypeError, match="OwnEpsilonGreedy does not define choose_among"):
            policy.recommend(state, rng=1, **question)
    assert policy.recommend(state, rng=1).shape == (2, 3)
    catalog.remove(3)
    with pytest.raises(TypeError, match="OwnEpsilonGreedy does not define choose_among"):
        policy.recommend(state, rng=1)
