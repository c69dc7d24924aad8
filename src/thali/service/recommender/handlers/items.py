"""Items: look them up, add, change and remove them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.service.recommender.operations import FindItems, GetItem, PutItem, Refused, RemoveItem, Unknown, checked
from thali.service.stores.records import Change, Unusable
from thali.tools import checks
from thali_client.types import Item, Items

if TYPE_CHECKING:
    from thali.service.recommender.recommender import Recommender
    from thali.service.recommender.transaction import Transaction


def get_item(transaction: Transaction, asked: GetItem) -> Item:
    """An item and its weights."""
    if not isinstance(asked.item, str | int) or isinstance(asked.item, bool):
        raise Refused("item", f"must be text or a whole number, got {asked.item!r:.80}")
    if asked.item in transaction.changed:
        weights = transaction.changed[asked.item]
    else:
        weights = transaction.recommender.live.weights(asked.item)
    if weights is None:
        raise Unknown(f"item {asked.item!r:.80} is not in the catalog")
    return Item(asked.item, weights)


def find(transaction: Transaction, asked: FindItems) -> Items:
    """A page of items."""
    return find_items(transaction.recommender, asked)


def find_items(recommender: Recommender, asked: FindItems) -> Items:
    """A page of items; with a text to look for, a pass over all names. Needs no transaction."""
    catalog, live = recommender.catalog, recommender.live
    offset = checked("offset", checks.integer, asked.offset, low=0)
    limit = checked("limit", checks.integer, asked.limit, low=1, high=1000)
    if not isinstance(asked.contains, str):
        raise Refused("contains", f"must be text, got {asked.contains!r:.80}")
    found = np.flatnonzero(catalog.present)
    if asked.contains:
        text = asked.contains.lower()
        found = np.array([e for e in found.tolist() if text in str(catalog.items[e]).lower()], dtype=np.int64)
    more = offset + limit < len(found)
    page = found[offset : offset + limit].tolist()
    items = [Item(catalog.items[e], live.weights_of(e)) for e in page]
    return Items(len(found), items, offset + limit if more else None)


def put_item(transaction: Transaction, asked: PutItem) -> Item:
    """Add or change an item: durable with this transaction, and shown from the next list on."""
    if isinstance(asked.item, int):
        item = checked("item", checks.integer, asked.item, low=-checks.MOST_COUNT, high=checks.MOST_COUNT)
    else:
        item = checked("item", checks.text_name, asked.item)
    if not isinstance(asked.weights, Mapping):
        raise Refused("weights", f"must be weights by topic, got {asked.weights!r:.80}")
    weights: dict[Any, float] = {}
    topics = set(transaction.recommender.catalog.topics)
    for topic, weight in asked.weights.items():
        if topic not in topics:
            raise Refused("weights", f"must be of topics of the catalog, got {topic!r:.80}")
        weights[topic] = checked(f"weights.{topic}", checks.number, weight, low=0.0, high=1.0)
    weights = {topic: weight for topic, weight in weights.items() if weight}
    _change(transaction, item, weights)
    return Item(item, weights)


def remove_item(transaction: Transaction, asked: RemoveItem) -> Item:
    """Remove an item."""
    item = get_item(transaction, GetItem(asked.item))
    _change(transaction, asked.item, None)
    return item


def _change(transaction: Transaction, item: Any, weights: dict[Any, float] | None) -> None:
    store, epoch = transaction.store, transaction.recommender.live.epoch
    heading = store.heading()
    if heading is None or heading.epoch != epoch:
        raise Unusable("another catalog has replaced this process's: start it again with that one")
    store.add_change(epoch, Change(store.next_change(epoch), item, weights, transaction.now))
    transaction.changed[item] = weights
