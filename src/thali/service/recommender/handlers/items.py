"""Handlers for items: find, add, change and remove them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.catalog.snapshot import Snapshot, weights_by_topic
from thali.policies.relative_quality import RelativeQuality
from thali.service.recommender.operations import (
    FindItems,
    GetItem,
    PutItem,
    PutItems,
    RefreshQuality,
    Refused,
    RemoveItem,
    Unknown,
    UseCatalog,
    checked,
    item_name,
)
from thali.service.stores.records import Change, UnusableRecord
from thali.tools import checks
from thali_client.types import Item, ItemQuality, Items

if TYPE_CHECKING:
    from thali.service.recommender.transaction import Transaction


# The clicks of so many transactions are counted at a time, so that other requests do not have to wait long. After the
# first of several times, a value in the store records that the quality was not refreshed yet.
COUNTED, NOT_REFRESHED = 100, "quality_not_refreshed"


# In one request, at most this many different sets of topics can be given instead of weights.
MOST_SETS = 1000
# The weights that an item usually has, by the names of its topics.
Typical = dict[tuple[str, ...], dict[Any, float]]


class Refreshed(NamedTuple):
    """Whether clicks were counted, and whether there may be more."""

    counted: bool
    more: bool


def get_item(transaction: Transaction, operation: GetItem) -> Item:
    """Return an item and its weights."""
    live, name = transaction.recommender.live, item_name("item", operation.item)
    weights = transaction.changed[str(name)] if str(name) in transaction.changed else live.weights(name)
    if weights is None:
        raise Unknown(f"item {operation.item!r:.80} is not in the catalog")
    return Item(live.own_name(name), weights, _quality(live.quality, live.find(name)))


def _quality(quality: RelativeQuality | None, e: int | None) -> ItemQuality | None:
    """Return the quality of an item as it was last refreshed, if the catalog has one."""
    return None if quality is None or e is None or e >= quality.L else ItemQuality(*quality.of(e))


def find(transaction: Transaction, operation: FindItems) -> Items:
    """Return a page of items."""
    live = transaction.recommender.live
    return find_items(live.catalog.snapshot(), live.quality, operation)


def find_items(catalog: Snapshot, quality: RelativeQuality | None, operation: FindItems) -> Items:
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
    items = [
        Item(catalog.items[e], weights_by_topic(catalog.sparse, catalog.topics, e), _quality(quality, e)) for e in page
    ]
    return Items(len(matches), items, offset + limit if more else None)


def put_item(transaction: Transaction, operation: PutItem) -> Item:
    """Add or change an item. Lists of later transactions can contain it."""
    item = _checked(transaction, operation, None)
    _record_changes(transaction, [(item.item, item.weights)])
    return item


def put_items(transaction: Transaction, operation: PutItems) -> int:
    """Add, change or remove many items: all or, if one is not valid, none. Return how many."""
    changes = checked("items", checks.sequence, operation.changes)
    typical: Typical = {}
    if operation.epoch == transaction.recommender.live.epoch:  # otherwise, another catalog was put into use since
        typical = {topics: dict(weights) for topics, weights in operation.typical.items()}
    found: dict[str, tuple[Any, dict[Any, float] | None]] = {}
    for index, change in enumerate(changes):
        try:
            if not isinstance(change, PutItem | RemoveItem):
                raise TypeError(f"items[{index}] must be a PutItem or a RemoveItem, got {change!r:.80}")
            if isinstance(change, RemoveItem):
                item = get_item(transaction, GetItem(change.item))
                new: tuple[Any, dict[Any, float] | None] = item.item, None
            else:
                item = _checked(transaction, change, typical)
                new = item.item, item.weights
        except Refused as refusal:
            raise Refused(f"items[{index}].{refusal.field}", str(refusal).removeprefix(f"{refusal.field} ")) from None
        except Unknown:
            raise Refused(
                f"items[{index}].item", f"must be in the catalog to be removed, got {change.item!r:.80}"
            ) from None
        if str(item.item) in found:
            raise Refused(f"items[{index}].item", f"must not appear twice, got {item.item!r:.80}")
        found[str(item.item)] = new
    _record_changes(transaction, list(found.values()))
    return len(found)


def usual_weights(catalog: Snapshot, changes: Sequence[PutItem | RemoveItem]) -> Typical:
    """Return the weights that items with these topics usually have, by the names of their topics.

    Can run in any thread. Topics that are not valid are left out: :func:`put_items` refuses them. Cost: O(nnz) for each
    set of topics.
    """
    number = {str(topic): j for j, topic in enumerate(catalog.topics)}
    texts = [change.topics for change in changes if isinstance(change, PutItem) and change.topics is not None]
    sets = {tuple(sorted(topics)) for topics in texts if set(topics) <= number.keys()}
    if len(sets) > MOST_SETS:
        raise Refused("items", f"must have at most {MOST_SETS:,} different sets of topics, got {len(sets):,}")
    found: Typical = {}
    for topics in sets:
        row = catalog.typical([number[topic] for topic in topics]) if len(set(topics)) == len(topics) else None
        if row is not None:
            found[topics] = {catalog.topics[j]: float(row[j]) for j in np.flatnonzero(row).tolist()}
    return found


def _checked(transaction: Transaction, operation: PutItem, typical: Typical | None) -> Item:
    """Check the name and the weights or topics of an item. typical: see :func:`_typical`."""
    name = item_name("item", operation.item)
    if isinstance(name, str):
        checked("item", checks.text_name, name)
    else:
        checked("item", checks.integer, name, low=-checks.MOST_COUNT, high=checks.MOST_COUNT)
    live = transaction.recommender.live
    item = live.own_name(name)
    if (operation.weights is None) == (operation.topics is None):
        got = "neither" if operation.weights is None else "both"
        raise Refused("weights", f"must be given, or topics instead, got {got}")
    weights: dict[Any, float] = {}
    if operation.topics is not None:
        weights = dict(_typical(transaction, item, operation.topics, typical))
    elif not isinstance(operation.weights, Mapping):
        raise Refused("weights", f"must be a mapping from topics to weights, got {operation.weights!r:.80}")
    else:
        topics = set(transaction.recommender.catalog.topics)
        for topic, weight in operation.weights.items():
            if topic not in topics:
                raise Refused("weights", f"must contain only topics of the catalog, got {topic!r:.80}")
            weights[topic] = checked(f"weights.{topic}", checks.number, weight, low=0.0, high=1.0)
    # The quality is learned. It stays, unless the weights contain it.
    if live.quality is not None and live.quality_topic not in (operation.weights or {}):
        weights[live.quality_topic] = live.current_quality(item)
    quality = _quality(live.quality, live.find(item))
    return Item(item, {topic: weight for topic, weight in weights.items() if weight}, quality)


def _typical(transaction: Transaction, item: Any, topics: Any, typical: Typical | None) -> dict[Any, float]:
    """Return the weights that an item with these topics usually has.

    typical: for many items, the weights of the sets of topics that were asked before. The item itself then counts like
    any other, if it exists already; otherwise it does not count. Cost: O(nnz) for each new set of topics.
    """
    catalog, live = transaction.recommender.catalog, transaction.recommender.live
    texts = [
        checked(f"topics[{n}]", checks.text_name, topic)
        for n, topic in enumerate(checked("topics", checks.sequence, topics))
    ]
    known = {str(topic): topic for topic in catalog.topics}
    for topic in texts:
        if topic not in known:
            raise Refused("topics", f"must contain only topics of the catalog, got {topic!r:.80}")
    key = tuple(sorted(texts))
    if typical is None or key not in typical:
        try:
            row = catalog.typical(
                [known[topic] for topic in texts], other_than=live.find(item) if typical is None else None
            )
        except ValueError as error:
            raise Refused("topics", str(error).removeprefix("topics of put ")) from None
        typical = {} if typical is None else typical
        typical[key] = {catalog.topics[j]: float(row[j]) for j in np.flatnonzero(row).tolist()}
    return typical[key]


def remove_item(transaction: Transaction, operation: RemoveItem) -> Item:
    """Remove an item, and return it."""
    item = get_item(transaction, GetItem(operation.item))
    _record_changes(transaction, [(item.item, None)])
    return item


def refresh_quality(transaction: Transaction, operation: RefreshQuality) -> Refreshed:
    """Count the clicks of some transactions. After the last one, put the new quality into use, if there is one."""
    store, live = transaction.store, transaction.recommender.live
    transaction.write()
    counted = store.count_examinations(COUNTED)
    if counted == COUNTED:
        store.set_meta(NOT_REFRESHED, "1")
        return Refreshed(counted=True, more=True)
    refreshes = counted > 0 or store.meta(NOT_REFRESHED) is not None
    if refreshes and live.quality is not None:
        if not _lock_current(transaction):  # a process that has the current catalog will refresh it
            store.set_meta(NOT_REFRESHED, "1")
        else:
            store.drop_meta(NOT_REFRESHED)
            store.drop_refreshes(live.epoch)
            store.add_changes(live.epoch, [Change(store.next_change(live.epoch), None, None, transaction.now)])
            transaction.changes_catalog = True
    return Refreshed(counted=counted > 0, more=False)


def use_catalog(transaction: Transaction, operation: UseCatalog) -> int:
    """Put another catalog into use. Return the number of its items."""
    transaction.write()
    try:
        transaction.recommender.in_use.put_catalog(
            operation.loaded, operation.path, discard_changes=operation.discard_changes
        )
    except (ValueError, TypeError) as error:
        rule = str(error)
        if not rule.startswith("catalog must "):
            rule = f"must be one that the service can use: {error}"
        raise Refused("catalog", rule.removeprefix("catalog ")) from None
    transaction.changes_catalog = True
    return len(operation.loaded.catalog)


def _record_changes(transaction: Transaction, changes: Sequence[tuple[Any, dict[Any, float] | None]]) -> None:
    store, epoch = transaction.store, transaction.recommender.live.epoch
    if not _lock_current(transaction):
        raise UnusableRecord(
            "another process has replaced the catalog in the store: try again, and if this error stays, restart this "
            "process with the new catalog"
        )
    if changes:
        first = store.next_changes(epoch, len(changes))
        store.add_changes(
            epoch, [Change(first + n, item, weights, transaction.now) for n, (item, weights) in enumerate(changes)]
        )
    for item, weights in changes:
        transaction.changed[str(item)] = weights


def _lock_current(transaction: Transaction) -> bool:
    """Return whether this process has the current catalog. It then stays the current one until the transaction ends."""
    store, epoch = transaction.store, transaction.recommender.live.epoch
    store.lock_catalog(epoch)
    heading = store.heading()
    return heading is not None and heading.epoch == epoch
