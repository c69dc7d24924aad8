"""Logs of shown lists: what they hold, against plain Python; the files they are read from; and what is refused."""

import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thali
from thali.datasets import Log, ranklens
from thali.datasets.log_arrays import EXAMINED
from thali.policies.examined import RULES, examined

DATA = Path(os.environ.get("THALI_DATA") or Path(__file__).parents[3] / "shared" / "data")
ITEMS = ["a", "b", "c", "d", "e", "f"]
TOPICS = {"a": ["x"], "c": ["x", "y"], "g": ["y"]}


@st.composite
def rows(draw):
    """Rows of Log.of. Some have no time, and some no answer."""
    found = []
    for _ in range(draw(st.integers(0, 8))):
        items = draw(st.permutations(ITEMS))[: draw(st.integers(1, 5))]
        clicked = draw(st.none() | st.sets(st.integers(0, len(items) - 1)).map(sorted))
        found.append((draw(st.sampled_from("uvw")), items, clicked, draw(st.none() | st.sampled_from([1.0, 2.0, 3.5]))))
    return found


def answered(rows):
    """The rows with an answer, ordered by user and time; without a time last; else in their order."""
    return sorted((row for row in rows if row[2] is not None), key=lambda row: (row[0], row[3] is None, row[3] or 0.0))


def contents(log):
    """The lists of a log as rows of Log.of."""
    return [
        (
            log.users[shown.user],
            [log.items[e] for e in shown.items],
            np.flatnonzero(shown.clicked).tolist(),
            None if np.isnan(shown.time) else shown.time,
        )
        for shown in log
    ]


def looked(items, clicked, rule):
    """How many positions were examined."""
    if not clicked or rule == "all":
        return len(items)
    return (min(clicked) if rule == "first-click" else max(clicked)) + 1


@settings(max_examples=50)
@given(rows(), st.sampled_from(EXAMINED))
def test_a_log_holds_what_it_was_given(given_rows, rule):
    log, expected = Log.of(given_rows, TOPICS, examined=rule), answered(given_rows)
    assert contents(log) == expected
    assert (len(log), log.unanswered) == (len(expected), len(given_rows) - len(expected))
    assert log.users == tuple(sorted({row[0] for row in expected}))
    assert log.items == tuple(sorted({*TOPICS, *(e for row in expected for e in row[1])}))
    pairs = [(u, e, k in clicked) for u, items, clicked, _ in expected for k, e in enumerate(items)]
    within_reach = [k < looked(items, clicked, rule) for _, items, clicked, _ in expected for k in range(len(items))]
    found = log.pairs()
    assert [
        (log.users[u], log.items[e], c) for u, e, c in zip(found.user, found.item, found.clicked.tolist(), strict=True)
    ] == [pair for pair, seen in zip(pairs, within_reach, strict=True) if seen]
    liked = log.interactions()
    assert (liked.users, liked.items, liked.topics) == (log.users, log.items, ("x", "y"))
    assert {(liked.users[u], liked.items[e]) for u, e in zip(liked.user, liked.item, strict=True)} == {
        (u, e) for u, e, clicked in pairs if clicked
    }
    assert (liked.repeated(), set(liked.value) <= {1.0}) == (None, True)
    last = {}
    for user, items, clicked, time in expected:  # ordered by time; those without a time come last and change nothing
        last |= {(user, items[k]): time for k in clicked if time is not None or (user, items[k]) not in last}
    if any(row[3] is not None for row in expected):
        times = [None if np.isnan(time) else time for time in liked.time]
        found = zip(liked.user, liked.item, times, strict=True)
        assert {(liked.users[u], liked.items[e]): time for u, e, time in found} == last
    else:
        assert liked.time is None
    assert {e: liked.topics_of(e) for e in liked.items} == {e: tuple(TOPICS.get(e, ())) for e in log.items}
    numbers = [[row[0] for row in expected[:n]].count(row[0]) for n, row in enumerate(expected)]
    assert log.number.tolist() == numbers


