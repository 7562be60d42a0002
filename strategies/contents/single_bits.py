"""Single bits, packed in bytes along k: lines of A are its rows, lines of B its columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strategies.contents.float_fields import Raw
from strategies.contents.integers import few, near_an_end, put_sum
from strategies.contents.settings import OFFSET, SPOTS, VARIANT, Setting
from strategies.contents.value_classes import ValueClass

_COUNTS = np.array([bin(byte).count("1") for byte in range(256)], np.int64)


def _count(setting: Setting) -> NDArray[np.int64] | None:
    """Return the set bits of each sum, int64 (images, M, N), where C belongs to one product."""
    if setting.multiplicands is None:
        return None
    a, b = setting.multiplicands()
    left, right = a[:, :, None, :], b[:, None, :, :]
    both = left & right if setting.types.operation == "and" else left ^ right
    total: NDArray[np.int64] = _COUNTS[both.astype(np.intp)].sum(axis=3)
    return total


def _spread_bit(bytes_: Raw, bit: int) -> Raw:
    """Return bytes all set where one bit is, and all clear elsewhere."""
    return np.where(bytes_ >> np.uint8(bit) & np.uint8(1), np.uint8(0xFF), np.uint8(0))


@dataclass(frozen=True)
class SingleBits:
    """One class of values of packed single bits."""

    class_: ValueClass

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A: uint8 (images, rows, K / 8)."""
        self._fill(view, setting, "a")

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B: uint8 (images, columns, K / 8)."""
        self._fill(view, setting, "b")

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: patterns in uint32."""
        match self.class_:
            case ValueClass.CANCELLING:
                put_sum(view, _count(setting), few(view, 8))
            case ValueClass.TIES | ValueClass.EXTREME:
                total = _count(setting)
                span = 6 if self.class_ is ValueClass.TIES else 1 << 8
                put_sum(view, total, near_an_end(view, total, span))
            case ValueClass.AIMED:
                put_sum(view, _count(setting), few(view, 1 << 12) * (1 << 16) + few(view, 8))
            case ValueClass.CODED:
                numbers = np.arange(view.shape[1] * view.shape[2], dtype=np.uint32)
                view[...] = (numbers << np.uint32(16)).reshape(view.shape[1:])
            case ValueClass.NORMAL | ValueClass.TINY | ValueClass.SPECIAL:
                put_sum(view, None, few(view, 1 << 8))

    def _fill(self, view: Raw, setting: Setting, operand: str) -> None:
        images, (lines, width) = setting.images[:, None], view.shape[1:]
        number = np.arange(lines)
        match self.class_:
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
                self._set(view, first)
                if self.class_ is ValueClass.SQUARES:
                    self._set(view, second)
                elif self.class_ is ValueClass.UNNORMALISED:
                    np.invert(view, out=view)
            case ValueClass.TINY:
                spots = setting.spots(SPOTS + (operand == "b"), 1)
                view[...] = 0
                bit = np.uint8(1) << (spots // (lines * width) % 8).astype(np.uint8)
                view[images, spots % lines, spots // lines % width] = bit
            case ValueClass.PAYLOADS:
                table = np.array([0xFF, 0x55, 0xAA, 0x0F, 0xF0, 0x33, 0xCC, 0x7F], np.uint8)
                view[...] = table[(view & np.uint8(7)).astype(np.intp)]
            case ValueClass.CODED:
                places = number * (8 * width // lines) + setting.below(OFFSET, 8)[:, None]
                if operand == "b":
                    places = places + 8 * number
                view[...] = 0
                self._set(view, places)
            case ValueClass.ZEROS:
                view[setting.below(VARIANT, 2) == (operand == "a")] = 0
            case ValueClass.MIRRORED:
                # The same line in all of A, its complement in all of B: every bit differs.
                line = setting.spots(SPOTS, width)[:, None, :].astype(np.uint8)
                view[...] = np.invert(line) if operand == "b" else line
            case ValueClass.LADDER | ValueClass.WIDE:
                if self.class_ is ValueClass.LADDER:
                    lengths = np.broadcast_to(number * width, (len(view), lines))
                else:
                    lengths = view[:, :, 0].astype(np.int64) % (8 * width + 1)
                places = np.arange(8 * width)
                full = np.packbits(places < lengths[:, :, None], axis=2, bitorder="little")
                view[...] = full & view if self.class_ is ValueClass.WIDE else full

    def _set(self, view: Raw, places: NDArray[np.int64]) -> None:
        """Set one bit of each line, counted from its start."""
        images, lines = np.arange(len(view))[:, None], np.arange(view.shape[1])
        places = places % (8 * view.shape[2])
        view[images, lines, places // 8] |= np.uint8(1) << (places % 8).astype(np.uint8)
