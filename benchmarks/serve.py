"""Measure the throughput, latency and memory of the service, and update docs/performance-service.md.

`make bench-serve` takes about ten minutes. It starts `thali serve` on one core, and sends requests from another. The
catalog is MovieLens 1M if $THALI_DATA contains it, else a random catalog of the same size.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pages
from cases import data_folder, sparse_weights
from generator import Figures, measure
from traffic import Feedback, FeedbackBatches, Mixed, Recommend, Routes, Traffic, Trivial

import thali
from thali.service.stores import open_store
from thali.service.stores.records import Statistics, Writes, pack
from thali.service.stores.transfer import PATIENCE_S

ROOT = Path(__file__).parent.parent
PAGE = "performance-service.md"
# The options of a service with everything on. The prior and the quality are refreshed every 5 s, so that each
# measurement contains both.
LIVE = ("--prior", "learn", "--prior-every", "5", "--quality-every", "5", "--hide", "clicked,examined:20")
# Each connection sends its next request as soon as it has received the previous response.
FULL_SPEED = "at full speed"
CORES = sorted(os.sched_getaffinity(0))
SERVER, CLIENT = CORES[0], CORES[-1]
CONNECTIONS, USERS = 32, 1000


class Service(NamedTuple):
    """A running service."""

    url: str
    process: subprocess.Popen[bytes]

    def memory(self) -> float:
        """Return the memory of the process, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


