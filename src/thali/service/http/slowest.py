"""The slowest recent requests, in little memory and with little time per request."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush, heapreplace, nlargest
from itertools import count
from time import time

from thali_client.types import SlowRequest

#: How many are kept.
MOST = 20
# Requests of this generation and of the one before are kept: those of the last half hour to hour.
GENERATION_S = 1800.0


class Slowest:
    """The slowest requests of the last half hour to hour.

    Two generations of half an hour, each a heap of 20. When a generation ends, it replaces the one before.

    Cost: for a request that is not among them, reading the clock and two comparisons. Memory: 40 requests.
    """

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self._clock = clock
        self._number = count()  # breaks ties: of two requests that took equally long, the first is kept
        self._now: list[tuple[float, int, SlowRequest]] = []
        self._before: list[tuple[float, int, SlowRequest]] = []
        self._floor, self._until = -1.0, clock() + GENERATION_S

    def add(self, seconds: float, request_id: str, method: str, route: str, status: int) -> None:
        """Add a request that has just ended."""
        now = self._clock()
        if now >= self._until:
            self._turn(now)
        if seconds <= self._floor:
            return
        request = SlowRequest(round(now, 3), request_id, method, route, status, round(1000 * seconds, 2))
        entry = seconds, -next(self._number), request
        if len(self._now) < MOST:
            heappush(self._now, entry)
        else:
            heapreplace(self._now, entry)
        if len(self._now) == MOST:
            self._floor = self._now[0][0]

    def all(self) -> list[SlowRequest]:
        """The slowest requests, the slowest first."""
        now = self._clock()
        if now >= self._until:
            self._turn(now)
        return [request for _, _, request in nlargest(MOST, self._now + self._before)]

    def _turn(self, now: float) -> None:
        """Begin a new generation and drop the one before; drop both if there was no request for a whole generation."""
        self._before = self._now if now < self._until + GENERATION_S else []
        self._now, self._floor, self._until = [], -1.0, now + GENERATION_S
