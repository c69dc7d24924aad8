"""A load generator: sends requests to a service over several connections, and measures throughput and latency.

In a closed loop, each connection sends its next request as soon as it has received the previous response. In an open
loop, requests are due at random times that do not depend on the service.

It is one event loop with a minimal HTTP protocol. So the generator on one core can send many times more requests than a
service on one core can handle.
"""

from __future__ import annotations

import asyncio
import gc
import time
from array import array
from collections import Counter, deque
from dataclasses import dataclass, field
from random import Random
from urllib.parse import SplitResult, urlsplit

import numpy as np
import uvloop
from traffic import Request, Traffic

clock = time.perf_counter
# Seconds to wait for outstanding responses after the last request.
GRACE = 5.0
# Timers are accurate to a millisecond. This many seconds before a request is due, the generator starts busy waiting.
AHEAD = 0.002


@dataclass
class Outcomes:
    """The outcomes of the requests of one kind."""

    latencies: array[float] = field(default_factory=lambda: array("d"))
    """Seconds for each request that succeeded."""
    in_time: int = 0
    """How many of these responses arrived before the end of the run."""
    errors: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Figures:
    """The rate of successful requests (status 200) per second, their latency in milliseconds, and errors.

    Errors are counted by status, or by what happened: "disconnected" or "unanswered".
    """

    rate: float
    p50: float
    p90: float
    p99: float
    max: float
    replies: int
    errors: dict[str, int]

    @classmethod
    def of(cls, outcomes: list[Outcomes], seconds: float) -> Figures:
        """Summarize the outcomes of a run of this many seconds."""
        each = [np.frombuffer(one.latencies) if one.latencies else np.empty(0) for one in outcomes]
        milliseconds = np.concatenate(each) * 1e3
        errors = sum((one.errors for one in outcomes), Counter[str]())
        points = np.quantile(milliseconds, [0.5, 0.9, 0.99, 1.0]) if milliseconds.size else np.full(4, np.nan)
        rate = sum(one.in_time for one in outcomes) / seconds
        p50, p90, p99, most = points.tolist()
        return cls(rate, p50, p90, p99, most, milliseconds.size, dict(errors))


@dataclass(frozen=True)
class Run:
    """The result of a run: the figures for each kind of request, and for all of them."""

    seconds: float
    cpu: float
    """The share of a core that this program used. Near 1 in a closed loop, the generator was the bottleneck."""
    kinds: dict[str, Figures]


