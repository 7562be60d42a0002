"""Integers and their 32-bit sums: of 8 and 4 bits in a byte each, and single bits packed along k.

Lines of single bits are the rows of A and the columns of B.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.formats import Format, Kind
from strategies.contents.float_fields import Ints, Raw
from strategies.contents.image_groups import DEPTH, EXPONENT, OFFSET, SPOTS, VARIANT, ImageGroup
from strategies.contents.recipes import ValueClass

_HIGHEST = (1 << 31) - 1
_LOWEST = -(1 << 31)
_PATTERNS = np.array([0xFF, 0x55, 0xAA, 0x0F, 0xF0, 0x33, 0xCC, 0x7F], np.uint8)
"""All ones, alternating ones and the like."""

_Sum = Callable[[Raw, Callable[[], Ints | None]], None]
"""Fills C, uint32 patterns, in place. The other argument returns what A and B sum up to, int64
(images, M, N), where C belongs to one product."""


def _put(view: Raw, total: Ints | None, wanted: NDArray[Any] | int) -> None:
    """Make C what is wanted of the sum less the products, in place; clipped to 32 bits."""
    start = wanted - (0 if total is None else total)
    view[...] = np.clip(start, _LOWEST, _HIGHEST).astype(np.int32).view(np.uint32)


def _few(view: Raw, count: int) -> Ints:
    """Return random numbers from -count / 2 to count / 2 - 1 made of C's random bits."""
    return (view % np.uint32(count)).astype(np.int64) - count // 2


def _small(span: int) -> _Sum:
    """Return what makes C a small number."""
    return lambda view, total: _put(view, None, _few(view, span))


def _near_an_end(span: int, *, of_sum: bool) -> _Sum:
    """Return what brings C or its sum next to the upper or the lower end.

    The sum comes to the end that the products lie towards.
    """

    def fill(view: Raw, total: Callable[[], Ints | None]) -> None:
        products = total() if of_sum else None
        up = (view >> np.uint32(31) == 0) if products is None else products >= 0
        _put(view, products, np.where(up, _HIGHEST, _LOWEST) + _few(view, span))

    return fill


def _number(view: Raw, total: Callable[[], Ints | None]) -> None:
    numbers = np.arange(view.shape[1] * view.shape[2], dtype=np.uint32)
    view[...] = (numbers << np.uint32(16)).reshape(view.shape[1:])


def _single_bits(view: Raw, total: Callable[[], Ints | None]) -> None:
    view[...] = np.uint32(1) << (view & np.uint32(31))


def _ends(view: Raw, total: Callable[[], Ints | None]) -> None:
    ends = np.array([_HIGHEST, _LOWEST, 0, -1], np.int64).astype(np.uint32)
    view[...] = ends[(view & np.uint32(3)).astype(np.intp)]


def _low_byte(view: Raw, total: Callable[[], Ints | None]) -> None:
    view &= np.uint32(0xFF)


_COMMON_SUMS: Mapping[ValueClass, _Sum] = {
    ValueClass.CANCELLING: lambda view, total: _put(view, total(), _few(view, 8)),
    ValueClass.TIES: _near_an_end(6, of_sum=True),
    ValueClass.AIMED: lambda view, total: _put(
        view, total(), _few(view, 1 << 12) * (1 << 16) + _few(view, 8)
    ),
    ValueClass.CODED: _number,
}
"""How C is filled beside integers and beside single bits; other classes leave uniform bits."""
_SUMS: Mapping[ValueClass, _Sum] = {
    **_COMMON_SUMS,
    **dict.fromkeys((ValueClass.MIRRORED, ValueClass.EXTREME), _near_an_end(1 << 12, of_sum=False)),
    **dict.fromkeys(
        (ValueClass.NORMAL, ValueClass.SPECIAL, ValueClass.SQUARES, ValueClass.TINY),
        _small(1 << 12),
    ),
    ValueClass.SUBNORMAL: _single_bits,
    ValueClass.ENDS: _ends,
    ValueClass.LADDER: _low_byte,
}


@cache
def _bounds(type_: Format) -> tuple[np.uint8, np.uint8, np.uint8]:
    """Return the patterns of the largest and the least number, and of all ones."""
    signed = type_.kind is Kind.SIGNED
    highest = (1 << (type_.bits - signed)) - 1
    lowest = 1 << (type_.bits - 1) if signed else 0
    return np.uint8(highest), np.uint8(lowest), np.uint8((1 << type_.bits) - 1)


def _signed(raw: Raw, type_: Format) -> Ints:
    values: Ints = raw.astype(np.int64)
    if type_.kind is Kind.SIGNED:
        sign = 1 << (type_.bits - 1)
        values = (values ^ sign) - sign
    return values


