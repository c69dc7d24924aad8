"""Answers as JSON, and errors as answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from thali.service.http.batcher import Busy
from thali.service.http.bodies import ONE, SEVERAL
from thali.service.recommender import Conflict, Refused, Unknown
from thali.service.stores import StoreError

encode = msgspec.json.Encoder().encode
#: What can be said of an error to the one who asked; all else is a mistake of ours.
SAID = (Refused, Unknown, Conflict, StoreError, Busy, HTTPException, RequestValidationError, ValidationError)
LATER = {"Retry-After": "1"}


class Problem(NamedTuple):
    """An error as an answer."""

    status: int
    sentence: str
    field: str | None = None
    headers: dict[str, str] | None = None


def problem(error: Exception) -> Problem:
    """What is said of an error: a sentence that names the field, the rule and what came; of a mistake of ours, none."""
    if isinstance(error, Refused):
        return Problem(422, str(error), error.field)
    if isinstance(error, Unknown):
        return Problem(404, str(error.args[0]))
    if isinstance(error, Conflict):
        return Problem(409, str(error), "clicked")
    if isinstance(error, StoreError):
        return Problem(503, "the store cannot be used now; nothing was done", headers=LATER)
    if isinstance(error, Busy):
        return Problem(503, "too many requests are waiting; nothing was done", headers=LATER)
    if isinstance(error, RequestValidationError):
        return _invalid(error.errors(), within=1)
    if isinstance(error, ValidationError):
        return _invalid(error.errors(), within=0)
    if isinstance(error, HTTPException):
        return _refused(error)
    return Problem(500, "something went wrong in the service")


def _refused(error: HTTPException) -> Problem:
    """What the framework refuses, in our words."""
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


def _invalid(errors: Sequence[Any], within: int) -> Problem:
    """What pydantic refuses; within: how many parts of the place say only where the body is."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return Problem(400, f"body must be JSON: {first.get('ctx', {}).get('error', 'it is not')}", "body")
    # One or several are kinds of a value, not parts of it.
    place = [part for part in first["loc"][within:] if part not in (ONE, SEVERAL)]
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")[:200] or "body"
    return Problem(422, f"{field} is refused: {first['msg']}", field)


def problem_body(told: Problem, request_id: str) -> bytes:
    """An error as JSON."""
    return encode({"error": told.sentence, "field": told.field, "request_id": request_id})


def answer(value: Any) -> Response:
    """A value of ours (a data class, a dictionary) with status 200."""
    return Response(encode(value), media_type="application/json")


def fail(request: Request, error: Exception) -> Response:
    """An error with its status."""
    told = problem(error)
    body = problem_body(told, request.state.request_id)
    return Response(body, told.status, told.headers, media_type="application/json")
