"""Topic coverage c(S) and the gain Δ(e|S) = c(S ∪ {e}) - c(S) of an item (Section 2.2): formulas and kernels.

``"probabilistic"`` is c_j(S) = 1 - Π_{e∈S} (1 - w̄(e,j)), the paper's choice (Section 7.2, "Baselines and Topic
Coverage"). ``"max"`` is c_j(S) = max_{e∈S} w̄(e,j), its example in Section 3. Both are compiled: kernels keep one float
for each topic, its *state*, from which the gain follows. Any other coverage is an object with the method of
:class:`Coverage`.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from thali.catalog.items import Items
from thali.tools.jit import inlined, kernel
from thali.tools.types import Floats, Integers

# The kinds that kernels support. FIXED stands for features that coverage does not change: Δ(e|∅) = w̄(e,·) everywhere.
PROBABILISTIC, MAX, FIXED = 0, 1, 2
KINDS = {"probabilistic": PROBABILISTIC, "max": MAX}
ROUNDING = 1e-9


@inlined
def empty(kind: int) -> float:
    """Return the state of an uncovered topic: 1 - c_j(∅) = 1 for probabilistic coverage, c_j(∅) = 0 for max."""
    return 1.0 if kind == PROBABILISTIC else 0.0


@inlined
def gain(kind: int, weight: float, state: float) -> float:
    """Return Δ_j(e|S), given the weight w̄(e,j): w̄·(1 - c_j(S)) for probabilistic coverage, (w̄ - c_j(S))⁺ for max."""
    if kind == PROBABILISTIC:
        return weight * state
    if kind == MAX:
        return max(0.0, weight - state)
    return weight


@inlined
def cover(kind: int, weight: float, state: float) -> float:
    """Return the state of a topic once an item of weight w̄(e,j) is added: 1 - c_j(S ∪ {e}), or c_j(S ∪ {e}) for max."""
    if kind == PROBABILISTIC:
        return state * (1.0 - weight)
    if kind == MAX:
        return max(weight, state)
    return state


@kernel
def list_gains(kind: int, items: Items, lists: Integers, out: Floats) -> None:
    """Write Δ(a_k | a_1..a_{k-1}) of every position to out (users, K, d). Cost: O(K·s) a user, plus clearing out."""
    users, K = lists.shape
    d = out.shape[2]
    state = np.empty(d)
    out[:] = 0.0
    for user in range(users):
        state[:] = empty(kind)
        for k in range(K):
            item = lists[user, k]
            for a in range(items.begin[item], items.end[item]):
                j = items.topics[a]
                out[user, k, j] = gain(kind, items.weights[a], state[j])
                state[j] = cover(kind, items.weights[a], state[j])


@runtime_checkable
class Coverage(Protocol):
    """A coverage of your own: any set function that is monotone and submodular in each topic.

    It may also have a method ``gains(items, weights, catalog_weights)`` that returns Δ(e|S) for all items as (L, d):
    the same values as from ``coverage``, but in one call instead of L.
    """

    def coverage(self, items: Integers, weights: Floats) -> Floats:
        """Return c(S) as (d,), in [0, 1], 0 for the empty set. items (n,) are S; weights (n, d) their rows of w̄."""
        ...


def resolve(coverage: Any, d: int) -> tuple[int, Coverage | None]:
    """Return the kind of a compiled coverage and None, or FIXED and the coverage object."""
    if isinstance(coverage, str) and coverage in KINDS:
        return KINDS[coverage], None
    if not isinstance(coverage, Coverage) or isinstance(coverage, type):
        raise ValueError(
            f"coverage of Catalog must be 'probabilistic', 'max' or an object with a method "
            f"coverage(items, weights), got {coverage!r}"
        )
    empty = custom_coverage(coverage, np.empty(0, dtype=np.int64), np.empty((0, d)))
    if empty.any():
        raise ValueError(f"{_name(coverage)} must be 0 for the empty set, got {empty.tolist()}")
    return FIXED, coverage


def custom_coverage(coverage: Coverage, items: Integers, weights: Floats) -> Floats:
    """Return c(S) as computed by a coverage object, checked."""
    value = np.array(coverage.coverage(items, weights), dtype=np.float64)
    if value.shape != (weights.shape[1],):
        raise ValueError(f"{_name(coverage)} must return shape (d,) = ({weights.shape[1]},), got {value.shape}")
    if not (value >= 0.0).all() or not (value <= 1.0 + ROUNDING).all():
        raise ValueError(f"{_name(coverage)} must be from 0 to 1, got {value.tolist()} for items {items.tolist()}")
    return value


def custom_gain(coverage: Coverage, items: Integers, weights: Floats, before: Floats) -> tuple[Floats, Floats]:
    """Return Δ of the last item given the others, whose coverage is ``before``; and the coverage of all."""
    after = custom_coverage(coverage, items, weights)
    return _monotone(coverage, after - before), after


def custom_gains(coverage: Coverage, items: Integers, weights: Floats, catalog_weights: Floats) -> Floats:
    """Return Δ(e|S) of all items (L, d), for S = items with these weights. Cost: L calls, or one of ``gains``."""
    if hasattr(coverage, "gains"):
        gains = np.asarray(coverage.gains(items, weights, catalog_weights), dtype=np.float64)
        if gains.shape != catalog_weights.shape:
            raise ValueError(f"gains of {_name(coverage)} must have shape {catalog_weights.shape}, got {gains.shape}")
        return _monotone(coverage, gains)
    before = custom_coverage(coverage, items, weights)
    gains = np.zeros_like(catalog_weights)  # an item already in S adds nothing
    for e in np.setdiff1d(np.arange(len(catalog_weights)), items):
        joined, row = np.append(items, e), catalog_weights[e]
        gains[e] = custom_gain(coverage, joined, np.vstack([weights, row]), before)[0]
    return gains


def _monotone(coverage: Coverage, gains: Floats) -> Floats:
    """Return gains, with rounding below 0 removed; raise ValueError if the coverage is not monotone."""
    if not (gains >= -ROUNDING).all():
        raise ValueError(f"{_name(coverage)} must be monotone (no gain below 0), got a gain of {np.nanmin(gains)}")
    return np.maximum(gains, 0.0)


def _name(coverage: Coverage) -> str:
    return f"coverage {type(coverage).__name__}"
