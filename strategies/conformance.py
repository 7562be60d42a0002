"""The program by which each form of an instruction is tested, and its images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.isa.forms import LANES, ROW_BYTES, Form
from oracle.isa.lookup import (
    ACCESS_FORMS,
    FORMS,
    is_available,
    scale_ids,
    selectors_of,
    warpgroup_forms,
)
from oracle.isa.targets import Module
from oracle.layouts import Tile, write
from oracle.program.operands import Buffer, Place
from oracle.program.program import Program, position
from oracle.program.steps import Barrier, Copy, Op, Rows, Step, memory_of, operands_of
from strategies.contents import Recipe, ValueClass, expand
from strategies.draws import Drawn, derived_seed, draw_one
from strategies.features import unit_bytes
from strategies.matrices import exact_elements, inputs, plain_access, span_of
from strategies.programs.builder import GUARD_BYTES, VALUED_FORMS, is_valued
from strategies.programs.warpgroups import GROUP_WAYS, each_way


class _Way(NamedTuple):
    """How a matrix is reached."""

    words: str
    stride: str = ""  # "" is left out, "immediate" or "register"
    padding: int = 0  # Units (`unit_bytes`) that the stride is longer than the least
    offset: int = 0  # Units that the matrix lies behind the start of its buffer
    in_instruction: bool = False  # Whether that offset stands in the instruction


_STRIDES = (
    _Way("stride left out"),
    _Way("stride written", "immediate"),
    _Way("stride in a register", "register"),
    _Way("stride padded, address offset", "immediate", 1, 1),
    _Way("stride in a register, padded, offset in the instruction", "register", 3, 2, True),
)
_PLAIN = ("global", _STRIDES[0])
_MEMORIES = {"global": ("global",), "": ("global", "shared")}
"""By the state space of a form; the others are in shared memory."""
_ROWS = {
    "rows side by side": [ROW_BYTES * lane for lane in range(LANES)],
    "rows apart": [ROW_BYTES + 3 * ROW_BYTES * lane for lane in range(LANES)],
    "rows backwards": [ROW_BYTES * (LANES - 1 - lane) for lane in range(LANES)],
}


@dataclass(frozen=True, kw_only=True)
class Item:
    """What is asked about a form."""

    form: Form
    program: Program
    ways: tuple[str, ...]  # In words, in the order of the program's results; empty of what has one

    def images(self, count: int, first: int = 0) -> NDArray[np.uint8]:
        """Return images to run from a number on, uint8 (count, image_bytes), the same every time.

        Products get every class of values, and moves any bits. What a load of A or B is multiplied
        with are small integers, exact in any arithmetic: it is not the product that is asked about.
        """
        every = tuple(ValueClass) if self.form.is_product else (ValueClass.ANY,)
        found = expand(Recipe(classes=every, seed=0), self.program, count, first=first)
        if not self.form.is_access or self.form.matrix().operand not in "ab":
            return found
        random = np.random.default_rng(first)
        for one in inputs(self.program):
            matrix = one.tile.matrix
            shape = count * matrix.rows, matrix.columns
            values = exact_elements(matrix.type, shape, random, added=matrix.operand == "c")
            at = position(self.program, one.place)
            write(found, at, one.tile, values.reshape(count, matrix.rows, matrix.columns))
        return found


@dataclass(kw_only=True)
class _Maker:
    module: Module
    buffers: list[Buffer] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def plain(self, step: Step) -> None:
        span = span_of(step)
        self.buffers.append(Buffer(name=span.buffer, space="global", size=span.end + GUARD_BYTES))
        self.steps.append(step)

    def reaching(self, name: str, memory: str, size: int, step: Step, *, stores: bool) -> None:
        self.buffers.append(Buffer(name=f"g{name}", space="global", size=size))
        if memory == "global":
            self.steps.append(step)
            return
        self.buffers.append(Buffer(name=f"s{name}", space="shared", size=size))
        ends = Place(buffer=f"g{name}"), Place(buffer=f"s{name}")
        self.steps += [Copy(source=ends[0], destination=ends[1], size=size), Barrier(), step]
        if stores:
            self.steps += [Barrier(), Copy(source=ends[1], destination=ends[0], size=size)]

    def lines(self, form: Form, number: int, fragment: str, reached: tuple[str, _Way]) -> None:
        memory, way = reached
        matrix, shared = form.matrix(), memory == "shared"
        aligned, stride = unit_bytes(matrix, shared=shared), None
        unit = aligned * 8 // matrix.type.bits
        if way.stride:
            stride = matrix.default_stride(form.layout)
            if way.padding:
                stride = (-(-stride // unit) + way.padding) * unit
        offset = way.offset * aligned
        tile = Tile(matrix=matrix, layout=form.layout, stride=stride)
        name = f"{matrix.operand}{number}"
        step = Op.of(
            form, fragment=fragment, place=Place(buffer=f"{memory[0]}{name}", offset=offset),
            stride=stride, stride_in_register=way.stride == "register",
            immediate=offset if way.in_instruction else 0,
        )  # fmt: skip
        size = offset + tile.extent + tile.pitch + GUARD_BYTES
        self.reaching(name, memory, size, step, stores=form.is_store)

    def access(self, form: Form, number: int, reached: tuple[str, _Way]) -> None:
        matrix, consumer = form.matrix(), None
        matrices = {operand: replace(matrix, operand=operand) for operand in "cd"}
        layouts = dict.fromkeys("abcd", "row")
        if matrix.operand in "ab":
            consumer = _consumer(form, self.module)
            matrices = {operand: consumer.matrix(operand) for operand in "abcd"}
            layouts |= {"a": consumer.a_layout, "b": consumer.b_layout}
        for operand, its in matrices.items():
            # Where nothing multiplies, what is stored is what was loaded.
            fragment = f"{operand if consumer else 'c'}{number}"
            if consumer and operand == "d":
                names = {one: f"{one}{number}" for one in "abcd"}
                self.steps.append(Op.of(consumer, **names))
            if operand == matrix.operand:
                self.lines(form, number, fragment, reached)
            else:
                plain = ACCESS_FORMS[its, layouts[operand], "global"]
                self.lines(plain, number, fragment, _PLAIN)

    def main(self, form: Form, number: int, **more: Any) -> None:
        step = Op.of(form, **{name: f"{name}{number}" for name, *_ in operands_of(form)}, **more)
        for use in step.reads:
            self.plain(plain_access(use, Place(buffer=use.name)))
        if memory_of(form) is None:
            self.steps.append(step)
        else:
            size = max(step.memory.addresses) + 2 * ROW_BYTES
            self.reaching(f"{number}", "shared", size, step, stores=form.is_store)
        if step.writes is not None:
            self.plain(plain_access(step.writes, Place(buffer=step.writes.name), store=True))


def _consumer(form: Form, module: Module) -> Form:
    matrix = form.matrix()
    return next(
        one
        for one in VALUED_FORMS
        if is_available(one, module)
        and one.matrix(matrix.operand) == matrix
        and {"a": one.a_layout, "b": one.b_layout}[matrix.operand] == form.layout
    )


def item(form: Form, module: Module) -> Item:
    """Return what is asked about a form in modules of a target and version."""
    if form.warps > 1:
        key = derived_seed("conformance", form.opcode)
        program = draw_one(Drawn(partial(each_way, form=form)), key)
        return Item(form=form, program=program, ways=GROUP_WAYS)
    maker = _Maker(module=module)
    ways: list[str] = []
    if form.is_access:
        memories = _MEMORIES.get(form.space, ("shared",))
        for number, reached in enumerate(product(memories, _STRIDES)):
            maker.access(form, number, reached)
            ways.append(f"{reached[0]} memory, {reached[1].words}")
    elif memory_of(form) is Rows:
        for number, (words, addresses) in enumerate(_ROWS.items()):
            maker.main(form, number, buffer=f"s{number}", addresses=tuple(addresses))
            ways.append(words)
    elif known := selectors_of(form):
        for selector in known:
            maker.main(form, selector, selector=selector)
            ids = scale_ids(form, selector) if form.is_scaled else ()
            names = "byte-id-a", "thread-id-a", "byte-id-b", "thread-id-b"
            named = (f"{name} {one}" for name, one in zip(names, ids, strict=False))
            ways.append(", ".join(named) or f"selector {selector}")
    else:
        maker.main(form, 0)
    program = Program(buffers=tuple(maker.buffers), steps=tuple(maker.steps))
    return Item(form=form, program=program, ways=tuple(ways))


def forms_of(module: Module) -> Iterator[Form]:
    """Iterate over the forms of a target and version that can be judged."""
    there = (form for form in (*FORMS, *warpgroup_forms()) if is_available(form, module))
    return (form for form in there if form.is_access or is_valued(form, module))


def unjudged(module: Module) -> list[Form]:
    """Return the forms that cannot: no figures of their arithmetic, or no layout, is known."""
    asked = {*forms_of(module)}
    every = (form for form in (*FORMS, *warpgroup_forms()) if form.is_product or form.warps == 1)
    return [form for form in every if is_available(form, module) and form not in asked]
