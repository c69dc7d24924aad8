"""Statistics in memory: those of one user under one learner, over the current topics; and a cache of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thali.policies.linear.policy import LinearPolicy
from thali.policies.linear.state import LinearState
from thali.service.recommender.learners import Learner
from thali.service.stores.records import Impression, Key, Statistics, gains_of, pack, unpack_shown
from thali.service.stores.topics import Topics
from thali.tools.types import Booleans, Floats
from thali_client.types import TopicTaste

# What Python adds to the numbers of one taste, measured: objects, arrays, the key.
OVERHEAD_BYTES = 2500


@dataclass(slots=True)
class Taste:
    """What is known of a user under a learner. Never changed in place: learning makes a new one."""

    state: LinearState
    sequence: int

    @property
    def updates(self) -> int:
        """Impressions learned from."""
        return int(self.state.arrays["updates"][0])

    @classmethod
    def blank(cls, policy: LinearPolicy) -> Taste:
        """Of a user of whom nothing is known."""
        state = policy.init(1)
        assert isinstance(state, LinearState)
        return cls(state, 0)

    def of(self, M: Floats, B: Floats, updates: int, sequence: int) -> Taste:
        """Another taste under the same learner, from M (1, d, d) and B (1, d)."""
        return Taste(self.state.of(M, B, np.array([updates])), sequence)

    def read(self, kept: Statistics, topics: Topics) -> Taste:
        """Another one, from the store. Of topics added since nothing is known; dropped ones are left out."""
        M, B = topics.read(kept)
        return self.of(M[None], B[None], kept.updates, kept.sequence)

    def by_topic(self, policy: LinearPolicy, names: Sequence[Any]) -> list[TopicTaste]:
        """The estimated preference for each topic, with the interval of the learner's exploration."""
        estimate = policy.estimate(self.state)[0]
        half = policy.optimism(self.state)[0] * np.sqrt(np.maximum(0.0, np.diagonal(self.state.inverse[0])))
        return [
            TopicTaste(topic, at, at - by, at + by)
            for topic, at, by in zip(names, estimate.tolist(), half.tolist(), strict=True)
        ]

    def written(self, topics: Topics) -> Statistics:
        """For the store."""
        arrays = self.state.arrays
        return Statistics(topics.now, self.updates, self.sequence, pack(arrays["M"][0], arrays["B"][0]))

    def learned(self, learner: Learner, *lessons: Lesson, times: int = 1) -> Taste:
        """After some more lessons, one after another; with times=-1 without them, up to rounding."""
        M, B = self.state.arrays["M"].copy(), self.state.arrays["B"].copy()
        for lesson in lessons:
            learner.variant(lesson.clicks.shape[1], None).add(M, B, lesson.clicks, lesson.gains, times=float(times))
        return self.of(M, B, self.updates + times * len(lessons), self.sequence + 1)


@dataclass(slots=True)
class Lesson:
    """Clicks (1, K) on a list whose gains were (1, K, d), as a policy learns from them."""

    clicks: Booleans
    gains: Floats

    @classmethod
    def of(cls, shown: Impression, clicked: Sequence[int], topics: Topics) -> Lesson:
        """From an impression: with the gains as shown, over the current topics."""
        K = len(shown.items)
        clicks = np.zeros((1, K), dtype=np.bool_)
        clicks[0, list(clicked)] = True
        numbers = unpack_shown(shown.numbers, K)
        return cls(clicks, gains_of(numbers, topics.place(shown.topics), topics.d)[None])


class Tastes:
    """The tastes used last, of as many users as fit into so many bytes."""

    def __init__(self, size: int, d: int) -> None:
        self.most = max(1, size // (8 * (2 * d * d + 2 * d + 2) + OVERHEAD_BYTES))
        self._kept: OrderedDict[Key, Taste] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> Taste | None:
        """The taste, if it is kept."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: Key, taste: Taste) -> None:
        """Keep it, in place of the one that was not used for longest."""
        self._kept[key] = taste
        self._kept.move_to_end(key)
        if len(self._kept) > self.most:
            self._kept.popitem(last=False)

    def drop(self, user: str) -> None:
        """Forget a user's."""
        for key in [key for key in self._kept if key[0] == user]:
            del self._kept[key]

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
