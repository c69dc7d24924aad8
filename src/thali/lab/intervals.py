"""Means, ratios and growth, each with a 95% interval over people and splits."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, log, nan, sqrt
from typing import Any

import numpy as np

from thali.tools.types import Floats

#: The confidence level of all intervals.
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value with its interval; the interval is NaN if there was only one person."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """A value that is known exactly."""
        return cls(value, value, value)

    def __format__(self, spec: str) -> str:
        if self.low == self.high:
            return format(self.value, spec)
        return f"{self.value:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"


#: A missing value.
UNKNOWN = Estimate(nan, nan, nan)


def mean(values: Any, splits: Any) -> Estimate:
    """The mean over people (people,); splits (people,) is the split from which each person was drawn.

    Each split is an independent draw of halves, weights and people, so the spread of the splits' means reflects all
    three. The interval is a Student interval over these means or, with a single split, over its people.
    """
    values = np.asarray(values, dtype=np.float64)
    return _student(float(values.mean()), _units(values, splits))


def ratio(above: Any, below: Any, splits: Any) -> Estimate:
    """mean(above)/mean(below), paired by person (delta method). Its interval is computed as in :func:`mean`."""
    above, below = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    base = float(below.mean())
    if base <= 0.0:
        return Estimate(nan if above.mean() == 0.0 else inf, nan, nan)
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
    factors = ratio(later, earlier, splits)
    low, high = (log(bound) / log(factor) if bound > 0.0 else -inf for bound in (factors.low, factors.high))
    return Estimate(log(factors.value) / log(factor), low, high)


def share(flags: Any) -> Estimate:
    """The share of true entries (people,), with its exact interval (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv

    flags = np.asarray(flags, dtype=bool)
    n, k, tail = len(flags), int(flags.sum()), (1.0 - LEVEL) / 2.0
    low = float(betaincinv(k, n - k + 1, tail)) if k else 0.0
    high = float(betaincinv(k + 1, n - k, 1.0 - tail)) if k < n else 1.0
    return Estimate(k / n, low, high)


def _units(values: Floats, splits: Any) -> Floats:
    """The independent units: the means of the splits, or the values themselves if there is only one split."""
    splits = np.asarray(splits)
    names = np.unique(splits)
    return values if len(names) == 1 else np.array([values[splits == name].mean() for name in names])


def _student(value: float, units: Floats) -> Estimate:
    from scipy.special import stdtrit

    count = len(units)
    if count < 2 or not isfinite(value):
        return Estimate(value, nan, nan)
    half = float(stdtrit(count - 1, (1.0 + LEVEL) / 2.0)) * float(np.std(units, ddof=1)) / sqrt(count)
    return Estimate(value, value - half, value + half)
