"""A record of every request: metrics, the slowest requests, and a line of the log."""

from __future__ import annotations

from time import perf_counter

from thali.service.http.asgi import App, Receive, Scope, Send
from thali.service.http.log import Log
from thali.service.http.metrics import Metrics
from thali.service.http.slowest import Slowest

# Characters of a path that are logged: enough for the longest valid name and the route around it.
LOGGED_PATH = 512


class AccessLog:
    """Times each request and records it; status 0 means that the caller left before there was a response."""

    def __init__(self, app: App, metrics: Metrics, slowest: Slowest, log: Log | None) -> None:
        """log: where requests are logged; None to leave them out."""
        self.app = app
        self._metrics, self._slowest, self._log = metrics, slowest, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        begin = perf_counter()
        try:
            await self.app(scope, receive, send)
        finally:
            self._record(scope, perf_counter() - begin)

    def _record(self, scope: Scope, seconds: float) -> None:
        # The router notes the route that matched in the scope; a request that was rejected before has none.
        route = getattr(scope.get("route"), "path", "none")
        request_id, status = scope["state"]["request_id"], scope["state"]["status"]
        self._metrics.requests.labels(route, str(status)).observe(seconds)
        self._slowest.add(seconds, request_id, scope["method"], route, status)
        if self._log is not None:
            self._log(
                "request",
                request_id=request_id,
                method=scope["method"],
                path=scope["path"][:LOGGED_PATH],
                status=status,
                ms=round(1000 * seconds, 2),
            )
