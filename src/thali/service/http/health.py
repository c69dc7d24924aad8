"""The health of a service, for its operators."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import perf_counter, time_ns
from typing import TYPE_CHECKING

from thali.service.http.batcher import Batcher, Busy
from thali.service.http.slowest import SlowRequest
from thali.service.recommender.operations import Mark, Size
from thali.service.stores import StoreError

if TYPE_CHECKING:
    from thali.service.http.state import Service

# How long the caller waits for the store; a transaction that is under way then is not undone.
PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """Whether the store can be used, tried just now."""

    url: str
    """Without a password."""
    kind: str
    """"sqlite" or "postgresql"."""
    usable: bool
    """Whether a transaction was committed within 5 seconds."""
    error: str | None
    """Why not, as a sentence."""
    seconds: float
    """Until the transaction was committed or given up, including its wait for other transactions."""
    bytes: int | None
    """Size on disk: with SQLite the file and its log, with PostgreSQL the whole database; null if it is not usable."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of one process of the service, the one that responds, and of the store that all processes share."""

    process: str
    """Its id, with which the request ids that it makes begin."""
    started_at: float
    """In seconds since 1970."""
    store: StoreHealth
    waiting: int
    """Requests that were waiting for the store when this one arrived."""
    most_waiting: int
    """If more requests than this wait, new ones get 503."""
    transactions: int
    """Since the start, including those that failed."""
    transaction_seconds: float | None
    """Their mean duration."""
    store_errors: int
    """Requests that failed because of the store, since the start."""
    tastes_in_memory: int
    slowest: list[SlowRequest]
    """The 20 slowest requests of about the last hour, the slowest first."""


async def examine(service: Service, request_id: str) -> Health:
    """Examine the process and its store; an error of the store is part of the result. Cost: two transactions."""
    waiting = service.batcher.waiting
    store = await _store(service, request_id)
    value = service.metrics.value
    transactions = int(value("thali_transaction_seconds_count"))
    return Health(
        process=service.process,
        started_at=service.started_at,
        store=store,
        waiting=waiting,
        most_waiting=service.settings.limits.waiting,
        transactions=transactions,
        transaction_seconds=value("thali_transaction_seconds_sum") / transactions if transactions else None,
        store_errors=int(value("thali_store_errors_total")),
        tastes_in_memory=len(service.recommender.tastes),
        slowest=service.slowest.all(),
    )


async def try_store(batcher: Batcher) -> None:
    """Perform a transaction; raises StoreError if that fails.

    With SQLite it has to write, since only then a full disk is noticed, and to write a new value each time, since
    SQLite skips a value that is there already. PostgreSQL refuses to begin a transaction if it cannot write.
    """
    await batcher.perform(() if batcher.recommender.store.shared else (Mark("asked_at", str(time_ns())),))


async def _store(service: Service, request_id: str) -> StoreHealth:
    store, begin = service.recommender.store, perf_counter()
    seconds, size, error = None, None, None
    try:
        async with asyncio.timeout(PATIENCE_S):
            await try_store(service.batcher)
            seconds = perf_counter() - begin
            size = await service.batcher.one(Size())
    except TimeoutError:
        error = f"store {store.url} cannot be used: nothing was done for {PATIENCE_S:g} s"
    except (StoreError, Busy) as failure:
        service.report_error(failure, request_id)
        error = str(failure)
    seconds = perf_counter() - begin if seconds is None else seconds
    return StoreHealth(store.url, store.kind, error is None, error, seconds, size)
