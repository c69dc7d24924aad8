"""How a caller waits for a store: for its turn to write, and for the disk.

Written as coroutines, so that a caller that may block and one in an event loop share the same code.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from thali.service.stores.records import StoreError

if TYPE_CHECKING:
    from thali.service.stores.sql import SqlStore

T = TypeVar("T")
# Between two tries while another process holds the store.
PAUSE_S = 0.002


class Waiting(Protocol):
    """How a caller waits."""

    async def pause(self, seconds: float) -> None:
        """Let another process finish with the store."""
        ...

    async def commit(self, store: SqlStore) -> None:
        """Call store.commit(), which waits for the disk."""
        ...


class Blocking:
    """Waits in the calling thread."""

    async def pause(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    async def commit(self, store: SqlStore) -> None:
        """Commit."""
        store.commit()


BLOCKING = Blocking()


def run_blocking(path: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that waits by :class:`Blocking` only, and therefore never suspends."""
    try:
        path.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("a blocking transaction must not suspend")


async def begin(store: SqlStore, waiting: Waiting, patience: float, *, write: bool = True) -> None:
    """Begin a transaction; wait for up to patience seconds while another process holds the store."""
    until = time.monotonic() + patience
    while not store.begin(write=write):
        if time.monotonic() > until:
            raise StoreError(f"store {store.url} was held by another process for {patience:g} s")
        await waiting.pause(PAUSE_S)
