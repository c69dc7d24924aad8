import time

import numpy as np
import pytest
import reference
from instances import STYLES, weights

import thali


@pytest.mark.parametrize("kind", ["probabilistic", "max"])
@pytest.mark.parametrize("style", STYLES)
def test_greedy_and_exact_lists_equal_plain_enumeration(style, kind):
    rng = np.random.default_rng([STYLES.index(style), len(kind)])
    for _ in range(8):
        L, d, K = int(rng.integers(1, 8)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
        K = min(K, L)
        W, theta = weights(style, L, d, rng), rng.dirichlet(np.ones(d))
        catalog = thali.Catalog(W, coverage=kind)
        assert thali.greedy_lists(catalog, theta[None], K)[0].tolist() == reference.greedy_list(W, theta, K, kind)
        exact = thali.optimal_list(catalog, theta, K).tolist()
        assert len(set(exact)) == K
        _, best = reference.best_list(W, theta, K, kind)
        assert reference.click_probability(W, theta, exact, kind) == pytest.approx(best, abs=1e-12)


def test_order_of_the_best_list_matters():
    """f depends on the order of a list, so the exact list must also have the best order."""
    W, theta = np.array([[0.9, 0.0], [0.6, 0.6]]), np.array([0.5, 0.5])
    catalog = thali.Catalog(W)
    f = thali.DiverseCascade(catalog, theta[None]).click_probability
    assert f([[0, 1]])[0] != f([[1, 0]])[0]
    assert f(thali.optimal_list(catalog, theta, 2)[None])[0] == max(f([[0, 1]])[0], f([[1, 0]])[0])


def test_an_exact_list_of_4_out_of_100_items_takes_less_than_5_seconds():
    rng = np.random.default_rng(3)
    thali.optimal_list(thali.Catalog(np.eye(4)), [0.25] * 4, 2)  # compile before timing
    for W in (weights("sparse", 100, 18, rng) * 0.3, weights("counts", 100, 18, rng), rng.random((100, 18))):
        begin = time.perf_counter()
        thali.optimal_list(thali.Catalog(W), rng.dirichlet(np.ones(18)), 4)
        assert time.perf_counter() - begin < 5


def test_bad_input_is_refused():
    catalog = thali.Catalog(np.eye(3))
    for K in (0, 4, -1):
        with pytest.raises(ValueError, match=r"K of greedy_lists must be between 1 and the number of items \(3\)"):
            thali.greedy_lists(catalog, np.ones((1, 3)) / 3, K)
        with pytest.raises(ValueError, match="K of optimal_list must be"):
            thali.optimal_list(catalog, np.ones(3) / 3, K)
    with pytest.raises(ValueError, match="theta must have shape"):
        thali.greedy_lists(catalog, np.ones(3) / 3, 2)
    with pytest.raises(ValueError, match=r"theta must have shape \(d,\) = \(3\), got \(1, 3\)"):
        thali.optimal_list(catalog, np.ones((1, 3)) / 3, 2)
    for call in (thali.greedy_lists, thali.optimal_list):
        with pytest.raises(TypeError, match="catalog of .* must be a thali.Catalog, got None"):
            call(None, np.ones((1, 3)) / 3, 2)
    with pytest.raises(ValueError, match="theta must not be negative"):
        thali.optimal_list(catalog, -np.ones(3) / 3, 2)
