"""Each model that is wrong in one way is told from the right one by some inputs.

Results of the right model come from the reference. A test fails if the oracle is wrong in that
way, and also if the inputs no longer show the difference.
"""

from functools import cache

import dot_inputs
import numpy as np
import pytest
from dots import altered, exact, fast, reference_rule, rule_of

from oracle import mma
from oracle.arithmetic import conversions

F16_F32, F16_F16 = ("f16", "f32"), ("f16", "f16")
BF16, TF32 = ("bf16", "f32"), ("tf32", "f32")


@cache
def _inputs(generate, accumulator):
    a, b, c = generate(np.random.default_rng(5))
    return a, b, conversions.narrow(c) if (accumulator, c.dtype) == ("f16", "uint32") else c


@cache
def _right(target, pair, generate):
    rule = rule_of(target, *pair)
    return np.array(exact(pair[0], reference_rule(rule), *_inputs(generate, pair[1])))


def _changes(wrong, target, pair, generate):
    """Share of results in which the wrong patterns differ; the oracle's must not differ."""
    right = _right(target, pair, generate)
    ours = fast(pair[0], rule_of(target, *pair), *_inputs(generate, pair[1]))
    assert np.count_nonzero(ours != right) == 0
    return np.mean(np.asarray(wrong) != right)


# (what differs from the figures of the target, inputs, least share of results that show it)
WRONG_FIGURES = [
    ("sm_90", F16_F32, {"fraction_bits": 26}, dot_inputs.cancelling, 0.3),
    ("sm_90", F16_F32, {"fraction_bits": 24}, dot_inputs.cancelling, 0.3),
    ("sm_90", F16_F32, {"block": 8}, dot_inputs.cancelling, 0.3),
    ("sm_90", F16_F32, {"block": 8}, dot_inputs.mirrored, 0.3),
    ("sm_90", F16_F16, {"fraction_bits": 26}, dot_inputs.cancelling, 0.05),
    ("sm_90", F16_F16, {"fraction_bits": 24}, dot_inputs.cancelling, 0.05),
    ("sm_90", F16_F16, {"block": 8}, dot_inputs.cancelling, 0.3),
    ("sm_90", F16_F16, {"zero_exponent": -20}, dot_inputs.half_ties, 0.05),
    ("sm_90", F16_F16, {"zero_exponent": -22}, dot_inputs.half_ties, 0.05),
    ("sm_90", BF16, {"zero_exponent": -132}, dot_inputs.tiny_bf16, 0.2),
    ("sm_90", BF16, {"zero_exponent": -134}, dot_inputs.tiny_bf16, 0.2),
    ("sm_90", TF32, {"block": 8}, dot_inputs.tf32_cancelling, 0.3),
    ("sm_90", TF32, {"fraction_bits": 26}, dot_inputs.tf32_cancelling, 0.1),
    ("sm_90", TF32, {"fraction_bits": 24}, dot_inputs.tf32_cancelling, 0.2),
    ("sm_80", F16_F32, {"fraction_bits": 25}, dot_inputs.cancelling, 0.3),
    ("sm_80", F16_F32, {"block": 16}, dot_inputs.cancelling, 0.3),
    ("sm_80", F16_F32, {"block": 4}, dot_inputs.cancelling, 0.3),
    ("sm_70", F16_F32, {"fraction_bits": 24}, dot_inputs.cancelling, 0.3),
    ("sm_70", F16_F32, {"block": 8}, dot_inputs.cancelling, 0.3),
]


@pytest.mark.parametrize(("target", "pair", "figures", "generate", "share"), WRONG_FIGURES)
def test_a_wrong_figure_shows(target, pair, figures, generate, share):
    wrong = altered(rule_of(target, *pair), **figures)
    results = fast(pair[0], wrong, *_inputs(generate, pair[1]))
    assert _changes(results, target, pair, generate) > share


WRONG_STEPS = [
    (F16_F32, {"normalise_products": True}, dot_inputs.mirrored, 0.1),
    (F16_F32, {"flush_subnormals": True}, dot_inputs.subnormal, 0.9),
    (F16_F32, {"flush_subnormals": True}, dot_inputs.wide, 0.1),
    (F16_F32, {"nearest": True}, dot_inputs.normal, 0.2),
    (F16_F16, {"nearest": False}, dot_inputs.normal, 0.2),
    (BF16, {"flush_subnormals": True}, dot_inputs.subnormal_bf16, 0.9),
    (TF32, {"nearest": True}, dot_inputs.tf32_normal, 0.2),
]


@pytest.mark.parametrize(("pair", "wrong", "generate", "share"), WRONG_STEPS)
def test_a_wrong_step_shows(pair, wrong, generate, share):
    rule = reference_rule(rule_of("sm_90", *pair), **wrong)
    results = exact(pair[0], rule, *_inputs(generate, pair[1]))
    assert _changes(results, "sm_90", pair, generate) > share


def _as_tiles(a, b, c):
    """One dot product in the corner of each tile."""
    left, right = np.zeros((2, len(a), 16, 16), np.uint16)
    start = np.zeros((len(a), 16, 16), c.dtype)
    left[:, 0], right[:, :, 0], start[:, 0, 0] = a, b, c
    return left, right, start


def test_mixed_c_f32_d_f16_rounds_twice():
    a, b, c = _inputs(dot_inputs.double_rounding, "f32")
    opcode = "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32"
    ours = mma(opcode, *_as_tiles(a, b, c))[:, 0, 0]
    twice = conversions.narrow(_right("sm_90", F16_F32, dot_inputs.double_rounding).astype("u4"))
    assert np.array_equal(ours, twice)
    # c is 0 here, so an f16 accumulator only rounds once, straight from the exact sum.
    rule = altered(rule_of("sm_90", *F16_F16), zero_exponent=-133)
    once = exact("f16", reference_rule(rule), a, b, c.astype(np.uint16))
    assert np.mean(ours != np.array(once)) > 0.3


def test_mixed_c_f32_d_f16_keeps_the_sign_of_tiny_results():
    minus, plus = np.uint16(0x8001), np.uint16(0x0001)  # -+2^-24: the product rounds to zero
    a, b = np.zeros((2, 2, 16), np.uint16)
    a[:, 0], b[:, 0] = (minus, plus), plus
    tiles = _as_tiles(a, b, np.zeros(2, np.uint32))
    opcode = "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32"
    assert mma(opcode, *tiles)[:, 0, 0].tolist() == [0x8000, 0x0000]
    # With C in f16 as well, a zero is always +0.
    tiles = _as_tiles(a, b, np.zeros(2, np.uint16))
    opcode = "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16"
    assert mma(opcode, *tiles)[:, 0, 0].tolist() == [0x0000, 0x0000]
