"""Dot products recorded on eight GPUs: tests/data/README.md says by whom and under what licence."""

from pathlib import Path

import numpy as np
import pytest
from dots import fast, rule_of

from oracle.arithmetic.conversions import own_scratch
from oracle.arithmetic.dots import dot_product
from oracle.bounds.enclosure import enclosure
from oracle.isa.lookup import mma_form, mma_sync_form
from oracle.models import model_for

RECORDED = Path(__file__).parents[2] / "data" / "gpu_dot_products.npz"
BYTES = RECORDED.with_name("ada_byte_dot_products.npz")
TARGETS = {
    "V100": "sm_70", "A100": "sm_80", "A2": "sm_86", "Ada": "sm_89", "L40S": "sm_89",
    "H100": "sm_90", "H200": "sm_90", "B200": "sm_100",
}  # fmt: skip
FORMATS = {"fp16": "f16", "fp32": "f32", "bf16": "bf16", "tf32": "tf32"}
OPCODES = {
    ("f16", "f32"): "m16n16k16.f32.f32",
    ("f16", "f16"): "m16n16k16.f16.f16",
    ("bf16", "f32"): "m16n16k16.f32.bf16.bf16.f32",
    ("tf32", "f32"): "m16n16k8.f32.tf32.tf32.f32",
}


def _narrowed(bits, name):
    if name == "f16":
        return bits.view(np.float32).astype(np.float16).view(np.uint16)
    if name == "bf16":
        return (bits >> 16).astype(np.uint16)
    return bits


@pytest.fixture(scope="module")
def recorded():
    with np.load(RECORDED) as arrays:
        return dict(arrays)


@pytest.fixture
def dots(recorded, name):
    gpu, multiplicand, accumulator = name.split("|")
    multiplicand, accumulator = FORMATS[multiplicand], FORMATS[accumulator]
    a, b = (_narrowed(recorded[f"{name}|{x}"], multiplicand) for x in "ab")
    c, d = (_narrowed(recorded[f"{name}|{x}"], accumulator) for x in "cd")
    return TARGETS[gpu], multiplicand, accumulator, a, b, c, d


def _names():
    with np.load(RECORDED) as arrays:
        return sorted({key.rsplit("|", 1)[0] for key in arrays.files})


def byte_sets():
    with np.load(BYTES) as arrays:
        return sorted({key.rsplit("|", 1)[0] for key in arrays.files})


def test_there_are_thirty_sets_of_eight_gpus():
    names = _names()
    assert len(names) == 30
    assert {name.split("|")[0] for name in names} == set(TARGETS)


@pytest.mark.parametrize("name", _names())
def test_models_return_what_gpus_returned(dots):
    target, multiplicand, accumulator, a, b, c, d = dots
    rule = rule_of(target, multiplicand, accumulator)
    assert a.shape[1] == rule.block.value
    result = fast(rule, a, b, c)
    assert np.count_nonzero(result != d) == 0


@pytest.mark.parametrize("name", byte_sets())
def test_models_and_enclosures_are_what_adas_returned_of_8_bits(name):
    """Two blocks of 16 products; f32 sums leave the enclosure that all other types have."""
    with np.load(BYTES) as arrays:
        a, b, c, d = (arrays[f"{name}|{part}"] for part in "abcd")
    _, multiplicand, result = name.split("|")
    form = mma_sync_form(
        f"mma.sync.aligned.m16n8k32.row.col.{result}.{multiplicand}.{multiplicand}.{result}"
    )
    rule = model_for("sm_89").unit_for(form)
    operands = a[:, None, :], b[:, :, None], c[:, None, None]
    found = dot_product(*operands, rule=rule, scratch=own_scratch())[0, 0]
    np.testing.assert_array_equal(found, d)
    left = np.repeat(operands[0], 16, axis=1)
    right, start = np.repeat(operands[1], 8, axis=2), np.tile(operands[2], (1, 16, 8))
    low, high, _ = (bound[:, 0, 0] for bound in enclosure(form, left, right, start))
    number = d.view(np.float32 if result == "f32" else np.float16).astype(np.float64)
    assert ((low <= number) & (number <= high)).all()
    if result == "f32":
        assert np.count_nonzero((number == low) | (number == high)) > 300  # as an end of them


@pytest.mark.parametrize("name", _names())
def test_enclosures_contain_what_gpus_returned(dots):
    _, multiplicand, accumulator, a, b, c, d = dots
    form = mma_form(f"wmma.mma.sync.aligned.row.col.{OPCODES[multiplicand, accumulator]}")
    shape, count = form.shape, len(d) // form.shape.m
    # Recorded products stand on the diagonal; what the recorded block lacks of K is zero.
    diagonal = np.arange(shape.m)
    left = np.zeros((count, shape.m, shape.k), a.dtype)
    left[..., : a.shape[1]] = a[: count * shape.m].reshape(count, shape.m, -1)
    right = np.zeros((count, shape.k, shape.n), b.dtype)
    columns = b[: count * shape.m].reshape(count, shape.n, -1)
    right[:, : b.shape[1]] = columns.transpose(0, 2, 1)
    start = np.zeros((count, shape.m, shape.n), c.dtype)
    start[:, diagonal, diagonal] = c[: count * shape.m].reshape(count, shape.m)
    low, high, _ = (bound[:, diagonal, diagonal] for bound in enclosure(form, left, right, start))
    value = d[: count * shape.m].reshape(count, shape.m)
    floats = np.float16 if accumulator == "f16" else np.float32
    number = value.view(floats).astype(np.float64)
    assert ((low <= number) & (number <= high)).all()
