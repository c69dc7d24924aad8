"""The sets of topics that a store has had over time.

Statistics and gains that refer to older topics are converted to the current topics, by name.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thali.service.stores.records import History, Statistics, UnusableRecord, unpack
from thali.tools.types import Floats, Integers


class Topics:
    """All sets of topics of a store. The last one is current."""

    def __init__(self, sets: Sequence[Sequence[str]]) -> None:
        self.sets = [list(names) for names in sets]
        #: The number of the current set.
        self.current = len(self.sets) - 1
        self.d = len(self.sets[self.current])
        self._positions: dict[int, Integers] = {}

    def positions(self, number: int) -> Integers:
        """Return the current position of each topic of a set, or -1 if a later set dropped the topic."""
        if number not in self._positions:
            if not 0 <= number <= self.current:
                raise UnusableRecord(
                    "this record has topics of a newer catalog: restart this process with the newer catalog"
                )
            self._positions[number] = later_positions(self.sets[number], *self.sets[number + 1 :])
        return self._positions[number]

    def read(self, statistics: Statistics) -> tuple[Floats, Floats]:
        """Return M (d, d) and B (d,) over the current topics."""
        positions = self.positions(statistics.topics)
        M, B = unpack(statistics.numbers, positions.size)
        return (M, B) if statistics.topics == self.current else move_statistics(M, B, positions, self.d)

    def read_history(self, history: History, shared: bytes | None) -> tuple[Floats, Floats]:
        """Return the sums S (d, d) and B (d,) of a history over the current topics. shared: S, if it is kept apart."""
        positions = self.positions(history.topics)
        S, B = unpack(history.numbers + (shared or b""), positions.size)
        return (S, B) if history.topics == self.current else move_sums(S, B, positions, self.d)


def move_sums(S: Floats, B: Floats, positions: Integers, d: int) -> tuple[Floats, Floats]:
    """Move the sums of a history to d topics, like :func:`move_statistics`. On new topics, they are 0."""
    S, B = move_statistics(S, B, positions, d)
    return S - np.diag(np.isin(np.arange(d), positions, invert=True).astype(np.float64)), B


def later_positions(names: Sequence[str], *later: Sequence[str]) -> Integers:
    """Return the position of each name in the last of the later sets, or -1 if it is missing in any of them."""
    kept = set(names).intersection(*later)
    position = {name: j for j, name in enumerate((names, *later)[-1]) if name in kept}
    return np.array([position.get(name, -1) for name in names], dtype=np.int64)


def move_statistics(M: Floats, B: Floats, positions: Integers, d: int) -> tuple[Floats, Floats]:
    """Move statistics to d topics: old topic i to positions[i], or nowhere if that is -1. New topics start blank.

    A dropped topic's x appears only in its own row and column of M and its own entry of B. The remaining entries are
    therefore the same as if the topic had never existed.
    """
    old = np.flatnonzero(positions >= 0)
    new = positions[old]
    new_M, new_B = np.eye(d), np.zeros(d)
    new_M[np.ix_(new, new)], new_B[new] = M[np.ix_(old, old)], B[old]
    return new_M, new_B
