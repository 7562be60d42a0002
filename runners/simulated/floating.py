"""Floating-point numbers of single threads: the functions of rows of `scalar`.

Source: PTX ISA 9.7.3 (f32, f64), 9.7.4 and 9.7.5 (half precision, with bf16), 9.7.6 and 9.7.7
(comparisons), 9.7.9.23 (cvt). A NaN result is canonical but for f64, which passes payloads on.
Where the ISA bounds the error of a result alone (`.approx`, `.full`), `approximate` stands in.
"""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.fused import (
    NAMED,
    SIGNIFICAND,
    BinaryNumber,
    FusedNan,
    Rounding,
    as_f16,
    flushed,
    is_nan,
    leading,
    multiply_add,
    round_words,
    rounded,
    unpack,
)
from runners.simulated.integers import COMPARE, Qualifiers, magnitude, parts
from runners.simulated.silicon import F64_NAN
from runners.simulated.syntax import TYPE_BITS
from runners.simulated.warps import DTYPES, Values

Words = NDArray[Any]
Compute = Callable[..., Any]

NAN = {
    "f64": F64_NAN,
    "f32": FusedNan(0x7FFF_FFFF, 0x7FFF_FFFF),
    "f16": FusedNan(0x7FFF, 0x7FFF),
    "bf16": FusedNan(0x7FFF, 0x7FFF),
}
"""Canonical NaN: PTX ISA 9.7.3 gives 0x7fffffff for f32 and 9.7.4 gives 0x7fff for the halves; f64
as measured for wmma.mma on an H200."""


def adjusted(compute: Compute) -> Compute:
    """Return a computation with what .ftz, .sat and .relu say of its operands and its result.

    A NaN that .sat clamps to 0 … 1 is zero (PTX ISA 9.7.3); beside numbers that .relu makes zero
    if they are negative, it is canonical (9.7.4).
    """

    def adjusting(q: Qualifiers, *words: Words) -> Any:
        origin, to = q["origin"] or q["element"], q["to"] or q["element"]
        # Of conversions, .ftz is for f32 alone.
        flushes = q["ftz"] and ("f32" if q["to"] else origin)
        if origin == flushes:
            words = tuple(flushed(word, NAMED[origin]) for word in words)
        result = compute(q, *words)
        if to not in NAN:
            return result
        binary, dtype = NAMED[to], DTYPES[TYPE_BITS[to]]
        result = result.astype(dtype)
        if to == flushes:
            result = flushed(result, binary)
        if q["sat"] or q["relu"]:
            nan, zero = is_nan(result, binary), dtype.type(0)
            result = np.where(result >= dtype.type(binary.sign), zero, result)
            if q["sat"]:
                result = np.minimum(result, dtype.type(binary.one))
            result = np.where(nan, zero if q["sat"] else dtype.type(NAN[to].invalid), result)
        return result

    return adjusting


def _rounding(q: Qualifiers) -> Rounding:
    return Rounding.NEAREST_AWAY if q["rnd"] == "rna" else Rounding(q["rnd"] or "rn")


def one_of(q: Qualifiers, a: Words) -> Words:
    """Return (1, 1) the word of 1."""
    return np.full((1, 1), NAMED[q["element"]].one, a.dtype)


def sign_of(q: Qualifiers, a: Words) -> Any:
    """Return the sign bit of a word."""
    return a.dtype.type(NAMED[q["element"]].sign)


def fuse(q: Qualifiers, a: Words, b: Words, c: Words) -> Words:
    """Multiply and add, and round once."""
    kind, ftz = q["element"], bool(q["ftz"])
    return multiply_add(a, b, c, NAMED[kind], _rounding(q), NAN[kind], ftz)


def add(q: Qualifiers, a: Words, b: Words) -> Words:
    """Add a times one, which is exact."""
    return fuse(q, a, one_of(q, a), b)


def widening(compute: Compute) -> Compute:
    """Return a computation in f32 that takes f16 and bf16, too (PTX ISA 9.0, 9.7.5)."""

    def wide(q: Qualifiers, word: Words) -> Words:
        if word.dtype != np.uint16:
            return word
        if q["origin"] == "bf16":
            return word.astype(np.uint32) << np.uint32(16)
        return np.ascontiguousarray(word).view(np.float16).astype(np.float32).view(np.uint32)

    return lambda q, *words: compute(q, *(wide(q, word) for word in words))


