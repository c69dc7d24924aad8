"""Every route of the API, and the role that it needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from time import time
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException

from thali.service.http.about import About, describe
from thali.service.http.batcher import Batcher
from thali.service.http.bodies import FeedbackBodies, FeedbackBody, Id, ItemBody, RecommendBody, SimulationBody
from thali.service.http.gate import Gate, Quick
from thali.service.http.health import Health, examine, try_store
from thali.service.http.metrics import Metrics
from thali.service.http.responses import encode, json_response
from thali.service.http.settings import ROLES, Settings
from thali.service.http.simulation_worker import Simulated
from thali.service.http.simulations import Simulations
from thali.service.recommender import Conflict, Recommender, Refused, Unknown, answers
from thali.service.recommender.core import AFTER_ALL
from thali.service.recommender.handlers import find_items
from thali.service.recommender.operations import (
    ExportUser,
    Feedback,
    Forget,
    History,
    Look,
    LookItem,
    LookItems,
    LookUser,
    PutItem,
    Recommend,
    RemoveItem,
    Stats,
    Undo,
    id_bytes,
)

router = APIRouter()
PAGE = 500
User = Annotated[str, Path(min_length=1, max_length=256, description="A user's name, percent-encoded.")]
Item = Annotated[str, Path(min_length=1, max_length=256, description="An item's name, percent-encoded.")]
Impression = Annotated[str, Path(min_length=36, max_length=36, description="An impression's id.")]


@dataclass
class Service:
    """What lives as long as the service does."""

    settings: Settings
    recommender: Recommender
    batcher: Batcher
    simulations: Simulations
    metrics: Metrics
    gate: Gate
    started_at: float


@dataclass(frozen=True, slots=True)
class Error:
    """Why not."""

    error: str
    """A sentence: the field, the rule, and what came."""
    field: str | None
    request_id: str


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one feedback of a batch."""

    impression: str
    status: int
    clicked: list[int] | None = None
    answer: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """In the order of the batch."""

    results: list[Result]


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """The latest first."""

    impressions: list[answers.Seen]
    next: str | None
    """To be given as before, for the next page."""


@dataclass(frozen=True, slots=True)
class Export:
    """All that is kept of a user."""

    user: str
    exported_at: float
    learners: dict[str, answers.Learned]
    impressions: list[answers.Seen]
    """The latest first."""


@dataclass(frozen=True, slots=True)
class Topics:
    """In the order of the catalog."""

    topics: list[str]


@dataclass(frozen=True, slots=True)
class Status:
    """How it is."""

    status: str


def _may(request: Request, role: str) -> Service:
    """The service, for a caller of this role or a higher one."""
    _check_role(request.scope["state"]["role"], role)
    service: Service = request.app.state.service
    return service


def _check_role(own: str | None, needed: str) -> None:
    if own is None or ROLES.index(own) < ROLES.index(needed):
        raise HTTPException(403, f"this needs a key of the role {needed}, got one of {own}")


