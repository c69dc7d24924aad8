"""Items by their set of topics: what the exact search looks at in place of single items."""

from __future__ import annotations

import numpy as np

from thali.kernels import groups as kernels
from thali.kernels.lanes import WIDTH
from thali.types import Floats, Indices


def aligned(n, dtype):
    whole = np.zeros(n + 64 // np.dtype(dtype).itemsize, dtype=dtype)
    skip = -whole.ctypes.data % 64 // whole.itemsize
    return whole[skip : skip + n]


def build(begin: Indices, end: Indices, topics: Indices, weights: Floats, d: int, *, parallel: bool):
    L = begin.size
    keys = np.empty(L, dtype=np.uint64)
    kernels.supports(begin, end, topics, keys)
    order = np.argsort(keys, kind="stable").astype(np.uint32)
    new = np.empty(L, dtype=np.bool_)
    kernels.parts(begin, end, topics, keys, order, new)
    start = np.append(np.flatnonzero(new), L)
    ends, kinds = np.empty(L, dtype=np.int64), np.empty(L, dtype=np.int64)
    G = kernels.split(order, start, begin, end, weights, ends, kinds, parallel)
    start, kinds = np.append(0, ends[:G]), kinds[:G]
    kernels.arrange(order, start, kinds, begin, end, weights)
    import os
    c = int(os.environ.get("CHUNK", "0"))
    if c:
        st, kd = [], []
        for g in range(G):
            n = start[g + 1] - start[g]
            if kinds[g] == 1 and n > c:
                p = list(range(start[g], start[g + 1], c)); st += p; kd += [1] * len(p)
            else:
                st.append(start[g]); kd.append(kinds[g])
        start, kinds = np.append(st, L), np.array(kd); G = len(kinds)
    # Groups lie in memory as they are seated: by number of topics, kind, and the largest first.
    scale = np.empty(G)
    kernels.corners(order, start, begin, end, weights, scale)
    heads = order[start[:-1]]
    sizes = (end[heads] - begin[heads]).astype(np.int64)
    firsts = np.zeros((3, G))
    for a in range(3):
        has = sizes > a
        firsts[a, has] = topics[begin[heads[has]].astype(np.int64) + a]
    firsts[:, kinds == 0] = 0
    if os.environ.get("ORDER") == "scale":
        tot = np.array([weights[begin[e]:end[e]].sum() for e in heads]) if 0 else scale
        q = np.array([sum(max(weights[begin[e] + a] for e in order[start[g]:start[g+1]]) for a in range(sizes[g])) / max(1, sizes[g]) for g in range(G)]) if L > 5000 else scale
        scale[kinds == 1] = np.round(q[kinds == 1], 1)
        seating = np.lexsort((firsts[2], firsts[1], firsts[0], -scale, kinds, sizes))
    else:
        scale[kinds == 1] = 0
        seating = np.lexsort((-scale, firsts[2], firsts[1], firsts[0], kinds, sizes))
    counts = np.diff(start)[seating]
    order = np.concatenate([order[start[g] : start[g + 1]] for g in seating.tolist()])
    start = np.append(0, np.cumsum(counts))
    kinds, sizes = kinds[seating], sizes[seating]
    numbers, places, box_bytes = kernels.lengths(kinds, sizes, counts)
    groups = np.empty((G, 8), dtype=np.uint32)
    masks = np.empty(G, dtype=np.int64)
    group_topics = np.empty(sizes.sum(), dtype=np.uint32)
    pool = aligned(numbers + WIDTH, np.float64)
    boxes = aligned(box_bytes, np.uint8)
    lane_item = np.empty(places, dtype=np.uint32)
    item_group = np.empty(L, dtype=np.uint32)
    kernels.fill(order, start, kinds, begin, end, topics, weights, groups, masks, group_topics, pool, lane_item, item_group)
    change = np.ones(G, dtype=np.bool_)
    change[1:] = (np.diff(kinds) != 0) | (np.diff(sizes) != 0)
    since = np.arange(G) - np.maximum.accumulate(np.where(change, np.arange(G), 0))
    new = since % WIDTH == 0
    blocks = np.empty((int(new.sum()), 5), dtype=np.uint32)
    seats = np.empty(G, dtype=np.int64)
    index, high = kernels.layout(seats, new, sizes, kinds, blocks)
    root_index = aligned(index, np.uint32)
    root_high = aligned(high, np.float64)
    root_group = np.full(len(blocks) * WIDTH, kernels.NONE)
    root_seat = np.empty(G, dtype=np.uint32)
    kernels.seat_all(seats, d, groups, group_topics, pool, boxes, blocks, root_index, root_high, root_group, root_seat)
    lane_masks = np.zeros(len(blocks) * WIDTH, dtype=np.int64)
    lane_masks[seats] = masks
    block_masks = np.bitwise_or.reduce(lane_masks.reshape(-1, WIDTH), axis=1)
    return item_group, groups, masks, group_topics, pool, lane_item, boxes, blocks, root_index, root_high, root_group, root_seat, block_masks