@settings(max_examples=50)
@given(rows(), st.sampled_from(EXAMINED), st.permutations([*ITEMS, "z"]), st.integers(1, 7))
def test_within_keeps_only_known_items_and_never_invents_an_examination(given_rows, rule, names, count):
    log, names = Log.of(given_rows, TOPICS, examined=rule), names[:count]
    known = log.within(names)
    expected, clicks = [], 0
    for user, items, clicked, time in answered(given_rows):
        seen = looked(items, clicked, rule)
        left = [k for k in clicked if items[k] in names and (rule != "first-click" or k < seen)]
        end = len(items) if left or rule == "all" else seen
        kept = [k for k in range(end) if items[k] in names]
        clicks += len(clicked) - len(set(kept) & set(clicked))
        if kept:
            expected.append((user, [items[k] for k in kept], [n for n, k in enumerate(kept) if k in clicked], time))
    assert contents(known) == expected
    assert (known.items, known.users, known.topics) == (tuple(names), log.users, log.topics)
    before, after = (
        {(ls.users[u], ls.items[e], bool(c)) for u, e, c in zip(*ls.pairs(), strict=True)} for ls in (log, known)
    )
    assert after <= before
    unknown = [e for e in log.items if e not in names and e in {x for row in answered(given_rows) for x in row[1]}]
    dropped = known.dropped
    assert (dropped.items, dropped.names, dropped.clicks) == (len(unknown), tuple(unknown), clicks)
    assert (dropped.positions, dropped.lists) == (len(log.item) - len(known.item), len(log) - len(known))
    topics = known.interactions()
    for name in names:
        assert topics.topics_of(name) == tuple(TOPICS.get(name, ()))


