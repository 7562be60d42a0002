"""Integer arithmetic: 9.7.1 (with packed halves), carries 9.7.2, SIMD video instructions 9.7.18.2.

All of it is modulo 2^n; the pages give no other meaning to an overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.scalar.row import (
    FIRST,
    Bits,
    Function,
    Immediate,
    ScalarInstruction,
    Since,
    pieces,
    row,
    single,
)

Bools = NDArray[np.bool_]


class Integer(NamedTuple):
    """An integer type of PTX (5.2.1)."""

    bits: int
    signed: bool

    @property
    def name(self) -> str:
        """As it is written: "s32"."""
        return f"{'s' if self.signed else 'u'}{self.bits}"

    @property
    def register(self) -> str:
        """Class of registers of its size: "b32"."""
        return f"b{self.bits}"

    @property
    def low(self) -> int:
        """Least number."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        """Greatest number."""
        return (1 << (self.bits - self.signed)) - 1

    def of(self, pattern: Bits) -> Bits:
        """Return patterns of this size as numbers of this sign."""
        return pattern.view(f"{'i' if self.signed else 'u'}{self.bits // 8}")

    def wide(self, pattern: Bits) -> NDArray[np.int64]:
        """Return patterns of at most 32 bits as numbers that have room for sums and products."""
        return self.of(pattern).astype(np.int64)

    def clamped(self, numbers: NDArray[np.int64]) -> Bits:
        """Return patterns of numbers, limited to what the type holds (`.sat`)."""
        return patterns(np.clip(numbers, self.low, self.high), self.bits)


def patterns(numbers: Bits, bits: int) -> Bits:
    """Return the low bits of numbers."""
    return numbers.astype(f"u{bits // 8}")


INTEGERS = tuple(Integer(bits, signed) for signed in (False, True) for bits in (16, 32, 64))
SIGNED = tuple(one for one in INTEGERS if one.signed)
U32, S32 = Integer(32, False), Integer(32, True)
WORDS = (U32, S32)


def anything(count: int, register: str = "b32") -> dict[int, Immediate]:
    """Return the constants of sources that may be any number of their size."""
    return {at: Immediate(0, (1 << int(register[1:])) - 1) for at in range(count)}


_SIMPLE: dict[str, Function] = {
    "add": lambda t, a, b: a + b,
    "sub": lambda t, a, b: a - b,
    "mul.lo": lambda t, a, b: a * b,
    "neg": lambda t, a: ~a + a.dtype.type(1),
    "min": lambda t, a, b: patterns(np.minimum(t.of(a), t.of(b)), t.bits),
    "max": lambda t, a, b: patterns(np.maximum(t.of(a), t.of(b)), t.bits),
    "rem": lambda t, a, b: a % np.where(b == 0, b.dtype.type(1), b),
}


def _high_product(t: Integer, a: Bits, b: Bits) -> Bits:
    if t.bits < 64:
        # The upper half of a product of u32 that int64 cannot hold is right all the same.
        return patterns(_wide_product(t, a, b) >> np.uint64(t.bits), t.bits)
    half, low = np.uint64(32), np.uint64(0xFFFF_FFFF)
    a_high, a_low, b_high, b_low = a >> half, a & low, b >> half, b & low
    middle = a_high * b_low + (a_low * b_low >> half)
    other = a_low * b_high + (middle & low)
    high: Bits = a_high * b_high + (middle >> half) + (other >> half)
    if t.signed:
        high -= np.where(t.of(a) < 0, b, 0)
        high -= np.where(t.of(b) < 0, a, 0)
    return high


def _wide_product(t: Integer, a: Bits, b: Bits) -> Bits:
    return patterns((t.wide(a) * t.wide(b)).view(np.uint64), 2 * t.bits)


def _relu(t: Integer, function: Function, a: Bits, b: Bits) -> Bits:
    return patterns(np.maximum(t.of(function(t, a, b)), 0), t.bits)


def _distance(t: Integer, a: Bits, b: Bits, c: Bits) -> Bits:
    return c + np.where(t.of(a) < t.of(b), b - a, a - b)


def _magnitude(t: Integer, a: Bits) -> Bits:
    return np.where(t.of(a) < 0, ~a + a.dtype.type(1), a)


def _plus(t: Integer, function: Function, a: Bits, b: Bits, c: Bits) -> Bits:
    return function(t, a, b) + c


def _quotient(t: Integer, a: Bits, b: Bits) -> Bits:
    # Toward zero; NumPy's goes down, which is the same for numbers that are not negative.
    divisor = np.where(b == 0, b.dtype.type(1), b)
    if not t.signed:
        return a // divisor
    size = _magnitude(t, a) // _magnitude(t, divisor)
    return np.where((t.of(a) < 0) != (t.of(divisor) < 0), ~size + size.dtype.type(1), size)


_TABLE: tuple[tuple[str, str, tuple[Integer, ...], int, Function], ...] = (
    ("add", "9.7.1.1", INTEGERS, 2, _SIMPLE["add"]),
    ("sub", "9.7.1.2", INTEGERS, 2, _SIMPLE["sub"]),
    ("mul.lo", "9.7.1.3", INTEGERS, 2, _SIMPLE["mul.lo"]),
    ("mul.hi", "9.7.1.3", INTEGERS, 2, _high_product),
    ("sad", "9.7.1.7", INTEGERS, 3, _distance),
    ("neg", "9.7.1.11", SIGNED, 1, _SIMPLE["neg"]),
    ("min", "9.7.1.12", INTEGERS, 2, _SIMPLE["min"]),
    ("max", "9.7.1.13", INTEGERS, 2, _SIMPLE["max"]),
)
"""Opcode without its type, section, types, sources, what it computes."""
_PRODUCTS = {"lo": _SIMPLE["mul.lo"], "hi": _high_product}


def _of_one_type(
    name: str, section: str, t: Integer, sources: int,
    evaluate: Callable[..., tuple[Bits, ...]], since: Since = FIRST, **more: Any,
) -> ScalarInstruction:  # fmt: skip
    given = " ".join([t.register] * sources)
    more = {"immediates": anything(sources, t.register)} | more
    return row(f"{name}.{t.name}", section, t.register, given, evaluate, since, **more)


def _plain() -> Iterator[ScalarInstruction]:
    for name, section, types, count, function in _TABLE:
        for t in types:
            yield _of_one_type(name, section, t, count, single(function, t))
    for t, (mode, function) in product(INTEGERS, _PRODUCTS.items()):
        yield _of_one_type(f"mad.{mode}", "9.7.1.4", t, 3, single(_plus, t, function))
    for t in SIGNED:
        # The page leaves open what |MININT| is.
        yield _of_one_type(
            "abs", "9.7.1.10", t, 1, single(_magnitude, t), immediates={},
            defined=lambda a, t=t: t.of(a) != t.low,
        )  # fmt: skip
    for t in INTEGERS:
        # Divided by 0, and MININT divided by -1, is left open, and so is the remainder of negative
        # numbers: a divisor has to be a positive constant.
        divisor = {1: Immediate(1, t.high, True)}
        yield _of_one_type("div", "9.7.1.8", t, 2, single(_quotient, t), immediates=divisor)
        if not t.signed:
            remainder = single(_SIMPLE["rem"], t)
            yield _of_one_type("rem", "9.7.1.9", t, 2, remainder, immediates=divisor)


def _widening() -> Iterator[ScalarInstruction]:
    for t in (one for one in INTEGERS if one.bits < 64):
        wide, both = f"b{2 * t.bits}", f"{t.register} {t.register}"
        for name, section, function, sources in (
            ("mul", "9.7.1.3", single(_wide_product, t), both),
            ("mad", "9.7.1.4", single(_plus, t, _wide_product), f"{both} {wide}"),
        ):
            yield row(
                f"{name}.wide.{t.name}", section, wide, sources, function,
                immediates=anything(2, t.register),
            )  # fmt: skip


def _saturated(sign: int, a: Bits, b: Bits) -> Bits:
    return S32.clamped(S32.wide(a) + sign * S32.wide(b))


def _product24(mode: str, t: Integer, a: Bits, b: Bits) -> Bits:
    """Multiply the low 24 bits (CUDA Math API, __mul24: the upper 8 bits are ignored)."""
    a, b = ((t.wide(x << np.uint32(8)) >> 8) for x in (a, b))
    return patterns(a * b >> (16 if mode == "hi" else 0), 32)


def _words() -> Iterator[ScalarInstruction]:
    """Rows of 32-bit types alone."""
    table = [
        ("add.sat.s32", "9.7.1.1", 2, single(_saturated, 1)),
        ("sub.sat.s32", "9.7.1.2", 2, single(_saturated, -1)),
    ]
    high = {"mad": (4, _high_product), "mad24": (6, partial(_product24, "hi"))}
    for name, (part, function) in high.items():
        evaluate = single(lambda f, a, b, c: _saturated(1, f(S32, a, b), c), function)
        table.append((f"{name}.hi.sat.s32", f"9.7.1.{part}", 3, evaluate))
    for t, mode in product(WORDS, ("lo", "hi")):
        function = partial(_product24, mode)
        table.append((f"mul24.{mode}.{t.name}", "9.7.1.5", 2, single(function, t)))
        table.append((f"mad24.{mode}.{t.name}", "9.7.1.6", 3, single(_plus, t, function)))
    for a_type, b_type in product(WORDS, WORDS):
        types = f"{a_type.name}.{b_type.name}"
        table.append((f"dp4a.{types}", "9.7.1.23", 3, single(_dot4, a_type, b_type)))
        for mode in ("lo", "hi"):
            evaluate = single(_dot2, a_type, b_type, mode)
            table.append((f"dp2a.{mode}.{types}", "9.7.1.24", 3, evaluate))
    for opcode, section, count, evaluate in table:
        since = ((5, 0), 61) if opcode.startswith("dp") else FIRST
        sources = " ".join(["b32"] * count)
        yield row(opcode, section, "b32", sources, evaluate, since, immediates=anything(count))


def _elements(word: Bits, bits: int, signed: bool) -> NDArray[np.int64]:
    """Return the elements of words, (..., 32, 32 / bits), as numbers."""
    elements = np.ascontiguousarray(word).view(f"{'i' if signed else 'u'}{bits // 8}")
    return elements.reshape(*word.shape, -1).astype(np.int64)


def _dot4(a_type: Integer, b_type: Integer, a: Bits, b: Bits, c: Bits) -> Bits:
    products = _elements(a, 8, a_type.signed) * _elements(b, 8, b_type.signed)
    return c + patterns(products.sum(axis=-1), 32)


def _dot2(a_type: Integer, b_type: Integer, mode: str, a: Bits, b: Bits, c: Bits) -> Bits:
    chosen = slice(0, 2) if mode == "lo" else slice(2, 4)
    products = _elements(a, 16, a_type.signed) * _elements(b, 8, b_type.signed)[..., chosen]
    return c + patterns(products.sum(axis=-1), 32)


def _packed() -> Iterator[ScalarInstruction]:
    """Rows of packed halves, which take no constants (ptxas 13.5), and `.relu`."""
    ordered = {"min": ("9.7.1.12", _SIMPLE["min"]), "max": ("9.7.1.13", _SIMPLE["max"])}
    table = []
    for t in (Integer(16, False), Integer(16, True)):
        table.append((f"add.{t.name}x2", "9.7.1.1", pieces(_SIMPLE["add"], 16, t)))
        for name, (section, function) in ordered.items():
            table.append((f"{name}.{t.name}x2", section, pieces(function, 16, t)))
    for name, (section, function) in ordered.items():
        halves = pieces(_relu, 16, Integer(16, True), function)
        table.append((f"{name}.relu.s16x2", section, halves))
        table.append((f"{name}.relu.s32", section, single(_relu, S32, function)))
    for opcode, section, evaluate in table:
        yield row(opcode, section, "b32", "b32 b32", evaluate, ((8, 0), 90))


def _sum_with_carry(a: Bits, b: Bits, carry: Bools) -> tuple[Bits, Bools]:
    part = a + b
    total = part + carry
    return total.astype(a.dtype), (part < a) | (total < part)


def _difference_with_borrow(a: Bits, b: Bits, borrow: Bools) -> tuple[Bits, Bools]:
    return (a - b - borrow).astype(a.dtype), (a < b) | ((a == b) & borrow)


def _carrying(
    function: Callable[..., tuple[Bits, Bools]], multiply: Function | None, t: Integer,
    carry_in: bool, carry_out: bool,
) -> Callable[..., tuple[Bits, ...]]:  # fmt: skip
    def evaluate(*sources: Bits) -> tuple[Bits, ...]:
        carry = sources[-1] if carry_in else np.zeros(sources[0].shape, np.bool_)
        a, b, *rest = sources[: len(sources) - carry_in]
        if multiply is not None:
            a, b = multiply(t, a, b), rest[0]
        return function(a, b, carry)[: 1 + carry_out]

    return evaluate


def _extended() -> Iterator[ScalarInstruction]:
    """Rows that read or write the carry flag. A borrow is 1 (9.7.2.3)."""
    types = tuple(one for one in INTEGERS if one.bits > 16)
    names = (
        ("add.cc", False, True), ("addc", True, False), ("addc.cc", True, True),
        ("sub.cc", False, True), ("subc", True, False), ("subc.cc", True, True),
    )  # fmt: skip
    sections = {"add.cc": 1, "addc": 2, "addc.cc": 2, "sub.cc": 3, "subc": 4, "subc.cc": 4}
    for t, (name, carry_in, carry_out) in product(types, names):
        function = _sum_with_carry if name.startswith("add") else _difference_with_borrow
        yield _of_one_type(
            name, f"9.7.2.{sections[name]}", t, 2,
            _carrying(function, None, t, carry_in, carry_out),
            ((4, 3) if t.bits == 64 else (1, 2), 0), carry_in=carry_in, carry_out=carry_out,
        )  # fmt: skip
    forms = ("mad.{}.cc", False, True), ("madc.{}", True, False), ("madc.{}.cc", True, True)
    for t, mode, (form, carry_in, carry_out) in product(types, _PRODUCTS, forms):
        yield _of_one_type(
            form.format(mode), f"9.7.2.{6 if carry_in else 5}", t, 3,
            _carrying(_sum_with_carry, _PRODUCTS[mode], t, carry_in, carry_out),
            ((4, 3) if t.bits == 64 else (3, 0), 0), carry_in=carry_in, carry_out=carry_out,
        )  # fmt: skip


_VIDEO: dict[str, Function] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}
"""SIMD video instructions on elements with room for all results."""
COMPARED: dict[str, Callable[..., Bools]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def _merged(
    function: Function, t: Integer | None, a_type: Integer, b_type: Integer, a: Bits, b: Bits,
    c: Bits,
) -> Bits:  # fmt: skip
    """Compute elements; the mask is whole, so that nothing of c is merged."""
    numbers = function(a_type.of(a).astype(np.int32), b_type.of(b).astype(np.int32))
    return patterns(numbers, a_type.bits) if t is None else t.clamped(numbers)


def _accumulated(
    function: Function, bits: int, a_type: Integer, b_type: Integer, a: Bits, b: Bits, c: Bits
) -> Bits:
    numbers = function(_elements(a, bits, a_type.signed), _elements(b, bits, b_type.signed))
    return c + patterns(numbers.sum(axis=-1), 32)


def _video() -> Iterator[ScalarInstruction]:
    """Rows of two halves (sections 1 and 2 of 9.7.18.2) and four bytes (3 and 4).

    Sums into c are there where the elements cannot be negative: the page leaves open how they are
    extended. A constant is refused as an operand (ptxas 13.5).
    """
    signs = (False, True)
    table = []
    for elements in (2, 4):
        bits = 32 // elements
        for (name, function), d, a, b in product(_VIDEO.items(), signs, signs, signs):
            types = ".".join(Integer(32, sign).name for sign in (d, a, b))
            sources = Integer(bits, a), Integer(bits, b)
            for sat, t in (("", None), (".sat", Integer(bits, d))):
                evaluate = pieces(_merged, bits, function, t, *sources)
                table.append((f"{name}{elements}.{types}{sat}", elements - 1, evaluate))
        for (name, function), a, b in product(COMPARED.items(), signs, signs):
            sources = Integer(bits, a), Integer(bits, b)
            opcode = f"vset{elements}.{Integer(32, a).name}.{Integer(32, b).name}.{name}"
            evaluate = pieces(_merged, bits, function, None, *sources)
            table.append((opcode, elements, evaluate))
            evaluate = single(_accumulated, function, bits, *sources)
            table.append((f"{opcode}.add", elements, evaluate))
        unsigned = Integer(bits, False)
        table.append((
            f"vabsdiff{elements}.u32.u32.u32.add", elements - 1,
            single(_accumulated, _VIDEO["vabsdiff"], bits, unsigned, unsigned),
        ))  # fmt: skip
    for opcode, section, evaluate in table:
        yield row(opcode, f"9.7.18.2.{section}", "b32", "b32 b32 b32", evaluate, ((3, 0), 30))


ROWS = (*_plain(), *_widening(), *_words(), *_packed(), *_extended(), *_video())
