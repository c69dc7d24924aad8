"""Backups, exports and replays, for both kinds of store and from one to the other, while a recommender uses them."""

import json
from contextlib import contextmanager

import numpy as np
import pytest
from recommending import SIGMA, TOPICS, K, assert_same, films, learned, rated, recommender
from storing import opened, transaction
from typer.testing import CliRunner

import thali
from thali.cli import store as commands
from thali.cli.app import app
from thali.service.recommender import Recommender
from thali.service.recommender.histories import forget_history, learn_history
from thali.service.recommender.operations import AddHistory
from thali.service.recommender.replay import Interrupted, replay
from thali.service.stores import StoreError, open_store
from thali.service.stores.sql import KEYS, TABLES
from thali.service.stores.transfer import PAGE, backup, export_learned, import_learned, restore


def rows(url):
    """Return all rows of a store, except the id by which services notice that it was restored."""
    with opened(url) as store, transaction(store, write=False):
        return {
            table: [
                row
                for row in store.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {', '.join(KEYS[table])}")
                if row[0] != "id"
            ]
            for table, columns in TABLES.items()
        }


def fill(url, users=4):
    """Show lists, give feedback, change items, add a history, and learn a prior."""
    with recommender(url, hide="examined:1", learn_prior=True) as rec:
        rec.feedback(rec.recommend("u0").id, [0])
        d = rec.catalog.d
        rec.perform([AddHistory("u1", "ratings", np.eye(d), np.ones(d), ["film 1"], "digest")], whole=True)
        rec.learn_prior()
        for n in range(3 * users):
            shown = rec.recommend(f"u{n % users}")
            if n % 3:
                rec.feedback(shown.id, [n % 2])
        rec.put_item("new/one", {"comedy": 0.5})
        rec.remove_item(shown.items[0].item)


def rate(url):
    """Count clicks for the quality of items: some in all, some still to be added."""
    catalog, quality = rated()
    with recommender(url, catalog, quality=quality) as rec:
        rec.feedback(rec.recommend("u0").id, [0])
        rec.refresh_quality()
        rec.feedback(rec.recommend("u0").id, [0])


def test_a_backup_is_complete_and_fits_either_kind_of_store(store_url, other_store_url, tmp_path):
    rate(store_url)
    fill(store_url)
    before = rows(store_url)
    assert all(before[table] for table in TABLES)
    with recommender(store_url, hide="examined:1", learn_prior=True) as rec:  # in use
        with opened(store_url) as store:
            assert backup(store, tmp_path / "b.db") == 1 + sum(map(len, before.values()))
        rec.recommend("later")
    with opened(other_store_url) as other:
        restore(tmp_path / "b.db", other)
        assert rows(other_store_url) == before
        with pytest.raises(ValueError, match="must be empty"):
            restore(tmp_path / "b.db", other)
        assert rows(other_store_url) == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_a_running_recommender_notices_a_restore(store_url, tmp_path):
    fill(store_url)
    with recommender(store_url) as rec, opened(store_url) as other:
        backup(other, tmp_path / "b.db")
        before = learned(rec, "u1")
        there = {item.item for item in rec.items(limit=1000).items}
        for _ in range(3):
            rec.feedback(rec.recommend("u1").id, [0])
        rec.put_item("newer", {"crime": 0.1})
        rec.put_item("new/one", {"crime": 0.9})
        late = rec.recommend("u1").id
        restore(tmp_path / "b.db", other, replace=True)
        with pytest.raises(thali.service.recommender.Unknown):
            rec.feedback(late, [0])
        assert {item.item for item in rec.items(limit=1000).items} == there
        assert rec.items(contains="new/one").items[0].weights == {"comedy": 0.5}
        assert_same(learned(rec, "u1"), before)


def test_a_restored_store_with_other_settings_is_not_used(store_url, tmp_path):
    with recommender(f"sqlite:///{tmp_path}/far.db", policy=thali.LSBGreedy) as far:
        far.feedback(far.recommend("ana").id, [0])
    with opened(f"sqlite:///{tmp_path}/far.db") as store:
        backup(store, tmp_path / "b.db")
    with recommender(store_url) as rec, opened(store_url) as other:
        rec.feedback(rec.recommend("ana").id, [0])
        restore(tmp_path / "b.db", other, replace=True)
        for _ in range(2):  # the second attempt fails as well
            with pytest.raises(StoreError, match="cannot use: learner 'default' must have the settings"):
                rec.recommend("ana")


