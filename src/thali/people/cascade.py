"""The paper's three click models: the cascade, the diverse cascade, and the model of Yue and Guestrin."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np

from thali.catalog.catalog import Catalog
from thali.catalog.coverage import cover, empty, gain
from thali.catalog.items import Items
from thali.lists.greedy import greedy_lists
from thali.people.model import ClickModel, Habits
from thali.tools import checks
from thali.tools.jit import kernel
from thali.tools.types import Floats, Integers


class Cascade(ClickModel):
    """The cascade model (Section 2.1): item e attracts with probability w̄(e), whatever items are above it.

    Examples
    --------
    >>> import thali
    >>> model = thali.Cascade([[0.5, 0.2, 0.4]])
    >>> model.best_lists(2), model.click_probability([[0, 2]])
    (array([[0, 2]]), array([0.7]))

    """

    def __init__(self, attraction: Any) -> None:
        """attraction: (users, L), probabilities."""
        probabilities = checks.floats("attraction of Cascade", attraction, (None, None), "(users, L)")
        self._attraction = checks.fixed(checks.within("attraction of Cascade", probabilities, 0.0, 1.0))
        self.users, self.L = self._attraction.shape

    @classmethod
    def of_topics(cls, catalog: Catalog, theta: Any) -> Self:
        """Return a cascade in which item e attracts with probability ⟨w̄_e, θ⟩: topics matter, but repetition does not.

        catalog: its current weights are used; theta: (users, d), as in :class:`DiverseCascade`. Cost: O(users·nnz).
        """
        checks.instance("catalog of Cascade", catalog, Catalog)
        theta = checks.fixed(checks.preferences("theta of Cascade", theta, catalog.d))
        # θ may sum to slightly more than 1, by rounding.
        model = cls(np.minimum(1.0, (catalog.csr @ theta.T).T))
        model.catalog, model.theta = catalog, theta
        return model

    def with_theta(self, theta: Any) -> Self:
        """Return the same model with other preferences theta (users, d), if it was made by :meth:`of_topics`."""
        if self.catalog is None:
            raise ValueError("Cascade must be made of topics to have other preferences, got one made of attraction")
        return self.of_topics(self.catalog, theta)

    def attraction(self, lists: Any) -> Floats:
        """Return w̄(a_k) (users, K)."""
        return np.asarray(np.take_along_axis(self._attraction, self._lists(lists), axis=1))

    def best_lists(self, K: int) -> Integers:
        """Return the K most attractive items (users, K), ties to the lowest."""
        attraction, items = self._attraction, self.L
        if self.catalog is not None:  # items may have been removed from it
            there = self.catalog.present[: self.L]
            attraction, items = np.where(there, attraction, -1.0), int(there.sum())
        K = checks.list_length("best_lists", K, items)
        return np.argsort(-attraction, axis=1, kind="stable")[:, :K].astype(np.int64)


class DiverseCascade(ClickModel):
    """The paper's diverse cascade model (Section 3): a cascade in which the attraction of an item is what it adds.

    Item a_k attracts with probability ⟨Δ(a_k | a_1..a_{k-1}), θ*⟩ (Section 2.2, "attraction probability").

    Parameters
    ----------
    catalog: its coverage defines Δ.
    theta: θ* (users, d), non-negative, each summing to at most 1.

    Examples
    --------
    The paper's example of position bias (Section 3): item 0 covers topic 0, all others topic 1, and θ* = (0.5, 0.5).
    Under the linear submodular model, item 0 is clicked with probability 0.5 at either position. Under the diverse
    cascade model, the second position is examined only if the first item did not attract.

    >>> import numpy as np, thali
    >>> catalog = thali.Catalog([[1, 0], [0, 1], [0, 1]], coverage="max")
    >>> first, second = [[0, 1]], [[1, 0]]
    >>> def clicked(model, lists):
    ...     return model.examination(lists) * model.attraction(lists)
    >>> yue = thali.LinearSubmodular(catalog, [[0.5, 0.5]])
    >>> clicked(yue, first)[0, 0], clicked(yue, second)[0, 1]
    (np.float64(0.5), np.float64(0.5))
    >>> diverse = thali.DiverseCascade(catalog, [[0.5, 0.5]])
    >>> clicked(diverse, first)[0, 0], clicked(diverse, second)[0, 1]
    (np.float64(0.5), np.float64(0.25))

    """

    def __init__(self, catalog: Catalog, theta: Any) -> None:
        self.catalog: Catalog = checks.instance(f"catalog of {type(self).__name__}", catalog, Catalog)
        self.theta: Floats = checks.fixed(checks.preferences(f"theta of {type(self).__name__}", theta, catalog.d))
        self.users = len(self.theta)

    def with_theta(self, theta: Any) -> Self:
        """Return the same model with other preferences theta (users, d)."""
        other = copy(self)
        other.theta = checks.fixed(checks.preferences(f"theta of {type(self).__name__}", theta, self.theta.shape[1]))
        other.users = len(other.theta)
        return other

    @property
    def L(self) -> int:  # type: ignore[override]  # in other models an attribute, because their items do not change
        """The number of items in the catalog, including removed ones."""
        assert self.catalog is not None
        return self.catalog.L

    def attraction(self, lists: Any) -> Floats:
        """Return ⟨Δ(a_k | a_1..a_{k-1}), θ*⟩ (users, K). Cost: O(K·s) for each user and items with s topics."""
        lists = self._lists(lists)
        assert self.catalog is not None
        if self.catalog.custom is not None:
            return np.asarray(np.einsum("ukd,ud->uk", self.catalog.gains(lists), self.theta))
        out = np.empty(lists.shape)
        c = self.catalog
        list_attraction(c.kind, c.sparse, self.theta, lists, out)
        return out

    def best_lists(self, K: int) -> Integers:
        """Return the greedy lists under θ* (users, K): :func:`thali.greedy_lists`.

        They are also greedy for the subclasses: position k adds c_k·Π_{i<k} (1-c_i)·after_pass_i to f, and c_k grows
        with the attraction.
        """
        assert self.catalog is not None
        return greedy_lists(self.catalog, self.theta, K)


class LinearSubmodular(DiverseCascade):
    """The model of Yue and Guestrin (Section 2.2): attraction as in the diverse cascade, all positions examined.

    Several clicks are possible; their expected number is ⟨c(A), θ*⟩.
    """

    def habits(self, attraction: Floats) -> Habits:
        """Return habits of people who always go on, after a click or not."""
        return Habits(attraction, 1.0, 1.0)


@kernel
def list_attraction(kind: int, items: Items, theta: Floats, lists: Integers, out: Floats) -> None:
    """Write ⟨Δ(a_k | a_1..a_{k-1}), θ⟩ of every position to out (users, K). Cost: O(K·s) for each user."""
    users, K = lists.shape
    state = np.empty(theta.shape[1])
    for user in range(users):
        state[:] = empty(kind)
        for k in range(K):
            item = lists[user, k]
            total = 0.0
            for a in range(items.begin[item], items.end[item]):
                j = items.topics[a]
                total += gain(kind, items.weights[a], state[j]) * theta[user, j]
                state[j] = cover(kind, items.weights[a], state[j])
            out[user, k] = total