def _dot(group: ImageGroup) -> Ints | None:
    """Return A times B exactly, int64 (images, M, N), where C belongs to one product."""
    if group.multiplicands is None:
        return None
    type_ = group.types.multiplicand
    a, b = (_signed(raw, type_).astype(np.float64) for raw in group.multiplicands())
    # Sums of 32 products below 2^16 stay below 2^21: exact in float64 in any order.
    return (a @ b).astype(np.int64)


def fill_integers(class_: ValueClass, view: Raw, group: ImageGroup, operand: str) -> None:
    """Fill A, B or C with integers of a class of values.

    Those of A and B are uint8 patterns, of 4 bits those below 16; those of C are uint32.
    """
    if operand == "c":
        if class_ in _SUMS:
            _SUMS[class_](view, partial(_dot, group))
        return
    # B is seen from its columns, as A from its rows.
    view = view.swapaxes(1, 2) if operand == "b" else view
    type_ = group.types.multiplicand
    signed = type_.kind is Kind.SIGNED
    high, low, mask = _bounds(type_)
    match class_:
        case ValueClass.NORMAL | ValueClass.SPECIAL | ValueClass.UNNORMALISED:
            view &= np.uint8(7)
            if signed:
                view -= np.uint8(4)
                view &= mask
            if class_ is ValueClass.SPECIAL:
                spots = group.spots(SPOTS + (0 if operand == "a" else 6), 6)
                line, rest = spots % view.shape[1], spots // view.shape[1]
                some = np.array([high, low])[(spots >> 13) & 1]
                view[group.images[:, None], line, rest % view.shape[2]] = some
            elif class_ is ValueClass.UNNORMALISED:
                view |= np.uint8(0b11 << (type_.bits - 2))
        case ValueClass.TINY:
            view &= np.uint8(1)
            if signed and operand == "a":
                view *= mask  # -1
        case ValueClass.EXTREME:
            # All at one end in half of the images: sums as large as there are.
            one = group.below(VARIANT, 2)[:, None, None] == 1
            view[...] = np.where(one | (view & np.uint8(1) == 1), high, low)
        case ValueClass.ENDS:
            ends = np.array([0, 1, -1, high, low, int(high) - 1, int(low) + 1, 1 << type_.bits - 2])
            view[...] = (ends.astype(np.uint8) & mask)[(view & np.uint8(7)).astype(np.intp)]
        case ValueClass.PAYLOADS:
            view[...] = (_PATTERNS & mask)[(view & np.uint8(7)).astype(np.intp)]
        case ValueClass.SUBNORMAL | ValueClass.AIMED:
            view[...] = np.uint8(1) << (view & np.uint8(type_.bits - 1))
        case ValueClass.WIDE:
            by = view & np.uint8(type_.bits - 1)
            view[...] = (_signed(np.roll(view, 1, axis=2), type_) >> by).astype(np.uint8) & mask
        case ValueClass.ZEROS:
            view[group.below(VARIANT, 2) == (operand == "a")] = 0
        case ValueClass.MIRRORED | ValueClass.SQUARES | ValueClass.LADDER:
            _pair(class_, view, group, operand)
        case ValueClass.CODED:
            _code(view, group, operand)


def _pair(class_: ValueClass, view: Raw, group: ImageGroup, operand: str) -> None:
    """Make two places k cancel: A's equal, B's opposite (B's equal where none is negative)."""
    type_ = group.types.multiplicand
    first, second = group.pair()
    if class_ is not ValueClass.MIRRORED:
        kept = view[group.images, :, first].copy()
        third = first ^ np.where((first ^ second) == 1, 2, (first ^ second) ^ 1)
        one = view[group.images, :, third] & np.uint8(1)
        view[...] = 0
        if class_ is ValueClass.SQUARES:
            view[group.images, :, third] = one
        elif operand == "a":
            lines = np.arange(view.shape[1]) % type_.bits
            kept = np.broadcast_to(np.uint8(1) << lines.astype(np.uint8), kept.shape)
        view[group.images, :, first] = kept
    # Large, so that the sum passes an end of 32 bits on its way where C is near one.
    large = view[group.images, :, first] | np.uint8(1 << (type_.bits - 2))
    view[group.images, :, first] = large
    opposite = operand == "b" and type_.kind is Kind.SIGNED
    view[group.images, :, second] = (0 - large if opposite else large) & _bounds(type_)[2]


