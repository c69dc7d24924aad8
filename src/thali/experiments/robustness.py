"""Every policy against every kind of person: the matrix of what it loses, of how diverse it is, and who is safest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from thali.experiments.figures import heatmaps
from thali.experiments.kinds import TOLD
from thali.experiments.results import Curve, Results
from thali.experiments.settings import KINDS, PRACTICAL
from thali.experiments.sources import SOURCES
from thali.experiments.statistics import Estimate, mean
from thali.types import Floats, Integers

#: The measure of diversity that is shown: it sees sets of topics alone, not what a model rewards.
SHOWN = "intra_list_distance"
#: Knows what nobody knows, so that it is not compared.
CEILING = "Oracle"


@dataclass(frozen=True)
class Cell:
    """A policy on people of one kind."""

    regret: Estimate
    """At the end."""
    lost: Estimate
    """The same as a share of the clicks of the best list."""
    diversity: Estimate
    """Intra-list distance over the last tenth."""
    by_person: Floats
    """Lost, (people,)."""
    split: Integers

    @property
    def short(self) -> str:
        """Regret ± half its interval."""
        return f"{self.regret.value:,.0f} ±{(self.regret.high - self.regret.low) / 2.0:,.0f}"


@dataclass(frozen=True)
class Matrix:
    """Policies by kinds of people."""

    source: str
    scale: str
    kinds: tuple[str, ...]
    policies: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]

    @classmethod
    def of(cls, results: Results, source: str) -> Matrix:
        """From the rows on one data set; policies that lose least in their worst case come first."""
        names = {f"robustness/{source}-{kind}": kind for kind in KINDS}
        names = {name: kind for name, kind in names.items() if name in results.scales}
        if not names:
            raise ValueError(f"results must hold rows of robustness/{source}-...; there are none")
        policies = set.intersection(*(set(results.policies(name)) for name in names))
        cells = {}
        for name, kind in names.items():
            for policy in policies:
                curve = results.curve(name, policy, str(PRACTICAL))
                if curve is None:
                    raise ValueError(f"results must hold rows of {policy} at {PRACTICAL} for {name}; there are none")
                cells[policy, kind] = _cell(curve)
        kinds = tuple(names.values())
        order = sorted(policies, key=lambda policy: (max(cells[policy, kind].lost.value for kind in kinds), policy))
        scale = ", ".join(sorted({results.scales[name] for name in names}))
        return cls(source, scale, kinds, tuple(order), cells)

    @classmethod
    def every(cls, results: Results) -> list[Matrix]:
        """One for each data set of which there are rows."""
        found = [source for source in SOURCES if results.experiments(f"robustness/{source}-")]
        return [cls.of(results, source) for source in found]

    def worst(self, policy: str) -> tuple[str, Cell]:
        """The kind of person on whom a policy loses the largest share of clicks, and that cell."""
        return max(((kind, self.cells[policy, kind]) for kind in self.kinds), key=lambda entry: entry[1].lost.value)

    def best_on(self, kind: str) -> str:
        """Of the policies that learn or are plain, the one that loses least on a kind of person."""
        return min(self._compared(), key=lambda policy: self.cells[policy, kind].lost.value)

    def _compared(self) -> list[str]:
        return [policy for policy in self.policies if policy != CEILING]

    def paragraph(self) -> str:
        """Which policy is safest, in words, from the numbers alone."""
        compared = self._compared()
        safest = compared[0]
        kind, cell = self.worst(safest)
        wins = [k for k in self.kinds if self.best_on(k) == safest]
        told = [
            f"{safest} is the safest of the {len(compared)} policies compared: whatever the kind of person, it loses "
            f"at most {cell.lost:.1%} of the clicks of the best list, on {kind} people.",
            f"It loses least of all on {_listed(wins)}." if wins else "It is not the best on any one kind.",
        ]
        others = [(k, self.best_on(k)) for k in self.kinds if k not in wins]
        if others:
            best = [f"{policy} on {k} ({self.cells[policy, k].lost.value:.1%} against "
                    f"{self.cells[safest, k].lost.value:.1%})" for k, policy in others]  # fmt: skip
            told.append(f"Better elsewhere: {_listed(best)}.")
        if len(compared) > 1:
            second = compared[1]
            rival, other = self.worst(second)
            gap = mean(other.by_person - cell.by_person, cell.split)
            apart = "which is more than chance" if gap.low > 0.0 else "which may be chance"
            told.append(
                f"Next is {second}, which loses {other.lost:.1%} in its worst case ({rival}): {gap:.1%} more, {apart}."
            )
        riskiest = compared[-1]
        told.append(f"The largest loss is that of {riskiest}: {self.worst(riskiest)[1].lost.value:.0%}.")
        if CEILING in self.policies:
            kind, cell = self.worst(CEILING)
            told.append(
                f"Knowing every person's taste, but neither their weights nor their kind, loses {cell.lost:.1%} at "
                f"most ({kind})."
            )
        return " ".join(told)

    def markdown(self) -> str:
        """Both matrices as tables, and the paragraph."""
        heads = "| policy | " + " | ".join(self.kinds) + " | worst, of the clicks |\n"
        rule = "| --- |" + " ---: |" * (len(self.kinds) + 1) + "\n"
        regret, diverse = [], []
        for policy in self.policies:
            cells = [self.cells[policy, kind] for kind in self.kinds]
            regret.append(
                f"| {policy} | "
                + " | ".join(f"{_number(c.regret)}" for c in cells)
                + f" | {self.worst(policy)[1].lost.value:.1%} |"
            )
            diverse.append(f"| {policy} | " + " | ".join(f"{c.diversity.value:.3f}" for c in cells) + " |")
        return (
            f"{self.paragraph()}\n\n"
            f"Final regret [95% interval] against each kind's own best greedy list, {self.scale}:\n\n"
            f"{heads}{rule}" + "\n".join(regret) + "\n\n"
            "Diversity of the lists, intra-list distance over the last tenth:\n\n"
            f"{heads.replace(' worst, of the clicks |', '')}{rule.replace(' ---: |', '', 1)}"
            + "\n".join(diverse)
            + "\n"
        )

    def draw(self, folder: Path) -> Path:
        """The matrices as a picture; its path."""
        cells = [[self.cells[policy, kind] for kind in self.kinds] for policy in self.policies]
        regret, diverse = (
            np.array([[getattr(cell, name).value for cell in row] for row in cells]) for name in ("regret", "diversity")
        )
        return heatmaps(
            [
                ("Final regret ± half its 95% interval", regret, [[c.short for c in row] for row in cells], "log"),
                (
                    "Diversity: intra-list distance",
                    diverse,
                    [[f"{c.diversity.value:.2f}" for c in row] for row in cells],
                    "linear",
                ),
            ],
            rows=self.policies,
            columns=self.kinds,
            title=f"Every policy against every kind of person: {SOURCES[self.source].title}, {self.scale}",
            folder=folder,
            name=f"robustness-{self.source}",
        )

    def told(self) -> list[str]:
        """What the kinds are, a line each."""
        return [f"{kind}: {TOLD[kind]}" for kind in KINDS if kind in self.kinds]


def _cell(curve: Curve) -> Cell:
    late = max(1, len(curve.steps) // 10)
    by_person = curve.final / (curve.best * curve.n)
    return Cell(
        mean(curve.final, curve.split),
        mean(by_person, curve.split),
        mean(curve.diversity[SHOWN][:, -late:].mean(axis=1), curve.split),
        by_person,
        curve.split,
    )


def _number(found: Estimate) -> str:
    return f"{found:,.0f}" if abs(found.value) >= 10.0 else f"{found:,.1f}"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
