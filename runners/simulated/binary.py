"""Binary floating-point formats and roundings as the simulated device sees them.

This table is the device's own: it shares nothing with the oracle's on purpose.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Rounding(StrEnum):
    """Where a value between two neighbours goes."""

    NEAREST_EVEN = "rn"
    ZERO = "rz"
    DOWN = "rm"
    UP = "rp"
    NEAREST_AWAY = "nearest, ties away from zero"
    """No PTX modifier asks for this; a planted fault does."""


@dataclass(frozen=True, kw_only=True)
class Binary:
    """An IEEE 754 interchange format, or one with its layout (bf16, tf32)."""

    word: int
    """Bits of the word that an element occupies."""
    exponent: int
    """Bits of the exponent field."""
    fraction: int
    """Bits of the fraction field that count."""

    @property
    def unused(self) -> int:
        """Low-order bits of the word that do not count: 13 for tf32."""
        return self.word - 1 - self.exponent - self.fraction

    @property
    def top(self) -> int:
        """Largest exponent of a finite value, which is also the bias."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def bottom(self) -> int:
        """Exponent of the smallest normal value and of all subnormals."""
        return 1 - self.top

    @property
    def sign(self) -> int:
        """The sign bit of a word."""
        return 1 << (self.word - 1)

    @property
    def one(self) -> int:
        """Bits of 1."""
        return self.top << (self.fraction + self.unused)

    @property
    def infinity(self) -> int:
        """Bits of positive infinity."""
        return ((1 << self.exponent) - 1) << (self.fraction + self.unused)


F16 = Binary(word=16, exponent=5, fraction=10)
BF16 = Binary(word=16, exponent=8, fraction=7)
TF32 = Binary(word=32, exponent=8, fraction=10)
F32 = Binary(word=32, exponent=8, fraction=23)
F64 = Binary(word=64, exponent=11, fraction=52)

NAMED = {"f16": F16, "bf16": BF16, "tf32": TF32, "f32": F32, "f64": F64}
"""By the name of the type qualifier."""


def is_nan(words: NDArray[Any], binary: Binary) -> NDArray[np.bool_]:
    """Return which words of a format are NaN."""
    dtype = words.dtype.type
    found: NDArray[np.bool_] = (words & dtype(binary.sign - 1)) > dtype(binary.infinity)
    return found


def flushed(words: NDArray[Any], binary: Binary) -> NDArray[Any]:
    """Return words of a format with subnormals made zero, sign kept."""
    dtype = words.dtype.type
    subnormal = (words & dtype(binary.infinity)) == 0
    return np.where(subnormal, words & dtype(binary.sign), words)


# The finite numbers of e4m3 that are not negative, and its NaN, as words of f16.
_E4M3 = np.array(
    [np.ldexp(bool(byte >> 3) * 8 + (byte & 7), max(byte >> 3, 1) - 10)
     for byte in range(0x7F)] + [np.nan],
    np.float16,
).view(np.uint16)  # fmt: skip


def as_f16(words: NDArray[Any], kind: str) -> NDArray[Any]:
    """Return f16 words of the same numbers as e4m3 or e5m2 words, others as they are."""
    if kind == "e5m2":
        words = words.astype(np.uint16) << np.uint16(8)
    elif kind == "e4m3":
        words = _E4M3[words & 0x7F] | (words & 0x80).astype(np.uint16) << np.uint16(8)
    return words
