"""How fast the service is, and how much memory it takes: the table in docs/performance.md.

make bench-serve starts the service as a user would, on one core, and asks from another; with MovieLens 1M where its
files are ($THALI_DATA or ../shared/data), else on a catalog like it. Some ten minutes.
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
from cases import sparse_weights
from generator import Figures, measure
from traffic import Feedback, FeedbackBatches, Mixed, Recommend, Routes, Traffic, Trivial

import thali
from thali.service.stores import open_store
from thali.service.stores.records import Statistics, Writes, pack
from thali.service.stores.transfer import PATIENCE_S

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
CORES = sorted(os.sched_getaffinity(0))
SERVER, CLIENT = CORES[0], CORES[-1]
CONNECTIONS, USERS = 32, 1000


class Service(NamedTuple):
    """A service that runs."""

    url: str
    process: subprocess.Popen[bytes]

    def memory(self) -> float:
        """What it holds in memory, MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


@contextmanager
def service(folder: Path, catalog: Path, *options: str, store: str = "") -> Iterator[Service]:
    """``thali serve`` on its core, until the end."""
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
    found = Service(f"http://127.0.0.1:{port}", process)
    client = thali.Client(found.url, retries=0)
    try:
        until = time.monotonic() + 180
        while not client.ready():
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the service did not start")
            time.sleep(0.2)
        yield found
    finally:
        client.close()
        process.terminate()
        process.wait(20)


def run(
    url: str, traffic: Traffic, *, seconds: float, rate: float | None = None, connections: int = CONNECTIONS
) -> Figures:
    """One measurement; any error is one."""
    done = measure(url, traffic, connections=connections, rate=rate, seconds=seconds, warm=1.0)
    figures = done.kinds.get("all") or next(iter(done.kinds.values()))
    if figures.errors:
        raise RuntimeError(f"requests must be answered with 200, got {figures.errors}")
    return figures


def row(what: str, runs: list[Figures], *, times: int = 1) -> str:
    """A row of the table: medians, and the spread of the runs."""
    cells = []
    for name, digits in (("rate", 0), ("p50", 1), ("p99", 1)):
        values = [getattr(one, name) * (times if name == "rate" else 1) for one in runs]
        cells.append(f"{np.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})")
    return f"| {what} | {' | '.join(cells)} |"


def movielens(folder: Path) -> tuple[Path, str]:
    """The catalog of MovieLens 1M (1,000 films, 18 genres), or one like it."""
    path = folder / "catalog.parquet"
    root = Path(os.environ.get("THALI_DATA", ROOT.parent / "shared" / "data"))
    if (root / "ml-1m").exists():
        data = thali.datasets.movielens_1m(root).most_active(users=1000, items=1000).attracted(at_least=5)
        thali.save_catalog(thali.Catalog.estimate(data.top_topics(18)), path)
        return path, "MovieLens 1M, 1,000 films, 18 genres"
    thali.save_catalog(thali.Catalog(sparse_weights(np.random.default_rng(0), 1000, 18)), path)
    return path, "made up like MovieLens, 1,000 items, 18 topics"


def main_rows(folder: Path, catalog: Path, repeat: int, seconds: float) -> list[str]:
    """Rates and latencies on SQLite, one core."""
    found: dict[str, list[Figures]] = {}
    half = 0.0
    for number in range(repeat):
        place = folder / f"run{number}"
        place.mkdir()
        with service(place, catalog) as serving:
            routes, rng = Routes(urlsplit(serving.url)), Random(number)

            def add(what: str, traffic: Traffic, rate: float | None = None, url: str = serving.url) -> Figures:
                found.setdefault(what, []).append(run(url, traffic, seconds=seconds, rate=rate))
                return found[what][-1]

            add("trivial handler (`/healthz`), as fast as it can", Trivial(routes))
            most = add("recommend, as fast as it can", Recommend(routes, rng, users=USERS)).rate
            half = most / 2 if number == 0 else half
            add("recommend at 750/s", Recommend(routes, rng, users=USERS), 750.0)
            add(f"recommend at half of that, {half:,.0f}/s", Recommend(routes, rng, users=USERS), half)
            shown = Recommend(routes, rng, users=USERS, count=round(4000 * (seconds + 1)))
            measure(serving.url, shown, connections=CONNECTIONS, seconds=600)
            add("feedback, durable, as fast as it can", Feedback(shown.to_answer))
            shown = Recommend(routes, rng, users=USERS, count=round(6000 * (seconds + 1)))
            measure(serving.url, shown, connections=CONNECTIONS, seconds=600)
            add(
                "feedback in batches of 100 (feedbacks/s; times of a batch)",
                FeedbackBatches(routes, shown.to_answer, 100),
            )
            add("recommend and feedback in turns", Mixed(routes, rng, users=USERS))
            add("the trivial handler again", Trivial(routes))
    return [row(what, runs, times=100 if "batches" in what else 1) for what, runs in found.items()]


