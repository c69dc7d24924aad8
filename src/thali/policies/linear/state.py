"""What a linear policy has learned: M and B, and the posterior that is computed from them and a prior."""

from __future__ import annotations

from time import perf_counter
from typing import Any, Self

import numpy as np

from thali.policies.linear import batches, posterior
from thali.policies.linear.forgetting import KEPT
from thali.policies.linear.posterior import Posterior, Reading
from thali.policies.state import State
from thali.tools.types import Floats, Integers

ALL_USERS = slice(None)
# With at most this many topics, the plain code is as fast for one user as the code for batches (docs/first-use.md).
FEW_TOPICS = 18


class LinearState(State):
    """The state of a linear policy: M (users, d, d), B (users, d), updates (users,), and the arrays for forgetting.

    M = I + σ⁻²Σxxᵀ and B = Σx·click, whatever the prior of the policy is: the I is part of the format. So a policy with
    another prior can use the same state. A policy with another σ can use it too, because ``settings`` contain the σ of
    M. The posterior belongs to a state and a prior (:meth:`posterior`). It is computed from M and B alone. It is not
    saved, but it is the same, bit for bit, when a state is loaded.
    """

    family = "linear"

    def __init__(
        self, learner: str, settings: dict[str, Any], /, M: Floats, B: Floats, updates: Integers, **more: Any
    ) -> None:
        super().__init__(learner, settings, M=M, B=B, updates=updates, **more)
        if not set(more) <= set(KEPT):
            raise ValueError(
                f"arrays other than M, B and updates must be among {', '.join(KEPT)}, got {', '.join(more)}"
            )
        users, d = B.shape
        if M.shape != (users, d, d) or updates.shape != (users,) or not M.dtype == B.dtype == np.float64:
            raise ValueError(
                f"M (users, d, d), B (users, d) and updates (users,) must have matching shapes, and M and B must be "
                f"float64, got {M.dtype} {M.shape}, {B.dtype} {B.shape} and {updates.shape}"
            )
        # The last posterior that was needed, and the reading for which it was computed.
        self._read: tuple[Reading, Posterior] | None = None

    def of(self, M: Floats, B: Floats, updates: Integers) -> Self:
        """Return a state of the same policy with these statistics, which are neither copied nor checked."""
        other = type(self).__new__(type(self))  # copy.copy takes five times as long
        other.__dict__.update(self.__dict__, arrays={**self.arrays, "M": M, "B": B, "updates": updates}, _read=None)
        return other

    def posterior(self, reading: Reading) -> Posterior:
        """Return the posterior for a prior and a σ. Do not change its arrays: :meth:`refresh` updates them in place.

        Cost: O(d³) for each user, or nothing if the last call had the same reading.
        """
        read = self._read  # another thread with another prior may replace it
        if read is None or read[0] is not reading:
            read = self._read = reading, compute(self.arrays["M"], self.arrays["B"], reading)
        return read[1]

    def refresh(self, users: slice = ALL_USERS) -> None:
        """Recompute the posterior, if there is one. Call this after you write to M or B. Cost: O(d³) for each user."""
        if self._read is not None:
            M, B = self.arrays["M"], self.arrays["B"]  # attribute access would take longer than the computation itself
            reading, (inverse, solution, logdet) = self._read
            compute(M[users], B[users], reading, Posterior(inverse[users], solution[users], logdet[users]))

    def check(self) -> None:
        """Raise an error unless M is symmetric with eigenvalues ≥ 1, B is finite, and updates and clock are ≥ 0."""
        for name, array in self.arrays.items():
            if not np.isfinite(array).all() or (name in ("updates", "clock") and (array < 0).any()):
                raise ValueError(f"{name} must be finite, and updates and clock must not be negative")
        eigenvalues = np.linalg.eigvalsh(self.M)
        if (self.M.transpose(0, 2, 1) != self.M).any() or (eigenvalues[:, 0] < 1 - 1e-9 * eigenvalues[:, -1]).any():
            raise ValueError("M must be symmetric, and none of its eigenvalues may be below 1")


def compute(M: Floats, B: Floats, reading: Reading, out: Posterior | None = None) -> Posterior:
    """Compute the posterior of M (users, d, d) and B (users, d), and return it in these arrays or in new ones."""
    count, d = B.shape
    if out is None:
        out = Posterior(np.empty_like(M), np.empty_like(B), np.empty(count))
    if count == 1 and d <= FEW_TOPICS:
        posterior.refresh(M, B, reading, *out)
    elif batches.CODE.ready():
        batches.refresh(M, B, reading, *out)
    else:
        begin = perf_counter()
        posterior.refresh(M, B, reading, *out)
        batches.CODE.plain_took(perf_counter() - begin)
    return out
