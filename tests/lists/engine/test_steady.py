"""The exact search with steady topics against a plain loop over all items: lists must be identical."""

import math

import numpy as np
import pytest
from plain import plain_list
from searching import ALPHAS, beliefs, mixture, related_weights

import thali
from thali.catalog.candidates import allowed
from thali.lists import plain
from thali.lists.engine import SearchIndex
from thali.lists.engine import build as greedy
from thali.lists.engine.layout import FAN, KIND

COVERAGES = ["probabilistic", "max"]


def quality(n, rng):
    """Steady weights (n,) of all kinds: spread out, nearly equal, few values, tiny, or missing for some items."""
    match rng.integers(5):
        case 0:
            return rng.random(n)
        case 1:
            return 0.7 * (1 - 10.0 ** rng.uniform(-16, -2) * rng.random(n))
        case 2:
            return rng.choice([0.25, 0.5, 1.0], size=n)
        case 3:
            return np.clip(10.0 ** rng.uniform(-320, 0, size=n), 0, 1)
    return rng.random(n) * (rng.random(n) < 0.7)


def films(rng):
    """Weights like those of the paper's data, with the quality of each film in one of the columns, and which fade.

    Items with the same topics are parallel or nearly so, before the quality is added.
    """
    d = int(rng.integers(1, 8))
    parts = [np.zeros((12, d))]
    shape = str(rng.choice(["ray", "ray", "nearly a ray", "cloud"]))
    for _ in range(int(rng.integers(1, 9))):
        n, size = int(rng.choice([1, 2, 3, 8, 20, 90, 300])), int(rng.integers(1, d + 1))
        part = np.zeros((n, d))
        part[:, rng.choice(d, size=size, replace=False)] = related_weights(shape, n, size, rng)
        parts.append(part)
    W = np.concatenate(parts)
    at = int(rng.integers(d + 1))
    W = rng.permutation(np.insert(W, at, quality(len(W), rng), axis=1))
    return W, np.arange(d + 1) != at


@pytest.mark.parametrize("coverage", COVERAGES)
@pytest.mark.parametrize("make", ["films", "mixture"])
def test_search_with_steady_topics_equals_the_plain_loop(make, coverage):
    rng = np.random.default_rng([len(make), len(coverage)])
    fans = 0
    for _ in range(150):
        if make == "films":
            W, fading = films(rng)
        else:
            W = mixture(rng, largest=100)
            fading = rng.random(W.shape[1]) < rng.choice([0.0, 0.5, 0.9])
        K = min(len(W), int(rng.integers(1, 13)))
        features, cap = str(rng.choice(["gains", "gains", "items"])), float(rng.choice([math.inf, 1.0]))
        catalog = thali.Catalog(W, coverage=coverage, fading=fading)
        belief = (catalog, *beliefs(4, W.shape[1], rng))
        lists = greedy(*belief, K=K, features=features, cap=cap)
        np.testing.assert_array_equal(lists, plain.build(*belief, K=K, features=features, cap=cap))
        for user in range(2):
            own = [part[user] for part in belief[1:]]
            expected = plain_list(W, coverage, *own, K, features, cap, fading=fading)
            assert lists[user].tolist() == expected
        among = rng.permutation(len(W))[: K + 20]
        choice = allowed(catalog, 4, K, candidates=among)
        np.testing.assert_array_equal(
            greedy(*belief, K=K, features=features, cap=cap, choice=choice),
            plain.build(*belief, K=K, features=features, cap=cap, choice=choice),
        )
        fans += (catalog.derived(SearchIndex).layout.groups[:, KIND] == FAN).sum()
    assert (fans > 50) == (make == "films" and coverage == "probabilistic")


@pytest.mark.parametrize("coverage", COVERAGES)
def test_the_search_index_with_steady_topics_follows_every_change(coverage):
    rng = np.random.default_rng(len(coverage))
    for _ in range(8):
        W, fading = films(rng)
        names = list(range(len(W)))
        catalog = thali.Catalog(W, coverage=coverage, fading=fading)
        present = np.ones(len(W), dtype=bool)
        for change in range(60):
            if change % 10 == 0:
                estimate, inverse, alpha = beliefs(2, W.shape[1], rng)
                K = min(8, int(present.sum()))
                lists = greedy(catalog, estimate, inverse, alpha, K=K)
                for user in range(2):
                    belief = estimate[user], inverse[user], alpha[user]
                    expected = plain_list(W, coverage, *belief, K, shown=present, fading=fading)
                    assert lists[user].tolist() == expected
            item = int(rng.choice(np.flatnonzero(present)))
            row = W[rng.integers(len(W))] * rng.random()
            match rng.integers(3):
                case 0:
                    W, present = np.vstack([W, row]), np.append(present, True)
                    names.append(f"new {change}")
                    catalog.put(names[-1], row)
                case 1:
                    W[item] = row
                    catalog.put(names[item], row)
                case 2 if present.sum() > 10:
                    present[item] = False
                    catalog.remove(names[item])
        assert catalog.fading.tolist() == fading.tolist()


@pytest.mark.parametrize("alpha", ALPHAS)
def test_with_all_topics_steady_the_search_equals_that_with_fixed_features(alpha):
    rng = np.random.default_rng(3)
    for _ in range(10):
        W = mixture(rng, largest=100)
        d, K = W.shape[1], min(len(W), 6)
        estimate, inverse, _ = beliefs(3, d, rng)
        steady, fades = (thali.Catalog(W, fading=np.full(d, fading)) for fading in (False, True))
        belief = estimate, inverse, np.full(3, alpha)
        np.testing.assert_array_equal(greedy(steady, *belief, K=K), greedy(fades, *belief, K=K, features="items"))
