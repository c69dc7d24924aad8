"""JSON responses, and the conversion of errors to responses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from reprlib import repr as short
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
#: Errors whose reason is reported to the caller. Any other exception is a bug, and the caller gets a plain 500.
EXPECTED_ERRORS = (Refused, Unknown, Conflict, StoreError, Busy, HTTPException, RequestValidationError, ValidationError)
RETRY_SOON = {"Retry-After": "1"}


class Problem(NamedTuple):
    """An error as the caller sees it."""

    status: int
    sentence: str
    field: str | None = None
    headers: dict[str, str] | None = None

    def body(self, request_id: str) -> bytes:
        """Return the error as JSON."""
        return encode({"error": self.sentence, "field": self.field, "request_id": request_id})


def problem_of(error: Exception) -> Problem:
    """Return the status and sentence for an error. Of a bug, the sentence discloses nothing."""
    if isinstance(error, Refused):
        return Problem(422, str(error), error.field)
    if isinstance(error, Unknown):
        return Problem(404, str(error.args[0]))
    if isinstance(error, Conflict):
        return Problem(409, str(error), error.field)
    if isinstance(error, StoreError):
        return Problem(503, "the store cannot be used at the moment. Try again later", headers=RETRY_SOON)
    if isinstance(error, Busy):
        return Problem(503, f"{error}, so nothing was done. Try again later", headers=RETRY_SOON)
    if isinstance(error, RequestValidationError):
        return _from_pydantic(error.errors(), skip=1)
    if isinstance(error, ValidationError):
        return _from_pydantic(error.errors(), skip=0)
    if isinstance(error, HTTPException):
        return _from_framework(error)
    return Problem(500, "something went wrong in the service")


def _from_framework(error: HTTPException) -> Problem:
    """Replace the framework's sentence by one that names the field and the rule."""
    sentence, field = str(error.detail), None
    if error.status_code == 400:
        sentence, field = "body must be JSON in UTF-8, without very deep nesting or very long numbers", "body"
    elif error.status_code == 405:
        sentence, field = "method must be one that /docs lists for this path", "method"
    elif error.status_code == 413:
        field = "body"
    elif sentence == "Not Found":
        sentence, field = "path must be one that /docs lists", "path"
    return Problem(error.status_code, sentence, field, dict(error.headers or {}))


def _from_pydantic(errors: Sequence[Any], *, skip: int) -> Problem:
    """Report the first error. skip: how many leading parts of its location to leave out, such as "body"."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return Problem(400, f"body must be JSON: {first.get('ctx', {}).get('error', 'it cannot be parsed')}", "body")
    # ONE and SEVERAL are tags of a union, not fields of the request.
    location = [part for part in first["loc"][skip:] if part not in (ONE, SEVERAL)]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    field = path.lstrip(".")[:200] or "body"
    return Problem(422, _rule_and_value(field, first), field)


def _rule_and_value(field: str, error: Any) -> str:
    """Return a sentence with the field, the rule and the value, from pydantic's description of an error."""
    if error["type"] == "missing":
        return f"{field} is required"
    if error["type"] == "extra_forbidden":
        return f"{field} is not a field of this request"
    if error["type"] == "model_type":
        return f"{field} must be a JSON object, got {short(error['input'])}"
    rule = re.sub(r"^\w+ should ", "must ", error["msg"].removeprefix("Value error, "))
    rule, counted = re.subn(r" after validation, not (\d+)$", r", got \1", rule)
    return f"{field} {rule}" if counted else f"{field} {rule}, got {short(error['input'])}"


def json_response(value: Any) -> Response:
    """Return a response with status 200 and a dataclass or dictionary as JSON."""
    return Response(encode(value), media_type="application/json")


def error_response(error: Exception, request_id: str) -> Response:
    """Return the response to an error, for the framework."""
    problem = problem_of(error)
    return Response(problem.body(request_id), problem.status, problem.headers, media_type="application/json")


async def send_problem(scope: Scope, send: Send, problem: Problem) -> None:
    """Send the response to an error, from a middleware."""
    await send_json(send, problem.status, problem.body(scope["state"]["request_id"]), problem.headers)
