"""Floats (9.7.3, 9.7.4), but what a compiler may fuse (9.7.3.3); comparisons (9.7.6, 9.7.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import (
    CANONICAL_NAN,
    FLOATS,
    flushed,
    is_nan,
    narrow,
    narrow_to_bf16,
    odd_sum,
    rounded,
)
from oracle.arithmetic.doubles import decoded, fma
from oracle.isa.forms import FORMATS, Format
from oracle.models import NanRule
from oracle.scalar.integers import (
    COMPARED,
    FIRST,
    Bits,
    Function,
    Integer,
    ScalarInstruction,
    Since,
    anything,
    in_pieces,
    pieces,
    row,
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


def patterns_of(numbers: Floats, fmt: Format, rounding: str, overflow: str = "IEEE") -> Bits:
    """Round doubles, exact or rounded to odd, to a format; parameters as of `rounded`."""
    # f32 in between does no harm, but that its subnormals have too few bits for bf16's.
    few = fmt.name == "bf16" and ((np.abs(numbers) < 2.0**-126) & (numbers != 0.0)).any()
    with np.errstate(all="ignore"):
        if rounding == "rn" and overflow == "IEEE" and fmt.name in NEAREST and not few:
            single = numbers
            if fmt.name != "f32":  # rounded to f32's 24 bits, to odd
                pattern, low = numbers.view(np.uint64), np.uint64((1 << 29) - 1)
                inexact = ((pattern & low) != 0).astype(np.uint64)
                single = (pattern & ~low | inexact << np.uint64(29)).view(np.float64)
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
    """Round doubles to f16 or f32, and flush what is tiny to zeros of its sign.

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
    left, right = (decoded(one) for one in flat[:2])
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


