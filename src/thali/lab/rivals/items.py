"""Policies with a weight from each item to each other item: item kNN and EASE."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from thali.catalog.catalog import Catalog
from thali.datasets.interactions import Interactions
from thali.lab.rivals.base import PersonalPolicy
from thali.lab.rivals.likes import KnownLikes
from thali.tools import checks
from thali.tools.types import Floats


class ItemToItem(PersonalPolicy):
    """The score of an item is the sum of the weights to it from the items that the person clicked.

    Cost for each user: O(clicks · weights of an item) to recommend.
    """

    @abstractmethod
    def fit(self) -> Any:
        """Return the weight from each item (row) to each other item (column): (L, L), dense or sparse."""

    @cached_property
    def weights(self) -> Any:
        """The weights (L, L). They are computed when they are first needed."""
        return self.fit()

    def personal(self, clicked: sp.csr_array) -> Floats:
        """Return the sums of weights. Each row is summed by itself, so it does not depend on the other users."""
        total = clicked @ self.weights
        return np.asarray(total.toarray() if sp.issparse(total) else total)


class ItemKNN(ItemToItem):
    """Item-based nearest neighbours (Sarwar et al. 2001): people who liked what you clicked also liked this.

    The similarity of items i and j is n_ij/(sqrt(n_i·n_j) + shrink), where n_i people like item i, and n_ij both. It is
    the cosine of their columns if shrink is 0. The score of an item is the sum of its similarities to the items that
    the person clicked, if they are among its ``neighbours`` most similar items. Ties go to the lowest item number.

    Parameters
    ----------
    likes, popularity: as in :class:`PersonalPolicy`.
    neighbours: how many, at least 1.
    shrink: at least 0. Large values favor similarities that rest on many people.

    Cost: O(Σ (likes of a person)² + L²·log L) to fit.

    Examples
    --------
    >>> import thali
    >>> data = thali.datasets.Interactions.of(
    ...     [("ana", "Alien", 5), ("ana", "Brazil", 5), ("bob", "Alien", 5), ("bob", "Brazil", 5), ("bob", "Up", 5)],
    ...     {"Alien": [], "Brazil": [], "Up": []},
    ... )
    >>> policy = ItemKNN(thali.Catalog([[0.5]] * 3, items=data.items), 2, data, shrink=0)
    >>> policy.weights.toarray().round(2)
    array([[0.  , 1.  , 0.71],
           [1.  , 0.  , 0.71],
           [0.71, 0.71, 0.  ]])

    """

    def __init__(
        self,
        catalog: Catalog,
        K: int,
        likes: Interactions | KnownLikes,
        *,
        neighbours: int = 100,
        shrink: float = 10.0,
        popularity: float = 0.0,
        threads: int = 1,
    ) -> None:
        super().__init__(catalog, K, likes, popularity=popularity, threads=threads)
        self.neighbours = checks.integer(f"neighbours of {self.name}", neighbours, low=1)
        self.shrink = checks.number(f"shrink of {self.name}", shrink, low=0.0)

    def fit(self) -> sp.csr_array:
        """Return the similarities to the nearest neighbours, as a sparse matrix (L, L)."""
        settings = self.neighbours, self.shrink
        return self.likes.fitted("neighbours", settings, lambda: nearest(self.likes.gram, *settings))


def nearest(gram: sp.csr_array, neighbours: int, shrink: float) -> sp.csr_array:
    """Return the similarities (L, L), in which each column has only its nearest neighbours. gram: XᵀX."""
    columns = sp.csc_array(gram)
    columns.sort_indices()
    size = np.sqrt(gram.diagonal())
    rows, values, counts = [], [], []
    for item, (a, b) in enumerate(pairwise(columns.indptr)):
        row = columns.indices[a:b]
        value = columns.data[a:b] / (size[row] * size[item] + shrink)
        value[row == item] = 0.0
        order = np.argsort(-value, kind="stable")[:neighbours]
        order = order[value[order] > 0.0]
        rows.append(row[order])
        values.append(value[order])
        counts.append(order.size)
    indptr = np.append(0, np.cumsum(counts))
    return sp.csr_array(sp.csc_array((np.concatenate(values), np.concatenate(rows), indptr), shape=gram.shape))


class EASE(ItemToItem):
    """Linear regression of each item on all others (Steck 2019, "Embarrassingly Shallow Autoencoders").

    B minimizes ‖X - XB‖² + λ‖B‖² with a diagonal of zeros, where X (n, L) are the likes of others. With
    P = (XᵀX + λI)⁻¹, the solution is B_ij = -P_ij/P_jj for i ≠ j. The score of item j is the sum of B_ij over the items
    i that the person clicked.

    Parameters
    ----------
    likes, popularity: as in :class:`PersonalPolicy`.
    regularization: λ, above 0.

    Cost: O(Σ (likes of a person)² + L³) to fit, and 8·L² bytes of memory, several times that while fitting.

    Examples
    --------
    >>> import thali
    >>> data = thali.datasets.Interactions.of(
    ...     [("ana", "Alien", 5), ("ana", "Brazil", 5), ("bob", "Alien", 5), ("bob", "Brazil", 5), ("bob", "Up", 5)],
    ...     {"Alien": [], "Brazil": [], "Up": []},
    ... )
    >>> policy = EASE(thali.Catalog([[0.5]] * 3, items=data.items), 2, data, regularization=1)
    >>> policy.weights.round(2)
    array([[0. , 0.6, 0.2],
           [0.6, 0. , 0.2],
           [0.2, 0.2, 0. ]])

    """

    def __init__(
        self,
        catalog: Catalog,
        K: int,
        likes: Interactions | KnownLikes,
        *,
        regularization: float = 300.0,
        popularity: float = 0.0,
        threads: int = 1,
    ) -> None:
        super().__init__(catalog, K, likes, popularity=popularity, threads=threads)
        self.regularization = checks.number(f"regularization of {self.name}", regularization, low=0.0, strict=True)

    def fit(self) -> Any:
        """Return B (L, L)."""
        return self.likes.fitted("ease", self.regularization, lambda: regression(self.likes.gram, self.regularization))


def regression(gram: sp.csr_array, regularization: float) -> Floats:
    """Return B of :class:`EASE`, given XᵀX."""
    P = gram.toarray()
    P[np.diag_indices_from(P)] += regularization
    P = np.linalg.inv(P)
    B: Floats = P / -np.diag(P)
    np.fill_diagonal(B, 0.0)
    return B
