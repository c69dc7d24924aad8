"""Stored rows, read back as curves for claims, figures and reports."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.lab.code import CODE, described
from thali.lab.runner import SOME, Store
from thali.lab.settings import EXPERIMENTS
from thali.tools.types import Floats, Integers

if TYPE_CHECKING:
    import polars as pl

#: The columns that measure the diversity of a list, with their display names.
DIVERSITY = {
    "topic_coverage": "topic coverage",
    "intra_list_distance": "intra-list distance",
    "topic_entropy": "topic entropy",
    "err_ia": "ERR-IA",
}


@dataclass(frozen=True)
class Curve:
    """One policy at one setting on the people of an experiment. Arrays are (people, points) unless noted."""

    experiment: str
    policy: str
    settings: str
    steps: Integers
    """(points,)."""
    people: tuple[tuple[int, str], ...]
    """The split and the name of each person."""
    regret: Floats
    clicks: Floats
    best: Floats
    """(people,): the click probability f of the list that regret is measured against."""
    gamma: Floats
    """(people,): γ of Theorem 1."""
    lists: Any
    """(people, points, K)."""
    diversity: dict[str, Floats]
    number: Integers | None = None
    """(people,): the number of each person within the experiment; None in rows of early versions."""
    oracle_clicks: Floats | None = None
    """Cumulative clicks of an oracle under the same rule of what is hidden, in experiments with likes."""
    auc: Floats | None = None
    """AUC of each person's n-th list, in experiments with real lists; NaN if it has none."""
    log_loss: Floats | None = None
    """Log loss of each person's n-th list, in the same experiments."""

    @cached_property
    def split(self) -> Integers:
        """The split of each person (people,)."""
        return np.array([split for split, _ in self.people])

    @property
    def n(self) -> int:
        """The number of steps."""
        return int(self.steps[-1])

    @property
    def shares(self) -> Floats:
        """The share of the best list's clicks that each person's lists have earned so far: clicks in expectation."""
        return np.asarray(1.0 - self.regret / (self.steps * self.best[:, None]))

    @property
    def arrival(self) -> Integers:
        """Which person of their split each person is (people,), from 0, in the order of their numbers."""
        assert self.number is not None
        earlier = (self.split[:, None] == self.split) & (self.number[:, None] > self.number)
        return np.asarray(earlier.sum(axis=1))

    @property
    def final(self) -> Floats:
        """Regret at the end (people,)."""
        return np.asarray(self.regret[:, -1])

    def restricted_to(self, people: set[tuple[int, str]]) -> Curve:
        """The curve of these people only."""
        if len(people) == len(self.people):
            return self
        keep = [at for at, person in enumerate(self.people) if person in people]
        fields = {name: getattr(self, name)[keep] for name in ("regret", "clicks", "best", "gamma", "lists")}
        diversity = {name: values[keep] for name, values in self.diversity.items()}
        some: dict[str, Any] = {
            name: None if (of := getattr(self, name)) is None else of[keep] for name in ("number", *SOME)
        }
        kept = tuple(self.people[at] for at in keep)
        return replace(self, people=kept, diversity=diversity, **fields, **some)

    def at(self, share: float) -> tuple[int, Floats]:
        """The recorded step nearest this share of the run, and the regret there (people,)."""
        point = int(np.argmin(np.abs(self.steps - share * self.n)))
        return int(self.steps[point]), np.asarray(self.regret[:, point])


class Results:
    """All curves in a folder of results.

    If an experiment was run at several scales, its own scale (the paper's) is used if present, otherwise the largest.
    If it was run with different code, only rows that were made by the same code are used: by the current code if there
    are such rows, otherwise by the code that wrote rows last.

    names: use only the rows with these names, as :func:`thali.lab.runner.run` returns them.
    """

    def __init__(self, folder: Path, names: Sequence[str] | None = None) -> None:
        self.folder = folder
        self.rows = _chosen(Store(folder).rows(written=True)) if names is None else Store(folder).rows(names)

    @cached_property
    def curves(self) -> dict[tuple[str, str, str], Curve]:
        """Curves by experiment, policy and settings."""
        curves = {}
        for key, rows in self.rows.partition_by("experiment", "policy", "settings", as_dict=True).items():
            curves[key] = _curve(rows)
        return curves

    @cached_property
    def scales(self) -> dict[str, str]:
        """The scale at which each experiment was run."""
        return dict(self.rows.select("experiment", "scale").unique().iter_rows())

    @cached_property
    def setups(self) -> dict[str, dict[str, float]]:
        """The numbers recorded for each data set when its experiments ran."""
        return {path.stem: json.loads(path.read_text()) for path in sorted((self.folder / "setup").glob("*.json"))}

    def experiments(self, prefix: str) -> list[str]:
        """The experiments whose names begin with prefix, sorted by d, K and number of steps."""
        names = [name for name in self.scales if name.startswith(prefix)]
        return sorted(
            names, key=lambda name: (d_and_K(name), EXPERIMENTS[name].steps if name in EXPERIMENTS else 0, name)
        )

    @cached_property
    def all_policies(self) -> list[str]:
        """The policies of all experiments."""
        return sorted({policy for _, policy, _ in self.curves})

    @cached_property
    def made_by(self) -> list[str]:
        """The versions of thali that made the rows, with digests of their code."""
        return sorted(described(*pair) for pair in self.rows.select("version", "code").unique().iter_rows())

    def curve(self, experiment: str, policy: str, settings: str) -> Curve | None:
        """The curve at these settings; a policy without settings has the same curve for all settings."""
        return self.curves.get((experiment, policy, settings)) or self.curves.get((experiment, policy, ""))

    def paired(self, experiment: str, policies: Sequence[str], settings: str) -> list[Curve]:
        """The curves of these policies on the people they have in common; empty if a curve is missing."""
        curves = [self.curve(experiment, policy, settings) for policy in policies]
        known = [curve for curve in curves if curve is not None]
        return self.common(known) if len(known) == len(policies) else []

    @staticmethod
    def common(curves: Sequence[Curve]) -> list[Curve]:
        """The same curves on the people they have in common, in the same order; empty if there are none."""
        shared = set.intersection(*(set(curve.people) for curve in curves))
        return [curve.restricted_to(shared) for curve in curves] if shared else []

    def settings(self, experiment: str) -> list[str]:
        """The settings at which an experiment was run: numbers in ascending order, then theory."""
        used = {settings for name, _, settings in self.curves if name == experiment and settings}
        return sorted(used, key=lambda text: [float(part) if _number(part) else np.inf for part in _values(text)])

    def policies(self, experiment: str) -> list[str]:
        """The policies with which an experiment was run."""
        return list(dict.fromkeys(policy for name, policy, _ in self.curves if name == experiment))


