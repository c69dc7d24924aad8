"""Run tasks and store their rows. Tasks run in processes on one machine, or on a Dask cluster."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thali.lab.code import CODE, described
from thali.lab.problems import Problem
from thali.lab.settings import Experiment
from thali.lab.sources import PUBLISHED, problem, setup
from thali.lab.tasks import Task, perform, tasks_of
from thali.tools.files import atomic_file
from thali.tools.processes import end

if TYPE_CHECKING:
    import polars as pl


#: Columns that only the rows of some experiments have: with likes, and with real lists.
SOME = ("oracle_clicks", "auc", "log_loss")


class Store:
    """A folder of Parquet files, one per task. Each file is written completely or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, name: str) -> bool:
        """Whether rows are stored under this name."""
        return (self.folder / "rows" / name).exists()

    def put(self, name: str, rows: pl.DataFrame) -> None:
        """Store rows under this name."""
        path = self.folder / "rows" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as file:
            rows.write_parquet(file)

    def made_by_other_code(self, task: Task, problem: Problem) -> int:
        """How many rows of a task, of the same size and seed, are stored that other code made."""
        import polars as pl

        by = (task.code(problem), task.policy_code)
        files = sorted((self.folder / "rows").glob(f"{escape(task.label)}-*.parquet"))
        return sum(
            rows.height
            for rows in map(_read, files)
            if (rows["scale"][0], rows["seed"][0]) == (task.experiment.scale, task.seed)
            and rows.select(pl.first("code", "policy_code")).row(0) != by
        )

    def note(self, source: str, setup: dict[str, float]) -> None:
        """Store the numbers recorded for a data set."""
        path = self.folder / "setup" / f"{source}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(setup, indent=1) + "\n")

    def rows(self, names: Sequence[str] | None = None, *, written: bool = False) -> pl.DataFrame:
        """The rows with these names, or all rows, in an order that does not depend on how or when they were computed.

        written: add a column that says when the file of each row was written, in nanoseconds since 1970.
        """
        import polars as pl

        folder = self.folder / "rows"
        files = sorted(folder.glob("*/*/*.parquet") if names is None else (folder / name for name in set(names)))
        if not files:
            raise FileNotFoundError(
                f"{self.folder} must contain rows of experiments (rows/*/*/*.parquet), but there are none; "
                "run 'thali reproduce' or 'thali run' first"
            )
        read = [
            _read(file).with_columns(written=pl.lit(file.stat().st_mtime_ns)) if written else _read(file)
            for file in files
        ]
        return pl.concat(read).sort("experiment", "scale", "policy", "settings", "seed", "split", "user", "step")


def _read(file: Path) -> pl.DataFrame:
    """Read the rows of one file. Rows of early versions do not say which code made them, nor the people's numbers."""
    import polars as pl

    rows = pl.read_parquet(file)
    missing = [name for name in ("code", "policy_code") if name not in rows.columns]
    rows = rows.with_columns(pl.lit("").alias(name) for name in missing)
    number = pl.col("number") if "number" in rows.columns else pl.lit(None, dtype=pl.Int64).alias("number")
    # Only some experiments have these.
    more = (pl.col(name) if name in rows.columns else pl.lit(None, dtype=pl.Float64).alias(name) for name in SOME)
    return rows.select(pl.exclude("number", *SOME), number, *more)


def run(
    experiments: Sequence[Experiment],
    store: Store,
    executor: Executor,
    *,
    seed: int = 0,
    data: str | None = None,
    progress: Callable[[float, float, str], None] | None = None,
    notice: Callable[[str], None] | None = None,
) -> list[str]:
    """Run every task whose rows are not stored yet, and return the names under which the rows of all tasks are stored.

    The rows do not depend on the executor. Rows that other code made are not used. They stay in the store.

    progress: called with the cost of the finished tasks, the total cost, and the name of the last task.
    notice: called with a sentence if there are rows that other code made.
    """
    for source in dict.fromkeys(experiment.source for experiment in experiments):
        if source in PUBLISHED:
            store.note(source, setup(source, data))
    waiting: list[tuple[Task, Problem, str]] = []
    names: list[str] = []
    outdated = 0
    total = done = 0.0
    for experiment in experiments:
        build = lru_cache(maxsize=None)(lambda split, e=experiment: problem(e, split, seed=seed, data=data))
        for task in tasks_of(experiment, seed=seed):
            task_problem = build(task.split)
            name = task.name(task_problem)
            names.append(name)
            total += task.cost
            if store.has(name):
                done += task.cost
            else:
                outdated += store.made_by_other_code(task, task_problem)
                waiting.append((task, task_problem, name))
    if outdated and notice is not None:
        notice(
            f"{outdated:,} stored rows were made by other code than today's and are computed again. The old rows stay "
            f"in {store.folder / 'rows'}."
        )
    report = progress or (lambda done, total, name: None)
    report(done, total, "")
    futures: dict[Future[Any], tuple[Task, Problem, str]] = {}
    try:
        # Long tasks start first, so that none of them runs alone at the end.
        for task, task_problem, name in sorted(waiting, key=lambda entry: -entry[0].cost):
            futures[executor.submit(perform, task, task_problem)] = (task, task_problem, name)
        for future in as_completed(futures):
            task, task_problem, name = futures.pop(future)
            store.put(name, task.signed(future.result(), task_problem))
            done += task.cost
            report(done, total, f"{task.experiment.name} {task.policy}")
    except BrokenProcessPool as error:
        raise RuntimeError(
            "a worker process died, perhaps because memory ran out; finished tasks are stored, so run the same command "
            "again to continue, with fewer --workers if memory is short"
        ) from error
    finally:
        for future in futures:
            future.cancel()
    return names


@contextmanager
def processes(workers: int | None = None) -> Iterator[Executor]:
    """An executor with this many processes on this machine; by default one per core.

    Ctrl-C ends the processes at once. Tasks in progress are lost; finished tasks are stored.
    """
    count = workers or os.cpu_count() or 1
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_ignore_interrupt)
    try:
        yield pool
    except BaseException:
        end(pool)
        raise
    pool.shutdown()


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """An executor on the workers of a Dask cluster, which must run the same code of thali.

    address: that of the cluster's scheduler.
    """
    from distributed import Client, KilledWorker

    try:
        client = Client(address, timeout="20s")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"cluster must be the address of a Dask scheduler, such as tcp://host:8786, got {address!r}: {error}"
        ) from error
    try:
        others = set(client.run(installed).values()) - {installed()}
        if others:
            raise RuntimeError(
                f"the workers of the cluster must run thali {installed()}, got {', '.join(sorted(others))}"
            )
        with client.get_executor(pure=False) as executor:
            yield executor
    except KilledWorker as error:
        raise RuntimeError(
            f"workers of the cluster died repeatedly: {error}; finished tasks are stored, so run the same command "
            "again to continue"
        ) from error
    finally:
        client.close()


def installed() -> str:
    """The version and the code of thali that this process runs."""
    from thali import __version__

    return described(__version__, CODE)


def _ignore_interrupt() -> None:
    """Ignore Ctrl-C in workers, because the parent process handles it and ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
