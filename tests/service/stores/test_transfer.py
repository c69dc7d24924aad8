"""Backups, exports and replays, on both kinds of store and from each to the other, while a recommender uses them."""

import json

import numpy as np
import pytest
from recommending import SIGMA, TOPICS, assert_same, films, learned, recommender
from storing import opened, transaction

import thali
from thali.service.recommender.replay import replay
from thali.service.stores import StoreError, open_store
from thali.service.stores.sql import KEYS, TABLES
from thali.service.stores.transfer import PAGE, backup, export_learned, import_learned, restore


def rows(url):
    """All rows of a store but the word by which services know that it was restored."""
    with opened(url) as store, transaction(store, write=False):
        return {
            table: [
                row
                for row in store.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {', '.join(KEYS[table])}")
                if row[0] != "id"
            ]
            for table, columns in TABLES.items()
        }


def lived_in(url, users=4):
    """A store in which something happened."""
    with recommender(url) as home:
        for n in range(3 * users):
            shown = home.recommend(f"u{n % users}")
            if n % 3:
                home.feedback(shown.id, [n % 2])
        home.put_item("new/one", {"comedy": 0.5})
        home.remove_item(shown.items[0].item)


@pytest.fixture
def empty(tmp_path, postgres, store_url):
    """An empty store of the other kind."""
    return postgres.fresh() if store_url.startswith("sqlite") else f"sqlite:///{tmp_path}/other.db"


def test_a_backup_is_all_of_it_and_goes_into_either_kind(store_url, empty, tmp_path):
    lived_in(store_url)
    before = rows(store_url)
    assert all(before[table] for table in TABLES)
    with recommender(store_url) as home:  # in use
        with opened(store_url) as store:
            assert backup(store, tmp_path / "b.db") == 1 + sum(map(len, before.values()))
        home.recommend("later")
    with opened(empty) as other:
        restore(tmp_path / "b.db", other)
        assert rows(empty) == before
        with pytest.raises(ValueError, match="must be empty"):
            restore(tmp_path / "b.db", other)
        assert rows(empty) == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_a_restore_is_seen_by_who_uses_the_store(store_url, tmp_path):
    lived_in(store_url)
    with recommender(store_url) as home, opened(store_url) as other:
        backup(other, tmp_path / "b.db")
        before = learned(home, "u1")
        there = {item.item for item in home.items(limit=1000).items}
        for _ in range(3):
            home.feedback(home.recommend("u1").id, [0])
        home.put_item("newer", {"crime": 0.1})
        home.put_item("new/one", {"crime": 0.9})
        late = home.recommend("u1").id
        restore(tmp_path / "b.db", other, replace=True)
        with pytest.raises(thali.service.recommender.Unknown):
            home.feedback(late, [0])
        assert {item.item for item in home.items(limit=1000).items} == there
        assert home.items(contains="new/one").items[0].weights == {"comedy": 0.5}
        assert_same(learned(home, "u1"), before)


def test_a_restored_store_that_does_not_fit_is_not_used(store_url, tmp_path):
    with recommender(f"sqlite:///{tmp_path}/far.db", policy=thali.LSBGreedy) as far:
        far.feedback(far.recommend("ana").id, [0])
    with opened(f"sqlite:///{tmp_path}/far.db") as store:
        backup(store, tmp_path / "b.db")
    with recommender(store_url) as home, opened(store_url) as other:
        home.feedback(home.recommend("ana").id, [0])
        restore(tmp_path / "b.db", other, replace=True)
        for _ in range(2):  # and not the second time either
            with pytest.raises(StoreError, match="cannot use: learner 'default' must have the settings"):
                home.recommend("ana")


def test_what_is_no_backup_is_refused_and_changes_nothing(store_url, tmp_path):
    lived_in(store_url)
    before = rows(store_url)
    (tmp_path / "text.db").write_text("no database " * 1000)
    (tmp_path / "void.db").write_bytes(b"")
    with opened(store_url) as store:
        for name in ("text.db", "void.db"):
            with pytest.raises(ValueError, match=f"path of the backup must be a file written by .*, but .*{name}"):
                restore(tmp_path / name, store, replace=True)
        with pytest.raises(FileNotFoundError, match="must be an existing file, found nothing at"):
            restore(tmp_path / "none.db", store, replace=True)
        with pytest.raises(FileExistsError, match="must be a new file, but .* already exists"):
            backup(store, tmp_path / "text.db")
    assert rows(store_url) == before


