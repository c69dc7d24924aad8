import numpy as np
import pytest
import scipy.sparse as sp
from instances import Noisy
from plain import plain_list

import thali
from thali.lists.engine import SearchIndex
from thali.lists.engine import build as greedy

W = np.array([[0.5, 0.0, 0.1], [0.0, 0.0, 0.0], [1.0, 0.2, 0.0]])


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.lil_array])
def test_sparse_and_dense_weights_are_the_same_catalog(make):
    dense, sparse = thali.Catalog(W), thali.Catalog(make(W))
    np.testing.assert_array_equal(dense.weights, W)
    np.testing.assert_array_equal(sparse.weights.toarray(), W)
    np.testing.assert_array_equal(dense.gains([[0, 2]]), sparse.gains([[0, 2]]))


def test_a_catalog_copies_the_callers_array_and_is_read_only():
    mine = W.copy()
    catalog = thali.Catalog(mine)
    mine[0, 0] = 0.9
    assert catalog.weights[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        catalog.weights[0, 0] = 0.9


@pytest.mark.parametrize("change", [np.asfortranarray, lambda w: w.astype(np.float32), lambda w: w[::1, ::-1][:, ::-1]])
def test_layout_and_precision_of_the_array_do_not_matter(change):
    np.testing.assert_allclose(thali.Catalog(change(W)).weights, W, rtol=1e-7)


def test_names_map_to_indices_and_unknown_names_are_refused():
    catalog = thali.Catalog(W, items=["a", "b", "c"], topics=("x", "y", "z"))
    assert (catalog.item("c"), catalog.topic_index("y")) == (2, 1)
    assert thali.Catalog(W).item(2) == 2
    with pytest.raises(ValueError, match="item must be in the catalog, got 'd'"):
        catalog.item("d")
    with pytest.raises(ValueError, match="topic must be in the catalog, got 'a'"):
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
        ({"items": ["a", "b"]}, "items of Catalog must have 3 names, one for each item, got 2"),
        ({"items": ["a", "b", "a"]}, "items of Catalog must be unique, got 'a' twice"),
        ({"topics": ["x", "x", "y"]}, "topics of Catalog must be unique, got 'x' twice"),
        ({"topics": "xyz"}, "topics of Catalog must be a sequence, got 'xyz'"),
        ({"topics": {"x", "y", "z"}}, "topics of Catalog must be a sequence"),
        ({"items": 5}, "items of Catalog must be a sequence, got 5"),
        ({"items": [[1], [2], [3]]}, r"items of Catalog must be hashable .*, got \[1\]"),
        ({"items": ["a", "b", float("nan")]}, "items of Catalog must be hashable .*, got nan"),
        ({"coverage": "min"}, "coverage of Catalog must be 'probabilistic', 'max' or an object"),
        ({"coverage": Noisy}, "coverage of Catalog must be 'probabilistic', 'max' or an object"),
        ({"coverage": object()}, "coverage of Catalog must be 'probabilistic', 'max' or an object"),
    ],
)
def test_bad_names_and_coverage_are_refused(names, message):
    with pytest.raises((ValueError, TypeError), match=message):
        thali.Catalog(W, **names)


class Ledger:
    """A catalog together with its expected contents: the rows by index, and the index of each name."""

    def __init__(self, W, coverage, **names):
        self.catalog = thali.Catalog(W, coverage=coverage, **names)
        self.rows, self.index = list(W), {name: e for e, name in enumerate(self.catalog.items)}

    def put(self, name, row):
        e = self.catalog.put(name, row)
        assert e == self.index.setdefault(name, len(self.rows))  # a new index, or the one the item already has
        self.rows[e:] = [np.array(row), *self.rows[e + 1 :]]

    def remove(self, name):
        assert self.catalog.remove(name) == self.index.pop(name)

    def check(self, rng, users=4):
        """Check that lists equal those of a new catalog without the removed items, and those of the plain loop."""
        W, present = np.array(self.rows), np.array(sorted(self.index.values()))
        c, d, K = self.catalog, W.shape[1], min(len(present), int(rng.integers(1, 9)))
        assert (len(c), c.L) == (len(present), len(W))
        np.testing.assert_array_equal(np.flatnonzero(c.present), present)
        fresh = thali.Catalog(W[present], coverage=c.coverage)
        estimate, spread = rng.normal(size=(users, d)), rng.normal(size=(users, d, d))
        estimate[0], estimate[-1] = np.abs(estimate[0]), 1.0  # the last user prefers the largest sum of weights
        inverse = np.linalg.inv(np.eye(d) + spread @ spread.transpose(0, 2, 1))
        inverse = (inverse + inverse.transpose(0, 2, 1)) / 2
        alpha = rng.choice([0.0, 0.1, 1.0, 8.0], size=users)
        features = str(rng.choice(["gains", "items"]))
        lists = greedy(c, estimate, inverse, alpha, K=K, features=features)
        fresh_lists = greedy(fresh, estimate, inverse, alpha, K=K, features=features)
        np.testing.assert_array_equal(lists, present[fresh_lists])
        plain = plain_list(W, c.coverage, estimate[0], inverse[0], alpha[0], K, features, shown=c.present)
        assert lists[0].tolist() == plain
        np.testing.assert_array_equal(
            thali.greedy_lists(c, estimate, K), present[thali.greedy_lists(fresh, estimate, K)]
        )
        return lists

    def check_arrays(self):
        W = np.array(self.rows)
        np.testing.assert_array_equal(self.catalog.weights, W)
        np.testing.assert_array_equal(self.catalog.dense, W)
        np.testing.assert_array_equal(self.catalog.csr.toarray(), W)
        assert self.catalog.csr.has_canonical_format
        assert all(self.catalog.item(name) == e for name, e in self.index.items())
        lists = np.arange(len(W))[None]
        np.testing.assert_array_equal(
            self.catalog.gains(lists), thali.Catalog(W, coverage=self.catalog.coverage).gains(lists)
        )


