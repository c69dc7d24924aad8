"""Lists that were shown, and the feedback on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Parts:
    """The three parts of the score of an item on one topic."""

    from_others: float
    """What the prior contributes, x_j·μ_j: what other people like."""
    from_you: float
    """What the user's own clicks and passes add, x_j·(θ̄_j - μ_j)."""
    to_find_out: float
    """The topic's part of the exploration."""


@dataclass(slots=True)  # not frozen: constructing a frozen dataclass takes three times as long
class ShownItem:
    """An item of a list, and why it was chosen."""

    position: int
    """Position in the list, from 0."""
    item: Any
    topics: list[Any]
    """Topics of the item."""
    gains: dict[Any, float]
    """Δ(e|S): the coverage that the item adds to the items above it, by topic."""
    belief: float
    """xᵀθ̄: estimated attraction of the item."""
    exploration: float
    """α·sqrt(xᵀM⁻¹x): bonus for uncertainty. Items are ranked by belief + exploration."""
    from_others: float = 0.0
    """xᵀμ: the part of the belief that comes from other people, through the prior; 0 without a prior."""
    from_you: float = 0.0
    """xᵀ(θ̄ - μ): the part of the belief that comes from the user's own clicks and passes."""
    by_topic: dict[Any, Parts] | None = None
    """The same parts by topic, if the request had ``explain``. They add up to from_others, from_you and exploration."""
    reason: str | None = None
    """The parts in words, if the request had ``explain``."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A list that was shown to a user."""

    impression: str
    """Id of the impression; feedback refers to it."""
    user: str
    learner: str
    """Name of the learner that chose the list."""
    shown_at: float
    """Unix time in seconds."""
    click_probability: float
    """Estimated probability of at least one click: 1 - Π(1 - belief), with each belief taken as a probability."""
    items: list[ShownItem]
    """At least one item and at most K: the list is shorter if fewer than K items were left to choose from."""

    @property
    def id(self) -> str:
        """Id of the impression."""
        return self.impression


@dataclass(frozen=True, slots=True)
class Impression(Shown):
    """A list that was shown, together with the user's answer."""

    clicked: list[int] | None
    """Clicked positions; None if there is no answer yet."""
    answer: str | None
    """Where the answer comes from: "feedback", or "time-out" if missing feedback was treated as no click. None if there
    is no answer yet."""
    answered_at: float | None
    """Unix time in seconds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer that is recorded for an impression."""

    impression: str
    clicked: list[int] | None
    """Clicked positions; None if there is no answer."""
    answer: str | None
    """Where the answer comes from: "feedback" or "time-out"; None if there is no answer."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome for one impression of a feedback batch."""

    impression: str
    status: int
    """HTTP status that this feedback would have had in a separate request."""
    clicked: list[int] | None = None
    answer: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """The outcomes of a feedback batch, in the order of the request."""

    results: list[Result]
