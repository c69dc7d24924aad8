"""Fast code, which is used as soon as it is compiled. Until then, plain code gives the same results, bit for bit.

The fast code is the search engine and the posterior for batches of users. It takes many seconds to compile, and the
plain code takes one or two. So nobody has to wait for the fast code:

- If the fast code is already compiled and stored on disk, it is used from the start.
- Otherwise plain code is used first. Once it has taken ``BACKGROUND_AFTER_S`` seconds in this process, another process
  is started, which compiles the fast code and stores it. The fast code is used as soon as it is stored.
- If compiled code cannot be stored, or if the other process fails, this process compiles the fast code itself, once
  plain code has taken ``HERE_AFTER_S`` seconds. That is about as long as the compilation takes, so the wait at most
  doubles the time.

The environment variable THALI_COMPILE can change this: "first" compiles the fast code at its first use, and "never"
uses plain code only. The default is "background".
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any

from thali.tools import jit

BACKGROUND_AFTER_S = 1.0
HERE_AFTER_S = 15.0
CHOICES = ("background", "first", "never")

log = logging.getLogger("thali")


class FastCode:
    """Says whether to use the fast code, and gets it compiled. One object is shared by the whole process."""

    def __init__(self, mode: str) -> None:
        if mode not in CHOICES:
            raise ValueError(f"THALI_COMPILE must be one of {', '.join(CHOICES)}, got {mode!r}")
        self.mode = mode
        self._ready = mode == "first"
        self._looked = False  # whether we have looked for stored code
        self._plain_s = 0.0
        self._failed = False
        self._compiler: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._owner = os.getpid()
        self._lock = Lock()
        self._examples: list[Callable[[], None]] = []
        self._kernels: list[Any] = []

    def register(self, kernel: Any, example: Callable[[], None]) -> None:
        """Add fast code. ``kernel`` is one of its kernels, and ``example`` calls all of them."""
        self._kernels.append(kernel)
        self._examples.append(example)
        self._ready, self._looked = self.mode == "first", False

    def ready(self) -> bool:
        """Return whether the fast code can be used without waiting for a compilation."""
        return self._ready or (self.mode == "background" and self._look())

    def plain_took(self, seconds: float) -> None:
        """Record the time of a call of plain code, and get the fast code compiled if this time adds up."""
        self._plain_s += seconds
        if self._plain_s >= BACKGROUND_AFTER_S and self.mode == "background" and not self._ready:
            self.compile_in_background()

    def compile_in_background(self) -> None:
        """Start to compile the fast code in another process, unless it is compiled or being compiled already."""
        with self._lock:
            if self._ready or self._running() or self.mode != "background":
                return
            if not self._stored() or self._failed:
                if self._plain_s >= HERE_AFTER_S:
                    self._ready = True
                    log.info("thali compiles its fast code in this process now, because it could not be stored")
                return
            modules = ", ".join(sorted({example.__module__ for example in self._examples}))
            program = f"import {modules}; from thali.tools.fast import CODE; CODE.compile_and_store()"
            try:
                self._compiler = subprocess.Popen(
                    [sys.executable, "-c", program],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env={**os.environ, "THALI_COMPILE": "first"},
                )
            except OSError as error:
                self._fail(str(error))
                return
            self._began, self._owner = perf_counter(), os.getpid()
            atexit.register(self._stop)
            log.info("thali compiles its fast code in the background, and uses plain code until then")

    def wait(self) -> None:
        """Wait for the other process, if there is one."""
        if self._running() and self._compiler is not None:
            self._compiler.wait()
        self.ready()

    def compile_and_store(self) -> None:
        """Compile the fast code, or load it if it is stored already. Waits for another process that does the same."""
        files = self._stored()
        with contextlib.ExitStack() as stack:
            for file in files:
                file.parent.mkdir(parents=True, exist_ok=True)
                _lock(stack, file.with_suffix(".lock"))
            for example in self._examples:
                example()
            for file in files:
                file.touch()
        self._ready = self.mode != "never"

    def _look(self) -> bool:
        """Check whether the fast code has been stored since the last check."""
        if self._looked and self._compiler is None:
            return False
        with self._lock:
            self._looked = True
            if self._running():
                return False
            files = self._stored()
            self._ready = bool(files) and all(file.exists() for file in files)
            if self._compiler is not None and self._owner == os.getpid():
                atexit.unregister(self._stop)
                _, message = self._compiler.communicate()
                if self._ready:
                    taken = perf_counter() - self._began
                    log.info("thali has compiled its fast code in %.0f s, and uses it from now on", taken)
                else:
                    lines = message.decode(errors="replace").split("\n")
                    self._fail(next((line for line in reversed(lines) if line), "it was stopped"))
            self._compiler = None
            return self._ready

    def _running(self) -> bool:
        """Return whether our compiler process is running. After a fork, the process belongs to the parent only."""
        return self._compiler is not None and self._owner == os.getpid() and self._compiler.poll() is None

    def _fail(self, reason: str) -> None:
        self._failed = True
        log.warning("thali could not compile its fast code in the background: %s", reason)

    def _stop(self) -> None:
        """Stop the other process when this one ends. What it has compiled so far stays stored."""
        if self._running() and self._compiler is not None:
            self._compiler.kill()
            self._compiler.communicate()

    def _stored(self) -> list[Path]:
        """Return the files that exist if the fast code is stored, or no files if code cannot be stored.

        Their names change whenever Numba would compile the code again.
        """
        folders = [kernel.stats.cache_path for kernel in self._kernels]
        return [] if None in folders else [Path(folder) / f"fast-{jit.version()}.stored" for folder in folders]


def _lock(stack: contextlib.ExitStack, path: Path) -> None:
    """Wait until no other process holds this lock, and hold it until the stack is closed. Does nothing on Windows."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(stack.enter_context(path.open("w")), fcntl.LOCK_EX)


CODE = FastCode(os.environ.get("THALI_COMPILE", "background"))