@contextmanager
def service(folder: Path, catalog: Path, *options: str, store: str = "") -> Iterator[Service]:
    """Run ``thali serve`` on its core, and stop it at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = store or f"sqlite:///{folder / 'thali.db'}"
    command = [sys.executable, "-m", "thali", "serve", str(catalog), "--store", store, "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--K", "10", "--no-log-requests", *options],
        preexec_fn=lambda: os.sched_setaffinity(0, {SERVER}),
        stderr=subprocess.DEVNULL,
    )
    running = Service(f"http://127.0.0.1:{port}", process)
    client = thali.Client(running.url, retries=0)
    try:
        until = time.monotonic() + 180
        while not client.ready():
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the service did not start")
            time.sleep(0.2)
        yield running
    finally:
        client.close()
        process.terminate()
        process.wait(20)


def run(
    url: str, traffic: Traffic, *, seconds: float, rate: float | None = None, connections: int = CONNECTIONS
) -> Figures:
    """Measure once. If a request fails, the measurement fails."""
    done = measure(url, traffic, connections=connections, rate=rate, seconds=seconds, warm=1.0)
    figures = done.kinds.get("all") or next(iter(done.kinds.values()))
    if figures.errors:
        raise RuntimeError(f"all requests must succeed with status 200, got {figures.errors}")
    return figures


def row(label: str, runs: list[Figures], *, factor: int = 1) -> str:
    """Return a row of the table, with the median, lowest and highest value of the runs.

    factor: how many operations are in one request.
    """
    cells = []
    for name, digits in (("rate", 0), ("p50", 1), ("p99", 1)):
        values = [getattr(one, name) * (factor if name == "rate" else 1) for one in runs]
        cells.append(f"{np.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})")
    return f"| {label} | {' | '.join(cells)} |"


def movielens(folder: Path) -> tuple[Path, str]:
    """Save a catalog of MovieLens 1M or, if that is missing, of the same size. Return its path and description."""
    path = folder / "catalog.parquet"
    root = data_folder()
    if root is not None:
        data = thali.datasets.movielens_1m(root).most_active(users=1000, items=1000).attracted(at_least=5)
        thali.save_catalog(thali.Catalog.estimate(data.top_topics(18)), path)
        return path, "MovieLens 1M (1,000 films, 18 genres)"
    thali.save_catalog(thali.Catalog(sparse_weights(np.random.default_rng(0), 1000, 18)), path)
    return path, "Random catalog (1,000 items, 18 topics)"


def main_rows(folder: Path, catalog: Path, repeat: int, seconds: float) -> list[str]:
    """Measure throughput and latency with SQLite, on one core."""
    measured: dict[str, list[Figures]] = {}
    half = 0.0
    for number in range(repeat):
        place = folder / f"run{number}"
        place.mkdir()
        with service(place, catalog) as serving:
            routes, rng = Routes(urlsplit(serving.url)), Random(number)

            def add(label: str, traffic: Traffic, rate: float | None = None, url: str = serving.url) -> Figures:
                measured.setdefault(label, []).append(run(url, traffic, seconds=seconds, rate=rate))
                return measured[label][-1]

            add(f"`/healthz`, {FULL_SPEED}", Trivial(routes))
            most = add(f"recommend, {FULL_SPEED}", Recommend(routes, rng, users=USERS)).rate
            half = most / 2 if number == 0 else half
            add("recommend, at 750 per second", Recommend(routes, rng, users=USERS), 750.0)
            add(f"recommend, at half of full speed ({half:,.0f} per second)", Recommend(routes, rng, users=USERS), half)
            shown = Recommend(routes, rng, users=USERS, count=round(4000 * (seconds + 1)))
            measure(serving.url, shown, connections=CONNECTIONS, seconds=600)
            add(f"feedback, {FULL_SPEED}", Feedback(shown.to_answer))
            shown = Recommend(routes, rng, users=USERS, count=round(6000 * (seconds + 1)))
            measure(serving.url, shown, connections=CONNECTIONS, seconds=600)
            add(
                f"feedback in batches of 100 lists, {FULL_SPEED} (rate: lists per second; latency: per batch)",
                FeedbackBatches(routes, shown.to_answer, 100),
            )
            add(f"recommend and feedback alternately, {FULL_SPEED}", Mixed(routes, rng, users=USERS))
            add(f"`/healthz` again, {FULL_SPEED}", Trivial(routes))
    return [row(label, runs, factor=100 if "batches" in label else 1) for label, runs in measured.items()]


def fitted_rows(folder: Path, repeat: int, seconds: float) -> list[str]:
    """Measure a service with everything on: a fitted catalog, a learned prior, quality that learns, hidden items."""
    root = data_folder()
    if root is None:
        return []
    data = thali.datasets.movielens_1m(root).most_active(users=1000, items=1000).attracted(at_least=4)
    measured: dict[str, list[Figures]] = {}
    for label, settings in (("18 genres", {"topics": "given", "d": 18}), ("60 learned topics", {"d": 60})):
        path = folder / f"{label}.parquet"
        thali.fit(data, **settings).save(path)
        for number in range(repeat):
            place = folder / f"fitted {label} {number}"
            place.mkdir()
            with service(place, path, *LIVE) as serving:
                routes, rng = Routes(urlsplit(serving.url)), Random(number)
                setup = f"prior, quality and hidden items, {label}"

                def add(what: str, traffic: Traffic, url: str = serving.url, setup: str = setup) -> None:
                    measured.setdefault(f"{setup}: {what}", []).append(run(url, traffic, seconds=seconds))

                run(serving.url, Mixed(routes, rng, users=USERS), seconds=3.0)  # so that people have seen something
                add(f"recommend, {FULL_SPEED}", Recommend(routes, rng, users=USERS))
                shown = Recommend(routes, rng, users=USERS, count=round(3000 * (seconds + 1)))
                measure(serving.url, shown, connections=CONNECTIONS, seconds=600)
                add(f"feedback, {FULL_SPEED}", Feedback(shown.to_answer))
                add(f"recommend and feedback alternately, {FULL_SPEED}", Mixed(routes, rng, users=USERS))
    return [row(label, runs) for label, runs in measured.items()]


def large_rows(folder: Path, repeat: int, seconds: float) -> list[str]:
    """Measure a catalog of a million items."""
    path = folder / "large.parquet"
    thali.save_catalog(thali.Catalog(sparse_weights(np.random.default_rng(0), 1_000_000, 40)), path)
    measured: dict[str, list[Figures]] = {}
    place = folder / "large"
    place.mkdir()
    with service(place, path) as serving:
        for number in range(repeat):
            routes, rng = Routes(urlsplit(serving.url)), Random(number)
            mixed = Mixed(routes, rng, users=100)
            run(serving.url, mixed, seconds=seconds, connections=4)  # so that users differ
            kinds: tuple[tuple[str, Traffic, float | None], ...] = (
                ("recommend, at 25 per second", Recommend(routes, rng, users=100), 25.0),
                (f"recommend and feedback alternately, {FULL_SPEED}", Mixed(routes, rng, users=100), None),
            )
            for what, traffic, rate in kinds:
                figures = run(serving.url, traffic, seconds=seconds, rate=rate, connections=8)
                measured.setdefault(f"1,000,000 items, 40 topics: {what}", []).append(figures)
        memory = serving.memory()
    return [
        *(row(label, runs) for label, runs in measured.items()),
        f"| 1,000,000 items, 40 topics: memory of the service | {memory:,.0f} MiB | | |",
    ]


def memory_rows(folder: Path, catalog: Path, users: int, seconds: float) -> list[str]:
    """Measure a store with many users, with requests for random users and the default size of the cache."""
    place = folder / "many"
    place.mkdir()
    url = f"sqlite:///{place / 'thali.db'}"
    with service(place, catalog) as serving:
        memory_at_start = serving.memory()
        thali.Client(serving.url).recommend("nobody")
    d = thali.load_catalog(catalog).d
    M = np.eye(d) + 50.0 * np.random.default_rng(0).random(d)[:, None] * np.eye(d)
    kept = Statistics(0, 10, 10, pack(M, np.full(d, 0.1)))
    store = open_store(url)
    for first in range(0, users, 10_000):
        with store.transaction(PATIENCE_S):
            chosen = {(f"u{n}", "default"): kept for n in range(first, min(first + 10_000, users))}
            store.write(Writes(statistics=chosen), "bench")
    store.close()
    size = (place / "thali.db").stat().st_size / users
    with service(place, catalog) as serving:
        routes, rng = Routes(urlsplit(serving.url)), Random(0)
        figures, memory = [], []
        for _ in range(3):
            figures.append(run(serving.url, Recommend(routes, rng, users=users), seconds=4 * seconds))
            memory.append(serving.memory())
    requests = sum(one.replies for one in figures)
    sizes = ", ".join(f"{one:,.0f}" for one in memory)
    return [
        row(f"{users:,} users in the store ({size:,.0f} bytes each on disk): recommend, {FULL_SPEED}", figures),
        f"| {users:,} users in the store: memory of the service during a run of {requests:,} requests: after one "
        f"third, after two thirds and at the end (with an empty store: {memory_at_start:,.0f} MiB) | {sizes} MiB | | |",
    ]


def postgres_rows(folder: Path, catalog: Path, seconds: float) -> list[str]:
    """Measure two processes with PostgreSQL, all on this machine."""
    sys.path.insert(0, str(ROOT / "tests" / "helpers"))
    from postgres_server import PostgresServer  # type: ignore[import-not-found]  # from the tests, which mypy does not check

    server = PostgresServer()
    try:
        server.start()
        with service(folder, catalog, "--workers", "2", store=server.fresh()) as serving:
            routes, rng = Routes(urlsplit(serving.url)), Random(0)
            traffic = (Recommend(routes, rng, users=USERS), Mixed(routes, rng, users=USERS))
            figures = [run(serving.url, one, seconds=2 * seconds) for one in traffic]
    finally:
        server.remove()
    setup = "PostgreSQL on the same machine, 2 processes"
    return [
        row(f"{setup}: recommend, {FULL_SPEED}", [figures[0]]),
        row(f"{setup}: recommend and feedback alternately, {FULL_SPEED}", [figures[1]]),
    ]


def main() -> None:
    """Measure, print the table, and update the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeat", type=int, default=3, help="Number of runs (default: 3).")
    options.add_argument("--seconds", type=float, default=4.0, help="Seconds per measurement (default: 4).")
    options.add_argument("--users", type=int, default=1_000_000, help="Number of users in the store with many users.")
    options.add_argument("--dry", action="store_true", help="Print the table, but do not update the page.")
    pages.add_docs_option(options)
    chosen = options.parse_args()
    os.sched_setaffinity(0, {CLIENT})
    folder = Path(tempfile.mkdtemp(prefix="thali-bench-"))
    try:
        catalog, description = movielens(folder)
        rows = [
            f"{description}, K=10, {CONNECTIONS} connections, {USERS} users. "
            f"Median of {chosen.repeat} runs (lowest to highest).\n"
        ]
        rows += ["| what is measured | requests per second | p50, ms | p99, ms |", "|---|---|---|---|"]
        for measure_rows in (
            lambda: main_rows(folder, catalog, chosen.repeat, chosen.seconds),
            lambda: fitted_rows(folder, chosen.repeat, chosen.seconds),
            lambda: large_rows(folder, chosen.repeat, chosen.seconds),
            lambda: memory_rows(folder, catalog, chosen.users, chosen.seconds),
            lambda: postgres_rows(folder, catalog, chosen.seconds),
        ):
            new = measure_rows()
            print("\n".join(new), flush=True)
            rows += new
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not chosen.dry:
        pages.write(chosen.docs / PAGE, "serve", "\n".join(rows))


if __name__ == "__main__":
    main()
