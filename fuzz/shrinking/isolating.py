"""One multiplication in the place of a whole program: on the fragments that reached it there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.shrinking.draft import Draft
from fuzz.shrinking.sites import visit
from fuzz.shrinking.tiles import new_buffer, tile_of
from fuzz.tracing import trace
from oracle.isa import MmaForm
from oracle.program import Buffer, Load, Multiply, Place, Program, Store
from oracle.storage import write
from strategies.programs.forms import load_form, store_form

_STEPS = 5
"""Three loads, the multiplication, a store: a program with no more has nothing around it."""
_MULTIPLICATIONS = 32
"""Most that are tried, of a program with loops."""


def isolated(draft: Draft, *, target: str) -> Iterator[Draft]:
    """Iterate over drafts with one multiplication of a program by itself.

    Its operands are loaded from the image, with the values that they have where the program does
    what it should. So what came before it, and shared memory, can go at once; and of a chain the
    link that fails is left.

    Parameters
    ----------
    target
        Whose model computes what the program made on the way.
    """
    if sum(1 for _ in visit(draft.program.steps)) <= _STEPS:
        return
    multiplications = (
        (event.step.form, event.inputs)
        for event in trace(draft.program, draft.image, target=target).events
        if isinstance(event.step, Multiply)
    )
    for form, operands in islice(multiplications, _MULTIPLICATIONS):
        yield _alone(form, operands)


def _alone(form: MmaForm, operands: Mapping[str, NDArray[Any]]) -> Draft:
    layouts = {"a": form.a_layout, "b": form.b_layout, "c": "row"}
    buffers: list[Buffer] = []
    loads: list[Load] = []
    for operand, layout in layouts.items():
        load = Load(
            form=load_form(form.matrix(operand), layout, "global"),
            fragment=operand,
            place=Place(buffer=operand),
        )
        buffers.append(new_buffer(buffers, operand, tile_of(load)))
        loads.append(load)
    store = Store(
        form=store_form(form.matrix("d"), "row", "global"), fragment="d", place=Place(buffer="d")
    )
    buffers.append(new_buffer(buffers, "d", tile_of(store)))
    multiply = Multiply(form=form, d="d", a="a", b="b", c="c")
    program = Program(buffers=tuple(buffers), steps=(*loads, multiply, store))
    return _filled(program, loads, operands)


def _filled(program: Program, loads: list[Load], operands: Mapping[str, NDArray[Any]]) -> Draft:
    image = np.zeros(program.image_bytes, np.uint8)
    for load in loads:
        values = operands[load.fragment][None]
        write(image[None], program.offset(load.place.buffer), tile_of(load), values)
    return Draft(program=program, image=image)
