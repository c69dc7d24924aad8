"""The three click models in the paper: the cascade, the diverse cascade, and the model of Yue and Guestrin."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np

from thali.catalog.candidates import EVERY, TooFewItems, exclusions
from thali.catalog.catalog import Catalog
from thali.catalog.coverage import cover_item, empty, gain
from thali.catalog.items import Items
from thali.lists.greedy import greedy_lists
from thali.lists.top import top_lists
from thali.people.model import ClickModel, Habits
from thali.tools import checks
from thali.tools.jit import kernel
from thali.tools.types import Floats, Integers


class Cascade(ClickModel):
    """The cascade model (Section 2.1): item e attracts with probability w̄(e), no matter which items are above it.

    Examples
    --------
    >>> import thali
    >>> model = thali.Cascade([[0.5, 0.2, 0.4]])
    >>> model.best_lists(2), model.click_probability([[0, 2]])
    (array([[0, 2]]), array([0.7]))

    """

    def __init__(self, attraction: Any) -> None:
        """attraction: (users, L), the probability that each item attracts each user."""
        probabilities = checks.floats("attraction of Cascade", attraction, (None, None), "(users, L)")
        self._attraction = checks.read_only(checks.within("attraction of Cascade", probabilities, 0.0, 1.0))
        self.users, self.L = self._attraction.shape

    @classmethod
    def of_topics(cls, catalog: Catalog, theta: Any) -> Self:
        """Return a cascade in which item e attracts with probability ⟨w̄_e, θ⟩, even if its topics are already covered.

        catalog: the current weights are used. theta: (users, d), as in :class:`DiverseCascade`. Cost: O(users·nnz).
        """
        checks.instance("catalog of Cascade", catalog, Catalog)
        theta = checks.read_only(checks.preferences("theta of Cascade", theta, catalog.d))
        # Because of rounding, θ may sum to slightly more than 1.
        model = cls(np.minimum(1.0, (catalog.csr @ theta.T).T))
        model.catalog, model.theta = catalog, theta
        return model

    def with_theta(self, theta: Any) -> Self:
        """Return the same model with other preferences theta (users, d). Only for a model made by :meth:`of_topics`."""
        if self.catalog is None:
            raise ValueError("with_theta of Cascade needs a model made by of_topics, got one made from attraction")
        return self.of_topics(self.catalog, theta)

    def attraction(self, lists: Any) -> Floats:
        """Return w̄(a_k) (users, K)."""
        chosen = np.take_along_axis(self._attraction, self._lists(lists), axis=1)
        return np.asarray(chosen, dtype=np.float64)

    def best_lists(self, K: int, exclude: Any = None) -> Integers:
        """Return the K most attractive items (users, K). Ties go to the lowest item number. Cost: O(L) for each user.

        exclude: items not to show, as in :meth:`thali.Policy.recommend`.
        """
        left = np.ones((1, self.L), dtype=np.bool_)
        if self.catalog is not None:  # items may have been removed from it
            left[0] = self.catalog.present[: self.L]
        K = checks.list_length("best_lists", K, int(np.count_nonzero(left)))
        if exclude is not None:
            left = left & ~exclusions(exclude, self.users, self.L)
            fewest = int(np.count_nonzero(left, axis=1).min())
            if fewest < K:
                raise TooFewItems(
                    f"argument 'exclude' of best_lists must leave at least K = {K} items, got {fewest}", fewest
                )
        out = np.empty((self.users, K), dtype=np.int64)
        top_lists(np.where(left, self._attraction, -1.0), out, EVERY, EVERY)
        return out


class DiverseCascade(ClickModel):
    """The paper's diverse cascade model (Section 3): a cascade in which an item attracts by what it adds to the list.

    Item a_k attracts with probability ⟨Δ(a_k | a_1..a_{k-1}), θ*⟩ (Section 2.2, "attraction probability").

    Parameters
    ----------
    catalog: the catalog whose coverage defines Δ.
    theta: θ* (users, d), not negative. Each row sums to at most 1.

    Examples
    --------
    This is the paper's example of position bias (Section 3). Item 0 covers topic 0, all other items cover topic 1, and
    θ* = (0.5, 0.5). Under the linear submodular model, item 0 is clicked with probability 0.5 at either position. Under
    the diverse cascade model, the second position is examined only if the first item did not attract.

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
        self.theta: Floats = checks.read_only(checks.preferences(f"theta of {type(self).__name__}", theta, catalog.d))
        self.users = len(self.theta)

    def with_theta(self, theta: Any) -> Self:
        """Return the same model with other preferences theta (users, d)."""
        other = copy(self)
        given = checks.preferences(f"theta of {type(self).__name__}", theta, self.theta.shape[1])
        other.theta = checks.read_only(given)
        other.users = len(other.theta)
        return other

    @property
    def L(self) -> int:  # type: ignore[override]  # an attribute in other models, because their items do not change
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

    def best_lists(self, K: int, exclude: Any = None) -> Integers:
        """Return the greedy lists under θ* (users, K), as :func:`thali.greedy_lists` does.

        These lists are also greedy for the subclasses, because position k adds c_k·Π_{i<k} (1-c_i)·after_pass_i to f,
        and c_k increases with the attraction.
        """
        assert self.catalog is not None
        return greedy_lists(self.catalog, self.theta, K, exclude=exclude)


class LinearSubmodular(DiverseCascade):
    """The model of Yue and Guestrin (Section 2.2): like the diverse cascade, but users examine all positions.

    Users may click several times. The expected number of clicks is ⟨c(A), θ*⟩.
    """

    def habits(self, attraction: Floats) -> Habits:
        """Return the habits: users always continue, whether they click or not."""
        return Habits(attraction, 1.0, 1.0)


@kernel
def list_attraction(kind: int, items: Items, theta: Floats, lists: Integers, out: Floats) -> None:
    """Write ⟨Δ(a_k | a_1..a_{k-1}), θ⟩ for every position to out (users, K). Cost: O(K·s) for each user."""
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
            cover_item(kind, items, item, state)
            out[user, k] = total
