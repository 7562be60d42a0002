"""Experiments on programs of a warpgroup: what has to stand beside a multiplication to be wrong.

A program is written anew without one thing at a time. That without which it is right names it, so
that the shapes and types of multiplications, of which compilers know little, do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.experiments import Culprit, ExperimentDevice, name_of_form, unit_of
from oracle.execution.tracing import trace
from oracle.isa.forms import Form
from oracle.program.lane_code import Assign, LaneCode
from oracle.program.operands import Buffer, Place, Register, text_of
from oracle.program.operations import set_registers
from oracle.program.program import Program
from oracle.program.steps import OneWarp, Step, is_lane_code, plain_load, plain_store
from oracle.program.warpgroup import THREADS, AsyncProduct, WarpgroupSync
from runners.protocol import Images
from strategies.simplification.examples import Edits, Site, edited, visit

IN_FLIGHT = "in flight beside other steps"
"""Where a program is right with a wait behind each multiplication."""
OF_REGISTERS = "in flight with a in registers"
"""Where it is right with a wait behind each of those whose A is in registers."""
OF_TWINS = "in flight with a in registers, whose value is computed twice"
"""Where it is right, too, if nothing else is the value that A has: compilers made one register of
both, which is written while it is still read (ptxas 12.4 to 13.2, 2026-11-28)."""
BEHIND_READS = "behind scalar code that reads its d"
"""Where it is right if what code makes of registers of a D is stored where it stands: compilers
computed it behind the multiplication that overwrites them (ptxas 12.4 to 13.5, 2026-11-29)."""
SHARED_A = "with a in registers that scalar code reads"
"""Where it is right if the multiplications have a copy of such an A: compilers had code take what
the registers have later on (ptxas 13.3 to 13.5, 2026-11-29)."""
BEHIND_CODE = "behind scalar code"
_WAITED_FOR = (OF_TWINS, OF_REGISTERS, IN_FLIGHT)  # conditions that a wait behind one may cure
_WORDS = 4  # registers of A
_ZERO = "zero"  # registers that are 0, as no compiler knows
_MOST = 64  # multiplications whose results are looked at
_ENDED = tuple(WarpgroupSync(kind=kind) for kind in ("commit_group", "wait_group", "fence"))


@dataclass(frozen=True, kw_only=True)
class _Trials:
    """A program that is wrong, without one thing or another."""

    device: ExperimentDevice
    program: Program
    image: NDArray[np.uint8]  # (image_bytes,)

    @cached_property
    def products(self) -> Mapping[Site, AsyncProduct]:
        """Multiplications by where they stand."""
        steps = visit(self.program.steps)
        return {site: step for site, step in steps if isinstance(step, AsyncProduct)}

    @cached_property
    def code(self) -> Mapping[Site, LaneCode]:
        """Scalar code of all four warps by where it stands."""
        steps = [*visit(self.program.steps)]
        alone = {site for site, step in steps if isinstance(step, OneWarp)}
        return {
            site: step
            for site, step in steps
            if is_lane_code(step) and alone.isdisjoint(site[:end] for end in range(len(site)))
        }

    def without(self, edits: Edits, kept: Sequence[LaneCode] = ()) -> Program:
        """Return the program with other steps, and what some code makes stored where it stands."""
        buffers, edits = list(self.program.buffers), dict(edits)
        for site, step in self.code.items():
            if step in kept and site not in edits:
                name, count = f"kept{len(buffers)}", len(step.results)
                buffers.append(Buffer(name=name, space="global", size=4 * THREADS * count))
                place = Place(buffer=name)
                store = plain_store(
                    registers=step.destination, count=count, place=place, lanes=THREADS
                )
                edits[site] = (step, store)
        return replace(
            self.program, buffers=tuple(buffers), steps=edited(self.program.steps, edits)
        )

    def ended(self, which: Callable[[AsyncProduct], bool] = lambda _: True) -> Edits:
        """Return what puts a wait for all of it behind some multiplications."""
        return {site: (one, *_ENDED) for site, one in self.products.items() if which(one)}

    def apart(self) -> Program:
        """Return the program with registers of its own for each A that scalar code reads as well.

        They get the exclusive or with zeros that are loaded: no compiler sees that it is a copy.
        """
        read = {
            one.bank for code in self.code.values() for use in code.reads for one in use.registers
        }
        shared = (read & _banks(self, "a")) - _banks(self, "d")
        edits = dict[Site, tuple[Step, ...]]()
        for site, step in visit(self.program.steps):
            for use in step.uses:
                if isinstance(step, AsyncProduct) and use.field == "a" and use.bank in shared:
                    edits[site] = (replace(step, a=_apart(use.registers)),)
                elif use.written and use.bank in shared:
                    edits[site] = (step, _copied(use.registers))
        buffer = Buffer(name="zeros", space="global", size=4 * THREADS * _WORDS)
        place = Place(buffer=buffer.name)
        load = plain_load(registers=_ZERO, count=_WORDS, place=place, lanes=THREADS)
        return replace(
            self.program, buffers=(*self.program.buffers, buffer),
            steps=(load, *edited(self.program.steps, edits)),
        ) if edits else self.program  # fmt: skip

    def right(self, *programs: Program) -> list[bool]:
        """Run programs, which begin with the buffers of this one; tell which come out right."""
        tried = [(one, _widened(self.image, one)) for one in programs]
        found = self.device.results_of(tried)
        return [one is not None and not one.wrong.any() for one in found]


def _apart(registers: Iterable[Register]) -> str:
    return text_of(one._replace(bank=f"{one.bank}apart") for one in registers)


def _copied(registers: Sequence[Register]) -> LaneCode:
    """Return what copies up to four registers, exclusive or zeros."""
    count = len(registers)
    made = [f"r{2 * count + at}" for at in range(count)]
    code = tuple(
        Assign(opcode="xor.b32", destinations=(one,), sources=(f"r{at}", f"r{count + at}"))
        for at, one in enumerate(made)
    )
    zeros = " ".join(f"{_ZERO}.{at}" for at in range(count))
    return LaneCode(
        source=f"{text_of(registers)} {zeros}", count=2 * count, code=code,
        destination=f"{registers[0].bank}apart", results=tuple(made),
    )  # fmt: skip


def _widened(image: NDArray[np.uint8], program: Program) -> Images:
    """Return the image of a program that has more buffers behind, uint8 (1, image_bytes)."""
    whole = np.zeros((1, program.image_bytes), np.uint8)
    whole[0, : len(image)] = image
    return whole


def wrong_multiplication(
    device: ExperimentDevice, program: Program, image: NDArray[np.uint8]
) -> Culprit | None:
    """Return what is wrong with a program of a warpgroup; None where no experiment tells.

    Raises UsageError if an experiment cannot be written down.
    """
    trials = _Trials(device=device, program=program, image=image)
    accumulators = _banks(trials, "d")
    of_d = [
        step
        for step in trials.code.values()
        if any(one.bank in accumulators for use in step.reads for one in use.registers)
    ]
    every, in_registers = trials.ended(), trials.ended(lambda one: bool(one.a))
    ways: list[tuple[str, Program]] = [
        (OF_TWINS, trials.without(dict(_other_values(trials)))),
        (OF_REGISTERS, trials.without(in_registers)),
        (IN_FLIGHT, trials.without(every)),
        (BEHIND_READS, trials.without({}, of_d)),
        (BEHIND_READS, trials.without(every, of_d)),
        (SHARED_A, trials.apart()),
        (BEHIND_CODE, trials.without(every, [*trials.code.values()])),
    ]
    ways = [(name, one) for name, one in ways if one != program]
    is_right, *cured = trials.right(program, *(one for _, one in ways))
    if is_right:
        return None
    found = {name for (name, _), cure in zip(ways, cured, strict=True) if cure}
    if OF_TWINS in found and OF_REGISTERS not in found:
        found.remove(OF_TWINS)
    condition = next((name for name, _ in ways if name in found), "")
    if condition:
        which = _which(trials, every) if condition in _WAITED_FOR else ""
        form = next(iter(trials.products.values())).form
        return Culprit(instructions=(_name(form),), condition=condition, which=which)
    wrong = _first_wrong(trials)
    if wrong is None:
        return None
    return Culprit(instructions=(f"{_name(wrong)} of {unit_of(wrong)}",))


def _name(form: Form) -> str:
    return name_of_form(form).removesuffix(".sp")


def _banks(trials: _Trials, field: str) -> set[str]:
    """Return the banks of registers of an operand of the multiplications."""
    uses = (use for step in trials.products.values() for use in step.uses if use.field == field)
    return {register.bank for use in uses for register in use.registers}


def _other_values(trials: _Trials) -> Iterator[tuple[Site, tuple[Step, ...]]]:
    """Yield steps in place of code that makes a value of A for something else."""
    made_for = _banks(trials, "a")
    values = {_value(one) for one in trials.code.values() if one.destination in made_for}
    for site, step in trials.code.items():
        if step.destination not in made_for and _value(step) in values:
            count = len(step.results)
            yield site, (set_registers(destination=step.destination, count=count, constant=1),)


def _value(step: LaneCode) -> LaneCode:
    return replace(step, destination="a")


def _which(trials: _Trials, which: Edits) -> str:
    """Say which multiplication has to be in flight; "" if it takes several."""
    products = trials.products
    alone = [trials.without({site: which[site]}) for site in which]
    for site, cured in zip(which, trials.right(*alone), strict=True):
        if cured:
            number = [*products].index(site) + 1
            return f"{products[site].form.opcode}, multiplication {number} of {len(products)}"
    return ""


def _first_wrong(trials: _Trials) -> Form | None:
    """Return the first multiplication, one after another, whose D is wrong right behind it."""
    device, program = trials.device, trials.program
    taken = [event.step for event in trace(program, trials.image, target=device.target).events]
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
    results = device.results(tried, _widened(trials.image, tried))
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
