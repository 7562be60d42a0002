"""Single bits, packed in bytes along k: lines of A are its rows, lines of B its columns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from strategies.contents.float_fields import Ints, Raw
from strategies.contents.image_groups import OFFSET, SPOTS, VARIANT, ImageGroup
from strategies.contents.integers import COMMON_SUMS, PATTERNS, Sum, near_an_end, small
from strategies.contents.recipes import ValueClass

_COUNTS = np.array([bin(byte).count("1") for byte in range(256)], np.int64)
_SUMS: Mapping[ValueClass, Sum] = {
    **COMMON_SUMS,
    **dict.fromkeys((ValueClass.NORMAL, ValueClass.TINY, ValueClass.SPECIAL), small(1 << 8)),
    ValueClass.EXTREME: near_an_end(1 << 8, of_sum=True),
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
        if class_ in _SUMS:
            _SUMS[class_](view, partial(_count, group))
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
            view[...] = PATTERNS[(view & np.uint8(7)).astype(np.intp)]
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
