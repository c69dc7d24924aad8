"""The ledger: every claim of the paper at every setting of α, with its measurements and a computed verdict."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isnan

from thali.lab.claims import CLAIMS, Claim
from thali.lab.intervals import written
from thali.lab.results import Results, scale_label
from thali.lab.verdicts import Check, Verdict


@dataclass(frozen=True)
class Finding:
    """A claim at one setting, with its checks and verdict.

    The claim holds if all checks hold, and does not hold if at least one check fails. :meth:`Check.verdict` explains
    why checks need a correction for their number to fail, but not to hold. The correction is for the checks of one
    finding. Different findings are different statements, and there is no correction for the number of findings.
    """

    claim: Claim
    suite: str
    settings: str
    scale: str
    checks: tuple[Check, ...]
    holds_at: tuple[str, ...] | None = None
    """The α at which the claim holds in the sweep on this data set; None if there was no sweep."""

    @property
    def swept(self) -> str:
        """``holds_at`` as text for readers."""
        return "" if self.holds_at is None else ", ".join(self.holds_at) or "none"

    @property
    def verdict(self) -> Verdict:
        """The verdict over all checks."""
        verdicts = set(self._verdicts)
        if "does not hold" in verdicts:
            return "does not hold"
        return "holds" if verdicts == {"holds"} else "not decided"

    @property
    def least_favorable(self) -> Check:
        """The check to show: among those with this verdict, the one whose number is the least favorable to the claim.

        It satisfies the condition by the smallest margin, or violates it by the largest.
        """
        same = [check for check, verdict in zip(self.checks, self._verdicts, strict=True) if verdict == self.verdict]
        return min(same, key=lambda check: check.margin)

    @property
    def reason(self) -> str:
        """Why the verdict is what it is, if the number and the condition alone do not explain it."""
        return self.least_favorable.reason(len(self.checks))

    @property
    def measured(self) -> str:
        """The number of the check to show as text, and how many of the checks have the same verdict.

        The number comes with its 95% interval and, if this is not what decided the verdict, with its joint interval.
        """
        check, count, unit = self.least_favorable, len(self.checks), self.claim.unit
        text = check.label
        if check.says:
            text += f": {check.says}"
        elif not isnan(check.estimate.value):
            text += f": {check.estimate:{unit}}"
            joint = check.estimate.jointly(count)
            if count > 1 and self.verdict != "holds" and joint[0] < joint[1]:
                text += f", jointly {written(joint, unit)}"
        if count > 1:
            text += f" (same verdict in {self._verdicts.count(self.verdict)} of {count} checks)"
        return text

    @cached_property
    def _verdicts(self) -> tuple[Verdict, ...]:
        """The verdict of each check."""
        return tuple(check.verdict(len(self.checks)) for check in self.checks)


def ledger(results: Results) -> list[Finding]:
    """Every claim at every setting for which there are rows."""
    findings = []
    for claim in CLAIMS:
        for suite in claim.suites:
            prefix = f"{suite}/" if "/" not in suite else suite
            names = results.experiments(prefix)
            scale = "; ".join(sorted({scale_label(results.scales[name]) for name in names}))
            swept = _swept(claim, suite, results)
            for setting in claim.settings:
                settings = "" if setting is None else str(setting)
                checks = claim.measure(results, prefix, settings)
                if checks:
                    findings.append(Finding(claim, suite, settings, scale, tuple(checks), swept))
    return findings


def _swept(claim: Claim, suite: str, results: Results) -> tuple[str, ...] | None:
    """The α at which the claim holds in the sweep on this data set, which covers one of its experiments."""
    names = results.experiments(f"optimism/{suite}-d")
    if not names or claim.settings == (None,):
        return None
    alphas = []
    for settings in results.settings(names[0]):
        checks = claim.measure(results, names[0], settings)
        if not checks:
            return None
        if all(check.verdict() == "holds" for check in checks):
            alphas.append(settings.split()[0].replace("alpha=", ""))
    return tuple(alphas)
