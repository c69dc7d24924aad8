"""``thali run`` and ``thali sweep`` on your own tables."""

import os

import numpy as np
import polars as pl
import pytest
from running import thali_command
from typer.testing import CliRunner

from thali.cli.app import app
from thali.lab.runner import Store


@pytest.fixture
def folder(tmp_path):
    """Forty people who each choose some of thirty films in four genres, as CSV and as Parquet."""
    rng = np.random.default_rng(0)
    genres = ["crime", "comedy", "action", "drama"]
    items = pl.DataFrame(
        {
            "item": [f"film {at}" for at in range(30)],
            "topics": ["|".join(rng.choice(genres, size=2, replace=False)) for _ in range(30)],
        }
    )
    pairs = [(f"user {u}", f"film {e}") for u in range(40) for e in rng.choice(30, size=6, replace=False)]
    clicks = pl.DataFrame(pairs, schema=["user", "item"], orient="row").with_columns(
        value=pl.Series(rng.integers(1, 6, size=len(pairs)))
    )
    for name, table in (("items", items), ("clicks", clicks)):
        table.write_csv(tmp_path / f"{name}.csv")
        table.write_parquet(tmp_path / f"{name}.parquet")
    return tmp_path


TABLES = ("--interactions", "clicks.csv", "--items", "items.csv")
SMALL = ("--users", "4", "--splits", "2", "--steps", "20", "--workers", "1")


@pytest.mark.slow
def test_run_sweep_and_report_on_your_own_tables(folder):
    wide = {"env": os.environ | {"COLUMNS": "200"}, "cwd": folder}
    done = thali_command("run", "mine/first", *TABLES, *SMALL, "--at-least", "3", "--d", "3", "--K", "2", **wide)
    assert done.returncode == 0, done.stderr
    assert "clicks.csv: 240 interactions, " in done.stdout
    assert "mine/first: 4 people in 2 splits, 20 steps" in done.stdout
    rows = Store(folder / "results").rows()
    assert set(rows["experiment"]) == {"mine/first"}
    assert set(rows["list"].list.len()) == {2}
    assert all(user.startswith("user ") for user in rows["user"])
    parquet = [word.replace(".csv", ".parquet") for word in TABLES]
    again = thali_command("run", "mine/first", *parquet, *SMALL, "--at-least", "3", "--d", "3", "--K", "2", **wide)
    assert again.returncode == 0, again.stderr
    assert Store(folder / "results").rows().height == rows.height, "the same data give the same rows"
    swept = thali_command("sweep", "mine/second", *TABLES, *SMALL, "--alpha", "1,8", **wide)
    assert swept.returncode == 0, swept.stderr
    assert "Figure: results/sweep/figures/mine-second-sweep.svg" in swept.stdout
    reported = thali_command("report", "results", **wide)
    assert "4 figures" in reported.stdout, reported.stderr
    assert '<section id="mine">' in (folder / "results" / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("mine/first",), "to use your own tables, add --interactions and --items"),
        (("mine/first", "--interactions", "clicks.csv"), "--interactions needs --items, a table with the topics"),
        (("synthetic/20k", "--K", "3"), "--K can only be used with --interactions, got it without"),
        (("synthetic/20k", "--items", "items.csv"), "--items can only be used with --interactions, got it without"),
        (("movielens/mine", *TABLES), "name must have a suite of your own before the slash, such as mine/first, got"),
        (("mine", *TABLES), "name of an experiment must be suite/experiment"),
        (("mine/first", *TABLES, "--data", "x"), "--data can only be used without --interactions, got x"),
        (("mine/first", *TABLES, "--d", "9"), "d of top_topics must be at most the number of topics (4), got 9"),
        (("mine/first", *TABLES, "--users", "200"), "users of mine/first must be at most 20 per split, got 40"),
        (
            ("mine/first", *TABLES, "--at-least", "9"),
            "clicks.csv must contain an interaction with a value of at least 9",
        ),
    ],
)
def test_wrong_options_are_one_sentence(words, said, folder, monkeypatch):
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, ["run", *words, "--workers", "1"])
    assert isinstance(done.exception, ValueError)
    assert said in str(done.exception)
    assert not list(folder.rglob("rows"))
