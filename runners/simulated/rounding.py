"""Integers times powers of two, rounded to words of a format."""

import numpy as np
from numpy.typing import NDArray

from runners.simulated.binary import Binary, Rounding

Integers = NDArray[np.int64]
"""In any shape."""

_DOUBLE_FRACTION = 52
_DOUBLE_BIAS = 1023
# A shift that empties any magnitude below 2^53 and is defined for 64-bit integers.
_LARGEST_SHIFT = 62


def _carry(
    rounding: Rounding, kept: Integers, shift: Integers | np.int64, negative: NDArray[np.bool_]
) -> Integers:
    """Return what to add below the cut, `shift` bits up, so that cutting rounds."""
    half: Integers | np.int64 = np.left_shift(np.int64(1), shift - 1)
    carry: Integers
    match rounding:
        case Rounding.ZERO:
            carry = np.zeros_like(kept)
        case Rounding.NEAREST_EVEN:
            carry = half - 1 + (kept & 1)
        case Rounding.NEAREST_AWAY:
            carry = np.broadcast_to(half, kept.shape)
        case Rounding.DOWN:
            carry = np.where(negative, 2 * half - 1, 0)
        case Rounding.UP:
            carry = np.where(negative, 0, 2 * half - 1)
    return carry


def _subnormal(
    magnitude: Integers,
    scale: Integers,
    negative: NDArray[np.bool_],
    binary: Binary,
    rounding: Rounding,
) -> Integers:
    shift = binary.bottom - binary.fraction - scale
    # Several times faster than np.clip on small arrays, and not slower on large ones.
    right, left = np.maximum(shift, 0), np.maximum(-shift, 0)
    np.minimum(right, _LARGEST_SHIFT, out=right)
    np.minimum(left, _LARGEST_SHIFT, out=left)
    kept = magnitude >> right
    up = _carry(rounding, kept, np.maximum(right, 1), negative)
    return np.where(shift > 0, (magnitude + up) >> right, magnitude << left)


def rounded(
    magnitude: Integers,
    scale: Integers,
    negative: NDArray[np.bool_],
    binary: Binary,
    rounding: Rounding,
    saturating: bool = False,
) -> Integers:
    """Round values to the magnitude bits of words, without their signs.

    Parameters
    ----------
    magnitude
        Integers from 0 to 2^53 - 1.
    scale
        The values are magnitude times 2^scale.
    negative
        Which values are negative, for the directed roundings.
    binary
        The format to round to; one without unused bits.
    rounding
        How.
    saturating
        Give the largest finite value where a value is too large, and not infinity. Rounding toward
        zero gives infinity too: it says how a significand is cut, and the matrix units measured
        overflow to infinity with it.

    Returns
    -------
    words
        Of the shape of the values.
    """
    # An integer below 2^53 is exact as float64, which has its leading one found.
    # (Zero has the exponent field 0 there, and so is found among the subnormals.)
    image = magnitude.astype(np.float64).view(np.int64)
    drop = _DOUBLE_FRACTION - binary.fraction
    words: Integers = image >> drop
    if rounding is not Rounding.ZERO:
        words = (image + _carry(rounding, words, np.int64(drop), negative)) >> drop
    words += (scale + (binary.top - _DOUBLE_BIAS)) << binary.fraction
    low = (image >> _DOUBLE_FRACTION) + scale < _DOUBLE_BIAS + binary.bottom
    if low.any():
        words[low] = _subnormal(magnitude[low], scale[low], negative[low], binary, rounding)
    over = words >= binary.infinity
    if over.any():
        words[over] = binary.infinity - saturating
    return words
