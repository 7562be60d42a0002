"""Layouts of mma.sync, stmatrix and movmatrix, against the page's tables read lane by lane."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle import UndefinedProgramError, UsageError, ldmatrix, mma_sync, movmatrix, stmatrix
from oracle.isa.forms import Form
from oracle.isa.lookup import INSTRUCTIONS, MMA_SYNC_FORMS, form_of
from oracle.layouts import pack, unpack
from oracle.models import TruncatedDot, model_for

STORES = [form for form in INSTRUCTIONS["stmatrix"].forms if form.texts["type"] == "b16"]
MOVE = "movmatrix.sync.aligned.m8n8.trans.b16"
F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


@pytest.mark.parametrize("operand", "abcd")
def test_registers_are_what_they_were_when_their_matrices_are_dealt_out_again(operand: str) -> None:
    rng = np.random.default_rng(1)
    for form in MMA_SYNC_FORMS:
        words = rng.integers(0, 2**32, (3, 32, form.words(operand)), dtype=np.uint32)
        again = np.zeros_like(words)
        pack(form, unpack(form, operand, words), again, operand)
        assert (again == words).all(), form.opcode


def test_a_model_in_place_of_the_targets_decides() -> None:
    model = model_for("sm_90")
    rows = tuple(
        replace(row, nan=replace(row.nan, value=0x7FC0_0000)) if row.instruction == "mma" else row
        for row in model.only(TruncatedDot)
    )
    nan = np.full((32, 4), 0x7E00_7E00, np.uint32)
    operands = nan, nan[:, :2], np.zeros((32, 4), np.uint32)
    assert (mma_sync(F16, *operands) == 0x7FFF_FFFF).all()
    assert (mma_sync(F16, *operands, model=replace(model, units=rows)) == 0x7FC0_0000).all()


@given(st.sampled_from(STORES), st.integers(0, 2**32 - 1))
def test_ldmatrix_reads_what_stmatrix_wrote(form: Form, key: int) -> None:
    rng = np.random.default_rng(key)
    shared = rng.integers(0, 256, (2, 1024), np.uint8)
    rows = (16 * rng.permutation(64)[:32]).astype(np.uint32)
    given_ = rng.integers(0, 1 << 32, (2, 32, form.registers), np.uint32)
    after = stmatrix(form.opcode, shared, rows, given_)
    again = ldmatrix(form.opcode.replace("stmatrix", "ldmatrix"), after, rows)
    assert np.array_equal(again, given_)
    used = rows[: form.addresses, None] + np.arange(16)
    untouched = np.setdiff1d(np.arange(1024), used)
    assert np.array_equal(after[:, untouched], shared[:, untouched])


@given(st.integers(0, 2**32 - 1))
def test_movmatrix_moves_each_element_to_its_mirror(key: int) -> None:
    rng = np.random.default_rng(key)
    before = rng.integers(0, 1 << 32, (3, 32, 1), np.uint32)
    after = movmatrix(MOVE, before)
    assert np.array_equal(movmatrix(MOVE, after), before)
    halves = before.view(np.uint16).reshape(3, 8, 8)
    for lane in range(32):
        g, t = divmod(lane, 4)
        low, high = halves[:, 2 * t, g], halves[:, 2 * t + 1, g]
        assert np.array_equal(after[:, lane, 0], low | high.astype(np.uint32) << 16)


def arrays(**changes: Any) -> dict[str, Any]:
    form = form_of(F16)
    assert form.mnemonic == "mma"
    given_ = {x: np.zeros((5, 32, form.words(x)), np.uint32) for x in "abc"}
    return given_ | changes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"a": np.zeros((5, 32, 4), np.int32)}, "uint32"),
        ({"a": [1]}, "uint32"),
        ({"b": np.zeros((5, 32, 4), np.uint32)}, r"\(\.\.\., 32, 2\)"),
        ({"c": np.zeros((4, 32, 4), np.uint32)}, "leading dimensions differ"),
        ({"opcode": F16.replace("f32.f16.f16.f32", "f16.f16.f16.f32")}, "not a documented form"),
        ({"opcode": MOVE}, "a form of mma is needed"),
        ({"target": "sm_70"}, "sm_70 does not have"),
        ({"target": "sm_1"}, "there is no target"),
    ],
)
def test_a_wrong_request_is_said_in_words(changes: dict[str, Any], words: str) -> None:
    given_ = {"opcode": F16, **arrays(**changes)}
    with pytest.raises(UsageError, match=words):
        mma_sync(**given_)


def test_stmatrix_refuses_what_is_undefined_or_unknown() -> None:
    shared, registers_ = np.zeros(512, np.uint8), np.zeros((32, 1), np.uint32)
    rows = np.arange(0, 512, 16, dtype=np.uint32)
    opcode = "stmatrix.sync.aligned.m8n8.x1.shared.b16"
    with pytest.raises(UndefinedProgramError, match="not a multiple of 16"):
        stmatrix(opcode, shared, rows + np.uint32(8), registers_)
    with pytest.raises(UndefinedProgramError, match="not inside"):
        stmatrix(opcode, shared, rows + np.uint32(512), registers_)
    with pytest.raises(UsageError, match="not known here"):
        stmatrix("stmatrix.sync.aligned.m16n8.x1.trans.shared.b8", shared, rows, registers_)
    with pytest.raises(UsageError, match="do not broadcast"):
        stmatrix(opcode, np.zeros((2, 512), np.uint8), rows, np.zeros((3, 32, 1), np.uint32))
    with pytest.raises(UsageError, match="registers"):
        stmatrix(opcode, shared, rows, np.zeros((32, 2), np.uint32))
