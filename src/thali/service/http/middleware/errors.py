"""Turns every exception into a JSON error, and logs those that concern the operator."""

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

#: A function that takes an error and the id of the request in which it occurred.
ReportError = Callable[[Exception, str], None]
# How many characters of a traceback are logged. They are its last ones, because the error is at the end.
LOGGED_TRACEBACK = 4000


class Errors:
    """Turns exceptions of other middleware into responses.

    The framework handles exceptions in routes itself, with the handlers that :func:`add_error_handlers` adds. After
    it has responded to an unexpected exception, it raises that exception again, and this middleware then drops it.
    """

    def __init__(self, app: App, report_error: ReportError) -> None:
        self.app, self._report_error = app, report_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        try:
            await self.app(scope, receive, send)
        except Exception as error:
            if scope["state"]["status"] == 0:  # otherwise a response has already begun
                self._report_error(error, scope["state"]["request_id"])
                await send_problem(scope, send, problem_of(error))


def add_error_handlers(app: FastAPI, report_error: ReportError) -> None:
    """Make the framework respond to exceptions in routes in the same way as :class:`Errors`."""

    async def respond(request: Request, error: Exception) -> Response:
        report_error(error, request.state.request_id)
        return error_response(error, request.state.request_id)

    for kind in (*EXPECTED_ERRORS, Exception):
        app.add_exception_handler(kind, respond)


def error_reporter(metrics: Metrics, log: Log) -> ReportError:
    """Return a function that counts and logs errors of the store, and logs bugs with their traceback.

    It ignores other errors, because they concern only the caller.
    """

    def report_error(error: Exception, request_id: str) -> None:
        if isinstance(error, StoreError):
            metrics.store_errors.inc()
            log("store-error", request_id=request_id, error=str(error))
        elif not isinstance(error, EXPECTED_ERRORS):
            log("error", request_id=request_id, error="".join(format_exception(error))[-LOGGED_TRACEBACK:])

    return report_error
