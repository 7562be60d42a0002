"""The matrix products that are exact: small integers and single bits, plus C in 32 bits.

All arrays have the warps as their last axis.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.units import BitOperation, BitUnit, IntegerUnit

Words = NDArray[Any]
Sums = NDArray[np.int64]

_WRAP = (1 << 32) - 1


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
    """Return D = A times B plus C.

    Parameters
    ----------
    a, b
        (M, K, warps) and (K, N, warps) elements, each in an unsigned word of its own.
    c
        (M, N, warps) uint32.
    bits
        Width of an element of A and B: 4 or 8.
    unit
        How it is computed.

    Returns
    -------
    d
        (M, N, warps) uint32.
    """
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


def population(words: NDArray[np.uint64]) -> Sums:
    """Return the number of set bits of each uint64 word, by pairs, fours and bytes."""
    pairs = words - ((words >> np.uint64(1)) & np.uint64(0x5555_5555_5555_5555))
    quads = (pairs & np.uint64(0x3333_3333_3333_3333)) + (
        (pairs >> np.uint64(2)) & np.uint64(0x3333_3333_3333_3333)
    )
    octets = (quads + (quads >> np.uint64(4))) & np.uint64(0x0F0F_0F0F_0F0F_0F0F)
    counts: Sums = ((octets * np.uint64(0x0101_0101_0101_0101)) >> np.uint64(56)).astype(np.int64)
    return counts


def _gathered(bits: Words, axis: int) -> NDArray[np.uint64]:
    """Pack single bits along an axis, moved to the front, into words of 64."""
    packed = np.packbits(np.moveaxis(bits, axis, -1).astype(np.uint8), axis=-1, bitorder="little")
    return np.moveaxis(np.ascontiguousarray(packed).view(np.uint64), -1, 0)


def count_bits(a: Words, b: Words, c: Words, unit: BitUnit) -> Words:
    """Return the counts of set bits of rows of A met with columns of B, plus C.

    Parameters
    ----------
    a, b
        (M, K, warps) and (K, N, warps), 0 or 1.
    c
        (M, N, warps) uint32.
    unit
        How it is computed.

    Returns
    -------
    d
        (M, N, warps) uint32.
    """
    if unit.width is not None:
        a, b = a[:, : unit.width], b[: unit.width]
    total = np.zeros(c.shape, np.int64)
    for left, right in zip(_gathered(a, 1), _gathered(b, 0), strict=True):
        x, y = left[:, None], right[None]
        match unit.operation:
            case BitOperation.XOR:
                met = x ^ y
            case BitOperation.AND:
                met = x & y
            case BitOperation.XNOR:
                met = ~(x ^ y)
        total += population(met)
    total += np.where(total > 0, unit.bias, 0)
    if not unit.ignores_c:
        total += c.astype(np.uint32).view(np.int32)
    if unit.saturating:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return (total & _WRAP).astype(np.uint32)
