"""Every policy with every kind of person: a matrix of regret and diversity, and which policy is safest."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from thali.datasets.estimation import Behaviour
from thali.lab.figures import heatmaps
from thali.lab.intervals import Estimate, mean
from thali.lab.kinds import DESCRIPTIONS
from thali.lab.results import Curve, Results, scale_label
from thali.lab.settings import KINDS, NOISE, PRACTICAL
from thali.lab.sources import SOURCES
from thali.tools.types import Floats, Integers

#: The measure of diversity to show. It depends only on sets of topics, not on what a model rewards.
SHOWN = "intra_list_distance"
#: The policy that is left out of the comparison, because it knows the true preferences.
CEILING = "Oracle"


@dataclass(frozen=True)
class Cell:
    """One policy with people of one kind."""

    regret: Estimate
    """Final regret."""
    lost: Estimate
    """Final regret divided by n·f of the best list: the share of that list's click probability that is lost."""
    diversity: Estimate
    """Intra-list distance over the last tenth of the run."""
    by_person: Floats
    """(people,): ``lost`` for each person."""
    split: Integers

    @property
    def short(self) -> str:
        """Regret ± half the width of its interval."""
        digits = 0 if abs(self.regret.value) >= 10.0 else 1
        return f"{self.regret.value:,.{digits}f} ±{(self.regret.high - self.regret.low) / 2.0:,.{digits}f}"


