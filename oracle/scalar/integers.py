"""What a row about a scalar instruction has, and the rows of integers modulo 2^n.

PTX ISA 9.7.1 (with packed halves), carries 9.7.2, SIMD video 9.7.18.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import where
from oracle.isa.lookup import sentences
from oracle.isa.targets import VERSIONS, Module, PtxVersion

Bits = NDArray[Any]
"""Raw patterns of one register of every lane: uint16, uint32, uint64, or bool of predicates."""
Function = Callable[..., Bits]
NAN_FORMATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64")
"""Formats of registers that hold floating-point numbers; of tf32, f32."""
_TYPE = re.compile(r"(?:[usfb](?:4|8|16|32|64)|bf16|tf32|e\dm\d)(?:x[24])?|pred")
_ARITHMETIC = frozenset({"add", "sub", "mul", "fma", "min", "max", "cvt", "set", "setp", "testp"})
"""First words of what is told to compute with numbers: NaN is NaN there (9.7.3, 9.7.4)."""

CLASSES: Mapping[str, type[np.generic]] = {
    "b16": np.uint16, "b32": np.uint32, "b64": np.uint64, "pred": np.bool_,
}  # fmt: skip
"""Classes of registers, with the dtype of their patterns."""


@lru_cache(maxsize=4096)
def constant(kind: str, number: int, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return registers of a class that hold one number: all are one place of memory."""
    return np.broadcast_to(CLASSES[kind](number), shape)


class Immediate(NamedTuple):
    """What a source may be instead of a register: a constant of a range."""

    low: int
    high: int
    """Both ends included, as unsigned patterns of the source's register."""
    required: bool = False
    """Whether the source has to be such a constant; else it may be a register, of any content."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ScalarInstruction:
    """An instruction that every lane executes on registers of its own."""

    opcode: str
    """Text without operands, "shf.l.wrap.b32"; of moves a last word tells: "mov.b32.pack"."""
    destinations: tuple[str, ...]
    sources: tuple[str, ...]
    """Classes, in order, as of the destinations."""
    evaluate: Callable[..., tuple[Bits, ...]]
    """Arrays (..., 32), the lanes of warps last, one a source: to one a destination. Where PTX
    leaves the result open (`defined`, `nan`), it is something, and no device need agree."""
    immediates: Mapping[int, Immediate] = field(default_factory=dict)
    """Sources that may be, or have to be, constants, by their position."""
    carry_in: bool = False
    """Whether it reads the carry flag CC.CF: `evaluate` takes it as one more bool array, last."""
    carry_out: bool = False
    """Whether it writes the carry flag: `evaluate` returns it as one more bool array, last."""
    warp: bool = False
    """Whether lanes read each other's sources: all execute it, and the membermask is 0xffffffff."""
    defined: Callable[..., NDArray[np.bool_]] | None = None
    """Takes what `evaluate` takes; where PTX says what comes out. None: everywhere."""
    nan: str = ""
    """Format ("f32", "f16x2") in which NaN with open bits may come out of the first destination."""
    section: str
    version: PtxVersion = VERSIONS[0]
    """First version of the PTX ISA that has it."""
    target: int = 0
    """Least number of a target that has it: 90 for sm_90."""

    @cached_property
    def family(self) -> str:
        """First word of the opcode: "shf"."""
        return self.opcode.partition(".")[0]

    def exists(self, module: Module) -> bool:
        """Whether a module of this version and target may have it."""
        return self.version <= module.version and self.target <= module.target.number

    @property
    def settled_by(self) -> str:
        """Opcode that makes NaNs of open bits canonical, given a result twice; "" for none."""
        fmt = {"tf32": "f32"}.get(self.nan, self.nan)
        return f"max.NaN.{fmt}" if fmt not in ("", "f64") else ""

    @cached_property
    def numbers(self) -> str:
        """Format of the elements of its sources, where no bits of one that is NaN matter.

        "" of moves, selections, bits, and of `.xorsign.abs`, which takes a NaN's sign (9.7.3.12).
        """
        fmt = self.opcode.rpartition(".")[2]
        signs = ".xorsign." in self.opcode and ".NaN." not in self.opcode
        computes = self.family in _ARITHMETIC and not signs
        return fmt if computes and fmt in NAN_FORMATS else ""

    @property
    def says(self) -> str:
        """What the section of the ISA says that it does."""
        words, part = self.opcode.split("."), ""
        if words[0][0] == "v" and words[0][-1] in "24":
            part = {"2": "half", "4": "byte"}[words[0][-1]]
            words[0] = words[0][:-1]
        known, modifiers = sentences()["scalar"], sentences()["modifiers"]
        starts = (".".join(words[:end]) for end in range(len(words), 0, -1))
        said = [next(known[start] for start in starts if start in known).format(part=part)]
        said += [modifiers[word] for word in words if word in modifiers]
        if "sat" in words[1:] and "pack" not in words:
            clamps = self.result_type.startswith(("f", "bf"))
            said.append(modifiers["clamped" if clamps else "limited"])
        return " ".join(said)

    @property
    def result_type(self) -> str:
        """Type of its first destination, as PTX names it: "f32", "s64", "b32", "pred"."""
        kind, types = self.destinations[0], self._types
        packed = ".pack" in self.opcode or self.family[0] == "v"
        if kind == "pred" or packed:
            return kind
        if self.family in ("popc", "clz", "bfind"):
            return "u32"
        if self.family in ("dp4a", "dp2a"):
            return "s32" if any(one[0] == "s" for one in types) else "u32"
        return _of_register(types[0], kind) if types else kind

    @property
    def source_type(self) -> str:
        """Type of its sources, as PTX names it; of moves and selections that of the result."""
        return self._types[-1] if self._types else self.destinations[0]

    @property
    def _types(self) -> list[str]:
        return [word for word in self.opcode.split(".") if _TYPE.fullmatch(word)]

    def text(self, destinations: Sequence[str], sources: Sequence[str]) -> str:
        """Return the statement with its operands, as they are written in PTX."""
        opcode, written, read = self.opcode, "|".join(destinations), ", ".join(sources)
        match opcode.rpartition("."):
            case opcode, _, "pack" | "pack4":
                read = f"{{{read}}}"
            case opcode, _, "unpack" | "unpack4":
                written = f"{{{', '.join(destinations)}}}"
            case _:
                opcode = self.opcode
        return f"{opcode} {written}, {read};"


