"""What is loaded in the place of a step has the values that the step gave in its program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import Phase, assume, given, settings
from shrinking_cases import LANE_PROGRAMS, TARGET, WANTED, subjects, verdicts_of

from fuzz.findings.verdicts import Subject
from fuzz.shrinking import shrink
from oracle.execution.execution import execute
from oracle.program.definedness import undefined
from oracle.program.program import walk
from oracle.program.steps import PlainAccess, Step, is_plain_load, multiplies_registers, stores_rows
from strategies.simplification.examples import Example
from strategies.simplification.steps import loaded


@settings(max_examples=12)
@given(subjects(LANE_PROGRAMS) | subjects())
def test_what_is_stored_is_the_same_with_operands_loaded_instead_of_made(subject: Subject) -> None:
    program = subject.program
    before = execute(program, subject.image[None], target=TARGET).images[0]
    for example in loaded(Example(program=program, image=subject.image), target=TARGET):
        smaller = example.program
        if undefined(smaller, target=TARGET) or any(step.blocks for step in walk(program.steps)):
            continue
        after = execute(smaller, example.image[None], target=TARGET).images[0]
        for step in smaller.steps:
            if not step.stores or stores_rows(step):
                continue
            (span,) = step.bytes_written
            if smaller.buffer(span.buffer).space != "shared":
                old, new = program.offset(span.buffer), smaller.offset(span.buffer)
                assert np.array_equal(before[old + span.offsets], after[new + span.offsets])


@settings(max_examples=6, phases=[Phase.generate])
@given(subjects(LANE_PROGRAMS))
def test_of_a_multiplication_of_registers_its_loads_and_a_store_are_left(subject: Subject) -> None:
    def stored(name: str, steps: Sequence[Step]) -> bool:
        """Whether it is, before anything else is loaded under this name."""
        for step in steps:
            if step.stores and step.names.get("registers") == name:
                return True
            if step.writes is not None and step.writes.name == name:
                return False
        return False

    def fails(candidate: Subject) -> bool:
        steps = list(walk(candidate.program.steps))
        return any(
            multiplies_registers(step) and stored(step.names["d"], steps[index + 1 :])
            for index, step in enumerate(steps)
        )

    assume(fails(subject))
    got = shrink(subject, verdicts_of(fails), wanted=WANTED, seconds=600)
    *loads, multiply, store = walk(got.subject.program.steps)
    assert len(loads) <= 3
    assert all(map(is_plain_load, loads))
    assert multiplies_registers(multiply)
    assert isinstance(store, PlainAccess)
    assert store.stores
