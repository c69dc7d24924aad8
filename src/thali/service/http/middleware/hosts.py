"""The host names under which callers may reach the service."""

from __future__ import annotations

from collections.abc import Iterable

from thali.service.http.asgi import App, Receive, Scope, Send
from thali.service.http.responses import Problem, send_problem


class AllowedHosts:
    """Rejects requests whose Host header has any other name.

    This prevents DNS rebinding. Otherwise, another website could make its own name resolve to this machine, and call
    the service from a visitor's browser.
    """

    def __init__(self, app: App, hosts: Iterable[str]) -> None:
        self.app = app
        self._hosts = {host.lower().encode() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if _name(scope["state"]["headers"].get(b"host", b"")) in self._hosts:
            await self.app(scope, receive, send)
        else:
            problem = Problem(421, "Host must be one of the host names that this service was started with", "Host")
            await send_problem(scope, send, problem)


def _name(host: bytes) -> bytes:
    """Return the name in a Host header, without the port.

    >>> [_name(host) for host in (b"Localhost:8000", b"127.0.0.1", b"[::1]:8000")]
    [b'localhost', b'127.0.0.1', b'::1']
    """
    name = host.lower().strip()
    if name.startswith(b"["):
        return name[1:].partition(b"]")[0]
    return name.rpartition(b":")[0] if b":" in name else name
