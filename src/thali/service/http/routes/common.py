"""What all routes need: the caller's role, and the responses that the OpenAPI document lists."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Request
from starlette.exceptions import HTTPException

from thali.service.http.settings import ROLES
from thali.service.http.state import Service
from thali_client.types import Error

UserName = Annotated[str, Path(min_length=1, max_length=256, description="A user's name, percent-encoded.")]
ItemName = Annotated[str, Path(min_length=1, max_length=256, description="An item's name, percent-encoded.")]
ImpressionId = Annotated[str, Path(min_length=36, max_length=36, description="An impression's id.")]


def service_of(request: Request) -> Service:
    """The running service, for any caller."""
    service: Service = request.app.state.service
    return service


def authorize(request: Request, role: str) -> Service:
    """The running service, for callers with this role or a higher one; raises 403 for others."""
    require_role(request.scope["state"]["role"], role)
    return service_of(request)


def require_role(role: str | None, needed: str) -> None:
    """Raise 403 unless the caller's role is the one needed or a higher one."""
    if role is None or ROLES.index(role) < ROLES.index(needed):
        raise HTTPException(403, f"this needs a key of the role {needed}, got one of {role}")


def documented(model: Any, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """The responses in the OpenAPI document: the model for 200, and errors with these statuses or the usual ones."""
    responses: dict[int | str, dict[str, Any]] = {200: {"model": model}}
    return responses | {status: {"model": Error} for status in (400, 401, 403, *statuses, 413, 415, 422, 503)}
