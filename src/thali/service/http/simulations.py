"""Simulations of a person with several policies, in a process of their own, so that they do not delay requests."""

from __future__ import annotations

import asyncio
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from thali.catalog.catalog import Catalog
from thali.lab.simulate import recorded_steps
from thali.policies import POLICIES
from thali.service.http.batcher import Busy
from thali.service.http.bodies import SimulationBody
from thali.service.http.simulation_worker import Work, run
from thali.service.recommender.operations import Refused, checked
from thali.tools import checks
from thali.tools.processes import end
from thali_client.types import Limits, Simulated

#: Larger catalogs are not simulated: policies that learn each item separately would take too long.
MOST_ITEMS = 20_000
PATIENCE_S = 60.0
#: For a policy that this process has not run yet: its kernels may have to be compiled.
FIRST_PATIENCE_S = 300.0
#: All policies but the one that knows the person's preferences.
LEARNING = tuple(name for name in POLICIES if name != "Oracle")


class Simulations:
    """Runs simulations, one at a time."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._run: set[str] = set()
        self._alone = asyncio.Lock()

    async def run(self, catalog: Catalog, asked: SimulationBody, K: int, limits: Limits) -> Simulated:
        """Run a simulation; raises Refused if it breaks a rule or takes too long, Busy if another one is running."""
        work = plan(catalog, asked, K, limits)
        if self._alone.locked():
            raise Busy("another simulation is running")
        async with self._alone:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
            future = asyncio.get_running_loop().run_in_executor(self._pool, run, work)
            patience = PATIENCE_S if self._run.issuperset(asked.policies) else FIRST_PATIENCE_S
            try:
                done = await asyncio.wait_for(future, patience)
                self._run.update(asked.policies)
                return done
            except TimeoutError:
                self._kill()
                raise Refused("steps", f"must be few enough to be simulated in {patience:g} s") from None
            except BrokenProcessPool:  # a bug, or out of memory: the next simulation gets a new process
                self._kill()
                raise

    def _kill(self) -> None:
        if self._pool is not None:
            end(self._pool)
            self._pool = None
            self._run.clear()

    def close(self) -> None:
        """Stop the process, and the simulation that it runs."""
        self._kill()


def plan(catalog: Catalog, asked: SimulationBody, K: int, limits: Limits) -> Work:
    """Check a request and turn it into work for the process; raises Refused if it breaks a rule."""
    unknown = [name for name in asked.policies if name not in LEARNING]
    if unknown:
        raise Refused("policies", f"must be among {', '.join(LEARNING)}, got {unknown[0]!r:.80}")
    if asked.steps * len(asked.policies) > limits.simulated_steps:
        raise Refused(
            "steps", f"must be at most {limits.simulated_steps} over all policies, got {asked.steps} for each"
        )
    if len(catalog) > MOST_ITEMS:
        raise Refused("steps", f"cannot be simulated on a catalog of more than {MOST_ITEMS} items")
    if len(catalog) < K:
        raise Refused("K", f"must be at most the {len(catalog)} items there are, got {K}")
    if asked.since >= asked.steps:
        raise Refused("since", f"must be below the {asked.steps} steps, got {asked.since}")
    recorded = checked("points", recorded_steps, asked.points, steps=asked.steps)
    # Always simulated from the first step, even if only later ones are asked for: so parts fit together exactly.
    points = [step for step in recorded.tolist() if step > asked.since]
    traced = len(points) * len(asked.policies) * (K + catalog.d)
    if asked.trace and traced > limits.traced:
        came = f"{len(points)} points of {len(asked.policies)} policies, {K} items and {catalog.d} topics each"
        raise Refused("points", f"must make a trace of at most {limits.traced} names and numbers, got {came}")
    theta = None if asked.theta is None else _taste("theta", asked.theta, catalog)
    before, changes = 0, []
    for at, change in enumerate(asked.changes):
        if not before < change.step < asked.steps:
            raise Refused(
                f"changes[{at}].step", f"must be above {before} and below the {asked.steps} steps, got {change.step}"
            )
        changes.append((change.step, _taste(f"changes[{at}].theta", change.theta, catalog)))
        before = change.step
    return Work(catalog, asked.policies, asked.steps, K, theta, changes, asked.seed, points, asked.trace)


def _taste(field: str, theta: dict[str, float], catalog: Catalog) -> list[float]:
    """Preferences in the order of the catalog's topics; those not named are 0."""
    known = set(catalog.topics)
    strange = [topic for topic in theta if topic not in known]
    if strange:
        raise Refused(field, f"must be of topics of the catalog, got {strange[0]!r:.80}")
    row = [theta.get(str(topic), 0.0) for topic in catalog.topics]
    checked(field, checks.preferences, [row], d=catalog.d)
    return row
