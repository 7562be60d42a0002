"""Narrow floats and scaled blocks on the simulated sm_120a: every form, whole images."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.bounds.permission import allowed_bytes, permitted
from oracle.execution.execution import execute
from oracle.isa.forms import Form
from oracle.isa.lookup import NARROW_FORMS, selectors_of
from oracle.isa.targets import Module
from oracle.program.program import Program
from oracle.program.steps import product_of
from runners.emission import emit_all
from runners.protocol import Compiled, Ran
from runners.simulated_runner import SimulatedRunner
from strategies.contents import Recipe, ValueClass, expand
from strategies.matrices import buffers_of, single_instruction

TARGET = "sm_120a"
_IMAGES = 40
_RECIPE = Recipe(classes=tuple(ValueClass), seed=54)


def programs(form: Form) -> dict[str, Program]:
    """Return programs of one multiplication each, with all selectors, or some that name all."""
    made = {}
    for selector in [*selectors_of(form)][:: 21 if form.is_scaled else 1] or [None]:
        step = product_of(form)
        steps = single_instruction(step if selector is None else step.changed(selector=selector))
        made[f"selector_{selector or 0}"] = Program(buffers=buffers_of(steps), steps=steps)
    return made


@pytest.mark.parametrize(
    "form",
    [
        form if index % 5 == 0 else pytest.param(form, marks=pytest.mark.slow)
        for index, form in enumerate(NARROW_FORMS)
    ],
    ids=lambda form: form.opcode,
)
def test_products_equal_the_oracles_and_are_permitted(form: Form) -> None:
    made = programs(form)
    runner = SimulatedRunner(TARGET)
    compiled = runner.compile(emit_all(made, module=Module.named(TARGET, "9.1")))
    assert isinstance(compiled, Compiled)
    for entry, program in made.items():
        images = expand(_RECIPE, program, _IMAGES)
        ran, due = (
            runner.run(compiled, images, entry=entry),
            execute(program, images, target=TARGET),
        )
        assert isinstance(ran, Ran)
        assert np.array_equal(ran.images, due.images), entry
        assert allowed_bytes(permitted(program, images, target=TARGET), due.images).all()
