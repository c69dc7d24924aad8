"""Types of the ASGI interface, and a function that sends a JSON response without a framework."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def send_json(send: Send, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    """Send a complete response. body: the encoded JSON."""
    fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if headers:
        fields += [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
