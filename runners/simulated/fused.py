"""Binary floating-point formats, and fused multiply-add, exact in every rounding and format.

A product and an addend are signed numbers in one frame, of one 64-bit limb or of two; they are
added as integers, and rounded once. Products of a whole chain are made at once, and taken one after
the other. The tables are the device's own, apart from the oracle's on purpose.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
"""Raw words or limbs, in any shape."""
Signed = NDArray[np.int64]
"""Signed numbers, or the higher limb of such, or exponents."""
Flags = NDArray[np.bool_]


class Rounding(StrEnum):
    """Where a value between two neighbours goes."""

    NEAREST_EVEN = "rn"
    ZERO = "rz"
    DOWN = "rm"
    UP = "rp"
    NEAREST_AWAY = "nearest, ties away from zero"  # as no PTX modifier, but a planted fault asks


class BinaryNumber:
    """An IEEE 754 interchange format, or one with its layout (bf16, tf32).

    Bits of the word of an element, of its exponent field, and of the fraction that count; `unused`
    are low-order bits that do not, 13 for tf32. `top` is the largest exponent of a finite value,
    which is also the bias, `bottom` the smallest of a normal one. The words of the sign bit, of 1,
    and of positive infinity are there, too.
    """

    def __init__(self, word: int, exponent: int, fraction: int) -> None:
        self.word, self.exponent, self.fraction = word, exponent, fraction
        self.unused = word - 1 - exponent - fraction
        self.top = (1 << (exponent - 1)) - 1
        self.bottom = 1 - self.top
        self.sign = 1 << (word - 1)
        self.one = self.top << (fraction + self.unused)
        self.infinity = ((1 << exponent) - 1) << (fraction + self.unused)


F16, BF16, TF32 = BinaryNumber(16, 5, 10), BinaryNumber(16, 8, 7), BinaryNumber(32, 8, 10)
F32, F64 = BinaryNumber(32, 8, 23), BinaryNumber(64, 11, 52)
NAMED = {"f16": F16, "bf16": BF16, "tf32": TF32, "f32": F32, "f64": F64}
"""By the name of the type qualifier."""


def is_nan(words: NDArray[Any], binary: BinaryNumber) -> NDArray[np.bool_]:
    """Return which words of a format are NaN."""
    dtype = words.dtype.type
    found: NDArray[np.bool_] = (words & dtype(binary.sign - 1)) > dtype(binary.infinity)
    return found


def flushed(words: NDArray[Any], binary: BinaryNumber) -> NDArray[Any]:
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


# Bits of the fraction and of all but the sign, of floats of 6 and 4 bits, which end in numbers
# (OCP Microscaling Formats 1.0, 5.3.2 and 5.3.3), and how far a container of 8 bits has them up
# (PTX ISA 9.7.14.5.14). Two numbers of "packed e2m1" share a byte.
_SMALL = {"e3m2": (2, 5, 0), "e2m3": (3, 5, 0), "e2m1": (1, 3, 2), "packed e2m1": (1, 3, 0)}


@cache
def _small(kind: str) -> NDArray[np.uint16]:
    """Return the f16 word of every byte that holds a float of 6 or 4 bits."""
    fraction, width, up = _SMALL[kind]
    numbers = []
    for byte in range(256):
        held = byte >> up
        field, rest = divmod(held % (1 << width), 1 << fraction)
        least = 1 - ((1 << (width - fraction - 1)) - 1)
        size = (rest / (1 << fraction) + (field > 0)) * 2.0 ** (max(field, 1) - 1 + least)
        numbers.append(-size if held >> width & 1 else size)
    return np.array(numbers, np.float16).view(np.uint16)


def as_f16(words: NDArray[Any], kind: str) -> NDArray[Any]:
    """Return f16 words of the same numbers as words of 8 bits or fewer, others as they are."""
    if kind in _SMALL:
        words = _small(kind)[words]
    elif kind == "e5m2":
        words = words.astype(np.uint16) << np.uint16(8)
    elif kind == "e4m3":
        words = _E4M3[words & 0x7F] | (words & 0x80).astype(np.uint16) << np.uint16(8)
    return words


def widened(words: NDArray[Any], kind: str = "f16") -> NDArray[Any]:
    """Return f32 words of the same values as f16 or bf16 words; of NaN, some NaN."""
    if kind == "bf16":
        return words.astype(np.uint32) << np.uint32(16)
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(words).view(np.float16).astype(np.float32).view(np.uint32)


_ZERO_EXPONENT = -(1 << 20)  # of zero: below every other, so that it never decides the frame
SIGNIFICAND = 52  # bit of the leading one in an unpacked significand, for every format
_FRAME = 59
"""Bit of the higher limb of a frame that stands for the larger of two exponents: a product is below
2^2 there, an addend below 2^1, and their sum, with its sign, fits."""
_TOP = 61  # bit of the leading one of what is rounded: that of the largest sum
_DOUBLE_FRACTION, _DOUBLE_BIAS = 52, 1023


@cache
def _u(value: int) -> Words:
    """Return a number as an array of no axes: NumPy works with those faster than with scalars."""
    return np.array(value, np.uint64)


@cache
def _i(value: int) -> Signed:
    return np.array(value, np.int64)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Words taken apart."""

    binary: BinaryNumber
    words: Words
    exponent: Signed
    significand: Words  # normalised: the leading one is bit 52; 0 for zero
    special: Flags | None  # which are infinite or NaN; None where none is


