"""Every exception becomes a JSON error, and those that the operator should know about are logged."""

from __future__ import annotations

from collections.abc import Callable
from traceback import format_exception

from fastapi import FastAPI, Request
from fastapi.responses import Response

from thali.service.http.asgi import App, Receive, Scope, Send
from thali.service.http.log import Log
from thali.service.http.metrics import Metrics
from thali.service.http.responses import EXPECTED_ERRORS, error_response, problem_of, send_problem
from thali.service.stores import StoreError

#: Takes an error and the id of the request that it happened in.
ReportError = Callable[[Exception, str], None]
# The end of a traceback, where the error is.
LOGGED_TRACEBACK = 4000


class Errors:
    """Turns exceptions into responses.

    It meets those of other middlewares. Exceptions in a route are handled by the framework, with the handlers below;
    it raises unexpected ones again after it has responded, so they end here.
    """

    def __init__(self, app: App, report_error: ReportError) -> None:
        self.app, self._report_error = app, report_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        try:
            await self.app(scope, receive, send)
        except Exception as error:
            if scope["state"]["status"] == 0:  # otherwise a response has begun, and there cannot be another one
                self._report_error(error, scope["state"]["request_id"])
                await send_problem(scope, send, problem_of(error))


def add_error_handlers(app: FastAPI, report_error: ReportError) -> None:
    """Let the framework respond to exceptions in routes as the middleware does to others."""

    async def respond(request: Request, error: Exception) -> Response:
        report_error(error, request.state.request_id)
        return error_response(error, request.state.request_id)

    for kind in (*EXPECTED_ERRORS, Exception):
        app.add_exception_handler(kind, respond)


def error_reporter(metrics: Metrics, log: Log) -> ReportError:
    """Count and log errors of the store, and log bugs with their traceback; other errors concern only the caller."""

    def report_error(error: Exception, request_id: str) -> None:
        if isinstance(error, StoreError):
            metrics.store_errors.inc()
            log("store-error", request_id=request_id, error=str(error))
        elif not isinstance(error, EXPECTED_ERRORS):
            log("error", request_id=request_id, error="".join(format_exception(error))[-LOGGED_TRACEBACK:])

    return report_error
