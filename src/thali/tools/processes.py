"""Stop a process pool before its work is finished."""

from __future__ import annotations

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
