"""The optimal list for known preferences, found by branch and bound over ordered lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from thali.catalog.catalog import Catalog
from thali.catalog.coverage import cover_item, empty, gain
from thali.catalog.items import Items
from thali.tools import checks
from thali.tools.jit import called, kernel
from thali.tools.types import Booleans, Floats, Integers


def optimal_list(catalog: Catalog, theta: Any, K: int) -> Integers:
    """Return the list (K,) that maximizes the probability of a click, for the preferences theta (d,) of one user.

    This is A* = argmax_A f(A, θ) with f(A, θ) = 1 - Π_k (1 - ⟨Δ(a_k | a_1..a_{k-1}), θ⟩) (Section 3.2, "Optimal List").
    The result is exact. The search covers all orders of the items, because what an item adds depends on the items above
    it.

    Cost: exponential in K. L=100, K=4 takes a fraction of a second, or a few seconds if items are very similar. Each
    additional position takes many times as long. With a custom coverage object, the same search runs in Python.
    """
    checks.instance("catalog of optimal_list", catalog, Catalog)
    theta = checks.preferences("theta", checks.floats("theta", theta, (catalog.d,), "(d,)")[None], catalog.d)[0]
    K = checks.list_length("optimal_list", K, len(catalog))
    if catalog.custom is not None:
        return _optimal_custom(catalog, theta, K)
    try:
        best, _ = branch_and_bound(
            catalog.kind, catalog.sparse, catalog.present, _twins(catalog), checks.writable(theta), K
        )
    except SystemError as error:  # how Numba reports Ctrl-C during a kernel
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise
    return np.asarray(best)


def _optimal_custom(catalog: Catalog, theta: Floats, K: int) -> Integers:
    """Return the optimal list for a custom coverage object, by the same search as in the kernel."""
    best, least = [0], 2.0

    def extend(chosen: list[int], missed: float) -> None:
        nonlocal best, least
        if len(chosen) == K:
            best, least = chosen, missed
            return
        gains = catalog.all_gains(np.array(chosen, dtype=np.int64)) @ theta
        gains[chosen] = -1.0
        gains[~catalog.present] = -1.0
        order = np.argsort(-gains, kind="stable")[: len(catalog) - len(chosen)]
        left = K - len(chosen)
        for at, e in enumerate(order):
            top = np.delete(order[:left], at) if at < left else order[: left - 1]
            if missed * (1.0 - gains[e]) * np.prod(1.0 - gains[top]) >= least:
                break
            extend([*chosen, int(e)], missed * (1.0 - gains[e]))

    extend([], 1.0)
    return np.array(best, dtype=np.int64)


def _twins(catalog: Catalog) -> Integers:
    """Return, for each item, the last item with a lower number and the same weights, or -1 (L,).

    The search lists an item only after this twin, so that it does not try both orders.
    """
    twin = np.full(catalog.L, -1, dtype=np.int64)
    last: dict[tuple[bytes, bytes], int] = {}
    begin, end, topics, weights, _ = catalog.sparse
    for e in np.flatnonzero(catalog.present).tolist():
        key = topics[begin[e] : end[e]].tobytes(), weights[begin[e] : end[e]].tobytes()
        twin[e] = last.get(key, -1)
        last[key] = e
    return twin


@kernel
def branch_and_bound(
    kind: int, items: Items, present: Booleans, twin: Integers, theta: Floats, K: int
) -> tuple[Integers, float]:
    """Return the argmax of f(A, θ) over all lists of K items, for one θ ≥ 0, and its probability of no click.

    present (L,): whether each item is in the catalog. twin (L,): the result of :func:`_twins`.

    The search is depth first and tries the item with the largest gain first. The probability of no click on a list is
    Π(1 - ⟨Δ, θ⟩). Gains can only decrease as the list grows. So if the first items of a list are chosen and r positions
    remain, the probability of no click on the complete list is at least that of the chosen items times Π(1 - g) over
    the r largest current gains g.
    """
    L, d = present.size, theta.size
    state = np.empty((K, d))
    gains = np.empty((K, L))
    order, spare = np.empty((K, L), dtype=np.int64), np.empty(L, dtype=np.int64)
    next_at = np.zeros(K, dtype=np.int64)
    missed = np.ones(K + 1)
    chosen = np.empty(K, dtype=np.int64)
    used = ~present
    count = 0
    for e in range(L):
        count += present[e]
    best = np.empty(K, dtype=np.int64)
    least = 2.0
    for j in range(d):
        state[0, j] = empty(kind)
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
            sort_descending(gains[depth], order[depth], spare)
            next_at[depth] = 0
            fresh = False
        left = K - depth
        at = next_at[depth]
        go = at < count - depth
        if go:
            e = order[depth, at]
            bound = missed[depth] * (1.0 - gains[depth, e])
            others = left - 1
            n = 0
            while others > 0:
                if n != at:
                    bound *= 1.0 - gains[depth, order[depth, n]]
                    others -= 1
                n += 1
            go = bound < least
        if not go:  # neither this item nor any later one can beat the best list
            depth -= 1
            if depth >= 0:
                used[chosen[depth]] = False
            continue
        next_at[depth] = at + 1
        if twin[e] >= 0 and not used[twin[e]]:
            continue
        chosen[depth] = e
        missed[depth + 1] = missed[depth] * (1.0 - gains[depth, e])
        if depth == K - 1:
            least = missed[K]
            for n in range(K):
                best[n] = chosen[n]
            continue
        used[e] = True
        for j in range(d):
            state[depth + 1, j] = state[depth, j]
        cover_item(kind, items, e, state[depth + 1])
        depth += 1
        fresh = True
    return best, least


@called
def sort_descending(values: Floats, order: Integers, spare: Integers) -> None:
    """Write the positions of the values to order (n,), largest value first and ties by position. spare (n,) is scratch.

    This is merge sort. Numba takes longer to compile NumPy's sort than the rest of this file. Cost: O(n·log n).
    """
    n = values.size
    for i in range(n):
        order[i] = i
    width = 1
    while width < n:
        for begin in range(0, n, 2 * width):
            a, middle = begin, min(begin + width, n)
            b, end = middle, min(begin + 2 * width, n)
            for at in range(begin, end):
                if b == end or (a < middle and values[order[a]] >= values[order[b]]):
                    spare[at] = order[a]
                    a += 1
                else:
                    spare[at] = order[b]
                    b += 1
        for i in range(n):
            order[i] = spare[i]
        width *= 2
