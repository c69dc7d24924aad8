"""An id for every request, in its response, in errors and in the log."""

from __future__ import annotations

import re
from itertools import count

from thali.service.http.asgi import App, Message, Receive, Scope, Send

WELL_FORMED = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestIds:
    """Takes the caller's X-Request-ID if it is well formed, otherwise makes one: the process's id and a number."""

    def __init__(self, app: App, process: str) -> None:
        self.app = app
        self._process, self._number = process.encode(), count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        state = scope["state"]
        request_id: bytes = state["headers"].get(b"x-request-id", b"")
        if not WELL_FORMED.fullmatch(request_id):
            request_id = b"%s-%d" % (self._process, next(self._number))
        state["request_id"] = request_id.decode()

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = (*message.get("headers", ()), (b"x-request-id", request_id))
            await send(message)

        await self.app(scope, receive, send_with_id)
