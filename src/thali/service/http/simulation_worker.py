"""Runs simulations in a separate process.

Import as little as possible here. The process is spawned for the first simulation, whose caller waits for the imports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thali.catalog.catalog import Catalog
from thali.catalog.snapshot import Snapshot
from thali.lab.simulate import simulate
from thali.people import DiverseCascade
from thali.people.drift import Drift
from thali.policies import POLICIES, LinearPolicy, State
from thali.tools.types import Floats, Integers
from thali_client.types import Simulated, SimulatedChange, SimulatedRun


@dataclass(frozen=True, slots=True)
class Work:
    """What to simulate."""

    catalog: Snapshot
    policies: list[str]
    steps: int
    K: int
    theta: list[float] | None
    """The person's preferences in the order of the topics, or None to draw them from the seed."""
    changes: list[tuple[int, list[float]]]
    """Changes of taste: the number of steps before each change, and the preferences after it."""
    seed: int
    points: list[int]
    """The steps at which to return results."""
    trace: bool


def run(work: Work) -> Simulated:
    """Simulate with a catalog that has no removed items.

    Click models, and policies that learn about each item separately, need every item to be present.
    """
    present = np.flatnonzero(work.catalog.present)
    names = [work.catalog.items[e] for e in present.tolist()]
    topics = list(work.catalog.topics)
    fading = None if work.catalog.fading.all() else work.catalog.fading
    catalog = Catalog(work.catalog.csr[present], names, topics, work.catalog.coverage, fading)
    drawn = np.random.default_rng(work.seed).dirichlet(np.full(catalog.d, 0.5)).tolist()
    tastes = [(0, drawn if work.theta is None else work.theta), *work.changes]
    person = Drift([DiverseCascade(catalog, [theta]) for _, theta in tastes], [step for step, _ in tastes])
    first, *changes = (_taste_at(catalog, person, work.K, step) for step in person.starts)
    runs = [_run(catalog, person, work, name) for name in work.policies]
    return Simulated(first.theta, first.best_list, first.best, changes, work.points, runs)


def _taste_at(catalog: Catalog, person: Drift, K: int, step: int) -> SimulatedChange:
    model = person.at(step)
    assert model.theta is not None
    best = model.best_lists(K)
    return SimulatedChange(
        step, _by_topic(catalog, model.theta[0]), _names(catalog, best[0]), float(model.click_probability(best)[0])
    )


def _run(catalog: Catalog, person: Drift, work: Work, name: str) -> SimulatedRun:
    policy: Any = POLICIES[name](catalog, work.K)
    learns_topics = isinstance(policy, LinearPolicy)
    estimates: list[list[float]] = []

    def record_estimate(_: int, state: State) -> None:
        estimates.append(policy.estimate(state)[0].tolist())

    on_point = record_estimate if learns_topics and work.trace else None
    result = simulate(policy, person, work.steps, work.seed, points=work.points, on_point=on_point)
    return SimulatedRun(
        name,
        result.regret[0].tolist(),
        result.clicks[0].tolist(),
        _names(catalog, result.lists[0, -1]),
        _by_topic(catalog, policy.estimate(result.state)[0]) if learns_topics else None,
        [_names(catalog, items) for items in result.lists[0]] if work.trace else None,
        estimates if on_point is not None else None,
    )


def _names(catalog: Catalog, items: Integers) -> list[Any]:
    return [catalog.items[e] for e in items.tolist()]


def _by_topic(catalog: Catalog, values: Floats) -> dict[Any, float]:
    return dict(zip(catalog.topics, values.tolist(), strict=True))
