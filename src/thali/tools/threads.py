"""Users of a batch on several threads: kernels release the GIL, and nobody's list depends on another's."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

_pools: dict[int, ThreadPoolExecutor] = {}
_making = Lock()
# Threads do not come along into a forked process: it makes its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def by_parts(do: Callable[[slice], None], users: int, threads: int) -> None:
    """Call do for the users in as many parts as there are threads, at once; in this thread, if there is one part."""
    parts = min(users, threads)
    if parts <= 1:
        do(slice(0, users))
        return
    with _making:
        if threads not in _pools:
            _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="thali")
        pool = _pools[threads]
    ends = [users * part // parts for part in range(parts + 1)]
    for done in pool.map(do, map(slice, ends[:-1], ends[1:])):
        assert done is None
