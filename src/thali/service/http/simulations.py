"""Simulations of a person with several policies. They run in a separate process, so that they do not delay requests."""

from __future__ import annotations

import asyncio
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from thali.catalog.snapshot import Snapshot
from thali.lab.simulate import recorded_steps
from thali.policies import POLICIES
from thali.service.http.batcher import Busy
from thali.service.http.bodies import SimulationBody
from thali.service.http.simulation_worker import Work, run
from thali.service.recommender.operations import Refused, checked
from thali.tools import checks
from thali.tools.processes import end
from thali_client.types import Limits, Simulated

#: The largest catalog that can be simulated. Policies that learn about each item separately would take too long.
MAX_ITEMS = 20_000
#: How long a simulation may take.
PATIENCE_S = 60.0
#: How long it may take with a policy that the process has not run yet, whose kernels may have to be compiled.
FIRST_PATIENCE_S = 300.0
#: All policies that learn. The oracle does not: it knows the person's preferences.
LEARNING = tuple(name for name in POLICIES if name != "Oracle")


class Simulations:
    """Runs simulations, one at a time."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._compiled: set[str] = set()  # the policies that the process has already run
        self._lock = asyncio.Lock()

    async def run(self, catalog: Snapshot, body: SimulationBody, K: int, limits: Limits) -> Simulated:
        """Run a simulation. Raises Refused if it breaks a rule or takes too long, or Busy if another one is running."""
        work = plan(catalog, body, K, limits)
        if self._lock.locked():
            raise Busy("another simulation is running")
        async with self._lock:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
            future = asyncio.get_running_loop().run_in_executor(self._pool, run, work)
            patience = PATIENCE_S if self._compiled.issuperset(body.policies) else FIRST_PATIENCE_S
            try:
                result = await asyncio.wait_for(future, patience)
                self._compiled.update(body.policies)
                return result
            except TimeoutError:
                self._kill()
                raise Refused(
                    "steps", f"must be few enough for the simulation to finish in {patience:g} s, got {body.steps}"
                ) from None
            except BrokenProcessPool:  # a bug or a lack of memory: the next simulation gets a new process
                self._kill()
                raise

    def _kill(self) -> None:
        if self._pool is not None:
            end(self._pool)
            self._pool = None
            self._compiled.clear()

    def close(self) -> None:
        """Stop the process, even if it is running a simulation."""
        self._kill()


def plan(catalog: Snapshot, body: SimulationBody, K: int, limits: Limits) -> Work:
    """Check a request and turn it into work for the process. Raises Refused if the request breaks a rule.

    K: maximum number of items per list. Lists are shorter if the catalog has fewer items.
    """
    unknown = [name for name in body.policies if name not in LEARNING]
    if unknown:
        raise Refused("policies", f"must contain only {', '.join(LEARNING)}, got {unknown[0]!r:.80}")
    if body.steps * len(body.policies) > limits.simulated_steps:
        raise Refused(
            "steps",
            f"must be at most {limits.simulated_steps} divided by the number of policies ({len(body.policies)}), "
            f"got {body.steps}",
        )
    if len(catalog) > MAX_ITEMS:
        raise Refused(
            "steps",
            f"can be simulated only with a catalog of at most {MAX_ITEMS} items, got a catalog of {len(catalog)} items",
        )
    if not len(catalog):
        raise Refused("catalog", "must have at least one item to choose from, got none")
    K = min(K, len(catalog))
    if body.since >= body.steps:
        raise Refused("since", f"must be less than steps ({body.steps}), got {body.since}")
    recorded = checked("points", recorded_steps, body.points, steps=body.steps)
    # A simulation always begins at step 1, even if only later steps are returned, so that successive parts match.
    points = [step for step in recorded.tolist() if step > body.since]
    traced = len(points) * len(body.policies) * (K + catalog.d)
    if body.trace and traced > limits.traced:
        size = f"{len(points)} × {len(body.policies)} × ({K} + {catalog.d}) = {traced}"
        raise Refused(
            "points",
            f"must be few enough that points × policies × (K + topics) is at most {limits.traced} if trace is "
            f"true, got {size}",
        )
    theta = None if body.theta is None else _preferences("theta", body.theta, catalog)
    previous, changes = 0, []
    for index, change in enumerate(body.changes):
        if not previous < change.step < body.steps:
            raise Refused(
                f"changes[{index}].step",
                f"must be greater than {previous} and less than steps ({body.steps}), got {change.step}",
            )
        changes.append((change.step, _preferences(f"changes[{index}].theta", change.theta, catalog)))
        previous = change.step
    return Work(catalog, body.policies, body.steps, K, theta, changes, body.seed, points, body.trace)


def _preferences(field: str, theta: dict[str, float], catalog: Snapshot) -> list[float]:
    """Return preferences in the order of the catalog's topics. Topics that are left out have preference 0."""
    known = set(catalog.topics)
    unknown = [topic for topic in theta if topic not in known]
    if unknown:
        raise Refused(field, f"must contain only topics of the catalog, got {unknown[0]!r:.80}")
    row = [theta.get(str(topic), 0.0) for topic in catalog.topics]
    checked(field, checks.preferences, [row], d=catalog.d)
    return row
