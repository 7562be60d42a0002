"""Conversions between numbers (PTX ISA 9.7.9.23, cvt; 9.7.9.24, cvt.pack is not here)."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.binary import NAMED, TF32, Rounding
from runners.simulated.floating import NAN, flushed, is_nan, saturated
from runners.simulated.fused import SIGNIFICAND, leading, round_words, unpack
from runners.simulated.integers import magnitude, numeric, store
from runners.simulated.operands import Operands
from runners.simulated.syntax import TYPE_BITS
from runners.simulated.warps import DTYPES, Operation, Values

Words = NDArray[Any]

_FLOAT = ("f16", "bf16", "f32", "f64")
_INTEGER_ROUNDING = {
    "rni": Rounding.NEAREST_EVEN,
    "rzi": Rounding.ZERO,
    "rmi": Rounding.DOWN,
    "rpi": Rounding.UP,
}


def _bounds(kind: str) -> tuple[int, int]:
    bits = TYPE_BITS[kind]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def _integer_to_integer(values: Values, origin: str, to: str, saturates: bool) -> Any:
    seen = values.view(numeric(origin))
    if not saturates:
        return seen.astype(numeric(to)).view(DTYPES[TYPE_BITS[to]])
    lowest, highest = _bounds(to)
    least, most = _bounds(origin)
    # NumPy compares with bounds of the values' own type only.
    lowest, highest = max(lowest, least), min(highest, most)
    clipped = np.clip(seen, seen.dtype.type(lowest), seen.dtype.type(highest))
    return clipped.astype(numeric(to)).view(DTYPES[TYPE_BITS[to]])


def _integer_to_float(values: Values, origin: str, to: str, rounding: Rounding) -> Any:
    seen = values.view(numeric(origin))
    negative = seen < 0
    size = magnitude(seen).astype(np.uint64)
    lead = leading(size)
    whole = size << (63 - lead).astype(np.uint64)
    binary = NAMED[to]
    words = round_words(negative, whole, lead, binary, rounding)
    words = np.where(size == 0, np.uint64(0), words)
    return words | (negative.astype(np.uint64) << np.uint64(binary.word - 1))


def _float_to_float(
    words: Words, origin: str, to: str, rounding: Rounding, *, relu: bool = False
) -> Words:
    given, binary = NAMED[origin], NAMED[to]
    x = unpack(words.astype(np.uint64), given)
    up = np.uint64(63 - SIGNIFICAND)
    result = round_words(x.negative, x.significand << up, x.exponent, binary, rounding)
    result = np.where(x.significand == 0, np.uint64(0), result)
    result = np.where(x.infinite, np.uint64(binary.infinity), result)
    result = result | (x.negative.astype(np.uint64) << np.uint64(binary.word - 1))
    if relu:
        result = np.where(x.negative, np.uint64(0), result)
    return np.where(x.nan, _nan(words, origin, to), result)


def _nan(words: Words, origin: str, to: str) -> Words:
    """Return the words of NaN results: canonical, but for f64, which keeps sign and payload."""
    if to != "f64":
        canonical = NAN[to].canonical if to in NAN else NAN["f32"].canonical
        return np.uint64(canonical or 0)  # type: ignore[return-value]
    given = NAMED[origin]
    whole = words.astype(np.uint64)
    sign = whole >> np.uint64(given.word - 1) << np.uint64(63)
    payload = whole & np.uint64((1 << given.fraction) - 1)
    moved = payload << np.uint64(52 - given.fraction)
    return np.uint64(0x7FF8_0000_0000_0000) | sign | moved


def _integral(words: Words, kind: str, rounding: Rounding) -> tuple[Any, Any, Any]:
    """Return sign, magnitude and whether it is beyond 2^64 of values rounded to integers."""
    x = unpack(words.astype(np.uint64), NAMED[kind])
    one = np.uint64(1)
    right = np.clip(SIGNIFICAND - x.exponent, 0, 63).astype(np.uint64)
    left = np.clip(x.exponent - SIGNIFICAND, 0, 63).astype(np.uint64)
    kept = x.significand >> right
    rest = x.significand & ((one << right) - one)
    half = np.where(right > 0, one << np.maximum(right, one) - one, np.uint64(0))
    match rounding:
        case Rounding.NEAREST_EVEN:
            up = (rest > half) | ((rest == half) & (rest != 0) & ((kept & one) != 0))
        case Rounding.DOWN:
            up = x.negative & (rest != 0)
        case Rounding.UP:
            up = ~x.negative & (rest != 0)
        case _:
            up = np.zeros(rest.shape, np.bool_)
    size = np.where(x.exponent > SIGNIFICAND, x.significand << left, kept + up)
    return x.negative, size, (x.exponent >= 64) | x.infinite


def _float_to_integer(words: Words, origin: str, to: str, rounding: Rounding) -> Words:
    """Round to an integer; what is too large is clamped."""
    negative, size, beyond = _integral(words, origin, rounding)
    lowest, highest = _bounds(to)
    top = np.uint64(highest)
    bottom = np.uint64(-lowest)
    positive = np.where(beyond | (size > top), top, size)
    below = np.where(beyond | (size > bottom), bottom, size)
    result = np.where(negative, ~below + np.uint64(1), positive)
    # NaN gives 0, or the sign bit where either type has 64 bits (9.7.9.23).
    wide = origin == "f64" or TYPE_BITS[to] == 64
    nan = np.uint64(1 << (TYPE_BITS[to] - 1) if wide else 0)
    result = np.where(is_nan(words, origin), nan, result)
    return (result & np.uint64((1 << TYPE_BITS[to]) - 1)).astype(DTYPES[TYPE_BITS[to]])


def _to_integral_float(words: Words, kind: str, rounding: Rounding) -> Words:
    """Round to an integer of the same format."""
    negative, size, _ = _integral(words, kind, rounding)
    binary = NAMED[kind]
    lead = leading(size)
    whole = size << (63 - lead).astype(np.uint64)
    result = round_words(negative, whole, lead, binary, Rounding.NEAREST_EVEN)
    result = np.where(size == 0, np.uint64(0), result)
    result = result | (negative.astype(np.uint64) << np.uint64(binary.word - 1))
    # From 2^fraction on, every value is an integer already.
    x = unpack(words.astype(np.uint64), binary)
    result = np.where((x.exponent >= binary.fraction) | x.infinite, words, result)
    return np.where(x.nan, _nan(words, kind, kind), result)


def _rounding(operands: Operands, match: re.Match[str], to: str, origin: str) -> Rounding:
    """Return how a conversion rounds, or refuse one that does not exist."""
    given = match["rounding"]
    integral = given in _INTEGER_ROUNDING
    to_float, from_float = to in _FLOAT, origin in _FLOAT
    narrowing = to_float and from_float and NAMED[to].fraction < NAMED[origin].fraction
    narrowing |= (to, origin) == ("f16", "bf16")
    if from_float and not to_float:
        fits = integral
    elif to_float and not from_float:
        fits = given is not None and not integral
    elif to_float:
        fits = (given is not None and not integral) if narrowing else (given is None or integral)
        fits &= not (integral and to != origin)
    else:
        fits = given is None
    if not fits:
        operands.unsupported("this rounding does not exist")
    if given is None:
        return Rounding.NEAREST_EVEN
    return _INTEGER_ROUNDING[given] if integral else Rounding(given)


def _convert(operands: Operands, match: re.Match[str]) -> Operation:
    to, origin = match["to"], match["from"]
    rounding = _rounding(operands, match, to, origin)
    integral = match["rounding"] in _INTEGER_ROUNDING
    flush, saturates = match["ftz"] is not None, match["sat"] is not None
    target, given = operands.expect(2)
    bits = TYPE_BITS[to]
    name = operands.destination(target, bits, wider=True)
    wide = max(bits, operands.width(target.text)) if name != "_" else bits
    source = operands.source(given, TYPE_BITS[origin], wider=True)

    def compute(words: Words) -> Any:
        if origin not in _FLOAT and to not in _FLOAT:
            return _integer_to_integer(words, origin, to, saturates)
        if origin not in _FLOAT:
            result = _integer_to_float(words, origin, to, rounding)
        else:
            if flush and origin == "f32":
                words = flushed(words, origin)
            if to not in _FLOAT:
                return _float_to_integer(words, origin, to, rounding)
            if integral:
                result = _to_integral_float(words, origin, rounding)
            elif to == origin:
                result = np.where(is_nan(words, to), _nan(words, to, to), words)
            else:
                result = _float_to_float(words, origin, to, rounding)
        result = result.astype(DTYPES[bits])
        if flush and to == "f32":
            result = flushed(result, to)
        return saturated(result, to) if saturates else result

    extends = to[0] == "s"

    def run(warps: Any, mask: Any) -> None:
        result = compute(source(warps))
        if wide != bits:
            # A result in a wider register is extended by its type's sign (PTX ISA 9.4.1).
            seen = result.view(f"i{bits // 8}") if extends else result
            result = (
                seen.astype(DTYPES[wide])
                if not extends
                else seen.astype(f"i{wide // 8}").view(DTYPES[wide])
            )
        warps.write(name, result, mask)

    return run


def _to_half(words: Words, to: str, rounding: Rounding, relu: bool, saturates: bool) -> Words:
    result = _float_to_float(words, "f32", to, rounding, relu=relu).astype(np.uint16)
    if saturates:
        # To the largest finite value (9.7.9.23, .satfinite).
        largest = np.uint16(NAMED[to].infinity - 1)
        size = result & np.uint16(0x7FFF)
        over = (size >= np.uint16(NAMED[to].infinity)) & ~is_nan(words, "f32")
        result = np.where(over, (result & np.uint16(0x8000)) | largest, result)
    return result


def _narrow(operands: Operands, match: re.Match[str]) -> Operation:
    """Convert f32 to f16 or bf16, or two of them to a pair; `.relu` makes negative ones zero."""
    to = match["to"].removesuffix("x2")
    paired = to != match["to"]
    given = operands.expect(3 if paired else 2)
    rounding = Rounding(match["rounding"])
    relu, saturates = match["relu"] is not None, match["sat"] is not None
    sources = [operands.source(each, 32) for each in given[1:]]

    def compute(*words: Words) -> Words:
        parts = [_to_half(word, to, rounding, relu, saturates) for word in words]
        if not paired:
            return parts[0]
        # The first source is the upper half.
        return parts[1].astype(np.uint32) | (parts[0].astype(np.uint32) << np.uint32(16))

    return store(operands, 32 if paired else 16, compute, *sources)


def _to_tf32(operands: Operands, match: re.Match[str]) -> Operation:
    _, given = operands.expect(2)
    rounding = {"rna": Rounding.NEAREST_AWAY}.get(match["rounding"]) or Rounding(match["rounding"])
    relu, saturates = match["relu"] is not None, match["sat"] is not None

    def compute(words: Words) -> Any:
        x = unpack(words.astype(np.uint64), NAMED["f32"])
        up = np.uint64(63 - SIGNIFICAND)
        result = round_words(x.negative, x.significand << up, x.exponent, TF32, rounding)
        if saturates:
            result = np.minimum(result, np.uint64(TF32.infinity - (1 << TF32.unused)))
        result = np.where(x.significand == 0, np.uint64(0), result)
        if not saturates:
            result = np.where(x.infinite, np.uint64(TF32.infinity), result)
        result = result | (x.negative.astype(np.uint64) << np.uint64(31))
        if relu:
            result = np.where(x.negative, np.uint64(0), result)
        return np.where(x.nan, np.uint64(0x7FFF_FFFF), result).astype(np.uint32)

    return store(operands, 32, compute, operands.source(given, 32))


_NUMBER = r"(?:[us](?:8|16|32|64)|f16|bf16|f32|f64)"
_ROUNDINGS = r"(?:\.(?P<rounding>rni|rzi|rmi|rpi|rn|rz|rm|rp))?"

FORMS: tuple[tuple[re.Pattern[str], Callable[[Operands, re.Match[str]], Operation]], ...] = tuple(
    (re.compile(pattern), decoder)
    for pattern, decoder in (
        (
            rf"cvt{_ROUNDINGS}(?P<ftz>\.ftz)?(?P<sat>\.sat)?\.(?P<to>{_NUMBER})\.(?P<from>{_NUMBER})",
            _convert,
        ),
        (
            r"cvt\.(?P<rounding>rn|rz)(?P<sat>\.satfinite)?(?P<relu>\.relu)?"
            r"\.(?P<to>f16x2|bf16x2|f16|bf16)\.f32",
            _narrow,
        ),
        (
            r"cvt\.(?P<rounding>rna|rn|rz)(?P<sat>\.satfinite)?(?P<relu>\.relu)?\.tf32\.f32",
            _to_tf32,
        ),
    )
)
"""Every form that is known, as the pattern of its opcode and what decodes it."""
