"""Handlers: for each operation, the function that carries it out in a transaction. Modules group them by subject."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thali.service.recommender.handlers import histories, items, lists, priors, upkeep, users
from thali.service.recommender.operations import (
    AddHistory,
    AddPast,
    Feedback,
    FindItems,
    ForgetUser,
    GetHistory,
    GetImpression,
    GetItem,
    GetPrior,
    GetStatistics,
    GetStats,
    GetStoreSize,
    GetUser,
    Prune,
    PutItem,
    PutItems,
    Recommend,
    RefreshQuality,
    RemoveHistory,
    RemoveItem,
    SetMeta,
    SetPrior,
    TimeOut,
    Undo,
    UseCatalog,
)

#: The handler of each type of operation. It takes the transaction and the operation.
HANDLERS: dict[type, Callable[[Any, Any], Any]] = {
    Recommend: lists.recommend,
    Feedback: lists.feedback,
    Undo: lists.undo,
    AddPast: lists.add_past,
    GetImpression: lists.get_impression,
    GetUser: users.get_user,
    GetStatistics: users.get_statistics,
    GetHistory: users.get_history,
    ForgetUser: users.forget_user,
    GetItem: items.get_item,
    FindItems: items.find,
    PutItem: items.put_item,
    RemoveItem: items.remove_item,
    PutItems: items.put_items,
    RefreshQuality: items.refresh_quality,
    UseCatalog: items.use_catalog,
    AddHistory: histories.add_history,
    RemoveHistory: histories.remove_history,
    GetPrior: priors.get_prior,
    SetPrior: priors.set_prior,
    SetMeta: upkeep.set_meta,
    TimeOut: upkeep.time_out,
    Prune: upkeep.prune,
    GetStats: upkeep.get_stats,
    GetStoreSize: upkeep.get_store_size,
}
