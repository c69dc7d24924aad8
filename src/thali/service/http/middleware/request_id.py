"""Gives every request an id, which its response, its errors and its line in the log contain."""

from __future__ import annotations

import re
from itertools import count

from thali.service.http.asgi import App, Receive, Scope, Send

WELL_FORMED = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestIds:
    """Uses the caller's X-Request-ID if it is well formed. Otherwise combines the process's id with a number."""

    def __init__(self, app: App, process: str) -> None:
        self.app = app
        self._process, self._number = process, count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        state = scope["state"]
        given: bytes | None = state["headers"].get(b"x-request-id")
        if given is not None and WELL_FORMED.fullmatch(given):
            state["request_id"] = given.decode()
        else:
            state["request_id"] = f"{self._process}-{next(self._number)}"
        await self.app(scope, receive, send)
