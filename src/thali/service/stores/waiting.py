"""Ways to wait for a store: until it is free, and until a commit is on disk.

The code that waits is written as coroutines, so that callers that may block and callers in an event loop can share it.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from thali.service.stores.records import StoreError

if TYPE_CHECKING:
    from thali.service.stores.sql import SqlStore

T = TypeVar("T")
# The pause between two tries while another process is using the store.
PAUSE_S = 0.002


class Waiting(Protocol):
    """A way to wait."""

    async def pause(self, seconds: float) -> None:
        """Wait while another process is using the store."""
        ...

    async def commit(self, store: SqlStore) -> None:
        """Call store.commit(), which waits for the disk."""
        ...


class Blocking:
    """Waits by blocking the calling thread."""

    async def pause(self, seconds: float) -> None:
        """Sleep in the calling thread."""
        time.sleep(seconds)

    async def commit(self, store: SqlStore) -> None:
        """Commit in the calling thread."""
        store.commit()


BLOCKING = Blocking()


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that waits with :class:`Blocking` only, and therefore never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("a blocking transaction must not suspend")


async def begin(store: SqlStore, waiting: Waiting, patience: float, *, write: bool = True) -> None:
    """Begin a transaction. Wait up to patience seconds while another process is using the store."""
    until = time.monotonic() + patience
    while not store.begin(write=write):
        if time.monotonic() > until:
            raise StoreError(f"store {store.url} was locked by another process for more than {patience:g} s")
        await waiting.pause(PAUSE_S)
