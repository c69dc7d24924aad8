"""The requests that are sent to a service under load. Some depend on the responses to earlier requests."""

from __future__ import annotations

import re
from collections import deque
from random import Random
from typing import NamedTuple, Protocol
from urllib.parse import SplitResult

IMPRESSION = re.compile(rb'"impression":\s*"([0-9a-zA-Z-]+)"')


class Request(NamedTuple):
    """The bytes to send, and the kind under which they are counted."""

    kind: str
    data: bytes


class Traffic(Protocol):
    """A sequence of requests, which may depend on earlier responses."""

    def next(self) -> Request | None:
        """Return the next request, or None if there are no more."""

    def reply(self, request: Request, status: int, body: bytes) -> None:
        """Take note of the response to a request."""


class Routes:
    """Creates requests, as bytes, for the service at a URL."""

    def __init__(self, url: SplitResult) -> None:
        self._host, self._prefix = url.netloc, url.path.rstrip("/")

    def get(self, path: str) -> bytes:
        """Return a GET request."""
        return f"GET {self._prefix}{path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode()

    def post(self, path: str, body: str) -> bytes:
        """Return a POST request with a body of JSON in ASCII."""
        return (
            f"POST {self._prefix}{path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        ).encode()


class Trivial:
    """GET /healthz, which measures the web framework alone."""

    def __init__(self, routes: Routes) -> None:
        self._request = Request("trivial", routes.get("/healthz"))

    def next(self) -> Request | None:
        """Return the same request each time."""
        return self._request

    def reply(self, request: Request, status: int, body: bytes) -> None:
        """Ignore the response."""


class Recommend:
    """Lists for random users among u0, u1, …; ``count`` of them, if it is given.

    ``to_answer`` collects a feedback request for each list. It clicks one position or none, where all K + 1
    possibilities are equally likely.
    """

    def __init__(self, routes: Routes, rng: Random, *, users: int, count: int | None = None) -> None:
        self.routes, self._rng, self._users, self._left = routes, rng, users, count
        self.to_answer: deque[Request] = deque()

    def next(self) -> Request | None:
        """Return a request for a random user's list."""
        if self._left is not None:
            if self._left <= 0:
                return None
            self._left -= 1
        body = f'{{"user":"u{self._rng.randrange(self._users)}"}}'
        return Request("recommend", self.routes.post("/v1/recommend", body))

    def reply(self, request: Request, status: int, body: bytes) -> None:
        """Create the feedback for the list."""
        if status == 200 and request.kind == "recommend":
            found = IMPRESSION.search(body)
            if found is None:
                raise ValueError(f"a response to recommend must contain an impression, got {body[:200]!r}")
            K = body.count(b'"position"')
            clicked = self._rng.randrange(K + 1)
            feedback = f'{{"impression":"{found[1].decode()}","clicked":[{clicked if clicked < K else ""}]}}'
            self.to_answer.append(Request("feedback", self.routes.post("/v1/feedback", feedback)))


class Feedback:
    """Feedback that was prepared earlier."""

    def __init__(self, to_answer: deque[Request]) -> None:
        self._to_answer = to_answer

    def next(self) -> Request | None:
        """Return the next feedback. Each is sent once."""
        return self._to_answer.popleft() if self._to_answer else None

    def reply(self, request: Request, status: int, body: bytes) -> None:
        """Ignore the response."""


class FeedbackBatches(Feedback):
    """Feedback that was prepared earlier, ``size`` of them in each request."""

    def __init__(self, routes: Routes, to_answer: deque[Request], size: int) -> None:
        bodies = [request.data.partition(b"\r\n\r\n")[2].decode() for request in to_answer]
        batches = [bodies[at : at + size] for at in range(0, len(bodies) - size + 1, size)]
        super().__init__(
            deque(Request("feedback", routes.post("/v1/feedback", f"[{','.join(batch)}]")) for batch in batches)
        )


class Mixed(Recommend):
    """Recommend and feedback alternately. The feedback is for lists of earlier requests.

    If feedback were sent as soon as it is available instead, recommend would be sent only when the service is behind.
    """

    _turn = False

    def next(self) -> Request | None:
        """Return a request for a list, or feedback if there is any to send."""
        self._turn = not self._turn
        return super().next() if self._turn or not self.to_answer else self.to_answer.popleft()
