"""Candidates and exclusions: each list equals that of the plain loop over the items its user may be shown."""

from functools import cache

import numpy as np
import pytest
from instances import OwnEpsilonGreedy, Saturating
from plain import plain_list

import thali
from thali.lists.plain import indices

USERS, K = 4, 5
LINEAR = [thali.CascadeLSB, thali.LSBGreedy, thali.CascadeLinUCB]


def some_weights(L, d, rng):
    """Weights that form rays, trees and single items: a few sets of topics; some rows are parallel, equal or zero."""
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
    """All ways to pass one set of items per user. If the sets are the same, this includes one set for all users."""
    masks = np.zeros((len(sets), L), dtype=bool)
    for mask, items in zip(masks, sets, strict=True):
        mask[items] = True
    repeated = [rng.permutation(np.concatenate([items, items[:3]])) for items in sets]
    variants = [
        masks,
        repeated,
        tuple(items.tolist() for items in repeated),
        list(masks),
        [items.astype(np.uint16) for items in sets],
    ]
    if all(items is sets[0] for items in sets):
        variants += [masks[0], repeated[0], repeated[0].tolist(), masks[0].tolist()]
    return variants


def queries(L, removed, rng):
    """Yield candidates and exclusions in all forms, each with a mask (users, L) of the items that remain."""
    present = np.ones(L, dtype=bool)
    present[removed] = False
    for share in (0.0, 0.05, 0.2, 0.9):  # below and above the share at which the whole catalog is searched
        for shared in (True, False):
            sets = [rng.permutation(L)[: max(2 * K + len(removed), int(share * L))] for _ in range(USERS)]
            sets = [sets[0]] * USERS if shared else sets
            excluded = [rng.permutation(L)[:K] for _ in range(USERS)]
            excluded = excluded if rng.random() < 0.5 else [excluded[0]] * USERS
            for form in forms(sets, L, rng):
                remaining = np.zeros((USERS, L), dtype=bool)
                for user in range(USERS):
                    remaining[user, sets[user]] = True
                remaining_after_exclusion = remaining.copy()
                for user in range(USERS):
                    remaining_after_exclusion[user, excluded[user]] = False
                yield {"candidates": form}, remaining & present
                yield (
                    {"candidates": form, "exclude": forms(excluded, L, rng)[rng.integers(4)]},
                    remaining_after_exclusion & present,
                )
                yield {"exclude": form}, ~remaining & present


@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
@pytest.mark.parametrize("policy_class", LINEAR)
@pytest.mark.parametrize("removed", [0, 7])
def test_lists_equal_the_plain_loop_over_the_remaining_items(policy_class, coverage, removed):
    rng = np.random.default_rng([removed, len(coverage)])
    L, d = 240, 6
    W = some_weights(L, d, rng)
    catalog = thali.Catalog(W, coverage=coverage)
    policy = policy_class(catalog, K, threads=int(rng.integers(1, 3)))
    state = learned(policy, rng)
    removed_items = rng.permutation(L)[:removed]
    for e in removed_items.tolist():
        catalog.remove(e)
    estimate, alpha = policy.estimate(state), policy.optimism(state)
    theta = rng.dirichlet(np.ones(d), size=USERS)
    before = state.copy()
    refused = 0

    @cache  # the same items are passed in several forms
    def expected(user, mask):
        shown = np.frombuffer(mask, dtype=bool)
        inverse, width = policy.posterior(state).inverse[user], alpha[user]
        return (
            plain_list(W, coverage, estimate[user], inverse, width, K, policy.features, shown=shown),
            plain_list(W, coverage, theta[user], np.eye(d), 0.0, K, shown=shown),
        )

    for query, remaining in queries(L, removed_items, rng):
        if remaining.sum(axis=1).min() < K:
            refused += 1
            with pytest.raises(ValueError, match=f"must leave at least K = {K} items"):
                policy.recommend(state, **query)
            continue
        lists = policy.recommend(state, **query)
        greedy = thali.greedy_lists(catalog, theta, K, **query)
        for user in range(USERS):
            plain = expected(user, remaining[user].tobytes())
            assert (lists[user].tolist(), greedy[user].tolist()) == plain
    assert refused < 20
    assert all(np.array_equal(before.arrays[name], array) for name, array in state.arrays.items())


