"""The catalog in memory, kept in step with the store: items may be put or removed here or by other processes."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import numpy as np

from thali.catalog.catalog import Catalog
from thali.service.stores.records import Heading, StoreError
from thali.service.stores.sql import SqlStore


class LiveCatalog:
    """A catalog and the changes that a store has recorded for it.

    An *epoch* is the time of one catalog file: its number grows when another catalog takes over. Changes are numbered
    within an epoch, and every process applies them in that order. All methods that take a store need a transaction.
    """

    def __init__(self, catalog: Catalog) -> None:
        check_names(catalog)
        self.catalog = catalog
        self.epoch = 0
        self._digest = content_digest(catalog)
        self._applied = 0  # how many changes of this epoch the catalog has
        self._topic_at = {str(name): j for j, name in enumerate(catalog.topics)}
        # Weights of changed items before the first change; None for items that did not exist.
        self._original: dict[Any, dict[Any, float] | None] = {}

    def set_up(self, store: SqlStore, *, replace: bool) -> None:
        """Begin a new epoch if the store has another catalog; then apply the changes.

        replace: whether that may discard changes that were made by hand.
        """
        heading = store.heading()
        if heading is None or heading.digest != self._digest:
            if heading is not None and heading.changes and not replace:
                raise ValueError(
                    f"the catalog is not the one of the store, in which {heading.changes} items were put or removed "
                    "by hand; new_catalog (--new-catalog) replaces that one, without those changes"
                )
            heading = Heading(1 if heading is None else heading.epoch + 1, self._digest, 0)
            store.add_catalog(heading.epoch, self._digest)
        self.epoch, self._applied = heading.epoch, 0
        self.apply_changes(store)

    def apply_changes(self, store: SqlStore) -> None:
        """Put and remove what was put and removed since the last time."""
        if store.changes_made(self.epoch) != self._applied:
            for change in store.changes(self.epoch, self._applied):
                self._original.setdefault(change.item, self.weights(change.item))
                self._put(change.item, change.weights)
                self._applied = change.seq

    def start_again(self, store: SqlStore) -> None:
        """Go back to the catalog as it was given: another store, of the same catalog, has replaced this one."""
        heading = store.heading()
        if heading is None or heading.digest != self._digest:
            raise StoreError("the store was replaced by one of another catalog: start again with that")
        for item, weights in self._original.items():
            self._put(item, weights)
        self._original.clear()

    def weights(self, item: Any) -> dict[Any, float] | None:
        """The weights of an item by topic; None if there is no such item."""
        e = self.catalog.find(item)
        return None if e is None else self.weights_of(e)

    def weights_of(self, e: int) -> dict[Any, float]:
        """The weights of item number e by topic."""
        begin, end, topics, weights = self.catalog.sparse
        its = slice(int(begin[e]), int(end[e]))
        names = self.catalog.topics
        return {names[j]: w for j, w in zip(topics[its].tolist(), weights[its].tolist(), strict=True)}

    def _put(self, item: Any, weights: dict[Any, float] | None) -> None:
        if weights is None:
            if self.catalog.find(item) is not None:
                self.catalog.remove(item)
            return
        row = np.zeros(self.catalog.d)
        for topic, weight in weights.items():
            row[self._topic_at[str(topic)]] = weight  # the store has topics as text
        self.catalog.put(item, row)


def check_names(catalog: Catalog) -> None:
    """An error unless a store can keep the names: items as text or whole numbers, topics as text."""
    for name in catalog.items:
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise TypeError(f"items of Recommender's catalog must be text or whole numbers, got {name!r:.80}")
    if len(set(map(str, catalog.topics))) < catalog.d:
        raise ValueError(f"topics of Recommender's catalog must differ as text, got {catalog.topics!r:.80}")


def content_digest(catalog: Catalog) -> str:
    """A digest of everything in a catalog: items present, topics, weights, coverage. Cost: a pass over them."""
    coverage = catalog.coverage if catalog.custom is None else type(catalog.custom).__qualname__
    names = [name for name, there in zip(catalog.items, catalog.present.tolist(), strict=True) if there]
    digest = sha256(json.dumps([coverage, list(catalog.topics), names], default=str).encode())
    kept = catalog.csr[np.flatnonzero(catalog.present)]
    for part in (kept.indptr.astype("<i8"), kept.indices.astype("<i8"), kept.data.astype("<f8")):
        digest.update(part.tobytes())
    return digest.hexdigest()
