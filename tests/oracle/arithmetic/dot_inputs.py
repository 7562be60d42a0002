"""Inputs of dot products that tell models of matrix multiplication apart (patterns, K last)."""

import numpy as np

COUNT = 120


def _f16(values):
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float16).view(np.uint16)


def _f32(values):
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float32).view(np.uint32)


def values_f16(bits):
    return bits.view(np.float16).astype(np.float64)


def values_f32(bits):
    return bits.view(np.float32).astype(np.float64)


def normal(rng, k=16, count=COUNT):
    a, b = _f16(rng.standard_normal((2, count, k)))
    return a, b, _f32(rng.standard_normal(count))


def uniform_bits(rng, k=16, count=COUNT):
    a, b = rng.integers(0, 1 << 16, (2, count, k), dtype=np.uint16)
    return a, b, rng.integers(0, 1 << 32, count, dtype=np.uint32)


def cancelling(rng, k=16, count=COUNT):
    """c is minus the rounded dot product, so that what is left is what truncation left out."""
    a, b, _ = normal(rng, k, count)
    dot = (values_f16(a) * values_f16(b)).sum(-1)
    return a, b, _f32(-dot)


def mirrored(rng, k=16, count=COUNT):
    """Products in pairs of both signs but for a small one: shows where sums are cut."""
    a, b, _ = normal(rng, k, count)
    half = k // 2
    a[:, half:], b[:, half:] = a[:, :half] ^ 0x8000, b[:, :half]
    order = rng.permuted(np.tile(np.arange(k), (count, 1)), axis=1)
    a, b = np.take_along_axis(a, order, 1), np.take_along_axis(b, order, 1)
    a[:, 0] = _f16(rng.standard_normal(count) * 2.0**-9)
    return a, b, _f32(rng.standard_normal(count) * 2.0**-12)


def wide(rng, k=16, count=COUNT):
    scale = 2.0 ** rng.integers(-12, 8, (2, count, k))
    a, b = _f16(rng.standard_normal((2, count, k)) * scale)
    return a, b, _f32(rng.standard_normal(count) * 2.0 ** rng.integers(-12, 12, count))


def subnormal(rng, k=16, count=COUNT):
    a, b, c = normal(rng, k, count)
    fraction = rng.integers(1, 1 << 10, (count, k), dtype=np.uint16)
    return fraction | (a & 0x8000), b, _f32(values_f32(c) * 2.0**-16)


def tf32_normal(rng, k=8, count=COUNT):
    a, b = _f32(rng.standard_normal((2, count, k)))
    return a, b, _f32(rng.standard_normal(count))


def double_rounding(rng, k=16, count=COUNT):
    """A sum just above a tie of the f16 grid, by less than a unit of f32.

    An odd multiple of 2^-11 in [1, 2) is a tie; 2^-24 or 2^-25 more is kept by the cut, lost when
    the sum is rounded to f32 toward zero, and decides the tie if it is not.
    """
    a, b = np.zeros((2, count, k), np.uint16)
    a[:, 0] = _f16(1 + rng.integers(0, 1 << 10, count) * 2.0**-10)
    b[:, 0] = _f16(np.ones(count))
    a[:, 1], b[:, 1] = _f16(np.full(count, 2.0**-5)), _f16(np.full(count, 2.0**-6))
    a[:, 2] = _f16(np.full(count, 2.0**-12))
    b[:, 2] = _f16(2.0 ** -rng.integers(12, 14, count).astype(float))
    return a, b, np.zeros(count, np.uint32)
