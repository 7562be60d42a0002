"""Forms: one instruction with all of its qualifiers fixed, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import ClassVar

from oracle.formats import Format
from oracle.matrices import LANES, Matrix, Shape, Vector

FRAGMENTS = "9.7.14.4.1"
STORAGE = "9.7.14.4.2"
LOAD = "9.7.14.4.3"
STORE = "9.7.14.4.4"
MMA = "9.7.14.4.5"
MMA_SYNC = "9.7.14.5.14"
LDMATRIX = "9.7.14.5.15"
STMATRIX = "9.7.14.5.16"
MOVMATRIX = "9.7.14.5.17"

LAYOUTS = ("row", "col")
STATE_SPACES = ("", "global", "shared", "shared::cta")
"""Spellings of `{.ss}` of wmma.load and wmma.store; "" is generic addressing."""
SHARED_SPACES = ("", "shared", "shared::cta")
"""Spellings of `{.ss}` of ldmatrix."""
ROUNDINGS = ("rn", "rz", "rm", "rp")


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One position of an opcode: what it is called on the page and what stands there."""

    name: str
    text: str


def _hash(form: Form) -> int:
    """Return a hash that Python keeps, the opcode's: programs are drawn with tables by forms."""
    return hash(form.opcode)


@dataclass(frozen=True, kw_only=True)
class LoadForm:
    """One form of wmma.load (9.7.14.4.3)."""

    mnemonic: ClassVar[str] = "wmma.load"
    section: ClassVar[str] = LOAD

    operand: str
    layout: str
    shape: Shape
    space: str
    type: Format
    page_family: str
    """Heading of the page under which the form stands."""

    @property
    def matrix(self) -> Matrix:
        """The matrix that is loaded."""
        return Matrix(operand=self.operand, shape=self.shape, type=self.type)

    @property
    def vectors(self) -> dict[str, Matrix | Vector]:
        """Registers of the operands that are vectors, by their kind."""
        return {"r": self.matrix}

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Qualifiers in the order of the page's syntax."""
        return _slots(
            ("matrix", self.operand), ("sync", "sync"), ("aligned", "aligned"),
            ("layout", self.layout), ("shape", self.shape.name), ("space", self.space),
            ("type", self.type.name),
        )  # fmt: skip

    @cached_property
    def opcode(self) -> str:
        """Instruction text without operands, as the page's syntax has it."""
        return _opcode(self)

    __hash__ = _hash


@dataclass(frozen=True, kw_only=True)
class StoreForm:
    """One form of wmma.store (9.7.14.4.4)."""

    mnemonic: ClassVar[str] = "wmma.store"
    section: ClassVar[str] = STORE

    layout: str
    shape: Shape
    space: str
    type: Format
    page_family: str
    """Heading of the page under which the form stands."""

    @property
    def matrix(self) -> Matrix:
        """The matrix that is stored."""
        return Matrix(operand="d", shape=self.shape, type=self.type)

    @property
    def vectors(self) -> dict[str, Matrix | Vector]:
        """Registers of the operands that are vectors, by their kind."""
        return {"r": self.matrix}

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Qualifiers in the order of the page's syntax."""
        return _slots(
            ("matrix", "d"), ("sync", "sync"), ("aligned", "aligned"), ("layout", self.layout),
            ("shape", self.shape.name), ("space", self.space), ("type", self.type.name),
        )  # fmt: skip

    @cached_property
    def opcode(self) -> str:
        """Instruction text without operands, as the page's syntax has it."""
        return _opcode(self)

    __hash__ = _hash


@dataclass(frozen=True, kw_only=True)
class MmaForm:
    """One form of wmma.mma (9.7.14.4.5)."""

    mnemonic: ClassVar[str] = "wmma.mma"
    section: ClassVar[str] = MMA

    a_layout: str
    b_layout: str
    shape: Shape
    d_type: Format
    a_type: Format
    b_type: Format
    c_type: Format
    rounding: str | None = None
    """`.rnd` of the f64 form; None where none is given."""
    satfinite: bool = False
    op: str | None = None
    """`.op` of the single-bit form: "xor" or "and"."""
    page_family: str
    """Heading of the page under which the form stands."""

    def matrix(self, operand: str) -> Matrix:
        """Matrix "a", "b", "c" or "d"."""
        return _matrix_of(self, operand)

    @property
    def vectors(self) -> dict[str, Matrix | Vector]:
        """Registers of the operands that are vectors, by their kind."""
        return {operand: self.matrix(operand) for operand in "dabc"}

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Qualifiers in the order of the page's syntax."""
        # "For wmma.mma without explicit .atype and .btype: implicitly .f16" (9.7.14.4.5)
        implicit = self.a_type.name == "f16"
        return _slots(
            ("op", self.op or ""), ("popc", "popc" if self.op else ""),
            ("sync", "sync"), ("aligned", "aligned"),
            ("alayout", self.a_layout), ("blayout", self.b_layout),
            ("shape", self.shape.name), ("rnd", self.rounding or ""),
            ("dtype", self.d_type.name), ("atype", "" if implicit else self.a_type.name),
            ("btype", "" if implicit else self.b_type.name), ("ctype", self.c_type.name),
            ("satfinite", "satfinite" if self.satfinite else ""),
        )  # fmt: skip

    @cached_property
    def opcode(self) -> str:
        """Instruction text without operands, as the page's syntax has it."""
        return _opcode(self)

    __hash__ = _hash


