"""Kernels that write the arrays of the search index, either for all items at once or for one changed item."""

import numpy as np

from thali.catalog.items import size_of
from thali.lists.engine.layout import (
    BLOCK_CORNERS,
    BLOCK_GATHER,
    BLOCK_KIND,
    BLOCK_OPERANDS,
    BLOCK_SIZE,
    BOXES,
    COUNT,
    FAN,
    ITEMS,
    KIND,
    NONE,
    RAY,
    SIZE,
    SMALLEST_WHOLE,
    STEP,
    STRIDE,
    TOPICS,
    TREE,
    WEIGHTS,
    bit_of,
    block_operands,
    box_block_count,
    box_bytes,
    corner_of,
    corner_rows,
    fan_start,
    largest_sum,
    level_count,
    pool_length,
    slot_count,
    weight_at,
)
from thali.tools.jit import called, inlined, kernel
from thali.tools.lanes import WIDTH


@kernel
def lengths(kinds, sizes, counts):
    """Return the lengths of ``pool``, ``slot_item`` and ``boxes`` for all groups."""
    numbers, items, boxes = 0, 0, 0
    for g in range(kinds.size):
        stride = slot_count(kinds[g], counts[g])
        numbers += pool_length(kinds[g], sizes[g], stride)
        items += stride
        boxes += box_block_count(kinds[g], stride) * box_bytes(sizes[g])
    return numbers, items, boxes


@kernel
def fill(order, start, kinds, items, layout):
    """Write the row, topics, weights and items of every group, but not its boxes and seat.

    In ``pool``, trees and fans are stored before rays, so that their blocks are aligned to cache lines.
    """
    topics_at, slot_at, box_at, block_at, ray_at = 0, 0, 0, 0, 0
    for g in range(start.size - 1):
        if kinds[g] != RAY:
            size, stride = size_of(items, order[start[g]]), slot_count(kinds[g], start[g + 1] - start[g])
            ray_at += pool_length(kinds[g], size, stride)
    for g in range(start.size - 1):
        head = order[start[g]]
        size, n = size_of(items, head), start[g + 1] - start[g]
        stride = slot_count(kinds[g], n)
        row = layout.groups[g]
        row[SIZE], row[TOPICS], row[COUNT], row[STRIDE], row[ITEMS], row[KIND] = (
            size,
            topics_at,
            n,
            stride,
            slot_at,
            kinds[g],
        )
        for a in range(size):
            layout.topics[topics_at + a] = items.topics[items.begin[head] + a]
        row[BOXES] = box_at
        row[WEIGHTS] = ray_at + n if kinds[g] == RAY else block_at + (fan_start(size) if kinds[g] == FAN else 0)
        for j in range(stride):
            layout.slot_item[slot_at + j] = order[start[g] + j] if j < n else NONE
        for j in range(n):
            e = order[start[g] + j]
            layout.item_group[e] = g
            for a in range(size if kinds[g] != FAN else 0):
                layout.pool[weight_at(row, j, a)] = items.weights[items.begin[e] + a]
        if kinds[g] == RAY:
            write_steps(layout.pool, row)
            ray_at += pool_length(RAY, size, stride)
        else:
            if kinds[g] == FAN:
                fill_fan(order[start[g] : start[g + 1]], items, row, layout)
            block_at += pool_length(kinds[g], size, stride)
        topics_at += size
        slot_at += stride
        box_at += box_block_count(kinds[g], stride) * box_bytes(size)


@called
def fill_fan(members, items, row, layout):
    """Write the topics and weights of a fan with the items members (n,). The steady topic is the last of its topics.

    The entries in front of the blocks are the weights of the item with the largest scale on the fading topics, and
    the largest steady weight of any item. A block contains, for each of 8 items, the scale s relative to the largest
    one, and then the steady weight z.
    """
    size, at, weights = np.int64(row[SIZE]), np.int64(row[TOPICS]), np.int64(row[WEIGHTS])
    first, steady = items.begin[members[0]], 0
    for a in range(size):
        if items.fading[items.topics[first + a]]:
            layout.topics[at] = items.topics[first + a]
            at += 1
        else:
            steady = a
    layout.topics[at] = items.topics[first + steady]
    main = 1 if steady == 0 else 0  # a fading topic, on which scales are compared
    head, largest_z = members[0], 0.0
    for e in members:
        if items.weights[items.begin[e] + main] > items.weights[items.begin[head] + main]:
            head = e
        largest_z = max(largest_z, items.weights[items.begin[e] + steady])
    front = weights - fan_start(size)
    for a in range(size):
        if a != steady:
            layout.pool[front] = items.weights[items.begin[head] + a]
            front += 1
    layout.pool[front] = largest_z
    for j in range(members.size):
        begin, slot = items.begin[members[j]], weights + j // WIDTH * 2 * WIDTH + j % WIDTH
        layout.pool[slot] = items.weights[begin + main] / items.weights[items.begin[head] + main]
        layout.pool[slot + WIDTH] = items.weights[begin + steady]


