"""Drawn programs whose operands share registers: what holds of each, and of less shared ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from drawn_programs import drawn
from numpy.typing import NDArray
from outcomes import left_and_expected

from corpus.programs import decode_program, encode_program
from oracle.bounds.permission import allowed_bytes, permitted
from oracle.errors import UsageError
from oracle.execution.execution import execute
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from oracle.program.definedness import undefined
from oracle.program.operations import copied
from oracle.program.overlaps import overlaps
from oracle.program.program import Program, by_register, fresh_bank, walk
from oracle.program.steps import multiplies
from runners.emission import emit
from runners.faults import by_name
from runners.front_ends.llvm_ir import llvm_ir
from runners.front_ends.protocol import is_named
from runners.simulated_runner import SimulatedRunner
from strategies.contents.plans import readings_of
from strategies.features import FEATURES, WISHED, Feature, Focus, Has
from strategies.programs import is_valued
from strategies.programs.products import SHARING
from strategies.simplification.examples import Example, Site, edited, visit
from strategies.simplification.steps import less_shared

VALUED = [form for form in FORMS if is_valued(form, Module.named("sm_90", "8.0"))]
LISTED = [one for one in SHARING if one not in (Has.MOVED_IN_PLACE, Has.OVER_SCALES)]
"""Those of which some operand is more than a name, of what sm_90 has."""


@cache
def _programs(feature: Feature, count: int = 2) -> list[Program]:
    focus = Focus(features=frozenset({feature}))
    found = drawn(focus, count=2 * count, key=900 + list(FEATURES.values()).index(feature))
    sharing = [program for program in found if _shared(program)]
    assert len(sharing) >= count
    return sharing[:count]


def _shared(program: Program) -> int:
    """Return how many operands are more than names."""
    return sum(by_register(step, use) for step in walk(program.steps) for use in step.uses)


def _images(program: Program) -> NDArray[np.uint8]:
    random = np.random.default_rng(program.image_bytes)
    return random.integers(0, 256, (2, program.image_bytes), dtype=np.uint8)


def with_operand_apart(program: Program, site: Site, field: str) -> Program:
    """Copy what a step reads to registers of its own before it, what it writes from there after."""
    step = next(one for where, one in visit(program.steps) if where == site)
    use = next(one for one in step.uses if one.field == field)
    own = fresh_bank(program, field)
    there = copied(use, own, use.name) if use.written else copied(use, use.name, own)
    changed = step.changed(**{field: own})
    steps = (changed, there) if use.written else (there, changed)
    return replace(program, steps=edited(program.steps, {site: steps}))


@pytest.mark.parametrize("feature", LISTED, ids=str)
def test_an_operand_in_registers_of_its_own_makes_no_difference(feature: Feature) -> None:
    for program in _programs(feature):
        start = _images(program)
        expected = execute(program, start).images
        for site, step in visit(program.steps):
            for use in step.uses if overlaps(step, program.shared_banks) else ():
                if step.address is None:
                    apart = with_operand_apart(program, site, use.field)
                    assert not undefined(apart), f"{use.field} of {step}"
                    np.testing.assert_array_equal(execute(apart, start).images, expected)


@pytest.mark.parametrize("feature", LISTED, ids=str)
def test_a_program_is_read_as_it_was_written_judged_and_not_said_without_registers(
    feature: Feature,
) -> None:
    for program in _programs(feature):
        assert decode_program(encode_program(program), "program.json") == program
        readings_of(program)
        start = _images(program)
        assert allowed_bytes(permitted(program, start), execute(program, start).images).all()
    with pytest.raises(UsageError, match="only PTX can"):
        llvm_ir(emit(program, module=Module.named("sm_90", "8.0")), llvm=20)


@pytest.mark.parametrize("feature", LISTED, ids=str)
def test_shrinking_ends_in_a_program_that_shares_nothing(feature: Feature) -> None:
    for program in _programs(feature):
        example = Example(program=program, image=_images(program)[0])
        for _ in range(200):
            simpler = [one for one in less_shared(example) if not undefined(one.program)]
            if not simpler:
                break
            assert all(_measure(one.program) < _measure(example.program) for one in simpler)
            example = simpler[0]
        assert not any(
            multiplies(step) and any("." in use.name for use in step.uses)
            for step in walk(example.program.steps)
        )


def _measure(program: Program) -> int:
    constants = sum(
        bool(step.constant) for step in walk(program.steps) if step.action == "set_registers"
    )
    return 2 * _shared(program) + constants


def test_a_program_has_nothing_that_only_ptx_says_where_a_language_has_no_registers() -> None:
    for index, feature in enumerate((None, *filter(is_wished, FEATURES.values()))):
        asked = frozenset({feature} if feature else ())
        focus = Focus(features=asked, shares_registers=False)
        assert all(map(is_named, drawn(focus, count=1, key=60 + index))), feature


def is_wished(feature: Feature) -> bool:
    return feature.dimension in WISHED and feature is not Has.LANES_ALONE


def test_every_multiplication_that_can_shares_registers_where_that_is_asked_for() -> None:
    programs = drawn(Focus(shares_registers=True), count=24, key=41)
    products = [step for program in programs for step in walk(program.steps) if multiplies(step)]
    assert len(products) > 24
    assert all(any("." in use.name for use in step.uses) for step in products)


@pytest.mark.parametrize("fault", ["mma-written-before-read", "lanes-written-before-read"])
def test_an_expansion_that_writes_too_early_is_seen(fault: str) -> None:
    mnemonic = "wmma.mma" if fault.startswith("mma") else "mma"
    forms = tuple(form for form in VALUED if form.mnemonic == mnemonic)
    random = np.random.default_rng(3)
    with SimulatedRunner("sm_90", faults=[by_name(fault)]) as runner:
        for feature in (Has.C_ORDER, Has.AMONG_MULTIPLICANDS):
            seen = 0
            for index, form in enumerate(forms[:: len(forms) // 4]):
                focus = Focus(form=form, features=frozenset({feature}))
                (program,) = drawn(focus, count=1, key=50 + index)
                images = random.integers(0, 256, (4, program.image_bytes), dtype=np.uint8)
                seen += not np.array_equal(*left_and_expected(runner, program, images))
            assert seen >= 2
