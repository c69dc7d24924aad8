"""Measures for the paper's claims: ratios of regret between policies, growth of regret, and shares of people.

Each measure takes (results, prefix of the experiments' names, settings) and usually returns one check per experiment.
The claim is true of an experiment if the measured number is within the bounds of the check. If an experiment lacks the
rows it needs, its check has no number and decides nothing. If no experiment has the rows, there are no checks.
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
from thali.lab.results import Curve, Results, d_and_K
from thali.lab.settings import EXPERIMENTS
from thali.people import DiverseCascade, LinearSubmodular
from thali.tools.types import Floats

Verdict = Literal["holds", "does not hold", "not decided"]

LSB, LSB_GREEDY, LIN, KL = "CascadeLSB", "LSBGreedy", "CascadeLinUCB", "CascadeKLUCB"
BASELINES = (LSB_GREEDY, LIN, KL)
# Regret that grows like n^p counts as linear if p is at least LINEAR, and as flat if p is at most FLAT.
# √n has p = 0.5, and log n has p = 0.
LINEAR, FLAT = 0.9, 0.2
# The share of people for whom "it learns" or "it converges to" must be true on the synthetic problem.
MOST = 0.8
# The optimal lists of the synthetic problem, and the list without diversity. Items are numbered from 0.
BEST, SAME_TOPIC = ({0, 2}, {1, 2}), ({0, 1},)
# "Comparable" and "similar" mean: within this fraction of each other.
SIMILAR = 0.2


@dataclass(frozen=True)
class Check:
    """One measured number, and the bounds within which the claim is true."""

    label: str
    """The experiment and the quantity that was measured."""
    estimate: Estimate
    low: float = -inf
    high: float = inf

    @property
    def verdict(self) -> Verdict:
        """Whether the whole interval is inside the bounds, outside them, or neither."""
        e = self.estimate
        low, high = (e.value, e.value) if e.low == e.high else (e.low, e.high)
        if isnan(low) or isnan(high):
            return "not decided"
        if self.low <= low and high <= self.high:
            return "holds"
        return "does not hold" if high < self.low or low > self.high else "not decided"

    @property
    def margin(self) -> float:
        """The distance from the value to the nearest bound; negative if the value is outside the bounds."""
        if isnan(self.estimate.value):
            return -inf
        return min(self.estimate.value - self.low, self.high - self.estimate.value)


Measure = Callable[[Results, str, str], list[Check]]
Keep = Callable[[str], bool]


def every(_: str) -> bool:
    """Keep all experiments."""
    return True


def at_d(d: int) -> Keep:
    """Keep only the experiments with d topics."""
    return lambda name: d_and_K(name)[0] == d


def curves_of(
    results: Results, prefix: str, settings: str, policies: tuple[str, ...], keep: Keep = every
) -> tuple[list[tuple[str, list[Curve]]], list[Check]]:
    """Return (experiment, curves of these policies on the people they share) for every experiment with rows.

    Also returns a check without a number for each experiment that lacks rows.
    """
    complete, missing = [], []
    names = dict.fromkeys([e for e in EXPERIMENTS if e.startswith(prefix)] + results.experiments(prefix))
    for name in sorted(filter(keep, names), key=d_and_K):
        where = name.partition("/")[2]
        curves = results.paired(name, policies, settings)
        if curves:
            complete.append((where, curves))
        else:
            missing.append(Check(f"{where}: no rows of {' and '.join(policies)}", UNKNOWN))
    return complete, missing if complete else []


def in_each_experiment(policies: tuple[str, ...], make: Callable[..., Check], keep: Keep = every) -> Measure:
    """Apply make(where, *curves) to every experiment; ``where`` is the experiment's name without its suite."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        experiments, missing = curves_of(results, prefix, settings, policies, keep)
        return [make(where, *curves) for where, curves in experiments] + missing

    return measure


def together(*measures: Measure) -> Measure:
    """Concatenate the checks of several measures."""
    return lambda results, prefix, settings: [c for measure in measures for c in measure(results, prefix, settings)]