@settings(max_examples=50)
@given(rows(), st.integers(0, 3))
def test_users_are_split_and_taken_with_all_their_lists(given_rows, seed):
    log = Log.of(given_rows, TOPICS)
    halves = log.split_users(seed)
    assert sorted(name for half in halves for name in half.users) == list(log.users)
    assert [len(half.users) for half in halves] == [len(log.users) // 2, (len(log.users) + 1) // 2]
    for half in halves:
        assert contents(half) == [row for row in contents(log) if row[0] in half.users]
        assert (half.items, half.topics) == (log.items, log.topics)
    backwards = log.take_users(range(len(log.users))[::-1])
    assert backwards.users == log.users[::-1]
    assert contents(backwards) == [row for name in backwards.users for row in contents(log) if row[0] == name]


def test_the_same_users_are_in_each_half_as_for_interactions():
    log = Log.of([(u, ["a", "b"], [0]) for u in range(9)])
    assert [half.users for half in log.split_users(3)] == [half.users for half in log.interactions().split_users(3)]


@pytest.mark.parametrize("clicks", [[0, 0, 0], [0, 1, 1], [1, 0, 0]])
def test_policies_and_logs_mean_the_same_by_examined(clicks):
    assert set(EXAMINED) == set(RULES)
    for rule, code in RULES.items():
        log = Log.of([("u", ["a", "b", "c"], np.flatnonzero(clicks))], examined=rule)
        assert len(log.pairs().item) == examined(np.array(clicks, dtype=bool), code)


def test_a_log_cannot_be_changed():
    log = Log.of([("u", ["a"], [0])], TOPICS)
    for array in (log.user, log.start, log.item, log.clicked, log.time, log.membership.data):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_numbers_and_their_text_can_name_the_same_item():
    log = Log.of([("u", [7, 8], [0])])
    assert contents(log.within(["8", "7"])) == [("u", ["7", "8"], [0], None)]
    both = Log.of([("u", [7, "7"], [0])], examined="all")  # a name that is exactly equal comes first
    assert contents(both.within(["7"])) == [("u", ["7"], [], None)]
    assert both.within([7, "7"]).dropped.items == 0


ARRAYS = {
    "user": [0, 1],
    "start": [0, 2, 3],
    "item": [0, 1, 1],
    "clicked": [True, False, False],
    "time": [np.nan, 2.0],
    "membership": np.ones((2, 1), dtype=bool),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"user": [0, 2]}, "user of Log must be numbers from 0 to 1, got 2"),
        ({"user": [0.0, 1.0]}, "user of Log must be an array of whole numbers"),
        ({"item": [0, -1, 1]}, "item of Log must be numbers from 0 to 1, got -1"),
        ({"item": [0, 0, 1]}, "item of Log must not repeat an item in a list, got 0 twice"),
        ({"start": [0, 3, 3]}, "start of Log must .* leave no list empty"),
        ({"start": [0, 2, 4]}, "start of Log must"),
        ({"start": [0, 3]}, "start of Log must"),
        ({"clicked": [1, 0, 0]}, "clicked of Log must be an array of booleans"),
        ({"clicked": [True, False]}, "clicked of Log must have shape"),
        ({"time": [1.0, np.inf]}, "time of Log must"),
        ({"time": [1.0]}, "time of Log must"),
        ({"membership": np.ones((1, 1), dtype=bool)}, "membership of Log must have shape"),
        ({"examined": "some"}, "examined of Log must be one of 'first-click', 'last-click', 'all', got 'some'"),
    ],
)
def test_arrays_that_are_no_log_are_refused(changes, message):
    assert len(Log("uv", "ab", "x", **ARRAYS)) == 2
    with pytest.raises((ValueError, TypeError), match=message):
        Log("uv", "ab", "x", **{**ARRAYS, **changes})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("u", ["a"]), "rows of Log.of must be tuples"),
        ((["u"], ["a"], []), "with a hashable user"),
        (("u", "abc", []), "items must be a sequence"),
        (("u", [], []), "items must contain at least one item"),
        (("u", ["a", "b", "a"], []), "items must not contain an item twice, got 'a' twice"),
        (("u", [["a"]], []), "items must be hashable"),
        (("u", ["a"], [1]), "row 1: clicked must be a whole number from 0 to 0, got 1"),
        (("u", ["a"], [-1]), "clicked must be"),
        (("u", ["a"], [True]), "clicked must be"),
        (("u", ["a", "b"], [1, 1]), "clicked must not contain a position twice"),
        (("u", ["a"], [0], np.inf), "time must be"),
        (("u", ["a"], [0], "now"), "time must be"),
    ],
)
def test_rows_that_are_no_list_are_refused(row, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Log.of([("v", ["a"], []), row])


def test_users_and_items_that_do_not_exist_are_refused():
    log = Log.of([("u", ["a"], [0])])
    for bad, message in (
        ([1], "from 0 to 0, got 1"),
        ([0, 0], "got 0 twice"),
        ([True], "whole number"),
        (0, "sequence"),
    ):
        with pytest.raises((ValueError, TypeError), match=f"numbers of take_users must .*{message}"):
            log.take_users(bad)
    for bad in ("a", ["a", "a"]):
        with pytest.raises((ValueError, TypeError), match="items of within must"):
            log.within(bad)
    with pytest.raises(IndexError):
        log[1]


# Files

REPLAY = [
    {"user": "bob", "items": ["Heat", "Fargo"], "clicked": [1], "time": 1730000000.5},
    {"user": "ana", "items": ["Fargo"], "clicked": [], "learner": "default"},
    {"user": "ana", "items": ["Heat"], "clicked": None},
    {"user": "bob", "items": ["Ronin", "Heat"], "clicked": [0, 1], "time": 5},
]
EVENTS = [
    {
        "event": "item",
        "item": "3",
        "fields": [{"name": "title", "value": "Heat"}, {"name": "genres", "value": ["crime"]}],
    },
    {"event": "user", "user": "ana"},
    {"event": "ranking", "id": "r2", "user": "bob", "timestamp": "1730000000500", "items": [{"id": "3"}, {"id": "10"}]},
    {"event": "interaction", "ranking": "r2", "item": "10", "type": "like"},
    {"event": "interaction", "ranking": "r1", "item": "10"},
    {"event": "ranking", "id": "r1", "user": "bob", "timestamp": 5000, "items": [{"id": "10"}, {"id": 3}, {"id": "4"}]},
    {"event": "interaction", "ranking": "r1", "item": "3"},
    {"event": "interaction", "ranking": "r1", "item": "3"},
    {"event": "item", "item": "4", "fields": [{"name": "genres", "value": "war"}, {"name": "tags", "value": ["old"]}]},
]


def write(path, lines):
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz"])
def test_the_log_of_a_replay_is_read(tmp_path, name):
    log = Log.read(write(tmp_path / name, ["", *REPLAY, ""]), examined="last-click")
    assert contents(log) == [
        ("ana", ["Fargo"], [], None),
        ("bob", ["Ronin", "Heat"], [0, 1], 5.0),
        ("bob", ["Heat", "Fargo"], [1], 1730000000.5),
    ]
    assert (log.unanswered, log.examined, log.topics, log.titles) == (1, "last-click", (), {})


def test_topics_come_from_a_table_and_unlisted_items_are_kept(tmp_path):
    table = write(tmp_path / "films.csv", ["item,topics", "Heat,crime;90s", "Alien,horror"])
    log = Log.read(write(tmp_path / "log.jsonl", REPLAY), table, separator=";")
    data = log.interactions()
    assert {e: data.topics_of(e) for e in log.items} == {
        "Alien": ("horror",),
        "Fargo": (),
        "Heat": ("90s", "crime"),
        "Ronin": (),
    }


@pytest.mark.parametrize("name", ["events.jsonl", "events.jsonl.gz"])
def test_events_of_metarank_are_read_in_any_order(tmp_path, name):
    log = Log.read(write(tmp_path / name, EVENTS))
    assert contents(log) == [("bob", [10, 3, 4], [0, 1], 5.0), ("bob", [3, 10], [1], 1730000000.5)]
    assert (log.items, log.topics, log.titles) == ((3, 4, 10), ("crime", "war"), {3: "Heat"})
    assert log.membership.toarray().tolist() == [[True, False], [False, True], [False, False]]
    assert Log.read(tmp_path / name, topics="tags").topics == ("old",)
    assert log.within([10, "3"]).titles == {"3": "Heat"}


def replaced(lines, at, **fields):
    """The lines with some fields of one of them replaced, or removed if they are ``...``."""
    line = {name: value for name, value in {**lines[at], **fields}.items() if value is not ...}
    return [*lines[:at], line, *lines[at + 1 :]]


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        ([*REPLAY, "{"], 5, "must be valid JSON"),
        ([*REPLAY, "[1]"], 5, "must be a JSON object"),
        ([*REPLAY, "[" * 100_000], 5, "must be valid JSON"),
        (replaced(REPLAY, 1, clicked=...), 2, "must have the fields user, items and clicked"),
        (replaced(REPLAY, 1, tme=3), 2, "must have the fields user, items and clicked"),
        (replaced(REPLAY, 1, clicked=[1]), 2, "clicked must be a whole number from 0 to 0, got 1"),
        (replaced(REPLAY, 1, clicked=["Fargo"]), 2, "clicked must be a whole number from 0 to 0"),
        (replaced(REPLAY, 1, clicked=0), 2, "clicked must be a sequence"),
        (replaced(REPLAY, 2, items=["Heat", "Heat"]), 3, "items must not contain an item twice, got 'Heat'"),
        (replaced(REPLAY, 1, items=[]), 2, "at least one item"),
        (replaced(REPLAY, 1, items="Heat"), 2, "items must be a sequence"),
        (replaced(REPLAY, 1, items=[["Heat"]]), 2, "an item must be text"),
        (replaced(REPLAY, 1, user=""), 2, "user must be text"),
        (replaced(REPLAY, 1, user=None), 2, "user must be text"),
        (replaced(REPLAY, 1, time="noon"), 2, "time must be"),
        (replaced(REPLAY, 1, time=float("nan")), 2, "time must be"),
        (replaced(REPLAY, 1, time=10**400), 2, "time must be"),
        (replaced(EVENTS, 3, ranking="r3"), 4, "ranking must be the id of a ranking, got 'r3'"),
        (replaced(EVENTS, 3, item="4"), 4, "item must be in the list that was shown as ranking 'r2', got '4'"),
        (replaced(EVENTS, 3, item=...), 4, "must have a field item"),
        (replaced(EVENTS, 5, id="r2"), 6, "id must be different for each ranking"),
        (replaced(EVENTS, 5, user=...), 6, "must have a field user"),
        (replaced(EVENTS, 5, items=[{"id": "3"}, {"id": 3}]), 6, "items must not contain an item twice, got '3'"),
        (replaced(EVENTS, 5, items=["3"]), 6, "must have a field id"),
        (replaced(EVENTS, 5, items={}), 6, "items must be a list"),
        (replaced(EVENTS, 5, timestamp="today"), 6, "timestamp must be a whole number of milliseconds"),
        (replaced(EVENTS, 5, timestamp=10**400), 6, "timestamp must be a whole number of milliseconds"),
        (replaced(EVENTS, 5, event="rank"), 6, "event must be 'item', 'ranking', 'interaction' or 'user', got 'rank'"),
        (replaced(EVENTS, 8, fields=[{"name": "genres", "value": [1]}]), 9, "field genres of an item must be text"),
        (replaced(EVENTS, 8, fields=["genres"]), 9, "must have a field name"),
        ([*EVENTS, REPLAY[0]], 10, "event must be"),
        ([*REPLAY, EVENTS[0]], 5, "must have the fields user, items and clicked"),
    ],
)
def test_an_error_names_the_file_and_the_line(tmp_path, lines, line, message):
    path = write(tmp_path / "log.jsonl", lines)
    with pytest.raises(ValueError, match=f"line {line}: .*{re.escape(message)}") as caught:
        Log.read(path)
    assert str(caught.value).startswith(str(path))


