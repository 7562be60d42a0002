"""First cases of planted faults, and what can be taken away from a case, by brute force."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from corpus import Kind
from fuzz.findings.verdicts import Subject, attempt
from oracle.execution.execution import execute
from oracle.isa.lookup import FORMS, LDMATRIX_FORMS, MMA_FORMS, is_available
from oracle.isa.targets import Module
from oracle.layouts import Tile, read, write
from oracle.program.definedness import undefined
from oracle.program.operands import Place
from oracle.program.program import Program, position, walk
from oracle.program.steps import Branch, Loop, Step, is_main, loads_fragment
from runners.emission import emit
from runners.faults import Fault
from runners.protocol import Ran, Runner
from runners.simulated_runner import SimulatedRunner
from strategies.contents import expand, recipes
from strategies.draws import derived_seed, draw
from strategies.features import Focus
from strategies.matrices import places_of
from strategies.programs import is_valued, programs

TARGETS = (("sm_90", "8.0"), ("sm_100a", "8.8"))


def runner_and_case(fault: Fault, seed: int, rounds: int) -> tuple[Runner, Subject, Kind] | None:
    """A simulated device with a fault, and a case that fails on it by itself."""
    for target, version in TARGETS:
        runner = SimulatedRunner(target, faults=[fault])
        for subject, kind in failing(fault, runner, target, version, seed, rounds):
            return runner, subject, kind
    return None


def failing(
    fault: Fault, runner: Runner, target: str, version: str, seed: int, rounds: int
) -> Iterator[tuple[Subject, Kind]]:
    module = Module.named(target, version)
    known = [form for form in (*MMA_FORMS, *LDMATRIX_FORMS) if is_available(form, module)]
    others = [form for form in FORMS if is_valued(form, module)]
    touched = (form for form in (*known, *others) if fault.opcodes.search(form.opcode))
    forms = tuple(dict.fromkeys(touched)) or tuple(known)
    drawn = st.lists(
        st.tuples(programs(Focus(), module=Module.named(target, version), forms=forms), recipes()),
        min_size=8,
        max_size=8,
    )
    for index in range(rounds):
        for program, recipe in draw(drawn, 2, derived_seed(seed, fault.name, index))[-1]:
            module = emit(program, module=Module.named(target, version))
            if fault.applies(module.ptx):
                images = expand(recipe, program, 64)
                compiled = runner.compile(module)
                ran = runner.run(compiled, images)
                wrong = np.arange(1)
                if isinstance(ran, Ran):
                    expected = execute(program, images, target=target).images
                    wrong = np.flatnonzero((ran.images != expected).any(axis=1))[:1]
                for chosen in wrong.tolist():
                    subject = Subject(module=module, program=program, image=images[chosen].copy())
                    kind = attempt(runner, subject).kind
                    if kind is not None:
                        yield subject, kind


def elements(program: Program) -> list[tuple[Place, Tile, int, int]]:
    """Every element of a matrix that is loaded from global memory, or copied from there."""
    found = []
    for step in walk(program.steps):
        if loads_fragment(step):
            tile = step.tile
            for place in places_of(program, step.memory.place):
                found += [
                    (place, tile, row, column)
                    for row in range(tile.matrix.rows)
                    for column in range(tile.matrix.columns)
                ]
    return found


def with_zeros(subject: Subject) -> Iterator[Subject]:
    """The same case with one element less that is not zero; without matrices, one byte less."""
    image, program = subject.image, subject.program
    known = elements(program)
    for place, tile, row, column in known:
        values = read(image[None], position(program, place), tile).copy()
        if values[0, row, column] != 0:
            values[0, row, column] = 0
            changed = image.copy()
            write(changed[None], position(program, place), tile, values)
            yield replace(subject, image=changed)
    if not known:
        for byte in np.flatnonzero(image).tolist():
            changed = image.copy()
            changed[byte] = 0
            yield replace(subject, image=changed)


def without_steps(subject: Subject) -> Iterator[Subject]:
    """The same case without one step, or with the steps of a branch or loop in its place.

    Wherever that leaves a program worth running.
    """
    for steps in shorter(subject.program.steps):
        yield from valid(subject, steps, subject.image)


def shorter(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    for index, step in enumerate(steps):
        before, after = steps[:index], steps[index + 1 :]
        yield before + after
        match step:
            case Branch():
                yield (*before, *step.then, *after)
                yield (*before, *step.otherwise, *after)
                for then in shorter(step.then):
                    yield (*before, replace(step, then=then), *after)
                for otherwise in shorter(step.otherwise):
                    yield (*before, replace(step, otherwise=otherwise), *after)
            case Loop():
                yield (*before, *step.body, *after)
                for body in shorter(step.body):
                    yield (*before, replace(step, body=body), *after)


def valid(subject: Subject, steps: tuple[Step, ...], image: np.ndarray) -> Iterator[Subject]:
    module = subject.module
    program = replace(subject.program, steps=steps)
    every = list(walk(steps))
    if (
        any(is_main(step) or step.action == "pack_registers" for step in every)
        and any(step.stores for step in every)
        and not undefined(program, target=module.target)
    ):
        emitted = emit(program, module=Module.named(module.target, module.version))
        yield replace(subject, module=emitted, program=program, image=image)
