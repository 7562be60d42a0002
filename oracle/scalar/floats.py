"""Floats (9.7.3, 9.7.4), but what a compiler may fuse (9.7.3.3), and conversions (9.7.9.21, .22).

Integers of 8 bits stand in registers of 32 bits, or of 16 where the other side has 16: the upper
bits of a source are ignored, those of a destination are extended (9.4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic import conversions
from oracle.arithmetic.conversions import FLOATS, flushed, narrow, rounded, where
from oracle.arithmetic.doubles import decoded, fma
from oracle.isa.forms import FORMATS, Format
from oracle.models import NanRule
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
    pieces,
    row,
)

Floats = NDArray[np.float64]
ROUNDINGS = ("rn", "rz", "rm", "rp")
_F64_NAN = NanRule(order=("a", "b", "c"), invalid=0xFFF8_0000_0000_0000)
"""As the multiply-adds of `wmma.mma` do it on an H200 (2026-11); with several NaNs not measured."""
NANS = {
    **conversions.CANONICAL_NAN, "bf16": 0x7FFF, "tf32": 0x7FFF_E000, "e4m3": 0x7F, "e5m2": 0x7F,
    "f64": _F64_NAN.invalid,
}  # fmt: skip
"""Canonical NaNs, measured on H200, 2026-11 (the ISA names none); of f64, an invalid result."""


def values(bits: Bits, fmt: Format) -> Floats:
    """Return the numbers that patterns of a format stand for."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        numbers: Floats = bits.view(FLOATS[fmt.name]).astype(np.float64)
    return numbers


NEAREST: dict[str, Function] = {
    "f16": narrow, "bf16": conversions.narrow_to_bf16, "f32": lambda bits: bits,
}  # fmt: skip
"""What rounds patterns of f32 to nearest even."""


def patterns_of(numbers: Floats, fmt: Format, rounding: str, overflow: str = "IEEE") -> Bits:
    """Round doubles, exact or rounded to odd, or singles to nearest, to a format.

    Parameters as of `rounded`.
    """
    if numbers.dtype == np.float32:
        return _canonical(NEAREST[fmt.name](numbers.view(np.uint32)), np.isnan(numbers), fmt)
    # f32 in between does no harm, but that its subnormals have too few bits for bf16's.
    few = fmt.name == "bf16" and ((np.abs(numbers) < 2.0**-126) & (numbers != 0.0)).any()
    with np.errstate(all="ignore"):
        if rounding == "rn" and overflow == "IEEE" and fmt.name == "f16":
            bits: Bits = numbers.astype(np.float16).view(np.uint16)
        elif rounding == "rn" and overflow == "IEEE" and fmt.name in NEAREST and not few:
            single = numbers
            if fmt.name != "f32":  # rounded to f32's 24 bits, to odd
                pattern, low = numbers.view(np.uint64), np.uint64((1 << 29) - 1)
                inexact = ((pattern & low) != 0).astype(np.uint64)
                single = (pattern & ~low | inexact << np.uint64(29)).view(np.float64)
            bits = NEAREST[fmt.name](single.astype(np.float32).view(np.uint32))
        else:
            finite = np.isfinite(numbers)
            bits = rounded(np.where(finite, numbers, 0.0), fmt, rounding, overflow)
            if not finite.all():
                limit = fmt.largest if overflow == "largest" else np.inf
                ends = np.array([-limit, limit]).astype(FLOATS[fmt.name]).view(fmt.raw)
                bits = where(finite, bits, ends[(numbers > 0).astype(np.intp)])
    return _canonical(bits, np.isnan(numbers), fmt)


def _canonical(bits: Bits, nan: NDArray[np.bool_], fmt: Format) -> Bits:
    return where(nan, bits.dtype.type(NANS[fmt.name]), bits) if nan.any() else bits