def _told(model: Any, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI document says of the answers."""
    told: dict[int | str, dict[str, Any]] = {200: {"model": model}}
    return told | {status: {"model": Error} for status in (400, 401, 403, *statuses, 413, 415, 422, 503)}


@router.post("/v1/recommend", responses=_told(answers.Shown), tags=["lists"])
async def recommend(request: Request, body: RecommendBody) -> Response:
    """A list for a user. It is durable as an impression, under whose id feedback is given."""
    return json_response(await _recommend(_may(request, "write"), body))


async def _recommend(service: Service, body: RecommendBody) -> answers.Shown:
    asked = Recommend(body.user, body.K, body.candidates, body.exclude, body.learner, body.alpha)
    shown: answers.Shown = await service.batcher.one(asked)
    return shown


@router.post("/v1/feedback", responses=_told(answers.Answer | Results, 404, 409), tags=["lists"])
async def feedback(request: Request, body: FeedbackBodies) -> Response:
    """What was clicked on a list, or on several: learned once and durable when this answers.

    Sent again: the same answer, and nothing is learned twice. Different from what was recorded: 409. Unknown, expired
    or of a forgotten user: 404. A batch answers 200 with the status of each.
    """
    return json_response(await _feedback(_may(request, "write"), body))


async def _feedback(service: Service, body: FeedbackBody | list[FeedbackBody]) -> Any:
    if isinstance(body, FeedbackBody):
        return await service.batcher.one(Feedback(id_bytes(body.impression), body.clicked))
    asked = [(one, _told_feedback(one)) for one in body]
    outcomes = iter(await service.batcher.perform([told for _, told in asked if isinstance(told, Feedback)]))
    results = [(one.impression, next(outcomes) if isinstance(told, Feedback) else told) for one, told in asked]
    return Results([_result(impression, outcome) for impression, outcome in results])


def quick(service: Service) -> dict[tuple[str, str], Quick]:
    """The two routes that are asked all the time, without what the framework does for each request.

    They are the same functions, and the framework's routes above say in the document what they are.
    """

    def by(kind: Any, act: Callable[[Service, Any], Awaitable[Any]]) -> Quick:
        read = TypeAdapter(kind).validate_json

        async def handle(role: str, body: bytes) -> bytes:
            _check_role(role, "write")
            return encode(await act(service, read(body)))

        return handle

    return {
        ("POST", "/v1/recommend"): by(RecommendBody, _recommend),
        ("POST", "/v1/feedback"): by(FeedbackBodies, _feedback),
    }


def _told_feedback(one: FeedbackBody) -> Feedback | Refused:
    try:
        return Feedback(id_bytes(one.impression), one.clicked)
    except Refused as refusal:
        return refusal


def _result(impression: str, outcome: Any) -> Result:
    """Of one feedback of a batch."""
    if isinstance(outcome, answers.Answer):
        return Result(impression, 200, outcome.clicked, outcome.answer)
    for kind, status in ((Unknown, 404), (Conflict, 409), (Refused, 422)):
        if isinstance(outcome, kind):
            return Result(impression, status, error=str(outcome.args[0]))
    raise outcome


@router.get("/v1/impressions/{impression}", responses=_told(answers.Seen, 404), tags=["lists"])
async def impression(request: Request, impression: Impression) -> Response:
    """A list as it was shown, and the answer to it."""
    return json_response(await _may(request, "read").batcher.one(Look(id_bytes(impression))))


@router.delete("/v1/impressions/{impression}/feedback", responses=_told(answers.Answer, 404), tags=["lists"])
async def undo(request: Request, impression: Impression) -> Response:
    """Take feedback back: the statistics are as if it had never come. Without feedback, nothing happens."""
    return json_response(await _may(request, "write").batcher.one(Undo(id_bytes(impression))))


@router.get("/v1/users/{user}", responses=_told(answers.User, 404), tags=["users"])
async def user(request: Request, user: User) -> Response:
    """What is known of a user: the learned taste with intervals, and counts."""
    return json_response(await _may(request, "read").batcher.one(LookUser(user)))


@router.delete("/v1/users/{user}", responses=_told(answers.Forgotten, 404), tags=["users"])
async def forget(request: Request, user: User) -> Response:
    """Forget a user wholly: what was learned, and every impression."""
    return json_response(await _may(request, "admin").batcher.one(Forget(user)))


@router.get("/v1/users/{user}/impressions", responses=_told(HistoryPage, 404), tags=["users"])
async def history(
    request: Request,
    user: User,
    before: Annotated[Id | None, Query(description="Only impressions before this one.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """A user's impressions, the latest first."""
    service = _may(request, "read")
    page = await service.batcher.one(History(user, AFTER_ALL if before is None else id_bytes(before, "before"), limit))
    return json_response(HistoryPage(page, page[-1].impression if len(page) == limit else None))


@router.get("/v1/users/{user}/export", responses=_told(Export, 404), tags=["users"])
async def export(request: Request, user: User) -> Response:
    """All that is kept of a user: statistics, and every impression with what was shown and clicked."""
    service = _may(request, "admin")
    learned = await service.batcher.one(ExportUser(user))
    page = await service.batcher.one(History(user, AFTER_ALL, PAGE))
    if not learned and not page:
        raise Unknown(f"user {user!r} is not known")

    async def parts() -> AsyncIterator[bytes]:
        """A page at a time: a user may have more than fits into memory."""
        now = page
        head = msgspec.json.encode({"user": user, "exported_at": time(), "learners": learned})
        yield head[:-1] + b',"impressions":['
        comma = b""
        while now:
            yield comma + msgspec.json.encode(now)[1:-1]
            comma = b","
            now = await service.batcher.one(History(user, id_bytes(now[-1].impression), PAGE))
        yield b"]}"

    return StreamingResponse(parts(), media_type="application/json")


@router.get("/v1/items", responses=_told(answers.Items), tags=["items"])
async def items(
    request: Request,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    contains: Annotated[str, Query(max_length=256, description="Only items with this in their name.")] = "",
) -> Response:
    """Items of the catalog and their weights."""
    service, asked = _may(request, "read"), LookItems(offset, limit, contains)
    if not contains:
        return json_response(await service.batcher.one(asked))
    await service.batcher.perform(())  # see what others have put; then look through all names beside other requests
    return json_response(await asyncio.to_thread(find_items, service.recommender, asked))


@router.get("/v1/items/{item:path}", responses=_told(answers.Item, 404), tags=["items"])
async def item(request: Request, item: Item) -> Response:
    """An item and its weights."""
    return json_response(await _may(request, "read").batcher.one(LookItem(item)))


@router.put("/v1/items/{item:path}", responses=_told(answers.Item), tags=["items"])
async def put_item(request: Request, item: Item, body: ItemBody) -> Response:
    """Add an item, or change its weights: every process shows it from its next list on, and nothing is learned anew."""
    weights: dict[Any, float] = dict(body.weights)
    return json_response(await _may(request, "admin").batcher.one(PutItem(item, weights)))


@router.delete("/v1/items/{item:path}", responses=_told(answers.Item, 404), tags=["items"])
async def remove_item(request: Request, item: Item) -> Response:
    """Show an item no more. What was learned from it stays."""
    return json_response(await _may(request, "admin").batcher.one(RemoveItem(item)))


@router.get("/v1/topics", responses=_told(Topics), tags=["items"])
async def topics(request: Request) -> Response:
    """The topics of the catalog."""
    return json_response(Topics(list(map(str, _may(request, "read").recommender.catalog.topics))))


@router.get("/v1/stats", responses=_told(answers.Statistics), tags=["service"])
async def stats(request: Request, hours: Annotated[int, Query(ge=1, le=24 * 366)] = 24) -> Response:
    """How the learners do: impressions, click rate with intervals, diversity, exploration, calibration."""
    return json_response(await _may(request, "read").batcher.one(Stats(hours)))


@router.post("/v1/simulations", responses=_told(Simulated), tags=["service"])
async def simulations(request: Request, body: SimulationBody) -> Response:
    """A simulated person, who clicks by the paper's model, against several policies; nothing of it is kept."""
    service = _may(request, "write")
    home = service.recommender
    K = body.K or next(iter(home.learners.values())).policy.K
    return json_response(await service.simulations.run(home.catalog, body, K, service.settings.limits))


@router.get("/v1/about", responses=_told(About), tags=["service"])
async def about(request: Request) -> Response:
    """What the service is and the caller may do: topics, learners, policies to simulate, limits. Asks no store.

    Open to all; but without a key, where there are keys, it says only so.
    """
    service: Service = request.app.state.service
    return json_response(describe(service.settings, service.recommender, request.scope["state"]["role"]))


@router.get("/v1/health", responses=_told(Health), tags=["service"])
async def health(request: Request) -> Response:
    """How the service is: its store tried now, who waits for it, the slowest requests. 200 also where the store fails.

    Of the process that answers, where there are several workers: see its id in process.
    """
    return json_response(await examine(_may(request, "admin"), request.state.request_id))


@router.get("/metrics", tags=["service"], responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """For Prometheus."""
    return Response(_may(request, "read").metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/healthz", responses={200: {"model": Status}}, tags=["service"])
async def healthz() -> Response:
    """Whether the process answers."""
    return json_response(Status("ok"))


@router.get("/readyz", responses={200: {"model": Status}, 503: {"model": Error}}, tags=["service"])
async def readyz(request: Request) -> Response:
    """Whether the store can be used."""
    service: Service = request.app.state.service
    await try_store(service.batcher)
    return json_response(Status("ok"))
