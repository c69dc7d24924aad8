"""The search index. It groups items by their set of topics, so that the search can compare groups instead of items.

A *group* contains items with the same topics. If their weights are parallel, as they always are under the paper's
definition of w̄, the group is a *ray*, and only its largest unused item needs to be scored. Otherwise the group is a
*tree*: blocks of 8 items are enclosed in boxes, 8 boxes are enclosed in a larger box, and so on. If fewer than 4 items
share their topics and are not parallel, each item becomes a separate ray. With one steady topic, such as the quality of
items, the weights on the other topics are often still parallel. Then 4 to 256 items form a *fan*: two numbers describe
each item, and a polygon around these points bounds their indices.

A *block* contains up to eight groups of the same kind and with the same number of topics. Each group has a *seat*,
which is its lane in the block, so that the search can bound or score eight groups at once. In its block, a tree is
represented by its upper corner: for each topic, the largest weight of its items.

Everything is stored in flat arrays (:mod:`thali.lists.engine.layout`). docs/engine.md explains the search.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thali.catalog.catalog import Catalog
from thali.catalog.coverage import PROBABILISTIC
from thali.catalog.items import Items
from thali.lists.engine import groups, layout, partition
from thali.lists.engine.layout import FAN, FEW_TOPICS, NONE, RAY, TREE, Layout
from thali.lists.engine.partition import FEWEST_IN_TREE, MOST_IN_FAN
from thali.tools.growing import GrowingArray
from thali.tools.lanes import WIDTH
from thali.tools.types import Booleans, Floats, Indices, Integers

# The number of slots in the first tree that is created for new items, and the largest number of slots in such a tree.
FIRST_SLOTS, MOST_SLOTS = 8, 64


class SearchIndex:
    """The groups of all items of a catalog, kept up to date as items are added, changed and removed.

    Cost: O(nnz + L·s·log L) to build. O(s) to add an item, because it goes into a tree of at most 64 slots. O(n) to
    remove or change an item, because it must be found among n items with the same topics.
    """

    def __init__(self, catalog: Catalog) -> None:
        items = catalog.sparse
        self._fading = items.fading
        # Parallel items stay parallel as probabilistic coverage grows, but not under max coverage.
        order, start, kinds = _partition(items, parallel=catalog.kind == PROBABILISTIC)
        first_items = order[start[:-1]]
        sizes, counts = (items.end[first_items] - items.begin[first_items]).astype(np.int64), np.diff(start)
        numbers, slots, boxes = groups.lengths(kinds, sizes, counts)
        new_block = _new_blocks(kinds, sizes)
        seats, blocks = np.empty(len(kinds), dtype=np.int64), np.empty((int(new_block.sum()), 5), dtype=np.uint32)
        gather_length, corner_length, operand_length = groups.assign_seats(new_block, sizes, kinds, seats, blocks)
        longest = max(numbers, slots, boxes, gather_length, corner_length, operand_length)
        if longest >= 2**32:
            raise ValueError(
                f"weights of Catalog must fit into a search index whose arrays have fewer than {2**32:,} entries, got "
                f"{longest:,} entries, for {len(items.begin):,} items with {len(kinds):,} different sets of topics "
                f"({sizes.mean():.0f} topics each on average)"
            )
        self._arrays = Layout(
            item_group=GrowingArray(len(items.begin), np.uint32),
            groups=GrowingArray(len(kinds), np.uint32, (8,)),
            topics=GrowingArray(int(sizes.sum()), np.uint32),
            pool=GrowingArray(numbers, np.float64),
            slot_item=GrowingArray(slots, np.uint32),
            boxes=GrowingArray(boxes, np.uint8),
            blocks=GrowingArray(len(blocks), np.uint32, (5,)),
            gather_index=GrowingArray(gather_length, np.uint32),
            corners=GrowingArray(corner_length, np.float64),
            seat_group=GrowingArray(len(blocks) * WIDTH, np.uint32),
            group_seat=GrowingArray(len(kinds), np.uint32),
            seat_mask=GrowingArray(len(blocks) * WIDTH, np.int64),
        )
        #: The arrays as the kernels read them.
        self.layout = self._views()
        self.layout.blocks[:] = blocks
        groups.fill(order, start, kinds, items, self.layout)
        groups.seat_all(seats, items.fading, self.layout)
        # For each set of topics, the tree for the next new item. For each number of topics, the next free seat.
        self._trees: dict[bytes, int] = {}
        self._seats: dict[int, int] = {}
        for item in np.flatnonzero(~catalog.present).tolist():
            groups.remove(item, self.layout)
        self._changes = 0

    @property
    def nbytes(self) -> int:
        """The number of bytes allocated, including spare capacity."""
        return sum(array.nbytes for array in self._arrays)

    def put(self, item: int, topics: Indices, weights: Floats) -> None:
        """Set the topics (in ascending order) and the weights of an item. The item number of a new item must be L.

        New items go into new trees. For each set of topics, the first new tree has 8 slots, the second 16, the third
        32, and each later one 64. Existing trees are not rebuilt.
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
            slots = FIRST_SLOTS if tree is None else min(MOST_SLOTS, 2 * int(self.layout.groups[tree, layout.STRIDE]))
            tree = self._trees[key] = self._new_tree(topics, slots)
            groups.insert(item, tree, weights, self.layout)

    def remove(self, item: int) -> None:
        """Remove an item. If its slot is in the current tree for new items, a new item can reuse it."""
        self._changes += 1
        groups.remove(item, self.layout)

    @property
    def needs_rebuild(self) -> bool:
        """Whether the number of changes exceeds about half the number of items, so that bounds have become loose."""
        return self._changes > 1000 + len(self.layout.item_group) // 2

    def _views(self) -> Layout:
        return Layout(*(array.view for array in self._arrays))

    def _new_tree(self, topics: Indices, slots: int) -> int:
        """Add an empty tree for items with these topics, and give it a seat. Return its group number."""
        arrays, size, group = self._arrays, len(topics), len(self.layout.groups)
        arrays.pool.extend(-len(arrays.pool.view) % WIDTH)
        row = {
            layout.SIZE: size,
            layout.TOPICS: len(arrays.topics.view),
            layout.COUNT: 0,
            layout.STRIDE: slots,
            layout.WEIGHTS: len(arrays.pool.view),
            layout.ITEMS: len(arrays.slot_item.view),
            layout.BOXES: len(arrays.boxes.view),
            layout.KIND: TREE,
        }
        arrays.groups.extend(1)[:] = [row[field] for field in range(8)]
        arrays.topics.extend(size)[:] = topics
        arrays.pool.extend(size * slots)
        arrays.slot_item.extend(slots)[:] = NONE
        arrays.boxes.extend(layout.box_block_count(TREE, slots) * layout.box_bytes(size))
        arrays.group_seat.extend(1)
        seat = self._seats.get(size, 0)
        if seat % WIDTH == 0:
            seat = self._new_block(size)
        self._seats[size] = seat + 1
        self.layout = self._views()
        groups.seat(group, seat, self._fading, self.layout)
        return group

    def _new_block(self, size: int) -> int:
        """Add an empty block for trees with ``size`` topics. Return its first seat."""
        arrays = self._arrays
        last = arrays.blocks.view[-1]
        operand_at = int(last[layout.BLOCK_OPERANDS])
        operand_at += layout.block_operands(int(last[layout.BLOCK_KIND]), int(last[layout.BLOCK_SIZE]))
        arrays.blocks.extend(1)[:] = size, TREE, len(arrays.gather_index.view), len(arrays.corners.view), operand_at
        arrays.gather_index.extend(WIDTH * (size + size * (size + 1) // 2))
        arrays.corners.extend(WIDTH * (size + 1))
        arrays.seat_mask.extend(WIDTH)
        first = len(arrays.seat_group.view)
        arrays.seat_group.extend(WIDTH)[:] = NONE
        return first


def _partition(items: Items, *, parallel: bool) -> tuple[Indices, Integers, Integers]:
    """Divide the items into G groups.

    Returns the items ordered by group, where each group starts in that order (G + 1,), and the kinds of groups (G,). If
    ``parallel`` is False, only single items become rays.
    """
    L = len(items.begin)
    keys, new_set, scale = np.empty(L, dtype=np.uint64), np.empty(L, dtype=np.bool_), np.empty(L)
    partition.topic_keys(items, keys)
    partition.scales(items, scale)
    order = np.argsort(keys, kind="stable").astype(np.uint32)
    partition.mark_sets(items, keys, order, new_set)
    # One entry for each set of topics.
    first = np.flatnonzero(new_set)
    counts = np.diff(first, append=L)
    ray, fan = counts == 1, np.zeros(len(counts), dtype=np.bool_)
    fading_scale, steady = np.empty(L), np.empty(L)
    partition.fading_scales(items, fading_scale, steady)
    if parallel:
        partition.parallel_sets(order, np.append(first, L), items, scale, ray)
        if not items.fading.all():
            partition.fan_sets(order, np.append(first, L), items, fading_scale, fan)
            fan &= ~ray & (counts >= FEWEST_IN_TREE) & (counts <= MOST_IN_FAN)
    few = ~ray & ~fan & (counts < FEWEST_IN_TREE)  # each of these items becomes a separate ray
    # One entry for each group.
    start = np.flatnonzero(new_set | np.repeat(few, counts))
    kinds = np.select([ray | few, fan], [RAY, FAN], TREE)[np.cumsum(new_set)[start] - 1]
    sizes = (items.end[order[start]] - items.begin[order[start]]).astype(np.int64)
    start = np.append(start, L)
    # Sort the items of a ray by scale, the largest first, and those of a tree so that neighbors are similar. The sorts
    # are stable, and items with the same topics are in ascending order before.
    _sort(order, start, (kinds == RAY) & (np.diff(start) > 1), lambda some: -scale[some])
    _sort(order, start, kinds == FAN, lambda some: -(fading_scale + steady)[some])
    _sort(order, start, (kinds == TREE) & (sizes > FEW_TOPICS), lambda some: _main_topics(some, items))
    partition.arrange(order, start, kinds, items)
    # Seats are ordered by number of topics, then by kind. Then rays and fans are ordered by scale, so that those in a
    # block are similar to one another.
    by_scale = np.where(kinds == TREE, 0.0, -np.maximum.reduceat(fading_scale[order], start[:-1]))
    seating = np.lexsort((by_scale, kinds, sizes))
    order = np.concatenate([order[start[g] : start[g + 1]] for g in seating.tolist()])
    return order, np.append(0, np.cumsum(np.diff(start)[seating])), kinds[seating]


def _sort(order: Indices, start: Integers, chosen: Booleans, key: Callable[[Indices], Floats]) -> None:
    """Sort the items of the chosen groups by a key, each group in its place."""
    counts = np.diff(start)
    group = np.repeat(np.arange(len(counts)), counts)
    at = np.flatnonzero(chosen[group])
    if at.size:
        order[at] = order[at][np.lexsort((key(order[at]), group[at]))]


def _main_topics(order: Indices, items: Items) -> Floats:
    keys = np.empty(len(order))
    partition.main_topics(order, items, keys)
    return keys


def _new_blocks(kinds: Integers, sizes: Integers) -> Booleans:
    """Return which groups, in the order of seats, begin a new block: if kind or size changes, or after 8 groups."""
    G = len(kinds)
    change = np.ones(G, dtype=np.bool_)
    change[1:] = (np.diff(kinds) != 0) | (np.diff(sizes) != 0)
    since = np.arange(G) - np.maximum.accumulate(np.where(change, np.arange(G), 0))
    return np.asarray(since % WIDTH == 0)
