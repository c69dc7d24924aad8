"""What the service does by itself: learn priors, refresh the quality of items, and load a new catalog file."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import uniform
from time import time
from typing import TYPE_CHECKING

from thali.service.http.batcher import Batcher, Busy
from thali.service.http.log import Log
from thali.service.recommender import Conflict, Refused
from thali.service.recommender.operations import GetPrior, RefreshQuality, SetMeta, SetPrior, UseCatalog
from thali.service.recommender.prior_check import PREFIX, Checker, to_store
from thali.service.recommender.prior_learning import PriorDraw, TooFewPeople
from thali.service.stores import StoreError
from thali_client.types import LearnerPrior, PriorCheck

if TYPE_CHECKING:
    from thali.service.http.state import Service

# Of several processes, one that finds a prior that is younger than this share of the interval does not learn another.
YOUNG, JITTER = 0.5, 0.1
# Seconds between two looks at whether an item can be tried, or was examined often enough. With 100,000 items, a refresh
# takes 0.3 s.
LOOK_S = 5.0


async def refresh_quality(batcher: Batcher, every: float, log: Log) -> None:
    """Refresh the quality of items repeatedly, until cancelled."""
    waited = 0.0
    while True:
        # A new item need not wait to be tried, and one that was examined often enough should not stay at the top.
        pause = min(every - waited, LOOK_S)
        await asyncio.sleep(pause)
        waited += pause
        if waited < every and not batcher.recommender.live.waits_for_refresh:
            continue
        waited = 0.0
        try:
            found, more = False, True
            while more:
                counted, more = await batcher.one(RefreshQuality())
                found = found or counted
            if found and batcher.recommender.live.quality is not None:
                log("quality-refreshed", items=len(batcher.recommender.catalog))
        except (StoreError, Busy) as error:
            log("store-error", error=str(error))
        except Exception as error:  # so that the quality is refreshed again after an unexpected error
            log("quality-not-refreshed", error=f"{type(error).__name__}: {error}")


async def learn_priors(service: Service, log: Log) -> None:
    """Check and learn the priors of all learners that learn theirs, repeatedly, until cancelled."""
    every = service.settings.prior_every
    # A service that is often started again must learn, too. So the age of the priors counts.
    learned = [kept.at for kept in service.recommender.priors.values()]
    wait = min(every, max(JITTER * every, min(learned) + every - time())) if learned else every
    while True:
        # Several processes seldom begin at the same time, and those that begin later find a young prior.
        await asyncio.sleep(wait + every * uniform(-JITTER, JITTER))
        wait = every
        for name in sorted(service.recommender.prior_learners):
            try:
                await _check_and_learn(service, name, every, log)
            except Refused as refusal:  # too few users so far
                log("prior-not-learned", learner=name, reason=str(refusal))
            except Conflict as conflict:
                log("prior-not-learned", learner=name, reason=str(conflict))
            except (StoreError, Busy) as error:
                log("store-error", error=str(error))
            except Exception as error:  # so that priors are learned again after an unexpected error
                log("prior-not-learned", learner=name, reason=f"{type(error).__name__}: {error}")


async def _check_and_learn(service: Service, name: str, every: float, log: Log) -> None:
    check = await check_prior(service, name)
    if check is not None and check.verdict == "worse":
        log("prior-worse", learner=name, version=check.version, against=check.against, difference=check.difference)
        if check.falls_back and service.settings.prior_fallback:
            await service.batcher.one(SetPrior(name, None, fell_back=True, instead_of=check.version))
            log("prior-fell-back", learner=name, version=check.version)
            return
    kept = service.recommender.priors.get(name)
    if kept is None or not (kept.fell_back or kept.at > time() - YOUNG * every):
        learned = await learn_prior(service, name, replace_new=False)
        log("prior-learned", learner=name, version=learned.version, people=learned.people)


async def check_prior(service: Service, name: str) -> PriorCheck | None:
    """Compare predicted with observed clicks, and store the result."""
    await service.batcher.perform(())  # reads the version of the prior that other processes may have put into use
    checker = Checker(service.recommender, name)
    check = await asyncio.to_thread(_check, checker, service)
    if check is not None:
        await service.batcher.one(SetMeta(f"{PREFIX}{name}", to_store(check)))
    return check


def _check(checker: Checker, service: Service) -> PriorCheck | None:
    with service.recommender.store.new_connection() as store:
        return checker.check(store, time())


async def learn_prior(service: Service, name: str, *, replace_new: bool = True) -> LearnerPrior:
    """Learn the prior of a learner in another thread, and put it into use. One is learned at a time.

    replace_new: whether to replace a version that was put into use meanwhile. Otherwise, Conflict is raised.
    """
    async with service.learning:
        draw = PriorDraw(service.recommender, name)
        try:
            await asyncio.to_thread(draw.read, service.recommender.store)
        except TooFewPeople:
            if (withdrawal := draw.withdrawal()) is not None:
                await service.batcher.one(withdrawal)
            raise
        while True:
            operation = await asyncio.to_thread(draw.learn)
            if not replace_new:
                operation = replace(operation, instead_of=draw.version)
            try:
                await service.batcher.one(operation)
            except Conflict as conflict:
                draw.drop(conflict)
            else:
                priors = await service.batcher.one(GetPrior())
                learned: LearnerPrior = priors[name]
                return learned


async def use_catalog(service: Service, *, discard_changes: bool = False) -> int:
    """Load the catalog file again, and put it into use. Return the number of its items."""
    path = Path(service.settings.catalog).resolve()
    load = service.recommender.in_use.load_catalog
    if load is None:
        raise Refused("catalog", "must come from a file, but this service was started with a catalog in memory")
    try:
        loaded = await asyncio.to_thread(load, str(path))
        if not service.recommender.hide.hides_nothing:
            loaded = await asyncio.to_thread(loaded.prepared)
    except (ValueError, OSError) as error:
        raise Refused("catalog", f"must be a file that can be loaded: {error}") from None
    items: int = await service.batcher.one(UseCatalog(loaded, str(path), discard_changes))
    return items


async def reload(service: Service, log: Log) -> None:
    """Load the catalog file again after a signal, and log the outcome."""
    try:
        await use_catalog(service)
    except (Refused, StoreError, Busy) as error:
        log("catalog-not-loaded", error=str(error))
    except Exception as error:
        log("catalog-not-loaded", error=f"{type(error).__name__}: {error}")
