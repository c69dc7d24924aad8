"""The exact search against a plain loop over all items, with the same θ̄ and M⁻¹: lists must be identical."""

import math

import numpy as np
import pytest

import reference
import thali
from instances import STYLES, weights
from thali import rays
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
    if style == "nearly parallel":  # parallel but for the last few bits
        W = rng.random((L, 1)) * (rng.random(d) * (rng.random((L, d)) < 0.5))
        return np.clip(W * (1 + rng.integers(-3, 4, size=(L, d)) * 2.0**-52), 0, 1)
    if style == "all equal":
        return np.tile(rng.random(d), (L, 1))
    return weights(style, L, d, rng)


@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
@pytest.mark.parametrize("style", [*STYLES, "denormal", "nearly parallel", "all equal"])
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


def test_parallel_items_share_a_ray_and_rays_are_ordered():
    rng = np.random.default_rng(1)
    directions = rng.random((3, 4)) * (rng.random((3, 4)) < 0.7)
    W = rng.random((60, 1)) * directions[rng.integers(3, size=60)]
    built = thali.Catalog(W).rays
    assert sorted(built.item.tolist()) == list(range(60))
    assert len(built.start) - 1 == 3
    for begin, end in zip(built.start[:-1], built.start[1:], strict=True):
        scales = W[built.item[begin:end]].max(axis=1)
        assert (np.diff(scales) <= 0).all()


def test_max_coverage_groups_equal_items_only():
    W = np.array([[0.2, 0.4], [0.1, 0.2], [0.2, 0.4], [0.0, 0.0]])
    catalog = thali.Catalog(W, coverage="max")
    assert len(catalog.rays.start) - 1 == 3
    assert rays.twins(catalog.rays).tolist() == [-1, -1, 0, -1]
