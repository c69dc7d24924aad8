"""The service itself: statistics, simulations, what it is, how it does, and what monitoring systems poll."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from thali.service.http.about import About, describe
from thali.service.http.bodies import SimulationBody
from thali.service.http.health import Health, examine, try_store
from thali.service.http.responses import json_response
from thali.service.http.routes.common import Error, authorize, documented, service_of
from thali.service.http.simulation_worker import Simulated
from thali.service.recommender import answers
from thali.service.recommender.operations import Stats

router = APIRouter(tags=["service"])


@dataclass(frozen=True, slots=True)
class Status:
    """The service works."""

    status: str


@router.get("/v1/stats", responses=documented(answers.Statistics))
async def stats(request: Request, hours: Annotated[int, Query(ge=1, le=24 * 366)] = 24) -> Response:
    """How the learners do: impressions, click rate with intervals, diversity, exploration, calibration."""
    return json_response(await authorize(request, "read").batcher.one(Stats(hours)))


@router.post("/v1/simulations", responses=documented(Simulated))
async def simulations(request: Request, body: SimulationBody) -> Response:
    """Simulate a person who clicks as in the paper's model, with several policies. Nothing is stored."""
    service = authorize(request, "write")
    recommender = service.recommender
    K = body.K or next(iter(recommender.learners.values())).policy.K
    return json_response(await service.simulations.run(recommender.catalog, body, K, service.settings.limits))


@router.get("/v1/about", responses=documented(About))
async def about(request: Request) -> Response:
    """What the service is and what the caller may do: topics, learners, policies to simulate, limits. Uses no store.

    Needs no key; but if the service has keys, callers without one learn only that.
    """
    service = service_of(request)
    return json_response(describe(service.settings, service.recommender, request.scope["state"]["role"]))


@router.get("/v1/health", responses=documented(Health))
async def health(request: Request) -> Response:
    """How the service does: whether its store can be used, how many requests wait for it, the slowest requests.

    The status is 200 even if the store cannot be used. With several workers it describes the one that responds, whose
    id is in process.
    """
    return json_response(await examine(authorize(request, "admin"), request.state.request_id))


@router.get("/metrics", responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Metrics for Prometheus."""
    text = authorize(request, "read").metrics.text()
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/healthz", responses={200: {"model": Status}})
async def healthz() -> Response:
    """Whether the process responds."""
    return json_response(Status("ok"))


@router.get("/readyz", responses={200: {"model": Status}, 503: {"model": Error}})
async def readyz(request: Request) -> Response:
    """Whether the store can be used."""
    await try_store(service_of(request).batcher)
    return json_response(Status("ok"))
