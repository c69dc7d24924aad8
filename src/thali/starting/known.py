"""What is known about people before they are shown a list: their likes, or the lists they saw.

It is also available as the sums M and B of a linear policy, from which a prior is learned.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from thali.datasets.interactions import Interactions
from thali.datasets.log import Log
from thali.policies.linear.policy import LinearPolicy
from thali.policies.linear.state import LinearState
from thali.tools import checks
from thali.tools.types import Floats, Integers


class Known(NamedTuple):
    """What is known about people."""

    likes: sp.csr_array
    """(people, items), how much each like counts: 1, or less with a half-life."""
    people: Floats
    """(people,), how much each person counts: as much as their latest like, and 0 without a like."""
    met: Floats
    """(items,), how often each item was met."""
    liked: Floats
    """(items,), how often each item was liked by somebody who met it."""
    log: Log | None = None
    """The log, if this comes from one."""
    positions: Floats | None = None
    """How much each examined position of the log counts, in the order of ``log.pairs()``."""


def known_of(data: Interactions | Log, half_life: float | None) -> Known:
    """Check the data and the half-life, and return what is known.

    In interactions, every person who likes something counts as having met every item. In a log, a person has met an
    item at each position that they examined. With a half-life, everything counts 2^(-age/half_life), where the age is
    the time until the latest interaction or list.
    """
    if not isinstance(data, Interactions | Log):
        raise TypeError(f"data of fit must be a thali.datasets.Interactions or a thali.Log, got {checks.short(data)}")
    if half_life is not None:
        half_life = checks.number("half_life of fit", half_life, low=0.0, strict=True)
    log = data if isinstance(data, Log) else None
    likes = data if isinstance(data, Interactions) else data.interactions()
    if not len(likes):
        raise ValueError("data of fit must contain at least one like, got none")
    if not np.isfinite(likes.value).all():
        wrong = likes.value[~np.isfinite(likes.value)][0]
        raise ValueError(f"data of fit must have finite values, got {wrong}")
    latest = None if data.time is None else float(data.time.max())
    count = _counts(likes.time, latest, half_life, len(likes))
    F = sp.csr_array((count, (likes.user, likes.item)), shape=(len(likes.users), len(likes.items)))
    F.eliminate_zeros()  # likes so old that they count nothing
    people = np.asarray(F.max(axis=1).todense(), dtype=np.float64).ravel()
    if np.count_nonzero(people) < 2:
        raise ValueError(f"data of fit must contain the likes of at least 2 people, got {np.count_nonzero(people)}")
    if log is None:
        liked = np.asarray(F.sum(axis=0), dtype=np.float64).ravel()
        return Known(F, people, np.full(len(liked), people.sum()), liked)
    user, item, clicked = log.pairs()
    positions = _counts(np.repeat(log.time, log.lengths)[log.looked_at()], latest, half_life, len(user))
    L = len(log.items)
    met = np.asarray(np.bincount(item, positions, minlength=L), dtype=np.float64)
    liked = np.asarray(np.bincount(item[clicked], positions[clicked], minlength=L), dtype=np.float64)
    return Known(F, people, met, liked, log, positions)


def _counts(time: Floats | None, latest: float | None, half_life: float | None, size: int) -> Floats:
    """How much each like or position counts (size,)."""
    if half_life is None:
        return np.ones(size)
    if time is None or latest is None:
        raise ValueError(f"half_life of fit needs data with times, got half_life={half_life:g} and data without times")
    if not (np.isfinite(time).all() and np.isfinite(latest)):
        raise ValueError(
            f"half_life of fit needs data in which all times are finite, got half_life={half_life:g} and a time that "
            "is missing, NaN or infinite"
        )
    return np.asarray(np.exp2((time - latest) / half_life))


def state_of_likes(
    policy: LinearPolicy, likes: sp.csr_array, weight: float, people: Floats | None = None
) -> LinearState:
    """Return a state of people with known likes (people, L), for :meth:`thali.Prior.learn`.

    Each person counts as having examined every item once: liked items were clicked, and all others were not. So
    M = I + weight·n·σ⁻²Σ_e xxᵀ and B = weight·Σ_liked c·x, where x = Δ(e|∅) is the weights of item e, c is how much the
    like counts, and n is how much the person counts.

    weight: how much one item counts, compared with an examined position of a list. A sample of the other items, instead
    of all of them, would give the same sums on average, with noise, and take longer.
    people: n of each person (people,); 1 by default.

    If all people count the same, they share one M, which is read-only. Cost: O(likes·s + people·d), where s is the
    number of topics per item. Otherwise O(likes·s + people·d²).
    """
    weights = policy.catalog.csr
    d, size = policy.catalog.d, likes.shape[0]
    n = np.ones(size) if people is None else people
    everything = (weights.T @ weights).toarray() * (weight / policy.sigma**2)
    everything = (everything + everything.T) / 2.0
    if (n == n[0]).all():
        M = np.broadcast_to(np.eye(d) + n[0] * everything, (size, d, d))
    else:
        M = np.eye(d) + n[:, None, None] * everything
    return state_with(policy, M, weight * (likes @ weights).toarray())


def state_of_log(policy: LinearPolicy, log: Log, people: Integers, counts: Floats | None = None) -> LinearState:
    """Return a state of these people of a log, from the positions that they examined.

    M = I + σ⁻²Σ c·xxᵀ and B = Σ c·x·click over these positions, where x = Δ(e|∅) is the weights of the item: what is
    known about a person does not depend on what else was in the list. The log must have the items of the policy's
    catalog, in the same order.

    people: the numbers of the people, all different.
    counts: c, how much each examined position counts, in the order of ``log.pairs()``; 1 by default.

    Cost: O(positions·d²).
    """
    user, item, clicked = log.pairs()
    c = np.ones(len(user)) if counts is None else counts
    weights, d = policy.catalog.csr, policy.catalog.d
    M, B = np.tile(np.eye(d), (len(people), 1, 1)), np.zeros((len(people), d))
    begins, ends = np.searchsorted(user, people), np.searchsorted(user, people, side="right")  # users are ascending
    for n, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        x: Floats = weights[item[begin:end]].toarray()
        scaled = x * c[begin:end, None]
        M[n] += (scaled.T @ x) / policy.sigma**2
        B[n] = clicked[begin:end].astype(np.float64) @ scaled
    return state_with(policy, (M + M.transpose(0, 2, 1)) / 2.0, B)


def state_with(policy: LinearPolicy, M: Floats, B: Any) -> LinearState:
    """Return a state of people who have these sums, and have each been shown one list."""
    blank = policy.init(1)
    assert isinstance(blank, LinearState)
    return blank.of(M, np.ascontiguousarray(B), np.ones(len(B), dtype=np.int64))
