"""Estimate the paper's click model from data: w̄(i,j) and θ*, as in Real-World Datasets; and rough browsing habits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from thali.datasets.interactions import Interactions
from thali.tools import checks
from thali.tools.types import Floats, Integers


def attractiveness(interactions: Interactions) -> sp.csr_array:
    """w̄(i,j) (items, topics): the number of users attracted to item i, over those attracted to topic j (Section 7.4).

    Every interaction counts as an attraction, F(u, i) = 1: call ``attracted`` first. A topic that attracts nobody has
    w̄ = 0. Cost: O(interactions · topics of an item).
    """
    checks.instance("interactions", interactions, Interactions)
    per_item = np.bincount(interactions.item, minlength=len(interactions.items))
    per_topic = (_counts(interactions) > 0).sum(axis=0)
    weights = interactions.membership.astype(np.float64).tocsr()
    rows = np.repeat(np.arange(len(interactions.items)), np.diff(weights.indptr))
    weights.data = per_item[rows] / np.maximum(1, per_topic[weights.indices])
    weights.eliminate_zeros()
    return sp.csr_array(weights)


def preferences(interactions: Interactions) -> Floats:
    """θ* (users, d): the user's attractive items in topic j, over the sum of this count over topics (Section 7.4).

    Every interaction counts as an attraction: call ``attracted`` first. A user with no attraction in these topics has
    no θ*: the row is 0, and experiments do not draw that user. Cost: O(interactions · topics of an item).
    """
    checks.instance("interactions", interactions, Interactions)
    counts = _counts(interactions)
    totals = counts.sum(axis=1, keepdims=True)
    return np.asarray(counts / np.maximum(1, totals))


@dataclass(frozen=True)
class Behaviour:
    """Settings of click models derived from a data set by :func:`behaviour`."""

    satisfaction: float
    """Of :class:`thali.DynamicBayesian`."""
    perseverance: float
    """Of :class:`thali.DynamicBayesian`."""
    going_on: float
    """Of :class:`thali.DependentClick`."""
    examined: Floats
    """(K,), of :class:`thali.PositionBased`."""
    extra: float
    """Of :class:`thali.NoisyCascade`."""
    skip: float
    """Of :class:`thali.NoisyCascade`."""
    intercept: float
    """Of the fitted line that gives extra and skip, before clipping."""
    slope: float
    """Of the same line."""


def behaviour(interactions: Interactions, *, at_least: float, K: int) -> Behaviour:
    """Settings for click models, from all interactions and their values: call it before ``attracted``.

    These are stand-ins. Such data say nothing about lists, positions or clicks, so none of these is an estimate of how
    anyone browses. They only create people who deviate from the paper's model about as much as the data suggest.

    satisfaction: the share of interactions with a value of at least at_least. Any interaction counts as a click, and
        these as satisfying ones.
    going_on: 1 - satisfaction.
    examined: for each position k = 0..K-1, the share of users (with any interaction) who have more than k/K of the
        interactions of the most active user.
    perseverance: by ``examined``, those who reach a next position over those who reach the one before; 1 for K = 1.
    extra, skip: from the least-squares line F(u,i) ≈ extra + (1-skip-extra)·⟨w̄_i, θ_u⟩ over all pairs of users and
        items, with F, w̄ and θ from the interactions with a value of at least at_least. The line's values at 0 and 1,
        which are extra and 1-skip, are clipped to [0, 1]; a falling line is replaced by the mean of F. ``intercept``
        and ``slope`` are those of the unclipped line.

    Parameters
    ----------
    at_least: as in ``attracted``.
    K: the number of positions, at most the number of items.

    Cost: O(interactions · topics of an item + (users + items)·d²); no array of all pairs.

    Examples
    --------
    >>> import thali
    >>> data = thali.datasets.Interactions.of(
    ...     [("ana", "Heat", 5), ("ana", "Fargo", 5), ("bob", "Heat", 5), ("bob", "Ronin", 3)],
    ...     {"Heat": ["crime"], "Fargo": ["crime", "comedy"], "Ronin": ["crime"]},
    ... )
    >>> found = thali.behaviour(data, at_least=5, K=2)
    >>> found.satisfaction, found.going_on, found.examined
    (0.75, 0.25, array([1., 1.]))

    """
    checks.instance("interactions", interactions, Interactions)
    K = checks.list_length("behaviour", K, len(interactions.items))
    if not len(interactions):
        raise ValueError("interactions must have at least one value, got none")
    loved = interactions.attracted(at_least)
    satisfaction = len(loved) / len(interactions)
    active = np.bincount(interactions.user)
    active = active[active > 0]
    examined = np.array([(active * K > k * active.max()).mean() for k in range(K)])
    perseverance = float(examined[1:].sum() / examined[:-1].sum()) if K > 1 else 1.0
    intercept, slope = _line(loved)
    extra, most = float(np.clip(intercept, 0.0, 1.0)), float(np.clip(intercept + slope, 0.0, 1.0))
    if slope < 0.0:
        extra = most = loved.density
    return Behaviour(satisfaction, perseverance, 1.0 - satisfaction, examined, extra, 1.0 - most, intercept, slope)


def _line(loved: Interactions) -> tuple[float, float]:
    """Intercept and slope of the regression of F on a(u,i) = ⟨w̄_i, θ_u⟩ over all pairs, from sums of d² numbers.

    Σ a = ⟨Σ w̄_i, Σ θ_u⟩, Σ a² = ⟨Σ w̄_i w̄_iᵀ, Σ θ_u θ_uᵀ⟩, Σ F·a = Σ_u ⟨Σ_i F(u,i)·w̄_i, θ_u⟩. The slope is 0 if a is
    the same for all pairs.
    """
    weights, theta = attractiveness(loved), preferences(loved)
    pairs = len(loved.users) * len(loved.items)
    mean = float(weights.sum(axis=0) @ theta.sum(axis=0)) / pairs
    square = float(((weights.T @ weights).toarray() * (theta.T @ theta)).sum()) / pairs
    product = float(((loved.matrix() @ weights).toarray() * theta).sum()) / pairs
    spread = square - mean**2
    slope = (product - loved.density * mean) / spread if spread > 1e-12 * square else 0.0
    return loved.density - slope * mean, slope


def _counts(interactions: Interactions) -> Integers:
    """Σ_i F(u, i) G(i, j) (users, d)."""
    return np.asarray((interactions.matrix() @ interactions.membership.astype(np.int64)).toarray())