def some_row(d, rng, like=None):
    """Return weights on random topics, on the topics of the row `like`, or on no topic."""
    if like is not None and like.any() and rng.random() < 0.6:
        return np.minimum(1.0, like * rng.choice([1.0, 0.5, 1.05]) * rng.choice([rng.random(d), np.ones(d)]))
    if rng.random() < 0.1:
        return np.zeros(d)
    row = rng.choice([rng.random(d), np.full(d, 0.5), np.ones(d)]) if rng.random() < 0.3 else rng.random(d)
    return row * (rng.random(d) < rng.choice([0.2, 0.6, 1.0]))


@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
@pytest.mark.parametrize("seed", range(6))
def test_after_any_changes_lists_equal_those_of_a_new_catalog(coverage, seed):
    rng = np.random.default_rng([seed, len(coverage)])
    d = [1, 2, 3, 4, 6, 9][seed]
    start = np.array([some_row(d, rng) for _ in range(int(rng.integers(1, 60)))])
    ledger = Ledger(start, coverage)
    removed = []
    for step in range(400):  # the first steps happen before the index is built
        names = list(ledger.index)
        match rng.choice(["new", "change", "remove", "back"], p=[0.4, 0.35, 0.2, 0.05]):
            case "remove" if len(names) > 1:
                name = names[rng.integers(len(names))]
                ledger.remove(name)
                removed.append(name)
            case "change":
                name = names[rng.integers(len(names))]
                ledger.put(name, some_row(d, rng, ledger.rows[ledger.index[name]]))
            case "back" if removed:
                name = removed.pop(int(rng.integers(len(removed))))
                before = ledger.catalog.L
                ledger.put(name, some_row(d, rng))
                assert ledger.index[name] == before
            case _:
                ledger.put(f"item {step}", some_row(d, rng, ledger.rows[rng.integers(len(ledger.rows))]))
        if step > 20 and step % 3 == 0:
            ledger.check(rng)
        if step % 40 == 0:
            ledger.check_arrays()
    ledger.check_arrays()


@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
@pytest.mark.parametrize("size", [1, 2, 4, 5, 20])
def test_changes_in_place_within_large_trees(coverage, size):
    """700 items with the same topics. Some become larger than all others, smaller or equal; some are replaced."""
    rng = np.random.default_rng([size, len(coverage)])
    d = size + 1
    W = np.zeros((700, d))
    W[:, :size] = rng.uniform(0.3, 0.6, size=(700, size))
    ledger = Ledger(W, coverage)
    ledger.check(rng)
    for step in range(300):
        name = list(ledger.index)[rng.integers(len(ledger.index))]
        row = np.zeros(d)
        # First within the boxes or below them. Later also above the corner, or above the largest sum only.
        low, high = [(0.3, 0.6), (0.0, 0.3), (0.5, 0.9), (0.55, 0.6)][rng.integers(2 if step < 150 else 4)]
        row[:size] = rng.uniform(low, high, size=size)
        if step % 7 == 0:
            row = np.array(ledger.rows[rng.integers(700)])
        elif step % 3 == 0 and step < 150:  # not above the corner or the largest sum, but one of the best
            top = max((ledger.rows[e] for e in ledger.index.values()), key=np.sum)
            row[:size] = rng.permutation(top[:size]) * rng.uniform(0.99, 1.0)
        ledger.put(name, row)
        if step % 5 == 0:
            best = int(ledger.check(rng)[0, 0])
            ledger.remove(next(name for name, e in ledger.index.items() if e == best))
        if step % 10 == 0:
            ledger.check(rng)
            ledger.put(f"new {step}", np.minimum(1.0, row * rng.uniform(0.9, 1.1)))
    ledger.check(rng)


