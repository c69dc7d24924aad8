"""Greedy lists, built by the search engine if it is compiled and worth it, and by the plain loop otherwise."""

from __future__ import annotations

from math import inf
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from thali.catalog.candidates import ALL, Choice, allowed
from thali.catalog.catalog import Catalog
from thali.lists import engine, plain
from thali.tools import checks
from thali.tools.types import Floats, Integers

# With at most this many items, the engine saves too little to be worth its compilation (benchmarks/small.py).
FEW_ITEMS = 32


class Builder(Protocol):
    """A function that builds lists from what a policy has learned about each user.

    The paper's regret bound holds for any builder that is a γ-approximation.
    """

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
        """Return lists (users, K) for estimate (users, d), inverse (users, d, d) or (1, d, d), and alpha (users,).

        estimate is θ̄. inverse is M⁻¹, where M - I is positive semidefinite and the condition number of M is at most
        about 1e14. choice says which items each user may be shown. It is passed only if some items are not allowed.
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
    """Return lists with, at each position, the item that has the largest index min(cap, x·θ̄ + α·sqrt(xᵀM⁻¹x)).

    This is Algorithm 1, lines 5-11, with x = Δ(e|S) for features="gains" and x = Δ(e|∅) for features="items". Ties go
    to the lowest item number. :mod:`thali.lists.plain` defines these lists. :mod:`thali.lists.engine` finds the same
    lists without scoring every item. It builds the lists as soon as it is compiled (:mod:`thali.tools.fast`), except if
    there are few items or a custom coverage.
    """
    small = _is_small(catalog)
    if not small and engine.CODE.ready():
        return engine.build(catalog, estimate, inverse, alpha, K=K, features=features, cap=cap, choice=choice)
    begin = perf_counter()
    lists = plain.build(catalog, estimate, inverse, alpha, K=K, features=features, cap=cap, choice=choice)
    if not small:
        engine.CODE.plain_took(perf_counter() - begin)
    return lists


def prepare(catalog: Catalog) -> None:
    """Get the search engine compiled in the background, if it will build lists from this catalog."""
    if not _is_small(catalog):
        engine.CODE.compile_in_background()


def _is_small(catalog: Catalog) -> bool:
    """Return whether the plain loop always builds lists from this catalog."""
    return catalog.custom is not None or catalog.L <= FEW_ITEMS


def greedy_lists(catalog: Catalog, theta: Any, K: int, *, candidates: Any = None, exclude: Any = None) -> Integers:
    """Return the greedy list of each user (users, K) for known preferences theta (users, d).

    Each position gets the item that adds the most to the items above it: a_k = argmax_e ⟨Δ(e | a_1..a_{k-1}), θ⟩
    (Section 3.2, "Optimal List"). candidates, exclude: as in :meth:`thali.Policy.recommend`.

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
    """Build lists (users, K) for known preferences theta (users, d), without exploration.

    With α = 0, builders do not read M⁻¹, so all users share one array of zeros.
    """
    inverse, alpha = np.zeros((1, catalog.d, catalog.d)), np.zeros(len(theta))
    among = {} if choice is ALL else {"choice": choice}
    return build(catalog, checks.writable(theta), inverse, alpha, K=K, features=features, cap=inf, **among)
