"""Routes for users: what is known about them, their history, an export of all their data, and forgetting them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import time
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from thali.service.http.bodies import Id
from thali.service.http.responses import encode, json_response
from thali.service.http.routes.common import HistoryName, UserName, authorize, documented
from thali.service.recommender import Unknown
from thali.service.recommender.operations import (
    AFTER_ALL,
    ForgetUser,
    GetHistory,
    GetStatistics,
    GetUser,
    RemoveHistory,
    id_bytes,
)
from thali_client.types import Export, Forgotten, HistoryPage, HistoryRemoved, User

router = APIRouter(tags=["users"])
# How many impressions of an export are read at a time.
EXPORT_PAGE = 500


@router.get("/v1/users/{user}", summary="Get a user", responses=documented(User, 404))
async def user(request: Request, user: UserName) -> Response:
    """Get what is known about a user: the learned taste with intervals, and counts of lists and clicks."""
    return json_response(await authorize(request, "read").batcher.one(GetUser(user)))


@router.delete("/v1/users/{user}", summary="Forget a user", responses=documented(Forgotten, 404))
async def forget(request: Request, user: UserName) -> Response:
    """Forget a user. This permanently removes what was learned and every impression."""
    return json_response(await authorize(request, "admin").batcher.one(ForgetUser(user)))


@router.delete(
    "/v1/users/{user}/histories/{history}", summary="Remove a history", responses=documented(HistoryRemoved, 404)
)
async def remove_history(request: Request, user: UserName, history: HistoryName) -> Response:
    """Remove what was learned about a user from a history (thali learn-from), as if it had never been added."""
    removed = await authorize(request, "admin").batcher.one(RemoveHistory(user, history))
    return json_response(HistoryRemoved(user, history, removed))


@router.get("/v1/users/{user}/impressions", summary="List a user's impressions", responses=documented(HistoryPage, 404))
async def history(
    request: Request,
    user: UserName,
    before: Annotated[Id | None, Query(description="Return only impressions before this one.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="The largest number of impressions to return.")] = 100,
) -> Response:
    """List a user's impressions, latest first."""
    service = authorize(request, "read")
    page = await service.batcher.one(
        GetHistory(user, AFTER_ALL if before is None else id_bytes(before, "before"), limit)
    )
    return json_response(HistoryPage(page, page[-1].impression if len(page) == limit else None))


@router.get("/v1/users/{user}/export", summary="Export a user's data", responses=documented(Export, 404))
async def export(request: Request, user: UserName) -> Response:
    """Export all data about a user: statistics, and every impression with what was shown and clicked."""
    service = authorize(request, "admin")
    learned = await service.batcher.one(GetStatistics(user))
    first = await service.batcher.one(GetHistory(user, AFTER_ALL, EXPORT_PAGE))
    if not learned and not first:
        raise Unknown(f"user {user!r} is not known")

    async def parts() -> AsyncIterator[bytes]:
        """Yield the export page by page, because the impressions of a user may not fit into memory."""
        page, comma = first, b""
        yield encode({"user": user, "exported_at": time(), "learners": learned})[:-1] + b',"impressions":['
        while page:
            yield comma + encode(page)[1:-1]
            comma = b","
            page = await service.batcher.one(GetHistory(user, id_bytes(page[-1].impression), EXPORT_PAGE))
        yield b"]}"

    return StreamingResponse(parts(), media_type="application/json")