def test_files_that_are_no_log_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.jsonl must be an existing file"):
        Log.read(tmp_path / "nothing.jsonl")
    with pytest.raises(ValueError, match=r"log\.jsonl is empty"):
        Log.read(write(tmp_path / "log.jsonl", ["", ""]))
    whole = write(tmp_path / "log.gz", EVENTS).read_bytes()
    (tmp_path / "log.gz").write_bytes(whole[:-20])
    with pytest.raises(ValueError, match=r"log\.gz must be a complete gzip file"):
        Log.read(tmp_path / "log.gz")
    (tmp_path / "latin").write_bytes('{"user": "José"}'.encode("latin-1"))
    with pytest.raises(ValueError, match="line 1: the line must be valid JSON"):
        Log.read(tmp_path / "latin")


def test_ranklens_is_found_in_its_folder_or_as_a_file(tmp_path, monkeypatch):
    (tmp_path / "ranklens").mkdir()
    path = write(tmp_path / "ranklens" / "events.jsonl.gz", EVENTS)
    monkeypatch.setenv("THALI_DATA", str(tmp_path))
    for root in (None, tmp_path, path.parent, path):
        log = ranklens(root)
        assert (len(log), log.examined) == (2, "all")
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"must contain events\.jsonl\.gz or events\.jsonl"):
        ranklens(tmp_path)
    monkeypatch.setenv("THALI_CACHE", str(tmp_path / "cache"))
    path.parent.rmdir()
    with pytest.raises(FileNotFoundError, match="thali cannot download it: get it from https://github.com/metarank"):
        ranklens()


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "ranklens").is_dir(), reason="RankLens is not here")
def test_ranklens_as_published():
    log = thali.datasets.ranklens(DATA)
    assert len(log.topics) == 19
    assert set(log.lengths) == {24}
    assert len(log.titles) > 2000
    assert log.titles[296] == "Pulp Fiction"
    assert np.bincount(log.number).argmax() == 0
