"""Pools of processes that are ended before their work is done."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from typing import Any

# Its thread sees within milliseconds that the processes are gone.
PATIENCE_S = 10.0


def end(pool: ProcessPoolExecutor) -> None:
    """End a pool's processes at once: what they were at is lost.

    Returns when the pool's own thread has ended as well. Else Python, when it ends itself, may wake a thread that is
    just closing its pipe, and tell of a bad file descriptor.
    """
    thread: Any = pool._executor_manager_thread  # it has no public name
    children = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for child in children:
        child.kill()
    if thread is not None:
        thread.join(PATIENCE_S)
