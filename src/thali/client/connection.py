"""Requests over kept connections, repeated until they are answered; what is refused is an error with its sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection, IncompleteRead
from random import uniform
from time import monotonic, sleep
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit
from uuid import uuid4

T = TypeVar("T")

MOST_BYTES = 64 * 2**20
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
# Nothing was done or nobody knows: the service is busy, or what stands before it could not reach it.
TRY_AGAIN = {429, 502, 503, 504}


class ServiceError(Exception):
    """The service did not do what was asked; str() is its sentence.

    Raised as this class itself where the reply is not one of the service's own, as with a proxy's page of HTML.
    """

    def __init__(
        self, sentence: str, status: int | None = None, field: str | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(sentence, status, field, request_id)  # all of it, so that the error can be pickled
        self.status = status
        """The status of the reply; None if there was none."""
        self.field = field
        """The field of the request that is against its rule."""
        self.request_id = request_id
        """What the service's log calls this request."""

    def __str__(self) -> str:
        return str(self.args[0])


class NotFound(ServiceError):  # noqa: N818 (it reads as a sentence)
    """404: unknown, expired or forgotten."""


class Conflict(ServiceError):  # noqa: N818 (the same)
    """409: differs from what was recorded before."""


class Refused(ServiceError):  # noqa: N818 (the same)
    """400, 413, 415, 422: the request is against a rule."""


class NotAllowed(ServiceError):  # noqa: N818 (the same)
    """401, 403: no key, a wrong one, or one whose role is too low."""


class Unavailable(ServiceError):  # noqa: N818 (the same)
    """No connection, no reply in time, or "not now" (503, 429), after all repeats."""


ERRORS: dict[int, type[ServiceError]] = {
    400: Refused, 401: NotAllowed, 403: NotAllowed, 404: NotFound, 409: Conflict,
    413: Refused, 415: Refused, 422: Refused,
}  # fmt: skip


class Reply(NamedTuple):
    """What came back."""

    status: int
    content: bytes
    kind: str
    """Content-Type."""
    request_id: str
    wait: float
    """Retry-After in seconds; 0 where there is none (dates are not read)."""


