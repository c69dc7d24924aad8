"""The exact search against a plain loop over all items, with the same θ̄ and M⁻¹: lists must be identical."""

import math

import numpy as np
import pytest

import reference
import thali
from instances import STYLES, weights
from thali.kernels import index
from thali.lists import greedy


def plain_loop(W, coverage, estimate, inverse, alpha, K, features, cap):
    """Every item at every position, by the one scalar index; ties to the lowest item."""
    chosen, values = [], np.empty(len(W))
    for _ in range(K):
        X = np.array([reference.gain(W, e, chosen if features == "gains" else [], coverage) for e in range(len(W))])
        index.values(X, estimate, inverse, alpha, values)
        values[:] = np.minimum(values, cap)
        values[chosen] = -np.inf
        chosen.append(int(np.argmax(values)))
    return chosen


def hostile_weights(style, L, d, rng):
    if style == "denormal":
        return np.clip(rng.random((L, d)) * 10.0 ** rng.integers(-320, 1, size=(L, d)), 0, 1)
    if style == "nearly parallel":  # but for the last few bits, or a little more
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
                estimate = -np.abs(estimate) - 1  # every index negative, where α is small
            case 1:
                estimate = np.zeros(d)
            case 2:
                estimate = np.round(estimate, 1)
        alpha = float(rng.choice([0.0, 1e-9, 0.1, 1.0, 8.0, 80.0, 1e6]))
        features, cap = str(rng.choice(["gains", "items"])), float(rng.choice([math.inf, 1.0]))
        catalog = thali.Catalog(W, coverage=coverage)
        found = greedy(catalog, estimate[None], inverse[None], np.array([alpha]), K=K, features=features, cap=cap)
        assert found[0].tolist() == plain_loop(W, coverage, estimate, inverse, alpha, K, features, cap)


def test_search_where_mean_and_width_cancel():
    """Every index is rounding alone; still the same item must win."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        d = int(rng.integers(1, 6))
        W = np.diag(rng.random(d))
        inverse, alpha = np.diag(rng.uniform(0.2, 1.2, size=d)), float(rng.uniform(0.1, 10))
        estimate = -alpha * np.sqrt(np.diag(inverse))
        found = greedy(thali.Catalog(W), estimate[None], inverse[None], np.array([alpha]), K=d)
        assert found[0].tolist() == plain_loop(W, "probabilistic", estimate, inverse, alpha, d, "gains", math.inf)


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
    found = greedy(thali.Catalog(W), estimate, inverse, alpha, K=10)
    for user in range(6):
        expected = plain_loop(W, "probabilistic", estimate[user], inverse[user], alpha[user], 10, "gains", math.inf)
        assert found[user].tolist() == expected