def times(above: str, below: str, low: float, high: float = inf, keep: Keep = every) -> Measure:
    """Final regret of the first policy divided by that of the second, in every experiment."""

    def make(where: str, a: Curve, b: Curve) -> Check:
        return Check(f"{where}, regret of {above}/{below}", ratio(a.final, b.final, a.split), low, high)

    return in_each_experiment((above, below), make, keep)


#: Each baseline's final regret divided by CascadeLSB's.
lowest = together(*(times(baseline, LSB, 1.0) for baseline in BASELINES))
#: The same ratios with the lower bound that "competitive with" needs.
competitive = together(*(times(baseline, LSB, 1.0 - SIMILAR) for baseline in BASELINES))
#: CascadeKL-UCB's final regret divided by that of each of the other policies.
worst = together(*(times(KL, other, 1.0) for other in (LSB, LSB_GREEDY, LIN)))
#: Ratios of final regret between the linear policies.
similar = together(
    *(times(a, b, 1.0 - SIMILAR, 1.0 + SIMILAR) for a, b in ((LIN, LSB), (LIN, LSB_GREEDY), (LSB_GREEDY, LSB)))
)


def best_baseline(d: int) -> Measure:
    """The other baselines' final regret divided by LSBGreedy's, in the experiments with d topics."""
    return together(*(times(other, LSB_GREEDY, 1.0, keep=at_d(d)) for other in (LIN, KL)))


def own_best(results: Results, prefix: str, settings: str) -> list[Check]:
    """Each baseline's final regret divided by CascadeLSB's, with each policy at its own best α of the sweep."""
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
                    f"regret of {baseline} ({best[baseline].settings or 'no α'}) / {LSB} ({best[LSB].settings})",
                    ratio(pair[0].final, pair[1].final, pair[0].split),
                    1.0,
                )
            )
    return checks


def lower_by(other: str, low: float, high: float, keep: Keep) -> Measure:
    """1 - (CascadeLSB's final regret / another policy's), with all kept experiments pooled."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        experiments, missing = curves_of(results, prefix, settings, (LSB, other), keep)
        if not experiments:
            return []
        mine = np.concatenate([a.final for _, (a, _) in experiments])
        theirs = np.concatenate([b.final for _, (_, b) in experiments])
        # A split has the same halves and people in every experiment, so it is one independent unit.
        splits = np.concatenate([a.split for _, (a, _) in experiments])
        quotient = ratio(mine, theirs, splits)
        lower = Estimate(1.0 - quotient.value, 1.0 - quotient.high, 1.0 - quotient.low)
        return [Check(f"1 - regret of {LSB}/{other}", lower, low, high), *missing]

    return measure


def exponent(policy: str, low: float, high: float) -> Measure:
    """The exponent p if regret grows like n^p.

    2^p is the regret added in the second half of the run, divided by the regret added in the second quarter. The totals
    are not used, because they include the cost of initial exploration.
    """

    def make(where: str, curve: Curve) -> Check:
        (_, quarter), (_, half) = curve.at(0.25), curve.at(0.5)
        estimate = growth(
            curve.final - half, half - quarter, curve.split, 2.0, nothing=0.01 * float(curve.final.mean())
        )
        return Check(f"{where}, {policy}, exponent p", estimate, low, high)

    return in_each_experiment((policy,), make)


def ends_on(policy: str, lists: tuple[set[int], ...], description: str) -> Measure:
    """The share of people whose last list is one of these lists, in any order."""

    def make(where: str, curve: Curve) -> Check:
        on_list = [set(shown.tolist()) in lists for shown in curve.lists[:, -1]]
        return Check(f"{where}, {policy}, share of people whose last list is {description}", share(on_list), MOST)

    return in_each_experiment((policy,), make)


def _oscillates(where: str, curve: Curve) -> Check:
    late = curve.lists[:, curve.lists.shape[1] // 2 :]
    shown = [[set(items.tolist()) for items in person] for person in late]
    both = [any(a in BEST for a in person) and any(a in SAME_TOPIC for a in person) for person in shown]
    return Check(f"{where}, share of people shown both lists", share(both), 0.5)


#: The share of people to whom LSBGreedy shows both lists in the second half of the recorded steps.
oscillates = in_each_experiment((LSB_GREEDY,), _oscillates)


def harder(results: Results, prefix: str, settings: str) -> list[Check]:
    """CascadeLSB's final regret at each d divided by that at the next smaller d, for each K."""
    experiments, missing = curves_of(results, prefix, settings, (LSB,))
    checks = []
    for K in sorted({d_and_K(where)[1] for where, _ in experiments}):
        row = [(d_and_K(where)[0], curve) for where, (curve,) in experiments if d_and_K(where)[1] == K]
        for (less, easy), (more, hard) in pairwise(row):
            same = easy.n == hard.n and len(easy.split) == len(hard.split) and (easy.split == hard.split).all()
            estimate = ratio(hard.final, easy.final, hard.split) if same else UNKNOWN
            checks.append(Check(f"K={K}, regret at d={more} / regret at d={less}", estimate, 1.0))
    return checks + missing if checks else []