class Connection(asyncio.Protocol):
    """A connection with at most one outstanding request. Responses must have a Content-Length."""

    transport: asyncio.Transport
    request: Request | None = None
    due = 0.0

    def __init__(self, load: Load) -> None:
        self._load, self._buffer = load, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Report that the connection can send."""
        self.transport = transport  # type: ignore[assignment]  # a stream has this type of transport
        self._load.free(self)

    def send(self, request: Request, due: float) -> None:
        """Send a request, which was due at this time."""
        self.request, self.due = request, due
        self.transport.write(request.data)

    def data_received(self, data: bytes) -> None:
        """Collect a response, which usually arrives in one piece."""
        data = self._buffer + data if self._buffer else data
        end = data.find(b"\r\n\r\n")
        if end >= 0:
            head = data[:end].lower()
            at = head.find(b"\r\ncontent-length:")
            if at < 0:
                self._load.fail(ValueError(f"a response must have a Content-Length, got {head!r}"))
                return
            stop = head.find(b"\r\n", at + 2)
            if len(data) >= end + 4 + int(head[at + 17 : stop if stop > 0 else end]):
                self._buffer = b""
                self._load.on_response(self, int(data[9:12]), data[end + 4 :])
                return
        self._buffer = data

    def connection_lost(self, error: Exception | None) -> None:
        """Report that the connection is closed, and that its outstanding request has failed."""
        self._load.lost(self)


class Load:
    """Sends traffic over several connections; see :func:`measure`."""

    def __init__(
        self,
        url: SplitResult,
        traffic: Traffic,
        *,
        connections: int,
        rate: float | None,
        seconds: float,
        warm: float,
        rng: Random,
    ) -> None:
        self._url, self._traffic, self._rate, self._rng = url, traffic, rate, rng
        self._connections, self._seconds, self._warm = connections, seconds, warm
        self._open: set[Connection] = set()
        self._idle: list[Connection] = []
        self._waiting: deque[tuple[float, Request]] = deque()
        self._outcomes: dict[str, Outcomes] = {}
        self._problem: Exception | None = None
        self._started = self._exhausted = False
        self._last = 0.0

    async def run(self) -> Run:
        """Send the traffic, and return the figures."""
        await asyncio.gather(*(self._connect() for _ in range(self._connections)))
        cpu, start = time.process_time(), clock()
        self._begin, self._stop = start + self._warm, start + self._warm + self._seconds
        self._started = True
        if self._rate is None:
            for connection in [self._idle.pop() for _ in range(len(self._idle))]:
                self.free(connection)
        else:
            self._due = start
            self._arrive()
        while self._problem is None and clock() < self._stop + GRACE:
            await asyncio.sleep(0.01)
            if (self._exhausted or clock() >= self._stop) and not self._waiting and len(self._idle) == len(self._open):
                break
        cpu, self._started = (time.process_time() - cpu) / (clock() - start), False
        for connection in self._open:
            if connection.request is not None:
                self._waiting.append((connection.due, connection.request))
            connection.transport.abort()
        if self._problem is not None:
            raise self._problem
        for due, request in self._waiting:
            self._error(due, request, "unanswered")
        seconds = (min(self._stop, self._last) if self._exhausted else self._stop) - self._begin
        if seconds <= 0.0:
            raise ValueError(f"traffic must last longer than the warm-up of {self._warm} s")
        kinds = {kind: Figures.of([outcomes], seconds) for kind, outcomes in sorted(self._outcomes.items())}
        if len(kinds) != 1:
            kinds["all"] = Figures.of(list(self._outcomes.values()), seconds)
        return Run(seconds, cpu, kinds)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: Connection(self), self._url.hostname or "", self._url.port or 80)

    def _arrive(self) -> None:
        """Send the requests that are due, and schedule the next call."""
        assert self._rate is not None
        now = clock()
        while self._due <= now and self._due < self._stop:
            request = self._traffic.next()
            if request is None:
                self._exhausted = True
                return
            if self._idle:
                self._idle.pop().send(request, self._due)
            else:
                self._waiting.append((self._due, request))
            self._due += self._rng.expovariate(self._rate)
        if self._due >= self._stop or not self._started:
            return
        loop, ahead = asyncio.get_running_loop(), self._due - clock()
        if ahead > AHEAD:
            loop.call_later(ahead - AHEAD, self._arrive)
        else:
            loop.call_soon(self._arrive)

    def free(self, connection: Connection) -> None:
        """Give a free connection its next request, if there is one."""
        self._open.add(connection)
        if self._waiting:
            due, request = self._waiting.popleft()
            connection.send(request, due)
            return
        if self._rate is None and self._started and not self._exhausted:
            now = clock()
            request_or_none = self._traffic.next() if now < self._stop else None
            if request_or_none is not None:
                connection.send(request_or_none, now)
                return
            self._exhausted = now < self._stop
        self._idle.append(connection)

    def on_response(self, connection: Connection, status: int, body: bytes) -> None:
        """Record a response."""
        now, request, due = clock(), connection.request, connection.due
        if request is None:
            self.fail(ValueError(f"a response must follow a request, got {body[:200]!r} without one"))
            return
        connection.request, self._last = None, now
        if status != 200:
            self._error(due, request, str(status))
        elif due >= self._begin:
            outcomes = self._of(request)
            outcomes.latencies.append(now - due)
            outcomes.in_time += now <= self._stop
        try:
            self._traffic.reply(request, status, body)
        except ValueError as error:
            self.fail(error)
        self.free(connection)

    def lost(self, connection: Connection) -> None:
        """Open a new connection in place of one that was closed."""
        if not self._started:
            return
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if connection.request is not None:
            self._error(connection.due, connection.request, "disconnected")
        task = asyncio.ensure_future(self._connect())
        task.add_done_callback(lambda done: self.fail(None if done.cancelled() else done.exception()))

    def fail(self, error: BaseException | None) -> None:
        """End the run with this error. Does nothing for None."""
        if isinstance(error, Exception) and self._problem is None:
            self._problem = error

    def _of(self, request: Request) -> Outcomes:
        return self._outcomes.setdefault(request.kind, Outcomes())

    def _error(self, due: float, request: Request, what: str) -> None:
        if due >= self._begin:
            self._of(request).errors[what] += 1


def measure(
    url: str,
    traffic: Traffic,
    *,
    connections: int,
    rate: float | None = None,
    seconds: float,
    warm: float = 0.0,
    seed: int = 0,
) -> Run:
    """Send traffic to a service for some seconds, after a warm-up of ``warm`` seconds that does not count.

    The run ends early if there is no more traffic.

    rate: None for a closed loop. Otherwise the number of requests per second in an open loop. They are due at random
    times (a Poisson process) that do not depend on the service. Latency is measured from the time when a request was
    due, so it includes the wait for a free connection. (Between requests the generator waits busily, to be on time.)

    A request that fails counts as an error and is not sent again. So does a request that has no response 5 seconds
    after the end. The run itself fails if a connection cannot be opened, or if a response has no Content-Length.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"url must be http://HOST:PORT, got {url!r}")
    load = Load(parts, traffic, connections=connections, rate=rate, seconds=seconds, warm=warm, rng=Random(seed))
    gc.collect()
    gc.disable()  # its pauses would look like pauses of the service
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(load.run())
    finally:
        gc.enable()