def is_negative(x: Unpacked) -> Any:
    """Return which have the sign bit."""
    return (x.words & _u(x.binary.sign)) != 0


def is_infinite(x: Unpacked) -> Any:
    """Return which are infinities."""
    special = np.False_ if x.special is None else x.special
    return special & (x.significand == _u(1 << SIGNIFICAND))


def is_no_number(x: Unpacked) -> Any:
    """Return which are NaN."""
    special = np.False_ if x.special is None else x.special
    return special & (x.significand != _u(1 << SIGNIFICAND))


def _signed(x: Unpacked) -> Signed:
    """Return the significands with their signs."""
    mask = (x.words << _u(64 - x.binary.word)).view(np.int64) >> _i(63)
    return (x.significand.view(np.int64) ^ mask) - mask


def _at(x: Unpacked, index: int) -> Unpacked:
    """Return the words of an index of the first axis."""
    special = None if x.special is None else x.special[index]
    if special is not None and not special.any():
        special = None
    return Unpacked(x.binary, x.words[index], x.exponent[index], x.significand[index], special)


def leading(words: Words) -> Signed:
    """Return the index of the highest set bit of each word, 0 for zero.

    It is a float64's exponent; the bit below the highest is cleared, so that no rounding carries.
    """
    cut = words & ~(words >> _u(1))
    lead: Signed = (cut.astype(np.float64).view(np.int64) >> _DOUBLE_FRACTION) - _DOUBLE_BIAS
    return np.maximum(lead, 0)


def unpack(words: Words, binary: BinaryNumber) -> Unpacked:
    """Take uint64 words of a format apart; special values have the largest exponent."""
    largest = (1 << binary.exponent) - 1
    field = (words >> _u(binary.fraction + binary.unused)) & _u(largest)
    fraction = (words >> _u(binary.unused)) & _u((1 << binary.fraction) - 1)
    up = _u(SIGNIFICAND - binary.fraction)
    special = None
    if np.maximum.reduce(field, axis=None, initial=0) == largest:
        special = field == _u(largest)
    if np.minimum.reduce(field, axis=None, initial=1):
        significand = (fraction | _u(1 << binary.fraction)) << up
        exponent = field.view(np.int64) - _i(binary.top)
    else:
        normal = field != 0
        significand = (fraction | (normal.astype(np.uint64) << _u(binary.fraction))) << up
        lift = SIGNIFICAND - leading(significand)
        exponent = np.maximum(field, _u(1)).view(np.int64) - _i(binary.top) - lift
        exponent[significand == 0] = _ZERO_EXPONENT
        significand = significand << lift.view(np.uint64)
    return Unpacked(binary, words, exponent, significand, special)