def _of_register(name: str, kind: str) -> str:
    """Return a type as a register of a class holds it: an integer extended, others as they are."""
    bits = int(kind[1:])
    if name[0] in "us" and "x" not in name:
        return f"{name[0]}{bits}"
    found = re.fullmatch(r"[a-z]+([0-9]+)(?:x([0-9]))?", name)
    size = 0 if found is None else int(found[1]) * int(found[2] or 1)
    return name if size == bits or name == "tf32" else kind


Since = tuple[tuple[int, int], int]
"""First version of the PTX ISA, and least number of a target."""
FIRST: Since = ((1, 0), 0)


def row(
    opcode: str, section: str, destinations: str, sources: str, function: Callable[..., Any],
    since: Since = FIRST, **more: Any,
) -> ScalarInstruction:  # fmt: skip
    """Return an instruction; `function` returns an array of one result, or a tuple of several."""
    version, target = since
    written = tuple(destinations.split())
    many = len(written) > 1 or more.get("carry_out")
    return ScalarInstruction(
        opcode=opcode, section=section, destinations=written, sources=tuple(sources.split()),
        evaluate=function if many else lambda *given: (function(*given),),
        version=PtxVersion(*version), target=target, **more,
    )  # fmt: skip


_PIECE = 1 << 12
"""Elements computed together: a dozen working arrays of 32 KiB stay in the cache."""


def _each(function: Callable[[Bits], Bits], sources: Sequence[Bits]) -> list[Bits]:
    """Do something with each source: what is one and the same stays that."""
    made = {id(one): function(one) for one in sources}
    return [made[id(one)] for one in sources]


def in_pieces(function: Function) -> Function:
    """Return a function of elements that computes a few at a time: thrice as fast on many."""

    def compute(*sources: Bits) -> Bits:
        size = sources[0].size
        if size <= _PIECE:
            return function(*sources)
        flat = _each(np.ravel, sources)
        parts = [
            function(*_each(itemgetter(slice(start, start + _PIECE)), flat))
            for start in range(0, size, _PIECE)
        ]
        return np.concatenate(parts).reshape(sources[0].shape)

    return compute


def pieces(function: Function, bits: int, *bound: Any) -> Function:
    """Return a function of the pieces of registers, the lowest first, as one of registers."""

    def compute(*sources: Bits) -> Bits:
        taken = _each(lambda one: np.ascontiguousarray(one).view(f"u{bits // 8}"), sources)
        return function(*bound, *taken).view(np.uint32)

    return compute


