"""Experiments on programs of a warpgroup: which multiplication is wrong, and whether in flight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.experiments import ExperimentDevice
from oracle.execution.tracing import trace
from oracle.isa.forms import Form
from oracle.program.operands import Buffer, Place
from oracle.program.program import Program
from oracle.program.steps import Step, plain_store
from oracle.program.warpgroup import THREADS, AsyncProduct, WarpgroupSync
from strategies.simplification.examples import Edits, edited, visit

IN_FLIGHT = "in flight beside other steps"
"""Where a program is right with a wait behind each multiplication, or behind all but one."""
_MOST = 64  # multiplications whose results are looked at
_ENDED = tuple(WarpgroupSync(kind=kind) for kind in ("commit_group", "wait_group", "fence"))


def wrong_multiplication(
    device: ExperimentDevice, program: Program, image: NDArray[np.uint8]
) -> tuple[Form, str] | None:
    """Return the form that is wrong, and the condition without which it is right, if one is known.

    Raises UsageError if an experiment cannot be written down.
    """
    ended: Edits = {
        site: (step, *_ENDED)
        for site, step in visit(program.steps)
        if isinstance(step, AsyncProduct)
    }

    def right(edits: Edits) -> bool:
        return device.all_right(replace(program, steps=edited(program.steps, edits)), image[None])

    forms = [step.form for step, *_ in ended.values() if isinstance(step, AsyncProduct)]
    if right(ended):
        # The first that has to be in flight, if it takes no more than one.
        for form, site in zip(forms, ended, strict=True):
            if not right({other: steps for other, steps in ended.items() if other != site}):
                return form, IN_FLIGHT
        return forms[-1], IN_FLIGHT
    wrong = _first_wrong(device, program, image)
    return None if wrong is None else (wrong, "")


def _first_wrong(
    device: ExperimentDevice, program: Program, image: NDArray[np.uint8]
) -> Form | None:
    """Return the first multiplication, one after another, whose D is wrong right behind it."""
    taken = [event.step for event in trace(program, image, target=device.target).events]
    steps, buffers = list[Step](), list[Buffer]()
    for step in taken:
        steps.append(step)
        if isinstance(step, AsyncProduct) and len(buffers) < _MOST:
            count, name = step.form.words("d"), f"seen{len(buffers)}"
            buffers.append(Buffer(name=name, space="global", size=4 * THREADS * count))
            place = Place(buffer=name)
            store = plain_store(registers=step.d, count=count, place=place, lanes=THREADS)
            commit, wait, fence = _ENDED
            steps += [commit, wait, store, fence]
    tried = replace(program, buffers=(*program.buffers, *buffers), steps=tuple(steps))
    whole = np.zeros((1, tried.image_bytes), np.uint8)
    whole[0, : len(image)] = image
    results = device.results(tried, whole)
    if results is None or not results.ran.all():
        return None
    return _form_at(taken, tried, buffers, (results.actual != results.expected)[0])


def _form_at(
    taken: Sequence[Step], program: Program, buffers: Sequence[Buffer], differs: NDArray[np.bool_]
) -> Form | None:
    products = [step for step in taken if isinstance(step, AsyncProduct)]
    for step, buffer in zip(products, buffers, strict=False):
        start = program.offset(buffer.name)
        if differs[start : start + buffer.size].any():
            return step.form
    return None
