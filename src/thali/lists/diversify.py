"""Diversifiers: build a list from the relevance of items and their similarity to one another.

A diversifier is a builder (:class:`thali.lists.Builder`). For example, ``thali.CascadeLinUCB(catalog, K, build=MMR())``
diversifies lists with learned relevance, and ``thali.Oracle(catalog, K, theta=theta, build=MMR())`` with known
relevance. The relevance of an item is its index on an empty list, x·θ̄ + α·sqrt(xᵀM⁻¹x) with x = Δ(e|∅). The similarity
of two items is the cosine of their weights w̄ on the topics that fade.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf, sqrt

import numpy as np

from thali.catalog.candidates import ALL, EVERY, Choice
from thali.catalog.catalog import Catalog
from thali.catalog.coverage import FIXED
from thali.catalog.items import Items
from thali.lists.plain import indices, mean_and_variance, optimistic
from thali.lists.top import top_lists
from thali.tools import checks
from thali.tools.jit import inlined, kernel
from thali.tools.types import Booleans, Floats, Integers

# The random walk of DivRank has converged when no probability changes by more than this.
TOLERANCE = 1e-9


def relevance(catalog: Catalog, estimate: Floats, inverse: Floats, alpha: float, cap: float = inf) -> Floats:
    """Return the index of every item on an empty list (L,) for one user, limited to cap. Cost: O(L·s²)."""
    out = np.empty(catalog.L)
    if catalog.custom is None:
        relevances(catalog.sparse, estimate, inverse, alpha, out)
    else:
        indices(catalog.all_gains(np.zeros(0, dtype=np.int64)), estimate, inverse, alpha, out)
    return np.minimum(out, cap)


class Diversifier(ABC):
    """A builder that balances the relevance of items against their similarity."""

    @abstractmethod
    def fill(self, catalog: Catalog, rel: Floats, norm: Floats, excluded: Booleans, out: Integers) -> None:
        """Write one user's list to out (K,).

        rel, norm, excluded (L,): for every item, its relevance, the norm of its weights on the topics that fade, and
        whether it must not be shown.
        """

    def __call__(
        self,
        catalog: Catalog,
        estimate: Floats,
        inverse: Floats,
        alpha: Floats,
        *,
        K: int,
        features: str = "items",
        cap: float = inf,
        choice: Choice = ALL,
    ) -> Integers:
        """Return lists (users, K), as described in :class:`thali.lists.Builder`."""
        out, norm = np.empty((len(estimate), K), dtype=np.int64), np.empty(catalog.L)
        norms(catalog.sparse, norm)
        for user in range(len(estimate)):
            rel = relevance(catalog, estimate[user], inverse[user % len(inverse)], float(alpha[user]), cap)
            self.fill(catalog, rel, norm, choice.excluded(user, catalog.present), out[user])
        return out


class MMR(Diversifier):
    """Maximal marginal relevance (Carbonell and Goldstein 1998): items that are relevant and unlike those above them.

    Each position gets the item with the largest λ·rel(e) - (1-λ)·max_{s∈S} sim(e, s). The original paper does not say
    how to scale the two terms. Here, the relevance is divided by its largest absolute value among the items to choose
    from. With λ = 1, items are ranked by relevance alone.

    trade_off: λ in [0, 1]; 0.5 by default. Cost for each list: O(K·L), at worst O(K·L·s).

    Examples
    --------
    >>> import thali
    >>> catalog = thali.Catalog([[0.5, 0.0], [0.4, 0.0], [0.0, 0.3]])
    >>> for trade_off in (1.0, 0.5):
    ...     oracle = thali.Oracle(catalog, K=2, theta=[0.6, 0.4], build=thali.MMR(trade_off))
    ...     print(oracle.recommend(oracle.init(1)))
    [[0 1]]
    [[0 2]]

    """

    def __init__(self, trade_off: float = 0.5) -> None:
        self.trade_off = checks.number("trade_off of MMR", trade_off, low=0.0, high=1.0)

    def fill(self, catalog: Catalog, rel: Floats, norm: Floats, excluded: Booleans, out: Integers) -> None:
        """Write one user's list to out (K,)."""
        mmr(catalog.sparse, catalog.d, norm, rel, excluded, self.trade_off, out)


