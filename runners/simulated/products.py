"""The product of two matrices by the unit that a device has for it: the ways beside the blocks.

f16, bf16 and tf32 are `runners.simulated.truncated`'s. Here are chains of fused multiply-adds (f64;
measured on an H200, November 2026: k runs upward, and every step is rounded in the instruction's
mode), sums that are exact (small integers and single bits, plus C in 32 bits), scalar arithmetic in
place of a unit (mma.sync.m8n8k4 of f16), and what chooses among them.

All arrays have the warps as their last axis: A is (M, K, warps), B (K, N, warps), C and D
(M, N, warps), raw unsigned words or elements.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runners.simulated.binary import F32, F64, NAMED, Rounding, as_f16, flushed
from runners.simulated.fused import NanRule, Product, add, multiply_add, products
from runners.simulated.integers import population
from runners.simulated.layouts import BITS
from runners.simulated.silicon import Chip
from runners.simulated.truncated import multiply, narrowed, widened
from runners.simulated.units import (
    BitOperation,
    BitUnit,
    DoubleUnit,
    FloatUnit,
    IntegerUnit,
    Matrix,
    QuadUnit,
)

Words = NDArray[Any]
Sums = NDArray[np.int64]
MultiplyUnit = FloatUnit | IntegerUnit | DoubleUnit | BitUnit | QuadUnit

_AT_ONCE = 128
"""Warps computed together, so that the many intermediate arrays stay in a core's cache."""
_ONE = np.array([F64.one], np.uint64)
_MINUS_ZERO = np.array([F64.sign], np.uint64)
_WRAP = (1 << 32) - 1


class Types(NamedTuple):
    """The element types of a product, in the order of an opcode."""

    d: str
    a: str
    b: str
    c: str


def sound_unit(
    chip: Chip, types: Types, operation: str, rounding: str, saturating: bool
) -> MultiplyUnit:
    """Return the unit of a chip for these types, with what the qualifiers of an opcode say."""
    if types.a == "b1":
        return BitUnit(operation=BitOperation(operation))
    if types.a == "f64":
        return replace(chip.doubles, rounding=Rounding(rounding or "rn"))
    if types.c == "s32":
        signed_a, signed_b = (kind.startswith("s") for kind in (types.a, types.b))
        return IntegerUnit(signed_a=signed_a, signed_b=signed_b, saturating=saturating)
    return chip.floats[".".join(types)]


def multiply_on(unit: MultiplyUnit, a: Words, b: Words, c: Words, types: Types) -> Words:
    """Return D = A times B plus C as a unit computes it."""
    match unit:
        case FloatUnit():
            return multiply(as_f16(a, types.a), as_f16(b, types.b), c, unit, NAMED[types.d])
        case IntegerUnit():
            return multiply_integers(a, b, c, BITS[types.a], unit)
        case BitUnit():
            return count_bits(a, b, c, unit)
        case DoubleUnit():
            return multiply_doubles(a, b, c, unit)
        case QuadUnit():
            return _multiply_scalar(a, b, c, unit, types.d)


def _multiply_scalar(a: Words, b: Words, c: Words, unit: QuadUnit, result: str) -> Words:
    """Multiply f16 matrices in f32 operations, each rounded to nearest even."""
    rule = NanRule(canonical=unit.nan, invalid=unit.nan)

    def fused(product: Product, z: Words) -> Words:
        return add(product, z, Rounding.NEAREST_EVEN, rule)

    def plus(x: Words, y: Words) -> Words:
        return multiply_add(x, np.array(F32.one), y, F32, Rounding.NEAREST_EVEN, rule)

    exact = products(widened(a), widened(b), F32)
    addend = (widened(c) if c.itemsize == 2 else c).astype(np.uint64)
    order = range(a.shape[1])
    if unit.pairs:
        total = addend
        for k in order[::2]:
            pair = fused(exact[k + 1], fused(exact[k], np.full_like(addend, F32.sign)))
            total = plus(pair, total)
    else:
        total = np.zeros_like(addend)
        for k in order:
            total = fused(exact[k], total)
        total = plus(total, addend)
    words = total.astype(np.uint32)
    return narrowed(words, unit.nan) if result == "f16" else words


def multiply_doubles(a: Words, b: Words, c: Words, unit: DoubleUnit) -> Words:
    """Return D = A times B plus C of f64, a chain of fused multiply-adds for each element."""
    a, b, c = (
        flushed(words, F64) if matrix in unit.flushed else words
        for words, matrix in ((a, Matrix.A), (b, Matrix.B), (c, Matrix.C))
    )
    chunks = []
    for start in range(0, a.shape[-1], _AT_ONCE):
        chosen = slice(start, start + _AT_ONCE)
        chunks.append(_chain(a[..., chosen], b[..., chosen], c[..., chosen], unit))
    words: Words = np.concatenate(chunks, axis=-1)
    return flushed(words, F64) if Matrix.D in unit.flushed else words


