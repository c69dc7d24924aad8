"""Stores: each kind returns exactly what was written to it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from storing import BLANK, opened, shown, transaction

from thali.lists.explain import Explanation
from thali.service.stores import StoreError, open_store
from thali.service.stores.records import (
    Change,
    Statistics,
    Writes,
    id_floor,
    new_id,
    pack,
    pack_shown,
    shown_at,
    statistics_size,
    unpack,
    unpack_shown,
)
from thali.service.stores.sql import TABLES, VERSION

HOSTILE = [
    *("", " ", "'", '"', '"user"', "'; DROP TABLE statistics; --", "%s", "%", "?", "\\", "\\'", "{text}", "$1"),
    *("\n", "\t", "ä", "a\u0308", "Ω", "🍛", "\U0010ffff", "A", "a", "b", "Z", "NULL", "x" * 1000),
]


@pytest.fixture
def store(store_url):
    with opened(store_url) as store:
        yield store


def test_tables_are_created_once_and_those_of_a_newer_version_are_rejected(store_url):
    with opened(store_url) as store:
        with transaction(store):
            assert store.migrate() == VERSION
            assert store.version() == VERSION
            store.set_meta("version", str(VERSION + 1))
        refused = pytest.raises(ValueError, match=f"must have tables of version {VERSION} or lower, got {VERSION + 1}")
        with refused, transaction(store):
            store.migrate()


def test_an_invalid_url_is_rejected():
    for url in ("taste.db", "sqlite://", "mysql://ana:secret@host/x", "postgresql://host:port:1/x?secret=%zz"):
        with pytest.raises(ValueError, match="store must be") as caught:
            open_store(url)
        assert "secret" not in str(caught.value)


def test_what_was_set_up_can_be_read_back(store):
    with transaction(store):
        assert (store.meta("since"), store.heading(), store.topic_sets(), store.learners()) == (None, None, [], {})
        store.set_meta("since", "1")
        store.set_meta("since", "2")
        store.add_topics(1, ["b", "a", "ä"])
        store.add_topics(0, ["b", 7])
        store.add_learner("new", {"K": 3, "alpha": 0.1})
        store.add_catalog(1, "old digest")
        store.add_catalog(2, "digest")
        assert store.next_change(2) == 1
        store.add_changes(2, [Change(1, "film", {"drama": 0.1}, 12.5)])
        assert store.next_change(2) == 2
        store.add_changes(2, [Change(2, 7, None, 13.0)])
    with transaction(store, write=False):
        assert store.meta("since") == "2"
        assert store.topic_sets() == [["b", 7], ["b", "a", "ä"]]
        assert store.learners() == {"new": {"K": 3, "alpha": 0.1}}
        assert store.heading() == (2, "digest", 2)
        assert store.versions() == (2, 2, 0)
        assert store.changes(2, 0) == [Change(1, "film", {"drama": 0.1}, 12.5), Change(2, 7, None, 13.0)]
        assert store.changes(2, 1) == store.changes(2, 0)[1:]
        assert store.changes(1, 0) == []


def test_what_was_shown_and_learned_can_be_read_back(store):
    every = bytes(range(256))
    first = replace(shown("ana", 1000.0), items=["film", 7, "ä"], numbers=every, predicted=0.1 + 0.2)
    later = replace(shown("ana", 1001.0), numbers=b"", predicted=5e-324)
    kept = Statistics(1, 2**40, 2**41, every)
    with transaction(store):
        assert store.lock_statistics([("ana", "l"), ("bob", "l")], BLANK) == {("ana", "l"): BLANK, ("bob", "l"): BLANK}
        store.write(Writes([first, later], statistics={("ana", "l"): kept, ("ana", "k"): BLANK}), "w")
    answer = replace(first, clicked=[0, 2], answer="feedback", answered_at=1234.5678, sequence=2**41)
    with transaction(store):
        assert store.impressions([later.id, new_id(1.0), first.id]) == {first.id: first, later.id: later}
        assert store.impressions([]) == store.statistics([]) == store.lock_statistics([], BLANK) == {}
        store.write(Writes(answered={first.id: answer}), "w")
        # The second key does not exist, although each of its names occurs in another key.
        assert store.statistics([("ana", "l"), ("cleo", "k"), ("ana", "k")]) == {
            ("ana", "l"): kept,
            ("ana", "k"): BLANK,
        }
        assert store.lock_statistics([("ana", "l")], BLANK) == {("ana", "l"): kept}
    with transaction(store, write=False):
        assert store.history("ana", id_floor(2000.0), 10) == [later, answer]
        assert store.statistics_of_user("ana") == {"k": BLANK, "l": kept}
        assert type(store.statistics_of_user("ana")["l"].numbers) is bytes
        assert store.counts_of_user("ana") == {"l": (2, 1, 1)}
        assert store.counts_of_user("cleo") == store.statistics_of_user("cleo") == {}


def test_counters_add_up_over_batches_and_workers(store):
    writes = Writes()
    writes.count(7, "l", shown=2, clicks=0.5)
    writes.count(7, "l", shown=1, nothing=0)
    writes.count(8, "k", shown=1)
    for worker in ("a", "a", "b"):
        with transaction(store):
            store.write(writes, worker)
    with transaction(store, write=False):
        assert store.counters(7) == [(7, "l", "clicks", 1.5), (7, "l", "shown", 9.0), (8, "k", "shown", 3.0)]
        assert store.counters(8) == [(8, "k", "shown", 3.0)]


def test_orders_and_pages(store):
    ana = [
        shown("ana", 1000.0 + i, clicked=None if i % 2 else [], sequence=100 - i if i % 3 else None) for i in range(8)
    ]
    with transaction(store):
        store.write(Writes([*ana[::-1], shown("bob", 1003.5), shown("ana", 1002.5, learner="k", sequence=1)]), "w")
    with transaction(store, write=False):
        of_l = [i for i in store.history("ana", id_floor(2000.0), 100) if i.learner == "l"]
        assert of_l == ana[::-1]
        page = store.history("ana", ana[6].id, 3)
        assert page == ana[5:2:-1]
        assert store.learned_impressions("ana", "l") == [ana[i] for i in (7, 5, 4, 2, 1)]
        without = store.unanswered(ana[1].id, ana[7].id, 100)
        assert without == sorted(without)
        assert [shown_at(id) for id in without] == [1001.0, 1002.5, 1003.0, 1003.5, 1005.0]
        assert store.unanswered(without[1], ana[7].id, 2) == without[1:3]


def test_size_is_the_size_on_disk(store):
    numbers = np.random.default_rng(0).bytes(10_000)
    with transaction(store):
        before = store.size()
        store.write(Writes([replace(shown("ana", 1000.0 + i), numbers=numbers) for i in range(100)]), "w")
    with transaction(store):
        assert 1_000_000 < store.size() - before < 3_000_000
        if store.kind == "sqlite":
            files = list(store.path.parent.glob("taste.db*"))
            assert store.size() == sum(file.stat().st_size for file in files if not file.name.endswith("-shm"))
            store.path.unlink()
            with pytest.raises(StoreError, match="cannot be used: No such file"):
                store.size()


def test_hostile_names_are_stored_as_text(store):
    keys = [(user, learner) for user in HOSTILE for learner in ("l", user)]
    lists = [replace(shown(name, learner=name), items=[name], answer=name) for name in HOSTILE]
    writes = Writes(lists, statistics={key: replace(BLANK, updates=n, sequence=1) for n, key in enumerate(keys)})
    for name in HOSTILE:
        writes.count(1, name, **{name: 1.0})
    with transaction(store):
        store.lock_statistics(keys, BLANK)
        store.write(writes, "'")
        for name in HOSTILE:
            store.set_meta(name, name)
            store.add_learner(name, {name: name})
    with transaction(store):
        assert store.statistics(keys) == store.lock_statistics(keys, BLANK) == writes.statistics
        assert store.impressions([i.id for i in lists]) == {i.id: i for i in lists}
        assert store.counters(0) == [(1, name, name, 1.0) for name in sorted(HOSTILE)]
        assert [store.meta(name) for name in HOSTILE] == HOSTILE
        assert store.learners() == {name: {name: name} for name in HOSTILE}
        for name in HOSTILE:
            assert [i.items for i in store.history(name, id_floor(2000.0), 9)] == [[name]]
        # Names are ordered by code point, whatever the language of the database.
        assert store.users("", 100) == sorted(HOSTILE)[1:]
        assert store.users("A", 2) == sorted(HOSTILE)[sorted(HOSTILE).index("A") + 1 :][:2]


def test_forget_removes_everything_about_one_user_and_nothing_about_others(store):
    with transaction(store):
        keys = [("ana", "l"), ("ana", "k"), ("bob", "l")]
        lists = [shown(user, learner=learner) for user, learner in keys]
        store.write(
            Writes(lists, statistics={key: replace(BLANK, updates=n, sequence=1) for n, key in enumerate(keys)}), "w"
        )
    with transaction(store):
        removed, learned = store.forget("ana")
        assert (removed, {learner: updates for learner, (updates, _) in learned.items()}) == (2, {"l": 0, "k": 1})
        assert store.forget("ana") == (0, {})
    with transaction(store):
        assert store.statistics(keys) == {("bob", "l"): replace(BLANK, updates=2, sequence=1)}
        assert store.impressions([i.id for i in lists]) == {lists[2].id: lists[2]}


def test_prune_removes_the_oldest_up_to_a_limit(store):
    lists = [shown("ana", 1000.0 + i) for i in range(5)]
    with transaction(store):
        store.write(Writes(lists[::-1]), "w")
    with transaction(store):
        assert [store.prune(lists[4].id, limit) for limit in (3, 3, 3)] == [3, 1, 0]
        assert store.history("ana", id_floor(2000.0), 9) == lists[4:]


def test_rollback_leaves_nothing_and_an_error_leaves_the_store_usable(store):
    one = shown("ana")
    with transaction(store):
        store.write(Writes([one]), "w")
    before = contents(store)
    store.begin()
    store.lock_statistics([("bob", "l")], BLANK)
    store.set_meta("a", "b")
    store.rollback()
    store.rollback()
    with pytest.raises(StoreError, match="cannot be used"), transaction(store):
        store.write(Writes([shown("bob"), one]), "w")
    with pytest.raises(StoreError, match="cannot be used"), transaction(store):
        store.begin()
    assert contents(store) == before
    with transaction(store):
        store.set_meta("a", "c")
    with transaction(store, write=False):
        assert store.meta("a") == "c"


def contents(store):
    with transaction(store, write=False):
        return {name: store.execute(f"SELECT {', '.join(of)} FROM {name} ORDER BY 1, 2") for name, of in TABLES.items()}


@given(st.integers(1, 12).flatmap(lambda d: arrays(np.float64, (d + 1, d))))
def test_packed_statistics_are_exact(numbers):
    B, M = numbers[0], np.tril(numbers[1:]) + np.tril(numbers[1:], -1).T
    packed = pack(M, B)
    assert len(packed) == 8 * statistics_size(B.size)
    unpacked_M, unpacked_B = unpack(packed, B.size)
    assert unpacked_M.tobytes() == M.tobytes()
    assert unpacked_B.tobytes() == B.tobytes()
    numbers = statistics_size(B.size + 1)
    with pytest.raises(StoreError, match=f"must be {numbers} numbers for {B.size + 1} topics, got {len(packed) // 8}"):
        unpack(packed, B.size + 1)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_packed_lists_are_exact(sizes, random):
    n, K = sum(sizes), len(sizes)
    values = np.array([random.gauss(0, 1) for _ in range(2 * K + n)])
    topics = np.array([random.randrange(2**16) for _ in range(n)], dtype=np.int64)
    before = Explanation(values[:K], values[K : 2 * K], np.array(sizes), topics, values[2 * K :])
    packed = pack_shown(before)
    assert len(packed) == 18 * K + 10 * n
    for one, other in zip(unpack_shown(packed, K), before, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


def test_a_commit_to_sqlite_waits_for_the_disk(tmp_path):
    """Killing the process would not reveal a missing flush, as the system still writes its data. A power cut would."""
    with opened(f"sqlite:///{tmp_path / 'taste.db'}") as store:
        assert store.execute("PRAGMA synchronous") == [(2,)]
        assert store.execute("PRAGMA journal_mode") == [("wal",)]
