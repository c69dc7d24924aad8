"""HTTP requests over pooled connections, with retries and an overall deadline."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable
from random import uniform
from time import monotonic, sleep
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit
from uuid import uuid4

import msgspec
from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPSConnectionPool, Retry, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, InvalidHeader, NewConnectionError, ProtocolError
from urllib3.exceptions import TimeoutError as PoolTimeoutError

from thali_client.errors import ServiceError, Unavailable, error_class
from thali_client.types import Error

T = TypeVar("T")

MAX_RESPONSE_BYTES = 64 * 2**20
CHUNK_BYTES = 2**16
MAX_IDLE_CONNECTIONS = 256
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
# The service is busy, or a proxy could not reach it.
RETRY_STATUSES = frozenset({429, 502, 503, 504})

_decode_error = msgspec.json.Decoder(Error).decode


class Transport:
    """Sends requests to a service. Any number of threads can use it. See Client for the settings."""

    def __init__(self, url: str, *, key: str | None, timeout: float, retries: int, deadline: float) -> None:
        self._parts = _parse(url)
        self.url = self._parts.geturl().rstrip("/")
        if key is not None and not (key and key.isascii() and key.isprintable() and " " not in key):
            raise ValueError(f"key of Client must be printable ASCII without spaces, got {len(key)} characters")
        for name, value in (("timeout", timeout), ("deadline", deadline)):
            if not 0 < value < 1e6:
                raise ValueError(f"{name} of Client must be above 0 and below a million seconds, got {value!r}")
        if retries < 0:
            raise ValueError(f"retries of Client must be at least 0, got {retries!r}")
        self._timeout, self._retries, self._deadline = timeout, retries, deadline
        self._headers = {"Accept": "application/json", "User-Agent": "thali-client"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._ssl_context = ssl.create_default_context() if self._parts.scheme == "https" else None
        self._pool, self._process = self._new_pool(), os.getpid()

    def close(self) -> None:
        """Close the idle connections. A later request opens a new one."""
        old, self._pool = self._pool, self._new_pool()
        old.close()

    def call(
        self, method: str, path: str, decode: Callable[[bytes], T], *, body: Any = None, retries: int | None = None
    ) -> T:
        """Send a request, retry it if necessary, and return its decoded response."""
        # All tries have the same id, so that they can be found in the log of the service.
        request_id = uuid4().hex
        headers = {**self._headers, "X-Request-ID": request_id}
        content = None
        if body is not None:
            content = encoded(body)
            headers["Content-Type"] = "application/json"
        retries = self._retries if retries is None else retries
        end = monotonic() + self._deadline
        history = _RETRY
        while True:
            response, failure = None, None
            try:
                response, received = self._try(method, path, content, headers, end)
            except (HTTPError, OSError) as error:
                failure = error
                problem = _describe(error)
            else:
                if not history.is_retry(method, response.status):
                    return _result(response, received, request_id, decode)
                problem = str(_error(response, received, request_id))
            history = history.increment(method, path, response, failure)
            pause = history.pause(response)
            tries = len(history.history)
            if tries > retries or monotonic() + pause >= end:
                message = f"the service at {self.url} is unavailable after {tries} of {retries + 1} tries: {problem}"
                status = None if response is None else response.status
                raise Unavailable(message, status, None, request_id) from failure
            sleep(pause)

    def _try(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str], end: float
    ) -> tuple[BaseHTTPResponse, bytes]:
        """Send a request once and read its response."""
        if self._process != os.getpid():  # forked: the connections belong to the parent process
            self._pool, self._process = self._new_pool(), os.getpid()
        while True:
            try:
                response = self._pool.urlopen(
                    method,
                    self._parts.path.rstrip("/") + path,
                    content,
                    headers,
                    retries=False,  # call() retries, because errors while reading the body must be retried too
                    redirect=False,
                    timeout=Timeout(connect=self._timeout, read=self._timeout, total=_left(end)),
                    preload_content=False,
                    decode_content=False,
                )
            except ProtocolError as error:
                if not isinstance(error.args[-1], _StaleConnectionError):
                    raise
            else:
                with response:  # closes the connection unless everything was read
                    return response, self._read(response, end)

    def _read(self, response: BaseHTTPResponse, end: float) -> bytes:
        """Read the body, within the deadline and the maximum size."""
        parts: list[bytes] = []
        size = 0
        while part := response.read1(CHUNK_BYTES):
            parts.append(part)
            size += len(part)
            if size > MAX_RESPONSE_BYTES:
                message = f"the response must have at most {MAX_RESPONSE_BYTES} bytes, got more"
                raise ServiceError(message, response.status)
            # After the last part, the connection is back in the pool, and another thread may already use its socket.
            if isinstance(response.connection, HTTPConnection):
                left = _left(end)
                if response.connection.sock is not None:  # None if the service announced that it closes the connection
                    response.connection.sock.settimeout(min(self._timeout, left))
        return b"".join(parts)

    def _new_pool(self) -> HTTPConnectionPool:
        # Because block is False by default, a thread that finds no idle connection opens a new one instead of waiting.
        host, port = self._parts.hostname or "", self._parts.port
        if self._ssl_context is None:
            return _Pool(host, port, maxsize=MAX_IDLE_CONNECTIONS)
        return _TLSPool(host, port, maxsize=MAX_IDLE_CONNECTIONS, ssl_context=self._ssl_context)


class _StaleConnectionError(ConnectionError):
    """The service closed an idle connection just when it was reused. This is not a failure: the request is resent."""


class _Connection(HTTPConnection):
    """A connection that distinguishes between being closed while idle and failing during a request."""

    _reused = False

    def connect(self) -> None:
        super().connect()
        self._reused = False

    def getresponse(self) -> Any:
        try:
            response = super().getresponse()
        except ConnectionError as error:
            if self._reused:
                raise _StaleConnectionError(str(error)) from error
            raise
        self._reused = True
        return response


class _TLSConnection(_Connection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


class _Retry(Retry):
    """Decides which responses to retry, and how long to wait before the next try."""

    def pause(self, response: BaseHTTPResponse | None) -> float:
        """Return the seconds to wait before the next try: Retry-After plus a random time.

        The random time prevents all clients from trying again at the same moment.
        """
        longest = min(self.backoff_factor * 2 ** (len(self.history) - 1), self.backoff_max)
        return self._retry_after(response) + uniform(0.0, longest)

    def _retry_after(self, response: BaseHTTPResponse | None) -> float:
        try:
            return (None if response is None else self.get_retry_after(response)) or 0.0
        except (InvalidHeader, ValueError, OverflowError):  # neither a number nor a date
            return 0.0


_RETRY = _Retry(
    total=None,  # call() counts
    allowed_methods=None,
    status_forcelist=RETRY_STATUSES,
    backoff_factor=FIRST_PAUSE,
    backoff_max=LONGEST_PAUSE,
)


def _left(end: float) -> float:
    left = end - monotonic()
    if left <= 0.0:
        raise TimeoutError("timed out")
    return left


def _parse(url: str) -> SplitResult:
    """Parse and check the URL. The error message does not repeat it, because it may contain a password."""
    parts = urlsplit(url)
    bad = parts.port == 0 or parts.username is not None or parts.password is not None or parts.query or parts.fragment
    if parts.scheme not in ("http", "https") or not parts.hostname or bad:
        raise ValueError(
            f"url of Client must be http://HOST:PORT or https://HOST:PORT, without user, query or fragment, got scheme "
            f"{parts.scheme or 'none'!r} and host {parts.hostname or 'none'!r}"
        )
    return parts


def encoded(body: Any) -> bytes:
    """Return the JSON of a request's body."""
    return json.dumps(body, allow_nan=False, default=_to_int).encode()