@pytest.mark.parametrize("removed", [0, 7])
def test_kl_ucb_lists_equal_the_full_ranking_restricted_to_the_remaining_items(removed):
    rng = np.random.default_rng(removed)
    L = 240
    catalog = thali.Catalog(rng.random((L, 3)))
    policy = thali.CascadeKLUCB(catalog, K, threads=2)
    state = learned(policy, rng)
    removed_items = rng.permutation(L)[:removed]
    for e in removed_items.tolist():
        catalog.remove(e)
    everything = thali.CascadeKLUCB(catalog, len(catalog)).recommend(state)
    for query, remaining in queries(L, removed_items, rng):
        if remaining.sum(axis=1).min() >= K:
            lists = policy.recommend(state, **query)
            for user in range(USERS):
                ranked = everything[user]
                assert lists[user].tolist() == ranked[remaining[user, ranked]][:K].tolist()


@pytest.mark.parametrize("policy_class", LINEAR)
def test_lists_with_a_custom_coverage_equal_the_plain_loop_over_the_remaining_items(policy_class):
    rng = np.random.default_rng(5)
    L, d = 50, 4
    catalog = thali.Catalog(some_weights(L, d, rng), coverage=Saturating())
    policy = policy_class(catalog, K)
    state = learned(policy, rng)
    estimate, alpha, values = policy.estimate(state), policy.optimism(state), np.empty(L)
    catalog.remove(3)
    all_queries = list(queries(L, np.array([3]), rng))
    for query, remaining in [all_queries[n] for n in rng.permutation(len(all_queries))[:12]]:
        if remaining.sum(axis=1).min() < K:
            continue
        lists = policy.recommend(state, **query)
        for user in range(USERS):
            chosen, shown = [], remaining[user].copy()
            for _ in range(K):
                above = chosen if policy.features == "gains" else []
                indices(
                    catalog.all_gains(np.array(above, dtype=np.int64)),
                    estimate[user],
                    policy.posterior(state).inverse[user],
                    alpha[user],
                    values,
                )
                chosen.append(int(np.argmax(np.where(shown, values, -np.inf))))
                shown[chosen[-1]] = False
            assert lists[user].tolist() == chosen


@pytest.mark.parametrize("policy_class", [*LINEAR, thali.CascadeKLUCB])
def test_k_remaining_items_are_enough_and_fewer_are_refused(policy_class):
    rng = np.random.default_rng(6)
    L = 100
    policy = policy_class(thali.Catalog(some_weights(L, 5, rng)), K)
    state = learned(policy, rng)
    sets = [rng.permutation(L) for _ in range(USERS)]
    for query in ({"candidates": [row[:K] for row in sets]}, {"exclude": [row[K:] for row in sets]}):
        lists = policy.recommend(state, **query)
        np.testing.assert_array_equal(np.sort(lists), np.sort([row[:K] for row in sets]))
    for query in ({"candidates": [row[:K] for row in sets]}, {"exclude": [row[K:] for row in sets]}):
        policy.catalog.remove(int(sets[2][0 if "candidates" in query else 1]))
        with pytest.raises(ValueError, match=rf"must leave at least K = {K} items .* for user 2, got"):
            policy.recommend(state, **query)


def test_excluding_nothing_or_allowing_every_item_equals_no_restriction():
    rng = np.random.default_rng(7)
    policy = thali.CascadeLSB(thali.Catalog(some_weights(100, 5, rng)), K)
    state = learned(policy, rng)
    for query in (
        {"exclude": []},
        {"exclude": [[]] * USERS},
        {"candidates": range(100)},
        {"exclude": np.zeros(100, bool)},
    ):
        np.testing.assert_array_equal(policy.recommend(state, **query), policy.recommend(state))


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
def test_an_invalid_set_of_items_is_refused_and_changes_nothing(name, given, error, message):
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


def test_a_policy_without_choose_among_refuses_candidates_and_exclusions():
    catalog = thali.Catalog(np.random.default_rng(1).random((20, 3)))
    policy = OwnEpsilonGreedy(catalog, 3)
    state = policy.init(2)
    for query in ({"candidates": range(10)}, {"exclude": [3]}):
        with pytest.raises(TypeError, match="OwnEpsilonGreedy does not define choose_among"):
            policy.recommend(state, rng=1, **query)
    assert policy.recommend(state, rng=1).shape == (2, 3)
    catalog.remove(3)
    with pytest.raises(TypeError, match="OwnEpsilonGreedy does not define choose_among"):
        policy.recommend(state, rng=1)
