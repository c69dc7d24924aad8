"""The ledger: every claim of the paper at every setting, with its measurements and a computed verdict."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from thali.lab.claims import CLAIMS, Claim
from thali.lab.evidence import Check, Verdict
from thali.lab.results import Results


@dataclass(frozen=True)
class Finding:
    """A claim at one setting with its verdict: all checks must hold, and one failed check refutes it."""

    claim: Claim
    suite: str
    settings: str
    scale: str
    checks: tuple[Check, ...]
    holds_at: tuple[str, ...] | None = None
    """The α of the sweep on this data set at which the claim holds; None if there was no sweep."""

    @property
    def swept(self) -> str:
        """``holds_at`` as text."""
        return "" if self.holds_at is None else ", ".join(self.holds_at) or "none"

    @property
    def verdict(self) -> Verdict:
        """The verdict over all checks."""
        verdicts = {check.verdict for check in self.checks}
        if "does not hold" in verdicts:
            return "does not hold"
        return "holds" if verdicts == {"holds"} else "not decided"

    @property
    def tightest(self) -> Check:
        """The deciding check: among the checks that share the verdict, the one with the smallest margin."""
        return min((c for c in self.checks if c.verdict == self.verdict), key=lambda check: check.margin)

    @property
    def measured(self) -> str:
        """The deciding number as text, and how many of the checks share the verdict."""
        check = self.tightest
        alike = sum(c.verdict == self.verdict for c in self.checks)
        counted = f" ({alike} of {len(self.checks)})" if len(self.checks) > 1 else ""
        text = check.where if isnan(check.estimate.value) else f"{check.where}: {check.estimate:{self.claim.unit}}"
        return text + counted


def ledger(results: Results) -> list[Finding]:
    """Every claim at every setting for which there are rows."""
    findings = []
    for claim in CLAIMS:
        for suite in claim.suites:
            prefix = f"{suite}/" if "/" not in suite else suite
            names = results.experiments(prefix)
            scale = ", ".join(sorted({results.scales[name] for name in names}))
            swept = _swept(claim, suite, results)
            for setting in claim.settings:
                settings = "" if setting is None else str(setting)
                checks = claim.measure(results, prefix, settings)
                if checks:
                    findings.append(Finding(claim, suite, settings, scale, tuple(checks), swept))
    return findings


def _swept(claim: Claim, suite: str, results: Results) -> tuple[str, ...] | None:
    """The α of the sweep on this data set (one cell of it) at which the claim holds."""
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
