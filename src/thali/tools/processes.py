"""Stop a process pool before its work is finished, and notice that the terminal of this process was closed."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from threading import Event, Thread
from time import sleep
from typing import Any

# How long to wait for the pool's own thread. It normally notices within milliseconds that the processes have ended.
TIMEOUT_S = 10.0
# How often to look whether the terminal is still there, and how long SIGHUP may take to arrive afterwards.
TERMINAL_S = 5.0


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
    """Return a function that says, after SIGHUP, whether the terminal was closed in which this process runs.

    SIGHUP usually says that, but a process that uses SIGHUP for something else cannot tell. Call this before that use
    begins. The function always returns False if the process has no terminal, or ignores SIGHUP (``nohup``). It also
    does so if the terminal was closed some time ago without SIGHUP: a background job survives if its shell exits.
    """
    if not _has_terminal() or signal.getsignal(signal.SIGHUP) != signal.SIG_DFL:
        return lambda: False
    survived = Event()
    Thread(target=_watch_terminal, args=(survived,), name="terminal", daemon=True).start()
    return lambda: not survived.is_set() and not _has_terminal()


def _watch_terminal(survived: Event) -> None:
    """Notice that the terminal was closed, and then give SIGHUP some time to arrive."""
    while _has_terminal():
        sleep(TERMINAL_S)
    sleep(TERMINAL_S)
    survived.set()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)  # too many files are open, which says nothing
    return True
