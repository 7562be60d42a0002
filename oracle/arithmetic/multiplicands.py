"""Multiplicands of f16, bf16 and tf32 as the arithmetic of `truncated` wants them.

Each is decoded once: a float in which its products are exact, and the exponent that it counts with
in the unit. Arrays have k first and the tile index last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.scratch import Scratch
from oracle.isa.formats import Format

Array = NDArray[Any]
"""An array whose dtype depends on the format: float32 or float64, int8 or int16, ..."""

_FEW = 64
"""One in so many elements of f16 may be subnormal and go the way that is quick without them."""


@dataclass(frozen=True, kw_only=True)
class Binary:
    """A NumPy float in which products are computed, and how to make powers of two in it."""

    values: type[np.floating[Any]]
    integers: type[np.signedinteger[Any]]
    """Integers of the same size."""
    bias: int
    fraction_bits: int

    @property
    def least(self) -> int:
        """Exponent of the least normal number."""
        return 1 - self.bias

    def power(self, exponents: Array, scratch: Scratch) -> Array:
        """Return 2^exponents; they have to be within the normal range."""
        pattern = scratch.copy("power", exponents, self.integers)
        pattern += self.bias
        pattern <<= self.fraction_bits
        return pattern.view(self.values)

    def reciprocal(self, powers: Array, scratch: Scratch) -> Array:
        """Return 1 / powers for powers of two whose reciprocals are normal too."""
        pattern = scratch.array("reciprocal", powers.shape, self.integers)
        np.subtract(2 * self.bias << self.fraction_bits, powers.view(self.integers), out=pattern)
        return pattern.view(self.values)


SINGLE = Binary(values=np.float32, integers=np.int32, bias=127, fraction_bits=23)
_DOUBLE = Binary(values=np.float64, integers=np.int64, bias=1023, fraction_bits=52)


@dataclass(frozen=True, kw_only=True)
class Working:
    """Types in which the products of one multiplicand format are exact."""

    binary: Binary
    exponents: type[np.signedinteger[Any]]
    absent: int
    """Exponent of an operand that is zero: so low that a product with it is never the largest of
    a block that has another, and twice this still fits `exponents`."""
    smallest: int
    """Smallest exponent of a product without a zero."""


# f16: 22-bit products from 2^-48 to 2^32 fit float32; exponents of products are -28 to 30 (32 for
# infinities), so that -64 + 16 < -28, and -128 fits int8.
# bf16 and tf32: products from 2^-272 to 2^256 need float64; exponents -252 to 256 need int16.
_HALF = Working(binary=SINGLE, exponents=np.int8, absent=-64, smallest=-28)
_WIDE = Working(binary=_DOUBLE, exponents=np.int16, absent=-1024, smallest=-252)
_WORKING = {"f16": _HALF, "bf16": _WIDE, "tf32": _WIDE}


@dataclass(frozen=True)
class DotOperand:
    """A or B, decoded: k first, tiles last."""

    values: Array
    """(k, lines, tiles); infinities and NaNs are themselves."""
    exponents: Array
    """(k, lines, tiles)."""
    working: Working
    special: NDArray[np.bool_]
    """(tiles,): whether any element is infinite or NaN; (lines,) where they are last."""

    @classmethod
    def decode(
        cls, name: str, tiles: Array, axes: tuple[int, int, int], fmt: Format, scratch: Scratch,
        least: int | None = None,
    ) -> DotOperand:  # fmt: skip
        """Decode patterns of tiles (tiles, rows, columns), an array that is lost.

        `tiles`: Those of 16 bits also in the upper halves of uint32.
        `axes`: The order in which its axes are wanted: k, lines, tiles, or k, tiles, lines.
        `least`: The exponent with which elements that are not zero count at least.
        """
        working = _WORKING[fmt.name]
        bits = tiles.transpose(axes)
        if not bits.flags.c_contiguous:
            bits = scratch.tiles_last(name, tiles, axes)
        if fmt.name == "f16" and _below(bits, fmt):
            values = bits.view(np.float32)
        else:
            values = scratch.array(f"{name} values", bits.shape, working.binary.values)
        exponents = scratch.array(f"{name} exponents", bits.shape, working.exponents)
        _decode(bits, fmt, values, exponents, scratch)
        if least is not None:
            np.maximum(exponents, least, out=exponents, where=exponents != working.absent)
        special = np.zeros(bits.shape[2], np.bool_)
        if exponents.max(initial=0) > fmt.bias:
            np.greater(exponents.max(axis=(0, 1)), fmt.bias, out=special)
            if fmt.name == "f16":
                at = np.flatnonzero(exponents > fmt.bias)
                finite = values.take(at)  # 2^16 stands for infinity, more for NaN
                values.put(at, np.where(np.abs(finite) == 2.0**16, finite * np.inf, np.nan))
        return cls(values, exponents, working, special)

    def lines(self, part: slice) -> DotOperand:
        """Return some lines, with an axis for the other operand's lines after them."""
        return DotOperand(
            self.values[:, part, None], self.exponents[:, part, None], self.working, self.special
        )

    def ks(self, part: slice) -> DotOperand:
        """Return some ks."""
        return DotOperand(self.values[part], self.exponents[part], self.working, self.special)

    def has_zero(self) -> NDArray[np.bool_]:
        """Return for every line and tile whether an element is zero."""
        zero: NDArray[np.bool_] = np.any(self.exponents == self.working.absent, axis=0)
        return zero


