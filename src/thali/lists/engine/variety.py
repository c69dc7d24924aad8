"""Whether many items of a catalog have the same topics, which decides how the engine searches it."""

from __future__ import annotations

import numpy as np

from thali.catalog.catalog import Catalog
from thali.lists.engine import partition
from thali.tools.growing import GrowingArray
from thali.tools.types import Booleans, Floats, Indices

# Items are searched one by one (engine/shortlist.py) if they have more than FEW_TOPICS topics on average, if there are
# fewer than FEW_ITEMS items for each set of topics, and if no item has more than MOST_TOPICS topics. Otherwise, groups
# of items are searched (engine/search.py).
FEW_TOPICS, FEW_ITEMS, MOST_TOPICS = 3.0, 2.5, 64


class Variety:
    """What the engine must know about a catalog before it chooses how to search it, kept up to date with every change.

    Cost: O(L) to build if items have few topics, and otherwise O(nnz + L log L). O(1) for each change.
    """

    def __init__(self, catalog: Catalog) -> None:
        items = catalog.sparse
        sizes = items.end - items.begin
        self._few_share = False
        if sizes.mean() > FEW_TOPICS:
            keys = np.empty(catalog.L, dtype=np.uint64)
            partition.topic_keys(items, keys)
            self._few_share = catalog.L < FEW_ITEMS * len(np.unique(keys))
        #: The largest number of topics of an item.
        self.most_topics = int(sizes.max())
        self._removed = GrowingArray.of(~catalog.present, np.bool_)
        self._changes = 0

    @property
    def item_by_item(self) -> bool:
        """Whether to search the catalog item by item."""
        return self._few_share and self.most_topics <= MOST_TOPICS

    @property
    def removed(self) -> Booleans:
        """Which items have been removed (L,)."""
        return self._removed.view

    @property
    def needs_rebuild(self) -> bool:
        """Whether the number of changes exceeds about half the number of items."""
        return self._changes > 1000 + len(self.removed) // 2

    def put(self, item: int, topics: Indices, weights: Floats) -> None:
        """Take note of the topics of an item. The item number of a new item must be L."""
        self._changes += 1
        self.most_topics = max(self.most_topics, len(topics))
        if item == len(self.removed):
            self._removed.extend(1)[:] = False

    def remove(self, item: int) -> None:
        """Take note that an item is removed."""
        self._changes += 1
        self.removed[item] = True
