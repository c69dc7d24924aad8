"""What the paper's claims are about, measured on results: regret of one policy over another's, growth, shares.

Each measure takes (results, prefix of the experiments' names, settings) and returns a check for every cell that has
the rows; the bounds of a check say when the claim is true of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isnan, log
from typing import Literal

import numpy as np

from thali import theory
from thali.catalog import Catalog
from thali.clicks import DiverseCascade, LinearSubmodular
from thali.experiments.results import Curve, Results, cell
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
Keep = Callable[[str], bool]


def curves_of(
    results: Results,
    prefix: str,
    settings: str,
    policies: tuple[str, ...],
    keep: Keep = lambda _: True,
) -> list[tuple[str, list[Curve]]]:
    """For each experiment that has them all, the curves of these policies."""
    found = []
    for name in results.experiments(prefix):
        curves = [results.curve(name, policy, settings) for policy in policies]
        if keep(name) and all(curve is not None for curve in curves):
            found.append((name.partition("/")[2], [curve for curve in curves if curve is not None]))
    return found


def times(above: str, below: str, low: float, high: float = inf, keep: Keep = lambda _: True) -> Measure:
    """Final regret of one policy over that of another, in every cell."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        return [
            Check(f"{where} {above}/{below}", ratio(a.final, b.final, a.split), low, high)
            for where, (a, b) in curves_of(results, prefix, settings, (above, below), keep)
        ]

    return measure


def lowest(results: Results, prefix: str, settings: str) -> list[Check]:
    """Each baseline's final regret over CascadeLSB's, in every cell."""
    return [check for baseline in BASELINES for check in times(baseline, LSB, 1.0)(results, prefix, settings)]


def worst(results: Results, prefix: str, settings: str) -> list[Check]:
    """CascadeKL-UCB's final regret over each other's, in every cell."""
    others = (LSB, LSB_GREEDY, LIN)
    return [check for other in others for check in times(KL, other, 1.0)(results, prefix, settings)]


def best_baseline(d: int) -> Measure:
    """The other baselines' final regret over LSBGreedy's, in the cells of d topics."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        others = [times(other, LSB_GREEDY, 1.0, keep=at_d(d)) for other in (LIN, KL)]
        return [check for other in others for check in other(results, prefix, settings)]

    return measure


def alike(results: Results, prefix: str, settings: str) -> list[Check]:
    """Final regret of the linear policies over one another, in every cell."""
    pairs = ((LIN, LSB), (LIN, LSB_GREEDY), (LSB_GREEDY, LSB))
    return [
        check
        for above, below in pairs
        for check in times(above, below, 1.0 - ALIKE, 1.0 + ALIKE)(results, prefix, settings)
    ]


def lower_by(other: str, low: float, high: float, keep: Keep) -> Measure:
    """1 - CascadeLSB's final regret over another's, over all cells kept together."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        cells = curves_of(results, prefix, settings, (LSB, other), keep)
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


def exponent(policy: str, low: float, high: float) -> Measure:
    """Growth of regret over the last half of the run, in every cell."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        found = []
        for where, (curve,) in curves_of(results, prefix, settings, (policy,)):
            half, earlier = curve.at(0.5)
            exponent = growth(curve.final, earlier, curve.split, curve.n / half)
            found.append(Check(f"{where} {policy}, growth n^p, p", exponent, low, high))
        return found

    return measure


def ends_on(policy: str, items: set[int], low: float) -> Measure:
    """The share of people whose last list has these items."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        found = []
        for where, (curve,) in curves_of(results, prefix, settings, (policy,)):
            there = [set(shown.tolist()) == items for shown in curve.lists[:, -1]]
            found.append(Check(f"{where} {policy}, people who end on {sorted(items)}", mean(there, curve.split), low))
        return found

    return measure


