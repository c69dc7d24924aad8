"""Forgetting, for tastes that change: an option of linear policies, either a discount or a sliding window.

Time is counted for each user, as the number of lists they have been shown. An impression is learned as of the time when
it was shown, so the order in which feedback arrives does not matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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


class Reading(NamedTuple):
    """How clicks on a list are read: which positions count as examined, σ⁻², and the weight of each position (K,)."""

    rule: int
    precision: float
    positions: Floats


class Forgetting(ABC):
    """A way in which old impressions lose their weight."""

    @abstractmethod
    def arrays(self, users: int, K: int, d: int) -> dict[str, NDArray[np.generic]]:
        """Return the arrays that it keeps in a state beside M and B, users first."""

    @abstractmethod
    def learn(self, state: LinearState, gains: Floats, clicks: Booleans, number: Integers, how: Reading) -> None:
        """Add each user's impression of this number (users,) to M and B, and forget. The caller updates M⁻¹."""


class Discount(Forgetting):
    """An impression counts γ^age, age in impressions of the user: M = I + σ⁻²Σ γ^age·xxᵀ, B = Σ γ^age·x·click.

    M and B are those of D-LinUCB (Russac et al. 2019). Departs from it in the width, which uses M⁻¹ here and M⁻¹M̃M⁻¹
    there, where M̃ fades by γ². Memory: 8 bytes for each user. It does not record which impressions it has learned, so
    an impression that is learned twice counts twice.
    """

    def __init__(self, gamma: float, owner: str) -> None:
        self.gamma = checks.number(f"discount of {owner}", gamma, low=0.0, strict=True, high=1.0)

    def arrays(self, users: int, K: int, d: int) -> dict[str, NDArray[np.generic]]:
        """Return clock (users,), the number of impressions of each user."""
        return {"clock": np.zeros(users, dtype=np.int64)}

    def learn(self, state: LinearState, gains: Floats, clicks: Booleans, number: Integers, how: Reading) -> None:
        """Discount what was learned by the impressions since, then add these impressions, discounted by their age."""
        clock = state.arrays["clock"]
        now = np.maximum(clock, number + 1)
        discount(state.M, state.B, self.gamma ** (now - clock).astype(np.float64))
        age = (now - 1 - number).astype(np.float64)
        accumulate(state.M, state.B, gains, clicks, *how, self.gamma**age)
        clock[:] = now


class Window(Forgetting):
    """Only the last W impressions of a user count. They are kept in the state.

    As in SW-LinUCB (Cheung et al. 2019). Memory for each user: W·(8Kd + K + 8) + 8·C·(d² + d + 1) bytes, C ≈ √W + 2.
    Only for the library, because a service would have to store all of this. Learning an impression of the window twice
    is an error.
    """

    def __init__(self, size: int, owner: str) -> None:
        self.size = checks.integer(f"window of {owner}", size, low=1, high=MOST_WINDOW)

    def arrays(self, users: int, K: int, d: int) -> dict[str, NDArray[np.generic]]:
        """Return clock, the impressions in the window (when, kept_gains, kept_clicks), and sums over blocks of them."""
        blocks = self.size // block_size(self.size) + 2
        return {
            "clock": np.zeros(users, dtype=np.int64),
            "when": np.full((users, self.size), -1, dtype=np.int64),
            "kept_gains": np.zeros((users, self.size, K, d)),
            "kept_clicks": np.zeros((users, self.size, K), dtype=np.bool_),
            "block": np.full((users, blocks), -1, dtype=np.int64),
            "sums": np.zeros((users, blocks, d + 1, d)),
        }

    def learn(self, state: LinearState, gains: Floats, clicks: Booleans, number: Integers, how: Reading) -> None:
        """Add the new impression, and drop those that have left the window."""
        kept = number >= np.maximum(state.clock, number + 1) - self.size
        twice = np.flatnonzero(kept & (state.when[np.arange(state.users), number % self.size] == number))
        if twice.size:
            user = int(twice[0])
            raise ValueError(f"shown_at must not have been learned before, got {number[user]} again for user {user}")
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
    """Learn impression number[u] of each user: M and B become those of Algorithm 1 over the last W = when.shape[1]
    impressions.

    clock (users,): the number of impressions so far. when (users, W): the number of the impression in each slot, -1 if
    none; impression n is kept in slot n mod W. Impressions from before the window are not learned.

    Subtracting what leaves the window would leave rounding errors behind, so M and B are summed again: from the sums
    over blocks of about √W consecutive impressions, and from the single impressions of the one block that lies only
    partly in the window. sums (users, C, d + 1, d) holds M's part of each block and, in the last row, B's. block
    (users, C) says which block each entry belongs to.

    Cost for each user: O(C·d²), and O(K·(d + s²)) for each impression of the partial block. As C is about √W, this is
    far less than for all W.
    """
    users, W = when.shape
    C, d = block.shape[1], B.shape[1]
    size = block_size(W)
    support = np.empty(d, dtype=np.int64)
    for user in range(users):
        n, own_M, own_B, own_sums = number[user], M[user], B[user], sums[user]
        now = max(clock[user], n + 1)
        clock[user] = now
        first = max(0, now - W)  # the oldest number in the window
        if n >= first:
            when[user, n % W] = n
            kept_gains[user, n % W] = gains[user]
            kept_clicks[user, n % W] = clicks[user]
            slot = (n // size) % C
            if block[user, slot] != n // size:
                block[user, slot] = n // size
                own_sums[slot] = 0.0
            count = examined(clicks[user], rule)
            part_M, part_B = own_sums[slot, :d], own_sums[slot, d]
            add(part_M, part_B, gains[user], clicks[user], count, precision, positions, 1.0, support)
        own_M[:] = np.eye(d)
        own_B[:] = 0.0
        whole = (first + size - 1) // size  # the first block that lies wholly in the window
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
