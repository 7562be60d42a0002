"""The fields of floating-point formats, patterns made of them, and sums of products.

Sums are exact in integers; of floats the pattern of C is wanted that is nearest to minus one.
Floats of a window of exponents are integers in units of its least last place: a significand,
shifted by the exponent. An exponent outside of the window counts as the one that it is
modulo the window's width, so that a sum is defined for all patterns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.isa.forms import FORMATS, Format, FormatKind

Ints = NDArray[np.int64]
Raw = NDArray[Any]
"""Raw bit patterns, in the unsigned dtype of their format."""

_COUNTS = np.array([byte.bit_count() for byte in range(256)], np.int64)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFF_FFFF)
_WINDOW_BITS = {2: 4, 3: 3, 7: 4, 10: 3, 52: 2}
"""How many exponents A and B of a cancelled product have, as a power of two, by bits of fraction.

As many as most products have too many bits for C, and as few as sums of 32 have less than 53
bits (with 10 bits of fraction products of 2 x 18 bits, with 7 bits 2 x 23); of f64 four, so
that the upper halves of products reach below the last place of C."""


class FloatFields:
    """Where sign, exponent and fraction of a format stand, as bits of its patterns."""

    def __init__(self, format: Format) -> None:  # noqa: A002
        self.format = format
        self.shift = format.fraction_bits + format.ignored_bits
        """Bits below the exponent field, ignored ones included."""
        self.top = (1 << format.exponent_bits) - 1
        """Exponent field of infinities and NaN."""
        self.least, self.greatest = 1 - format.bias, format.bias
        """Exponents of the least normal and of the largest finite numbers."""
        self.grid = self.least - format.fraction_bits
        """Exponent of the least subnormal."""
        self.sign = 1 << (format.bits - 1)
        self.infinity = self.top << self.shift
        """All ones in the exponent field."""
        self.one = format.bias << self.shift
        """The number 1."""
        self.unit = 1 << format.ignored_bits
        """The least subnormal."""
        self.fraction = (1 << self.shift) - 1
        """All ones below the exponent field."""
        self.signed_fraction = self.sign | self.fraction
        """All ones outside of the exponent field."""
        self.first_fraction_bit = 1 << (self.shift - 1)
        """The highest bit of the fraction: that of quiet NaN."""
        self.fields = tuple(field << self.shift for field in range(1, self.top))
        """Every exponent field of normal numbers, in its place."""
        subnormal = (self.unit << i for i in range(format.fraction_bits))
        self.powers = (0, *subnormal, *self.fields)
        """0, and powers of two from the least subnormal on."""

    def kept(self, window_bits: int) -> int:
        """All ones in sign, fraction and the lowest bits of the exponent field."""
        return self.signed_fraction | (1 << window_bits) - 1 << self.shift

    def field(self, exponent: int) -> int:
        """Return an exponent field in its place, of normal numbers: exponents are clipped."""
        return min(max(exponent - self.least + 1, 1), self.top - 1) << self.shift

    def whole(self, number: int) -> int:
        """Return a whole number above 0, of no more significant bits than the format has."""
        width = number.bit_length() - 1
        fraction = (number << self.shift >> width) & self.fraction
        return (self.format.bias + width) << self.shift | fraction

    def values(self, raw: Raw) -> NDArray[np.float64]:
        """Return the numbers, exactly; of tf32 those of the bits that count."""
        raw = np.ascontiguousarray(raw)
        match self.format.name:
            case "f64":
                return raw.view(np.float64)
            case "f16":
                return raw.view(np.float16).astype(np.float64)
            case "e5m2":
                return (raw.astype(np.uint16) << np.uint16(8)).view(np.float16).astype(np.float64)
            case "e4m3":
                return _e4m3_numbers().take(raw)
            case "bf16":
                raw = raw.astype(np.uint32) << np.uint32(16)
            case "tf32":
                raw = raw & np.uint32((1 << 32) - self.unit)
        return raw.view(np.float32).astype(np.float64)

    def nearest(self, values: NDArray[np.float64]) -> Raw:
        """Round numbers to f16, f32 or f64, ties to even."""
        size = self.format.bits // 8
        return values.astype(f"f{size}").view(f"u{size}")

    @cached_property
    def finite_ends(self) -> tuple[int, ...]:
        """64 patterns: zeros, ends of subnormals and normals, powers of two and neighbours."""
        one, unit = self.one, self.unit
        least, two = 1 << self.shift, self.one + (1 << self.shift)
        largest = self.infinity - unit
        positive = (
            0, unit, 2 * unit, 3 * unit, least >> 1, least - unit, least, least + unit,
            2 * least, largest, largest - unit, self.infinity - least, one, one,
            one + unit, one - unit, two, two - unit, two + unit, one - least, one | least >> 1,
            two + least, largest - least, 2 * least - unit, one + 2 * unit, one + 3 * unit,
            one | least >> 2, two | least >> 1, 0, one, two, least,
        )  # fmt: skip
        return (*positive, *(pattern | self.sign for pattern in positive))

    @cached_property
    def specials(self) -> tuple[int, ...]:
        """32 patterns: zeros, infinities, quiet and signalling NaN, all ones, ends."""
        infinity, quiet, unit = self.infinity, self.first_fraction_bit, self.unit
        positive = (
            0, 0, infinity, infinity, infinity | 1, infinity | unit, infinity | quiet,
            infinity | quiet | unit, infinity | quiet - 1, infinity | self.fraction, unit,
            (1 << self.shift) - unit, 1 << self.shift, infinity - unit, self.one, infinity,
        )  # fmt: skip
        return (*positive, *(pattern | self.sign for pattern in positive))

    @property
    def window_bits(self) -> int:
        """How many exponents A and B of a cancelled product have, as a power of two."""
        return _WINDOW_BITS[self.format.fraction_bits]

    @property
    def window_least(self) -> int:
        """The least exponent of these."""
        return -(1 << self.window_bits >> 1)

    @property
    def window_field(self) -> int:
        """The exponent field of the least exponent of these."""
        return self.window_least + self.format.bias

    def inside(self, raw: Raw) -> Raw:
        """Return patterns with exponents in the window."""
        base = raw.dtype.type(self.window_field << self.shift)
        found: Raw = ((raw - base) & raw.dtype.type(self.kept(self.window_bits))) + base
        return found


@cache
def fields_of(name: str) -> FloatFields:
    """Return the fields of a floating-point format."""
    return FloatFields(FORMATS[name])


@cache
def _e4m3_numbers() -> NDArray[np.float64]:
    """Return the number of each pattern of e4m3, which has no infinity and one NaN."""
    pattern = np.arange(256)
    field, fraction = pattern >> 3 & 15, pattern & 7
    size = np.where(field > 0, np.ldexp(8.0 + fraction, field - 10), np.ldexp(1.0 * fraction, -9))
    size = np.where(pattern & 0x7F == 0x7F, np.nan, size)
    return np.where(pattern & 0x80, -size, size)


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
    def fields(self) -> tuple[FloatFields, FloatFields]:
        """Fields of A and B."""
        return fields_of(self.a.name), fields_of(self.b.name)

    @cached_property
    def scale(self) -> int:
        """Exponent of the unit in which floats are summed."""
        least = sum(one.window_least for one in self.fields)
        if self.a.bits == 64:
            # Of the product of two significands, 2^-104, the upper 64 bits of 128 after each was
            # shifted by 11 are in units of 2^-62.
            return least + self.span - 62 + self.lost
        return least - self.a.fraction_bits - self.b.fraction_bits

    @property
    def span(self) -> int:
        """Exponent of the largest products over that of the least."""
        return sum((1 << one.window_bits) - 1 for one in self.fields)

    @property
    def lost(self) -> int:
        """Bits that products of f64 lose of their upper 64: their sums stay below 2^62."""
        return self.depth.bit_length() + 1

    def of(self, a: Raw, b: Raw) -> Any:
        """Return the sums, int64, or patterns of C nearest to minus them, ties to even.

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
        if self.a.kind is FormatKind.BITS:
            left, right = a[:, :, None, :], b[:, None, :, :]
            both = left & right if self.operation == "and" else left ^ right
            return _COUNTS[both.astype(np.intp)].sum(axis=3)
        if self.rounded is None:
            # Sums of 64 products below 2^16 stay below 2^22: exact in float64 in any order.
            signed = (_signed(raw, one) for raw, one in ((a, self.a), (b, self.b)))
            left, right = (one.astype(np.float64) for one in signed)
            return (left @ right.swapaxes(1, 2)).astype(np.int64)
        # Sums below 2^53 are exact in float64, and to convert a number is to round it once: what
        # the device does in integers.
        if self.a.bits == 64:
            total = np.ldexp(self._upper(a, b).astype(np.float64), self.scale)
        else:
            both_ = zip(self.fields, (a, b), strict=True)
            left, right = (fields.values(fields.inside(raw)) for fields, raw in both_)
            total = left @ right.swapaxes(1, 2)
        with np.errstate(over="ignore"):
            return fields_of(self.rounded.name).nearest(-total)

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
        fields = self.fields[0]
        fraction = raw & np.uint64(fields.fraction) | np.uint64(1 << fields.shift)
        exponents = (raw >> np.uint64(fields.shift)).astype(np.int64) - fields.window_field
        return (
            fraction << np.uint64(63 - fields.shift),
            exponents & (1 << fields.window_bits) - 1,
            raw >> np.uint64(63) != 0,
        )


def _upper_half(x: Raw, y: Raw) -> Raw:
    """Return the upper 64 bits of products."""
    x0, x1, y0, y1 = x & _LOW, x >> _HALF, y & _LOW, y >> _HALF
    middle = x1 * y0 + (x0 * y0 >> _HALF)
    other = x0 * y1 + (middle & _LOW)
    found: Raw = x1 * y1 + (middle >> _HALF) + (other >> _HALF)
    return found


def _signed(raw: Raw, type_: Format) -> Ints:
    values: Ints = raw.astype(np.int64)
    if type_.kind is FormatKind.SIGNED:
        sign = 1 << (type_.bits - 1)
        values = (values ^ sign) - sign
    return values