def _nan_kept(words: Words, changed: Words, kind: str) -> Any:
    """Return the changed words, but for NaN the NaN that the format gives.

    Measured on an H200 (November 2026) for neg and abs: a NaN becomes canonical, but in f64, where
    it becomes quiet and keeps its sign.
    """
    rule, dtype = NAN[kind], words.dtype.type
    quiet = words | dtype(1 << (NAMED[kind].fraction - 1))
    canonical = quiet if rule.canonical is None else dtype(rule.canonical)
    return np.where(is_nan(words, NAMED[kind]), canonical, changed)


def negate(q: Qualifiers, a: Words) -> Any:
    """Return the number of the other sign."""
    return _nan_kept(a, a ^ sign_of(q, a), q["element"])


def absolute(q: Qualifiers, a: Words) -> Any:
    """Return the number without its sign."""
    return _nan_kept(a, a & ~sign_of(q, a), q["element"])


def _specials(
    result: Words, cases: tuple[tuple[Any, Any], ...], words: tuple[Words, ...], kind: str
) -> Any:
    """Put special results over a result that was computed as if all were finite."""
    for condition, value in cases:
        result = np.where(condition, np.uint64(value), result)
    for word in reversed(words):
        result = np.where(is_nan(word, NAMED[kind]), _nan_kept(word, word, kind), result)
    return result


def _rounded(
    q: Qualifiers, digits: Words, rest: Words, exponent: Words, point: int, negative: Words
) -> Words:
    """Round digits times 2^(exponent - point), with something behind them where `rest` is."""
    digits = digits.astype(np.uint64)
    lead = leading(digits)
    whole: Any = _lead_first(digits, lead) | rest.astype(np.bool_)
    return rounded(negative, whole, exponent - point + lead, NAMED[q["element"]], _rounding(q))


def _lead_first(digits: Words, lead: Words) -> Any:
    """Return digits with the leading one in bit 61, and the last set if a one is behind it."""
    left = digits << np.maximum(61 - lead, 0).astype(np.uint64)
    right = np.maximum(lead - 61, 0).astype(np.uint64)
    return left >> right | (left >> right << right != left)


def divide(q: Qualifiers, a: Words, b: Words) -> Any:
    """Divide in Python's integers, and round once."""
    kind = q["element"]
    binary = NAMED[kind]
    x, y = (unpack(word.astype(np.uint64), binary) for word in (a, b))
    # The quotient of two significands lies in (1/2, 2): one digit before the point, and as many
    # behind it as round either format with two to spare.
    more = SIGNIFICAND + 3
    dividend = x.significand.astype(object) << more
    divisor = np.where(y.significand == 0, 1 << SIGNIFICAND, y.significand).astype(object)
    sign = x.negative ^ y.negative
    quotient, rest = dividend // divisor, dividend % divisor
    result = _rounded(q, quotient, rest, x.exponent - y.exponent, more, sign)
    no_x, no_y = x.significand == 0, y.significand == 0
    result = np.where(no_x | y.infinite, np.uint64(0), result)
    result = np.where(x.infinite | no_y, np.uint64(binary.infinity), result)
    result |= sign.astype(np.uint64) << np.uint64(binary.word - 1)
    invalid = (no_x & no_y) | (x.infinite & y.infinite)
    return _specials(result, ((invalid, NAN[kind].invalid),), (a, b), kind)


_ROOT = np.frompyfunc(math.isqrt, 1, 1)


def square_root(q: Qualifiers, a: Words) -> Any:
    """Take the square root in Python's integers, and round once."""
    kind = q["element"]
    x = unpack(a.astype(np.uint64), NAMED[kind])
    # An even exponent; the root of a significand of 52 places has 26, and 30 more digits.
    odd = (x.exponent & 1) != 0
    radicand = np.where(odd, x.significand << np.uint64(1), x.significand).astype(object) << 60
    root = _ROOT(radicand)
    exponent = (x.exponent - odd) >> 1
    point = 30 + SIGNIFICAND // 2
    result = _rounded(q, root, root * root != radicand, exponent, point, x.negative & False)
    none = x.significand == 0
    cases = (
        (x.infinite, NAMED[kind].infinity),
        (none & x.negative, NAMED[kind].sign),
        (none & ~x.negative, 0),
        (x.negative & ~none, NAN[kind].invalid),
    )
    return _specials(result, cases, (a,), kind)


_APPROXIMATIONS: dict[str, Callable[..., Any]] = {
    "div": np.divide,
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}
_LARGEST_DIVISOR = 2.0**126
"""Above it div.approx gives zero, or NaN of an infinity (9.7.3.8)."""