@dataclass(frozen=True, kw_only=True)
class LdmatrixForm:
    """One form of ldmatrix (9.7.14.5.15)."""

    mnemonic: ClassVar[str] = "ldmatrix"
    section: ClassVar[str] = LDMATRIX
    ROW_BYTES: ClassVar[int] = 16
    """Bytes that a row occupies in shared memory, padding included: 8 x 16 bits, 16 x 8 bits,
    16 x 6 bits + 32, 16 x 4 bits + 64."""

    rows: int
    columns: int
    number: int
    """Matrices: `.num`."""
    transposed: bool
    space: str
    type: str = ""
    """"b16" or "b8"; empty where source and destination formats are given."""
    destination_format: str = ""
    source_format: str = ""
    page_family: str
    """Line of the syntax under which the form stands."""

    @property
    def element_bits(self) -> int:
        """Size of a source element, in bits."""
        return {"b16": 16, "b8": 8, "b6x16_p32": 6, "b4x16_p64": 4}[self.type or self.source_format]

    @property
    def registers(self) -> int:
        """Destination registers of 32 bits in each lane: two a matrix for m16n16, else one."""
        return self.number * (2 if self.rows == 16 else 1)

    @property
    def addresses(self) -> int:
        """Row addresses that are used: those of the first lanes."""
        return self.number * self.rows

    @property
    def vectors(self) -> dict[str, Matrix | Vector]:
        """Registers of the operands that are vectors, by their kind."""
        return {"r": Vector(registers=self.registers)}

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Qualifiers in the order of the page's syntax."""
        return _slots(
            ("sync", "sync"), ("aligned", "aligned"),
            ("shape", f"m{self.rows}n{self.columns}"), ("num", f"x{self.number}"),
            ("trans", "trans" if self.transposed else ""), ("space", self.space),
            ("type", self.type), ("dst_fmt", self.destination_format),
            ("src_fmt", self.source_format),
        )  # fmt: skip

    @cached_property
    def opcode(self) -> str:
        """Instruction text without operands, as the page's syntax has it."""
        return _opcode(self)

    __hash__ = _hash


@dataclass(frozen=True, kw_only=True)
class MmaSyncForm:
    """One form of mma.sync (9.7.14.5.14)."""

    mnemonic: ClassVar[str] = "mma"
    section: ClassVar[str] = MMA_SYNC

    a_layout: str
    b_layout: str
    shape: Shape
    d_type: Format
    a_type: Format
    b_type: Format
    c_type: Format
    rounding: str | None = None
    """`.rnd` of the f64 forms; None where none is given."""
    satfinite: bool = False
    op: str | None = None
    """`.bitOp` of the single-bit forms: "xor" or "and"."""
    page_family: str
    """Heading of the page under which the form stands."""

    @property
    def groups(self) -> int:
        """Multiplications that the instruction does.

        Four in m8n8k4 of f16, one for each quad pair of lanes (9.7.14.5.1), else one.
        """
        return 4 if self.shape.name == "m8n8k4" and self.a_type.name == "f16" else 1

    def type(self, operand: str) -> Format:
        """Return the element type of "d", "a", "b" or "c"."""
        return self.matrix(operand).type

    def matrix(self, operand: str) -> Matrix:
        """Return matrix "a", "b", "c" or "d" of one of the multiplications."""
        return _matrix_of(self, operand)

    def vector(self, operand: str) -> Vector:
        """Return the registers of "d", "a", "b" or "c": each element stands in one lane."""
        return _vector_of(self, operand)

    def words(self, operand: str) -> int:
        """Return the registers of an operand in words of 32 bits; f64 has two for each."""
        matrix = self.matrix(operand)
        return self.groups * matrix.rows * matrix.columns * matrix.type.bits // (LANES * 32)

    @property
    def vectors(self) -> dict[str, Matrix | Vector]:
        """Registers of the operands that are vectors, by their kind."""
        return {operand: self.vector(operand) for operand in "dabc"}

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Qualifiers in the order of the page's syntax."""
        return _slots(
            ("sync", "sync"), ("aligned", "aligned"), ("shape", self.shape.name),
            ("alayout", self.a_layout), ("blayout", self.b_layout), ("rnd", self.rounding or ""),
            ("satfinite", "satfinite" if self.satfinite else ""), ("dtype", self.d_type.name),
            ("atype", self.a_type.name), ("btype", self.b_type.name),
            ("ctype", self.c_type.name), ("op", self.op or ""), ("popc", "popc" if self.op else ""),
        )  # fmt: skip

    @cached_property
    def opcode(self) -> str:
        """Instruction text without operands, as the page's syntax has it."""
        return _opcode(self)

    __hash__ = _hash


