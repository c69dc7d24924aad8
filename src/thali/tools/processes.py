"""Stop process pools before their work is done."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from typing import Any

# The pool's thread normally notices within milliseconds that the processes are gone.
PATIENCE_S = 10.0


def end(pool: ProcessPoolExecutor) -> None:
    """Kill a pool's processes at once; work in progress is lost.

    Returns when the pool's own thread has ended as well. Otherwise Python, at exit, may wake that thread while it is
    closing its pipe and report a bad file descriptor.
    """
    thread: Any = pool._executor_manager_thread  # there is no public attribute
    children = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for child in children:
        child.kill()
    if thread is not None:
        thread.join(PATIENCE_S)
