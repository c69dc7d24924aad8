"""Tastes: the statistics of one user under one learner in memory, over the current topics; and a cache of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from thali.policies.linear.policy import LinearPolicy
from thali.policies.linear.state import LinearState
from thali.service.recommender.learners import Learner
from thali.service.recommender.seen import SeenLists
from thali.service.stores.records import (
    History,
    Impression,
    Key,
    Statistics,
    gains_of,
    history_numbers,
    pack,
    unpack_shown,
)
from thali.service.stores.sql import SqlStore
from thali.service.stores.topics import Topics
from thali.tools.types import Booleans, Floats
from thali_client.types import TopicTaste

# Memory that Python needs per taste in addition to its numbers, as measured: objects, arrays and the key.
OVERHEAD_BYTES = 2500
# 95% of a normal distribution lies within this many standard deviations of its mean.
NORMAL_95 = 1.96


@dataclass(slots=True)
class Taste:
    """What is known about a user under a learner. A taste never changes: learning creates a new one."""

    state: LinearState
    sequence: int
    seen: SeenLists | None = None
    """What the user has seen, if it is recorded."""

    @property
    def updates(self) -> int:
        """The number of impressions that the taste was learned from."""
        return int(self.state.arrays["updates"][0])

    @classmethod
    def blank(cls, learner: Learner) -> Taste:
        """Return the taste of a user about whom nothing is known."""
        state = learner.policy.init(1)
        assert isinstance(state, LinearState)
        state.settings["sigma"] = learner.stored_sigma
        return cls(state, 0)

    def with_statistics(self, M: Floats, B: Floats, updates: int, sequence: int) -> Taste:
        """Return a taste under the same learner with other statistics M (1, d, d) and B (1, d)."""
        return Taste(self.state.of(M, B, np.array([updates])), sequence, self.seen)

    def from_store(self, statistics: Statistics, topics: Topics) -> Taste:
        """Return a taste under the same learner with statistics from the store, over the current topics."""
        M, B = topics.read(statistics)
        taste = self.with_statistics(M[None], B[None], statistics.updates, statistics.sequence)
        taste.seen = None if statistics.seen is None else SeenLists.from_store(bytes(statistics.seen))
        return taste

    def by_topic(self, policy: LinearPolicy, names: Sequence[Any]) -> list[TopicTaste]:
        """Return the estimated preference for each topic, with an interval.

        Without a prior, this is the interval that the learner explores. With a prior, it contains 95% of what the
        learner believes, because α says nothing about that: it is 0 at first.
        """
        estimate = policy.estimate(self.state)[0]
        variances = np.diagonal(policy.posterior(self.state).inverse[0])
        deviations = policy.optimism(self.state)[0] if policy.prior is None else NORMAL_95
        half = deviations * np.sqrt(np.maximum(0.0, variances))
        return [
            TopicTaste(topic, middle, middle - width, middle + width)
            for topic, middle, width in zip(names, estimate.tolist(), half.tolist(), strict=True)
        ]

    def to_store(self, topics: Topics) -> Statistics:
        """Return the statistics in the form that the store keeps."""
        arrays = self.state.arrays
        numbers = pack(arrays["M"][0], arrays["B"][0])
        seen = None if self.seen is None else self.seen.to_store()
        return Statistics(topics.current, self.updates, self.sequence, numbers, seen)

    def learn(self, learner: Learner, *lessons: Lesson | Sums, times: int = 1) -> Taste:
        """Return the taste after more lessons, in this order. With times=-1, remove the lessons, up to rounding."""
        M, B = self.state.arrays["M"].copy(), self.state.arrays["B"].copy()
        lists = sum(isinstance(lesson, Lesson) for lesson in lessons)
        taste = self.with_statistics(M, B, self.updates + times * lists, self.sequence + 1)
        for lesson in lessons:
            if isinstance(lesson, Lesson):
                policy = learner.variant(lesson.clicks.shape[1], None)
                policy.add(taste.state, lesson.clicks, lesson.gains, times=float(times))
            else:
                M[0] += times * learner.stored_sigma**-2 * lesson.S
                B[0] += times * lesson.B
        return taste


@dataclass(slots=True)
class Lesson:
    """What a policy learns from one list: the clicks (1, K) on it, and the gains (1, K, d) of its items."""

    clicks: Booleans
    gains: Floats

    @classmethod
    def from_impression(cls, shown: Impression, clicked: Sequence[int], topics: Topics) -> Lesson:
        """Return the lesson of an impression, with the gains as shown, over the current topics."""
        K = len(shown.items)
        clicks = np.zeros((1, K), dtype=np.bool_)
        clicks[0, list(clicked)] = True
        numbers = unpack_shown(shown.numbers, K)
        return cls(clicks, gains_of(numbers, topics.positions(shown.topics), topics.d)[None])


class Sums(NamedTuple):
    """What a policy learns from a history: S = Σ c·xxᵀ (d, d) and B = Σ c·x·like (d,)."""

    S: Floats
    B: Floats

    @classmethod
    def from_history(cls, history: History, store: SqlStore, topics: Topics) -> Sums:
        """Return the sums of a stored history, over the current topics."""
        return cls(*topics.read_history(history, None if history.matrix is None else store.matrix(history.matrix)))

    def to_store(self, shared: bool) -> tuple[bytes, bytes | None]:
        """Return the numbers of a history, and those of S apart if several people share it."""
        return history_numbers(self.S, self.B, shared=shared)


class Tastes:
    """A cache of the most recently used tastes, limited to a number of bytes."""

    def __init__(self, size: int, d: int) -> None:
        self._size, self._own = size, 8 * (2 * d * d + 2 * d + 2) + OVERHEAD_BYTES
        self._used = 0
        self._cached: OrderedDict[Key, Taste] = OrderedDict()

    def __len__(self) -> int:
        return len(self._cached)

    def get(self, key: Key) -> Taste | None:
        """Return a taste, if it is in the cache."""
        taste = self._cached.get(key)
        if taste is not None:
            self._cached.move_to_end(key)
        return taste

    def add(self, key: Key, taste: Taste) -> None:
        """Add a taste. While the cache is too full, remove the one that has not been used for the longest time."""
        self._remove(key)
        self._cached[key] = taste
        self._used += self._bytes(taste)
        while self._used > self._size and len(self._cached) > 1:
            self._remove(next(iter(self._cached)))

    def remove(self, user: str) -> None:
        """Remove the tastes of a user."""
        for key in [key for key in self._cached if key[0] == user]:
            self._remove(key)

    def _remove(self, key: Key) -> None:
        taste = self._cached.pop(key, None)
        if taste is not None:
            self._used -= self._bytes(taste)

    def _bytes(self, taste: Taste) -> int:
        """Return about how much memory a taste takes."""
        return self._own + (0 if taste.seen is None else taste.seen.size)

    def clear(self) -> None:
        """Remove all tastes."""
        self._cached.clear()
        self._used = 0
