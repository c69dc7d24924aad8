"""How people click: the cascade model, the linear submodular model, and the paper's diverse cascade model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from thali import checks
from thali.catalog import Catalog
from thali.kernels import learn
from thali.lists import greedy_lists
from thali.randomness import uniforms
from thali.types import Booleans, Floats, Integers


class ClickModel(ABC):
    """Users who scan a list from the top and are attracted by each item they examine, or not.

    A model of your own defines ``users`` and ``L`` (the numbers of users and items), ``attraction`` and
    ``best_lists``. Where people stay (``leaves`` False), positions are clicked independently of one another, and
    ``examination`` may be of your own too; whoever fits neither also defines ``click_probability`` and ``respond``.
    """

    #: Whether the user leaves at the first click (a cascade) or goes on to the end of the list.
    leaves: ClassVar[bool] = True
    users: int
    L: int
    catalog: Catalog | None = None

    @abstractmethod
    def attraction(self, lists: Any) -> Floats:
        """Probability that the item at each position attracts a user who examines it (users, K)."""

    @abstractmethod
    def best_lists(self, K: int) -> Integers:
        """The greedy lists (users, K) under the true model: what regret is measured against."""

    def examination(self, lists: Any) -> Floats:
        """Probability that each position is examined (users, K)."""
        if not self.leaves:
            return np.ones(self._lists(lists).shape)
        attraction = self.attraction(lists)
        passed = np.cumprod(1.0 - attraction, axis=1)
        return np.hstack([np.ones((len(passed), 1)), passed[:, :-1]])

    def click_probability(self, lists: Any) -> Floats:
        """Probability of at least one click (users,): f(A, θ) = 1 - Π_k (1 - attraction_k), Eq. click probability.

        For people who stay, attraction_k times the probability that position k is examined.
        """
        return np.asarray(1.0 - np.prod(1.0 - self._attracted(lists), axis=1))

    def expected_clicks(self, lists: Any) -> Floats:
        """Expected number of clicks (users,); for a cascade, the probability of a click."""
        return np.asarray((self.examination(lists) * self.attraction(lists)).sum(axis=1))

    def respond(self, lists: Any, luck: Floats) -> Booleans:
        """Clicks (users, K) for given uniform numbers luck (users, K): an item attracts where luck < attraction."""
        attraction = self._attracted(lists)
        luck = checks.floats("luck", luck, attraction.shape, "(users, K)")
        attracted = luck < attraction
        if self.leaves:
            attracted &= np.cumsum(attracted, axis=1) == 1
        return np.asarray(attracted)

    def outcome(self, lists: Any, luck: Floats) -> tuple[Booleans, Floats]:
        """:meth:`respond` and :meth:`click_probability` together, with attraction computed once where both are ours."""
        mine = type(self)
        if mine.respond is not ClickModel.respond or mine.click_probability is not ClickModel.click_probability:
            return self.respond(lists, luck), self.click_probability(lists)
        attraction = self._attracted(lists)
        clicks = checks.floats("luck", luck, attraction.shape, "(users, K)") < attraction
        value = np.empty(self.users)
        learn.outcome(attraction, clicks, self.leaves, value)
        return clicks, value

    def sample(self, lists: Any, rng: Any) -> Booleans:
        """Clicks (users, K) drawn with rng: a generator, or a sequence of one generator for each user."""
        lists = self._lists(lists)
        return self.respond(lists, uniforms(rng, *lists.shape))

    def _attracted(self, lists: Any) -> Floats:
        """Probability that each position attracts, given (in a cascade) that nothing above it did."""
        attraction = self.attraction(lists)
        return attraction if self.leaves else attraction * self.examination(lists)

    def _lists(self, lists: Any) -> Integers:
        return checks.item_lists("lists", lists, self.users, self.L)


class Cascade(ClickModel):
    """The cascade model (Section 2.1): item e attracts with probability w̄(e), whatever stands above it.

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

    def attraction(self, lists: Any) -> Floats:
        """w̄(a_k) (users, K)."""
        return np.asarray(np.take_along_axis(self._attraction, self._lists(lists), axis=1))

    def best_lists(self, K: int) -> Integers:
        """The K most attractive items, ties to the lowest (users, K)."""
        K = checks.list_length("best_lists", K, self.L)
        return np.argsort(-self._attraction, axis=1, kind="stable")[:, :K].astype(np.int64)


class DiverseCascade(ClickModel):
    """The paper's diverse cascade model (Section 3): a cascade in which an item attracts by what it adds.

    Item a_k attracts with probability ⟨Δ(a_k | a_1..a_{k-1}), θ*⟩ (Eq. attraction probability).

    Parameters
    ----------
    catalog: whose coverage defines Δ.
    theta: θ* (users, d), non-negative, each summing to at most 1.

    Examples
    --------
    The paper's example of position bias (Section 3): item 0 covers topic 0, all others topic 1, and θ* = (0.5, 0.5).
    Under the linear submodular model item 0 is clicked with probability 0.5 wherever it stands; here the second
    position is examined only by those whom the first did not attract.

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
        self.theta = checks.fixed(checks.preferences(f"theta of {type(self).__name__}", theta, catalog.d))
        self.users = len(self.theta)

    @property
    def L(self) -> int:  # type: ignore[override]  # a plain attribute of other models, whose items do not change
        """The number of items, as many as the catalogue has by now."""
        assert self.catalog is not None
        return self.catalog.L

    def attraction(self, lists: Any) -> Floats:
        """⟨Δ(a_k | a_1..a_{k-1}), θ*⟩ (users, K). Cost: O(K·s) a user for items of s topics."""
        lists = self._lists(lists)
        assert self.catalog is not None
        if self.catalog.own is not None:
            return np.asarray(np.einsum("ukd,ud->uk", self.catalog.gains(lists), self.theta))
        out = np.empty(lists.shape)
        c = self.catalog
        learn.list_attraction(c.kind, c.sparse, self.theta, lists, out)
        return out

    def best_lists(self, K: int) -> Integers:
        """The greedy lists under θ* (users, K), Eq. greedy maximization."""
        assert self.catalog is not None
        return greedy_lists(self.catalog, self.theta, K)


class LinearSubmodular(DiverseCascade):
    """The model of Yue and Guestrin (Section 2.2): attraction as in the diverse cascade, every position examined.

    Several clicks are possible; their expected number is ⟨c(A), θ*⟩ (Eq. yue number of clicks).
    """

    leaves = False
