"""Adds the headers that every response has."""

from __future__ import annotations

from thali.service.http.asgi import App, Message, Receive, Scope, Send

#: Headers that tell browsers not to guess content types, not to store responses, and not to send the referrer.
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
)


class ResponseHeaders:
    """Adds the request's id and the security headers to each response, and stores its status in the scope.

    The access log and the error middleware read the status from there, because a second wrapper around ``send`` would
    take more time.
    """

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        state = scope["state"]
        state["status"] = 0

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                state["status"] = message["status"]
                request_id = (b"x-request-id", state["request_id"].encode())
                message["headers"] = [*message.get("headers", ()), request_id, *SECURITY_HEADERS]
            await send(message)

        await self.app(scope, receive, send_with_headers)
