"""The fields of floating-point formats, and arrays of raw patterns made from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.formats import FORMATS, Format

Raw = NDArray[Any]
"""Raw bit patterns, in the unsigned dtype of their format."""
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class FloatFields:
    """Where sign, exponent and fraction of a format stand, as scalars of its raw dtype."""

    format: Format

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Unsigned integers of the format's size."""
        return np.dtype(self.format.raw)

    @cached_property
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

    @cached_property
    def sign(self) -> Any:
        """The sign bit."""
        return self.dtype.type(1 << (self.format.bits - 1))

    @cached_property
    def infinity(self) -> Any:
        """All ones in the exponent field."""
        return self.dtype.type(self.top << self.shift)

    @cached_property
    def one(self) -> Any:
        """The number 1."""
        return self.dtype.type(self.format.bias << self.shift)

    @cached_property
    def fraction(self) -> Any:
        """All ones below the exponent field."""
        return self.dtype.type((1 << self.shift) - 1)

    @cached_property
    def signed_fraction(self) -> Any:
        """All ones outside of the exponent field."""
        return self.dtype.type(self.sign | self.fraction)

    @cached_property
    def first_fraction_bit(self) -> Any:
        """The highest bit of the fraction: that of quiet NaN."""
        return self.dtype.type(1 << (self.shift - 1))

    @cached_property
    def _kept(self) -> tuple[Any, ...]:
        fields = ((1 << bits) - 1 << self.shift for bits in range(self.format.exponent_bits + 1))
        return tuple(self.dtype.type(int(self.signed_fraction) | field) for field in fields)

    def kept(self, window_bits: int) -> Any:
        """All ones in sign, fraction and the lowest bits of the exponent field."""
        return self._kept[window_bits]

    @cached_property
    def _fields(self) -> Raw:
        return np.array([field << self.shift for field in range(1, self.top)], self.dtype)

    def field(self, exponents: NDArray[Any] | int) -> Any:
        """Return exponent fields in their place, of normal numbers: exponents are clipped."""
        return self._fields.take(exponents - self.least, mode="clip")

    @cached_property
    def _powers(self) -> Raw:
        subnormal = [1 << (self.format.ignored_bits + i) for i in range(self.format.fraction_bits)]
        normal = [field << self.shift for field in range(1, self.top)]
        return np.array([0, *subnormal, *normal], self.dtype)

    def powers(self, exponents: NDArray[Any] | int) -> Any:
        """Return powers of two; subnormal where that small, zero below, clipped above."""
        lowest = self.least - self.format.fraction_bits
        return self._powers.take(exponents - (lowest - 1), mode="clip")

    @cached_property
    def _whole(self) -> Raw:
        table = []
        for number in range(256):
            width = max(0, number.bit_length() - 1)
            fraction = (number << self.shift >> width) & int(self.fraction)
            table.append(((self.format.bias + width) << self.shift | fraction) if number else 0)
        return np.array(table, np.uint64).astype(self.dtype)

    def whole(self, numbers: NDArray[Any]) -> Raw:
        """Return whole numbers below 256, of a format with 8 significant bits or more."""
        found: Raw = self._whole[numbers.astype(np.intp)]
        return found

    def finite(self, raw: Raw) -> None:
        """Make infinities and NaN finite, in place: the lowest bit of their field is cleared."""
        special = (raw & self.infinity) == self.infinity
        raw ^= special.astype(self.dtype) << self.dtype.type(self.shift)

    def values(self, raw: Raw) -> NDArray[np.float64]:
        """Return the numbers, exactly; of tf32 those of the bits that count."""
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
        """Round numbers to the format: f16 by way of f32; others than f16, f32 and f64 refuse."""
        match self.format.name:
            case "f64":
                return values.view(np.uint64)
            case "f32":
                return values.astype(np.float32).view(np.uint32)
            case "f16":
                return values.astype(np.float32).astype(np.float16).view(np.uint16)
        raise NotImplementedError(f"no accumulator is {self.format.name}")

    @cached_property
    def finite_ends(self) -> Raw:
        """64 patterns: zeros, ends of subnormals and normals, powers of two and neighbours."""
        one, unit = int(self.one), 1 << self.format.ignored_bits
        least, two = 1 << self.shift, int(self.one) + (1 << self.shift)
        largest = int(self.infinity) - unit
        positive = [
            0, unit, 2 * unit, 3 * unit, least >> 1, least - unit, least, least + unit,
            2 * least, largest, largest - unit, int(self.infinity) - least, one, one,
            one + unit, one - unit, two, two - unit, two + unit, one - least, one | least >> 1,
            two + least, largest - least, 2 * least - unit, one + 2 * unit, one + 3 * unit,
            one | least >> 2, two | least >> 1, 0, one, two, least,
        ]  # fmt: skip
        patterns = np.array(positive, np.uint64)
        return np.concatenate([patterns, patterns | np.uint64(self.sign)]).astype(self.dtype)

    @cached_property
    def specials(self) -> Raw:
        """32 patterns: zeros, infinities, quiet and signalling NaN, all ones, ends."""
        infinity, quiet = int(self.infinity), int(self.first_fraction_bit)
        unit = 1 << self.format.ignored_bits
        positive = [
            0, 0, infinity, infinity, infinity | 1, infinity | unit, infinity | quiet,
            infinity | quiet | unit, infinity | quiet - 1, infinity | int(self.fraction), unit,
            (1 << self.shift) - unit, 1 << self.shift, infinity - unit, int(self.one), infinity,
        ]  # fmt: skip
        patterns = np.array(positive, np.uint64)
        return np.concatenate([patterns, patterns | np.uint64(self.sign)]).astype(self.dtype)


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
