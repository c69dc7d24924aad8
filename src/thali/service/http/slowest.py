"""A record of the slowest recent requests that needs little memory, and little time per request."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush, heapreplace, nlargest
from itertools import count
from time import time

from thali_client.types import SlowRequest

#: How many requests are kept.
MAX_REQUESTS = 20
# The length of a generation. The requests of the current and the previous generation are kept.
GENERATION_S = 1800.0


class Slowest:
    """The slowest requests since 30 to 60 minutes ago.

    There are two generations of 30 minutes. Each is a heap of at most 20 requests. When a generation ends, it replaces
    the previous one.

    Cost: for a request that is not among the slowest, reading the clock and two comparisons. Memory: 40 requests.
    """

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self._clock = clock
        self._number = count()  # breaks ties: if two requests took equally long, the first is kept
        self._current: list[tuple[float, int, SlowRequest]] = []
        self._previous: list[tuple[float, int, SlowRequest]] = []
        self._floor, self._until = -1.0, clock() + GENERATION_S

    def add(self, seconds: float, request_id: str, method: str, route: str, status: int) -> None:
        """Add a request that has just ended."""
        now = self._clock()
        if now >= self._until:
            self._begin_generation(now)
        if seconds <= self._floor:
            return
        request = SlowRequest(round(now, 3), request_id, method, route, status, round(1000 * seconds, 2))
        entry = seconds, -next(self._number), request
        if len(self._current) < MAX_REQUESTS:
            heappush(self._current, entry)
        else:
            heapreplace(self._current, entry)
        if len(self._current) == MAX_REQUESTS:
            self._floor = self._current[0][0]

    def all(self) -> list[SlowRequest]:
        """Return the slowest requests, slowest first."""
        now = self._clock()
        if now >= self._until:
            self._begin_generation(now)
        return [request for _, _, request in nlargest(MAX_REQUESTS, self._current + self._previous)]

    def _begin_generation(self, now: float) -> None:
        """Begin a new generation, and drop the previous one. If no request came for a whole generation, drop both."""
        self._previous = self._current if now < self._until + GENERATION_S else []
        self._current, self._floor, self._until = [], -1.0, now + GENERATION_S
