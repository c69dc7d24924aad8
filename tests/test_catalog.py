import numpy as np
import pytest
import scipy.sparse as sp

import thali
from instances import Noisy

W = np.array([[0.5, 0.0, 0.1], [0.0, 0.0, 0.0], [1.0, 0.2, 0.0]])


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.lil_array])
def test_sparse_and_dense_weights_are_the_same_catalogue(make):
    dense, sparse = thali.Catalog(W), thali.Catalog(make(W))
    np.testing.assert_array_equal(dense.weights, W)
    np.testing.assert_array_equal(sparse.weights.toarray(), W)
    np.testing.assert_array_equal(dense.gains([[0, 2]]), sparse.gains([[0, 2]]))


def test_a_catalogue_does_not_follow_the_callers_array_and_cannot_be_written():
    mine = W.copy()
    catalog = thali.Catalog(mine)
    mine[0, 0] = 0.9
    assert catalog.weights[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        catalog.weights[0, 0] = 0.9


@pytest.mark.parametrize("change", [np.asfortranarray, lambda w: w.astype(np.float32), lambda w: w[::1, ::-1][:, ::-1]])
def test_layout_and_precision_of_the_array_do_not_matter(change):
    np.testing.assert_allclose(thali.Catalog(change(W)).weights, W, rtol=1e-7)


def test_names_find_their_index_and_strangers_are_refused():
    catalog = thali.Catalog(W, items=["a", "b", "c"], topics=("x", "y", "z"))
    assert (catalog.item("c"), catalog.topic_index("y")) == (2, 1)
    assert thali.Catalog(W).item(2) == 2
    with pytest.raises(ValueError, match="item must be a name in the catalogue, got 'd'"):
        catalog.item("d")
    with pytest.raises(ValueError, match="topic must be a name in the catalogue, got 'a'"):
        catalog.topic_index("a")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([[1.5, 0.0]], r"weights of Catalog must be from 0 to 1, got 1.5"),
        ([[-0.1, 0.0]], r"weights of Catalog must be from 0 to 1, got -0.1"),
        (sp.csr_array([[0.5, 2.0]]), r"weights of Catalog must be from 0 to 1, got 2.0"),
        (sp.csr_array([[0.5, np.nan]]), r"weights of Catalog must be finite"),
        ([[np.nan, 0.0]], r"weights of Catalog must be finite, got nan"),
        ([[np.inf, 0.0]], r"weights of Catalog must be finite, got inf"),
        ([0.5, 0.5], r"weights of Catalog must have shape \(L, d\) = \(any, any\), got \(2,\)"),
        (np.zeros((2, 2, 2)), r"weights of Catalog must have shape"),
        (np.zeros((0, 3)), r"weights of Catalog must have at least one item"),
        (np.zeros((3, 0)), r"weights of Catalog must have at least one item and one topic"),
        ([["a", "b"]], r"weights of Catalog must be an array of numbers"),
        (None, r"weights of Catalog must"),
        ([[0.5], [0.5, 0.5]], r"weights of Catalog must be an array of numbers"),
        ([[0.5 + 1j]], r"weights of Catalog must be an array of numbers"),
        (np.array([[0.5 + 1j]]), r"weights of Catalog must be an array of numbers"),
        (sp.csr_array([[0.5 + 1j]]), r"weights of Catalog must be an array of numbers"),
        ([["0.5", "0.1"]], r"weights of Catalog must be an array of numbers"),
        (np.array([[0.5, 0.1]], dtype=object), r"weights of Catalog must be an array of numbers"),
        (np.ma.masked_array([[0.5, 0.9]], mask=[[False, True]]), r"got a masked array"),
        (
            sp.coo_array(([0.7, 0.7], ([0, 0], [0, 0])), shape=(1, 2)),
            r"weights of Catalog must be from 0 to 1, got 1.4",
        ),
        (sp.coo_array((np.array([255, 2], np.uint8), ([0, 0], [0, 0])), shape=(1, 2)), r"from 0 to 1, got 257.0"),
        (sp.csr_array(([0.5], [77], [0, 1]), shape=(1, 3)), r"weights of Catalog must be a well-formed sparse matrix"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises((ValueError, TypeError), match=message):
        thali.Catalog(weights)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"items": ["a", "b"]}, "items of Catalog must hold 3 names, one for each, got 2"),
        ({"items": ["a", "b", "a"]}, "items of Catalog must be unique, got 'a' twice"),
        ({"topics": ["x", "x", "y"]}, "topics of Catalog must be unique, got 'x' twice"),
        ({"topics": "xyz"}, "topics of Catalog must be a sequence, got 'xyz'"),
        ({"topics": {"x", "y", "z"}}, "topics of Catalog must be a sequence"),
        ({"items": 5}, "items of Catalog must be a sequence, got 5"),
        ({"items": [[1], [2], [3]]}, r"items of Catalog must be names .*, got \[1\]"),
        ({"items": ["a", "b", float("nan")]}, "items of Catalog must be names .*, got nan"),
        ({"coverage": "min"}, "coverage of Catalog must be 'probabilistic', 'max' or an object"),
        ({"coverage": Noisy}, "coverage of Catalog must be 'probabilistic', 'max' or an object"),
        ({"coverage": object()}, "coverage of Catalog must be 'probabilistic', 'max' or an object"),
    ],
)
def test_bad_names_and_coverage_are_refused(names, message):
    with pytest.raises((ValueError, TypeError), match=message):
        thali.Catalog(W, **names)
