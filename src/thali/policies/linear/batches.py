"""The posterior of many users: the same numbers as :func:`thali.policies.linear.posterior.refresh`, bit for bit."""

from math import log
from typing import Any

import numpy as np

from thali.policies.linear.posterior import Reading, entry
from thali.tools.fast import FastCode
from thali.tools.jit import inlined, kernel
from thali.tools.lanes import fused, load4, store
from thali.tools.types import Floats

# The number of users computed together, one in each lane. With eight users, the scratch arrays would not fit into the
# L1 cache.
LANES = 4
# The number of rows computed together. Their sums are independent, so none has to wait for another.
TILE = 4


@inlined
def row_of(array: Floats, n: int) -> Any:
    """Return row n of an array (rows, LANES)."""
    return load4(array, n * LANES)


@inlined
def multiply(
    out: Floats, o: int, o_step: int, P: Floats, p: int, p_step: int, Q: Floats, q: int, q_step: int, count: int
) -> None:
    """Set out[o + t·o_step] = P[p + t·p_step]·Q[q + t·q_step] for t < count, where each entry is a row of lanes."""
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
    """Set out[o + t·o_step] = start[s + t·s_step] - Σ_{k<n} P[p + k]·Q[q + t·q_step + k] for t < count, in order."""
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
def refresh(M: Floats, B: Floats, reading: Reading, inverse: Floats, solution: Floats, logdet: Floats) -> None:
    """Compute inverse = M′⁻¹, solution = M′⁻¹B′ and logdet = log det M′ for four users at a time, one in each lane.

    If fewer than four users remain, the last one fills the other lanes. Cost: d³/2 multiplications for each user.
    """
    users, d = B.shape
    n = d + 1  # B′ is treated as an extra row of M′
    G = np.empty((n * d, LANES))  # (n, d): first M′ and B′, then LD by columns, then M′⁻¹
    U = np.empty((d * n, LANES))  # (d, n): Lᵀ, and D⁻¹L⁻¹B′ in the last column
    vectors = np.empty((3, d, LANES))
    row, scale, x = vectors[0], vectors[1], vectors[2]  # a row of L, D⁻¹, the solution
    numbers = np.empty((4, 1, LANES))
    zero, one, product, total = numbers[0], numbers[1], numbers[2, 0], numbers[3, 0]
    zero[:], one[:] = 0.0, 1.0
    # Numba compiles a function again for each combination of literal arguments, but not for these.
    I0: Any = np.int64(0)
    I1: Any = np.int64(1)
    for first in range(0, users, LANES):
        last = min(first + LANES, users) - 1
        product[:], total[:] = 1.0, 0.0
        for i in range(d):
            for lane in range(LANES):
                G[d * d + i, lane] = B[min(first + lane, last), i] + reading.shift[i]
            for j in range(i + 1):
                for lane in range(LANES):
                    G[i * d + j, lane] = entry(M, min(first + lane, last), i, j, reading)
        for j in range(d):
            multiply(row, I0, I1, G, j * d, I1, scale, I0, I1, j)
            subtract(scale, j, I0, G, j * d + j, I0, row, I0, G, j * d, I0, j, I1)
            for lane in range(LANES):
                pivot = max(reading.least, 1e-12 * G[j * d + j, lane], scale[j, lane])
                scale[j, lane] = 1.0 / pivot
                product[lane] *= pivot
                if product[lane] > 1e150 or product[lane] < 1e-150:
                    total[lane] += log(product[lane])
                    product[lane] = 1.0
            at, left = (j + 1) * d, d - j
            subtract(G, at + j, d, G, at + j, d, row, I0, G, at, d, j, left)
            multiply(U, j * n + j + 1, I1, G, at + j, d, scale, j, I0, left)
        # From the last row up, solve Lᵀx = D⁻¹L⁻¹B′ and LᵀM′⁻¹ = D⁻¹L⁻¹, whose right side is 0 above its diagonal D⁻¹.
        for i in range(d - 1, -1, -1):
            at, left = i * n + i + 1, d - 1 - i
            subtract(x, i, I0, U, i * n + d, I0, x, i + 1, U, at, I0, left, I1)
            subtract(G, i * d + i + 1, I1, zero, I0, I0, U, at, G, (i + 1) * (d + 1), d, left, left)
            multiply(G, (i + 1) * d + i, d, G, i * d + i + 1, I1, one, I0, I0, left)
            subtract(G, i * d + i, I0, scale, i, I0, U, at, G, i * d + i + 1, I0, left, I1)
        # Spare lanes repeat the last user, so they write the same numbers to the same entries.
        for i in range(d):
            for lane in range(LANES):
                solution[min(first + lane, last), i] = x[i, lane]
            for j in range(d):
                for lane in range(LANES):
                    inverse[min(first + lane, last), i, j] = G[i * d + j, lane]
        for lane in range(LANES):
            logdet[min(first + lane, last)] = total[lane] + log(product[lane])


def example() -> None:
    """Call :func:`refresh`, so that it is compiled."""
    reading = Reading(np.eye(2), np.zeros(2), 1.0, 1.0)
    refresh(np.eye(2)[None], np.zeros((1, 2)), reading, np.empty((1, 2, 2)), np.empty((1, 2)), np.empty(1))


CODE = FastCode("code for batches of users", refresh, example)
