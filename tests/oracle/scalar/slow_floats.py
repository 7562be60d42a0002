"""Floating-point instructions on one lane's patterns, in fractions, as the pages have them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from math import floor

from slow_integers import COMPARE, clamp, number

EXPONENT = {"f16": 5, "bf16": 8, "f32": 8, "tf32": 8, "f64": 11, "e4m3": 4, "e5m2": 5}
FRACTION = {"f16": 10, "bf16": 7, "f32": 23, "tf32": 10, "f64": 52, "e4m3": 3, "e5m2": 2}
BITS = {"f16": 16, "bf16": 16, "f32": 32, "tf32": 32, "f64": 64, "e4m3": 8, "e5m2": 8}
NAN = {
    "f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "tf32": 0x7FFFE000,
    "f64": 0x7FF8 << 48, "e4m3": 0x7F, "e5m2": 0x7F,
}  # fmt: skip
INFINITY = Fraction(1 << 20000)
"""Beyond every number here."""


@dataclass(frozen=True)
class Number:
    """A sign, and a size that is None for NaN."""

    negative: bool
    size: Fraction | None

    @property
    def value(self) -> Fraction:
        return -self.size if self.negative else self.size

    @property
    def nan(self) -> bool:
        return self.size is None

    @property
    def infinite(self) -> bool:
        return self.size == INFINITY


NOT = Number(False, None)


def of(value: Fraction, negative_zero: bool = False) -> Number:
    return Number(value < 0 or (value == 0 and negative_zero), abs(value))


@cache
def power(exponent: int) -> Fraction:
    """Return a power of two: making them took a tenth of the time."""
    return Fraction(2) ** exponent


@lru_cache(1 << 16)
def decode(pattern: int, fmt: str) -> Number:
    bits, e, f = BITS[fmt], EXPONENT[fmt], FRACTION[fmt]
    pattern >>= bits - 1 - e - f if fmt != "tf32" else 0
    if fmt == "tf32":
        f = 23
    negative = bool(pattern >> (e + f) & 1)
    field, fraction = pattern >> f & (1 << e) - 1, pattern & (1 << f) - 1
    bias = (1 << (e - 1)) - 1
    if fmt == "e4m3":
        if field == 15 and fraction == 7:
            return Number(negative, None)
    elif field == (1 << e) - 1:
        return Number(negative, None if fraction else INFINITY)
    if field == 0:
        return Number(negative, Fraction(fraction, 1 << f) / (1 << (bias - 1)))
    return Number(negative, (1 + Fraction(fraction, 1 << f)) * power(field - bias))


def whole(value: Fraction, mode: str) -> int:
    """Round to an integer."""
    down = floor(value)
    rest = value - down
    if mode == "rm" or rest == 0:
        return down
    if mode == "rp":
        return down + 1
    if mode == "rz":
        return down if value > 0 else down + 1
    if rest == Fraction(1, 2):
        return (down + 1 if value > 0 else down) if mode == "rna" else down + down % 2
    return down + (rest > Fraction(1, 2))


def encode(x: Number, fmt: str, mode: str = "rn", finite: bool = False, ftz: bool = False) -> int:
    e, f = EXPONENT[fmt], FRACTION[fmt]
    if x.nan:
        return NAN[fmt]
    bias, sign, unused = (1 << (e - 1)) - 1, int(x.negative), 13 if fmt == "tf32" else 0
    top = ((1 << e) - 1) << f
    if fmt == "e4m3":
        top += 7
    value, size = x.value, x.size
    if size == INFINITY:
        field = top - finite
    else:
        exponent = 1 - bias
        if size:
            exponent = max(exponent, size.numerator.bit_length() - size.denominator.bit_length())
            exponent += size >= power(exponent + 1)
            exponent = max(1 - bias, exponent - (size < power(exponent)))
        tiny = power(exponent - f - 1)  # a unit of numbers below the least normal one
        units = abs(whole(value / power(exponent - f), mode))
        # Of a number that rounds up to a power of two, the field carries into the exponent.
        field = units + ((exponent + bias - 1) << f)
        if ftz and size < power(1 - bias) and abs(whole(value / tiny, mode)) < 2 << f:
            field = 0
        if field >= top:
            inward = mode == "rz" or mode == ("rp" if x.negative else "rm")
            field = top - 1 if finite or inward else top
    return (sign << (e + f) | field) << unused


def _add(x: Number, y: Number, mode: str) -> Number:
    if x.nan or y.nan or (x.infinite and y.infinite and x.negative != y.negative):
        return NOT
    if x.infinite or y.infinite:
        return x if x.infinite else y
    zero = x.negative if x.negative == y.negative else mode == "rm"
    return of(x.value + y.value, zero)


def _multiply(x: Number, y: Number) -> Number:
    if x.nan or y.nan or (x.infinite and not y.size) or (y.infinite and not x.size):
        return NOT
    size = INFINITY if x.infinite or y.infinite else x.size * y.size
    return Number(x.negative != y.negative, size)


def _negated(x: Number) -> Number:
    return Number(not x.negative, x.size)


def _clamped(x: Number, words: list[str]) -> Number:
    if "sat" in words:
        return Number(False, Fraction(0) if x.nan or x.negative else min(x.size, Fraction(1)))
    if "relu" in words and not x.nan and x.negative:
        return Number(False, Fraction(0))
    return x


def _flushed(pattern: int, fmt: str) -> int:
    e, f = EXPONENT[fmt], FRACTION[fmt]
    return pattern & 1 << (e + f) if pattern >> f & (1 << e) - 1 == 0 else pattern


def _arithmetic(words: list[str], fmt: str, *sources: int) -> int:
    mode = words[1]
    ftz = "ftz" in words
    x, y, *z = (decode(_flushed(one, fmt) if ftz else one, fmt) for one in sources)
    result = {
        "add": lambda: _add(x, y, mode), "sub": lambda: _add(x, _negated(y), mode),
        "mul": lambda: _multiply(x, y), "fma": lambda: _add(_multiply(x, y), z[0], mode),
    }[words[0]]()  # fmt: skip
    return encode(_clamped(result, words), fmt, mode, ftz=ftz)


def _extreme(words: list[str], fmt: str, a: int, b: int) -> int:
    if "ftz" in words:
        a, b = _flushed(a, fmt), _flushed(b, fmt)
    x, y = decode(a, fmt), decode(b, fmt)
    negative = x.negative != y.negative
    if "abs" in words:
        x, y = Number(x.negative and x.nan, x.size), Number(y.negative and y.nan, y.size)
    if (x.nan and y.nan) or ("NaN" in words and (x.nan or y.nan)):
        return NAN[fmt]
    if x.nan or y.nan:
        result = y if x.nan else x
    else:
        pick = min if words[0] == "min" else max
        result = pick(x, y, key=lambda one: (one.value, not one.negative))
        if "abs" in words:
            result = pick(Number(False, x.size), Number(False, y.size), key=lambda one: one.size)
    if "abs" in words:
        result = Number(negative, result.size)
    return encode(result, fmt)


def _sign(words: list[str], fmt: str, a: int) -> int:
    a = _flushed(a, fmt) if "ftz" in words else a
    sign = 1 << (BITS[fmt] - 1)
    return a ^ sign if words[0] == "neg" else a & ~sign


def _compare(words: list[str], fmt: str, a: int, b: int) -> bool:
    if fmt[0] in "bsu" and fmt[:2] != "bf":
        return COMPARE[words[1]](number(a, fmt), number(b, fmt))
    if "ftz" in words:
        a, b = _flushed(a, fmt), _flushed(b, fmt)
    x, y, name = decode(a, fmt), decode(b, fmt), words[1]
    if name in ("num", "nan"):
        return (x.nan or y.nan) == (name == "nan")
    if x.nan or y.nan:
        return name[-1] == "u"
    return {
        "eq": x.value == y.value, "ne": x.value != y.value, "lt": x.value < y.value,
        "le": x.value <= y.value, "gt": x.value > y.value, "ge": x.value >= y.value,
    }[name[:2]]  # fmt: skip


BOOLEAN = {
    "and": lambda t, c: t and c, "or": lambda t, c: t or c, "xor": lambda t, c: bool(t) != bool(c)
}  # fmt: skip


def _combined(words: list[str], truth: bool, rest: tuple[int, ...]) -> bool:
    return BOOLEAN[words[2]](truth, rest[0]) if rest else truth


def _halves(fmt: str, pattern: int) -> list[int]:
    return [pattern & 0xFFFF, pattern >> 16] if fmt.endswith("x2") else [pattern]


def _setp(words: list[str], a: int, b: int, *rest: int) -> tuple[int, ...]:
    fmt = words[-1]
    one = fmt.removesuffix("x2")
    truths = [
        _compare(words, one, x, y) for x, y in zip(_halves(fmt, a), _halves(fmt, b), strict=True)
    ]
    if rest and len(truths) == 1 and fmt not in ("f16", "bf16"):
        truths.append(not truths[0])
    return tuple(_combined(words, truth, rest) for truth in truths)


ONE = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000}


def _set(words: list[str], a: int, b: int, *rest: int) -> tuple[int, ...]:
    to, fmt = words[-2:]
    one, kind = fmt.removesuffix("x2"), to.removesuffix("x2")
    pair = fmt != one
    true = ONE.get(kind, 0xFFFF if pair else (1 << int(kind[1:])) - 1 if kind[0] == "u" else 0)
    truths = [
        _combined(words, _compare(words, one, x, y), rest)
        for x, y in zip(_halves(fmt, a), _halves(fmt, b), strict=True)
    ]
    return (sum(true << 16 * at for at, truth in enumerate(truths) if truth),)


def _selp(words: list[str], a: int, b: int, c: int) -> tuple[int, ...]:
    return (a if c else b,)


def _slct(words: list[str], a: int, b: int, c: int) -> tuple[int, ...]:
    if words[-1] == "s32":
        return (a if number(c, "s32") >= 0 else b,)
    x = decode(_flushed(c, "f32") if "ftz" in words else c, "f32")
    return (a if not x.nan and x.value >= 0 else b,)


def _testp(words: list[str], a: int) -> tuple[int, ...]:
    fmt = words[2]
    x, least = decode(a, fmt), Fraction(2) ** (2 - (1 << (EXPONENT[fmt] - 1)))
    number = not x.nan
    finite = number and not x.infinite
    subnormal = finite and 0 < x.size < least
    return ({
        "finite": finite, "infinite": number and not finite, "number": number,
        "notanumber": not number, "normal": finite and not subnormal, "subnormal": subnormal,
    }[words[1]],)  # fmt: skip


def _copysign(words: list[str], a: int, b: int) -> tuple[int, ...]:
    bits = int(words[1][1:])
    return (a >> (bits - 1) << (bits - 1) | b & (1 << (bits - 1)) - 1,)


def _is_float(name: str) -> bool:
    return name in BITS


def _converted(words: list[str], to: str, of_: str, a: int) -> int:
    """Convert one element; the result is a number or a pattern of the element."""
    mode = next((word for word in words if word[0] == "r" and word != "relu"), "")
    ftz = "ftz" in words
    if not _is_float(of_):
        value = number(a, of_)
        if _is_float(to):
            return encode(of(Fraction(value)), to, mode)
        return number(clamp(value, to) if "sat" in words else value, to)
    x = decode(_flushed(a, of_) if ftz and of_ == "f32" else a, of_)
    if not _is_float(to):
        bits = int(to[1:])
        if x.nan:
            return number(1 << (bits - 1), to) if of_ == "f64" or bits == 64 else 0
        return clamp(whole(x.value, mode[:2]), to)
    if mode.endswith("i") and not x.nan and not x.infinite:
        x = of(Fraction(whole(x.value, mode[:2])), x.negative)
    mode = mode[:2] if mode.endswith("i") else mode or "rn"
    return encode(_clamped(x, words), to, mode, "satfinite" in words, ftz and to == "f32")


def _cvt(words: list[str], a: int, *rest: int) -> tuple[int, ...]:
    if words[1] == "pack":
        kind = words[3]
        bits = int(kind[1:])
        upper, lower = (clamp(number(one, "s32"), kind) & (1 << bits) - 1 for one in (a, rest[0]))
        return ((rest[1] << 2 * bits if len(rest) > 1 else 0) | upper << bits | lower,)
    to, of_ = words[-2:]
    if not to.endswith("x2"):
        return (_converted(words, to, of_, a),)
    to, size = to.removesuffix("x2"), BITS[to.removesuffix("x2")]
    if of_.endswith("x2"):
        of_ = of_.removesuffix("x2")
        a, *rest = a >> BITS[of_], a & (1 << BITS[of_]) - 1
    return (_converted(words, to, of_, a) << size | _converted(words, to, of_, rest[0]),)


def slow(opcode: str, *sources: int) -> tuple[int, ...]:
    """Return the results of an instruction of floats, a comparison or a conversion."""
    words = opcode.split(".")
    special = {
        "setp": _setp, "set": _set, "selp": _selp, "slct": _slct, "testp": _testp,
        "copysign": _copysign, "cvt": _cvt,
    }  # fmt: skip
    if words[0] in special:
        return special[words[0]](words, *sources)
    one = {
        "add": _arithmetic, "sub": _arithmetic, "mul": _arithmetic, "fma": _arithmetic,
        "min": _extreme, "max": _extreme, "abs": _sign, "neg": _sign,
    }[words[0]]  # fmt: skip
    fmt = words[-1]
    halves = zip(*(_halves(fmt, source) for source in sources), strict=True)
    results = [one(words, fmt.removesuffix("x2"), *half) for half in halves]
    return (sum(result << 16 * at for at, result in enumerate(results)),)
