"""What all routes need: checks of the caller's role, and the responses that the OpenAPI document lists."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Request
from starlette.exceptions import HTTPException

from thali.service.http.settings import ROLES
from thali.service.http.state import Service
from thali_client.types import Error

UserName = Annotated[str, Path(min_length=1, max_length=256, description="The user's name, percent-encoded.")]
ItemName = Annotated[str, Path(min_length=1, max_length=256, description="The item's name, percent-encoded.")]
HistoryName = Annotated[str, Path(min_length=1, max_length=256, description="The name of the history.")]
ImpressionId = Annotated[str, Path(min_length=36, max_length=36, description="The id of the impression.")]


def service_of(request: Request) -> Service:
    """Return the running service, whatever the caller's role."""
    service: Service = request.app.state.service
    return service


def authorize(request: Request, role: str) -> Service:
    """Return the running service if the caller has this role or a higher one. Otherwise, raise status 403."""
    require_role(request.scope["state"]["role"], role)
    return service_of(request)


def require_role(role: str | None, required: str) -> None:
    """Raise status 403 unless the caller has the required role or a higher one."""
    if role is None or ROLES.index(role) < ROLES.index(required):
        raise HTTPException(403, f"this request needs a key with role {required} or higher, got a key with role {role}")


def documented(model: Any, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the responses for the OpenAPI document: the model for 200, and errors for these and the usual statuses."""
    responses: dict[int | str, dict[str, Any]] = {200: {"model": model}}
    return responses | {status: {"model": Error} for status in (400, 401, 403, *statuses, 413, 415, 422, 503)}
