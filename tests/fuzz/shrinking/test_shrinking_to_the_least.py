"""Artificial failures whose smallest case is known: exactly that is what is left."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from shrinking_cases import (
    PROGRAMS,
    TARGET,
    WANTED,
    loaded,
    subject_of,
    subjects,
    values,
    verdicts_of,
)

from corpus import ShrinkStatus
from fuzz.findings.verdicts import Subject
from fuzz.shrinking import shrink
from oracle.isa.forms import FormatKind
from oracle.isa.lookup import FORMS, warpgroup_forms
from oracle.isa.targets import Module
from oracle.program.definedness import undefined
from oracle.program.program import Program, walk
from oracle.program.steps import Step, accesses_matrix
from oracle.program.warpgroup import AsyncProduct
from runners.emission import emit
from strategies.contents import expand, recipes
from strategies.draws import draw_one
from strategies.features import Focus
from strategies.programs import programs
from strategies.simplification.values import complexity

PLACED = [form for form in FORMS if form.has_metadata][::7]
SECONDS = 600.0
"""Far more than any case takes: a busy machine must not end a search."""


def kind(step: Step) -> str:
    name = step.instruction.mnemonic if step.instruction else type(step).__name__
    return f"{name} that stores" if step.stores else name


def kinds(program: Program) -> list[str]:
    return [kind(step) for step in walk(program.steps)]


def is_plain(step: Step) -> bool:
    if not accesses_matrix(step):
        return True
    return (
        step.memory.stride is None
        and step.memory.immediate == 0
        and step.memory.place.offset == 0
        and step.form.space == "global"
        and (step.form.layout == "row" or step.form.matrix().operand in "ab")
    )


@settings(max_examples=3, phases=[Phase.generate])
@given(subjects(), st.sampled_from("abc"), st.data())
def test_one_element_that_is_not_zero_is_left_as_one_in_the_plainest_program(
    subject: Subject, operand: str, data: st.DataObject
) -> None:
    matrix = loaded(subject.program, operand)[0].tile.matrix
    row = data.draw(st.integers(0, matrix.rows - 1))
    column = data.draw(st.integers(0, matrix.columns - 1))

    def fails(candidate: Subject) -> bool:
        return any(
            placed.tile.matrix == matrix and values(candidate, placed)[row, column] != 0
            for placed in loaded(candidate.program, operand)
        )

    assume(fails(subject))
    got = shrink(subject, verdicts_of(fails), wanted=WANTED, seconds=SECONDS)
    program = got.subject.program
    assert got.status is ShrinkStatus.COMPLETE
    assert fails(got.subject)
    assert complexity(program, got.subject.image) == 1
    (left,) = {int(v) for p in loaded(program, operand) for v in values(got.subject, p).flat} - {0}
    type_ = matrix.type
    if type_.kind is FormatKind.FLOAT:
        assert left == type_.bias << (type_.bits - 1 - type_.exponent_bits)
    else:
        assert left in (1, -1)
    # Of several products the one that is left need not be the one whose element it was.
    counts = Counter(kinds(program))
    assert counts.pop("wmma.load") in (3, 4)
    # Registers of zeros that are C stay: nothing puts a loaded C in their place.
    zeros = [step for step in walk(program.steps) if step.sets is not None]
    assert counts.pop("Scalar", 0) == len(zeros) <= 1
    assert counts == {"wmma.mma": 1, "wmma.store that stores": 1}
    assert all(is_plain(step) for step in walk(program.steps))
    assert len(program.buffers) in (4, 5)


@settings(max_examples=2, phases=[Phase.generate])
@given(subjects(PROGRAMS), st.data())
def test_of_steps_only_the_one_that_matters_and_what_it_needs_are_left(
    subject: Subject, data: st.DataObject
) -> None:
    steps = list(walk(subject.program.steps))
    wanted = kind(data.draw(st.sampled_from(steps)))

    def fails(candidate: Subject) -> bool:
        return wanted in kinds(candidate.program)

    got = shrink(subject, verdicts_of(fails), wanted=WANTED, seconds=SECONDS)
    program = got.subject.program
    assert got.status is ShrinkStatus.COMPLETE
    assert wanted in kinds(program)
    assert not undefined(program, target=TARGET)
    assert not got.subject.image.any()
    for index in range(len(program.steps)):
        steps = program.steps[:index] + program.steps[index + 1 :]
        fewer = {kind(step) for step in walk(steps)}
        assert (
            wanted not in fewer
            or not fewer & {"wmma.mma", "ldmatrix"}
            or not fewer & {"wmma.store that stores", "PlainAccess that stores"}
            or undefined(Program(buffers=program.buffers, steps=steps), target=TARGET)
        )


@settings(max_examples=3, phases=[Phase.generate])
@given(subjects())
def test_a_stride_that_matters_stays_and_everything_else_becomes_plain(subject: Subject) -> None:
    def strided(program: Program) -> list[Step]:
        return [
            s for s in walk(program.steps) if accesses_matrix(s) and s.memory.stride is not None
        ]

    assume(strided(subject.program))
    got = shrink(
        subject, verdicts_of(lambda one: bool(strided(one.program))), wanted=WANTED, seconds=SECONDS
    )
    assert got.status is ShrinkStatus.COMPLETE
    (kept,) = strided(got.subject.program)
    assert accesses_matrix(kept)
    memory = kept.memory
    assert (memory.stride_in_register, memory.immediate, memory.place.offset) == (False, 0, 0)
    assert all(is_plain(step) for step in walk(got.subject.program.steps) if step is not kept)
    assert kinds(got.subject.program).count("wmma.mma") == 1


@settings(max_examples=3, phases=[Phase.generate])
@given(subjects(), st.data())
def test_a_value_keeps_the_bits_that_matter_and_no_others(
    subject: Subject, data: st.DataObject
) -> None:
    (placed, *_) = loaded(subject.program, "c")
    matrix = placed.tile.matrix
    fraction = matrix.type.fraction_bits or matrix.type.bits - 1
    bits = data.draw(st.integers(1, (1 << fraction) - 1))
    image = subject.image.copy()
    raw = np.dtype(matrix.type.raw)
    unsigned = np.dtype(f"u{raw.itemsize}")

    def fails(candidate: Subject) -> bool:
        found = [p for p in loaded(candidate.program, "c") if p.tile.matrix == matrix]
        return any(
            (
                np.ascontiguousarray(values(candidate, p)).view(unsigned) & unsigned.type(bits)
                == bits
            ).any()
            for p in found
        )

    start = subject.program.offset(placed.place.buffer) + placed.place.offset
    image[start : start + raw.itemsize] |= np.frombuffer(
        bits.to_bytes(raw.itemsize, "little"), np.uint8
    )
    got = shrink(
        subject_of(subject.program, image), verdicts_of(fails), wanted=WANTED, seconds=SECONDS
    )
    assert got.status is ShrinkStatus.COMPLETE
    assert complexity(got.subject.program, got.subject.image) == 1
    found = [p for p in loaded(got.subject.program, "c") if p.tile.matrix == matrix]
    raws = [np.ascontiguousarray(values(got.subject, p)).view(unsigned).ravel() for p in found]
    (left,) = set(np.concatenate(raws).tolist()) - {0}
    assert left & ((1 << fraction) - 1) == bits


@pytest.mark.parametrize("key", [3, 8, 21])
def test_a_program_of_a_warpgroup_is_left_with_one_narrow_product(key: int) -> None:
    module, forms = Module.named("sm_90a", "8.4"), warpgroup_forms()[::7]
    products = tuple(form for form in forms if form.is_product)
    focus = Focus(form=products[key * 31 % len(products)])
    program, recipe = draw_one(
        st.tuples(programs(focus, module=module, forms=products), recipes()), key
    )
    image = expand(recipe, program, 1)[0]
    subject = Subject(module=emit(program, module=module), program=program, image=image)

    def multiplied(subject: Subject) -> list[int]:
        steps = walk(subject.program.steps)
        return [step.form.shape.n for step in steps if isinstance(step, AsyncProduct)]

    found = shrink(subject, verdicts_of(lambda one: bool(multiplied(one))), wanted=WANTED)
    assert found.status is ShrinkStatus.COMPLETE
    assert multiplied(found.subject) == [8]
    assert sum(1 for _ in walk(found.subject.program.steps)) <= 12
