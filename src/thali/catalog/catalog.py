"""The catalog: items, topics, and the weights of items on topics."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from threading import Lock
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import scipy.sparse as sp

from thali.catalog.coverage import custom_gain, custom_gains, list_gains, resolve
from thali.catalog.items import Items
from thali.catalog.names import Names
from thali.datasets.estimation import attractiveness
from thali.datasets.interactions import Interactions
from thali.tools import checks
from thali.tools.growing import GrowingArray
from thali.tools.types import Booleans, Floats, Indices, Integers

# Properties that are computed on demand from the weights or names, and discarded when the weights or names change.
CACHED = ("weights", "csr", "dense", "present", "items_digest")


class Derived(Protocol):
    """An object that is computed from a catalog, and updated when items are added, changed or removed."""

    def put(self, item: int, topics: Indices, weights: Floats) -> None:
        """Set the topics (in ascending order) and the weights of an item. The item number of a new item is L."""
        ...

    def remove(self, item: int) -> None:
        """Remove an item."""
        ...

    @property
    def needs_rebuild(self) -> bool:
        """Whether the object should be computed again from scratch, because many items have changed."""
        ...


D = TypeVar("D", bound=Derived)
_deriving = Lock()


class Catalog:
    """L items with weights w̄(e,j) in [0, 1] on d topics, and the coverage c(S) that is computed from the weights.

    Items are numbered from 0. They can be added, changed and removed in place (:meth:`put`, :meth:`remove`), but not
    while another thread chooses items from the catalog. An item number is never reused: L includes removed items and
    never decreases, while ``len(catalog)`` is the number of items that have not been removed.

    Parameters
    ----------
    weights: (L, d), dense or scipy.sparse; d is at most 65,535.
    items, topics: unique names; by default, the numbers 0, 1, 2, ...
    coverage: ``"probabilistic"``, ``"max"``, or a custom coverage object (:mod:`thali.catalog.coverage`).

    Cost: O(nnz + L log L) to build, where nnz is the number of nonzero weights. The search index is built when the
    first list is requested (docs/engine.md).

    Examples
    --------
    >>> import thali
    >>> films = thali.Catalog([[0.5, 0.0], [0.4, 0.2]], items=["Heat", "Fargo"], topics=["crime", "comedy"])
    >>> films.L, films.d, films.item("Fargo")
    (2, 2, 1)
    >>> films.gains([[0, 1]])
    array([[[0.5, 0. ],
            [0.2, 0.2]]])
    >>> films.put("Ronin", [0.6, 0.0]), films.remove("Heat")
    (2, 0)
    >>> films.L, len(films), thali.greedy_lists(films, [[1.0, 0.0]], K=1)
    (3, 2, array([[2]]))

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
        self._items = Names("items", items, self.L)
        self.topics: Sequence[Hashable] = Names("topics", topics, self.d)
        self.coverage = coverage
        self._given_sparse = sp.issparse(weights)
        self.kind, self.custom = resolve(coverage, self.d)
        self._removed: set[int] = set()
        self._derived: dict[Callable[[Catalog], Any], Any] = {}
        #: Increases whenever items or weights change.
        self.version = 0
        self._arrays = Items(
            begin=GrowingArray(self.L, np.uint32),
            end=GrowingArray(self.L, np.uint32),
            topics=GrowingArray(matrix.nnz, np.uint32),
            weights=GrowingArray(matrix.nnz, np.float64),
        )
        self._arrays.begin.view[:] = matrix.indptr[:-1]
        self._arrays.end.view[:] = matrix.indptr[1:]
        self._arrays.topics.view[:] = matrix.indices
        self._arrays.weights.view[:] = matrix.data
        #: The topics and weights of each item, as arrays for the kernels.
        self.sparse = Items(*(array.view for array in self._arrays))

    @classmethod
    def estimate(cls, interactions: Interactions, coverage: Any = "probabilistic") -> Catalog:
        """Return a catalog with weights estimated from interactions. Each interaction counts as an attraction.

        Among the users attracted to topic j, w̄(i,j) is the share of those who are attracted to item i. This is the
        paper's estimate for real data (Section 7.4). See :func:`thali.datasets.estimation.attractiveness`.
        """
        weights = attractiveness(interactions)
        return cls(weights, items=interactions.items, topics=interactions.topics, coverage=coverage)

    def __repr__(self) -> str:
        return f"Catalog(L={self.L}, d={self.d}, coverage={self.coverage!r})"

    def __len__(self) -> int:
        """The number of items that have not been removed."""
        return self.L - len(self._removed)

    @property
    def items(self) -> Sequence[Hashable]:
        """The names of all items by item number (L,), including removed items."""
        return self._items

    @cached_property
    def weights(self) -> Any:
        """w̄ (L, d), read-only: a NumPy array, or a scipy.sparse.csr_array if the weights were given as sparse.

        Removed items keep their weights.
        """
        return self.csr if self._given_sparse else self.dense

    @cached_property
    def csr(self) -> sp.csr_array:
        """w̄ as a scipy.sparse.csr_array, read-only."""
        begin, end, topics, weights = self.sparse
        sizes = (end - begin).astype(np.int64)
        indptr = np.append(0, np.cumsum(sizes))
        at = np.repeat(begin - indptr[:-1], sizes) + np.arange(indptr[-1])
        parts = weights[at], topics[at].astype(np.int32), indptr
        for part in parts:
            part.flags.writeable = False
        return sp.csr_array(parts, shape=(self.L, self.d))

    @cached_property
    def dense(self) -> Floats:
        """w̄ as a NumPy array, read-only."""
        array: Floats = self.csr.toarray()
        array.flags.writeable = False
        return array

    def derived(self, make: Callable[[Catalog], D]) -> D:
        """Return make(catalog). It is computed on the first call and then updated with every change of the catalog.

        The search engine uses this for its search index. After many changes, the next call computes it from scratch.
        """
        found = self._derived.get(make)
        if found is None:
            with _deriving:
                found = self._derived.get(make)
                if found is None:
                    found = self._derived[make] = make(self)
        return cast(D, found)

    @cached_property
    def present(self) -> Booleans:
        """Whether each item is in the catalog, that is, has not been removed (L,), read-only."""
        present = np.ones(self.L, dtype=np.bool_)
        present[list(self._removed)] = False
        present.flags.writeable = False
        return present

    def put(self, name: Hashable, weights: Any) -> int:
        """Add an item, or change the weights (d,) of the item with this name. Return its item number.

        The change takes effect with the next list, and nothing has to be learned again. A new item gets the number L.
        An item that was removed and is added again counts as a new item. States with counts for each item, such as
        those of CascadeKL-UCB, do not fit a catalog with more items, so policies reject them.

        Cost: O(s) for s topics, plus O(n) to find a changed item among n items with the same topics. When the arrays
        have no spare capacity left, they are copied to larger ones. When the number of changes exceeds about half the
        number of items, the search index is built again.
        """
        self._items.check(name)
        row = checks.floats("weights of put", weights, (self.d,), "(d,)")
        checks.within("weights of put", row, 0.0, 1.0)
        topics = np.flatnonzero(row).astype(np.uint32)
        values = row[topics]
        found = self._items.find(name)
        e, new = self.L if found is None else found, found is None
        if not new and topics.size == self.sparse.end[e] - self.sparse.begin[e]:
            at = int(self.sparse.begin[e])
        else:
            if len(self._arrays.weights.view) + topics.size >= 2**32:
                raise ValueError(
                    "weights of Catalog must have fewer than 2³² entries, including those that put() has replaced. To "
                    "free the replaced entries, create a new catalog"
                )
            at = len(self._arrays.weights.view)
            self._arrays.topics.extend(topics.size)
            self._arrays.weights.extend(topics.size)
            if new:
                self._arrays.begin.extend(1)
                self._arrays.end.extend(1)
            self._arrays.begin.view[e], self._arrays.end.view[e] = at, at + topics.size
            self.sparse = Items(*(array.view for array in self._arrays))
        self.sparse.topics[at : at + topics.size], self.sparse.weights[at : at + topics.size] = topics, values
        for derived in self._derived.values():
            derived.put(e, topics, values)
        if new:
            self._items.add(name)
            self.L += 1
        self._changed()
        return e

    def remove(self, name: Hashable) -> int:
        """Remove an item, so that it is no longer shown. Return its item number, which is never reused.

        What was learned from the item is kept. Its weights are kept too, for feedback that arrives late. Cost: O(n) for
        n items with the same topics.
        """
        e = self.item(name)
        for derived in self._derived.values():
            derived.remove(e)
        self._removed.add(e)
        self._items.drop(name)
        self._changed()
        return e

    def _changed(self) -> None:
        self.version += 1
        for name in CACHED:
            self.__dict__.pop(name, None)
        self._derived = {make: derived for make, derived in self._derived.items() if not derived.needs_rebuild}

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, except those that can be computed again."""
        left_out = (*CACHED, "_derived", "sparse")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._derived = {}
        self.sparse = Items(*(array.view for array in self._arrays))

    def item(self, name: Hashable) -> int:
        """Return the number of the item with this name. Raise ValueError if there is no such item."""
        return _find("item", name, self._items)

    def find(self, name: Hashable) -> int | None:
        """Return the number of the item with this name, or None if there is no such item."""
        return self._items.find(name)

    def topic_index(self, name: Hashable) -> int:
        """Return the number of the topic with this name. Raise ValueError if there is no such topic."""
        assert isinstance(self.topics, Names)
        return _find("topic", name, self.topics)

    @cached_property
    def items_digest(self) -> str:
        """A short digest of the item names, by which a policy checks that a state belongs to its catalog."""
        return _digest(self.items)

    @cached_property
    def topics_digest(self) -> str:
        """A short digest of the topic names, by which a policy checks that a state belongs to its catalog."""
        return _digest(self.topics)

    def gains(self, lists: Any) -> Floats:
        """Return the gain Δ(a_k | a_1..a_{k-1}) of the item at every position (users, K, d) (Section 2.2).

        Cost: O(K·d) for each user.
        """
        lists = checks.item_lists("lists", lists, None, self.L)
        users, K = lists.shape
        out = np.zeros((users, K, self.d))
        if self.custom is None:
            list_gains(self.kind, self.sparse, lists, out)
            return out
        for user in range(users):
            covered = np.zeros(self.d)
            for k in range(K):
                shown = lists[user, : k + 1]
                out[user, k], covered = custom_gain(self.custom, shown, self.dense[shown], covered)
        return out

    def item_gains(self, lists: Any) -> Floats:
        """Return Δ(a_k | ∅) for every position (users, K, d): what each item would add to an empty list."""
        lists = checks.item_lists("lists", lists, None, self.L)
        return self.gains(lists.reshape(-1, 1)).reshape(*lists.shape, self.d)

    def all_gains(self, chosen: Integers) -> Floats:
        """Return Δ(e | chosen) for all items (L, d). Only for a custom coverage object."""
        assert self.custom is not None, "compiled coverages are searched by kernels"
        return custom_gains(self.custom, chosen, self.dense[chosen], self.dense)

    def check_same(self, other: Catalog, whose: str) -> None:
        """Raise ValueError unless the other catalog has the same items and topics as this one, which is the learner's.

        The weights may differ, because they may be estimated from different halves of the data.
        """
        for what, mine, theirs in (("items", self.items, other.items), ("topics", self.topics, other.topics)):
            if len(mine) != len(theirs):
                raise ValueError(
                    f"catalog of {whose} must have the same {what} as the learner's catalog, which has {len(mine)}, "
                    f"got {len(theirs)}"
                )
            if mine is theirs or mine == theirs:
                continue
            at = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b), None)
            if at is not None:
                raise ValueError(
                    f"catalog of {whose} must have the same {what} as the learner's catalog, "
                    f"where number {at} is {mine[at]!r}, got {theirs[at]!r}"
                )


def _sparse(weights: Any) -> sp.csr_array:
    """Check the weights. Return a copy in canonical CSR format, as float64 and without stored zeros."""
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
    if matrix.shape[1] >= 2**16:
        raise ValueError(f"weights of Catalog must have fewer than 65,536 topics, got {matrix.shape[1]}")
    if 0 in matrix.shape:
        raise ValueError(f"weights of Catalog must have at least one item and one topic, got shape {matrix.shape}")
    if not np.isfinite(matrix.data).all():
        raise ValueError("weights of Catalog must be finite, got NaN or infinity")
    checks.within("weights of Catalog", matrix.data, 0.0, 1.0)
    if matrix.nnz >= 2**32:
        raise ValueError(f"weights of Catalog must have fewer than 2³² nonzero entries, got {matrix.nnz}")
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _digest(names: Sequence[Hashable]) -> str:
    return sha256("\0".join(map(str, names)).encode()).hexdigest()[:16]


def _find(what: str, name: Hashable, names: Names) -> int:
    number = names.find(name)
    if number is None:
        raise ValueError(f"{what} must be in the catalog, got {name!r}")
    return number
