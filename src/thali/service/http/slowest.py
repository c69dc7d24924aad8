"""Which requests took longest of late, in little memory and little time for each request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappush, heapreplace, nlargest
from itertools import count
from time import time

#: How many are kept.
MOST = 20
# Those of this generation and of the one before are told: the last half hour to hour.
GENERATION_S = 1800.0


@dataclass(frozen=True, slots=True)
class SlowRequest:
    """A request that took long."""

    at: float
    """When it was over, in seconds since 1970."""
    request_id: str
    method: str
    route: str
    """The template, as /v1/users/{user}, so no names; "none" where there is no such route, or it was not let in."""
    status: int
    """0 where the caller had gone before there was one."""
    ms: float
    """From its headers to the end of the answer."""


class Slowest:
    """The slowest requests of about the last hour: of any time between half an hour and an hour ago until now.

    Two generations of half an hour, each a heap of 20. A generation that is over takes the place of the one before.

    Cost: for a request that is not among them, a look at the clock and two comparisons; 40 requests of memory.
    """

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self._clock = clock
        self._number = count()  # of two that took equally long, the first is kept
        self._now: list[tuple[float, int, SlowRequest]] = []
        self._before: list[tuple[float, int, SlowRequest]] = []
        self._floor, self._until = -1.0, clock() + GENERATION_S

    def add(self, seconds: float, request_id: str, method: str, route: str, status: int) -> None:
        """A request that is over now."""
        now = self._clock()
        if now >= self._until:
            self._turn(now)
        if seconds <= self._floor:
            return
        one = SlowRequest(round(now, 3), request_id, method, route, status, round(1000 * seconds, 2))
        entry = seconds, -next(self._number), one
        if len(self._now) < MOST:
            heappush(self._now, entry)
        else:
            heapreplace(self._now, entry)
        if len(self._now) == MOST:
            self._floor = self._now[0][0]

    def told(self) -> list[SlowRequest]:
        """The slowest first."""
        now = self._clock()
        if now >= self._until:
            self._turn(now)
        return [one for _, _, one in nlargest(MOST, self._now + self._before)]

    def _turn(self, now: float) -> None:
        """A generation is over; the one before is forgotten, and this one too if nothing came for as long."""
        self._before = self._now if now < self._until + GENERATION_S else []
        self._now, self._floor, self._until = [], -1.0, now + GENERATION_S
