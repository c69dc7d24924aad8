"""The access log: records every request in the metrics, among the slowest requests, and as a line of the log."""

from __future__ import annotations

from time import perf_counter

from thali.service.http.asgi import App, Receive, Scope, Send
from thali.service.http.log import Log
from thali.service.http.metrics import Metrics
from thali.service.http.slowest import Slowest

# The longest part of a path that is logged. It is enough for the longest valid name and its route.
LOGGED_PATH = 512


class AccessLog:
    """Times and records each request. Status 0 means that the caller disconnected before there was a response."""

    def __init__(self, app: App, metrics: Metrics, slowest: Slowest, log: Log | None) -> None:
        """log: where to log requests, or None to log none."""
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
        # The router stores the matching route in the scope. A request that was rejected earlier has none.
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
