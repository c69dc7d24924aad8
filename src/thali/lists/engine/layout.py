"""The arrays of the search index, and where things are in them.

:mod:`thali.lists.engine.index` says what groups, rays, trees and seats are.
"""

from typing import Any, NamedTuple

import numpy as np

from thali.tools.jit import inlined, kernel
from thali.tools.lanes import LINE, WIDTH


class Layout(NamedTuple):
    """The arrays of a search index. Items, groups, blocks and places in arrays are unsigned 32-bit integers."""

    item_group: Any
    """(L,): the group of each item; NONE where it was removed."""
    groups: Any
    """(G, 8): see the fields below."""
    topics: Any
    """The topics of each group, ascending."""
    pool: Any
    """Weights of each group: of a ray item by item (count, size), with the steps to the next item before them (see
    ``groups.steps``); of a tree in blocks of 8 items (size, 8), each of which starts on a cache line."""
    lane_item: Any
    """The items of each group, in the order of their weights; NONE where there is none."""
    boxes: Any
    """Bytes: see ``groups.enclose``."""
    blocks: Any
    """(B, 5): see the fields below."""
    root_index: Any
    """For each block and each topic of its groups, the topic a (8,), then places (a, b) in M⁻¹ for b up to a (8,)."""
    root_high: Any
    """For each block, for each topic its groups' upper corners (8,), then what these exceed the largest sum by (8,)."""
    root_group: Any
    """(B·8,): the group in each seat, or NONE."""
    root_seat: Any
    """(G,): the seat of each group."""
    seat_masks: Any
    """(B·8,): a bit for each topic of the group in each seat (j and j + 63 share one)."""


# Fields of a row of ``groups``: its number of topics and where they are, its items and its places for items, where
# its weights, items and boxes are, and its kind.
SIZE, TOPICS, COUNT, STRIDE, WEIGHTS, ITEMS, BOXES, KIND = range(8)
# Parallel items, largest first; or items in any relation, in boxes within boxes.
RAY, TREE = 0, 1
# Fields of a row of ``blocks``: number of topics and kind of its 8 groups; where its part of root_index and root_high
# is, and where the search keeps its numbers.
BLOCK_SIZE, BLOCK_KIND, BLOCK_INDEX, BLOCK_HIGH, BLOCK_NUMBERS = range(5)
# No item, no group.
NONE = np.uint32(2**32 - 1)

# Items with more topics than this are put in order by their two main topics.
FEW = 4
# What one step of a byte of a box counts, so that 255 steps are no less than the whole.
STEP = (1.0 + 1e-12) / 255.0
# Wholes below this are not divided into steps: what they are worth is less than the slack of any bound.
LEAST = 1e-300


@inlined
def bit_of(topic):
    """The bit of a topic in a mask of topics; j and j + 63 share one."""
    return np.int64(1) << np.int64(topic % 63)


@inlined
def place_of(row, j, a):
    """Where in pool the weight of a group's j-th item on its a-th topic is."""
    size, weights = np.int64(row[SIZE]), np.int64(row[WEIGHTS])
    if row[KIND] == RAY:
        return weights + j * size + a
    return weights + j // WIDTH * WIDTH * size + a * WIDTH + j % WIDTH


@kernel
def places(kind, count):
    """How many places for items a group of so many takes: a tree's are in blocks of 8."""
    return count if kind == RAY else (count + WIDTH - 1) // WIDTH * WIDTH


@kernel
def box_bytes(size):
    """How many bytes a block of 8 boxes takes, in whole cache lines: see ``groups.enclose``."""
    return (WIDTH * (2 * size + 1) + LINE - 1) // LINE * LINE


@kernel
def box_blocks(kind, stride):
    """How many blocks of 8 boxes a group has."""
    total, level = 0, stride
    while kind == TREE and level > WIDTH:
        level = (level + WIDTH - 1) // WIDTH
        total += (level + WIDTH - 1) // WIDTH
    return total


@inlined
def levels(stride):
    """How many levels of boxes a tree of so many places has: none for one block of items."""
    depth = 0
    while stride > WIDTH:
        stride = (stride + WIDTH - 1) // WIDTH
        depth += 1
    return depth


@kernel
def block_numbers(kind, size):
    """How many numbers the search keeps for a block: see :class:`thali.lists.engine.scratch.Known`."""
    return WIDTH * (2 * size + size * (size + 1) // 2) if kind == RAY else 0


@inlined
def corner_of(group, layout):
    """Where in root_high a group's corner is: each topic 8 places apart, then what it exceeds the largest sum by."""
    seat = np.int64(layout.root_seat[group])
    return np.int64(layout.blocks[seat // WIDTH, BLOCK_HIGH]) + seat % WIDTH


@inlined
def largest_sum(size, root_high, high):
    """The largest sum of weights of a tree's items, or a little more; high is where its corner is."""
    total = 0.0
    for a in range(size):
        total += root_high[high + a * WIDTH]
    return (total - root_high[high + size * WIDTH]) * (1.0 + 1e-12)
