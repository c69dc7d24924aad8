"""The paper's sentences that can be true or false, each with what was measured; the verdict is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isnan, log
from typing import Literal

import numpy as np

from thali import theory
from thali.catalog import Catalog
from thali.clicks import DiverseCascade, LinearSubmodular
from thali.experiments.results import Curve, Results, cell
from thali.experiments.settings import PRACTICAL, THEORY, Setting
from thali.experiments.statistics import Estimate, growth, mean, ratio

Verdict = Literal["holds", "does not hold", "not decided"]

LSB, LSB_GREEDY, LIN, KL = "CascadeLSB", "LSBGreedy", "CascadeLinUCB", "CascadeKLUCB"
BASELINES = (LSB_GREEDY, LIN, KL)
# Growth exponents of regret over the last half of a run: from here on it counts as linear, up to here as flat.
LINEAR, FLAT = 0.9, 0.2
# "Comparable", "similar": within this of one another.
ALIKE = 0.2


@dataclass(frozen=True)
class Check:
    """One measured number, and the bounds between which the claim is true of it."""

    where: str
    estimate: Estimate
    low: float = -inf
    high: float = inf

    @property
    def verdict(self) -> Verdict:
        """By the whole interval: inside the bounds, outside, or neither."""
        e = self.estimate
        low, high = (e.value, e.value) if e.low == e.high else (e.low, e.high)
        if isnan(low) or isnan(high):
            return "not decided"
        if self.low <= low and high <= self.high:
            return "holds"
        return "does not hold" if high < self.low or low > self.high else "not decided"

    @property
    def margin(self) -> float:
        """How far inside the bounds the value is; negative outside."""
        if isnan(self.estimate.value):
            return -inf
        return min(self.estimate.value - self.low, self.high - self.estimate.value)


Measure = Callable[[Results, str, str], list[Check]]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and how it is read: what is measured, and when that makes it true."""

    number: str
    section: str
    says: str
    reads: str
    measure: Measure
    """(results, prefix of the experiments' names, settings) → checks; none where the rows are missing."""
    groups: tuple[str, ...]
    settings: tuple[Setting | None, ...] = (PRACTICAL, THEORY)
    unit: str = ".2f"


@dataclass(frozen=True)
class Finding:
    """A claim at one setting, judged: all checks must hold, and one that does not is enough."""

    claim: Claim
    group: str
    settings: str
    scale: str
    checks: tuple[Check, ...]
    holds_at: tuple[str, ...] = ()
    """Of the α that were swept, those at which the claim holds."""

    @property
    def verdict(self) -> Verdict:
        """Over all checks."""
        verdicts = {check.verdict for check in self.checks}
        if "does not hold" in verdicts:
            return "does not hold"
        return "holds" if verdicts == {"holds"} else "not decided"

    @property
    def tightest(self) -> Check:
        """The check that decides: the least inside its bounds, among those of the verdict."""
        return min((c for c in self.checks if c.verdict == self.verdict), key=lambda check: check.margin)

    @property
    def measured(self) -> str:
        """The deciding number in words."""
        check, unit = self.tightest, self.claim.unit
        others = len(self.checks) - sum(c.verdict == self.verdict for c in self.checks)
        counted = f" ({len(self.checks) - others} of {len(self.checks)})" if len(self.checks) > 1 else ""
        return f"{check.where}: {check.estimate:{unit}}{counted}"


def ledger(results: Results) -> list[Finding]:
    """Every claim at every setting for which there are rows."""
    found = []
    for claim in CLAIMS:
        for group in claim.groups:
            prefix = f"{group}/" if "/" not in group else group
            names = results.experiments(prefix)
            scale = ", ".join(sorted({results.scales[name] for name in names}))
            swept = _swept(claim, group, results)
            for setting in claim.settings:
                settings = "" if setting is None else str(setting)
                checks = claim.measure(results, prefix, settings)
                if checks:
                    found.append(Finding(claim, group, settings, scale, tuple(checks), swept))
    return found


def _swept(claim: Claim, group: str, results: Results) -> tuple[str, ...]:
    """The α of the sweep on this data set at which the claim holds."""
    prefix = f"optimism/{group}-"
    names = results.experiments(prefix)
    if not names or claim.settings == (None,):
        return ()
    found = []
    for settings in results.settings(names[0]):
        checks = claim.measure(results, prefix, settings)
        if checks and all(check.verdict == "holds" for check in checks):
            found.append(settings.split()[0].replace("alpha=", ""))
    return tuple(found)


