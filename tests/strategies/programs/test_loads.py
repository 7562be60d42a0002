"""The highest load is a defined program, and what comes out of it is known."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.execution.execution import execute
from oracle.isa.forms import Form
from oracle.isa.lookup import warpgroup_forms
from oracle.isa.targets import Module
from oracle.program.definedness import check_defined
from oracle.program.program import walk
from oracle.program.warpgroup import AsyncProduct
from runners.emission import emit
from runners.protocol import Compiled, Ran
from runners.simulated_runner import SimulatedRunner
from strategies.contents import Recipe, ValueClass, expand
from strategies.programs import loads

FORMS = [*filter(loads.is_largest, warpgroup_forms())]


def test_each_of_the_largest_multiplications_has_one_that_is_defined() -> None:
    assert {form.a_type.name for form in FORMS} >= {"f16", "bf16", "tf32", "e4m3", "s8", "b1"}
    for form in FORMS[::7]:
        program = loads.highest_load(form)
        check_defined(program)
        products = [step for step in walk(program.steps) if isinstance(step, AsyncProduct)]
        assert len({one.b_tile.place.offset for one in products}) == len(products) == 4
        assert all(one.a_tile is not None for one in products)


@pytest.mark.parametrize("form", FORMS[1::9], ids=lambda form: form.opcode)
def test_it_gives_what_the_oracle_says(monkeypatch: pytest.MonkeyPatch, form: Form) -> None:
    monkeypatch.setattr(loads, "_TURNS", (1, 2))
    program = loads.highest_load(form)
    images = expand(Recipe(classes=(ValueClass.WIDE,), seed=1), program, 1)
    expected = execute(program, images, target="sm_90a").images
    d = expected[0, : program.buffer("gd").size].view(np.uint32)
    assert len(np.unique(d)) > 100
    with SimulatedRunner("sm_90") as runner:
        compiled = runner.compile(emit(program, module=Module.named("sm_90a")))
        assert isinstance(compiled, Compiled)
        ran = runner.run(compiled, images)
    assert isinstance(ran, Ran)
    assert np.array_equal(ran.images, expected)