@called
def write_polygon(group, layout):
    """Write a fan's corner, and a polygon that contains the points (s, z) of its items.

    The polygon has the origin and four more vertices. It follows from the largest s, which is 1, the largest z, the
    largest sum s + z / z_max, and the smallest and largest ratio of s and z. The vertices are stored after the excess,
    which is 0, as rows of s and z in turn. They are enlarged a little to allow for rounding.
    """
    row, corner_at = layout.groups[group], corner_of(group, layout)
    size, weights, pool = np.int64(row[SIZE]), np.int64(row[WEIGHTS]), layout.pool
    for a in range(size):
        layout.corners[corner_at + a * WIDTH] = pool[weights - fan_start(size) + a]
    layout.corners[corner_at + size * WIDTH] = 0.0
    largest_z = pool[weights - fan_start(size) + size - 1]
    most, least_z, least_s = 1.0, 1.0, 1.0
    for j in range(np.int64(row[COUNT])):
        slot = weights + j // WIDTH * 2 * WIDTH + j % WIDTH
        s, z = pool[slot], pool[slot + WIDTH] / largest_z
        most = max(most, s + z)
        least_z = min(least_z, z / s)
        least_s = min(least_s, s / z)
    other = min(1.0, (most - 1.0) * (1.0 + 1e-12) + 1e-12)
    at = corner_at + (size + 1) * WIDTH
    for s, z in (
        (1.0, least_z * (1.0 - 1e-12)),
        (1.0, other),
        (other, 1.0),
        (least_s * (1.0 - 1e-12), 1.0),
    ):
        layout.corners[at] = s * (1.0 + 1e-12)
        layout.corners[at + WIDTH] = z * largest_z * (1.0 + 1e-12)
        at += 2 * WIDTH


@called
def write_steps(pool, row):
    """For each item of a ray, write the scale of the next item divided by the item's own scale.

    These numbers are stored in front of the ray's weights. The scale of an item is its largest weight. The next item is
    the first one below it with different weights. If there is no such item, the number is 0.
    """
    size, n = np.int64(row[SIZE]), np.int64(row[COUNT])
    weights = np.int64(row[WEIGHTS])
    shares_at = weights - n
    next_scale, next_share = 0.0, 0.0  # the scale of the item after this one, and its ratio
    for j in range(n - 1, -1, -1):
        own, same = 0.0, j < n - 1
        for a in range(size):
            w = pool[weights + j * size + a]
            own = max(own, w)
            same = same and w == pool[weights + (j + 1) * size + a]
        if not same:
            next_share = next_scale / own if own > 0.0 else 0.0
        pool[shares_at + j] = next_share
        next_scale = own


