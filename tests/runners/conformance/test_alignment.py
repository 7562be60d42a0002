"""Rows in shared memory that are aligned as the page asks for, and no better."""

from __future__ import annotations

import numpy as np
import pytest
from image_contents import contents
from single_multiplies import VARIANTS, Access, program

from oracle.execution.execution import execute
from oracle.isa.forms import Form
from oracle.isa.targets import Module
from oracle.program.definedness import undefined
from runners.emission import emit_all
from runners.protocol import Compiled, Failure, Ran, Runner, Trouble

ACCESSES = tuple(
    Access(space=space, stride=stride, padding=1, offset=1, page_alignment=True)
    for space in ("global", "shared", "generic shared")
    for stride in ("immediate", "register")
)


@pytest.mark.parametrize(
    "form",
    [
        form if index % 3 == 0 else pytest.param(form, marks=pytest.mark.slow)
        for index, form in enumerate(VARIANTS[::5])
    ],
    ids=lambda form: form.opcode,
)
def test_rows_aligned_to_the_fragment_give_the_oracles_image_or_a_trap(
    runner: Runner, form: Form
) -> None:
    """Never a wrong image: where the machine asks for more than the page, it says so."""
    programs = {f"access_{number}": program(form, access) for number, access in enumerate(ACCESSES)}
    assert not any(undefined(made, target="sm_80") for made in programs.values())
    compiled = runner.compile(emit_all(programs, module=Module.named("sm_80", "7.8")))
    assert isinstance(compiled, Compiled), compiled
    for (entry, made), access in zip(programs.items(), ACCESSES, strict=True):
        _, images = contents(form, access, 4, seed=1)
        ran = runner.run(compiled, images, entry=entry)
        if isinstance(ran, Failure):
            assert runner.capabilities().name == "cuda", "the simulated device follows the page"
            assert ran.trouble is Trouble.STICKY_ERROR
            assert "misaligned address" in ran.detail
            assert access.space != "global"
            continue
        assert isinstance(ran, Ran)
        expected = execute(made, images, target=compiled.architecture).images
        np.testing.assert_array_equal(ran.images, expected, str(access))
