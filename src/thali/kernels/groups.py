"""The layout of the index that the exact search looks at in place of single items, and what writes it.

:mod:`thali.groups` says what groups, rays, trees and seats are.
"""

from math import inf
from typing import Any, NamedTuple

import numpy as np

from thali.kernels.jit import inlined, kernel
from thali.kernels.lanes import WIDTH


class Items(NamedTuple):
    """The topics of item e, ascending, and its weights: topics[begin[e]:end[e]], weights[begin[e]:end[e]]."""

    begin: Any
    end: Any
    topics: Any
    weights: Any


class Layout(NamedTuple):
    """The arrays of an index. Items, groups, blocks and places in arrays are unsigned 32-bit integers."""

    item_group: Any
    """(L,): the group of each item; NONE where it was removed."""
    groups: Any
    """(G, 8): see the fields below."""
    masks: Any
    """(G,): a bit for each topic of the group (j and j + 63 share one)."""
    topics: Any
    """The topics of each group, ascending."""
    pool: Any
    """Weights of each group: of a ray item by item (count, size), with the steps to the next item before them (see
    :func:`steps`); of a tree in blocks of 8 items (size, 8), each from the beginning of a line of memory."""
    lane_item: Any
    """The items of each group, in the order of their weights; NONE where there is none."""
    boxes: Any
    """Bytes: see :func:`enclose`."""
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

# Weights count as parallel when every entry agrees to this; the search's slack for rounding allows for it.
TOLERANCE = 4 * 2.220446049250313e-16
# Below this, products of two weights could underflow and make different directions look alike.
SMALLEST = 1e-100
# A set of topics with fewer items than this has a ray for each, if they are not parallel.
FEWEST = 4
# Items with more topics than this are put in order by their two main topics.
FEW = 4
# A line of memory, in bytes; and what a byte of a box counts, so that 255 of them are no less than the whole.
LINE = 64
STEP = (1.0 + 1e-12) / 255.0
# Wholes below this are not divided into steps: what they are worth is less than the slack of any bound.
LEAST = 1e-300


@inlined
def size_of(items, e):
    """How many topics an item has."""
    return np.int64(items.end[e]) - np.int64(items.begin[e])


