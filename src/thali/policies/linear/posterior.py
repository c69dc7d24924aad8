"""What a learner believes: M⁻¹, M⁻¹B (so θ̄ = σ⁻²M⁻¹B, line 4 of Algorithm 1) and log det M, from M and B alone."""

from math import log, sqrt
from typing import Any

import numpy as np

from thali.tools.jit import inlined, kernel
from thali.tools.lanes import fused, load4, store
from thali.tools.types import Floats

# Users that are computed together, one in each lane: with eight, the scratch arrays would leave the nearest memory.
LANES = 4
# Rows that are computed together: independent sums, so that one does not wait for the other.
TILE = 4


@inlined
def row_of(array: Floats, n: int) -> Any:
    """Row n of an array (rows, LANES)."""
    return load4(array, n * LANES)


@inlined
def multiply(
    out: Floats, o: int, o_step: int, P: Floats, p: int, p_step: int, Q: Floats, q: int, q_step: int, count: int
) -> None:
    """out[o + t·o_step] = P[p + t·p_step]·Q[q + t·q_step] for t < count, by rows of lanes."""
    for t in range(count):
        store(out, (o + t * o_step) * LANES, row_of(P, p + t * p_step) * row_of(Q, q + t * q_step))


@inlined
def subtract(
    out: Floats,
    o: int,
    o_step: int,
    start: Floats,
    s: int,
    s_step: int,
    P: Floats,
    p: int,
    Q: Floats,
    q: int,
    q_step: int,
    n: int,
    count: int,
) -> None:
    """out[o + t·o_step] = start[s + t·s_step] - Σ_{k<n} P[p + k]·Q[q + t·q_step + k] for t < count, in this order."""
    t = 0
    while t + TILE <= count:
        a, b = row_of(start, s + t * s_step), row_of(start, s + (t + 1) * s_step)
        c, d = row_of(start, s + (t + 2) * s_step), row_of(start, s + (t + 3) * s_step)
        at = q + t * q_step
        for k in range(n):
            factor = row_of(P, p + k) * -1.0
            a = fused(factor, row_of(Q, at + k), a)
            b = fused(factor, row_of(Q, at + q_step + k), b)
            c = fused(factor, row_of(Q, at + 2 * q_step + k), c)
            d = fused(factor, row_of(Q, at + 3 * q_step + k), d)
        store(out, (o + t * o_step) * LANES, a)
        store(out, (o + (t + 1) * o_step) * LANES, b)
        store(out, (o + (t + 2) * o_step) * LANES, c)
        store(out, (o + (t + 3) * o_step) * LANES, d)
        t += TILE
    while t < count:
        a = row_of(start, s + t * s_step)
        for k in range(n):
            a = fused(row_of(P, p + k) * -1.0, row_of(Q, q + t * q_step + k), a)
        store(out, (o + t * o_step) * LANES, a)
        t += 1


@kernel
def refresh(M: Floats, B: Floats, inverse: Floats, solution: Floats, logdet: Floats) -> None:
    """For each user: inverse = M⁻¹ (exactly symmetric), solution = M⁻¹B, logdet = log det M.

    By M = LDLᵀ, L with ones on its diagonal, so that everything is a function of M and B alone: no drift, no history.
    M⁻¹B comes from two triangular solves and not from the inverse, which loses digits when M is ill conditioned. As M
    is the identity and more, no pivot is below 1; rounding can put one there once entries of M pass 1e12, so pivots
    are kept above 1 and above 1e-12 of the diagonal.

    Four users at a time, one in each lane; where fewer are left, the last one fills the lanes. Cost: d³/2
    multiplications a user.
    """
    users, d = B.shape
    n = d + 1  # B is treated as one more row of M
    G = np.empty((n * d, LANES))  # (n, d): M and B, then LD by columns, then M⁻¹
    U = np.empty((d * n, LANES))  # (d, n): Lᵀ, and in the last column D⁻¹L⁻¹B
    vectors = np.empty((3, d, LANES))
    row, scale, x = vectors[0], vectors[1], vectors[2]  # of L, D⁻¹, the solution
    numbers = np.empty((4, 1, LANES))
    zero, one, product, total = numbers[0], numbers[1], numbers[2, 0], numbers[3, 0]
    zero[:], one[:] = 0.0, 1.0
    for first in range(0, users, LANES):
        last = min(first + LANES, users) - 1
        product[:], total[:] = 1.0, 0.0
        for i in range(d):
            for lane in range(LANES):
                G[d * d + i, lane] = B[min(first + lane, last), i]
            for j in range(i + 1):
                for lane in range(LANES):
                    G[i * d + j, lane] = M[min(first + lane, last), i, j]
        for j in range(d):
            multiply(row, 0, 1, G, j * d, 1, scale, 0, 1, j)
            subtract(scale, j, 0, G, j * d + j, 0, row, 0, G, j * d, 0, j, 1)
            for lane in range(LANES):
                pivot = max(1.0, 1e-12 * G[j * d + j, lane], scale[j, lane])
                scale[j, lane] = 1.0 / pivot
                product[lane] *= pivot
                if product[lane] > 1e150:
                    total[lane] += log(product[lane])
                    product[lane] = 1.0
            at, left = (j + 1) * d, d - j
            subtract(G, at + j, d, G, at + j, d, row, 0, G, at, d, j, left)
            multiply(U, j * n + j + 1, 1, G, at + j, d, scale, j, 0, left)
        # From the last row up: x by Lᵀx = D⁻¹L⁻¹B, and M⁻¹ by LᵀM⁻¹ = D⁻¹L⁻¹, which is 0 above its diagonal D⁻¹.
        for i in range(d - 1, -1, -1):
            at, left = i * n + i + 1, d - 1 - i
            subtract(x, i, 0, U, i * n + d, 0, x, i + 1, U, at, 0, left, 1)
            subtract(G, i * d + i + 1, 1, zero, 0, 0, U, at, G, (i + 1) * (d + 1), d, left, left)
            multiply(G, (i + 1) * d + i, d, G, i * d + i + 1, 1, one, 0, 0, left)
            subtract(G, i * d + i, 0, scale, i, 0, U, at, G, i * d + i + 1, 0, left, 1)
        # Idle lanes hold the last user too, so they may write: the same numbers to the same places.
        for i in range(d):
            for lane in range(LANES):
                solution[min(first + lane, last), i] = x[i, lane]
            for j in range(d):
                for lane in range(LANES):
                    inverse[min(first + lane, last), i, j] = G[i * d + j, lane]
        for lane in range(LANES):
            logdet[min(first + lane, last)] = total[lane] + log(product[lane])


@kernel
def draw(M: Floats, mean: Floats, normal: Floats, out: Floats) -> None:
    """Mean + L⁻ᵀz into out (users, d), where M = LLᵀ (Cholesky) and z = normal (users, d) are standard normal numbers.

    That is a draw from the Gaussian of this mean and covariance M⁻¹, as (L⁻ᵀ)(L⁻ᵀ)ᵀ = M⁻¹. Pivots are kept above 1, as
    in refresh. Cost: d³/6 multiplications a user.
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
