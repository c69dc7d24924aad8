"""Greedy lists: by the search engine where the coverage is compiled, else by the plain loop."""

from __future__ import annotations

from math import inf
from typing import Any, Protocol

import numpy as np

from thali.catalog.candidates import ALL, Choice, allowed
from thali.catalog.catalog import Catalog
from thali.lists import engine, plain
from thali.tools import checks
from thali.tools.types import Floats, Integers


class Builder(Protocol):
    """Builds lists from what is believed about each user; the paper's bound holds for any γ-approximation."""

    def __call__(
        self,
        catalog: Catalog,
        estimate: Floats,
        inverse: Floats,
        alpha: Floats,
        *,
        K: int,
        features: str,
        cap: float,
        choice: Choice = ALL,
    ) -> Integers:
        """Lists (users, K) for estimate (users, d), inverse (users, d, d), or (1, d, d) for all, and alpha (users,).

        choice, what each user may be shown, is given only where something is left out. inverse is that of an M of at
        least the identity, with a condition number up to 1e14 or so.
        """
        ...


def build(
    catalog: Catalog,
    estimate: Floats,
    inverse: Floats,
    alpha: Floats,
    *,
    K: int,
    features: str = "gains",
    cap: float = inf,
    choice: Choice = ALL,
) -> Integers:
    """Lists that take, position by position, the item of largest index x·θ̄ + α·sqrt(xᵀM⁻¹x), at most cap.

    Algorithm 1, lines 5-11, with x = Δ(e|S) for features "gains" and x = Δ(e|∅) for "items". Ties go to the lowest
    item. :mod:`thali.lists.plain` defines these lists; :mod:`thali.lists.engine` finds the same ones without looking at
    every item.
    """
    chosen = plain.build if catalog.custom is not None else engine.build
    return chosen(catalog, estimate, inverse, alpha, K=K, features=features, cap=cap, choice=choice)


def greedy_lists(catalog: Catalog, theta: Any, K: int, *, candidates: Any = None, exclude: Any = None) -> Integers:
    """The greedy list of each user (users, K) for known preferences theta (users, d).

    Position by position the item that adds the most, a_k = argmax_e ⟨Δ(e | a_1..a_{k-1}), θ⟩ (Section 3.2, "Optimal
    List"). candidates, exclude: as in :meth:`thali.Policy.recommend`.

    Examples
    --------
    >>> import thali
    >>> catalog = thali.Catalog([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5]])
    >>> thali.greedy_lists(catalog, [[0.6, 0.4]], K=2)
    array([[0, 2]])

    """
    checks.instance("catalog of greedy_lists", catalog, Catalog)
    theta = checks.floats("theta", theta, (None, catalog.d), "(users, d)")
    K = checks.list_length("greedy_lists", K, len(catalog))
    choice = allowed(catalog, len(theta), K, candidates, exclude)
    return under(theta, catalog, K, choice=choice)


def under(
    theta: Floats,
    catalog: Catalog,
    K: int,
    *,
    choice: Choice = ALL,
    build: Builder = build,
    features: str = "gains",
) -> Integers:
    """The lists (users, K) that a builder makes for known preferences (users, d): no optimism, α = 0.

    Nothing reads M⁻¹ then, so that one array of zeros serves all users.
    """
    inverse, alpha = np.zeros((1, catalog.d, catalog.d)), np.zeros(len(theta))
    among = {} if choice is ALL else {"choice": choice}
    return build(catalog, theta, inverse, alpha, K=K, features=features, cap=inf, **among)
