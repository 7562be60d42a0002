"""Comparisons and selections (9.7.6, 9.7.7), `testp` and `copysign` (9.7.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import flushed
from oracle.formats import FORMATS, Format
from oracle.scalar.floats import values
from oracle.scalar.integers import COMPARED, Integer, anything
from oracle.scalar.row import FIRST, Bits, Function, ScalarInstruction, Since, row, single

Bools = NDArray[np.bool_]
_UNSIGNED = {"lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
_BOOLEANS: dict[str, Callable[..., Bools]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip


def _unordered(x: Bits, y: Bits) -> Bools:
    nan: Bools = np.isnan(x) | np.isnan(y)
    return nan


def _compared_floats(name: str, x: Bits, y: Bits) -> Bools:
    """Compare by one of the fourteen operators of floats (9.3.1.2)."""
    nan = _unordered(x, y)
    if name in ("num", "nan"):
        return np.equal(nan, name == "nan")
    if name.endswith("u"):
        return np.logical_or(COMPARED[name[:2]](x, y), nan)
    return np.logical_and(COMPARED[name](x, y), ~nan)


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
    if ftz:
        a, b = flushed(a, fmt), flushed(b, fmt)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return _compared_floats(name, values(a, fmt), values(b, fmt))


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


def _truths(type_: _Compared, name: str, ftz: bool, a: Bits, b: Bits) -> list[Bools]:
    """Return what a comparison says, one array, or two of halves, the lower first."""
    if not type_.pair:
        return [type_.of(name, ftz, a, b)]
    halves = [np.ascontiguousarray(one).view(np.uint16) for one in (a, b)]
    both = type_.of(name, ftz, *halves)
    return [both[..., 0::2], both[..., 1::2]]


def _predicates(
    outputs: int, type_: _Compared, name: str, ftz: bool, boolean: str, a: Bits, b: Bits,
    *rest: Bools,
) -> tuple[Bits, ...]:  # fmt: skip
    """Compute `setp`: of pairs a predicate for each half, else the second one of the complement."""
    truths = _truths(type_, name, ftz, a, b)
    if len(truths) < outputs:
        truths.append(~truths[0])
    if boolean:
        truths = [_BOOLEANS[boolean](truth, *rest) for truth in truths]
    return tuple(truths)


def _word(
    type_: _Compared, name: str, ftz: bool, boolean: str, true: int, register: str, a: Bits,
    b: Bits, *rest: Bools,
) -> Bits:  # fmt: skip
    """Compute `set`: the pattern `true` where the comparison holds, in each half of pairs."""
    truths = _truths(type_, name, ftz, a, b)
    if boolean:
        truths = [_BOOLEANS[boolean](truth, *rest) for truth in truths]
    kind = np.uint32 if register == "b32" else np.uint16
    result = np.zeros(a.shape, kind)
    for at, truth in enumerate(truths):
        result |= np.where(truth, kind(true << 16 * at), kind(0))
    return result


_TRUE = {
    "u16": 0xFFFF, "u32": 0xFFFF_FFFF, "f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F80_0000,
}  # fmt: skip
"""What `set` writes for true: all ones, or 1.0. As s16 and s32 it writes what it does as u16 and
u32, and has no rows of its own."""


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
                    single(_word, *given, true, register), (newer, target), immediates=constants,
                )  # fmt: skip


def _selected(a: Bits, b: Bits, c: Bits) -> Bits:
    return np.where(c, a, b)


def _selected_by_sign(ftz: bool, a: Bits, b: Bits, c: Bits) -> Bits:
    fmt = FORMATS["f32"]
    numbers = values(flushed(c, fmt) if ftz else c, fmt)
    return np.where(numbers >= 0.0, a, b)  # NaN selects b


def _selected_by_number(a: Bits, b: Bits, c: Bits) -> Bits:
    return np.where(c.view(np.int32) >= 0, a, b)


def _with_sign_of(fmt: Format, a: Bits, b: Bits) -> Bits:
    kind = a.dtype.type
    result: Bits = a & kind(fmt.magnitude + 1) | b & kind(fmt.magnitude)
    return result


def _tested(name: str, fmt: Format, a: Bits) -> Bools:
    magnitude = a & a.dtype.type(fmt.magnitude)
    subnormal = (magnitude > 0) & (magnitude < 1 << fmt.fraction_bits)
    found: dict[str, Bools] = {
        "finite": magnitude < fmt.infinity,
        "infinite": magnitude == fmt.infinity,
        "number": magnitude <= fmt.infinity,
        "notanumber": magnitude > fmt.infinity,
        "normal": (magnitude < fmt.infinity) & ~subnormal,  # and so is zero
        "subnormal": subnormal,
    }
    return found[name]


def _selections() -> Iterator[ScalarInstruction]:
    types = [f"{letter}{bits}" for letter, bits in product("bus", (16, 32, 64))]
    for type_ in (*types, "f32", "f64"):
        r = f"b{type_[1:]}"
        table: list[tuple[str, str, str, Function]] = [
            (f"selp.{type_}", "pred", "9.7.6.3", _selected),
            (f"slct.{type_}.s32", "b32", "9.7.6.4", _selected_by_number),
            (f"slct.{type_}.f32", "b32", "9.7.6.4", partial(_selected_by_sign, False)),
            (f"slct.ftz.{type_}.f32", "b32", "9.7.6.4", partial(_selected_by_sign, True)),
        ]
        constants = {} if "f" in type_ else anything(2, r)
        for opcode, last, section, function in table:
            yield row(opcode, section, r, f"{r} {r} {last}", single(function), immediates=constants)


def _floats() -> Iterator[ScalarInstruction]:
    since = ((2, 0), 20)
    for fmt in (FORMATS["f32"], FORMATS["f64"]):
        r = f"b{fmt.bits}"
        for name in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            test = single(_tested, name, fmt)
            yield row(f"testp.{name}.{fmt.name}", "9.7.3.1", "pred", r, test, since)
        sign = single(_with_sign_of, fmt)
        yield row(f"copysign.{fmt.name}", "9.7.3.2", r, f"{r} {r}", sign, since)


ROWS = (*_comparisons(), *_selections(), *_floats())
