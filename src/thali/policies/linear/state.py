"""What a linear policy has learned: M and B, and what is derived from them."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np

from thali.policies.linear import posterior
from thali.policies.linear.forgetting import KEPT
from thali.policies.state import State
from thali.tools.types import Floats, Integers

EVERYONE = slice(None)


class LinearState(State):
    """M (users, d, d), B (users, d), updates (users,), the arrays that forgetting needs, and what is derived from them.

    inverse = M⁻¹, solution = M⁻¹B (so θ̄ = σ⁻²·solution) and logdet = log det M are functions of M and B alone. They are
    not saved, but a loaded state has the same ones to the last bit.
    """

    family = "linear"

    def __init__(
        self, learner: str, settings: dict[str, Any], /, M: Floats, B: Floats, updates: Integers, **more: Any
    ) -> None:
        super().__init__(learner, settings, M=M, B=B, updates=updates, **more)
        if not set(more) <= set(KEPT):
            raise ValueError(f"arrays beside M, B and updates must be among {', '.join(KEPT)}, got {', '.join(more)}")
        users, d = B.shape
        if M.shape != (users, d, d) or updates.shape != (users,) or not M.dtype == B.dtype == np.float64:
            raise ValueError(f"M, B and updates must fit, M and B as floats: {M.shape}, {B.shape}, {updates.shape}")
        self.inverse: Floats = np.empty_like(M)
        self.solution: Floats = np.empty_like(B)
        self.logdet: Floats = np.empty(users)
        self.refresh()

    def of(self, M: Floats, B: Floats, updates: Integers) -> Self:
        """Return a state of the same learner with these statistics, which are neither copied nor checked."""
        other = copy(self)
        other.__dict__["arrays"] = {**self.arrays, "M": M, "B": B, "updates": updates}
        other.inverse, other.solution, other.logdet = np.empty_like(M), np.empty_like(B), np.empty(len(B))
        other.refresh()
        return other

    def refresh(self, users: slice = EVERYONE) -> None:
        """Recompute what is derived from M and B. Call it after writing to them yourself. Cost: O(d³) for each user."""
        M, B = self.arrays["M"], self.arrays["B"]  # attribute access would cost more than the step itself
        posterior.refresh(M[users], B[users], self.inverse[users], self.solution[users], self.logdet[users])

    def check(self) -> None:
        """Raise an error unless M is symmetric with eigenvalues ≥ 1, B is finite, and updates and clock are ≥ 0."""
        for name, array in self.arrays.items():
            if not np.isfinite(array).all() or (name in ("updates", "clock") and (array < 0).any()):
                raise ValueError(f"{name} must be finite, and updates and clock counts")
        eigenvalues = np.linalg.eigvalsh(self.M)
        if (self.M.transpose(0, 2, 1) != self.M).any() or (eigenvalues[:, 0] < 1 - 1e-9 * eigenvalues[:, -1]).any():
            raise ValueError("M must be symmetric, the identity and more")
