"""What every request passes before it reaches a route: one middleware a file, each a plain ASGI application.

From the outside in; a request passes them downwards, its response upwards:

1. ``RequestIds``: first, since responses, errors and the log all name the request.
2. ``ResponseHeaders``: outside of everything that responds, so that every response has them, errors included.
3. ``AccessLog``: outside of ``Errors``, so that it sees the status which the caller gets; it times all that follows.
4. ``Errors``: outside of everything that can fail.
5. ``AllowedHosts``: a request meant for another host gets no other information about this service.
6. ``RequestLimits``: cheap checks, before a key is looked at and before any of the body is read.
7. ``Keys``: who calls, before anything is done for them. What the role permits is for each route to decide.
8. ``FastPath``: responds to the two most frequent requests itself and passes all others on to the framework.

If a request breaks several rules, the error is therefore that of the first one in this order.

The middlewares share some values in ``scope["state"]``: ``headers``, those of the request by lower-case name;
``request_id``; ``status``, that of the response, 0 until it begins; and ``role``.
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
from thali.service.http.middleware.hosts import AllowedHosts
from thali.service.http.middleware.keys import Keys
from thali.service.http.middleware.limits import RequestLimits
from thali.service.http.middleware.request_id import RequestIds
from thali.service.http.middleware.response_headers import ResponseHeaders
from thali.service.http.settings import Settings
from thali.service.http.slowest import Slowest


class Stack:
    """The application inside all of its middlewares."""

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
        inner = Keys(inner, settings.keys)
        inner = RequestLimits(inner, settings.limits.body)
        if settings.hosts:
            inner = AllowedHosts(inner, settings.hosts)
        inner = Errors(inner, report_error)
        inner = AccessLog(inner, metrics, slowest, log if settings.log_requests else None)
        inner = ResponseHeaders(inner)
        self._outermost = RequestIds(inner, process)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; start and stop go to the application directly."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope.setdefault("state", {})["headers"] = dict(scope["headers"])
        await self._outermost(scope, receive, send)
