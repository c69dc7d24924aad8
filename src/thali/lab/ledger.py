"""The ledger: every claim of the paper at every setting of α, with its measurements and a computed verdict."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from thali.lab.claims import CLAIMS, Claim
from thali.lab.evidence import Check, Verdict
from thali.lab.results import Results, scale_label


@dataclass(frozen=True)
class Finding:
    """A claim at one setting, with its checks and verdict. All checks must hold; one that fails refutes the claim."""

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
        verdicts = {check.verdict for check in self.checks}
        if "does not hold" in verdicts:
            return "does not hold"
        return "holds" if verdicts == {"holds"} else "not decided"

    @property
    def least_favorable(self) -> Check:
        """The check to show: among those with this verdict, the one whose number is the least favorable to the claim.

        It satisfies the condition by the smallest margin, or violates it by the largest.
        """
        return min((c for c in self.checks if c.verdict == self.verdict), key=lambda check: check.margin)

    @property
    def measured(self) -> str:
        """The number of the check to show as text, and how many of the checks have the same verdict."""
        check = self.least_favorable
        same = sum(c.verdict == self.verdict for c in self.checks)
        count = f" (same verdict in {same} of {len(self.checks)} checks)" if len(self.checks) > 1 else ""
        text = check.label if isnan(check.estimate.value) else f"{check.label}: {check.estimate:{self.claim.unit}}"
        return text + count


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
        if all(check.verdict == "holds" for check in checks):
            alphas.append(settings.split()[0].replace("alpha=", ""))
    return tuple(alphas)
