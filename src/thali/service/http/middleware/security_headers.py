"""Headers that keep browsers and caches from misusing a response."""

from __future__ import annotations

from thali.service.http.asgi import App, Message, Receive, Scope, Send

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
)


class SecurityHeaders:
    """Adds the same headers to every response."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = (*message.get("headers", ()), *HEADERS)
            await send(message)

        await self.app(scope, receive, send_with_headers)
