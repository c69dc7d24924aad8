"""Measures for the paper's claims: ratios of regret between policies, growth, shares.

Each measure takes (results, prefix of the experiments' names, settings) and returns one check per cell. The claim is
true of a cell if its number is within the bounds of the check. A cell that lacks the rows it needs yields a check
without a number, which decides nothing. If no cell has them, there are no checks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import exp, inf, isnan
from typing import Literal

import numpy as np

from thali import theory
from thali.catalog.catalog import Catalog
from thali.lab.intervals import UNKNOWN, Estimate, growth, mean, ratio, share
from thali.lab.results import Curve, Results, cell
from thali.lab.settings import EXPERIMENTS
from thali.people import DiverseCascade, LinearSubmodular
from thali.tools.types import Floats

Verdict = Literal["holds", "does not hold", "not decided"]

LSB, LSB_GREEDY, LIN, KL = "CascadeLSB", "LSBGreedy", "CascadeLinUCB", "CascadeKLUCB"
BASELINES = (LSB_GREEDY, LIN, KL)
# Growth exponents of regret: at least LINEAR counts as linear, at most FLAT as flat. √n has 0.5, log n has 0.
LINEAR, FLAT = 0.9, 0.2
# The share of people on the synthetic problem that "it learns" and "it converges to" require.
MOST = 0.8
# The best lists of the synthetic problem, by item number, and the list without diversity.
BEST, SAME_TOPIC = ({0, 2}, {1, 2}), ({0, 1},)
# "Comparable", "similar": within this fraction of each other.
ALIKE = 0.2


@dataclass(frozen=True)
class Check:
    """One measured number, and the bounds within which the claim is true."""

    where: str
    estimate: Estimate
    low: float = -inf
    high: float = inf

    @property
    def verdict(self) -> Verdict:
        """Whether the whole interval is inside the bounds, outside, or neither."""
        e = self.estimate
        low, high = (e.value, e.value) if e.low == e.high else (e.low, e.high)
        if isnan(low) or isnan(high):
            return "not decided"
        if self.low <= low and high <= self.high:
            return "holds"
        return "does not hold" if high < self.low or low > self.high else "not decided"

    @property
    def margin(self) -> float:
        """The distance from the value to the nearest bound; negative outside."""
        if isnan(self.estimate.value):
            return -inf
        return min(self.estimate.value - self.low, self.high - self.estimate.value)


Measure = Callable[[Results, str, str], list[Check]]
Keep = Callable[[str], bool]


def every(_: str) -> bool:
    """All cells."""
    return True


def at_d(d: int) -> Keep:
    """Only the cells with d topics."""
    return lambda name: cell(name)[0] == d


def curves_of(
    results: Results, prefix: str, settings: str, policies: tuple[str, ...], keep: Keep = every
) -> tuple[list[tuple[str, list[Curve]]], list[Check]]:
    """The curves of these policies in every cell, on the people they share; and a check for each cell without them."""
    found, missing = [], []
    names = dict.fromkeys([e for e in EXPERIMENTS if e.startswith(prefix)] + results.experiments(prefix))
    for name in sorted(filter(keep, names), key=cell):
        where = name.partition("/")[2]
        curves = results.paired(name, policies, settings)
        if curves:
            found.append((where, curves))
        else:
            missing.append(Check(f"{where}: no rows of {' and '.join(policies)}", UNKNOWN))
    return found, missing if found else []


def in_cells(policies: tuple[str, ...], make: Callable[..., Check], keep: Keep = every) -> Measure:
    """Apply make(where, *curves) to every cell."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        found, missing = curves_of(results, prefix, settings, policies, keep)
        return [make(where, *curves) for where, curves in found] + missing

    return measure


def together(*measures: Measure) -> Measure:
    """Concatenate the checks of several measures."""
    return lambda results, prefix, settings: [c for measure in measures for c in measure(results, prefix, settings)]


