"""Estimate the paper's click model from data: w̄(i,j) and θ* as in Section 7.4, and rough browsing habits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from thali.datasets.interactions import Interactions
from thali.tools import checks
from thali.tools.types import Floats, Integers


def attractiveness(interactions: Interactions, *, smoothing: float = 0.0) -> sp.csr_array:
    """Estimate w̄ (items, topics) as in Section 7.4 of the paper.

    If item i has topic j, w̄(i,j) is the number of users attracted to item i, divided by the number of users attracted
    to topic j. Every interaction counts as an attraction, F(u, i) = 1, so call ``attracted`` first. A topic that
    attracts nobody has w̄ = 0. Cost: O(interactions · topics per item).

    smoothing: how many more people to count in each topic, who like its items as often as everybody does on average:
    w̄(i,j) = (n_i + smoothing·m_j)/(n_j + smoothing), where m_j is the mean of n_i/n_j over the items of the topic. With
    0, it is the paper's estimate, and an item that nobody liked has w̄ = 0: it is never worth showing. With more than 0,
    no w̄ is 0, except in a topic that attracts nobody.
    """
    checks.instance("interactions", interactions, Interactions)
    smoothing = checks.number("smoothing", smoothing, low=0.0)
    per_item = np.bincount(interactions.item, minlength=len(interactions.items))
    per_topic = (_counts(interactions) > 0).sum(axis=0)
    weights = interactions.membership.astype(np.float64).tocsr()
    rows = np.repeat(np.arange(len(interactions.items)), np.diff(weights.indptr))
    topic = weights.indices
    weights.data = per_item[rows] / np.maximum(1, per_topic[topic])
    if smoothing > 0.0:
        members = np.maximum(1, np.bincount(topic, minlength=len(per_topic)))
        mean = np.bincount(topic, weights=weights.data, minlength=len(per_topic)) / members
        weights.data = (per_item[rows] + smoothing * mean[topic]) / (per_topic[topic] + smoothing)
    weights.eliminate_zeros()
    return sp.csr_array(weights)


def preferences(interactions: Interactions) -> Floats:
    """Estimate the preferences θ* (users, d) of each user, as in Section 7.4 of the paper.

    θ*_j is the number of items with topic j that attract the user, divided by the sum of these numbers over all topics.
    Every interaction counts as an attraction, so call ``attracted`` first. A user who is attracted to no item with
    these topics has no θ*. Their row is 0, and experiments leave them out. Cost: O(interactions · topics per item).
    """
    checks.instance("interactions", interactions, Interactions)
    counts = _counts(interactions)
    totals = counts.sum(axis=1, keepdims=True)
    return np.asarray(counts / np.maximum(1, totals))


@dataclass(frozen=True)
class Behaviour:
    """Settings for click models, derived from a data set by :func:`behaviour`."""

    satisfaction: float
    """For :class:`thali.DynamicBayesian`."""
    perseverance: float
    """For :class:`thali.DynamicBayesian`."""
    going_on: float
    """For :class:`thali.DependentClick`."""
    examined: Floats
    """(K,), for :class:`thali.PositionBased`."""
    extra: float
    """For :class:`thali.NoisyCascade`."""
    skip: float
    """For :class:`thali.NoisyCascade`."""
    intercept: float
    """The intercept of the fitted line from which extra and skip are computed, before clipping."""
    slope: float
    """The slope of the same line."""


def behaviour(interactions: Interactions, *, at_least: float, K: int) -> Behaviour:
    """Derive settings for click models from all interactions and their values. Call this before ``attracted``.

    These settings are only substitutes. The data do not contain lists, positions or clicks, so the settings are not an
    estimate of how anyone browses. They only define simulated users who deviate from the paper's model about as much as
    the data suggest. The settings are:

    satisfaction: the share of interactions with a value of at least at_least. Every interaction counts as a click, and
        these interactions count as clicks that satisfied the user.
    going_on: 1 - satisfaction.
    examined: for each position k = 0..K-1, the share of users who have more than k/K times as many interactions as the
        most active user. Users without interactions are not counted.
    perseverance: the sum of ``examined`` over all positions except the first, divided by its sum over all positions
        except the last; 1 for K = 1. So it is the share of users who continue to the next position.
    extra, skip: from the least-squares line F(u,i) ≈ extra + (1-skip-extra)·⟨w̄_i, θ_u⟩ over all pairs of users and
        items, with F, w̄ and θ computed from the interactions with a value of at least at_least. The values of the line
        at 0 and 1, which are extra and 1-skip, are clipped to [0, 1]. A line with a negative slope is replaced by the
        mean of F. ``intercept`` and ``slope`` are those of the original line.

    Parameters
    ----------
    interactions: all interactions, with their values.
    at_least: as in ``attracted``.
    K: the number of positions, at most the number of items.

    Cost: O(interactions · topics per item + (users + items)·d²). No array of all pairs is built.

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
        raise ValueError("interactions must contain at least one interaction, got none")
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
    """Return the intercept and slope of the regression of F on a(u,i) = ⟨w̄_i, θ_u⟩ over all pairs.

    They are computed from Σ a = ⟨Σ w̄_i, Σ θ_u⟩, Σ a² = ⟨Σ w̄_i w̄_iᵀ, Σ θ_u θ_uᵀ⟩ and
    Σ F·a = Σ_u ⟨Σ_i F(u,i)·w̄_i, θ_u⟩, so no array of all pairs is needed. If a is the same for all pairs, the slope
    is 0.
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
    """Return Σ_i F(u, i)·G(i, j) (users, d): how many items with each topic attract each user."""
    return np.asarray((interactions.matrix() @ interactions.membership.astype(np.int64)).toarray())
