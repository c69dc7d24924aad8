"""The application: routes, and what lives as long as the service does."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import time
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

from thali.catalog.file import load_catalog
from thali.policies import POLICIES, LinearPolicy
from thali.service.http import routes
from thali.service.http.asgi import App
from thali.service.http.batcher import Batcher, Busy
from thali.service.http.gate import Gate
from thali.service.http.log import Log
from thali.service.http.metrics import Metrics
from thali.service.http.responses import EXPECTED_ERRORS, error_response
from thali.service.http.settings import Settings
from thali.service.http.simulations import Simulations
from thali.service.recommender import Recommender
from thali.service.recommender.core import DAY_S
from thali.service.recommender.learners import servable
from thali.service.recommender.operations import Mark, Prune, TimeOut
from thali.service.recommender.showing import measure
from thali.service.stores import StoreError
from thali.service.stores.sqlite import SqliteStore
from thali.service.web import page, reference

DEFAULT_K = 10
# How often time-outs are given and old impressions removed, and up to how many at a time.
TIDY_S, TIDY_MANY = 5.0, 50
DESCRIPTION = (
    "Diverse lists that learn from clicks. Ask for a list with /v1/recommend, show it, and send what was clicked to "
    "/v1/feedback. Positions count from 0. Errors are {error, field, request_id}. Every reply has an X-Request-ID."
)


def make_recommender(settings: Settings) -> Recommender:
    """The catalog, the learners and the store that the settings name."""
    catalog = load_catalog(settings.catalog)
    policies: dict[str, LinearPolicy] = {}
    for learner in settings.learners:
        few = min(2, len(catalog))
        if learner.policy not in POLICIES or not servable(POLICIES[learner.policy](catalog, few)):
            can = ", ".join(name for name, kind in POLICIES.items() if servable(kind(catalog, few)))
            raise ValueError(f"policy of learner {learner.name!r} must be among {can}, got {learner.policy!r}")
        if learner.name in policies:
            raise ValueError(f"learners must have different names, got {learner.name!r} twice")
        K = min(DEFAULT_K, len(catalog)) if learner.K is None else learner.K
        most = min(settings.limits.K, len(catalog))
        if most < K:
            told = f"at most {settings.limits.K} and the {len(catalog)} items there are"
            raise ValueError(f"K of learner {learner.name!r} must be {told}, got {K}")
        given = {"sigma": learner.sigma, "alpha": learner.alpha}
        made: Any = POLICIES[learner.policy](catalog, K, **{k: v for k, v in given.items() if v is not None})
        policies[learner.name] = made
    recommender = Recommender(
        policies,
        settings.store,
        shares={learner.name: learner.share for learner in settings.learners},
        no_click_after=settings.no_click_after,
        keep=settings.keep_days * DAY_S,
        cache=settings.cache_mb << 20,
        most_K=settings.limits.K,
        new_catalog=settings.new_catalog,
    )
    warm(recommender)
    recommender.perform([Mark("catalog", str(Path(settings.catalog).resolve()))])  # for thali replay
    return recommender


def create_app(settings: Settings, make: Callable[[Settings], Recommender] = make_recommender) -> App:
    """The ASGI application of a service; opens its store when it is started."""
    metrics, log = Metrics(), Log()

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        recommender = make(settings)
        gc.collect()
        gc.freeze()  # what is there now stays: else the collector looks through all of it again and again, for 90 ms

        def done(operations: int, seconds: float) -> None:
            metrics.transactions.observe(seconds)
            metrics.operations.inc(operations)
            metrics.tastes.set(len(recommender.tastes))
            metrics.items.set(len(recommender.catalog))

        recommender.on_counts = metrics.count
        batcher = Batcher(recommender, settings.limits.waiting, done)
        app.state.service = routes.Service(settings, recommender, batcher, Simulations(), metrics, gate, time())
        gate.quick = routes.quick(app.state.service)
        chores = [asyncio.create_task(_tidy(batcher, log))]
        if isinstance(recommender.store, SqliteStore):
            chores.append(asyncio.create_task(_maintain(recommender.store, log)))
        log("started", store=recommender.store.url, items=len(recommender.catalog), learners=list(recommender.learners))
        try:
            yield
        finally:
            for chore in chores:
                chore.cancel()
            await asyncio.gather(*chores, return_exceptions=True)
            await batcher.close()
            app.state.service.simulations.close()
            recommender.close()
            log("stopped")

    app = FastAPI(
        title="thali",
        version="1",
        description=DESCRIPTION,
        lifespan=living,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # it would send callers to whatever Host they named
        default_response_class=Response,
    )
    # Their routes, rather than the routers: one step less for every request.
    app.router.routes.extend([*routes.router.routes, *page.router.routes, *reference.router.routes])

    async def said(request: Request, error: Exception) -> Response:
        gate.note(error, request.state.request_id)
        return error_response(error, request.state.request_id)

    for kind in (
        *EXPECTED_ERRORS,
        Exception,
    ):  # Exception: our own mistakes
        app.add_exception_handler(kind, said)
    gate = Gate(app, settings, metrics, log)
    return gate


def handed_on() -> App:
    """The application of the settings in the environment: for several processes."""
    return create_app(Settings.handed_on())


def warm(recommender: Recommender) -> None:
    """Make the index and have everything compiled, before the first person waits for it."""
    for learner in recommender.learners.values():
        policy = learner.policy
        if len(recommender.catalog) >= policy.K:
            state: Any = policy.init(1)
            lists = policy.recommend(state)
            measure(policy, state, lists[0])
            policy.update(state, lists, [[False] * policy.K], policy.gains(lists))


async def _tidy(batcher: Batcher, log: Log) -> None:
    """Time-outs and pruning, for ever."""
    while True:
        await asyncio.sleep(TIDY_S)
        try:
            while True:
                timed_out, pruned = await batcher.one(TimeOut(TIDY_MANY)), await batcher.one(Prune(10 * TIDY_MANY))
                if timed_out or pruned:
                    log("tidied", timed_out=timed_out, pruned=pruned)
                if timed_out < TIDY_MANY and pruned < 10 * TIDY_MANY:
                    break
        except (StoreError, Busy) as error:
            log("store-error", error=str(error))


async def _maintain(store: SqliteStore, log: Log) -> None:
    """Write SQLite's log back into its file, off the road of commits."""
    other = store.again()
    store.maintained_elsewhere()
    try:
        while True:
            await asyncio.sleep(0.5)
            try:
                await asyncio.to_thread(other.maintain)
            except StoreError as error:
                log("store-error", error=str(error))
    finally:
        other.close()
