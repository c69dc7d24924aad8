"""Simulations: a simulated user, and how policies perform on this user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """How one policy performed on the simulated user."""

    policy: str
    regret: list[float]
    """Cumulative regret against the best list, at each of the reported steps."""
    clicks: list[int]
    """Cumulative number of clicks, at each of the reported steps."""
    last_list: list[Any]
    estimate: dict[Any, float] | None
    """Learned preference by topic; None for a policy that does not learn preferences by topic."""
    lists: list[list[Any]] | None
    """List shown at each of the reported steps; None without ``trace``."""
    estimates: list[list[float]] | None
    """Estimate after each of the reported steps, in the order of the topics; None without ``trace``, and for a policy
    that does not learn preferences by topic."""


@dataclass(frozen=True, slots=True)
class SimulatedChange:
    """A change of the simulated user's preferences."""

    step: int
    """First step with the new preferences."""
    theta: dict[Any, float]
    """Preference by topic."""
    best_list: list[Any]
    best: float
    """Click probability of the best list."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulated user and how each policy performed. All policies see the same random numbers."""

    theta: dict[Any, float]
    """Preference by topic at the start."""
    best_list: list[Any]
    best: float
    """Click probability of the best list, which is the highest that a policy can reach."""
    changes: list[SimulatedChange]
    steps: list[int]
    """Reported steps."""
    runs: list[SimulatedRun]
