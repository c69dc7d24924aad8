"""Health checks of a service, for its operators."""

from __future__ import annotations

import asyncio
from time import perf_counter, time_ns
from typing import TYPE_CHECKING

from thali.service.http.batcher import Batcher, Busy
from thali.service.recommender.operations import GetStoreSize, SetMeta
from thali.service.stores import StoreError
from thali_client.types import Health, StoreHealth

if TYPE_CHECKING:
    from thali.service.http.state import Service

# How long to wait for the store. A transaction that is still running after that is not cancelled.
PATIENCE_S = 5.0


async def check_health(service: Service, request_id: str) -> Health:
    """Check the process and its store. An error of the store is part of the result. Cost: two transactions."""
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
    """Perform a transaction. Raises StoreError if that fails.

    With SQLite, the transaction has to write something, because a full disk is noticed only then. It has to write a new
    value each time, because SQLite does not write a value that is already stored. With PostgreSQL, beginning the
    transaction is enough, because that fails if the server cannot write.
    """
    await batcher.perform(() if batcher.recommender.store.shared else (SetMeta("asked_at", str(time_ns())),))


async def _store(service: Service, request_id: str) -> StoreHealth:
    store, begin = service.recommender.store, perf_counter()
    seconds, size, error = None, None, None
    try:
        async with asyncio.timeout(PATIENCE_S):
            await try_store(service.batcher)
            seconds = perf_counter() - begin
            size = await service.batcher.one(GetStoreSize())
    except TimeoutError:
        error = f"store {store.url} cannot be used: it did not respond within {PATIENCE_S:g} s"
    except (StoreError, Busy) as failure:
        service.report_error(failure, request_id)
        error = str(failure)
    seconds = perf_counter() - begin if seconds is None else seconds
    return StoreHealth(store.url, store.kind, error is None, error, seconds, size)