@pytest.mark.parametrize("coverage", ["probabilistic", "max"])
def test_many_new_items_with_the_same_topics(coverage):
    """New items go into trees of 8 places, then 16, 32 and 64. Items without topics are also added."""
    rng = np.random.default_rng(8)
    ledger = Ledger(np.array([[0.5, 0.0, 0.2], [0.0, 0.1, 0.0]]), coverage)
    ledger.check(rng)
    for topics in ([1, 0, 1], [0, 0, 0], [1, 1, 1]):
        for n in range(350):
            ledger.put((*topics, n), rng.random(3) * topics)
            if n % 10 == 0:
                ledger.check(rng)
    for name in list(ledger.index)[: -3 * 100 : 2]:
        ledger.remove(name)
    ledger.check(rng)
    for n in range(100):
        ledger.put(("again", n), rng.random(3) * [1, 0, 1])
    ledger.check(rng)
    ledger.check_arrays()


def test_names_are_indices_by_default_also_after_items_are_added_and_removed():
    catalog = thali.Catalog(W)
    assert (catalog.put(3, [0.1, 0.2, 0.3]), catalog.put(1, [0.0, 0.9, 0.0])) == (3, 1)
    assert (catalog.remove(0), catalog.put(0, [1.0, 0.0, 0.0])) == (0, 4)
    assert (catalog.item(0), list(catalog.items), len(catalog), catalog.L) == (4, [0, 1, 2, 3, 0], 4, 5)
    np.testing.assert_array_equal(catalog.weights[1], [0.0, 0.9, 0.0])


def test_a_removed_item_keeps_its_weights_and_a_snapshot_does_not_change():
    catalog = thali.Catalog(sp.csr_array(W))
    before = catalog.weights
    catalog.put("new", [0.0, 0.0, 0.7])
    catalog.remove(2)
    np.testing.assert_array_equal(before.toarray(), W)
    np.testing.assert_array_equal(catalog.weights.toarray(), [*W, [0.0, 0.0, 0.7]])
    np.testing.assert_array_equal(catalog.gains([[2]]), [[W[2]]])  # needed for clicks that arrive late
    assert catalog.present.tolist() == [True, True, False, True]
    for array in (catalog.present, catalog.dense, catalog.weights.data):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.remove("z"), "item must be in the catalog, got 'z'"),
        (lambda c: c.remove("gone"), "item must be in the catalog, got 'gone'"),
        (lambda c: c.remove(["a"]), r"item must be in the catalog, got \['a'\]"),
        (lambda c: c.put("a", [0.5, 0.5]), r"weights of put must have shape \(d,\) = \(3\), got \(2,\)"),
        (lambda c: c.put("z", [[0.5, 0.5, 0.5]]), r"weights of put must have shape"),
        (lambda c: c.put("a", [0.5, 0.5, 1.5]), "weights of put must be from 0 to 1, got 1.5"),
        (lambda c: c.put("z", [0.5, 0.5, -0.5]), "weights of put must be from 0 to 1, got -0.5"),
        (lambda c: c.put("a", [0.5, 0.5, np.nan]), "weights of put must be finite, got nan"),
        (lambda c: c.put("a", "much"), "weights of put must be"),
        (lambda c: c.put("z", None), "weights of put must"),
        (lambda c: c.put(["z"], [0.5, 0.5, 0.5]), r"items of Catalog must be hashable .*, got \['z'\]"),
        (lambda c: c.put(float("nan"), [0.5, 0.5, 0.5]), "items of Catalog must be hashable .*, got nan"),
        (
            lambda c: thali.greedy_lists(c, [[1.0, 0.0, 0.0]], K=3),
            r"K of greedy_lists must be between 1 and the number of items \(2\), got 3",
        ),
        (lambda c: thali.CascadeLSB(c, 3), r"K of CascadeLSB must be between 1 and the number of items \(2\), got 3"),
    ],
)
@pytest.mark.parametrize("indexed", [False, True])
def test_bad_changes_are_refused_and_nothing_is_changed(change, message, indexed):
    catalog = thali.Catalog(W, items=["a", "gone", "c"])
    if indexed:
        assert len(catalog.derived(SearchIndex).layout.item_group) == 3
    catalog.remove("gone")
    version = catalog.version
    with pytest.raises((ValueError, TypeError), match=message):
        change(catalog)
    assert (catalog.version, catalog.L, len(catalog), list(catalog.items)) == (version, 3, 2, ["a", "gone", "c"])
    np.testing.assert_array_equal(catalog.weights, W)
    assert thali.greedy_lists(catalog, [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], K=2).tolist() == [[0, 2], [2, 0]]


def test_a_policy_whose_lists_are_longer_than_the_catalog_is_refused():
    catalog = thali.Catalog(W)
    policies = [policy(catalog, 3) for policy in thali.POLICIES.values()]
    states = [policy.init(2) for policy in policies]
    catalog.remove(1)
    for policy, state in zip(policies, states, strict=True):
        with pytest.raises(ValueError, match=r"K must be at most the number of items in the catalog \(2\), got 3"):
            policy.recommend(state, rng=1)
