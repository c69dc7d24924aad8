"""Items, topics, the weights that relate them, and the arrays the kernels search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import scipy.sparse as sp

from thali import checks, rays
from thali.coverage import own_gain, own_gains, resolve
from thali.datasets.estimation import attractiveness
from thali.datasets.interactions import Interactions
from thali.kernels import index, learn
from thali.types import Floats, Indices, Integers


class Catalog:
    """L items with weights w̄(e,j) in [0, 1] on d topics, and the coverage c(S) built from them.

    Parameters
    ----------
    weights: (L, d), dense or scipy.sparse.
    items, topics: their names, each unique; by default the indices themselves.
    coverage: ``"probabilistic"`` (Eq. topicCoverage), ``"max"``, or an object (:class:`thali.coverage.Coverage`).

    Cost: O(nnz + L log L) to build, once.

    Examples
    --------
    >>> import thali
    >>> films = thali.Catalog([[0.5, 0.0], [0.4, 0.2]], items=["Heat", "Fargo"], topics=["crime", "comedy"])
    >>> films.L, films.d, films.item("Fargo")
    (2, 2, 1)
    >>> films.gains([[0, 1]])
    array([[[0.5, 0. ],
            [0.2, 0.2]]])

    """

    def __init__(
        self,
        weights: Any,
        items: Iterable[Hashable] | None = None,
        topics: Iterable[Hashable] | None = None,
        coverage: Any = "probabilistic",
    ) -> None:
        matrix = _sparse(weights)
        self.L, self.d = (int(n) for n in matrix.shape)
        self.items = _names("items", items, self.L)
        self.topics = _names("topics", topics, self.d)
        self.coverage = coverage
        self.indptr: Indices = matrix.indptr.astype(np.uint32)
        self.topic: Indices = matrix.indices.astype(np.uint32)
        self.weight: Floats = matrix.data
        for array in (self.indptr, self.topic, self.weight):
            array.flags.writeable = False
        self._given_sparse = sp.issparse(weights)
        self.kind, self.own = resolve(coverage, self.d)

    @classmethod
    def estimate(cls, interactions: Interactions, coverage: Any = "probabilistic") -> Catalog:
        """The catalogue whose w̄(i,j) is estimated from interactions, Eq. define_w; each counts as an attraction.

        See :func:`thali.datasets.estimation.attractiveness`.
        """
        weights = attractiveness(interactions)
        return cls(weights, items=interactions.items, topics=interactions.topics, coverage=coverage)

    def __repr__(self) -> str:
        return f"Catalog(L={self.L}, d={self.d}, coverage={self.coverage!r})"

    @cached_property
    def weights(self) -> Any:
        """w̄ (L, d), read-only: a NumPy array, or a scipy.sparse.csr_array if it was given sparse."""
        return self.csr if self._given_sparse else self.dense

    @cached_property
    def csr(self) -> sp.csr_array:
        """w̄ as a scipy.sparse.csr_array."""
        return sp.csr_array((self.weight, self.topic, self.indptr), shape=(self.L, self.d))

    @cached_property
    def dense(self) -> Floats:
        """w̄ as a NumPy array."""
        array: Floats = self.csr.toarray()
        array.flags.writeable = False
        return array

    @cached_property
    def rays(self) -> rays.Rays:
        """The items by ray. Parallel items keep their order under probabilistic coverage only."""
        return rays.build(self.indptr, self.topic, self.weight, parallel=self.kind == index.PROBABILISTIC)

    @cached_property
    def twins(self) -> Integers:
        """For each item, the item before it with the same weights, or -1 (L,)."""
        return rays.twins(rays.build(self.indptr, self.topic, self.weight, parallel=False))

    def item(self, name: Hashable) -> int:
        """The index of the item of this name."""
        return _find("item", name, self._item_index)

    def topic_index(self, name: Hashable) -> int:
        """The index of the topic of this name."""
        return _find("topic", name, {topic: j for j, topic in enumerate(self.topics)})

    @cached_property
    def items_digest(self) -> str:
        """A short digest of the items' names, by which a state knows the catalogue it belongs to."""
        return _digest(self.items)

    @cached_property
    def topics_digest(self) -> str:
        """The same of the topics' names."""
        return _digest(self.topics)

    def gains(self, lists: Any) -> Floats:
        """Δ(a_k | a_1..a_{k-1}) of every position (users, K, d), Eq. topic coverage gain. Cost: O(K·d) a user."""
        lists = checks.item_lists("lists", lists, None, self.L)
        users, K = lists.shape
        out = np.zeros((users, K, self.d))
        if self.own is None:
            learn.list_gains(self.kind, self.indptr, self.topic, self.weight, lists, out)
            return out
        for user in range(users):
            covered = np.zeros(self.d)
            for k in range(K):
                shown = lists[user, : k + 1]
                out[user, k], covered = own_gain(self.own, shown, self.dense[shown], covered)
        return out

    def item_gains(self, lists: Any) -> Floats:
        """Δ(a_k | ∅) of every position (users, K, d): what each item would add alone."""
        lists = checks.item_lists("lists", lists, None, self.L)
        return self.gains(lists.reshape(-1, 1)).reshape(*lists.shape, self.d)

    def all_gains(self, chosen: Integers) -> Floats:
        """Δ(e | chosen) of all items (L, d), by the catalogue's own coverage object: the general, slower path."""
        assert self.own is not None, "compiled coverages are searched by kernels"
        return own_gains(self.own, chosen, self.dense[chosen], self.dense)

    def check_same(self, other: Catalog, whose: str) -> None:
        """An error unless other has the same items and topics; the weights may differ (train and test halves)."""
        for what, mine, theirs in (("items", self.items, other.items), ("topics", self.topics, other.topics)):
            if len(mine) != len(theirs):
                raise ValueError(
                    f"catalog of {whose} must have the same {what} as the learner's: {len(mine)} against {len(theirs)}"
                )
            if mine is theirs or mine == theirs:
                continue
            at = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b), None)
            if at is not None:
                raise ValueError(
                    f"catalog of {whose} must have the same {what} as the learner's, "
                    f"but number {at} is {theirs[at]!r} there and {mine[at]!r} here"
                )

    @cached_property
    def _item_index(self) -> dict[Hashable, int]:
        return {name: e for e, name in enumerate(self.items)}


