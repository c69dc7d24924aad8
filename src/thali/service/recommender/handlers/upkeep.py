"""Upkeep: time-outs, pruning, stored values, counters, size."""

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
from thali.service.stores.records import id_floor
from thali.tools import checks
from thali_client.types import Stats

if TYPE_CHECKING:
    from thali.service.recommender.transaction import Transaction

# How much later a time-out is given where several processes show lists.
LAG_S = 60.0
# In one transaction.
MOST_TIDIED = 1_000_000


def set_meta(transaction: Transaction, asked: SetMeta) -> None:
    """Store or remove a value under a name."""
    store = transaction.store
    if asked.was is not ...:
        store.lock_setup()
        if store.meta(asked.name) != asked.was:
            raise Conflict(f"{asked.name} is no longer {asked.was!r}: another process is changing it")
    if asked.value is None:
        store.drop_meta(asked.name)
    else:
        store.set_meta(asked.name, asked.value)


def time_out(transaction: Transaction, asked: TimeOut) -> int:
    """Learn no click where feedback is overdue. Every impression is looked at once, so one that is undone stays so."""
    limit = checked("limit", checks.integer, asked.limit, low=1, high=MOST_TIDIED)
    recommender, store = transaction.recommender, transaction.store
    if recommender.no_click_after is None:
        return 0
    transaction.write()
    since = bytes.fromhex(store.meta("timed_out_until") or "")
    # Other processes may have other clocks, and may commit later what they have shown.
    lag = LAG_S if store.shared else 0.0
    until = id_floor(max(0.0, transaction.now - recommender.no_click_after - lag))
    ids = store.unanswered(since, until, limit)
    late = transaction.run([Feedback(id, (), "time-out") for id in ids])
    store.set_meta("timed_out_until", (ids[-1] + b"\0" if len(ids) == limit else max(since, until)).hex())
    return sum(not isinstance(outcome, Exception) for outcome in late)


def prune(transaction: Transaction, asked: Prune) -> int:
    """Remove expired impressions; returns how many."""
    limit = checked("limit", checks.integer, asked.limit, low=1, high=MOST_TIDIED)
    return transaction.store.prune(transaction.recommender.oldest(transaction.now), limit)


def get_stats(transaction: Transaction, asked: GetStats) -> Stats:
    """How the learners do."""
    hours = checked("hours", checks.integer, asked.hours, low=1, high=24 * 366)
    since = counters.hour(transaction.now) - hours + 1
    return counters.stats(transaction.recommender, transaction.store.counters(since), since)


def get_store_size(transaction: Transaction, asked: GetStoreSize) -> int:
    """Bytes on disk."""
    return transaction.store.size()
