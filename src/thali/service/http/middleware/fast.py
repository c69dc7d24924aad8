"""A fast path for the most frequent requests. It bypasses the framework, which would take most of their time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from thali.service.http.asgi import App, Receive, Scope, Send, send_json


class FastRoute(NamedTuple):
    """A route that does not use the framework."""

    path: str
    respond: Callable[[str | None, bytes], Awaitable[bytes]]
    """A function that takes the caller's role and the body, and returns the JSON of a response with status 200."""


class FastPath:
    """Responds to requests that have a fast route, and passes all others on."""

    def __init__(self, app: App, routes: Mapping[tuple[str, str], FastRoute]) -> None:
        """routes: fast routes by method and path. They may be added later, when the service starts."""
        self.app, self._routes = app, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        route = self._routes.get((scope["method"], scope["path"]))
        if route is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = route  # for the access log; the framework does the same
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message.get("body", b""), message.get("more_body", False)
        await send_json(send, 200, await route.respond(scope["state"]["role"], body))
