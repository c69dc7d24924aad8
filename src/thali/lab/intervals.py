"""Means, ratios, growth and shares, each with an interval over people and splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import exp, inf, isfinite, isinf, log, nan, sqrt
from typing import Any

import numpy as np

from thali.tools.types import Floats

#: The confidence level of an interval that stands by itself.
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, at any level of confidence; the interval is NaN if there was only one person."""

    value: float
    interval: Callable[[float], tuple[float, float]]
    """(confidence level) → both ends of the interval."""

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """A value that is known exactly."""
        return cls(value, lambda level: (value, value))

    @cached_property
    def low(self) -> float:
        """The lower end of the 95% interval."""
        return self.interval(LEVEL)[0]

    @cached_property
    def high(self) -> float:
        """The upper end of the 95% interval."""
        return self.interval(LEVEL)[1]

    def jointly(self, count: int) -> tuple[float, float]:
        """The interval if this is one of several that must all contain their true values with a probability of 95%.

        Bonferroni's correction: each of ``count`` intervals has the level 1 - 0.05/count. It is valid whether or not
        the estimates depend on one another.
        """
        return self.interval(1.0 - (1.0 - LEVEL) / count)

    def through(self, function: Callable[[float], float]) -> Estimate:
        """The estimate of a monotone function of the value."""

        def interval(level: float) -> tuple[float, float]:
            low, high = sorted(function(end) for end in self.interval(level))
            return low, high

        return Estimate(function(self.value), interval)

    def __format__(self, spec: str) -> str:
        if self.low == self.high:
            return _written(self.value, spec)
        return f"{_written(self.value, spec)} {written((self.low, self.high), spec)}"


def written(interval: tuple[float, float], spec: str) -> str:
    """An interval as text."""
    low, high = (_written(end, spec) for end in interval)
    return f"[{low}, {high}]"


def _written(number: float, spec: str) -> str:
    return format(number, spec).replace("inf", "∞") if isinf(number) else format(number, spec)


def _no_interval(level: float) -> tuple[float, float]:
    return nan, nan


#: A missing value.
UNKNOWN = Estimate(nan, _no_interval)


def mean(values: Any, splits: Any) -> Estimate:
    """The mean over people (people,); splits (people,) is the split from which each person was drawn.

    Each split is an independent draw of halves, weights and people, so the spread of the splits' means reflects all
    three. The interval is a Student interval over these means or, with a single split, over its people.
    """
    values = np.asarray(values, dtype=np.float64)
    return _student(float(values.mean()), _units(values, splits))


def mean_fraction(values: Any, splits: Any) -> Estimate:
    """The mean over people of fractions, which lie between 0 and 1 (people,). The interval lies between 0 and 1 too.

    It is the Student interval of :func:`mean` for the logit of the mean, log(m/(1-m)), whose standard error is that of
    m divided by m·(1-m) (delta method). The ends are then transformed back.
    """
    plain = mean(values, splits)
    m = plain.value
    if not 0.0 < m < 1.0:
        return plain  # all fractions are equal to 0, or all are equal to 1

    def interval(level: float) -> tuple[float, float]:
        half = (plain.interval(level)[1] - m) / (m * (1.0 - m))
        low, high = (1.0 / (1.0 + (1.0 - m) / m * exp(by)) for by in (min(half, 700.0), -half))  # e^700 is finite
        return low, high

    return Estimate(m, interval)


def ratio(above: Any, below: Any, splits: Any) -> Estimate:
    """mean(above)/mean(below), paired by person (delta method). Its interval is computed as in :func:`mean`."""
    above, below = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    base = float(below.mean())
    if base <= 0.0:
        return Estimate(nan if above.mean() == 0.0 else inf, _no_interval)
    value = float(above.mean()) / base
    return _student(value, value + _units((above - value * below) / base, splits))


def growth(later: Any, earlier: Any, splits: Any, factor: float, *, nothing: float = 0.0) -> Estimate:
    """The exponent p of growth like n^p, if the value changes from earlier to later when n is multiplied by factor.

    If the later value is at most ``nothing``, it has stopped growing, and p = -∞.
    """
    if np.mean(later) <= nothing:
        return Estimate.exact(-inf)
    if np.mean(earlier) <= 0.0:
        return UNKNOWN
    return ratio(later, earlier, splits).through(lambda times: -inf if times <= 0.0 else log(times) / log(factor))


def share(flags: Any) -> Estimate:
    """The share of true entries (people,), with its exact interval (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv

    flags = np.asarray(flags, dtype=bool)
    n, k = len(flags), int(flags.sum())

    def interval(level: float) -> tuple[float, float]:
        tail = (1.0 - level) / 2.0
        low = float(betaincinv(k, n - k + 1, tail)) if k else 0.0
        high = float(betaincinv(k + 1, n - k, 1.0 - tail)) if k < n else 1.0
        return low, high

    return Estimate(k / n, interval)


def _units(values: Floats, splits: Any) -> Floats:
    """The independent units: the means of the splits, or the values themselves if there is only one split."""
    splits = np.asarray(splits)
    names = np.unique(splits)
    return values if len(names) == 1 else np.array([values[splits == name].mean() for name in names])


def _student(value: float, units: Floats) -> Estimate:
    from scipy.special import stdtrit

    count = len(units)
    if count < 2 or not isfinite(value):
        return Estimate(value, _no_interval)
    error = float(np.std(units, ddof=1)) / sqrt(count)

    def interval(level: float) -> tuple[float, float]:
        half = float(stdtrit(count - 1, (1.0 + level) / 2.0)) * error
        return value - half, value + half

    return Estimate(value, interval)
