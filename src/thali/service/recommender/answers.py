"""What a recommender answers; the same words as in the service's JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)  # not frozen: that takes three times as long to make
class ShownItem:
    """An item at its position, and why it is there."""

    position: int
    item: Any
    topics: list[Any]
    """The topics it has."""
    gains: dict[Any, float]
    """Δ(e|S): what it adds in each of them to what stands above it, as shown."""
    belief: float
    """xᵀθ̄: the attraction that is believed."""
    exploration: float
    """α·sqrt(xᵀM⁻¹x): what is added for what is not known yet. Belief and exploration are the item's index."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A list that was shown."""

    impression: str
    """The id under which feedback is given."""
    user: str
    learner: str
    shown_at: float
    """Seconds since 1970."""
    click_probability: float
    """Of at least one click, as it is believed: 1 - Π(1 - belief), beliefs taken as probabilities."""
    items: list[ShownItem]

    @property
    def id(self) -> str:
        """The impression's id."""
        return self.impression


@dataclass(frozen=True, slots=True)
class Seen(Shown):
    """A list that was shown, and the answer to it."""

    clicked: list[int] | None
    """Positions; None while there is no answer."""
    answer: str | None
    """"feedback", or "time-out" where no answer came in time and that counts as no click."""
    answered_at: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What is recorded of an impression now."""

    impression: str
    clicked: list[int] | None
    answer: str | None


@dataclass(frozen=True, slots=True)
class TopicTaste:
    """What is believed of a user's preference for a topic."""

    topic: Any
    estimate: float
    """θ̄_j."""
    low: float
    """θ̄_j - α·sqrt(M⁻¹_jj): the interval in which the learner, with its optimism, looks for the truth."""
    high: float


@dataclass(frozen=True, slots=True)
class Taste:
    """What a learner knows of a user."""

    updates: int
    """Impressions learned from."""
    assigned: bool
    """Whether it is the learner that the user gets."""
    taste: list[TopicTaste]


@dataclass(frozen=True, slots=True)
class User:
    """What is known of a user. Counts are of impressions still kept."""

    user: str
    impressions: int
    answered: int
    clicked: int
    learners: dict[str, Taste]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What there was of a user."""

    user: str
    impressions: int
    updates: int


@dataclass(frozen=True, slots=True)
class Item:
    """An item and its weights w̄ by topic."""

    item: Any
    weights: dict[Any, float]


@dataclass(frozen=True, slots=True)
class Items:
    """A page of items."""

    total: int
    items: list[Item]
    next: int | None
    """The offset of the next page."""


@dataclass(frozen=True, slots=True)
class Learned:
    """A user's statistics under a learner."""

    updates: int
    topics: list[Any]
    M: list[list[float]]
    B: list[float]
    estimate: list[float]


@dataclass(frozen=True, slots=True)
class Tidied:
    """What a round of tidying did."""

    timed_out: int
    pruned: int


@dataclass(frozen=True, slots=True)
class Rate:
    """A share with its 95% interval (Wilson's)."""

    rate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Bin:
    """Answered lists of which the click probability believed was in an interval: is it right?"""

    above: float
    below: float
    answered: int
    predicted: float
    """The mean of what was believed."""
    observed: Rate
    """The share that was clicked."""


@dataclass(frozen=True, slots=True)
class LearnerStats:
    """How a learner does, over lists shown in the time asked for."""

    policy: str
    K: int
    sigma: float
    alpha: float | str
    share: float
    """Of the users."""
    users: int
    """With statistics, of all times."""
    impressions: int
    answered: int
    clicked: int
    """Answered lists with a click."""
    click_rate: Rate | None
    """Clicked over answered."""
    diversity: float | None
    """The mean over lists of the mean distance of two items: 0 all alike, 1 no two share a topic."""
    exploration_share: float | None
    """The mean over lists of Σ exploration / Σ (|belief| + exploration)."""
    calibration: list[Bin]


@dataclass(frozen=True, slots=True)
class HourStats:
    """An hour of a learner's, by when lists were shown."""

    hour: float
    """When it begins, in seconds since 1970."""
    learner: str
    impressions: int
    answered: int
    clicked: int
    diversity: float | None
    exploration_share: float | None


@dataclass(frozen=True, slots=True)
class Statistics:
    """How the learners do."""

    since: float
    items: int
    topics: int
    learners: dict[str, LearnerStats]
    hours: list[HourStats]
    store: str