@kernel
def supports(items, out):
    """A key of each item's set of topics into out (L,), uint64: its size in the highest byte, a hash below."""
    for e in range(out.size):
        total = np.uint64(0)
        for a in range(items.begin[e], items.end[e]):
            v = np.uint64(items.topics[a]) + np.uint64(0x9E3779B97F4A7C15)  # SplitMix64
            v = (v ^ (v >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            v = (v ^ (v >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            total += v ^ (v >> np.uint64(31))
        size = np.uint64(min(255, size_of(items, e)))
        out[e] = (size << np.uint64(56)) | (total >> np.uint64(8))


@kernel
def parts(items, keys, order, out):
    """Marks in out (L,) where another set of topics begins in order, which is sorted by keys.

    Sets whose keys agree by chance are told apart; their items may then lie in more groups than needed.
    """
    for n in range(order.size):
        e, f = order[n], order[max(0, n - 1)]
        same = n > 0 and keys[e] == keys[f] and size_of(items, e) == size_of(items, f)
        a = 0
        while same and a < size_of(items, e):
            same = items.topics[items.begin[e] + a] == items.topics[items.begin[f] + a]
            a += 1
        out[n] = not same


@kernel
def scale_of(items, e):
    """The largest weight of an item."""
    most = 0.0
    for a in range(items.begin[e], items.end[e]):
        most = max(most, items.weights[a])
    return most


@kernel
def is_ray(order, lo, hi, items):
    """Whether all items of order[lo:hi], which have the same topics, are parallel to the first."""
    head = order[lo]
    scale = scale_of(items, head)
    for n in range(lo, hi):
        own = scale_of(items, order[n])
        for a in range(size_of(items, head)):
            w = items.weights[items.begin[order[n]] + a]
            right = items.weights[items.begin[head] + a] * own
            if w < SMALLEST or abs(w * scale - right) > TOLERANCE * right:
                return False
    return True


@kernel
def split(order, start, items, ends, kinds, parallel):
    """Decides what each set of topics becomes; writes groups' ends in order and their kinds, returns their number.

    Rays are put in order: largest first, then lowest item. ``parallel`` False keeps only single items as rays.
    """
    G = 0
    for g in range(start.size - 1):
        lo, hi = start[g], start[g + 1]
        if hi - lo == 1 or (parallel and is_ray(order, lo, hi, items)):
            scales = np.empty(hi - lo)
            ascending = np.sort(order[lo:hi])
            for n in range(hi - lo):
                scales[n] = -scale_of(items, ascending[n])
            order[lo:hi] = ascending[np.argsort(scales, kind="mergesort")]
            ends[G], kinds[G] = hi, RAY
            G += 1
        elif hi - lo < FEWEST:
            for n in range(lo, hi):
                ends[G], kinds[G] = n + 1, RAY
                G += 1
        else:
            ends[G], kinds[G] = hi, TREE
            G += 1
    return G


@kernel
def select(order, lo, hi, middle, offset, items):
    """Puts the items of order[lo:hi] that are largest in their weight number ``offset`` before middle."""
    while hi - lo > 1:
        a = items.weights[items.begin[order[lo]] + offset]
        b = items.weights[items.begin[order[(lo + hi) // 2]] + offset]
        c = items.weights[items.begin[order[hi - 1]] + offset]
        pivot = max(min(a, b), min(max(a, b), c))
        larger, at, smaller = lo, lo, hi
        while at < smaller:
            w = items.weights[items.begin[order[at]] + offset]
            if w > pivot:
                order[larger], order[at] = order[at], order[larger]
                larger += 1
                at += 1
            elif w < pivot:
                smaller -= 1
                order[smaller], order[at] = order[at], order[smaller]
            else:
                at += 1
        if middle < larger:
            hi = larger
        elif middle >= smaller:
            lo = smaller
        else:
            return


@kernel
def by_main_topics(order, items):
    """Orders items by the topics of their largest weight and of the next; then by the largest weight, from the top."""
    key = np.empty(order.size)
    for n in range(order.size):
        topic, most, second, less = 0, -1.0, 0, -1.0
        for a in range(size_of(items, order[n])):
            w = items.weights[items.begin[order[n]] + a]
            if w > most:
                second, less = topic, most
                topic, most = a, w
            elif w > less:
                second, less = a, w
        key[n] = 2.0 * (topic * size_of(items, order[n]) + second) - most
    order[:] = order[np.argsort(key, kind="mergesort")]


@kernel
def arrange(order, start, kinds, items):
    """Orders the items of each tree so that blocks of 8, 64, ... of them lie close together.

    Parts are halved, where a block ends, in the topic in which they spread widest. O(n·s·log n) for n items.
    """
    stack = np.empty((96, 2), dtype=np.int64)
    for g in range(start.size - 1):
        if kinds[g] == RAY:
            continue
        size = size_of(items, order[start[g]])
        if size > FEW:
            by_main_topics(order[start[g] : start[g + 1]], items)
            continue
        stack[0, 0], stack[0, 1] = start[g], start[g + 1]
        depth = 1
        while depth > 0:
            depth -= 1
            lo, hi = stack[depth, 0], stack[depth, 1]
            if hi - lo <= WIDTH or size == 0:
                continue
            block = WIDTH
            while block * WIDTH < hi - lo:
                block *= WIDTH
            middle = lo + ((hi - lo + block - 1) // block // 2) * block
            widest, topic = 0.0, -1
            for a in range(size):
                least, most = inf, -inf
                for n in range(lo, hi):
                    w = items.weights[items.begin[order[n]] + a]
                    least = min(least, w)
                    most = max(most, w)
                if most - least > widest:
                    widest, topic = most - least, a
            if topic >= 0:
                select(order, lo, hi, middle, topic, items)
            stack[depth, 0], stack[depth, 1] = middle, hi
            stack[depth + 1, 0], stack[depth + 1, 1] = lo, middle
            depth += 2


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
    """How many bytes a block of 8 boxes takes, in whole lines of memory: see :func:`enclose`."""
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
def fill(order, start, kinds, items, layout):
    """Writes all groups but their boxes and seats: rows, masks, topics, weights and items. Trees come first in pool."""
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
        layout.masks[g] = 0
        for a in range(size):
            topic = items.topics[items.begin[head] + a]
            layout.topics[t + a] = topic
            layout.masks[g] |= np.int64(1) << np.int64(topic % 63)
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
def seat(group, n, d, layout):
    """Gives a group the n-th seat: writes its topics and pairs of topics, its mask and its corner."""
    block, row = n // WIDTH, layout.groups[group]
    at = np.int64(layout.blocks[block, BLOCK_INDEX]) + n % WIDTH
    for a in range(np.int64(row[SIZE])):
        i = np.int64(layout.topics[row[TOPICS] + a])
        layout.root_index[at] = i
        at += WIDTH
        for b in range(a + 1):
            layout.root_index[at] = i * d + np.int64(layout.topics[row[TOPICS] + b])
            at += WIDTH
    layout.root_group[n] = group
    layout.root_seat[group] = n
    layout.seat_masks[n] = layout.masks[group]
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
def block_numbers(kind, size):
    """How many numbers the search keeps for a block: see :func:`thali.kernels.search.greedy`."""
    return WIDTH * (2 * size + size * (size + 1) // 2) if kind == RAY else 0


@kernel
def seat_all(seats, d, layout):
    """Seats all groups, and encloses the trees among them."""
    layout.root_group[:] = NONE
    for g in range(seats.size):
        seat(g, seats[g], d, layout)
        if layout.groups[g, KIND] == TREE:
            enclose(g, layout)


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


@kernel
def corners(order, start, items, out):
    """The largest weight of any item of each group into out."""
    for g in range(start.size - 1):
        out[g] = 0.0
        for n in range(start[g], start[g + 1]):
            out[g] = max(out[g], scale_of(items, order[n]))


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