def test_a_file_that_is_not_a_backup_is_rejected_and_changes_nothing(store_url, tmp_path):
    fill(store_url)
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


def test_an_exported_user_is_imported_exactly_with_topics_matched_by_name(store_url, other_store_url, tmp_path):
    fill(store_url)
    with opened(store_url) as store:
        assert export_learned(store, tmp_path / "e.jsonl") == 4
    with recommender(other_store_url, films(topics=["opera", *TOPICS])) as rec, recommender(store_url) as was:
        with opened(other_store_url) as other:
            assert import_learned(tmp_path / "e.jsonl", other) == 4
        for user in ("u0", "u3"):
            updates, M, B = learned(rec, user)
            assert_same((updates, M[1:, 1:], B[1:]), learned(was, user))
            assert M[0].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
            assert B[0] == 0.0
        assert rec.stats().learners["default"].users == 4


def test_an_import_replaces_only_with_replace_and_earlier_feedback_can_no_longer_be_undone(store_url, tmp_path):
    with recommender(store_url) as rec:
        first = rec.recommend("ana").id
        rec.feedback(first, [0])
        with opened(store_url) as store:
            export_learned(store, tmp_path / "e.jsonl")
            rec.feedback(rec.recommend("ana").id, [1])
            kept = learned(rec, "ana")
            with pytest.raises(ValueError, match="statistics that the store already has, but 1 of its lines do"):
                import_learned(tmp_path / "e.jsonl", store)
            assert_same(learned(rec, "ana"), kept)
            import_learned(tmp_path / "e.jsonl", store, replace=True)
        imported = learned(rec, "ana")
        assert (kept[0], imported[0]) == (2, 1)
        assert rec.undo(first).clicked is None
        assert_same(learned(rec, "ana"), imported)
        assert rec.stats().learners["default"].users == 1


def test_undo_keeps_what_was_imported_of_a_person_who_had_only_a_history(store_url, other_store_url, tmp_path):
    with recommender(store_url) as rec, opened(store_url) as store:
        d = rec.catalog.d
        rec.perform([AddHistory("ana", "likes", 0.01 * np.eye(d), np.zeros(d), [], "digest")], whole=True)
        export_learned(store, tmp_path / "e.jsonl")
    with recommender(other_store_url) as rec:
        with opened(other_store_url) as store:
            import_learned(tmp_path / "e.jsonl", store)
        imported = learned(rec, "ana")
        assert imported[0] == 0
        assert imported[1][0, 0] > 1.0
        shown = [rec.recommend("ana").id for _ in range(2)]
        for id in shown:
            rec.feedback(id, [1])
        for id in shown:
            rec.undo(id)
        assert_same(learned(rec, "ana"), imported, rtol=1e-12)


def test_a_history_is_imported_with_its_statistics_and_what_was_seen_stays(store_url, other_store_url, tmp_path):
    """So it is not learned twice, and can still be undone, also over other topics."""
    path = tmp_path / "likes.csv"
    path.write_text("user,item\nana,film 1\nana,film 2\nbob,film 3\n")
    with recommender(store_url, hide="clicked") as rec:
        rec.feedback(rec.recommend("ana").id, [0])
        alone = learned(rec, "ana")
        learn_history(rec, path, weight=0.05)
        both = learned(rec, "ana")
        with opened(store_url) as store:
            export_learned(store, tmp_path / "e.jsonl")
            import_learned(tmp_path / "e.jsonl", store, replace=True)
        assert_same(learned(rec, "ana"), both)
        assert learn_history(rec, path, weight=0.05)[:2] == (0, 2)
        seen = rec.tastes.get(("ana", "default"))
        for _ in range(3):
            assert not {"film 1", "film 2"} & {item.item for item in rec.recommend("ana").items}, seen
        forget_history(rec, "history")
        assert_same(learned(rec, "ana"), alone, rtol=1e-12)
        assert {"film 1", "film 2"} <= {item.item for item in rec.recommend("ana", K=19).items}  # one was clicked
    with opened(other_store_url) as other:
        recommender(other_store_url, films(topics=["opera", *TOPICS])).close()
        import_learned(tmp_path / "e.jsonl", other)
    with recommender(other_store_url, films(topics=["opera", *TOPICS])) as rec:
        assert learned(rec, "ana")[1][1:, 1:].tolist() == both[1].tolist()
        forget_history(rec, "history")
        updates, M, B = learned(rec, "ana")
        assert_same((updates, M[1:, 1:], B[1:]), alone, rtol=1e-12)
        assert M[0].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
        assert_same(learned(rec, "bob"), (0, np.eye(5), np.zeros(5)))


