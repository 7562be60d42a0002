"""Programs to fill, and their matrices as they come out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.isa import lookup as isa
from oracle.isa.forms import ROW_BYTES, Form
from oracle.layouts import Tile, read
from oracle.program.operands import Buffer, Place, Word
from oracle.program.program import Program, position
from oracle.program.steps import Barrier, Branch, Copy, Loop, Op, Step, loads_fragment, plain_store
from strategies.contents import Recipe, ValueClass, expand

WMMA = "wmma.mma.sync.aligned.row.col."
F16_F32 = WMMA + "m16n16k16.f32.f32"
F16_F16 = WMMA + "m16n16k16.f16.f16"
F16_NARROWED = WMMA + "m16n16k16.f16.f32"
BF16 = WMMA + "m16n16k16.f32.bf16.bf16.f32"
TF32 = WMMA + "m16n16k8.f32.tf32.tf32.f32"
F64 = WMMA + "m8n8k4.f64.f64.f64.f64"
S8 = WMMA + "m16n16k16.s32.s8.s8.s32.satfinite"
U8 = WMMA + "m16n16k16.s32.u8.u8.s32"
S4 = WMMA + "m8n8k32.s32.s4.s4.s32"
U4 = WMMA + "m8n8k32.s32.u4.u4.s32.satfinite"
B1_XOR = "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32"
B1_AND = "wmma.mma.and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32"

FLOATS = (F16_F32, F16_F16, F16_NARROWED, BF16, TF32, F64)
INTEGERS = (S8, U8, S4, U4)
BITS = (B1_XOR, B1_AND)
GUARD = 48


def load_form(form: Form, operand: str, space: str = "global", layout: str = "row") -> Form:
    """The wmma.load of an operand, in the layout that the multiplication has for it."""
    layout = {"a": form.a_layout, "b": form.b_layout}.get(operand, layout)
    return isa.ACCESS_FORMS[form.matrix(operand), layout, space]


def store(form: Form, fragment: str, place: Place) -> Op:
    """A row-major wmma.store of a result to global memory."""
    row = isa.ACCESS_FORMS[form.matrix("d"), "row", "global"]
    return Op.of(form=row, fragment=fragment, place=place)


@cache
def plain(opcode: str) -> Program:
    """Load a, b and c, multiply, store d; each in a buffer of its own, with default strides."""
    form = isa.mma_form(opcode)
    loads = [
        Op.of(form=load_form(form, operand), fragment=operand, place=Place(buffer="g" + operand))
        for operand in "abc"
    ]
    last = store(form, "d", Place(buffer="gd"))
    buffers = tuple(
        Buffer(name=step.memory.place.buffer, space="global", size=step.tile.extent + GUARD)
        for step in (*loads, last)
    )
    product = Op.of(form=form, d="d", a="a", b="b", c="c")
    return Program(buffers=buffers, steps=(*loads, product, last))


@dataclass(frozen=True)
class Long:
    """A program whose matrices are named by nothing that tells their role."""

    program: Program
    places: dict[str, tuple[int, Tile]]
    """Where a, b and c of the first product, and b and c of the second, lie in the image."""


@cache
def long() -> Long:
    """Two products of one A, whose rows are copied one by one; control flow; ldmatrix."""
    form = isa.mma_form(F16_F32)
    first = load_form(form, "a", "shared")
    pitch = 48  # bytes between the lines of A in shared memory, 16-byte aligned
    lines = [
        Copy(
            source=Place(buffer="data", offset=64 + 40 * row),
            destination=Place(buffer="tile", offset=pitch * row),
            size=32,
        )
        for row in range(16)
    ]
    b, c = load_form(form, "b"), load_form(form, "c", layout="col")
    loads = {
        name: Op.of(
            form=row, fragment=name, place=Place(buffer="data", offset=offset), stride=stride
        )
        for name, row, offset, stride in (
            ("x", b, 1024, 24), ("y", c, 2048, None), ("z", b, 4096, None), ("w", c, 5120, 20),
        )
    }  # fmt: skip
    rows = next(f for f in isa.LDMATRIX_FORMS if f.number == 4 and f.element_bits == 16)
    steps: tuple[Step, ...] = (
        *lines,
        Copy(
            source=Place(buffer="data", offset=6720), destination=Place(buffer="rows"), size=512
        ),
        Barrier(),
        Op.of(form=first, fragment="q", place=Place(buffer="tile"), stride=pitch // 2),
        *loads.values(),
        Op.of(form=form, d="e", a="q", b="x", c="y"),
        Branch(
            condition=Word(place=Place(buffer="control", offset=4), mask=1),
            then=(Op.of(form=form, d="f", a="q", b="z", c="w"),),
            otherwise=(Op.of(form=form, d="f", a="q", b="z", c="e"),),
        ),
        Loop(
            count=Word(place=Place(buffer="control"), mask=7),
            body=(Op.of(form=form, d="f", a="q", b="z", c="f"),),
        ),
        store(form, "f", Place(buffer="out")),
        Op.of(
            form=rows, registers="r", buffer="rows",
            addresses=tuple(ROW_BYTES * (31 - lane) for lane in range(32)),
        ),
        plain_store(registers="r", count=4, place=Place(buffer="out", offset=1024)),
    )  # fmt: skip
    buffers = (
        Buffer(name="data", space="global", size=7424),
        Buffer(name="control", space="global", size=32),
        Buffer(name="out", space="global", size=1024 + 512 + 32),
        Buffer(name="tile", space="shared", size=16 * pitch),
        Buffer(name="rows", space="shared", size=512),
    )
    program = Program(buffers=buffers, steps=steps)
    places = {
        name: (position(program, step.memory.place), step.tile) for name, step in loads.items()
    }
    in_image = Tile(matrix=first.matrix(), layout="row", stride=20)
    return Long(program, {"q": (64, in_image), **places})


def rows_program() -> Program:
    """One ldmatrix of four matrices, from rows in another order."""
    form = next(f for f in isa.LDMATRIX_FORMS if f.number == 4 and f.element_bits == 16)
    return Program(
        buffers=(
            Buffer(name="gi", space="global", size=640),
            Buffer(name="go", space="global", size=544),
            Buffer(name="si", space="shared", size=640),
        ),
        steps=(
            Copy(source=Place(buffer="gi"), destination=Place(buffer="si"), size=640),
            Barrier(),
            Op.of(
                form=form, registers="r", buffer="si",
                addresses=tuple(16 * (7 * lane % 40) for lane in range(32)),
            ),
            plain_store(registers="r", count=4, place=Place(buffer="go")),
        ),
    )  # fmt: skip


def recipe(*classes: ValueClass, seed: int = 1) -> Recipe:
    return Recipe(classes=classes, seed=seed)


def matrices(
    opcode: str, class_: ValueClass, count: int, *, seed: int = 1
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Raw patterns of a, b and c of the plain program, (count, rows, columns) each."""
    program = plain(opcode)
    images = expand(recipe(class_, seed=seed), program, count)
    found = [
        np.array(read(images, position(program, step.memory.place), step.tile))
        for step in program.steps
        if loads_fragment(step)
    ]
    a, b, c = found
    return a, b, c
