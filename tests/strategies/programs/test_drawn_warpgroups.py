"""Drawn programs of a warpgroup: defined, and run as the oracle says; with less in them refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from corpus.programs import decode_program, encode_program
from oracle.bounds.permission import allowed_bytes, permitted
from oracle.execution.execution import execute
from oracle.isa.forms import Form
from oracle.isa.lookup import warpgroup_forms
from oracle.isa.targets import Module
from oracle.program.definedness import undefined
from oracle.program.program import Program
from oracle.program.steps import Barrier, Loop, Step
from oracle.program.warpgroup import AsyncProduct, WarpgroupSync
from runners.emission import emit
from runners.protocol import Ran
from runners.simulated_runner import SimulatedRunner
from strategies.contents import recipes
from strategies.contents.expansion import expand
from strategies.draws import draw_one
from strategies.features import Focus
from strategies.programs import programs

MODULE = Module.named("sm_90a", "8.4")
FORMS = tuple(form for form in warpgroup_forms() if form.is_product and form.shape.n <= 40)
KINDS = {(form.types, form.op, form.satfinite, form.has_metadata): form for form in FORMS}


def drawn(form: Form, key: int) -> Program:
    return draw_one(programs(Focus(form=form), module=MODULE, forms=FORMS), key)


@pytest.mark.parametrize("form", [*KINDS.values()], ids=lambda form: form.opcode)
def test_a_drawn_program_gives_the_oracles_images(form: Form) -> None:
    strategy = st.tuples(programs(Focus(form=form), module=MODULE, forms=FORMS), recipes())
    program, recipe = draw_one(strategy, 7)
    assert undefined(program, target="sm_90a") == ()
    images = expand(recipe, program, 3)
    expected = execute(program, images, target="sm_90a").images
    assert allowed_bytes(permitted(program, images, target="sm_90a"), expected).all()
    with SimulatedRunner("sm_90a") as runner:
        compiled = runner.compile(emit(program, module=MODULE))
        ran = runner.run(compiled, images)  # type: ignore[arg-type]
    assert isinstance(ran, Ran), f"{ran} {ran.detail}"
    assert np.array_equal(ran.images, expected)


def test_drawn_programs_are_defined_and_stored_as_they_are() -> None:
    kinds, deepest = set(), 0
    for key in range(60):
        program = drawn(FORMS[key * 7919 % len(FORMS)], key)
        assert undefined(program, target="sm_90a") == (), key
        assert decode_program(encode_program(program), "a program") == program
        for step in every(program.steps):
            if isinstance(step, AsyncProduct):
                kinds |= {("a", step.a_tile is None), ("e", bool(step.e))}
                kinds |= {(tile.swizzle, tile.transposed) for tile in step.tiles.values()}
            elif isinstance(step, WarpgroupSync) and step.kind == "wait_group":
                deepest = max(deepest, step.pending)
    assert len(kinds) == 4 + 8
    assert deepest >= 3


def every(steps: tuple[Step, ...]) -> Iterator[Step]:
    for step in steps:
        yield step
        for block in step.blocks.values():
            yield from every(block)


def lesser(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """Iterate over steps without one fence, commit, wait or barrier, inside of loops, too."""
    for index, step in enumerate(steps):
        before, behind = steps[:index], steps[index + 1 :]
        if isinstance(step, WarpgroupSync | Barrier):
            yield (*before, *behind)
        elif isinstance(step, Loop):
            yield from (
                (*before, replace(step, body=body), *behind) for body in lesser(step.body) if body
            )


@pytest.mark.parametrize("key", [3, 8])
def test_the_simulated_device_refuses_what_is_undefined_with_one_fence_less(key: int) -> None:
    """Two definitions of what is undefined, written apart: they differ nowhere.

    Loops run as often as they may: words say that, all bits of which are set here.
    """
    program, refused = drawn(FORMS[key * 7919 % len(FORMS)], key), 0
    images = np.full((1, program.image_bytes), 0xFF, np.uint8)
    with SimulatedRunner("sm_90a") as runner:
        for steps in lesser(program.steps):
            other = replace(program, steps=steps)
            compiled = runner.compile(emit(other, module=MODULE))
            ran = runner.run(compiled, images)  # type: ignore[arg-type]
            wrong = undefined(other, target="sm_90a")
            assert isinstance(ran, Ran) == (wrong == ()), f"{ran}: {[*map(str, wrong)]}"
            refused += not isinstance(ran, Ran)
    assert refused > 3
