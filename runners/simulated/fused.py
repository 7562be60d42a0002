"""Fused multiply-add, exact in every rounding and format, in 64-bit integers.

A product and an addend are placed in one frame, of one 64-bit limb or of two, added as integers,
and rounded once.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.binary import Binary, Rounding

Words = NDArray[np.uint64]
"""Raw words or limbs, in any shape."""
Exponents = NDArray[np.int64]
Flags = NDArray[np.bool_]

_ZERO_EXPONENT = -(1 << 20)
"""Exponent given to zero: below every other, so that zero never decides the frame's place."""

_HIGH = 63
"""Highest bit of a limb."""
SIGNIFICAND = 52
"""Bit of the leading one in an unpacked significand, for every format."""


@cache
def _u(value: int) -> Words:
    """Return a number as an array of no axes: NumPy works with those faster than with scalars."""
    found = np.array(value, np.uint64)
    found.flags.writeable = False
    return found


@dataclass(frozen=True, kw_only=True)
class Unpacked:
    """Words taken apart."""

    negative: Flags
    exponent: Exponents
    significand: Words
    """Normalised: the leading one is bit 52; 0 for zero."""
    infinite: Flags
    nan: Flags


def leading(words: Words) -> Exponents:
    """Return the index of the highest set bit of each word, 0 for zero.

    The exponent field of a float64 is a leading-one count, where no rounding carries into it: the
    bit below the highest is cleared first.
    """
    cut = words & ~(words >> _u(1))
    lead: Exponents = (cut.astype(np.float64).view(np.int64) >> 52) - 1023
    return np.maximum(lead, 0)


def unpack(words: Words, binary: Binary) -> Unpacked:
    """Take uint64 words of a format apart; special values have the largest exponent."""
    field = (words >> _u(binary.fraction + binary.unused)) & _u((1 << binary.exponent) - 1)
    fraction = (words >> _u(binary.unused)) & _u((1 << binary.fraction) - 1)
    special = field == _u((1 << binary.exponent) - 1)
    normal = field != 0
    whole = fraction | (normal.astype(np.uint64) << _u(binary.fraction))
    exponent = np.maximum(field, _u(1)).view(np.int64) - binary.top
    significand = whole << _u(SIGNIFICAND - binary.fraction)
    none = fraction == 0
    if not normal.all():
        up = SIGNIFICAND - leading(significand)
        significand = significand << up.view(np.uint64)
        exponent = np.where(whole == 0, _ZERO_EXPONENT, exponent - up)
    return Unpacked(
        negative=(words & _u(binary.sign)) != 0,
        exponent=exponent,
        significand=significand,
        infinite=special & none,
        nan=special & ~none,
    )


def _multiply(left: Words, right: Words) -> tuple[Words, Words]:
    """Return the (high, low) limbs of the product of two 53-bit integers."""
    low27 = _u((1 << 27) - 1)
    left_high, left_low = left >> _u(27), left & low27
    right_high, right_low = right >> _u(27), right & low27
    middle = left_high * right_low + left_low * right_high
    low = left_low * right_low
    total = low + (middle << _u(27))
    carry = (total < low).astype(np.uint64)
    # The part of the middle product above bit 64, and the high product at bit 54.
    high = (middle >> _u(37)) + carry
    upper = left_high * right_high
    shifted = upper << _u(54)
    whole = total + shifted
    high = high + (upper >> _u(10)) + (whole < total).astype(np.uint64)
    return high, whole


Sum = tuple[Flags, Words, Exponents]
"""Whether a sum is below zero; its highest 64 bits from the leading one on, the lowest of them set
if a one follows; and the exponent of the leading one."""


