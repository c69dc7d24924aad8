"""The search index: items grouped by their set of topics, which the search looks at in place of single items.

A *group* holds items with the same topics. It is a *ray* if their weights are parallel, as all items with the same
topics are by the paper's definition of w̄: then the largest decides for all. Else it is a *tree*: blocks of 8 items in
boxes, 8 boxes in a larger box, and so on. Fewer than 4 items that are not parallel are a ray each.

Groups with the same number of topics and of the same kind sit eight to a block. Each has a *seat*, a lane of its own,
so that the search can bound or score eight at once. A tree is represented by the upper corner of all its weights.

Everything lies in flat arrays (:mod:`thali.lists.engine.layout`). docs/engine.md explains the search.
"""

from __future__ import annotations

import numpy as np

from thali.catalog.catalog import Catalog
from thali.catalog.coverage import PROBABILISTIC
from thali.catalog.items import Items
from thali.lists.engine import groups, layout, partition
from thali.lists.engine.layout import NONE, RAY, TREE, Layout
from thali.tools.growing import GrowingArray
from thali.tools.lanes import WIDTH
from thali.tools.types import Booleans, Floats, Indices, Integers

# Places for items in a tree that is made for new ones: at first, and at most.
FIRST, MOST = 8, 64


class SearchIndex:
    """The groups of all items of a catalog, kept up to date as items are added, changed and removed.

    Cost: O(nnz + L·s·log L) to build; O(s) for the tree of at most 64 places into which an item is put; O(n) to find
    one of n items with the same topics that is removed or changed.
    """

    def __init__(self, catalog: Catalog) -> None:
        items = catalog.sparse
        self.d = catalog.d
        # Parallel items keep their order as probabilistic coverage grows, but not under max coverage.
        order, start, kinds = _partition(items, parallel=catalog.kind == PROBABILISTIC)
        heads = order[start[:-1]]
        sizes, counts = (items.end[heads] - items.begin[heads]).astype(np.int64), np.diff(start)
        numbers, places, boxes = groups.lengths(kinds, sizes, counts)
        new = _new_blocks(kinds, sizes)
        seats, blocks = np.empty(len(kinds), dtype=np.int64), np.empty((int(new.sum()), 5), dtype=np.uint32)
        index, high, kept = groups.seats_of(new, sizes, kinds, seats, blocks)
        if max(numbers, places, boxes, index, high, kept) >= 2**32:
            raise ValueError(
                f"weights of Catalog must fit an index of fewer than 2³² numbers, got {len(kinds):,} different sets of "
                f"topics, of {sizes.mean():.0f} topics on average, for {len(items.begin):,} items"
            )
        self._arrays = Layout(
            item_group=GrowingArray(len(items.begin), np.uint32),
            groups=GrowingArray(len(kinds), np.uint32, (8,)),
            topics=GrowingArray(int(sizes.sum()), np.uint32),
            pool=GrowingArray(numbers, np.float64),
            lane_item=GrowingArray(places, np.uint32),
            boxes=GrowingArray(boxes, np.uint8),
            blocks=GrowingArray(len(blocks), np.uint32, (5,)),
            root_index=GrowingArray(index, np.uint32),
            root_high=GrowingArray(high, np.float64),
            root_group=GrowingArray(len(blocks) * WIDTH, np.uint32),
            root_seat=GrowingArray(len(kinds), np.uint32),
            seat_masks=GrowingArray(len(blocks) * WIDTH, np.int64),
        )
        #: The arrays as the kernels read them.
        self.layout = self._views()
        self.layout.blocks[:] = blocks
        groups.fill(order, start, kinds, items, self.layout)
        groups.seat_all(seats, self.d, self.layout)
        # By set of topics, the tree to which the next new item goes; by number of topics, the next seat for a tree.
        self._trees: dict[bytes, int] = {}
        self._seats: dict[int, int] = {}
        for item in np.flatnonzero(~catalog.present).tolist():
            groups.remove(item, self.layout)
        self._changes = 0

    @property
    def nbytes(self) -> int:
        """Bytes allocated, in use or spare."""
        return sum(array.nbytes for array in self._arrays)

    def put(self, item: int, topics: Indices, weights: Floats) -> None:
        """Give an item these topics, ascending, and weights; a new item is the next of all.

        New items go to new trees of 8 places, then 16, 32 and 64; the trees made before stay as they are.
        """
        self._changes += 1
        if item == len(self.layout.item_group):
            self._arrays.item_group.extend(1)[:] = NONE
            self.layout = self._views()
        elif self.layout.item_group[item] != NONE:
            if groups.rewrite(item, topics, weights, self.layout):
                return
            self.remove(item)
        key = topics.tobytes()
        tree = self._trees.get(key)
        if tree is None or not groups.insert(item, tree, weights, self.layout):
            places = FIRST if tree is None else min(MOST, 2 * int(self.layout.groups[tree, layout.STRIDE]))
            tree = self._trees[key] = self._new_tree(topics, places)
            groups.insert(item, tree, weights, self.layout)

    def remove(self, item: int) -> None:
        """Take an item out. A new one may get its place, if that is in the tree for new ones."""
        self._changes += 1
        groups.remove(item, self.layout)

    @property
    def worn(self) -> bool:
        """Whether there were more changes than about half the items: the bounds have become loose."""
        return self._changes > 1000 + len(self.layout.item_group) // 2

    def _views(self) -> Layout:
        return Layout(*(array.view for array in self._arrays))

    def _new_tree(self, topics: Indices, places: int) -> int:
        """Add an empty tree for items with these topics, and seat it; returns its number."""
        arrays, size, group = self._arrays, len(topics), len(self.layout.groups)
        arrays.pool.extend(-len(arrays.pool.view) % WIDTH)
        row = {
            layout.SIZE: size,
            layout.TOPICS: len(arrays.topics.view),
            layout.COUNT: 0,
            layout.STRIDE: places,
            layout.WEIGHTS: len(arrays.pool.view),
            layout.ITEMS: len(arrays.lane_item.view),
            layout.BOXES: len(arrays.boxes.view),
            layout.KIND: TREE,
        }
        arrays.groups.extend(1)[:] = [row[field] for field in range(8)]
        arrays.topics.extend(size)[:] = topics
        arrays.pool.extend(size * places)
        arrays.lane_item.extend(places)[:] = NONE
        arrays.boxes.extend(layout.box_blocks(TREE, places) * layout.box_bytes(size))
        arrays.root_seat.extend(1)
        seat = self._seats.get(size, 0)
        if seat % WIDTH == 0:
            seat = self._new_block(size)
        self._seats[size] = seat + 1
        self.layout = self._views()
        groups.seat(group, seat, self.d, self.layout)
        return group

    def _new_block(self, size: int) -> int:
        """Add an empty block for trees of this many topics; returns its first seat."""
        arrays = self._arrays
        before = arrays.blocks.view[-1]
        numbers = int(before[layout.BLOCK_NUMBERS])
        numbers += layout.block_numbers(int(before[layout.BLOCK_KIND]), int(before[layout.BLOCK_SIZE]))
        arrays.blocks.extend(1)[:] = size, TREE, len(arrays.root_index.view), len(arrays.root_high.view), numbers
        arrays.root_index.extend(WIDTH * (size + size * (size + 1) // 2))
        arrays.root_high.extend(WIDTH * (size + 1))
        arrays.seat_masks.extend(WIDTH)
        first = len(arrays.root_group.view)
        arrays.root_group.extend(WIDTH)[:] = NONE
        return first


def _partition(items: Items, *, parallel: bool) -> tuple[Indices, Integers, Integers]:
    """Items in an order, where each group starts in it (G + 1,), and the groups' kinds (G,)."""
    L = len(items.begin)
    keys = np.empty(L, dtype=np.uint64)
    partition.supports(items, keys)
    order = np.argsort(keys, kind="stable").astype(np.uint32)
    new = np.empty(L, dtype=np.bool_)
    partition.parts(items, keys, order, new)
    ends, kinds = np.empty(L, dtype=np.int64), np.empty(L, dtype=np.int64)
    G = partition.split(order, np.append(np.flatnonzero(new), L), items, ends, kinds, parallel)
    start, kinds = np.append(0, ends[:G]), kinds[:G]
    partition.arrange(order, start, kinds, items)
    # As they are seated: by number of topics and kind; then rays by scale, trees by their topics, so that those who
    # are visited together are alike.
    heads = order[start[:-1]]
    begin, sizes = items.begin[heads].astype(np.int64), (items.end[heads] - items.begin[heads]).astype(np.int64)
    scale = np.empty(G)
    partition.corners(order, start, items, scale)
    by_topic = []
    for a in range(3):
        here = (sizes > a) & (kinds == TREE)
        topic = np.zeros(G, dtype=np.int64)
        topic[here] = items.topics[begin[here] + a]
        by_topic.append(topic)
    seating = np.lexsort((np.where(kinds == RAY, -scale, 0.0), *by_topic[::-1], kinds, sizes))
    order = np.concatenate([order[start[g] : start[g + 1]] for g in seating.tolist()])
    return order, np.append(0, np.cumsum(np.diff(start)[seating])), kinds[seating]


def _new_blocks(kinds: Integers, sizes: Integers) -> Booleans:
    """Where a block begins, for groups in the order of their seats: another kind or size, or 8 groups since."""
    G = len(kinds)
    change = np.ones(G, dtype=np.bool_)
    change[1:] = (np.diff(kinds) != 0) | (np.diff(sizes) != 0)
    since = np.arange(G) - np.maximum.accumulate(np.where(change, np.arange(G), 0))
    return np.asarray(since % WIDTH == 0)
