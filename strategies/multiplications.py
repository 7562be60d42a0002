"""Strategies for the smallest programs: one multiplication, or one ldmatrix.

Both draw defined programs and shrink towards the plainest: matrices in global memory at the start
of their buffers, row-major, with the default stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from hypothesis import strategies as st

from oracle.isa import (
    LAYOUTS,
    LOAD_FORMS,
    MMA_FORMS,
    STORE_FORMS,
    LdmatrixForm,
    LoadForm,
    Matrix,
    MmaForm,
    StoreForm,
)
from oracle.program import (
    Barrier,
    Buffer,
    Copy,
    Elementwise,
    Load,
    LoadRows,
    Multiply,
    Place,
    Program,
    Step,
    Store,
    StoreRegisters,
    operations,
)
from oracle.storage import Tile

T = TypeVar("T")

_SPACES = ("global", "", "shared", "shared::cta", "generic shared")
"""Where a matrix lies and how it is addressed: "" is global memory through a generic address,
"generic shared" shared memory through one."""
_STRIDES = ("default", "immediate", "register")
_MOST_UNITS = 3
"""Most alignment units by which a matrix is moved, or its lines are set apart."""
_SHARED_ROW_BYTES = 16
"""Alignment of lines in shared memory. The page asks for less where a fragment is smaller, and
sm_90 raises "misaligned address" there (measured on H200, 2026-11-21; docs/findings.md)."""
_GUARD_BYTES = 32
"""Bytes behind a matrix and the next line, which nothing may touch."""
_ROWS = 40
"""Rows of 16 bytes from which ldmatrix reads: more than there are lanes."""

VALUED_FORMS: tuple[MmaForm, ...] = tuple(
    form for form in MMA_FORMS if not (form.satfinite and form.d_type.is_float)
)
"""The 138 forms whose results are documented; `.satfinite` of floats went with PTX ISA 6.5."""


def _one_of(draw: st.DrawFn, items: Sequence[T]) -> T:
    """Draw an item by its index, so that a uniform source of integers draws items uniformly."""
    return items[draw(st.integers(0, len(items) - 1))]


@cache
def _load_forms() -> dict[tuple[str, str, str, str, str], LoadForm]:
    return {
        (form.operand, form.layout, form.shape.name, form.space, form.type.name): form
        for form in LOAD_FORMS
    }


@cache
def _store_forms() -> dict[tuple[str, str, str, str], StoreForm]:
    return {
        (form.layout, form.shape.name, form.space, form.type.name): form for form in STORE_FORMS
    }


@dataclass(frozen=True, kw_only=True)
class _Access:
    """One matrix: where it lies and how it is reached."""

    operand: str
    matrix: Matrix
    layout: str
    space: str
    stride_kind: str
    padding: int
    """Alignment units by which lines lie further apart than they must."""
    offset_units: int
    offset_in_instruction: bool

    @property
    def shared(self) -> bool:
        return "shared" in self.space

    @property
    def qualifier(self) -> str:
        return "" if self.space == "generic shared" else self.space

    @property
    def unit(self) -> int:
        """Bytes of which the start of each line is a multiple (9.7.14.4.2)."""
        return max(self.matrix.fragment_bytes, _SHARED_ROW_BYTES if self.shared else 1)

    @property
    def stride(self) -> int | None:
        default = self.matrix.default_stride(self.layout)
        if self.stride_kind == "default":
            return None
        if self.padding == 0:
            return default
        elements = self.unit * 8 // self.matrix.type.bits
        return (-(-default // elements) + self.padding - 1) * elements

    @property
    def offset(self) -> int:
        return self.offset_units * self.unit

    @property
    def size(self) -> int:
        tile = Tile(matrix=self.matrix, layout=self.layout, stride=self.stride)
        # A store that is one line off stays in its own image.
        return self.offset + tile.extent + tile.pitch + _GUARD_BYTES

    def buffers(self) -> list[Buffer]:
        spaces = (("g", "global"), ("s", "shared")) if self.shared else (("g", "global"),)
        return [
            Buffer(name=letter + self.operand, space=space, size=self.size)
            for letter, space in spaces
        ]

    def copy(self, source: str, destination: str) -> Copy:
        return Copy(
            source=Place(buffer=source + self.operand),
            destination=Place(buffer=destination + self.operand),
            size=self.size,
        )

    def step(self) -> Load | Store:
        key = (self.layout, self.matrix.shape.name, self.qualifier, self.matrix.type.name)
        place = Place(buffer=("s" if self.shared else "g") + self.operand, offset=self.offset)
        in_register = self.stride_kind == "register"
        immediate = self.offset if self.offset_in_instruction else 0
        if self.operand == "d":
            return Store(
                form=_store_forms()[key], fragment="d", place=place, stride=self.stride,
                stride_in_register=in_register, immediate=immediate,
            )  # fmt: skip
        return Load(
            form=_load_forms()[(self.operand, *key)], fragment=self.operand, place=place,
            stride=self.stride, stride_in_register=in_register, immediate=immediate,
        )  # fmt: skip


@st.composite
def _accesses(draw: st.DrawFn, form: MmaForm, operand: str) -> _Access:
    layout = {"a": form.a_layout, "b": form.b_layout}.get(operand) or _one_of(draw, LAYOUTS)
    return _Access(
        operand=operand,
        matrix=form.matrix(operand),
        layout=layout,
        space=_one_of(draw, _SPACES),
        stride_kind=_one_of(draw, _STRIDES),
        padding=draw(st.integers(0, _MOST_UNITS)),
        offset_units=draw(st.integers(0, _MOST_UNITS)),
        offset_in_instruction=draw(st.booleans()),
    )


@cache
def _families(forms: tuple[MmaForm, ...]) -> tuple[tuple[MmaForm, ...], ...]:
    """Group forms by what they compute; else those of f16 would be most of what is drawn."""
    groups: dict[tuple[object, ...], list[MmaForm]] = {}
    for form in forms:
        key = (form.a_type, form.c_type, form.d_type, form.satfinite, form.op, form.rounding)
        groups.setdefault(key, []).append(form)
    return tuple(map(tuple, groups.values()))


@st.composite
def multiplications(draw: st.DrawFn, forms: tuple[MmaForm, ...] = VALUED_FORMS) -> Program:
    """Draw a program of one multiplication: load a, b and c, multiply, store d.

    Layouts of C and D, state spaces, kinds of address and stride, padding and offsets vary for
    each matrix; some programs change D element by element before they store it.
    """
    form = _one_of(draw, _one_of(draw, _families(forms)))
    accesses = {operand: draw(_accesses(form, operand)) for operand in "abcd"}
    shared = [access for access in accesses.values() if access.shared]
    steps: list[Step] = [access.copy("g", "s") for access in shared]
    if shared:
        steps.append(Barrier())
    steps += [accesses[operand].step() for operand in "abc"]
    steps.append(Multiply(form=form, d="d", a="a", b="b", c="c"))
    steps += draw(_elementwise(form))
    steps.append(accesses["d"].step())
    if accesses["d"].shared:
        steps += [Barrier(), accesses["d"].copy("s", "g")]
    buffers = tuple(buffer for access in accesses.values() for buffer in access.buffers())
    return Program(buffers=buffers, steps=tuple(steps))


_PLAIN_IN = 4
"""Of so many programs, one has an element-wise step on average."""


@st.composite
def _elementwise(draw: st.DrawFn, form: MmaForm) -> tuple[Elementwise, ...]:
    if draw(st.integers(0, _PLAIN_IN - 1)) < _PLAIN_IN - 1:
        return ()
    matrix = form.matrix("d")
    operation = _one_of(draw, operations(matrix.type))
    bits = matrix.type.bits if operation.takes_constant else 0
    constant = draw(st.integers(0, (1 << bits) - 1))
    return (
        Elementwise(
            operation=operation, matrix=matrix, source="d", destination="d", constant=constant
        ),
    )


@st.composite
def row_loads(draw: st.DrawFn, forms: tuple[LdmatrixForm, ...]) -> Program:
    """Draw a program of one ldmatrix: rows at 32 addresses, and a store of the registers.

    All addresses are valid, those of the lanes that are not asked for as well: sm_75 wants it.
    """
    form = _one_of(draw, forms)
    rows = draw(st.lists(st.integers(0, _ROWS - 1), min_size=32, max_size=32))
    immediate = 16 * draw(st.integers(0, _MOST_UNITS))
    place = Place(buffer="go", offset=16 * draw(st.integers(0, _MOST_UNITS)))
    store = StoreRegisters(registers="r", count=form.registers, place=place)
    size = 16 * _ROWS + _GUARD_BYTES
    return Program(
        buffers=(
            Buffer(name="gi", space="global", size=size),
            Buffer(name="go", space="global", size=place.offset + store.size + _GUARD_BYTES),
            Buffer(name="si", space="shared", size=size),
        ),
        steps=(
            Copy(source=Place(buffer="gi"), destination=Place(buffer="si"), size=size),
            Barrier(),
            LoadRows(
                form=form,
                registers="r",
                buffer="si",
                addresses=tuple(row * LdmatrixForm.ROW_BYTES for row in rows),
                immediate=immediate,
            ),
            store,
        ),
    )