@dataclass(frozen=True, kw_only=True)
class StmatrixForm:
    """One form of stmatrix (9.7.14.5.16)."""

    mnemonic: ClassVar[str] = "stmatrix"
    section: ClassVar[str] = STMATRIX
    ROW_BYTES: ClassVar[int] = 16
    """Bytes that are written at an address: 8 x 16 bits, or 16 x 8 bits."""

    rows: int
    columns: int
    number: int
    """Matrices: `.num`."""
    transposed: bool
    space: str
    type: str
    """"b16" or "b8"."""
    page_family: str
    """Line of the syntax under which the form stands."""

    @property
    def registers(self) -> int:
        """Source registers of 32 bits in each lane: one a matrix."""
        return self.number

    @property
    def addresses(self) -> int:
        """Row addresses that are used: those of the first lanes."""
        return 8 * self.number

    @property
    def vectors(self) -> dict[str, Matrix | Vector]:
        """Registers of the operands that are vectors, by their kind."""
        return {"r": Vector(registers=self.registers)}

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Qualifiers in the order of the page's syntax."""
        return _slots(
            ("sync", "sync"), ("aligned", "aligned"),
            ("shape", f"m{self.rows}n{self.columns}"), ("num", f"x{self.number}"),
            ("trans", "trans" if self.transposed else ""), ("space", self.space),
            ("type", self.type),
        )  # fmt: skip

    @cached_property
    def opcode(self) -> str:
        """Instruction text without operands, as the page's syntax has it."""
        return _opcode(self)

    __hash__ = _hash


@dataclass(frozen=True, kw_only=True)
class MovmatrixForm:
    """The form of movmatrix (9.7.14.5.17)."""

    mnemonic: ClassVar[str] = "movmatrix"
    section: ClassVar[str] = MOVMATRIX

    page_family: str
    """Line of the syntax under which the form stands."""

    @property
    def vectors(self) -> dict[str, Matrix | Vector]:
        """Registers of the operands that are vectors: none, both are single registers."""
        return {}

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Qualifiers in the order of the page's syntax."""
        return _slots(
            ("sync", "sync"), ("aligned", "aligned"), ("shape", "m8n8"), ("trans", "trans"),
            ("type", "b16"),
        )  # fmt: skip

    @cached_property
    def opcode(self) -> str:
        """Instruction text without operands, as the page's syntax has it."""
        return _opcode(self)

    __hash__ = _hash


ProductForm = MmaForm | MmaSyncForm
"""Forms that multiply matrices."""

MainForm = MmaForm | LdmatrixForm | MmaSyncForm | StmatrixForm | MovmatrixForm
"""Forms that a program can be about: loads and stores of wmma only serve others."""

Form = LoadForm | StoreForm | MmaForm | LdmatrixForm | MmaSyncForm | StmatrixForm | MovmatrixForm


@cache
def _matrix_of(form: ProductForm, operand: str) -> Matrix:
    """Return a matrix of a multiplication; kept, with the sizes that it keeps itself."""
    types = {"a": form.a_type, "b": form.b_type, "c": form.c_type, "d": form.d_type}
    return Matrix(operand=operand, shape=form.shape, type=types[operand])


@cache
def _vector_of(form: MmaSyncForm, operand: str) -> Vector:
    """Return the registers of an operand of mma.sync; kept, as programs are drawn with them."""
    matrix = form.matrix(operand)
    return Vector(
        registers=form.words(operand) * 32 // matrix.register_bits,
        register_type=matrix.register_type,
    )


def _slots(*pairs: tuple[str, str]) -> tuple[Slot, ...]:
    return tuple(Slot(name=name, text=text) for name, text in pairs)


def _opcode(form: Form) -> str:
    return ".".join((form.mnemonic, *(slot.text for slot in form.slots if slot.text)))
