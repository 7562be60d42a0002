"""Every variant of wmma.mma, reached in every way: whole images equal the oracle's."""

from __future__ import annotations

import numpy as np
import pytest
from image_contents import contents
from single_multiplies import VARIANTS, accesses, program

from oracle.execution.execution import execute
from oracle.isa.forms import Form
from oracle.isa.targets import Module
from runners.emission import emit_all
from runners.protocol import Compiled, Ran, Runner

_ALL = tuple(accesses())
_SAMPLE = 1
"""Accesses of each variant that each of the simulated devices tries; a GPU tries all."""
_IMAGES = 8


def test_the_suite_has_138_variants_in_140_ways() -> None:
    assert len({form.opcode for form in VARIANTS}) == 138
    assert len(set(_ALL)) == 140


@pytest.mark.parametrize("form", VARIANTS, ids=lambda form: form.opcode)
def test_whole_images_equal_the_oracles(runner: Runner, layout: int, form: Form) -> None:
    number = VARIANTS.index(form)
    # A stride that shares no factor with the number of accesses: the samples reach all of them.
    first = _SAMPLE * (2 * number + layout)
    sample = [_ALL[(first + i) * 37 % len(_ALL)] for i in range(_SAMPLE)]
    chosen = _ALL if runner.capabilities().name == "cuda" else sample
    programs = {f"access_{index}": program(form, access) for index, access in enumerate(chosen)}
    module = emit_all(programs, module=Module.named("sm_80", "7.8"))
    compiled = runner.compile(module)
    assert isinstance(compiled, Compiled), f"{compiled} {compiled.detail}"
    wrong = []
    for (entry, made), access in zip(programs.items(), chosen, strict=True):
        _, images = contents(form, access, _IMAGES, seed=number)
        ran = runner.run(compiled, images, entry=entry)
        assert isinstance(ran, Ran), f"{access}: {ran} {ran.detail}"
        expected = execute(made, images, target=compiled.architecture).images
        if not np.array_equal(ran.images, expected):
            wrong.append((access, int((ran.images != expected).sum())))
    assert not wrong, f"{form.opcode}: (access, wrong bytes) {wrong[:5]} and {len(wrong)} in all"
