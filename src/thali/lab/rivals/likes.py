"""What is known of other people: their likes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from reprlib import repr as short
from typing import Any

import numpy as np
import scipy.sparse as sp

from thali.catalog.catalog import Catalog
from thali.datasets.interactions import Interactions
from thali.tools import checks
from thali.tools.types import Floats


class KnownLikes:
    """The likes of n training people, and what has been computed from them.

    Every interaction counts as a like, so call ``attracted`` first. The object keeps the last model of each kind that
    was fitted to these likes. So if you create several policies from one object, those that differ only in how they
    use a model share it.

    Examples
    --------
    >>> import thali
    >>> data = thali.datasets.Interactions.of(
    ...     [("ana", "Heat", 5), ("ana", "Fargo", 5), ("bob", "Heat", 5)], {"Heat": [], "Fargo": [], "Ronin": []}
    ... )
    >>> KnownLikes(data).popularity                               # Fargo, Heat, Ronin
    array([0.5, 1. , 0. ])

    """

    def __init__(self, interactions: Interactions) -> None:
        self.interactions: Interactions = checks.instance("interactions of KnownLikes", interactions, Interactions)
        if not len(interactions):
            raise ValueError("interactions of KnownLikes must contain at least one like, got none")
        self._fitted: dict[str, tuple[Hashable, Any]] = {}

    @classmethod
    def of(cls, name: str, likes: Any) -> KnownLikes:
        """Return likes as they are, or made from interactions. name: what to call them in an error message."""
        if isinstance(likes, KnownLikes):
            return likes
        if not isinstance(likes, Interactions):
            raise TypeError(f"{name} must be thali.datasets.Interactions or KnownLikes, got {short(likes)}")
        return cls(likes)

    @cached_property
    def matrix(self) -> sp.csr_array:
        """X (n, L), float64: 1 for each like. The items of a person are in ascending order."""
        matrix = self.interactions.matrix().astype(np.float64)
        matrix.sort_indices()
        return matrix

    @cached_property
    def popularity(self) -> Floats:
        """(L,): the share of people who like each item."""
        counts = np.bincount(self.interactions.item, minlength=len(self.interactions.items))
        return np.asarray(counts / len(self.interactions.users))

    @cached_property
    def standardized(self) -> Floats:
        """(L,): popularity minus its mean, divided by its standard deviation. 0 if all items are equally popular."""
        spread = self.popularity.std()
        return np.asarray((self.popularity - self.popularity.mean()) / (spread if spread > 0.0 else 1.0))

    @cached_property
    def gram(self) -> sp.csr_array:
        """XᵀX (L, L): how many people like both items of a pair."""
        return sp.csr_array(self.matrix.T @ self.matrix)

    @cached_property
    def catalog(self) -> Catalog:
        """A catalog of the items, with their popularity as the only weight. Policies with likes use only its items."""
        return Catalog(self.popularity[:, None], items=self.interactions.items)

    def fitted(self, kind: str, settings: Hashable, fit: Callable[[], Any]) -> Any:
        """Return the last model of this kind if it was fitted with these settings. Otherwise, fit a new one."""
        if kind not in self._fitted or self._fitted[kind][0] != settings:
            self._fitted.pop(kind, None)  # first, because two models may not fit into memory
            self._fitted[kind] = settings, fit()
        return self._fitted[kind][1]
