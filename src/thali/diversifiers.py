"""Diversifiers: ways to build a list from relevance and similarity, for known or learned relevance.

They are builders (:class:`thali.lists.Builder`): ``thali.CascadeLinUCB(catalog, K, build=MMR())`` diversifies what is
learned, ``thali.Oracle(catalog, K, theta=theta, build=MMR())`` what is known. The relevance of an item is its index
alone, x·θ̄ + α·sqrt(xᵀM⁻¹x) with x = Δ(e|∅); the similarity of two is the cosine of their weights w̄.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf

import numpy as np

from thali import checks
from thali.candidates import ALL, Choice
from thali.catalog import Catalog
from thali.kernels import diversify, index, ranks
from thali.types import Booleans, Floats, Integers

# DivRank's walk has settled when nothing moves by more than this.
TOLERANCE = 1e-9


def relevance(catalog: Catalog, estimate: Floats, inverse: Floats, alpha: float, cap: float = inf) -> Floats:
    """The index of every item alone (L,), at most cap, for one user. Cost: O(L·s²)."""
    out = np.empty(catalog.L)
    if catalog.own is None:
        diversify.relevance(catalog.sparse, estimate, inverse, alpha, out)
    else:
        index.values(catalog.all_gains(np.zeros(0, dtype=np.int64)), estimate, inverse, alpha, out)
    return np.minimum(out, cap)


class Diversifier(ABC):
    """A builder that goes by the relevance of items and by how they resemble one another."""

    @abstractmethod
    def fill(self, catalog: Catalog, worth: Floats, norm: Floats, shut: Booleans, out: Integers) -> None:
        """One user's list into out (K,): worth is the relevance and norm ‖w̄‖₂ of every item, shut must not be shown."""

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
        """Lists (users, K), as :class:`thali.lists.Builder` has it."""
        out, norm = np.empty((len(estimate), K), dtype=np.int64), np.empty(catalog.L)
        diversify.norms(catalog.sparse, norm)
        for user in range(len(estimate)):
            worth = relevance(catalog, estimate[user], inverse[user % len(inverse)], float(alpha[user]), cap)
            self.fill(catalog, worth, norm, choice.shut(user, catalog.present), out[user])
        return out


class MMR(Diversifier):
    """Maximal marginal relevance (Carbonell and Goldstein 1998): relevant, and unlike what is in the list already.

    Position by position the item of largest λ·rel(e) - (1-λ)·max_{s∈S} sim(e, s). Its paper leaves the scales of the
    two open: relevance is divided by its largest absolute value among the items to choose from. λ = 1 is plain
    relevance.

    trade_off: λ in [0, 1]; 0.5 by default. Cost: O(K·L) a list, at worst O(K·L·s).

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

    def fill(self, catalog: Catalog, worth: Floats, norm: Floats, shut: Booleans, out: Integers) -> None:
        """By the kernel."""
        diversify.mmr(catalog.sparse, catalog.d, norm, worth, shut, self.trade_off, out)


def divrank_prior(worth: Floats) -> Floats:
    """Where DivRank's walk begins: relevance (m,) where positive, hardly anything elsewhere, tilted; it sums to 1."""
    prior = np.maximum(worth, 0.0)
    prior = prior + 1e-9 * prior.max() if prior.max() > 0.0 else np.ones(worth.size)
    prior = prior * np.linspace(1.01, 1.0, worth.size)
    return np.asarray(prior / prior.sum())


class DivRank(Diversifier):
    """DivRank (Mei et al. 2010): where a walk over similar items ends up that favours what it has visited before.

    Items are ranked by the distribution of a vertex-reinforced random walk: rich nodes take from those like them, so
    that the top holds one of a kind. The walk starts from the prior and jumps back to it, which is the relevance where
    that is positive, even where none is. The pointwise form of its paper, in which visits are taken to be in proportion
    to the distribution.

    Departs from its paper: the graph is that of the ``pool`` most relevant items, as is usual for a second stage, with
    cosines as weights. The walk, which settles slowly, is left after so many rounds. As nothing would ever tell twins
    apart, the prior is tilted by up to 1% in favour of lower items.

    damping: λ from 0 to 0.99, 0.9 as there. link: the share of a step that leaves an item (α there), from 0 to 0.99,
    0.25 as there. pool: K are taken if it is less. rounds: at most. Cost: O(L·s² + rounds·pool·s) a list.
    """

    def __init__(self, damping: float = 0.9, link: float = 0.25, pool: int = 50, rounds: int = 200) -> None:
        self.damping = checks.number("damping of DivRank", damping, low=0.0, high=0.99)
        self.link = checks.number("link of DivRank", link, low=0.0, high=0.99)
        self.pool = checks.integer("pool of DivRank", pool, low=1)
        self.rounds = checks.integer("rounds of DivRank", rounds, low=1)

    def fill(self, catalog: Catalog, worth: Floats, norm: Floats, shut: Booleans, out: Integers) -> None:
        """The walk among the most relevant."""
        size = min(max(out.size, self.pool), int(shut.size - shut.sum()))
        pool, rank = np.empty((1, size), dtype=np.int64), np.empty(size)
        ranks.top_lists(np.where(shut, -inf, worth)[None], pool)
        chosen = np.sort(pool[0])
        prior = divrank_prior(worth[chosen])
        diversify.divrank(
            catalog.sparse, norm, chosen, catalog.d, prior, self.damping, self.link, self.rounds, TOLERANCE, rank
        )
        out[:] = chosen[np.argsort(-rank, kind="stable")[: out.size]]
