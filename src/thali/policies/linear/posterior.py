"""The posterior of a prior θ ~ N(μ, Σ) and a state (M, B): M′⁻¹, M′⁻¹B′ and log det M′. Then θ̄ = σ⁻²M′⁻¹B′.

A state holds M = I + σ⁻²Σ_t xxᵀ and B = Σ_t x·click, where the I is part of the format. :class:`Reading` says how M′
and B′ follow from them. Without a prior, M′ = M and B′ = B, and θ̄ is that of line 4 of Algorithm 1.

:func:`refresh` defines these numbers. :mod:`thali.policies.linear.batches` computes the same, bit for bit, for four
users at a time.
"""

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from thali.tools.jit import inlined, kernel
from thali.tools.lanes import fused
from thali.tools.types import Floats, Integers

EPSILON = 2.0**-53  # the largest relative error of one rounding


class Reading(NamedTuple):
    """How M and B of a state are read: M′ = ratio·(M - I) + precision and B′ = B + shift.

    Without a prior and with the state's own σ, this changes no bit of M and B, because M - I is exact.
    """

    precision: Any
    """Σ⁻¹ (d, d)."""
    shift: Any
    """σ²Σ⁻¹μ (d,)."""
    ratio: float
    """(σ_M/σ)², where M was computed with σ_M and is read with σ."""
    least: float
    """The smallest eigenvalue of Σ⁻¹, so that M′ - least·I is positive semidefinite."""


class Posterior(NamedTuple):
    """What is believed about each user, given a prior: θ ~ N(σ⁻²·solution, inverse)."""

    inverse: Floats
    """M′⁻¹ (users, d, d), exactly symmetric."""
    solution: Floats
    """M′⁻¹B′ (users, d)."""
    logdet: Floats
    """log det M′ (users,)."""


@inlined
def entry(M: Any, user: int, i: int, j: int, reading: Reading) -> float:
    """Return M′_ij of a user, given the M (users, d, d) of all users."""
    own = 1.0 if i == j else 0.0
    value: float = reading.ratio * (M[user, i, j] - own) + reading.precision[i, j]
    return value


@kernel
def refresh(M: Floats, B: Floats, reading: Reading, inverse: Floats, solution: Floats, logdet: Floats) -> None:
    """Compute inverse = M′⁻¹ (exactly symmetric), solution = M′⁻¹B′ and logdet = log det M′ for each user.

    The method is the factorization M′ = LDLᵀ, where L has a unit diagonal. The results depend only on M, B and the
    reading, so errors do not accumulate over updates. M′⁻¹B′ is computed by two triangular solves, because the inverse
    loses digits if M′ is ill-conditioned. No eigenvalue of M′ is below ``least``, so no pivot should be either, but
    rounding can push one slightly below. So pivots are raised to at least ``least``, and to at least 1e-12 times the
    diagonal entry. :func:`first_inexact` says whether rounding errors are small enough. Cost: d³/2 multiplications for
    each user.
    """
    users, d = B.shape
    G = np.empty((d + 1, d))  # LD, with B′ as an extra row of M′
    U = np.empty((d, d + 1))  # Lᵀ, and D⁻¹L⁻¹B′ in the last column
    row, scale = np.empty(d), np.empty(d)  # a row of L, D⁻¹
    for user in range(users):
        total, product = 0.0, 1.0
        for j in range(d):
            diagonal = entry(M, user, j, j, reading)
            pivot = diagonal
            for k in range(j):
                row[k] = G[j, k] * scale[k]
                pivot = fused(-row[k], G[j, k], pivot)
            pivot = max(reading.least, 1e-12 * diagonal, pivot)
            scale[j] = 1.0 / pivot
            product *= pivot
            if product > 1e150 or product < 1e-150:
                total += log(product)
                product = 1.0
            for i in range(j + 1, d + 1):
                rest = entry(M, user, i, j, reading) if i < d else B[user, j] + reading.shift[j]
                for k in range(j):
                    rest = fused(-row[k], G[i, k], rest)
                G[i, j] = rest
                U[j, i] = rest * scale[j]
        # From the last row up, solve Lᵀx = D⁻¹L⁻¹B′ and LᵀM′⁻¹ = D⁻¹L⁻¹, whose right side is 0 above its diagonal D⁻¹.
        for i in range(d - 1, -1, -1):
            x, own = U[i, d], scale[i]
            for k in range(i + 1, d):
                x = fused(-solution[user, k], U[i, k], x)
            solution[user, i] = x
            for j in range(i + 1, d):
                value = 0.0
                for k in range(i + 1, d):
                    value = fused(-U[i, k], inverse[user, j, k], value)
                inverse[user, i, j] = inverse[user, j, i] = value
                own = fused(-U[i, j], value, own)
            inverse[user, i, i] = own
        logdet[user] = total + log(product)


@kernel
def first_inexact(M: Floats, updates: Integers, K: int, memory: float, largest_error: float) -> int:
    """Return the first user for whom rounding errors in M may have reached ``largest_error``, or -1.

    An error as large as the prior would hide that nothing was learned in some direction, and make M′⁻¹ wrong. In
    M = I + σ⁻²Σxxᵀ, the prior is 1. Each examined position is added to M with a relative error of at most 2⁻⁵³. The
    errors of n positions add up to at most n·2⁻⁵³·M_jj, and in the worst case that we know of, to a twentieth of that.
    n = K·min(updates + 1, memory), where ``memory`` is the number of lists after which the policy forgets.
    """
    users, d, _ = M.shape
    for user in range(users):
        most = largest_error / (EPSILON * K * min(updates[user] + 1.0, memory))
        for j in range(d):
            if M[user, j, j] > most:
                return user
    return -1


@kernel
def draw(M: Floats, reading: Reading, mean: Floats, normal: Floats, out: Floats) -> None:
    """Write mean + L⁻ᵀz to out (users, d), where M′ = LLᵀ (Cholesky) and z = normal (users, d).

    If z are standard normal numbers, this is a draw from N(mean, M′⁻¹), because (L⁻ᵀ)(L⁻ᵀ)ᵀ = M′⁻¹. Pivots are
    raised as in :func:`refresh`. Cost: d³/6 multiplications for each user.
    """
    users, d = mean.shape
    L, x = np.empty((d, d)), np.empty(d)
    for user in range(users):
        for j in range(d):
            diagonal = entry(M, user, j, j, reading)
            pivot = diagonal
            for k in range(j):
                pivot -= L[j, k] * L[j, k]
            L[j, j] = sqrt(max(reading.least, 1e-12 * diagonal, pivot))
            for i in range(j + 1, d):
                rest = entry(M, user, i, j, reading)
                for k in range(j):
                    rest -= L[i, k] * L[j, k]
                L[i, j] = rest / L[j, j]
        for i in range(d - 1, -1, -1):
            rest = normal[user, i]
            for k in range(i + 1, d):
                rest -= L[k, i] * x[k]
            x[i] = rest / L[i, i]
            out[user, i] = mean[user, i] + x[i]