def oscillates(results: Results, prefix: str, settings: str) -> list[Check]:
    """The share of people to whom LSBGreedy shows both lists in the last half of the recorded steps."""
    found = []
    for where, (curve,) in curves_of(results, prefix, settings, (LSB_GREEDY,)):
        late = curve.lists[:, curve.lists.shape[1] // 2 :]
        third = (late == 2).any(axis=2)
        second = ((late == 0).any(axis=2) & (late == 1).any(axis=2)).any(axis=1)
        found.append(Check(f"{where} people shown both", mean(second & third.any(axis=1), curve.split), 0.5))
    return found


def harder(results: Results, prefix: str, settings: str) -> list[Check]:
    """CascadeLSB's final regret at each d over that at the next smaller one, K by K."""
    found = []
    cells = curves_of(results, prefix, settings, (LSB,))
    for K in sorted({cell(where)[1] for where, _ in cells}):
        row = [(cell(where)[0], curve) for where, (curve,) in cells if cell(where)[1] == K]
        for (less, easy), (more, hard) in pairwise(row):
            if len(easy.final) == len(hard.final):
                check = ratio(hard.final, easy.final, hard.split)
                found.append(Check(f"K={K} regret at d={more} over d={less}", check, 1.0))
    return found


def learns(results: Results, prefix: str, settings: str) -> list[Check]:
    """CascadeLSB's clicks in the last tenth of the run over those of the best list, in every cell."""
    found = []
    for where, (curve,) in curves_of(results, prefix, settings, (LSB,)):
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


def greedy_ratio(low: float, keep: Keep = lambda _: True) -> Measure:
    """What greedy lists reach of the optimum, on average over people, for every K."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        found = []
        for where, (curve,) in curves_of(results, prefix, "", ("Greedy",), keep):
            shares = 1.0 - curve.final / curve.best
            e = mean(shares, curve.split)
            # A share is at most 1, whatever the interval says.
            bounded = Estimate(e.value, e.low, min(1.0, e.high))
            found.append(Check(f"{where} f(greedy)/f(best)", bounded, low))
        return found

    return measure


def theorem_1(results: Results, prefix: str, settings: str) -> list[Check]:
    """What greedy lists reach of the optimum, over the γ promised, for the person for whom it is least."""
    found = []
    for where, (curve,) in curves_of(results, prefix, "", ("Greedy",)):
        least = float(((1.0 - curve.final / curve.best) / curve.gamma).min())
        found.append(
            Check(f"{where} least f(greedy)/f(best)/γ of {len(curve.final)} people", Estimate.exact(least), 1.0)
        )
    return found


def position_bias(results: Results, prefix: str, settings: str) -> list[Check]:
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


def bound(results: Results, prefix: str, settings: str) -> list[Check]:
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


def in_n(results: Results, prefix: str, settings: str) -> list[Check]:
    """Growth of CascadeLSB's regret with n over the last half of the run, K by K."""
    return exponent(LSB, -inf, 0.5)(results, prefix, settings)


def in_k(results: Results, prefix: str, settings: str) -> list[Check]:
    """The exponent of CascadeLSB's final regret in K, by least squares on logarithms, split by split."""
    cells = curves_of(results, prefix, settings, (LSB,))
    if len(cells) < 3:
        return []
    x = np.log([cell(where)[1] for where, _ in cells])
    splits = np.unique(cells[0][1][0].split)
    slopes = []
    for split in splits:
        y = [log(max(1e-9, float(curve.final[curve.split == split].mean()))) for _, (curve,) in cells]
        slopes.append(np.polyfit(x, y, 1)[0])
    return [Check("growth K^p, p", mean(slopes, np.arange(len(slopes))), high=0.5)]


def noted(key: str, what: str, low: float, high: float) -> Measure:
    """A number of the data set itself."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        setup = results.setups.get(prefix.rstrip("/"), {})
        return [Check(what, Estimate.exact(setup[key]), low, high)] if key in setup else []

    return measure


def at_d(d: int) -> Keep:
    """Only the cells of so many topics."""
    return lambda name: cell(name)[0] == d
