"""Dot products of which a unit cuts nothing off, as of small whole numbers.

A unit truncates terms to multiples of 2^(L - F), L being the largest exponent of a sum's terms
(`docs/oracle.md`, "Truncated sums"). Where all terms of a tile are such multiples whatever its sums
have, and float32 holds each partial sum, all orders of addition give the same.
"""

from __future__ import annotations

from functools import cache
from math import ceil, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import narrow
from oracle.arithmetic.dots import decoded_halves, element_values
from oracle.isa.forms import FORMATS, format_named
from oracle.models import TruncatedDot

Array = NDArray[Any]
_BITS = 24
"""Bits of a float32's significand."""
_NONE, _SPECIAL = 1 << 10, 1 << 12
"""Lowest bit of a zero; exponent of what is infinite or NaN."""


def is_one_sum(rule: TruncatedDot, depth: int) -> bool:
    """Whether a unit adds C and all `depth` products at once, and changes nothing before that."""
    subnormals = rule.a_subnormals, rule.b_subnormals, rule.c_subnormals, rule.d_subnormals
    return (
        rule.is_usual and rule.addend.value == "first" and len(rule.blocks(depth)) == 1
        and rule.sums is rule.addition is rule.narrowing is None
        and (rule.low_bits is None or rule.low_bits.value == "cut")
        and rule.d_type == rule.c_type == rule.accumulator_format.name
        and all(one.value == "kept" for one in subnormals)
    )  # fmt: skip


def float_values(bits: Array, name: str) -> NDArray[np.float32]:
    """Return the numbers of patterns of a format, in their order."""
    if name == "f16" or bits.itemsize == 1:
        return decoded_halves(name)[0].take(bits)
    return element_values(bits, format_named(name))


def _ends(values: NDArray[np.float32]) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """Return the exponent of each number, and that of its lowest bit."""
    finite = np.isfinite(values)
    significands, exponents = np.frexp(np.where(finite, values, np.float32(0)))
    bits = (significands * np.float32(1 << _BITS)).astype(np.int32)
    zeros = np.frexp((bits & -bits).astype(np.float32))[1] - 1
    least = np.where(bits == 0, _NONE, exponents + (zeros - _BITS))
    most = np.where(bits == 0, -_NONE, exponents - 1)
    return np.where(finite, most, _SPECIAL).astype(np.int16), least.astype(np.int16)


@cache
def _tables(name: str) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    fmt = FORMATS[name]
    return _ends(float_values(np.arange(1 << fmt.bits, dtype=fmt.raw), name))


def _bounds(bits: Array, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the largest exponent of each tile (tiles, ...), and the exponent of its lowest bit."""
    flat = bits.reshape(len(bits), -1)
    if flat.itemsize < 4:
        most, least = (table.take(flat) for table in _tables(name))
    else:
        most, least = _ends(float_values(flat, name))
    return most.max(axis=1).astype(np.int64), least.min(axis=1).astype(np.int64)


def exact_tiles(a: Array, b: Array, c: Array, rule: TruncatedDot) -> NDArray[np.intp]:
    """Return the tiles of which all sums are exact, of `is_one_sum`.

    `a`, `b`, `c`: Patterns (tiles, m, k), (tiles, k, n), and of C (tiles, ...) in any order.
    """
    unit, accumulator = format_named(rule.multiplicand), rule.accumulator_format
    (a_most, a_least), (b_most, b_least) = (
        _bounds(bits, name) for bits, name in zip((a, b), rule.types.split(".")[1:3], strict=True)
    )
    # As units have them: subnormals have the least exponent of normal numbers.
    a_most, b_most = (
        np.maximum(most, max(1 - unit.bias, -126 if own is None else own))
        for most, own in zip((a_most, b_most), rule.least_exponents, strict=True)
    )
    largest, lowest = a_most + b_most, a_least + b_least
    # Each product is below 2^(largest + 2), all of them with C below 2^end.
    end = largest + (3 + ceil(log2(a.shape[2])))
    possible = (largest < _SPECIAL // 2) & (lowest >= largest - rule.fraction_bits.value)
    possible &= (lowest >= end - _BITS) & (end < 127)
    tiles = np.flatnonzero(possible)
    if not len(tiles):
        return tiles
    values = float_values(c[tiles].reshape(len(tiles), -1), rule.c_type)
    with np.errstate(all="ignore"):
        most = np.frexp(np.abs(values).max(axis=1))[1] - 1
        end, largest = np.maximum(end[tiles], most + 2), np.maximum(largest[tiles], most)
        largest = np.maximum(largest, max(rule.zero_exponent.value, 1 - accumulator.bias))
        # The lowest bit that all terms may have.
        grid = np.maximum(np.maximum(end - _BITS, largest - rule.fraction_bits.value), -126)
        scaled = values * np.ldexp(np.float32(1), -grid).astype(np.float32)[:, None]
        exact = (np.rint(scaled) == scaled).all(axis=1) & np.isfinite(scaled).all(axis=1)
    exact &= (lowest[tiles] >= grid) & (end < 127)
    found: NDArray[np.intp] = tiles[exact]
    return found


def of_exact(sums: NDArray[np.float32], rule: TruncatedDot) -> Array:
    """Return what exact sums, any shape, become in the accumulator's format; any zero is +0."""
    patterns: Array = (sums + np.float32(0)).view(np.uint32)
    if rule.accumulator_format.name == "f16":
        return narrow(patterns)
    if rule.sum_bits is not None:
        patterns &= np.uint32(-1 << (_BITS - 1 - rule.sum_bits.value) & 0xFFFF_FFFF)
        np.copyto(patterns, 0, where=patterns == np.uint32(1 << 31))
    return patterns
