"""Lists that trade relevance against similarity: MMR and DivRank, for one user."""

from math import sqrt

import numpy as np

from thali.kernels.index import FIXED, terms, value
from thali.kernels.jit import kernel


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
    """‖w̄_e‖₂ of every item, into out (L,)."""
    for e in range(out.size):
        total = 0.0
        for a in range(items.begin[e], items.end[e]):
            total += items.weights[a] * items.weights[a]
        out[e] = sqrt(total)


@kernel
def mmr(items, d, norm, worth, shut, trade_off, out):
    """Position by position the item of largest λ·rel(e) - (1-λ)·m·max_{s in the list} cos(w̄_e, w̄_s); into out (K,).

    worth (L,) is rel, m the largest |rel| among the items to choose from, so that both terms have one scale; λ =
    trade_off. An item without topics is like no other. shut (L,) is written to. Ties go to the lowest item.
    Cost: O(K·L·s).
    """
    L, K = worth.size, out.size
    closest, dense = np.zeros(L), np.zeros(d)
    scale = 0.0
    for e in range(L):
        if not shut[e]:
            scale = max(scale, abs(worth[e]))
    for k in range(K):
        best, most = -1, -np.inf
        for e in range(L):
            if not shut[e]:
                score = trade_off * worth[e] - (1.0 - trade_off) * scale * closest[e]
                if score > most or best < 0:
                    best, most = e, score
        out[k] = best
        shut[best] = True
        for a in range(items.begin[best], items.end[best]):
            dense[items.topics[a]] = items.weights[a]
        for e in range(L):
            if not shut[e]:
                total = 0.0
                for a in range(items.begin[e], items.end[e]):
                    total += items.weights[a] * dense[items.topics[a]]
                if total > 0.0:
                    closest[e] = max(closest[e], total / (norm[e] * norm[best]))
        for a in range(items.begin[best], items.end[best]):
            dense[items.topics[a]] = 0.0


@kernel
def divrank(W, prior, damping, link, rounds, tolerance, out):
    """The stationary distribution of a walk that favours what it has visited, over m items; into out (m,).

    W (m, d): rows of length 1, or 0. From u the walk goes to v with probability (1-λ)·prior_v + λ·p0(u,v)·N_v/D_u,
    D_u = Σ_v p0(u,v)·N_v, where p0(u,v) = link·cos(u,v)/deg(u) for v ≠ u and p0(u,u) = 1 - link (1 where u is like no
    other), λ = damping, and N_v, the visits of v, are taken to be in proportion to the distribution of now. Repeated
    until no entry moves by more than tolerance, at most rounds times. As cosines are products W·Wᵀ, a round costs
    O(m·d), not O(m²).
    """
    m, d = W.shape
    degree, flow, now = np.empty(m), np.empty(m), prior.copy()
    total = np.zeros(d)
    for u in range(m):
        for j in range(d):
            total[j] += W[u, j]
    for u in range(m):
        degree[u], own = 0.0, 0.0
        for j in range(d):
            degree[u] += W[u, j] * total[j]
            own += W[u, j] * W[u, j]
        degree[u] -= own
    for _ in range(rounds):
        visits = np.zeros(d)  # Σ_v N_v·W_v
        for v in range(m):
            for j in range(d):
                visits[j] += now[v] * W[v, j]
        gathered = np.zeros(d)  # Σ_u flow_u·W_u, what reaches v ≠ u along cosines
        for u in range(m):
            near, own = 0.0, 0.0
            for j in range(d):
                near += W[u, j] * visits[j]
                own += W[u, j] * W[u, j]
            near -= own * now[u]
            stay = 1.0 - link if degree[u] > 1e-12 else 1.0
            go = link / degree[u] if degree[u] > 1e-12 else 0.0
            reach = go * max(0.0, near) + stay * now[u]
            flow[u] = now[u] / reach if reach > 0.0 else 0.0
            for j in range(d):
                gathered[j] += flow[u] * go * W[u, j]
        moved = 0.0
        for v in range(m):
            come, own = 0.0, 0.0
            for j in range(d):
                come += gathered[j] * W[v, j]
                own += W[v, j] * W[v, j]
            stay = 1.0 - link if degree[v] > 1e-12 else 1.0
            go = link / degree[v] if degree[v] > 1e-12 else 0.0
            come = max(0.0, come - flow[v] * go * own) + flow[v] * stay
            out[v] = (1.0 - damping) * prior[v] + damping * now[v] * come
            moved = max(moved, abs(out[v] - now[v]))
        now[:] = out
        if moved <= tolerance:
            break
