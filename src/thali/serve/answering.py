"""Answers as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import Request
from fastapi.responses import Response

_encode = msgspec.json.Encoder().encode


def answer(value: Any) -> Response:
    """A value of ours (a data class, a dictionary) with status 200."""
    return Response(_encode(value), media_type="application/json")


def fail(
    request: Request, status: int, sentence: str, field: str | None, headers: dict[str, str] | None = None
) -> Response:
    """An error: a sentence that names the field, the rule and what came."""
    told = {"error": sentence, "field": field, "request_id": request.state.request_id}
    return Response(_encode(told), status, headers, media_type="application/json")
