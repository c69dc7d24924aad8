"""Write one small file of each kind that thali stores, and expected.json: what the same code reads from the files.

The files were written by the code of commit 4ae4de1. They are kept so that later versions can be tested on them: do
not write them again with later code. If thali gets a new kind of file, add it in a separate folder. To run this script
as it was run, use an environment with the dependencies of that commit, including lab, serve and dev:

    PYTHONPATH=<checkout of 4ae4de1>/src:tests python tests/compatibility/make_files.py

All data are generated, and are the same in every run. So are the files, except for the dates inside state files and
the random IDs in a store.
"""

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import reading
from postgres_server import PostgresServer
from reading import FILES, K, both_learners, command, copied, items, learned, recommender, sqlite

import thali

TOPICS = ("comedy", "crime", "drama", "horror")
#: The topics of the store's first catalog. The second catalog drops one, adds one, and changes the order.
FORMER_TOPICS = ("crime", "comedy", "drama", "music")
NAMES = ("Amélie", "七人の侍", 'M "1931", a/b | c', "5", *(f"film {e}" for e in range(4, 20)))
BEGIN = 1_700_000_000.0
HOUR, DAY = 3600.0, 86_400.0
STATE_USERS, STATE_STEPS, STATE_SEED = 3, 8, 11
#: For each state file, the class of the policy and its settings. The catalog is films.parquet, except for "-max".
STATES: dict[str, tuple[str, dict[str, Any]]] = {
    "CascadeLSB": ("CascadeLSB", {}),
    "CascadeLSB-max": ("CascadeLSB", {}),
    "CascadeLSB-last-click": ("CascadeLSB", {"examined": "last-click", "sigma": 0.3, "alpha": 2.5}),
    "CascadeLSB-discount": ("CascadeLSB", {"discount": 0.9}),
    "CascadeLSB-window": ("CascadeLSB", {"window": 5}),
    "CascadeLSB-sampling": ("CascadeLSB", {"explore": "sampling"}),
    "CascadeLSB-theory": ("CascadeLSB", {"alpha": "theory", "horizon": 1000}),
    "EpsilonGreedy": ("EpsilonGreedy", {"epsilon": 0.25}),
    "LSBGreedy": ("LSBGreedy", {}),
    "CascadeLinUCB": ("CascadeLinUCB", {"capped": True}),
    "C3UCB": ("C3UCB", {"position_discounts": [1.0, 0.75, 0.5]}),
    "CombLinUCB": ("CombLinUCB", {}),
    "CombLinTS": ("CombLinTS", {}),
    "CascadeKLUCB": ("CascadeKLUCB", {}),
    "DcmKLUCB": ("DcmKLUCB", {}),
    "CascadeUCB1": ("CascadeUCB1", {}),
    "CombCascade": ("CombCascade", {}),
    "CascadeTS": ("CascadeTS", {}),
    "PIE": ("PIE", {"place": 1}),
    "RankedBandits-ucb1": ("RankedBandits", {"base": "ucb1"}),
    "RankedBandits-kl-ucb": ("RankedBandits", {"base": "kl-ucb"}),
    "RankedBandits-exp3": ("RankedBandits", {"base": "exp3", "gamma": 0.2}),
    "IndependentBandits": ("IndependentBandits", {"base": "exp3", "horizon": 500}),
    "PreferencePerceptron": ("PreferencePerceptron", {}),
    "MostPopular": ("MostPopular", {}),
    "Random": ("Random", {}),
    "Oracle": ("Oracle", {"theta": [0.5, 0.25, 0.125, 0.125]}),
}
LOG = (
    {"user": "eva", "items": ["film 4", "film 9", "5"], "clicked": [1], "time": BEGIN + 10.0},
    {"user": "finn", "items": ["Amélie", "film 12"], "clicked": [], "time": BEGIN + 20.0, "learner": "diverse"},
    {"user": "eva", "items": ["七人の侍"], "clicked": None, "time": BEGIN + 30.0},
    {"user": "finn", "items": ["film 4", "film 5", "film 6"], "clicked": [0, 2], "time": BEGIN + 40},
)
#: The lines that are appended to the log later.
GROWTH = (
    {"user": "eva", "items": ["film 14", "film 15"], "clicked": [0], "time": BEGIN + 50.0},
    {"user": "gus", "items": ["film 16", "Amélie", "film 5"], "clicked": [2], "time": BEGIN + 60.0},
)
#: An experiment with simulated people, which needs no data set.
EXPERIMENT = ("theory/K4", "--users", 2, "--splits", 1, "--steps", 20, "--alpha", 8)
EXPERIMENT += ("--policies", "CascadeLSB,CascadeKLUCB")


