"""Topic coverage c(S): the paper's, the paper's example, or one of your own.

``"probabilistic"`` is c_j(S) = 1 - Π_{e∈S} (1 - w̄(e,j)) (Eq. topicCoverage). ``"max"`` is c_j(S) = max_{e∈S} w̄(e,j)
(the example of Section 3). Both are compiled. Anything else is an object with the one method of :class:`Coverage`.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from thali.kernels import index
from thali.types import Floats, Integers

KINDS = {"probabilistic": index.PROBABILISTIC, "max": index.MAX}
ROUNDING = 1e-9


@runtime_checkable
class Coverage(Protocol):
    """A coverage of your own: any function of a set that is monotone and submodular in each topic.

    It may also have ``gains(items, weights, catalog_weights)``, returning Δ(e|S) for all items as (L, d): the same
    answer as by ``coverage``, in one call instead of L.
    """

    def coverage(self, items: Integers, weights: Floats) -> Floats:
        """c(S) as (d,), in [0, 1], and 0 for the empty set; items (n,) are S, weights (n, d) their rows of w̄."""
        ...


def resolve(coverage: Any, d: int) -> tuple[int, Coverage | None]:
    """The kernels' number for a compiled coverage, or the object that computes it."""
    if isinstance(coverage, str) and coverage in KINDS:
        return KINDS[coverage], None
    if not isinstance(coverage, Coverage) or isinstance(coverage, type):
        raise ValueError(
            f"coverage of Catalog must be 'probabilistic', 'max' or an object with a method "
            f"coverage(items, weights), got {coverage!r}"
        )
    empty = own_coverage(coverage, np.empty(0, dtype=np.int64), np.empty((0, d)))
    if empty.any():
        raise ValueError(f"{_name(coverage)} must be 0 for the empty set, got {empty.tolist()}")
    return index.FIXED, coverage


def own_coverage(coverage: Coverage, items: Integers, weights: Floats) -> Floats:
    """c(S) by an object, checked."""
    value = np.array(coverage.coverage(items, weights), dtype=np.float64)
    if value.shape != (weights.shape[1],):
        raise ValueError(f"{_name(coverage)} must return shape (d,) = ({weights.shape[1]},), got {value.shape}")
    if not (value >= 0.0).all() or not (value <= 1.0 + ROUNDING).all():
        raise ValueError(f"{_name(coverage)} must be from 0 to 1, got {value.tolist()} for items {items.tolist()}")
    return value


def own_gain(coverage: Coverage, items: Integers, weights: Floats, before: Floats) -> tuple[Floats, Floats]:
    """Δ of the last of items over the others, whose coverage is before; and the coverage of all."""
    after = own_coverage(coverage, items, weights)
    return _monotone(coverage, after - before), after


def own_gains(coverage: Coverage, items: Integers, weights: Floats, catalog_weights: Floats) -> Floats:
    """Δ(e|S) of all items (L, d), for S = items with rows weights. Cost: L calls, or one of the object's ``gains``."""
    if hasattr(coverage, "gains"):
        gains = np.asarray(coverage.gains(items, weights, catalog_weights), dtype=np.float64)
        if gains.shape != catalog_weights.shape:
            raise ValueError(f"gains of {_name(coverage)} must have shape {catalog_weights.shape}, got {gains.shape}")
        return _monotone(coverage, gains)
    before = own_coverage(coverage, items, weights)
    gains = np.zeros_like(catalog_weights)  # an item that is in S already adds nothing
    for e in np.setdiff1d(np.arange(len(catalog_weights)), items):
        joined, row = np.append(items, e), catalog_weights[e]
        gains[e] = own_gain(coverage, joined, np.vstack([weights, row]), before)[0]
    return gains


def _monotone(coverage: Coverage, gains: Floats) -> Floats:
    """Gains, with rounding below 0 taken off; an error where the function falls."""
    if not (gains >= -ROUNDING).all():
        raise ValueError(f"{_name(coverage)} must be monotone (no gain below 0), got a gain of {np.nanmin(gains)}")
    return np.maximum(gains, 0.0)


def _name(coverage: Coverage) -> str:
    return f"coverage {type(coverage).__name__}"
