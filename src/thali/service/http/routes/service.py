"""Routes for the service itself: stats, simulations, its description, its health, and metrics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from thali.service.http.about import describe
from thali.service.http.bodies import SimulationBody
from thali.service.http.health import check_health, try_store
from thali.service.http.responses import json_response
from thali.service.http.routes.common import authorize, documented, service_of
from thali.service.recommender.operations import GetStats
from thali_client.types import About, Error, Health, Simulated, Stats, Status

router = APIRouter(tags=["service"])


@router.get("/v1/stats", summary="Get stats", responses=documented(Stats))
async def stats(
    request: Request,
    hours: Annotated[int, Query(ge=1, le=24 * 366, description="The number of hours to include.")] = 24,
) -> Response:
    """Get the performance of each learner: impressions, click rate with interval, diversity, exploration, calibration.

    Hours begin on the hour (12:00, 13:00, …). The last one is the current hour, which is not over yet.
    """
    return json_response(await authorize(request, "read").batcher.one(GetStats(hours)))


@router.post("/v1/simulations", summary="Run a simulation", responses=documented(Simulated))
async def simulations(request: Request, body: SimulationBody) -> Response:
    """Simulate how several policies learn a person's taste.

    The simulated person clicks according to the paper's model. Nothing is stored.
    """
    service = authorize(request, "write")
    recommender = service.recommender
    K = body.K or next(iter(recommender.learners.values())).policy.K
    catalog = recommender.catalog.snapshot()
    return json_response(await service.simulations.run(catalog, body, K, service.settings.limits))


@router.get("/v1/about", summary="Describe the service", responses=documented(About))
async def about(request: Request) -> Response:
    """Describe the service (topics, learners, policies that can be simulated, limits) and return the caller's role.

    This needs no key. If the service has keys, callers without a valid key learn only that it has keys. The response
    does not depend on the store.
    """
    service = service_of(request)
    return json_response(describe(service.settings, service.recommender, request.scope["state"]["role"]))


@router.get("/v1/health", summary="Check the health of the service", responses=documented(Health))
async def health(request: Request) -> Response:
    """Check the health of the service: whether its store can be used, how many requests wait, the slowest requests.

    The status is 200 even if the store cannot be used. If the service has several workers, the response describes the
    worker that responds, and the field process contains its id.
    """
    return json_response(await check_health(authorize(request, "admin"), request.state.request_id))


@router.get("/metrics", summary="Get metrics", responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Get metrics for Prometheus."""
    text = authorize(request, "read").metrics.text()
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/healthz", summary="Check the process", responses={200: {"model": Status}})
async def healthz() -> Response:
    """Check that the process responds. Always returns status 200."""
    return json_response(Status("ok"))


@router.get("/readyz", summary="Check the store", responses={200: {"model": Status}, 503: {"model": Error}})
async def readyz(request: Request) -> Response:
    """Check that the store can be used. Returns status 503 if it cannot."""
    await try_store(service_of(request).batcher)
    return json_response(Status("ok"))
