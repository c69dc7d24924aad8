"""CascadeLSB and CascadeKL-UCB in vectorized NumPy, to compare speed with.

They do not define which lists are correct: ``thali/lists/plain.py`` does.
"""

from __future__ import annotations

import numpy as np


class NumpyCascadeLSB:
    """Algorithm 1 for one user, vectorized over items: one BLAS product and one einsum per position."""

    def __init__(self, weights: np.ndarray, K: int, sigma: float, alpha: float) -> None:
        self.weights, self.K, self.sigma, self.alpha = weights, K, sigma, alpha
        d = weights.shape[1]
        self.M, self.B = np.eye(d), np.zeros(d)

    def recommend(self) -> np.ndarray:
        """Return a list: lines 4-11 of Algorithm 1."""
        inverse = np.linalg.inv(self.M)
        theta = self.sigma**-2 * inverse @ self.B
        uncovered = np.ones(self.weights.shape[1])
        chosen: list[int] = []
        for _ in range(self.K):
            X = self.weights * uncovered
            index = X @ theta + self.alpha * np.sqrt(np.einsum("ij,ij->i", X @ inverse, X))
            index[chosen] = -np.inf
            item = int(np.argmax(index))
            chosen.append(item)
            uncovered = uncovered * (1.0 - self.weights[item])
        return np.array(chosen)

    def update(self, items: np.ndarray, clicks: np.ndarray) -> None:
        """Learn from clicks: lines 13-17 of Algorithm 1."""
        uncovered = np.ones(self.weights.shape[1])
        for item, clicked in zip(items, clicks, strict=True):
            x = self.weights[item] * uncovered
            self.M += self.sigma**-2 * np.outer(x, x)
            if clicked:
                self.B += x
                break
            uncovered = uncovered * (1.0 - self.weights[item])


class NumpyCascadeKLUCB:
    """CascadeKL-UCB for one user, vectorized over items. Each step computes the indices of all items by bisection.

    40 halvings of [ŵ, 1] compute each index to within 1e-12, which is as precise as lists need.
    """

    def __init__(self, L: int, K: int, halvings: int = 40) -> None:
        self.K, self.halvings = K, halvings
        self.shown, self.clicked, self.updates = np.zeros(L), np.zeros(L), 0

    def indices(self) -> np.ndarray:
        """Return the index of each item (L,).

        It is the largest q with T·kl(ŵ, q) ≤ log t + 3 log max(1, log t), where t = updates + 1, or 1 if T = 0.
        """
        log_t = np.log(self.updates + 1)
        shown = np.maximum(self.shown, 1)
        p = self.clicked / shown
        r = 1 - p
        with np.errstate(divide="ignore", invalid="ignore"):  # for items that were always clicked, whose index is 1
            least = p * np.log(np.where(p > 0, p, 1.0)) + r * np.log(r) - (log_t + 3 * np.log(max(1.0, log_t))) / shown
            low, width = p.copy(), r.copy()
            for _ in range(self.halvings):
                width *= 0.5
                q = low + width
                low += width * (p * np.log(q) + r * np.log(1 - q) >= least)
        return np.where(self.clicked == self.shown, 1.0, low)

    def recommend(self) -> np.ndarray:
        """Return the K items with the largest indices. Ties go to the item with the lowest number."""
        return np.argsort(-self.indices(), kind="stable")[: self.K]

    def update(self, items: np.ndarray, clicks: np.ndarray) -> None:
        """Count the examined items: those down to the first click."""
        self.updates += 1
        for item, clicked in zip(items, clicks, strict=True):
            self.shown[item] += 1
            if clicked:
                self.clicked[item] += 1
                break
