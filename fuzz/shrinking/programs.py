"""Making a program smaller: one kind of change after the other, until none is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.findings.tracing import trace
from fuzz.shrinking.accesses import (
    plain_all,
    plain_one,
    plainer_accesses,
    plainer_transfers,
    row_major,
)
from fuzz.shrinking.draft import Draft, visit
from fuzz.shrinking.structure import drops, trims, unwraps
from fuzz.shrinking.tiles import new_buffer, tile_of
from fuzz.shrinking.trials import Trials
from oracle.forms import MmaForm
from oracle.places import Buffer, Place
from oracle.program import Program
from oracle.steps import Load, Multiply, Store
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


Reduction = Callable[[Draft], Iterator[Draft]]
"""Smaller drafts in place of one, the most promising first."""

_SINGLE: tuple[Reduction, ...] = (
    plain_all,
    partial(drops, size=1),
    unwraps,
    plain_one,
    row_major,
    plainer_accesses,
    plainer_transfers,
    trims,
)
_COMPILED = 16
"""Most programs of one module; what follows a success is compiled in vain."""


def shrink_program(trials: Trials) -> bool:
    """Make the program of the smallest draft smaller until no single change does.

    In the end no step can go, and no stride, offset, layout or state space can become the
    default. Every change takes away a step, something that is not the default, or bytes.

    Returns
    -------
    bool
        Whether anything was changed.

    Raises
    ------
    OutOfTimeError
        If the time is over; the smallest draft is what was reached.
    """
    before = trials.best
    alone: Reduction = partial(isolated, target=trials.target)
    _reduce(trials, alone)
    _reduce(trials, plain_all)
    size = sum(1 for _ in visit(trials.best.program.steps)) // 2
    while size > 1:
        _reduce(trials, partial(drops, size=size))
        size //= 2
    while True:
        at, apart = trials.best, trials.apart
        for reduction in (alone, *_SINGLE):
            _reduce(trials, reduction)
        if trials.best is at and trials.apart is apart:
            return trials.best is not before


def _reduce(trials: Trials, reduction: Reduction) -> None:
    """Make one kind of change as long as the failure stays."""
    begin = 0
    while True:
        drafts = _candidates(trials, reduction)
        # What stands before the last success did not do then; it comes last.
        order = [*range(min(begin, len(drafts)), len(drafts)), *range(min(begin, len(drafts)))]
        taken = _first(trials, [drafts[index] for index in order])
        if taken is None:
            return
        begin = order[taken]


def _candidates(trials: Trials, reduction: Reduction) -> list[Draft]:
    """Return the drafts of a reduction that may take the smallest one's place, each once."""
    found: dict[object, Draft] = {}
    for draft in reduction(trials.best):
        if draft.program != trials.best.program:
            found.setdefault(draft.key, draft)
    return [draft for draft in found.values() if trials.allows(draft.program)]


def _first(trials: Trials, drafts: list[Draft]) -> int | None:
    """Take the first draft that fails and return its number, None if none does."""
    start, size = 0, 1
    while start < len(drafts):
        part = drafts[start : start + size]
        for index, fails in enumerate(trials.fail(part), start=start):
            if fails and trials.take(drafts[index]):
                return index
        start += len(part)
        size = min(2 * size, _COMPILED)
    return None
