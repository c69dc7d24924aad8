"""c(S) is monotone and submodular, gains are its differences, and a custom coverage is used in the same way."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from instances import Noisy, Saturating, covers, policies, weights

import thali

KINDS = ["probabilistic", "max", Saturating()]


def covered(catalog, items):
    """Return c(S), computed as the sum of the gains of a list of the items in S."""
    return catalog.gains([items])[0].sum(axis=0) if items else np.zeros(catalog.d)


@pytest.mark.parametrize("kind", KINDS, ids=["probabilistic", "max", "Saturating"])
@given(W=covers(3, least=3), data=st.data())
def test_monotone_and_submodular(kind, W, data):
    catalog = thali.Catalog(W, coverage=kind)
    order = data.draw(st.permutations(range(len(W))))
    small = data.draw(st.integers(0, len(W) - 2))
    large = data.draw(st.integers(small, len(W) - 2))
    A, B, e = order[:small], order[:large], order[-1]
    gain_A, gain_B = covered(catalog, [*A, e]) - covered(catalog, A), covered(catalog, [*B, e]) - covered(catalog, B)
    assert (gain_A >= -1e-12).all()
    assert (gain_A >= gain_B - 1e-12).all()
    assert (covered(catalog, list(order)) <= 1 + 1e-12).all()
    # c is a function of the set: the order of the list does not matter.
    np.testing.assert_allclose(covered(catalog, list(order)), covered(catalog, sorted(order)), atol=1e-12)


@pytest.mark.parametrize("kind", ["probabilistic", "max"])
@given(W=covers(3), data=st.data())
def test_gains_equal_the_definition(kind, W, data):
    items = data.draw(st.permutations(range(len(W))))
    gains = thali.Catalog(W, coverage=kind).gains([items])[0]
    for k, item in enumerate(items):
        definition = reference.coverage(W, items[: k + 1], kind) - reference.coverage(W, items[:k], kind)
        np.testing.assert_allclose(gains[k], definition, atol=1e-12)
        np.testing.assert_allclose(gains[k], reference.gain(W, item, items[:k], kind), rtol=1e-12, atol=1e-15)


def test_a_coverage_object_gives_the_same_results_as_the_compiled_coverage():
    """The paper's coverage given as an object: the same lists, gains and attraction in every policy and model."""
    rng = np.random.default_rng(1)
    W = weights("sparse", 15, 4, rng)
    theta = rng.dirichlet(np.ones(4), size=2)
    compiled, general = thali.Catalog(W), thali.Catalog(W, coverage=Noisy())
    np.testing.assert_array_equal(thali.greedy_lists(compiled, theta, 5), thali.greedy_lists(general, theta, 5))
    np.testing.assert_array_equal(thali.optimal_list(compiled, theta[0], 3), thali.optimal_list(general, theta[0], 3))
    for model in (thali.DiverseCascade, thali.LinearSubmodular):
        lists = thali.greedy_lists(compiled, theta, 5)
        np.testing.assert_allclose(model(compiled, theta).attraction(lists), model(general, theta).attraction(lists))
    for fast, slow in zip(policies(compiled, 4), policies(general, 4), strict=True):
        runs = [thali.simulate(p, thali.DiverseCascade(compiled, theta), steps=40, seed=2) for p in (fast, slow)]
        np.testing.assert_array_equal(runs[0].lists, runs[1].lists)


class Gains(Saturating):
    """A coverage that computes the gains of all items in one call."""

    calls = 0

    def gains(self, items, weights, catalog_weights):
        type(self).calls += 1
        return np.exp(-weights.sum(axis=0)) * (1.0 - np.exp(-catalog_weights))


def test_a_gains_method_is_used_and_gives_the_same_lists():
    rng = np.random.default_rng(2)
    W, theta = rng.random((20, 4)), rng.dirichlet(np.ones(4), size=2)
    one_by_one, at_once = (thali.Catalog(W, coverage=c) for c in (Saturating(), Gains()))
    np.testing.assert_array_equal(thali.greedy_lists(one_by_one, theta, 5), thali.greedy_lists(at_once, theta, 5))
    assert Gains.calls == 2 * 5


class Share:
    """A modular coverage: the share of the total weight. It refuses repeated items and returns its own buffer."""

    def __init__(self, total):
        self.total, self.buffer = total, np.zeros(len(total))

    def coverage(self, items, weights):
        assert len(set(items.tolist())) == len(items)
        self.buffer[:] = weights.sum(axis=0) / self.total
        return self.buffer


def test_a_coverage_gets_distinct_items_and_may_reuse_its_buffer():
    W = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.05, 0.3]])
    catalog = thali.Catalog(W, coverage=Share(W.sum(axis=0)))
    np.testing.assert_allclose(catalog.gains([[0, 2]])[0], W[[0, 2]] / W.sum(axis=0))
    assert thali.greedy_lists(catalog, [[0.5, 0.5]], 4)[0].tolist() == [2, 1, 0, 3]
    assert len(thali.optimal_list(catalog, [0.5, 0.5], 3)) == 3


class Broken(Saturating):
    def __init__(self, value):
        self.value = value

    def coverage(self, items, weights):
        return self.value(items, weights)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda items, weights: np.ones(3), "must be 0 for the empty set"),
        (lambda items, weights: 0.0, r"must return shape \(d,\) = \(3,\)"),
        (lambda items, weights: weights.sum(axis=0), "must be from 0 to 1"),
        (lambda items, weights: np.full(3, float(len(items) == 1)), "must be monotone"),
        (lambda items, weights: np.full(3, np.nan if len(items) else 0.0), "must be from 0 to 1"),
    ],
)
def test_a_function_that_is_not_a_coverage_is_refused(value, message):
    with pytest.raises(ValueError, match=f"coverage Broken {message}"):
        thali.Catalog(np.full((4, 3), 0.6), coverage=Broken(value)).gains([[0, 1, 2]])
