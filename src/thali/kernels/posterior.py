"""What a learner believes: θ̄, M⁻¹ and log det M, computed afresh from M and B."""

from math import log, sqrt

import numpy as np

from thali.kernels.jit import kernel


@kernel
def refresh(M, B, inverse, solution, logdet):
    """For each user: inverse = M⁻¹ (exactly symmetric), solution = M⁻¹B, logdet = log det M.

    By Cholesky, M = UᵀU, so that everything is a function of M and B alone: no drift, no history. M⁻¹B comes from
    two triangular solves and not from the inverse, which loses digits when M is ill conditioned. As M is the identity
    and more, no pivot is below 1; rounding can put one there once entries of M pass 1e12, so pivots are kept above 1
    and above 1e-12 of the diagonal.
    Written by rows so that the inner loops are contiguous. Cost: d³/2 multiplications a user.
    """
    users, d = B.shape
    U = np.empty((d, d))
    R = np.empty((d, d))
    y = np.empty(d)
    for user in range(users):
        U[:] = M[user]
        total = 0.0
        for k in range(d):
            pivot = sqrt(max(1.0, 1e-12 * M[user, k, k], U[k, k]))
            total += log(pivot)
            U[k, k] = pivot
            for j in range(k + 1, d):
                U[k, j] /= pivot
            for i in range(k + 1, d):
                factor = U[k, i]
                if factor != 0.0:
                    for j in range(i, d):
                        U[i, j] -= factor * U[k, j]
        logdet[user] = 2.0 * total
        # y = U⁻ᵀB, then solution = U⁻¹y
        y[:] = B[user]
        for k in range(d):
            y[k] /= U[k, k]
            for j in range(k + 1, d):
                y[j] -= U[k, j] * y[k]
        for k in range(d - 1, -1, -1):
            rest = y[k]
            for j in range(k + 1, d):
                rest -= U[k, j] * solution[user, j]
            solution[user, k] = rest / U[k, k]
        # R = U⁻ᵀ by rows (lower triangular), then M⁻¹ = RᵀR
        for i in range(d):
            for j in range(i):
                R[i, j] = 0.0
            R[i, i] = 1.0
            for k in range(i):
                factor = U[k, i]
                if factor != 0.0:
                    for j in range(k + 1):
                        R[i, j] -= factor * R[k, j]
            for j in range(i + 1):
                R[i, j] /= U[i, i]
        out = inverse[user]
        out[:] = 0.0
        for k in range(d):
            for i in range(k + 1):
                factor = R[k, i]
                if factor != 0.0:
                    for j in range(i + 1):
                        out[i, j] += factor * R[k, j]
        for i in range(d):
            for j in range(i):
                out[j, i] = out[i, j]
