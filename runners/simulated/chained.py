"""The matrix product of f64: a chain of fused multiply-adds for each element.

Measured on an H200 (November 2026): k runs upward, and every step is rounded in the instruction's
mode. All arrays have the warps as their last axis.
"""

import numpy as np
from numpy.typing import NDArray

from runners.simulated.binary import F64
from runners.simulated.fused import Product, add, multiply_add, products
from runners.simulated.units import DoubleUnit, Matrix

Words = NDArray[np.uint64]

_AT_ONCE = 128
"""Warps computed together, so that the many intermediate arrays stay in a core's cache."""

_ONE = np.array([0x3FF0_0000_0000_0000], np.uint64)
_MINUS_ZERO = np.array([F64.sign], np.uint64)


def _flushed(words: Words, flush: bool) -> Words:
    if not flush:
        return words
    subnormal = (words & np.uint64(F64.infinity)) == 0
    return np.where(subnormal, words & _MINUS_ZERO, words)


def _fma(a: Words, b: Words, c: Words, unit: DoubleUnit) -> Words:
    return multiply_add(a, b, c, F64, unit.rounding, unit.nan)


def _step(product: Product, c: Words, unit: DoubleUnit) -> Words:
    if unit.fused:
        return add(product, c, unit.rounding, unit.nan)
    # A zero of the product's own sign leaves every product as it is, zeros too.
    zero = (product.x.words ^ product.y.words) & _MINUS_ZERO
    return _fma(add(product, zero, unit.rounding, unit.nan), _ONE, c, unit)


def _chain(a: Words, b: Words, c: Words, unit: DoubleUnit) -> Words:
    depth = a.shape[1] if unit.products is None else unit.products
    order = range(depth - 1, -1, -1) if unit.descending else range(depth)
    exact = products(a, b, F64)
    if unit.pairwise:
        start = np.zeros_like(c)
        halves = [start, start]
        for k in order:
            halves[k % 2] = _step(exact[k], halves[k % 2], unit)
        summed = _fma(halves[0], _ONE, halves[1], unit)
        return _fma(summed, _ONE, c, unit)
    total = c
    for k in order:
        total = _step(exact[k], total, unit)
    return total


def multiply_doubles(a: Words, b: Words, c: Words, unit: DoubleUnit) -> Words:
    """Return D = A times B plus C.

    Parameters
    ----------
    a, b, c
        (M, K, warps), (K, N, warps) and (M, N, warps) raw words.
    unit
        How it is computed.

    Returns
    -------
    d
        (M, N, warps) raw words.
    """
    a = _flushed(a, Matrix.A in unit.flushed)
    b = _flushed(b, Matrix.B in unit.flushed)
    c = _flushed(c, Matrix.C in unit.flushed)
    chunks = []
    for start in range(0, a.shape[-1], _AT_ONCE):
        chosen = slice(start, start + _AT_ONCE)
        chunks.append(_chain(a[..., chosen], b[..., chosen], c[..., chosen], unit))
    return _flushed(np.concatenate(chunks, axis=-1), Matrix.D in unit.flushed)
