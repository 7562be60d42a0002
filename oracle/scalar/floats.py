"""Floating-point arithmetic: 9.7.3 (f32, f64) and 9.7.4 (f16, bf16, and pairs of them).

Results are exact, and rounded once. Sums and products of f32 and narrower formats are formed in
double precision, where products are exact, and rounded to odd, so that rounding them again is as if
they had been rounded once (`oracle.arithmetic.fma`). Operations without a rounding modifier
are left out: a compiler may fuse them (9.7.3.3, "may be optimized aggressively").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import (
    CANONICAL_NAN,
    FLOATS,
    flushed,
    is_nan,
    narrow,
    narrow_to_bf16,
    rounded,
)
from oracle.arithmetic.fma import Decoded, fma, odd_sum
from oracle.isa.formats import FORMATS, Format
from oracle.models import NanRule
from oracle.scalar.row import (
    Bits,
    Function,
    ScalarInstruction,
    Since,
    in_pieces,
    pieces,
    row,
    single,
)

Floats = NDArray[np.float64]
ROUNDINGS = ("rn", "rz", "rm", "rp")
_F64_NAN = NanRule(order=("a", "b", "c"), invalid=0xFFF8_0000_0000_0000)
"""As the multiply-adds of `wmma.mma` do it on an H200 (2026-11); with several NaNs not measured."""
NANS = {
    **CANONICAL_NAN, "bf16": 0x7FFF, "tf32": 0x7FFF_E000, "e4m3": 0x7F, "e5m2": 0x7F,
    "f64": _F64_NAN.invalid,
}  # fmt: skip
"""Canonical NaNs, measured on H200, 2026-11 (the ISA names none); of f64, an invalid result."""


def values(bits: Bits, fmt: Format) -> Floats:
    """Return the numbers that patterns of a format stand for."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        numbers: Floats = bits.view(FLOATS[fmt.name]).astype(np.float64)
    return numbers


NEAREST: dict[str, Function] = {
    "f16": narrow, "bf16": narrow_to_bf16, "f32": lambda bits: bits,
}  # fmt: skip
"""What rounds patterns of f32 to nearest even."""


def _odd_single(numbers: Floats) -> Floats:
    """Round to the 24 bits of f32, to odd."""
    pattern, low = numbers.view(np.uint64), np.uint64((1 << 29) - 1)
    inexact = ((pattern & low) != 0).astype(np.uint64)
    odd: Floats = (pattern & ~low | inexact << np.uint64(29)).view(np.float64)
    return odd


def _fits_single(numbers: Floats, fmt: Format) -> bool:
    """Tell whether f32 in between does no harm: its subnormals have too few bits for bf16's."""
    if fmt.name == "bf16":
        return not ((np.abs(numbers) < 2.0**-126) & (numbers != 0.0)).any()
    return fmt.name in NEAREST


def patterns_of(numbers: Floats, fmt: Format, rounding: str, overflow: str = "IEEE") -> Bits:
    """Round doubles, exact or rounded to odd, to a format; NaNs become canonical.

    `rounding`, `overflow`: As of `rounded`; with "largest", infinities are too large numbers.
    """
    with np.errstate(all="ignore"):
        if rounding == "rn" and overflow == "IEEE" and _fits_single(numbers, fmt):
            single = numbers if fmt.name == "f32" else _odd_single(numbers)
            bits: Bits = NEAREST[fmt.name](single.astype(np.float32).view(np.uint32))
        else:
            finite = np.isfinite(numbers)
            bits = rounded(np.where(finite, numbers, 0.0), fmt, rounding, overflow)
            if not finite.all():
                limit = fmt.largest if overflow == "largest" else np.inf
                ends = np.array([-limit, limit]).astype(FLOATS[fmt.name]).view(fmt.raw)
                bits = np.where(finite, bits, ends[(numbers > 0).astype(np.intp)])
    nan = np.isnan(numbers)
    return np.where(nan, bits.dtype.type(NANS[fmt.name]), bits) if nan.any() else bits


def flushed_patterns_of(numbers: Floats, fmt: Format, rounding: str) -> Bits:
    """Round doubles to f16 or f32 as `patterns_of`, and flush what is tiny to zeros of its sign.

    The ISA leaves open when a result is subnormal. It is where it is below the least normal number
    after it was rounded as if exponents had no end: of mul and fma, measured on H200, 2026-11-23;
    of cvt.f32.f64, in the machine code of ptxas 11.8 to 13.5.
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
    total = np.where(np.isfinite(plain), odd_sum(x, y), plain)
    if rounding == "rm":
        total = np.where((total == 0.0) & (np.signbit(x) != np.signbit(y)), -0.0, total)
    return total


def _computed(
    function: Callable[..., Floats], fmt: Format, rounding: str, ftz: bool, clamp: str,
    *sources: Bits,
) -> Bits:  # fmt: skip
    if ftz:
        sources = tuple(flushed(one, fmt) for one in sources)
    with np.errstate(all="ignore"):
        numbers = function(rounding, *(values(one, fmt) for one in sources))
        numbers = CLAMPS[clamp](numbers)
        return (flushed_patterns_of if ftz else patterns_of)(numbers, fmt, rounding)


_SIGN = np.uint64(1 << 63)
_ONE = np.uint64(0x3FF0_0000_0000_0000)


def _f64(rounding: str, a: Bits, b: Bits, c: Bits) -> Bits:
    flat = [np.ascontiguousarray(one).reshape(-1) for one in (a, b, c)]
    left, right = (Decoded.of(one) for one in flat[:2])
    return fma(left, right, flat[2], rounding=rounding, nan=_F64_NAN).reshape(a.shape)


def _extreme(
    fmt: Format, largest: bool, ftz: bool, nan: bool, xorsign: bool, a: Bits, b: Bits
) -> Bits:
    if ftz:
        a, b = flushed(a, fmt), flushed(b, fmt)
    kind = a.dtype.type
    sign = (a ^ b) & kind(fmt.magnitude + 1)
    not_a, not_b = is_nan(a, fmt), is_nan(b, fmt)
    if xorsign:
        a, b = a & kind(fmt.magnitude), b & kind(fmt.magnitude)
    x, y = values(a, fmt), values(b, fmt)
    below = (x < y) | ((x == y) & np.signbit(x))  # -0 < +0
    result = np.where(below != largest, a, b)
    result = np.where(not_a, b, np.where(not_b, a, result))
    if xorsign:
        result |= sign
    canonical = not_a | not_b if nan else not_a & not_b
    return np.where(canonical, kind(NANS[fmt.name]), result)


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
    function = in_pieces(function)
    kinds = [(fmt.name, f"b{fmt.bits}", single(function))]
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
            computed = partial(_computed, function, fmt, rounding, bool(ftz), clamp)
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


ROWS = (*_arithmetic(), *_others())
