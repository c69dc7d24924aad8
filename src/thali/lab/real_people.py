"""Results of the experiments with real people, as tables, figures and evidence for claims.

With likes, the measure is the share of lists that get a click. With real lists, it is the AUC of a person's next list:
how often an item that the person clicked is ranked above one that they did not click. Differences between policies are
paired: they are computed for each person first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thali.lab.evidence import Measure, curves_of
from thali.lab.figures import Line, bars, share_panels
from thali.lab.first_lists import Table
from thali.lab.intervals import UNKNOWN, Estimate, mean
from thali.lab.likes import KNOWING, LIKES, LISTS
from thali.lab.results import Curve, Results, scale_label
from thali.lab.settings import FIT, FIT_PARTS, LISTS_POLICIES, STRONG
from thali.lab.sources import LOGS, SOURCES
from thali.lab.verdicts import Check
from thali.tools.types import Floats

#: The policy with which all others are compared.
BASE = "Popular"
#: The ranges of lists in the figure of the parts, and those in the tables: from and to, counted from 1.
FIRST_AND_LATER = ((1, 10), (11, 30))
RANGES = ((1, 1), *FIRST_AND_LATER, (1, 30))
#: The policies in the figure, and their names for readers.
DRAWN = {FIT: "thali.fit", "EASE": "EASE", "CascadeLSB": "CascadeLSB, as in the paper", BASE: "popular items"}
# How many lists a point of the figure stands for.
BLOCK = 3


class Clicked:
    """The share of lists with a click of all policies of one experiment, on the people they have in common."""

    def __init__(self, results: Results, name: str) -> None:
        self.name, self.scale = name, results.scales[name]
        found = [results.curves[key] for key in results.curves if key[0] == name]
        self.curves = _in_order(found, KNOWING[LIKES])

    @classmethod
    def every(cls, results: Results) -> list[Clicked]:
        """One for each experiment with likes that has rows."""
        return [cls(results, name) for name in results.experiments(f"{LIKES}/")]

    @property
    def title(self) -> str:
        """The data set and what is hidden, for readers."""
        rest = self.name.partition("/")[2].rpartition("-K")[0]
        source, repeated, hidden = rest.partition("-hide-")
        title = SOURCES[source].title if source in SOURCES else source
        return f"{title}, where {hidden} is hidden" if repeated else title

    @property
    def lists(self) -> int:
        """The number of lists of each person."""
        return next(iter(self.curves.values())).n

    @property
    def has_parts(self) -> bool:
        """Whether there is a figure of what each part of thali.fit brings."""
        return BASE in self.curves and FIT in self.curves and "-hide-" not in self.name

    def tables(self) -> list[Table]:
        """The shares of lists with a click, and their differences from popular items and from thali.fit."""
        ranges = _ranges(RANGES, self.lists)
        columns = tuple(map(_label, ranges))
        about = f"{self.title} ({scale_label(self.scale)})"

        def table(text: str, number: Callable[[Curve, tuple[int, int]], Estimate], base: str = "") -> Table:
            rows = tuple(
                (policy, tuple(number(curve, at).through(_percent) for at in ranges))
                for policy, curve in self.curves.items()
                if policy != base
            )
            return Table(f"{about}. {text}", columns, rows, signed=bool(base))

        shares = table(
            "Share of lists with a click, in percent, ± half of its 95% interval",
            lambda curve, at: mean(share(curve, *at), curve.split),
        )
        any_curve = next(iter(self.curves.values()))
        oracle = any_curve.oracle_clicks
        if oracle is not None:
            best = tuple(mean(_between(oracle, *at), any_curve.split).through(_percent) for at in ranges)
            shares = Table(shares.title, shares.columns, (*shares.rows, ("Oracle", best)))
        tables = [shares]
        for base in (BASE, FIT):
            if base in self.curves:
                text = f"Difference from {base}, in percentage points, ± half of its 95% interval"
                tables.append(table(text, self._difference_from(base), base))
        return tables

    def _difference_from(self, base: str) -> Callable[[Curve, tuple[int, int]], Estimate]:
        return lambda curve, at: difference(curve, self.curves[base], *at)

    def lines(self) -> list[Line]:
        """The shares by number of the list, for a figure. Your own policies are drawn, too."""
        lines = []
        added = [policy for policy in self.curves if policy not in KNOWING[LIKES]]
        for policy, label in (DRAWN | dict(zip(added, added, strict=True))).items():
            if policy in self.curves:
                curve = self.curves[policy]
                starts = range(1, curve.n + 1, BLOCK)
                blocks = [(low, min(low + BLOCK - 1, curve.n)) for low in starts]
                means = [mean(100.0 * share(curve, *block), curve.split) for block in blocks]
                lines.append(Line(label, [(low + high) / 2 for low, high in blocks], means))
        return lines


class Predicted:
    """The AUC of people's next lists for all policies of one experiment."""

    def __init__(self, results: Results, name: str) -> None:
        self.name, self.scale = name, results.scales[name]
        found = [results.curves[key] for key in results.curves if key[0] == name]
        self.curves = _in_order(found, LISTS_POLICIES)

    @classmethod
    def every(cls, results: Results) -> list[Predicted]:
        """One for each experiment with real lists that has rows."""
        return [cls(results, name) for name in results.experiments(f"{LISTS}/")]

    @property
    def title(self) -> str:
        """The data set, for readers."""
        source = self.name.partition("/")[2]
        return LOGS[source].title if source in LOGS else source

    def tables(self) -> list[Table]:
        """AUC and log loss of the next list, and the differences of AUC from popular items."""
        steps = next(iter(self.curves.values())).steps.tolist()
        columns = tuple(f"after {step - 1} list{'' if step == 2 else 's'}" for step in steps)
        about = f"{self.title} ({scale_label(self.scale).rpartition(',')[0]})"

        def table(text: str, values: Callable[[Curve], Any], base: str = "", times: float = 100.0) -> Table:
            rows = []
            for policy, curve in self.curves.items():
                found = values(curve)
                if policy != base and not np.isnan(found).all():
                    numbers = (_mean(column, curve).through(lambda x: times * x) for column in found.T)
                    rows.append((policy, tuple(numbers)))
            return Table(f"{about}. {text}", columns, tuple(rows), signed=bool(base))

        base = self.curves.get(BASE)
        tables = [table("AUC of the next list, in percent, ± half of its 95% interval", lambda c: c.auc)]
        if base is not None:
            text = f"Difference of AUC from {BASE}, in percentage points, ± half of its 95% interval"
            popular: Any = base.auc
            tables.append(table(text, lambda c: c.auc - popular, BASE))
        tables.append(table("Log loss of the next list, times 100, ± half of its 95% interval", lambda c: c.log_loss))
        return tables


