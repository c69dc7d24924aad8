"""Kernels that write the search index: all of it at first, then one item at a time."""

import numpy as np

from thali.catalog.items import size_of
from thali.lists.engine.layout import (
    BLOCK_HIGH,
    BLOCK_INDEX,
    BLOCK_KIND,
    BLOCK_NUMBERS,
    BLOCK_SIZE,
    BOXES,
    COUNT,
    ITEMS,
    KIND,
    LEAST,
    NONE,
    RAY,
    SIZE,
    STEP,
    STRIDE,
    TOPICS,
    TREE,
    WEIGHTS,
    bit_of,
    block_numbers,
    box_blocks,
    box_bytes,
    corner_of,
    largest_sum,
    levels,
    place_of,
    places,
)
from thali.tools.jit import inlined, kernel
from thali.tools.lanes import WIDTH


@kernel
def lengths(kinds, sizes, counts):
    """Lengths of pool, lane_item and boxes for all groups."""
    numbers, items, boxes = 0, 0, 0
    for g in range(kinds.size):
        stride = places(kinds[g], counts[g])
        numbers += sizes[g] * stride + (stride if kinds[g] == RAY else 0)
        items += stride
        boxes += box_blocks(kinds[g], stride) * box_bytes(sizes[g])
    return numbers, items, boxes


@kernel
def fill(order, start, kinds, items, layout):
    """Writes all groups but their boxes and seats: rows, topics, weights and items. Trees come first in pool."""
    t, i, boxes, tree, ray = 0, 0, 0, 0, 0
    for g in range(start.size - 1):
        if kinds[g] == TREE:
            ray += size_of(items, order[start[g]]) * places(TREE, start[g + 1] - start[g])
    for g in range(start.size - 1):
        head = order[start[g]]
        size, n = size_of(items, head), start[g + 1] - start[g]
        stride = places(kinds[g], n)
        row = layout.groups[g]
        row[SIZE], row[TOPICS], row[COUNT], row[STRIDE], row[ITEMS], row[KIND] = size, t, n, stride, i, kinds[g]
        for a in range(size):
            layout.topics[t + a] = items.topics[items.begin[head] + a]
        row[BOXES] = boxes
        row[WEIGHTS] = ray + n if kinds[g] == RAY else tree
        for j in range(stride):
            layout.lane_item[i + j] = order[start[g] + j] if j < n else NONE
        for j in range(n):
            e = order[start[g] + j]
            layout.item_group[e] = g
            for a in range(size):
                layout.pool[place_of(row, j, a)] = items.weights[items.begin[e] + a]
        if kinds[g] == RAY:
            steps(layout.pool, row)
            ray += n + size * n
        else:
            tree += size * stride
        t += size
        i += stride
        boxes += box_blocks(kinds[g], stride) * box_bytes(size)


@kernel
def steps(pool, row):
    """Writes before the weights of a ray, for each item, the scale of the next that is not its equal as a share of its
    own; 0 for the last.
    """
    size, n = np.int64(row[SIZE]), np.int64(row[COUNT])
    weights = np.int64(row[WEIGHTS])
    at = weights - n
    scale, step = 0.0, 0.0  # of the item after, and what it steps to
    for j in range(n - 1, -1, -1):
        own, same = 0.0, j < n - 1
        for a in range(size):
            w = pool[weights + j * size + a]
            own = max(own, w)
            same = same and w == pool[weights + (j + 1) * size + a]
        if not same:
            step = scale / own if own > 0.0 else 0.0
        pool[at + j] = step
        scale = own


