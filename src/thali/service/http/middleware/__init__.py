"""The middleware that every request passes before it reaches a route. Each is a plain ASGI application in its own file.

A request passes them in this order, and its response passes them in the reverse order:

1. ``RequestIds`` is first, because responses, errors and the log all contain the id of the request.
2. ``ResponseHeaders`` is outside everything that responds, so that every response has the headers, including errors.
3. ``AccessLog`` is outside ``Errors``, so that it sees the status that the caller gets. It times everything below.
4. ``Errors`` is outside everything that can fail.
5. ``AllowedHosts`` comes early, so that a request for another host gets no other information about this service.
6. ``RequestLimits`` makes cheap checks, before the key is compared and before any of the body is read.
7. ``Keys`` finds out the caller's role. Each route decides for itself which role it requires.
8. ``HeadRequests`` is below ``AccessLog``, which records the method as it was sent.
9. ``FastPath`` responds to the two most frequent requests itself, and passes all others on to the framework.

If a request breaks several rules, the caller is told about the first one in this order.

The middleware shares some values in ``scope["state"]``: ``headers`` (the headers of the request, by lower-case name),
``request_id``, ``status`` (the status of the response, or 0 until it begins) and ``role``.
"""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import FastAPI

from thali.service.http.asgi import App, Receive, Scope, Send
from thali.service.http.log import Log
from thali.service.http.metrics import Metrics
from thali.service.http.middleware.access_log import AccessLog
from thali.service.http.middleware.errors import Errors, ReportError
from thali.service.http.middleware.fast import FastPath, FastRoute
from thali.service.http.middleware.head import HeadRequests
from thali.service.http.middleware.hosts import AllowedHosts
from thali.service.http.middleware.keys import Keys
from thali.service.http.middleware.limits import RequestLimits
from thali.service.http.middleware.request_id import RequestIds
from thali.service.http.middleware.response_headers import ResponseHeaders
from thali.service.http.settings import Settings
from thali.service.http.slowest import Slowest


class Stack:
    """The application with all of its middleware."""

    def __init__(
        self,
        app: FastAPI,
        settings: Settings,
        *,
        process: str,
        metrics: Metrics,
        slowest: Slowest,
        log: Log,
        report_error: ReportError,
        fast_routes: Mapping[tuple[str, str], FastRoute],
    ) -> None:
        self.app = app
        inner: App = FastPath(app, fast_routes)
        inner = HeadRequests(inner)
        inner = Keys(inner, settings.keys)
        inner = RequestLimits(inner, settings.limits.body)
        if settings.hosts:
            inner = AllowedHosts(inner, settings.hosts)
        inner = Errors(inner, report_error)
        inner = AccessLog(inner, metrics, slowest, log if settings.log_requests else None)
        inner = ResponseHeaders(inner)
        self._outermost = RequestIds(inner, process)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request. Start and stop events bypass the middleware."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope.setdefault("state", {})["headers"] = dict(scope["headers"])
        await self._outermost(scope, receive, send)
