"""Every documented form of `wmma.load`, `wmma.mma`, `wmma.store` and `ldmatrix`, as rows.

A form is one instruction with all of its qualifiers fixed. Rows hold what the pages say
(PTX ISA 9.7.14.4 for wmma, 9.7.14.5.15 for ldmatrix); registers, strides, alignment and the
versions and targets that a form needs are derived from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import ClassVar

from oracle.errors import UsageError
from oracle.formats import FORMATS, Format

FRAGMENTS = "9.7.14.4.1"
STORAGE = "9.7.14.4.2"
LOAD = "9.7.14.4.3"
STORE = "9.7.14.4.4"
MMA = "9.7.14.4.5"
LDMATRIX = "9.7.14.5.15"

LANES = 32
"""Threads of a warp (PTX ISA 2.2.1)."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Dimensions of one matrix multiply-accumulate: A is m x k, B is k x n, C and D are m x n."""

    m: int
    n: int
    k: int

    @cached_property
    def name(self) -> str:
        """Spelling of the shape qualifier, without the dot."""
        return f"m{self.m}n{self.n}k{self.k}"

    def matrix(self, operand: str) -> tuple[int, int]:
        """Rows and columns of matrix "a", "b", "c" or "d"."""
        return {"a": (self.m, self.k), "b": (self.k, self.n)}.get(operand, (self.m, self.n))


def _shape(m: int, n: int, k: int) -> Shape:
    return Shape(m=m, n=n, k=k)


HALF_SHAPES = (_shape(16, 16, 16), _shape(8, 32, 16), _shape(32, 8, 16))
TF32_SHAPE = _shape(16, 16, 8)
F64_SHAPE = _shape(8, 8, 4)
SUB_BYTE_SHAPE = _shape(8, 8, 32)
SINGLE_BIT_SHAPE = _shape(8, 8, 128)
SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (*HALF_SHAPES, TF32_SHAPE, F64_SHAPE, SUB_BYTE_SHAPE, SINGLE_BIT_SHAPE)
}

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


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """One matrix of a wmma form: how it lies in memory and in registers."""

    operand: str
    """"a", "b", "c" or "d"."""
    shape: Shape
    type: Format

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.shape.matrix(self.operand)[0]

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self.shape.matrix(self.operand)[1]

    @cached_property
    def registers(self) -> int:
        """Registers of the fragment in each lane (tables of 9.7.14.4.1).

        The f16 multiplicands have eight `.f16x2` registers in every shape: the fragment of an
        m16n16k16 matrix holds each element twice. Everywhere else the elements are dealt out
        once. The f64 accumulator has two registers, as the examples of the page have it (its
        table says one; ptxas wants two).
        """
        if self.type.name == "f16" and self.operand in "ab":
            return 8
        return self.rows * self.columns * self.type.bits // (LANES * self.register_bits)

    @property
    def register_bits(self) -> int:
        """Size of one register of the fragment, in bits."""
        return 64 if self.type.name == "f64" else 32

    @property
    def register_type(self) -> str:
        """PTX type in which the fragment's registers are declared, without the dot.

        `.b32` where the table names a packed or an untyped register.
        """
        return self.type.name if self.type.name in ("f32", "f64", "s32") else "b32"

    @property
    def fragment_bytes(self) -> int:
        """Size of the fragment in one lane, in bytes: the alignment of 9.7.14.4.2."""
        return self.registers * self.register_bits // 8

    def default_stride(self, layout: str) -> int:
        """Elements from one row (or column) to the next when no stride is given (9.7.14.4.2)."""
        return self.columns if layout == "row" else self.rows

    def leading_instances(self, layout: str) -> int:
        """Return how many rows (row-major) or columns (column-major) the stride steps over."""
        return self.rows if layout == "row" else self.columns


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
        types = {"a": self.a_type, "b": self.b_type, "c": self.c_type, "d": self.d_type}
        return Matrix(operand=operand, shape=self.shape, type=types[operand])

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


Form = LoadForm | StoreForm | MmaForm | LdmatrixForm


def _slots(*pairs: tuple[str, str]) -> tuple[Slot, ...]:
    return tuple(Slot(name=name, text=text) for name, text in pairs)


def _opcode(form: Form) -> str:
    return ".".join((form.mnemonic, *(slot.text for slot in form.slots if slot.text)))


