"""The page of a finding says what each stored element of a sparse A meets, and ends where D is."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fuzz.explain.derivations import derivation

from oracle.forms import Form
from oracle.instructions import INSTRUCTIONS
from oracle.instructions.mma_sp import selectors
from oracle.lane_fragments import places
from oracle.metadata import rows_met
from oracle.ops import multiplies, product_of
from oracle.program import Program
from oracle.tracing import trace
from strategies.contents import Recipe, ValueClass, expand
from strategies.programs.single_instruction import buffers_of, single_instruction

PLAIN = INSTRUCTIONS["mma.sp"].forms
WIDE = [form for form in PLAIN if form.d_type.bits == 32]
MET = re.compile(r"(\d+) meets (\d+)")


@pytest.mark.parametrize("form", WIDE[::3], ids=lambda form: form.opcode)
def test_a_derivation_ends_with_what_the_oracle_computes(form: Form) -> None:
    steps = single_instruction(product_of(form).changed(selector=selectors(form)[-1]))
    program = Program(buffers=buffers_of(steps), steps=steps)
    classes = (ValueClass.NORMAL, ValueClass.MIRRORED, ValueClass.WIDE)
    for number, image in enumerate(expand(Recipe(classes=classes, seed=2), program, 3)):
        traced = trace(program, image, target="sm_90")
        (event,) = [one for one in traced.events if multiplies(one.step)]
        for lane, register in ((0, 0), (13 + number, 2), (31, 3)):
            found = derivation(event, lane, register, traced.model)
            assert found is not None
            assert event.result is not None
            assert found.bits == int(event.result[lane, register].view(np.uint32))
            _, row, _ = places(form, "d")[lane, register]
            metadata = event.inputs["e"][None, :, 0]
            rows = rows_met(form, metadata, event.step.selector)[0, row]
            told = MET.findall(" ".join(found.lines))
            assert [(int(k), int(one)) for k, one in told] == list(enumerate(rows.tolist()))
