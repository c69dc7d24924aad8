"""Topic coverage c(S) and the gain Δ(e|S) = c(S ∪ {e}) - c(S) of an item (Section 2.2): formulas and kernels.

``"probabilistic"`` is c_j(S) = 1 - Π_{e∈S} (1 - w̄(e,j)), the coverage in the paper's experiments (Section 7.2,
"Baselines and Topic Coverage"). ``"max"`` is c_j(S) = max_{e∈S} w̄(e,j), the paper's example in Section 3. Both are
compiled. Their kernels store one float for each topic, the *state* of the topic, and compute the gain from it. Any
other coverage is a custom object with the method of :class:`Coverage`.

A compiled coverage can have *steady* topics, which do not fade: c_j(S) = Σ_{e∈S} w̄(e,j), so the gain Δ_j(e|S) is
w̄(e,j) whatever S is. Their state always remains that of an uncovered topic. c_j can exceed 1, but a gain cannot.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from thali.catalog.items import Items
from thali.tools.jit import inlined, kernel
from thali.tools.types import Floats, Integers

# The kinds that kernels support. FIXED means that features do not depend on the list: they are always Δ(e|∅) = w̄(e,·).
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
    """Return the state of a topic after adding an item of weight w̄(e,j): 1 - c_j(S ∪ {e}), or c_j(S ∪ {e}) for max."""
    if kind == PROBABILISTIC:
        return state * (1.0 - weight)
    if kind == MAX:
        return max(weight, state)
    return state


@inlined
def cover_item(kind: int, items: Items, e: Any, state: Floats) -> None:
    """Update the state of each topic (d,) after adding item e. The state of a steady topic does not change."""
    for a in range(items.begin[e], items.end[e]):
        j = items.topics[a]
        if items.fading[j]:
            state[j] = cover(kind, items.weights[a], state[j])


@kernel
def list_gains(kind: int, items: Items, lists: Integers, out: Floats) -> None:
    """Write Δ(a_k | a_1..a_{k-1}) for every position to out (users, K, d).

    Cost: O(K·s) per user, plus the time to set out to 0.
    """
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
            cover_item(kind, items, item, state)


@runtime_checkable
class Coverage(Protocol):
    """A custom coverage: any set function that is monotone and submodular in each topic.

    The object may also have a method ``gains(items, weights, catalog_weights)`` that returns Δ(e|S) for all items as an
    array (L, d). It must return the same values as L calls of ``coverage`` would give.
    """

    def coverage(self, items: Integers, weights: Floats) -> Floats:
        """Return c(S) as an array (d,) with values in [0, 1]; 0 for the empty set.

        items (n,): the item numbers of S. weights (n, d): the rows of w̄ for these items.
        """
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
    """Compute c(S) with a custom coverage object, check it, and return it."""
    value = np.array(coverage.coverage(items, weights), dtype=np.float64)
    if value.shape != (weights.shape[1],):
        raise ValueError(f"{_name(coverage)} must return shape (d,) = ({weights.shape[1]},), got {value.shape}")
    if not (value >= 0.0).all() or not (value <= 1.0 + ROUNDING).all():
        raise ValueError(f"{_name(coverage)} must be from 0 to 1, got {value.tolist()} for items {items.tolist()}")
    return value


def custom_gain(coverage: Coverage, items: Integers, weights: Floats, before: Floats) -> tuple[Floats, Floats]:
    """Return the gain Δ of the last item and the coverage of all items. before: the coverage without the last item."""
    after = custom_coverage(coverage, items, weights)
    return _monotone(coverage, after - before), after


def custom_gains(coverage: Coverage, items: Integers, weights: Floats, catalog_weights: Floats) -> Floats:
    """Return Δ(e|S) for all items (L, d), where S = items. Cost: L calls of ``coverage``, or one of ``gains``."""
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
    """Return the gains, with rounding errors below 0 set to 0. Raise ValueError if the coverage is not monotone."""
    if not (gains >= -ROUNDING).all():
        raise ValueError(f"{_name(coverage)} must be monotone (no gain below 0), got a gain of {np.nanmin(gains)}")
    return np.maximum(gains, 0.0)


def _name(coverage: Coverage) -> str:
    return f"coverage {type(coverage).__name__}"
