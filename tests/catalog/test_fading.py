"""Steady topics: an item always adds its full weight to them, and everything that stores a catalog keeps them."""

import copy
import json
import pickle

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import Saturating, covers, weights

import thali
from thali.catalog.file import KEY
from thali.lists import diversity
from thali.lists.explain import distance, explain
from thali.service.recommender.live_catalog import content_digest

KINDS = ["probabilistic", "max"]
W = np.array([[0.5, 0.9], [0.4, 0.8], [0.0, 0.7]])
STEADY = [True, False]


def covered(rows, kind, fading):
    """Return c(S) by its definition, given the weights of the items in S."""
    shrinking = 1.0 - np.prod(1.0 - rows, axis=0) if kind == "probabilistic" else rows.max(axis=0, initial=0.0)
    return np.where(fading, shrinking, rows.sum(axis=0))


@pytest.mark.parametrize("kind", KINDS)
@given(W=covers(3, least=3), fading=st.lists(st.booleans(), min_size=3, max_size=3), data=st.data())
def test_gains_are_differences_of_a_monotone_submodular_coverage(kind, W, fading, data):
    catalog = thali.Catalog(W, coverage=kind, fading=fading)
    order = data.draw(st.permutations(range(len(W))))
    gains = catalog.gains([order])[0]
    for k, item in enumerate(order):
        before, after = covered(W[order[:k]], kind, fading), covered(W[order[: k + 1]], kind, fading)
        np.testing.assert_allclose(gains[k], after - before, atol=1e-12)
        np.testing.assert_array_equal(gains[k][~np.array(fading)], W[item][~np.array(fading)])
    small = data.draw(st.integers(0, len(W) - 2))
    large = data.draw(st.integers(small, len(W) - 2))
    of_small, of_large = (catalog.gains([[*order[:n], order[-1]]])[0, -1] for n in (small, large))
    assert (of_large >= 0.0).all()
    assert (of_small >= of_large - 1e-12).all()


def test_fading_by_default_and_all_true_are_the_same():
    plain, explicit = thali.Catalog(W), thali.Catalog(W, fading=[True, True])
    steady = thali.Catalog(W, fading=STEADY)
    assert plain.fading.tolist() == explicit.fading.tolist() == [True, True]
    assert plain.topics_digest == explicit.topics_digest != steady.topics_digest
    assert content_digest(plain) == content_digest(explicit) != content_digest(steady)
    assert repr(plain) == "Catalog(L=3, d=2, coverage='probabilistic')"
    assert repr(steady) == "Catalog(L=3, d=2, coverage='probabilistic', steady=1)"
    with pytest.raises(ValueError, match="read-only"):
        steady.fading[0] = False


def test_a_state_of_a_catalog_with_other_steady_topics_is_refused():
    for make in (thali.CascadeLSB, thali.PreferencePerceptron, thali.Oracle):
        policies = [make(thali.Catalog(W, fading=fading), 2) for fading in (None, STEADY, [False, True])]
        for policy in policies:
            for other in policies:
                if policy is not other:
                    with pytest.raises(ValueError, match="same settings.* and of which topics are steady"):
                        policy.recommend(other.init(1))


@pytest.mark.parametrize("kind", KINDS)
def test_steady_topics_survive_changes_copies_and_files(kind, tmp_path):
    catalog = thali.Catalog(W, items=["a", "b", "c"], topics=["x", "q"], coverage=kind, fading=STEADY)
    catalog.put("d", [0.3, 0.6])
    catalog.put("a", [0.2, 0.6])
    catalog.remove("b")
    thali.save_catalog(catalog, tmp_path / "steady.parquet")
    loaded = thali.load_catalog(tmp_path / "steady.parquet")
    for other in (catalog, copy.deepcopy(catalog), pickle.loads(pickle.dumps(catalog)), loaded):
        assert other.fading.tolist() == other.snapshot().fading.tolist() == STEADY
        lists = [[other.item("a"), other.item("d")]]
        second = 0.3 * 0.8 if kind == "probabilistic" else 0.3 - 0.2
        np.testing.assert_allclose(other.gains(lists)[0], [[0.2, 0.6], [second, 0.6]])
    assert loaded.topics_digest == catalog.topics_digest
    assert content_digest(loaded) == content_digest(catalog)