def _sparse(weights: Any) -> sp.csr_array:
    """Weights as a canonical float64 CSR copy without stored zeros, or an error."""
    if sp.issparse(weights):
        if weights.ndim != 2:
            raise ValueError(f"weights of Catalog must be 2-D (L, d), got shape {weights.shape}")
        if weights.dtype.kind not in "fiub":
            raise TypeError(f"weights of Catalog must be an array of numbers (L, d), got sparse {weights.dtype}")
        try:
            matrix = sp.csr_array(weights.astype(np.float64))
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise ValueError(f"weights of Catalog must be a well-formed sparse matrix: {error}") from error
        matrix.sum_duplicates()
    else:
        array = checks.floats("weights of Catalog", weights, (None, None), "(L, d)")
        matrix = sp.csr_array(array)
    if 0 in matrix.shape:
        raise ValueError(f"weights of Catalog must have at least one item and one topic, got shape {matrix.shape}")
    if not np.isfinite(matrix.data).all():
        raise ValueError("weights of Catalog must be finite, got NaN or infinity")
    checks.within("weights of Catalog", matrix.data, 0.0, 1.0)
    if matrix.nnz >= 2**32:
        raise ValueError(f"weights of Catalog must have fewer than 2³² entries that are not 0, got {matrix.nnz}")
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _names(what: str, names: Iterable[Hashable] | None, size: int) -> Sequence[Hashable]:
    if names is None:
        return range(size)
    found = tuple(checks.sequence(f"{what} of Catalog", names))
    for name in found:
        if not isinstance(name, Hashable) or name != name:
            raise TypeError(f"{what} of Catalog must be names (hashable, equal to themselves), got {name!r}")
    if len(found) != size:
        raise ValueError(f"{what} of Catalog must hold {size} names, one for each, got {len(found)}")
    if len(set(found)) != size:
        twice = Counter(found).most_common(1)[0][0]
        raise ValueError(f"{what} of Catalog must be unique, got {twice!r} twice")
    return found


def _digest(names: Sequence[Hashable]) -> str:
    return sha256("\0".join(map(str, names)).encode()).hexdigest()[:16]


def _find(what: str, name: Hashable, index: dict[Hashable, int]) -> int:
    try:
        return index[name]
    except (KeyError, TypeError):
        raise ValueError(f"{what} must be a name in the catalogue, got {name!r}") from None
