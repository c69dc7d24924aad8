"""How a service is, for those who run it."""

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
    from thali.service.http.routes import Service

# The one who asks waits so long for the store; what it does meanwhile is not undone.
PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """How the store is, tried just now."""

    url: str
    """Without a password."""
    kind: str
    """"sqlite" or "postgresql"."""
    usable: bool
    """Whether a transaction was done, within 5 seconds."""
    error: str | None
    """Why not, a sentence."""
    seconds: float
    """Until the transaction was done, or given up: with its wait for others."""
    bytes: int | None
    """On disk: of SQLite the file and its log, of PostgreSQL all of the database; null if the store is not usable."""


@dataclass(frozen=True, slots=True)
class Health:
    """How one process of the service is; where it has several, all but the store is of the one that answers."""

    process: str
    """Its id, with which the request ids that it makes begin: another one where another process answers."""
    started_at: float
    """In seconds since 1970."""
    store: StoreHealth
    waiting: int
    """Requests that waited for the store when this one came."""
    most_waiting: int
    """More are turned away."""
    transactions: int
    """Since the start; with those that failed."""
    transaction_seconds: float | None
    """The mean over them."""
    store_errors: int
    """Requests that the store failed, since the start."""
    tastes_in_memory: int
    slowest: list[SlowRequest]
    """The 20 that took longest in about the last hour, the slowest first."""


async def examine(service: Service, request_id: str) -> Health:
    """The process and its store now; an error of the store is a part of it. Cost: two transactions."""
    waiting = service.batcher.waiting
    store = await _store(service, request_id)
    value = service.metrics.value
    transactions = int(value("thali_transaction_seconds_count"))
    return Health(
        process=service.gate.process,
        started_at=service.started_at,
        store=store,
        waiting=waiting,
        most_waiting=service.settings.limits.waiting,
        transactions=transactions,
        transaction_seconds=value("thali_transaction_seconds_sum") / transactions if transactions else None,
        store_errors=int(value("thali_store_errors_total")),
        tastes_in_memory=len(service.recommender.tastes),
        slowest=service.gate.slowest.told(),
    )


async def try_store(batcher: Batcher) -> None:
    """A transaction; raises StoreError if it cannot be done.

    Only who writes learns that a disk is full, and SQLite does not write what is there already. PostgreSQL refuses to
    begin where it cannot be written.
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
        service.gate.note(failure, request_id)
        error = str(failure)
    seconds = perf_counter() - begin if seconds is None else seconds
    return StoreHealth(store.url, store.kind, error is None, error, seconds, size)
