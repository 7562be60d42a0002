"""mma.sp, narrow floats and scaled blocks on the simulated device: every form, whole images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, product
from operator import itemgetter

import numpy as np
import pytest
from outcomes import compiled_of, ran_of

from oracle.bounds.permission import allowed_bytes, permitted
from oracle.execution.execution import execute
from oracle.isa.forms import Form
from oracle.isa.lookup import FORMS, NARROW_FORMS, selectors_of
from oracle.isa.targets import Module
from oracle.program.program import Program
from oracle.program.steps import product_of
from runners.emission import emit_all
from runners.simulated.syntax import TrapKind
from runners.simulated_runner import SimulatedRunner
from strategies.contents import Recipe, ValueClass, expand
from strategies.matrices import single_program

TARGET = "sm_120a"
SPARSE = [form for form in FORMS if form.has_metadata and not form.kind]
_RECIPE = Recipe(classes=tuple(ValueClass), seed=54)
_AT_ONCE = 2000  # images of a launch: bounded memory


def some() -> Iterator[Form]:
    """Iterate over forms with all kinds, formats of scales and types, but not with all pairs."""
    yield from SPARSE[::3]
    key = itemgetter("kind", "stype", "dtype")
    for _, group in groupby(NARROW_FORMS, lambda form: (form.has_metadata, key(form.texts))):
        yield from [*group][::8]


_SOME = tuple(some())


def programs(form: Form) -> dict[str, Program]:
    """Return programs of one multiplication, with each selector of metadata and two of scales."""
    made = {}
    known = selectors_of(form) or [None]
    if form.is_scaled:
        known = known[len(known) // 3 :: len(known) // 2 + 1]
    for selector in known:
        step = product_of(form)
        if selector is not None:
            # Every second time in registers, as kernels of CUTLASS have them.
            in_registers = form.is_scaled and selector % 2 == 1
            step = step.changed(selector=selector, ids_in_registers=in_registers)
        made[f"selector_{selector or 0}"] = single_program(step)
    return made


@pytest.mark.parametrize(
    ("form", "count"),
    [
        *((form, 21) for form in _SOME),
        *(pytest.param(form, 21, marks=pytest.mark.slow)
          for form in (*SPARSE, *NARROW_FORMS) if form not in _SOME),
        *(pytest.param(form, 100_000 // len(selectors_of(form)), marks=pytest.mark.slow)
          for form in SPARSE),
    ],
    ids=lambda one: getattr(one, "opcode", one),
)  # fmt: skip
def test_products_equal_the_oracles_and_are_permitted(form: Form, count: int) -> None:
    made, target = programs(form), TARGET if form.kind else "sm_90"
    runner, random = SimulatedRunner(target), np.random.default_rng(count)
    compiled = compiled_of(runner, emit_all(made, module=Module.named(target, "9.1")))
    for (entry, program), first in product(made.items(), range(0, count, _AT_ONCE)):
        images = expand(_RECIPE, program, min(_AT_ONCE, count - first), first=first)
        if form in SPARSE:
            # Metadata without a meaning choose, too.
            start = program.offset("e")
            images[::2, start : start + 128] = random.integers(0, 256, (len(images[::2]), 128))
        left = ran_of(runner.run(compiled, images, entry=entry)).images
        due = execute(program, images, target=target).images
        assert np.array_equal(left, due), entry
        assert allowed_bytes(permitted(program, images, target=target), due).all()


@pytest.mark.parametrize(
    ("now", "kind"),
    [("add.u16 %h1, %h0, 5;", TrapKind.STOPPED), ("cvt.u16.u32 %h1, %lane;", TrapKind.DIVERGENT)],
)
def test_selectors_in_registers_that_mean_nothing_end_a_launch(now: str, kind: TrapKind) -> None:
    form = next(form for form in NARROW_FORMS if form.is_scaled)
    program = single_program(product_of(form).changed(ids_in_registers=True))
    module = emit_all({"k": program}, module=Module.named(TARGET, "9.1"))
    assert "add.u16 %h1, %h0, 0;" in module.ptx
    changed = replace(module, ptx=module.ptx.replace("add.u16 %h1, %h0, 0;", now))
    runner = SimulatedRunner(TARGET)
    ran = runner.run(
        compiled_of(runner, changed), np.zeros((2, program.image_bytes), np.uint8), entry="k"
    )
    assert kind in ran.detail
