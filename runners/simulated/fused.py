"""Fused multiply-add, exact in every rounding and format, in 64-bit integers.

A product and an addend are placed in one frame of 192 bits (three 64-bit limbs), added as
integers, and rounded once.
"""

from dataclasses import dataclass
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
_FRAME_TOP = 189
"""Bit of the frame that stands for the larger exponent: two below the top, which leaves room for
a product in [2, 4) plus an addend."""
SIGNIFICAND = 52
"""Bit of the leading one in an unpacked significand, for every format."""


def _u(value: int) -> np.uint64:
    return np.uint64(value)


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

    The exponent field of the float64 that equals a half word exactly is a leading-one count.
    """
    high = words >> _u(32)
    upper = high != 0
    half = np.where(upper, high, words).astype(np.float64)
    index = (half.view(np.int64) >> 52) - 1023 + 32 * upper
    lead: Exponents = np.maximum(index, 0)
    return lead


def unpack(words: Words, binary: Binary) -> Unpacked:
    """Take uint64 words of a format apart; special values have the largest exponent."""
    field = (words >> _u(binary.fraction + binary.unused)) & _u((1 << binary.exponent) - 1)
    fraction = (words >> _u(binary.unused)) & _u((1 << binary.fraction) - 1)
    special = field == _u((1 << binary.exponent) - 1)
    normal = field != 0
    whole = np.where(normal, fraction | _u(1 << binary.fraction), fraction)
    lead = leading(whole)
    exponent = np.where(normal, field.astype(np.int64) - binary.top, binary.bottom)
    exponent = exponent + lead - binary.fraction
    return Unpacked(
        negative=(words & _u(binary.sign)) != 0,
        exponent=np.where(whole == 0, _ZERO_EXPONENT, exponent),
        significand=np.left_shift(whole, (SIGNIFICAND - lead).astype(np.uint64)),
        infinite=special & (fraction == 0),
        nan=special & (fraction != 0),
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


Frame = tuple[Words, Words, Words]
"""Limbs, most significant first."""


def _shift_right_sticky(frame: Frame, amount: Exponents) -> Frame:
    """Shift right by 0 or more; if a one falls out, the lowest bit is set."""
    amount = np.minimum(amount, 191)
    limbs, bits = amount >> 6, (amount & 63).astype(np.uint64)
    top, middle, low = frame
    zero = np.zeros_like(top)
    lost = np.where(limbs >= 1, low, zero) | np.where(limbs >= 2, middle, zero)
    top, middle, low = (
        np.where(limbs == 0, top, zero),
        np.where(limbs == 0, middle, np.where(limbs == 1, top, zero)),
        np.where(limbs == 0, low, np.where(limbs == 1, middle, top)),
    )
    # NumPy defines a shift by the full width as 0, so a shift by no bits needs no case.
    back = _u(64) - bits
    lost = lost | (low << back)
    low = (low >> bits) | (middle << back) | (lost != 0).astype(np.uint64)
    return top >> bits, (middle >> bits) | (top << back), low


def _add(left: Frame, right: Frame) -> Frame:
    low = left[2] + right[2]
    carry = (low < left[2]).astype(np.uint64)
    partial = left[1] + right[1]
    middle = partial + carry
    carry = ((partial < left[1]) | (middle < partial)).astype(np.uint64)
    return left[0] + right[0] + carry, middle, low


def _subtract(left: Frame, right: Frame) -> Frame:
    low = left[2] - right[2]
    borrow = (left[2] < right[2]).astype(np.uint64)
    partial = left[1] - right[1]
    middle = partial - borrow
    borrow = ((left[1] < right[1]) | (partial < borrow)).astype(np.uint64)
    return left[0] - right[0] - borrow, middle, low


def _less(left: Frame, right: Frame) -> Flags:
    below: Flags = (left[1] < right[1]) | ((left[1] == right[1]) & (left[2] < right[2]))
    less: Flags = (left[0] < right[0]) | ((left[0] == right[0]) & below)
    return less


def _choose(condition: Flags, yes: Frame, no: Frame) -> Frame:
    return (
        np.where(condition, yes[0], no[0]),
        np.where(condition, yes[1], no[1]),
        np.where(condition, yes[2], no[2]),
    )


def _place(high: Words, low: Words, shift: int) -> Frame:
    """Put a two-limb integer into the frame, shifted left by a constant of 64 to 127."""
    bits = shift - 64
    return (
        (high << _u(bits)) | (low >> _u(64 - bits)),
        low << _u(bits),
        np.zeros_like(low),
    )


def _normalise(frame: Frame) -> tuple[Words, Exponents]:
    """Return the highest 64 bits from the leading one, the rest jammed in, and its index."""
    top, middle, low = frame
    limb = np.where(top != 0, 2, np.where(middle != 0, 1, 0))
    first = np.where(limb == 2, top, np.where(limb == 1, middle, low))
    zero = np.zeros_like(low)
    second = np.where(limb == 2, middle, np.where(limb == 1, low, zero))
    third = np.where(limb == 2, low, zero)
    lead = leading(first)
    up = (_HIGH - lead).astype(np.uint64)
    back = _u(64) - up
    whole = (first << up) | (second >> back)
    rest = (second << up) | third
    return whole | (rest != 0), lead + 64 * limb


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
    field = np.clip(held + (binary.top - 1), 0, 1 << binary.exponent).astype(np.uint64)
    words = (field << _u(binary.fraction)) + kept + up
    infinity = _u(((1 << binary.exponent) - 1) << binary.fraction)
    to_infinity = {
        Rounding.ZERO: np.zeros(rest.shape, np.bool_),
        Rounding.DOWN: negative,
        Rounding.UP: ~negative,
    }.get(rounding, np.ones(rest.shape, np.bool_))
    words = np.where(words >= infinity, np.where(to_infinity, infinity, infinity - _u(1)), words)
    return words << _u(binary.unused)


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
    words = [each.astype(np.uint64) for each in np.broadcast_arrays(a, b, c)]
    x, y, z = (unpack(each, binary) for each in words)
    negative = x.negative ^ y.negative
    exponent = np.maximum(x.exponent + y.exponent, _ZERO_EXPONENT)
    top = np.maximum(exponent + 1, z.exponent)
    # Bit 104 of a product and bit 52 of the addend are their exponents' places.
    product = _place(*_multiply(x.significand, y.significand), _FRAME_TOP - 2 * SIGNIFICAND)
    product = _shift_right_sticky(product, top - exponent)
    addend = _place(z.significand, np.zeros_like(z.significand), _FRAME_TOP - 64 - SIGNIFICAND)
    addend = _shift_right_sticky(addend, top - z.exponent)
    same = negative == z.negative
    smaller = _less(product, addend)
    larger, lesser = _choose(smaller, addend, product), _choose(smaller, product, addend)
    total = _choose(same, _add(product, addend), _subtract(larger, lesser))
    sign: Flags = np.where(same | ~smaller, negative, z.negative)
    whole, lead = _normalise(total)
    result = round_words(sign, whole, top - _FRAME_TOP + lead, binary, rounding)
    # An exact zero is positive, or negative when rounding down; equal zeros keep their sign.
    zero: Flags = whole == 0
    sign = np.where(zero & ~same, np.bool_(rounding is Rounding.DOWN), sign)
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
