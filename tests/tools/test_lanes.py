"""Vectors for kernels: each lane must contain exactly the result of the same operation on single floats."""

from fractions import Fraction

import numpy as np
import pytest
from numba import njit

from thali.tools import lanes
from thali.tools.lanes import (
    fused,
    gather,
    larger,
    largest,
    load,
    load4,
    load_bytes,
    lowest,
    positive,
    reaches,
    reaching,
    root,
    rough_roots,
    smaller,
    spread,
    store,
    where_any,
)  # fmt: skip


@njit
def arithmetic(a, b, c, out):
    x, y = load(a, 0), load(b, 0)
    for n, value in enumerate((x + y, x - y, x * y, x + c, c - y, x * c, larger(x, y), smaller(x, y), positive(x))):
        store(out, 8 * n, value)
    store(out, 72, root(positive(x)))
    store(out, 80, spread(c))
    store(out, 88, x * c + y * (x - c) * y)


def test_lanes_compute_the_same_as_single_floats():
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, b = rng.normal(size=(2, 8)) * 10.0 ** rng.integers(-150, 70, size=(2, 8))
        c = float(rng.normal())
        out = np.empty(96)
        arithmetic(a, b, c, out)
        expected = [a + b, a - b, a * b, a + c, c - b, a * c, np.maximum(a, b), np.minimum(a, b), np.maximum(a, 0)]
        expected += [np.sqrt(np.maximum(a, 0)), np.full(8, c), a * c + b * (a - c) * b]
        np.testing.assert_array_equal(out.reshape(12, 8), expected)


@njit
def products(a, b, c, out):
    store(out, 0, fused(load(a, 0), load(b, 0), load(c, 0)))
    store(out, 8, fused(load(a, 0), b[0], c[0]))
    for n in range(8):
        out[16 + n] = fused(a[n], b[n], c[n])


def test_fused_products_are_rounded_once_in_lanes_and_single_floats():
    rng = np.random.default_rng(1)
    out = np.empty(24)
    once = 0
    for _ in range(200):
        a, b = rng.normal(size=(2, 8))
        c = -a * b * (1 + rng.normal(size=8) * 1e-15)  # almost cancels: rounding the product first would show
        products(a, b, c, out)
        exact = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
        assert out[16:].tolist() == exact
        assert out[:8].tolist() == exact
        assert out[8:16].tolist() == [float(Fraction(x) * Fraction(b[0]) + Fraction(c[0])) for x in a]
        once += (out[:8] != a * b + c).sum()
    assert once > 800


@njit
def memory(a, indices, bytes_, at, out):
    store(out, 0, gather(a, indices, at))
    store(out, 8, load(a, at))
    store(out, 16, load_bytes(bytes_, at))
    store(out, 24, load4(a, at))
    store(out, 28, load4(a, at + 1))
    return largest(load(a, at))


@pytest.mark.parametrize("at", [0, 1, 5])
def test_lanes_are_read_and_written_at_the_given_position(at):
    rng = np.random.default_rng(at)
    a, indices = rng.normal(size=20), rng.integers(0, 20, size=20).astype(np.uint32)
    bytes_, out = rng.integers(0, 256, size=20).astype(np.uint8), np.empty(32)
    assert memory(a, indices, bytes_, at, out) == a[at : at + 8].max()
    expected = [a[indices[at : at + 8]], a[at : at + 8], bytes_[at : at + 8], a[at : at + 4], a[at + 1 : at + 5]]
    np.testing.assert_array_equal(out, np.concatenate(expected))


@njit
def comparisons(a, goal, out):
    out[:] = False
    bits = reaching(load(a, 0), goal)
    while bits:
        out[lowest(bits)] = True
        bits &= bits - np.uint64(1)
    return reaches(load(a, 0), goal)


def test_lanes_are_compared_with_a_goal():
    rng = np.random.default_rng(2)
    out = np.empty(8, dtype=np.bool_)
    for _ in range(300):
        a, goal = rng.normal(size=8), float(rng.normal() * 2)
        a[rng.random(8) < 0.1] = goal  # equal counts as reached
        assert comparisons(a, goal, out) == (a >= goal).any()
        np.testing.assert_array_equal(out, a >= goal)


@njit
def chosen(masks, at, bits, a, b, out):
    store(out, 0, where_any(masks, at, bits, load(a, 0), load(b, 0)))


@pytest.mark.parametrize("at", [0, 3])
def test_lanes_are_chosen_by_their_bits(at):
    rng = np.random.default_rng(at)
    out = np.empty(8)
    for _ in range(100):
        masks = np.int64(1) << rng.integers(0, 63, size=11)
        bits = np.bitwise_or.reduce(np.int64(1) << rng.integers(0, 63, size=20))
        a, b = rng.normal(size=(2, 8))
        chosen(masks, at, bits, a, b, out)
        np.testing.assert_array_equal(out, np.where(masks[at : at + 8] & bits, a, b))


@njit
def rough(a, out):
    r, inverse = rough_roots(load(a, 0))
    store(out, 0, r)
    store(out, 8, inverse)


def test_rough_roots_are_approximated_from_below_and_never_0():
    rng = np.random.default_rng(3)
    out = np.empty(16)
    for _ in range(3000):
        a = rng.uniform(1.0, 10.0, size=8) * 10.0 ** rng.integers(-30, 290, size=8)
        rough(a, out)
        for share in (out[:8] / np.sqrt(a), out[8:] * np.sqrt(a)):
            assert 1 - 5e-6 < share.min() <= share.max() < 1 + 1e-15
    rough(np.array([0.0, -1.0, 1e-300, 5e-324, 1e-40, -np.inf, 0.0, 0.0]), out)
    np.testing.assert_allclose(out[:8], 1e-15, rtol=5e-6)
    np.testing.assert_allclose(out[8:], 1e15, rtol=5e-6)


def test_other_widths_are_other_types():
    assert lanes.Lanes(8) == lanes.LANES
    assert lanes.Lanes(4) != lanes.LANES
