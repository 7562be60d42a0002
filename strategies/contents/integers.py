"""Integers of 8 and 4 bits, as unsigned patterns of one byte each, and their 32-bit sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.formats import Format, Kind
from strategies.contents.float_fields import Raw
from strategies.contents.settings import DEPTH, EXPONENT, OFFSET, SPOTS, VARIANT, Setting
from strategies.contents.value_classes import ValueClass

_HIGHEST = (1 << 31) - 1
_LOWEST = -(1 << 31)


@cache
def _bounds(type_: Format) -> tuple[np.uint8, np.uint8, np.uint8]:
    """Return the patterns of the largest and the least number, and of all ones."""
    signed = type_.kind is Kind.SIGNED
    highest = (1 << (type_.bits - signed)) - 1
    lowest = 1 << (type_.bits - 1) if signed else 0
    return np.uint8(highest), np.uint8(lowest), np.uint8((1 << type_.bits) - 1)


def _signed(raw: Raw, type_: Format) -> NDArray[np.int64]:
    values: NDArray[np.int64] = raw.astype(np.int64)
    if type_.kind is Kind.SIGNED:
        sign = 1 << (type_.bits - 1)
        values = (values ^ sign) - sign
    return values


def dot(setting: Setting) -> NDArray[np.int64] | None:
    """Return A times B exactly, int64 (images, M, N), where C belongs to one product."""
    if setting.multiplicands is None:
        return None
    type_ = setting.types.multiplicand
    a, b = (_signed(raw, type_).astype(np.float64) for raw in setting.multiplicands())
    # Sums of 32 products below 2^16 stay below 2^21: exact in float64 in any order.
    return (a @ b).astype(np.int64)


def put_sum(view: Raw, total: NDArray[np.int64] | None, wanted: NDArray[Any] | int) -> None:
    """Make C what is wanted of the sum less the products, in place; clipped to 32 bits."""
    start = wanted - (0 if total is None else total)
    view[...] = np.clip(start, _LOWEST, _HIGHEST).astype(np.int32).view(np.uint32)


def few(view: Raw, count: int) -> NDArray[np.int64]:
    """Return random numbers from -count / 2 to count / 2 - 1 made of C's random bits."""
    return (view % np.uint32(count)).astype(np.int64) - count // 2


def near_an_end(view: Raw, total: NDArray[np.int64] | None, span: int) -> NDArray[np.int64]:
    """Return numbers around the upper end where the products are positive, else the lower."""
    up = (view >> np.uint32(31) == 0) if total is None else total >= 0
    return np.where(up, _HIGHEST, _LOWEST) + few(view, span)


