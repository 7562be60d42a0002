"""Sums of products of A and B, exactly in integers, and the pattern of C nearest to minus one.

Floats of a window of exponents are integers in units of its least last place: a significand,
shifted by the exponent. An exponent outside of the window counts as the one that it is
modulo the window's width, so that a sum is defined for all patterns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.formats import Format, Kind
from strategies.contents.float_fields import FloatFields, fields_of

Ints = NDArray[np.int64]
Raw = NDArray[Any]

_COUNTS = np.array([bin(byte).count("1") for byte in range(256)], np.int64)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFF_FFFF)


def window_bits(fields: FloatFields) -> int:
    """Return how many exponents A and B of a cancelled product have, as a power of two.

    As many as most products have too many bits for C, and as few as sums of 32 have less than 53
    bits (with 10 bits of fraction products of 2 x 18 bits, with 7 bits 2 x 23); of f64 four, so
    that the upper halves of products reach below the last place of C.
    """
    return {2: 4, 3: 3, 7: 4, 10: 3, 52: 2}[fields.format.fraction_bits]


@dataclass(frozen=True)
class Window:
    """Exponents of one operand."""

    fields: FloatFields

    @property
    def bits(self) -> int:
        """How many exponents there are, as a power of two."""
        return window_bits(self.fields)

    @property
    def least(self) -> int:
        """The least exponent."""
        return -(1 << self.bits >> 1)

    @property
    def field(self) -> int:
        """The exponent field of the least exponent."""
        return self.least + self.fields.format.bias

    def inside(self, raw: Raw) -> Raw:
        """Return patterns with exponents in the window."""
        base = raw.dtype.type(self.field << self.fields.shift)
        found: Raw = ((raw - base) & raw.dtype.type(self.fields.kept(self.bits))) + base
        return found


@dataclass(frozen=True)
class Sum:
    """What the products of one row of A and one column of B are summed to."""

    a: Format
    b: Format
    operation: str | None = None
    """`.op` of single bits."""
    rounded: Format | None = None
    """Format of C, if A and B are floats."""
    depth: int = 16
    """K."""
    run: int = 0
    """Where metadata choose: the first of each two runs of so many elements of B are multiplied."""

    @cached_property
    def windows(self) -> tuple[Window, Window]:
        """Windows of the exponents of A and B."""
        return Window(fields_of(self.a.name)), Window(fields_of(self.b.name))

    @cached_property
    def scale(self) -> int:
        """Exponent of the unit in which floats are summed."""
        a, b = self.windows
        if self.a.bits == 64:
            # Of the product of two significands, 2^-104, the upper 64 bits of 128 after each was
            # shifted by 11 are in units of 2^-62.
            return a.least + b.least + self.span - 62 + self.lost
        return a.least + b.least - self.a.fraction_bits - self.b.fraction_bits

    @property
    def span(self) -> int:
        """Exponent of the largest products over that of the least."""
        return sum((1 << window.bits) - 1 for window in self.windows)

    @property
    def lost(self) -> int:
        """Bits that products of f64 lose of their upper 64: their sums stay below 2^62."""
        return self.depth.bit_length() + 1

    def of(self, a: Raw, b: Raw) -> Any:
        """Return the sums, int64, or patterns of C nearest to minus them.

        Parameters
        ----------
        a : (images, lines, positions)
        b : (images, columns, positions)

        Returns
        -------
        (images, lines, columns)
        """
        if self.run:
            b = b.reshape(*b.shape[:2], -1, 2, self.run)[:, :, :, 0].reshape(*b.shape[:2], -1)
        if self.rounded is not None:
            return self._nearest(a, b, fields_of(self.rounded.name))
        if self.a.kind is Kind.BITS:
            left, right = a[:, :, None, :], b[:, None, :, :]
            both = left & right if self.operation == "and" else left ^ right
            return _COUNTS[both.astype(np.intp)].sum(axis=3)
        # Sums of 64 products below 2^16 stay below 2^22: exact in float64 in any order.
        left, right = (
            signed(raw, one).astype(np.float64) for raw, one in ((a, self.a), (b, self.b))
        )
        return (left @ right.swapaxes(1, 2)).astype(np.int64)

    def _nearest(self, a: Raw, b: Raw, fields: FloatFields) -> Raw:
        """Return patterns of C nearest to minus the sums, ties to even.

        Sums below 2^53 are exact in float64, and to convert a number is to round it once: what the
        device does in integers.
        """
        total: NDArray[np.float64]
        if self.a.bits == 64:
            total = np.ldexp(self._upper(a, b).astype(np.float64), self.scale)
        else:
            left, right = (
                window.fields.values(window.inside(raw))
                for window, raw in zip(self.windows, (a, b), strict=True)
            )
            total = left @ right.swapaxes(1, 2)
        with np.errstate(over="ignore"):
            return fields.nearest(-total)

    def _upper(self, a: Raw, b: Raw) -> Ints:
        """Return the sums of the upper bits of products of f64."""
        total = np.zeros((*a.shape[:2], b.shape[1]), np.int64)
        left, right = (self._significands(raw) for raw in (a, b))
        for k in range(a.shape[2]):
            x, p, minus = (part[:, :, None, k] for part in left)
            y, q, other = (part[:, None, :, k] for part in right)
            shift = (self.span + self.lost - p - q).astype(np.uint64)
            term = (_upper_half(x, y) >> shift).astype(np.int64)
            total += np.where(minus != other, -term, term)
        return total

    def _significands(self, raw: Raw) -> tuple[Raw, Ints, Raw]:
        """Return significands from bit 63 on, places in the window, and signs."""
        window = self.windows[0]
        fields = window.fields
        fraction = raw & np.uint64(fields.fraction) | np.uint64(1 << fields.shift)
        exponents = (raw >> np.uint64(fields.shift)).astype(np.int64) - window.field
        return (
            fraction << np.uint64(63 - fields.shift),
            exponents & (1 << window.bits) - 1,
            raw >> np.uint64(63) != 0,
        )


def _upper_half(x: Raw, y: Raw) -> Raw:
    """Return the upper 64 bits of products."""
    x0, x1, y0, y1 = x & _LOW, x >> _HALF, y & _LOW, y >> _HALF
    middle = x1 * y0 + (x0 * y0 >> _HALF)
    other = x0 * y1 + (middle & _LOW)
    found: Raw = x1 * y1 + (middle >> _HALF) + (other >> _HALF)
    return found


def signed(raw: Raw, type_: Format) -> Ints:
    """Return the numbers that patterns of integers stand for."""
    values: Ints = raw.astype(np.int64)
    if type_.kind is Kind.SIGNED:
        sign = 1 << (type_.bits - 1)
        values = (values ^ sign) - sign
    return values