def test_what_is_known_of_imported_people_is_hidden_once_their_histories_are_learned_again(
    store_url, other_store_url, tmp_path
):
    """An export does not contain what people have seen. The files do, of each of several histories."""
    for name, item in (("ratings", "film 1"), ("purchases", "film 2")):
        (tmp_path / f"{name}.csv").write_text(f"user,item\nana,{item}\n")
    with recommender(store_url) as rec:
        for name in ("ratings", "purchases"):
            learn_history(rec, tmp_path / f"{name}.csv", name=name, weight=0.05)
        known = learned(rec, "ana")
        export_learned(rec.store, tmp_path / "e.jsonl")
    with opened(other_store_url) as other:
        recommender(other_store_url).close()
        import_learned(tmp_path / "e.jsonl", other)
    with recommender(other_store_url, hide="clicked") as rec:
        everything = {f"film {e}" for e in range(20)}

        def hidden(count):
            """If so many items of the 20 are hidden, a list of all others contains none of them."""
            return everything - {item.item for item in rec.recommend("ana", K=20 - count).items}

        known_items = set()
        for name, item in (("ratings", "film 1"), ("purchases", "film 2")):
            for _ in range(2):
                assert learn_history(rec, tmp_path / f"{name}.csv", name=name, weight=0.05)[:2] == (0, 1)
            known_items.add(item)
            assert hidden(len(known_items)) == known_items
        assert_same(learned(rec, "ana"), known)
        assert forget_history(rec, "ratings") == 1
        assert hidden(1) == {"film 2"}


def test_an_export_with_another_sigma_is_converted(tmp_path):
    """What the store then believes is what a store with the other σ would have learned from the same clicks."""
    urls = {sigma: f"sqlite:///{tmp_path}/{sigma}.db" for sigma in (0.1, 0.4)}
    for sigma, url in urls.items():
        with Recommender(thali.CascadeLSB(films(), K=K, sigma=sigma), url) as rec:
            for user in ("ana", "bob") if sigma == 0.1 else ("bob",):
                shown = rec.recommend(user, candidates=[f"film {e}" for e in range(K)])
                rec.feedback(shown.id, [1])
    with opened(urls[0.1]) as store:
        export_learned(store, tmp_path / "e.jsonl")
    with Recommender(thali.CascadeLSB(films(), K=K, sigma=0.4), urls[0.4]) as rec:
        expected = learned(rec, "bob")
        with opened(urls[0.4]) as store:
            import_learned(tmp_path / "e.jsonl", store, replace=True)
        for user in ("ana", "bob"):
            updates, M, B = learned(rec, user)
            assert updates == expected[0]
            np.testing.assert_allclose(M, expected[1], rtol=1e-13)
            np.testing.assert_array_equal(B, expected[2])


def exported(**more):
    return json.dumps({"user": "a", "learner": "default", "updates": 1, "B": [0], "M": [[9]], **more})


def history(**more):
    return {"name": "h", "digest": "x", "at": 0, "shared": False, "B": [0], "S": [[1]], **more}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2"),
        (exported(user="a/b"), "line 2: user must not contain '/'"),
        (f"{exported()}\n{exported()}", "line 3: user 'a' and learner 'default' must not appear twice"),
        (exported(histories=None), "line 2: histories must be a list of objects, got None"),
        (exported(histories="ab"), "line 2: histories must be a list of objects, got 'ab'"),
        (exported(histories=[history(), history()]), r"line 2: histories must have different names, got \['h', 'h'\]"),
        (exported(histories=[history(name="a/b")]), "line 2: name of a history must not contain '/'"),
        (exported(histories=[history(S=[[2.1]])]), "line 2: M must contain what S of the histories says"),
        ('{"user": "a", "learner": "none", "updates": 1, "B": [0], "M": [[1]]}', "learner must be one"),
        ('{"user": "a", "learner": "default", "updates": 1, "B": [0, 0], "M": [[1]]}', "B must have shape"),
        ('{"user": "a", "learner": "default", "updates": 1, "B": [0], "M": [[0.5]]}', "M must be a symmetric"),
        ('{"user": "a", "learner": "default", "updates": -1, "B": [0], "M": [[1]]}', "updates must be"),
        ('{"user": "a\\u0000", "learner": "default", "updates": 1, "B": [0], "M": [[1]]}', "user must be"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_imported(tmp_path, line, message):
    head = {"format": "thali-export-1", "topics": ["t"], "learners": {"default": {"sigma": 0.5}}}
    (tmp_path / "e.jsonl").write_text(f"{json.dumps(head)}\n{line}\n")
    with opened(f"sqlite:///{tmp_path}/s.db") as store:
        with pytest.raises(ValueError, match=message):
            import_learned(tmp_path / "e.jsonl", store)
        with transaction(store):
            assert store.users("", 9) == []
            assert store.topic_sets() == []


def log_of(rec, path, lines, seed=0):
    rng = np.random.default_rng(seed)
    names = [item.item for item in rec.items(limit=1000).items]
    lines_written = []
    for n in range(lines):
        clicked = None if n % 10 == 9 else sorted(rng.choice(3, rng.integers(0, 3), replace=False).tolist())
        lines_written.append(
            {"user": f"u{n % 5}", "items": rng.choice(names, 3, replace=False).tolist(), "clicked": clicked}
        )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines_written))
    return lines_written


