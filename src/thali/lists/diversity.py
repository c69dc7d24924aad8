"""Four measures of how diverse a list is. Each takes lists (lists, K) and returns one number for each list (lists,).

An item e belongs to topic j if w̄(e,j) > 0. Only topics that fade count. Steady topics, such as the quality of items,
are ignored, because they say nothing about diversity. All measures take O(K·d) or O(K²·d) for each list, in NumPy. Use
them for the recorded points of a run, not for every step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thali.catalog.catalog import Catalog
from thali.tools import checks
from thali.tools.types import Floats


def topic_coverage(catalog: Catalog, lists: Any) -> Floats:
    """Return the coverage c_j(A), averaged over topics. It is 1 if every topic is fully covered.

    Examples
    --------
    >>> import thali
    >>> catalog = thali.Catalog([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5]])
    >>> topic_coverage(catalog, [[0, 1], [0, 2]])
    array([0.375, 0.5  ])

    """
    covered = _fading(catalog, catalog.gains(lists)).sum(axis=1)
    return _share(covered.mean(axis=1) if covered.size else np.zeros(len(covered)))


def intra_list_distance(catalog: Catalog, lists: Any) -> Floats:
    """Return the distance between two items, averaged over all pairs of items in the list.

    The distance is 1 minus the cosine of the two items' sets of topics (Smyth and McClave 2001; Ziegler 2005). The
    average is 0 if all items have the same topics, and 1 if no two items share a topic. It is also 1 for a list of one
    item. A pair in which an item has no topics counts as 0, because such an item does not make a list more diverse.

    >>> import thali
    >>> catalog = thali.Catalog([[0.5, 0.0], [0.3, 0.0], [0.0, 0.5]])
    >>> intra_list_distance(catalog, [[0, 1], [0, 2]])
    array([0., 1.])
    """
    member = _members(catalog, lists)
    K = member.shape[1]
    if K == 1:
        return np.ones(len(member))
    size = np.sqrt(member.sum(axis=2))
    sizes = size[:, :, None] * size[:, None, :]
    distance = np.where(sizes > 0.0, 1.0 - np.einsum("aid,ajd->aij", member, member) / np.maximum(1.0, sizes), 0.0)
    first, second = np.triu_indices(K, 1)
    return _share(distance[:, first, second].mean(axis=1))


def topic_entropy(catalog: Catalog, lists: Any) -> Floats:
    """Return the entropy of the topics in the list, divided by log d, where d counts only topics that fade.

    It is 1 if all topics are equally frequent, and 0 if the list has only one topic or none. Each item has one vote,
    which is divided evenly among its topics.

    >>> import thali
    >>> catalog = thali.Catalog([[0.5, 0.0], [0.3, 0.0], [0.0, 0.5]])
    >>> topic_entropy(catalog, [[0, 1], [0, 2]])
    array([0., 1.])
    """
    member = _members(catalog, lists)
    d = member.shape[2]
    if d <= 1:
        return np.zeros(len(member))
    votes = (member / np.maximum(1.0, member.sum(axis=2, keepdims=True))).sum(axis=1)
    share = votes / np.maximum(1e-300, votes.sum(axis=1, keepdims=True))
    terms = np.where(share > 0.0, share * np.log(np.where(share > 0.0, share, 1.0)), 0.0)
    return _share(-terms.sum(axis=1) / np.log(d))


def err_ia(catalog: Catalog, lists: Any, theta: Any) -> Floats:
    """Return the intent-aware expected reciprocal rank (Chapelle et al. 2011).

    It is Σ_j θ_j Σ_k (1/k)·w̄(a_k,j)·Π_{i<k}(1 - w̄(a_i,j)), where θ_j is the probability that the user is interested in
    topic j (theta: (lists, d)), and w̄(e,j) is the probability that item e satisfies this interest. The value is high if
    every topic that the user wants has a good item near the top.

    >>> import thali
    >>> catalog = thali.Catalog([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5]])
    >>> err_ia(catalog, [[0, 1], [0, 2]], [[0.6, 0.4], [0.6, 0.4]])
    array([0.375, 0.4  ])
    """
    lists = checks.item_lists("lists", lists, None, catalog.L)
    checks.floats("theta", theta, (len(lists), catalog.d), "(lists, d)")
    theta = checks.preferences("theta", theta, catalog.d)
    weights = _fading(catalog, catalog.csr[lists.ravel()].toarray().reshape(*lists.shape, catalog.d))
    theta = _fading(catalog, theta)
    passed = np.cumprod(1.0 - weights, axis=1)
    before = np.concatenate([np.ones_like(passed[:, :1]), passed[:, :-1]], axis=1)
    rank = np.arange(1, lists.shape[1] + 1)[:, None]
    return np.asarray(np.einsum("ukd,ud->u", weights * before / rank, theta))


def _share(values: Floats) -> Floats:
    """Clip values that lie outside [0, 1] only because of rounding."""
    return np.clip(values, 0.0, 1.0) + 0.0  # turns -0.0 into 0.0


def _members(catalog: Catalog, lists: Any) -> Floats:
    """Return whether each listed item belongs to each topic that fades, as 0.0 or 1.0 (lists, K, fading topics)."""
    lists = checks.item_lists("lists", lists, None, catalog.L)
    member = (catalog.csr[lists.ravel()].toarray() > 0.0).reshape(*lists.shape, catalog.d)
    return np.asarray(_fading(catalog, member), dtype=np.float64)


def _fading(catalog: Catalog, values: Any) -> Any:
    """Return the part of an array (..., d) that belongs to the topics that fade."""
    return values if catalog.fading.all() else np.ascontiguousarray(values[..., catalog.fading])
