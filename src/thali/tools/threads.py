"""Divide the users of a batch among threads. Kernels release the GIL, and the lists of users are independent."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

_pools: dict[int, ThreadPoolExecutor] = {}
_pools_lock = Lock()
# Threads do not survive a fork, so a forked process creates its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def by_parts(do: Callable[[slice], None], users: int, threads: int) -> None:
    """Call do in parallel, on one slice of the users per thread. If there is only one slice, use the calling thread."""
    parts = min(users, threads)
    if parts <= 1:
        do(slice(0, users))
        return
    with _pools_lock:
        if threads not in _pools:
            _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="thali")
        pool = _pools[threads]
    ends = [users * part // parts for part in range(parts + 1)]
    for done in pool.map(do, map(slice, ends[:-1], ends[1:])):
        assert done is None
