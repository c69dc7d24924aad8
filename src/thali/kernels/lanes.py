"""The same arithmetic for four users at once: arrays (n, LANES), one user a lane, a row of them in one instruction.

Numba vectorises long loops, not four numbers side by side, so the two operations that take nearly all the time of
:mod:`thali.kernels.posterior` are written for LLVM here. Lanes never mix and nothing is reordered or contracted: each
lane gets, to the last bit, what the plain loops below give, which also run where Numba is switched off.
"""

from inspect import isfunction

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from thali.kernels.jit import inlined

LANES = 4
ROW = ir.VectorType(ir.DoubleType(), LANES)
# Rows that are computed together: independent sums, so that one does not wait for the other.
TILE = 4


def plain_multiply(out, o, o_step, P, p, p_step, Q, q, q_step, count):
    """out[o + t·o_step] = P[p + t·p_step]·Q[q + t·q_step] for t < count."""
    for t in range(count):
        out[o + t * o_step] = P[p + t * p_step] * Q[q + t * q_step]


def plain_subtract(out, o, o_step, start, s, s_step, P, p, Q, q, q_step, n, count):
    """out[o + t·o_step] = start[s + t·s_step] - Σ_{k<n} P[p + k]·Q[q + t·q_step + k] for t < count, in this order."""
    for t in range(count):
        total = np.copy(start[s + t * s_step])
        for k in range(n):
            total -= P[p + k] * Q[q + t * q_step + k]
        out[o + t * o_step] = total


def _rows(context, builder, signature, args, i):
    """The address of row args[i + 1] of the array args[i]."""
    data = context.make_array(signature.args[i])(context, builder, args[i]).data
    return builder.gep(builder.bitcast(data, ROW.as_pointer()), [args[i + 1]])


def _at(builder, rows, step, t):
    return builder.gep(rows, [builder.mul(step, t)])


@intrinsic
def _multiply(_, out, o, o_step, P, p, p_step, Q, q, q_step, count):
    """plain_multiply."""

    def build(context, builder, signature, args):
        to, P, Q = (_rows(context, builder, signature, args, i) for i in (0, 3, 6))
        with cgutils.for_range(builder, args[9], intp=args[9].type) as loop:
            a = builder.load(_at(builder, P, args[5], loop.index), align=8)
            b = builder.load(_at(builder, Q, args[8], loop.index), align=8)
            builder.store(builder.fmul(a, b), _at(builder, to, args[2], loop.index), align=8)
        return context.get_dummy_value()

    at = (types.intp, types.intp)
    return types.void(out, *at, P, *at, Q, *at, types.intp), build


def _subtract_rows(rows):
    """plain_subtract of exactly so many rows (count), whose sums stay in registers."""

    @intrinsic
    def subtract_rows(_, out, o, o_step, start, s, s_step, P, p, Q, q, q_step, n):
        def build(context, builder, signature, args):
            to, start, P, Q = (_rows(context, builder, signature, args, i) for i in (0, 3, 6, 8))
            o_step, s_step, q_step, n = (args[i] for i in (2, 5, 10, 11))
            numbers = [n.type(t) for t in range(rows)]
            sums = [
                cgutils.alloca_once_value(builder, builder.load(_at(builder, start, s_step, t), align=8))
                for t in numbers
            ]
            factors = [_at(builder, Q, q_step, t) for t in numbers]
            with cgutils.for_range(builder, n, intp=n.type) as loop:
                a = builder.load(builder.gep(P, [loop.index]), align=8)
                for sum_, factor in zip(sums, factors, strict=True):
                    product = builder.fmul(a, builder.load(builder.gep(factor, [loop.index]), align=8))
                    builder.store(builder.fsub(builder.load(sum_), product), sum_)
            for t, sum_ in zip(numbers, sums, strict=True):
                builder.store(builder.load(sum_), _at(builder, to, o_step, t), align=8)
            return context.get_dummy_value()

        at = (types.intp, types.intp)
        return types.void(out, *at, start, *at, P, types.intp, Q, *at, types.intp), build

    return subtract_rows


_subtract_tile = _subtract_rows(TILE)
_subtract_row = _subtract_rows(1)


@inlined
def _subtract(out, o, o_step, start, s, s_step, P, p, Q, q, q_step, n, count):
    t = 0
    while t + TILE <= count:
        _subtract_tile(out, o + t * o_step, o_step, start, s + t * s_step, s_step, P, p, Q, q + t * q_step, q_step, n)
        t += TILE
    while t < count:
        _subtract_row(out, o + t * o_step, o_step, start, s + t * s_step, s_step, P, p, Q, q + t * q_step, q_step, n)
        t += 1


# Where Numba is switched off, a kernel stays the function it was.
multiply = plain_multiply if isfunction(_subtract) else _multiply
subtract = plain_subtract if isfunction(_subtract) else _subtract
