"""Layouts of mma.sync, stmatrix and movmatrix, against the page's tables read lane by lane."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle import UndefinedProgramError, UsageError, ldmatrix, mma_sync, movmatrix, stmatrix
from oracle.forms import Form
from oracle.instructions import INSTRUCTIONS
from oracle.isa import MMA_SYNC_FORMS, form_of
from oracle.lane_fragments import pack, unpack
from oracle.models import model_for

STORES = [form for form in INSTRUCTIONS["stmatrix"].forms if form.texts["type"] == "b16"]
MOVE = "movmatrix.sync.aligned.m8n8.trans.b16"
F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"

# Patterns of 0, 1, 2 and -1 in each float format.
PATTERNS = {
    "f16": (0, 0x3C00, 0x4000, 0xBC00), "bf16": (0, 0x3F80, 0x4000, 0xBF80),
    "tf32": (0, 0x3F800000, 0x40000000, 0xBF800000), "e4m3": (0, 0x38, 0x40, 0xB8),
    "e5m2": (0, 0x3C, 0x40, 0xBC),
    "f64": (0, 0x3FF0 << 48, 0x4000 << 48, 0xBFF0 << 48),
}  # fmt: skip
VALUES = (0, 1, 2, -1)


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
        for row in model.dots
    )
    nan = np.full((32, 4), 0x7E00_7E00, np.uint32)
    operands = nan, nan[:, :2], np.zeros((32, 4), np.uint32)
    assert (mma_sync(F16, *operands) == 0x7FFF_FFFF).all()
    assert (mma_sync(F16, *operands, model=replace(model, dots=rows)) == 0x7FC0_0000).all()


def held(form: Form, operand: str, lane: int) -> Iterator[tuple[int, int, int]]:
    """Yield (multiplication, row, column) of the elements of a lane, as the tables have them."""
    bits = form.type(operand).bits
    if form.groups == 4:
        yield from quad_pair(form, operand, lane)
        return
    group, thread = divmod(lane, 4)
    per = max(1, 32 // bits)
    m, n, k = form.shape.m, form.shape.n, form.shape.k
    if operand in "cd":
        for half in range(m // 8):
            for column in range(2):
                yield 0, group + 8 * half, 2 * thread + column
    elif operand == "a":
        for strip in range(k // (4 * per)):
            for half in range(m // 8):
                for j in range(per):
                    yield 0, group + 8 * half, 4 * per * strip + per * thread + j
    else:
        assert n == 8
        for strip in range(k // (4 * per)):
            for j in range(per):
                yield 0, 4 * per * strip + per * thread + j, group


def quad_pair(form: Form, operand: str, lane: int) -> Iterator[tuple[int, int, int]]:
    """9.7.14.5.1: quad pair q is lanes 4 q to 4 q + 3 and the sixteen-higher ones."""
    q, high, thread = lane % 16 // 4, 4 * (lane >= 16), lane % 4
    for i in range(4 if operand in "ab" else 8):
        if operand == "a":
            yield (q, thread + high, i) if form.a_layout == "row" else (q, i + high, thread)
        elif operand == "b":
            yield (q, thread, i + high) if form.b_layout == "row" else (q, i, thread + high)
        elif form.type(operand).name == "f16":
            yield q, thread + high, i
        else:
            yield q, (lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1)


def registers(form: Form, operand: str, matrices: Any, patterns: Any) -> Any:
    """Put matrices (groups, rows, columns) of indices into lanes, one bit pattern after another."""
    bits = form.type(operand).bits
    words = np.zeros((32, form.words(operand)), np.uint32)
    for lane in range(32):
        text = 0
        for at, place in enumerate(held(form, operand, lane)):
            text |= (int(patterns[matrices[place]]) & ((1 << bits) - 1)) << (bits * at)
        for word in range(form.words(operand)):
            words[lane, word] = text >> (32 * word) & 0xFFFFFFFF
    return words


def decoded(form: Form, d: Any) -> dict[tuple[int, int, int], float]:
    """Return the numbers of D by place, each of which must stand in one lane."""
    kinds = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}
    found: dict[tuple[int, int, int], float] = {}
    for lane in range(32):
        numbers = np.ascontiguousarray(d[lane]).view(kinds[form.d_type.name])
        places = list(held(form, "d", lane))
        assert len(places) == len(numbers)
        for place, number in zip(places, numbers, strict=True):
            assert place not in found
            found[place] = float(number)
    return found


@pytest.mark.parametrize("form", MMA_SYNC_FORMS, ids=lambda form: form.opcode)
def test_small_integers_give_the_product_of_the_matrices(form: Form) -> None:
    rng = np.random.default_rng(len(form.opcode))
    m, n, k, g = form.shape.m, form.shape.n, form.shape.k, form.groups
    a = rng.integers(0, 4, (g, m, k))
    b = rng.integers(0, 4, (g, k, n))
    name = form.a_type.name
    unsigned = {"u8", "u4", "b1"}
    if name == "b1":
        a, b = a % 2, b % 2
    rows = [
        PATTERNS.get(t.name, tuple(v % 4 for v in VALUES) if t.name in unsigned else VALUES)
        for t in (form.a_type, form.b_type)
    ]
    left = registers(form, "a", a, rows[0])
    right = registers(form, "b", b, rows[1])
    zero = np.zeros((32, form.words("c")), np.uint32)
    found = decoded(form, mma_sync(form.opcode, left, right, zero))

    values = [
        np.array([v % 4 if t.name in unsigned else v for v in VALUES])
        for t in (form.a_type, form.b_type)
    ]
    x, y = values[0][a], values[1][b]
    different = (x[:, :, :, None] ^ y[:, None]).sum(axis=2)
    expected = different if form.op == "xor" else x @ y
    assert len(found) == g * m * n
    assert all(found[place] == expected[place] for place in np.ndindex(g, m, n))


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


def test_leading_dimensions_are_kept_also_without_any_or_with_none_of_a_kind() -> None:
    assert mma_sync(F16, **{x: y[0] for x, y in arrays().items()}).shape == (32, 4)
    assert mma_sync(F16, **{x: y[:0] for x, y in arrays().items()}).shape == (0, 32, 4)
    deep = {x: np.broadcast_to(y, (2, 5, *y.shape[1:])) for x, y in arrays().items()}
    assert mma_sync(F16, **deep).shape == (2, 5, 32, 4)


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
