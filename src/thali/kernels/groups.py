"""Builds what the exact search looks at in place of single items: see :mod:`thali.groups` for the layout."""

from math import inf

import numpy as np

from thali.kernels.jit import inlined, kernel
from thali.kernels.lanes import WIDTH

# Fields of a row of ``groups``: its number of topics and where they are, its items and its places for items, where
# its weights, items and boxes are, and its kind.
SIZE, TOPICS, COUNT, STRIDE, WEIGHTS, ITEMS, BOXES, KIND = range(8)
# Parallel items, largest first; or items in any relation, in boxes within boxes.
RAY, TREE = 0, 1
# Fields of a row of ``blocks``: number of topics and kind of its 8 groups; where its rows of indices, its upper
# corners and, in the search, its numbers are.
BLOCK_SIZE, BLOCK_KIND, BLOCK_INDEX, BLOCK_HIGH, BLOCK_NUMBERS = range(5)
# No item, no group.
NONE = np.uint32(2**32 - 1)

# Weights count as parallel when every entry agrees to this; the search's slack for rounding allows for it.
TOLERANCE = 4 * 2.220446049250313e-16
# Below this, products of two weights could underflow and make different directions look alike.
SMALLEST = 1e-100
# A set of topics with fewer items than this has a ray for each.
FEWEST = 4
# Boxes around items with more topics than this are told apart by their main topic alone.
FEW = 4
# A line of memory, in bytes; and what a byte of a box counts, so that 255 of them are no less than the whole.
LINE = 64
STEP = (1.0 + 1e-12) / 255.0


