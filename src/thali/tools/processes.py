"""Stop a process pool before its work is finished, and notice that the terminal of this process was closed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

# How long to wait for the pool's own thread. It normally notices within milliseconds that the processes have ended.
TIMEOUT_S = 10.0


def end(pool: ProcessPoolExecutor) -> None:
    """Kill the processes of a pool immediately. Work in progress is lost.

    This function also waits for the pool's own thread to end. Otherwise, when Python exits, it might wake that thread
    while the thread is closing its pipe, and report a bad file descriptor.
    """
    thread: Any = pool._executor_manager_thread  # there is no public attribute
    children = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for child in children:
        child.kill()
    if thread is not None:
        thread.join(TIMEOUT_S)


def closing_terminal() -> Callable[[], bool]:
    """Return a function that says whether the terminal was closed in which this process runs.

    SIGHUP says that, too, but a process that uses SIGHUP for something else cannot tell. Call this before that use
    begins. The function always returns False if the process has no terminal, or ignores SIGHUP (``nohup``).
    """
    ends_with_it = _has_terminal() and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    return lambda: ends_with_it and not _has_terminal()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
