"""Every documented form of the warp-level matrix instructions, as rows.

A form is one instruction with all of its qualifiers fixed. Rows hold what the pages say (PTX ISA
9.7.14.4 for wmma, 9.7.14.5 for mma, ldmatrix, stmatrix and movmatrix); registers, strides,
alignment and the versions and targets that a form needs are derived from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any, TypeVar

from oracle.errors import UsageError
from oracle.formats import FORMATS
from oracle.forms import (
    LAYOUTS,
    ROUNDINGS,
    SHARED_SPACES,
    STATE_SPACES,
    Form,
    LdmatrixForm,
    LoadForm,
    MmaForm,
    MmaSyncForm,
    MovmatrixForm,
    Slot,
    StmatrixForm,
    StoreForm,
)
from oracle.matrices import (
    F64_SHAPE,
    HALF_SHAPES,
    SINGLE_BIT_SHAPE,
    SUB_BYTE_SHAPE,
    TF32_SHAPE,
    Shape,
)
from oracle.mnemonics import MNEMONICS

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


# 9.7.14.5.14, one row for the forms of one pair of multiplicands: heading, types of A, types of
# B, (m, n, k) of the shapes. C and D are f32, f64 or s32 but where `_halves` has more.
_FLOATS = ((16, 8, 8), (16, 8, 16))
_MMA_SYNCS = (
    ("Alternate floating point (.bf16)", ("bf16",), _FLOATS, "f32"),
    ("Alternate floating point (.tf32)", ("tf32",), ((16, 8, 4), (16, 8, 8)), "f32"),
    ("Double precision", ("f64",), ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)), "f64"),
    ("Integer (.u8/.s8)", ("u8", "s8"), ((8, 8, 16), (16, 8, 16), (16, 8, 32)), "s32"),
    ("Sub-byte (.u4/.s4)", ("u4", "s4"), ((8, 8, 32), (16, 8, 32), (16, 8, 64)), "s32"),
    ("Single-bit", ("b1",), ((8, 8, 128), (16, 8, 128), (16, 8, 256)), "s32"),
)


def _shape(m: int, n: int, k: int) -> Shape:
    return Shape(m=m, n=n, k=k)


def _mma_syncs() -> Iterator[MmaSyncForm]:
    yield from _half_mma_syncs()
    for family, types, shapes, accumulator in _MMA_SYNCS:
        for (m, n, k), a, b in product(shapes, types, types):
            choices: tuple[dict[str, Any], ...] = ({},)
            if accumulator == "f64":
                choices = tuple({"rounding": rounding} for rounding in (None, *ROUNDINGS))
            elif a == "b1":
                choices = ({"op": "xor"}, {"op": "and"})
            elif accumulator == "s32":
                choices = ({"satfinite": False}, {"satfinite": True})
            for choice in choices:
                yield _mma_sync(_shape(m, n, k), (accumulator, a, b, accumulator), family, **choice)


def _half_mma_syncs() -> Iterator[MmaSyncForm]:
    """Iterate over the forms that have C and D of f16 as well."""
    family = "Half precision (.f16)"
    pairs = (("f16", "f16"), ("f32", "f16"), ("f32", "f32"))
    for a, b, (d, c) in product(LAYOUTS, LAYOUTS, pairs):
        yield _mma_sync(_shape(8, 8, 4), (d, "f16", "f16", c), family, layouts=(a, b))
    for shape, c in product(_FLOATS, ("f16", "f32")):
        yield _mma_sync(_shape(*shape), (c, "f16", "f16", c), family)
    eights = ("e4m3", "e5m2")
    for shape, c, a, b in product(((16, 8, 16), (16, 8, 32)), ("f16", "f32"), eights, eights):
        family = "Alternate floating point (.e4m3/.e5m2)"
        yield _mma_sync(_shape(*shape), (c, a, b, c), family)


def _mma_sync(
    shape: Shape,
    types: tuple[str, str, str, str],
    page_family: str,
    *,
    layouts: tuple[str, str] = ("row", "col"),
    **choice: Any,
) -> MmaSyncForm:
    """Make a form; `types` are those of D, A, B and C."""
    d, a, b, c = (FORMATS[name] for name in types)
    return MmaSyncForm(
        a_layout=layouts[0], b_layout=layouts[1], shape=shape, d_type=d, a_type=a, b_type=b,
        c_type=c, page_family=page_family, **choice,
    )  # fmt: skip


def _stmatrices() -> Iterator[StmatrixForm]:
    for number, transposed, space in product((1, 2, 4), (False, True), SHARED_SPACES):
        yield StmatrixForm(
            rows=8, columns=8, number=number, transposed=transposed, space=space, type="b16",
            page_family=".shape.num{.trans}{.ss}.type",
        )  # fmt: skip
    for number, space in product((1, 2, 4), SHARED_SPACES):
        yield StmatrixForm(
            rows=16, columns=8, number=number, transposed=True, space=space, type="b8",
            page_family=".shape.num{.trans}{.ss}.type",
        )  # fmt: skip


LOAD_FORMS: tuple[LoadForm, ...] = tuple(_loads())
STORE_FORMS: tuple[StoreForm, ...] = tuple(_stores())
MMA_FORMS: tuple[MmaForm, ...] = tuple(_mmas())
LDMATRIX_FORMS: tuple[LdmatrixForm, ...] = tuple(_ldmatrices())
MMA_SYNC_FORMS: tuple[MmaSyncForm, ...] = tuple(_mma_syncs())
STMATRIX_FORMS: tuple[StmatrixForm, ...] = tuple(_stmatrices())
MOVMATRIX_FORMS: tuple[MovmatrixForm, ...] = (MovmatrixForm(page_family=".shape.trans.type"),)
FORMS: tuple[Form, ...] = (
    *LOAD_FORMS, *MMA_FORMS, *STORE_FORMS, *LDMATRIX_FORMS, *MMA_SYNC_FORMS, *STMATRIX_FORMS,
    *MOVMATRIX_FORMS,
)  # fmt: skip


def spellings(form: Form) -> tuple[tuple[Slot, ...], ...]:
    """Return the orders in which the pages write the qualifiers of a form.

    The first is that of the syntax. The examples of the wmma page put the shape before the
    layout, and the state space between the two (`.m16n16k16.global.row.f16`), so these orders
    are documented as well. No other is, although ptxas takes the qualifiers in any order.
    """
    slots = form.slots
    if not isinstance(form, LoadForm | MmaForm | StoreForm):
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
            "`warpfuzz isa` lists them all and `warpfuzz explain 'INSTRUCTION'` says what is wrong "
            "with one"
        )
    return form


AnyForm = TypeVar(
    "AnyForm", MmaForm, LdmatrixForm, MmaSyncForm, StmatrixForm, MovmatrixForm
)  # fmt: skip


def _form_of_kind(opcode: str, kind: type[AnyForm]) -> AnyForm:
    form = form_of(opcode)
    if not isinstance(form, kind):
        raise UsageError(
            f"{opcode!r} is a form of {form.mnemonic}; a form of {kind.mnemonic} is needed"
        )
    return form


def mma_form(opcode: str) -> MmaForm:
    """Return the form of wmma.mma that an opcode spells; else raise UsageError."""
    return _form_of_kind(opcode, MmaForm)


def ldmatrix_form(opcode: str) -> LdmatrixForm:
    """Return the form of ldmatrix that an opcode spells; else raise UsageError."""
    return _form_of_kind(opcode, LdmatrixForm)


def mma_sync_form(opcode: str) -> MmaSyncForm:
    """Return the form of mma.sync that an opcode spells; else raise UsageError."""
    return _form_of_kind(opcode, MmaSyncForm)


def stmatrix_form(opcode: str) -> StmatrixForm:
    """Return the form of stmatrix that an opcode spells; else raise UsageError."""
    return _form_of_kind(opcode, StmatrixForm)


def movmatrix_form(opcode: str) -> MovmatrixForm:
    """Return the form of movmatrix that an opcode spells; else raise UsageError."""
    return _form_of_kind(opcode, MovmatrixForm)
