"""Priors: what learners believe about people before their first click."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicPrior:
    """What people like of a topic."""

    topic: str
    mean: float
    """μ_j: the preference of an average person."""
    deviation: float
    """sqrt(Σ_jj): how much people differ."""


@dataclass(frozen=True, slots=True)
class PredictionCheck:
    """How well clicks were predicted on the lists with certain numbers, counted for each person from 1."""

    first: int
    """The first list number."""
    last: int | None
    """The last list number, or None if there is no limit."""
    answered: int
    """The number of lists."""
    observed: float
    """The share of lists with a click."""
    predicted: float
    """The mean click probability that was predicted when the lists were shown, with the learned prior."""
    static: float
    """The mean click probability if everybody had the average taste of the prior that the learner started with; the
    observed share of lists with a click if it started without a prior."""
    popular: float | None
    """The mean click probability if only the click rates of the items counted; None without a quality."""
    loss: float
    """The mean log loss of ``predicted``. Lower is better."""
    static_loss: float
    popular_loss: float | None
    start: float | None = None
    """The mean click probability that was predicted when the lists were shown, with the prior that the learner started
    with. Only for people's first ten lists, and None without such a prior."""
    start_loss: float | None = None


@dataclass(frozen=True, slots=True)
class PriorCheck:
    """Whether the learned prior predicts clicks better than the prior of the start, a static list and popular items."""

    at: float
    """When the check was made, Unix time in seconds."""
    version: int
    """The version of the prior that was checked."""
    verdict: str
    """"better", "worse", or "open" if there are too few lists to tell."""
    against: str
    """What it was compared with: "start", "static" or "popular", whichever predicts best."""
    difference: float | None
    """Mean log loss of the learned prior minus that of the other, over the first ten lists. Below 0 is better."""
    error: float | None
    """The standard error of the difference."""
    lists: list[PredictionCheck]
    """By list number."""
    since: float | None = None
    """When the oldest checked list can have been shown, Unix time in seconds: when this version was put into use, or,
    if fewer than 100 first lists have feedback since then, when the first learned prior was."""
    falls_back: bool = False
    """Whether a service with ``--prior-fallback`` returns to the prior of the start: the verdict is "worse", and that
    prior predicts clearly better than the learned one."""


@dataclass(frozen=True, slots=True)
class LearnerPrior:
    """The prior of a learner."""

    source: str
    """"learned" from the users of this service, "start" if it is the one the learner started with, or "none"."""
    learns: bool
    """Whether the learner uses learned priors."""
    version: int
    """Grows with each learned prior, by 1 or more; 0 if there has been none."""
    learned_at: float | None
    """Unix time in seconds."""
    people: int | None
    """The number of users from whom it was learned."""
    fell_back: bool
    """Whether the service has returned to the prior of the start, because the learned one predicted worse."""
    sigma: float
    topics: list[TopicPrior] | None
    """None without a prior."""
    check: PriorCheck | None = None
    """The latest comparison of predicted and observed clicks, if there was one."""


@dataclass(frozen=True, slots=True)
class Priors:
    """The priors of all learners."""

    learners: dict[str, LearnerPrior]
