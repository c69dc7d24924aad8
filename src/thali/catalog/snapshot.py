"""A snapshot of a catalog: its items at one version, for threads and processes other than the one that changes it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import scipy.sparse as sp

from thali.catalog.columns import typical_weights
from thali.catalog.items import Items
from thali.tools.types import Booleans, Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Snapshot:
    """The items of a catalog at one version. It never changes, so any thread can read it at any time.

    Everything that is computed from a snapshot is kept in it. A thread that finishes late therefore cannot store an
    outdated result in the catalog, which has moved on to another snapshot.
    """

    version: int
    """The version of the catalog."""
    sparse: Items
    """The topics and weights of each item, including removed items."""
    present: Booleans
    """Whether each item is in the catalog, that is, has not been removed (L,), read-only."""
    items: Sequence[Hashable]
    """The names of all items by item number (L,), including removed items."""
    topics: Sequence[Hashable]
    """The names of the topics (d,)."""
    coverage: Any
    """The coverage, as it was given to the catalog."""
    given_sparse: bool
    """Whether the weights were given to the catalog as a sparse matrix."""

    @cached_property
    def _count(self) -> int:
        return int(np.count_nonzero(self.present))

    def __bool__(self) -> bool:
        """True, also if no items are left. Otherwise pickle would drop it with some protocols."""
        return True

    def __len__(self) -> int:
        """The number of items that have not been removed."""
        return self._count

    @property
    def d(self) -> int:
        """The number of topics."""
        return len(self.topics)

    @cached_property
    def fading(self) -> Booleans:
        """Whether the gains of each topic shrink as the topic is covered (d,), read-only."""
        fading: Booleans = self.sparse.fading.copy()
        fading.flags.writeable = False
        return fading

    @property
    def weights(self) -> Any:
        """w̄ (L, d), read-only: as given to the catalog, a scipy.sparse.csr_array or a NumPy array."""
        return self.csr if self.given_sparse else self.dense

    @cached_property
    def csr(self) -> sp.csr_array:
        """w̄ as a scipy.sparse.csr_array, read-only."""
        begin, end, topics, weights, _ = self.sparse
        sizes = (end - begin).astype(np.int64)
        indptr = np.append(0, np.cumsum(sizes))
        at = np.repeat(begin - indptr[:-1], sizes) + np.arange(indptr[-1])
        parts = weights[at], topics[at].astype(np.int32), indptr
        for part in parts:
            part.flags.writeable = False
        return sp.csr_array(parts, shape=(len(sizes), self.d))

    @cached_property
    def dense(self) -> Floats:
        """w̄ as a NumPy array, read-only."""
        array: Floats = self.csr.toarray()
        array.flags.writeable = False
        return array

    @cached_property
    def _present_csr(self) -> sp.csr_array:
        """The rows of ``csr`` of the items that have not been removed."""
        return self.csr if self.present.all() else self.csr[np.flatnonzero(self.present)]

    def typical(self, topics: Sequence[int], *, other_than: int | None = None) -> Floats | None:
        """Return the weights (d,) that items other than this one have on average on these topics, by their numbers.

        Return None if no such item has a weight on a topic that fades. Any thread can call this. Cost: O(nnz).
        """
        matrix = self._present_csr
        if other_than is not None and self.present[other_than]:
            others = self.present.copy()
            others[other_than] = False
            matrix = self.csr[np.flatnonzero(others)]
        return typical_weights(matrix, self.fading, np.array(topics))

    @cached_property
    def items_digest(self) -> str:
        """A short digest of the item names."""
        return digest(self.items)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, without what can be computed again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def weights_by_topic(items: Items, topics: Sequence[Hashable], e: int) -> dict[Any, float]:
    """Return the nonzero weights of item number e, by the names of its topics."""
    entries = slice(int(items.begin[e]), int(items.end[e]))
    numbers, weights = items.topics[entries].tolist(), items.weights[entries].tolist()
    return {topics[j]: weight for j, weight in zip(numbers, weights, strict=True)}


def digest(names: Sequence[Hashable]) -> str:
    """Return a short digest of names."""
    return sha256("\0".join(map(str, names)).encode()).hexdigest()[:16]