def _once(a: Bits) -> Bits:
    """Return an array without the axes along which all is the same place of memory: a constant."""
    return a[tuple(slice(None if step else 1) for step in a.strides)]


def lean(function: Function) -> Function:
    """Return a function that computes what constants alone decide only once."""

    def compute(*sources: Bits) -> Bits:
        made, shape = function(*map(_once, sources)), sources[0].shape
        return made if made.shape == shape else np.broadcast_to(made, shape)

    return compute


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
U32, S32 = WORDS = (Integer(32, False), Integer(32, True))
_SIGNED = INTEGERS[3:]


def anything(count: int, register: str = "b32") -> dict[int, Immediate]:
    """Return the constants of sources that may be any number of their size."""
    return {at: Immediate(0, (1 << int(register[1:])) - 1) for at in range(count)}


def _wide_product(t: Integer, a: Bits, b: Bits) -> Bits:
    return patterns((t.wide(a) * t.wide(b)).view(np.uint64), 2 * t.bits)


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
        high -= where(t.of(a) < 0, b, 0)
        high -= where(t.of(b) < 0, a, 0)
    return high


def _magnitude(t: Integer, a: Bits) -> Bits:
    return where(t.of(a) < 0, ~a + a.dtype.type(1), a)


def _quotient(t: Integer, a: Bits, b: Bits) -> Bits:
    # Toward zero; NumPy's goes down, which is the same for numbers that are not negative.
    divisor: Bits = where(b == 0, b.dtype.type(1), b)
    if not t.signed:
        return a // divisor
    size = _magnitude(t, a) // _magnitude(t, divisor)
    return where((t.of(a) < 0) != (t.of(divisor) < 0), ~size + size.dtype.type(1), size)


_PLAIN: dict[str, tuple[str, int, Function]] = {
    "add": ("9.7.1.1", 2, lambda t, a, b: a + b),
    "sub": ("9.7.1.2", 2, lambda t, a, b: a - b),
    "mul.lo": ("9.7.1.3", 2, lambda t, a, b: a * b),
    "mul.hi": ("9.7.1.3", 2, _high_product),
    "sad": ("9.7.1.7", 3, lambda t, a, b, c: c + where(t.of(a) < t.of(b), b - a, a - b)),
    "neg": ("9.7.1.11", 1, lambda t, a: ~a + a.dtype.type(1)),
    "min": ("9.7.1.12", 2, lambda t, a, b: patterns(np.minimum(t.of(a), t.of(b)), t.bits)),
    "max": ("9.7.1.13", 2, lambda t, a, b: patterns(np.maximum(t.of(a), t.of(b)), t.bits)),
}
"""Section, sources, and what is computed, of a type."""
_ADD = _PLAIN["add"][2]
_PRODUCTS = {"lo": _PLAIN["mul.lo"][2], "hi": _high_product}


def _plus(t: Integer, function: Function, a: Bits, b: Bits, c: Bits) -> Bits:
    return function(t, a, b) + c


def _of_one_type(
    name: str, section: str, t: Integer, sources: int, function: Function, since: Since = FIRST,
    **more: Any,
) -> ScalarInstruction:  # fmt: skip
    given = " ".join([t.register] * sources)
    more = {"immediates": anything(sources, t.register)} | more
    return row(f"{name}.{t.name}", section, t.register, given, function, since, **more)


def _plain() -> Iterator[ScalarInstruction]:
    for name, (section, count, function) in _PLAIN.items():
        for t in _SIGNED if name == "neg" else INTEGERS:
            yield _of_one_type(name, section, t, count, partial(function, t))
    for t, (mode, function) in product(INTEGERS, _PRODUCTS.items()):
        yield _of_one_type(f"mad.{mode}", "9.7.1.4", t, 3, partial(_plus, t, function))
    for t in _SIGNED:
        # The page leaves open what |MININT| is.
        yield _of_one_type(
            "abs", "9.7.1.10", t, 1, partial(_magnitude, t), immediates={},
            defined=lambda a, t=t: t.of(a) != t.low,
        )  # fmt: skip
    for t in INTEGERS:
        # Divided by 0, and MININT divided by -1, is left open, and so is the remainder of negative
        # numbers: a divisor has to be a positive constant.
        divisor = {1: Immediate(1, t.high, True)}
        yield _of_one_type("div", "9.7.1.8", t, 2, partial(_quotient, t), immediates=divisor)
        if not t.signed:
            yield _of_one_type(
                "rem", "9.7.1.9", t, 2, lambda a, b: a % where(b == 0, b.dtype.type(1), b),
                immediates=divisor,
            )  # fmt: skip
    for t in (one for one in INTEGERS if one.bits < 64):
        wide, both = f"b{2 * t.bits}", f"{t.register} {t.register}"
        for name, section, function, sources in (
            ("mul", "9.7.1.3", partial(_wide_product, t), both),
            ("mad", "9.7.1.4", partial(_plus, t, _wide_product), f"{both} {wide}"),
        ):
            constants = anything(2, t.register)
            opcode = f"{name}.wide.{t.name}"
            yield row(opcode, section, wide, sources, function, immediates=constants)