def test_only_files_with_steady_topics_have_the_new_format(tmp_path):
    path = tmp_path / "films.parquet"
    thali.save_catalog(thali.Catalog(W, fading=[True, True]), path)
    first = path.read_bytes()
    about = '{"format": "thali-catalog-1", "topics": ["0", "1"], "coverage": "probabilistic"}'
    assert pl.read_parquet_metadata(path)[KEY] == about
    thali.save_catalog(thali.Catalog(W), path)
    assert path.read_bytes() == first
    thali.save_catalog(thali.Catalog(W, fading=STEADY), path)
    about = json.loads(pl.read_parquet_metadata(path)[KEY])
    assert (about["format"], about["fading"]) == ("thali-catalog-2", STEADY)
    for fading, message in (
        (None, "fading must be an array of booleans"),
        ([True], r"fading must have shape \(d,\) = \(2,\), got \(1,\)"),
        ([1, 0], "fading must be an array of booleans"),
    ):
        pl.read_parquet(path).write_parquet(path, metadata={KEY: json.dumps({**about, "fading": fading})})
        with pytest.raises(ValueError, match=f"films.parquet: the metadata 'thali' must be as written.*{message}"):
            thali.load_catalog(path)


@pytest.mark.parametrize(
    ("fading", "coverage", "error", "message"),
    [
        ([True], "max", ValueError, r"fading of Catalog must have shape \(d,\) = \(2,\), got \(1,\)"),
        ([[True, False]], "max", ValueError, r"fading of Catalog must have shape \(d,\) = \(2,\), got \(1, 2\)"),
        ([1, 0], "max", TypeError, "fading of Catalog must be an array of booleans, one for each topic, got list"),
        ("yes", "max", TypeError, "fading of Catalog must be an array of booleans"),
        (STEADY, Saturating(), ValueError, r"fading of Catalog must not be given with a custom .*got \[True, False\]"),
    ],
)
def test_bad_values_of_fading_are_refused(fading, coverage, error, message):
    with pytest.raises(error, match=message):
        thali.Catalog(W, coverage=coverage, fading=fading)


def test_estimate_takes_fading():
    data = thali.datasets.Interactions.of([("ana", "a", 1), ("bob", "b", 1)], {"a": ["x", "y"], "b": ["x"]})
    assert thali.Catalog.estimate(data, fading=STEADY).fading.tolist() == STEADY


def test_measures_of_diversity_ignore_steady_topics():
    rng = np.random.default_rng(1)
    fading = np.array([True, True, False, True, False])
    whole = weights("sparse", 30, 5, rng)
    hybrid, topical = thali.Catalog(whole, fading=fading), thali.Catalog(whole[:, fading])
    steady = thali.Catalog(whole, fading=np.zeros(5, dtype=bool))
    lists = np.array([rng.permutation(30)[:6] for _ in range(20)])
    theta = rng.dirichlet(np.ones(5), size=20)
    for measure in (diversity.topic_coverage, diversity.intra_list_distance, diversity.topic_entropy):
        np.testing.assert_allclose(measure(hybrid, lists), measure(topical, lists), atol=1e-12)
        np.testing.assert_array_equal(measure(steady, lists), np.zeros(20))
    own = diversity.err_ia(topical, lists, theta[:, fading])
    np.testing.assert_allclose(diversity.err_ia(hybrid, lists, theta), own, atol=1e-12)
    for row, expected in zip(lists, diversity.intra_list_distance(topical, lists), strict=True):
        parts = explain(hybrid, row, np.zeros(5), np.eye(5), 1.0)
        assert distance(parts.sizes, parts.topics, hybrid.sparse.fading) == pytest.approx(expected)
    for build in (thali.MMR(0.4), thali.DivRank()):
        # If nobody cares for the steady topics, the lists are those without them.
        known = np.where(fading, theta[:1], 0.0)
        for catalog, tastes in ((hybrid, known), (topical, known[:, fading])):
            oracle = thali.Oracle(catalog, 6, theta=tastes, build=build)
            if catalog is hybrid:
                expected = oracle.recommend(oracle.init(1))
            else:
                np.testing.assert_array_equal(oracle.recommend(oracle.init(1)), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_the_optimal_list_with_steady_topics_is_the_best_of_all_lists(kind):
    from itertools import permutations

    rng = np.random.default_rng(2)
    for _ in range(10):
        catalog = thali.Catalog(weights("sparse", 7, 4, rng), coverage=kind, fading=rng.random(4) < 0.5)
        theta = rng.dirichlet(np.ones(4))
        every = np.array(list(permutations(range(7), 3)))
        model = thali.DiverseCascade(catalog, np.tile(theta, (len(every), 1)))
        best = model.click_probability(every).max()
        found = thali.DiverseCascade(catalog, theta[None]).click_probability(
            thali.optimal_list(catalog, theta, 3)[None]
        )
        assert found[0] == pytest.approx(best, abs=1e-12)
