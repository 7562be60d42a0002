"""mma.sync against an H200: registers in, registers out, every form."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import lane_inputs
import numpy as np
import pytest

from oracle import mma_sync, permitted
from oracle.isa.lookup import MMA_SYNC_FORMS, form_of

FOLDER = Path(lane_inputs.__file__).parent
RECORDED: dict[str, list[str]] = json.loads((FOLDER / "h200_digests.json").read_text())


def test_every_form_was_recorded() -> None:
    assert {form_of(opcode) for opcode in RECORDED} == set(MMA_SYNC_FORMS)


@pytest.mark.parametrize("form", lane_inputs.forms(), ids=lambda form: form.opcode)
def test_every_bit_is_what_an_h200_returned(form: lane_inputs.Form) -> None:
    found = []
    for content in lane_inputs.CLASSES:
        given = lane_inputs.registers(form, content, lane_inputs.CASES)
        d = mma_sync(form.opcode, given["a"], given["b"], given["c"])
        found.append(hashlib.sha256(d.tobytes()).hexdigest()[:16])
    assert found == RECORDED[form.opcode]


NUMBERS = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}


@pytest.mark.parametrize("form", lane_inputs.forms()[::3], ids=lambda form: form.opcode)
def test_what_an_h200_returned_is_permitted_and_other_elements_are_not(
    form: lane_inputs.Form,
) -> None:
    outside = 0
    for content in lane_inputs.CLASSES:
        given = lane_inputs.registers(form, content, 8)
        d = mma_sync(form.opcode, given["a"], given["b"], given["c"])
        low, high, nan_ok = permitted(form.opcode, given["a"], given["b"], given["c"])
        for registers, right in ((d, True), (np.roll(d, 1, axis=1), False)):
            values = np.ascontiguousarray(registers).view(NUMBERS[form.types[0]])
            assert values.shape == low.shape == high.shape == nan_ok.shape
            inside = (low <= values) & (values <= high) | np.isnan(values) & nan_ok
            assert inside.all() or not right
            outside += int((~inside).sum())
        one = permitted(form.opcode, given["a"][3], given["b"][3], given["c"][3])
        for all_, alone in zip((low, high, nan_ok), one, strict=True):
            assert np.array_equal(all_[3], alone, equal_nan=alone.dtype == np.float64)
    assert outside > d.size / 4