def _late(curve: Curve) -> Floats:
    """The click probability in the last tenth of the run (people,)."""
    since, earlier = curve.at(0.9)
    return np.asarray(curve.best - (curve.final - earlier) / (curve.n - since))


def _learns(where: str, curve: Curve) -> Check:
    reached = ratio(_late(curve), curve.best, curve.split)
    return Check(f"{where}, clicks in the last tenth / clicks of the best list", reached, 0.95)


#: CascadeLSB's clicks in the last tenth of the run divided by those of the best list.
learns = in_each_experiment((LSB,), _learns)


def reached(curve: Curve) -> Floats:
    """f(greedy)/f(best): the fraction of the optimum that greedy lists reach (people,)."""
    return np.asarray(1.0 - curve.final / curve.best)


def greedy_ratio(low: float, keep: Keep = every) -> Measure:
    """f(greedy)/f(best), averaged over people, for every K."""

    def make(where: str, curve: Curve) -> Check:
        e = mean(reached(curve), curve.split)
        # The ratio cannot exceed 1, so the interval is cut off there.
        return Check(f"{where}, f(greedy)/f(best)", Estimate(e.value, e.low, min(1.0, e.high)), low)

    return in_each_experiment(("Greedy",), make, keep)


def _least(where: str, curve: Curve) -> Check:
    least = float((reached(curve) / curve.gamma).min())
    return Check(f"{where}, lowest f(greedy)/(γ·f(best)) of {len(curve.final)} people", Estimate.exact(least), 1.0)


def _better(where: str, curve: Curve) -> Check:
    return Check(f"{where}, f(greedy)/(γ·f(best))", mean(reached(curve) / curve.gamma, curve.split), 1.0 + SIMILAR)


def _gamma(where: str, curve: Curve) -> Check:
    return Check(f"{where}, γ/(1 - 1/e)", mean(curve.gamma / (1.0 - exp(-1.0)), curve.split), 0.9)


#: f(greedy)/f(best) divided by the γ of Theorem 1: the lowest value of all people, and the average.
theorem_1, better_than_theorem_1 = in_each_experiment(("Greedy",), _least), in_each_experiment(("Greedy",), _better)
#: Theorem 1's γ divided by its largest possible value, at K=4. It is near 1 if no item is likely to be clicked.
small_clicks = in_each_experiment(("Greedy",), _gamma, lambda name: name.endswith("K4"))


