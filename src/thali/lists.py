"""How a list is built: greedily or exactly when θ is known, greedily under optimistic indices when it is learned."""

from __future__ import annotations

from math import inf
from typing import Any, Protocol

import numpy as np

from thali import checks
from thali.candidates import ALL, Choice, allowed
from thali.catalog import Catalog
from thali.kernels import exact, index, search
from thali.types import Booleans, Floats, Integers


class Builder(Protocol):
    """Builds lists from what is believed; the paper's bound holds for any that is a γ-approximation."""

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

        choice, what each user may be shown, is given only where something is left out. inverse is that of an M of the
        identity and more, with a condition number up to 1e14 or so.
        """
        ...


def greedy(
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
    item. Cost: see :mod:`thali.kernels.search`; O(K·L·d²) and L calls of Python a position for a coverage of your own.
    """
    out = np.empty((len(estimate), K), dtype=np.int64)
    estimate, inverse = np.ascontiguousarray(estimate), np.ascontiguousarray(inverse)
    if catalog.own is not None:
        for user in range(len(estimate)):
            shut = choice.shut(user, catalog.present)
            _general(catalog, estimate[user], inverse[user % len(inverse)], alpha[user], features, cap, shut, out[user])
        return out
    kind = catalog.kind if features == "gains" else index.FIXED
    items, start, only = choice
    if only:
        search.greedy_among(kind, catalog.sparse, items, start, estimate, inverse, alpha, cap, out)
    else:
        used = np.zeros(catalog.L, dtype=np.bool_)
        layout = catalog.groups.layout
        search.greedy(kind, catalog.sparse, layout, used, items, start, estimate, inverse, alpha, cap, out)
    return out


def _general(
    catalog: Catalog,
    estimate: Floats,
    inverse: Floats,
    alpha: Any,
    features: str,
    cap: float,
    shut: Booleans,
    out: Integers,
) -> None:
    """The plain loop of Algorithm 1 for one user, for any coverage; shut (L,) are items not to be shown."""
    values = np.empty(catalog.L)
    X = catalog.all_gains(out[:0])
    for k in range(out.size):
        if k and features == "gains":
            X = catalog.all_gains(out[:k])
        index.values(X, estimate, inverse, alpha, values)
        np.minimum(values, cap, out=values)
        values[shut] = -inf
        values[out[:k]] = -inf
        out[k] = np.argmax(values)


def greedy_lists(catalog: Catalog, theta: Any, K: int, *, candidates: Any = None, exclude: Any = None) -> Integers:
    """The greedy list of each user (users, K) for known preferences theta (users, d): Eq. greedy maximization.

    candidates, exclude: as in :meth:`thali.Policy.recommend`.

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
    build: Builder = greedy,
    features: str = "gains",
) -> Integers:
    """The lists (users, K) that a builder makes where preferences (users, d) are known: no optimism, α = 0.

    The width is left out then, so that one M⁻¹, which nobody reads, serves all users.
    """
    inverse, alpha = np.zeros((1, catalog.d, catalog.d)), np.zeros(len(theta))
    among = {} if choice is ALL else {"choice": choice}
    return build(catalog, theta, inverse, alpha, K=K, features=features, cap=inf, **among)


def optimal_list(catalog: Catalog, theta: Any, K: int) -> Integers:
    """The list (K,) that maximises the probability f(A, θ) of a click, for one user's theta (d,): Eq. optimal list.

    Exact, by branch and bound over ordered lists (the order of a list matters, see :mod:`thali.kernels.exact`).
    Cost: exponential in K. L=100, K=4 takes a fraction of a second, or a few seconds where items are nearly alike; each
    position more, many times that. A coverage of your own is searched by the same rule in Python.
    """
    checks.instance("catalog of optimal_list", catalog, Catalog)
    theta = checks.preferences("theta", checks.floats("theta", theta, (catalog.d,), "(d,)")[None], catalog.d)[0]
    K = checks.list_length("optimal_list", K, len(catalog))
    if catalog.own is not None:
        return _optimal_general(catalog, theta, K)
    try:
        best, _ = exact.optimal(catalog.kind, catalog.sparse, catalog.present, catalog.twins, theta, K)
    except SystemError as error:  # how Numba reports Ctrl-C during a kernel
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise
    return np.asarray(best)


def _optimal_general(catalog: Catalog, theta: Floats, K: int) -> Integers:
    """Branch and bound as in the kernel, for any coverage."""
    best, least = [0], 2.0

    def extend(chosen: list[int], missed: float) -> None:
        nonlocal best, least
        if len(chosen) == K:
            best, least = chosen, missed
            return
        gains = catalog.all_gains(np.array(chosen, dtype=np.int64)) @ theta
        gains[chosen] = -1.0
        gains[~catalog.present] = -1.0
        order = np.argsort(-gains, kind="stable")[: len(catalog) - len(chosen)]
        left = K - len(chosen)
        for at, e in enumerate(order):
            top = np.delete(order[:left], at) if at < left else order[: left - 1]
            if missed * (1.0 - gains[e]) * np.prod(1.0 - gains[top]) >= least:
                break
            extend([*chosen, int(e)], missed * (1.0 - gains[e]))

    extend([], 1.0)
    return np.array(best, dtype=np.int64)
