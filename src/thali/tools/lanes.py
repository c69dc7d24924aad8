"""A vector type for kernels: several floats that are processed at once, with the same arithmetic as single floats.

Numba vectorizes long loops but not operations on eight adjacent numbers, and it has no way to declare that arrays do
not overlap. So this module defines the few vector operations that kernels need, directly for LLVM. Each lane follows
IEEE arithmetic: operations are not reordered, and they are not combined except by :func:`fused`. So the result in a
lane is the same, bit for bit, as the result of the same operations on single floats. LLVM maps the vectors to the
registers of the machine, whatever their width. Vectors are eight floats wide, or four if loaded with :func:`load4`.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import models, overload, register_model

# Kernels call the functions below without the context argument that Numba adds, which no type checker can follow.
intrinsic: Any = extending.intrinsic

WIDTH = 8
DOUBLE, WORD, LONG = ir.DoubleType(), ir.IntType(32), ir.IntType(64)


class Lanes(types.Type):
    """The Numba type of a vector of ``width`` floats."""

    def __init__(self, width: int) -> None:
        super().__init__(name=f"Lanes({width})")
        self.width = width

    @property
    def key(self) -> int:
        """Identifies the type; Numba compares types by it."""
        return self.width


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _vector(kind.width))


LANES = Lanes(WIDTH)


def _vector(width: int, element: Any = DOUBLE) -> Any:
    return ir.VectorType(element, width)


VECTOR = _vector(WIDTH)


def _spread(builder: Any, value: Any, vector: Any) -> Any:
    """Broadcast a float to every lane; return a vector unchanged."""
    if value.type == vector:
        return value
    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, value, WORD(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(_vector(vector.count, WORD), None))


def _contiguous(*arrays: Any) -> None:
    """Reject non-contiguous arrays when a kernel is compiled, because the entries of a vector must be adjacent."""
    for array in arrays:
        if array.layout != "C":
            raise TypingError(f"vectors need contiguous arrays, got {array}")


def _address(context: Any, builder: Any, signature: Any, args: Any, kind: Any) -> Any:
    """Return the address of args[0][args[1]], as a pointer to a vector of this kind."""
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    return builder.bitcast(builder.gep(data, [args[1]]), kind.as_pointer())


def _choice(builder: Any, sign: str, a: Any, b: Any) -> Any:
    """Return, in each lane, a if ``a sign b`` is true, else b."""
    return builder.select(builder.fcmp_ordered(sign, a, b), a, b)


def _call(builder: Any, name: str, *values: Any) -> Any:
    """Call the LLVM intrinsic with this name on values of the same type."""
    kind = values[0].type
    suffix = f"v{kind.count}f64" if isinstance(kind, ir.VectorType) else "f64"
    function = ir.FunctionType(kind, [kind] * len(values))
    return builder.call(cgutils.get_or_insert_function(builder.module, function, f"llvm.{name}.{suffix}"), values)


def _reaching(builder: Any, lanes: Any, value: Any) -> Any:
    """Return one bit for each lane: whether the lane is at least value."""
    at_least = builder.fcmp_ordered(">=", lanes, _spread(builder, value, VECTOR))
    return builder.bitcast(at_least, ir.IntType(WIDTH))


def _arithmetic(symbol: Any, name: str) -> None:
    """Register with Numba an operation on two vectors, or on a vector and a float."""

    @intrinsic
    def apply(context, a, b):
        kind = a if isinstance(a, Lanes) else b

        def lower(context, builder, signature, args):
            vector = _vector(kind.width)
            return getattr(builder, name)(*(_spread(builder, value, vector) for value in args))

        return kind(a, b), lower

    @overload(symbol)
    def operation(a, b):
        kinds = (type(a), type(b))
        if Lanes in kinds and all(issubclass(kind, Lanes | types.Float) for kind in kinds):
            return lambda a, b: apply(a, b)
        return None


for symbol, name in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    _arithmetic(symbol, name)


@intrinsic
def fused(context, a, b, c):
    """a·b + c with a single rounding, for three floats or for vectors; floats are broadcast to every lane."""
    kind = next((value for value in (a, b, c) if isinstance(value, Lanes)), types.float64)

    def lower(context, builder, signature, args):
        if kind is not types.float64:
            args = [_spread(builder, value, _vector(kind.width)) for value in args]
        return _call(builder, "fma", *args)

    return kind(a, b, c), lower


def _loading(width: int) -> Any:
    @intrinsic
    def load(context, array, at):
        """array[at : at + width] of a contiguous array of floats."""
        _contiguous(array)

        def lower(context, builder, signature, args):
            return builder.load(_address(context, builder, signature, args, _vector(width)), align=8)

        return Lanes(width)(array, at), lower

    return load


load, load4 = _loading(WIDTH), _loading(4)


@intrinsic
def load_bytes(context, array, at):
    """array[at : at + 8] of a contiguous array of bytes, as floats."""
    _contiguous(array)

    def lower(context, builder, signature, args):
        bytes_ = builder.load(_address(context, builder, signature, args, _vector(WIDTH, ir.IntType(8))), align=1)
        return builder.sitofp(builder.zext(bytes_, _vector(WIDTH, WORD)), VECTOR)

    return LANES(array, at), lower


@intrinsic
def store(context, array, at, lanes):
    """array[at : at + width] = lanes."""
    _contiguous(array)

    def lower(context, builder, signature, args):
        builder.store(args[2], _address(context, builder, signature, args, args[2].type), align=8)
        return context.get_dummy_value()

    return types.void(array, at, lanes), lower


@intrinsic
def gather(context, array, indices, at):
    """array[indices[at : at + 8]], for an array of floats and an array of unsigned 32-bit indices.

    It uses eight loads, which is faster than loading the indices as a vector or using the machine's gather instruction.
    """
    _contiguous(array, indices)

    def lower(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        where = context.make_array(signature.args[1])(context, builder, args[1]).data
        first = builder.gep(where, [args[2]])
        gathered = ir.Constant(VECTOR, ir.Undefined)
        for n in range(WIDTH):
            index = builder.load(builder.gep(first, [LONG(n)]))
            value = builder.load(builder.gep(data, [builder.zext(index, LONG)]))
            gathered = builder.insert_element(gathered, value, WORD(n))
        return gathered

    return LANES(array, indices, at), lower


@intrinsic
def spread(context, value):
    """Broadcast a float to every lane."""
    return LANES(value), lambda context, builder, signature, args: _spread(builder, args[0], VECTOR)


@intrinsic
def positive(context, lanes):
    """max(0, v) for every lane v."""

    def lower(context, builder, signature, args):
        return _choice(builder, ">", args[0], ir.Constant(VECTOR, None))

    return LANES(lanes), lower


@intrinsic
def larger(context, a, b):
    """The larger of two in every lane."""
    return LANES(a, b), lambda context, builder, signature, args: _choice(builder, ">", *args)


@intrinsic
def smaller(context, a, b):
    """The smaller of two in every lane."""
    return LANES(a, b), lambda context, builder, signature, args: _choice(builder, "<", *args)


@intrinsic
def root(context, lanes):
    """The square root of every lane."""
    return LANES(lanes), lambda context, builder, signature, args: _call(builder, "sqrt", args[0])


@intrinsic
def rough_roots(context, lanes):
    """(r, y): the approximate square root of every lane (at least 1e-15) and its inverse. Much faster than exact roots.

    Both are too low, with a relative error of at most about 1e-5. The first guess is computed from the bits of the
    number. Two Newton steps follow, which approach the result from below.
    """

    def lower(context, builder, signature, args):
        def everywhere(value, kind=DOUBLE):
            return ir.Constant(_vector(WIDTH, kind), [value] * WIDTH)

        value = _choice(builder, ">", args[0], everywhere(1e-30))
        bits = builder.bitcast(value, _vector(WIDTH, LONG))
        halved = builder.sub(everywhere(0x5FE6EB50C7B537A9, LONG), builder.lshr(bits, everywhere(1, LONG)))
        guess = builder.bitcast(halved, VECTOR)
        half = builder.fmul(value, everywhere(-0.5))
        for _ in range(2):
            off = _call(builder, "fma", builder.fmul(half, guess), guess, everywhere(1.5))
            guess = builder.fmul(guess, off)
        return context.make_tuple(builder, signature.return_type, [builder.fmul(value, guess), guess])

    return types.UniTuple(LANES, 2)(lanes), lower


@intrinsic
def largest(context, lanes):
    """The largest of the lanes, none of which is NaN."""

    def lower(context, builder, signature, args):
        value = args[0]
        while value.type.count > 1:
            half = value.type.count // 2
            low, high = (
                builder.shuffle_vector(value, value, ir.Constant(_vector(half, WORD), list(range(at, at + half))))
                for at in (0, half)
            )
            value = _choice(builder, ">", low, high)
        return builder.extract_element(value, WORD(0))

    return types.float64(lanes), lower


@intrinsic
def reaches(context, lanes, value):
    """Whether any lane is at least value."""

    def lower(context, builder, signature, args):
        bits = _reaching(builder, *args)
        return builder.icmp_unsigned("!=", bits, bits.type(0))

    return types.boolean(lanes, value), lower


@intrinsic
def reaching(context, lanes, value):
    """A bit mask of the lanes that are at least value."""

    def lower(context, builder, signature, args):
        return builder.zext(_reaching(builder, *args), LONG)

    return types.uint64(lanes, value), lower


@intrinsic
def where_any(context, masks, at, bits, a, b):
    """In each lane n, the value of a if masks[at + n] has any of these bits, else the value of b."""
    _contiguous(masks)

    def lower(context, builder, signature, args):
        kind = _vector(WIDTH, LONG)
        own = builder.load(_address(context, builder, signature, args, kind), align=8)
        common = builder.and_(own, _spread(builder, args[2], kind))
        return builder.select(builder.icmp_unsigned("!=", common, ir.Constant(kind, None)), args[3], args[4])

    return LANES(masks, at, bits, a, b), lower


@intrinsic
def lowest(context, mask):
    """The number of the lowest set bit of a nonzero mask."""
    return types.uint64(types.uint64), lambda context, builder, signature, args: builder.cttz(args[0], ir.IntType(1)(1))