def approximate(q: Qualifiers, *words: Words) -> Any:
    """Compute in f64 and round to nearest: one of the results that the ISA's bound permits.

    The bounds (9.7.3.8, .13 to .22, 9.7.4.9, .10): 2 ulp for div, 1 ulp for rcp, relative 2^-23 for
    sqrt, 2^-22.9 for rsqrt, 2^-22 for ex2 and lg2, 2^-11 for tanh; absolute 2^-20.5 for sin and
    cos; of f16 2^-9.9 for ex2 and 2^-10.9 for tanh, of bf16 2^-7 and 2^-8. With .ftz, f64 results
    end where their upper word does.
    """
    kind = q["element"]
    values = [_values(word, kind) for word in words]
    with np.errstate(all="ignore"):
        found = _APPROXIMATIONS[q["op"]](*values)
        if q["op"] == "div" and q["how"] == "approx":
            far = (np.abs(values[1]) > _LARGEST_DIVISOR) & np.isfinite(values[1])
            gone = np.where(np.isinf(values[0]), np.nan, np.copysign(0.0, found))
            found = np.where(far, gone, found)
        narrow = found.astype("f8" if kind == "f64" else "f2" if kind == "f16" else "f4")
    result = narrow.view(f"u{narrow.itemsize}")
    if kind == "bf16":
        result = narrowed(Qualifiers(q, origin="f32", to="bf16", rnd="rn"), result)
    if kind == "f64" and q["ftz"]:
        result &= np.uint64(0xFFFF_FFFF_0000_0000)
    return np.where(np.isnan(found), result.dtype.type(NAN[kind].invalid), result)


def _order(words: Words, kind: str) -> Any:
    """Return numbers that are ordered as the values that are no NaN; -0 is below 0."""
    sign = NAMED[kind].sign
    size = (words & words.dtype.type(sign - 1)).astype(np.int64)
    return np.where(words >= words.dtype.type(sign), -1 - size, size)


def least_or_most(q: Qualifiers, *words: Words) -> Any:
    """Return the smaller or larger; NaN gives way to a number, or wins over it (.NaN)."""
    kind, sign = q["element"], words[0].dtype.type(NAMED[q["element"]].sign)
    product = reduce(np.bitwise_xor, words) & sign
    if q["xorsign"]:
        words = tuple(word & ~sign for word in words)
    result = words[0]
    for word in words[1:]:
        first, second = _order(result, kind), _order(word, kind)
        take = second < first if q["op"] == "min" else second > first
        result = np.where(
            (take | is_nan(result, NAMED[kind])) & ~is_nan(word, NAMED[kind]), word, result
        )
    nan = is_nan(result, NAMED[kind])
    if q["NaN"]:
        nan = reduce(np.logical_or, (is_nan(word, NAMED[kind]) for word in words))
    if q["xorsign"]:
        result = result | product
    return np.where(nan, sign.dtype.type(NAN[kind].canonical or 0x7FFF_FFFF_FFFF_FFFF), result)


def among_lanes(q: Qualifiers, part: NDArray[np.bool_], held: Words) -> Any:
    """Return the smallest or largest number of the lanes that take part (redux).

    Without .NaN those that are NaN have no say, unless all are (9.7.13.12).
    """
    words = absolute(q, held) if q["abs"] else held
    # Who has no say holds what the first lane of those that have one holds.
    first = np.take_along_axis(words, part.argmax(axis=0, keepdims=True), axis=0)
    words = np.where(part, words, first)
    how = Qualifiers(q, op=q["name"])
    return least_or_most(how, *[words[lane : lane + 1] for lane in range(len(words))])


KINDS: dict[str, Callable[[Words, BinaryNumber], Words]] = {
    "finite": lambda size, binary: size < binary.infinity,
    "infinite": lambda size, binary: size == binary.infinity,
    "number": lambda size, binary: size <= binary.infinity,
    "notanumber": lambda size, binary: size > binary.infinity,
    # Zeros are taken for normal numbers (9.7.3.1).
    "normal": lambda size, binary: (
        ((size >> binary.fraction != 0) & (size < binary.infinity)) | (size == 0)
    ),
    "subnormal": lambda size, binary: (size >> binary.fraction == 0) & (size != 0),
}
"""What testp asks, of words without their signs."""


def is_of_kind(q: Qualifiers, a: Words) -> Any:
    """Tell whether a number is of a kind (testp)."""
    binary = NAMED[q["type"]]
    return KINDS[q["kind"]](a & a.dtype.type(binary.sign - 1), binary)