def divrank_prior(rel: Floats) -> Floats:
    """Return the distribution (m,) from which the walk of DivRank starts, given the relevance rel (m,).

    The probability of an item is proportional to its relevance if that is positive, and almost 0 otherwise. If no
    relevance is positive, the distribution is uniform. In both cases, items with lower numbers get up to 1% more. The
    probabilities sum to 1.
    """
    prior = np.maximum(rel, 0.0)
    prior = prior + 1e-9 * prior.max() if prior.max() > 0.0 else np.ones(rel.size)
    prior = prior * np.linspace(1.01, 1.0, rel.size)
    return np.asarray(prior / prior.sum())


class DivRank(Diversifier):
    """DivRank (Mei et al. 2010): ranks items by a random walk over similar items that prefers items it visited before.

    Items are ranked by the distribution of this vertex-reinforced random walk. An item with many visits draws visits
    away from similar items, so the top of the ranking contains one item of each kind. The walk starts from a prior
    distribution, and sometimes jumps back to it. The prior is proportional to the positive relevances, or uniform if
    there are none. This is the pointwise variant in that paper, which assumes that the number of visits is proportional
    to the current distribution.

    This class departs from the original paper in three ways. The graph contains only the ``pool`` most relevant items,
    as is usual when results are reranked, and its edges are weighted by cosines. The walk converges slowly, so it stops
    after at most ``rounds`` steps. Because items with equal weights would tie, the prior of items with lower numbers is
    increased by up to 1%.

    Parameters
    ----------
    damping: λ from 0 to 0.99; 0.9 by default, as in the original paper.
    link: the probability that a step leaves the current item (α in the original paper), from 0 to 0.99; 0.25 by
        default, as in the original paper.
    pool: the number of items in the graph; K if that is larger.
    rounds: the largest number of steps.

    Cost for each list: O(L·s² + rounds·pool·s).

    """

    def __init__(self, damping: float = 0.9, link: float = 0.25, pool: int = 50, rounds: int = 200) -> None:
        self.damping = checks.number("damping of DivRank", damping, low=0.0, high=0.99)
        self.link = checks.number("link of DivRank", link, low=0.0, high=0.99)
        self.pool = checks.integer("pool of DivRank", pool, low=1)
        self.rounds = checks.integer("rounds of DivRank", rounds, low=1)

    def fill(self, catalog: Catalog, rel: Floats, norm: Floats, excluded: Booleans, out: Integers) -> None:
        """Write one user's list to out (K,)."""
        size = min(max(out.size, self.pool), int(excluded.size - excluded.sum()))
        pool, rank = np.empty((1, size), dtype=np.int64), np.empty(size)
        top_lists(np.where(excluded, -inf, rel)[None], pool, EVERY, EVERY)
        chosen = np.sort(pool[0])
        prior = divrank_prior(rel[chosen])
        divrank(catalog.sparse, norm, chosen, catalog.d, prior, self.damping, self.link, self.rounds, TOLERANCE, rank)
        out[:] = chosen[np.argsort(-rank, kind="stable")[: out.size]]


@kernel
def relevances(items: Items, estimate: Floats, inverse: Floats, alpha: float, out: Floats) -> None:
    """Write one user's index of every item on an empty list, where x = Δ(e|∅) = w̄_e, to out (L,). O(s²) per item."""
    x, wide = np.empty(estimate.size), alpha != 0.0
    for e in range(out.size):
        lo, hi = items.begin[e], items.end[e]
        mean, variance = mean_and_variance(FIXED, lo, hi, items.topics, items.weights, x, estimate, inverse, wide, x)
        out[e] = optimistic(mean, variance, alpha)


@kernel
def norms(items: Items, out: Floats) -> None:
    """Write the norm of the weights on the topics that fade to out (L,), for every item.

    A norm too small to compute a cosine with is set to 0.
    """
    for e in range(out.size):
        total = 0.0
        for a in range(items.begin[e], items.end[e]):
            if items.fading[items.topics[a]]:
                total += items.weights[a] * items.weights[a]
        out[e] = sqrt(total) if total > 1e-280 else 0.0


