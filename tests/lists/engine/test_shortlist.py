"""The search item by item, for catalogs in which few items have the same topics: lists must be those of the plain loop.

A bound that is too low causes a wrong list only if it is close to the best index. Therefore many items here are copies
of others, or nearly so.
"""

import math

import numpy as np
import pytest
from plain import plain_list
from searching import beliefs, learned

import thali
from thali.catalog.candidates import allowed
from thali.lists import plain
from thali.lists.engine import Variety
from thali.lists.engine import build as greedy

COVERAGES = ["probabilistic", "max"]


def tastes(users, d, rng):
    """θ̄ of both signs on learned topics and about 1 on quality, M⁻¹ of a learned prior after some clicks, and α."""
    spread = rng.normal(size=(users, d + 1, 3)) * rng.choice([0.1, 0.5, 3.0], size=(users, 1, 1))
    inverse = np.linalg.inv(np.eye(d + 1) * rng.uniform(1, 5, size=(users, 1, 1)) + spread @ spread.transpose(0, 2, 1))
    estimate = rng.normal(size=(users, d + 1)) * rng.choice([0.0, 0.15, 1.0], size=(users, 1))
    estimate[:, d] = rng.choice([-0.5, 0.0, 1.0], size=users)
    return estimate, (inverse + inverse.transpose(0, 2, 1)) / 2, rng.choice([0.0, 0.02, 0.2, 1.0, 50.0], size=users)


def hard_weights(rng):
    """Weights like learned ones, and which topics fade. Some are large, and some items are copies, or nearly so."""
    d, s = int(rng.choice([6, 12, 30, 70])), int(rng.choice([4, 5, 8]))
    W, fading = learned(rng, int(rng.integers(33, 400)), d, min(s, d))
    match rng.integers(4):
        case 0:  # topics are soon covered, so that disliked ones no longer count
            W[:, :d] = np.minimum(1.0, W[:, :d] * 6)
        case 1:
            few = len(W) // 2
            W[few:] = W[rng.integers(few, size=len(W) - few)]
        case 2:
            few = len(W) // 2
            near = W[rng.integers(few, size=len(W) - few)]
            W[few:] = np.clip(near * (1 + rng.integers(-2, 3, size=near.shape) * 10.0 ** rng.uniform(-16, -6)), 0, 1)
    return W, fading if rng.random() < 0.8 else rng.random(d + 1) < 0.5


