"""What the service has stored about a user."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from thali_client.types.lists import Impression


@dataclass(frozen=True, slots=True)
class TopicTaste:
    """Estimated preference of a user for a topic, with an interval.

    Without a prior, the interval is that of the exploration bonus. With a prior, it is the 95% interval of what the
    learner believes, with 1.96 in place of α.
    """

    topic: Any
    estimate: float
    """θ̄_j."""
    low: float
    """θ̄_j - α·sqrt(M⁻¹_jj)."""
    high: float
    """θ̄_j + α·sqrt(M⁻¹_jj)."""


@dataclass(frozen=True, slots=True)
class LearnerTaste:
    """What a learner has learned about a user."""

    updates: int
    """Number of impressions that the learner has learned from."""
    assigned: bool
    """Whether this learner chooses the user's lists."""
    taste: list[TopicTaste]
    histories: list[str] = field(default_factory=list)
    """Names of the histories that the learner has learned (``thali learn-from``)."""


@dataclass(frozen=True, slots=True)
class User:
    """What the service has learned about a user. Only impressions that are still stored are counted."""

    user: str
    impressions: int
    answered: int
    clicked: int
    """Number of answered impressions with at least one click."""
    learners: dict[str, LearnerTaste]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How much data was deleted when a user was forgotten."""

    user: str
    impressions: int
    updates: int


@dataclass(frozen=True, slots=True)
class HistoryRemoved:
    """A history that was removed."""

    user: str
    history: str
    learners: int
    """Number of learners from whose statistics it was removed."""


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of a user's impressions, latest first."""

    impressions: list[Impression]
    next: str | None
    """Value of ``before`` for the next page; None on the last page."""


@dataclass(frozen=True, slots=True)
class HistorySums:
    """What a learner knows about a user from elsewhere (``thali learn-from``)."""

    name: str
    learned_at: float
    """Unix time in seconds."""
    S: list[list[float]]
    """Σ c·xxᵀ over what is known."""
    B: list[float]
    """Σ c·x over the likes."""


@dataclass(frozen=True, slots=True)
class SeenItems:
    """What a user has seen of a list, or what they are known to like from a history."""

    at: float
    """When the list was shown, or when the history was learned: Unix time in seconds."""
    items: list[Any]
    """None for an item that is no longer in the catalog."""
    clicked: list[bool]


@dataclass(frozen=True, slots=True)
class LearnerStatistics:
    """Sufficient statistics of a learner for one user."""

    updates: int
    topics: list[Any]
    """Topics, in the order of the rows and columns below."""
    M: list[list[float]]
    B: list[float]
    estimate: list[float]
    """θ̄."""
    histories: list[str] = field(default_factory=list)
    """Names of the histories that M and B include."""
    sums: list[HistorySums] = field(default_factory=list)
    """The histories themselves."""
    seen: list[SeenItems] = field(default_factory=list)
    """What the user has seen, as far as it is remembered in order not to show it again; oldest first."""


@dataclass(frozen=True, slots=True)
class Export:
    """All data stored about a user."""

    user: str
    exported_at: float
    """Unix time in seconds."""
    learners: dict[str, LearnerStatistics]
    impressions: list[Impression]
    """Latest first."""