# 9.7.14.4.3, one row per block of the syntax: heading, shapes, multiplicand types, accumulator
# types, layouts of A, layouts of B. The same rows give wmma.store its types (9.7.14.4.4).
_LOADS = (
    (".f16", HALF_SHAPES, ("f16", "s8", "u8"), ("f16", "f32", "s32"), LAYOUTS, LAYOUTS),
    (".bf16", HALF_SHAPES, ("bf16",), (), LAYOUTS, LAYOUTS),  # its .f32 C is in the first row
    (".tf32", (TF32_SHAPE,), ("tf32",), ("f32",), LAYOUTS, LAYOUTS),
    (".f64", (F64_SHAPE,), ("f64",), ("f64",), LAYOUTS, LAYOUTS),
    ("sub-byte", (SUB_BYTE_SHAPE,), ("s4", "u4"), ("s32",), ("row",), ("col",)),
    ("single-bit", (SINGLE_BIT_SHAPE,), ("b1",), ("s32",), ("row",), ("col",)),
)

# 9.7.14.4.4: shapes and types of wmma.store.
_STORES = (
    ("m16n16k16, m8n32k16, m32n8k16", HALF_SHAPES, ("f16", "f32", "s32")),
    ("m8n8k32, m8n8k128", (SUB_BYTE_SHAPE, SINGLE_BIT_SHAPE), ("s32",)),
    ("m16n16k8", (TF32_SHAPE,), ("f32",)),
    ("m8n8k4", (F64_SHAPE,), ("f64",)),
)


def _loads() -> Iterator[LoadForm]:
    for family, shapes, multiplicands, accumulators, a_layouts, b_layouts in _LOADS:
        operands = (
            ("a", a_layouts, multiplicands),
            ("b", b_layouts, multiplicands),
            ("c", LAYOUTS, accumulators),
        )
        for operand, layouts, types in operands:
            for layout, shape, space, type_ in product(layouts, shapes, STATE_SPACES, types):
                yield LoadForm(
                    operand=operand, layout=layout, shape=shape, space=space,
                    type=FORMATS[type_], page_family=family,
                )  # fmt: skip


def _stores() -> Iterator[StoreForm]:
    for family, shapes, types in _STORES:
        for layout, shape, space, type_ in product(LAYOUTS, shapes, STATE_SPACES, types):
            yield StoreForm(
                layout=layout, shape=shape, space=space, type=FORMATS[type_], page_family=family
            )


def _mmas() -> Iterator[MmaForm]:
    f = FORMATS
    # .satfinite was removed from the floating-point form in PTX ISA 6.5 (notes of 9.7.14.4.5);
    # it stands behind .ctype, as in the PTX ISA 6.0 manual, 9.7.12.4.
    for a, b, shape, d, c, sat in product(
        LAYOUTS, LAYOUTS, HALF_SHAPES, ("f16", "f32"), ("f16", "f32"), (False, True)
    ):
        yield MmaForm(
            a_layout=a, b_layout=b, shape=shape, d_type=f[d], a_type=f["f16"], b_type=f["f16"],
            c_type=f[c], satfinite=sat, page_family="Floating point (.f16 multiplicands)",
        )  # fmt: skip
    for a, b, shape, type_, sat in product(
        LAYOUTS, LAYOUTS, HALF_SHAPES, ("s8", "u8"), (False, True)
    ):
        yield _uniform(a, b, shape, type_, "s32", "Integer (.u8/.s8 multiplicands)", satfinite=sat)
    for a, b, shape in product(LAYOUTS, LAYOUTS, HALF_SHAPES):
        yield _uniform(a, b, shape, "bf16", "f32", "Floating point format .bf16")
    for a, b in product(LAYOUTS, LAYOUTS):
        yield _uniform(a, b, TF32_SHAPE, "tf32", "f32", "Floating point format .tf32")
    for a, b, rounding in product(LAYOUTS, LAYOUTS, (None, *ROUNDINGS)):
        yield _uniform(
            a, b, F64_SHAPE, "f64", "f64", "Floating point Double precision", rounding=rounding
        )
    for type_, sat in product(("s4", "u4"), (False, True)):
        yield _uniform("row", "col", SUB_BYTE_SHAPE, type_, "s32", "Sub-byte", satfinite=sat)
    for op in ("xor", "and"):
        yield _uniform("row", "col", SINGLE_BIT_SHAPE, "b1", "s32", "Single-bit", op=op)


def _uniform(
    a_layout: str,
    b_layout: str,
    shape: Shape,
    multiplicand: str,
    accumulator: str,
    page_family: str,
    *,
    rounding: str | None = None,
    satfinite: bool = False,
    op: str | None = None,
) -> MmaForm:
    """Make a form whose A and B, and whose C and D, have one type each."""
    return MmaForm(
        a_layout=a_layout, b_layout=b_layout, shape=shape, d_type=FORMATS[accumulator],
        a_type=FORMATS[multiplicand], b_type=FORMATS[multiplicand], c_type=FORMATS[accumulator],
        rounding=rounding, satfinite=satfinite, op=op, page_family=page_family,
    )  # fmt: skip