def choices(catalog, K, rng):
    """All items, all but some for each user, all but the same for all, and all but K + 3."""
    yield allowed(catalog, 4, K)
    most = catalog.L - K
    yield allowed(catalog, 4, K, exclude=[rng.permutation(catalog.L)[: rng.integers(1, most)] for _ in range(4)])
    yield allowed(catalog, 4, K, exclude=rng.permutation(catalog.L)[: most // 2])
    yield allowed(catalog, 4, K, exclude=rng.permutation(catalog.L)[: most - 3])


@pytest.mark.parametrize("coverage", COVERAGES)
@pytest.mark.parametrize("seed", range(3))
def test_the_search_item_by_item_equals_the_plain_loop(coverage, seed):
    rng = np.random.default_rng([seed, len(coverage)])
    item_by_item = 0
    for _ in range(40):
        W, fading = hard_weights(rng)
        catalog = thali.Catalog(W, coverage=coverage, fading=fading)
        item_by_item += catalog.derived(Variety).item_by_item
        K, features = int(rng.integers(1, 25)), str(rng.choice(["gains", "gains", "items"]))
        cap = float(rng.choice([math.inf, math.inf, 0.2]))
        make = tastes if rng.random() < 0.7 else lambda users, d, rng: beliefs(users, d + 1, rng)
        belief = (catalog, *make(4, W.shape[1] - 1, rng))
        for choice in choices(catalog, K, rng):
            lists = greedy(*belief, K=K, features=features, cap=cap, choice=choice)
            expected = plain.build(*belief, K=K, features=features, cap=cap, choice=choice)
            np.testing.assert_array_equal(lists, expected)
        own = [part[0] for part in belief[1:]]
        lists = greedy(*belief, K=K, features=features, cap=cap)
        assert lists[0].tolist() == plain_list(W, coverage, *own, K, features, cap, fading=fading)
    assert item_by_item >= 15


@pytest.mark.parametrize("coverage", COVERAGES)
def test_the_search_item_by_item_follows_every_change(coverage):
    rng = np.random.default_rng(len(coverage))
    for _ in range(6):
        W, fading = learned(rng, 60, 12, 6)
        names, present = list(range(len(W))), np.ones(len(W), dtype=bool)
        catalog = thali.Catalog(W, coverage=coverage, fading=fading)
        for change in range(60):
            if change % 10 == 0:
                belief = tastes(3, 12, rng)
                lists = greedy(catalog, *belief, K=8)
                np.testing.assert_array_equal(lists, plain.build(catalog, *belief, K=8))
                expected = plain_list(W, coverage, *(part[0] for part in belief), 8, shown=present, fading=fading)
                assert lists[0].tolist() == expected
            item, row = int(rng.choice(np.flatnonzero(present))), rng.random(13) * (rng.random(13) < rng.random())
            match rng.integers(3):
                case 0:
                    W, present = np.vstack([W, row]), np.append(present, True)
                    names.append(f"new {change}")
                    catalog.put(names[-1], row)
                case 1:
                    W[item] = row
                    catalog.put(names[item], row)
                case 2:
                    present[item] = False
                    catalog.remove(names[item])
        assert catalog.derived(Variety).item_by_item


def test_the_search_item_by_item_with_more_items_than_the_shortlist_holds():
    """All items are nearly the best one, so all of them are scored. The shortlist holds at most 2,048."""
    rng = np.random.default_rng(0)
    W, fading = learned(rng, 5000, 30, 5)
    W[:, 30] = 0.5
    W[:, :30] *= 1e-6
    catalog = thali.Catalog(W, fading=fading)
    assert catalog.derived(Variety).item_by_item
    belief = tastes(3, 30, rng)
    np.testing.assert_array_equal(greedy(catalog, *belief, K=5), plain.build(catalog, *belief, K=5))


def test_what_decides_how_a_catalog_is_searched():
    rng = np.random.default_rng(0)
    W, fading = learned(rng, 300, 30, 6)
    assert thali.Catalog(W, fading=fading).derived(Variety).item_by_item
    for other in (
        rng.random((300, 6)),  # all items have the same topics
        rng.random((300, 30)) * (rng.random((300, 30)) < 0.05),  # few topics
        rng.random((300, 90)) * (rng.random((300, 90)) < 0.9),  # more topics than the shortlist can hold
    ):
        assert not thali.Catalog(other).derived(Variety).item_by_item
    catalog = thali.Catalog(np.pad(W, ((0, 0), (0, 60))))
    belief = tastes(2, 90, rng)
    greedy(catalog, *belief, K=3)
    catalog.put("many topics", np.full(91, 0.1))
    assert not catalog.derived(Variety).item_by_item
    np.testing.assert_array_equal(greedy(catalog, *belief, K=3), plain.build(catalog, *belief, K=3))


@pytest.mark.parametrize("huge", [1e99, 1e150, 1.7e308])
def test_huge_preferences(huge):
    """Indices that are infinite, or not a number, and bounds that would be."""
    rng = np.random.default_rng(0)
    W, fading = learned(rng, 100, 12, 6)
    estimate, inverse, alpha = tastes(4, 12, rng)
    belief = (thali.Catalog(W, fading=fading), huge * np.sign(estimate), inverse, alpha)
    np.testing.assert_array_equal(greedy(*belief, K=10), plain.build(*belief, K=10))
