"""The application: combines routes and middleware, starts and stops the service, and runs its background tasks."""

from __future__ import annotations

import asyncio
import gc
import secrets
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any

from fastapi import FastAPI
from fastapi.responses import Response

from thali.lists import greedy
from thali.policies import POLICIES, LinearPolicy, Prior
from thali.service.http import routes
from thali.service.http.background import learn_priors, refresh_quality, reload
from thali.service.http.batcher import Batcher, Busy
from thali.service.http.kept_catalog import KeptCatalog, warn
from thali.service.http.log import Log, log_messages
from thali.service.http.metrics import Metrics
from thali.service.http.middleware import Stack
from thali.service.http.middleware.errors import add_error_handlers, error_reporter
from thali.service.http.middleware.fast import FastRoute
from thali.service.http.settings import LearnerSetting, Settings
from thali.service.http.simulations import Simulations
from thali.service.http.slowest import Slowest
from thali.service.http.state import Service
from thali.service.recommender import Recommender
from thali.service.recommender.learners import servable
from thali.service.recommender.loading import LoadedCatalog, load
from thali.service.recommender.operations import Prune, TimeOut
from thali.service.recommender.recommender import DAY_S
from thali.service.recommender.showing import measure
from thali.service.stores import StoreError
from thali.service.stores.sqlite import SqliteStore
from thali.service.web import page, reference
from thali.tools import checks
from thali.tools.processes import closing_terminal, receive_hangup

DEFAULT_K = 10
# Seconds between two rounds of time-outs and removals, and the number of impressions that time out per transaction.
TIDY_S, TIDY_LIMIT = 5.0, 50
DESCRIPTION = (
    "Recommends diverse lists and learns from clicks. Request a list with POST /v1/recommend, show it, and report what "
    "was clicked with POST /v1/feedback. Positions in a list are counted from 0. An error response is a JSON object "
    "with the fields error (a sentence), field (the invalid field, if any) and request_id. Every response has the "
    "header X-Request-ID."
)


def make_recommender(settings: Settings) -> Recommender:
    """Create a recommender with the catalog, learners and store that the settings name, ready for requests.

    A worker uses the copy of the catalog file if the file itself is not the one that the store uses, or cannot be used.
    """
    log_messages()
    if settings.kept_catalog is None:
        return _make(settings, load(settings.catalog), load)
    kept = KeptCatalog(settings.kept_catalog)
    try:
        recommender = _make(settings, load(settings.catalog), kept.load)
    except (ValueError, OSError):
        recommender = _make(settings, load(settings.kept_catalog), kept.load)
    recommender.in_use.on_catalog = kept.keep
    return recommender


def set_up(settings: Settings, folder: Path) -> Settings:
    """Set up the store of a service with several workers, and return the settings for its workers.

    Workers that are restarted should not read files that have changed since. So they use copies in this folder, as far
    as there are any.
    """
    log_messages()
    kept = KeptCatalog(folder / "catalog")
    settings = replace(settings, kept_catalog=str(kept.path))
    loaded = kept.load(settings.catalog)
    with _make(replace(settings, kept_catalog=None), loaded, load) as recommender:
        kept.keep(loaded)
        for learner in settings.learners:
            prior, copy = recommender.learners[learner.name].start.prior, _kept_prior(settings, learner)
            if copy is not None and prior is not None:
                try:
                    prior.save(copy)
                except OSError as error:
                    warn(error, f"the prior of learner {learner.name!r}")
    return settings


