"""Handlers for items: find, add, change and remove them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.catalog.snapshot import Snapshot, weights_by_topic
from thali.service.recommender.operations import (
    FindItems,
    GetItem,
    PutItem,
    Refused,
    RemoveItem,
    Unknown,
    checked,
    item_name,
)
from thali.service.stores.records import Change, UnusableRecord
from thali.tools import checks
from thali_client.types import Item, Items

if TYPE_CHECKING:
    from thali.service.recommender.transaction import Transaction


def get_item(transaction: Transaction, operation: GetItem) -> Item:
    """Return an item and its weights."""
    live, name = transaction.recommender.live, item_name("item", operation.item)
    weights = transaction.changed[str(name)] if str(name) in transaction.changed else live.weights(name)
    if weights is None:
        raise Unknown(f"item {operation.item!r:.80} is not in the catalog")
    return Item(live.own_name(name), weights)


def find(transaction: Transaction, operation: FindItems) -> Items:
    """Return a page of items."""
    return find_items(transaction.recommender.catalog.snapshot(), operation)


def find_items(catalog: Snapshot, operation: FindItems) -> Items:
    """Return a page of items. Can run in any thread. To search for a text, it passes over all names."""
    offset = checked("offset", checks.integer, operation.offset, low=0)
    limit = checked("limit", checks.integer, operation.limit, low=1, high=1000)
    if not isinstance(operation.contains, str):
        raise Refused("contains", f"must be text, got {operation.contains!r:.80}")
    matches = np.flatnonzero(catalog.present)
    if operation.contains:
        text = operation.contains.lower()
        matches = np.array([e for e in matches.tolist() if text in str(catalog.items[e]).lower()], dtype=np.int64)
    more = offset + limit < len(matches)
    page = matches[offset : offset + limit].tolist()
    items = [Item(catalog.items[e], weights_by_topic(catalog.sparse, catalog.topics, e)) for e in page]
    return Items(len(matches), items, offset + limit if more else None)


def put_item(transaction: Transaction, operation: PutItem) -> Item:
    """Add or change an item. Lists of later transactions can contain it."""
    name = item_name("item", operation.item)
    if isinstance(name, str):
        checked("item", checks.text_name, name)
    else:
        checked("item", checks.integer, name, low=-checks.MOST_COUNT, high=checks.MOST_COUNT)
    item = transaction.recommender.live.own_name(name)
    if not isinstance(operation.weights, Mapping):
        raise Refused("weights", f"must be a mapping from topics to weights, got {operation.weights!r:.80}")
    weights: dict[Any, float] = {}
    topics = set(transaction.recommender.catalog.topics)
    for topic, weight in operation.weights.items():
        if topic not in topics:
            raise Refused("weights", f"must contain only topics of the catalog, got {topic!r:.80}")
        weights[topic] = checked(f"weights.{topic}", checks.number, weight, low=0.0, high=1.0)
    weights = {topic: weight for topic, weight in weights.items() if weight}
    _record_change(transaction, item, weights)
    return Item(item, weights)


def remove_item(transaction: Transaction, operation: RemoveItem) -> Item:
    """Remove an item, and return it."""
    item = get_item(transaction, GetItem(operation.item))
    _record_change(transaction, item.item, None)
    return item


def _record_change(transaction: Transaction, item: Any, weights: dict[Any, float] | None) -> None:
    store, epoch = transaction.store, transaction.recommender.live.epoch
    heading = store.heading()
    if heading is None or heading.epoch != epoch:
        raise UnusableRecord(
            "another process has replaced the catalog in the store: restart this process with the new catalog"
        )
    store.add_change(epoch, Change(store.next_change(epoch), item, weights, transaction.now))
    transaction.changed[str(item)] = weights
