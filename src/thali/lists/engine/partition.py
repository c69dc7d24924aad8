"""Items into groups: which are parallel, which share their topics, and in what order they lie best."""

from math import inf

import numpy as np

from thali.catalog.items import size_of
from thali.lists.engine.layout import FEW, RAY, TREE
from thali.tools.jit import kernel
from thali.tools.lanes import WIDTH

# Weights count as parallel when every entry agrees to this; the search's slack for rounding allows for it.
TOLERANCE = 4 * 2.220446049250313e-16
# Below this, products of two weights could underflow and make different directions look alike.
SMALLEST = 1e-100
# A set of topics with fewer items than this has a ray for each, if they are not parallel.
FEWEST = 4


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


@kernel
def corners(order, start, items, out):
    """The largest weight of any item of each group into out."""
    for g in range(start.size - 1):
        out[g] = 0.0
        for n in range(start[g], start[g + 1]):
            out[g] = max(out[g], scale_of(items, order[n]))
