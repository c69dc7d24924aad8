"""MMR and DivRank against the plain transcriptions of their papers, and at their limits."""

import math

import numpy as np
import pytest
import reference_neighbours as plain
from instances import STYLES, weights

import thali
from thali.lists import diversify
from thali.lists.plain import indices


def believed(style, seed, L=25, d=4):
    """A catalog's weights and a possible belief of a learner. Some estimates are negative, and some are certain."""
    rng = np.random.default_rng([STYLES.index(style), seed])
    X = rng.random((3, d))
    return weights(style, L, d, rng), rng.normal(0.1, 0.4, size=d), np.linalg.inv(np.eye(d) + X.T @ X), rng


@pytest.mark.parametrize("style", STYLES)
def test_mmr_equals_its_transcription(style):
    for seed in range(8):
        W, estimate, inverse, rng = believed(style, seed)
        alpha, trade_off, K = rng.choice([0.0, 0.5]), rng.choice([0.0, 0.2, 0.5, 0.9]), int(rng.choice([1, 5, 25]))
        lists = thali.MMR(trade_off)(thali.Catalog(W), estimate[None], inverse[None], np.array([alpha]), K=K)[
            0
        ].tolist()
        assert len(set(lists)) == K
        worth = plain.relevance(W, estimate, inverse, alpha)
        for k, e in enumerate(lists):
            values = plain.mmr_values(W, worth, lists[:k], trade_off, range(25))
            assert values[e] >= max(values.values()) - 1e-12, k  # rounding may decide ties


def test_mmr_at_its_limits_with_ties_and_with_restricted_items():
    for style in STYLES:
        W, estimate, inverse, _ = believed(style, 20)
        values = np.empty(25)
        indices(W, estimate, inverse, 0.5, values)
        for cap in (math.inf, 0.3):
            lists = thali.MMR(1.0)(thali.Catalog(W), estimate[None], inverse[None], np.full(1, 0.5), K=25, cap=cap)
            assert lists[0].tolist() == plain.top(np.minimum(values, cap), 25)
    W = np.repeat(np.eye(4), 3, axis=0)[[0, 3, 1, 6, 2, 9, 4, 5, 7, 8, 10, 11]]  # topics 0 1 0 2 0 3 1 1 2 2 3 3
    catalog, theta = thali.Catalog(W), [0.4, 0.3, 0.2, 0.1]
    unlike = thali.Oracle(catalog, 4, theta=theta, build=thali.MMR(0.0))
    state = unlike.init(1)
    assert unlike.recommend(state).tolist() == [[0, 1, 3, 5]]
    assert unlike.recommend(state, exclude=[0, 1, 3]).tolist() == [[2, 5, 6, 8]]
    assert unlike.recommend(state, candidates=[11, 4, 2, 0, 10]).tolist() == [[0, 10, 2, 4]]
    nothing = thali.CascadeLinUCB(catalog, 4, alpha=0.0, build=thali.MMR(0.5))  # nothing is relevant yet
    assert nothing.recommend(nothing.init(1)).tolist() == [[0, 1, 3, 5]]
    most = thali.Oracle(catalog, 4, theta=theta, build=thali.MMR(1.0))
    assert most.recommend(state, exclude=[2]).tolist() == [[0, 4, 1, 6]]


@pytest.mark.parametrize("style", STYLES)
def test_divrank_equals_its_transcription_with_a_full_matrix(style):
    for seed in range(3):
        W, estimate, inverse, rng = believed(style, seed)
        items, prior, p = thali.Catalog(W).sparse, rng.dirichlet(np.full(25, 0.5)), np.empty(25)
        norm = np.linalg.norm(W, axis=1)
        for damping, link, rounds in ((0.9, 0.25, 100), (0.5, 0.9, 30), (0.99, 0.25, 400)):
            diversify.divrank(items, norm, np.arange(25), W.shape[1], prior, damping, link, rounds, 0.0, p)
            np.testing.assert_allclose(p, plain.divrank(W, prior, damping, link, rounds), rtol=0, atol=1e-8)
        alpha, pool = 0.5 * (seed % 2), int(rng.integers(5, 30))
        worth = plain.relevance(W, estimate, inverse, alpha)
        near = sorted([e for e in plain.top(worth, pool + 2) if e not in (1, 2)][:pool])
        prior = np.maximum([worth[e] for e in near], 0.0)
        prior = (prior + 1e-9 * prior.max()) * np.linspace(1.01, 1.0, len(near))  # tilted to break ties
        p = dict(zip(near, plain.divrank(W[near], prior / prior.sum(), 0.9, 0.25, 200), strict=True))
        policy = thali.CascadeLinUCB(thali.Catalog(W), 5, alpha=alpha, sigma=1.0, build=thali.DivRank(pool=pool))
        state = policy.init(1)
        state.M[0], state.B[0] = np.linalg.inv(inverse), np.linalg.solve(inverse, estimate)
        state.refresh()
        lists = policy.recommend(state, exclude=[1, 2])[0].tolist()
        assert all(e in near for e in lists)
        np.testing.assert_allclose([p[e] for e in lists], sorted(p.values(), reverse=True)[:5], rtol=0, atol=1e-7)


def test_divrank_at_its_limits():
    rng = np.random.default_rng(8)
    W, theta = weights("sparse", 30, 4, rng), [[0.1, 0.4, 0.2, 0.3]]
    popular = plain.top((W @ theta[0]).tolist(), 6)
    for settings in ({"link": 0.0}, {"damping": 0.0}):
        oracle = thali.Oracle(thali.Catalog(W), 6, theta=theta, build=thali.DivRank(**settings))
        assert oracle.recommend(oracle.init(1))[0].tolist() == popular
    twins = thali.Oracle(
        thali.Catalog(np.repeat(0.6 * np.eye(4), 5, axis=0)), 4, theta=[0.4, 0.3, 0.2, 0.1], build=thali.DivRank()
    )
    assert twins.recommend(twins.init(1)).tolist() == [[0, 5, 10, 15]]
    for seed in range(20):  # four groups of nearly equal items, one topic per group
        rng = np.random.default_rng(seed)
        W = np.clip(
            np.repeat(0.6 * np.eye(4), 6, axis=0) * rng.uniform(0.8, 1, (24, 1)) + 0.01 * rng.random((24, 4)), 0, 1
        )
        oracle = thali.Oracle(thali.Catalog(W), 4, theta=[0.25] * 4, build=thali.DivRank())
        assert sorted(oracle.recommend(oracle.init(1))[0] // 6) == [0, 1, 2, 3]


def test_items_with_weights_too_small_to_compare_are_still_listed():
    catalog = thali.Catalog([[1e-200, 0], [1e-200, 0], [0, 0.5], [0.3, 0.2]])
    for build in (thali.MMR(), thali.DivRank()):
        oracle = thali.Oracle(catalog, 4, theta=[0.5, 0.5], build=build)
        assert sorted(oracle.recommend(oracle.init(1))[0].tolist()) == [0, 1, 2, 3]