def _saturated(sign: int, a: Bits, b: Bits) -> Bits:
    return S32.clamped(S32.wide(a) + sign * S32.wide(b))


def _product24(mode: str, t: Integer, a: Bits, b: Bits) -> Bits:
    """Multiply the low 24 bits (CUDA Math API, __mul24: the upper 8 bits are ignored)."""
    a, b = ((t.wide(x << np.uint32(8)) >> 8) for x in (a, b))
    return patterns(a * b >> (16 if mode == "hi" else 0), 32)


def _saturated_sum(function: Function, a: Bits, b: Bits, c: Bits) -> Bits:
    return _saturated(1, function(S32, a, b), c)


def _elements(word: Bits, bits: int, signed: bool) -> NDArray[np.int64]:
    """Return the elements of words, (..., 32, 32 / bits), as numbers."""
    elements = np.ascontiguousarray(word).view(f"{'i' if signed else 'u'}{bits // 8}")
    return elements.reshape(*word.shape, -1).astype(np.int64)


def _dot(part: slice, a_type: Integer, b_type: Integer, a: Bits, b: Bits, c: Bits) -> Bits:
    """Add the products of the bytes of a, or of its halves, and some bytes of b."""
    bits = 8 if part == slice(None) else 16
    products = _elements(a, bits, a_type.signed) * _elements(b, 8, b_type.signed)[..., part]
    return c + patterns(products.sum(axis=-1), 32)


def _words() -> Iterator[ScalarInstruction]:
    """Rows of 32-bit types alone."""
    table: list[tuple[str, str, int, Function]] = [
        ("add.sat.s32", "9.7.1.1", 2, partial(_saturated, 1)),
        ("sub.sat.s32", "9.7.1.2", 2, partial(_saturated, -1)),
        ("mad.hi.sat.s32", "9.7.1.4", 3, partial(_saturated_sum, _high_product)),
        ("mad24.hi.sat.s32", "9.7.1.6", 3, partial(_saturated_sum, partial(_product24, "hi"))),
    ]
    for t, mode in product(WORDS, ("lo", "hi")):
        low24 = partial(_product24, mode)
        table.append((f"mul24.{mode}.{t.name}", "9.7.1.5", 2, partial(low24, t)))
        table.append((f"mad24.{mode}.{t.name}", "9.7.1.6", 3, partial(_plus, t, low24)))
    dots = {"dp4a": (23, slice(None)), "dp2a.lo": (24, slice(2)), "dp2a.hi": (24, slice(2, 4))}
    for a_type, b_type in product(WORDS, WORDS):
        for name, (number, part) in dots.items():
            opcode = f"{name}.{a_type.name}.{b_type.name}"
            table.append((opcode, f"9.7.1.{number}", 3, partial(_dot, part, a_type, b_type)))
    for opcode, section, count, function in table:
        since = ((5, 0), 61) if opcode.startswith("dp") else FIRST
        sources = " ".join(["b32"] * count)
        yield row(opcode, section, "b32", sources, function, since, immediates=anything(count))


def _relu(t: Integer, function: Function, a: Bits, b: Bits) -> Bits:
    return patterns(np.maximum(t.of(function(t, a, b)), 0), t.bits)


def _packed() -> Iterator[ScalarInstruction]:
    """Rows of packed halves, which take no constants (ptxas 13.5), and `.relu`."""
    ordered = {name: (_PLAIN[name][0], _PLAIN[name][2]) for name in ("min", "max")}
    table = []
    for t in (Integer(16, False), Integer(16, True)):
        table.append((f"add.{t.name}x2", "9.7.1.1", pieces(_ADD, 16, t)))
        for name, (section, function) in ordered.items():
            table.append((f"{name}.{t.name}x2", section, pieces(function, 16, t)))
    for name, (section, function) in ordered.items():
        halves = pieces(_relu, 16, Integer(16, True), function)
        table.append((f"{name}.relu.s16x2", section, halves))
        table.append((f"{name}.relu.s32", section, partial(_relu, S32, function)))
    for opcode, section, function in table:
        yield row(opcode, section, "b32", "b32 b32", function, ((8, 0), 90))


