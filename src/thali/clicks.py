"""How people click: the paper's three models, and what a model of your own must say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np

from thali import checks
from thali.catalog import Catalog
from thali.kernels import browse, learn
from thali.lists import greedy_lists
from thali.randomness import uniforms
from thali.types import Booleans, Floats, Integers

FLOAT = np.dtype(np.float64)


class Habits(NamedTuple):
    """What people do at a position they examine: each (users, K), or what NumPy broadcasts to that."""

    click: Any
    """Probability of a click."""
    after_click: Any
    """Probability of going on to the next position after a click."""
    after_pass: Any
    """The same after no click."""


class ClickModel(ABC):
    """Users who scan a list from the top, click on what attracts them, and at each position go on or leave.

    A model of your own defines ``users`` and ``L`` (the numbers of users and items), ``attraction`` and
    ``best_lists``; and ``habits``, if its people do not leave at the first click. All else follows from these. People
    whose ways depend on more than the position they are at also define ``click_probability`` and ``respond``.
    """

    users: int
    L: int
    catalog: Catalog | None = None
    theta: Floats | None = None

    @abstractmethod
    def attraction(self, lists: Any) -> Floats:
        """Probability that the item at each position attracts a user who examines it (users, K)."""

    @abstractmethod
    def best_lists(self, K: int) -> Integers:
        """The greedy lists (users, K) under the true model: what regret is measured against.

        Position by position the item that adds the most to :meth:`click_probability`.
        """

    def habits(self, attraction: Floats) -> Habits:
        """What people do where items attract so much (users, K); here a cascade: click, and leave at the first."""
        return Habits(attraction, 0.0, 1.0)

    def at(self, step: int) -> ClickModel:
        """The model in force after so many steps: itself, as tastes do not change; see :class:`thali.Drift`."""
        return self

    def examination(self, lists: Any) -> Floats:
        """Probability that each position is examined (users, K): Π_{i<k} (c_i·after_click_i + (1-c_i)·after_pass_i).

        Cost: that of attraction, and O(K) a user, here and in all that follows.
        """
        habits, shape = self._habits(lists)
        return _reached(*habits, shape)

    def click_probability(self, lists: Any) -> Floats:
        """Probability of at least one click (users,): f(A, θ) = Σ_k c_k Π_{i<k} (1-c_i)·after_pass_i.

        Where people go on after no click, 1 - Π_k (1-c_k), Eq. click probability.
        """
        (click, _, after_pass), (users, K) = self._habits(lists)
        value = np.empty(users)
        browse.chance(click, after_pass, K, value)
        return value

    def expected_clicks(self, lists: Any) -> Floats:
        """Expected number of clicks (users,); for a cascade, the probability of a click."""
        habits, shape = self._habits(lists)
        return np.asarray((_reached(*habits, shape) * habits[0]).sum(axis=1))

    def respond(self, lists: Any, luck: Floats) -> Booleans:
        """Clicks (users, K) for given uniform numbers luck (users, K): an examined item is clicked where luck < c.

        The same number says who goes on, so that there is one a position; see :func:`thali.kernels.browse.look`.
        """
        return self._walk(lists, luck)[0]

    def walk(self, lists: Any, luck: Floats) -> tuple[Booleans, Booleans]:
        """The clicks of :meth:`respond`, and which positions were examined, which nobody sees: both (users, K)."""
        clicks, depth = self._walk(lists, luck)
        return clicks, np.arange(clicks.shape[1]) < depth[:, None]

    def outcome(self, lists: Any, luck: Floats) -> tuple[Booleans, Floats]:
        """:meth:`respond` and :meth:`click_probability` together, with attraction computed once where both are ours.

        The short road of :func:`thali.simulate`, which draws luck itself: of an array only the shape is checked.
        """
        mine = type(self)
        if mine.respond is not ClickModel.respond or mine.click_probability is not ClickModel.click_probability:
            return self.respond(lists, luck), self.click_probability(lists)
        (click, after_click, after_pass), shape = self._habits(lists)
        if type(luck) is not np.ndarray or luck.shape != shape:
            luck = checks.floats("luck", luck, shape, "(users, K)")
        clicks, value = np.zeros(shape, np.bool_), np.empty(shape[0])
        browse.outcome(click, after_click, after_pass, luck, clicks, value)
        return clicks, value

    def sample(self, lists: Any, rng: Any) -> Booleans:
        """Clicks (users, K) drawn with rng: a generator, or a sequence of one generator for each user."""
        lists = self._lists(lists)
        return self.respond(lists, uniforms(rng, *lists.shape))

    def _walk(self, lists: Any, luck: Floats) -> tuple[Booleans, Integers]:
        """Clicks (users, K), and how many positions were examined (users,)."""
        habits, shape = self._habits(lists)
        luck = checks.floats("luck", luck, shape, "(users, K)")
        clicks, depth = np.zeros(shape, dtype=np.bool_), np.empty(shape[0], dtype=np.int64)
        browse.walk(*habits, luck, clicks, depth)
        return clicks, depth

    def _habits(self, lists: Any) -> tuple[tuple[Floats, Floats, Floats], tuple[int, int]]:
        """The habits at these lists as the kernels read them, arrays (users or 1, K or 1), and (users, K)."""
        attraction = self.attraction(lists)
        habits = self.habits(attraction)
        click, after_click, after_pass = _plane(habits[0]), _plane(habits[1]), _plane(habits[2])
        users, K = shape = attraction.shape
        fits = (shape, (1, 1), (1, K), (users, 1))
        if click.shape not in fits or after_click.shape not in fits or after_pass.shape not in fits:
            came = ", ".join(f"{name} {np.shape(part)}" for name, part in zip(Habits._fields, habits, strict=True))
            raise ValueError(f"habits of {type(self).__name__} must fit (users, K) = ({users}, {K}), got {came}")
        return (click, after_click, after_pass), (users, K)

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

    @classmethod
    def of_topics(cls, catalog: Catalog, theta: Any) -> Self:
        """A cascade in which item e attracts with probability ⟨w̄_e, θ⟩: people of topics who do not mind repetition.

        catalog: its weights as they are now; theta: (users, d), as in :class:`DiverseCascade`. Cost: O(users·nnz).
        """
        checks.instance("catalog of Cascade", catalog, Catalog)
        theta = checks.fixed(checks.preferences("theta of Cascade", theta, catalog.d))
        # θ may sum to a little above 1, by rounding.
        model = cls(np.minimum(1.0, (catalog.csr @ theta.T).T))
        model.catalog, model.theta = catalog, theta
        return model

    def with_theta(self, theta: Any) -> Self:
        """The same people with other preferences theta (users, d), where they are :meth:`of_topics`."""
        if self.catalog is None:
            raise ValueError("Cascade must be made of topics to have other preferences, got one made of attraction")
        return self.of_topics(self.catalog, theta)

    def attraction(self, lists: Any) -> Floats:
        """w̄(a_k) (users, K)."""
        return np.asarray(np.take_along_axis(self._attraction, self._lists(lists), axis=1))

    def best_lists(self, K: int) -> Integers:
        """The K most attractive items, ties to the lowest (users, K)."""
        attraction, items = self._attraction, self.L
        if self.catalog is not None:  # from which items may have been removed
            there = self.catalog.present[: self.L]
            attraction, items = np.where(there, attraction, -1.0), int(there.sum())
        K = checks.list_length("best_lists", K, items)
        return np.argsort(-attraction, axis=1, kind="stable")[:, :K].astype(np.int64)


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
        self.theta: Floats = checks.fixed(checks.preferences(f"theta of {type(self).__name__}", theta, catalog.d))
        self.users = len(self.theta)

    def with_theta(self, theta: Any) -> Self:
        """The same people with other preferences theta (users, d)."""
        other = copy(self)
        other.theta = checks.fixed(checks.preferences(f"theta of {type(self).__name__}", theta, self.theta.shape[1]))
        other.users = len(other.theta)
        return other

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
        """The greedy lists under θ* (users, K), Eq. greedy maximization.

        Also those of the models below: position k adds c_k·Π_{i<k} (1-c_i)·after_pass_i to f, and the larger the
        attraction, the larger c_k.
        """
        assert self.catalog is not None
        return greedy_lists(self.catalog, self.theta, K)


class LinearSubmodular(DiverseCascade):
    """The model of Yue and Guestrin (Section 2.2): attraction as in the diverse cascade, every position examined.

    Several clicks are possible; their expected number is ⟨c(A), θ*⟩ (Eq. yue number of clicks).
    """

    def habits(self, attraction: Floats) -> Habits:
        """Goes on, clicked or not."""
        return Habits(attraction, 1.0, 1.0)


def _reached(click: Floats, after_click: Floats, after_pass: Floats, shape: tuple[int, int]) -> Floats:
    """Probability that people get as far as each position (users, K)."""
    stay = click * after_click + (1.0 - click) * after_pass
    reached = np.ones(shape)
    reached[:, 1:] = np.cumprod(np.broadcast_to(stay, shape), axis=1)[:, :-1]
    return reached


def _plane(part: Any) -> Floats:
    """An array with two axes, in models of ours always of the one type that kernels are compiled for ahead of time."""
    if type(part) is float:
        return _everywhere(part)
    if isinstance(part, np.ndarray) and part.ndim == 2 and part.dtype is FLOAT:
        return part
    return np.array(part, dtype=np.float64, ndmin=2)


@lru_cache(maxsize=64)
def _everywhere(share: float) -> Floats:
    return np.full((1, 1), share)
