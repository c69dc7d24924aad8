"""Group commit: requests that arrive while the disk is busy are committed together in one transaction."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from thali.service.recommender import Recommender
from thali.service.recommender.operations import (
    ForgetUser,
    Operation,
    Prune,
    PutItems,
    RefreshQuality,
    SetPrior,
    TimeOut,
    UseCatalog,
)
from thali.service.recommender.transaction import perform
from thali.service.stores.sql import SqlStore

# The largest number of operations in one transaction, which is about 20 ms of work.
MAX_OPERATIONS = 64
# Operations that lock impressions of many users, or the whole store. If they shared a transaction with others,
# processes could deadlock. Large changes of items are alone so that others do not wait for them in one transaction.
ALONE = (ForgetUser, Prune, PutItems, RefreshQuality, SetPrior, TimeOut, UseCatalog)
# A commit that takes less time than this runs in the event loop, because switching to another thread takes longer.
QUICK_S = 0.001
# If a transaction fails after more than this, the waiting requests fail with it instead of waiting just as long.
SLOW_S = 1.0


class Busy(RuntimeError):  # noqa: N818 (named after what happened)
    """The service cannot accept a request at the moment, because it is busy with others."""


class Batcher:
    """Collects operations, and performs those that are waiting in one transaction.

    With SQLite, everything is computed in the thread of the event loop, because switching threads takes longer than the
    work itself. Only a slow commit runs in another thread. With PostgreSQL, the whole transaction runs in the other
    thread, because it waits for the network several times.
    """

    def __init__(self, recommender: Recommender, max_waiting: int, done: Callable[[int, float], None]) -> None:
        """max_waiting: how many requests may wait; done: called after a transaction with its operations and seconds."""
        self.recommender = recommender
        self._waiting: deque[tuple[Sequence[Operation], asyncio.Future[list[Any]]]] = deque()
        self._max_waiting, self._done = max_waiting, done
        self._commit_s = QUICK_S  # a moving average of the time that a commit takes
        self._busy, self._wake = False, asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="thali-store")
        self._task = asyncio.create_task(self._run())

    @property
    def waiting(self) -> int:
        """The number of requests that are waiting, excluding those in the current transaction."""
        return len(self._waiting)

    async def perform(self, operations: Sequence[Operation]) -> list[Any]:
        """Return the result or exception of each operation, when they are durable. Raises StoreError if that fails."""
        if self.waiting >= self._max_waiting:
            raise Busy("too many requests are waiting")
        outcome: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((operations, outcome))
        self._wake.set()
        return await outcome

    async def one(self, operation: Operation) -> Any:
        """Return the result of one operation, or raise its exception."""
        outcome = (await self.perform((operation,)))[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            taken: list[tuple[Sequence[Operation], asyncio.Future[list[Any]]]] = []
            size = 0
            while self._waiting and (not taken or size + len(self._waiting[0][0]) <= MAX_OPERATIONS):
                last_and_next = (*taken[-1][0], *self._waiting[0][0]) if taken else ()
                if any(isinstance(operation, ALONE) for operation in last_and_next):
                    break
                taken.append(self._waiting.popleft())
                size += len(taken[-1][0])
            if not self._waiting:
                self._wake.clear()
            self._busy, begin = True, monotonic()
            operations = [operation for part, _ in taken for operation in part]
            try:
                outcomes = await self._transaction(operations)
            except Exception as error:
                if monotonic() - begin > SLOW_S:
                    taken.extend(self._waiting)
                    self._waiting.clear()
                for _, future in taken:
                    if not future.done():
                        future.set_exception(error)
            else:
                at = 0
                for part, future in taken:
                    if not future.done():  # it is done if the caller has disconnected; its operations were performed
                        future.set_result(outcomes[at : at + len(part)])
                    at += len(part)
            self._busy = False
            self._done(size, monotonic() - begin)
            await asyncio.sleep(0)  # let the event loop send responses and receive requests, even if nothing blocked

    async def _transaction(self, operations: Sequence[Operation]) -> list[Any]:
        if self.recommender.store.shared:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self.recommender.perform, operations)
        return await perform(self.recommender, operations, self)

    async def pause(self, seconds: float) -> None:
        """Let the event loop continue while another process is using the store."""
        await asyncio.sleep(seconds)

    async def commit(self, store: SqlStore) -> None:
        """Commit in this thread if the disk is quick, and otherwise in the other thread."""
        begin = monotonic()
        if self._commit_s < QUICK_S:
            store.commit()
        else:
            await asyncio.get_running_loop().run_in_executor(self._thread, store.commit)
        self._commit_s += 0.1 * (monotonic() - begin - self._commit_s)

    async def close(self) -> None:
        """Perform the operations that are still waiting, then stop."""
        while self._waiting or self._busy:
            await asyncio.sleep(0.01)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown()