def _in_order(curves: Sequence[Curve], order: Sequence[str]) -> dict[str, Curve]:
    """The curves by policy, on the people they have in common. Policies that are not in order come last."""
    common = Results.common(curves)
    common.sort(key=lambda curve: order.index(curve.policy) if curve.policy in order else len(order))
    return {curve.policy: curve for curve in common}


def _ranges(ranges: Sequence[tuple[int, int]], lists: int) -> list[tuple[int, int]]:
    """The ranges, cut off at the last list."""
    return list(dict.fromkeys((low, min(high, lists)) for low, high in ranges if low <= lists))


def _label(lists: tuple[int, int]) -> str:
    low, high = lists
    return f"lists {low} to {high}" if low < high else f"list {low}"


def share(curve: Curve, low: int, high: int) -> Floats:
    """The share of each person's lists low to high, counted from 1, that had a click (people,)."""
    return _between(curve.clicks, low, high)


def _between(clicks: Floats, low: int, high: int) -> Floats:
    before = clicks[:, low - 2] if low > 1 else 0.0
    return np.asarray((clicks[:, high - 1] - before) / (high - low + 1))


def difference(a: Curve, b: Curve, low: int, high: int) -> Estimate:
    """The mean over people of the share of one policy minus that of another, over these lists."""
    return mean(share(a, low, high) - share(b, low, high), a.split)


def _mean(values: Floats, curve: Curve) -> Estimate:
    known = ~np.isnan(values)
    return mean(values[known], curve.split[known]) if known.any() else UNKNOWN


def draw(every: Sequence[Clicked], folder: Path, name: str = LIKES) -> Path | None:
    """Draw the share of lists with a click by the number of the list, with a panel for each experiment.

    Return None if there is nothing to draw.
    """
    panels = [(clicked.title, clicked.lines()) for clicked in every if "-hide-" not in clicked.name]
    panels = [(title, lines) for title, lines in panels if lines]
    if not panels:
        return None
    return share_panels(
        panels, folder, name, xlabel="the person's n-th list", log=False, ylabel="lists with a click (%)"
    )


def draw_parts(clicked: Clicked, folder: Path) -> Path | None:
    """Draw what each part of thali.fit brings, as bars: the difference from popular items.

    Return None if the experiment does not have both.
    """
    if not clicked.has_parts:
        return None
    names = ["CascadeLSB", "CascadeLSB-prior", *FIT_PARTS, *STRONG]
    shown = [policy for policy in names if policy in clicked.curves]
    values = {
        _label(lists): [
            difference(clicked.curves[policy], clicked.curves[BASE], *lists).through(_percent) for policy in shown
        ]
        for lists in _ranges(FIRST_AND_LATER, clicked.lists)
    }
    name = f"{clicked.name.replace('/', '-')}-parts"
    return bars(shown, values, folder, name, title=clicked.title, xlabel="more lists with a click than popular items")


# Evidence for claims.


def more_clicks(policy: str, base: str, by: float, low: int, high: int) -> Measure:
    """The share of lists low to high with a click of a policy, minus that of another one: at least by."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        experiments, missing = curves_of(results, prefix, settings, (policy, base))
        return [
            Check(f"{where}, lists {low} to {high}, {policy} - {base}", _over(a, b, low, high), by)
            for where, (a, b) in experiments
        ] + missing

    return measure


def _over(a: Curve, b: Curve, low: int, high: int) -> Estimate:
    return difference(a, b, low, high) if a.n >= high else UNKNOWN


def better_predicted(policy: str, base: str, by: float, after: Sequence[int]) -> Measure:
    """The AUC of a person's next list of a policy minus that of another one, after each of these numbers of lists."""

    def measure(results: Results, prefix: str, settings: str) -> list[Check]:
        experiments, missing = curves_of(results, prefix, settings, (policy, base))
        found = []
        for where, (a, b) in experiments:
            for point, step in enumerate(a.steps.tolist()):
                if step - 1 in after and a.auc is not None and b.auc is not None:
                    off = _mean(a.auc[:, point] - b.auc[:, point], a)
                    found.append(Check(f"{where}, after {step - 1} lists, AUC of {policy} - {base}", off, by))
        return found + missing

    return measure


def _percent(share: float) -> float:
    return 100.0 * share
