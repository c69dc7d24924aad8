"""The base class of click models: how users browse a list, what they click, and how likely a click is."""

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
    """What users do at a position they examine. Each field is (users, K), or can be broadcast to that."""

    click: Any
    """Probability of a click."""
    after_click: Any
    """Probability of going on to the next position after a click."""
    after_pass: Any
    """Probability of going on to the next position after no click."""


class ClickModel(ABC):
    """Users who scan a list from the top, click on what attracts them, and at each position go on or leave.

    A model of your own defines ``users`` and ``L`` (the numbers of users and items), ``attraction`` and ``best_lists``;
    and ``habits``, if its users do not leave after the first click. Everything else follows from these. A model whose
    users remember earlier positions also defines ``click_probability`` and ``respond``.
    """

    users: int
    L: int
    catalog: Catalog | None = None
    theta: Floats | None = None

    @abstractmethod
    def attraction(self, lists: Any) -> Floats:
        """Return the probability that the item at each position attracts a user who examines it (users, K)."""

    @abstractmethod
    def best_lists(self, K: int) -> Integers:
        """Return the greedy lists (users, K) under the true model, against which regret is measured.

        Each position gets the item that adds the most to :meth:`click_probability`.
        """

    def habits(self, attraction: Floats) -> Habits:
        """Return what users do, given the attraction (users, K); by default a cascade: they leave after a click."""
        return Habits(attraction, 0.0, 1.0)

    def at(self, step: int) -> ClickModel:
        """Return the model in use after this many steps: itself, unless tastes change (see :class:`thali.Drift`)."""
        return self

    def examination(self, lists: Any) -> Floats:
        """Return the probability that each position is examined (users, K).

        Π_{i<k} (c_i·after_click_i + (1-c_i)·after_pass_i). Cost, here and in the methods below: that of attraction,
        plus O(K) for each user.
        """
        habits, shape = self._habits(lists)
        return _reached(*habits, shape)

    def click_probability(self, lists: Any) -> Floats:
        """Return the probability of at least one click (users,): f(A, θ) = Σ_k c_k Π_{i<k} (1-c_i)·after_pass_i.

        If users always go on after no click, this is 1 - Π_k (1-c_k) (Section 3.1, "Click Model").
        """
        (click, _, after_pass), (users, K) = self._habits(lists)
        value = np.empty(users)
        chance(click, after_pass, K, value)
        return value

    def expected_clicks(self, lists: Any) -> Floats:
        """Return the expected number of clicks (users,). For a cascade, this is the probability of a click."""
        habits, shape = self._habits(lists)
        return np.asarray((_reached(*habits, shape) * habits[0]).sum(axis=1))

    def respond(self, lists: Any, luck: Floats) -> Booleans:
        """Return clicks (users, K), given uniform numbers luck (users, K): an examined item is clicked if luck < c.

        The same number also decides whether the user goes on, so one for each position is enough; see :func:`look`.
        """
        return self._walk(lists, luck)[0]

    def walk(self, lists: Any, luck: Floats) -> tuple[Booleans, Booleans]:
        """Return the clicks of :meth:`respond`, and which positions were examined (not observable); both (users, K)."""
        clicks, depth = self._walk(lists, luck)
        return clicks, np.arange(clicks.shape[1]) < depth[:, None]

    def outcome(self, lists: Any, luck: Floats) -> tuple[Booleans, Floats]:
        """Return the results of :meth:`respond` and :meth:`click_probability`, from one call of attraction if possible.

        Used by :func:`thali.simulate`, which draws luck itself, so only the shape of an array is checked.
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
        """Return clicks (users, K) drawn with rng: one generator, or a sequence of generators, one for each user."""
        lists = self._lists(lists)
        return self.respond(lists, uniforms(rng, *lists.shape))

    def _walk(self, lists: Any, luck: Floats) -> tuple[Booleans, Integers]:
        """Return clicks (users, K), and how many positions were examined (users,)."""
        habits, shape = self._habits(lists)
        luck = checks.floats("luck", luck, shape, "(users, K)")
        clicks, depth = np.zeros(shape, dtype=np.bool_), np.empty(shape[0], dtype=np.int64)
        walk(*habits, luck, clicks, depth)
        return clicks, depth

    def _habits(self, lists: Any) -> tuple[tuple[Floats, Floats, Floats], tuple[int, int]]:
        """Return the habits for these lists, as arrays (users or 1, K or 1), and the shape (users, K)."""
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
    """Return the probability that users get as far as each position (users, K)."""
    stay = click * after_click + (1.0 - click) * after_pass
    reached = np.ones(shape)
    reached[:, 1:] = np.cumprod(np.broadcast_to(stay, shape), axis=1)[:, :-1]
    return reached


def _plane(part: Any) -> Floats:
    """Return a 2-D array; for our own models, always of the type for which kernels are compiled ahead of time."""
    if type(part) is float:
        return _everywhere(part)
    if isinstance(part, np.ndarray) and part.ndim == 2 and part.dtype is FLOAT:
        return part
    return np.array(part, dtype=np.float64, ndmin=2)


@lru_cache(maxsize=64)
def _everywhere(share: float) -> Floats:
    return np.full((1, 1), share)


# Kernels. click, after_click and after_pass are (users, K), or have length 1 along an axis where all are the same.


@inlined
def at(shares: Floats, user: int, k: int) -> Any:
    """Return the entry of this user and position. An axis of length 1 holds the value for all."""
    return shares[user if shares.shape[0] > 1 else 0, k if shares.shape[1] > 1 else 0]


@inlined
def look(click: Floats, after_click: Floats, after_pass: Floats, luck: Floats, user: int, clicks: Booleans) -> int:
    """Write this user's clicks to clicks (users, K), all False before. Return how many positions the user examines.

    One uniform number u for each position decides both whether the user clicks and whether they go on. If
    u < c·after_click, they click and go on; if u < c, they click and leave. Otherwise they do not click, and go on if u
    lies in the lowest share after_pass of [c, 1).
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
    """Return the probability that this user sees the whole list, or leaves before its end, without a click."""
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
    """Write clicks to clicks (users, K) and the number of examined positions to depth (users,). O(K) for each user."""
    for user in range(depth.size):
        depth[user] = look(click, after_click, after_pass, luck, user, clicks)


@kernel
def chance(click: Floats, after_pass: Floats, K: int, value: Floats) -> None:
    """Write the probability of at least one click to value (users,). Cost: O(K) for each user.

    Σ_k c_k Π_{i<k} (1-c_i)·after_pass_i, computed as 1 minus the probability of no click. So where after_pass is 1, it
    is 1 - Π_k (1-c_k) to the last bit.
    """
    for user in range(value.size):
        value[user] = 1.0 - missed(click, after_pass, user, K)


@kernel
def outcome(
    click: Floats, after_click: Floats, after_pass: Floats, luck: Floats, clicks: Booleans, value: Floats
) -> None:
    """Write the clicks of :func:`walk` and the probability of :func:`chance`, in one call."""
    users, K = luck.shape
    for user in range(users):
        look(click, after_click, after_pass, luck, user, clicks)
        value[user] = 1.0 - missed(click, after_pass, user, K)
