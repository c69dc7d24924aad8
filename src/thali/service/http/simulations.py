"""A simulated person against several policies, in a process of its own: the service goes on answering."""

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
from thali.service.http.settings import Limits
from thali.service.http.simulation_worker import Simulated, Work, run
from thali.service.recommender.operations import Refused, checked
from thali.tools import checks
from thali.tools.processes import end

#: Larger catalogs are not simulated here: a policy that learns each item alone would take too long.
MOST_ITEMS = 20_000
PATIENCE_S = 60.0
#: For a policy that this process has not run yet: what it needs may have to be compiled.
FIRST_PATIENCE_S = 300.0
#: All but the one that knows the person.
LEARNING = tuple(name for name in POLICIES if name != "Oracle")


class Simulations:
    """Runs one at a time."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._run: set[str] = set()
        self._alone = asyncio.Lock()

    async def run(self, catalog: Catalog, asked: SimulationBody, K: int, limits: Limits) -> Simulated:
        """The outcome, or a refusal."""
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
            except BrokenProcessPool:  # a mistake of ours, or no memory left: the next one gets a process of its own
                self._kill()
                raise

    def _kill(self) -> None:
        if self._pool is not None:
            end(self._pool)
            self._pool = None
            self._run.clear()

    def close(self) -> None:
        """Stop."""
        self._kill()


def plan(catalog: Catalog, asked: SimulationBody, K: int, limits: Limits) -> Work:
    """What is to be done, or a refusal of what breaks a rule."""
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
    # Everything is simulated from the start, whatever is answered: so parts fit together to the last bit.
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
