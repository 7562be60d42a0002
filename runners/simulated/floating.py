"""Floating-point arithmetic of single threads.

Source: PTX ISA 9.7.3 (f32, f64), 9.7.4 and 9.7.5 (half precision, with bf16). A NaN result is
canonical but for f64, which passes payloads on. Instructions whose result the ISA leaves to an
implementation (`.approx`, `.full`) are not here.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.binary import NAMED, Binary, Rounding
from runners.simulated.fused import (
    SIGNIFICAND,
    NanRule,
    leading,
    multiply_add,
    round_words,
    unpack,
)
from runners.simulated.integers import store
from runners.simulated.operands import Operands
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.warps import Operation, Values

Words = NDArray[Any]

_ONE = {"f64": 0x3FF0_0000_0000_0000, "f32": 0x3F80_0000, "f16": 0x3C00, "bf16": 0x3F80}

NAN = {
    "f64": NanRule(canonical=None, invalid=0xFFF8_0000_0000_0000),
    "f32": NanRule(canonical=0x7FFF_FFFF, invalid=0x7FFF_FFFF),
    "f16": NanRule(canonical=0x7FFF, invalid=0x7FFF),
    "bf16": NanRule(canonical=0x7FFF, invalid=0x7FFF),
}
"""Canonical NaN: PTX ISA 9.7.3 gives 0x7fffffff for f32 and 9.7.4 gives 0x7fff for the halves; f64
as measured for wmma.mma on an H200."""

# Target ISA Notes of each instruction in 9.7.4.
_ARCHITECTURE = {("fma", "bf16"): 80, ("neg", "bf16"): 80, ("abs", "bf16"): 80}
_ARCHITECTURE |= {(name, "bf16"): 90 for name in ("add", "sub", "mul")}
_ARCHITECTURE |= {(name, kind): 80 for name in ("min", "max") for kind in ("f16", "bf16")}

_TYPE = r"(?P<type>f64|f32|f16x2|bf16x2|f16|bf16)"


def is_nan(words: Words, kind: str) -> Any:
    """Return which words of a format are NaN."""
    binary = NAMED[kind]
    size = words & words.dtype.type(binary.sign - 1)
    return np.greater(size, words.dtype.type(binary.infinity))


def flushed(words: Words, kind: str) -> Any:
    """Return words with subnormals made zero, sign kept."""
    binary = NAMED[kind]
    subnormal = (words & words.dtype.type(binary.infinity)) == 0
    return np.where(subnormal, words & words.dtype.type(binary.sign), words)


def saturated(words: Words, kind: str) -> Any:
    """Return values clamped to 0 … 1; a NaN is zero (PTX ISA 9.7.3, .sat)."""
    dtype = words.dtype.type
    one = dtype(_ONE[kind])
    low = is_nan(words, kind) | (words >= dtype(NAMED[kind].sign))
    return np.where(low, dtype(0), np.minimum(words, one))


def _relu(words: Words, kind: str) -> Words:
    """Return values with negative ones made zero; a NaN is canonical (PTX ISA 9.7.4, .relu)."""
    dtype = words.dtype.type
    positive = np.where(words >= dtype(NAMED[kind].sign), dtype(0), words)
    return np.where(is_nan(words, kind), dtype(NAN[kind].invalid), positive)


def _nan_kept(words: Words, changed: Words, kind: str) -> Words:
    """Return the changed words, but for NaN the NaN that the format gives."""
    binary, rule = NAMED[kind], NAN[kind]
    dtype = words.dtype.type
    quiet = words | dtype(1 << (binary.fraction - 1))
    canonical = quiet if rule.canonical is None else dtype(rule.canonical)
    return np.where(is_nan(words, kind), canonical, changed)


def _negated(words: Words, kind: str) -> Words:
    return _nan_kept(words, words ^ words.dtype.type(NAMED[kind].sign), kind)


def _without_sign(words: Words, kind: str) -> Words:
    return _nan_kept(words, words & words.dtype.type(NAMED[kind].sign - 1), kind)


def _add(words: list[Words], kind: str, rounding: Rounding) -> Words:
    a, c = words
    one = np.full((1, 1), _ONE[kind], a.dtype)
    return multiply_add(a, one, c, NAMED[kind], rounding, NAN[kind])


def _subtract(words: list[Words], kind: str, rounding: Rounding) -> Words:
    return _add([words[0], _negated(words[1], kind)], kind, rounding)


def _multiply(words: list[Words], kind: str, rounding: Rounding) -> Words:
    a, b = words
    # A zero of the product's own sign leaves every product as it is, zeros too.
    c = (a ^ b) & a.dtype.type(NAMED[kind].sign)
    return multiply_add(a, b, c, NAMED[kind], rounding, NAN[kind])


def _fuse(words: list[Words], kind: str, rounding: Rounding) -> Words:
    a, b, c = words
    return multiply_add(a, b, c, NAMED[kind], rounding, NAN[kind])


def _specials(
    result: Words, cases: tuple[tuple[NDArray[np.bool_], Any], ...], words: list[Words], kind: str
) -> Words:
    """Put special results over a result that was computed as if all were finite."""
    for condition, value in cases:
        result = np.where(condition, value, result)
    rule, binary = NAN[kind], NAMED[kind]
    for word in reversed(words):
        quiet = word.astype(np.uint64) | np.uint64(1 << (binary.fraction - 1))
        given = quiet if rule.canonical is None else np.uint64(rule.canonical)
        result = np.where(is_nan(word, kind), given, result)
    return result


def _digits(count: int, bits: Callable[[int], Words], divisor: Words | None) -> tuple[Words, Words]:
    """Return the digits of a quotient, or root where there is no divisor, and what is left.

    `bits` gives what is brought down for each digit, the first one first.
    """
    rest: Words = np.zeros((1, 1), np.uint64)
    found: Words = np.zeros((1, 1), np.uint64)
    one, two = np.uint64(1), np.uint64(2)
    for step in range(count):
        if divisor is None:
            rest = (rest << two) | bits(step)
            trial = (found << two) | one
        else:
            rest = (rest << one) | bits(step)
            trial = divisor
        fits = rest >= trial
        rest = np.where(fits, rest - trial, rest)
        found = (found << one) | fits
    return found, rest


def _divide(words: list[Words], kind: str, rounding: Rounding) -> Words:
    """Divide, digit by digit, and round once."""
    binary = NAMED[kind]
    x, y = (unpack(word.astype(np.uint64), binary) for word in words)
    # The quotient of two significands lies in (1/2, 2): one digit before the point, and as many
    # behind it as round either format with two to spare.
    more = SIGNIFICAND + 3
    zero = np.uint64(0)

    def brought(step: int) -> Any:
        return zero if step else x.significand

    divisor = np.where(y.significand == 0, np.uint64(1), y.significand)
    quotient, rest = _digits(1 + more, brought, divisor)
    sign = x.negative ^ y.negative
    result = _rounded(quotient, rest, x.exponent - y.exponent, more, binary, rounding, sign)
    signs = sign.astype(np.uint64) << np.uint64(binary.word - 1)
    infinity = np.uint64(binary.infinity)
    no_x, no_y = x.significand == 0, y.significand == 0
    result = np.where(no_x | y.infinite, zero, result)
    result = np.where(x.infinite | no_y, infinity, result) | signs
    invalid = (no_x & no_y) | (x.infinite & y.infinite)
    cases = ((invalid, np.uint64(NAN[kind].invalid)),)
    return _specials(result, cases, words, kind)


def _rounded(
    digits: Words,
    rest: Words,
    exponent: NDArray[np.int64],
    point: int,
    binary: Binary,
    rounding: Rounding,
    negative: NDArray[np.bool_],
) -> Words:
    """Round digits times 2^(exponent - point), with something behind them where `rest` is."""
    lead = leading(digits)
    up = (63 - lead).astype(np.uint64)
    whole = (digits << up) | (rest != 0)
    return round_words(negative, whole, exponent - point + lead, binary, rounding)


def _root(words: list[Words], kind: str, rounding: Rounding) -> Words:
    """Take the square root, digit by digit, and round once."""
    binary = NAMED[kind]
    (word,) = words
    x = unpack(word.astype(np.uint64), binary)
    # An even exponent, and a radicand of 54 bits followed by zeros: 27 pairs.
    odd = (x.exponent & 1) != 0
    radicand = np.where(odd, x.significand << np.uint64(1), x.significand)
    half = (x.exponent - odd) >> 1
    count = SIGNIFICAND // 2 + 1 + 30

    def brought(step: int) -> Any:
        place = SIGNIFICAND - 2 * step
        if place < 0:
            return np.uint64(0)
        return (radicand >> np.uint64(place)) & np.uint64(3)

    root, rest = _digits(count, brought, None)
    result = _rounded(root, rest, half, 30 + SIGNIFICAND // 2, binary, rounding, x.negative & False)
    # The root of a significand of 52 places has 26, and 30 more digits.
    none = x.significand == 0
    invalid = x.negative & ~none
    cases = (
        (x.infinite, np.uint64(binary.infinity)),
        (none, word.astype(np.uint64)),
        (invalid, np.uint64(NAN[kind].invalid)),
    )
    return _specials(result, cases, words, kind)


def _reciprocal(words: list[Words], kind: str, rounding: Rounding) -> Words:
    one = np.full((1, 1), _ONE[kind], words[0].dtype)
    return _divide([one, words[0]], kind, rounding)


def order(words: Words, kind: str) -> Any:
    """Return numbers that are ordered as the values that are no NaN; -0 is below 0."""
    binary = NAMED[kind]
    negative = words >= words.dtype.type(binary.sign)
    size = (words & words.dtype.type(binary.sign - 1)).astype(np.int64)
    return np.where(negative, -1 - size, size)


def _extreme(words: list[Words], kind: str, name: str, propagates: bool, magnitude: bool) -> Any:
    """Return the smaller or larger; NaN gives way to a number, or wins over it."""
    sign = words[0].dtype.type(NAMED[kind].sign)
    product = np.bitwise_xor.reduce([word & sign for word in np.broadcast_arrays(*words)])
    if magnitude:
        words = [word & words[0].dtype.type(NAMED[kind].sign - 1) for word in words]
    result = words[0]
    nan = is_nan(result, kind)
    for word in words[1:]:
        other = is_nan(word, kind)
        first, second = order(result, kind), order(word, kind)
        take = second < first if name == "min" else second > first
        result = np.where((take | nan) & ~other, word, result)
        nan = nan | other if propagates else nan & other
    if magnitude:
        result = result | product
    canonical = NAN[kind].canonical or 0x7FFF_FFFF_FFFF_FFFF
    return np.where(nan, result.dtype.type(canonical), result)


def _sign_copied(words: list[Words], kind: str) -> Any:
    sign = words[0].dtype.type(NAMED[kind].sign)
    return (words[1] & ~sign) | (words[0] & sign)


_ROUNDED: dict[str, tuple[int, Callable[[list[Words], str, Rounding], Words]]] = {
    "add": (2, _add),
    "sub": (2, _subtract),
    "mul": (2, _multiply),
    "fma": (3, _fuse),
    "mad": (3, _fuse),
    "div": (2, _divide),
    "rcp": (1, _reciprocal),
    "sqrt": (1, _root),
}
"""Sources and computation of each instruction that rounds."""


def by_halves(words: list[Values], compute: Callable[[list[Values]], NDArray[Any]]) -> NDArray[Any]:
    """Apply a computation to the low and the high 16 bits of 32-bit words."""
    halves = compute([word[..., None].view(np.uint16) for word in words])
    found: NDArray[Any] = np.ascontiguousarray(halves, np.uint16).view(np.uint32)[..., 0]
    return found


def _check_target(operands: Operands, name: str, kind: str) -> None:
    needed = _ARCHITECTURE.get((name, kind), 0)
    if operands.surroundings.architecture < needed:
        refuse(
            TrapKind.ILLEGAL,
            operands.line,
            f"{operands.instruction.opcode} needs sm_{needed}; the module is for "
            f"sm_{operands.surroundings.architecture}",
        )


def _elementwise(
    operands: Operands,
    match: re.Match[str],
    count: int,
    compute: Callable[[list[Words], str], Words],
) -> Operation:
    """Return the operation that applies a computation to each number of its type."""
    kind = match["type"]
    element = kind.removesuffix("x2")
    bits = 32 if kind != element else NAMED[element].word
    given = operands.expect(count + 1)
    named = match.groupdict()
    flush = named.get("ftz") is not None
    saturates, clamps = named.get("sat") is not None, named.get("relu") is not None

    def one(words: list[Words]) -> Words:
        dtype = words[0].dtype
        if flush:
            words = [flushed(word, element) for word in words]
        result = compute(words, element).astype(dtype)
        if flush:
            result = flushed(result, element)
        if saturates:
            result = saturated(result, element)
        return _relu(result, element) if clamps else result

    def whole(*words: Words) -> Words:
        return by_halves(list(words), one) if kind != element else one(list(words))

    return store(operands, bits, whole, *(operands.source(each, bits) for each in given[1:]))


def arithmetic(operands: Operands, match: re.Match[str]) -> Operation:
    """Decode add, sub, mul, fma, mad, div, rcp and sqrt."""
    name, kind = match["name"], match["type"].removesuffix("x2")
    given = match["rounding"]
    half = NAMED[kind].word == 16
    if (half and given not in (None, "rn")) or (
        given is None and name not in ("add", "sub", "mul")
    ):
        operands.unsupported("this rounding does not exist")
    if match["ftz"] and kind not in ("f32", "f16"):
        operands.unsupported(".ftz is for f32 and f16")
    _check_target(operands, "fma" if name == "mad" else name, kind)
    rounding = Rounding(given or "rn")
    count, compute = _ROUNDED[name]
    return _elementwise(
        operands, match, count, lambda words, element: compute(words, element, rounding)
    )


def _sign(operands: Operands, match: re.Match[str]) -> Operation:
    """Decode neg and abs.

    Measured on an H200 (November 2026): a NaN becomes canonical, but in f64, where it becomes
    quiet and keeps its sign.
    """
    name, kind = match["name"], match["type"].removesuffix("x2")
    _check_target(operands, name, kind)
    change = _without_sign if name == "abs" else _negated
    return _elementwise(operands, match, 1, lambda words, element: change(words[0], element))


def _least_or_most(operands: Operands, match: re.Match[str]) -> Operation:
    name = match["name"]
    _check_target(operands, name, match["type"].removesuffix("x2"))
    propagates, magnitude = match["nan"] is not None, match["magnitude"] is not None
    count = len(operands.expect(3, 4)) - 1
    return _elementwise(
        operands,
        match,
        count,
        lambda words, element: _extreme(words, element, name, propagates, magnitude),
    )


def _copy_sign(operands: Operands, match: re.Match[str]) -> Operation:
    return _elementwise(operands, match, 2, _sign_copied)


def _approximate(operands: Operands, _: re.Match[str]) -> Operation:
    operands.unsupported("the ISA bounds the error of this result, and does not say its bits")


_CLASSES: dict[str, Callable[[Words, Binary], Words]] = {
    "finite": lambda size, binary: size < binary.infinity,
    "infinite": lambda size, binary: size == binary.infinity,
    "number": lambda size, binary: size <= binary.infinity,
    "notanumber": lambda size, binary: size > binary.infinity,
    "normal": lambda size, binary: (
        (size >= (1 << (binary.fraction + binary.unused))) & (size < binary.infinity)
    ),
    "subnormal": lambda size, binary: size < (1 << (binary.fraction + binary.unused)),
}


def _test(operands: Operands, match: re.Match[str]) -> Operation:
    """Tell whether a number is of a class (testp)."""
    binary = NAMED[match["type"]]
    _, given = operands.expect(2)
    name = match["name"]

    def compute(words: Words) -> Words:
        size = words & words.dtype.type(binary.sign - 1)
        result = _CLASSES[name](size, binary)
        return result & (size != 0) if name == "subnormal" else result

    return store(operands, 1, compute, operands.source(given, binary.word))


_ROUNDINGS = r"(?:\.(?P<rounding>rn|rz|rm|rp))?"
_FTZ = r"(?P<ftz>\.ftz)?"

FORMS: tuple[tuple[re.Pattern[str], Callable[[Operands, re.Match[str]], Operation]], ...] = tuple(
    (re.compile(pattern), decoder)
    for pattern, decoder in (
        (
            rf"(?P<name>add|sub|mul|fma|mad){_ROUNDINGS}{_FTZ}(?P<sat>\.sat)?(?P<relu>\.relu)?\.{_TYPE}",
            arithmetic,
        ),
        (rf"(?P<name>div|rcp|sqrt){_ROUNDINGS}{_FTZ}\.(?P<type>f32|f64)", arithmetic),
        (rf"(?P<name>neg|abs){_FTZ}\.{_TYPE}", _sign),
        (
            rf"(?P<name>min|max){_FTZ}(?P<nan>\.NaN)?(?P<magnitude>\.xorsign\.abs)?\.{_TYPE}",
            _least_or_most,
        ),
        (r"copysign\.(?P<type>f32|f64)", _copy_sign),
        (rf"testp\.(?P<name>{'|'.join(_CLASSES)})\.(?P<type>f32|f64)", _test),
        (
            r"(?:div\.full|(?:div|rcp|sqrt|rsqrt|sin|cos|lg2|ex2|tanh)\.approx)(?:\.\w+)*|rsqrt\.\S+",
            _approximate,
        ),
    )
)
"""Every form that is known, as the pattern of its opcode and what decodes it."""