class Connection:
    """Calls to a service, from any number of threads.

    Each request has a connection to itself, taken from those that are idle or opened: threads wait neither for a lock
    nor leave a connection behind when they end. As many stay open as were ever in use at once. See Client for settings.
    """

    def __init__(self, url: str, *, key: str | None, timeout: float, retries: int, deadline: float) -> None:
        self._parts = _parts(url)
        self.url = self._parts.geturl().rstrip("/")
        if key is not None and not (key and key.isascii() and key.isprintable() and " " not in key):
            raise ValueError(f"key of Client must be printable ASCII without spaces, got {len(key)} characters")
        for name, value in (("timeout", timeout), ("deadline", deadline)):
            if not 0 < value < 1e6:
                raise ValueError(f"{name} of Client must be above 0 and below a million seconds, got {value!r}")
        if retries < 0:
            raise ValueError(f"retries of Client must be at least 0, got {retries!r}")
        self._key, self._timeout, self._retries, self._deadline = key, timeout, retries, deadline
        self._idle: list[HTTPConnection] = []  # a list's pop and append are safe among threads
        self._process = os.getpid()

    def close(self) -> None:
        """Close the idle connections."""
        with suppress(IndexError):  # another thread may take the last
            while True:
                self._idle.pop().close()

    def call(
        self, method: str, path: str, read: Callable[[Any], T], *, body: Any = None, retries: int | None = None
    ) -> T:
        """What read makes of the JSON that answers; an error of this module if there is none to be had."""
        content = None if body is None else json.dumps(body, allow_nan=False, default=_whole).encode()
        name = uuid4().hex  # the same for all repeats, so that the service's log shows them as what they are
        headers = {"Accept": "application/json", "X-Request-ID": name}
        if content is not None:
            headers["Content-Type"] = "application/json"
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        end = monotonic() + self._deadline
        left = self._retries if retries is None else retries
        longest, tries = FIRST_PAUSE, 0
        cause: Exception | None
        while True:
            tries += 1
            try:
                reply = self._exchange(method, path, content, headers, end)
            except (OSError, HTTPException) as error:
                problem, status, wait, cause = str(error) or type(error).__name__, None, 0.0, error
            else:
                if reply.status not in TRY_AGAIN:
                    return _result(reply, read)
                problem, status, wait, cause = str(_error(reply)), reply.status, reply.wait, None
            # Full jitter, so that those who were turned away together do not come back together.
            pause = wait + uniform(0.0, longest)
            if tries > left or monotonic() + pause >= end:
                sentence = f"the service at {self.url} cannot be used, after {tries} of {left + 1} tries: {problem}"
                raise Unavailable(sentence, status, None, name) from cause
            sleep(pause)
            longest = min(2 * longest, LONGEST_PAUSE)

    def _exchange(self, method: str, path: str, content: bytes | None, headers: dict[str, str], end: float) -> Reply:
        """One try."""
        if self._process != os.getpid():  # forked: these connections are the parent's
            self.close()
            self._process = os.getpid()
        try:
            connection = self._idle.pop()
        except IndexError:
            kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
            connection = kind(self._parts.hostname or "", self._parts.port)
        kept = connection.sock is not None
        request = method, self._parts.path.rstrip("/") + path, content, headers
        try:
            try:
                reply = self._converse(connection, request, end)
            except ConnectionError:
                if not kept:
                    raise
                connection.close()  # the service had closed it while it was idle: nothing failed
                reply = self._converse(connection, request, end)
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return reply

    def _converse(
        self, connection: HTTPConnection, request: tuple[str, str, bytes | None, dict[str, str]], end: float
    ) -> Reply:
        def patience() -> float:
            left = end - monotonic()
            if left <= 0.0:
                raise TimeoutError("timed out")
            return min(self._timeout, left)

        connection.timeout = patience()
        if connection.sock is None:
            connection.connect()
        sock = connection.sock
        sock.settimeout(patience())
        # It may hang up on a body too large, and say so: whatever happened to the request, see what was answered.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(*request)
        with connection.getresponse() as response:
            parts, size = [], 0
            while part := response.read1(2**16):
                parts.append(part)
                size += len(part)
                if size > MOST_BYTES:
                    raise ServiceError(f"a reply must be of at most {MOST_BYTES} bytes, got more", response.status)
                sock.settimeout(patience())
            if response.length:
                raise IncompleteRead(b"", response.length)
            wait = response.headers.get("Retry-After", "")
            return Reply(
                response.status,
                b"".join(parts),
                response.headers.get("Content-Type", "no content type"),
                response.headers.get("X-Request-ID", request[3]["X-Request-ID"]),
                float(wait) if wait.isascii() and wait.isdigit() else 0.0,
            )


def _parts(url: str) -> SplitResult:
    """The url, checked; it is not repeated in the error, since a password may be what is wrong with it."""
    parts = urlsplit(url)
    bad = parts.port == 0 or parts.username is not None or parts.password is not None or parts.query or parts.fragment
    if parts.scheme not in ("http", "https") or not parts.hostname or bad:
        raise ValueError(
            f"url of Client must be http://HOST:PORT or https://…, without user, query or fragment, got one of "
            f"{parts.scheme or 'no scheme'!r} at {parts.hostname or 'no host'!r}"
        )
    return parts


def _whole(value: Any) -> int:
    """Whole numbers of other kinds, as NumPy's, in JSON; anything else is refused as json does."""
    try:
        return int(value.__index__())
    except AttributeError:
        raise TypeError(f"a request must be of JSON's types, got {value!r}") from None


def _result(reply: Reply, read: Callable[[Any], T]) -> T:
    if not 200 <= reply.status < 300:
        raise _error(reply)
    try:
        return read(json.loads(reply.content))
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        came = f"{len(reply.content)} bytes of {reply.kind}"
        sentence = f"a reply must be the JSON that this version of the service sends, got {came}"
        raise ServiceError(sentence, reply.status, None, reply.request_id) from error


def _error(reply: Reply) -> ServiceError:
    """The service's own error, or one that says that the reply is not the service's."""
    try:
        said = json.loads(reply.content)
        sentence, field = str(said["error"]), said.get("field")
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        sentence = f"status {reply.status} with {len(reply.content)} bytes of {reply.kind}, not the service's own reply"
        return ServiceError(sentence, reply.status, None, reply.request_id)
    return ERRORS.get(reply.status, ServiceError)(sentence, reply.status, field, reply.request_id)
