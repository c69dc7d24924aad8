"""The exact search against a plain loop over all items, with the same θ̄ and M⁻¹: lists must be identical.

A bound that is too low causes a wrong list only if it is close to the best index. Therefore many of the items here are
nearly equal: all bounds are then tight, and one item after another is the best.
"""

import math

import numpy as np
import pytest
from instances import STYLES, weights
from plain import plain_list
from searching import beliefs, mixture, related_weights

import thali
from thali.catalog.candidates import allowed
from thali.lists import plain
from thali.lists.engine import SearchIndex
from thali.lists.engine import build as greedy
from thali.lists.engine.layout import KIND, RAY, SIZE, STRIDE


def hostile_weights(style, L, d, rng):
    if style == "denormal":
        return np.clip(rng.random((L, d)) * 10.0 ** rng.integers(-320, 1, size=(L, d)), 0, 1)
    if style == "nearly parallel":  # they differ in the last few bits, or slightly more
        W = rng.random((L, 1)) * (rng.random(d) * (rng.random((L, d)) < 0.5))
        off = 2.0**-52 if rng.random() < 0.5 else 10.0 ** rng.uniform(-15, -9)
        return np.clip(W * (1 + rng.integers(-3, 4, size=(L, d)) * off), 0, 1)
    if style == "nearly covered":
        return 1 - rng.random((L, d)) * 10.0 ** rng.integers(-17, 0, size=(L, d))
    if style == "all equal":
        return np.tile(rng.random(d), (L, 1))
    return weights(style, L, d, rng)


@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
@pytest.mark.parametrize("style", [*STYLES, "denormal", "nearly parallel", "nearly covered", "all equal"])
def test_search_equals_the_plain_loop(style, coverage):
    rng = np.random.default_rng([len(style), len(coverage)])
    for _ in range(150):
        L, d = int(rng.integers(1, 30)), int(rng.integers(1, 7))
        K = L if rng.random() < 0.2 else int(rng.integers(1, min(L, 8) + 1))
        W = hostile_weights(style, L, d, rng)
        spread = rng.normal(size=(d, int(rng.integers(1, 2 * d + 2))))
        inverse = np.linalg.inv(np.eye(d) + spread @ spread.T * 10.0 ** rng.integers(-3, 10))
        inverse = (inverse + inverse.T) / 2
        estimate = rng.normal(size=d) * 10.0 ** rng.integers(-3, 2)
        match rng.integers(4):
            case 0:
                estimate = -np.abs(estimate) - 1  # every index is negative if α is small
            case 1:
                estimate = np.zeros(d)
            case 2:
                estimate = np.round(estimate, 1)
        alpha = float(rng.choice([0.0, 1e-9, 0.1, 1.0, 8.0, 80.0, 1e6]))
        features, cap = str(rng.choice(["gains", "items"])), float(rng.choice([math.inf, 1.0]))
        catalog = thali.Catalog(W, coverage=coverage)
        belief = (catalog, estimate[None], inverse[None], np.array([alpha]))
        lists = greedy(*belief, K=K, features=features, cap=cap)
        assert lists[0].tolist() == plain_list(W, coverage, estimate, inverse, alpha, K, features, cap)
        np.testing.assert_array_equal(lists, plain.build(*belief, K=K, features=features, cap=cap))