def _values(words: Words, kind: str) -> Any:
    """Return numbers as float64, which holds all of these formats exactly."""
    seen = words.astype(np.uint32) << np.uint32(16) if kind == "bf16" else words
    with np.errstate(all="ignore"):
        return seen.view(f"f{seen.itemsize}").astype(np.float64)


def _words(values: Any, kind: str) -> Any:
    """Return the words of float64 numbers that a format holds exactly."""
    with np.errstate(all="ignore"):
        if kind == "bf16":
            return values.astype(np.float32).view(np.uint32) >> np.uint32(16)
        return values.astype(f"f{NAMED[kind].word // 8}").view(DTYPES[NAMED[kind].word])


UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
"""Aliases of the unsigned comparisons (PTX ISA 9.3.1.1)."""
_COMBINE = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def compare(q: Qualifiers, a: Values, b: Values) -> Any:
    """Compare two numbers; with `u` behind its name it holds for NaN, too (PTX ISA 9.3.1.2)."""
    name, kind = q["cmp"], q["element"]
    if kind not in NAMED:
        return COMPARE[UNSIGNED.get(name, name)](a, b)
    if q["ftz"]:
        a, b = flushed(a, NAMED[kind]), flushed(b, NAMED[kind])
    x, y = _values(a, kind), _values(b, kind)
    nan = np.isnan(x) | np.isnan(y)
    if name in ("num", "nan"):
        return nan if name == "nan" else ~nan
    # Without `u`, ne and the others are false for NaN; neu is the one that C has.
    found = COMPARE[name.removesuffix("u")](x, y)
    return found | nan if name.endswith("u") else found & ~nan


def set_predicates(q: Qualifiers, a: Values, b: Values, *c: Values) -> tuple[Any, Any]:
    """Compare; return what holds and what does not, or what holds of each half (setp)."""
    if q["type"] != q["element"]:
        found = compare(q, parts(a, "u2"), parts(b, "u2"))
        results = found[..., 0], found[..., 1]
    else:
        found = compare(q, a, b)
        results = found, ~found
    if c:
        results = tuple(_COMBINE[q["bool"]](each, c[0]) for each in results)
    return results


def set_word(q: Qualifiers, a: Values, b: Values, *c: Values) -> Any:
    """Compare, and return all ones or 1.0 where it holds, in both halves for packed ones (set)."""
    found, second = set_predicates(q, a, b, *c)
    bits, packed = TYPE_BITS[q["dtype"]], q["type"] != q["element"]
    given = NAMED.get(q["dtype"].removesuffix("x2"))
    true = given.one if given else (1 << (16 if packed else bits)) - 1
    result = np.where(found, DTYPES[bits].type(true), DTYPES[bits].type(0))
    return np.where(second, result | np.uint32(true << 16), result) if packed else result


def select_by_sign(q: Qualifiers, a: Values, b: Values, c: Values) -> Any:
    """Select by whether a third operand is at least zero (slct)."""
    if q["by"] == "f32":
        c = _values(flushed(c, NAMED["f32"]) if q["ftz"] else c, "f32")
    return np.where(c >= 0, a, b)


_INTEGRAL: dict[str, np.ufunc] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _integral(q: Qualifiers, a: Values) -> Any:
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        return _INTEGRAL[q["irnd"]](_values(a, q["origin"]))


def _numeric(kind: str) -> np.dtype[Any]:
    return np.dtype(f"{'i' if kind[0] == 's' else 'u'}{TYPE_BITS[kind] // 8}")


def _limits(kind: str) -> tuple[int, int]:
    limits = np.iinfo(_numeric(kind))
    return int(limits.min), int(limits.max)


def exceeds(kind: str, other: str) -> bool:
    """Return whether integers of a type may be outside of another, so that it can clamp them."""
    (lowest, highest), (least, most) = _limits(kind), _limits(other)
    return lowest < least or highest > most


def integer_to_integer(q: Qualifiers, a: Values) -> Any:
    """Keep the low bits, or clamp."""
    if q["sat"]:
        # NumPy compares with bounds of the values' own type only.
        (lowest, highest), (least, most) = _limits(q["to"]), _limits(q["origin"])
        a = np.clip(a, a.dtype.type(max(lowest, least)), a.dtype.type(min(highest, most)))
    return a.astype(_numeric(q["to"]))


@adjusted
def integer_to_float(q: Qualifiers, a: Values) -> Any:
    """Round an integer to a format."""
    size = magnitude(a).astype(np.uint64)
    lead, binary = leading(size), NAMED[q["to"]]
    words = rounded(a < 0, _lead_first(size, lead), lead, binary, _rounding(q))
    words = np.where(size == 0, np.uint64(0), words)
    return words | ((a < 0).astype(np.uint64) << np.uint64(binary.word - 1))