def _narrow_sum(x: Unpacked, y: Unpacked, z: Unpacked, negative: Flags, difference: Flags) -> Sum:
    """Return x times y plus z for significands of up to 24 bits, in one limb.

    Exponents stand at bit 60: a product of 48 bits ends at bit 14, the addend at bit 37. What is
    shifted out of the smaller one is jammed into its lowest bit, far below where a sum is rounded.
    """
    cut = _u(SIGNIFICAND - 23)
    product = ((x.significand >> cut) * (y.significand >> cut)) << _u(14)
    addend = z.significand >> cut << _u(37)
    exponent = x.exponent + y.exponent
    apart = exponent - z.exponent
    behind = apart < 0
    small = np.where(behind, product, addend)
    large = np.where(behind, addend, product)
    by = np.minimum(np.abs(apart), 62).view(np.uint64)
    shifted = small >> by
    shifted = shifted | (shifted << by != small)
    signed = shifted.view(np.int64)
    total = large.view(np.int64) + np.where(difference, -signed, signed)
    size = np.abs(total).view(np.uint64)
    lead = leading(size)
    sign: Flags = np.where(behind, z.negative, negative) ^ (total < 0)
    whole = size << (_HIGH - lead).view(np.uint64)
    return sign, whole, np.maximum(exponent, z.exponent) - 60 + lead


def _wide_sum(x: Unpacked, y: Unpacked, z: Unpacked, negative: Flags, difference: Flags) -> Sum:
    """Return x times y plus z for significands of up to 53 bits, in two limbs.

    Exponents stand at bit 124: a product of 106 bits ends at bit 20, the addend at bit 72. What is
    shifted out of the smaller one is jammed into its lowest bit, far below where a sum is rounded.
    """
    product_high, product_low = _multiply(x.significand, y.significand)
    product_high = (product_high << _u(20)) | (product_low >> _u(44))
    product_low = product_low << _u(20)
    addend = z.significand << _u(8)
    exponent = x.exponent + y.exponent
    apart = exponent - z.exponent
    behind = apart < 0
    none = _u(0)
    high, low = np.where(behind, product_high, addend), np.where(behind, product_low, none)
    large_high = np.where(behind, addend, product_high)
    large_low = np.where(behind, none, product_low)
    # NumPy defines a shift by the width or more as 0; counts below 0 wrap to such.
    by = np.minimum(np.abs(apart), 127).view(np.uint64)
    back = _u(64) - by
    lost = (low << back) | (high << (back + _u(64))) | np.where(by > _u(64), low, none)
    low = (low >> by) | (high << back) | (high >> (by - _u(64))) | (lost != 0)
    high = high >> by
    # Two's complement: the smaller one is negated where the signs differ, and then the sum is
    # where it came out below zero.
    total_low, carry = _negated(high, low, difference)
    high, low = carry, total_low
    low = large_low + low
    high = large_high + high + (low < large_low)
    below = high >> _u(_HIGH) != 0
    low, high = _negated(high, low, below)
    sign: Flags = np.where(behind, z.negative, negative) ^ below
    full = high != 0
    first, second = np.where(full, high, low), np.where(full, low, none)
    lead = leading(first)
    up = (_HIGH - lead).view(np.uint64)
    whole = (first << up) | (second >> (_u(64) - up)) | (second << up != 0)
    place = np.where(full, lead - 60, lead - 124)
    return sign, whole, np.maximum(exponent, z.exponent) + place


def _negated(high: Words, low: Words, chosen: Flags) -> tuple[Words, Words]:
    """Return the (low, high) limbs, negated where chosen."""
    ones = _u(0) - chosen.astype(np.uint64)
    return (low ^ ones) - ones, (high ^ ones) + (chosen & (low == 0))


