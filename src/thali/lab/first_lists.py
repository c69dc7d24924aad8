"""The first lists: which share of the best list's clicks policies earn, as tables, figures and evidence for claims.

The share so far is the expected number of clicks on a person's first n lists, divided by the expected number of clicks
that the person's best list would have got if it had been shown n times. Means are over people. Differences between
policies are paired: they are computed for each person first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from thali.lab.evidence import Measure, curves_of, in_each_experiment
from thali.lab.figures import Line, order, share_panels
from thali.lab.intervals import UNKNOWN, Estimate, mean
from thali.lab.results import Curve, Results, d_and_K, scale_label
from thali.lab.settings import EXPERIMENTS, GROWING, STATIC
from thali.lab.sources import SOURCES
from thali.lab.verdicts import Check
from thali.tools.types import Booleans

#: The suites that this module is about.
FIRST, ARRIVING = "first-lists", "arriving"
#: The policies with which all others are compared: a list that learns nothing, and CascadeLSB without a prior.
BASES = (STATIC, "CascadeLSB")
#: The numbers of lists in the tables.
SHOWN = (1, 5, 10, 20, 50, 100, 1000)
#: The arrivals in the tables, from and to, counted from 1; and how many arrivals a point of the figure stands for.
ARRIVALS, BLOCK = ((1, 1), (2, 10), (11, 20), (21, 50), (51, 100)), 10


@dataclass(frozen=True)
class Table:
    """Numbers of an experiment by policy, with one column for each number of lists, or for each range of arrivals."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Estimate, ...]], ...]
    """Each policy with its numbers, in percent."""
    signed: bool = False
    """Whether the numbers are differences."""

    def cells(self) -> list[list[str]]:
        """The rows as text: each number with half of its 95% interval."""
        return [[policy, *(_cell(number, self.signed) for number in numbers)] for policy, numbers in self.rows]

    def markdown(self) -> str:
        """The table with its title in Markdown."""
        lines = [
            f"{self.title}:",
            "",
            f"| policy | {' | '.join(self.columns)} |",
            "| --- |" + " ---: |" * len(self.columns),
        ]
        return "\n".join([*lines, *("| " + " | ".join(cells) + " |" for cells in self.cells())])