class Clock:
    """A clock that advances only when :meth:`tick` is called."""

    now = BEGIN

    def __call__(self) -> float:
        """Return the current time."""
        return self.now

    def tick(self, seconds: float = 1.0) -> None:
        """Advance the clock."""
        self.now += seconds


def weights(L: int, d: int, seed: int) -> Any:
    """Random weights: about half of them are 0, and one item covers nothing."""
    rng = np.random.default_rng(seed)
    values = rng.random((L, d)) * (rng.random((L, d)) < 0.5)
    values[L // 2] = 0.0
    return values


def make_catalogs() -> dict[str, Any]:
    """Write two catalogs: one with text names; one with another coverage, numbers as names, and an item removed."""
    thali.save_catalog(thali.Catalog(weights(20, 4, 0), NAMES, TOPICS), FILES / "films.parquet")
    books = thali.Catalog(weights(12, 4, 1), range(100, 112), FORMER_TOPICS, coverage="max")
    books.remove(103)
    thali.save_catalog(books, FILES / "books.parquet")
    return {name: reading.read_catalog(FILES / name) for name in ("films.parquet", "books.parquet")}


def make_states() -> dict[str, Any]:
    """Write the state of some users after some updates, for each policy."""
    (FILES / "states").mkdir()
    expected = {}
    rng = np.random.default_rng(2)
    for name, (policy, settings) in STATES.items():
        entry: dict[str, Any] = {"policy": policy, "settings": settings, "seed": STATE_SEED}
        entry["catalog"] = "books.parquet" if name.endswith("-max") else "films.parquet"
        learner = reading.policy_of(entry, FILES)
        state = learner.init(STATE_USERS)
        for step in range(STATE_STEPS):
            lists = learner.recommend(state, step)
            learner.update(state, lists, rng.random(lists.shape) < 0.35)
        path = FILES / "states" / f"{name}.state"
        state.save(path)
        clicks = rng.random((STATE_USERS, K)) < 0.35
        clicks[0, 1] = True
        result = reading.read_state(path, learner, clicks, seed=STATE_SEED)
        assert result["arrays"] != result["updated"]
        expected[path.name] = {**entry, "clicks": clicks.tolist(), "found": result}
    return expected


def make_store(folder: Path) -> dict[str, Any]:
    """Write a store in which everything that can happen has happened. Return the IDs of some impressions."""
    clock, url = Clock(), sqlite(folder / "taste.sqlite")
    ids = first_days(url, clock)
    ids.update(later_days(url, clock))
    assert clock.now < reading.NOW - DAY
    write_log(FILES / "log.jsonl", LOG)
    write_log(FILES / "log-grown.jsonl", (*LOG, *GROWTH))
    command("replay", "log.jsonl", "--store", url, "--catalog", "films.parquet", cwd=FILES)
    return ids


def first_days(url: str, clock: Clock) -> dict[str, str]:
    """Use a first catalog with other topics and two learners. Change items, time out, undo, and forget a user."""
    catalog = thali.Catalog(weights(20, 4, 3), NAMES, FORMER_TOPICS)
    learners = {"diverse": reading.diverse(catalog), "plain": reading.plain(catalog)}
    shares = {"diverse": 0.7, "plain": 0.3}
    with thali.Recommender(learners, url, shares=shares, no_click_after=HOUR, clock=clock) as rec:
        for n, user in enumerate(("ana", "ben", "cleo", "dev", "Zoë 李", "hal") * 3):
            clock.tick(60.0)
            shown = rec.recommend(user, learner="plain" if n % 5 == 2 else "diverse")
            clock.tick(5.0)
            rec.feedback(shown.id, [[0], [], [2], [0, 1]][n % 4])
        timed_out, undone = rec.recommend("ben", learner="diverse"), rec.recommend("cleo", learner="plain")
        rec.put_item("Metropolis", {"drama": 0.75, "music": 0.1})
        rec.remove_item("film 4")
        rec.forget("hal")
        clock.tick(2 * HOUR)
        assert rec.tidy().timed_out == 2
        rec.undo(undone.id)
        clock.tick()
        return {
            "timed out": timed_out.id,
            "undone": undone.id,
            "open, retired": rec.recommend("ana", learner="plain").id,
        }


def later_days(url: str, clock: Clock) -> dict[str, str]:
    """Use the catalog with the current topics and one learner. Change items, answer and undo."""
    catalog = thali.load_catalog(FILES / "films.parquet")
    clock.tick(0.5 * DAY)
    with thali.Recommender({"diverse": reading.diverse(catalog)}, url, new_catalog=True, clock=clock) as rec:
        for n, user in enumerate(("ana", "ben", "cleo") * 3):
            clock.tick(1000.0)
            rec.feedback(rec.recommend(user, exclude=["film 17"]).id, [[1], [], [0]][n % 3 - n // 3])
        rec.put_item("Nosferatu", {"horror": 0.9, "drama": 0.3})
        rec.put_item("film 5", {"comedy": 0.2})
        rec.remove_item("film 7")
        answered = rec.recommend("ana")
        rec.feedback(answered.id, [1])
        undone = rec.recommend("ben", K=5, alpha=1.5)
        rec.feedback(undone.id, [3, 4])
        rec.undo(undone.id)
        clock.tick()
        return {"answered": answered.id, "undone, later": undone.id, "open": rec.recommend("ana", K=4).id}


def write_log(path: Path, lines: Any) -> None:
    """Write a log for ``thali replay``."""
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def after(ids: dict[str, str]) -> dict[str, Any]:
    """Return what is learned about users after feedback, undo and a replay, each on a copy of the store."""
    results: dict[str, Any] = {}
    for what, act, user in (
        ("feedback", lambda rec: rec.feedback(ids["open"], [2]), "ana"),
        ("feedback, retired", lambda rec: rec.feedback(ids["open, retired"], [0, 2]), "ana"),
        ("feedback after a time-out", lambda rec: rec.feedback(ids["timed out"], [1]), "ben"),
        ("undo", lambda rec: rec.undo(ids["answered"]), "ana"),
    ):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            copied("films.parquet", folder)
            with recommender(sqlite(copied("taste.sqlite", folder)), folder) as rec:
                act(rec)
                results[what] = {"learned": learned(rec, user), "next": items(rec.recommend(user))}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copied("films.parquet", folder)
        with both_learners(sqlite(copied("taste.sqlite", folder)), folder) as rec:
            results["plain runs again"] = items(rec.recommend("ana", learner="plain"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("films.parquet", "log-grown.jsonl"):
            copied(file, folder)
        url = sqlite(copied("taste.sqlite", folder))
        command("replay", "log-grown.jsonl", "--store", url, "--catalog", "films.parquet", cwd=folder)
        with recommender(url, folder) as rec:
            results["replay"] = {user: learned(rec, user) for user in (*reading.USERS, "gus")}
    return results


def make_dump(folder: Path) -> None:
    """Write the same store as SQL statements that every version of PostgreSQL understands."""
    server = PostgresServer()
    try:
        server.start()
        url = server.fresh()
        command("restore", FILES / "taste.backup", "--store", url, cwd=folder)
        pg_dump = [server._bin / "pg_dump", "--inserts", "--no-owner", "--no-privileges", url]
        dump = subprocess.run(pg_dump, check=True, capture_output=True, text=True, encoding="utf-8").stdout
    finally:
        server.remove()
    # Drop comments, psql commands and session settings: some of these exist only in the newest version.
    kept = [
        line for line in dump.splitlines() if line and not re.match(r"--|\\|SET |SELECT pg_catalog.set_config", line)
    ]
    (FILES / "taste.sql").write_text("\n".join(kept) + "\n", encoding="utf-8")


def main() -> None:
    """Delete all files, and write them again."""
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir()
    expected: dict[str, Any] = {"version": thali.__version__, "catalogs": make_catalogs(), "states": make_states()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ids = make_store(folder)
        url = sqlite(folder / "taste.sqlite")
        command("backup", FILES / "taste.backup", "--store", url, cwd=folder)
        command("export", FILES / "people.jsonl", "--store", url, cwd=folder)
        assert [path.name for path in folder.iterdir()] == ["taste.sqlite"], "nothing is left in a log of SQLite's"
        shutil.copyfile(folder / "taste.sqlite", FILES / "taste.sqlite")
        expected["store"] = {"ids": ids, "found": reading.read_store(url, FILES), "after": after(ids)}
        make_dump(folder)
    command("run", *EXPERIMENT, "--out", "results", "--workers", 1, cwd=FILES)
    expected["results"] = {"arguments": EXPERIMENT, "rows": rows_of_results()}
    text = json.dumps(expected, ensure_ascii=False, indent=0)
    # Write each list or object of numbers and text on one line.
    text = re.sub(r"([\[{])\n([^\[\]{}]*)\n([\]}])", lambda match: match[0].replace("\n", " "), text)
    (FILES / "expected.json").write_text(text + "\n", encoding="utf-8")


def rows_of_results() -> dict[str, Any]:
    """Return the policy of each file of rows, and the total regret and clicks of each person."""
    import polars as pl

    results = {}
    for path in sorted((FILES / "results" / "rows").rglob("*.parquet")):
        rows = pl.read_parquet(path)
        last = rows.filter(pl.col("step") == pl.col("step").max()).sort("user")
        results[path.relative_to(FILES / "results").as_posix()] = {
            "policy": rows["policy"][0],
            "steps": rows["step"].max(),
            "regret": last["regret"].to_list(),
            "clicks": last["clicks"].to_list(),
        }
    return results


if __name__ == "__main__":
    main()
