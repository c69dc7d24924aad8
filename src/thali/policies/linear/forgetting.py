"""Forgetting, for preferences that change. It is an option of linear policies: either a discount or a sliding window.

Time is measured separately for each user, as the number of lists that the user has been shown. An impression counts
from the time when it was shown, not when its feedback arrives. So the order in which feedback arrives does not matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.policies.examined import examined
from thali.policies.linear.learning import accumulate, add, discount
from thali.tools import checks
from thali.tools.jit import kernel
from thali.tools.types import Booleans, Floats, Integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.policies.linear.state import LinearState

#: The largest window; a larger one would not fit into memory.
MOST_WINDOW = 10**7
#: The names of all arrays that forgetting may keep in a state.
KEPT = ("clock", "when", "kept_gains", "kept_clicks", "block", "sums")


class ClickReading(NamedTuple):
    """How a policy interprets clicks: which positions count as examined, σ⁻², and the weight of each position (K,)."""

    rule: int
    precision: float
    positions: Floats


class Forgetting(ABC):
    """A way to make old impressions count less."""

    memory: float
    """About how many impressions count."""

    @abstractmethod
    def arrays(self, users: int, K: int, d: int) -> dict[str, NDArray[np.generic]]:
        """Return the arrays that a state needs in addition to M and B. Their first axis is users."""

    @abstractmethod
    def learn(self, state: LinearState, gains: Floats, clicks: Booleans, number: Integers, how: ClickReading) -> None:
        """Add one impression of each user to M and B, and make older impressions count less.

        number (users,): the number of each user's impression. The caller then updates M⁻¹.
        """


class Discount(Forgetting):
    """An impression counts γ^age, where age is the number of the user's impressions since then.

    So M = I + σ⁻²Σ γ^age·xxᵀ and B = Σ γ^age·x·click, as in D-LinUCB (Russac et al. 2019). The width of the intervals
    is different: it is computed from M⁻¹ here, and from M⁻¹M̃M⁻¹ in D-LinUCB, where M̃ is discounted by γ² instead of γ.
    Memory: 8 bytes for each user. The policy does not record which impressions it has learned, so an impression that is
    learned twice counts twice.
    """

    def __init__(self, gamma: float, owner: str) -> None:
        self.gamma = checks.number(f"discount of {owner}", gamma, low=0.0, strict=True, high=1.0)
        self.memory = inf if self.gamma == 1.0 else 1.0 / (1.0 - self.gamma)

    def arrays(self, users: int, K: int, d: int) -> dict[str, NDArray[np.generic]]:
        """Return the array clock (users,), the number of impressions of each user."""
        return {"clock": np.zeros(users, dtype=np.int64)}

    def learn(self, state: LinearState, gains: Floats, clicks: Booleans, number: Integers, how: ClickReading) -> None:
        """Discount what was learned, once for each impression since. Then add the new ones, discounted by their age."""
        clock = state.arrays["clock"]
        now = np.maximum(clock, number + 1)
        discount(state.M, state.B, self.gamma ** (now - clock).astype(np.float64))
        age = (now - 1 - number).astype(np.float64)
        accumulate(state.M, state.B, gains, clicks, *how, self.gamma**age)
        clock[:] = now


class Window(Forgetting):
    """Only the last W impressions of each user count, as in SW-LinUCB (Cheung et al. 2019). The state stores them.

    Memory for each user: W·(8Kd + K + 8) + 8·C·(d² + d + 1) bytes, where C ≈ √W + 2. The service does not support a
    window, because it would have to store all of this. It is an error to learn an impression in the window twice.
    """

    def __init__(self, size: int, owner: str) -> None:
        self.size = checks.integer(f"window of {owner}", size, low=1, high=MOST_WINDOW)
        self.memory = float(self.size)

    def arrays(self, users: int, K: int, d: int) -> dict[str, NDArray[np.generic]]:
        """Return the arrays of a window: clock, the impressions in the window (when, kept_gains, kept_clicks), and sums
        over blocks of impressions (block, sums).
        """
        blocks = self.size // block_size(self.size) + 2
        return {
            "clock": np.zeros(users, dtype=np.int64),
            "when": np.full((users, self.size), -1, dtype=np.int64),
            "kept_gains": np.zeros((users, self.size, K, d)),
            "kept_clicks": np.zeros((users, self.size, K), dtype=np.bool_),
            "block": np.full((users, blocks), -1, dtype=np.int64),
            "sums": np.zeros((users, blocks, d + 1, d)),
        }

    def learn(self, state: LinearState, gains: Floats, clicks: Booleans, number: Integers, how: ClickReading) -> None:
        """Add the new impressions, and drop those that have left the window."""
        kept = number >= np.maximum(state.clock, number + 1) - self.size
        twice = np.flatnonzero(kept & (state.when[np.arange(state.users), number % self.size] == number))
        if twice.size:
            user = int(twice[0])
            raise ValueError(
                "shown_at must be the number of an impression that the policy has not learned from yet, "
                f"got {number[user]} again for user {user}"
            )
        kept_here = (state.clock, state.when, state.kept_gains, state.kept_clicks, state.block, state.sums)
        slide(state.M, state.B, gains, clicks, *how, number, *kept_here)


@kernel
def slide(
    M: Floats,
    B: Floats,
    gains: Floats,
    clicks: Booleans,
    rule: int,
    precision: float,
    positions: Floats,
    number: Integers,
    clock: Integers,
    when: Integers,
    kept_gains: Floats,
    kept_clicks: Booleans,
    block: Integers,
    sums: Floats,
) -> None:
    """Learn impression number[u] of each user u. Then M and B are those of Algorithm 1 over the user's last W
    impressions, where W = when.shape[1].

    clock (users,): the number of impressions so far. when (users, W): the number of the impression in each slot, or -1
    if the slot is empty. Impression n is stored in slot n mod W. Impressions older than the window are not learned.

    Subtracting the impressions that leave the window would leave rounding errors behind. So M and B are summed again
    for each update. Impressions are grouped into blocks of about √W consecutive ones, and the sum over each block is
    stored. Only one block can lie partly in the window; its impressions are added one by one. sums (users, C, d + 1, d)
    contains the sum of each block for M and, in the last row, for B. block (users, C): the number of the block in each
    entry of sums.

    Cost for each user: O(C·d²), and O(K·(d + s²)) for each impression of the partial block. Because C is about √W, this
    is far less than a sum over all W impressions.
    """
    users, W = when.shape
    C, d, K = block.shape[1], B.shape[1], clicks.shape[1]
    size = block_size(W)
    support = np.empty(d, dtype=np.int64)
    for user in range(users):
        n, own_M, own_B, own_sums = number[user], M[user], B[user], sums[user]
        now = max(clock[user], n + 1)
        clock[user] = now
        first = max(0, now - W)  # the oldest number in the window
        if n >= first:
            when[user, n % W] = n
            for k in range(K):  # Numba takes seconds to compile the assignment of a whole array
                kept_clicks[user, n % W, k] = clicks[user, k]
                for j in range(d):
                    kept_gains[user, n % W, k, j] = gains[user, k, j]
            slot = (n // size) % C
            if block[user, slot] != n // size:
                block[user, slot] = n // size
                for i in range(d + 1):
                    for j in range(d):
                        own_sums[slot, i, j] = 0.0
            count = examined(clicks[user], rule)
            part_M, part_B = own_sums[slot, :d], own_sums[slot, d]
            add(part_M, part_B, gains[user], clicks[user], count, precision, positions, 1.0, support)
        for i in range(d):
            own_B[i] = 0.0
            for j in range(d):
                own_M[i, j] = 1.0 if i == j else 0.0
        whole = (first + size - 1) // size  # the first block that lies completely in the window
        for old in range(first, whole * size):
            if when[user, old % W] == old:
                seen = kept_clicks[user, old % W]
                count = examined(seen, rule)
                add(own_M, own_B, kept_gains[user, old % W], seen, count, precision, positions, 1.0, support)
        for q in range(whole, (now - 1) // size + 1):
            if block[user, q % C] == q:
                for i in range(d):
                    own_B[i] += own_sums[q % C, d, i]
                    for j in range(d):
                        own_M[i, j] += own_sums[q % C, i, j]


@kernel
def block_size(W: int) -> int:
    """Return the number of impressions in a block, about √W."""
    return max(1, int(np.sqrt(W)))
