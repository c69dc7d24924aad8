"""The arrays of the search index, and functions that find entries in them.

:mod:`thali.lists.engine.index` explains what groups, rays, trees, blocks and seats are.
"""

from typing import Any, NamedTuple

import numpy as np

from thali.tools.jit import inlined, kernel
from thali.tools.lanes import WIDTH


class Layout(NamedTuple):
    """The arrays of a search index. Items, groups, blocks and offsets into arrays are unsigned 32-bit integers."""

    item_group: Any
    """(L,): the group of each item; NONE if the item was removed."""
    groups: Any
    """(G, 8): one row for each group, with the fields SIZE to KIND below."""
    topics: Any
    """The topics of the first group, in ascending order, then those of the second group, and so on."""
    pool: Any
    """The weights of each group. A ray stores them item by item (count, size), preceded by one number for each item
    (see ``groups.write_steps``). A tree stores them in blocks of 8 items (size, 8), each aligned to a cache line. A fan
    stores blocks of 8 items (2, 8), preceded by ``fan_start`` numbers (see ``groups.fill_fan``)."""
    slot_item: Any
    """The item in each slot of each group, in the order of the weights in ``pool``; NONE if the slot is empty."""
    boxes: Any
    """The boxes of all trees, as bytes (see ``groups.enclose``)."""
    blocks: Any
    """(B, 5): one row for each block, with the fields BLOCK_SIZE to BLOCK_OPERANDS below."""
    gather_index: Any
    """Offsets to gather from, in rows of 8 lanes. For each block and each topic a of its groups: the topic a, then the
    offsets of (a, b) in the flat M⁻¹ for b up to a."""
    corners: Any
    """For each block, the upper corners of its 8 groups: one row (8,) for each topic, then one row (8,) for the excess.
    The excess of a group is the sum of its corner minus the largest sum of weights of any item in it. In a block of
    fans, the vertices of their polygons follow (see ``groups.write_polygon``)."""
    seat_group: Any
    """(B·8,): the group in each seat; NONE if the seat is empty."""
    group_seat: Any
    """(G,): the seat of each group."""
    seat_mask: Any
    """(B·8,): the fading topics of the group in each seat, as a bit mask (topics j and j + 63 share a bit)."""


# Fields of a row of ``groups``: the number of topics, and their offset in ``topics``; the number of slots up to the
# last one in use, and the number of all slots; the offsets of its weights in ``pool``, of its items in ``slot_item``
# and of its boxes in ``boxes``; its kind.
SIZE, TOPICS, COUNT, STRIDE, WEIGHTS, ITEMS, BOXES, KIND = range(8)
# Kinds of groups. A ray has parallel items, the largest first. A tree has any items, in nested boxes. In a fan, the
# weights on fading topics are parallel, and there is one steady topic.
RAY, TREE, FAN = 0, 1, 2
# The number of vertices of a fan's polygon, not counting the origin.
VERTICES = 4
# Fields of a row of ``blocks``: the number of topics and the kind of its 8 groups; its offsets in ``gather_index``,
# ``corners`` and ``scratch.Known.operands``.
BLOCK_SIZE, BLOCK_KIND, BLOCK_GATHER, BLOCK_CORNERS, BLOCK_OPERANDS = range(5)
# Stands for "no item" or "no group".
NONE = np.uint32(2**32 - 1)

# Trees with more topics than this are ordered by the two main topics of each item, and bounded by ``bounds.lane_sums``.
FEW_TOPICS = 4
# One unit of a byte in a box, as a share of the whole. It is slightly above 1/255, so that 255 units are not less than
# the whole.
STEP = (1.0 + 1e-12) / 255.0
# A whole below this value is not divided into units, because it adds less to a bound than the slack of the bound.
SMALLEST_WHOLE = 1e-300


@inlined
def bit_of(topic):
    """Return the bit of a topic in a bit mask; topics j and j + 63 share a bit."""
    return np.int64(1) << np.int64(topic % 63)


@inlined
def weight_at(row, j, a):
    """Return the offset in ``pool`` of the weight of a group's j-th item on the group's a-th topic."""
    size, weights = np.int64(row[SIZE]), np.int64(row[WEIGHTS])
    if row[KIND] == RAY:
        return weights + j * size + a
    return weights + j // WIDTH * WIDTH * size + a * WIDTH + j % WIDTH


@kernel
def slot_count(kind, count):
    """Return the number of slots that a group of ``count`` items needs. For a tree or fan, it is a multiple of 8."""
    return count if kind == RAY else (count + WIDTH - 1) // WIDTH * WIDTH


@inlined
def fan_start(size):
    """Return the number of entries in front of the blocks of a fan in ``pool``: one for each topic, and padding."""
    return (size + WIDTH - 1) // WIDTH * WIDTH


@inlined
def pool_length(kind, size, stride):
    """Return the number of entries of a group in ``pool``."""
    if kind == RAY:
        return (size + 1) * stride
    return size * stride if kind == TREE else fan_start(size) + 2 * stride


@inlined
def corner_rows(kind, size):
    """Return the number of rows (8,) of a block in ``corners``."""
    return size + 1 + (2 * VERTICES if kind == FAN else 0)


@kernel
def box_bytes(size):
    """Return the number of bytes of a block of 8 boxes (see ``groups.enclose``)."""
    return WIDTH * (2 * size + 1)


@kernel
def box_block_count(kind, stride):
    """Return the number of blocks of 8 boxes in a group with ``stride`` slots."""
    total, level = 0, stride
    while kind == TREE and level > WIDTH:
        level = (level + WIDTH - 1) // WIDTH
        total += (level + WIDTH - 1) // WIDTH
    return total


@inlined
def level_count(stride):
    """Return the number of levels of boxes in a tree with ``stride`` slots: 0 if all its items fit into one block."""
    depth = 0
    while stride > WIDTH:
        stride = (stride + WIDTH - 1) // WIDTH
        depth += 1
    return depth


@kernel
def block_operands(kind, size):
    """Return the length of a block's part of ``scratch.Known.operands``. It is 0 for a block of trees."""
    return 0 if kind == TREE else WIDTH * (2 * size + size * (size + 1) // 2)


@inlined
def corner_of(group, layout):
    """Return the offset of a group's corner in ``corners``. Its topics are 8 entries apart, followed by the excess."""
    seat = np.int64(layout.group_seat[group])
    return np.int64(layout.blocks[seat // WIDTH, BLOCK_CORNERS]) + seat % WIDTH


@inlined
def largest_sum(size, corners, corner_at):
    """Return the largest sum of weights of any item in a tree, or slightly more, from the corner at ``corner_at``."""
    total = 0.0
    for a in range(size):
        total += corners[corner_at + a * WIDTH]
    return (total - corners[corner_at + size * WIDTH]) * (1.0 + 1e-12)
