"""The paper's model and algorithms for one user, in plain NumPy: slow, short, and easy to check by eye.

The fast implementation is tested against this file. Symbols as in the paper: E the items (L), [d] the topics,
c(S) coverage, x = Δ(e|S) gain, A a list of K items, M and B the statistics of Algorithm 1. Items, topics and
positions are 0-based. Every argmax takes the lowest item among equals.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
Kind = Literal["probabilistic", "max"]


def coverage(weights: Floats, chosen: Sequence[int], kind: Kind) -> Floats:
    """c(S), shape (d,), of the distinct items S = `chosen`; c(∅) = 0.

    "probabilistic" is the paper's choice in Section 7.2; "max" is the entry-wise maximum of the example in Section 3.
    """
    if kind == "probabilistic":
        missed = np.ones(weights.shape[1])
        for e in chosen:
            missed = missed * (1.0 - weights[e])
        return 1.0 - missed
    if kind == "max":
        covered = np.zeros(weights.shape[1])
        for e in chosen:
            covered = np.maximum(covered, weights[e])
        return covered
    raise ValueError(f"kind must be 'probabilistic' or 'max', got {kind!r}")


def gain(weights: Floats, item: int, chosen: Sequence[int], kind: Kind) -> Floats:
    """Δ(e|S) = c(S ∪ {e}) - c(S), shape (d,), Section 2.2, for e not in S.

    Written in the algebraically equal forms that round better than a difference of two coverages:
    w_e · Π_{s in S} (1 - w_s) for "probabilistic" and max(0, w_e - c(S)) for "max".
    """
    if kind == "probabilistic":
        missed = np.ones(weights.shape[1])
        for s in chosen:
            missed = missed * (1.0 - weights[s])
        x: Floats = weights[item] * missed
    else:
        x = np.maximum(0.0, weights[item] - coverage(weights, chosen, kind))
    return x


def attraction(weights: Floats, theta: Floats, item: int, above: Sequence[int], kind: Kind) -> float:
    """<Δ(a_k | {a_1..a_{k-1}}), θ>, the attraction probability of Section 2.2, summed in ascending topic order."""
    x = gain(weights, item, above, kind)
    total = 0.0
    for j in range(len(x)):
        total += float(x[j]) * float(theta[j])
    return total


def click_probability(weights: Floats, theta: Floats, items: Sequence[int], kind: Kind) -> float:
    """f(A, θ) of Section 3.1: the chance of at least one click in the diverse cascade model."""
    no_click = 1.0
    for k, item in enumerate(items):
        no_click *= 1.0 - attraction(weights, theta, item, items[:k], kind)
    return 1.0 - no_click


def greedy_list(weights: Floats, theta: Floats, K: int, kind: Kind) -> list[int]:
    """The greedy list of Section 3.2: position by position, the item of largest attraction given the items above."""
    chosen: list[int] = []
    for _ in range(K):
        left = [e for e in range(len(weights)) if e not in chosen]  # ascends; max keeps the first of equals
        chosen.append(max(left, key=lambda e: attraction(weights, theta, e, chosen, kind)))
    return chosen


def best_list(weights: Floats, theta: Floats, K: int, kind: Kind) -> tuple[list[int], float]:
    """A* of Section 3.2 and f(A*, θ), over all K-permutations. Ties go to the lexicographically first."""

    def value(items: Sequence[int]) -> float:
        return click_probability(weights, theta, items, kind)

    best = max(itertools.permutations(range(len(weights)), K), key=value)
    return list(best), value(best)


def index(x: Floats, theta_bar: Floats, M_inverse: Floats, alpha: float) -> float:
    """The bracket of line 9: xᵀθ̄ + α sqrt(max(0, xᵀ M⁻¹ x)), over the nonzero x in ascending topic order."""
    topics = [j for j in range(len(x)) if x[j] != 0]
    mean, square = 0.0, 0.0
    for i in topics:
        mean += float(x[i]) * float(theta_bar[i])
        row = 0.0
        for j in topics:
            row += float(M_inverse[i, j]) * float(x[j])
        square += float(x[i]) * row
    return mean + alpha * math.sqrt(max(0.0, square))


class PlainLinear:
    """Algorithm 1 (CascadeLSB) with the two switches that turn it into the linear baselines of the paper.

    weights (L, d), K items per list, sigma and alpha of line 1 (alpha: a number, or a function of M that returns one).
    features: "gains" is x = Δ(e|S), "items" is x = Δ(e|∅). examined: the positions learned from, up to and
    including the first or the last click (all K if no click), or "all". cap: upper limit of line 9's index.
    """

    def __init__(
        self,
        weights: Floats,
        K: int,
        *,
        sigma: float,
        alpha: float | Callable[[Floats], float],
        features: Literal["gains", "items"] = "gains",
        examined: Literal["first-click", "all", "last-click"] = "first-click",
        kind: Kind = "probabilistic",
        cap: float = math.inf,
    ) -> None:
        if features not in ("gains", "items") or examined not in ("first-click", "all", "last-click"):
            raise ValueError(f"unknown features {features!r} or examined {examined!r}")
        self.weights, self.K, self.sigma, self.alpha = weights, K, sigma, alpha
        self.features, self.examined, self.kind, self.cap = features, examined, kind, cap
        self.M, self.B = np.eye(weights.shape[1]), np.zeros(weights.shape[1])  # line 2

    def feature(self, item: int, above: Sequence[int]) -> Floats:
        """x_e of lines 8 and 15."""
        return gain(self.weights, item, above if self.features == "gains" else [], self.kind)

    def estimate(self) -> Floats:
        """θ̄ = σ⁻² M⁻¹ B, line 4."""
        return self.sigma**-2 * np.linalg.solve(self.M, self.B)

    def recommend(self, estimate: Floats | None = None, inverse: Floats | None = None) -> list[int]:
        """Lines 4-11. `estimate` and `inverse` replace θ̄ and M⁻¹ if given."""
        theta_bar = self.estimate() if estimate is None else estimate
        M_inverse = np.linalg.inv(self.M) if inverse is None else inverse
        alpha = self.alpha(self.M) if callable(self.alpha) else self.alpha
        chosen: list[int] = []

        def bound(item: int) -> float:
            return min(self.cap, index(self.feature(item, chosen), theta_bar, M_inverse, alpha))

        for _ in range(self.K):
            left = [e for e in range(len(self.weights)) if e not in chosen]
            chosen.append(max(left, key=bound))  # the first of equals, hence the lowest item
        return chosen

    def update(self, items: Sequence[int], clicks: Sequence[bool] | NDArray[np.bool_]) -> None:
        """Lines 13-17, from the examined positions; clicks below the last of them do not count."""
        clicked = [k for k in range(len(items)) if clicks[k]]
        depth = len(items)
        if clicked and self.examined == "first-click":
            depth = clicked[0] + 1
        if clicked and self.examined == "last-click":
            depth = clicked[-1] + 1
        for k in range(depth):
            x = self.feature(items[k], items[:k])
            self.M = self.M + self.sigma**-2 * np.outer(x, x)
            self.B = self.B + x * float(clicks[k])


def kl(p: float, q: float) -> float:
    """Bernoulli divergence KL(p || q), with 0 log(0/q) = 0, and p log(p/0) = ∞ for p > 0."""
    total = 0.0
    for a, b in ((p, q), (1.0 - p, 1.0 - q)):
        if a > 0:
            total += a * math.log(a / b) if b > 0 else math.inf
    return total


def kl_ucb(p: float, count: int, budget: float) -> float:
    """The largest q in [p, 1] with count · KL(p || q) <= budget, by bisection down to neighbouring floats."""
    if count == 0 or count * kl(p, 1.0) <= budget:
        return 1.0
    if budget <= 0:
        return p  # exact; near q = p the rounding of kl would let the bisection drift up by about 1e-8
    low, high = p, 1.0
    while low < (middle := (low + high) / 2) < high:
        if count * kl(p, middle) <= budget:
            low = middle
        else:
            high = middle
    return low


class PlainKLUCB:
    """CascadeKL-UCB (Kveton et al. 2015): counts how often each of L items was examined, and clicked."""

    def __init__(self, L: int, K: int) -> None:
        self.K, self.updates = K, 0
        self.counts, self.clicks = [0] * L, [0] * L

    def indices(self) -> Floats:
        """(L,) kl_ucb(clicks/count, count, log t + 3 log max(1, log t)), t = updates + 1; 1 where unseen."""
        log_t = math.log(self.updates + 1)
        budget = log_t + 3 * math.log(max(1.0, log_t))
        bounds = np.ones(len(self.counts))
        for e in range(len(bounds)):
            if self.counts[e] > 0:
                bounds[e] = kl_ucb(self.clicks[e] / self.counts[e], self.counts[e], budget)
        return bounds

    def recommend(self) -> list[int]:
        """The K items of largest index, largest first, ties to the lowest item."""
        bounds = self.indices()
        return sorted(range(len(bounds)), key=lambda e: (-bounds[e], e))[: self.K]

    def update(self, items: Sequence[int], clicks: Sequence[bool] | NDArray[np.bool_]) -> None:
        """Count each item down to and including the first click, all of them if there is none."""
        self.updates += 1
        for k in range(len(items)):
            self.counts[items[k]] += 1
            if clicks[k]:
                self.clicks[items[k]] += 1
                break