@dataclass(frozen=True, slots=True)
class Product:
    """Exact products, in their frame: two signed limbs, or one where the format is narrow."""

    x: Unpacked
    y: Unpacked
    exponent: Signed
    high: Signed
    low: Words | None


_NARROW = 24
"""Bits of the longest significand whose products fit one limb: a quarter faster (2026-11-28)."""


def _product(x: Unpacked, y: Unpacked) -> Product:
    """Return x times y, in the shape that they broadcast to."""
    exponent = x.exponent + y.exponent
    left, right = _signed(x), _signed(y)
    if x.binary.fraction < _NARROW:
        cut = _i(SIGNIFICAND - _NARROW + 1)
        # From bits 46 and 47 on, for 2^0 and 2^1.
        high = ((left >> cut) * (right >> cut)) << _i(_FRAME - 2 * (_NARROW - 1))
        return Product(x, y, exponent, high, None)
    low = left.view(np.uint64) * right.view(np.uint64)  # modulo 2^64
    # Floating point says how many times 2^64 are missing: of a product below 2^106, it is off by
    # less than 2^54.
    near = np.multiply(left.astype(np.float64), right.astype(np.float64))
    near -= low
    near *= 2.0**-64
    high = np.rint(near, out=near).astype(np.int64)
    # From bits 104 and 105 on.
    up = 64 + _FRAME - 2 * SIGNIFICAND
    high = (high << _i(up)) | (low >> _u(64 - up)).view(np.int64)
    return Product(x, y, exponent, high, low << _u(up))


def _sum(p: Product, z: Unpacked) -> tuple[Signed, Signed]:
    """Return products plus z: signed numbers and the exponent of their leading one, bit 61.

    The lowest bit is set if a one follows: what is shifted out of the smaller one is jammed into
    it, far below where a sum is rounded. Close to a power of two a neighbour of bit 61 may lead.
    """
    addend = _signed(z) << _i(_FRAME - SIGNIFICAND)
    apart, exponent = p.exponent - z.exponent, np.maximum(p.exponent, z.exponent)
    behind = apart >> _i(63)
    swapped = (p.high ^ addend) & behind
    small, large = addend ^ swapped, p.high ^ swapped
    rest: Words | None = None
    if p.low is None:
        by = np.minimum(np.abs(apart), _i(62))
        total = small >> by
        total |= total << by != small
        total = large + total
    else:
        small_low = p.low & behind.view(np.uint64)
        large_low = p.low ^ small_low
        by = np.minimum(np.abs(apart), _i(127))
        # NumPy defines a shift by the width or more as one that leaves nothing, or the sign; counts
        # below 0 are such.
        count = by.view(np.uint64)
        back = _u(64) - count
        total, rest = small >> by, (small_low >> count) | (small.view(np.uint64) << back)
        lost = small_low << back
        if np.maximum.reduce(by, axis=None, initial=0) >= 64:
            far = by >= _i(64)
            rest = np.where(far, (small >> (by - _i(64))).view(np.uint64), rest)
            lost = np.where(far, small_low | (small.view(np.uint64) << (back + _u(64))), lost)
        rest |= lost != 0
        rest += large_low
        total += large
        total += rest < large_low
    sign = total >> _i(63)
    # Rounding may carry into the exponent field, and one's complement is one off: see above.
    field = (total ^ sign).astype(np.float64).view(np.int64) >> _i(_DOUBLE_FRACTION)
    cancelled = not np.minimum.reduce(field, axis=None, initial=1)
    if cancelled and rest is not None:
        # Only neighbours cancel so far, of which nothing was shifted out: no lowest bit is set.
        gone = field == 0
        total = np.where(gone, (sign << _i(_TOP)) | (rest >> _u(64 - _TOP)).view(np.int64), total)
        rest = np.where(gone, rest << _u(_TOP), rest)
        exponent = np.where(gone, exponent - _TOP, exponent)
        field = (total ^ sign).astype(np.float64).view(np.int64) >> _i(_DOUBLE_FRACTION)
    up = _i(_TOP + _DOUBLE_BIAS) - field
    whole = total << up
    if rest is not None:
        more = up.view(np.uint64)
        whole = whole | (rest >> (_u(64) - more)).view(np.int64) | (rest << more != 0)
    exponent = exponent + (field - _i(_DOUBLE_BIAS + _FRAME))
    if cancelled:
        exponent[whole == 0] = _ZERO_EXPONENT
    return whole, exponent