def flushed_patterns_of(numbers: Floats, fmt: Format, rounding: str) -> Bits:
    """Round as `patterns_of` to f16 or f32, and flush what is tiny to zeros of its sign.

    A result is tiny if it is below the least normal number after rounding as if exponents had no
    end: of mul and fma on an H200, 2026-11-23; of cvt.f32.f64 in code of ptxas 11.8 to 13.5.
    """
    bits = patterns_of(numbers, fmt, rounding)
    kind, least = bits.dtype.type, 1 << fmt.fraction_bits
    edge = bits & kind(fmt.magnitude) == least
    if edge.any():
        # A binade higher there are as many bits, and the least normal number is a power of two.
        twice = patterns_of(2.0 * numbers[edge], fmt, rounding)
        bits[edge] -= twice & kind(fmt.magnitude) < 2 * least
    return flushed(bits, fmt)


CLAMPS: dict[str, Callable[[Floats], Floats]] = {
    "": lambda numbers: numbers,
    "sat": lambda numbers: np.where(numbers > 0.0, np.minimum(numbers, 1.0), 0.0),
    "relu": lambda numbers: np.where(numbers <= 0.0, 0.0, numbers),
}
"""`.sat` limits to 0 and 1; NaN becomes +0, and so does -0 (9.7.3.12). `.relu` keeps NaNs."""


def _sum(rounding: str, x: Floats, y: Floats) -> Floats:
    """Return a sum, rounded to odd; exact zeros have the sign of IEEE 754-2019, 6.3."""
    plain = x + y
    total = np.where(np.isfinite(plain), conversions.odd_sum(x, y), plain)
    if rounding == "rm":
        total = np.where((total == 0.0) & (np.signbit(x) != np.signbit(y)), -0.0, total)
    return total


def _computed(
    function: Callable[..., Floats], fmt: Format, rounding: str, ftz: bool, clamp: str,
    *sources: Bits, single: np.ufunc | None = None,
) -> Bits:  # fmt: skip
    if ftz:
        sources = tuple(flushed(one, fmt) for one in sources)
    with np.errstate(all="ignore"):
        if single is None:
            numbers = function(rounding, *(values(one, fmt) for one in sources))
        else:
            numbers = single(*(_singles(one, fmt) for one in sources))
        numbers = CLAMPS[clamp](numbers)
        return (flushed_patterns_of if ftz else patterns_of)(numbers, fmt, rounding)


def _singles(bits: Bits, fmt: Format) -> NDArray[np.float32]:
    numbers: NDArray[np.float32] = (
        bits.view(np.float32) if fmt.name == "f32" else values(bits, fmt).astype(np.float32)
    )
    return numbers


_SINGLE = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
"""What f32 computes as if rounded once to nearest, of itself and, rounded again, of formats with
at most half of its 24 bits less one (Figueroa 1995). Flushed, f32 needs more bits."""
_SIGN = np.uint64(1 << 63)
_ONE = np.uint64(0x3FF0_0000_0000_0000)


def _f64(rounding: str, a: Bits, b: Bits, c: Bits) -> Bits:
    flat = [np.ascontiguousarray(one).reshape(-1) for one in (a, b, c)]
    left, right = (decoded(one) for one in flat[:2])
    return fma(left, right, flat[2], rounding=rounding, nan=_F64_NAN).reshape(a.shape)


def _extreme(
    fmt: Format, largest: bool, ftz: bool, nan: bool, xorsign: bool, a: Bits, b: Bits
) -> Bits:
    alike = a is b
    if ftz:
        a, b = flushed(a, fmt), flushed(b, fmt)
    kind = a.dtype.type
    if alike and not xorsign:
        return where(conversions.is_nan(a, fmt), kind(NANS[fmt.name]), a)
    sign = (a ^ b) & kind(fmt.magnitude + 1)
    not_a, not_b = conversions.is_nan(a, fmt), conversions.is_nan(b, fmt)
    if xorsign:
        a, b = a & kind(fmt.magnitude), b & kind(fmt.magnitude)
    # As signed numbers, patterns are in order once all but the sign of a negative one is inverted.
    numbers = (one.view(f"i{fmt.bits // 8}") for one in (a, b))
    x, y = (one ^ (one >> (fmt.bits - 1) & fmt.magnitude) for one in numbers)
    # -0 < +0, and a number instead of a NaN.
    result = where(((x < y) != largest) & ~not_a | not_b, a, b)
    if xorsign:
        result |= sign
    canonical = not_a | not_b if nan else not_a & not_b
    return where(canonical, kind(NANS[fmt.name]), result)


