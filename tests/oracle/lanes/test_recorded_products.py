"""mma.sync against an H200: registers in, registers out, every form."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest

from oracle import mma_sync
from oracle.isa import MMA_SYNC_FORMS

FOLDER = Path(__file__).parents[2] / "data" / "mma_sync"
sys.path.insert(0, str(FOLDER))

import lane_inputs  # noqa: E402

RECORDED: dict[str, list[str]] = json.loads((FOLDER / "h200_digests.json").read_text())


def test_every_form_was_recorded() -> None:
    assert set(RECORDED) == {form.opcode for form in MMA_SYNC_FORMS}


@pytest.mark.parametrize("form", lane_inputs.forms(), ids=lambda form: form.opcode)
def test_every_bit_is_what_an_h200_returned(form: lane_inputs.Form) -> None:
    found = []
    for content in lane_inputs.CLASSES:
        given = lane_inputs.registers(form, content, lane_inputs.CASES)
        d = mma_sync(form.opcode, given["a"], given["b"], given["c"])
        found.append(hashlib.sha256(d.tobytes()).hexdigest()[:16])
    assert found == RECORDED[form.opcode]