def _to_int(value: Any) -> int:
    """Convert integers of other types, such as NumPy's, to int."""
    try:
        return int(value.__index__())
    except AttributeError:
        raise TypeError(f"a request must contain only JSON types, got {value!r}") from None


def _describe(error: Exception) -> str:
    """Return what went wrong, without the exceptions in which urllib3 wraps it."""
    if isinstance(error, PoolTimeoutError) and not isinstance(error, NewConnectionError):
        return "timed out"
    cause = error.args[-1] if isinstance(error, ProtocolError) else error.__cause__ or error
    return str(cause) or type(cause).__name__


def _result(response: BaseHTTPResponse, content: bytes, request_id: str, decode: Callable[[bytes], T]) -> T:
    if not 200 <= response.status < 300:
        raise _error(response, content, request_id)
    try:
        return decode(content)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        message = (
            f"the response must be JSON as this version of thali-client expects it, got {_kind(response, content)}"
        )
        raise ServiceError(f"{message}: {error}", response.status, None, _id(response, request_id)) from error


def _error(response: BaseHTTPResponse, content: bytes, request_id: str) -> ServiceError:
    """Return the error that the service reports, or one that says that the response is not from the service."""
    status = response.status
    try:
        body = _decode_error(content)
    except (msgspec.DecodeError, ValueError, RecursionError):
        message = f"got status {status} with {_kind(response, content)}, which is not a response of the service"
        return ServiceError(message, status, None, _id(response, request_id))
    return error_class(status)(body.error, status, body.field, _id(response, request_id))


def _kind(response: BaseHTTPResponse, content: bytes) -> str:
    return f"{len(content)} bytes of {response.headers.get('Content-Type', 'unknown type')}"


def _id(response: BaseHTTPResponse, request_id: str) -> str:
    return response.headers.get("X-Request-ID", request_id)