def round_words(
    x: Unpacked, binary: BinaryNumber, rounding: Rounding, flush: bool = False, *, lower: int = 0,
    beyond: int | None = None,
) -> Words:  # fmt: skip
    """Round the sizes of numbers to words of a format, without signs; of NaN, to anything.

    Their exponents are `lower`ed before; what is too large gives the word `beyond`, if any.
    """
    whole = x.significand << _u(_TOP - SIGNIFICAND)
    size = rounded(is_negative(x), whole, x.exponent - lower, binary, rounding, flush, beyond)
    size = np.where(x.significand == 0, _u(0), size)
    return np.where(is_infinite(x), _u(binary.infinity), size)


def rounded(
    negative: Flags, whole: Words, exponent: Signed, binary: BinaryNumber, rounding: Rounding,
    flush: bool = False, beyond: int | None = None,
) -> Words:  # fmt: skip
    """Round magnitudes as of `_sum` to words, without signs.

    With `flush`, tiny results are zero: those below the least normal number after they were rounded
    as if there were no least exponent (mul.ftz, fma.ftz of f32 and f16; an H200, 2026-11-23).
    """
    held = exponent
    shift: Words = _u(_TOP - binary.fraction)
    tiny = np.minimum.reduce(exponent, axis=None, initial=0) < binary.bottom
    if tiny and not flush:
        held = np.maximum(exponent, binary.bottom)
        # By 64 bits, less than half of a lowest bit is left.
        shift = np.minimum(held - exponent + (_TOP - binary.fraction), 64).view(np.uint64)
    large = np.maximum.reduce(exponent, axis=None, initial=0) >= binary.top
    if large:
        held = np.minimum(held, binary.top + 1)
    kept = whole >> shift
    half: Words = _u(1) << (shift - _u(1))
    match rounding:
        case Rounding.NEAREST_EVEN:
            kept = (whole + ((kept & _u(1)) + (half - _u(1)))) >> shift
        case Rounding.NEAREST_AWAY:
            kept = (whole + half) >> shift
        case Rounding.DOWN | Rounding.UP:
            rest = (whole & ((_u(1) << shift) - _u(1))) != 0
            kept += rest & (negative if rounding is Rounding.DOWN else ~negative)
    # A significand with its leading one adds 1 to the exponent field, and so does a carry.
    words = kept + ((held + _i(binary.top - 1)) << _i(binary.fraction)).view(np.uint64)
    if tiny and flush:
        # An exponent field of 0 or below.
        words = np.where(words.view(np.int64) < _i(1 << binary.fraction), _u(0), words)
    infinity = _u(((1 << binary.exponent) - 1) << binary.fraction)
    if large and (over := words >= infinity).any():
        largest = infinity - _u(1)
        limit: Words = {
            Rounding.ZERO: largest,
            Rounding.DOWN: np.where(negative, infinity, largest),
            Rounding.UP: np.where(negative, largest, infinity),
        }.get(rounding, infinity)
        words = np.where(over, limit if beyond is None else _u(beyond), words)
    return words << _u(binary.unused) if binary.unused else words