def _sum_with_carry(a: Bits, b: Bits, carry: Bools) -> tuple[Bits, Bools]:
    part = a + b
    total = part + carry
    return total.astype(a.dtype), (part < a) | (total < part)


def _difference_with_borrow(a: Bits, b: Bits, borrow: Bools) -> tuple[Bits, Bools]:
    return (a - b - borrow).astype(a.dtype), (a < b) | ((a == b) & borrow)


def _carrying(
    function: Callable[..., tuple[Bits, Bools]], multiply: Function | None, t: Integer,
    carry_in: bool, carry_out: bool, *sources: Bits,
) -> Any:  # fmt: skip
    carry = sources[-1] if carry_in else np.zeros(sources[0].shape, np.bool_)
    a, b, *rest = sources[: len(sources) - carry_in]
    if multiply is not None:
        a, b = multiply(t, a, b), rest[0]
    made = function(a, b, carry)
    return made if carry_out else made[0]


def _extended() -> Iterator[ScalarInstruction]:
    """Rows that read or write the carry flag. A borrow is 1 (9.7.2.3)."""
    types = tuple(one for one in INTEGERS if one.bits > 16)
    names = {"add.cc": 1, "addc": 2, "addc.cc": 2, "sub.cc": 3, "subc": 4, "subc.cc": 4}
    rows: list[tuple[str, int, Integer, int, Any, Function | None]] = []
    for t, (name, part) in product(types, names.items()):
        adds = _sum_with_carry if name.startswith("add") else _difference_with_borrow
        rows.append((name, part, t, 2, adds, None))
    for t, mode, name in product(types, _PRODUCTS, ("mad.{}.cc", "madc.{}", "madc.{}.cc")):
        part = 6 if "madc" in name else 5
        rows.append((name.format(mode), part, t, 3, _sum_with_carry, _PRODUCTS[mode]))
    for name, part, t, count, adds, multiply in rows:
        flags = name.split(".")[0].endswith("c"), name.endswith(".cc")
        first = (4, 3) if t.bits == 64 else (1, 2) if multiply is None else (3, 0)
        yield _of_one_type(
            name, f"9.7.2.{part}", t, count, partial(_carrying, adds, multiply, t, *flags),
            (first, 0), carry_in=flags[0], carry_out=flags[1],
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
    function: Function, a_type: Integer, b_type: Integer, a: Bits, b: Bits, c: Bits
) -> Bits:
    bits = a_type.bits
    numbers = function(_elements(a, bits, a_type.signed), _elements(b, bits, b_type.signed))
    return c + patterns(numbers.sum(axis=-1), 32)


def _video() -> Iterator[ScalarInstruction]:
    """Rows of two halves and four bytes; sums into c where elements cannot be negative."""
    signs, table = (False, True), list[tuple[str, int, Function]]()
    for elements in (2, 4):
        bits = 32 // elements
        for (name, function), d, a, b in product(_VIDEO.items(), signs, signs, signs):
            types = ".".join(Integer(32, sign).name for sign in (d, a, b))
            sources = Integer(bits, a), Integer(bits, b)
            for sat, t in (("", None), (".sat", Integer(bits, d))):
                merged = pieces(_merged, bits, function, t, *sources)
                table.append((f"{name}{elements}.{types}{sat}", elements - 1, merged))
        for (name, function), a, b in product(COMPARED.items(), signs, signs):
            sources = Integer(bits, a), Integer(bits, b)
            opcode = f"vset{elements}.{Integer(32, a).name}.{Integer(32, b).name}.{name}"
            table.append((opcode, elements, pieces(_merged, bits, function, None, *sources)))
            table.append((f"{opcode}.add", elements, partial(_accumulated, function, *sources)))
        unsigned = (Integer(bits, False),) * 2
        distances = partial(_accumulated, _VIDEO["vabsdiff"], *unsigned)
        table.append((f"vabsdiff{elements}.u32.u32.u32.add", elements - 1, distances))
    for opcode, section, function in table:
        yield row(opcode, f"9.7.18.2.{section}", "b32", "b32 b32 b32", function, ((3, 0), 30))


ROWS = (*_plain(), *_words(), *_packed(), *_extended(), *_video())