@dataclass(frozen=True)
class Shares:
    """The shares of all policies of one experiment, on the people they have in common."""

    name: str
    scale: str
    curves: dict[str, Curve]

    @classmethod
    def every(cls, results: Results, suite: str) -> list[Shares]:
        """One for each experiment of a suite with rows, thali's own in their order first."""
        known = list(EXPERIMENTS)
        names = sorted(
            results.experiments(f"{suite}/"),
            key=lambda name: (known.index(name) if name in known else len(known), name),
        )
        return [cls.of(results, name) for name in names]

    @classmethod
    def of(cls, results: Results, name: str) -> Shares:
        """The shares in one experiment. A policy that was run at several settings is left out."""
        curves = [results.curves.get((name, policy, "")) for policy in results.policies(name)]
        common = Results.common([curve for curve in curves if curve is not None])
        sorted_curves = sorted(common, key=lambda curve: (curve.policy == "Oracle", order(curve.policy)))
        return cls(name, results.scales[name], {curve.policy: curve for curve in sorted_curves})

    @property
    def title(self) -> str:
        """The data set, d and K, for readers."""
        source = self.name.partition("/")[2].rpartition("-d")[0]
        d, K = d_and_K(self.name.partition("/")[2].removeprefix(source))
        return f"{SOURCES[source].title if source in SOURCES else source}, d={d}, K={K}"

    def tables(self) -> list[Table]:
        """The shares so far; their differences from each base; and the shares of the tenth of people who get least."""
        steps = next(iter(self.curves.values())).steps.tolist()
        at = [point for point, step in enumerate(steps) if step in SHOWN or step == steps[-1]]
        columns = tuple(f"{steps[point]:,} lists" if steps[point] > 1 else "1 list" for point in at)

        def table(title: str, number: Callable[[Curve, int], Estimate], base: str = "") -> Table:
            rows = tuple(
                (policy, tuple(number(curve, point).through(_percent) for point in at))
                for policy, curve in self.curves.items()
                if policy != base
            )
            return Table(f"{self.title} ({scale_label(self.scale)}). {title}", columns, rows, signed=bool(base))

        def against(base: str) -> Table:
            title = f"Difference of that share from {base}, in percentage points, ± half of its 95% interval"
            return table(title, lambda curve, point: difference(curve, self.curves[base], point), base)

        return [
            table(
                "Share of the best list's clicks earned so far, in percent, ± half of its 95% interval",
                lambda curve, point: mean(curve.shares[:, point], curve.split),
            ),
            *(against(base) for base in BASES if base in self.curves),
            table(
                "Share of the best list's clicks earned so far by the tenth of people who earn least, in percent",
                lambda curve, point: Estimate.exact(_lowest_tenth(curve, point)),
            ),
        ]

    def arrivals(self) -> Table:
        """The shares over all lists of each person, by when the person came."""
        users = min(int(curve.arrival.max()) + 1 for curve in self.curves.values())
        ranges = [(low, min(high, users)) for low, high in ARRIVALS if low <= users]
        rows = []
        for policy, curve in self.curves.items():
            numbers = (_mean_of(curve, _among(curve, low, high)).through(_percent) for low, high in ranges)
            rows.append((policy, tuple(numbers)))
        lists = next(iter(self.curves.values())).n
        return Table(
            f"{self.title} ({self.scale_of_arrivals}). Share of the best list's clicks earned in a person's {lists} "
            "lists, in percent, ± half of its 95% interval over the orders of arrival",
            tuple(f"people {low} to {high}" if low < high else f"person {low}" for low, high in ranges),
            tuple(rows),
        )

    @property
    def scale_of_arrivals(self) -> str:
        """The scale in the words of this experiment: each split is an order of arrival."""
        curve = next(iter(self.curves.values()))
        orders = len(np.unique(curve.split))
        return f"{len(curve.people) // orders} people in each of {orders} orders of arrival, {curve.n} lists each"

    def lines_by_lists(self) -> list[Line]:
        """The shares so far by number of lists, for a figure."""
        return [
            Line(policy, curve.steps.tolist(), [mean(100.0 * column, curve.split) for column in curve.shares.T])
            for policy, curve in self.curves.items()
        ]

    def lines_by_arrival(self) -> list[Line]:
        """The shares over all lists of each person, in blocks of ten arrivals, for a figure."""
        lines = []
        for policy, curve in self.curves.items():
            blocks = range(0, int(curve.arrival.max()) + 1, BLOCK)
            means = [_mean_of(curve, curve.arrival // BLOCK == at).through(_percent) for at in range(len(blocks))]
            lines.append(Line(policy, [(at + BLOCK / 2) * curve.n for at in blocks], means))
        return lines


def draw(every: Sequence[Shares], folder: Path, name: str = FIRST) -> Path:
    """Draw the shares so far by number of lists, with a panel for each experiment."""
    panels = [(shares.title, shares.lines_by_lists()) for shares in every]
    return share_panels(panels, folder, name, xlabel="lists shown to each person", log=True)


def draw_arriving(every: Sequence[Shares], folder: Path, name: str = ARRIVING) -> Path:
    """Draw the shares by calendar time, which is the number of lists shown to everybody who has come so far."""
    panels = [(shares.title, shares.lines_by_arrival()) for shares in every]
    return share_panels(panels, folder, name, xlabel="lists shown to everybody so far", log=False)


def markdown(every: Sequence[Shares]) -> str:
    """All tables on the first lists of these experiments."""
    return "\n\n".join(table.markdown() for shares in every for table in shares.tables()) + "\n"


def difference(a: Curve, b: Curve, point: int) -> Estimate:
    """The mean over people of the share of one policy minus that of another, at a recorded step."""
    return mean(a.shares[:, point] - b.shares[:, point], a.split)


# Evidence for claims.


def not_below(policy: str, base: str, by: float) -> Measure:
    """The share so far of a policy minus that of another one, at each recorded step: at least -by."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        experiments, missing = curves_of(results, prefix, settings, (policy, base))
        return [
            Check(f"{where}, {_first(step)}, share of {policy} - {base}", difference(a, b, point), -by)
            for where, (a, b) in experiments
            for point, step in enumerate(a.steps.tolist())
        ] + missing

    return measure


def above(policy: str, base: str, by: float, lists: int) -> Measure:
    """The share of a policy over this many first lists, minus that of another one: at least by."""

    def make(where: str, a: Curve, b: Curve) -> Check:
        at = np.flatnonzero(a.steps == lists)
        found = difference(a, b, int(at[0])) if at.size else UNKNOWN
        return Check(f"{where}, {_first(lists)}, share of {policy} - {base}", found, by)

    return in_each_experiment((policy, base), make)


def after_arrivals(seen: int, low: float) -> Measure:
    """The share over all lists of the people who come after ``seen`` others, with a growing prior: at least low."""

    def make(where: str, curve: Curve) -> Check:
        later = _among(curve, seen + 1, 2 * seen)
        last = int(curve.arrival.max()) + 1
        label = f"{where}, share of people {seen + 1} to {min(last, 2 * seen)} in their {curve.n} lists"
        return Check(label, _mean_of(curve, later), low)

    return in_each_experiment((GROWING,), make)


def _first(lists: int) -> str:
    return "first list" if lists == 1 else f"first {lists} lists"


def _among(curve: Curve, low: int, high: int) -> Booleans:
    """Which people came as number low to high of their split, counted from 1 (people,)."""
    return np.asarray((curve.arrival >= low - 1) & (curve.arrival < high))


def _mean_of(curve: Curve, people: Booleans) -> Estimate:
    """The mean share of these people over all of their lists; the interval is over splits."""
    return mean(curve.shares[people, -1], curve.split[people]) if people.any() else UNKNOWN


def _lowest_tenth(curve: Curve, point: int) -> float:
    """The mean share of the tenth of people for whom it is lowest, at least one person."""
    shares = np.sort(curve.shares[:, point])
    return float(shares[: max(1, len(shares) // 10)].mean())


def _percent(share: float) -> float:
    return 100.0 * share


def _cell(number: Estimate, signed: bool) -> str:
    half, value = (number.high - number.low) / 2.0, round(number.value, 1) + 0.0  # never -0.0
    text = f"{value:+.1f}" if signed else f"{value:.1f}"
    return f"{text} ± {half:.1f}" if half > 0.0 else text  # no interval: it is exact, or there is only one split