def _ldmatrices() -> Iterator[LdmatrixForm]:
    for number, transposed, space in product((1, 2, 4), (False, True), SHARED_SPACES):
        yield LdmatrixForm(
            rows=8, columns=8, number=number, transposed=transposed, space=space, type="b16",
            page_family=".shape.num{.trans}{.ss}.type",
        )  # fmt: skip
    for number, space in product((1, 2), SHARED_SPACES):
        yield LdmatrixForm(
            rows=16, columns=16, number=number, transposed=True, space=space, type="b8",
            page_family=".shape.num{.trans}{.ss}.type",
        )  # fmt: skip
    packed = ((8, (1, 2, 4), False), (16, (1, 2), True))
    for rows, numbers, transposed in packed:
        for number, space, source in product(numbers, SHARED_SPACES, ("b6x16_p32", "b4x16_p64")):
            yield LdmatrixForm(
                rows=rows, columns=16, number=number, transposed=transposed, space=space,
                destination_format="b8x16", source_format=source,
                page_family=f".m{rows}n16.num{'.trans' if transposed else ''}{{.ss}}"
                ".dst_fmt.src_fmt",
            )  # fmt: skip


LOAD_FORMS: tuple[LoadForm, ...] = tuple(_loads())
STORE_FORMS: tuple[StoreForm, ...] = tuple(_stores())
MMA_FORMS: tuple[MmaForm, ...] = tuple(_mmas())
LDMATRIX_FORMS: tuple[LdmatrixForm, ...] = tuple(_ldmatrices())
FORMS: tuple[Form, ...] = (*LOAD_FORMS, *MMA_FORMS, *STORE_FORMS, *LDMATRIX_FORMS)
MNEMONICS: tuple[str, ...] = ("wmma.load", "wmma.mma", "wmma.store", "ldmatrix")


def spellings(form: Form) -> tuple[tuple[Slot, ...], ...]:
    """Return the orders in which the pages write the qualifiers of a form.

    The first is that of the syntax. The examples of the wmma page put the shape before the
    layout, and the state space between the two (`.m16n16k16.global.row.f16`), so these orders
    are documented as well. No other is, although ptxas takes the qualifiers in any order.
    """
    slots = form.slots
    if isinstance(form, LdmatrixForm):
        return (slots,)
    order = ("layout",) if not isinstance(form, MmaForm) else ("alayout", "blayout")
    layouts = tuple(slot for slot in slots if slot.name in order)
    leading = [slot for slot in slots if slot.name == "shape" or slot.name == "space"]
    rest = [slot for slot in slots if slot not in layouts and slot not in leading]
    at = next(i for i, slot in enumerate(slots) if slot.name in order)
    head, tail = rest[:at], rest[at:]
    return (slots, (*head, *leading, *layouts, *tail))


@cache
def forms_by_opcode() -> dict[str, Form]:
    """Map every documented spelling of every form, with and without `.aligned`, to the form."""
    table: dict[str, Form] = {}
    for form in FORMS:
        for slots in spellings(form):
            texts = [slot.text for slot in slots if slot.text]
            table[".".join((form.mnemonic, *texts))] = form
            texts.remove("aligned")
            table[".".join((form.mnemonic, *texts))] = form
    return table


def form_of(opcode: str) -> Form:
    """Return the form that an opcode (an instruction without operands) spells.

    Raises
    ------
    UsageError
        If no documented form is spelled so.
    """
    # Whoever hands over something else than text is told so in the same words.
    form = forms_by_opcode().get(opcode.strip()) if isinstance(opcode, str) else None
    if form is None:
        raise UsageError(
            f"{opcode!r} is not a documented form of {', '.join(MNEMONICS)}; "
            "`warpfuzz isa` lists them all and `warpfuzz explain` says what is wrong with one"
        )
    return form


def mma_form(opcode: str) -> MmaForm:
    """Return the form of wmma.mma that an opcode spells; else raise UsageError."""
    form = form_of(opcode)
    if not isinstance(form, MmaForm):
        raise UsageError(f"{opcode!r} is a form of {form.mnemonic}; a form of wmma.mma is needed")
    return form


def ldmatrix_form(opcode: str) -> LdmatrixForm:
    """Return the form of ldmatrix that an opcode spells; else raise UsageError."""
    form = form_of(opcode)
    if not isinstance(form, LdmatrixForm):
        raise UsageError(f"{opcode!r} is a form of {form.mnemonic}; a form of ldmatrix is needed")
    return form