# What is measured.


def _cells(
    results: Results,
    prefix: str,
    settings: str,
    policies: tuple[str, ...],
    keep: Callable[[str], bool] = lambda _: True,
) -> list[tuple[str, list[Curve]]]:
    """For each experiment that has them all, the curves of these policies."""
    found = []
    for name in results.experiments(prefix):
        curves = [results.curve(name, policy, settings) for policy in policies]
        if keep(name) and all(curve is not None for curve in curves):
            found.append((name.partition("/")[2], [curve for curve in curves if curve is not None]))
    return found


def _times(
    above: str, below: str, low: float, high: float = inf, keep: Callable[[str], bool] = lambda _: True
) -> Measure:
    """Final regret of one policy over that of another, in every cell."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        return [
            Check(f"{where} {above}/{below}", ratio(a.final, b.final, a.split), low, high)
            for where, (a, b) in _cells(results, prefix, settings, (above, below), keep)
        ]

    return measure


def _lowest(results: Results, prefix: str, settings: str) -> list[Check]:
    """Each baseline's final regret over CascadeLSB's, in every cell."""
    return [check for baseline in BASELINES for check in _times(baseline, LSB, 1.0)(results, prefix, settings)]


def _worst(results: Results, prefix: str, settings: str) -> list[Check]:
    """CascadeKL-UCB's final regret over each other's, in every cell."""
    others = (LSB, LSB_GREEDY, LIN)
    return [check for other in others for check in _times(KL, other, 1.0)(results, prefix, settings)]


def _alike(results: Results, prefix: str, settings: str) -> list[Check]:
    """Final regret of the linear policies over one another, in every cell."""
    pairs = ((LIN, LSB), (LIN, LSB_GREEDY), (LSB_GREEDY, LSB))
    return [
        check
        for above, below in pairs
        for check in _times(above, below, 1.0 - ALIKE, 1.0 + ALIKE)(results, prefix, settings)
    ]


def _lower_by(other: str, low: float, high: float, keep: Callable[[str], bool]) -> Measure:
    """1 - CascadeLSB's final regret over another's, over all cells kept together."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        cells = _cells(results, prefix, settings, (LSB, other), keep)
        if not cells:
            return []
        mine = np.concatenate([a.final for _, (a, _) in cells])
        theirs = np.concatenate([b.final for _, (_, b) in cells])
        # The same split of another cell is the same halves and people: one unit.
        splits = np.concatenate([a.split for _, (a, _) in cells])
        found = ratio(mine, theirs, splits)
        lower = Estimate(1.0 - found.value, 1.0 - found.high, 1.0 - found.low)
        return [Check(f"1 - {LSB}/{other}", lower, low, high)]

    return measure


def _exponent(policy: str, low: float, high: float) -> Measure:
    """Growth of regret over the last half of the run, in every cell."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        found = []
        for where, (curve,) in _cells(results, prefix, settings, (policy,)):
            half, earlier = curve.at(0.5)
            exponent = growth(curve.final, earlier, curve.split, curve.n / half)
            found.append(Check(f"{where} {policy}, growth n^p, p", exponent, low, high))
        return found

    return measure


def _ends_on(policy: str, items: set[int], low: float) -> Measure:
    """The share of people whose last list has these items."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        found = []
        for where, (curve,) in _cells(results, prefix, settings, (policy,)):
            there = [set(shown.tolist()) == items for shown in curve.lists[:, -1]]
            found.append(Check(f"{where} {policy}, people who end on {sorted(items)}", mean(there, curve.split), low))
        return found

    return measure