@kernel
def mmr(items: Items, d: int, norm: Floats, rel: Floats, excluded: Booleans, trade_off: float, out: Integers) -> None:
    """Write a list to out (K,), where each item maximizes λ·rel(e) - (1-λ)·m·max_{s in the list above} cos(w̄_e, w̄_s).

    λ = trade_off. m is the largest |rel| among the items to choose from (1 if all are 0), so that both terms have the
    same scale. An item without topics has similarity 0 to every other item. excluded (L,): items not to show. Ties go
    to the lowest item number.

    A score can only decrease as the list grows. So an item is compared with further items of the list only while it
    could still win. Cost: O(K·L), at worst O(K·L·s).
    """
    L, K = rel.size, out.size
    listed = np.zeros((K, d))
    score, seen = np.empty(L), np.zeros(L, dtype=np.int64)  # the score given the first ``seen`` items of the list
    closest = np.zeros(L)
    scale = 0.0
    for e in range(L):
        score[e] = -np.inf if excluded[e] else trade_off * rel[e]
        if not excluded[e]:
            scale = max(scale, abs(rel[e]))
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
                    score[e] = trade_off * rel[e] - (1.0 - trade_off) * scale * closest[e]
            if score[e] > most:
                best, most = e, score[e]
        out[k] = best
        score[best] = -np.inf
        for a in range(items.begin[best], items.end[best]):
            if norm[best] > 0.0 and items.fading[items.topics[a]]:
                listed[k, items.topics[a]] = items.weights[a] / norm[best]


@kernel
def divrank(
    items: Items,
    norm: Floats,
    chosen: Integers,
    d: int,
    prior: Floats,
    damping: float,
    link: float,
    rounds: int,
    tolerance: float,
    out: Floats,
) -> None:
    """Write the stationary distribution of DivRank's walk over the m chosen items to out (m,).

    From u, the walk moves to v with probability (1-λ)·prior_v + λ·p0(u,v)·N_v/D_u, where D_u = Σ_v p0(u,v)·N_v and
    λ = damping. For v ≠ u, p0(u,v) = link·cos(u,v)/deg(u). p0(u,u) = 1 - link, or 1 if no other item is similar to u.
    N_v, the number of visits to v, is assumed to be proportional to the current distribution. The computation repeats
    until no probability changes by more than tolerance, at most rounds times. Cosines are inner products of unit
    vectors, so sums over all pairs become sums over topics, and a round costs O(m·s) instead of O(m²).
    """
    m, size = chosen.size, 0
    for u in range(m):
        size += items.end[chosen[u]] - items.begin[chosen[u]]
    start, topic, unit = np.zeros(m + 1, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size)
    for u in range(m):
        lo, at = items.begin[chosen[u]], start[u]
        count = items.end[chosen[u]] - lo
        start[u + 1] = at + count
        factor = 1.0 / norm[chosen[u]] if norm[chosen[u]] > 0.0 else 0.0
        for a in range(count):
            topic[at + a] = items.topics[lo + a]
            unit[at + a] = items.weights[lo + a] * factor if items.fading[topic[at + a]] else 0.0
    leave, stay, share, current = np.zeros(m), np.ones(m), np.ones(m), prior.copy()
    sums, flow = np.empty(d), np.empty(m)
    weighted_sum(start, topic, unit, share, sums)
    for u in range(m):
        degree = inner_product(start, topic, unit, u, sums) - 1.0
        if degree > 1e-9:
            leave[u], stay[u] = link / degree, 1.0 - link
    for _ in range(rounds):
        weighted_sum(start, topic, unit, current, sums)
        for u in range(m):
            neighbors = max(0.0, inner_product(start, topic, unit, u, sums) - current[u])
            reach = leave[u] * neighbors + stay[u] * current[u]
            flow[u] = current[u] / reach if reach > 0.0 else 0.0
            share[u] = flow[u] * leave[u]
        weighted_sum(start, topic, unit, share, sums)
        moved = 0.0
        for v in range(m):
            arriving = max(0.0, inner_product(start, topic, unit, v, sums) - share[v]) + flow[v] * stay[v]
            out[v] = (1.0 - damping) * prior[v] + damping * current[v] * arriving
            moved = max(moved, abs(out[v] - current[v]))
        for v in range(m):
            current[v] = out[v]
        if moved <= tolerance:
            break


@inlined
def weighted_sum(start: Integers, topic: Integers, unit: Floats, share: Floats, out: Floats) -> None:
    """Write Σ_v share_v·v, summed over all unit vectors v, to out (d,)."""
    for j in range(out.size):
        out[j] = 0.0
    for v in range(share.size):
        for a in range(start[v], start[v + 1]):
            out[topic[a]] += share[v] * unit[a]


@inlined
def inner_product(start: Integers, topic: Integers, unit: Floats, u: int, vector: Floats) -> float:
    """Return ⟨u, vector⟩ for unit vector number u."""
    total = 0.0
    for a in range(start[u], start[u + 1]):
        total += unit[a] * vector[topic[a]]
    return total
