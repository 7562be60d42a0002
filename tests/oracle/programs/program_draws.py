"""Programs drawn for tests of the oracle: long enough to mix steps, small enough to interpret."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracle import isa
from oracle.definedness import undefined
from oracle.forms import Form
from oracle.matrices import Matrix
from oracle.operations import operations
from oracle.ops import Op
from oracle.places import Buffer, Place, Uniform, Word
from oracle.program import Program
from oracle.steps import Barrier, Branch, Copy, Elementwise, Loop, Step, plain_store

BUFFER = 8192
"""Bytes of each data buffer: room for the largest matrix with twice its default stride."""

SPECIAL = np.array(
    [0, 1, 0x7F, 0x80, 0xFF, 0x3C00, 0x7C00, 0x7E00, 0xFC00, 0x8000, 0x3F80, 0x7F80, 0xFF80],
    dtype=np.uint16,
)
"""Halfwords that make ones, zeros, infinities and NaNs of several formats."""

Names = dict[str, tuple[Matrix, str | None] | int]
"""What each name holds: a matrix and its layout, or a number of registers."""


def buffers() -> tuple[Buffer, ...]:
    return (
        Buffer(name="odd", space="global", size=100, alignment=4),
        Buffer(name="control", space="global", size=32, alignment=16),
        Buffer(name="data", space="global", size=BUFFER),
        Buffer(name="out", space="global", size=BUFFER, alignment=64),
        Buffer(name="pad", space="shared", size=24, alignment=8),
        Buffer(name="tile", space="shared", size=BUFFER),
    )


@cache
def _loads(**wanted: object) -> st.SearchStrategy[Form]:
    return st.sampled_from(
        [
            form
            for form in isa.LOAD_FORMS
            if all(
                getattr(form if k in ("space", "layout") else form.matrix(), k) == v
                for k, v in wanted.items()
            )
        ]
    )


@cache
def _stores(matrix: Matrix, spaces: tuple[str, ...]) -> st.SearchStrategy[Form]:
    return st.sampled_from(
        [form for form in isa.STORE_FORMS if form.matrix() == matrix and form.space in spaces]
    )


def _access(draw: st.DrawFn, matrix: Matrix, layout: str, buffer: str) -> tuple[Place, int | None]:
    size, bits = matrix.fragment_bytes, matrix.type.bits
    least = matrix.default_stride(layout)
    unit = size * 8 // bits
    stride = draw(st.none() | st.integers(-(-least // unit), -(-least // unit) + 2))
    stride = None if stride is None else stride * unit
    pitch = (least if stride is None else stride) * bits // 8
    extent = (matrix.leading_instances(layout) - 1) * pitch + least * bits // 8
    assume(extent <= BUFFER)
    return Place(
        buffer=buffer, offset=size * draw(st.integers(0, (BUFFER - extent) // size))
    ), stride


def _load(draw: st.DrawFn, names: Names, name: str, **wanted: object) -> list[Step]:
    buffer = draw(st.sampled_from(["data", "out", "tile"]))
    spaces = ("", "global") if buffer != "tile" else ("", "shared", "shared::cta")
    form = draw(_loads(space=draw(st.sampled_from(spaces)), **wanted))
    place, stride = _access(draw, form.matrix(), form.layout, buffer)
    names[name] = (form.matrix(), form.layout if form.matrix().operand in "ab" else None)
    return [Op.of(form=form, fragment=name, place=place, stride=stride)]


def _multiply(draw: st.DrawFn, names: Names) -> list[Step]:
    form = draw(_family(draw(st.sampled_from(FAMILIES))))
    steps: list[Step] = []
    for name, operand, layout in (("a", "a", form.a_layout), ("b", "b", form.b_layout)):
        type_ = form.matrix(operand).type
        steps += _load(
            draw, names, name, operand=operand, layout=layout, shape=form.shape, type=type_
        )
    accumulators = [
        name
        for name, held in names.items()
        if not isinstance(held, int) and held[0] in (form.matrix("c"), form.matrix("d"))
        and held[0].type == form.c_type
    ]  # fmt: skip
    c = draw(st.sampled_from([*accumulators, "c"]))
    if c not in accumulators:
        steps += _load(draw, names, c, operand="c", shape=form.shape, type=form.c_type)
    d = draw(st.sampled_from(["d", c, "e"]))
    names[d] = (form.matrix("d"), None)
    return [*steps, Op.of(form=form, d=d, a="a", b="b", c=c)]


def family(form: Form) -> tuple[object, ...]:
    """What is drawn evenly: otherwise forms of f16 would be most of all."""
    return (form.a_type.name, form.c_type.name, form.d_type.name, form.satfinite, form.op)


@cache
def _family(wanted: tuple[object, ...]) -> st.SearchStrategy[Form]:
    return st.sampled_from([form for form in isa.MMA_FORMS if family(form) == wanted])


# Floats with .satfinite have no known arithmetic: the oracle refuses them.
FAMILIES = sorted(
    {family(f) for f in isa.MMA_FORMS if not (f.satfinite and f.a_type.is_float)}, key=str
)


def _store(draw: st.DrawFn, names: Names) -> list[Step]:
    held = {n: h for n, h in names.items() if not isinstance(h, int) and h[0].operand in "cd"}
    if not held:
        return []
    name = draw(st.sampled_from(sorted(held)))
    matrix = replace(held[name][0], operand="d")
    buffer = draw(st.sampled_from(["out", "data", "tile"]))
    spaces = ("", "global") if buffer != "tile" else ("", "shared", "shared::cta")
    form = draw(_stores(matrix, spaces))
    place, stride = _access(draw, matrix, form.layout, buffer)
    return [Op.of(form=form, fragment=name, place=place, stride=stride)]


def _elementwise(draw: st.DrawFn, names: Names) -> list[Step]:
    held = {n: h for n, h in names.items() if not isinstance(h, int)}
    if not held:
        return []
    source = draw(st.sampled_from(sorted(held)))
    matrix = held[source][0]
    operation = draw(st.sampled_from(operations(matrix.type)))
    bits = matrix.type.bits if operation.takes_constant else 0
    destination = draw(st.sampled_from([source, "f"]))
    names[destination] = held[source]
    return [
        Elementwise(operation=operation, matrix=matrix, source=source, destination=destination,
                    constant=draw(st.integers(0, (1 << bits) - 1))),
    ]  # fmt: skip


def _rows(draw: st.DrawFn, names: Names) -> list[Step]:
    form = draw(st.sampled_from(isa.LDMATRIX_FORMS))
    # Drawing a number for each of the 32 lanes would take longer than all else of a program.
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    addresses = tuple((16 * rng.integers(0, BUFFER // 16, 32)).tolist())
    place = Place(buffer="out", offset=4 * draw(st.integers(0, (BUFFER - 512) // 4)))
    names["r"] = form.registers
    return [
        Op.of(form=form, registers="r", buffer="tile", addresses=addresses),
        plain_store(registers="r", count=form.registers, place=place),
    ]


def _copy(draw: st.DrawFn) -> list[Step]:
    size = draw(st.integers(1, 300))
    places = [
        Place(buffer=draw(st.sampled_from(["data", "out", "tile"])),
              offset=draw(st.integers(0, BUFFER - size)))
        for _ in range(2)
    ]  # fmt: skip
    return [Copy(source=places[0], destination=places[1], size=size)]


def _uniform(draw: st.DrawFn, most: int) -> Uniform:
    if draw(st.booleans()):
        return draw(st.integers(0, most))
    place = Place(buffer="control", offset=4 * draw(st.integers(0, 7)))
    return Word(place=place, mask=draw(st.integers(0, most)))


def _steps(draw: st.DrawFn, names: Names, most: int, depth: int) -> tuple[Step, ...]:
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, most))):
        kinds = ["multiply", "multiply", "store", "store", "elementwise", "rows", "copy"]
        kind = draw(st.sampled_from(kinds + (["branch", "loop"] if depth else [])))
        match kind:
            case "multiply":
                new = _multiply(draw, names)
            case "store":
                new = _store(draw, names)
            case "elementwise":
                new = _elementwise(draw, names)
            case "rows":
                new = _rows(draw, names)
            case "copy":
                new = _copy(draw)
            case _:
                arms = [dict(names) for _ in range(2)]
                bodies = [_steps(draw, arm, 2, depth - 1) for arm in arms]
                if kind == "branch":
                    new = [Branch(condition=_uniform(draw, 3), then=bodies[0], otherwise=bodies[1])]
                else:
                    new = [Loop(count=_uniform(draw, 3), body=bodies[0])]
                    arms[1] = dict(names)
                for name in set(names) | set(arms[0]) | set(arms[1]):
                    if not (names.get(name) == arms[0].get(name) == arms[1].get(name)):
                        names.pop(name, None)
        steps += [*new, Barrier()]
    return tuple(steps)


@st.composite
def programs(draw: st.DrawFn, most: int = 4) -> Program:
    """Draw programs that the ISA defines."""
    names: Names = {}
    fill: tuple[Step, ...] = (
        Copy(source=Place(buffer="data"), destination=Place(buffer="tile"), size=BUFFER),
        Barrier(),
    )
    steps = (*fill, *_steps(draw, names, most, 2), *_store(draw, names))
    program = Program(buffers=buffers(), steps=steps)
    assume(not undefined(program))
    return program


def images(program: Program, seed: int, count: int) -> NDArray[np.uint8]:
    """Return images of random bytes, with some halfwords of special values."""
    rng = np.random.default_rng(seed)
    halves = rng.integers(0, 1 << 16, (count, program.image_bytes // 2), dtype=np.uint16)
    special = rng.random(halves.shape) < 0.05
    halves[special] = rng.choice(SPECIAL, int(special.sum()))
    return halves.view(np.uint8)
