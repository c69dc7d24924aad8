"""The best list when θ* is known, by branch and bound over ordered lists."""

import numpy as np

from thali.kernels.index import cover, empty, gain
from thali.kernels.jit import kernel


@kernel
def optimal(kind, items, present, twin, theta, K):
    """Argmax of f(A, θ) over Π_K(E), Eq. optimal list, for one θ ≥ 0, with E the items present; twin[e] is the item
    present before e with the same weights, or -1.

    Depth first, largest gain first. A gain can only fall as the list grows, so no list through a prefix with r
    positions left leaves more unclicked than the prefix's share times Π(1 - g) over the r largest gains now.
    Returns the list and its share of no click, Π(1 - ⟨Δ, θ⟩).
    """
    L, d = present.size, theta.size
    there = np.sum(present)
    state = np.empty((K, d))
    gains = np.empty((K, L))
    order = np.empty((K, L), dtype=np.int64)
    turn = np.zeros(K, dtype=np.int64)
    missed = np.ones(K + 1)
    chosen = np.empty(K, dtype=np.int64)
    used = ~present
    best = np.empty(K, dtype=np.int64)
    least = 2.0
    state[0] = empty(kind)
    depth = 0
    fresh = True
    while depth >= 0:
        if fresh:
            for e in range(L):
                total = -1.0
                if not used[e]:
                    total = 0.0
                    for a in range(items.begin[e], items.end[e]):
                        j = items.topics[a]
                        total += gain(kind, items.weights[a], state[depth, j]) * theta[j]
                gains[depth, e] = total
            order[depth] = np.argsort(-gains[depth], kind="mergesort")
            turn[depth] = 0
            fresh = False
        left = K - depth
        at = turn[depth]
        go = at < there - depth
        if go:
            e = order[depth, at]
            hope = missed[depth] * (1.0 - gains[depth, e])
            others = left - 1
            n = 0
            while others > 0:
                if n != at:
                    hope *= 1.0 - gains[depth, order[depth, n]]
                    others -= 1
                n += 1
            go = hope < least
        if not go:  # neither this item nor any later one can beat the best list
            depth -= 1
            if depth >= 0:
                used[chosen[depth]] = False
            continue
        turn[depth] = at + 1
        if twin[e] >= 0 and not used[twin[e]]:
            continue
        chosen[depth] = e
        missed[depth + 1] = missed[depth] * (1.0 - gains[depth, e])
        if depth == K - 1:
            least = missed[K]
            best[:] = chosen
            continue
        used[e] = True
        state[depth + 1] = state[depth]
        for a in range(items.begin[e], items.end[e]):
            j = items.topics[a]
            state[depth + 1, j] = cover(kind, items.weights[a], state[depth, j])
        depth += 1
        fresh = True
    return best, least
