"""The base class of click models: how users browse a list, what they click, and how likely a click is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from thali.catalog.catalog import Catalog
from thali.tools import checks
from thali.tools.jit import inlined, kernel
from thali.tools.randomness import draw_uniforms
from thali.tools.types import Booleans, Floats, Integers

FLOAT = np.dtype(np.float64)


class Habits(NamedTuple):
    """What users do at a position that they examine. Each field has shape (users, K), or can be broadcast to it."""

    click: Any
    """The probability of a click."""
    after_click: Any
    """The probability that the user continues to the next position after a click."""
    after_pass: Any
    """The probability that the user continues to the next position without a click."""


class ClickModel(ABC):
    """Users who examine a list from the top, click on items that attract them, and at each position continue or leave.

    A custom model defines ``users`` and ``L`` (the numbers of users and items), ``attraction`` and ``best_lists``. If
    its users do not leave after the first click, it also defines ``habits``. Everything else is computed from these. If
    users remember what happened at earlier positions, the model also defines ``click_probability`` and ``respond``.
    """

    users: int
    L: int
    catalog: Catalog | None = None
    theta: Floats | None = None

    @abstractmethod
    def attraction(self, lists: Any) -> Floats:
        """Return the probability that the item at each position attracts a user who examines it (users, K)."""

    @abstractmethod
    def best_lists(self, K: int, exclude: Any = None) -> Integers:
        """Return the greedy lists (users, K) under the true model, against which regret is measured.

        Each position gets the item that adds the most to :meth:`click_probability`. exclude: items not to show, as in
        :meth:`thali.Policy.recommend`. A custom model needs this argument only for ``simulate(..., hide=...)``.
        """

    def habits(self, attraction: Floats) -> Habits:
        """Return what users do, given the attraction (users, K). By default, they leave after a click (a cascade)."""
        return Habits(attraction, 0.0, 1.0)

    def at(self, step: int) -> ClickModel:
        """Return the model in use after this many steps.

        It is this model itself, unless preferences change (see :class:`thali.Drift`).
        """
        return self

    def examination(self, lists: Any) -> Floats:
        """Return the probability that each position is examined (users, K).

        For position k, it is Π_{i<k} (c_i·after_click_i + (1-c_i)·after_pass_i), where c is the probability of a click.
        Cost of this method and the methods below: that of attraction, plus O(K) for each user.
        """
        habits, shape = self._habits(lists)
        return _reached(*habits, shape)

    def click_probability(self, lists: Any) -> Floats:
        """Return the probability of at least one click (users,): f(A, θ) = Σ_k c_k Π_{i<k} (1-c_i)·after_pass_i.

        If users always continue when they do not click, this is 1 - Π_k (1-c_k) (Section 3.1, "Click Model").
        """
        (click, _, after_pass), (users, K) = self._habits(lists)
        value = np.empty(users)
        click_probabilities(click, after_pass, K, value)
        return value

    def expected_clicks(self, lists: Any) -> Floats:
        """Return the expected number of clicks (users,). For a cascade, this is the probability of a click."""
        habits, shape = self._habits(lists)
        return np.asarray((_reached(*habits, shape) * habits[0]).sum(axis=1))

    def respond(self, lists: Any, uniforms: Floats) -> Booleans:
        """Return clicks (users, K), given uniform random numbers (users, K), one for each position.

        An examined item is clicked if its number is below the probability of a click. The same number also decides
        whether the user continues to the next position (see :func:`browse`).
        """
        return self._walk(lists, uniforms)[0]

    def walk(self, lists: Any, uniforms: Floats) -> tuple[Booleans, Booleans]:
        """Return the clicks of :meth:`respond`, and which positions were examined; both (users, K).

        A policy cannot observe which positions were examined.
        """
        clicks, depth = self._walk(lists, uniforms)
        return clicks, np.arange(clicks.shape[1]) < depth[:, None]

    def outcome(self, lists: Any, uniforms: Floats) -> tuple[Booleans, Floats]:
        """Return the results of :meth:`respond` and :meth:`click_probability`, if possible with one call of attraction.

        :func:`thali.simulate` uses this and draws the random numbers itself, so only the shape of an array is checked.
        """
        own_class = type(self)
        if (
            own_class.respond is not ClickModel.respond
            or own_class.click_probability is not ClickModel.click_probability
        ):
            return self.respond(lists, uniforms), self.click_probability(lists)
        (click, after_click, after_pass), shape = self._habits(lists)
        if type(uniforms) is not np.ndarray or uniforms.shape != shape:
            uniforms = checks.floats("uniforms", uniforms, shape, "(users, K)")
        clicks, value = np.zeros(shape, np.bool_), np.empty(shape[0])
        outcome(click, after_click, after_pass, uniforms, clicks, value)
        return clicks, value

    def sample(self, lists: Any, rng: Any) -> Booleans:
        """Return random clicks (users, K). rng: one random generator, or a sequence with one for each user."""
        lists = self._lists(lists)
        return self.respond(lists, draw_uniforms(rng, *lists.shape))

    def _walk(self, lists: Any, uniforms: Floats) -> tuple[Booleans, Integers]:
        """Return clicks (users, K), and how many positions were examined (users,)."""
        habits, shape = self._habits(lists)
        uniforms = checks.floats("uniforms", uniforms, shape, "(users, K)")
        clicks, depth = np.zeros(shape, dtype=np.bool_), np.empty(shape[0], dtype=np.int64)
        walk(*habits, uniforms, clicks, depth)
        return clicks, depth

    def _habits(self, lists: Any) -> tuple[tuple[Floats, Floats, Floats], tuple[int, int]]:
        """Return the habits for these lists, as arrays (users or 1, K or 1), and the shape (users, K)."""
        attraction = self.attraction(lists)
        habits = self.habits(attraction)
        click, after_click, after_pass = _matrix(habits[0]), _matrix(habits[1]), _matrix(habits[2])
        users, K = shape = attraction.shape
        fits = (shape, (1, 1), (1, K), (users, 1))
        if click.shape not in fits or after_click.shape not in fits or after_pass.shape not in fits:
            shapes = ", ".join(f"{name} {np.shape(part)}" for name, part in zip(Habits._fields, habits, strict=True))
            raise ValueError(
                f"habits of {type(self).__name__} must have shapes that broadcast to (users, K) = ({users}, {K}), "
                f"got {shapes}"
            )
        return (click, after_click, after_pass), (users, K)

    def _lists(self, lists: Any) -> Integers:
        return checks.item_lists("lists", lists, self.users, self.L)


def _reached(click: Floats, after_click: Floats, after_pass: Floats, shape: tuple[int, int]) -> Floats:
    """Return the probability that users reach each position (users, K)."""
    stay = click * after_click + (1.0 - click) * after_pass
    reached = np.ones(shape)
    reached[:, 1:] = np.cumprod(np.broadcast_to(stay, shape), axis=1)[:, :-1]
    return reached


def _matrix(part: Any) -> Floats:
    """Return a 2-D array. For our own models, it always has the type for which kernels are compiled ahead of time."""
    if type(part) is float:
        return _constant(part)
    if isinstance(part, np.ndarray) and part.ndim == 2 and part.dtype is FLOAT:
        return part
    return np.array(part, dtype=np.float64, ndmin=2)


@lru_cache(maxsize=64)
def _constant(value: float) -> Floats:
    return np.full((1, 1), value)


# Kernels. click, after_click and after_pass have shape (users, K), or length 1 along an axis with equal values.


@inlined
def entry(values: Floats, user: int, k: int) -> Any:
    """Return the entry for this user and position. An axis of length 1 has one value for all users or positions."""
    return values[user if values.shape[0] > 1 else 0, k if values.shape[1] > 1 else 0]


@inlined
def browse(
    click: Floats, after_click: Floats, after_pass: Floats, uniforms: Floats, user: int, clicks: Booleans
) -> int:
    """Write this user's clicks to clicks (users, K), which must be all False. Return how many positions are examined.

    One uniform random number u for each position decides both whether the user clicks and whether the user continues.
    If u < c·after_click, the user clicks and continues. Otherwise, if u < c, the user clicks and leaves. Otherwise, the
    user does not click, and continues if u < c + (1-c)·after_pass.
    """
    K = uniforms.shape[1]
    for k in range(K):
        u, c = uniforms[user, k], entry(click, user, k)
        if u < c:
            clicks[user, k] = True
            continues = u < c * entry(after_click, user, k)
        else:
            q = entry(after_pass, user, k)
            continues = q == 1.0 or u < c + (1.0 - c) * q
        if not continues:
            return k + 1
    return int(K)


@inlined
def no_click_probability(click: Floats, after_pass: Floats, user: int, K: int) -> float:
    """Return the probability that this user does not click, either because they leave or because the list ends."""
    looking, left = 1.0, 0.0
    for k in range(K):
        looking *= 1.0 - entry(click, user, k)
        q = entry(after_pass, user, k)
        left += looking * (1.0 - q)
        looking *= q
    return looking + left


@kernel
def walk(
    click: Floats, after_click: Floats, after_pass: Floats, uniforms: Floats, clicks: Booleans, depth: Integers
) -> None:
    """Write clicks to clicks (users, K) and the number of examined positions to depth (users,). O(K) for each user."""
    for user in range(depth.size):
        depth[user] = browse(click, after_click, after_pass, uniforms, user, clicks)


@kernel
def click_probabilities(click: Floats, after_pass: Floats, K: int, value: Floats) -> None:
    """Write the probability of at least one click to value (users,). Cost: O(K) for each user.

    It is Σ_k c_k Π_{i<k} (1-c_i)·after_pass_i, computed as 1 minus the probability of no click. If after_pass is 1, the
    result is therefore 1 - Π_k (1-c_k), bit for bit.
    """
    for user in range(value.size):
        value[user] = 1.0 - no_click_probability(click, after_pass, user, K)


@kernel
def outcome(
    click: Floats, after_click: Floats, after_pass: Floats, uniforms: Floats, clicks: Booleans, value: Floats
) -> None:
    """Write the clicks of :func:`walk` and the results of :func:`click_probabilities`, in one call."""
    users, K = uniforms.shape
    for user in range(users):
        browse(click, after_click, after_pass, uniforms, user, clicks)
        value[user] = 1.0 - no_click_probability(click, after_pass, user, K)
