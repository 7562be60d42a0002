"""Whole images after a multiplication, on every generation and with any layout of fragments.

The oracle computes what is expected. It and the device share nothing, so that a slip in one
is a difference here.
"""

import numpy as np
import pytest
from numpy.typing import NDArray
from simulated_contents import images_of
from simulated_kernels import VARIANTS, Multiplication, multiplication

import oracle
from oracle.isa.forms import Form
from runners.simulated import SimulatedDevice
from runners.simulated.decoder import form_of
from runners.simulated.matrices import in_order


def expected(case: Multiplication, images: NDArray[np.uint8], target: str) -> NDArray[np.uint8]:
    given = [case.matrices[role].get(images) for role in "abc"]
    after = images.copy()
    case.matrices["d"].put(after, oracle.mma(case.form.opcode, *given, target=target))
    return after


@pytest.mark.parametrize("sm", [70, 75, 80, 86, 89, 100, 120])
@pytest.mark.parametrize("types", ["f16.f16", "f32.f32", "bf16", "tf32"])
def test_images_are_the_oracles_on_every_generation(sm: int, types: str) -> None:
    if sm < 80 and types in ("bf16", "tf32"):
        return
    form = next(each for each in VARIANTS if types in each.opcode)
    target = f"sm_{sm}"
    case = multiplication(form, target=target)
    module = SimulatedDevice(target).load(case.ptx)
    for flavour in ("normal", "cancelling", "wide"):
        images = images_of(case, flavour, count=12)
        after, _ = module.launch("kernel", images)
        np.testing.assert_array_equal(after, expected(case, images, target))


@pytest.mark.parametrize("form", VARIANTS[::9], ids=lambda each: each.opcode[14:])
def test_the_layout_of_fragments_changes_no_result(form: Form) -> None:
    case = multiplication(form)
    images = images_of(case, "bits", count=5)
    results = [
        SimulatedDevice("sm_90", layout_seed=seed).load(case.ptx).launch("kernel", images)[0]
        for seed in (0, 1, 2, 17)
    ]
    for each in results[1:]:
        np.testing.assert_array_equal(each, results[0])


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        ("ldmatrix.sync.aligned.x4.m8n8.shared.b16", "ldmatrix.sync.aligned.m8n8.x4.shared.b16"),
        (
            "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32.satfinite",
            "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32",
        ),
        (
            "mma.f64.m8n8k4.f64.row.f64.aligned.col.sync.f64.rn",
            "mma.sync.aligned.m8n8k4.row.col.rn.f64.f64.f64.f64",
        ),
        (
            "wmma.load.a.sync.aligned.col.m16n16k16.global.f16",
            "wmma.load.a.sync.aligned.m16n16k16.col.global.f16",
        ),
        (
            "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
            "wmma.mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc",
        ),
    ],
)
def test_qualifiers_in_another_order_are_the_same_instruction(given: str, ordered: str) -> None:
    """CUTLASS's orders, and others that ptxas takes (11.8 to 13.5; 2026-11-28)."""
    assert in_order(given) == ordered == in_order(ordered)


def test_what_ptxas_does_not_reorder_is_not_reordered() -> None:
    for opcode in ("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.popc.xor",
                   "wmma.load.sync.a.aligned.row.m16n16k16.f16"):  # fmt: skip
        assert form_of(opcode) is None
