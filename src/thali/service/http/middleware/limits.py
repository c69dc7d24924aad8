"""Limits on requests: on the characters of the path, the size of the headers, and the size and type of the body."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from fastapi import HTTPException

from thali.service.http.asgi import App, Message, Receive, Scope, Send
from thali.service.http.responses import Problem, send_problem

#: The largest total size of all header names and values, in bytes.
MAX_HEADERS = 32_768
#: Requests whose body may be so many times larger, by method and path.
BULK, BULK_TIMES = {("PUT", "/v1/items")}, 8
# Names cannot contain these characters. Routing would drop a line feed at the end, and take "ana\n" for "ana".
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class BodyTooLarge(HTTPException):
    """The body is over the limit. This is an HTTPException because FastAPI would report others as malformed JSON."""


class RequestLimits:
    """Rejects requests that break a limit before their body is read, or while it is read if its length is unknown."""

    def __init__(self, app: App, max_body: int) -> None:
        self.app, self._max_body = app, max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        max_body = self._max_body * (BULK_TIMES if (scope["method"], scope["path"]) in BULK else 1)
        problem = self._problem(scope, max_body)
        if problem is not None:
            await send_problem(scope, send, problem)
            return
        remaining = max_body

        async def receive_up_to_limit() -> Message:
            nonlocal remaining
            message = await receive()
            remaining -= len(message.get("body", b""))
            if remaining < 0:
                raise BodyTooLarge(413, _body_rule(max_body))
            return message

        await self.app(scope, receive_up_to_limit, send)

    def _problem(self, scope: Scope, max_body: int) -> Problem | None:
        """Return the first limit that the request breaks, if any."""
        path: str = scope["path"]
        if CONTROL.search(path) or ("\ufffd" in path and not _is_utf8(scope["raw_path"])):
            return Problem(422, "path must be percent-encoded UTF-8 without control characters", "path")
        size = 0
        for name, value in scope["headers"]:
            size += len(name) + len(value)
        if size > MAX_HEADERS:
            return Problem(431, f"headers must have at most {MAX_HEADERS} bytes in total, got {size}", "headers")
        headers: dict[bytes, bytes] = scope["state"]["headers"]
        length = headers.get(b"content-length")
        if length is not None and (not length.isdigit() or int(length) > max_body):
            return Problem(413, _body_rule(max_body), "body")
        if length not in (None, b"0") or b"transfer-encoding" in headers:
            # Browsers let other websites send some content types without a preflight request, but not this one.
            media_type = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            if media_type != b"application/json":
                sentence = f"Content-Type must be application/json, got {media_type.decode('latin-1')!r:.80}"
                return Problem(415, sentence, "Content-Type")
        return None


def _body_rule(max_body: int) -> str:
    return f"body must have at most {max_body} bytes"


def _is_utf8(path: bytes) -> bool:
    try:
        unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return False
    return True