def times(above: str, below: str, low: float, high: float = inf, keep: Keep = every) -> Measure:
    """Final regret of policy above divided by that of policy below, in every cell."""

    def make(where: str, a: Curve, b: Curve) -> Check:
        return Check(f"{where} {above}/{below}", ratio(a.final, b.final, a.split), low, high)

    return in_cells((above, below), make, keep)


#: Each baseline's final regret over CascadeLSB's.
lowest = together(*(times(baseline, LSB, 1.0) for baseline in BASELINES))
#: The same, for "competitive with".
competitive = together(*(times(baseline, LSB, 1.0 - ALIKE) for baseline in BASELINES))
#: CascadeKL-UCB's final regret over each other's.
worst = together(*(times(KL, other, 1.0) for other in (LSB, LSB_GREEDY, LIN)))
#: Final regret of the linear policies over one another.
alike = together(
    *(times(a, b, 1.0 - ALIKE, 1.0 + ALIKE) for a, b in ((LIN, LSB), (LIN, LSB_GREEDY), (LSB_GREEDY, LSB)))
)


def best_baseline(d: int) -> Measure:
    """The other baselines' final regret over LSBGreedy's, in the cells with d topics."""
    return together(*(times(other, LSB_GREEDY, 1.0, keep=at_d(d)) for other in (LIN, KL)))


def own_best(results: Results, prefix: str, settings: str) -> list[Check]:
    """Each baseline's final regret over CascadeLSB's, each policy at its own best α of the sweep."""
    checks = []
    for name in results.experiments(prefix):
        best = {}
        for policy in (LSB, *BASELINES):
            curves = [results.curve(name, policy, at) for at in results.settings(name)]
            known = [curve for curve in curves if curve is not None]
            if not known:
                return []
            best[policy] = min(known, key=lambda curve: float(curve.final.mean()))
        for baseline in BASELINES:
            pair = results.common([best[baseline], best[LSB]])
            checks.append(
                Check(
                    f"{baseline} ({best[baseline].settings or 'no α'}) / {LSB} ({best[LSB].settings})",
                    ratio(pair[0].final, pair[1].final, pair[0].split),
                    1.0,
                )
            )
    return checks


def lower_by(other: str, low: float, high: float, keep: Keep) -> Measure:
    """1 - (CascadeLSB's final regret over another's), with all kept cells pooled."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        cells, missing = curves_of(results, prefix, settings, (LSB, other), keep)
        if not cells:
            return []
        mine = np.concatenate([a.final for _, (a, _) in cells])
        theirs = np.concatenate([b.final for _, (_, b) in cells])
        # A split has the same halves and people in every cell, so it is one unit.
        splits = np.concatenate([a.split for _, (a, _) in cells])
        quotient = ratio(mine, theirs, splits)
        lower = Estimate(1.0 - quotient.value, 1.0 - quotient.high, 1.0 - quotient.low)
        return [Check(f"1 - {LSB}/{other}", lower, low, high), *missing]

    return measure


def exponent(policy: str, low: float, high: float) -> Measure:
    """The p in regret n^p: compare the increment over the second half of the run with that over the second quarter.

    Uses increments, not totals, so that the cost of initial exploration does not count.
    """

    def make(where: str, curve: Curve) -> Check:
        (_, quarter), (_, half) = curve.at(0.25), curve.at(0.5)
        estimate = growth(
            curve.final - half, half - quarter, curve.split, 2.0, nothing=0.01 * float(curve.final.mean())
        )
        return Check(f"{where} {policy}, growth n^p, p", estimate, low, high)

    return in_cells((policy,), make)


def ends_on(policy: str, lists: tuple[set[int], ...], told: str) -> Measure:
    """The share of people whose last list is one of these, in any order."""

    def make(where: str, curve: Curve) -> Check:
        on_list = [set(shown.tolist()) in lists for shown in curve.lists[:, -1]]
        return Check(f"{where} {policy}, people who end on {told}", share(on_list), MOST)

    return in_cells((policy,), make)


def _oscillates(where: str, curve: Curve) -> Check:
    late = curve.lists[:, curve.lists.shape[1] // 2 :]
    shown = [[set(items.tolist()) for items in person] for person in late]
    both = [any(a in BEST for a in person) and any(a in SAME_TOPIC for a in person) for person in shown]
    return Check(f"{where} people shown both", share(both), 0.5)


#: The share of people to whom LSBGreedy shows both lists, among the recorded steps of the last half.
oscillates = in_cells((LSB_GREEDY,), _oscillates)


def harder(results: Results, prefix: str, settings: str) -> list[Check]:
    """CascadeLSB's final regret at each d over that at the next smaller d, for each K."""
    cells, missing = curves_of(results, prefix, settings, (LSB,))
    checks = []
    for K in sorted({cell(where)[1] for where, _ in cells}):
        row = [(cell(where)[0], curve) for where, (curve,) in cells if cell(where)[1] == K]
        for (less, easy), (more, hard) in pairwise(row):
            same = easy.n == hard.n and len(easy.split) == len(hard.split) and (easy.split == hard.split).all()
            estimate = ratio(hard.final, easy.final, hard.split) if same else UNKNOWN
            checks.append(Check(f"K={K} regret at d={more} over d={less}", estimate, 1.0))
    return checks + missing if checks else []


