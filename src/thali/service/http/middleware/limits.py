"""Limits on what a request may look like: its path, the size of its headers, the size and the type of its body."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from fastapi import HTTPException

from thali.service.http.asgi import App, Message, Receive, Scope, Send
from thali.service.http.responses import Problem, send_problem

#: Bytes of all names and values together.
MAX_HEADERS = 32_768
# No name has any of these. Routing would drop a line feed at the end, so that "ana\n" would be "ana".
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class BodyTooLarge(HTTPException):
    """A body over the limit; an HTTPException, since FastAPI takes other errors while reading for malformed JSON."""


class RequestLimits:
    """Refuses requests that break a limit, before their body is read; a body of unknown length while it is read."""

    def __init__(self, app: App, max_body: int) -> None:
        self.app, self._max_body = app, max_body
        self._body_rule = f"body must be at most {max_body} bytes"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        problem = self._problem(scope)
        if problem is not None:
            await send_problem(scope, send, problem)
            return
        left = self._max_body

        async def receive_up_to_limit() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise BodyTooLarge(413, self._body_rule)
            return message

        await self.app(scope, receive_up_to_limit, send)

    def _problem(self, scope: Scope) -> Problem | None:
        """The first limit that is broken."""
        path: str = scope["path"]
        if CONTROL.search(path) or ("\ufffd" in path and not _is_utf8(scope["raw_path"])):
            return Problem(422, "path must be UTF-8 without control characters, percent-encoded", "path")
        size = 0
        for name, value in scope["headers"]:
            size += len(name) + len(value)
        if size > MAX_HEADERS:
            return Problem(431, f"headers must be at most {MAX_HEADERS} bytes", "headers")
        headers: dict[bytes, bytes] = scope["state"]["headers"]
        length = headers.get(b"content-length")
        if length is not None and (not length.isdigit() or int(length) > self._max_body):
            return Problem(413, self._body_rule, "body")
        if length not in (None, b"0") or b"transfer-encoding" in headers:
            # Browsers let pages of other sites send some types without a preflight request, but not this one.
            media_type = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            if media_type != b"application/json":
                sentence = f"Content-Type must be application/json, got {media_type.decode('latin-1')!r:.80}"
                return Problem(415, sentence, "Content-Type")
        return None


def _is_utf8(path: bytes) -> bool:
    try:
        unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return False
    return True