Bools = NDArray[np.bool_]
_UNSIGNED = {"lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
_BOOLEANS: dict[str, Callable[..., Bools]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip


_FLOAT_OPERATORS = (*COMPARED, *(f"{name}u" for name in COMPARED), "num", "nan")


class _Compared(NamedTuple):
    name: str
    register: str
    operators: tuple[str, ...]
    of: Callable[[str, bool, Bits, Bits], Bools]
    """Operator, whether subnormals count as zeros, and patterns: truths."""
    fmt: Format | None = None
    pair: bool = False
    since: Since = FIRST
    """Version and target of `setp`."""

    @property
    def half(self) -> bool:
        return self.fmt is not None and self.fmt.bits == 16


def _of_integers(t: Integer, name: str, _: bool, a: Bits, b: Bits) -> Bools:
    return (COMPARED | _UNSIGNED)[name](t.of(a), t.of(b))


def _of_floats(fmt: Format, name: str, ftz: bool, a: Bits, b: Bits) -> Bools:
    """Compare by one of the fourteen operators of floats (9.3.1.2)."""
    if ftz:
        a, b = flushed(a, fmt), flushed(b, fmt)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        x, y = values(a, fmt), values(b, fmt)
        nan = np.isnan(x) | np.isnan(y)
        if name in ("num", "nan"):
            return np.equal(nan, name == "nan")
        holds = COMPARED[name[:2]](x, y)
    return np.logical_or(holds, nan) if name.endswith("u") else np.logical_and(holds, ~nan)


def _types() -> Iterator[_Compared]:
    for letter, bits in product("bus", (16, 32, 64)):
        operators = tuple(COMPARED)[: 2 if letter == "b" else 6]
        if letter == "u":
            operators += tuple(_UNSIGNED)
        of = partial(_of_integers, Integer(bits, letter == "s"))
        yield _Compared(f"{letter}{bits}", f"b{bits}", operators, of)
    since = {"f16": ((4, 2), 53), "bf16": ((7, 8), 90)}
    for name in ("f16", "bf16", "f32", "f64"):
        fmt = FORMATS[name]
        of = partial(_of_floats, fmt)
        first = since.get(name, FIRST)
        yield _Compared(name, f"b{fmt.bits}", _FLOAT_OPERATORS, of, fmt, False, first)
        if fmt.bits == 16:
            yield _Compared(f"{name}x2", "b32", _FLOAT_OPERATORS, of, fmt, True, first)


def _combined(
    type_: _Compared, name: str, ftz: bool, boolean: str, a: Bits, b: Bits, *rest: Bools,
    complement: int = 0,
) -> list[Bools]:  # fmt: skip
    """Return what a comparison says, combined: one array, or two, halves or complements."""
    if type_.pair:
        both = type_.of(name, ftz, *(np.ascontiguousarray(one).view(np.uint16) for one in (a, b)))
        truths = [both[..., 0::2], both[..., 1::2]]
    else:
        truths = [type_.of(name, ftz, a, b)]
    if len(truths) < complement:
        truths.append(~truths[0])
    return [_BOOLEANS[boolean](truth, *rest) for truth in truths] if boolean else truths


def _predicates(outputs: int, *given: Any) -> Any:
    """Compute `setp`: of pairs a predicate for each half, else the second one of the complement."""
    truths = _combined(*given, complement=outputs)
    return truths[0] if outputs == 1 else tuple(truths)


def _word(true: int, register: str, *given: Any) -> Bits:
    """Compute `set`: the pattern `true` where the comparison holds, in each half of pairs."""
    kind = np.uint32 if register == "b32" else np.uint16
    truths = _combined(*given)
    result = np.zeros(truths[0].shape, kind)
    for at, truth in enumerate(truths):
        result |= np.where(truth, kind(true << 16 * at), kind(0))
    return result


_TRUE = {
    "u16": 0xFFFF, "u32": 0xFFFF_FFFF, "f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F80_0000,
}  # fmt: skip
"""What `set` writes for true: all ones, or 1.0; of s16 and s32 there are no rows."""


def _destinations(type_: _Compared) -> dict[str, int]:
    """Return what `set` may write for a type, with the pattern of true (of one half of pairs)."""
    if type_.pair:
        return {type_.name: _TRUE[type_.name.removesuffix("x2")], "u32": 0xFFFF}
    names = {"f16": ("u16", "u32", "f16"), "bf16": ("u16", "u32")}
    return {name: _TRUE[name] for name in names.get(type_.name, ("u32", "f32"))}


def _comparisons() -> Iterator[ScalarInstruction]:
    for type_ in _types():
        (version, target), part = type_.since, 7 if type_.half else 6
        newer = max(version, (6, 5)) if type_.half else version
        flushes = ("", "ftz") if type_.name in ("f16", "f16x2", "f32") else ("",)
        constants = {} if type_.fmt else anything(2, type_.register)
        for name, boolean, ftz in product(type_.operators, ("", *_BOOLEANS), flushes):
            words = ".".join(word for word in (name, boolean, ftz) if word)
            sources = f"{type_.register} {type_.register}{' pred' if boolean else ''}"
            given = type_, name, bool(ftz), boolean
            outputs = 2 if type_.pair or (boolean and not type_.half) else 1
            yield row(
                f"setp.{words}.{type_.name}", f"9.7.{part}.2", " ".join(["pred"] * outputs),
                sources, partial(_predicates, outputs, *given), type_.since, immediates=constants,
            )  # fmt: skip
            for destination, true in _destinations(type_).items():
                register = "b16" if destination.endswith("16") else "b32"
                yield row(
                    f"set.{words}.{destination}.{type_.name}", f"9.7.{part}.1", register, sources,
                    partial(_word, true, register, *given), (newer, target), immediates=constants,
                )  # fmt: skip


def _selected_by_sign(ftz: bool, a: Bits, b: Bits, c: Bits) -> Bits:
    fmt = FORMATS["f32"]
    return np.where(values(flushed(c, fmt) if ftz else c, fmt) >= 0.0, a, b)  # NaN selects b


_SELECTIONS: tuple[tuple[str, str, str, Callable[..., Any]], ...] = (
    ("selp.{}", "pred", "9.7.6.3", lambda a, b, c: np.where(c, a, b)),
    ("slct.{}.s32", "b32", "9.7.6.4", lambda a, b, c: np.where(c.view(np.int32) >= 0, a, b)),
    ("slct.{}.f32", "b32", "9.7.6.4", partial(_selected_by_sign, False)),
    ("slct.ftz.{}.f32", "b32", "9.7.6.4", partial(_selected_by_sign, True)),
)


def _with_sign_of(fmt: Format, a: Bits, b: Bits) -> Bits:
    kind = a.dtype.type
    result: Bits = a & kind(fmt.magnitude + 1) | b & kind(fmt.magnitude)
    return result


_TESTS: dict[str, Callable[[Bits, Format], Bools]] = {
    "finite": lambda size, fmt: size < fmt.infinity,
    "infinite": lambda size, fmt: size == fmt.infinity,
    "number": lambda size, fmt: size <= fmt.infinity,
    "notanumber": lambda size, fmt: size > fmt.infinity,
    "normal": lambda size, fmt: (size < fmt.infinity) & ~_TESTS["subnormal"](size, fmt),  # and 0
    "subnormal": lambda size, fmt: (size > 0) & (size < 1 << fmt.fraction_bits),
}
"""Of patterns without their signs."""


def _tested(name: str, fmt: Format, a: Bits) -> Bools:
    return _TESTS[name](a & a.dtype.type(fmt.magnitude), fmt)


def _selections() -> Iterator[ScalarInstruction]:
    types = [f"{letter}{bits}" for letter, bits in product("bus", (16, 32, 64))]
    for type_, (opcode, last, section, function) in product((*types, "f32", "f64"), _SELECTIONS):
        r = f"b{type_[1:]}"
        yield row(
            opcode.format(type_), section, r, f"{r} {r} {last}", function,
            immediates={} if "f" in type_ else anything(2, r),
        )  # fmt: skip


def _floats() -> Iterator[ScalarInstruction]:
    since = ((2, 0), 20)
    for fmt in (FORMATS["f32"], FORMATS["f64"]):
        r = f"b{fmt.bits}"
        for name in _TESTS:
            test = partial(_tested, name, fmt)
            yield row(f"testp.{name}.{fmt.name}", "9.7.3.1", "pred", r, test, since)
        sign = partial(_with_sign_of, fmt)
        yield row(f"copysign.{fmt.name}", "9.7.3.2", r, f"{r} {r}", sign, since)


ROWS = (*_arithmetic(), *_others())
COMPARISONS = (*_comparisons(), *_selections(), *_floats())
