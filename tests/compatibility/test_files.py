"""Files that earlier versions of thali wrote: they must open unchanged, with the same contents.

make_files.py wrote them. expected.json contains what the code of that time read from them.
"""

import json
import math
import sqlite3

import polars as pl
import pytest
import reading
from polars.testing import assert_frame_equal
from reading import FILES, both_learners, command, copied, items, learned, read_store, recommender, sqlite

import thali

EXPECTED = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))
STORE, IDS, AFTER = (EXPECTED["store"][part] for part in ("found", "ids", "after"))
# These parts are computed from the stored data, so they are the same only up to rounding.
COMPUTED = ("users", "stats")


def close(actual, expected):
    """Whether plain values are the same, numbers up to rounding."""
    if isinstance(expected, dict):
        return actual.keys() == expected.keys() and all(close(actual[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(actual) == len(expected) and all(map(close, actual, expected))
    if isinstance(expected, float):
        return isinstance(actual, float | int) and math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-12)
    return actual == expected


def assert_same_store(actual):
    """Check that stored data and the next lists are exactly the same, and computed values up to rounding."""
    assert actual.keys() == STORE.keys()
    for part, expected in STORE.items():
        if part in COMPUTED:
            assert close(actual[part], expected), part
        else:
            assert actual[part] == expected, part


@pytest.fixture
def store(tmp_path):
    """The URL of a copy of the store. Its catalog is in the same folder."""
    copied("films.parquet", tmp_path)
    return sqlite(copied("taste.sqlite", tmp_path))


@pytest.fixture
def rec(store, tmp_path):
    with recommender(store, tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("name", EXPECTED["catalogs"])
def test_a_catalog_has_the_same_items_topics_weights_and_coverage(name, tmp_path):
    assert reading.read_catalog(copied(name, tmp_path)) == EXPECTED["catalogs"][name]


@pytest.mark.parametrize("name", EXPECTED["states"])
def test_a_state_leads_to_the_same_lists_and_the_same_state_after_an_update(name, tmp_path):
    entry = EXPECTED["states"][name]
    copied(entry["catalog"], tmp_path)
    policy = reading.policy_of(entry, tmp_path)
    result = reading.read_state(copied(f"states/{name}", tmp_path), policy, entry["clicks"], seed=entry["seed"])
    assert result == entry["found"]


@pytest.mark.parametrize("name", EXPECTED["states"])
def test_a_state_is_unchanged_after_loading_and_saving(name, tmp_path):
    thali.load_state(copied(f"states/{name}", tmp_path)).save(tmp_path / "again")
    assert reading.digests(thali.load_state(tmp_path / "again")) == EXPECTED["states"][name]["found"]["arrays"]


def test_a_store_contains_the_same_users_items_and_learners(store, tmp_path):
    assert_same_store(read_store(store, tmp_path))


def test_a_store_still_rejects_another_catalog_and_another_learner_of_the_same_name(store, tmp_path):
    books = thali.load_catalog(copied("books.parquet", tmp_path))
    with pytest.raises(ValueError, match="new.catalog"):
        thali.Recommender({"diverse": reading.diverse(books)}, store)
    films = thali.load_catalog(tmp_path / "films.parquet")
    with pytest.raises(ValueError, match="diverse"):
        thali.Recommender({"diverse": thali.CascadeLinUCB(films, K=3)}, store)
    assert_same_store(read_store(store, tmp_path))


def test_feedback_on_an_open_impression_is_learned_once(rec):
    before = learned(rec, "ana")
    answer = rec.feedback(IDS["open"], [2])
    assert (answer.impression, answer.clicked, answer.answer) == (IDS["open"], [2], "feedback")
    assert rec.feedback(IDS["open"], [2]) == answer
    with pytest.raises(ValueError, match=IDS["open"]):
        rec.feedback(IDS["open"], [1])
    assert learned(rec, "ana") == AFTER["feedback"]["learned"] != before
    assert items(rec.recommend("ana")) == AFTER["feedback"]["next"]
    rec.undo(IDS["open"])
    assert learned(rec, "ana") == before


def test_repeated_feedback_returns_the_same_answer_and_can_be_undone(rec):
    answer = rec.feedback(IDS["answered"], [1])
    assert (answer.impression, answer.clicked, answer.answer) == (IDS["answered"], [1], "feedback")
    with pytest.raises(ValueError, match=IDS["answered"]):
        rec.feedback(IDS["answered"], [])
    assert learned(rec, "ana") == STORE["learned"]["ana"]
    assert rec.undo(IDS["answered"]).clicked is None
    assert learned(rec, "ana") == AFTER["undo"]["learned"]
    assert items(rec.recommend("ana")) == AFTER["undo"]["next"]


def test_a_retired_learner_still_learns_and_can_be_used_again(store, tmp_path):
    with both_learners(store, tmp_path) as rec:
        assert items(rec.recommend("ana", learner="plain")) == AFTER["plain runs again"]
    with recommender(store, tmp_path) as rec:
        with pytest.raises(ValueError, match="learner"):
            rec.recommend("ana", learner="plain")
        rec.feedback(IDS["open, retired"], [0, 2])
        assert learned(rec, "ana") == AFTER["feedback, retired"]["learned"]


def test_late_feedback_corrects_a_time_out(rec):
    assert rec.impression(IDS["timed out"]).answer == "time-out"
    assert rec.feedback(IDS["timed out"], [1]).answer == "feedback"
    assert learned(rec, "ben") == AFTER["feedback after a time-out"]["learned"]
    assert items(rec.recommend("ben")) == AFTER["feedback after a time-out"]["next"]


def test_open_impressions_still_time_out(store, tmp_path):
    with recommender(store, tmp_path, no_click_after=3600.0) as rec:
        tidied = rec.tidy()
        assert (tidied.timed_out, tidied.pruned) == (3, 0)
        answers = {what: rec.impression(id).answer for what, id in IDS.items()}
    # An impression that was undone after its time-out stays unanswered.
    assert answers.pop("undone") is None
    assert answers.pop("answered") == "feedback"
    assert set(answers.values()) == {"time-out"}


def test_changed_items_can_be_changed_again(store, tmp_path):
    with recommender(store, tmp_path) as rec:
        names = {item.item for item in rec.items(limit=1000).items}
        assert "Nosferatu" in names
        assert not names & {"film 7", "Metropolis"}
        rec.remove_item("Nosferatu")
        rec.put_item("film 7", {"horror": 1.0})
    with recommender(store, tmp_path) as rec:
        assert {item.item for item in rec.items(limit=1000).items} == names - {"Nosferatu"} | {"film 7"}


def test_a_forgotten_user_stays_forgotten(rec):
    with pytest.raises(LookupError):
        rec.user("hal")


def test_a_backup_is_restored(tmp_path):
    copied("films.parquet", tmp_path)
    url = sqlite(tmp_path / "restored.sqlite")
    command("restore", copied("taste.backup", tmp_path), "--store", url, cwd=tmp_path)
    assert_same_store(read_store(url, tmp_path))


def test_an_export_is_imported(tmp_path):
    copied("films.parquet", tmp_path)
    url = sqlite(tmp_path / "imported.sqlite")
    command("import", copied("people.jsonl", tmp_path), "--store", url, cwd=tmp_path)
    with recommender(url, tmp_path) as rec:
        assert {user: learned(rec, user) for user in reading.USERS} == STORE["learned"]
        assert len(items(rec.recommend("ana"))) == reading.K


@pytest.mark.slow
def test_a_backup_of_a_store_that_was_not_migrated_can_be_restored(store, tmp_path):
    command("backup", "old.backup", "--store", store, cwd=tmp_path)
    command("restore", "old.backup", "--store", "sqlite:///again.sqlite", cwd=tmp_path)
    assert_same_store(read_store(f"sqlite:///{tmp_path / 'again.sqlite'}", tmp_path))


def test_an_export_of_the_store_has_the_same_lines(store, tmp_path):
    command("export", "people.jsonl", "--store", store, cwd=tmp_path)
    exported, expected = (
        [json.loads(line) for line in (folder / "people.jsonl").read_text(encoding="utf-8").splitlines()]
        for folder in (tmp_path, FILES)
    )
    assert exported == expected


def test_a_log_that_was_replayed_is_not_learned_again(store, tmp_path):
    # 'thali serve' stores the absolute path of the catalog that it was started with, like this.
    with sqlite3.connect(tmp_path / "taste.sqlite") as connection:
        connection.execute("INSERT INTO meta (name, value) VALUES ('catalog', ?)", (str(tmp_path / "films.parquet"),))
    connection.close()
    command("replay", copied("log.jsonl", tmp_path), "--store", store, cwd=tmp_path)
    assert_same_store(read_store(store, tmp_path))


def test_only_the_new_lines_of_a_log_that_has_grown_are_learned(store, tmp_path):
    log = copied("log-grown.jsonl", tmp_path)
    command("replay", log, "--store", store, "--catalog", "films.parquet", cwd=tmp_path)
    with recommender(store, tmp_path) as rec:
        after = {user: learned(rec, user) for user in AFTER["replay"]}
    assert after == AFTER["replay"]
    before = STORE["learned"]
    assert {user for user in before if after[user] != before[user]} == {"eva"}
    assert after["eva"]["diverse"]["updates"] == before["eva"]["diverse"]["updates"] + 1


def test_thali_report_reads_the_results(tmp_path):
    folder = copied("results", tmp_path)
    command("report", folder, cwd=tmp_path)
    page = (folder / "report.html").read_text(encoding="utf-8")
    for rows in EXPECTED["results"]["rows"].values():
        people = len(rows["regret"])
        assert rows["policy"] in page
        assert f"{sum(rows['regret']) / people:,.1f}" in page
        assert f"{sum(rows['clicks']) / people / rows['steps']:.4f}" in page


@pytest.mark.slow
def test_thali_run_keeps_rows_of_other_code_and_computes_them_again(tmp_path):
    folder = copied("results", tmp_path)
    arguments = (*EXPECTED["results"]["arguments"], "--out", folder, "--workers", 1)
    said = command("run", *arguments, cwd=tmp_path)
    old = {folder / name: (FILES / "results" / name).read_bytes() for name in EXPECTED["results"]["rows"]}
    count = sum(pl.read_parquet(path).height for path in old)
    assert f"{count:,} stored rows were made by other code" in " ".join(said.split())
    assert {path: path.read_bytes() for path in old} == old
    new = set(folder.rglob("*.parquet")) - set(old)
    assert len(new) == len(old)
    columns = ["policy", "user", "step", "regret", "clicks", "list"]
    before, after = (
        pl.concat([pl.read_parquet(path) for path in paths]).select(columns).sort("policy", "user", "step")
        for paths in (old, new)
    )
    assert_frame_equal(after, before)
    assert "stored rows" not in command("run", *arguments, cwd=tmp_path)
    assert set(folder.rglob("*.parquet")) == new | set(old)


@pytest.mark.slow
def test_a_postgresql_store_has_the_same_contents(postgres, tmp_path):
    import psycopg

    copied("films.parquet", tmp_path)
    url = postgres.fresh()
    with psycopg.connect(url) as connection:
        connection.execute((FILES / "taste.sql").read_bytes())
    assert_same_store(read_store(url, tmp_path))
    with recommender(url, tmp_path) as rec:
        rec.feedback(IDS["open"], [2])
        rec.feedback(IDS["open, retired"], [0, 2])
        assert learned(rec, "ana") == {
            "diverse": AFTER["feedback"]["learned"]["diverse"],
            "plain": AFTER["feedback, retired"]["learned"]["plain"],
        }


@pytest.mark.slow
def test_a_backup_is_restored_into_postgresql(postgres, tmp_path):
    copied("films.parquet", tmp_path)
    url = postgres.fresh()
    command("restore", copied("taste.backup", tmp_path), "--store", url, cwd=tmp_path)
    assert_same_store(read_store(url, tmp_path))


@pytest.mark.slow
def test_an_export_is_imported_into_postgresql(postgres, tmp_path):
    copied("films.parquet", tmp_path)
    url = postgres.fresh()
    command("import", copied("people.jsonl", tmp_path), "--store", url, cwd=tmp_path)
    with recommender(url, tmp_path) as rec:
        assert {user: learned(rec, user) for user in reading.USERS} == STORE["learned"]
