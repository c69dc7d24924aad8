"""Group commit: requests that come while the disk is busy become durable together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from thali.service.recommender import Recommender
from thali.service.recommender.operations import ForgetUser, Operation, Prune, TimeOut
from thali.service.recommender.transaction import perform
from thali.service.stores.sql import SqlStore

# The most operations in one transaction: some 20 ms of work.
MOST = 64
# They lock impressions of many users. Together with other operations, two processes could wait for each other.
ALONE = (ForgetUser, Prune, TimeOut)
# A commit that took less than this is not worth another thread.
QUICK_S = 0.001
# If a transaction fails after more than this, the waiting requests fail with it instead of waiting as long again.
SLOW_S = 1.0


class Busy(RuntimeError):  # noqa: N818 (the name of what happened)
    """Too many requests wait for the store."""


class Batcher:
    """Collects operations and performs all that are waiting in one transaction.

    With SQLite, everything is computed in the thread of the event loop, because switching threads takes longer than the
    work; only a slow commit goes to another thread. With PostgreSQL, the whole transaction goes to the other thread,
    because it waits for the network several times.
    """

    def __init__(self, recommender: Recommender, waiting: int, done: Callable[[int, float], None]) -> None:
        """done: called after each transaction with its number of operations and seconds."""
        self.recommender = recommender
        self._waiting: deque[tuple[Sequence[Operation], asyncio.Future[list[Any]]]] = deque()
        self._most_waiting, self._done = waiting, done
        self._commit_s = QUICK_S  # about how long a commit takes
        self._busy, self._wake = False, asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="thali-store")
        self._task = asyncio.create_task(self._run())

    @property
    def waiting(self) -> int:
        """Requests that wait now, without those in the transaction that is under way."""
        return len(self._waiting)

    async def perform(self, operations: Sequence[Operation]) -> list[Any]:
        """Outcomes, durable; raises StoreError if there are none."""
        if self.waiting >= self._most_waiting:
            raise Busy("too many requests are waiting")
        outcome: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((operations, outcome))
        self._wake.set()
        return await outcome

    async def one(self, operation: Operation) -> Any:
        """The outcome of one operation, raised if it is an exception."""
        outcome = (await self.perform((operation,)))[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            taken: list[tuple[Sequence[Operation], asyncio.Future[list[Any]]]] = []
            size = 0
            while self._waiting and (not taken or size + len(self._waiting[0][0]) <= MOST):
                ends = (*taken[-1][0], *self._waiting[0][0]) if taken else ()
                if any(isinstance(one, ALONE) for one in ends):
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
                    if not future.done():  # else its caller has gone; what it asked for is done all the same
                        future.set_result(outcomes[at : at + len(part)])
                    at += len(part)
            self._busy = False
            self._done(size, monotonic() - begin)
            await asyncio.sleep(0)  # so that answers go out and requests come in, where nothing else was waited for

    async def _transaction(self, operations: Sequence[Operation]) -> list[Any]:
        if self.recommender.store.shared:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self.recommender.perform, operations)
        return await perform(self.recommender, operations, self)

    async def pause(self, seconds: float) -> None:
        """Let the event loop go on while another process holds the store."""
        await asyncio.sleep(seconds)

    async def commit(self, store: SqlStore) -> None:
        """Commit here where the disk is quick, else in the other thread."""
        begin = monotonic()
        if self._commit_s < QUICK_S:
            store.commit()
        else:
            await asyncio.get_running_loop().run_in_executor(self._thread, store.commit)
        self._commit_s += 0.1 * (monotonic() - begin - self._commit_s)

    async def close(self) -> None:
        """Let what waits be done, then stop."""
        while self._waiting or self._busy:
            await asyncio.sleep(0.01)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown()
