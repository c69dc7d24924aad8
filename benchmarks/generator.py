"""A load generator: requests to a service over some connections, in a closed or an open loop, and what they took.

One event loop with a protocol of our own, so that one core of it can keep one of the service's busy many times over.
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
GRACE = 5.0  # seconds to wait for replies once no more is sent
AHEAD = 0.002  # seconds; timers are good to a millisecond, so the rest is spun away


@dataclass
class Seen:
    """What came of the requests of one kind."""

    taken: array[float] = field(default_factory=lambda: array("d"))
    in_time: int = 0
    errors: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Figures:
    """Requests answered with 200: how many a second, and milliseconds each. Errors by status, or by what happened."""

    rate: float
    p50: float
    p90: float
    p99: float
    max: float
    replies: int
    errors: dict[str, int]

    @classmethod
    def of(cls, seen: list[Seen], seconds: float) -> Figures:
        """From what was seen in so many seconds."""
        taken = np.concatenate([np.frombuffer(one.taken) if one.taken else np.empty(0) for one in seen]) * 1e3
        errors = sum((one.errors for one in seen), Counter[str]())
        points = np.quantile(taken, [0.5, 0.9, 0.99, 1.0]) if taken.size else np.full(4, np.nan)
        rate = sum(one.in_time for one in seen) / seconds
        p50, p90, p99, most = points.tolist()
        return cls(rate, p50, p90, p99, most, taken.size, dict(errors))


@dataclass(frozen=True)
class Run:
    """One run: the figures of each kind, and of all."""

    seconds: float
    cpu: float
    """The share of a core that this program took: in a closed loop near 1, it measured itself."""
    kinds: dict[str, Figures]


class Wire(asyncio.Protocol):
    """A connection with at most one request under way. Replies must have a Content-Length."""

    transport: asyncio.Transport
    request: Request | None = None
    due = 0.0

    def __init__(self, load: Load) -> None:
        self._load, self._buffer = load, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready."""
        self.transport = transport  # type: ignore[assignment]  # it is one of a stream
        self._load.free(self)

    def send(self, request: Request, due: float) -> None:
        """Send it."""
        self.request, self.due = request, due
        self.transport.write(request.data)

    def data_received(self, data: bytes) -> None:
        """Part of a reply, most often all of it."""
        data = self._buffer + data if self._buffer else data
        end = data.find(b"\r\n\r\n")
        if end >= 0:
            head = data[:end].lower()
            at = head.find(b"\r\ncontent-length:")
            if at < 0:
                self._load.fail(ValueError(f"a reply must have a Content-Length, got {head!r}"))
                return
            stop = head.find(b"\r\n", at + 2)
            if len(data) >= end + 4 + int(head[at + 17 : stop if stop > 0 else end]):
                self._buffer = b""
                self._load.answered(self, int(data[9:12]), data[end + 4 :])
                return
        self._buffer = data

    def connection_lost(self, error: Exception | None) -> None:
        """The request under way has failed; another connection takes the place of this one."""
        self._load.lost(self)


class Load:
    """Sends traffic over some connections for some seconds, after warm ones that do not count; see :func:`measure`."""

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
        self._wires: set[Wire] = set()
        self._idle: list[Wire] = []
        self._waiting: deque[tuple[float, Request]] = deque()
        self._seen: dict[str, Seen] = {}
        self._problem: Exception | None = None
        self._started = self._exhausted = False
        self._last = 0.0

    async def run(self) -> Run:
        """Do it."""
        await asyncio.gather(*(self._connect() for _ in range(self._connections)))
        cpu, start = time.process_time(), clock()
        self._begin, self._stop = start + self._warm, start + self._warm + self._seconds
        self._started = True
        if self._rate is None:
            for wire in [self._idle.pop() for _ in range(len(self._idle))]:
                self.free(wire)
        else:
            self._due = start
            self._arrive()
        while self._problem is None and clock() < self._stop + GRACE:
            await asyncio.sleep(0.01)
            if (self._exhausted or clock() >= self._stop) and not self._waiting and len(self._idle) == len(self._wires):
                break
        cpu, self._started = (time.process_time() - cpu) / (clock() - start), False
        for wire in self._wires:
            if wire.request is not None:
                self._waiting.append((wire.due, wire.request))
            wire.transport.abort()
        if self._problem is not None:
            raise self._problem
        for due, request in self._waiting:
            self._error(due, request, "unanswered")
        seconds = (min(self._stop, self._last) if self._exhausted else self._stop) - self._begin
        if seconds <= 0.0:
            raise ValueError(f"there must be requests for longer than the {self._warm} s that do not count")
        kinds = {kind: Figures.of([seen], seconds) for kind, seen in sorted(self._seen.items())}
        if len(kinds) != 1:
            kinds["all"] = Figures.of(list(self._seen.values()), seconds)
        return Run(seconds, cpu, kinds)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: Wire(self), self._url.hostname or "", self._url.port or 80)

    def _arrive(self) -> None:
        """Take up the requests that are due, and come back for the next."""
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

    def free(self, wire: Wire) -> None:
        """A connection can take a request."""
        self._wires.add(wire)
        if self._waiting:
            due, request = self._waiting.popleft()
            wire.send(request, due)
            return
        if self._rate is None and self._started and not self._exhausted:
            now = clock()
            request_or_none = self._traffic.next() if now < self._stop else None
            if request_or_none is not None:
                wire.send(request_or_none, now)
                return
            self._exhausted = now < self._stop
        self._idle.append(wire)

    def answered(self, wire: Wire, status: int, body: bytes) -> None:
        """A reply is there."""
        now, request, due = clock(), wire.request, wire.due
        if request is None:
            self.fail(ValueError(f"replies must follow requests, got {body[:200]!r} unasked"))
            return
        wire.request, self._last = None, now
        if status != 200:
            self._error(due, request, str(status))
        elif due >= self._begin:
            seen = self._of(request)
            seen.taken.append(now - due)
            seen.in_time += now <= self._stop
        try:
            self._traffic.reply(request, status, body)
        except ValueError as error:
            self.fail(error)
        self.free(wire)

    def lost(self, wire: Wire) -> None:
        """A connection is closed."""
        if not self._started:
            return
        self._wires.discard(wire)
        if wire in self._idle:
            self._idle.remove(wire)
        if wire.request is not None:
            self._error(wire.due, wire.request, "disconnected")
        task = asyncio.ensure_future(self._connect())
        task.add_done_callback(lambda done: self.fail(None if done.cancelled() else done.exception()))

    def fail(self, error: BaseException | None) -> None:
        """End the run with this error, if it is one."""
        if isinstance(error, Exception) and self._problem is None:
            self._problem = error

    def _of(self, request: Request) -> Seen:
        return self._seen.setdefault(request.kind, Seen())

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
    """A run of some seconds, after warm ones that do not count; it ends early when traffic has no more.

    rate: None for a closed loop, where each connection sends its next request when the last is answered. Else requests
    a second in an open loop: they are due at random times (Poisson) whatever the service does, and are timed from the
    moment they were due, so that waiting for a free connection counts. (It spins between requests, to be on time.)
    A request that fails is an error and not sent again, as is one unanswered 5 seconds after the end. The run itself
    fails if a connection cannot be made, or a reply has no Content-Length.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"url must be http://HOST:PORT, got {url!r}")
    load = Load(parts, traffic, connections=connections, rate=rate, seconds=seconds, warm=warm, rng=Random(seed))
    gc.collect()
    gc.disable()  # its pauses would be taken for the service's
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(load.run())
    finally:
        gc.enable()
