"""The paper's click model from data: w̄(i,j) and θ*, as in Real-World Datasets."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from thali import checks
from thali.datasets.interactions import Interactions
from thali.types import Floats, Integers


def attractiveness(interactions: Interactions) -> sp.csr_array:
    """w̄(i,j) (items, topics), Eq. define_w: the users attracted to item i over those attracted to topic j at all.

    Every interaction counts as an attraction, F(u, i) = 1: call ``attracted`` before. A topic that attracts nobody has
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
    """θ* (users, d), Eq. define_theta: a user's attractive items in topic j over the topics of all of them.

    Every interaction counts as an attraction: call ``attracted`` before. A user with no attraction in these topics
    has no θ*: the row is 0, and an experiment does not draw that user. Cost: O(interactions · topics of an item).
    """
    checks.instance("interactions", interactions, Interactions)
    counts = _counts(interactions)
    totals = counts.sum(axis=1, keepdims=True)
    return np.asarray(counts / np.maximum(1, totals))


def _counts(interactions: Interactions) -> Integers:
    """Σ_i F(u, i) G(i, j) (users, d)."""
    return np.asarray((interactions.matrix() @ interactions.membership.astype(np.int64)).toarray())
