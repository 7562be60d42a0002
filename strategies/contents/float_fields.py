"""The fields of floating-point formats, and patterns made of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.formats import FORMATS, Format

Raw = NDArray[Any]
"""Raw bit patterns, in the unsigned dtype of their format."""


@dataclass(frozen=True)
class FloatFields:
    """Where sign, exponent and fraction of a format stand, as bits of its patterns."""

    format: Format

    @property
    def shift(self) -> int:
        """Bits below the exponent field, ignored ones included."""
        return self.format.fraction_bits + self.format.ignored_bits

    @property
    def top(self) -> int:
        """Exponent field of infinities and NaN."""
        return (1 << self.format.exponent_bits) - 1

    @property
    def least(self) -> int:
        """Exponent of the least normal number."""
        return 1 - self.format.bias

    @property
    def greatest(self) -> int:
        """Exponent of the largest finite numbers."""
        return self.format.bias

    @property
    def grid(self) -> int:
        """Exponent of the least subnormal."""
        return self.least - self.format.fraction_bits

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.format.bits - 1)

    @property
    def infinity(self) -> int:
        """All ones in the exponent field."""
        return self.top << self.shift

    @property
    def one(self) -> int:
        """The number 1."""
        return self.format.bias << self.shift

    @property
    def fraction(self) -> int:
        """All ones below the exponent field."""
        return (1 << self.shift) - 1

    @property
    def signed_fraction(self) -> int:
        """All ones outside of the exponent field."""
        return self.sign | self.fraction

    @property
    def first_fraction_bit(self) -> int:
        """The highest bit of the fraction: that of quiet NaN."""
        return 1 << (self.shift - 1)

    def kept(self, window_bits: int) -> int:
        """All ones in sign, fraction and the lowest bits of the exponent field."""
        return self.signed_fraction | (1 << window_bits) - 1 << self.shift

    def field(self, exponent: int) -> int:
        """Return an exponent field in its place, of normal numbers: exponents are clipped."""
        return min(max(exponent - self.least + 1, 1), self.top - 1) << self.shift

    @cached_property
    def fields(self) -> tuple[int, ...]:
        """Every exponent field of normal numbers, in its place."""
        return tuple(field << self.shift for field in range(1, self.top))

    @cached_property
    def powers(self) -> tuple[int, ...]:
        """0, and powers of two from the least subnormal on."""
        subnormal = (1 << (self.format.ignored_bits + i) for i in range(self.format.fraction_bits))
        return (0, *subnormal, *self.fields)

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
                return _E4M3.take(raw)
            case "bf16":
                raw = raw.astype(np.uint32) << np.uint32(16)
            case "tf32":
                raw = raw & np.uint32((1 << 32) - (1 << self.format.ignored_bits))
        return raw.view(np.float32).astype(np.float64)

    def nearest(self, values: NDArray[np.float64]) -> Raw:
        """Round numbers to f16, f32 or f64, ties to even."""
        bits = self.format.bits
        found: Raw = values.astype(f"f{bits // 8}").view(f"u{bits // 8}")
        return found

    @cached_property
    def finite_ends(self) -> tuple[int, ...]:
        """64 patterns: zeros, ends of subnormals and normals, powers of two and neighbours."""
        one, unit = self.one, 1 << self.format.ignored_bits
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
        infinity, quiet = self.infinity, self.first_fraction_bit
        unit = 1 << self.format.ignored_bits
        positive = (
            0, 0, infinity, infinity, infinity | 1, infinity | unit, infinity | quiet,
            infinity | quiet | unit, infinity | quiet - 1, infinity | self.fraction, unit,
            (1 << self.shift) - unit, 1 << self.shift, infinity - unit, self.one, infinity,
        )  # fmt: skip
        return (*positive, *(pattern | self.sign for pattern in positive))


def _e4m3_numbers() -> NDArray[np.float64]:
    """Return the number of each pattern of e4m3, which has no infinity and one NaN."""
    pattern = np.arange(256)
    field, fraction = pattern >> 3 & 15, pattern & 7
    size = np.where(field > 0, np.ldexp(8.0 + fraction, field - 10), np.ldexp(1.0 * fraction, -9))
    size = np.where(pattern & 0x7F == 0x7F, np.nan, size)
    return np.where(pattern & 0x80, -size, size)


_E4M3 = _e4m3_numbers()


@cache
def fields_of(name: str) -> FloatFields:
    """Return the fields of a floating-point format."""
    return FloatFields(FORMATS[name])
