"""Fast code, which is used as soon as it is compiled. Until then, plain code gives the same results, bit for bit.

The fast code (the search engine, and the posterior for batches of users) takes seconds to compile, and the plain code
much less. So nobody has to wait for the fast code:

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
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import IO, Any

from thali.tools import jit

BACKGROUND_AFTER_S = 1.0
HERE_AFTER_S = 15.0
CHOICES = ("background", "first", "never")

log = logging.getLogger("thali")


class FastCode:
    """Says whether to use some fast code, and gets it compiled.

    name: what it is, for messages. kernel: one of its kernels. example: a function in an importable module that calls
    all of its kernels. The module must have the object as its attribute ``CODE``.
    """

    def __init__(self, name: str, kernel: Any, example: Callable[[], object]) -> None:
        self.name, self._kernel, self._example = name, kernel, example
        self.mode = os.environ.get("THALI_COMPILE", "background")
        if self.mode not in CHOICES:
            raise ValueError(f"THALI_COMPILE must be one of {', '.join(CHOICES)}, got {self.mode!r}")
        self._ready = self.mode == "first"
        self._plain_s = 0.0
        self._failed = False
        self._lock = Lock()
        self._compiler: subprocess.Popen[bytes] | None = None
        self._messages: IO[bytes] | None = None
        self._began = 0.0
        self._unknown = True  # whether the fast code may have been stored since we last looked
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def ready(self) -> bool:
        """Return whether the fast code can be used without waiting for a compilation."""
        if not self._ready and self._unknown:
            with self._lock:
                self._look()
        return self._ready

    def plain_took(self, seconds: float) -> None:
        """Record the time of a call of plain code, and get the fast code compiled if this time adds up."""
        self._plain_s += seconds
        if self._plain_s >= BACKGROUND_AFTER_S and not self._ready:
            self.compile_in_background()

    def compile_in_background(self) -> None:
        """Start to compile the fast code in another process, unless it is compiled or being compiled already."""
        with self._lock:
            self._look()
            if self._ready or self._compiler is not None or self.mode != "background":
                return
            if self._failed or self._stored() is None or not self._start():
                if self._plain_s >= HERE_AFTER_S:
                    self._ready = True
                    log.info("thali compiles its %s in this process now, because it could not be stored", self.name)
                return
            log.info("thali compiles its %s in the background, and uses plain code until then", self.name)

    def wait(self) -> None:
        """Wait for the other process, if there is one."""
        compiler = self._compiler
        if compiler is not None:
            compiler.wait()
        self.ready()

    def compile_and_store(self) -> None:
        """Compile the fast code, or load it if it is stored already. Waits for another process that does the same."""
        file = self._stored()
        with contextlib.ExitStack() as stack:
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                _lock(stack, file.with_suffix(".lock"))
            self._example()
            if file is not None:
                file.touch()
        self._ready = self.mode != "never"

    def _start(self) -> bool:
        """Start the other process, with the same path for imports as this one. Return whether it started."""
        if not sys.executable or getattr(sys, "frozen", False):
            return False
        program = f"from {self._example.__module__} import CODE; CODE.compile_and_store()"
        path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 (closed in _look)
        try:
            self._compiler = subprocess.Popen(
                [sys.executable, "-P", "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._messages,
                env={**os.environ, "THALI_COMPILE": "first", "PYTHONPATH": path},
                start_new_session=True,  # so that Ctrl-C does not stop it
            )
        except OSError as error:
            self._fail(str(error))
            return False
        self._began, self._unknown = perf_counter(), True
        atexit.register(self._stop)
        return True

    def _look(self) -> None:
        """Check whether the fast code is stored, unless the other process is still running."""
        if self.mode != "background" or self._ready or not self._unknown:
            return
        if self._compiler is not None and self._compiler.poll() is None:
            return
        file = self._stored()
        self._ready, self._unknown = file is not None and file.exists(), False
        if self._compiler is not None and self._messages is not None:
            atexit.unregister(self._stop)
            self._compiler = None
            with self._messages as messages:
                messages.seek(0)
                lines = messages.read().decode(errors="replace").split("\n")
            if self._ready:
                taken = perf_counter() - self._began
                log.info("thali has compiled its %s in %.0f s, and uses it from now on", self.name, taken)
            else:
                self._fail(next((line for line in reversed(lines) if line), "it was stopped"))

    def _fail(self, reason: str) -> None:
        self._failed = True
        log.warning("thali could not compile its %s in the background: %s", self.name, reason)

    def _stop(self) -> None:
        """Stop the other process when this one ends. What it has stored so far stays."""
        if self._compiler is not None:
            self._compiler.kill()
            self._compiler.wait()

    def _after_fork(self) -> None:
        """Forget the other process, which belongs to the parent of this one, and the lock, which may be held there."""
        self._lock, self._compiler, self._unknown = Lock(), None, True

    def _stored(self) -> Path | None:
        """Return the file that exists if the fast code is stored, or None if code cannot be stored.

        Its name changes whenever Numba would compile the code again.
        """
        folder = self._kernel.stats.cache_path
        return None if folder is None else Path(folder) / f"fast-{jit.version()}.stored"


def _lock(stack: contextlib.ExitStack, path: Path) -> None:
    """Wait until no other process holds this lock, and hold it until the stack is closed. Does nothing on Windows."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(stack.enter_context(path.open("w")), fcntl.LOCK_EX)
