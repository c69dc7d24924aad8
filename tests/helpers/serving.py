"""The service in its own process, started by the command. It can be stopped, killed and started again."""

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from ports import free_port

import thali
from thali.starting import Start

START_S, STOP_S = 180.0, 10.0  # the first start may compile
TOPICS = ("comedy", "crime", "drama", "horror", "romance", "war")
K, SIGMA = 5, 0.1


def small_catalog() -> thali.Catalog:
    """Return a catalog of 60 items with one to three of six topics each."""
    rng = np.random.default_rng(0)
    weights = np.zeros((60, len(TOPICS)))
    for row in weights:
        its = rng.choice(len(TOPICS), size=rng.integers(1, 4), replace=False)
        row[its] = rng.uniform(0.05, 0.6, its.size)
    return thali.Catalog(weights, items=[f"film {e}" for e in range(60)], topics=TOPICS)


def fitted_catalog() -> Start:
    """Return the small catalog with the quality of its items and a prior that knows nothing, as a file can have it."""
    plain = small_catalog()
    quality = thali.Quality.from_counts(np.full(plain.L, 60.0), np.arange(plain.L) / 2)
    weights = np.column_stack([plain.dense, quality.mean])
    topics, fading = [*plain.topics, "quality"], [True] * plain.d + [False]
    catalog = thali.Catalog(weights, plain.items, topics, fading=fading)
    return Start(catalog, thali.Prior(np.zeros(catalog.d), np.eye(catalog.d), sigma=SIGMA), quality, 1.0, 0)


class Service:
    """``thali serve`` in a folder, always on the same port. The end of the ``with`` block kills it if it still runs.

    start: the catalog file, instead of one of the small catalog.

    Starting takes 2 to 4 s on two cores. The very first start takes a minute more, to compile kernels.
    """

    def __init__(self, folder: Path, *options: str, store: str | None = None, start: Start | None = None) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = folder / "taste.db"
        self.store = store or f"sqlite:///{self.database}"
        self.log = folder / "log"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        if start is None:
            thali.save_catalog(small_catalog(), folder / "catalog.parquet")
        else:
            start.save(folder / "catalog.parquet")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def client(self, **settings: Any) -> thali.Client:
        return thali.Client(self.url, **settings)

    def command(self) -> tuple[str, ...]:
        """The arguments of ``thali``."""
        return ("serve", "catalog.parquet", "--store", self.store, "--K", str(K), "--sigma", str(SIGMA))

    def start(self) -> None:
        """Start, and wait until the service is ready."""
        self.launch()
        self.wait(START_S)

    def launch(self) -> None:
        """Start, and do not wait."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "thali", *self.command(), "--port", str(self.port), *self._options],
                cwd=self.folder,
                env={**os.environ, "TMPDIR": str(self.folder), "PYTHONFAULTHANDLER": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # so that it and its workers can be killed together
            )

    def wait(self, seconds: float) -> None:
        """Wait until the service is ready."""
        until = time.monotonic() + seconds
        with self.client(retries=0) as client:
            while not client.ready():
                assert self.running, f"the service ended with {self._process.returncode}:\n{self.tail()}"
                assert time.monotonic() < until, f"the service is not ready after {seconds:g} s:\n{self.tail()}"
                time.sleep(0.02)

    def strike(self) -> None:
        """Crash: kill all processes of the service at once. Can be called from any thread."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the service, and wait until it has ended."""
        self.strike()
        self.wait_end()
        self._process = None

    def wait_end(self) -> int:
        """Wait until the service has ended, and return its exit status."""
        assert self._process is not None
        return self._process.wait(STOP_S)

    def stop(self) -> None:
        """Stop the service as systemd does. Its exit status must be 0."""
        os.kill(self.pid, signal.SIGTERM)
        status = self.wait_end()
        self._process = None
        assert status == 0, f"the service ended with {status}:\n{self.tail()}"

    def limit_files(self, size: int) -> None:
        """Limit the size of files that the service writes, as if the disk were full. -1: no limit."""
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size, -1))

    def tail(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-4000:]
