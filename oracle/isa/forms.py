"""Forms: one instruction with all of its qualifiers fixed, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from oracle.isa.formats import FORMATS, Format
from oracle.isa.matrices import LANES, Matrix, Shape, Vector

ROW_BYTES = 16
"""Bytes of a row of moved matrices in shared memory, padding included."""
_ELEMENT_BITS = {"b16": 16, "b8": 8, "b6x16_p32": 6, "b4x16_p64": 4, "s4": 4}
_KINDS = {
    "alayout": "layout", "blayout": "layout", "dtype": "type", "atype": "type",
    "btype": "type", "ctype": "type",
}  # fmt: skip


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


def _type_of(operand: str) -> cached_property[Format]:
    return cached_property(lambda form: form.matrices[operand].type)


@dataclass(frozen=True, kw_only=True, eq=False)
class Form:
    """One instruction with all of its qualifiers fixed.

    Operands are called as on the page: "d", "a", "b" and "c" of a product, "r" of what is moved.
    """

    mnemonic: str
    section: str
    operands: tuple[str, ...]
    opaque: bool
    slots: tuple[Slot, ...]
    """In the order of the page's syntax."""
    page_family: str
    """Heading of the page, or line of the syntax, under which the form stands."""

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

    @cached_property
    def is_product(self) -> bool:
        """Whether it multiplies matrices."""
        return "d" in self.operands

    @cached_property
    def has_metadata(self) -> bool:
        """Whether half of A is stored, and metadata say where it belongs."""
        return "e" in self.operands

    @cached_property
    def stored(self) -> Form:
        """The form of the product of what is stored of A; itself where no metadata place it."""
        if not self.has_metadata:
            return self
        m, n, k = self.shape.m, self.shape.n, self.shape.k
        return replace(self.varied(shape=f"m{m}n{n}k{k // 2}"), operands=self.operands[:4])

    @cached_property
    def is_main(self) -> bool:
        """Whether a program can be about it: loads and stores of wmma only serve others."""
        return self.is_product or not self.opaque

    @cached_property
    def is_access(self) -> bool:
        """Whether it loads or stores a matrix of wmma."""
        return self.opaque and not self.is_product

    @cached_property
    def is_load(self) -> bool:
        """Whether it reads memory."""
        return self.operands[1] == "p"

    @cached_property
    def is_store(self) -> bool:
        """Whether it writes memory."""
        return self.operands[0] == "p"

    @cached_property
    def shape(self) -> Shape:
        """Dimensions: of a product, or of one of the matrices that are moved."""
        return Shape.named(self.texts["shape"])

    space, layout, a_layout, b_layout = map(_text_in, ("space", "layout", "alayout", "blayout"))
    rounding, op = map(_text_or_none, ("rnd", "op"))
    transposed, satfinite = map(_is_written, ("trans", "satfinite"))
    d_type, a_type, b_type, c_type = map(_type_of, "dabc")

    @cached_property
    def matrices(self) -> dict[str, Matrix]:
        """The matrix of each operand, of one multiplication; of a sparse A what is stored."""
        if self.is_product:
            # "For wmma.mma without explicit .atype and .btype: implicitly .f16" (9.7.14.4.5)
            types = {name: self.texts[f"{name}type"] or "f16" for name in "dabc"}
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

    @cached_property
    def vectors(self) -> dict[str, Matrix | Vector]:
        """Registers of the operands that are vectors, by their kind."""
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
        }
        return found | {"e": Vector(registers=1)} if self.has_metadata else found

    def words(self, operand: str) -> int:
        """Return the registers of an operand in words of 32 bits; f64 has two for each."""
        matrix = self.matrices[operand]
        return self.groups * matrix.rows * matrix.columns * matrix.type.bits // (LANES * 32)

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
        """Bytes of a row of moved matrices in shared memory, and what its address is a multiple of.

        16 with padding; rows of s4 have none (measured on H200, 2026-11-28).
        """
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
