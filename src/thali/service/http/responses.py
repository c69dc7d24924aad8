"""JSON responses, and how each kind of error is reported to the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from thali.service.http.asgi import Scope, Send, send_json
from thali.service.http.batcher import Busy
from thali.service.http.bodies import ONE, SEVERAL
from thali.service.recommender import Conflict, Refused, Unknown
from thali.service.stores import StoreError

encode = msgspec.json.Encoder().encode
#: Errors whose reason is reported to the caller. Any other exception is a bug: the caller sees a plain 500.
EXPECTED_ERRORS = (Refused, Unknown, Conflict, StoreError, Busy, HTTPException, RequestValidationError, ValidationError)
RETRY_SOON = {"Retry-After": "1"}


class Problem(NamedTuple):
    """An error as the caller sees it."""

    status: int
    sentence: str
    field: str | None = None
    headers: dict[str, str] | None = None

    def body(self, request_id: str) -> bytes:
        """The JSON body."""
        return encode({"error": self.sentence, "field": self.field, "request_id": request_id})


def problem_of(error: Exception) -> Problem:
    """The status, and a sentence with the field, the rule and the value received. Nothing is disclosed of a bug."""
    if isinstance(error, Refused):
        return Problem(422, str(error), error.field)
    if isinstance(error, Unknown):
        return Problem(404, str(error.args[0]))
    if isinstance(error, Conflict):
        return Problem(409, str(error), "clicked")
    if isinstance(error, StoreError):
        return Problem(503, "the store cannot be used now; nothing was done", headers=RETRY_SOON)
    if isinstance(error, Busy):
        return Problem(503, "too many requests are waiting; nothing was done", headers=RETRY_SOON)
    if isinstance(error, RequestValidationError):
        return _from_pydantic(error.errors(), skip=1)
    if isinstance(error, ValidationError):
        return _from_pydantic(error.errors(), skip=0)
    if isinstance(error, HTTPException):
        return _from_framework(error)
    return Problem(500, "something went wrong in the service")


def _from_framework(error: HTTPException) -> Problem:
    """Replace the framework's wording by one that names the field and the rule."""
    sentence, field = str(error.detail), None
    if error.status_code == 400:
        sentence, field = "body must be JSON in UTF-8, not nested very deeply, its numbers not very long", "body"
    elif error.status_code == 405:
        sentence, field = "method must be one that /docs lists for this path", "method"
    elif error.status_code == 413:
        field = "body"
    elif sentence == "Not Found":
        sentence, field = "path must be one that /docs lists", "path"
    return Problem(error.status_code, sentence, field, dict(error.headers or {}))


def _from_pydantic(errors: Sequence[Any], *, skip: int) -> Problem:
    """Report the first error; skip: how many parts of its location only say that it is in the body."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return Problem(400, f"body must be JSON: {first.get('ctx', {}).get('error', 'it is not')}", "body")
    # ONE and SEVERAL are tags of a union, not parts of what was sent.
    location = [part for part in first["loc"][skip:] if part not in (ONE, SEVERAL)]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    field = path.lstrip(".")[:200] or "body"
    return Problem(422, f"{field} is refused: {first['msg']}", field)


def json_response(value: Any) -> Response:
    """Status 200 with a dataclass or a dictionary as JSON."""
    return Response(encode(value), media_type="application/json")


def error_response(error: Exception, request_id: str) -> Response:
    """An error as a response of the framework."""
    problem = problem_of(error)
    return Response(problem.body(request_id), problem.status, problem.headers, media_type="application/json")


async def send_problem(scope: Scope, send: Send, problem: Problem) -> None:
    """Send an error from a middleware."""
    await send_json(send, problem.status, problem.body(scope["state"]["request_id"]), problem.headers)