def _signed(fmt: Format, negate: bool, ftz: bool, a: Bits) -> Bits:
    a = flushed(a, fmt) if ftz else a
    kind = a.dtype.type
    result: Bits = a ^ kind(fmt.magnitude + 1) if negate else a & kind(fmt.magnitude)
    return result


def _rows(
    words: tuple[str, ...], fmt: Format, sources: int, function: Function, since: Since, *,
    nan: bool = True,
) -> Iterator[ScalarInstruction]:  # fmt: skip
    """Make the row of a function of patterns, and that of pairs of 16 bits; `nan`: open bits."""
    if sources > 1:
        function = in_pieces(function)
    kinds = [(fmt.name, f"b{fmt.bits}", function)]
    if fmt.bits == 16:
        kinds.append((f"{fmt.name}x2", "b32", pieces(function, 16)))
    section = f"9.7.{_SECTIONS[words[0]][fmt.bits == 16]}"
    for type_, register, evaluate in kinds:
        given = " ".join([register] * sources)
        open_nan = type_ if nan else ""
        opcode = ".".join(filter(None, (*words, type_)))
        yield row(opcode, section, register, given, evaluate, since, nan=open_nan)


_ARITHMETIC: dict[str, tuple[int, Callable[..., Floats], Function]] = {
    "add": (2, _sum, lambda rounding, a, b: _f64(rounding, a, np.full(a.shape, _ONE), b)),
    "sub": (
        2,
        lambda rounding, x, y: _sum(rounding, x, -y),
        lambda rounding, a, b: _f64(rounding, a, np.full(a.shape, _ONE), b ^ _SIGN),
    ),
    "mul": (
        2,
        lambda _, x, y: x * y,
        # A zero of the product's sign changes no product.
        lambda rounding, a, b: _f64(rounding, a, b, (a ^ b) & _SIGN),
    ),
    "fma": (3, lambda rounding, x, y, z: _sum(rounding, x * y, z), _f64),
}
"""Sources, in double precision for narrower formats, on patterns of f64."""
_FLUSHES = ("", "ftz")
_SECTIONS = {
    "add": ("3.3", "4.1"), "sub": ("3.4", "4.2"), "mul": ("3.5", "4.3"), "fma": ("3.6", "4.4"),
    "abs": ("3.9", "4.6"), "neg": ("3.10", "4.5"), "min": ("3.11", "4.7"), "max": ("3.12", "4.8"),
}  # fmt: skip
"""Sections of the ISA: of f32 and f64, and of f16 and bf16."""


def _arithmetic() -> Iterator[ScalarInstruction]:
    f16, bf16, f32, f64 = (FORMATS[name] for name in ("f16", "bf16", "f32", "f64"))
    # fma of f32 came with PTX 2.0, of f64 with 1.4.
    old, half, both = ((2, 0), 20), ((4, 2), 53), ((7, 0), 80)
    for name, (sources, function, on_patterns) in _ARITHMETIC.items():
        for rounding in ROUNDINGS:
            yield from _rows((name, rounding), f64, sources, partial(on_patterns, rounding), old)
        fused = name == "fma"
        variants = [
            *((f32, *some, old) for some in product(ROUNDINGS, _FLUSHES, ("", "sat"))),
            *((f16, "rn", *some, half) for some in product(_FLUSHES, ("", "sat"))),
            (bf16, "rn", "", "", both if fused else ((7, 8), 90)),
        ]
        if fused:
            variants += [(f16, "rn", ftz, "relu", both) for ftz in _FLUSHES]
            variants.append((bf16, "rn", "", "relu", both))
        for fmt, rounding, ftz, clamp, since in variants:
            exact = rounding != "rn" or (ftz and fmt.name == "f32")
            computed = partial(
                _computed, function, fmt, rounding, bool(ftz), clamp,
                single=None if exact else _SINGLE.get(name),
            )  # fmt: skip
            words = name, rounding, ftz, clamp
            yield from _rows(words, fmt, sources, computed, since, nan=not clamp)