def round_words(
    negative: Flags, whole: Words, exponent: Exponents, binary: Binary, rounding: Rounding
) -> Words:
    """Round significands with the leading one in bit 63 and sticky lowest bit to words."""
    held = np.maximum(exponent, binary.bottom)
    dropped = (_HIGH - binary.fraction) + (held - exponent)
    # Two bits are jammed first, so that a shift beyond the whole word stays below 64.
    jammed = (whole >> _u(2)) | ((whole & _u(3)) != 0)
    shift = np.minimum(dropped - 2, _HIGH).astype(np.uint64)
    kept = jammed >> shift
    rest = jammed & ((_u(1) << shift) - _u(1))
    half = _u(1) << (shift - _u(1))
    match rounding:
        case Rounding.NEAREST_EVEN:
            up = (rest > half) | ((rest == half) & ((kept & _u(1)) != 0))
        case Rounding.NEAREST_AWAY:
            up = rest >= half
        case Rounding.ZERO:
            up = np.zeros(rest.shape, np.bool_)
        case Rounding.DOWN:
            up = negative & (rest != 0)
        case Rounding.UP:
            up = ~negative & (rest != 0)
    # A significand with its leading one adds 1 to the exponent field, and so does a carry.
    limited = np.maximum(held + (binary.top - 1), 0)
    field = np.minimum(limited, 1 << binary.exponent, out=limited).view(np.uint64)
    words = (field << _u(binary.fraction)) + kept + up
    infinity = _u(((1 << binary.exponent) - 1) << binary.fraction)
    beyond = words >= infinity
    if beyond.any():
        largest = infinity - _u(1)
        limit: Words = {
            Rounding.ZERO: largest,
            Rounding.DOWN: np.where(negative, infinity, largest),
            Rounding.UP: np.where(negative, largest, infinity),
        }.get(rounding, infinity)
        words = np.where(beyond, limit, words)
    shifted: Words = words << _u(binary.unused)
    return shifted


@dataclass(frozen=True, kw_only=True)
class NanRule:
    """What a NaN result looks like."""

    canonical: int | None
    """The word of every NaN result; None passes on an operand's sign and payload, made quiet:
    those of the second factor before the addend's before the first factor's (measured on an H200,
    November 2026, for wmma.mma, add, sub, mul and fma in f64, in every rounding)."""
    invalid: int
    """The word that an invalid operation gives (0 times infinity, infinity minus infinity)."""


def multiply_add(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    binary: Binary,
    rounding: Rounding,
    nan: NanRule,
) -> Words:
    """Return a times b plus c, rounded once.

    Parameters
    ----------
    a, b, c
        Raw words of the format, unsigned, in shapes that broadcast together.
    binary
        The format of all three and of the result.
    rounding
        How the exact value is rounded.
    nan
        What NaN results look like.

    Returns
    -------
    words
        Raw words of the format as uint64, in the broadcast shape.
    """
    words = [each.astype(np.uint64, copy=False) for each in (a, b, c)]
    x, y, z = (unpack(each, binary) for each in words)
    negative = x.negative ^ y.negative
    difference = negative ^ z.negative
    add = _narrow_sum if binary.fraction <= 23 else _wide_sum
    sign, whole, exponent = add(x, y, z, negative, difference)
    result = round_words(sign, whole, exponent, binary, rounding)
    # An exact zero is positive, or negative when rounding down; equal zeros keep their sign.
    zero: Flags = whole == 0
    sign = np.where(zero, np.where(difference, np.bool_(rounding is Rounding.DOWN), negative), sign)
    signs: Words = sign.astype(np.uint64) << _u(binary.word - 1)
    result = np.where(zero, _u(0), result) | signs
    return _specials(words, (x, y, z), negative, result, binary, nan)


def _specials(
    words: list[Words],
    parts: tuple[Unpacked, Unpacked, Unpacked],
    negative: Flags,
    result: Words,
    binary: Binary,
    nan: NanRule,
) -> Words:
    """Put infinities and NaN over a result that was computed as if all were finite."""
    x, y, z = parts
    infinite = x.infinite | y.infinite
    if not (infinite | z.infinite | x.nan | y.nan | z.nan).any():
        return result
    invalid = (x.infinite & (y.significand == 0)) | (y.infinite & (x.significand == 0))
    invalid |= infinite & z.infinite & (negative != z.negative)
    sign = np.where(infinite, negative, z.negative)
    words_of_infinity = np.where(sign, _u(binary.infinity | binary.sign), _u(binary.infinity))
    result = np.where(infinite | z.infinite, words_of_infinity, result)
    result = np.where(invalid, _u(nan.invalid), result)
    quiet = _u(1 << (binary.fraction + binary.unused - 1))
    # What is written last wins: b.
    for word, part in ((words[0], x), (words[2], z), (words[1], y)):
        given = word | quiet if nan.canonical is None else _u(nan.canonical)
        result = np.where(part.nan, given, result)
    return result
