"""Which step is wrong only beside the others: none is by itself, and the program comes out wrong.

What each step makes is stored as soon as it is made, as far as registers can be looked at; the
first that is wrong is to blame.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fuzz.findings.experiments import Bench, Culprit
from fuzz.findings.lanes import NAMES
from oracle.held import Fragment, Registers, Use
from oracle.lane_steps import LaneStep, StoreRegisters
from oracle.places import Buffer, Place
from oracle.program import Program
from oracle.steps import Elementwise, Load, Multiply, Step, Store
from oracle.tracing import Trace
from strategies.programs.forms import store_form

_CONDITION = "beside other steps only"
_MOST_STEPS = 256
"""Steps of a program that is looked into; loops are longer."""


def wrong_in_company(
    bench: Bench, program: Program, image: NDArray[np.uint8], traced: Trace
) -> Culprit | None:
    """Find out which step is the first that is wrong in a program.

    Parameters
    ----------
    bench
        Where the program comes out wrong, and no step does by itself.
    program, image
        What does.
    traced
        Its steps, in the order in which they are taken.

    Returns
    -------
    Culprit or None
        None where what is stored in between makes the program right, or is right itself.
    """
    if len(traced.events) > _MOST_STEPS:
        return None
    steps: list[Step] = []
    buffers = list(program.buffers)
    looked_at: list[tuple[Step, Buffer]] = []
    for event in traced.events:
        steps.append(event.step)
        if event.step.writes is None:
            continue
        store = _stored(event.step.writes, f"seen{event.number}")
        if store is not None:
            (span,) = store.bytes_written
            buffers.append(Buffer(name=store.place.buffer, space="global", size=span.end))
            looked_at.append((event.step, buffers[-1]))
            steps.append(store)
    tried = Program(buffers=tuple(buffers), steps=tuple(steps))
    whole = np.zeros(tried.image_bytes, np.uint8)
    for buffer in program.buffers:
        if buffer.space == "global":
            start, end = program.offset(buffer.name), tried.offset(buffer.name)
            whole[end : end + buffer.size] = image[start : start + buffer.size]
    results = bench.results(tried, whole[None])
    if results is None or not results.ran.all():
        return None
    differs = results.actual[0] != results.expected[0]
    for step, buffer in looked_at:
        start = tried.offset(buffer.name)
        if differs[start : start + buffer.size].any():
            return Culprit(
                steps=_names(step), condition=_CONDITION, form=getattr(step, "form", None)
            )
    return None


def _stored(use: Use, name: str) -> Store | StoreRegisters | None:
    """Return a store of what a step wrote, in a buffer of its own; None of a multiplicand."""
    holds, place = use.holds, Place(buffer=name)
    if isinstance(holds, Registers):
        return StoreRegisters(
            registers=use.name, count=holds.registers, bits=holds.bits, place=place
        )
    assert isinstance(holds, Fragment)
    if holds.matrix.operand != "c":
        return None
    form = store_form(replace(holds.matrix, operand="d"), "row", "global")
    return Store(form=form, fragment=use.name, place=place)


def _names(step: Step) -> tuple[str, ...]:
    """Name a step, and those before it that nothing shows: loads of A and B."""
    match step:
        case Multiply():
            return ("wmma.mma", "wmma.load")
        case Load():
            return ("wmma.load.c",)
        case Elementwise():
            return ("element-wise operation",)
        case _:
            assert isinstance(step, LaneStep)
            return (NAMES[type(step)],)
