"""Conversions between f16 and f32, on raw bit patterns (9.7.14.4.5: mixed types of C and D)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CANONICAL_NAN = {"f16": 0x7FFF, "f32": 0x7FFF_FFFF}
"""NaN that a floating-point dot product returns (measured on H200, 2026-11)."""


def widen(bits: NDArray[np.uint16]) -> NDArray[np.uint32]:
    """Return f16 values as f32 bit patterns: exact; NaNs stay NaNs, with any payload."""
    with np.errstate(invalid="ignore"):
        return bits.view(np.float16).astype(np.float32).view(np.uint32)


def narrow(bits: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """Return f32 values rounded to f16 bit patterns, to nearest even.

    Overflow gives infinity, the sign of a zero is kept, and any NaN becomes 0x7fff, as
    F2FP.F16.F32 does with the canonical NaN of the dot product (measured on H200, 2026-11).
    """
    values = bits.view(np.float32)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrowed = values.astype(np.float16).view(np.uint16)
    nan = np.isnan(values)
    if nan.any():
        narrowed[nan] = CANONICAL_NAN["f16"]
    return narrowed