def _make(settings: Settings, file: LoadedCatalog, load_catalog: Callable[[str], LoadedCatalog]) -> Recommender:
    catalog = file.catalog
    policies: dict[str, LinearPolicy] = {}
    for learner in settings.learners:
        few = min(2, len(catalog))
        if learner.policy not in POLICIES or not servable(POLICIES[learner.policy](catalog, few)):
            allowed = ", ".join(name for name, kind in POLICIES.items() if servable(kind(catalog, few)))
            raise ValueError(f"policy of learner {learner.name!r} must be one of {allowed}, got {learner.policy!r}")
        if learner.name in policies:
            raise ValueError(f"learners must have different names, got {learner.name!r} twice")
        K = DEFAULT_K if learner.K is None else learner.K
        checks.integer(f"K of learner {learner.name!r}", K, low=1, high=settings.limits.K)
        options = {"sigma": learner.sigma, "alpha": learner.alpha, "prior": _prior(settings, learner, file)}
        policy: Any = POLICIES[learner.policy](catalog, few, **{k: v for k, v in options.items() if v is not None})
        policies[learner.name] = policy.variant(K)  # K may exceed the number of items, which can grow
    recommender = Recommender(
        policies,
        settings.store,
        shares={learner.name: learner.share for learner in settings.learners},
        no_click_after=settings.no_click_after,
        keep=settings.keep_days * DAY_S,
        cache=settings.cache_mb << 20,
        most_K=settings.limits.K,
        hide=settings.hide,
        quality=file.quality,
        learn_prior=[learner.name for learner in settings.learners if learner.prior == "learn"],
        keep_prior=[learner.name for learner in settings.learners if not _follows_file(learner)],
        catalog_path=str(Path(settings.catalog).resolve()),  # also for thali replay
        start_digest=file.start_digest,
        new_catalog=settings.new_catalog,
        same_catalog=settings.kept_catalog is not None,
    )
    recommender.in_use.load_catalog = load_catalog
    warm(recommender)
    return recommender


def _prior(settings: Settings, learner: LearnerSetting, file: LoadedCatalog) -> Prior | None:
    """Return the prior with which a learner starts."""
    if _follows_file(learner):
        return file.prior
    if learner.prior in (None, "none"):
        return None
    copy = _kept_prior(settings, learner)
    if copy is not None and copy.is_file():
        return Prior.load(copy)
    if not Path(learner.prior).is_file():
        raise ValueError(
            f"prior of learner {learner.name!r} must be 'learn', 'none' or a file written by prior.save, got "
            f"{learner.prior!r}"
        )
    return Prior.load(learner.prior)


def _kept_prior(settings: Settings, learner: LearnerSetting) -> Path | None:
    """Return where the workers of a service keep a copy of a learner's own prior, or None if there is none to keep."""
    if settings.kept_catalog is None or _follows_file(learner) or learner.prior == "none":
        return None
    return Path(settings.kept_catalog).with_name(f"prior-{settings.learners.index(learner)}")


def _follows_file(learner: LearnerSetting) -> bool:
    """Return whether a learner starts with the prior of the catalog file, also when the file is loaded again."""
    return learner.prior in (None, "catalog", "learn")


