"""Handlers: for each operation, the function that carries it out in a transaction. Modules group them by subject."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thali.service.recommender.handlers import items, lists, upkeep, users
from thali.service.recommender.operations import (
    AddPast,
    Feedback,
    FindItems,
    ForgetUser,
    GetHistory,
    GetImpression,
    GetItem,
    GetStatistics,
    GetStats,
    GetStoreSize,
    GetUser,
    Prune,
    PutItem,
    Recommend,
    RemoveItem,
    SetMeta,
    TimeOut,
    Undo,
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
    SetMeta: upkeep.set_meta,
    TimeOut: upkeep.time_out,
    Prune: upkeep.prune,
    GetStats: upkeep.get_stats,
    GetStoreSize: upkeep.get_store_size,
}
