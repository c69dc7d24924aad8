"""What a measured number says about a claim: it holds, it does not hold, or the number does not decide it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan
from typing import Literal

from thali.lab.intervals import Estimate

Verdict = Literal["holds", "does not hold", "not decided"]
#: A check that cannot support either of these verdicts decides nothing.
UNDECIDABLE: tuple[Verdict, ...] = ("holds", "does not hold")


@dataclass(frozen=True)
class Check:
    """One measured number, and the bounds within which the claim is true."""

    label: str
    """The experiment and the quantity that was measured."""
    estimate: Estimate
    low: float = -inf
    high: float = inf
    says: str = ""
    """Words to show in place of the number."""
    cannot: tuple[Verdict, ...] = ()
    """The verdicts that this number cannot support."""
    because: str = ""
    """The reason for ``cannot``."""
    if_above: str = ""
    """What it means if the number is above the bounds."""
    if_below: str = ""
    """What it means if the number is below the bounds."""

    def verdict(self, of: int = 1) -> Verdict:
        """The verdict of this check, if a claim has ``of`` checks.

        The check holds if its whole 95% interval is inside the bounds. This needs no correction for the number of
        checks: a claim holds only if all of its checks hold, so a false claim passes only if a false check passes too,
        which has a probability of at most 5% (an intersection-union test).

        The check does not hold if its whole joint interval is outside the bounds. The joint intervals of all checks
        contain all the true values with a probability of at least 95% (Bonferroni). So if a claim is true, the
        probability that any of its checks fails is at most 5%.
        """
        verdict = self._computed(of)
        return "not decided" if verdict in self.cannot else verdict

    def reason(self, of: int = 1) -> str:
        """Why the verdict is what it is, if the number and the bounds alone do not explain it."""
        verdict = self._computed(of)
        if verdict in self.cannot or self.cannot == UNDECIDABLE:
            return self.because
        if verdict == "does not hold":
            return self.if_above if self.estimate.value > self.high else self.if_below
        return ""

    def _computed(self, of: int) -> Verdict:
        """The verdict that follows from the intervals and the bounds."""
        if self.low <= self.estimate.low and self.estimate.high <= self.high:
            return "holds"
        low, high = self.estimate.jointly(of)
        return "does not hold" if high < self.low or low > self.high else "not decided"

    @property
    def margin(self) -> float:
        """The distance from the value to the nearest bound; negative if the value is outside the bounds."""
        if isnan(self.estimate.value):
            return -inf
        return min(self.estimate.value - self.low, self.high - self.estimate.value)
