"""Lists that trade relevance against similarity: MMR and DivRank, for one user."""

from math import sqrt

import numpy as np

from thali.kernels.index import FIXED, terms, value
from thali.kernels.jit import inlined, kernel


@kernel
def relevance(items, estimate, inverse, alpha, out):
    """The index of every item alone, x = Δ(e|∅) = w̄_e, for one user; into out (L,). O(s²) an item."""
    x, wide = np.empty(estimate.size), alpha != 0.0
    for e in range(out.size):
        lo, hi = items.begin[e], items.end[e]
        m, q, _, _ = terms(FIXED, lo, hi, items.topics, items.weights, x, estimate, inverse, wide, x)
        out[e] = value(m, q, alpha)


@kernel
def norms(items, out):
    """‖w̄_e‖₂ of every item, into out (L,); one too small for a cosine counts as 0, as if it had no topics."""
    for e in range(out.size):
        total = 0.0
        for a in range(items.begin[e], items.end[e]):
            total += items.weights[a] * items.weights[a]
        out[e] = sqrt(total) if total > 1e-280 else 0.0


@kernel
def mmr(items, d, norm, worth, shut, trade_off, out):
    """Position by position the item of largest λ·rel(e) - (1-λ)·m·max_{s in the list} cos(w̄_e, w̄_s); into out (K,).

    worth (L,) is rel, m the largest |rel| among the items to choose from (1 if all are 0), so that both terms have one
    scale; λ = trade_off. An item without topics is like no other. shut (L,) are not to be shown. Ties go to the lowest
    item.

    A score only falls as the list grows, so that an item is compared with the rest of the list only as long as it could
    still win. Cost: O(K·L), at worst O(K·L·s).
    """
    L, K = worth.size, out.size
    listed = np.zeros((K, d))
    score, seen = np.empty(L), np.zeros(L, dtype=np.int64)  # the score against the first so many of the list
    closest = np.zeros(L)
    scale = 0.0
    for e in range(L):
        score[e] = -np.inf if shut[e] else trade_off * worth[e]
        if not shut[e]:
            scale = max(scale, abs(worth[e]))
    scale = scale if scale > 0.0 else 1.0
    for k in range(K):
        best, most = -1, -np.inf
        for e in range(L):
            while seen[e] < k and score[e] > most and norm[e] > 0.0:
                cosine, other = 0.0, listed[seen[e]]
                for a in range(items.begin[e], items.end[e]):
                    cosine += items.weights[a] * other[items.topics[a]]
                seen[e] += 1
                if cosine > closest[e] * norm[e]:
                    closest[e] = cosine / norm[e]
                    score[e] = trade_off * worth[e] - (1.0 - trade_off) * scale * closest[e]
            if score[e] > most:
                best, most = e, score[e]
        out[k] = best
        score[best] = -np.inf
        for a in range(items.begin[best], items.end[best]):
            listed[k, items.topics[a]] = items.weights[a] / norm[best] if norm[best] > 0.0 else 0.0


@kernel
def divrank(items, norm, chosen, d, prior, damping, link, rounds, tolerance, out):
    """The stationary distribution of a walk that favours what it has visited, over m chosen items; into out (m,).

    From u the walk goes to v with probability (1-λ)·prior_v + λ·p0(u,v)·N_v/D_u, D_u = Σ_v p0(u,v)·N_v, where p0(u,v) =
    link·cos(u,v)/deg(u) for v ≠ u and p0(u,u) = 1 - link (1 where u is like no other), λ = damping, and N_v, the visits
    of v, are taken to be in proportion to the distribution of now. Repeated until no entry moves by more than
    tolerance, at most rounds times. As cosines are products of vectors of length 1, sums over all pairs are sums over
    topics: a round costs O(m·s), not O(m²).
    """
    m, size = chosen.size, 0
    for u in range(m):
        size += items.end[chosen[u]] - items.begin[chosen[u]]
    start, topic, unit = np.zeros(m + 1, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size)
    for u in range(m):
        lo, at = items.begin[chosen[u]], start[u]
        count = items.end[chosen[u]] - lo
        start[u + 1] = at + count
        topic[at : at + count] = items.topics[lo : lo + count]
        unit[at : at + count] = items.weights[lo : lo + count]
        unit[at : at + count] *= 1.0 / norm[chosen[u]] if norm[chosen[u]] > 0.0 else 0.0
    go, stay, share, now = np.zeros(m), np.ones(m), np.ones(m), prior.copy()
    sums, flow = np.empty(d), np.empty(m)
    gather(start, topic, unit, share, sums)
    for u in range(m):
        degree = along(start, topic, unit, u, sums) - 1.0
        if degree > 1e-9:
            go[u], stay[u] = link / degree, 1.0 - link
    for _ in range(rounds):
        gather(start, topic, unit, now, sums)
        for u in range(m):
            near = max(0.0, along(start, topic, unit, u, sums) - now[u])
            reach = go[u] * near + stay[u] * now[u]
            flow[u] = now[u] / reach if reach > 0.0 else 0.0
            share[u] = flow[u] * go[u]
        gather(start, topic, unit, share, sums)
        moved = 0.0
        for v in range(m):
            come = max(0.0, along(start, topic, unit, v, sums) - share[v]) + flow[v] * stay[v]
            out[v] = (1.0 - damping) * prior[v] + damping * now[v] * come
            moved = max(moved, abs(out[v] - now[v]))
        now[:] = out
        if moved <= tolerance:
            break


@inlined
def gather(start, topic, unit, share, out):
    """Σ_v share_v·v over unit vectors v, into out (d,)."""
    for j in range(out.size):
        out[j] = 0.0
    for v in range(share.size):
        for a in range(start[v], start[v + 1]):
            out[topic[a]] += share[v] * unit[a]


@inlined
def along(start, topic, unit, u, vector):
    """⟨u, vector⟩ for unit vector number u."""
    total = 0.0
    for a in range(start[u], start[u + 1]):
        total += unit[a] * vector[topic[a]]
    return total