def d_and_K(name: str) -> tuple[int, int]:
    """The d and K in an experiment's name; 0 for one that is missing."""
    d, K = re.search(r"d(\d+)", name), re.search(r"K(\d+)", name)
    return int(d[1]) if d else 0, int(K[1]) if K else 0


def scale_label(scale: str) -> str:
    """A stored scale as text for readers: "20 people in 1 split, 20000 steps"."""
    text = re.sub(r"\b1 people\b", "1 person", scale.replace(" x ", ", "))
    return re.sub(r"\b1 (split|step)s\b", r"1 \1", text)


def _values(settings: str) -> list[str]:
    return [part.partition("=")[2] for part in settings.split()]


def _number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _chosen(rows: pl.DataFrame) -> pl.DataFrame:
    """Choose one scale, version, code and seed per experiment, and one code per policy.

    The experiment's own scale comes first, then the current code, then the newest, then the largest.
    """
    import polars as pl

    own = pl.DataFrame(
        {"experiment": list(EXPERIMENTS), "own": [e.scale for e in EXPERIMENTS.values()]},
        schema={"experiment": pl.String, "own": pl.String},
    )
    keys = ["experiment", "scale", "version", "code", "seed"]
    sizes = (
        rows.group_by(keys)
        .agg(size=pl.col("step").max() * pl.struct("split", "user").n_unique(), written=pl.col("written").max())
        .join(own, on="experiment", how="left")
        .with_columns(
            own=pl.col("own").eq_missing(pl.col("scale")),
            current=pl.col("code").str.starts_with(CODE),
            # All rows of one code are equally new, so that the size decides between them.
            written=pl.col("written").max().over("experiment", "version", "code"),
        )
    )
    order = {
        "own": True,
        "current": True,
        "version": True,
        "written": True,
        "size": True,
        "scale": False,
        "seed": False,
    }
    rows = _first(rows, sizes, keys, order, "experiment")
    policies = rows.group_by("experiment", "policy", "policy_code").agg(written=pl.col("written").max())
    keys = ["experiment", "policy", "policy_code"]
    order = {"written": True, "policy_code": False}
    return _first(rows, policies, keys, order, "experiment", "policy").drop("written")


def _first(
    rows: pl.DataFrame, groups: pl.DataFrame, keys: list[str], order: dict[str, bool], *per: str
) -> pl.DataFrame:
    """The rows of the first group per experiment or policy. order: columns of the groups, and whether they descend."""
    best = groups.sort(list(order), descending=list(order.values())).unique(per, keep="first", maintain_order=True)
    return rows.join(best.select(keys), on=keys, how="semi", maintain_order="left")


def _curve(rows: pl.DataFrame) -> Curve:
    steps = rows["step"].unique().sort().to_numpy()
    ordered = rows.sort("split", "user", "step")
    points = len(steps)
    first = ordered.unique(["split", "user"], keep="first", maintain_order=True)
    people, K = first.height, len(ordered["list"][0])
    too_many = people > int(first["scale"][0].partition(" ")[0])
    if too_many or ordered.height != people * points or ordered.select("split", "user", "step").is_duplicated().any():
        raise ValueError(
            f"results of {first['experiment'][0]} with {first['policy'][0]} {first['settings'][0]} come from different "
            "data sets, but have the same numbers of people, splits and steps, so they cannot be told apart. Use a "
            "separate folder for the results of each data set, or for your own tables another name of the experiment"
        )

    def matrix(column: str) -> Any:
        return ordered[column].to_numpy().reshape(people, points)

    return Curve(
        first["experiment"][0],
        first["policy"][0],
        first["settings"][0],
        steps,
        tuple(zip(first["split"].to_list(), first["user"].to_list(), strict=True)),
        matrix("regret"),
        ordered["clicks"].cast(float).to_numpy().reshape(people, points),
        first["best"].to_numpy(),
        first["gamma"].to_numpy(),
        ordered["list"].explode().to_numpy().reshape(people, points, K),
        {name: matrix(name) for name in DIVERSITY},
        None if first["number"].has_nulls() else first["number"].to_numpy(),
        *(None if ordered[name].has_nulls() else matrix(name) for name in SOME),
    )