def position_bias(results: Results, prefix: str, settings: str) -> list[Check]:
    """The example of Section 3, computed from the two models."""
    catalog = Catalog([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], coverage="max")
    theta, lists = [[0.5, 0.5]] * 2, [[0, 1], [1, 0]]
    checks = []
    for name, model, expected in (
        ("model of Yue and Guestrin", LinearSubmodular(catalog, theta), 1.0),
        ("diverse cascade model", DiverseCascade(catalog, theta), 0.5),
    ):
        clicked = model.examination(lists) * model.attraction(lists)
        second = float(clicked[1, 1] / clicked[0, 0])
        checks.append(
            Check(
                f"{name}, clicks in second place / clicks in first place",
                Estimate.exact(second),
                expected,
                expected,
            )
        )
    return checks


def bound(results: Results, prefix: str, settings: str) -> list[Check]:
    """An upper estimate of R^γ(n) divided by Theorem 2's bound, for the person with the largest ratio.

    It is an upper estimate because it replaces f(A*) by min(1, f(greedy)/γ), which f(A*) cannot exceed.
    """
    experiments, missing = curves_of(results, prefix, settings, (LSB,))
    sigma = float(settings.split("sigma=")[1])
    checks = []
    for where, (curve,) in experiments:
        d, K = EXPERIMENTS[curve.experiment].d, curve.lists.shape[2]
        alpha = theory.optimism(d, K, curve.n, sigma)
        shown = curve.best * curve.n - curve.final
        scaled = [
            (curve.n * min(1.0, best / gamma) - value / gamma)
            / theory.regret_bound(d, K, curve.n, sigma, alpha, float(gamma))
            for best, gamma, value in zip(curve.best, curve.gamma, shown, strict=True)
        ]
        checks.append(Check(f"{where}, largest R^γ(n)/bound", Estimate.exact(float(max(scaled))), high=1.0))
    return checks + missing


def in_k(results: Results, prefix: str, settings: str) -> list[Check]:
    """The exponent p if CascadeLSB's final regret grows like K^p: least squares on logarithms, for each split."""
    experiments, missing = curves_of(results, prefix, settings, (LSB,))
    if len(experiments) < 3 or len({curve.n for _, (curve,) in experiments}) > 1:
        return []
    x = np.log([d_and_K(where)[1] for where, _ in experiments])
    splits = set.intersection(*(set(curve.split.tolist()) for _, (curve,) in experiments))
    slopes = []
    for split in sorted(splits):
        y = np.log([curve.final[curve.split == split].mean() for _, (curve,) in experiments])
        slopes.append(np.polyfit(x, y, 1)[0])
    return [Check("exponent p", mean(slopes, np.arange(len(slopes))), high=0.5), *missing]


def since(above: str, below: str, share: float, low: float, high: float = inf, keep: Keep = every) -> Measure:
    """The regret added after this share of the run by the first policy, divided by that of the second."""

    def make(where: str, a: Curve, b: Curve) -> Check:
        estimate = ratio(a.final - a.at(share)[1], b.final - b.at(share)[1], a.split)
        return Check(f"{where}, regret added after {share:.0%} of the run, {above}/{below}", estimate, low, high)

    return in_each_experiment((above, below), make, keep)


def follows(policy: str, low: float) -> Measure:
    """The share of the best list's clicks that a policy gets in the last tenth, relative to that without a change.

    The experiment without a change has the same name, except that it ends in "none".
    """

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        checks = []
        for name in results.experiments(prefix):
            changed = results.curve(name, policy, settings)
            same = results.curve(f"{name.rpartition('-')[0]}-none", policy, settings)
            pair = [] if changed is None or same is None else results.common([changed, same])
            if pair:
                after, without = (_late(curve) / curve.best for curve in pair)
                where = name.partition("/")[2]
                label = f"{where}, {policy}, (clicks / clicks of the best list) / the same ratio without a change"
                checks.append(Check(label, ratio(after, without, pair[0].split), low))
        return checks

    return measure


def noted(key: str, label: str, low: float, high: float) -> Measure:
    """A number recorded for the data set itself, by :func:`thali.lab.sources.setup`."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        setup = results.setups.get(prefix.rstrip("/"), {})
        return [Check(label, Estimate.exact(setup[key]), low, high)] if key in setup else []

    return measure
