"""The posterior, computed from M and B: M⁻¹, M⁻¹B and log det M. θ̄ = σ⁻²M⁻¹B is line 4 of Algorithm 1.

:func:`refresh` defines these numbers. :mod:`thali.policies.linear.batches` computes the same, bit for bit, for four
users at a time.
"""

from math import log, sqrt

import numpy as np

from thali.tools.jit import kernel
from thali.tools.lanes import fused
from thali.tools.types import Floats, Integers

EPSILON = 2.0**-53  # the largest relative error of one rounding


@kernel
def refresh(M: Floats, B: Floats, inverse: Floats, solution: Floats, logdet: Floats) -> None:
    """Compute inverse = M⁻¹ (exactly symmetric), solution = M⁻¹B and logdet = log det M for each user.

    The method is the factorization M = LDLᵀ, where L has a unit diagonal. The results depend only on M and B, so errors
    do not accumulate over updates. M⁻¹B is computed by two triangular solves, because the inverse loses digits if M is
    ill-conditioned. M - I is positive semidefinite, so no pivot should be below 1, but rounding can push one slightly
    below. So pivots are raised to at least 1, and to at least 1e-12 times the diagonal entry. :func:`first_inexact`
    says whether rounding errors are small enough. Cost: d³/2 multiplications for each user.
    """
    users, d = B.shape
    G = np.empty((d + 1, d))  # LD, with B as an extra row of M
    U = np.empty((d, d + 1))  # Lᵀ, and D⁻¹L⁻¹B in the last column
    row, scale = np.empty(d), np.empty(d)  # a row of L, D⁻¹
    for user in range(users):
        total, product = 0.0, 1.0
        for j in range(d):
            pivot = M[user, j, j]
            for k in range(j):
                row[k] = G[j, k] * scale[k]
                pivot = fused(-row[k], G[j, k], pivot)
            pivot = max(1.0, 1e-12 * M[user, j, j], pivot)
            scale[j] = 1.0 / pivot
            product *= pivot
            if product > 1e150:
                total += log(product)
                product = 1.0
            for i in range(j + 1, d + 1):
                rest = M[user, i, j] if i < d else B[user, j]
                for k in range(j):
                    rest = fused(-row[k], G[i, k], rest)
                G[i, j] = rest
                U[j, i] = rest * scale[j]
        # From the last row up, solve Lᵀx = D⁻¹L⁻¹B and LᵀM⁻¹ = D⁻¹L⁻¹, whose right side is 0 above its diagonal D⁻¹.
        for i in range(d - 1, -1, -1):
            x, own = U[i, d], scale[i]
            for k in range(i + 1, d):
                x = fused(-solution[user, k], U[i, k], x)
            solution[user, i] = x
            for j in range(i + 1, d):
                entry = 0.0
                for k in range(i + 1, d):
                    entry = fused(-U[i, k], inverse[user, j, k], entry)
                inverse[user, i, j] = inverse[user, j, i] = entry
                own = fused(-U[i, j], entry, own)
            inverse[user, i, i] = own
        logdet[user] = total + log(product)


@kernel
def first_inexact(M: Floats, updates: Integers, K: int, memory: float) -> int:
    """Return the first user for whom rounding errors in M may have reached 1, the prior in M = I + σ⁻²Σxxᵀ, or -1.

    Such errors would hide that nothing was learned in some direction, and make M⁻¹ wrong. Each examined position is
    added to M with a relative error of at most 2⁻⁵³. The errors of n positions add up to at most n·2⁻⁵³·M_jj, and in
    the worst case that we know of, to a twentieth of that. n = K·min(updates + 1, memory), where ``memory`` is the
    number of lists after which the policy forgets.
    """
    users, d, _ = M.shape
    for user in range(users):
        most = 1.0 / (EPSILON * K * min(updates[user] + 1.0, memory))
        for j in range(d):
            if M[user, j, j] > most:
                return user
    return -1


@kernel
def draw(M: Floats, mean: Floats, normal: Floats, out: Floats) -> None:
    """Write mean + L⁻ᵀz to out (users, d), where M = LLᵀ (Cholesky) and z = normal (users, d).

    If z are standard normal numbers, this is a draw from N(mean, M⁻¹), because (L⁻ᵀ)(L⁻ᵀ)ᵀ = M⁻¹. Pivots are
    raised as in :func:`refresh`. Cost: d³/6 multiplications for each user.
    """
    users, d = mean.shape
    L, x = np.empty((d, d)), np.empty(d)
    for user in range(users):
        for j in range(d):
            pivot = M[user, j, j]
            for k in range(j):
                pivot -= L[j, k] * L[j, k]
            L[j, j] = sqrt(max(1.0, 1e-12 * M[user, j, j], pivot))
            for i in range(j + 1, d):
                rest = M[user, i, j]
                for k in range(j):
                    rest -= L[i, k] * L[j, k]
                L[i, j] = rest / L[j, j]
        for i in range(d - 1, -1, -1):
            rest = normal[user, i]
            for k in range(i + 1, d):
                rest -= L[k, i] * x[k]
            x[i] = rest / L[i, i]
            out[user, i] = mean[user, i] + x[i]
