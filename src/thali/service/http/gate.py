"""What every request passes first: its id, who sent it, how large it is; and last: the log and the clock."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from hashlib import sha256
from itertools import count
from time import perf_counter
from traceback import format_exception
from typing import Any
from urllib.parse import unquote_to_bytes

from fastapi import HTTPException

from thali.service.http.asgi import App, Receive, Scope, Send, send_json
from thali.service.http.log import Log
from thali.service.http.metrics import Metrics
from thali.service.http.responses import EXPECTED_ERRORS, Problem, problem_of, send_problem
from thali.service.http.settings import ROLES, Settings
from thali.service.http.slowest import Slowest
from thali.service.stores import StoreError

#: Answers the body of a request from someone of this role.
Quick = Callable[[str, bytes], Awaitable[bytes]]

#: For everyone, key or not: the page, what it asks first, the API's reference, whether all is well.
OPEN = frozenset({"/", "/v1/about", "/healthz", "/readyz", "/openapi.json", "/docs"})
OPEN_BELOW = ("/page/", "/docs/")
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# So much of a path goes into the log: any name that is allowed, and the words around it.
LOGGED = 512
#: Bytes of names and values.
MOST_HEADERS = 32_768
# In no name; and routing would drop a line feed at the end, so that "ana\n" were "ana".
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
)


class TooLarge(HTTPException):
    """A body over the limit; of this class, as FastAPI takes any other error for a body that is not JSON."""


class Gate:
    """An ASGI application around another."""

    def __init__(self, app: App, settings: Settings, metrics: Metrics, log: Log) -> None:
        self.app, self.settings, self.metrics, self.log = app, settings, metrics, log
        self._keys = [(role, sha256(key.encode()).digest()) for role, key in settings.keys]
        #: By method and path; set when the service has started.
        self.quick: dict[tuple[str, str], Quick] = {}
        #: This process, and the beginning of the request ids that it makes.
        self.process = secrets.token_hex(6)
        self._process, self._number = self.process.encode(), count(1)
        self.slowest = Slowest()
        self._hosts = {host.lower().encode() for host in settings.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin = perf_counter()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given if REQUEST_ID.fullmatch(given) else b"%s-%d" % (self._process, next(self._number))
        scope.setdefault("state", {})["request_id"] = request_id.decode()
        status, quick_path = 0, ""

        async def answer(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id), *HEADERS]
            await send(message)

        try:
            refusal = self._refusal(scope, headers)
            if refusal is not None:
                await send_problem(scope, answer, refusal)
            elif (quick := self.quick.get((scope["method"], scope["path"]))) is not None:
                quick_path = scope["path"]
                await self._quick(quick, scope, self._limited(receive), answer)
            else:
                await self.app(scope, self._limited(receive), answer)
        except TooLarge as error:
            await send_problem(scope, answer, problem_of(error))
        except Exception as error:  # a mistake of ours
            if status == 0:  # else the framework has answered, and what went wrong is in the log
                self.note(error, request_id.decode())
                await send_problem(scope, answer, problem_of(error))
        finally:
            seconds = perf_counter() - begin
            path = scope["path"][:LOGGED]
            route = quick_path or getattr(scope.get("route"), "path", "none")
            self.metrics.requests.labels(route, str(status)).observe(seconds)
            self.slowest.add(seconds, scope["state"]["request_id"], scope["method"], route, status)
            if self.settings.log_requests:
                self.log(
                    "request",
                    request_id=request_id.decode(),
                    method=scope["method"],
                    path=path,
                    status=status,
                    ms=round(1000 * seconds, 2),
                )

    async def _quick(self, handle: Quick, scope: Scope, receive: Receive, send: Send) -> None:
        """A request that needs nothing of the framework: most of the time that a request takes."""
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message.get("body", b""), message.get("more_body", False)
        try:
            told = await handle(scope["state"]["role"], body)
        except EXPECTED_ERRORS as error:
            self.note(error, scope["state"]["request_id"])
            await send_problem(scope, send, problem_of(error))
        else:
            await send_json(send, 200, told)

    def note(self, error: Exception, request_id: str) -> None:
        """Log an error of the store, and count it; and a mistake of ours, of which the caller hears nothing more."""
        if isinstance(error, StoreError):
            self.metrics.store_errors.inc()
            self.log("store-error", request_id=request_id, error=str(error))
        elif not isinstance(error, EXPECTED_ERRORS):
            self.log("error", request_id=request_id, error="".join(format_exception(error))[-4000:])

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> Problem | None:
        """Why this request is not let in."""
        if self._hosts and _host(headers.get(b"host", b"")) not in self._hosts:
            # Else a page elsewhere could have its name lead here, and speak to us from a person's own browser.
            return Problem(421, "Host must be a name that this service was started with", "Host")
        path: str = scope["path"]
        if CONTROL.search(path) or ("\ufffd" in path and not _is_utf8(scope["raw_path"])):
            return Problem(422, "path must be UTF-8 without control characters, percent-encoded", "path")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADERS:
            return Problem(431, f"headers must be at most {MOST_HEADERS} bytes", "headers")
        length = headers.get(b"content-length")
        if length is not None and (not length.isdigit() or int(length) > self.settings.limits.body):
            return Problem(413, self._size_rule(), "body")
        has_body = length not in (None, b"0") or b"transfer-encoding" in headers
        kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if has_body and kind != b"application/json":
            told = f"Content-Type must be application/json, got {kind.decode('latin-1')!r:.80}"
            return Problem(415, told, "Content-Type")
        role = self._role(headers.get(b"authorization", b""))
        if role is None and path not in OPEN and not path.startswith(OPEN_BELOW):
            told = "Authorization must be 'Bearer KEY' with a key of this service"
            return Problem(401, told, "Authorization", {"WWW-Authenticate": "Bearer"})
        scope["state"]["role"] = role
        return None

    def _role(self, authorization: bytes) -> str | None:
        """The role of a key; every key is compared, each in constant time."""
        if not self._keys:
            return ROLES[-1]
        scheme, _, key = authorization.partition(b" ")
        digest = sha256(key.strip()).digest()
        found = None
        for role, own in self._keys:
            if hmac.compare_digest(digest, own):
                found = role
        return found if scheme.lower() == b"bearer" else None

    def _size_rule(self) -> str:
        return f"body must be at most {self.settings.limits.body} bytes"

    def _limited(self, receive: Receive) -> Receive:
        left = self.settings.limits.body

        async def counted() -> MutableMapping[str, Any]:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise TooLarge(413, self._size_rule())
            return message

        return counted


def _is_utf8(path: bytes) -> bool:
    try:
        unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return False
    return True


def _host(header: bytes) -> bytes:
    """The name in a Host header, without its port."""
    name = header.lower().strip()
    if name.startswith(b"["):
        return name[1:].partition(b"]")[0]
    return name.rpartition(b":")[0] if b":" in name else name
