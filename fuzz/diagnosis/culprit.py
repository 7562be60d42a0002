"""Finds the wrong step by experiment: runs each step by itself on right inputs.

A program that came out wrong is taken apart on the device that ran it. Whatever may go is taken
away, one kind of step at a time; what is left, three loads, a multiplication and a store, is run on
contents that hide one step after the other. A step is to blame if every wrong result needed it, and
no right result did. Where two steps can be told apart by nothing that a program can see, because
the ISA leaves fragments open between them, both are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.experiments import Culprit, ExperimentDevice
from fuzz.diagnosis.lane_code import (
    without_loops,
    wrong_addresses,
    wrong_code,
)
from fuzz.diagnosis.multiplication import wrong_alone
from fuzz.diagnosis.shared_registers import expanded_alike, shared_register_culprits
from fuzz.diagnosis.single_step import (
    ADDRESSES,
    CODE,
    CONTROL,
    name_of,
    wrong_copy,
    wrong_register_step,
)
from oracle.errors import WarpfuzzError
from oracle.forms import Form
from oracle.isa import MMA_FORMS
from oracle.matrices import Matrix
from oracle.operands import Fragment, Use
from oracle.operations import Operation
from oracle.ops import (
    Op,
    loads_fragment,
    multiplies_fragments,
    multiplies_registers,
    stores_fragment,
)
from oracle.places import Buffer, Place
from oracle.program import Program, walk
from oracle.steps import Step, changes_elements, is_lane_code
from oracle.tracing import Event, Trace, trace
from strategies.programs.single_instruction import (
    Access,
    Content,
    SingleProduct,
    apart,
    exact,
    plain_access,
    single_product,
)
from strategies.simplification.examples import edited, visit

_MULTIPLICATIONS = 512
"""Most that are tried by themselves, of a program with loops."""
_IN_COMPANY = "beside other steps only"
_COMPUTED = "multiplicands that scalar code computes"
"""Where a multiplication is right with the same multiplicands, loaded."""
_AROUND = "with a loop of lanes in it"
"""Where branches and loops of the warp are right around lanes that take their loops once."""
_MOST_STEPS = 256
"""Steps of a program that is looked into; loops are longer."""


def culprit_of(
    device: ExperimentDevice, program: Program, image: NDArray[np.uint8]
) -> Culprit | None:
    """Find out which step of a program that comes out wrong is to blame.

    The smaller the program, the more can be said. None where no experiment tells.
    """
    try:
        return _Search(device).culprit(program, image)
    except WarpfuzzError:
        # An experiment cannot be written down, or not be asked of this runner: nothing is known.
        return None


class _Search:
    def __init__(self, device: ExperimentDevice) -> None:
        self._device = device

    def culprit(self, program: Program, image: NDArray[np.uint8]) -> Culprit | None:
        device = self._device
        (found,) = shared_register_culprits(device, program, image[None])
        if found is not None:
            return found
        traced = trace(program, image, target=device.target)
        return (
            wrong_copy(device, program)
            or self._register_steps(program, traced)
            or self._instructions(program, traced)
            or self._elementwise(program, image)
            or self._control(program, image, traced)
            or _wrong_in_company(device, program, image, traced)
        )

    def _register_steps(self, program: Program, traced: Trace) -> Culprit | None:
        """Blame a step on registers, unless the copies that fill its memory are wrong as well."""
        found = wrong_register_step(self._device, program, traced)
        if found is not None and found.instructions == (CODE,):
            return wrong_code(self._device, traced) or found
        if found is not None and found.instructions == (ADDRESSES,):
            return wrong_addresses(self._device, program) or found
        if found is None or found.witness is None:
            return found
        copied = wrong_copy(self._device, found.witness.program)
        if copied is not None:
            return copied
        # Something else may be wrong with the program as well: apart it was no better there.
        shown = found.witness
        shared = shared_register_culprits(self._device, shown.program, shown.images)
        return next((replace(one, witness=shown) for one in shared if one is not None), found)

    def _control(self, program: Program, image: NDArray[np.uint8], traced: Trace) -> Culprit | None:
        """Blame branches and loops if the steps that are taken come out right in a row."""
        controlled = any(step.blocks for step in walk(program.steps))
        if not controlled or self._device.right(program, image):
            return None
        straight = replace(program, steps=tuple(event.step for event in traced.events))
        if not self._device.right(straight, image):
            return None
        plain = {
            site: (replace(step, code=without_loops(step.code)),)
            for site, step in visit(program.steps)
            if is_lane_code(step)
        }
        other = replace(program, steps=edited(program.steps, plain))
        if other == program or not self._device.right(other, image):
            return CONTROL
        return replace(CONTROL, condition=_AROUND)

    def _elementwise(self, program: Program, image: NDArray[np.uint8]) -> Culprit | None:
        """Blame element-wise steps if the program is right once they change nothing."""
        plain = {
            site: (replace(step, operation=Operation.COPY, constant=0),)
            for site, step in visit(program.steps)
            if changes_elements(step)
        }
        other = replace(program, steps=edited(program.steps, plain))
        if other == program or not self._device.right(other, image):
            return None
        if self._device.right(program, image):
            return None
        return Culprit(instructions=(_ELEMENTWISE,))

    def _instructions(self, program: Program, traced: Trace) -> Culprit | None:
        """Blame what is wrong by itself of loads, multiplications and stores."""
        tried: dict[SingleProduct, list[Mapping[str, Content]]] = {}
        for found, contents in islice(_bare(program, traced), _MULTIPLICATIONS):
            tried.setdefault(found, []).append(contents)
        for found, some in tried.items():
            culprit = wrong_alone(self._device, found, some)
            if culprit is not None:
                return culprit
        return None


_ELEMENTWISE = "element-wise operation"


def _accumulating(matrix: Matrix) -> SingleProduct | None:
    """Return a multiplication that has such an accumulator for C and D; None if none has."""
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
                yield (
                    replace(
                        plain, c=apart(program, maker.step, "c"), store=apart(program, step, "d")
                    ),
                    {"a": a, "b": b, "c": event.inputs["fragment"]},
                )


def _maker(traced: Trace, event: Event, name: str) -> Event | None:
    """Return what made what an event read, apart from element-wise steps on the way."""
    maker = traced.maker(event, name)
    while maker is not None and maker.step.changes:
        maker = traced.maker(maker, maker.step.carried)
    return maker


def in_company(culprit: Culprit | None) -> bool:
    """Whether all that is known of steps is that they are wrong beside others.

    Of code of lanes, that no instruction is wrong by itself, and that it is to be made smaller.
    """
    return culprit is not None and (culprit.together or culprit.instructions == (CODE,))


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
    if not all(_shows(device, form) for form in dict.fromkeys(_looking(traced))):
        # What is looked at through a wrong store is wrong, whoever made it.
        return None
    steps: list[Step] = []
    buffers = list(program.buffers)
    looked_at: list[tuple[Event, Buffer]] = []
    for event in traced.events:
        steps.append(event.step)
        if event.step.writes is None:
            continue
        store = _stored(event.step.writes, f"seen{event.number}")
        if store is not None:
            (span,) = store.bytes_written
            buffers.append(Buffer(name=span.buffer, space="global", size=span.end))
            looked_at.append((event, buffers[-1]))
            steps.append(store)
    tried = Program(buffers=tuple(buffers), steps=tuple(steps))
    whole = np.zeros(tried.image_bytes, np.uint8)
    for buffer in program.buffers:
        if buffer.space == "global":
            start, end = program.offset(buffer.name), tried.offset(buffer.name)
            whole[end : end + buffer.size] = image[start : start + buffer.size]
    results = device.results(tried, whole[None])
    if results is None or not results.ran.all():
        return None
    differs = results.actual[0] != results.expected[0]
    for event, buffer in looked_at:
        start = tried.offset(buffer.name)
        if differs[start : start + buffer.size].any():
            return _culprit_in_company(traced, event)
    return None


def _culprit_in_company(traced: Trace, event: Event) -> Culprit:
    step, condition = event.step, _IN_COMPANY
    instructions = _names(step)
    if multiplies_registers(step):
        instructions = (f"{name_of(step)} of {expanded_alike(step.form)}",)
        if any(
            is_lane_code(getattr(traced.maker(event, use.name), "step", None))
            for use in step.reads
            if use.field in ("a", "b")
        ):
            condition = _COMPUTED
    return Culprit(instructions=instructions, condition=condition, together=True)


def _looking(traced: Trace) -> Iterator[Form]:
    for event in traced.events:
        store = None if event.step.writes is None else _stored(event.step.writes, "seen")
        if stores_fragment(store):
            yield store.form


def _shows(device: ExperimentDevice, form: Form) -> bool:
    plain = _accumulating(replace(form.matrix(), operand="c"))
    if plain is None:
        return True
    store = Op.of(form=form, fragment="d", place=Place(buffer="d"))
    return wrong_alone(device, replace(plain, store=store), ()) is None


def _stored(use: Use, name: str) -> Access | None:
    """Return a store of what a step wrote, in a buffer of its own; None of a multiplicand."""
    if isinstance(use.holds, Fragment) and use.holds.matrix.operand != "c":
        return None
    return plain_access(use, Place(buffer=name), store=True)


def _names(step: Step) -> tuple[str, ...]:
    """Name a step, and those before it that nothing shows: loads of A and B."""
    if step.changes:
        return (_ELEMENTWISE,)
    if multiplies_fragments(step):
        return ("wmma.mma", "wmma.load")
    return ("wmma.load.c",) if loads_fragment(step) else (name_of(step),)