def test_a_replay_learns_the_same_as_the_library_once_and_resumes_if_interrupted(store_url, tmp_path):
    with recommender(store_url) as rec:
        lines = log_of(rec, tmp_path / "log.jsonl", 600)
        seen = []

        def stop(count):
            seen.append(count)
            if len(seen) == 1:
                raise KeyboardInterrupt

        with pytest.raises(Interrupted) as interrupted:
            replay(rec, tmp_path / "log.jsonl", stop)
        assert interrupted.value.done[:2] == (seen[0], 0)
        done = replay(rec, tmp_path / "log.jsonl")
        assert (done.learned + seen[0], done.before) == (600, seen[0])
        assert replay(rec, tmp_path / "log.jsonl")[:2] == (0, 600)
        catalog = films()
        policy = thali.CascadeLSB(catalog, K=3, sigma=SIGMA)
        state = policy.init(5)
        for line in lines:
            if line["clicked"] is not None:
                user, clicks = int(line["user"][1:]), np.zeros((1, 3), dtype=bool)
                clicks[0, line["clicked"]] = True
                part = state.take([user])
                policy.update(part, [[catalog.item(name) for name in line["items"]]], clicks)
                state.put([user], part)
        for user in range(5):
            assert_same(learned(rec, f"u{user}"), (state.updates[user], state.M[user], state.B[user]))
            assert rec.user(f"u{user}").impressions == 120


@pytest.mark.parametrize(("after", "learned"), [(False, 250), (True, 500)], ids=["before", "after"])
def test_an_interrupt_around_a_commit_counts_what_is_in_the_store(tmp_path, monkeypatch, after, learned):
    with recommender(f"sqlite:///{tmp_path}/s.db") as rec:
        log_of(rec, tmp_path / "log.jsonl", 600)
        perform, pages = rec.perform, []

        def interrupted_perform(operations, **rest):
            pages.append(operations)
            if len(pages) != 2 or after:
                perform(operations, **rest)
            if len(pages) == 2:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(rec, "perform", interrupted_perform)
            with pytest.raises(Interrupted) as interrupted:
                replay(rec, tmp_path / "log.jsonl")
        assert interrupted.value.done.learned == learned
        assert replay(rec, tmp_path / "log.jsonl")[:2] == (600 - learned, learned)


def test_the_command_says_what_an_interrupted_replay_has_learned_and_how_to_go_on(tmp_path, monkeypatch):
    log, url, catalog = tmp_path / "log.jsonl", f"sqlite:///{tmp_path}/s.db", tmp_path / "films.parquet"
    thali.save_catalog(films(), catalog)
    with recommender(f"sqlite:///{tmp_path}/other.db") as rec:
        log_of(rec, log, 600)
    words = ["replay", str(log), "--store", url, "--catalog", str(catalog)]
    pages = []

    @contextmanager
    def bar(unit):
        def advance(count):
            pages.append(count)
            if len(pages) == 2:
                raise KeyboardInterrupt

        yield advance

    monkeypatch.setattr(commands, "_bar", bar)
    stopped = CliRunner().invoke(app, words)
    again = "To learn from the rest, run the same command again."
    assert stopped.exit_code == 130
    assert stopped.output == f"Interrupted. Learned from 500 lists in {log}. {again}\n"
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.output) == (
        0, f"Learned from 100 lists in {log} (500 lines had been used previously).\n",
    )  # fmt: skip

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "_recommender", interrupt)
    early = CliRunner().invoke(app, words)
    assert (early.exit_code, early.output) == (130, f"Interrupted. Learned from 0 lists in {log}. {again}\n")