def test_an_export_comes_back_to_the_last_bit_by_names_of_topics(store_url, empty, tmp_path):
    lived_in(store_url)
    with opened(store_url) as store:
        assert export_learned(store, tmp_path / "e.jsonl") == 4
    with recommender(empty, films(topics=["opera", *TOPICS])) as home, recommender(store_url) as was:
        with opened(empty) as other:
            assert import_learned(tmp_path / "e.jsonl", other) == 4
        for user in ("u0", "u3"):
            updates, M, B = learned(home, user)
            assert_same((updates, M[1:, 1:], B[1:]), learned(was, user))
            assert M[0].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
            assert B[0] == 0.0
        assert home.stats().learners["default"].users == 4


def test_an_import_replaces_only_when_told_and_what_it_replaced_cannot_be_undone(store_url, tmp_path):
    with recommender(store_url) as home:
        first = home.recommend("ana").id
        home.feedback(first, [0])
        with opened(store_url) as store:
            export_learned(store, tmp_path / "e.jsonl")
            home.feedback(home.recommend("ana").id, [1])
            kept = learned(home, "ana")
            with pytest.raises(ValueError, match="statistics that the store already has, but 1 of its lines do"):
                import_learned(tmp_path / "e.jsonl", store)
            assert_same(learned(home, "ana"), kept)
            import_learned(tmp_path / "e.jsonl", store, replace=True)
        imported = learned(home, "ana")
        assert (kept[0], imported[0]) == (2, 1)
        assert home.undo(first).clicked is None
        assert_same(learned(home, "ana"), imported)
        assert home.stats().learners["default"].users == 1


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 2"),
        ('{"user": "a", "learner": "none", "updates": 1, "B": [0], "M": [[1]]}', "learner must be one"),
        ('{"user": "a", "learner": "default", "updates": 1, "B": [0, 0], "M": [[1]]}', "B must have shape"),
        ('{"user": "a", "learner": "default", "updates": 1, "B": [0], "M": [[0.5]]}', "M must be a symmetric"),
        ('{"user": "a", "learner": "default", "updates": -1, "B": [0], "M": [[1]]}', "updates must be"),
        ('{"user": "a\\u0000", "learner": "default", "updates": 1, "B": [0], "M": [[1]]}', "user must be"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_imported(tmp_path, line, told):
    head = {"format": "thali-export-1", "topics": ["t"], "learners": {"default": {}}}
    (tmp_path / "e.jsonl").write_text(f"{json.dumps(head)}\n{line}\n")
    with opened(f"sqlite:///{tmp_path}/s.db") as store:
        with pytest.raises(ValueError, match=told):
            import_learned(tmp_path / "e.jsonl", store)
        with transaction(store):
            assert store.users("", 9) == []
            assert store.topic_sets() == []


def log_of(home, path, lines, seed=0):
    rng = np.random.default_rng(seed)
    names = [item.item for item in home.items(limit=1000).items]
    said = []
    for n in range(lines):
        clicked = None if n % 10 == 9 else sorted(rng.choice(3, rng.integers(0, 3), replace=False).tolist())
        said.append({"user": f"u{n % 5}", "items": rng.choice(names, 3, replace=False).tolist(), "clicked": clicked})
    path.write_text("".join(json.dumps(line) + "\n" for line in said))
    return said


def test_a_replay_learns_what_the_library_learns_once_and_goes_on_where_it_stopped(store_url, tmp_path):
    with recommender(store_url) as home:
        said = log_of(home, tmp_path / "log.jsonl", 600)
        seen = []

        def stop(lines):
            seen.append(lines)
            if len(seen) == 1:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            replay(home, tmp_path / "log.jsonl", stop)
        done = replay(home, tmp_path / "log.jsonl")
        assert (done.learned + seen[0], done.before) == (600, seen[0])
        assert replay(home, tmp_path / "log.jsonl") == (0, 600)
        catalog = films()
        policy = thali.CascadeLSB(catalog, K=3, sigma=SIGMA)
        state = policy.init(5)
        for line in said:
            if line["clicked"] is not None:
                user, clicks = int(line["user"][1:]), np.zeros((1, 3), dtype=bool)
                clicks[0, line["clicked"]] = True
                part = state.take([user])
                policy.update(part, [[catalog.item(name) for name in line["items"]]], clicks)
                state.put([user], part)
        for user in range(5):
            assert_same(learned(home, f"u{user}"), (state.updates[user], state.M[user], state.B[user]))
            assert home.user(f"u{user}").impressions == 120


def test_of_a_log_that_has_grown_only_what_is_new_is_learned(store_url, tmp_path):
    with recommender(store_url) as home:
        log_of(home, tmp_path / "log.jsonl", 20)
        first = (tmp_path / "log.jsonl").read_text()
        (tmp_path / "log.jsonl").write_text(first.rstrip("\n"))
        assert replay(home, tmp_path / "log.jsonl") == (20, 0)
        (tmp_path / "log.jsonl").write_text(first + json.dumps({"user": "u0", "items": ["film 1"], "clicked": [0]}))
        assert replay(home, tmp_path / "log.jsonl") == (1, 20)
        assert home.user("u0").impressions == 5
        assert len(home.meta_with_prefix("replay:")) == 1


def test_two_replays_at_once_learn_nothing_twice(store_url, tmp_path):
    with recommender(store_url) as home, recommender(store_url) as other:
        log_of(home, tmp_path / "log.jsonl", 600)
        passed = []

        def interrupt(lines):
            if not passed:
                passed.append(replay(other, tmp_path / "log.jsonl"))

        with pytest.raises(thali.service.recommender.Conflict, match="another process"):
            replay(home, tmp_path / "log.jsonl", interrupt)
        assert passed == [(350, 250)]
        assert sum(home.user(f"u{user}").impressions for user in range(5)) == 600


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"user": "a", "items": ["none"], "clicked": []}, r"line 301: items\[0\] must be an item"),
        ({"user": "a", "items": ["film 1"], "clicked": [1]}, r"line 301: clicked\[0\] must be"),
        ({"user": "a", "items": ["film 1", "film 1"], "clicked": []}, "line 301: items must not contain an item twice"),
        ({"user": "a", "items": ["film 1"]}, "line 301: must be an object"),
        ({"user": "a", "items": ["film 1"], "clicked": [], "time": 1e12}, "line 301: time must be"),
        ({"user": "a", "items": ["film 1"], "clicked": [], "learner": "x"}, "line 301: learner must be"),
    ],
)
def test_a_replay_looks_through_the_whole_log_first(tmp_path, line, told):
    with recommender(f"sqlite:///{tmp_path}/s.db") as home:
        log_of(home, tmp_path / "log.jsonl", 300)
        with open(tmp_path / "log.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
        with pytest.raises(ValueError, match=told):
            replay(home, tmp_path / "log.jsonl")
        assert home.stats().learners["default"].users == 0


def test_lists_older_than_what_is_kept_are_learned_from_and_not_kept(tmp_path):
    with recommender(f"sqlite:///{tmp_path}/s.db") as home:
        line = {"user": "ana", "items": ["film 1"], "clicked": [0], "time": home.clock() - home.keep - 10}
        (tmp_path / "log.jsonl").write_text(json.dumps(line))
        replay(home, tmp_path / "log.jsonl")
        assert home.user("ana").learners["default"].updates == 1
        assert home.user("ana").impressions == 0


def test_a_page_is_smaller_than_what_was_tried(tmp_path):
    """More rows than are copied at a time."""
    url = f"sqlite:///{tmp_path}/s.db"
    with recommender(url) as home:
        for n in range(0, PAGE + 50, 50):
            home.perform([thali.service.recommender.operations.Recommend(f"u{k}") for k in range(n, n + 50)])
    store = open_store(url)
    backup(store, tmp_path / "b.db")
    store.close()
    assert rows(f"sqlite:///{tmp_path}/b.db") == rows(url)
