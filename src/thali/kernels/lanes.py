"""Eight floats at once: a vector type for kernels, with the arithmetic of its single floats.

Each operation is IEEE's on every lane, so a result in a lane is, bit for bit, what the same operations on single
floats give. LLVM fits the vectors to the machine's registers, wide or narrow.
"""

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, overload, register_model

WIDTH = 8
VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)


class Lanes(types.Type):
    """The type of a vector of eight floats."""

    def __init__(self) -> None:
        super().__init__(name="Lanes8")


LANES = Lanes()


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def _spread(builder: Any, value: Any) -> Any:
    """A float in every lane."""
    if value.type == VECTOR:
        return value
    first = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), None)
    return builder.shuffle_vector(first, ir.Constant(VECTOR, ir.Undefined), zeros)


def _arithmetic(name: str) -> Any:
    """An operation on two vectors, or on a vector and a float."""

    @intrinsic
    def apply(context: Any, a: Any, b: Any) -> Any:
        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, name)(_spread(builder, args[0]), _spread(builder, args[1]))

        return LANES(a, b), lower

    return apply


_added, _subtracted, _multiplied = _arithmetic("fadd"), _arithmetic("fsub"), _arithmetic("fmul")
_divided = _arithmetic("fdiv")


def _fits(a: Any, b: Any) -> bool:
    return Lanes in (type(a), type(b)) and all(isinstance(v, Lanes | types.Float) for v in (a, b))


@overload(operator.add)
def _add(a, b):
    if _fits(a, b):
        return lambda a, b: _added(a, b)


@overload(operator.sub)
def _sub(a, b):
    if _fits(a, b):
        return lambda a, b: _subtracted(a, b)


@overload(operator.mul)
def _mul(a, b):
    if _fits(a, b):
        return lambda a, b: _multiplied(a, b)


@overload(operator.truediv)
def _div(a, b):
    if _fits(a, b):
        return lambda a, b: _divided(a, b)


