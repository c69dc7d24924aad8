"""What to ask of a service under load: requests by the HTTP contract, and what their replies lead to."""

from __future__ import annotations

import re
from collections import deque
from random import Random
from typing import NamedTuple, Protocol
from urllib.parse import SplitResult

IMPRESSION = re.compile(rb'"impression":\s*"([0-9a-zA-Z-]+)"')


class Request(NamedTuple):
    """Bytes to send, and under which name to count them."""

    kind: str
    data: bytes


class Traffic(Protocol):
    """Requests one after another, and what is learned from replies for those to come."""

    def next(self) -> Request | None:
        """What to send now; None if there is nothing more."""

    def reply(self, request: Request, status: int, body: bytes) -> None:
        """The reply to it."""


class Routes:
    """Requests as bytes, for a service at a url."""

    def __init__(self, url: SplitResult) -> None:
        self._host, self._prefix = url.netloc, url.path.rstrip("/")

    def get(self, path: str) -> bytes:
        """GET."""
        return f"GET {self._prefix}{path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode()

    def post(self, path: str, body: str) -> bytes:
        """POST of JSON in ASCII."""
        return (
            f"POST {self._prefix}{path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        ).encode()


class Trivial:
    """GET /healthz: what the framework alone can do."""

    def __init__(self, routes: Routes) -> None:
        self._request = Request("trivial", routes.get("/healthz"))

    def next(self) -> Request | None:
        """The same again."""
        return self._request

    def reply(self, request: Request, status: int, body: bytes) -> None:
        """Nothing comes of it."""


class Recommend:
    """Lists for users u0, u1, … at random, as many as count; their impressions are kept, with a click each.

    One position is clicked or none, each as likely: K + 1 outcomes.
    """

    def __init__(self, routes: Routes, rng: Random, *, users: int, count: int | None = None) -> None:
        self.routes, self._rng, self._users, self._left = routes, rng, users, count
        self.to_answer: deque[Request] = deque()

    def next(self) -> Request | None:
        """A list for somebody."""
        if self._left is not None:
            if self._left <= 0:
                return None
            self._left -= 1
        body = f'{{"user":"u{self._rng.randrange(self._users)}"}}'
        return Request("recommend", self.routes.post("/v1/recommend", body))

    def reply(self, request: Request, status: int, body: bytes) -> None:
        """Keep the feedback that is to come."""
        if status == 200 and request.kind == "recommend":
            found = IMPRESSION.search(body)
            if found is None:
                raise ValueError(f"a reply to recommend must have an impression, got {body[:200]!r}")
            K = body.count(b'"position"')
            clicked = self._rng.randrange(K + 1)
            said = f'{{"impression":"{found[1].decode()}","clicked":[{clicked if clicked < K else ""}]}}'
            self.to_answer.append(Request("feedback", self.routes.post("/v1/feedback", said)))


class Feedback:
    """Feedback that is ready to be sent, until there is none."""

    def __init__(self, to_answer: deque[Request]) -> None:
        self._to_answer = to_answer

    def next(self) -> Request | None:
        """The answer to an impression, each once."""
        return self._to_answer.popleft() if self._to_answer else None

    def reply(self, request: Request, status: int, body: bytes) -> None:
        """Nothing comes of it."""


class FeedbackBatches(Feedback):
    """The same, so many in one request."""

    def __init__(self, routes: Routes, to_answer: deque[Request], size: int) -> None:
        said = [request.data.partition(b"\r\n\r\n")[2].decode() for request in to_answer]
        pages = [said[at : at + size] for at in range(0, len(said) - size + 1, size)]
        super().__init__(
            deque(Request("feedback", routes.post("/v1/feedback", f"[{','.join(page)}]")) for page in pages)
        )


class Mixed(Recommend):
    """Recommend and feedback in turns, the feedback for what was recommended some requests before.

    In turns, not feedback as soon as there is some: then recommend would fall on moments when the service is behind.
    """

    _turn = False

    def next(self) -> Request | None:
        """A list, or feedback if there is any to give."""
        self._turn = not self._turn
        return super().next() if self._turn or not self.to_answer else self.to_answer.popleft()