def _chain(a: Words, b: Words, c: Words, unit: DoubleUnit) -> Words:
    depth = a.shape[1] if unit.products is None else unit.products
    order = range(depth - 1, -1, -1) if unit.descending else range(depth)
    exact = products(a, b, F64)
    if unit.pairwise:
        start = np.zeros_like(c)
        halves = [start, start]
        for k in order:
            halves[k % 2] = _step(exact[k], halves[k % 2], unit)
        return _plus(_plus(halves[0], halves[1], unit), c, unit)
    total = c
    for k in order:
        total = _step(exact[k], total, unit)
    return total


def _plus(x: Words, y: Words, unit: DoubleUnit) -> Words:
    return multiply_add(x, _ONE, y, F64, unit.rounding, unit.nan)


def _step(product: Product, c: Words, unit: DoubleUnit) -> Words:
    if unit.fused:
        return add(product, c, unit.rounding, unit.nan)
    # A zero of the product's own sign leaves every product as it is, zeros too.
    zero = (product.x.words ^ product.y.words) & _MINUS_ZERO
    return _plus(add(product, zero, unit.rounding, unit.nan), c, unit)


def _extended(elements: Words, bits: int, signed: bool) -> NDArray[np.int16]:
    """Return the numbers that elements of this many bits, held in unsigned words, stand for."""
    numbers = elements.astype(np.int16)
    if signed:
        sign = 1 << (bits - 1)
        numbers = (numbers ^ sign) - sign
    return numbers


def _clamped(sums: Sums, unit: IntegerUnit) -> Sums:
    raised = np.maximum(sums, unit.lowest)
    return np.minimum(raised, unit.highest, out=raised)


def _broken_carry(sums: Sums, addend: Sums, bit: int) -> Sums:
    """Add two numbers with no carry from below `bit` into it."""
    low = (1 << bit) - 1
    return ((sums & low) + (addend & low) & low) | ((sums & ~low) + (addend & ~low))


def multiply_integers(a: Words, b: Words, c: Words, bits: int, unit: IntegerUnit) -> Words:
    """Return D = A times B plus C, in 32 bits, of integers of 4 or 8 bits."""
    left = _extended(a, bits, unit.signed_a)
    right = _extended(b, bits, unit.signed_b)
    depth = a.shape[1] if unit.products is None else unit.products
    addend = c.astype(np.uint32).view(np.int32).astype(np.int64)
    if unit.clamps_each_step:
        total = addend
        for k in range(depth):
            product = left[:, k, None].astype(np.int64) * right[k][None]
            total = _clamped(total + product, unit) if unit.saturating else total + product
        return (total & _WRAP).astype(np.uint32)
    # At most 64 products of at most 16 bits: whatever the order, every partial sum is a whole
    # number below 2^24 in magnitude, which float32 holds exactly.
    rows = left[:, :depth].transpose(2, 0, 1).astype(np.float32)
    columns = right[:depth].transpose(2, 0, 1).astype(np.float32)
    partial = np.matmul(rows, columns).astype(np.int32).transpose(1, 2, 0)
    if unit.carry_break is None:
        total = partial + addend
    else:
        total = _broken_carry(partial.astype(np.int64), addend, unit.carry_break)
    if unit.saturating:
        total = _clamped(total, unit)
    return (total & _WRAP).astype(np.uint32)


def _packed(bits: Words, axis: int) -> NDArray[np.uint64]:
    """Pack single bits along an axis, moved to the front, into words of 64."""
    packed = np.packbits(np.moveaxis(bits, axis, -1).astype(np.uint8), axis=-1, bitorder="little")
    return np.moveaxis(np.ascontiguousarray(packed).view(np.uint64), -1, 0)


def count_bits(a: Words, b: Words, c: Words, unit: BitUnit) -> Words:
    """Return counts of the set bits of rows of A met with columns of B, plus C in 32 bits."""
    if unit.width is not None:
        a, b = a[:, : unit.width], b[: unit.width]
    total = np.zeros(c.shape, np.int64)
    for left, right in zip(_packed(a, 1), _packed(b, 0), strict=True):
        x, y = left[:, None], right[None]
        met = x & y if unit.operation is BitOperation.AND else x ^ y
        total += population(~met if unit.operation is BitOperation.XNOR else met)
    total += np.where(total > 0, unit.bias, 0)
    if not unit.ignores_c:
        total += c.astype(np.uint32).view(np.int32)
    if unit.saturating:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return (total & _WRAP).astype(np.uint32)
