"""A whole column of weights is replaced, and a new item gets the weights that items with its topics have."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from plain import plain_list

import thali
from thali.catalog import catalog as module
from thali.lists.engine import SearchIndex
from thali.lists.engine import build as greedy


def some_weights(rng, L, d):
    return rng.choice([0.2, 0.5, 1.0], size=(L, d)) * rng.random((L, 1)) * (rng.random((L, d)) < 0.5)


def beliefs(rng, users, d):
    spread = rng.normal(size=(users, d, d))
    inverse = np.linalg.inv(np.eye(d) + spread @ spread.transpose(0, 2, 1))
    return rng.normal(size=(users, d)), (inverse + inverse.transpose(0, 2, 1)) / 2, rng.choice([0.0, 1.0], size=users)


@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
@pytest.mark.parametrize("sparse", [False, True])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_after_any_changes_a_catalog_equals_a_new_one_with_the_same_weights(coverage, sparse, seed):
    rng = np.random.default_rng(seed)
    L, d = int(rng.integers(40, 90)), int(rng.integers(1, 6))
    W, fading = some_weights(rng, L, d), rng.random(d) < 0.7
    catalog = thali.Catalog(sp.csr_array(W) if sparse else W, coverage=coverage, fading=fading)
    kept = []
    for step in range(8):
        if rng.random() < 0.5:
            kept.append((catalog.snapshot(), W.copy(), catalog.version))
        if rng.random() < 0.5:
            catalog.derived(SearchIndex)
        kind = rng.choice(["column", "new", "change", "remove"], p=[0.5, 0.2, 0.2, 0.1])
        if kind == "column":
            j = int(rng.integers(d))
            W[:, j] = rng.random(len(W)) * (rng.random(len(W)) < rng.choice([0.0, 0.6, 1.0]))
            catalog.put_column(j, W[:, j])
        elif kind == "remove":
            present = np.flatnonzero(catalog.present)
            catalog.remove(catalog.items[int(rng.choice(present))])
        else:
            e = len(W) if kind == "new" else int(rng.choice(np.flatnonzero(catalog.present)))
            row = some_weights(rng, 1, d)[0]
            W = np.vstack([W[:e], row, W[e + 1 :]])
            assert catalog.put(f"new {step}" if kind == "new" else catalog.items[e], row) == e
    np.testing.assert_array_equal(catalog.dense, W)
    assert catalog.csr.has_canonical_format
    fresh = thali.Catalog(W, coverage=coverage, fading=fading)
    lists = np.array([rng.permutation(len(W))[:5]])
    np.testing.assert_array_equal(catalog.gains(lists), fresh.gains(lists))
    estimate, inverse, alpha = beliefs(rng, 3, d)
    found = greedy(catalog, estimate, inverse, alpha, K=5)
    for user in range(3):
        plain = plain_list(
            W, coverage, estimate[user], inverse[user], alpha[user], 5, shown=catalog.present, fading=fading
        )
        assert found[user].tolist() == plain
    if catalog.present.all():
        np.testing.assert_array_equal(found, greedy(fresh, estimate, inverse, alpha, K=5))
    for snapshot, then, version in kept:
        np.testing.assert_array_equal(snapshot.dense, then)
        assert snapshot.version == version
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(catalog)).dense, W)


def test_the_search_index_sees_a_new_column_at_once():
    """The same people, the same policy: the list follows the column."""
    W = np.c_[np.full(100, 0.3), np.linspace(0.0, 1.0, 100)]
    catalog = thali.Catalog(W, topics=["x", "quality"], fading=[True, False])
    assert thali.greedy_lists(catalog, [[0.1, 0.9]], 2).tolist() == [[99, 98]]
    before, snapshot = catalog.version, catalog.snapshot()
    catalog.put_column("quality", W[::-1, 1])
    assert catalog.version > before
    assert thali.greedy_lists(catalog, [[0.1, 0.9]], 2).tolist() == [[0, 1]]
    np.testing.assert_array_equal(snapshot.dense, W)
    catalog.put_column("quality", np.zeros(100))
    assert catalog.csr.nnz == 100


NAMES = ["crime", "comedy", "war", "quality"]
FADING = [True, True, True, False]
W = np.array(
    [
        [0.4, 0.0, 0.0, 0.2],
        [0.6, 0.0, 0.0, 0.4],
        [0.2, 0.3, 0.0, 0.0],
        [0.0, 0.5, 0.0, 0.8],
        [1.0, 1.0, 0.0, 1.0],
    ]
)


def films(weights=W):
    catalog = thali.Catalog(weights, items=list("abcde")[: len(weights)], topics=NAMES, fading=FADING)
    if len(weights) == 5:
        catalog.remove("e")
    return catalog


def test_an_item_with_topics_gets_the_mean_of_items_with_these_topics():
    """By hand: crime has weights 0.4, 0.6 and 0.2, of which the first two are of items with this topic only."""
    catalog = films()
    e = catalog.put("new", topics=["crime"])
    crime, quality = (2 * 0.5 + 10 * 0.4) / 12, (2 * 0.3 + 10 * 0.2) / 12
    np.testing.assert_allclose(catalog.weights[e], [crime, 0.0, 0.0, quality])
    both = films()
    e = both.put("new", topics=["comedy", "crime"])
    expected = [(0.2 + 10 * 0.4) / 11, (0.3 + 10 * 0.4) / 11, 0.0, (0.0 + 10 * 0.35) / 11]
    np.testing.assert_allclose(both.weights[e], expected)
    again = films()
    again.put("new", topics=("crime", "comedy"))
    np.testing.assert_array_equal(again.weights, both.weights)  # the order of topics does not matter


def test_a_topic_without_items_gets_the_mean_of_all_weights_that_fade():
    catalog = films()
    e = catalog.put("new", topics=["war"])
    usual = np.mean([0.4, 0.6, 0.2, 0.3, 0.5])
    np.testing.assert_allclose(catalog.weights[e], [0.0, 0.0, usual, np.mean([0.2, 0.4, 0.0, 0.8])])


def test_an_item_that_is_changed_does_not_count_itself():
    catalog, without = films(), films()
    without.remove("a")
    assert catalog.put("a", topics=["crime"]) == 0
    e = without.put("new", topics=["crime"])
    np.testing.assert_array_equal(catalog.weights[0], without.weights[e])


@given(seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_typical_weights_are_a_plain_transcription_of_their_definition(seed):
    rng = np.random.default_rng(seed)
    L, d = int(rng.integers(2, 30)), int(rng.integers(1, 5))
    weights, fading = some_weights(rng, L, d), rng.random(d) < 0.7
    weights[0, 0], fading[0] = 0.5, True
    topics = rng.permutation(d)[: rng.integers(1, d + 1)].tolist()
    catalog = thali.Catalog(weights, fading=fading)
    e = catalog.put("new", topics=topics)
    row = catalog.weights[e]
    related = [w for w in weights if w[topics].any()] or list(weights)
    same = [w for w in weights if {j for j in range(d) if w[j] and (fading[j] or j in topics)} == set(topics)]
    for j in range(d):
        if j in topics:
            having = [w[j] for w in weights if w[j]]
            wider = np.mean(having or [w[i] for w in weights for i in range(d) if w[i] and fading[i]])
        elif not fading[j]:
            wider = np.mean([w[j] for w in related])
        else:
            assert row[j] == 0.0
            continue
        assert row[j] == pytest.approx((sum(w[j] for w in same) + 10 * wider) / (len(same) + 10))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.put("new"), "weights of put must be given, or topics instead, got neither"),
        (lambda c: c.put("new", W[0], topics=["crime"]), "weights of put must be given, or topics instead, got both"),
        (lambda c: c.put("new", topics=["opera"]), "topic must be in the catalog, got 'opera'"),
        (lambda c: c.put("new", topics=[["crime"]]), r"topic must be in the catalog, got \['crime'\]"),
        (lambda c: c.put("new", topics=[]), "topics of put must be one or more different names, got"),
        (lambda c: c.put("new", topics=["war", "war"]), "topics of put must be one or more different names, got"),
        (lambda c: c.put("new", topics="war"), "topics of put must be a sequence, got 'war'"),
        (lambda c: c.put("new", topics={"war"}), "topics of put must be a sequence"),
        (lambda c: c.put("new", topics=3), "topics of put must be a sequence, got 3"),
        (lambda c: c.put_column("opera", np.zeros(5)), "topic must be in the catalog, got 'opera'"),
        (
            lambda c: c.put_column("war", np.zeros(4)),
            r"values of put_column must have shape .* got \(4,\)",
        ),
        (lambda c: c.put_column("war", np.zeros((5, 1))), "values of put_column must have shape"),
        (lambda c: c.put_column("war", np.full(5, 1.01)), "values of put_column must be from 0 to 1, got 1.01"),
        (lambda c: c.put_column("war", np.full(5, -0.1)), "values of put_column must be from 0 to 1, got -0.1"),
        (lambda c: c.put_column("war", np.full(5, np.nan)), "values of put_column must be finite, got nan"),
        (lambda c: c.put_column("war", ["0"] * 5), "values of put_column must be an array of numbers"),
        (lambda c: c.put_column("war", None), "values of put_column must be an array of numbers"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_changed(change, message):
    catalog = films()
    before = catalog.version, catalog.snapshot()
    with pytest.raises((ValueError, TypeError), match=message):
        change(catalog)
    assert (catalog.version, catalog.snapshot()) == before


def test_topics_of_items_without_weights_are_refused():
    catalog = films(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="Use weights instead of the topics"):
        catalog.put("new", topics=["crime"])
    assert catalog.L == 2


def test_too_many_entries_are_refused(monkeypatch):
    catalog = films()
    monkeypatch.setattr(module, "MOST_ENTRIES", 12)
    with pytest.raises(ValueError, match="must have fewer than 2³² nonzero entries"):
        catalog.put_column("war", np.ones(5))
    np.testing.assert_array_equal(catalog.weights, W)
