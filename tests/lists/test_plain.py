"""The plain loop, which defines an exact list, against the transcription in NumPy and against the engine."""

import numpy as np
import pytest
import reference
from instances import Saturating, weights

import thali
from thali.catalog.candidates import allowed
from thali.lists import engine, plain

USERS, L, D, K = 4, 12, 5, 4


def beliefs(rng):
    """θ̄ (users, d), M⁻¹ (users, d, d) and α (users,), as learning produces them."""
    spread = rng.normal(size=(USERS, D, 2 * D))
    inverse = np.linalg.inv(np.eye(D) + spread @ spread.transpose(0, 2, 1))
    return rng.normal(size=(USERS, D)), (inverse + inverse.transpose(0, 2, 1)) / 2, rng.uniform(0.0, 8.0, size=USERS)


@pytest.mark.parametrize("cap", [np.inf, 0.8])
@pytest.mark.parametrize("features", ["gains", "items"])
@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
def test_lists_equal_those_of_algorithm_1(coverage, features, cap):
    rng = np.random.default_rng(5)
    for _ in range(50):
        W = weights("sparse", L, D, rng)
        estimate, inverse, alpha = beliefs(rng)
        catalog = thali.Catalog(W, coverage=coverage)
        lists = plain.build(catalog, estimate, inverse, alpha, K=K, features=features, cap=cap)
        for user in range(USERS):
            learner = reference.PlainLinear(
                W, K, sigma=0.1, alpha=float(alpha[user]), features=features, kind=coverage, cap=cap
            )
            assert lists[user].tolist() == learner.recommend(estimate[user], inverse[user])
        fast = engine.build(catalog, estimate, inverse, alpha, K=K, features=features, cap=cap)
        np.testing.assert_array_equal(lists, fast)


def test_each_list_is_built_from_the_items_its_user_may_be_shown():
    rng = np.random.default_rng(6)
    W = weights("sparse", L, D, rng)
    catalog = thali.Catalog(W)
    catalog.remove(3)
    estimate, inverse, alpha = beliefs(rng)
    candidates = [np.sort(rng.choice(L, 8, replace=False)) for _ in range(USERS)]
    choice = allowed(catalog, USERS, K, candidates, [0])
    lists = plain.build(catalog, estimate, inverse, alpha, K=K, choice=choice)
    for user, own in enumerate(candidates):
        remaining = [e for e in own.tolist() if e not in (0, 3)]
        learner = reference.PlainLinear(W[remaining], K, sigma=0.1, alpha=float(alpha[user]))
        assert lists[user].tolist() == [remaining[e] for e in learner.recommend(estimate[user], inverse[user])]
    np.testing.assert_array_equal(lists, engine.build(catalog, estimate, inverse, alpha, K=K, choice=choice))


def test_the_plain_loop_with_a_coverage_object_and_as_the_builder_of_a_policy():
    """A coverage object gives the same lists as the compiled coverage. A policy can use the plain loop as builder."""

    class Probabilistic:
        def coverage(self, items, weights):
            return 1.0 - np.prod(1.0 - weights, axis=0)

    rng = np.random.default_rng(7)
    W = weights("sparse", L, D, rng)
    compiled = thali.Catalog(W)
    estimate, inverse, alpha = beliefs(rng)
    custom = plain.build(thali.Catalog(W, coverage=Probabilistic()), estimate, inverse, alpha, K=K)
    np.testing.assert_array_equal(custom, plain.build(compiled, estimate, inverse, alpha, K=K))
    other = plain.build(thali.Catalog(W, coverage=Saturating()), estimate, inverse, alpha, K=K)
    assert (other != custom).any()
    person = thali.DiverseCascade(compiled, rng.dirichlet(np.ones(D), size=USERS))
    runs = [
        thali.simulate(thali.CascadeLSB(compiled, K, build=build), person, steps=200, seed=1)
        for build in (plain.build, engine.build)
    ]
    np.testing.assert_array_equal(runs[0].lists, runs[1].lists)
    np.testing.assert_array_equal(runs[0].state.M, runs[1].state.M)