def large_rows(folder: Path, repeat: int, seconds: float) -> list[str]:
    """A million items."""
    path = folder / "large.parquet"
    thali.save_catalog(thali.Catalog(sparse_weights(np.random.default_rng(0), 1_000_000, 40)), path)
    found: dict[str, list[Figures]] = {}
    place = folder / "large"
    place.mkdir()
    with service(place, path) as serving:
        for number in range(repeat):
            routes, rng = Routes(urlsplit(serving.url)), Random(number)
            mixed = Mixed(routes, rng, users=100)
            run(serving.url, mixed, seconds=seconds, connections=4)  # so that people differ
            asked = Recommend(routes, rng, users=100)
            for what, rate in (("recommend at 25/s", 25.0), ("recommend and feedback, as fast as they can", None)):
                traffic = asked if rate else Mixed(routes, rng, users=100)
                told = f"1,000,000 items, 40 topics: {what}"
                found.setdefault(told, []).append(run(serving.url, traffic, seconds=seconds, rate=rate, connections=8))
        memory = serving.memory()
    return [
        *(row(what, runs) for what, runs in found.items()),
        f"| memory with that catalog | {memory:,.0f} MiB | | |",
    ]


def memory_rows(folder: Path, catalog: Path, users: int, seconds: float) -> list[str]:
    """Many users in the store, asked for at random, with the cache as it is by default."""
    place = folder / "many"
    place.mkdir()
    url = f"sqlite:///{place / 'thali.db'}"
    with service(place, catalog) as serving:
        begin = serving.memory()
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
    asked = sum(one.replies for one in figures)
    told = ", ".join(f"{one:,.0f}" for one in memory)
    return [
        row(f"{users:,} users in the store ({size:,.0f} bytes each on disk), asked at random", figures),
        f"| memory then, after each third of {asked:,} requests (without users: {begin:,.0f} MiB) | {told} MiB | | |",
    ]


def postgres_rows(folder: Path, catalog: Path, seconds: float) -> list[str]:
    """Two processes on PostgreSQL, all on this machine: what the way to the server costs."""
    sys.path.insert(0, str(ROOT / "tests" / "helpers"))
    from postgres_server import PostgresServer  # type: ignore[import-not-found]  # of the tests, which mypy does not read

    server = PostgresServer()
    try:
        server.start()
        with service(folder, catalog, "--workers", "2", store=server.fresh()) as serving:
            routes, rng = Routes(urlsplit(serving.url)), Random(0)
            traffic = (Recommend(routes, rng, users=USERS), Mixed(routes, rng, users=USERS))
            found = [run(serving.url, one, seconds=2 * seconds) for one in traffic]
    finally:
        server.remove()
    told = "PostgreSQL, 2 processes and the database beside them"
    return [row(f"{told}: recommend", [found[0]]), row(f"{told}: recommend and feedback", [found[1]])]


def main() -> None:
    """Measure, print, and write into the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--seconds", type=float, default=4.0)
    options.add_argument("--users", type=int, default=1_000_000)
    options.add_argument("--dry", action="store_true", help="Print, and leave the page as it is.")
    chosen = options.parse_args()
    os.sched_setaffinity(0, {CLIENT})
    folder = Path(tempfile.mkdtemp(prefix="thali-bench-"))
    try:
        catalog, told = movielens(folder)
        rows = [
            f"{told}; K=10; {CONNECTIONS} connections, {USERS} users; median of {chosen.repeat} runs "
            "(lowest to highest).\n"
        ]
        rows += ["| | requests/s | p50 ms | p99 ms |", "|---|---|---|---|"]
        for made in (
            lambda: main_rows(folder, catalog, chosen.repeat, chosen.seconds),
            lambda: large_rows(folder, chosen.repeat, chosen.seconds),
            lambda: memory_rows(folder, catalog, chosen.users, chosen.seconds),
            lambda: postgres_rows(folder, catalog, chosen.seconds),
        ):
            new = made()
            print("\n".join(new), flush=True)
            rows += new
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not chosen.dry:
        before, rest = PAGE.read_text().split("<!-- serve -->\n")
        text = "\n".join(rows)
        PAGE.write_text(f"{before}<!-- serve -->\n{text}\n{rest[rest.index('<!-- end -->') :]}")


if __name__ == "__main__":
    main()
