"""``thali first-lists`` by likes and by real lists: published data, your own tables and your own logs."""

import json
from contextlib import nullcontext

import numpy as np
import pytest
from publisher import write_movielens
from running import Inline, assert_refused, thali_command, thali_here

import thali
from thali.lab import runner
from thali.lab.likes import needs_topics
from thali.lab.next_list import next_lists
from thali.lab.runner import Store
from thali.lab.settings import LISTS_POLICIES, likes, lists
from thali.lab.sources import LOGS, SOURCES

MINE = "import thali\n\n\nclass CascadeMine(thali.CascadeLSB):\n    pass\n"
#: The policies of the experiments, and those of them that need no topics.
BY_LIKES, BY_LISTS = set(likes("movielens").policies), set(LISTS_POLICIES)
FEW_BY_LIKES, FEW_BY_LISTS = ({name for name in some if not needs_topics(name)} for some in (BY_LIKES, BY_LISTS))
SMALL = ("--users", "2", "--splits", "1", "--out", "results", "--workers", "1")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(write_movielens(tmp_path_factory.mktemp("data")))


def events(people, seed):
    """Lists of 5 films in Metarank's format, as in RankLens."""
    rng = np.random.default_rng(seed)
    lines = [
        {"event": "item", "item": f"{e}", "fields": [{"name": "genres", "value": [f"genre {e % 3}"]}]}
        for e in range(20)
    ]
    for user in people:
        for n in range(3):
            shown, ranking = rng.permutation(20)[:5], f"{user} {n}"
            lines.append(
                {
                    "event": "ranking",
                    "id": ranking,
                    "timestamp": f"{n}",
                    "user": user,
                    "session": user,
                    "items": [{"id": f"{e}"} for e in shown],
                }
            )
            lines += [
                {
                    "event": "interaction",
                    "id": f"{ranking} {e}",
                    "ranking": ranking,
                    "timestamp": f"{n}",
                    "user": user,
                    "session": user,
                    "type": "click",
                    "item": f"{e}",
                }
                for e in shown
                if rng.random() < 0.2 + 0.5 * (e % 3 == 0)
            ]
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table of likes, a table of items, logs and a policy. Tasks run in this process."""
    rng = np.random.default_rng(0)
    pairs = [(u, e) for u in range(24) for e in range(50) if rng.random() < 0.3]
    rows = [f"user {u},film {e},{rng.integers(1, 6)}" for u, e in pairs]
    (tmp_path / "likes.csv").write_text("\n".join(["user,item,value", *rows]) + "\n")
    films = [f"film {e},{'crime' if e % 2 else 'crime|comedy'}" for e in range(50)]
    (tmp_path / "items.csv").write_text("\n".join(["item,topics", *films]) + "\n")
    for name, first, people in (("log", 0, 16), ("test", 16, 5)):
        lines = []
        for u in range(first, first + people):
            for n in range(3):
                shown = rng.permutation(50)[:6]
                clicked = np.flatnonzero(rng.random(6) < 0.4).tolist()
                line = {"user": f"user {u}", "items": [f"film {e}" for e in shown], "clicked": clicked, "time": n}
                lines.append(json.dumps(line) + "\n")
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    (tmp_path / "ranklens").mkdir()
    (tmp_path / "ranklens" / "events.jsonl").write_text(events([f"r{at}" for at in range(12)], 1))
    (tmp_path / "more.jsonl").write_text(events([f"new {at}" for at in range(4)], 2))
    (tmp_path / "mine_of_first_lists.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(runner, "processes", lambda workers: nullcontext(Inline()))
    before = dict(thali.POLICIES), dict(SOURCES), dict(LOGS)
    yield tmp_path
    for kept, found in zip(before, (thali.POLICIES, SOURCES, LOGS), strict=True):
        found.clear()
        found.update(kept)


def first_lists(folder, *words):
    """Run the command; return the rows and the tables that it wrote."""
    done = thali_here("first-lists", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    written = (folder / "results" / "first-lists.md").read_text()
    for line in written.splitlines():
        if line.startswith("| ") and not line.startswith(("| policy", "| ---")):
            assert line.split(" | ")[0].removeprefix("| ") in done.stdout
    return Store(folder / "results").rows(), written, done.stdout


@pytest.mark.slow
def test_by_likes_on_a_published_data_set(data, folder):
    own = "mine_of_first_lists:CascadeMine"
    words = ("movielens", "--data", data, "--steps", "3", "--K", "4", "--policy", own, *SMALL)
    rows, written, said = first_lists(folder, *words)
    assert set(rows["experiment"]) == {"likes/movielens-K4"}
    assert set(rows["policy"]) == BY_LIKES | {own}
    assert rows.group_by("policy").len()["len"].unique().to_list() == [2 * 3]
    mine, default = (rows.filter(policy=name)["list"].to_list() for name in (own, "CascadeLSB"))
    assert mine == default, "your own policy has the catalog of CascadeLSB"
    assert "MovieLens 1M (2 people in 1 split, 3 steps). Share of lists with a click, in percent" in written
    for name in ("likes.svg", "likes-movielens-K4-parts.svg"):
        assert (folder / "results" / "figures" / name).exists()
        assert name in said


def test_by_likes_on_your_own_table_without_topics(folder):
    rows, written, _ = first_lists(folder, "--interactions", "likes.csv", *SMALL)
    assert set(rows["policy"]) == FEW_BY_LIKES
    assert rows["step"].max() == 5, "there are 50 items for lists of 10, and nothing is shown twice"
    assert written.startswith("likes.csv (2 people in 1 split, 5 steps). Share of lists with a click")


def test_by_likes_on_your_own_tables(folder):
    tables = ("--interactions", "likes.csv", "--items", "items.csv", "--at-least", "4")
    rows, *_ = first_lists(folder, *tables, "--steps", "2", "--K", "3", *SMALL)
    assert set(rows["policy"]) == BY_LIKES
    liked = thali.datasets.tables(folder / "likes.csv").attracted(4)
    for user, most in rows.filter(step=2).select("user", "oracle_clicks").iter_rows():
        assert most == min(2, int((liked.user == liked.users.index(user)).sum()))


@pytest.mark.slow
def test_your_own_people_are_held_out_in_five_splits_by_default(folder):
    rows, written, _ = first_lists(folder, "--interactions", "likes.csv", "--out", "results")
    assert rows["user"].n_unique() == 12, "half of them"
    assert "(12 people in 5 splits, 5 steps)" in written


def test_by_the_model_on_your_own_tables(folder):
    rows, *_ = first_lists(
        folder,
        "--interactions",
        "likes.csv",
        "--items",
        "items.csv",
        "--by",
        "model",
        "--steps",
        "5",
        "--K",
        "3",
        *SMALL,
    )
    assert set(rows["experiment"]) == {"first-lists/own-tables-d2-K3"}, "all topics, because there are fewer than 10"


def test_by_your_own_log(folder):
    rows, written, _ = first_lists(folder, "--log", "log.jsonl", "--steps", "3", "--splits", "2", "--out", "results")
    assert set(rows["policy"]) == FEW_BY_LISTS
    assert rows["user"].n_unique() == 16
    assert "log.jsonl (16 people in 2 splits). AUC of the next list" in written
    own = "mine_of_first_lists:CascadeMine"
    words = ("--log", "log.jsonl", "--items", "items.csv", "--test", "test.jsonl", "--policy", own, "--out", "results")
    rows, written, _ = first_lists(folder, *words)
    assert "log.jsonl (5 people in 1 split). AUC of the next list" in written
    rows = rows.filter(scale="5 people in 1 splits x 5 steps")
    assert set(rows["policy"]) == BY_LISTS | {own}
    assert set(rows["user"]) == {f"user {at}" for at in range(16, 21)}


def test_ranklens_with_people_who_are_held_out_and_with_other_people(folder):
    words = ("ranklens", "--data", ".", "--steps", "3", "--out", "results")
    rows, *_ = first_lists(folder, *words, "--test", "more.jsonl")
    assert set(rows["user"]) == {f"new {at}" for at in range(4)}
    known, test = thali.datasets.ranklens(folder), thali.datasets.ranklens(folder / "more.jsonl")
    start = thali.fit(known)
    expected = next_lists(thali.LSBGreedy(start.catalog, 1, prior=start.prior), test, (0, 1, 2))
    found = rows.filter(policy="Fit").sort("user", "step")["auc"].to_numpy().reshape(4, 3)
    np.testing.assert_array_equal(found, expected.auc)
    _, written, _ = first_lists(folder, *words, "--users", "6", "--splits", "2")
    assert "RankLens (6 people in 2 splits). AUC" in written, "not the people of the last command"
    assert set(lists("ranklens", 6).policies) == BY_LISTS


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "first-lists needs a SOURCE, --interactions or --log, got none of them"),
        (("films",), "source must be one of movielens, "),
        (("movielens", "--test", "test.jsonl"), "--test can only be used with ranklens or --log, got movielens"),
        (("--interactions", "likes.csv", "--test", "test.jsonl"), "--test can only be used with ranklens or --log"),
        (("movielens", "--at-least", "3"), "--at-least can only be used with --interactions"),
        (("movielens", "--items", "items.csv"), "--items can only be used with --interactions or --log"),
        (("--interactions", "nowhere.csv"), "nowhere.csv"),
        (
            ("--interactions", "likes.csv", "--users", "24"),
            "users must be fewer than the people with a like (24), got 24",
        ),
        (("--interactions", "likes.csv", "--steps", "6"), "steps of likes/own-tables-K10 must be at most 5, because"),
        (("--interactions", "likes.csv", "--K", "51"), "steps of likes/own-tables-K51 must be at most 0, because"),
        (("--interactions", "likes.csv", "--at-least", "9"), "got 5"),
        (("--interactions", "likes.csv", "--by", "model", "--users", "2"), "topics"),
        (
            ("--log", "log.jsonl", "--test", "test.jsonl", "--users", "3"),
            "--users and --splits cannot be used with --test",
        ),
        (("--log", "log.jsonl", "--users", "17"), "users of lists/own-log must be at most the number of people"),
        (("--log", "log.jsonl", "--test", "log.jsonl"), "at least one like"),
        (("--log", "likes.csv"), "likes.csv"),
    ],
)
def test_a_wrong_command_is_one_sentence(words, said, folder):
    assert_refused("first-lists", *words, said=said, folder=folder)


@pytest.mark.slow
def test_workers_import_your_own_policy(data, folder):
    own = "mine_of_first_lists:CascadeMine"
    words = ("first-lists", "movielens", "--data", data, "--steps", "2", "--K", "4", "--policy", own, *SMALL)
    done = thali_command(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert own in done.stdout