@kernel
def supports(begin, end, topics, out):
    """A key of each item's set of topics into out (L,), uint64: its size in the highest byte, a hash below."""
    for e in range(out.size):
        total = np.uint64(0)
        for a in range(begin[e], end[e]):
            v = np.uint64(topics[a]) + np.uint64(0x9E3779B97F4A7C15)  # SplitMix64
            v = (v ^ (v >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            v = (v ^ (v >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            total += v ^ (v >> np.uint64(31))
        size = np.uint64(min(255, np.int64(end[e]) - np.int64(begin[e])))
        out[e] = (size << np.uint64(56)) | (total >> np.uint64(8))


@kernel
def parts(begin, end, topics, keys, order, out):
    """Marks in out (L,) where another set of topics begins in order, which is sorted by keys.

    Sets whose keys agree by chance are told apart; their items may then lie in more groups than needed.
    """
    for n in range(order.size):
        e, f = order[n], order[max(0, n - 1)]
        size = np.int64(end[e]) - np.int64(begin[e])
        same = n > 0 and keys[e] == keys[f] and size == np.int64(end[f]) - np.int64(begin[f])
        a = 0
        while same and a < size:
            same = topics[begin[e] + a] == topics[begin[f] + a]
            a += 1
        out[n] = not same


@kernel
def scale_of(begin, end, weights, e):
    """The largest weight of an item."""
    most = 0.0
    for a in range(begin[e], end[e]):
        most = max(most, weights[a])
    return most


@kernel
def is_ray(order, lo, hi, begin, end, weights):
    """Whether all items of order[lo:hi], which have the same topics, are parallel to the first."""
    head = order[lo]
    size = np.int64(end[head]) - np.int64(begin[head])
    scale = scale_of(begin, end, weights, head)
    for n in range(lo, hi):
        own = scale_of(begin, end, weights, order[n])
        for a in range(size):
            w = weights[begin[order[n]] + a]
            right = weights[begin[head] + a] * own
            if w < SMALLEST or abs(w * scale - right) > TOLERANCE * right:
                return False
    return True


@kernel
def split(order, start, begin, end, weights, ends, kinds, parallel):
    """Decides what each set of topics becomes; writes groups' ends in order and their kinds, returns their number.

    Rays are put in order: largest first, then lowest item. ``parallel`` False keeps only single items as rays.
    """
    G = 0
    for g in range(start.size - 1):
        lo, hi = start[g], start[g + 1]
        if hi - lo == 1 or (parallel and is_ray(order, lo, hi, begin, end, weights)):
            scales = np.empty(hi - lo)
            items = np.sort(order[lo:hi])
            for n in range(hi - lo):
                scales[n] = -scale_of(begin, end, weights, items[n])
            order[lo:hi] = items[np.argsort(scales, kind="mergesort")]
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
def select(order, lo, hi, middle, begin, offset, weights):
    """Puts the items of order[lo:hi] that are largest in their weight number ``offset`` before middle."""
    while hi - lo > 1:
        a = weights[begin[order[lo]] + offset]
        b = weights[begin[order[(lo + hi) // 2]] + offset]
        c = weights[begin[order[hi - 1]] + offset]
        pivot = max(min(a, b), min(max(a, b), c))
        larger, at, smaller = lo, lo, hi
        while at < smaller:
            w = weights[begin[order[at]] + offset]
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
def by_main_topic(items, begin, end, weights):
    """Orders items by the topic of their largest weight, then by that weight, largest first."""
    key = np.empty(items.size)
    for n in range(items.size):
        topic, most = 0, -1.0
        for a in range(np.int64(end[items[n]]) - np.int64(begin[items[n]])):
            if weights[begin[items[n]] + a] > most:
                topic, most = a, weights[begin[items[n]] + a]
        key[n] = 2.0 * topic - most
    items[:] = items[np.argsort(key, kind="mergesort")]


@kernel
def arrange(order, start, kinds, begin, end, weights):
    """Orders the items of each tree so that blocks of 8, 64, ... of them lie close together.

    Parts are halved, where a block ends, in the topic in which they spread widest. O(n·s·log n) for n items.
    """
    stack = np.empty((96, 2), dtype=np.int64)
    for g in range(start.size - 1):
        if kinds[g] == RAY:
            continue
        size = np.int64(end[order[start[g]]]) - np.int64(begin[order[start[g]]])
        if size > FEW:
            by_main_topic(order[start[g] : start[g + 1]], begin, end, weights)
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
                    w = weights[begin[order[n]] + a]
                    least = min(least, w)
                    most = max(most, w)
                if most - least > widest:
                    widest, topic = most - least, a
            if topic >= 0:
                select(order, lo, hi, middle, begin, topic, weights)
            stack[depth, 0], stack[depth, 1] = middle, hi
            stack[depth + 1, 0], stack[depth + 1, 1] = lo, middle
            depth += 2


@inlined
def weight_at(row, pool, j, a):
    """The weight of the group's j-th item on its a-th topic."""
    size, weights = np.int64(row[SIZE]), np.int64(row[WEIGHTS])
    if row[KIND] == RAY:
        return pool[weights + j * size + a]
    return pool[weights + j // WIDTH * WIDTH * size + a * WIDTH + j % WIDTH]


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


@kernel
def enclose(group, groups, pool, boxes, blocks, root_high, root_seat):
    """Writes the boxes of a tree: first the level of at most 8, then the 8 within each of them, down to blocks of items.

    Boxes stand in blocks of 8: their upper corners (size, 8), lower corners (size, 8) and the largest sum of weights
    of an item in them (8,), in bytes: shares of the tree's own corner and largest sum, rounded outwards.
    """
    row, seat = groups[group], np.int64(root_seat[group])
    size, count, stride = np.int64(row[SIZE]), np.int64(row[COUNT]), np.int64(row[STRIDE])
    high = np.int64(blocks[seat // WIDTH, BLOCK_HIGH]) + seat % WIDTH
    most = largest_sum(size, root_high, high)
    depth, n = 0, stride
    while n > WIDTH:
        n = (n + WIDTH - 1) // WIDTH
        depth += 1
    at = np.int64(row[BOXES])
    for level in range(depth, 0, -1):
        each = WIDTH**level
        within = (stride + each - 1) // each
        for j in range((within + WIDTH - 1) // WIDTH * WIDTH):
            box = at + j // WIDTH * box_bytes(size) + j % WIDTH
            start, stop = j * each, min(count, (j + 1) * each)
            for a in range(size):
                top, bottom = 0.0, 1.0 if start < stop else 0.0
                for n in range(start, stop):
                    w = weight_at(row, pool, n, a)
                    top = max(top, w)
                    bottom = min(bottom, w)
                corner = root_high[high + a * WIDTH]
                boxes[box + a * WIDTH] = share_above(top, corner)
                boxes[box + (size + a) * WIDTH] = share_below(bottom, corner)
            top = 0.0
            for n in range(start, stop):
                total = 0.0
                for a in range(size):
                    total += weight_at(row, pool, n, a)
                top = max(top, total)
            boxes[box + 2 * size * WIDTH] = share_above(top * (1.0 + 1e-12), most)
        at += (within + WIDTH - 1) // WIDTH * box_bytes(size)


@inlined
def largest_sum(size, root_high, high):
    """The largest sum of weights of a tree's items, or a little more; high is where its corner is."""
    total = 0.0
    for a in range(size):
        total += root_high[high + a * WIDTH]
    return (total - root_high[high + size * WIDTH]) * (1.0 + 1e-12)


@inlined
def share_above(value, whole):
    """The least byte b with b·(whole·STEP) at least value; 255 where value is whole."""
    b = np.int64(value / (whole * STEP)) if whole > 0.0 else 0
    while b * (whole * STEP) < value and b < 255:
        b += 1
    return np.uint8(b)


@inlined
def share_below(value, whole):
    """The largest byte b, or nearly, with b·(whole·STEP) at most value."""
    b = np.int64(value / (whole * STEP)) if whole > 0.0 else 0
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
def fill(order, start, kinds, begin, end, topics, weights, groups, masks, group_topics, pool, lane_item, item_group):
    """Writes all groups but their boxes: row, topics and a bit for each (j and j + 63 share one), weights and items.

    The weights of a ray are item by item (count, size), those of a tree in blocks of 8 items (size, 8).
    """
    t, p, i, boxes = 0, 0, 0, 0
    for g in range(start.size - 1):
        head = order[start[g]]
        size, n = np.int64(end[head]) - np.int64(begin[head]), start[g + 1] - start[g]
        stride = places(kinds[g], n)
        row = groups[g]
        row[SIZE], row[TOPICS], row[COUNT], row[STRIDE], row[ITEMS], row[KIND] = size, t, n, stride, i, kinds[g]
        masks[g] = 0
        for a in range(size):
            group_topics[t + a] = topics[begin[head] + a]
            masks[g] |= np.int64(1) << np.int64(group_topics[t + a] % 63)
        t += size
        row[BOXES] = boxes
        boxes += box_blocks(kinds[g], stride) * box_bytes(size)
        if kinds[g] == RAY:
            p += n
        row[WEIGHTS] = p
        for j in range(stride):
            lane_item[i + j] = order[start[g] + j] if j < n else NONE
        for j in range(n):
            e = order[start[g] + j]
            item_group[e] = g
            for a in range(size):
                if kinds[g] == RAY:
                    pool[p + j * size + a] = weights[begin[e] + a]
                else:
                    pool[p + j // WIDTH * WIDTH * size + a * WIDTH + j % WIDTH] = weights[begin[e] + a]
        if kinds[g] == RAY:
            steps(pool, row)
        p += size * stride
        i += stride


@kernel
def seat(group, n, d, groups, group_topics, pool, blocks, root_index, root_high, root_group, root_seat):
    """Gives a group the n-th seat, a lane of a block: its topics and pairs of topics (as places in M⁻¹), its upper
    corner, and by how much the sum of the corner exceeds the largest sum of weights of an item.
    """
    block, lane = n // WIDTH, n % WIDTH
    row = groups[group]
    size, t = np.int64(row[SIZE]), np.int64(row[TOPICS])
    at = np.int64(blocks[block, BLOCK_INDEX]) + lane
    for a in range(size):
        i = np.int64(group_topics[t + a])
        root_index[at] = i
        at += WIDTH
        for b in range(a + 1):
            root_index[at] = i * d + np.int64(group_topics[t + b])
            at += WIDTH
    root_group[n] = group
    root_seat[group] = n
    raise_root(group, groups, pool, blocks, root_high, root_seat)


@kernel
def raise_root(group, groups, pool, blocks, root_high, root_seat):
    """Writes a group's upper corner and what it exceeds its items by, as they are now."""
    row, n = groups[group], np.int64(root_seat[group])
    size, count, weights = np.int64(row[SIZE]), np.int64(row[COUNT]), np.int64(row[WEIGHTS])
    high = np.int64(blocks[n // WIDTH, BLOCK_HIGH]) + n % WIDTH
    corner, most = 0.0, 0.0
    for a in range(size):
        highest = 0.0
        for j in range(1 if row[KIND] == RAY else count):
            highest = max(highest, weight_at(row, pool, j, a))
        root_high[high + a * WIDTH] = highest
        corner += highest
    for j in range(1 if row[KIND] == RAY else count):
        total = 0.0
        for a in range(size):
            total += weight_at(row, pool, j, a)
        most = max(most, total)
    root_high[high + size * WIDTH] = max(0.0, corner - most - 1e-12 * corner)


@kernel
def layout(seats, new, sizes, kinds, blocks):
    """Writes the rows of all blocks, for groups in this order with a new block where new says so; the seat of each
    group into seats. Returns the lengths of root_index, root_high.
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
            numbers += block_numbers(size)
        seats[n] = block * WIDTH + lane
        lane += 1
    return index, high


@kernel
def block_numbers(size):
    """How many numbers the search keeps for a block: see :func:`thali.kernels.search.greedy`."""
    return WIDTH * (2 * size + size * (size + 1) // 2)


@kernel
def seat_all(seats, d, groups, group_topics, pool, boxes, blocks, root_index, root_high, root_group, root_seat):
    """Seats all groups, and encloses the trees among them."""
    for g in range(seats.size):
        seat(g, seats[g], d, groups, group_topics, pool, blocks, root_index, root_high, root_group, root_seat)
        if groups[g, KIND] == TREE:
            enclose(g, groups, pool, boxes, blocks, root_high, root_seat)


@kernel
def corners(order, start, begin, end, weights, out):
    """The largest weight of any item of each group into out."""
    for g in range(start.size - 1):
        out[g] = 0.0
        for n in range(start[g], start[g + 1]):
            out[g] = max(out[g], scale_of(begin, end, weights, order[n]))


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
