"""Stop a process pool before its work is finished, and tell what SIGHUP means: the terminal was closed, or reload."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from threading import Event, Thread
from time import sleep
from typing import Any

# How long to wait for the pool's own thread. It normally notices within milliseconds that the processes have ended.
TIMEOUT_S = 10.0
# How often to look whether the terminal is still there, and how long SIGHUP may take to arrive afterwards.
TERMINAL_S = 5.0
# Whether SIGHUP has come that waits.
_held = Event()


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


@cache
def closing_terminal() -> Callable[[], bool]:
    """Return a function that says, after SIGHUP, whether the terminal was closed in which this process runs.

    SIGHUP usually says that, but a process that uses SIGHUP for something else cannot tell. The first call must be
    before that use begins. The function always returns False if the process has no terminal, or ignores SIGHUP
    (``nohup``). It also does so if the terminal was closed some time ago without SIGHUP: a background job survives if
    its shell exits.
    """
    if not _has_terminal() or signal.getsignal(signal.SIGHUP) != signal.SIG_DFL:
        return lambda: False
    survived = Event()
    Thread(target=_watch_terminal, args=(survived,), name="terminal", daemon=True).start()
    return lambda: not survived.is_set() and not _has_terminal()


def hold_hangup() -> None:
    """Let SIGHUP wait until :func:`receive_hangup`, unless it says that the terminal of this process was closed.

    A process that uses SIGHUP calls this first, because SIGHUP would end it until it has a handler.
    """
    terminal_closed = closing_terminal()

    def hold(*_: object) -> None:
        if terminal_closed():
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            signal.raise_signal(signal.SIGHUP)
        _held.set()

    signal.signal(signal.SIGHUP, hold)


def start_without_hangup(start: Callable[[], None]) -> None:
    """Start a process, in which SIGHUP waits until :func:`receive_hangup`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def receive_hangup() -> None:
    """Receive SIGHUP from now on, and at once if one has been waiting. Call this when there is a handler for it."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    if _held.is_set():
        _held.clear()
        signal.raise_signal(signal.SIGHUP)


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