def element_values(bits: Array, fmt: Format) -> Array:
    """Return elements as float32, which holds every format here; bits of f32 as a view."""
    if fmt.name == "f16":
        return bits.view(np.float16).astype(np.float32)
    words: Array = bits.astype(np.uint32, copy=False)
    if bits.itemsize == 2:  # bf16
        words = words << 16
    elif fmt.ignored_bits:
        words = words & np.uint32(2**32 - (1 << fmt.ignored_bits))
    return words.view(np.float32)


def _decode(bits: Array, fmt: Format, values: Array, exponents: Array, scratch: Scratch) -> None:
    """Write values and exponents: a zero's is `absent`, that of infinity and NaN bias + 1.

    Infinities and NaNs of f16 come out as finite values. `values` may be where `bits` are. Outcomes
    of comparisons are added: NumPy takes ten times as long for a mask, or a maximum with a number.
    """
    below = fmt.ignored_bits + _below(bits, fmt)
    mask = (1 << (8 * bits.itemsize - 1)) - (1 << below)
    least, absent = 1 - fmt.bias, _WORKING[fmt.name].absent
    np.right_shift(bits, fmt.fraction_bits + below, out=exponents, casting="unsafe")
    exponents &= (1 << fmt.exponent_bits) - 1
    at = _few_zeros(exponents)
    exponents -= fmt.bias
    if at is not None:
        exponents.put(at, np.where(bits.take(at) & mask == 0, absent, least))
        _write_values(bits, fmt, values)
        return
    small = scratch.array("small", bits.shape, np.bool_)
    np.equal(exponents, -fmt.bias, out=small)
    count = np.count_nonzero(small)
    if fmt.name == "f16":
        bits, mask = _patterns(bits, fmt), 0x7FFF
    magnitude = scratch.array("magnitude", bits.shape, bits.dtype)
    np.bitwise_and(bits, mask, out=magnitude)
    zero = scratch.array("zero", bits.shape, np.bool_)
    np.equal(magnitude, 0, out=zero)
    exponents += small.view(np.int8)
    if fmt.name == "f16" and _FEW * (count - np.count_nonzero(zero)) > bits.size:
        _scale_halves(bits, magnitude, exponents, values, scratch)
    else:
        _write_values(bits, fmt, values)
    lower = scratch.array("lower", bits.shape, exponents.dtype)
    np.multiply(zero, exponents.dtype.type(least - absent), out=lower)
    exponents -= lower


def _below(bits: Array, fmt: Format) -> int:
    """Return how many bits lie below the patterns in their words: 16 in upper halves of uint32."""
    return 8 * bits.itemsize - fmt.bits


def _patterns(bits: Array, fmt: Format) -> Array:
    """Return patterns of 16 bits as uint16, wherever they lie in their words."""
    below = _below(bits, fmt)
    return (bits >> below).astype(np.uint16) if below else bits


def _few_zeros(exponents: Array) -> NDArray[np.intp] | None:
    """Return where natural numbers (k, lines, tiles) are zero, in the order of memory, if few are.

    Where the least of all ks is zero is looked for first: that is quick, where all is a search.
    """
    rows = exponents.reshape(len(exponents), -1)
    columns = np.flatnonzero(rows.min(axis=0, initial=1) == 0)
    if _FEW * len(columns) > rows.size:
        return None
    k, column = np.nonzero(rows.take(columns, axis=1) == 0)
    return None if _FEW * len(k) > rows.size else k * rows.shape[1] + columns[column]


def _write_values(bits: Array, fmt: Format, out: Array) -> None:
    """Write elements, of f16 few of them subnormal, as floats; special ones of f16 are finite."""
    if fmt.name != "f16":
        np.copyto(out, element_values(bits, fmt))
        return
    words = out.view(np.int32)
    if _below(bits, fmt):
        np.right_shift(bits.view(np.int32), 3, out=words)
    else:
        np.copyto(words, bits.view(np.int16))
        words <<= 13  # f16 has 10 bits of a fraction, f32 23
    words &= -(1 << 31) | (1 << 28) - 1  # the sign came along three times too often
    out *= np.float32(2.0 ** (127 - 15))  # the difference of the biases


def _scale_halves(
    bits: Array, magnitude: Array, exponents: Array, out: Array, scratch: Scratch
) -> None:
    """Write f16 as float32, special ones finite: significands times powers of two.

    `_write_values` would meet subnormals of f32, with which it took three times as long on the
    H200's machine (2026-11-21).
    """
    significand = scratch.copy("significand", exponents, np.int16)
    significand += 15 - 1  # the field, less one
    significand <<= 10
    np.subtract(magnitude.view(np.int16), significand, out=significand)
    sign = scratch.copy("sign", bits.view(np.int16))
    sign >>= 15
    sign |= 1
    significand *= sign
    np.copyto(out, significand)
    power = scratch.copy("power", exponents, np.int32)
    power += 127 - 10  # f32's bias, and f16's bits of a fraction
    power <<= 23
    out *= power.view(np.float32)
