"""Replays of logs with items that the catalog does not have any more."""

import json

import numpy as np
import pytest
from recommending import SIGMA, K, assert_same, films, learned, recommender
from typer.testing import CliRunner

import thali
from thali.cli.app import app
from thali.service.recommender.operations import AddPast
from thali.service.recommender.replay import Replayed, replay, shorten

GONE = {"Heat", "7"}


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def plain(items, clicked, rule):
    """Return the list and clicks that are left: a plain transcription of the rule."""
    kept, clicks = [], None if clicked is None else []
    for k, item in enumerate(items):
        if str(item) in GONE:
            if clicked is not None and k in clicked and rule != "all":
                break
            continue
        if clicked is not None and k in clicked:
            clicks.append(len(kept))
        kept.append(item)
    return kept, clicks


def random_lines(count, seed=0):
    rng = np.random.default_rng(seed)
    names = [*(f"film {e}" for e in range(6)), "Heat", 7]
    lines = []
    for n in range(count):
        size = int(rng.integers(1, 6))
        items = [names[e] for e in rng.choice(len(names), size, replace=False)]
        clicked = None if n % 10 == 9 else sorted(rng.choice(size, rng.integers(0, size + 1), replace=False).tolist())
        lines.append({"user": f"u{n % 4}", "items": items, "clicked": clicked})
    return lines


@pytest.mark.parametrize("rule", ["first-click", "last-click", "all"])
def test_a_line_is_learned_as_if_its_list_never_had_the_missing_items(tmp_path, rule):
    lines = random_lines(600)
    direct = [dict(line) for line in lines]
    for line in direct:
        line["items"], line["clicked"] = plain(line["items"], line["clicked"], rule)
    left = [line for line in direct if line["items"]]
    log, short = write(tmp_path / "log.jsonl", lines), write(tmp_path / "short.jsonl", left)
    kind = thali.LSBGreedy if rule == "all" else thali.CascadeLSB

    def policy():
        return kind(films(), K, sigma=SIGMA, examined=rule)

    with (
        thali.Recommender(policy(), f"sqlite:///{tmp_path}/a.db") as rec,
        thali.Recommender(policy(), f"sqlite:///{tmp_path}/b.db") as to,
    ):
        done, direct_done = replay(rec, log), replay(to, short)
        assert direct_done == Replayed(len(left), 0)
        assert (done.learned, done.skipped) == (len(left), len(lines) - len(left))
        has_gone = [bool(GONE & set(map(str, line["items"]))) for line in lines]
        assert done.shortened == sum(gone and bool(at["items"]) for gone, at in zip(has_gone, direct, strict=True))
        assert done.missing == {
            name: sum(name in map(str, line["items"]) for line in lines) for name in sorted(GONE, reverse=True)
        }
        for user in range(4):
            assert_same(learned(rec, f"u{user}"), learned(to, f"u{user}"))
            assert rec.user(f"u{user}").impressions == to.user(f"u{user}").impressions
        assert replay(rec, log)[:2] == (0, 600)


@pytest.mark.parametrize(
    ("items", "clicked", "left"),
    [
        (["film 1", "Heat", "film 2"], [2], (["film 1", "film 2"], [1])),
        (["film 1", "Heat", "film 2"], [1], (["film 1"], [])),
        (["film 1", "Heat", "film 2"], [0, 1, 2], (["film 1"], [0])),
        (["film 1", "Heat", "film 2"], [2, 1], (["film 1"], [])),
        (["film 1", "Heat", "film 2"], [], (["film 1", "film 2"], [])),
        (["film 1", "Heat", "film 2"], None, (["film 1", "film 2"], None)),
        (["Heat", "film 2"], [0], None),
        (["Heat"], [], None),
    ],
)
def test_what_is_left_of_a_list(tmp_path, items, clicked, left):
    with recommender(f"sqlite:///{tmp_path}/s.db") as rec:
        past, missing = shorten(rec, AddPast("ana", items, clicked))
        assert missing == ("Heat",)
        assert (None if past is None else (past.items, past.clicked)) == left


def test_an_item_that_another_process_removes_during_a_replay_does_not_break_it(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    lines = [{"user": "ana", "items": ["film 1", "film 2"], "clicked": [1]} for _ in range(600)]
    log = write(tmp_path / "log.jsonl", lines)
    with recommender(url) as rec, recommender(url) as other:
        removed = []

        def remove(_):
            if not removed:
                removed.append(other.remove_item("film 1"))

        done = replay(rec, log, remove)
        assert done == Replayed(600, 0, 350, 0, {"film 1": 350})
        assert rec.user("ana").impressions == 600
        shown = rec.history("ana", limit=1)[0]
        assert ([item.item for item in shown.items], shown.clicked) == (["film 2"], [0])


def test_a_page_with_nothing_left_is_skipped_and_not_read_again(tmp_path):
    lines = [{"user": "ana", "items": ["Heat"], "clicked": [0]}] * 300
    log = write(tmp_path / "log.jsonl", lines)
    with recommender(f"sqlite:///{tmp_path}/s.db") as rec:
        assert replay(rec, log) == Replayed(0, 0, 0, 300, {"Heat": 300})
        assert replay(rec, log) == Replayed(0, 300)


def test_the_command_says_what_was_left_out(tmp_path):
    thali.save_catalog(films(), tmp_path / "films.parquet")
    gone = [{"user": "ana", "items": [f"gone {n}", "film 1"], "clicked": [0 if n < 2 else 1]} for n in range(7)]
    log = write(tmp_path / "log.jsonl", [*gone, gone[3]])
    words = ["--store", f"sqlite:///{tmp_path}/s.db", "--catalog", str(tmp_path / "films.parquet")]
    done = CliRunner().invoke(app, ["replay", str(log), *words])
    assert done.stdout.lstrip() == (
        f"Learned from 6 lists in {log}. 8 positions with 7 items that are not in the catalog were left out: "
        "'gone 3' (2), 'gone 0' (1), 'gone 1' (1), 'gone 2' (1), 'gone 4' (1) and 2 more. "
        "6 lists became shorter, and 2 had nothing left.\n"
    )