@dataclass(frozen=True)
class Integers:
    """One class of values of 8- and 4-bit integers."""

    class_: ValueClass

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A: uint8 patterns, for 4 bits those below 16."""
        self._fill(view, setting, "a")

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B; seen from its columns, as A from its rows."""
        self._fill(view.swapaxes(1, 2), setting, "b")

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: patterns in uint32."""
        # BITS, ANY, WIDE, ZEROS, UNNORMALISED and PAYLOADS leave uniform bits.
        match self.class_:
            case ValueClass.CANCELLING:
                put_sum(view, dot(setting), few(view, 8))
            case ValueClass.TIES:
                total = dot(setting)
                put_sum(view, total, near_an_end(view, total, 6))
            case ValueClass.MIRRORED | ValueClass.EXTREME:
                put_sum(view, None, near_an_end(view, None, 1 << 12))
            case ValueClass.AIMED:
                put_sum(view, dot(setting), few(view, 1 << 12) * (1 << 16) + few(view, 8))
            case ValueClass.CODED:
                numbers = np.arange(view.shape[1] * view.shape[2], dtype=np.uint32)
                view[...] = (numbers << np.uint32(16)).reshape(view.shape[1:])
            case ValueClass.NORMAL | ValueClass.SPECIAL | ValueClass.SQUARES | ValueClass.TINY:
                put_sum(view, None, few(view, 1 << 12))
            case ValueClass.SUBNORMAL:
                view[...] = np.uint32(1) << (view & np.uint32(31))
            case ValueClass.ENDS:
                ends = np.array([_HIGHEST, _LOWEST, 0, -1], np.int64).astype(np.uint32)
                view[...] = ends[(view & np.uint32(3)).astype(np.intp)]
            case ValueClass.LADDER:
                view &= np.uint32(0xFF)

    def _fill(self, view: Raw, setting: Setting, operand: str) -> None:
        type_ = setting.types.multiplicand
        high, low, mask = _bounds(type_)
        match self.class_:
            case ValueClass.NORMAL | ValueClass.SPECIAL | ValueClass.UNNORMALISED:
                self._near_zero(view, type_)
                if self.class_ is ValueClass.SPECIAL:
                    self._place_ends(view, setting, operand)
                elif self.class_ is ValueClass.UNNORMALISED:
                    view |= np.uint8(0b11 << (type_.bits - 2))
            case ValueClass.TINY:
                view &= np.uint8(1)
                if type_.kind is Kind.SIGNED and operand == "a":
                    view *= mask  # -1
            case ValueClass.EXTREME:
                # All at one end in half of the images: sums as large as there are.
                one = setting.below(VARIANT, 2)[:, None, None] == 1
                view[...] = np.where(one | (view & np.uint8(1) == 1), high, low)
            case ValueClass.ENDS | ValueClass.PAYLOADS:
                table = self._table(type_)
                view[...] = table[(view & np.uint8(7)).astype(np.intp)]
            case ValueClass.SUBNORMAL | ValueClass.AIMED:
                view[...] = np.uint8(1) << (view & np.uint8(type_.bits - 1))
            case ValueClass.WIDE:
                by = view & np.uint8(type_.bits - 1)
                view[...] = (_signed(np.roll(view, 1, axis=2), type_) >> by).astype(np.uint8) & mask
            case ValueClass.ZEROS:
                zero = setting.below(VARIANT, 2) == (operand == "a")
                view[zero] = 0
            case ValueClass.MIRRORED | ValueClass.SQUARES | ValueClass.LADDER:
                self._pair(view, setting, operand)
            case ValueClass.CODED:
                self._code(view, setting, operand, type_)

    def _near_zero(self, view: Raw, type_: Format) -> None:
        if type_.kind is Kind.SIGNED:
            view &= np.uint8(7)
            view -= np.uint8(4)
            view &= _bounds(type_)[2]
        else:
            view &= np.uint8(7)

    def _place_ends(self, view: Raw, setting: Setting, operand: str) -> None:
        type_ = setting.types.multiplicand
        table = np.array(_bounds(type_)[:2])
        column = SPOTS + (0 if operand == "a" else 6)
        spots = setting.spots(column, 6)
        line, rest = spots % view.shape[1], spots // view.shape[1]
        view[setting.images[:, None], line, rest % view.shape[2]] = table[(spots >> 13) & 1]

    def _table(self, type_: Format) -> Raw:
        high, low, mask = map(int, _bounds(type_))
        ends = [0, 1, -1, high, low, high - 1, low + 1, 1 << (type_.bits - 2)]
        bits = [0xFF, 0x55, 0xAA, 0x0F, 0xF0, 0x33, 0xCC, 0x7F]
        chosen = ends if self.class_ is ValueClass.ENDS else bits
        return np.array(chosen, np.int64).astype(np.uint8) & np.uint8(mask)

    def _pair(self, view: Raw, setting: Setting, operand: str) -> None:
        """Make two places k cancel: A's equal, B's opposite (B's equal where none is negative)."""
        type_ = setting.types.multiplicand
        first, second = setting.pair()
        if self.class_ is not ValueClass.MIRRORED:
            kept = view[setting.images, :, first].copy()
            third = first ^ np.where((first ^ second) == 1, 2, (first ^ second) ^ 1)
            small = view[setting.images, :, third] & np.uint8(1)
            view[...] = 0
            if self.class_ is ValueClass.SQUARES:
                view[setting.images, :, third] = small
            elif operand == "a":
                lines = np.arange(view.shape[1]) % type_.bits
                kept = np.broadcast_to(np.uint8(1) << lines.astype(np.uint8), kept.shape)
            view[setting.images, :, first] = kept
        # Large, so that the sum passes an end of 32 bits on its way where C is near one.
        large = view[setting.images, :, first] | np.uint8(1 << (type_.bits - 2))
        view[setting.images, :, first] = large
        opposite = operand == "b" and type_.kind is Kind.SIGNED
        view[setting.images, :, second] = (0 - large if opposite else large) & _bounds(type_)[2]

    def _code(self, view: Raw, setting: Setting, operand: str, type_: Format) -> None:
        """Let each row of A pick one row of B, whose elements tell their place.

        Of numbers wider than an element, half of the images show the high and half the low bits.
        """
        lines = np.arange(view.shape[1])
        if operand == "a":
            view[...] = 0
            chosen = (lines ^ setting.below(OFFSET, setting.depth)[:, None]) % setting.depth
            view[setting.images[:, None], lines, chosen] = 1
        else:
            numbers = lines[:, None] * view.shape[2] + np.arange(view.shape[2])
            shifted = numbers + setting.below(EXPONENT, 256)[:, None, None]
            turned = shifted >> (8 - type_.bits) * (setting.below(DEPTH, 2)[:, None, None])
            view[...] = turned.astype(np.uint8) & _bounds(type_)[2]