@intrinsic
def load(context, array, at):
    """array[at : at + 8] of a contiguous array of floats."""

    def lower(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        pointer = builder.gep(data, [args[1]])
        found = builder.load(builder.bitcast(pointer, VECTOR.as_pointer()))
        found.align = 8
        return found

    return LANES(array, at), lower


@intrinsic
def store(context, array, at, lanes):
    """array[at : at + 8] = lanes."""

    def lower(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        pointer = builder.gep(data, [args[1]])
        builder.store(args[2], builder.bitcast(pointer, VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(array, at, lanes), lower


@intrinsic
def spread(context, value):
    """A float in every lane."""
    return LANES(value), lambda context, builder, signature, args: _spread(builder, args[0])


@intrinsic
def positive(context, lanes):
    """max(0, v) of every lane."""

    def lower(context, builder, signature, args):
        zero = ir.Constant(VECTOR, None)
        return builder.select(builder.fcmp_ordered(">", args[0], zero), args[0], zero)

    return LANES(lanes), lower


@intrinsic
def root(context, lanes):
    """The square root of every lane."""

    def lower(context, builder, signature, args):
        function = ir.FunctionType(VECTOR, [VECTOR])
        return builder.call(cgutils.get_or_insert_function(builder.module, function, f"llvm.sqrt.v{WIDTH}f64"), args)

    return LANES(lanes), lower


@intrinsic
def largest(context, lanes):
    """The largest of the lanes, none of which is NaN."""

    def lower(context, builder, signature, args):
        while args[0].type.count > 1:
            half = args[0].type.count // 2
            kind = ir.VectorType(ir.DoubleType(), half)
            def part(offset):
                picks = ir.Constant(ir.VectorType(ir.IntType(32), half), list(range(offset, offset + half)))
                return builder.shuffle_vector(args[0], args[0], picks)
            low, high = part(0), part(half)
            args = [builder.select(builder.fcmp_ordered(">", low, high), low, high)]
        return builder.extract_element(args[0], ir.Constant(ir.IntType(32), 0))

    return types.float64(lanes), lower


@intrinsic
def lane(context, lanes, n):
    """Lane n."""

    def lower(context, builder, signature, args):
        return builder.extract_element(args[0], builder.trunc(args[1], ir.IntType(32)))

    return types.float64(lanes, n), lower


@intrinsic
def gather(context, array, indices, at):
    """array[indices[at : at + 8]]: from an array of floats, by an array of unsigned 32-bit indices."""

    def lower(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        where = context.make_array(signature.args[1])(context, builder, args[1]).data
        first = builder.gep(where, [args[2]])
        found = ir.Constant(VECTOR, ir.Undefined)
        # Eight loads: faster than loading the indices as a vector, and than the machine's own gathering.
        for n in range(WIDTH):
            index = builder.load(builder.gep(first, [ir.Constant(ir.IntType(64), n)]))
            value = builder.load(builder.gep(data, [builder.zext(index, ir.IntType(64))]))
            found = builder.insert_element(found, value, ir.Constant(ir.IntType(32), n))
        return found

    return LANES(array, indices, at), lower


@intrinsic
def reaches(context, lanes, value):
    """Whether any lane is at least value."""

    def lower(context, builder, signature, args):
        bits = builder.fcmp_ordered(">=", args[0], _spread(builder, args[1]))
        mask = builder.bitcast(bits, ir.IntType(WIDTH))
        return builder.icmp_unsigned("!=", mask, ir.Constant(ir.IntType(WIDTH), 0))

    return types.boolean(lanes, value), lower


@intrinsic
def hopeful(context, mean, square, goal, factor):
    """The lanes in which mean + sqrt(factor·square) may reach goal, a bit for each, found without roots."""

    def lower(context, builder, signature, args):
        short = builder.fsub(_spread(builder, args[2]), args[0])
        product = builder.fmul(_spread(builder, args[3]), args[1])
        near = builder.fcmp_ordered("<=", short, ir.Constant(VECTOR, None))
        wide = builder.fcmp_ordered("<=", builder.fmul(short, short), product)
        mask = builder.bitcast(builder.or_(near, wide), ir.IntType(WIDTH))
        return builder.zext(mask, ir.IntType(64))

    return types.uint64(mean, square, goal, factor), lower


@intrinsic
def lowest(context, mask):
    """The number of the lowest bit of a mask that is not 0."""

    def lower(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), lower


@intrinsic
def larger(context, a, b):
    """The larger of two in every lane."""

    def lower(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[0], args[1])

    return LANES(a, b), lower


@intrinsic
def smaller(context, a, b):
    """The smaller of two in every lane."""

    def lower(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[0], args[1])

    return LANES(a, b), lower


@intrinsic
def prefetch(context, array, at):
    """Asks for the memory around array[at], which will soon be read."""

    def lower(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        pointer = builder.bitcast(builder.gep(data, [args[1]]), byte)
        builder.call(function, [pointer, ir.Constant(word, 0), ir.Constant(word, 3), ir.Constant(word, 1)])
        return context.get_dummy_value()

    return types.void(array, at), lower


@intrinsic
def load_bytes(context, array, at):
    """array[at : at + 8] of a contiguous array of bytes, as floats."""

    def lower(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        kind = ir.VectorType(ir.IntType(8), WIDTH)
        found = builder.load(builder.bitcast(builder.gep(data, [args[1]]), kind.as_pointer()))
        found.align = 1
        return builder.sitofp(builder.zext(found, ir.VectorType(ir.IntType(32), WIDTH)), VECTOR)

    return LANES(array, at), lower


SINGLE = ir.VectorType(ir.FloatType(), WIDTH)


@intrinsic
def rough_root(context, lanes):
    """The square root of every lane to some six digits, at least 1e-15: much faster."""

    def lower(context, builder, signature, args):
        kind = ir.FunctionType(SINGLE, [SINGLE])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{WIDTH}f32")
        least = ir.Constant(SINGLE, [1e-30] * WIDTH)
        value = builder.fptrunc(args[0], SINGLE)
        value = builder.select(builder.fcmp_ordered(">", value, least), value, least)
        return builder.fpext(builder.call(function, [value]), VECTOR)

    return LANES(lanes), lower


@intrinsic
def rough_inverse(context, lanes):
    """1/v of every lane to some six digits."""

    def lower(context, builder, signature, args):
        one = ir.Constant(SINGLE, [1.0] * WIDTH)
        return builder.fpext(builder.fdiv(one, builder.fptrunc(args[0], SINGLE)), VECTOR)

    return LANES(lanes), lower
