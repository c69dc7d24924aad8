"""CascadeLSB as a textbook would write it in NumPy: the yardstick of our speed."""

from __future__ import annotations

import numpy as np


class TextbookCascadeLSB:
    """Algorithm 1 for one user, vectorised over items: one BLAS product and one einsum a position."""

    def __init__(self, weights: np.ndarray, K: int, sigma: float, alpha: float) -> None:
        self.weights, self.K, self.sigma, self.alpha = weights, K, sigma, alpha
        d = weights.shape[1]
        self.M, self.B = np.eye(d), np.zeros(d)

    def recommend(self) -> np.ndarray:
        """Lines 4-11."""
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
        """Lines 13-17."""
        uncovered = np.ones(self.weights.shape[1])
        for item, clicked in zip(items, clicks, strict=True):
            x = self.weights[item] * uncovered
            self.M += self.sigma**-2 * np.outer(x, x)
            if clicked:
                self.B += x
                break
            uncovered = uncovered * (1.0 - self.weights[item])
