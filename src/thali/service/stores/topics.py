"""Sets of topics over time: convert statistics and gains from older topics to the current ones, by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thali.service.stores.records import Statistics, Unusable, unpack
from thali.tools.types import Floats, Integers


class Topics:
    """All sets of topics of a store (the last one is current), and the current position of each topic."""

    def __init__(self, sets: Sequence[Sequence[str]]) -> None:
        self.sets = [list(names) for names in sets]
        self.now = len(self.sets) - 1
        self.d = len(self.sets[self.now])
        self._places: dict[int, Integers] = {}

    def place(self, number: int) -> Integers:
        """The current position of each topic of a set, -1 if it was dropped at any time since."""
        if number not in self._places:
            if not 0 <= number <= self.now:
                raise Unusable("this was written with a newer catalog's topics: start again with that one")
            self._places[number] = place(self.sets[number], *self.sets[number + 1 :])
        return self._places[number]

    def read(self, kept: Statistics) -> tuple[Floats, Floats]:
        """M (d, d) and B (d,) over the current topics."""
        at = self.place(kept.topics)
        M, B = unpack(kept.numbers, at.size)
        return (M, B) if kept.topics == self.now else moved(M, B, at, self.d)


def place(names: Sequence[str], *later: Sequence[str]) -> Integers:
    """The position of each name in the last of the later sets, -1 if it is missing in any of them."""
    kept = set(names).intersection(*later)
    at = {name: j for j, name in enumerate((names, *later)[-1]) if name in kept}
    return np.array([at.get(name, -1) for name in names], dtype=np.int64)


def moved(M: Floats, B: Floats, at: Integers, d: int) -> tuple[Floats, Floats]:
    """Move statistics to d topics: old topic i goes to position at[i] (-1: dropped). New topics start blank.

    The x of a dropped topic enters no other entry of M and B, so the rest is what would have been learned without it.
    """
    old = np.flatnonzero(at >= 0)
    new = at[old]
    new_M, new_B = np.eye(d), np.zeros(d)
    new_M[np.ix_(new, new)], new_B[new] = M[np.ix_(old, old)], B[old]
    return new_M, new_B
