"""Finds the wrong step by experiment: runs each step by itself on right inputs.

What is left of a program, three loads, a multiplication and a store, is run on contents that hide
one step after the other. A step is to blame if every wrong result needed it, and no right result
did. Two steps that no program can tell apart, as fragments are open between them, are both named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.alone import (
    ADDRESSES,
    CONTROL,
    expanded_alike,
    name_of,
    shared_register_culprits,
    wrong_copy,
    wrong_register_step,
)
from fuzz.diagnosis.experiments import CODE, Culprit, ExperimentDevice
from fuzz.diagnosis.fragments import wrong_alone
from fuzz.diagnosis.scalar import wrong_code
from oracle.errors import WarpfuzzError
from oracle.execution.tracing import Event, Trace, trace
from oracle.isa.forms import Matrix
from oracle.isa.lookup import MMA_FORMS
from oracle.program.lane_code import Repeat
from oracle.program.operands import Fragment, Operation, Place
from oracle.program.program import Program, walk
from oracle.program.steps import (
    Op,
    Step,
    changes_elements,
    is_lane_code,
    loads_fragment,
    multiplies_fragments,
    multiplies_registers,
    stores_fragment,
)
from strategies.matrices import (
    Access,
    Content,
    SingleProduct,
    apart,
    buffers_of,
    exact,
    plain_access,
    single_product,
    span_of,
)
from strategies.simplification.examples import Site, edited, visit
from strategies.simplification.lane_code import without

_MULTIPLICATIONS = 512
"""Most that are tried by themselves, of a program with loops."""
_MOST_STEPS = 256
"""Steps of a program that is looked into; loops are longer."""
_ELEMENTWISE = "element-wise operation"


def culprit_of(
    device: ExperimentDevice, program: Program, image: NDArray[np.uint8]
) -> Culprit | None:
    """Find out which step of a program that comes out wrong is to blame.

    The smaller the program, the more can be said. None where no experiment tells.
    """
    try:
        (found,) = shared_register_culprits(device, program, image[None])
        if found is not None:
            return found
        traced = trace(program, image, target=device.target)
        return (
            wrong_copy(device, program)
            or _register_steps(device, program, traced)
            or _instructions(device, program, traced)
            or _otherwise(device, program, image, traced)
            or _wrong_in_company(device, program, image, traced)
        )
    except WarpfuzzError:
        # An experiment cannot be written down, or not be asked of this runner: nothing is known.
        return None


def in_company(culprit: Culprit | None) -> bool:
    """Whether all that is known of steps is that they are wrong beside others.

    Of code of lanes, that no instruction is wrong by itself, and that it is to be made smaller.
    """
    return culprit is not None and (culprit.together or culprit.instructions == (CODE,))


def _register_steps(device: ExperimentDevice, program: Program, traced: Trace) -> Culprit | None:
    """Blame a step on registers, unless the copies that fill its memory are wrong as well."""
    found = wrong_register_step(device, program, traced)
    if found is not None and found.instructions in ((CODE,), (ADDRESSES,)):
        return wrong_code(device, traced) or found
    if found is None or found.witness is None:
        return found
    shown = found.witness
    if (copied := wrong_copy(device, shown.program)) is not None:
        return copied
    # Something else may be wrong with the program as well: apart it was no better there.
    shared = shared_register_culprits(device, shown.program, shown.images)
    return next((replace(one, witness=shown) for one in shared if one is not None), found)


def _instructions(device: ExperimentDevice, program: Program, traced: Trace) -> Culprit | None:
    tried: dict[SingleProduct, list[Mapping[str, Content]]] = {}
    for found, contents in islice(_bare(program, traced), _MULTIPLICATIONS):
        tried.setdefault(found, []).append(contents)
    culprits = (wrong_alone(device, found, some) for found, some in tried.items())
    return next(filter(None, culprits), None)


def _otherwise(
    device: ExperimentDevice, program: Program, image: NDArray[np.uint8], traced: Trace
) -> Culprit | None:
    """Blame what the program is right without: element-wise steps, or branches and loops."""

    def right(steps: tuple[Step, ...]) -> bool:
        return steps != program.steps and device.right(replace(program, steps=steps), image)

    def edits(edits: Mapping[Site, tuple[Step, ...]]) -> tuple[Step, ...]:
        return edited(program.steps, edits)

    plain: dict[Site, tuple[Step, ...]] = {
        site: (replace(step, operation=Operation.COPY, constant=0),)
        for site, step in visit(program.steps)
        if changes_elements(step)
    }
    controlled = any(step.blocks for step in walk(program.steps))
    if not (plain or controlled) or device.right(program, image):
        return None
    if right(edits(plain)):
        return Culprit(instructions=(_ELEMENTWISE,))
    if not controlled or not right(tuple(event.step for event in traced.events)):
        return None
    once: dict[Site, tuple[Step, ...]] = {
        site: (replace(step, code=without(step.code, Repeat)),)
        for site, step in visit(program.steps)
        if is_lane_code(step)
    }
    # Branches and loops of the warp may be right around lanes that take their loops once.
    return replace(CONTROL, condition="with a loop of lanes in it" if right(edits(once)) else "")


def _accumulating(matrix: Matrix) -> SingleProduct | None:
    for form in MMA_FORMS:
        if form.shape == matrix.shape and form.c_type == form.d_type == matrix.type:
            return single_product(form)
    return None


def _bare(program: Program, traced: Trace) -> Iterator[tuple[SingleProduct, Mapping[str, Content]]]:
    """Iterate over the multiplications of a program, and over what is only loaded and stored.

    Each has the loads that are next to it in the program, and one of the stores of its result.
    """
    for event in traced.events:
        step = event.step
        if multiplies_fragments(step):
            base = single_product(step.form)
            loads = {}
            for operand in base.loads:
                maker = _maker(traced, event, step.names[operand])
                if maker is not None and loads_fragment(maker.step):
                    loads[operand] = apart(program, maker.step, operand)
            loaded = base.loading(loads)
            # What one store of a result hides, another may show; a store that the program has not
            # is no part of what is wrong with it.
            alike = [
                (apart(program, other.step, "d"), _maker(traced, other, *other.step.operands))
                for other in traced.events
                if stores_fragment(other.step)
                and other.step.form.matrix() == base.store.form.matrix()
            ]
            own = [store for store, maker in alike if maker is event]
            stores = own or [store for store, _ in alike[:1]]
            for store in dict.fromkeys(stores or [base.store]):
                yield replace(loaded, store=store), event.inputs
        elif stores_fragment(step):
            maker = _maker(traced, event, *step.operands)
            plain = _accumulating(replace(step.form.matrix(), operand="c"))
            if maker is not None and loads_fragment(maker.step) and plain is not None:
                a, b = (exact(plain.form.matrix(operand), 0) for operand in "ab")
                load, store = apart(program, maker.step, "c"), apart(program, step, "d")
                contents = {"a": a, "b": b, "c": event.inputs["fragment"]}
                yield replace(plain, c=load, store=store), contents


def _maker(traced: Trace, event: Event, name: str) -> Event | None:
    """Return what made what an event read, apart from element-wise steps on the way."""
    maker = traced.maker(event, name)
    while maker is not None and maker.step.changes:
        maker = traced.maker(maker, maker.step.carried)
    return maker


def _wrong_in_company(
    device: ExperimentDevice, program: Program, image: NDArray[np.uint8], traced: Trace
) -> Culprit | None:
    """Find out which step is the first that is wrong in a program, beside the others alone.

    What each step makes is stored as soon as it is made, as far as registers can be looked at. None
    where what is stored in between makes the program right, or is right itself, or the stores are
    wrong that look at it.
    """
    if len(traced.events) > _MOST_STEPS:
        return None
    looked_at: list[tuple[Event, Access]] = []
    for event in traced.events:
        made = event.step.writes
        # No store takes a multiplicand.
        if made is None or (isinstance(made.holds, Fragment) and made.holds.matrix.operand != "c"):
            continue
        place = Place(buffer=f"seen{event.number}")
        looked_at.append((event, plain_access(made, place, store=True)))
    stores = [store for _, store in looked_at]
    for form in dict.fromkeys(store.form for store in stores if stores_fragment(store)):
        plain = _accumulating(replace(form.matrix(), operand="c"))
        own = Op.of(form=form, fragment="d", place=Place(buffer="d"))
        # What is looked at through a wrong store is wrong, whoever made it.
        if plain is not None and wrong_alone(device, replace(plain, store=own), ()) is not None:
            return None
    seen: dict[int, tuple[Step, ...]] = {event.number: (store,) for event, store in looked_at}
    tried = Program(
        buffers=(*program.buffers, *buffers_of(stores)),
        steps=tuple(
            one for event in traced.events for one in (event.step, *seen.get(event.number, ()))
        ),
    )
    whole = np.zeros(tried.image_bytes, np.uint8)
    for buffer in program.buffers:
        if buffer.space == "global":
            start, end = program.offset(buffer.name), tried.offset(buffer.name)
            whole[end : end + buffer.size] = image[start : start + buffer.size]
    results = device.results(tried, whole[None])
    if results is None or not results.ran.all():
        return None
    differs = results.actual[0] != results.expected[0]
    for event, store in looked_at:
        start = tried.offset(span_of(store).buffer)
        if differs[start : start + span_of(store).end].any():
            return _culprit_in_company(traced, event)
    return None


def _culprit_in_company(traced: Trace, event: Event) -> Culprit:
    step, condition = event.step, "beside other steps only"
    if step.changes:
        names = [_ELEMENTWISE]
    elif multiplies_fragments(step):
        names = ["wmma.mma", "wmma.load"]
    elif multiplies_registers(step):
        names = [f"{name_of(step)} of {expanded_alike(step.form)}"]
        factors = [use.name for use in step.reads if use.field in ("a", "b")]
        if any(is_lane_code(getattr(traced.maker(event, one), "step", None)) for one in factors):
            # It is right with the same multiplicands, loaded.
            condition = "multiplicands that scalar code computes"
    else:
        names = ["wmma.load.c" if loads_fragment(step) else name_of(step)]
    return Culprit(instructions=tuple(names), condition=condition, together=True)