def test_of_a_log_that_has_grown_only_the_new_lines_are_learned(store_url, tmp_path):
    with recommender(store_url) as rec:
        log_of(rec, tmp_path / "log.jsonl", 20)
        first = (tmp_path / "log.jsonl").read_text()
        (tmp_path / "log.jsonl").write_text(first.rstrip("\n"))
        assert replay(rec, tmp_path / "log.jsonl")[:2] == (20, 0)
        (tmp_path / "log.jsonl").write_text(first + json.dumps({"user": "u0", "items": ["film 1"], "clicked": [0]}))
        assert replay(rec, tmp_path / "log.jsonl")[:2] == (1, 20)
        assert rec.user("u0").impressions == 5
        assert len(rec.meta_with_prefix("replay:")) == 1


def test_two_replays_at_once_learn_nothing_twice(store_url, tmp_path):
    with recommender(store_url) as rec, recommender(store_url) as other:
        log_of(rec, tmp_path / "log.jsonl", 600)
        passed = []

        def interrupt(lines):
            if not passed:
                passed.append(replay(other, tmp_path / "log.jsonl"))

        with pytest.raises(thali.service.recommender.Conflict, match="another process"):
            replay(rec, tmp_path / "log.jsonl", interrupt)
        assert [done[:2] for done in passed] == [(350, 250)]
        assert sum(rec.user(f"u{user}").impressions for user in range(5)) == 600


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"user": "a", "items": ["none"], "clicked": [1]}, r"line 301: clicked\[0\] must be"),
        ({"user": "a", "items": ["none", "none"], "clicked": []}, "line 301: items must not contain an item twice"),
        ({"user": "a", "items": ["none"], "clicked": [], "time": 1e12}, "line 301: time must be"),
        ({"user": "a", "items": ["none"], "clicked": [], "learner": "x"}, "line 301: learner must be"),
        ({"user": "a/b", "items": ["none"], "clicked": []}, "line 301: user must not contain"),
        ({"user": "a", "items": [None], "clicked": []}, r"line 301: items\[0\] must be text"),
        ({"user": "a", "items": [["none"]], "clicked": []}, r"line 301: items\[0\] must be text"),
        ({"user": "a", "items": "none", "clicked": []}, "line 301: items must be"),
        ({"user": "a", "items": [], "clicked": []}, "line 301: items must contain between 1 and"),
        ({"user": "a", "items": ["film 1"], "clicked": [1]}, r"line 301: clicked\[0\] must be"),
        ({"user": "a", "items": ["film 1", "film 1"], "clicked": []}, "line 301: items must not contain an item twice"),
        ({"user": "a", "items": ["film 1"]}, "line 301: must be an object"),
        ({"user": "a", "items": ["film 1"], "clicked": [], "time": 1e12}, "line 301: time must be"),
        ({"user": "a", "items": ["film 1"], "clicked": [], "learner": "x"}, "line 301: learner must be"),
    ],
)
def test_a_replay_checks_the_whole_log_first(tmp_path, line, message):
    with recommender(f"sqlite:///{tmp_path}/s.db") as rec:
        log_of(rec, tmp_path / "log.jsonl", 300)
        with open(tmp_path / "log.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
        with pytest.raises(ValueError, match=message):
            replay(rec, tmp_path / "log.jsonl")
        assert rec.stats().learners["default"].users == 0


def test_lists_that_are_too_old_to_be_kept_are_learned_and_not_stored(tmp_path):
    with recommender(f"sqlite:///{tmp_path}/s.db") as rec:
        line = {"user": "ana", "items": ["film 1"], "clicked": [0], "time": rec.clock() - rec.keep - 10}
        (tmp_path / "log.jsonl").write_text(json.dumps(line))
        replay(rec, tmp_path / "log.jsonl")
        assert rec.user("ana").learners["default"].updates == 1
        assert rec.user("ana").impressions == 0


def test_a_backup_copies_more_rows_than_one_page(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    with recommender(url) as rec:
        for n in range(0, PAGE + 50, 50):
            rec.perform([thali.service.recommender.operations.Recommend(f"u{k}") for k in range(n, n + 50)])
    store = open_store(url)
    backup(store, tmp_path / "b.db")
    store.close()
    assert rows(f"sqlite:///{tmp_path}/b.db") == rows(url)