@adjusted
def float_to_integer(q: Qualifiers, a: Values) -> Any:
    """Round to an integer; what is too large is clamped."""
    origin, to = q["origin"], q["to"]
    values = _integral(q, a)
    dtype, (lowest, highest) = _numeric(to), _limits(to)
    above, below = values >= highest + 1.0, values < lowest
    result = np.where(above | below | np.isnan(values), 0.0, values).astype(dtype)
    result = np.where(above, dtype.type(highest), np.where(below, dtype.type(lowest), result))
    # NaN gives 0, or the sign bit where either type has 64 bits (9.7.9.23).
    wide = origin == "f64" or dtype.itemsize == 8
    nan = DTYPES[TYPE_BITS[to]].type(1 << (TYPE_BITS[to] - 1) if wide else 0)
    return np.where(np.isnan(values), nan, result.view(nan.dtype))


@adjusted
def float_to_float(q: Qualifiers, a: Values) -> Any:
    """Round to another format, to the same one, or to an integer in it."""
    origin, to = q["origin"], q["to"]
    if not q["irnd"] and origin != to:
        return narrowed(q, a)
    result = _words(_integral(q, a), to) if q["irnd"] else a
    return np.where(is_nan(a, NAMED[origin]), _converted_nan(a, origin, to), result)


def _converted_nan(words: Words, origin: str, to: str) -> Any:
    """Return the words of NaN results: canonical, but for f64, which keeps sign and payload.

    Those of tf32 have zeros where it has no bits (measured on an H200, 23 November 2026).
    """
    if to != "f64":
        unused = NAMED[to].unused
        return np.uint64(NAN[to if to in NAN else "f32"].invalid >> unused << unused)
    given, whole = NAMED[origin], words.astype(np.uint64)
    sign = whole >> np.uint64(given.word - 1) << np.uint64(63)
    payload = whole & np.uint64((1 << given.fraction) - 1)
    return np.uint64(0x7FF8 << 48) | sign | payload << np.uint64(52 - given.fraction)


# Of the formats of 8 bits (OCP OFP8 1.0): one with the exponent's field of e5m2, what exponents are
# lowered by for it, and the word of the largest finite number. NaN is 0x7f in both.
_BYTES = {
    "e5m2": (BinaryNumber(8, 5, 2), 0, 0x7B),
    # With one bit more in its exponent, e4m3 has numbers where others have infinity and NaN.
    "e4m3": (BinaryNumber(9, 5, 3), 8, 0x7E),
}


def narrowed(q: Qualifiers, a: Values) -> Any:
    """Round to a format; with .satfinite to a finite value, with .relu to none below zero."""
    origin, to = q["origin"].removesuffix("x2"), q["to"].removesuffix("x2")
    x = unpack(a.astype(np.uint64), NAMED[origin])
    if to in _BYTES:
        binary, lower, largest = _BYTES[to]
        nan = np.uint64(0x7F)
    else:
        binary, lower = NAMED[to], 0
        largest, nan = binary.infinity - (1 << binary.unused), _converted_nan(a, origin, to)
    size = round_words(x, binary, _rounding(q), bool(q["ftz"]) and to == "f32", lower=lower)
    if q["satfinite"] or to in _BYTES:
        size = np.minimum(size, np.uint64(largest))
    bits = 8 if to in _BYTES else binary.word
    result = size | (x.negative.astype(np.uint64) << np.uint64(bits - 1))
    if q["relu"]:
        result = np.where(x.negative, np.uint64(0), result)
    result = np.where(x.nan, nan, result)
    return result.astype(DTYPES[bits])


def narrowed_pair(q: Qualifiers, a: Values, b: Values) -> Any:
    """Round two numbers to a pair, of which the first is the upper half."""
    high, low = narrowed(q, a), narrowed(q, b)
    bits, pair = 8 * low.itemsize, DTYPES[16 * low.itemsize]
    return low.astype(pair) | high.astype(pair) << pair.type(bits)


def widened_bytes(q: Qualifiers, a: Values) -> Any:
    """Return f16 numbers of a pair of bytes: NaN are canonical."""
    words = as_f16(parts(a, "u1"), q["origin"].removesuffix("x2"))
    nan = is_nan(words, NAMED["f16"])
    if q["relu"]:
        words = np.where(words >> np.uint16(15), np.uint16(0), words)
    result = np.where(nan, np.uint16(NAN["f16"].invalid), words)
    return np.ascontiguousarray(result).view(np.uint32)[..., 0]
