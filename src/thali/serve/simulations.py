"""A simulated person against several policies, in a process of its own: the service goes on answering."""

from __future__ import annotations

import asyncio
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np

from thali.catalog import Catalog
from thali.clicks import DiverseCascade
from thali.policies import POLICIES, LinearPolicy
from thali.recommender.operations import Refused
from thali.serve.batcher import Busy
from thali.serve.bodies import SimulationBody
from thali.simulation import simulate

#: Larger catalogues are not simulated here: a policy that learns each item alone would take too long.
MOST_ITEMS = 20_000
PATIENCE_S = 60.0
#: All but the one that knows the person.
LEARNING = tuple(name for name in POLICIES if name != "Oracle")


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """How a policy did."""

    policy: str
    regret: list[float]
    """Cumulative, at the steps of the simulation."""
    clicks: list[int]
    """Cumulative."""
    last_list: list[Any]
    estimate: dict[Any, float] | None
    """The taste learned by topic; None for a policy that learns otherwise."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """A person and how each policy did; the same luck for all."""

    theta: dict[Any, float]
    steps: list[int]
    best_list: list[Any]
    runs: list[SimulatedRun]


class Simulations:
    """Runs one at a time."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._alone = asyncio.Lock()

    async def run(self, catalog: Catalog, asked: SimulationBody, K: int, most_steps: int) -> Simulated:
        """The outcome, or a refusal."""
        unknown = [name for name in asked.policies if name not in LEARNING]
        if unknown:
            raise Refused("policies", f"must be among {', '.join(LEARNING)}, got {unknown[0]!r:.80}")
        if asked.steps * len(asked.policies) > most_steps:
            raise Refused("steps", f"must be at most {most_steps} over all policies, got {asked.steps} for each")
        if len(catalog) > MOST_ITEMS:
            raise Refused("steps", f"cannot be simulated on a catalogue of more than {MOST_ITEMS} items")
        if len(catalog) < K:
            raise Refused("K", f"must be at most the {len(catalog)} items there are, got {K}")
        theta = None
        if asked.theta is not None:
            if sum(asked.theta.values()) > 1.0 + 1e-9:
                raise Refused("theta", f"must sum to at most 1, got {sum(asked.theta.values())}")
            strange = [topic for topic in asked.theta if topic not in set(catalog.topics)]
            if strange:
                raise Refused("theta", f"must be of topics of the catalogue, got {strange[0]!r:.80}")
            theta = [asked.theta.get(str(topic), 0.0) for topic in catalog.topics]
        if self._alone.locked():
            raise Busy("another simulation is running")
        async with self._alone:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
            work = (catalog, asked.policies, asked.steps, K, theta, asked.seed, asked.points)
            future = asyncio.get_running_loop().run_in_executor(self._pool, run, *work)
            try:
                return await asyncio.wait_for(future, PATIENCE_S)
            except TimeoutError:
                self._kill()
                raise Refused("steps", f"must be few enough to be simulated in {PATIENCE_S:g} s") from None
            except BrokenProcessPool:  # a mistake of ours, or no memory left: the next one gets a process of its own
                self._kill()
                raise

    def _kill(self) -> None:
        if self._pool is not None:
            for process in list(self._pool._processes.values()):
                process.kill()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def close(self) -> None:
        """Stop."""
        self._kill()


def run(
    catalog: Catalog, policies: list[str], steps: int, K: int, theta: list[float] | None, seed: int, points: int
) -> Simulated:
    """Simulate; without the items that were removed, as models and policies that learn by item want all there."""
    there = np.flatnonzero(catalog.present)
    names = [catalog.items[e] for e in there.tolist()]
    catalog = Catalog(catalog.csr[there], items=names, topics=list(catalog.topics), coverage=catalog.coverage)
    taste = np.random.default_rng(seed).dirichlet(np.full(catalog.d, 0.5)) if theta is None else np.array(theta)
    person = DiverseCascade(catalog, taste[None])
    runs, at = [], []
    for name in policies:
        policy: Any = POLICIES[name](catalog, K)
        done = simulate(policy, person, steps=steps, seed=seed, points=min(points, steps))
        estimate = None
        if isinstance(policy, LinearPolicy):
            estimate = dict(zip(catalog.topics, policy.estimate(done.state)[0].tolist(), strict=True))
        at = done.steps.tolist()
        last = [names[e] for e in done.lists[0, -1].tolist()]
        runs.append(SimulatedRun(name, done.regret[0].tolist(), done.clicks[0].tolist(), last, estimate))
    best = [names[e] for e in person.best_lists(K)[0].tolist()]
    return Simulated(dict(zip(catalog.topics, taste.tolist(), strict=True)), at, best, runs)
