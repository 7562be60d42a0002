"""Every form of mma.sync, with what feeds and stores it: whole images equal the oracle's."""

from __future__ import annotations

import numpy as np
import pytest
from lane_programs import programs

from oracle.bounds.permission import permitted
from oracle.execution.execution import execute
from oracle.isa.lookup import MMA_SYNC_FORMS
from oracle.isa.targets import Module
from runners.emission import emit_all
from runners.protocol import Compiled, Ran, Runner
from strategies.contents import Recipe, ValueClass, expand

_IMAGES = 20
"""One of each class of values, and one more."""
_FAMILIES = sorted({form.a_type.name for form in MMA_SYNC_FORMS})


def test_the_suite_has_110_forms() -> None:
    assert len({form.opcode for form in MMA_SYNC_FORMS}) == 110


@pytest.mark.parametrize("name", _FAMILIES)
def test_whole_images_equal_the_oracles(runner: Runner, layout: int, name: str) -> None:
    made = {}
    for number, form in enumerate(MMA_SYNC_FORMS):
        if form.a_type.name == name:
            ways = list(programs(form).items())
            # A GPU tries all ways, CI one on each simulated device.
            first = 5 * number + layout
            chosen = ways if runner.capabilities().name == "cuda" else [ways[first % len(ways)]]
            made.update({f"{way}_{number}": program for way, program in chosen})
    compiled = runner.compile(emit_all(made, module=Module.named("sm_90", "8.7")))
    assert isinstance(compiled, Compiled), f"{compiled} {compiled.detail}"
    recipe = Recipe(classes=tuple(ValueClass), seed=len(name))
    wrong = []
    for entry, program in made.items():
        images = expand(recipe, program, _IMAGES)
        ran = runner.run(compiled, images, entry=entry)
        assert isinstance(ran, Ran), f"{entry}: {ran} {ran.detail}"
        expected = execute(program, images, target=compiled.architecture).images
        if not np.array_equal(ran.images, expected):
            wrong.append((entry, int((ran.images != expected).sum())))
        if layout == 0:  # what is expected is the same on both
            assert permitted(program, images[:4]).allows(expected[:4]).all(), entry
    assert not wrong, f"(entry, wrong bytes) {wrong[:5]} and {len(wrong)} in all"
