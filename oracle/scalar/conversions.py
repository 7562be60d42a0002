"""Conversions: `cvt` (9.7.9.21) and `cvt.pack` (9.7.9.22).

Integers of 8 bits stand in registers of 32 bits, or of 16 where the other side has 16: the upper
bits of a source are ignored, those of a destination are extended (9.4.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import flushed, integral, odd_sum, rounded_sum, two_sum
from oracle.isa.forms import FORMATS, Format
from oracle.scalar.floats import (
    CLAMPS,
    NANS,
    NEAREST,
    ROUNDINGS,
    flushed_patterns_of,
    patterns_of,
    values,
)
from oracle.scalar.integers import (
    FIRST,
    INTEGERS,
    Bits,
    Function,
    Integer,
    ScalarInstruction,
    Since,
    anything,
    in_pieces,
    patterns,
    row,
)

Floats = NDArray[np.float64]
_BYTES = (Integer(8, False), Integer(8, True))
_INTEGERS = (*_BYTES, *INTEGERS)
_FLOATS = tuple(FORMATS[name] for name in ("f16", "bf16", "f32", "f64"))
_TO_INTEGER = ("rni", "rzi", "rmi", "rpi")
_NEW = ((7, 8), 90)
"""Version and target of conversions of bf16 but those with f32 (9.7.9.21)."""


def _size(t: Integer | Format, other: Integer | Format) -> int:
    """Return the size of the register that holds a type, given the type on the other side."""
    return t.bits if t.bits > 8 else 16 if other.bits == 16 else 32


def _held(t: Integer, numbers: Bits, size: int) -> Bits:
    """Return numbers of a type as patterns of a register, extended by their sign."""
    return patterns(t.of(patterns(numbers, t.bits)), size)


def _integer_to_integer(source: Integer, target: Integer, sat: bool, size: int, a: Bits) -> Bits:
    numbers = source.of(patterns(a, source.bits))
    if sat:
        low, high = max(source.low, target.low), min(source.high, target.high)
        numbers = np.clip(numbers, numbers.dtype.type(low), numbers.dtype.type(high))
    return _held(target, numbers, size)


def _integer_to_float(source: Integer, fmt: Format, rounding: str, a: Bits) -> Bits:
    numbers = source.of(patterns(a, source.bits))
    # Both parts are exact doubles; their sum is rounded to odd, and then once more.
    high = (numbers >> numbers.dtype.type(source.bits // 2)).astype(np.float64)
    low = (patterns(numbers, source.bits) & ((1 << source.bits // 2) - 1)).astype(np.float64)
    high *= 2.0 ** (source.bits // 2)
    if fmt.name == "f64":
        return rounded_sum(*two_sum(high, low), rounding).view(np.uint64)
    return patterns_of(odd_sum(high, low), fmt, rounding)


def _float_to_integer(
    fmt: Format, target: Integer, rounding: str, ftz: bool, size: int, a: Bits
) -> Bits:
    given = values(flushed(a, fmt) if ftz else a, fmt)
    not_number = np.isnan(given)
    numbers = integral(np.where(not_number, 0.0, given), rounding[:2])
    # The greatest number of 64 bits is no double.
    top = 2.0 ** (target.bits - target.signed)
    below = np.where((numbers < top) & (numbers > target.low), numbers, 0.0)
    whole = below.astype(np.int64 if target.signed else np.uint64)
    kind = whole.dtype.type
    whole = np.where(numbers >= top, kind(target.high), whole)
    whole = np.where(numbers <= target.low, kind(target.low), whole)
    # "Zero if source is not .f64 and destination is not .s64, .u64; otherwise
    # 1 << (BitWidth(dst) - 1)".
    nan = 1 << (target.bits - 1) if fmt.name == "f64" or target.bits == 64 else 0
    held = _held(target, whole, size)
    of_nan = _held(target, np.array([nan], np.uint64), size)
    return np.where(not_number, of_nan, held)


def _float_to_float(
    source: Format, target: Format, rounding: str, ftz: bool, clamp: str, finite: bool, a: Bits
) -> Bits:
    if ftz and source.name == "f32":
        a = flushed(a, source)
    if (
        source.name == "f32"
        and target.name in NEAREST
        and rounding == "rn"
        and not (clamp or finite)
    ):
        return NEAREST[target.name](a)
    numbers = values(a, source)
    if rounding in _TO_INTEGER:
        with np.errstate(invalid="ignore"):
            numbers = integral(numbers, rounding[:2])
    numbers = CLAMPS[clamp](numbers)
    if target.name == "f64":
        bits: Bits = numbers.view(np.uint64)
        return np.where(np.isnan(numbers), np.uint64(NANS["f64"]), bits)
    rounding = rounding.removesuffix("i") or "rn"
    if ftz and target.name == "f32":
        return flushed_patterns_of(numbers, target, rounding)
    return patterns_of(numbers, target, rounding, "largest" if finite else "IEEE")


def _row(
    opcode: str, destination: int, sources: tuple[int, ...], function: Function,
    since: Since = FIRST, *, section: str = "9.7.9.21", **more: Any,
) -> ScalarInstruction:  # fmt: skip
    given, evaluate = " ".join(f"b{bits}" for bits in sources), partial(in_pieces(function))
    return row(opcode, section, f"b{destination}", given, evaluate, since, **more)


def _integers() -> Iterator[ScalarInstruction]:
    for target, source in product(_INTEGERS, _INTEGERS):
        narrower = source.low < target.low or source.high > target.high
        to, of = _size(target, source), _size(source, target)
        for sat in (False, True) if narrower else (False,):
            opcode = f"cvt{'.sat' if sat else ''}.{target.name}.{source.name}"
            function = partial(_integer_to_integer, source, target, sat, to)
            yield _row(opcode, to, (of,), function)


def _mixed() -> Iterator[ScalarInstruction]:
    for fmt, t in product(_FLOATS, _INTEGERS):
        if fmt.name == "bf16" and t.bits == 8:
            continue  # for registers of 8 bits alone (ptxas 13.5)
        since = _NEW if fmt.name == "bf16" else FIRST
        size = _size(t, fmt)
        flushes = (False, True) if fmt.name == "f32" else (False,)
        for rounding in ROUNDINGS:
            yield _row(
                f"cvt.{rounding}.{fmt.name}.{t.name}", fmt.bits, (size,),
                partial(_integer_to_float, t, fmt, rounding), since,
            )  # fmt: skip
        for rounding, ftz in product(_TO_INTEGER, flushes):
            yield _row(
                f"cvt.{rounding}{'.ftz' if ftz else ''}.{t.name}.{fmt.name}", size, (fmt.bits,),
                partial(_float_to_integer, fmt, t, rounding, ftz, size), since,
            )  # fmt: skip


def _floats() -> Iterator[ScalarInstruction]:
    for target, source in product(_FLOATS, _FLOATS):
        names = {target.name, source.name}
        if target == source:
            roundings: tuple[str, ...] = (*_TO_INTEGER, "")
        elif target.bits > source.bits:
            roundings = ("",)
        else:
            roundings = ROUNDINGS
        since = _NEW if "bf16" in names else FIRST
        flushes = (False, True) if "f32" in names and "bf16" not in names else (False,)
        clamps = ("",) if "bf16" in names else ("", "sat")
        if (target.name, source.name) in (("f16", "f32"), ("bf16", "f32")):
            # relu and satfinite come with nearest and toward zero alone.
            continue
        if (target.name, source.name) == ("f32", "bf16"):
            since = ((7, 1), 80)
        for rounding, ftz, clamp in product(roundings, flushes, clamps):
            if target == source and not (rounding or clamp):
                continue  # a move
            words = [rounding, "ftz" if ftz else "", clamp, target.name, source.name]
            yield _row(
                ".".join(["cvt", *filter(None, words)]), target.bits, (source.bits,),
                partial(_float_to_float, source, target, rounding, ftz, clamp, False), since,
                nan="" if clamp else target.name,
            )  # fmt: skip


def _pair(function: Function, bits: int, a: Bits, b: Bits) -> Bits:
    """Convert two registers: the first goes to the upper part (9.7.9.21, Semantics)."""
    upper, lower = (function(one).astype(np.uint32) for one in (a, b))
    return patterns(upper << np.uint32(bits) | lower, 2 * bits)


def _elements(function: Function, source: int, target: int, a: Bits) -> Bits:
    pair = np.ascontiguousarray(a).view(f"u{source // 8}")
    converted: Bits = function(pair).view(f"u{target // 4}")
    return converted


def _narrowing() -> Iterator[ScalarInstruction]:
    """Rows of f32 to f16, bf16, tf32, and to and from fp8: with `.relu` and `.satfinite`."""
    f32 = FORMATS["f32"]
    for name in ("f16", "bf16", "tf32"):
        target = FORMATS[name]
        for rounding, relu, finite in product(("rn", "rz"), ("", "relu"), ("", "satfinite")):
            if name == "tf32" and finite:
                continue  # sm_100
            first = {"f16": FIRST, "bf16": ((7, 0), 80), "tf32": ((7, 8), 90)}[name]
            since = ((8, 1), 80) if finite else max(first, ((7, 0), 80)) if relu else first
            words = ".".join(filter(None, ("cvt", rounding, relu, finite)))
            convert = partial(_float_to_float, f32, target, rounding, False, relu, bool(finite))
            nan = "" if relu else name
            yield _row(f"{words}.{name}.f32", target.bits, (32,), convert, since, nan=nan)
            if name != "tf32":
                pair, newer = partial(_pair, convert, 16), max(since, ((7, 0), 80))
                nan = f"{nan}x2" if nan else ""
                yield _row(f"{words}.{name}x2.f32", 32, (32, 32), pair, newer, nan=nan)
    for finite in ("", ".satfinite"):
        convert = partial(_float_to_float, f32, FORMATS["tf32"], "rna", False, "", bool(finite))
        since = ((8, 1), 80) if finite else ((7, 0), 80)
        yield _row(f"cvt.rna{finite}.tf32.f32", 32, (32,), convert, since, nan="tf32")
    # f16 in every rounding, with f32 flushed or the result saturated.
    for rounding, ftz, sat in product(ROUNDINGS, ("", ".ftz"), ("", ".sat")):
        if rounding in ("rn", "rz") and not ftz and not sat:
            continue
        convert = partial(_float_to_float, f32, FORMATS["f16"], rounding, bool(ftz), sat[1:], False)
        yield _row(
            f"cvt.{rounding}{ftz}{sat}.f16.f32", 16, (32,), convert, nan="" if sat else "f16"
        )
    for name, relu in product(("e4m3", "e5m2"), ("", ".relu")):
        fp8, since = FORMATS[name], ((8, 1), 89)
        for source in (f32, FORMATS["f16"]):
            convert = partial(_float_to_float, source, fp8, "rn", False, relu[1:], True)
            opcode = f"cvt.rn.satfinite{relu}.{name}x2"
            if source == f32:
                pair = partial(_pair, convert, 8)
                yield _row(f"{opcode}.f32", 16, (32, 32), pair, since)
            else:
                yield _row(f"{opcode}.f16x2", 16, (32,), partial(_elements, convert, 16, 8), since)
        widen = partial(_float_to_float, fp8, FORMATS["f16"], "", False, relu[1:], False)
        nan = "" if relu else "f16x2"
        function = partial(_elements, widen, 8, 16)
        yield _row(f"cvt.rn{relu}.f16x2.{name}x2", 32, (16,), function, since, nan=nan)


def _packed(t: Integer, a: Bits, b: Bits, *rest: Bits) -> Bits:
    """Saturate two s32 into the low bits, the first above the second, and shift c above both."""
    upper, lower = (
        (np.clip(one.view(np.int32), t.low, t.high).view(np.uint32)) & np.uint32((1 << t.bits) - 1)
        for one in (a, b)
    )
    both = upper << np.uint32(t.bits) | lower
    return both | rest[0] << np.uint32(2 * t.bits) if rest else both


def _packs() -> Iterator[ScalarInstruction]:
    for bits, signed in product((16, 8, 4, 2), (False, True)):
        t = Integer(bits, signed)
        words, count = (f"{t.name}.s32", 2) if bits == 16 else (f"{t.name}.s32.b32", 3)
        yield _row(
            f"cvt.pack.sat.{words}", 32, (32,) * count, partial(_packed, t),
            ((6, 5), 75 if bits < 8 else 72), section="9.7.9.22",
            immediates=anything(count),
        )  # fmt: skip


ROWS = (*_integers(), *_mixed(), *_floats(), *_narrowing(), *_packs())