def _late(curve: Curve) -> Floats:
    """The click probability in the last tenth of the run (people,)."""
    since, earlier = curve.at(0.9)
    return np.asarray(curve.best - (curve.final - earlier) / (curve.n - since))


def _learns(where: str, curve: Curve) -> Check:
    reached = ratio(_late(curve), curve.best, curve.split)
    return Check(f"{where} clicks over the best list's, last tenth", reached, 0.95)


#: CascadeLSB's clicks in the last tenth of the run over those of the best list.
learns = in_cells((LSB,), _learns)


def reached(curve: Curve) -> Floats:
    """f(greedy)/f(best): the fraction of the optimum that greedy lists reach (people,)."""
    return np.asarray(1.0 - curve.final / curve.best)


def greedy_ratio(low: float, keep: Keep = every) -> Measure:
    """f(greedy)/f(best), averaged over people, for every K."""

    def make(where: str, curve: Curve) -> Check:
        e = mean(reached(curve), curve.split)
        # The ratio is at most 1, whatever the interval says.
        return Check(f"{where} f(greedy)/f(best)", Estimate(e.value, e.low, min(1.0, e.high)), low)

    return in_cells(("Greedy",), make, keep)


def _least(where: str, curve: Curve) -> Check:
    least = float((reached(curve) / curve.gamma).min())
    return Check(f"{where} least f(greedy)/f(best)/γ of {len(curve.final)} people", Estimate.exact(least), 1.0)


def _better(where: str, curve: Curve) -> Check:
    return Check(f"{where} f(greedy)/f(best)/γ", mean(reached(curve) / curve.gamma, curve.split), 1.0 + ALIKE)


def _gamma(where: str, curve: Curve) -> Check:
    return Check(f"{where} γ/(1 - 1/e)", mean(curve.gamma / (1.0 - exp(-1.0)), curve.split), 0.9)


#: f(greedy)/f(best) over the γ of Theorem 1: the lowest of all people, and the average.
theorem_1, better_than_theorem_1 = in_cells(("Greedy",), _least), in_cells(("Greedy",), _better)
#: Theorem 1's γ over its largest possible value, at K=4: near 1 if no item is likely to be clicked.
small_clicks = in_cells(("Greedy",), _gamma, lambda name: name.endswith("K4"))


