"""Run several policies on one problem with the same random numbers, and summarize the results."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thali.lab.informed import informed
from thali.lab.problems import Problem
from thali.lab.settings import INFORMED, PAPER
from thali.lab.simulate import Run, simulate
from thali.policies import POLICIES, Oracle, Policy, class_of, optimistic


@dataclass(frozen=True)
class Summary:
    """Summary of a policy's run: means over people, with their standard errors."""

    policy: str
    regret: float
    regret_error: float
    slope: float
    slope_error: float
    ends_on: tuple[tuple[int, ...], float]
    """The most frequent last list, and the share of people to whom it was shown."""
    on_best: float
    """The share of people whose last list is as good as the best list."""


def policies_for(problem: Problem, names: Sequence[str] = PAPER, **settings: Any) -> dict[str, Policy]:
    """Create policies from the registry for a problem. Only policies with an α get the settings; the oracle gets θ*.

    Policies that know something about other people (:mod:`thali.lab.informed`) are not in the registry.
    """
    policies: dict[str, Policy] = {}
    for name in names:
        if name in INFORMED:
            policies[name] = informed(name, problem)
            continue
        given = settings if optimistic(name) else {}
        if issubclass(class_of(name), Oracle):
            given = {"theta": problem.theta}
        policies[name] = POLICIES[name](problem.catalog, problem.K, **given)
    return policies


def add_policy(name: str) -> None:
    """Import the class that a name of the form module:Class names, and add it to POLICIES under this name."""
    if ":" in name and name in POLICIES:
        return
    module, colon, kind = name.partition(":")
    try:
        if not (module and colon and kind):
            raise ValueError("there must be a name on each side of a colon")
        found = getattr(importlib.import_module(module), kind)
    except (ImportError, ValueError, AttributeError) as error:
        raise ValueError(
            f"policy must be module:Class, such as mine:Best for the class Best in mine.py in the current folder, got "
            f"{name!r}: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Policy)):
        raise ValueError(f"policy must be module:Class, a subclass of thali.Policy, got {name!r}, which is {found!r}")
    POLICIES[name] = found


def compare(
    problem: Problem,
    policies: dict[str, Policy],
    *,
    steps: int,
    seed: int = 0,
    progress: Callable[[str, int], None] | None = None,
) -> dict[str, Run]:
    """Run each policy on the problem, with the same random numbers."""
    runs = {}
    for name, policy in policies.items():
        report = None if progress is None else lambda made, name=name: progress(name, made)
        runs[name] = simulate(policy, problem.model, steps=steps, seed=seed, points=200, progress=report)
    return runs


def summarize(name: str, run: Run) -> Summary:
    """Summarize one run."""
    final, slope = run.regret[:, -1], run.slope()
    lists, counts = np.unique(run.lists[:, -1], axis=0, return_counts=True)
    common = int(np.argmax(counts))
    return Summary(
        name,
        float(final.mean()),
        standard_error(final),
        float(slope.mean()),
        standard_error(slope),
        (tuple(int(e) for e in lists[common]), float(counts[common] / counts.sum())),
        float((run.last_loss <= 1e-12).mean()),
    )


def standard_error(values: Any) -> float:
    """The standard error of the mean; NaN for a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
