"""Measures for the paper's claims: ratios of regret between policies, growth of regret, and shares of people.

Each measure takes (results, prefix of the experiments' names, settings) and usually returns one check per experiment.
The claim is true of an experiment if the measured number is within the bounds of the check. If an experiment lacks the
rows it needs, its check has no number and decides nothing. If no experiment has the rows, there are no checks. Some
numbers cannot confirm a claim, or cannot refute it; then the check says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import exp, inf, isinf

import numpy as np

from thali import theory
from thali.catalog.catalog import Catalog
from thali.lab.intervals import UNKNOWN, Estimate, growth, mean, mean_fraction, ratio, share
from thali.lab.results import Curve, Results, d_and_K
from thali.lab.settings import EXPERIMENTS
from thali.lab.verdicts import UNDECIDABLE, Check
from thali.people import DiverseCascade, LinearSubmodular
from thali.tools.types import Floats

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
# Regret has stopped growing if the second half of the run adds at most this share of it.
STOPPED = 0.01
# A policy has learned something if, at the end of the run, it gets at least this share of the best list's clicks.
LEARNED = 0.5


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


def times_once_learned(above: str, below: str, low: float, keep: Keep = every) -> Measure:
    """Like :func:`times`, but the ratio decides nothing if the second policy has not learned anything yet.

    All policies have about the same regret before they have learned anything, so their ratio is close to 1.
    """

    def make(where: str, a: Curve, b: Curve) -> Check:
        check = Check(f"{where}, regret of {above}/{below}", ratio(a.final, b.final, a.split), low)
        clicks = _late(b).mean() / b.best.mean()
        if clicks >= LEARNED:
            return check
        reason = f"{below} has hardly learned (it gets {clicks:.0%} of the best list's clicks at the end of the run)"
        return replace(check, cannot=UNDECIDABLE, because=reason)

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
    """Each baseline's final regret divided by CascadeLSB's, with each policy at the α that is best for other people."""
    checks = []
    for name in results.experiments(prefix):
        at = {policy: [results.curve(name, policy, s) for s in results.settings(name)] for policy in (LSB, *BASELINES)}
        known = results.common([curve for curves in at.values() for curve in curves if curve is not None])
        tuned = {policy: _tuned([curve for curve in known if curve.policy == policy]) for policy in at}
        mine = tuned[LSB]
        for baseline in BASELINES:
            theirs = tuned[baseline]
            if mine is None or theirs is None:
                return []
            label = f"regret of {baseline} ({theirs[1]}) / {LSB} ({mine[1]})"
            checks.append(Check(label, ratio(theirs[0], mine[0], known[0].split), 1.0))
    return checks


def _tuned(curves: Sequence[Curve]) -> tuple[Floats, str] | None:
    """Final regret of one policy (people,) if each person gets the α that is best for others; and these α as text.

    The curves are those of the policy at each α, with the same people. The α for the people of a split is the one with
    the lowest mean regret in the other splits, without users who are also in this split. If there is only one split,
    the α for each person is the one that is best for everybody else. So nobody is judged at an α that was chosen with
    their help (cross-fitting). Returns None if there are no curves or no other people.
    """
    if not curves:
        return None
    split, user = curves[0].split, np.array([user for _, user in curves[0].people])
    folds = split if len(set(split.tolist())) > 1 else np.arange(len(split))
    regret, used = np.empty(len(split)), set()
    for fold in np.unique(folds):
        judged = folds == fold
        others = ~np.isin(user, user[judged])
        if not others.any():
            return None
        best = min(curves, key=lambda curve: float(curve.final[others].mean()))
        regret[judged] = best.final[judged]
        used.add(best.settings)
    alphas = [c.settings.partition(" ")[0].removeprefix("alpha=") for c in curves if c.settings in used]
    return regret, f"α = {' or '.join(alphas)}" if any(alphas) else "no α"


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
        check = Check(
            f"1 - regret of {LSB}/{other}",
            quotient.through(lambda times: 1.0 - times),
            low,
            high,
            if_above=f"{LSB} does better than claimed",
            if_below=f"{LSB} does worse than claimed",
        )
        return [check, *missing]

    return measure


def exponent(policy: str, low: float, high: float, *, cannot_refute: str = "") -> Measure:
    """The exponent p if regret grows like n^p.

    2^p is the regret added in the second half of the run, divided by the regret added in the second quarter. The totals
    are not used, because they include the cost of initial exploration.

    cannot_refute: why an exponent outside the bounds does not refute the claim; empty if it does.
    """

    def make(where: str, curve: Curve) -> Check:
        (_, quarter), (_, half) = curve.at(0.25), curve.at(0.5)
        estimate = growth(
            curve.final - half, half - quarter, curve.split, 2.0, nothing=STOPPED * float(curve.final.mean())
        )
        stopped = isinf(estimate.value)
        return Check(
            f"{where}, {policy}" if stopped else f"{where}, {policy}, exponent p",
            estimate,
            low,
            high,
            says=f"the second half of the run adds at most {STOPPED:.0%} of the regret" if stopped else "",
            cannot=("does not hold",) if cannot_refute else (),
            because=cannot_refute,
        )

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
        return Check(f"{where}, f(greedy)/f(best)", mean_fraction(reached(curve), curve.split), low)

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


def noted(key: str, label: str, low: float, high: float, *, about: str = "") -> Measure:
    """A number recorded for the data set itself, by :func:`thali.lab.sources.setup`.

    about: the suite with the paper's own data, if the claim is about that data only. Then the number of a substitute
    decides nothing.
    """

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        suite = prefix.rstrip("/")
        setup = results.setups.get(suite, {})
        if key not in setup:
            return []
        check = Check(label, Estimate.exact(setup[key]), low, high)
        if about in ("", suite):
            return [check]
        reason = "the claim is about the paper's own data, and this data set is a substitute"
        return [replace(check, cannot=UNDECIDABLE, because=reason)]

    return measure
