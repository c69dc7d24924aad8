"""Routes for lists: recommend one, report clicks, get a list that was shown, and undo feedback."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import TypeAdapter

from thali.service.http.bodies import FeedbackBodies, FeedbackBody, RecommendBody
from thali.service.http.middleware.fast import FastRoute
from thali.service.http.responses import encode, json_response
from thali.service.http.routes.common import ImpressionId, authorize, documented, require_role
from thali.service.http.state import Service
from thali.service.recommender import Conflict, Refused, Unknown
from thali.service.recommender.operations import Feedback, GetImpression, Recommend, Undo, id_bytes
from thali_client.types import Answer, Impression, Result, Results, Shown

router = APIRouter(tags=["lists"])


@router.post("/v1/recommend", summary="Recommend a list", responses=documented(Shown))
async def recommend(request: Request, body: RecommendBody) -> Response:
    """Recommend a list to a user.

    The list is stored as an impression before it is returned. Use the id of the impression to send feedback.
    """
    return json_response(await _recommend(authorize(request, "write"), body))


@router.post("/v1/feedback", summary="Report clicks", responses=documented(Answer | Results, 404, 409))
async def feedback(request: Request, body: FeedbackBodies) -> Response:
    """Report what was clicked on a list, or on several lists.

    Feedback is learned exactly once, and is durable when the response is sent. Sending the same feedback again returns
    the same response and changes nothing. The status is 409 if different feedback is already recorded, and 404 if the
    impression is unknown or expired or its user was forgotten. The status of a batch is always 200, and the response
    contains a status for each list.
    """
    return json_response(await _feedback(authorize(request, "write"), body))


def fast_routes(service: Service) -> dict[tuple[str, str], FastRoute]:
    """Return the two routes above for the fast path, by method and path. They run the same checks and functions."""
    return {
        ("POST", "/v1/recommend"): _fast_route("/v1/recommend", service, RecommendBody, _recommend),
        ("POST", "/v1/feedback"): _fast_route("/v1/feedback", service, FeedbackBodies, _feedback),
    }


def _fast_route(path: str, service: Service, body: Any, act: Callable[[Service, Any], Awaitable[Any]]) -> FastRoute:
    parse = TypeAdapter(body).validate_json

    async def respond(role: str | None, content: bytes) -> bytes:
        require_role(role, "write")
        return encode(await act(service, parse(content)))

    return FastRoute(path, respond)


async def _recommend(service: Service, body: RecommendBody) -> Shown:
    operation = Recommend(
        body.user, body.K, body.candidates, body.exclude, body.learner, body.alpha, body.hide, body.explain
    )
    shown: Shown = await service.batcher.one(operation)
    return shown


async def _feedback(service: Service, body: FeedbackBody | list[FeedbackBody]) -> Answer | Results:
    if isinstance(body, FeedbackBody):
        answer: Answer = await service.batcher.one(Feedback(id_bytes(body.impression), body.clicked))
        return answer
    operations = [_operation_or_refusal(one) for one in body]
    valid = [operation for operation in operations if isinstance(operation, Feedback)]
    outcomes = iter(await service.batcher.perform(valid))
    return Results(
        [
            _result(one.impression, next(outcomes) if isinstance(operation, Feedback) else operation)
            for one, operation in zip(body, operations, strict=True)
        ]
    )


def _operation_or_refusal(body: FeedbackBody) -> Feedback | Refused:
    try:
        return Feedback(id_bytes(body.impression), body.clicked)
    except Refused as refusal:
        return refusal


def _result(impression: str, outcome: Any) -> Result:
    if isinstance(outcome, Answer):
        return Result(impression, 200, outcome.clicked, outcome.answer)
    for kind, status in ((Unknown, 404), (Conflict, 409), (Refused, 422)):
        if isinstance(outcome, kind):
            return Result(impression, status, error=str(outcome.args[0]))
    raise outcome


@router.get("/v1/impressions/{impression}", summary="Get an impression", responses=documented(Impression, 404))
async def impression(request: Request, impression: ImpressionId) -> Response:
    """Get a list as it was shown, with its feedback."""
    return json_response(await authorize(request, "read").batcher.one(GetImpression(id_bytes(impression))))


@router.delete("/v1/impressions/{impression}/feedback", summary="Undo feedback", responses=documented(Answer, 404))
async def undo(request: Request, impression: ImpressionId) -> Response:
    """Undo feedback, so that the statistics are as if it had never been given. If there is none, nothing changes."""
    return json_response(await authorize(request, "write").batcher.one(Undo(id_bytes(impression))))
