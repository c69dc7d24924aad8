"""What a linear policy has learned: M and B, and what is computed from them."""

from __future__ import annotations

from copy import copy
from time import perf_counter
from typing import Any, Self

import numpy as np

from thali.policies.linear import batches, posterior
from thali.policies.linear.forgetting import KEPT
from thali.policies.state import State
from thali.tools.types import Floats, Integers

ALL_USERS = slice(None)
# With at most this many topics, the plain code is as fast for one user as the code for batches (docs/first-use.md).
FEW_TOPICS = 18


class LinearState(State):
    """The state of a linear policy: M (users, d, d), B (users, d), updates (users,), and the arrays for forgetting.

    It also has inverse = M⁻¹, solution = M⁻¹B (so θ̄ = σ⁻²·solution) and logdet = log det M. These are computed from M
    and B alone. They are not saved, but they are the same, bit for bit, when a state is loaded.
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
        self.inverse: Floats = np.empty_like(M)
        self.solution: Floats = np.empty_like(B)
        self.logdet: Floats = np.empty(users)
        self.refresh()

    def of(self, M: Floats, B: Floats, updates: Integers) -> Self:
        """Return a state of the same policy with these statistics, which are neither copied nor checked."""
        other = copy(self)
        other.__dict__["arrays"] = {**self.arrays, "M": M, "B": B, "updates": updates}
        other.inverse, other.solution, other.logdet = np.empty_like(M), np.empty_like(B), np.empty(len(B))
        other.refresh()
        return other

    def refresh(self, users: slice = ALL_USERS) -> None:
        """Recompute inverse, solution and logdet. Call this after you write to M or B. Cost: O(d³) for each user."""
        M, B = self.arrays["M"], self.arrays["B"]  # attribute access would take longer than the computation itself
        arrays = M[users], B[users], self.inverse[users], self.solution[users], self.logdet[users]
        count, d = arrays[1].shape
        if count == 1 and d <= FEW_TOPICS:
            posterior.refresh(*arrays)
        elif batches.CODE.ready():
            batches.refresh(*arrays)
        else:
            begin = perf_counter()
            posterior.refresh(*arrays)
            batches.CODE.plain_took(perf_counter() - begin)

    def check(self) -> None:
        """Raise an error unless M is symmetric with eigenvalues ≥ 1, B is finite, and updates and clock are ≥ 0."""
        for name, array in self.arrays.items():
            if not np.isfinite(array).all() or (name in ("updates", "clock") and (array < 0).any()):
                raise ValueError(f"{name} must be finite, and updates and clock must not be negative")
        eigenvalues = np.linalg.eigvalsh(self.M)
        if (self.M.transpose(0, 2, 1) != self.M).any() or (eigenvalues[:, 0] < 1 - 1e-9 * eigenvalues[:, -1]).any():
            raise ValueError("M must be symmetric, and none of its eigenvalues may be below 1")