def test_search_if_mean_and_width_cancel():
    """Every index consists only of rounding error, but the same item must still win."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        d = int(rng.integers(1, 6))
        W = np.diag(rng.random(d))
        inverse, alpha = np.diag(rng.uniform(0.2, 1.2, size=d)), float(rng.uniform(0.1, 10))
        estimate = -alpha * np.sqrt(np.diag(inverse))
        lists = greedy(thali.Catalog(W), estimate[None], inverse[None], np.array([alpha]), K=d)
        assert lists[0].tolist() == plain_list(W, "probabilistic", estimate, inverse, alpha, d, "gains", math.inf)


@pytest.mark.parametrize("d", [63, 64, 130])
def test_search_with_more_topics_than_bits_and_users_of_different_optimism(d):
    rng = np.random.default_rng(d)
    W = np.zeros((40, d))
    for row in W:
        row[rng.choice(d, size=3, replace=False)] = rng.random(3)
    spread = rng.normal(size=(6, d, d)) / np.sqrt(d)
    inverse = np.linalg.inv(np.eye(d) + spread @ spread.transpose(0, 2, 1))
    inverse = (inverse + inverse.transpose(0, 2, 1)) / 2
    estimate, alpha = rng.normal(size=(6, d)), np.array([0.0, 1.0, 0.0, 8.0, 0.1, 80.0])
    lists = greedy(thali.Catalog(W), estimate, inverse, alpha, K=10)
    for user in range(6):
        expected = plain_list(W, "probabilistic", estimate[user], inverse[user], alpha[user], 10, "gains", math.inf)
        assert lists[user].tolist() == expected


@pytest.mark.parametrize("topics", [[63, 64, 100, 129], [0, 62, 63, 64, 126, 129], [0, 63, 126]])
@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
def test_search_with_topics_that_share_a_bit_of_the_mask(coverage, topics):
    """Masks have 63 bits for any number of topics. Some items are added after the index was built."""
    rng = np.random.default_rng([len(topics), len(coverage)])
    d, K = 130, 10
    for _ in range(10):
        parts = [np.zeros((K, d))]
        for _ in range(8):
            n, size = int(rng.choice([1, 6, 30])), int(rng.integers(1, 4))
            part = np.zeros((n, d))
            part[:, rng.choice(topics, size=size, replace=False)] = related_weights(
                rng.choice(["uniform", "ray"]), n, size, rng
            )
            parts.append(part)
        W = rng.permutation(np.concatenate(parts))
        estimate, inverse, alpha = rng.random((4, d)), *beliefs(4, d, rng)[1:]
        initial = len(W) // 2
        catalog = thali.Catalog(W[:initial], coverage=coverage)
        greedy(catalog, estimate, inverse, alpha, K=1)
        for e in range(initial, len(W)):
            catalog.put(f"new {e}", W[e])
        whole = thali.Catalog(W, coverage=coverage)
        for user in range(4):
            expected = plain_list(W, coverage, estimate[user], inverse[user], alpha[user], K)
            for each in (whole, catalog):
                assert greedy(each, estimate, inverse, alpha, K=K)[user].tolist() == expected


def test_all_users_can_share_one_inverse():
    rng = np.random.default_rng(7)
    catalog = thali.Catalog(weights("sparse", 60, 6, rng))
    estimate, inverse, _ = beliefs(5, 6, rng)
    alpha, repeated = np.array([1.0, 0.0, 2.0, 8.0, 1.0]), np.repeat(inverse[:1], 5, axis=0)
    for candidates in (None, [[user, 20, 30, 40, 59 - user] for user in range(5)]):
        choice = allowed(catalog, 5, 4, candidates)
        lists = greedy(catalog, estimate, inverse[:1], alpha, K=4, choice=choice)
        np.testing.assert_array_equal(lists, greedy(catalog, estimate, repeated, alpha, K=4, choice=choice))


def assert_lists_equal_plain_loop(W, coverage, rng, users=6):
    """Check that the lists of several users at once equal those of the plain loop."""
    L, d = W.shape
    catalog = thali.Catalog(W, coverage=coverage)
    K = L if L < 40 and rng.random() < 0.3 else min(L, int(rng.integers(1, 13)))
    estimate, inverse, alpha = beliefs(users, d, rng)
    features, cap = str(rng.choice(["gains", "gains", "items"])), float(rng.choice([math.inf, math.inf, 1.0]))
    lists = greedy(catalog, estimate, inverse, alpha, K=K, features=features, cap=cap)
    for user in range(users):
        expected = plain_list(W, coverage, estimate[user], inverse[user], alpha[user], K, features, cap)
        assert lists[user].tolist() == expected


@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
@pytest.mark.parametrize("seed", range(4))
def test_search_among_rays_trees_and_single_items(coverage, seed):
    rng = np.random.default_rng([seed, len(coverage)])
    for _ in range(200):
        assert_lists_equal_plain_loop(mixture(rng), coverage, rng)


@pytest.mark.slow
@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
@pytest.mark.parametrize("seed", range(4, 12))
def test_search_among_many_more_rays_trees_and_single_items(coverage, seed):
    rng = np.random.default_rng([seed, len(coverage)])
    for _ in range(1000):
        assert_lists_equal_plain_loop(mixture(rng, largest=1500), coverage, rng)


def depths(catalog):
    """Return (topics, levels of boxes) for each tree and (topics, -1) for each ray."""
    pairs = set()
    for row in catalog.derived(SearchIndex).layout.groups.astype(int):
        width, levels = row[STRIDE], 0
        while width > 8:
            width, levels = -(-width // 8), levels + 1
        pairs.add((row[SIZE], -1 if row[KIND] == RAY else levels))
    return pairs


@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 20])
def test_search_in_competing_trees_of_every_depth(coverage, size):
    """Groups with the same number of topics. With 6, 40, 100 or 600 items they have 0, 1, 2 or 3 levels of boxes."""
    rng = np.random.default_rng([size, len(coverage)])
    d = size + 2
    for levels, n in enumerate([6, 40, 100, 600]):
        for shape in ("cloud", "wide cloud", "simplex", "copies", "uniform") if size > 1 else ("uniform", "copies"):
            parts = [np.zeros((n, d)) for _ in range(2 if n == 600 else 5)]
            for part in parts:
                part[:, rng.choice(d, size=size, replace=False)] = related_weights(shape, n, size, rng)
            W = rng.permutation(np.concatenate(parts))
            if shape == "uniform" and (size > 1 or coverage == "max"):
                assert any(
                    topics == size and depth >= levels for topics, depth in depths(thali.Catalog(W, coverage=coverage))
                )
            for _ in range(4):
                assert_lists_equal_plain_loop(W, coverage, rng)


def test_arrays_in_any_memory_order_give_the_same_lists(tmp_path):
    """The kernels read vectors contiguously, so transposed arrays are copied first. This includes a saved state."""
    rng = np.random.default_rng(4)
    catalog = thali.Catalog(weights("sparse", 50, 6, rng))
    policy = thali.CascadeLSB(catalog, 3)
    state = policy.init(8)
    state.B = rng.random((6, 8)).T
    state.refresh()
    state.save(tmp_path / "state")
    lists = policy.recommend(state)
    assert lists.tolist() == policy.recommend(thali.load_state(tmp_path / "state")).tolist()
    estimate, inverse, alpha = policy.estimate(state), policy.posterior(state).inverse, policy.optimism(state)
    ordered = greedy(catalog, np.asfortranarray(estimate), np.asfortranarray(inverse), alpha, K=3)
    assert lists.tolist() == ordered.tolist()


def test_numbers_at_the_limits_of_double_precision():
    """Indices of -inf, a corner that cannot be divided by 255, and weights (at α = 1e23) whose squares underflow."""
    equal = thali.Catalog(np.ones((3, 2)))
    assert thali.greedy_lists(equal, [[-1.7e308, -1.7e308]], K=2).tolist() == [[0, 1]]
    among = thali.greedy_lists(equal, [[-1.7e308, -1.7e308]] * 2, K=2, candidates=[[0, 1], [1, 2]])
    assert among.tolist() == [[0, 1], [1, 2]]
    W = np.random.default_rng(5).random((20, 2))
    W[:, 1] = 5e-324
    assert thali.greedy_lists(thali.Catalog(W), [[1.0, 0.0]], K=20)[0].tolist() == np.argsort(-W[:, 0]).tolist()
    tiny = thali.Catalog([[1.6e-162, 0.0], [2e-162, 1e-170]])
    assert greedy(tiny, np.zeros((1, 2)), np.eye(2)[None], np.array([1e23]), K=1).tolist() == [[0]]