def create_app(settings: Settings, make: Callable[[Settings], Recommender] = make_recommender) -> Stack:
    """Create the ASGI application of a service. make: creates its recommender when the service starts."""
    metrics, slowest, log = Metrics(), Slowest(), Log()
    report_error = error_reporter(metrics, log)
    process = secrets.token_hex(6)
    fast_routes: dict[tuple[str, str], FastRoute] = {}  # filled when the service starts

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        recommender = make(settings)
        gc.collect()
        gc.freeze()  # these objects live as long as the process; otherwise each full collection visits them for 90 ms

        def on_transaction(operations: int, seconds: float) -> None:
            metrics.transactions.observe(seconds)
            metrics.operations.inc(operations)
            metrics.tastes.set(len(recommender.tastes))
            metrics.items.set(len(recommender.catalog))

        recommender.on_counts = metrics.count
        keep_copy, topics = recommender.in_use.on_catalog, {*map(str, recommender.catalog.topics)}

        def on_catalog(loaded: LoadedCatalog) -> None:
            if keep_copy is not None:
                keep_copy(loaded)
            now, before = {*map(str, loaded.catalog.topics)}, topics.copy()
            log(
                "catalog-loaded",
                items=len(loaded.catalog),
                topics_kept=len(now & before),
                topics_added=len(now - before),
                topics_dropped=len(before - now),
            )
            topics.clear()
            topics.update(now)

        recommender.in_use.on_catalog = on_catalog
        recommender.in_use.on_problem = lambda error: log("catalog-not-loaded", error=error)
        service = Service(
            settings=settings,
            recommender=recommender,
            batcher=Batcher(recommender, settings.limits.waiting, on_transaction),
            simulations=Simulations(),
            metrics=metrics,
            slowest=slowest,
            report_error=report_error,
            process=process,
            started_at=time(),
        )
        app.state.service = service
        fast_routes.update(routes.fast_routes(service))
        tasks = [
            asyncio.create_task(_tidy(service.batcher, log)),
            asyncio.create_task(refresh_quality(service.batcher, settings.quality_every, log)),
        ]
        if recommender.prior_learners:
            tasks.append(asyncio.create_task(learn_priors(service, log)))
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            reloads: set[asyncio.Task[None]] = set()  # the loop itself keeps no reference to a task
            # If there are several workers, their parent ends them. It alone can tell whether nohup started it.
            terminal_closed = closing_terminal() if settings.kept_catalog is None else None

            def on_hangup() -> None:
                if terminal_closed is not None and terminal_closed():
                    signal.raise_signal(signal.SIGTERM)
                    return
                task = loop.create_task(reload(service, log))
                reloads.add(task)
                task.add_done_callback(reloads.discard)

            loop.add_signal_handler(signal.SIGHUP, on_hangup)
            receive_hangup()
        if isinstance(recommender.store, SqliteStore):
            tasks.append(asyncio.create_task(_maintain(recommender.store, log)))
        log("started", store=recommender.store.url, items=len(recommender.catalog), learners=list(recommender.learners))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await service.batcher.close()
            service.simulations.close()
            recommender.close()
            log("stopped")

    app = FastAPI(
        title="thali",
        version="1",
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would send callers to the host in their Host header, which may be forged
        default_response_class=Response,
    )
    # Add the routes themselves instead of their routers, which saves one step per request.
    app.router.routes.extend([*routes.ROUTES, *page.router.routes, *reference.router.routes])
    add_error_handlers(app, report_error)
    return Stack(
        app,
        settings,
        process=process,
        metrics=metrics,
        slowest=slowest,
        log=log,
        report_error=report_error,
        fast_routes=fast_routes,
    )


def create_app_from_environment() -> Stack:
    """Create the application in a worker process of a service that has several."""
    return create_app(Settings.from_environment())


def warm(recommender: Recommender) -> None:
    """Compile what a request needs, so that the first one does not have to wait for it.

    If the search engine is not compiled yet, it is compiled in the background. Otherwise, its search index is built.
    """
    if not recommender.hide.hides_nothing:
        recommender.live.numbers.prepare()
    for learner in recommender.learners.values():
        K = min(learner.policy.K, len(recommender.catalog))
        if K > 0:
            policy = learner.variant(K, None)
            state: Any = policy.init(1)
            lists = policy.recommend(state)
            measure(policy, state, lists[0])
            policy.update(state, lists, [[False] * K], policy.gains(lists))
    greedy.prepare(recommender.catalog)


async def _tidy(batcher: Batcher, log: Log) -> None:
    """Time out overdue impressions and remove expired ones, repeatedly, until cancelled."""
    while True:
        await asyncio.sleep(TIDY_S)
        try:
            while True:
                timed_out, pruned = await batcher.one(TimeOut(TIDY_LIMIT)), await batcher.one(Prune(10 * TIDY_LIMIT))
                if timed_out or pruned:
                    log("tidied", timed_out=timed_out, pruned=pruned)
                if timed_out < TIDY_LIMIT and pruned < 10 * TIDY_LIMIT:
                    break
        except (StoreError, Busy) as error:
            log("store-error", error=str(error))


async def _maintain(store: SqliteStore, log: Log) -> None:
    """Copy SQLite's write-ahead log back into its file regularly, so that commits do not have to."""
    connection = store.new_connection()
    store.disable_checkpoints()
    try:
        while True:
            await asyncio.sleep(0.5)
            try:
                await asyncio.to_thread(connection.maintain)
            except StoreError as error:
                log("store-error", error=str(error))
    finally:
        connection.close()