@dataclass(frozen=True)
class Matrix:
    """Policies by kinds of people."""

    source: str
    scale: str
    kinds: tuple[str, ...]
    policies: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]

    @classmethod
    def of(cls, results: Results, source: str, policies: Collection[str] | None = None, suffix: str = "") -> Matrix:
        """Build the matrix from the rows on one data set. Policies are sorted by their worst-case loss, then by name.

        policies: those to compare; by default all that have rows for every kind of person, on the same people.
        suffix: the part of the experiments' names that states d and K, if these are not the usual ones.
        """
        matrix = cls._of(results, source, policies, suffix)
        if matrix is None:
            raise ValueError(
                f"results of robustness/{source}{suffix} at {PRACTICAL} must contain at least one policy that was run "
                "with every kind of person, with the same people and number of steps each time, got none. Run "
                f"'thali robustness {source}' first"
            )
        return matrix

    @classmethod
    def _of(cls, results: Results, source: str, policies: Collection[str] | None, suffix: str) -> Matrix | None:
        """Like :meth:`of`, but returns None if rows are missing: of policies, of kinds, or at this α."""
        curves = {}
        for kind in KINDS:
            name = f"robustness/{source}{suffix}-{kind}"
            for policy in results.policies(name):
                curve = results.curve(name, policy, str(PRACTICAL))
                if curve is not None and (policies is None or policy in policies):
                    curves[policy, kind] = curve
        kinds = tuple(kind for kind in KINDS if any(kind == other for _, other in curves))
        people = {curve.people for curve in curves.values()}
        complete = {policy for policy, _ in curves if all((policy, kind) in curves for kind in kinds)}
        if not complete or len(people) > 1 or len({curve.n for curve in curves.values()}) > 1:
            return None
        cells = {key: _cell(curve) for key, curve in curves.items() if key[0] in complete}
        order = sorted(complete, key=lambda policy: (max(cells[policy, kind].lost.value for kind in kinds), policy))
        scale = results.scales[f"robustness/{source}{suffix}-{kinds[0]}"]
        return cls(source, scale, kinds, tuple(order), cells)

    @classmethod
    def every(cls, results: Results) -> list[Matrix]:
        """One matrix for each data set, d and K with enough rows."""
        matrices = []
        for name in {name.removesuffix(f"-{KINDS[0]}") for name in results.scales if name.endswith(f"-{KINDS[0]}")}:
            matched = re.fullmatch(r"robustness/(.+?)((?:-d\d+-K\d+)?)", name)
            if matched and matched[1] in SOURCES:
                matrices.append(cls._of(results, matched[1], None, matched[2]))
        return sorted(filter(None, matrices), key=lambda matrix: (matrix.source, matrix.scale))

    def worst(self, policy: str) -> tuple[str, Cell]:
        """The kind of person with which a policy loses the largest share, and that cell of the matrix."""
        return max(((kind, self.cells[policy, kind]) for kind in self.kinds), key=lambda entry: entry[1].lost.value)

    def best_on(self, kind: str) -> list[str]:
        """The compared policies that lose the least with a kind of person; several if they are tied."""
        least = min(self.cells[policy, kind].lost.value for policy in self.compared)
        return [policy for policy in self.compared if self.cells[policy, kind].lost.value == least]

    @property
    def compared(self) -> list[str]:
        """All policies except the one that knows the true preferences."""
        return [policy for policy in self.policies if policy != CEILING]

    def paragraph(self) -> str:
        """A paragraph that says which policy is safest, computed from the numbers alone."""
        lines = []
        if len(self.compared) > 1:
            lines += self._safest()
        elif self.compared:
            (only,) = self.compared
            kind, cell = self.worst(only)
            lines.append(f"{only} loses at most {_loss(cell)} of the best list's click probability ({kind} people).")
        if CEILING in self.policies:
            kind, cell = self.worst(CEILING)
            lines.append(
                f"{CEILING}, which knows every person's taste, but neither the true weights of the items nor how the "
                f"person clicks, loses at most {_loss(cell)} ({kind} people)."
            )
        return " ".join(lines)

    def _safest(self) -> list[str]:
        """The sentences that say which policy is safest, if there are several policies."""
        safest, *others = self.compared
        kind, cell = self.worst(safest)
        tied = [other for other in others if self.worst(other)[1].lost.value == cell.lost.value]
        shared = f" (tied with {_listed(tied)})" if tied else ""
        lines = [
            f"{safest} is the safest of the {len(self.compared)} policies compared{shared}. Its worst case is {kind} "
            f"people, with whom it loses {_loss(cell)} of the best list's click probability."
        ]
        best = {k: self.best_on(k) for k in self.kinds}
        wins = [k for k, winners in best.items() if safest in winners]
        lines.append(
            f"No policy loses less with {_listed(wins)} people."
            if wins
            else "It is not the best policy for any kind of person."
        )
        elsewhere = [
            f"{winners[0]} with {k} people ({self.cells[winners[0], k].lost.value:.1%} instead of "
            f"{self.cells[safest, k].lost.value:.1%})"
            for k, winners in best.items()
            if k not in wins
        ]
        if elsewhere:
            lines.append(f"Other policies lose less with the other kinds: {_listed(elsewhere)}.")
        apart = [other for other in others if other not in tied]
        if apart:
            rival, other = self.worst(apart[0])
            gap = mean(other.by_person - cell.by_person, cell.split)
            significance = "is statistically significant" if gap.low > 0.0 else "may be due to chance"
            lines.append(
                f"The next safest is {apart[0]}, which loses {_loss(other)} in its worst case ({rival} people). The "
                f"difference of {100 * gap.value:.1f} percentage points [{100 * gap.low:.1f}, {100 * gap.high:.1f}] "
                f"{significance}."
            )
            lines.append(f"{apart[-1]} has the largest loss, {self.worst(apart[-1])[1].lost.value:.0%}.")
        return lines

    def markdown(self) -> str:
        """The paragraph and both tables."""
        return f"{self.paragraph()}\n\n{self.tables()}"

    def tables(self) -> str:
        """Regret and diversity as two Markdown tables."""
        heads = "| policy | " + " | ".join(self.kinds) + " | worst case |\n"
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
            f"Final regret [95% interval] ({scale_label(self.scale)}). Regret compares the list shown with the "
            "greedy list that is built with the true click model of the person. The last column is the largest share "
            "of the best list's click probability that a policy loses with any kind of person. The policies are sorted "
            "by this share.\n\n"
            f"{heads}{rule}" + "\n".join(regret) + "\n\n"
            "Diversity of the lists: intra-list distance over the last tenth of the run.\n\n"
            f"{heads.replace(' worst case |', '')}{rule.replace(' ---: |', '', 1)}" + "\n".join(diverse) + "\n"
        )

    def draw(self, folder: Path) -> Path:
        """Draw the matrices as a figure; returns its path."""
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
            title=f"Every policy against every kind of person: {SOURCES[self.source].title}, {scale_label(self.scale)}",
            folder=folder,
            name=f"robustness-{self.source}",
        )

    def describe_kinds(self, rates: Behaviour) -> list[str]:
        """One line per kind of person: its description, and the rates estimated from the data set."""
        used = {**asdict(rates), **dict(NOISE)}
        numbers = {
            "dependent-click": f"continue {used['going_on']:.2f}",
            "dynamic-bayesian": f"satisfied {used['satisfaction']:.2f}, continue {used['perseverance']:.2f}",
            "position-based": "positions: " + ", ".join(f"{share:.2g}" for share in used["examined"]),
            "noisy-cascade": f"skip {used['skip']:g}, by accident {used['extra']:g}",
        }
        return [
            f"{kind}: {DESCRIPTIONS[kind]}" + (f" ({numbers[kind]})" if kind in numbers else "") for kind in self.kinds
        ]


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


def _loss(cell: Cell) -> str:
    return f"{cell.lost:.1%}" if cell.lost.value > 0.0 else "nothing"


def _number(estimate: Estimate) -> str:
    return f"{estimate:,.0f}" if abs(estimate.value) >= 10.0 else f"{estimate:,.1f}"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
