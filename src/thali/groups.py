"""Items by their set of topics: what the exact search looks at in place of single items.

A *group* holds items with the same topics. It is a *ray* if their weights are parallel, as all items with the same
topics are by the paper's definition of w̄: then the largest decides for all. Else it is a *tree*: blocks of 8 items in
boxes, 8 boxes in a larger box, and so on. Few items (fewer than 4) that are not parallel are a ray each.

Groups with as many topics and of the same kind are *seated* eight to a block, each in a lane of its own, so that the
search can bound or score eight at once. A tree is represented by the upper corner of all its weights.

All of it lies in flat arrays, whose layout :mod:`thali.kernels.layout` states and :mod:`thali.kernels.search` reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thali.kernels import groups as kernels
from thali.kernels import layout, partition
from thali.kernels.lanes import WIDTH
from thali.kernels.layout import NONE, RAY, TREE, Items, Layout
from thali.types import Booleans, Floats, Indices, Integers

# Places for items in a tree that is made for new ones: at first, and at most.
FIRST, MOST = 8, 64


class Room:
    """An array with room to grow at its end; what is in use is ``view``. It begins with a line of memory."""

    def __init__(self, size: int, dtype: Any, tail: tuple[int, ...] = ()) -> None:
        self._dtype, self._tail = np.dtype(dtype), tail
        self._all = self._zeros(size + size // 8)
        self.view = self._all[:size]

    def _zeros(self, size: int) -> NDArray[Any]:
        """Zeros, which take memory once they are written; some more than asked, as vectors are read to their end."""
        each = self._dtype.itemsize * int(np.prod(self._tail, dtype=np.int64))
        whole = np.zeros((size + 64) * each + layout.LINE, dtype=np.uint8)
        skip = -whole.ctypes.data % layout.LINE
        array: NDArray[Any] = whole[skip : skip + (size + 64) * each].view(self._dtype).reshape(-1, *self._tail)
        return array

    def __reduce__(self) -> tuple[Any, ...]:
        """As a copy of what is in use: a view and what it looks at would come back as two."""
        return _room, (np.array(self.view),)

    @property
    def nbytes(self) -> int:
        """Bytes held, in use or not."""
        return self._all.nbytes

    def take(self, count: int) -> NDArray[Any]:
        """So many places more; when there is no room left, everything moves to a larger array."""
        start = len(self.view)
        size = start + count
        if size + WIDTH > len(self._all):
            larger = self._zeros(size + size // 2)
            larger[:start] = self.view
            self._all = larger
        self.view = self._all[:size]
        return self.view[start:]


def _room(array: NDArray[Any]) -> Room:
    """A room with these things in it."""
    room = Room(len(array), array.dtype, array.shape[1:])
    room.view[:] = array
    return room


class Groups:
    """The groups of all items of a catalogue, kept up to date as items come, change and go.

    Cost: O(nnz + L·s·log L) to build; O(s) for the tree of at most 64 places into which an item is put; O(n) to find
    one of n items with the same topics that is removed or changed.
    """

    def __init__(self, items: Items, d: int, *, parallel: bool) -> None:
        """parallel: whether parallel items keep their order as coverage grows (not so under max coverage)."""
        self.d = d
        order, start, kinds = _partition(items, parallel=parallel)
        heads = order[start[:-1]]
        sizes, counts = (items.end[heads] - items.begin[heads]).astype(np.int64), np.diff(start)
        numbers, places, boxes = kernels.lengths(kinds, sizes, counts)
        new = _new_blocks(kinds, sizes)
        seats, blocks = np.empty(len(kinds), dtype=np.int64), np.empty((int(new.sum()), 5), dtype=np.uint32)
        index, high, kept = kernels.seats_of(new, sizes, kinds, seats, blocks)
        if max(numbers, places, boxes, index, high, kept) >= 2**32:
            raise ValueError(
                f"weights of Catalog must fit an index of fewer than 2³² numbers, got {len(kinds):,} different sets of "
                f"topics, of {sizes.mean():.0f} topics on average, for {len(items.begin):,} items"
            )
        self._rooms = Layout(
            item_group=Room(len(items.begin), np.uint32),
            groups=Room(len(kinds), np.uint32, (8,)),
            topics=Room(int(sizes.sum()), np.uint32),
            pool=Room(numbers, np.float64),
            lane_item=Room(places, np.uint32),
            boxes=Room(boxes, np.uint8),
            blocks=Room(len(blocks), np.uint32, (5,)),
            root_index=Room(index, np.uint32),
            root_high=Room(high, np.float64),
            root_group=Room(len(blocks) * WIDTH, np.uint32),
            root_seat=Room(len(kinds), np.uint32),
            seat_masks=Room(len(blocks) * WIDTH, np.int64),
        )
        #: The arrays as the kernels read them.
        self.layout = self._views()
        self.layout.blocks[:] = blocks
        kernels.fill(order, start, kinds, items, self.layout)
        kernels.seat_all(seats, d, self.layout)
        # The tree to which the next new item of a set of topics goes, and the next seat for a tree of so many topics.
        self._trees: dict[bytes, int] = {}
        self._seats: dict[int, int] = {}

    @property
    def nbytes(self) -> int:
        """Bytes held, in use or in store for new items."""
        return sum(room.nbytes for room in self._rooms)

    def put(self, item: int, topics: Indices, weights: Floats) -> None:
        """Give an item (a new one is the next of all) these topics, ascending, and weights.

        New items go to trees of 8 places, then 16, 32 and 64: trees made before are not made anew.
        """
        if item == len(self.layout.item_group):
            self._rooms.item_group.take(1)[:] = NONE
            self.layout = self._views()
        elif self.layout.item_group[item] != NONE:
            if kernels.rewrite(item, topics, weights, self.layout):
                return
            self.remove(item)
        key = topics.tobytes()
        tree = self._trees.get(key)
        if tree is None or not kernels.insert(item, tree, weights, self.layout):
            places = FIRST if tree is None else min(MOST, 2 * int(self.layout.groups[tree, layout.STRIDE]))
            tree = self._trees[key] = self._new_tree(topics, places)
            kernels.insert(item, tree, weights, self.layout)

    def remove(self, item: int) -> None:
        """Take an item out; a new one may get its place, if that is in the tree for new ones."""
        kernels.remove(item, self.layout)

    def _views(self) -> Layout:
        return Layout(*(room.view for room in self._rooms))

    def _new_tree(self, topics: Indices, places: int) -> int:
        """An empty tree for items with these topics, seated; its number."""
        rooms, size, group = self._rooms, len(topics), len(self.layout.groups)
        rooms.pool.take(-len(rooms.pool.view) % WIDTH)
        row = {
            layout.SIZE: size,
            layout.TOPICS: len(rooms.topics.view),
            layout.COUNT: 0,
            layout.STRIDE: places,
            layout.WEIGHTS: len(rooms.pool.view),
            layout.ITEMS: len(rooms.lane_item.view),
            layout.BOXES: len(rooms.boxes.view),
            layout.KIND: TREE,
        }
        rooms.groups.take(1)[:] = [row[field] for field in range(8)]
        rooms.topics.take(size)[:] = topics
        rooms.pool.take(size * places)
        rooms.lane_item.take(places)[:] = NONE
        rooms.boxes.take(layout.box_blocks(TREE, places) * layout.box_bytes(size))
        rooms.root_seat.take(1)
        seat = self._seats.get(size, 0)
        if seat % WIDTH == 0:
            seat = self._new_block(size)
        self._seats[size] = seat + 1
        self.layout = self._views()
        kernels.seat(group, seat, self.d, self.layout)
        return group

    def _new_block(self, size: int) -> int:
        """An empty block for trees of so many topics; its first seat."""
        rooms = self._rooms
        before = rooms.blocks.view[-1]
        numbers = int(before[layout.BLOCK_NUMBERS])
        numbers += layout.block_numbers(int(before[layout.BLOCK_KIND]), int(before[layout.BLOCK_SIZE]))
        rooms.blocks.take(1)[:] = size, TREE, len(rooms.root_index.view), len(rooms.root_high.view), numbers
        rooms.root_index.take(WIDTH * (size + size * (size + 1) // 2))
        rooms.root_high.take(WIDTH * (size + 1))
        rooms.seat_masks.take(WIDTH)
        first = len(rooms.root_group.view)
        rooms.root_group.take(WIDTH)[:] = NONE
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
