"""Forgetting, for tastes that change: a part that the linear policies take.

Time is a user's own: the number of lists they had been shown. An impression is learned as of the time it was shown, so
the order in which feedback arrives does not matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali import checks
from thali.kernels import learn, window
from thali.types import Booleans, Floats, Integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.policies.linear import LinearState

#: A window of more would not fit into memory.
MOST_WINDOW = 10**7
#: All that forgetting may keep in a state.
KEPT = ("clock", "when", "kept_gains", "kept_clicks", "block", "sums")


class Reading(NamedTuple):
    """How a list is read: which positions count as examined, σ⁻², and the weight of each position (K,)."""

    rule: int
    precision: float
    positions: Floats


class Forgetting(ABC):
    """How old impressions lose their say."""

    @abstractmethod
    def arrays(self, users: int, K: int, d: int) -> dict[str, NDArray[np.generic]]:
        """What it keeps in a state beside M and B, users first."""

    @abstractmethod
    def learn(self, state: LinearState, gains: Floats, clicks: Booleans, number: Integers, how: Reading) -> None:
        """Learn each user's impression of this number (users,) into M and B, and forget; M⁻¹ is left to the caller."""


class Discount(Forgetting):
    """An impression counts γ^age, age in impressions of the user: M = I + σ⁻²Σ γ^age·xxᵀ, B = Σ γ^age·x·click.

    M and B as in D-LinUCB (Russac et al. 2019). Departs from it in the width, which is that of M⁻¹ here and of M⁻¹M̃M⁻¹
    there, M̃ fading by γ². Memory: 8 bytes a user. It does not know which impressions it has learned: one that comes
    twice counts twice.
    """

    def __init__(self, gamma: float, owner: str) -> None:
        self.gamma = checks.number(f"discount of {owner}", gamma, low=0.0, strict=True, high=1.0)

    def arrays(self, users: int, K: int, d: int) -> dict[str, NDArray[np.generic]]:
        """Clock: how many impressions each user has had."""
        return {"clock": np.zeros(users, dtype=np.int64)}

    def learn(self, state: LinearState, gains: Floats, clicks: Booleans, number: Integers, how: Reading) -> None:
        """All that was learned ages by the impressions since; this one counts by its own age."""
        clock = state.arrays["clock"]
        now = np.maximum(clock, number + 1)
        learn.fade(state.M, state.B, self.gamma ** (now - clock).astype(np.float64))
        age = (now - 1 - number).astype(np.float64)
        learn.accumulate(state.M, state.B, gains, clicks, *how, self.gamma**age)
        clock[:] = now


class Window(Forgetting):
    """Only a user's last W impressions count, which are kept: W·(8Kd + K + 8) + 8·C·(d² + d + 1) bytes, C ≈ √W + 2.

    As in SW-LinUCB (Cheung et al. 2019). For the library: a service would have to store them. An impression of the
    window that comes twice is refused.
    """

    def __init__(self, size: int, owner: str) -> None:
        self.size = checks.integer(f"window of {owner}", size, low=1, high=MOST_WINDOW)

    def arrays(self, users: int, K: int, d: int) -> dict[str, NDArray[np.generic]]:
        """Clock; the window: when, kept_gains and kept_clicks (users, W, ...); and sums over blocks of it."""
        blocks = self.size // window.block_size(self.size) + 2
        return {
            "clock": np.zeros(users, dtype=np.int64),
            "when": np.full((users, self.size), -1, dtype=np.int64),
            "kept_gains": np.zeros((users, self.size, K, d)),
            "kept_clicks": np.zeros((users, self.size, K), dtype=np.bool_),
            "block": np.full((users, blocks), -1, dtype=np.int64),
            "sums": np.zeros((users, blocks, d + 1, d)),
        }

    def learn(self, state: LinearState, gains: Floats, clicks: Booleans, number: Integers, how: Reading) -> None:
        """The new one comes in, and what is older than the window goes out."""
        kept = number >= np.maximum(state.clock, number + 1) - self.size
        twice = np.flatnonzero(kept & (state.when[np.arange(state.users), number % self.size] == number))
        if twice.size:
            user = int(twice[0])
            raise ValueError(f"shown_at must not have been learned before, got {number[user]} again for user {user}")
        kept_here = (state.clock, state.when, state.kept_gains, state.kept_clicks, state.block, state.sums)
        window.slide(state.M, state.B, gains, clicks, *how, number, *kept_here)
