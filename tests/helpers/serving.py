"""The service as a person starts it: a process of its own, that can be stopped, killed and started again."""

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

START_S, STOP_S = 180.0, 10.0  # the first start may compile
TOPICS = ("comedy", "crime", "drama", "horror", "romance", "war")
K, SIGMA = 5, 0.1


def small_catalog() -> thali.Catalog:
    """60 items of one to three of six topics."""
    rng = np.random.default_rng(0)
    weights = np.zeros((60, len(TOPICS)))
    for row in weights:
        its = rng.choice(len(TOPICS), size=rng.integers(1, 4), replace=False)
        row[its] = rng.uniform(0.05, 0.6, its.size)
    return thali.Catalog(weights, items=[f"film {e}" for e in range(60)], topics=TOPICS)


class Service:
    """``thali serve`` in a folder, always on the same port; ends with the ``with`` block, by force if need be.

    Starting takes 2 to 4 s on two cores. The first of all takes a minute more, to compile kernels.
    """

    def __init__(self, folder: Path, *options: str, store: str | None = None) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = folder / "taste.db"
        self.store = store or f"sqlite:///{self.database}"
        self.log = folder / "log"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        thali.save_catalog(small_catalog(), folder / "catalog.parquet")

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
        """What is started."""
        return ("serve", "catalog.parquet", "--store", self.store, "--K", str(K), "--sigma", str(SIGMA))

    def start(self) -> None:
        """Returns when it is ready."""
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
        self.wait(START_S)

    def wait(self, seconds: float) -> None:
        """Until it is ready."""
        until = time.monotonic() + seconds
        with self.client(retries=0) as client:
            while not client.ready():
                assert self.running, f"the service ended with {self._process.returncode}:\n{self.tail()}"
                assert time.monotonic() < until, f"the service is not ready after {seconds:g} s:\n{self.tail()}"
                time.sleep(0.02)

    def strike(self) -> None:
        """A crash, of all its processes at once; from any thread."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        """The same, once more if need be, and its end."""
        self.strike()
        self.wait_end()
        self._process = None

    def wait_end(self) -> int:
        """Until it has ended: its status."""
        assert self._process is not None
        return self._process.wait(STOP_S)

    def stop(self) -> None:
        """Ask it to end, as systemd does; it must, and well."""
        os.kill(self.pid, signal.SIGTERM)
        status = self.wait_end()
        self._process = None
        assert status == 0, f"the service ended with {status}:\n{self.tail()}"

    def limit_files(self, size: int) -> None:
        """Let it write no file beyond so many bytes, as if the disk were full; -1 for as large as it likes."""
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size, -1))

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-4000:]