@kernel
def assign_seats(new_block, sizes, kinds, seats, blocks):
    """Write the rows of all blocks, and write the seat of each group to seats (G,).

    new_block (G,) says which groups begin a new block. Returns the lengths of ``gather_index``, ``corners`` and
    ``scratch.Known.operands``.
    """
    block, lane = -1, 0
    gather_length, corner_length, operand_length = 0, 0, 0
    for n in range(new_block.size):
        if new_block[n]:
            block += 1
            lane = 0
            size = sizes[n]
            row = blocks[block]
            row[BLOCK_SIZE], row[BLOCK_KIND] = size, kinds[n]
            row[BLOCK_GATHER], row[BLOCK_CORNERS], row[BLOCK_OPERANDS] = gather_length, corner_length, operand_length
            gather_length += WIDTH * (size + size * (size + 1) // 2)
            corner_length += WIDTH * corner_rows(kinds[n], size)
            operand_length += block_operands(kinds[n], size)
        seats[n] = block * WIDTH + lane
        lane += 1
    return gather_length, corner_length, operand_length


@kernel
def seat_all(seats, fading, layout):
    """Give every group its seat, and write the boxes of the trees. fading (d,): whether each topic fades."""
    layout.seat_group[:] = NONE
    for g in range(seats.size):
        seat(g, seats[g], fading, layout)
        if layout.groups[g, KIND] == TREE:
            enclose(g, layout)


@kernel
def seat(group, n, fading, layout):
    """Give a group the n-th seat: write the indices of its topics and pairs of topics, its mask and its corner."""
    block, row, d = n // WIDTH, layout.groups[group], fading.size
    at = np.int64(layout.blocks[block, BLOCK_GATHER]) + n % WIDTH
    layout.seat_mask[n] = 0
    for a in range(np.int64(row[SIZE])):
        i = np.int64(layout.topics[row[TOPICS] + a])
        layout.gather_index[at] = i
        if fading[i]:
            layout.seat_mask[n] |= bit_of(i)
        at += WIDTH
        for b in range(a + 1):
            layout.gather_index[at] = i * d + np.int64(layout.topics[row[TOPICS] + b])
            at += WIDTH
    layout.seat_group[n] = group
    layout.group_seat[group] = n
    if row[KIND] == FAN:
        write_polygon(group, layout)
    else:
        write_corner(group, layout)


@called
def write_corner(group, layout):
    """Write a group's corner and excess, from its current items. The corner of a ray is its first item."""
    row, corner_at = layout.groups[group], corner_of(group, layout)
    size, pool = np.int64(row[SIZE]), layout.pool
    count = 1 if row[KIND] == RAY else np.int64(row[COUNT])
    corner_total, largest_total = 0.0, 0.0
    for a in range(size):
        highest = 0.0
        for j in range(count):
            highest = max(highest, pool[weight_at(row, j, a)])
        layout.corners[corner_at + a * WIDTH] = highest
        corner_total += highest
    for j in range(count):
        total = 0.0
        for a in range(size):
            total += pool[weight_at(row, j, a)]
        largest_total = max(largest_total, total)
    layout.corners[corner_at + size * WIDTH] = max(0.0, corner_total - largest_total - 1e-12 * corner_total)


@called
def enclose(group, layout):
    """Write the boxes of a tree, level by level: first at most 8 large boxes, then the 8 boxes within each of them, and
    so on down to the boxes around blocks of 8 items.

    Boxes are stored in blocks of 8: upper corners (size, 8), lower corners (size, 8), and the largest sum of weights of
    any item in each box (8,). Each number is stored as a byte, which is a share of the tree's own corner or largest
    sum. It is rounded outwards, so that a box never becomes too small.
    """
    row, pool, boxes = layout.groups[group], layout.pool, layout.boxes
    size, count, stride = np.int64(row[SIZE]), np.int64(row[COUNT]), np.int64(row[STRIDE])
    corner_at = corner_of(group, layout)
    largest_total = largest_sum(size, layout.corners, corner_at)
    level_at = np.int64(row[BOXES])
    for level in range(level_count(stride), 0, -1):
        slots_per_box = WIDTH**level
        box_count = (stride + slots_per_box - 1) // slots_per_box
        for j in range((box_count + WIDTH - 1) // WIDTH * WIDTH):
            box = level_at + j // WIDTH * box_bytes(size) + j % WIDTH
            start, stop = j * slots_per_box, min(count, (j + 1) * slots_per_box)
            for a in range(size):
                top, bottom = 0.0, 1.0 if start < stop else 0.0
                for n in range(start, stop):
                    w = pool[weight_at(row, n, a)]
                    top = max(top, w)
                    bottom = min(bottom, w)
                corner = layout.corners[corner_at + a * WIDTH]
                boxes[box + a * WIDTH] = byte_above(top, corner)
                boxes[box + (size + a) * WIDTH] = byte_below(bottom, corner)
            top = 0.0
            for n in range(start, stop):
                total = 0.0
                for a in range(size):
                    total += pool[weight_at(row, n, a)]
                top = max(top, total)
            boxes[box + 2 * size * WIDTH] = byte_above(top * (1.0 + 1e-12), largest_total)
        level_at += (box_count + WIDTH - 1) // WIDTH * box_bytes(size)


@inlined
def byte_above(value, whole):
    """Return the smallest byte b with b·(whole·STEP) ≥ value. It is 255 if value equals whole, or if whole is tiny."""
    if whole < SMALLEST_WHOLE:
        return np.uint8(255)
    b = min(255, np.int64(value / (whole * STEP)))
    while b * (whole * STEP) < value and b < 255:
        b += 1
    return np.uint8(b)


@inlined
def byte_below(value, whole):
    """Return the largest byte b with b·(whole·STEP) ≤ value, or a slightly smaller one. It is 0 if whole is tiny."""
    if whole < SMALLEST_WHOLE:
        return np.uint8(0)
    b = min(255, np.int64(value / (whole * STEP)))
    while b > 0 and b * (whole * STEP) > value:
        b -= 1
    return np.uint8(b)


@inlined
def slot_of(item, row, layout):
    """Return the slot of an item within its group."""
    j = 0
    while layout.slot_item[row[ITEMS] + j] != item:
        j += 1
    return j


@kernel
def remove(item, layout):
    """Remove an item from its group, and leave its slot empty. Cost: O(n) for a group of n items.

    The corner and boxes of a tree with at most 64 slots shrink to fit the remaining items. The corner and boxes of a
    larger tree stay unchanged. After many removals, its bounds are loose, and the search opens it without success.
    """
    group = np.int64(layout.item_group[item])
    row = layout.groups[group]
    j = slot_of(item, row, layout)
    layout.slot_item[row[ITEMS] + j] = NONE
    layout.item_group[item] = NONE
    if row[KIND] == TREE and row[STRIDE] <= WIDTH * WIDTH:
        for a in range(np.int64(row[SIZE])):
            layout.pool[weight_at(row, j, a)] = 0.0
        write_corner(group, layout)
        enclose(group, layout)


@kernel
def insert(item, group, weights, layout):
    """Put an item into the first empty slot of a tree with at most 64 slots, and update the tree's corner and boxes.

    Returns False if there is no empty slot.
    """
    row = layout.groups[group]
    for j in range(np.int64(row[STRIDE])):
        if layout.slot_item[row[ITEMS] + j] == NONE:
            layout.slot_item[row[ITEMS] + j] = item
            layout.item_group[item] = group
            row[COUNT] = max(np.int64(row[COUNT]), j + 1)
            for a in range(weights.size):
                layout.pool[weight_at(row, j, a)] = weights[a]
            write_corner(group, layout)
            enclose(group, layout)
            return True
    return False


@kernel
def rewrite(item, topics, weights, layout):
    """Change the weights of an item in place, if possible. Return whether it was possible.

    It is possible if the topics stay the same, the group is a tree, and the new weights do not exceed the tree's corner
    and largest sum. Boxes can only grow. Cost: O(n) to find the item, and O(s) for each level of boxes.
    """
    group = np.int64(layout.item_group[item])
    row, corner_at = layout.groups[group], corner_of(group, layout)
    size = np.int64(row[SIZE])
    if row[KIND] != TREE or topics.size != size:
        return False
    total = 0.0
    for a in range(size):
        if topics[a] != layout.topics[row[TOPICS] + a] or weights[a] > layout.corners[corner_at + a * WIDTH]:
            return False
        total += weights[a]
    largest_total = largest_sum(size, layout.corners, corner_at)
    if total * (1.0 + 1e-12) > largest_total:
        return False
    j = slot_of(item, row, layout)
    for a in range(size):
        layout.pool[weight_at(row, j, a)] = weights[a]
    level_at, stride, boxes = np.int64(row[BOXES]), np.int64(row[STRIDE]), layout.boxes
    for level in range(level_count(stride), 0, -1):
        slots_per_box = WIDTH**level
        box_count = (stride + slots_per_box - 1) // slots_per_box
        number = j // slots_per_box
        box = level_at + number // WIDTH * box_bytes(size) + number % WIDTH
        for a in range(size):
            corner = layout.corners[corner_at + a * WIDTH]
            boxes[box + a * WIDTH] = max(boxes[box + a * WIDTH], byte_above(weights[a], corner))
            low = box + (size + a) * WIDTH
            boxes[low] = min(boxes[low], byte_below(weights[a], corner))
        sums = box + 2 * size * WIDTH
        boxes[sums] = max(boxes[sums], byte_above(total * (1.0 + 1e-12), largest_total))
        level_at += (box_count + WIDTH - 1) // WIDTH * box_bytes(size)
    return True
