"""Forms (instructions with all of their qualifiers fixed), element formats, shapes, matrices."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, cached_property
from typing import NamedTuple

from oracle.errors import UsageError


class FormatKind(StrEnum):
    """What the bits of an element mean."""

    FLOAT = "float"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    BITS = "bits"


@dataclass(frozen=True, kw_only=True)
class Format:
    """One element format; floats are IEEE 754-like, narrow ones without infinity or NaN."""

    name: str
    """Spelling of the type qualifier, without the dot."""
    kind: FormatKind
    bits: int
    """Of one element in memory (tf32 occupies a 32-bit word)."""
    exponent_bits: int = 0
    fraction_bits: int = 0
    """Width of the stored fraction that takes part in arithmetic; 0 unless a float."""
    padding: int = 0
    """High-order bits of its place above the sign, which mean nothing (9.7.14.5.14, containers)."""
    raw: str
    """NumPy dtype that holds one element's raw bit pattern at the Python interface."""

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def is_float(self) -> bool:
        """Whether the format is a floating-point format."""
        return self.kind is FormatKind.FLOAT

    @property
    def bias(self) -> int:
        """Exponent bias of a float: 2^(exponent_bits - 1) - 1 (IEEE 754-2019, 3.3)."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def has_infinity(self) -> bool:
        """Whether a float has infinities; else its largest exponent has numbers."""
        return self.has_nan and self.name != "e4m3"

    @property
    def has_nan(self) -> bool:
        """Whether a float has NaNs; e4m3 has one behind its numbers (OCP MX 1.0, 5.3)."""
        return self.padding == 0 and self.bits >= 8

    @property
    def one(self) -> int:
        """Pattern of 1, raw: with the bits behind it that are ignored."""
        return self.bias << (self.fraction_bits + self.ignored_bits) if self.is_float else 1

    @property
    def infinity(self) -> int:
        """Pattern of an exponent field of ones: of infinity, where there is one."""
        return (self.magnitude + 1) - (1 << (self.fraction_bits + self.ignored_bits))

    @property
    def magnitude(self) -> int:
        """Pattern of all bits below the sign."""
        return (1 << (self.bits - 1 - self.padding)) - 1

    @property
    def largest(self) -> float:
        """Greatest finite number of a float (of 8 bits: OCP 8-bit Floating Point 1.0, table 1)."""
        if self.has_infinity:
            return (2.0 - 2.0**-self.fraction_bits) * 2.0**self.bias
        return (2.0 - 2.0 ** (self.has_nan - self.fraction_bits)) * 2.0 ** (self.bias + 1)

    @property
    def ignored_bits(self) -> int:
        """Low-order bits of the word that the arithmetic ignores: 13 for tf32, 2 for e2m1."""
        if not self.is_float:
            return 0
        return self.bits - 1 - self.padding - self.exponent_bits - self.fraction_bits


# Of the library's arrays (docs/library.md); s4 and u4 travel one value per byte.
_FLOATS = {  # bits, those of the exponent and of the fraction
    "f16": (16, 5, 10), "bf16": (16, 8, 7), "tf32": (32, 8, 10), "f32": (32, 8, 23),
    "f64": (64, 11, 52), "e4m3": (8, 4, 3), "e5m2": (8, 5, 2), "e3m2": (8, 3, 2),
    "e2m3": (8, 2, 3), "e2m1": (8, 2, 1), "e2m1b4": (4, 2, 1),
}  # fmt: skip
_PADDED = 2
"""Bits above e3m2, e2m3 and e2m1 in containers of 8 bits; below e2m1 there are as many
(9.7.14.5.14). Of `.kind::mxf4` and `.kind::mxf4nvf4`, two e2m1 share a byte: e2m1b4."""
_OTHERS = {
    "s8": (FormatKind.SIGNED, 8, "int8"), "u8": (FormatKind.UNSIGNED, 8, "uint8"),
    "s4": (FormatKind.SIGNED, 4, "int8"), "u4": (FormatKind.UNSIGNED, 4, "uint8"),
    "b1": (FormatKind.BITS, 1, "uint8"), "s32": (FormatKind.SIGNED, 32, "int32"),
}  # fmt: skip
FORMATS: dict[str, Format] = {
    name: Format(
        name=name, kind=FormatKind.FLOAT, bits=bits, raw=f"uint{max(8, bits)}",
        exponent_bits=exponent, fraction_bits=fraction,
        padding=_PADDED if bits == 8 and exponent + fraction < 7 else 0,
    )
    for name, (bits, exponent, fraction) in _FLOATS.items()
} | {
    name: Format(name=name, kind=kind, bits=bits, raw=raw)
    for name, (kind, bits, raw) in _OTHERS.items()
}  # fmt: skip


def format_named(name: str) -> Format:
    """Return the format with this name; UsageError lists those that exist."""
    if name not in FORMATS:
        known = ", ".join(FORMATS)
        raise UsageError(f"no element format is called {name!r}; there are {known}")
    return FORMATS[name]


LANES = 32
"""Threads of a warp (PTX ISA 2.2.1)."""
WARPGROUP = 4
"""Warps of a warpgroup (9.7.15.1)."""
LAYOUTS = ("row", "col")
_SIZES = re.compile(r"([mnk])(\d+)")


class Shape(NamedTuple):
    """Dimensions: A is m x k, B k x n, C and D m x n; of matrices that are only moved m x n."""

    name: str
    """Spelling of the shape qualifier, without the dot."""
    m: int
    n: int
    k: int = 0


@cache
def shape_named(text: str) -> Shape:
    """Return the shape that a qualifier spells: "m16n8k16", or "m8n8"."""
    return Shape(text, **{name: int(size) for name, size in _SIZES.findall(text)})


@dataclass(frozen=True, kw_only=True)
class Vector:
    """Registers of an operand that is no fragment of wmma."""

    registers: int
    """In each lane."""
    register_type: str = "b32"


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """One matrix of a wmma form: how it lies in memory and in registers."""

    operand: str
    """"a", "b", "c" or "d"."""
    shape: Shape
    type: Format

    @cached_property
    def rows(self) -> int:
        """Number of rows."""
        return self.shape.k if self.operand == "b" else self.shape.m

    @cached_property
    def columns(self) -> int:
        """Number of columns."""
        return self.shape.k if self.operand == "a" else self.shape.n

    @cached_property
    def registers(self) -> int:
        """Registers of the fragment in each lane (9.7.14.4.1; f64 accumulators as in examples)."""
        # The fragment of an m16n16k16 multiplicand holds each element of f16 twice.
        if self.type.name == "f16" and self.operand in "ab":
            return 8
        return self.rows * self.columns * self.type.bits // (LANES * self.register_bits)

    @property
    def register_bits(self) -> int:
        """Size of one register of the fragment, in bits."""
        return 64 if self.type.name == "f64" else 32

    @property
    def register_type(self) -> str:
        """PTX type of the registers; `.b32` where the table names a packed or an untyped one."""
        return self.type.name if self.type.name in ("f32", "f64", "s32") else "b32"

    @property
    def fragment_bytes(self) -> int:
        """Size of the fragment in one lane, in bytes: the alignment of 9.7.14.4.2."""
        return self.registers * self.register_bits // 8

    def default_stride(self, layout: str) -> int:
        """Elements from one row (or column) to the next when no stride is given (9.7.14.4.2)."""
        return self.columns if layout == "row" else self.rows

    def has_aligned_lines(self, layout: str, stride: int) -> bool:
        """Whether a stride puts lines a multiple of the fragment's size apart, or is the default.

        Some default strides of the page break its own rule, and hardware runs them (H200, 2026-11).
        """
        aligned = stride * self.type.bits % (8 * self.fragment_bytes) == 0
        return aligned or stride == self.default_stride(layout)

    def leading_instances(self, layout: str) -> int:
        """Return how many rows (row-major) or columns (column-major) the stride steps over."""
        return self.rows if layout == "row" else self.columns


def replicated(element: int, element_bits: int, register_bits: int) -> int:
    """Return a register in which every element has this bit pattern."""
    return sum(element << shift for shift in range(0, register_bits, element_bits))


ROW_BYTES = 16
"""Bytes of a row of moved matrices in shared memory, padding included."""
_ELEMENT_BITS = {"b16": 16, "b8": 8, "b6x16_p32": 6, "b4x16_p64": 4, "s4": 4}
_KINDS = {
    "alayout": "layout", "blayout": "layout", "dtype": "type", "atype": "type",
    "btype": "type", "ctype": "type",
}  # fmt: skip
_PACKED = ("kind::mxf4", "kind::mxf4nvf4")
"""Kinds of multiplications whose e2m1 need no container (9.7.14.5.14)."""
SCALES_OF_ONE = {"ue8m0": 0x7F, "ue4m3": 0x38}
"""The pattern of 1 in each format of scales: an exponent of 8 bits with a bias of 127, and e4m3
without a sign, with a bias of 7 (OCP MX 1.0, 5.4.1; PTX ISA 5.2.3)."""
_SCALE_VECTORS = {"": 1, "kind::mxf4": 2}
"""`.scale_vec` where it is left out: 1X, and of mxf4 2X (9.7.14.5.14)."""


def kind_of(slot: str) -> str:
    """Return the kind of qualifier that stands in a slot: "type" for "atype"."""
    return _KINDS.get(slot, slot)


class Slot(NamedTuple):
    """One position of an opcode: what it is called on the page and what stands there."""

    name: str
    text: str
    """ "" where it is left out."""


def _text_in(slot: str) -> cached_property[str]:
    return cached_property(lambda form: form.texts.get(slot, ""))


def _text_or_none(slot: str) -> cached_property[str | None]:
    return cached_property(lambda form: form.texts.get(slot) or None)


def _is_written(slot: str) -> cached_property[bool]:
    return cached_property(lambda form: form.texts[slot] != "")


def _has_operand(operand: str) -> cached_property[bool]:
    return cached_property(lambda form: operand in form.operands)


def _has_address_at(place: int) -> cached_property[bool]:
    return cached_property(lambda form: form.operands[place : place + 1] == ("p",))


def _type_of(operand: str) -> cached_property[Format]:
    return cached_property(lambda form: form.matrices[operand].type)


@dataclass(frozen=True, kw_only=True, eq=False)
class Form:
    """One instruction with its qualifiers fixed; operands as on the page, "r" of what is moved."""

    mnemonic: str
    section: str
    operands: tuple[str, ...]
    opaque: bool
    slots: tuple[Slot, ...]
    """In the order of the page's syntax."""
    page_family: str
    """Heading of the page, or line of the syntax, under which the form stands."""
    warps: int = 1
    """Warps that execute it together: one, or a warpgroup."""

    @cached_property
    def opcode(self) -> str:
        """Instruction text without operands, as the page's syntax has it."""
        return ".".join((self.mnemonic, *(slot.text for slot in self.slots if slot.text)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self.opcode == other.opcode

    def __hash__(self) -> int:
        return hash(self.opcode)

    @cached_property
    def texts(self) -> dict[str, str]:
        """What stands in each slot, by its name; "" where it is left out."""
        return dict(self.slots)

    def varied(self, **texts: str) -> Form:
        """Return the form with other texts in some slots, documented or not."""
        slots = tuple(Slot(name, texts.get(name, text)) for name, text in self.slots)
        return replace(self, slots=slots)

    is_product, has_metadata, is_scaled = map(_has_operand, ("d", "e", "sa"))
    """Whether it multiplies matrices; whether half of A is stored and metadata place it; whether
    blocks of A and B have scales (9.7.14.3)."""

    @cached_property
    def scales(self) -> int:
        """Scales of each row of A, and of each column of B: `.scale_vec` (9.7.14.3, table 35)."""
        text = self.texts.get("scale_vec", "")
        return int(text[-2]) if text else _SCALE_VECTORS.get(self.kind, 1)

    @property
    def metadata_section(self) -> str:
        """Section on metadata. `docs/oracle.md`, "Metadata", says where they lie."""
        return "9.7.14.6.1" if self.warps == 1 else "9.7.15.6.1"

    @cached_property
    def stored(self) -> Form:
        """The form of the product of what is stored of A; itself where no metadata place it."""
        if not self.has_metadata:
            return self
        m, n, k = self.shape.m, self.shape.n, self.shape.k
        operands = tuple(one for one in self.operands if one not in ("e", "selector"))
        return replace(self.varied(shape=f"m{m}n{n}k{k // 2}"), operands=operands)

    @cached_property
    def is_main(self) -> bool:
        """Whether a program can be about it: loads and stores of wmma only serve others."""
        return self.is_product or (self.warps == 1 and not self.opaque)

    @cached_property
    def is_access(self) -> bool:
        """Whether it loads or stores a matrix of wmma."""
        return self.opaque and not self.is_product

    is_store, is_load = map(_has_address_at, (0, 1))
    """Whether it writes memory, and whether it reads it."""

    @cached_property
    def shape(self) -> Shape:
        """Dimensions: of a product, or of one of the matrices that are moved."""
        return shape_named(self.texts["shape"])

    space, layout, a_layout, b_layout, kind = map(
        _text_in, ("space", "layout", "alayout", "blayout", "kind")
    )
    rounding, op = map(_text_or_none, ("rnd", "op"))
    transposed, satfinite = map(_is_written, ("trans", "satfinite"))
    d_type, a_type, b_type, c_type = map(_type_of, "dabc")

    @cached_property
    def matrices(self) -> dict[str, Matrix]:
        """The matrix of each operand, of one multiplication; of a sparse A what is stored."""
        if self.is_product:
            # "For wmma.mma without explicit .atype and .btype: implicitly .f16" (9.7.14.4.5).
            # The C of a warpgroup is D as it was before (9.7.15.5.2).
            texts = {"ctype": self.texts["dtype"], **self.texts}
            types = {name: texts[f"{name}type"] or "f16" for name in "dabc"}
            if self.kind in _PACKED:
                types |= {name: f"{types[name]}b4" for name in "ab" if types[name] == "e2m1"}
            found = {
                name: Matrix(operand=name, shape=self.shape, type=FORMATS[type_])
                for name, type_ in types.items()
            }
            if self.has_metadata:
                found["a"] = self.stored.matrix("a")
            return found
        if not self.opaque:
            return {}
        type_, operand = FORMATS[self.texts["type"]], self.texts["matrix"]
        return {"r": Matrix(operand=operand, shape=self.shape, type=type_)}

    def matrix(self, operand: str = "r") -> Matrix:
        """Return the matrix of an operand."""
        return self.matrices[operand]

    def type(self, operand: str = "r") -> Format:
        """Return the element type of an operand."""
        return self.matrices[operand].type

    @cached_property
    def types(self) -> str:
        """Element types of D, A, B and C: "f32.f16.f16.f32"."""
        return ".".join(self.type(operand).name for operand in "dabc")

    @property
    def groups(self) -> int:
        """Multiplications: in m8n8k4 of f16 of mma one for each quad pair of lanes (9.7.14.5.1)."""
        quad_pairs = not self.opaque and self.texts["shape"] == "m8n8k4"
        return 4 if quad_pairs and self.a_type.name == "f16" else 1

    @property
    def threads(self) -> int:
        """Threads that execute it together."""
        return LANES * self.warps

    @cached_property
    def vectors(self) -> dict[str, Matrix | Vector]:
        """Registers of the operands that are vectors, or may be (A of a warpgroup), by kind."""
        if self.opaque:
            return {**self.matrices}
        if not self.is_product:
            return {"r": Vector(registers=self.registers)} if "r" in self.operands else {}
        found: dict[str, Matrix | Vector] = {
            name: Vector(
                registers=self.words(name) * 32 // matrix.register_bits,
                register_type=matrix.register_type,
            )
            for name, matrix in self.matrices.items()
            if self.warps == 1 or name in "da"
        }
        return found | {
            name: Vector(registers=1) for name in ("e", "sa", "sb") if name in self.operands
        }

    def words(self, operand: str) -> int:
        """Return the registers of an operand in words of 32 bits; f64 has two for each."""
        matrix = self.matrices[operand]
        bits = self.groups * matrix.rows * matrix.columns * matrix.type.bits
        return bits // (self.threads * 32)

    @property
    def number(self) -> int:
        """Matrices that are moved: `.num`."""
        return int(self.texts["num"][1:])

    @cached_property
    def element_bits(self) -> int:
        """Size of an element in memory, in bits, of the matrices that are moved."""
        return _ELEMENT_BITS[self.texts["type"] or self.texts["src_fmt"]]

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of a row of moved matrices and of its alignment; s4 has no padding (2026-11-28)."""
        return self.shape.n * 4 // 8 if self.texts.get("src_fmt") == "s4" else ROW_BYTES

    @cached_property
    def registers(self) -> int:
        """Registers in each lane of moved matrices; elements take at least a byte in them."""
        return self.number * self.shape.m * self.shape.n * max(8, self.element_bits) // (LANES * 32)

    @cached_property
    def addresses(self) -> int:
        """Row addresses of moved matrices that are used, those of the first lanes."""
        bits = 8 * ROW_BYTES
        return self.number * self.shape.m * self.shape.n * max(8, self.element_bits) // bits
