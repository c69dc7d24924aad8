"""Statistics of the learners."""

from __future__ import annotations

from dataclasses import dataclass

from thali_client.types.priors import PriorCheck


@dataclass(frozen=True, slots=True)
class Rate:
    """A proportion with its 95% Wilson confidence interval."""

    rate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of a calibration curve: the answered lists whose estimated click probability lies in an interval."""

    above: float
    """Lower bound of the interval."""
    below: float
    """Upper bound of the interval."""
    answered: int
    predicted: float
    """Mean estimated click probability."""
    observed: Rate
    """Proportion of lists that were clicked."""


@dataclass(frozen=True, slots=True)
class LearnerStats:
    """Performance of a learner on the lists shown in the requested period."""

    policy: str
    K: int
    sigma: float
    alpha: float | str
    share: float
    """Share of the users that this learner serves."""
    users: int
    """Number of users with statistics, not limited to the requested period."""
    impressions: int
    answered: int
    clicked: int
    """Number of answered lists with at least one click."""
    click_rate: Rate | None
    """clicked / answered."""
    diversity: float | None
    """Mean distance between two items of a list, averaged over lists: 0 if all items have the same topics, 1 if no two
    items share a topic."""
    exploration_share: float | None
    """Σ exploration / Σ (|belief| + exploration), averaged over lists."""
    calibration: list[Bin]
    prior_check: PriorCheck | None = None
    """Whether the learned prior predicts clicks better than the prior of the start, a static list and popular items.
    None if no learned prior is in use."""


@dataclass(frozen=True, slots=True)
class HourStats:
    """Performance of a learner on the lists shown within one hour."""

    hour: float
    """Start of the hour, Unix time in seconds."""
    learner: str
    impressions: int
    answered: int
    clicked: int
    diversity: float | None
    exploration_share: float | None


@dataclass(frozen=True, slots=True)
class Stats:
    """Performance of all learners in the requested period."""

    since: float
    """Start of the period, Unix time in seconds."""
    items: int
    topics: int
    learners: dict[str, LearnerStats]
    hours: list[HourStats]
    store: str
    """URL of the store, without password."""
