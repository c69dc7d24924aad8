"""Counters of lists shown and answered, and what follows from them: click rate, diversity, calibration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import sqrt
from typing import TYPE_CHECKING

from thali_client.types import Bin, HourStats, LearnerStats, Rate, Stats

if TYPE_CHECKING:
    from thali.service.recommender.recommender import Recommender

HOUR_S = 3600
#: How many intervals the predicted click probabilities are divided into.
BINS = 10
#: The hour under which totals are counted that have no hour: users with statistics.
ALWAYS = 0
# The 97.5% point of the normal distribution.
Z = 1.959963984540054


def hour(at: float) -> int:
    """The number of the hour of a time."""
    return int(at // HOUR_S)


def answered(predicted: float, clicked: Sequence[int], times: float) -> dict[str, float]:
    """What an answer adds to the counters; times -1 takes it back."""
    hit = times if clicked else 0.0
    at = min(int(predicted * BINS), BINS - 1)
    counts = {"answered": times, f"bin{at}_answered": times, f"bin{at}_predicted": times * predicted}
    return {**counts, "clicked": hit, f"bin{at}_clicked": hit}


def wilson(hits: float, total: float) -> Rate:
    """A share and its 95% interval, sensible near 0 and 1 as well (Wilson 1927)."""
    p, z2 = hits / total, Z * Z
    middle = (p + z2 / (2 * total)) / (1 + z2 / total)
    half = Z * sqrt(p * (1 - p) / total + z2 / (4 * total * total)) / (1 + z2 / total)
    return Rate(p, max(0.0, middle - half), min(1.0, middle + half))


def stats(recommender: Recommender, counters: Iterable[tuple[int, str, str, float]], first: int) -> Stats:
    """What the counters say from an hour on."""
    totals: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    users: dict[str, float] = defaultdict(float)
    hourly: dict[tuple[int, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for at, whose, what, value in counters:
        if at == ALWAYS:
            users[whose] += value
        else:
            totals[whose][what] += value
            hourly[at, whose][what] += value
    learners = {}
    for name, learner in recommender.learners.items():
        policy, counted = learner.policy, totals[name]
        shown, answers, hits = (round(counted[what]) for what in ("impressions", "answered", "clicked"))
        learners[name] = LearnerStats(
            policy=type(policy).__name__,
            K=policy.K,
            sigma=policy.sigma,
            alpha=policy.alpha,
            share=learner.share,
            users=round(users[name]),
            impressions=shown,
            answered=answers,
            clicked=hits,
            click_rate=wilson(hits, answers) if answers > 0 else None,
            diversity=_mean(counted["diversity"], shown),
            exploration_share=_mean(counted["exploration"], shown),
            calibration=_calibration(counted),
        )
    return Stats(
        since=float(first * HOUR_S),
        items=len(recommender.catalog),
        topics=recommender.catalog.d,
        learners=learners,
        hours=[_hour(at, learner, counted) for (at, learner), counted in sorted(hourly.items())],
        store=recommender.store.url,
    )


def _mean(total: float, count: int) -> float | None:
    return total / count if count > 0 else None


def _hour(at: int, learner: str, counted: dict[str, float]) -> HourStats:
    shown = round(counted["impressions"])
    return HourStats(
        hour=float(at * HOUR_S),
        learner=learner,
        impressions=shown,
        answered=round(counted["answered"]),
        clicked=round(counted["clicked"]),
        diversity=_mean(counted["diversity"], shown),
        exploration_share=_mean(counted["exploration"], shown),
    )


def _calibration(counted: dict[str, float]) -> list[Bin]:
    bins = []
    for at in range(BINS):
        answers = round(counted[f"bin{at}_answered"])
        if answers > 0:
            predicted, hits = counted[f"bin{at}_predicted"] / answers, round(counted[f"bin{at}_clicked"])
            bins.append(Bin(at / BINS, (at + 1) / BINS, answers, predicted, wilson(hits, answers)))
    return bins
