"""What a click model is: how people browse a list, what they click, how far they look, and how likely a click is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from thali.catalog.catalog import Catalog
from thali.tools import checks
from thali.tools.jit import inlined, kernel
from thali.tools.randomness import uniforms
from thali.tools.types import Booleans, Floats, Integers

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
        """The model in force after this many steps: itself, as tastes do not change; see :class:`thali.Drift`."""
        return self

    def examination(self, lists: Any) -> Floats:
        """Probability that each position is examined (users, K): Π_{i<k} (c_i·after_click_i + (1-c_i)·after_pass_i).

        Cost: that of attraction, and O(K) a user, here and in all that follows.
        """
        habits, shape = self._habits(lists)
        return _reached(*habits, shape)

    def click_probability(self, lists: Any) -> Floats:
        """Probability of at least one click (users,): f(A, θ) = Σ_k c_k Π_{i<k} (1-c_i)·after_pass_i.

        Where people always go on after no click, that is 1 - Π_k (1-c_k) (Section 3.1, "Click Model").
        """
        (click, _, after_pass), (users, K) = self._habits(lists)
        value = np.empty(users)
        chance(click, after_pass, K, value)
        return value

    def expected_clicks(self, lists: Any) -> Floats:
        """Expected number of clicks (users,); for a cascade, the probability of a click."""
        habits, shape = self._habits(lists)
        return np.asarray((_reached(*habits, shape) * habits[0]).sum(axis=1))

    def respond(self, lists: Any, luck: Floats) -> Booleans:
        """Clicks (users, K) for given uniform numbers luck (users, K): an examined item is clicked where luck < c.

        The same number says who goes on, so that there is one a position; see :func:`look`.
        """
        return self._walk(lists, luck)[0]

    def walk(self, lists: Any, luck: Floats) -> tuple[Booleans, Booleans]:
        """The clicks of :meth:`respond`, and which positions were examined, which nobody sees: both (users, K)."""
        clicks, depth = self._walk(lists, luck)
        return clicks, np.arange(clicks.shape[1]) < depth[:, None]

    def outcome(self, lists: Any, luck: Floats) -> tuple[Booleans, Floats]:
        """:meth:`respond` and :meth:`click_probability` together, with attraction computed once where both are ours.

        Used by :func:`thali.simulate`, which draws luck itself: of an array only the shape is checked.
        """
        mine = type(self)
        if mine.respond is not ClickModel.respond or mine.click_probability is not ClickModel.click_probability:
            return self.respond(lists, luck), self.click_probability(lists)
        (click, after_click, after_pass), shape = self._habits(lists)
        if type(luck) is not np.ndarray or luck.shape != shape:
            luck = checks.floats("luck", luck, shape, "(users, K)")
        clicks, value = np.zeros(shape, np.bool_), np.empty(shape[0])
        outcome(click, after_click, after_pass, luck, clicks, value)
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
        walk(*habits, luck, clicks, depth)
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


# Kernels. click, after_click and after_pass are each (users, K), or of length 1 along an axis where all are the same.


@inlined
def at(shares: Floats, user: int, k: int) -> Any:
    """The entry of this user and position; 1 along an axis: the same for all."""
    return shares[user if shares.shape[0] > 1 else 0, k if shares.shape[1] > 1 else 0]


@inlined
def look(click: Floats, after_click: Floats, after_pass: Floats, luck: Floats, user: int, clicks: Booleans) -> int:
    """How many positions this user examines; the clicks, into clicks (users, K), which was all False.

    One uniform number u a position decides both: u < c·after_click, clicked and went on; u < c, clicked and left; of
    the rest [c, 1), the lowest share after_pass went on.
    """
    K = luck.shape[1]
    for k in range(K):
        u, c = luck[user, k], at(click, user, k)
        if u < c:
            clicks[user, k] = True
            on = u < c * at(after_click, user, k)
        else:
            q = at(after_pass, user, k)
            on = q == 1.0 or u < c + (1.0 - c) * q
        if not on:
            return k + 1
    return int(K)


@inlined
def missed(click: Floats, after_pass: Floats, user: int, K: int) -> float:
    """Probability that this user clicks nothing: that they see the whole list, or leave before its end, without."""
    looking, left = 1.0, 0.0
    for k in range(K):
        looking *= 1.0 - at(click, user, k)
        q = at(after_pass, user, k)
        left += looking * (1.0 - q)
        looking *= q
    return looking + left


@kernel
def walk(
    click: Floats, after_click: Floats, after_pass: Floats, luck: Floats, clicks: Booleans, depth: Integers
) -> None:
    """Clicks into clicks (users, K), and how many positions were examined into depth (users,). Cost: O(K) a user."""
    for user in range(depth.size):
        depth[user] = look(click, after_click, after_pass, luck, user, clicks)


@kernel
def chance(click: Floats, after_pass: Floats, K: int, value: Floats) -> None:
    """Probability of at least one click into value (users,). Cost: O(K) a user.

    Σ_k c_k Π_{i<k} (1-c_i)·after_pass_i, as 1 less that of none: to the bit 1 - Π_k (1-c_k) where after_pass is 1.
    """
    for user in range(value.size):
        value[user] = 1.0 - missed(click, after_pass, user, K)


@kernel
def outcome(
    click: Floats, after_click: Floats, after_pass: Floats, luck: Floats, clicks: Booleans, value: Floats
) -> None:
    """Clicks of :func:`walk` and probability of :func:`chance`, in one call."""
    users, K = luck.shape
    for user in range(users):
        look(click, after_click, after_pass, luck, user, clicks)
        value[user] = 1.0 - missed(click, after_pass, user, K)