def _oscillates(results: Results, prefix: str, settings: str) -> list[Check]:
    """The share of people to whom LSBGreedy shows both lists in the last half of the recorded steps."""
    found = []
    for where, (curve,) in _cells(results, prefix, settings, (LSB_GREEDY,)):
        late = curve.lists[:, curve.lists.shape[1] // 2 :]
        third = (late == 2).any(axis=2)
        second = ((late == 0).any(axis=2) & (late == 1).any(axis=2)).any(axis=1)
        found.append(Check(f"{where} people shown both", mean(second & third.any(axis=1), curve.split), 0.5))
    return found


def _harder(results: Results, prefix: str, settings: str) -> list[Check]:
    """CascadeLSB's final regret at each d over that at the next smaller one, K by K."""
    found = []
    cells = _cells(results, prefix, settings, (LSB,))
    for K in sorted({cell(where)[1] for where, _ in cells}):
        row = [(cell(where)[0], curve) for where, (curve,) in cells if cell(where)[1] == K]
        for (less, easy), (more, hard) in zip(row[:-1], row[1:], strict=True):
            if len(easy.final) == len(hard.final):
                check = ratio(hard.final, easy.final, hard.split)
                found.append(Check(f"K={K} regret at d={more} over d={less}", check, 1.0))
    return found


def _learns(results: Results, prefix: str, settings: str) -> list[Check]:
    """CascadeLSB's clicks in the last tenth of the run over those of the best list, in every cell."""
    found = []
    for where, (curve,) in _cells(results, prefix, settings, (LSB,)):
        since, earlier = curve.at(0.9)
        lost = (curve.final - earlier) / (curve.n - since)
        found.append(
            Check(
                f"{where} clicks over the best list's, last tenth",
                ratio(curve.best - lost, curve.best, curve.split),
                0.95,
            )
        )
    return found


def _greedy_ratio(low: float, high: float = 1.0, keep: Callable[[str], bool] = lambda _: True) -> Measure:
    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        found = []
        for where, (curve,) in _cells(results, prefix, "", ("Greedy",), keep):
            shares = 1.0 - curve.final / curve.best
            e = mean(shares, curve.split)
            # A share is at most 1, whatever the interval says.
            bounded = Estimate(e.value, e.low, min(1.0, e.high))
            found.append(Check(f"{where} f(greedy)/f(best)", bounded, low, high + 1e-12))
        return found

    return measure


def _theorem_1(results: Results, prefix: str, settings: str) -> list[Check]:
    found = []
    for where, (curve,) in _cells(results, prefix, "", ("Greedy",)):
        least = float(((1.0 - curve.final / curve.best) / curve.gamma).min())
        found.append(
            Check(f"{where} least f(greedy)/f(best)/γ of {len(curve.final)} people", Estimate.exact(least), 1.0)
        )
    return found


def _position_bias(results: Results, prefix: str, settings: str) -> list[Check]:
    """The example of Section 3, computed from the two models."""
    catalog = Catalog([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], coverage="max")
    theta, lists = [[0.5, 0.5]] * 2, [[0, 1], [1, 0]]
    found = []
    for name, model, wanted in (
        ("linear submodular", LinearSubmodular(catalog, theta), 1.0),
        ("diverse cascade", DiverseCascade(catalog, theta), 0.5),
    ):
        clicked = model.examination(lists) * model.attraction(lists)
        share = float(clicked[1, 1] / clicked[0, 0])
        found.append(Check(f"{name}, second place over first", Estimate.exact(share), wanted, wanted))
    return found


def _bound(results: Results, prefix: str, settings: str) -> list[Check]:
    """The largest γ-scaled regret over people, over Theorem 2's bound; f(A*) is at most min(1, f(greedy)/γ)."""
    found = []
    sigma = float(settings.split("sigma=")[1])
    for name in results.experiments(prefix):
        curve = results.curve(name, LSB, settings)
        if curve is None or "alpha=theory" not in settings:
            continue
        d, K = cell(name)
        d = d or 10
        alpha = theory.optimism(d, K, curve.n, sigma)
        shown = curve.best * curve.n - curve.final
        scaled = [
            (curve.n * min(1.0, best / gamma) - value / gamma)
            / theory.regret_bound(d, K, curve.n, sigma, alpha, float(gamma))
            for best, gamma, value in zip(curve.best, curve.gamma, shown, strict=True)
        ]
        found.append(Check(f"{name} largest R^γ(n) over its bound", Estimate.exact(float(max(scaled))), high=1.0))
    return found


def _in_n(results: Results, prefix: str, settings: str) -> list[Check]:
    """Growth of CascadeLSB's regret with n over the last half of the run, K by K."""
    return _exponent(LSB, -inf, 0.5)(results, prefix, settings)


def _in_k(results: Results, prefix: str, settings: str) -> list[Check]:
    """The exponent of CascadeLSB's final regret in K, by least squares on logarithms, split by split."""
    cells = _cells(results, prefix, settings, (LSB,))
    if len(cells) < 3:
        return []
    x = np.log([cell(where)[1] for where, _ in cells])
    splits = np.unique(cells[0][1][0].split)
    slopes = []
    for split in splits:
        y = [log(max(1e-9, float(curve.final[curve.split == split].mean()))) for _, (curve,) in cells]
        slopes.append(np.polyfit(x, y, 1)[0])
    return [Check("growth K^p, p", mean(slopes, np.arange(len(slopes))), high=0.5)]


def _noted(key: str, what: str, low: float, high: float) -> Measure:
    """A number of the data set itself."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        setup = results.setups.get(prefix.rstrip("/"), {})
        return [Check(what, Estimate.exact(setup[key]), low, high)] if key in setup else []

    return measure


def _at_d(d: int) -> Callable[[str], bool]:
    return lambda name: cell(name)[0] == d


_ONCE: tuple[Setting | None, ...] = (None,)
_ALL_DATA = ("movielens", "songs", "songs-hetrec", "yelp", "yelp-core40", "yelp-hin")
_SONGS = ("songs", "songs-hetrec")
_YELP = ("yelp", "yelp-core40", "yelp-hin")
_UP = "over 1 in every cell"

#: In the paper's order.
CLAIMS: tuple[Claim, ...] = (
    Claim("3.1", "3", "The model of Yue and Guestrin has no position bias, the diverse cascade model has", "the example's item in second place is clicked as often as in first, and half as often", _position_bias, ("synthetic",), _ONCE),
    Claim("3.2", "3.3", "Greedy lists reach the γ of Theorem 1", "no person below it", _theorem_1, ("approximation",), _ONCE),
    Claim("5.1", "5", "R^γ(n) stays below the bound of Theorem 2", "for the person of largest regret", _bound, ("theory",), (THEORY,), ".2g"),
    Claim("5.2", "5", "With σ=1 regret is Õ(dK√n/γ)", "the same bound at σ=1", _bound, ("theory",), (Setting("theory", 1.0),), ".2g"),
    Claim("5.3", "5", "Regret grows like √n", "growth n^p over the last half of the run has p ≤ 1/2, for every K", _in_n, ("theory",)),
    Claim("5.4", "5", "Conjecture: regret grows like √K, not K", "growth K^p from K=1 to 16 has p ≤ 1/2", _in_k, ("theory",)),
    Claim("6.1", "6.1", "The average approximation ratio is always more than 0.99", "for K=1..4", _greedy_ratio(0.99), ("approximation",), _ONCE, ".4f"),
    Claim("6.2", "6.1", "The ratio is 1 when K = 1", "exactly", _greedy_ratio(1.0 - 1e-12, keep=lambda name: name.endswith("K1")), ("approximation",), _ONCE, ".4f"),
    Claim("6.3", "6.3", "CascadeLSB's regret flattens: it learns the best list", f"growth n^p over the last half has p ≤ {FLAT}", _exponent(LSB, -inf, FLAT), ("synthetic/20k", "synthetic/1M")),
    Claim("6.4", "6.3", "LSBGreedy's regret grows linearly", f"growth n^p over the last half has p ≥ {LINEAR}", _exponent(LSB_GREEDY, LINEAR, inf), ("synthetic/20k", "synthetic/1M")),
    Claim("6.5", "6.3", "LSBGreedy oscillates between the best list and items 1, 2", "over half of the people see both lists in the last half", _oscillates, ("synthetic/20k", "synthetic/1M")),
    Claim("6.6", "6.3", "CascadeLinUCB's regret is linear", f"p ≥ {LINEAR}", _exponent(LIN, LINEAR, inf), ("synthetic/20k", "synthetic/1M")),
    Claim("6.7", "6.3", "CascadeLinUCB converges to the list (1, 2)", "at least 95% of people end on it", _ends_on(LIN, {0, 1}, 0.95), ("synthetic/20k", "synthetic/1M")),
    Claim("6.8", "6.3", "CascadeKL-UCB's regret flattens too", f"p ≤ {FLAT}", _exponent(KL, -inf, FLAT), ("synthetic/20k", "synthetic/1M"), _ONCE),
    Claim("6.9", "6.3", "CascadeKL-UCB's regret is an order of magnitude higher than CascadeLSB's", "at least 10 times", _times(KL, LSB, 10.0), ("synthetic/20k", "synthetic/1M")),
    Claim("6.10", "6.3", "CascadeLSB's regret is the least", f"each baseline's over CascadeLSB's is {_UP}", _lowest, ("synthetic/20k", "synthetic/1M")),
    Claim("6.11", "6.5", "About 8% of pairs of users and films are attractive", "7% to 9%", _noted("density", "attractive pairs", 0.07, 0.09), ("movielens",), _ONCE, ".2%"),
    Claim("6.12", "6.5", "CascadeLSB has the lowest regret for all d and K", f"each baseline's over CascadeLSB's is {_UP}", _lowest, ("movielens",)),
    Claim("6.13", "6.5", "At d=18 CascadeLSB's regret is almost 20% lower than LSBGreedy's", "15% to 25% lower, over all K", _lower_by(LSB_GREEDY, 0.15, 0.25, _at_d(18)), ("movielens",), unit=".1%"),
    Claim("6.14", "6.5", "LSBGreedy is the best baseline at d=18", "the other two over LSBGreedy's are over 1", lambda r, p, s: [c for other in (LIN, KL) for c in _times(other, LSB_GREEDY, 1.0, keep=_at_d(18))(r, p, s)], ("movielens",)),
    Claim("6.15", "6.5", "CascadeKL-UCB performs the worst", f"its regret over each other's is {_UP}", _worst, ("movielens",)),
    Claim("6.16", "6.5", "CascadeLinUCB's regret is linear", f"p ≥ {LINEAR} in every cell", _exponent(LIN, LINEAR, inf), ("movielens",)),
    Claim("6.17", "6.5", "Regret of CascadeLSB increases with the number of topics", "regret at each d over the one before is over 1", _harder, ("movielens",)),
    Claim("6.18", "6.6", "About 3% of pairs of users and songs are attractive", "2% to 4%", _noted("density", "attractive pairs", 0.02, 0.04), _SONGS, _ONCE, ".2%"),
    Claim("6.19", "6.6", "CascadeLSB has the lowest regret for all d", f"each baseline's over CascadeLSB's is {_UP}", _lowest, _SONGS),
    Claim("6.20", "6.6", "At d=40 CascadeLSB's regret is about 15% lower than LSBGreedy's", "10% to 20% lower", _lower_by(LSB_GREEDY, 0.10, 0.20, _at_d(40)), _SONGS, unit=".1%"),
    Claim("6.21", "6.6", "At d=40 CascadeLinUCB's regret is about 50% higher than CascadeLSB's", "1.4 to 1.6 times", _times(LIN, LSB, 1.4, 1.6, _at_d(40)), _SONGS),
    Claim("6.22", "6.6", "CascadeKL-UCB performs the worst", f"its regret over each other's is {_UP}", _worst, _SONGS),
    Claim("6.23", "6.7", "About 3% of pairs of users and restaurants are attractive", "2% to 4%", _noted("density", "attractive pairs", 0.02, 0.04), _YELP, _ONCE, ".2%"),
    Claim("6.24", "6.7", "Attraction probabilities of restaurants are of the order of 0.01", "the median of w̄ above 0 is 0.003 to 0.03", _noted("median_weight", "median w̄", 0.003, 0.03), _YELP, _ONCE, ".3f"),
    Claim("6.25", "6.7", "Gains over a list are comparable to gains alone", f"on best lists of 12, the former are at least {1 - ALIKE:g} of the latter", _noted("gain_share", "⟨Δ(a|S), θ*⟩ over ⟨Δ(a|∅), θ*⟩", 1.0 - ALIKE, 1.0), _YELP, _ONCE),
    Claim("6.26", "6.7", "All but CascadeKL-UCB perform alike", f"their regrets are within {ALIKE:.0%} of one another", _alike, _YELP),
    Claim("6.27", "6.7", "CascadeKL-UCB performs worse", f"its regret over each other's is {_UP}", _worst, _YELP),
    Claim("1.1", "1, 8", "CascadeLSB consistently outperforms the baselines", f"each baseline's regret over CascadeLSB's is {_UP}", _lowest, _ALL_DATA),
    Claim("1.2", "1", "It learns even where the model does not hold exactly", "with weights from other people, at least 95% of the best list's clicks in the last tenth", _learns, _ALL_DATA, unit=".3f"),
)  # fmt: skip