def _others() -> Iterator[ScalarInstruction]:
    old, newer = ((2, 0), 20), ((7, 0), 80)
    since = {
        ("abs", "f16"): ((6, 5), 53), ("neg", "f16"): ((6, 0), 53), ("abs", "bf16"): newer,
        ("neg", "bf16"): newer, ("min", "f16"): newer, ("max", "f16"): newer,
        ("min", "bf16"): newer, ("max", "bf16"): newer,
    }  # fmt: skip
    for name in ("f16", "bf16", "f32", "f64"):
        fmt = FORMATS[name]
        flushes = _FLUSHES if name in ("f16", "f32") else ("",)
        for ftz, operation in product(flushes, ("abs", "neg")):
            signed = partial(_signed, fmt, operation == "neg", bool(ftz))
            yield from _rows((operation, ftz), fmt, 1, signed, since.get((operation, name), old))
        nans, signs = (("",), ("",)) if name == "f64" else (("", "NaN"), ("", "xorsign.abs"))
        for operation, ftz, nan, xorsign in product(("min", "max"), flushes, nans, signs):
            first = since.get((operation, name), old)
            extreme = partial(
                _extreme, fmt, operation == "max", bool(ftz), bool(nan), bool(xorsign)
            )
            yield from _rows(
                (operation, ftz, nan, xorsign), fmt, 2, extreme,
                ((7, 2), 86) if xorsign else newer if nan else first, nan=not nan,
            )  # fmt: skip


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
        return conversions.rounded_sum(*conversions.two_sum(high, low), rounding).view(np.uint64)
    return patterns_of(conversions.odd_sum(high, low), fmt, rounding)


def _float_to_integer(
    fmt: Format, target: Integer, rounding: str, ftz: bool, size: int, a: Bits
) -> Bits:
    given = values(flushed(a, fmt) if ftz else a, fmt)
    not_number = np.isnan(given)
    numbers = conversions.integral(np.where(not_number, 0.0, given), rounding[:2])
    # The greatest number of 64 bits is no double.
    top = 2.0 ** (target.bits - target.signed)
    below = np.where((numbers < top) & (numbers > target.low), numbers, 0.0)
    whole = below.astype(np.int64 if target.signed else np.uint64)
    kind = whole.dtype.type
    whole = where(numbers >= top, kind(target.high), whole)
    whole = where(numbers <= target.low, kind(target.low), whole)
    # "Zero if source is not .f64 and destination is not .s64, .u64; otherwise
    # 1 << (BitWidth(dst) - 1)".
    nan = 1 << (target.bits - 1) if fmt.name == "f64" or target.bits == 64 else 0
    held = _held(target, whole, size)
    of_nan = _held(target, np.array([nan], np.uint64), size)
    return where(not_number, of_nan, held)


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
            numbers = conversions.integral(numbers, rounding[:2])
    numbers = CLAMPS[clamp](numbers)
    if target.name == "f64":
        bits: Bits = numbers.view(np.uint64)
        return where(np.isnan(numbers), np.uint64(NANS["f64"]), bits)
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
            yield row(opcode, "9.7.9.21", f"b{to}", f"b{of}", function)


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


ROWS = (
    *_arithmetic(), *_others(), *_integers(), *_mixed(), *_floats(), *_narrowing(), *_packs()
)  # fmt: skip