def _code(view: Raw, group: ImageGroup, operand: str) -> None:
    """Let each row of A pick one row of B, whose elements tell their place.

    Of numbers wider than an element, half of the images show the high and half the low bits.
    """
    type_ = group.types.multiplicand
    lines = np.arange(view.shape[1])
    if operand == "a":
        view[...] = 0
        chosen = (lines ^ group.below(OFFSET, group.depth)[:, None]) % group.depth
        view[group.images[:, None], lines, chosen] = 1
    else:
        numbers = lines[:, None] * view.shape[2] + np.arange(view.shape[2])
        shifted = numbers + group.below(EXPONENT, 256)[:, None, None]
        turned = shifted >> (8 - type_.bits) * (group.below(DEPTH, 2)[:, None, None])
        view[...] = turned.astype(np.uint8) & _bounds(type_)[2]


_COUNTS = np.array([bin(byte).count("1") for byte in range(256)], np.int64)
_BIT_SUMS: Mapping[ValueClass, _Sum] = {
    **_COMMON_SUMS,
    **dict.fromkeys((ValueClass.NORMAL, ValueClass.TINY, ValueClass.SPECIAL), _small(1 << 8)),
    ValueClass.EXTREME: _near_an_end(1 << 8, of_sum=True),
}


def _count(group: ImageGroup) -> Ints | None:
    """Return the set bits of each sum, int64 (images, M, N), where C belongs to one product."""
    if group.multiplicands is None:
        return None
    a, b = group.multiplicands()
    left, right = a[:, :, None, :], b[:, None, :, :]
    both = left & right if group.types.operation == "and" else left ^ right
    total: Ints = _COUNTS[both.astype(np.intp)].sum(axis=3)
    return total


def _spread_bit(bytes_: Raw, bit: int) -> Raw:
    """Return bytes all set where one bit is, and all clear elsewhere."""
    return np.where(bytes_ >> np.uint8(bit) & np.uint8(1), np.uint8(0xFF), np.uint8(0))


def fill_single_bits(class_: ValueClass, view: Raw, group: ImageGroup, operand: str) -> None:
    """Fill A, B or C with single bits of a class of values.

    A is uint8 (images, rows, K / 8), B (images, columns, K / 8); C is uint32 (images, M, N).
    """
    if operand == "c":
        if class_ in _BIT_SUMS:
            _BIT_SUMS[class_](view, partial(_count, group))
        return
    images, (lines, width) = group.images[:, None], view.shape[1:]
    number = np.arange(lines)
    match class_:
        case ValueClass.NORMAL:
            view &= np.roll(view, 1, axis=2)
        case ValueClass.EXTREME:
            view[...] = _spread_bit(view[:, :, :1], 7)
        case ValueClass.SPECIAL:
            first = view[:, :, :1].copy()
            np.copyto(view, _spread_bit(first, 7), where=first & np.uint8(7) == 7)
        case ValueClass.ENDS:
            view[...] = _spread_bit(view, 1)
        case ValueClass.SUBNORMAL | ValueClass.UNNORMALISED | ValueClass.SQUARES:
            first, second = (view[:, :, k].astype(np.int64) for k in (0, 1))
            view[...] = 0
            _set(view, first)
            if class_ is ValueClass.SQUARES:
                _set(view, second)
            elif class_ is ValueClass.UNNORMALISED:
                np.invert(view, out=view)
        case ValueClass.TINY:
            spots = group.spots(SPOTS + (operand == "b"), 1)
            view[...] = 0
            bit = np.uint8(1) << (spots // (lines * width) % 8).astype(np.uint8)
            view[images, spots % lines, spots // lines % width] = bit
        case ValueClass.PAYLOADS:
            view[...] = _PATTERNS[(view & np.uint8(7)).astype(np.intp)]
        case ValueClass.CODED:
            places = number * (8 * width // lines) + group.below(OFFSET, 8)[:, None]
            if operand == "b":
                places = places + 8 * number
            view[...] = 0
            _set(view, places)
        case ValueClass.ZEROS:
            view[group.below(VARIANT, 2) == (operand == "a")] = 0
        case ValueClass.MIRRORED:
            # The same line in all of A, its complement in all of B: every bit differs.
            line = group.spots(SPOTS, width)[:, None, :].astype(np.uint8)
            view[...] = np.invert(line) if operand == "b" else line
        case ValueClass.LADDER | ValueClass.WIDE:
            if class_ is ValueClass.LADDER:
                lengths = np.broadcast_to(number * width, (len(view), lines))
            else:
                lengths = view[:, :, 0].astype(np.int64) % (8 * width + 1)
            places = np.arange(8 * width)
            full = np.packbits(places < lengths[:, :, None], axis=2, bitorder="little")
            view[...] = full & view if class_ is ValueClass.WIDE else full


def _set(view: Raw, places: NDArray[np.int64]) -> None:
    """Set one bit of each line, counted from its start."""
    images, lines = np.arange(len(view))[:, None], np.arange(view.shape[1])
    places = places % (8 * view.shape[2])
    view[images, lines, places // 8] |= np.uint8(1) << (places % 8).astype(np.uint8)
