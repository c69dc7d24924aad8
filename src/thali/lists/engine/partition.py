"""Kernels that divide items into groups: which items share their topics, which are parallel, and in which order."""

from math import inf

import numpy as np

from thali.catalog.items import size_of
from thali.lists.engine.layout import FEW_TOPICS, TREE
from thali.tools.jit import kernel
from thali.tools.lanes import WIDTH

# Weights count as parallel if every entry agrees up to this relative error. The slack in the search's bounds covers it.
TOLERANCE = 4 * 2.220446049250313e-16
# Products of two weights below this value could underflow, and different directions would look parallel.
SMALLEST = 1e-100
# If fewer items than this share their topics and form neither a ray nor a fan, each item becomes a separate ray.
FEWEST_IN_TREE = 4
# A fan is searched item by item, so larger sets become trees.
MOST_IN_FAN = 256


@kernel
def topic_keys(items, out):
    """Write a key for each item's set of topics to out (L,), uint64.

    The highest byte of the key is the size of the set, and the lower bytes are a hash of the topics.
    """
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
def mark_sets(items, keys, order, out):
    """Mark in out (L,) where a new set of topics begins in ``order``, which is sorted by key.

    Different sets with the same key are still separated, but their items may end up in more groups than necessary.
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
def scales(items, out):
    """Write the largest weight of each item to out (L,)."""
    for e in range(out.size):
        out[e] = 0.0
        for a in range(items.begin[e], items.end[e]):
            out[e] = max(out[e], items.weights[a])


@kernel
def parallel_sets(order, start, items, scale, out):
    """Mark in out (n,) which of n sets have only parallel items.

    Set g consists of the items order[start[g]:start[g + 1]], which have the same topics. scale (L,): the result of
    :func:`scales`.
    """
    for g in range(out.size):
        head = order[start[g]]
        parallel = True
        for n in range(start[g] + 1, start[g + 1]):
            e = order[n]
            for a in range(size_of(items, head)):
                w, first = items.weights[items.begin[e] + a], items.weights[items.begin[head] + a]
                expected = first * scale[e]
                if min(w, first) < SMALLEST or abs(w * scale[head] - expected) > TOLERANCE * expected:
                    parallel = False
                    break
            if not parallel:
                break
        out[g] = parallel


@kernel
def fading_scales(items, scale, rest):
    """Write the largest weight of each item on a fading topic to scale (L,), and its largest steady weight to rest."""
    for e in range(scale.size):
        scale[e], rest[e] = 0.0, 0.0
        for a in range(items.begin[e], items.end[e]):
            if items.fading[items.topics[a]]:
                scale[e] = max(scale[e], items.weights[a])
            else:
                rest[e] = max(rest[e], items.weights[a])


@kernel
def fan_sets(order, start, items, scale, out):
    """Mark in out (n,) which of n sets can become fans: one steady topic, and parallel weights on the fading topics.

    Set g consists of the items order[start[g]:start[g + 1]], which have the same topics. scale (L,): the first result
    of :func:`fading_scales`.
    """
    for g in range(out.size):
        head, steady = order[start[g]], 0
        size = size_of(items, head)
        for a in range(size):
            steady += not items.fading[items.topics[items.begin[head] + a]]
        fan = steady == 1 and size > 1
        for n in range(start[g] + 1, start[g + 1]):
            e = order[n]
            for a in range(size if fan else 0):
                if items.fading[items.topics[items.begin[head] + a]]:
                    w, first = items.weights[items.begin[e] + a], items.weights[items.begin[head] + a]
                    expected = first * scale[e]
                    if min(w, first) < SMALLEST or abs(w * scale[head] - expected) > TOLERANCE * expected:
                        fan = False
        out[g] = fan


@kernel
def select(order, lo, hi, middle, offset, items):
    """Partially sort order[lo:hi] by weight number ``offset``: items with larger weights go before ``middle``."""
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
def main_topics(order, items, out):
    """Write a key for each item of order (n,) to out (n,): first by the topics of its largest and second-largest
    weights, then by the largest weight, descending.
    """
    for n in range(order.size):
        first_topic, first_weight, second_topic, second_weight = 0, -1.0, 0, -1.0
        for a in range(size_of(items, order[n])):
            w = items.weights[items.begin[order[n]] + a]
            if w > first_weight:
                second_topic, second_weight = first_topic, first_weight
                first_topic, first_weight = a, w
            elif w > second_weight:
                second_topic, second_weight = a, w
        out[n] = 2.0 * (first_topic * size_of(items, order[n]) + second_topic) - first_weight


@kernel
def arrange(order, start, kinds, items):
    """Order the items of each tree with few topics so that blocks of 8, 64, ... items have similar weights.

    A range of items is split in two at the end of a block, by the topic on which the weights differ most. Both halves
    are then split in the same way. Cost: O(n·s·log n) for n items.
    """
    stack = np.empty((96, 2), dtype=np.int64)
    for g in range(start.size - 1):
        size = size_of(items, order[start[g]])
        if kinds[g] != TREE or size > FEW_TOPICS:
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