@kernel
def seats_of(new, sizes, kinds, seats, blocks):
    """Writes the rows of all blocks, for groups in this order with a new block where new says so, and the seat of each
    group into seats. Returns the lengths of root_index, root_high and the search's numbers.
    """
    block, lane = -1, 0
    index, high, numbers = 0, 0, 0
    for n in range(new.size):
        if new[n]:
            block += 1
            lane = 0
            size = sizes[n]
            row = blocks[block]
            row[BLOCK_SIZE], row[BLOCK_KIND] = size, kinds[n]
            row[BLOCK_INDEX], row[BLOCK_HIGH], row[BLOCK_NUMBERS] = index, high, numbers
            index += WIDTH * (size + size * (size + 1) // 2)
            high += WIDTH * (size + 1)
            numbers += block_numbers(kinds[n], size)
        seats[n] = block * WIDTH + lane
        lane += 1
    return index, high, numbers


@kernel
def seat_all(seats, d, layout):
    """Seats all groups, and encloses the trees among them."""
    layout.root_group[:] = NONE
    for g in range(seats.size):
        seat(g, seats[g], d, layout)
        if layout.groups[g, KIND] == TREE:
            enclose(g, layout)


@kernel
def seat(group, n, d, layout):
    """Gives a group the n-th seat: writes its topics and pairs of topics, its mask and its corner."""
    block, row = n // WIDTH, layout.groups[group]
    at = np.int64(layout.blocks[block, BLOCK_INDEX]) + n % WIDTH
    layout.seat_masks[n] = 0
    for a in range(np.int64(row[SIZE])):
        i = np.int64(layout.topics[row[TOPICS] + a])
        layout.root_index[at] = i
        layout.seat_masks[n] |= bit_of(i)
        at += WIDTH
        for b in range(a + 1):
            layout.root_index[at] = i * d + np.int64(layout.topics[row[TOPICS] + b])
            at += WIDTH
    layout.root_group[n] = group
    layout.root_seat[group] = n
    write_corner(group, layout)


@kernel
def write_corner(group, layout):
    """Writes a group's corner and what it exceeds the largest sum by, from its items as they are now."""
    row, high = layout.groups[group], corner_of(group, layout)
    size, pool = np.int64(row[SIZE]), layout.pool
    count = 1 if row[KIND] == RAY else np.int64(row[COUNT])
    corner, most = 0.0, 0.0
    for a in range(size):
        highest = 0.0
        for j in range(count):
            highest = max(highest, pool[place_of(row, j, a)])
        layout.root_high[high + a * WIDTH] = highest
        corner += highest
    for j in range(count):
        total = 0.0
        for a in range(size):
            total += pool[place_of(row, j, a)]
        most = max(most, total)
    layout.root_high[high + size * WIDTH] = max(0.0, corner - most - 1e-12 * corner)


@kernel
def enclose(group, layout):
    """Writes the boxes of a tree: first the level of at most 8, then the 8 within each of them, down to blocks of
    items.

    Boxes stand in blocks of 8: their upper corners (size, 8), lower corners (size, 8) and the largest sum of weights
    of an item in them (8,), in bytes: shares of the tree's own corner and largest sum, rounded outwards.
    """
    row, pool, boxes = layout.groups[group], layout.pool, layout.boxes
    size, count, stride = np.int64(row[SIZE]), np.int64(row[COUNT]), np.int64(row[STRIDE])
    high = corner_of(group, layout)
    most = largest_sum(size, layout.root_high, high)
    at = np.int64(row[BOXES])
    for level in range(levels(stride), 0, -1):
        each = WIDTH**level
        within = (stride + each - 1) // each
        for j in range((within + WIDTH - 1) // WIDTH * WIDTH):
            box = at + j // WIDTH * box_bytes(size) + j % WIDTH
            start, stop = j * each, min(count, (j + 1) * each)
            for a in range(size):
                top, bottom = 0.0, 1.0 if start < stop else 0.0
                for n in range(start, stop):
                    w = pool[place_of(row, n, a)]
                    top = max(top, w)
                    bottom = min(bottom, w)
                corner = layout.root_high[high + a * WIDTH]
                boxes[box + a * WIDTH] = share_above(top, corner)
                boxes[box + (size + a) * WIDTH] = share_below(bottom, corner)
            top = 0.0
            for n in range(start, stop):
                total = 0.0
                for a in range(size):
                    total += pool[place_of(row, n, a)]
                top = max(top, total)
            boxes[box + 2 * size * WIDTH] = share_above(top * (1.0 + 1e-12), most)
        at += (within + WIDTH - 1) // WIDTH * box_bytes(size)


@inlined
def share_above(value, whole):
    """The least byte b with b·(whole·STEP) at least value; 255 where value is whole, or both are tiny."""
    if whole < LEAST:
        return np.uint8(255)
    b = min(255, np.int64(value / (whole * STEP)))
    while b * (whole * STEP) < value and b < 255:
        b += 1
    return np.uint8(b)


@inlined
def share_below(value, whole):
    """The largest byte b, or nearly, with b·(whole·STEP) at most value."""
    if whole < LEAST:
        return np.uint8(0)
    b = min(255, np.int64(value / (whole * STEP)))
    while b > 0 and b * (whole * STEP) > value:
        b -= 1
    return np.uint8(b)


@inlined
def position_of(item, row, layout):
    """Where an item of the group is among its places."""
    j = 0
    while layout.lane_item[row[ITEMS] + j] != item:
        j += 1
    return j


@kernel
def remove(item, layout):
    """Takes an item out of its group; the place stays empty. O(n) for a group of n.

    The corners of a tree of no more than 64 places shrink to what is left; those of others stay, and with many items
    removed from a large tree attract the search for nothing.
    """
    group = layout.item_group[item]
    row = layout.groups[group]
    j = position_of(item, row, layout)
    layout.lane_item[row[ITEMS] + j] = NONE
    layout.item_group[item] = NONE
    if row[KIND] == TREE and row[STRIDE] <= WIDTH * WIDTH:
        for a in range(np.int64(row[SIZE])):
            layout.pool[place_of(row, j, a)] = 0.0
        write_corner(group, layout)
        enclose(group, layout)


@kernel
def insert(item, group, weights, layout):
    """Puts an item into the first empty place of a tree of no more than 64 places, and raises what is around it.
    Returns whether there was a place.
    """
    row = layout.groups[group]
    for j in range(np.int64(row[STRIDE])):
        if layout.lane_item[row[ITEMS] + j] == NONE:
            layout.lane_item[row[ITEMS] + j] = item
            layout.item_group[item] = group
            row[COUNT] = max(np.int64(row[COUNT]), j + 1)
            for a in range(weights.size):
                layout.pool[place_of(row, j, a)] = weights[a]
            write_corner(group, layout)
            enclose(group, layout)
            return True
    return False


@kernel
def rewrite(item, topics, weights, layout):
    """Gives an item other weights in its place, if its group is a tree of these topics whose corner and largest sum are
    not exceeded; returns whether so. Boxes only widen. O(s) for each level, O(n) to find it.
    """
    group = layout.item_group[item]
    row, high = layout.groups[group], corner_of(group, layout)
    size = np.int64(row[SIZE])
    if row[KIND] == RAY or topics.size != size:
        return False
    total = 0.0
    for a in range(size):
        if topics[a] != layout.topics[row[TOPICS] + a] or weights[a] > layout.root_high[high + a * WIDTH]:
            return False
        total += weights[a]
    most = largest_sum(size, layout.root_high, high)
    if total * (1.0 + 1e-12) > most:
        return False
    j = position_of(item, row, layout)
    for a in range(size):
        layout.pool[place_of(row, j, a)] = weights[a]
    at, stride, boxes = np.int64(row[BOXES]), np.int64(row[STRIDE]), layout.boxes
    for level in range(levels(stride), 0, -1):
        each = WIDTH**level
        within = (stride + each - 1) // each
        number = j // each
        box = at + number // WIDTH * box_bytes(size) + number % WIDTH
        for a in range(size):
            corner = layout.root_high[high + a * WIDTH]
            boxes[box + a * WIDTH] = max(boxes[box + a * WIDTH], share_above(weights[a], corner))
            low = box + (size + a) * WIDTH
            boxes[low] = min(boxes[low], share_below(weights[a], corner))
        sums = box + 2 * size * WIDTH
        boxes[sums] = max(boxes[sums], share_above(total * (1.0 + 1e-12), most))
        at += (within + WIDTH - 1) // WIDTH * box_bytes(size)
    return True