class FusedNan(NamedTuple):
    """What a NaN result looks like."""

    canonical: int | None
    """The word of every NaN result; None passes on an operand's sign and payload, made quiet: of
    the second factor, the addend, the first factor (an H200, November 2026, for f64)."""
    invalid: int  # what 0 times infinity and infinity minus infinity give


def multiply_add(
    a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], binary: BinaryNumber, rounding: Rounding,
    nan: FusedNan, flush: bool = False,
) -> Words:  # fmt: skip
    """Return a times b plus c of raw words, rounded once, as uint64 words; `flush` as of `rounded`.

    They have the shape that the three broadcast to.
    """
    x, y = (unpack(each.astype(np.uint64, copy=False), binary) for each in (a, b))
    return add(_product(x, y), c, rounding, nan, flush)


def products(a: NDArray[Any], b: NDArray[Any], binary: BinaryNumber) -> list[Product]:
    """Return, for each k, the (M, N, warps) products that a matrix product adds.

    A and B are (M, K, warps) and (K, N, warps) raw words of the format.
    """
    rows = np.ascontiguousarray(a.swapaxes(0, 1), np.uint64)[:, :, None]
    columns = np.ascontiguousarray(b, np.uint64)[:, None]
    p = _product(unpack(rows, binary), unpack(columns, binary))
    lows = [None] * len(p.high) if p.low is None else p.low
    return [
        Product(_at(p.x, k), _at(p.y, k), p.exponent[k], p.high[k], low)
        for k, low in enumerate(lows)
    ]


def add(
    p: Product, c: NDArray[Any], rounding: Rounding, nan: FusedNan, flush: bool = False
) -> Words:
    """Return exact products plus c, rounded once; parameters as of `multiply_add`."""
    binary = p.x.binary
    z = unpack(c.astype(np.uint64, copy=False), binary)
    whole, exponent = _sum(p, z)
    negative, magnitude = whole.view(np.uint64) >> _u(63), np.abs(whole).view(np.uint64)
    result = rounded(negative != 0, magnitude, exponent, binary, rounding, flush)
    result |= negative << _u(binary.word - 1)
    if np.minimum.reduce(exponent, axis=None, initial=0) == _ZERO_EXPONENT:
        # An exact zero is positive, or negative when rounding down; equal zeros keep their sign.
        sign = is_negative(p.x) ^ is_negative(p.y)
        sign = np.where(sign ^ is_negative(z), np.bool_(rounding is Rounding.DOWN), sign)
        signed = sign.astype(np.uint64) << _u(binary.word - 1)
        result = np.where(whole == 0, signed, result)
    if p.x.special is None and p.y.special is None and z.special is None:
        return result
    return _specials(p, z, result, nan)


def _specials(p: Product, z: Unpacked, result: Words, nan: FusedNan) -> Words:
    """Put infinities and NaN over a result that was computed as if all were finite."""
    x, y, binary = p.x, p.y, p.x.binary
    quiet = _u(1 << (binary.fraction + binary.unused - 1))
    negative = is_negative(x) ^ is_negative(y)
    infinite = is_infinite(x) | is_infinite(y)
    invalid = (is_infinite(x) & (y.significand == 0)) | (is_infinite(y) & (x.significand == 0))
    invalid = invalid | (infinite & is_infinite(z) & (negative != is_negative(z)))
    sign = np.where(infinite, negative, is_negative(z))
    words_of_infinity = np.where(sign, _u(binary.infinity | binary.sign), _u(binary.infinity))
    result = np.where(infinite | is_infinite(z), words_of_infinity, result)
    result = np.where(invalid, _u(nan.invalid), result)
    # What is written last wins: b.
    for part in (x, z, y):
        if part.special is not None:
            given = part.words | quiet if nan.canonical is None else _u(nan.canonical)
            result = np.where(is_no_number(part), given, result)
    return result
