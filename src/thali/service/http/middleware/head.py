"""HEAD requests: every path that has GET also has HEAD, which responds with the same headers and no body."""

from __future__ import annotations

from thali.service.http.asgi import App, Message, Receive, Scope, Send


class HeadRequests:
    """Passes a HEAD request on as GET, and leaves out the body of the response."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        # The server reads its own scope to find out whether a body must follow.
        inner = {**scope, "method": "GET"}
        try:
            await self.app(inner, receive, send_without_body)
        finally:
            if "route" in inner:
                scope["route"] = inner["route"]  # for the access log
