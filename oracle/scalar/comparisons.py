"""Comparisons and selections (9.7.6, 9.7.7), `testp` and `copysign` (9.7.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import flushed
from oracle.isa.formats import FORMATS, Format
from oracle.scalar.floats import values
from oracle.scalar.integers import COMPARED, Integer, anything
from oracle.scalar.row import FIRST, Bits, ScalarInstruction, Since, row, single

Bools = NDArray[np.bool_]
_UNSIGNED = {"lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
_BOOLEANS: dict[str, Callable[..., Bools]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip


def _compared_floats(name: str, x: Bits, y: Bits) -> Bools:
    """Compare by one of the fourteen operators of floats (9.3.1.2)."""
    nan = np.isnan(x) | np.isnan(y)
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


def _combined(
    type_: _Compared, name: str, ftz: bool, boolean: str, a: Bits, b: Bits, *rest: Bools,
    complement: int = 0,
) -> list[Bools]:  # fmt: skip
    """Return what a comparison says, combined: one array, or two of halves, the lower first.

    `complement`: How many there are, where the second one may be the complement.
    """
    if type_.pair:
        both = type_.of(name, ftz, *(np.ascontiguousarray(one).view(np.uint16) for one in (a, b)))
        truths = [both[..., 0::2], both[..., 1::2]]
    else:
        truths = [type_.of(name, ftz, a, b)]
    if len(truths) < complement:
        truths.append(~truths[0])
    return [_BOOLEANS[boolean](truth, *rest) for truth in truths] if boolean else truths


def _predicates(outputs: int, *given: Any) -> tuple[Bits, ...]:
    """Compute `setp`: of pairs a predicate for each half, else the second one of the complement."""
    return tuple(_combined(*given, complement=outputs))


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
                    single(_word, true, register, *given), (newer, target), immediates=constants,
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
            opcode.format(type_), section, r, f"{r} {r} {last}", single(function),
            immediates={} if "f" in type_ else anything(2, r),
        )  # fmt: skip


def _floats() -> Iterator[ScalarInstruction]:
    since = ((2, 0), 20)
    for fmt in (FORMATS["f32"], FORMATS["f64"]):
        r = f"b{fmt.bits}"
        for name in _TESTS:
            test = single(_tested, name, fmt)
            yield row(f"testp.{name}.{fmt.name}", "9.7.3.1", "pred", r, test, since)
        sign = single(_with_sign_of, fmt)
        yield row(f"copysign.{fmt.name}", "9.7.3.2", r, f"{r} {r}", sign, since)


ROWS = (*_comparisons(), *_selections(), *_floats())
