"""Counters of shown and answered lists, and the stats computed from them: click rate, diversity, calibration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import TYPE_CHECKING

from thali_client.types import Bin, HourStats, LearnerStats, PriorCheck, Rate, Stats

if TYPE_CHECKING:
    from thali.service.recommender.recommender import Recommender

HOUR_S = 3600
#: The number of intervals into which predicted click probabilities are divided.
BINS = 10
#: The hour for totals that do not belong to an hour, such as the number of users with statistics.
ALL_TIME = 0
# The 97.5% point of the normal distribution.
Z = 1.959963984540054


def hour(time: float) -> int:
    """Return the number of the hour that contains a time."""
    return int(time // HOUR_S)


def answer_counts(predicted: float, clicked: Sequence[int], times: float) -> dict[str, float]:
    """Return the amounts that an answer adds to the counters. With times = -1, they remove the answer again."""
    click = times if clicked else 0.0
    number = min(int(predicted * BINS), BINS - 1)
    counts = {"answered": times, f"bin{number}_answered": times, f"bin{number}_predicted": times * predicted}
    return {**counts, "clicked": click, f"bin{number}_clicked": click}


def wilson(clicked: float, total: float) -> Rate:
    """Return a rate and its 95% interval, which is also sensible near 0 and 1 (Wilson 1927)."""
    p, z2 = clicked / total, Z * Z
    middle = (p + z2 / (2 * total)) / (1 + z2 / total)
    half = Z * sqrt(p * (1 - p) / total + z2 / (4 * total * total)) / (1 + z2 / total)
    return Rate(p, max(0.0, middle - half), min(1.0, middle + half))


def stats(
    recommender: Recommender,
    counters: Iterable[tuple[int, str, str, float]],
    first: int,
    checks: Mapping[str, PriorCheck],
) -> Stats:
    """Compute the stats from counters (hour, learner, name and value). first: the first hour that is included.

    checks: the latest check of the learned prior of each learner that has one.
    """
    totals: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    users: dict[str, float] = defaultdict(float)
    hourly: dict[tuple[int, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for number, learner_name, counter, value in counters:
        if number == ALL_TIME:
            users[learner_name] += value
        else:
            totals[learner_name][counter] += value
            hourly[number, learner_name][counter] += value
    learners = {}
    for name, learner in recommender.learners.items():
        policy, counted = learner.policy, totals[name]
        shown, answered, clicked = (round(counted[counter]) for counter in ("impressions", "answered", "clicked"))
        learners[name] = LearnerStats(
            policy=type(policy).__name__,
            K=policy.K,
            sigma=policy.sigma,
            alpha=policy.alpha,
            share=learner.share,
            users=round(users[name]),
            impressions=shown,
            answered=answered,
            clicked=clicked,
            click_rate=wilson(clicked, answered) if answered > 0 else None,
            diversity=_mean(counted["diversity"], shown),
            exploration_share=_mean(counted["exploration"], shown),
            calibration=_calibration(counted),
            prior_check=checks.get(name),
        )
    return Stats(
        since=float(first * HOUR_S),
        items=len(recommender.catalog),
        topics=recommender.catalog.d,
        learners=learners,
        hours=[_hour_stats(number, learner, counted) for (number, learner), counted in sorted(hourly.items())],
        store=recommender.store.url,
    )


def _mean(total: float, count: int) -> float | None:
    return total / count if count > 0 else None


def _hour_stats(number: int, learner: str, counted: dict[str, float]) -> HourStats:
    shown = round(counted["impressions"])
    return HourStats(
        hour=float(number * HOUR_S),
        learner=learner,
        impressions=shown,
        answered=round(counted["answered"]),
        clicked=round(counted["clicked"]),
        diversity=_mean(counted["diversity"], shown),
        exploration_share=_mean(counted["exploration"], shown),
    )


def _calibration(counted: dict[str, float]) -> list[Bin]:
    bins = []
    for number in range(BINS):
        answered = round(counted[f"bin{number}_answered"])
        if answered > 0:
            predicted, clicked = counted[f"bin{number}_predicted"] / answered, round(counted[f"bin{number}_clicked"])
            bins.append(Bin(number / BINS, (number + 1) / BINS, answered, predicted, wilson(clicked, answered)))
    return bins
