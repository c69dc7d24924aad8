"""Snapshots: what other threads and processes read while a catalog changes."""

import pickle
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import thali
from thali.catalog import catalog as module
from thali.catalog.names import Names

WAIT_S = 0.01  # for a change that must wait until the reader is done


class Count:
    """Something computed from a catalog and then kept up to date: the number of its items."""

    needs_rebuild = False

    def __init__(self, catalog):
        self.items = int(np.count_nonzero(catalog.present))

    def put(self, item, topics, weights):
        self.items += 1

    def remove(self, item):
        self.items -= 1


def contents(pickled):
    copy = pickle.loads(pickled)
    return list(copy.items), copy.present.tolist(), copy.weights.toarray().tolist()


# What a thread reads, and what is compared afterwards.
READERS = {
    "present": (lambda c: c.present, np.ndarray.tolist),
    "weights": (lambda c: c.weights, lambda w: w.toarray().tolist()),
    "dense": (lambda c: c.dense, np.ndarray.tolist),
    "digest": (lambda c: c.items_digest, str),
    "derived": (lambda c: c.derived(Count), lambda count: count.items),
    "pickle": (pickle.dumps, contents),
}


def small():
    catalog = thali.Catalog(sp.csr_array(np.eye(4) / 2), items=["a", "b", "c", "d"])
    catalog.remove("a")
    return catalog


def change_at_line(catalog, read, line, change):
    """Run read(catalog) in a thread, and change the catalog when the thread is at this line of the package.

    Returns the result, and whether the reader got that far. If the change has to wait for the reader, both go on.
    """
    reached, changed, lines = threading.Event(), threading.Event(), 0
    results = []

    def trace(frame, event, argument):
        nonlocal lines
        if "thali" not in frame.f_code.co_filename:
            return None
        if event == "line":
            lines += 1
            if lines == line:
                reached.set()
                changed.wait(WAIT_S)
        return trace

    def work():
        sys.settrace(trace)
        try:
            results.append(read(catalog))
        finally:
            sys.settrace(None)
            reached.set()

    reader = threading.Thread(target=work)
    reader.start()
    reached.wait()
    change(catalog)
    changed.set()
    reader.join()
    return results[0], lines >= line


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.put("new", [0.5, 0.0, 0.0, 0.25]),
        lambda c: c.put_column(1, [0.0, 0.1, 0.2, 0.3]),
        lambda c: c.remove("c"),
    ],
    ids=["put", "put_column", "remove"],
)
def test_a_change_at_any_moment_of_a_read_is_seen_by_the_next_read(name, change):
    read, show = READERS[name]
    before, after = small(), small()
    change(after)
    expected = show(read(before)), show(read(after))
    line, more = 0, True
    while more:
        line += 1
        catalog = small()
        result, more = change_at_line(catalog, read, line, change)
        assert show(result) in expected
        assert show(read(catalog)) == expected[1]


@pytest.mark.parametrize("seed", range(4))
def test_snapshots_never_change(seed):
    """Items are added, changed and removed at random. All snapshots keep what the catalog had when they were taken."""
    rng = np.random.default_rng(seed)
    d = 3

    def row():
        return rng.random(d) * (rng.random(d) < 0.6)

    rows, names = [row() for _ in range(5)], [0, 1, 2, 3, 4]
    catalog = thali.Catalog(np.array(rows))
    present, taken = [True] * 5, []
    for step in range(600):
        if rng.random() < 0.3:
            snapshot = catalog.snapshot()
            assert snapshot is catalog.snapshot()
            taken.append((snapshot, np.array(rows), list(names), list(present)))
        live = np.flatnonzero(present)
        action = rng.choice(["new", "change", "remove"], p=[0.3, 0.5, 0.2])
        if action == "remove" and live.size > 1:
            e = rng.choice(live)
            catalog.remove(names[e])
            present[e] = False
        elif action == "change":
            e = rng.choice(live)
            rows[e] = np.where(rows[e] > 0, rng.random(d), 0.0) if rng.random() < 0.5 else row()
            catalog.put(names[e], rows[e])
        else:
            names.append(f"item {step}")
            rows.append(row())
            present.append(True)
            catalog.put(names[-1], rows[-1])
    taken.append((catalog.snapshot(), np.array(rows), names, present))
    assert len(taken) > 100
    for number, (snapshot, expected, its_names, its_present) in enumerate(taken):
        if number % 2:
            snapshot = pickle.loads(pickle.dumps(snapshot))
        np.testing.assert_array_equal(snapshot.csr.toarray(), expected)
        np.testing.assert_array_equal(snapshot.dense, expected)
        assert snapshot.present.tolist() == its_present
        assert list(snapshot.items) == its_names
        assert len(snapshot) == sum(its_present)
    versions = [snapshot.version for snapshot, *_ in taken]
    assert versions == sorted(versions)


def test_a_pickled_catalog_goes_on_like_the_original():
    catalog = thali.Catalog(np.eye(4) / 2)
    catalog.remove(1)
    catalog.put(1, [0.0, 0.0, 0.0, 0.75])
    catalog.remove(2)
    copy = pickle.loads(pickle.dumps(catalog))
    for c in (catalog, copy):
        assert (c.item(1), c.find(2), c.topic_index(3), len(c), c.L) == (4, None, 3, 3, 5)
        assert c.put("new", [0.1, 0.2, 0.3, 0.4]) == 5
        assert c.put(2, [0.0, 0.9, 0.0, 0.0]) == 6
    assert copy.items == catalog.items
    np.testing.assert_array_equal(copy.weights, catalog.weights)
    np.testing.assert_array_equal(copy.present, catalog.present)
    state = thali.CascadeKLUCB(catalog, 2).init(1)
    assert thali.CascadeKLUCB(copy, 2).recommend(state, rng=0).shape == (1, 2)


def test_weights_that_were_replaced_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(module, "MOST_REPLACED", 10)
    rng = np.random.default_rng(0)
    rows = rng.random((6, 4))
    catalog = thali.Catalog(rows)
    for _ in range(300):
        e = int(rng.integers(6))
        rows[e] = rng.random(4) * (rng.random(4) < 0.7)
        catalog.snapshot()
        catalog.put(e, rows[e])
        np.testing.assert_array_equal(catalog.weights, rows)
        assert len(catalog.sparse.weights) <= 2 * 24 + 10 + 4
    np.testing.assert_array_equal(catalog.gains([[0, 1, 2]]), thali.Catalog(rows).gains([[0, 1, 2]]))


def test_names_added_later_are_not_part_of_an_unchanging_list():
    names = Names("items", ["a", "b"], 2)
    before = names.unchanging()
    names.add("c")
    assert (list(before), before[-1], before[:5], len(before)) == (["a", "b"], "b", ["a", "b"], 2)
    assert before == ["a", "b"]
    assert before != names
    with pytest.raises(IndexError):
        before[2]