def position_bias(results: Results, prefix: str, settings: str) -> list[Check]:
    """The example of Section 3, computed from the two models."""
    catalog = Catalog([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], coverage="max")
    theta, lists = [[0.5, 0.5]] * 2, [[0, 1], [1, 0]]
    checks = []
    for name, model, expected in (
        ("linear submodular", LinearSubmodular(catalog, theta), 1.0),
        ("diverse cascade", DiverseCascade(catalog, theta), 0.5),
    ):
        clicked = model.examination(lists) * model.attraction(lists)
        second = float(clicked[1, 1] / clicked[0, 0])
        checks.append(Check(f"{name}, second place over first", Estimate.exact(second), expected, expected))
    return checks


def bound(results: Results, prefix: str, settings: str) -> list[Check]:
    """An upper estimate of R^γ(n) over Theorem 2's bound, for the person with the largest ratio.

    It is an upper estimate because f(A*) is replaced by min(1, f(greedy)/γ), which it cannot exceed.
    """
    cells, missing = curves_of(results, prefix, settings, (LSB,))
    sigma = float(settings.split("sigma=")[1])
    checks = []
    for where, (curve,) in cells:
        d, K = EXPERIMENTS[curve.experiment].d, curve.lists.shape[2]
        alpha = theory.optimism(d, K, curve.n, sigma)
        shown = curve.best * curve.n - curve.final
        scaled = [
            (curve.n * min(1.0, best / gamma) - value / gamma)
            / theory.regret_bound(d, K, curve.n, sigma, alpha, float(gamma))
            for best, gamma, value in zip(curve.best, curve.gamma, shown, strict=True)
        ]
        checks.append(Check(f"{where} at most, R^γ(n) over its bound", Estimate.exact(float(max(scaled))), high=1.0))
    return checks + missing


def in_k(results: Results, prefix: str, settings: str) -> list[Check]:
    """The exponent of CascadeLSB's final regret in K, by least squares on logarithms, for each split."""
    cells, missing = curves_of(results, prefix, settings, (LSB,))
    if len(cells) < 3 or len({curve.n for _, (curve,) in cells}) > 1:
        return []
    x = np.log([cell(where)[1] for where, _ in cells])
    splits = set.intersection(*(set(curve.split.tolist()) for _, (curve,) in cells))
    slopes = []
    for split in sorted(splits):
        y = np.log([curve.final[curve.split == split].mean() for _, (curve,) in cells])
        slopes.append(np.polyfit(x, y, 1)[0])
    return [Check("growth K^p, p", mean(slopes, np.arange(len(slopes))), high=0.5), *missing]


def since(above: str, below: str, share: float, low: float, high: float = inf, keep: Keep = every) -> Measure:
    """The increase of regret after this share of the run, for policy above over policy below."""

    def make(where: str, a: Curve, b: Curve) -> Check:
        estimate = ratio(a.final - a.at(share)[1], b.final - b.at(share)[1], a.split)
        return Check(f"{where} {above}/{below} since {share:.0%} of the run", estimate, low, high)

    return in_cells((above, below), make, keep)


def follows(policy: str, low: float) -> Measure:
    """A policy's clicks over the best list's in the last tenth, with changing tastes over without.

    Without: the experiment of the same name that ends in "none".
    """

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        checks = []
        for name in results.experiments(prefix):
            changed = results.curve(name, policy, settings)
            same = results.curve(f"{name.rpartition('-')[0]}-none", policy, settings)
            pair = [] if changed is None or same is None else results.common([changed, same])
            if pair:
                after, without = (_late(curve) / curve.best for curve in pair)
                where = f"{name.partition('/')[2]} {policy}, last tenth, over the same without a change"
                checks.append(Check(where, ratio(after, without, pair[0].split), low))
        return checks

    return measure


def noted(key: str, what: str, low: float, high: float) -> Measure:
    """A number recorded for the data set itself, by :func:`thali.lab.sources.setup`."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        setup = results.setups.get(prefix.rstrip("/"), {})
        return [Check(what, Estimate.exact(setup[key]), low, high)] if key in setup else []

    return measure
