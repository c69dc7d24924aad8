"""Handlers for upkeep: time-outs, pruning, stored values, stats and the size of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thali.service.recommender import counters
from thali.service.recommender.operations import (
    Conflict,
    Feedback,
    GetStats,
    GetStoreSize,
    Prune,
    SetMeta,
    TimeOut,
    checked,
)
from thali.service.recommender.prior_check import stored_checks
from thali.service.stores.records import id_floor
from thali.tools import checks
from thali_client.types import Stats

if TYPE_CHECKING:
    from thali.service.recommender.transaction import Transaction

# How much longer to wait for feedback if other processes can show lists, too.
LAG_S = 60.0
# The largest number of impressions that one operation may time out or remove.
MAX_LIMIT = 1_000_000


def set_meta(transaction: Transaction, operation: SetMeta) -> None:
    """Store a value under a name, or remove it."""
    store = transaction.store
    if operation.expected is not ... and store.meta(operation.name) != operation.expected:
        raise Conflict(
            f"stored value {operation.name!r} must be {operation.expected!r}, but another process has changed it. "
            "Try again when that process has finished"
        )
    if operation.value is None:
        store.drop_meta(operation.name)
    else:
        store.set_meta(operation.name, operation.value)


def time_out(transaction: Transaction, operation: TimeOut) -> int:
    """Treat overdue feedback as no click. Returns the number of impressions that timed out.

    Every impression is considered only once. If its time-out is undone, it does not time out again.
    """
    limit = checked("limit", checks.integer, operation.limit, low=1, high=MAX_LIMIT)
    recommender, store = transaction.recommender, transaction.store
    if recommender.no_click_after is None:
        return 0
    transaction.write()
    since = bytes.fromhex(store.meta("timed_out_until") or "")
    # The clocks of other processes may differ, and other processes may commit a list some time after they chose it.
    lag = LAG_S if store.shared else 0.0
    until = id_floor(max(0.0, transaction.now - recommender.no_click_after - lag))
    ids = store.unanswered(since, until, limit)
    outcomes = transaction.run([Feedback(id, (), "time-out") for id in ids])
    store.set_meta("timed_out_until", (ids[-1] + b"\0" if len(ids) == limit else max(since, until)).hex())
    return sum(not isinstance(outcome, Exception) for outcome in outcomes)


def prune(transaction: Transaction, operation: Prune) -> int:
    """Remove expired impressions, and return how many were removed."""
    limit = checked("limit", checks.integer, operation.limit, low=1, high=MAX_LIMIT)
    return transaction.store.prune(transaction.recommender.oldest(transaction.now), limit)


def get_stats(transaction: Transaction, operation: GetStats) -> Stats:
    """Return the stats of the learners."""
    hours = checked("hours", checks.integer, operation.hours, low=1, high=24 * 366)
    since = counters.hour(transaction.now) - hours + 1
    recommender = transaction.recommender
    return counters.stats(recommender, transaction.store.counters(since), since, stored_checks(recommender))


def get_store_size(transaction: Transaction, operation: GetStoreSize) -> int:
    """Return how many bytes the store uses on disk."""
    return transaction.store.size()
