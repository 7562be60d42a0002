"""ldmatrix against the oracle, and what it traps on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_kernels import kernel, ldmatrix, names

import oracle
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind

SIZE = 1024
NARROW = "sm_100a"


FORMS = [
    *(("m8n8", number, trans, "b16") for number in (1, 2, 4) for trans in (False, True)),
    *(
        ("m8n16", number, False, source)
        for number in (1, 2, 4)
        for source in ("b8x16.b6x16_p32", "b8x16.b4x16_p64", "s8.s4")
    ),
    *(
        ("m16n16", number, True, kind)
        for number in (1, 2)
        for kind in ("b8", "b8x16.b6x16_p32", "b8x16.b4x16_p64")
    ),
]


@pytest.mark.parametrize("suffix", [".shared", ".shared::cta", ""])
@pytest.mark.parametrize(("shape", "number", "transposed", "kind"), FORMS)
def test_registers_hold_what_the_oracle_says(
    shape: str, number: int, transposed: bool, kind: str, suffix: str
) -> None:
    trans = ".trans" if transposed else ""
    registers = number * (2 if shape == "m16n16" else 1)
    # Row addresses are scattered: lane t takes row 37 t + 11 of 64.
    addresses = "    mul.lo.u32 %r20, %r7, 592;\n    add.u32 %r20, %r20, 176;\n"
    addresses += f"    and.b32 %r20, %r20, {SIZE - 1};"
    target = "sm_90" if shape == "m8n8" else NARROW
    ptx = ldmatrix(
        f"{shape}.x{number}{trans}@.{kind}",
        registers,
        addresses=addresses,
        suffix=suffix,
        target=target,
    )
    rng = np.random.default_rng(number)
    images = rng.integers(0, 256, (3, SIZE + 128 * registers)).astype(np.uint8)
    after, _ = SimulatedDevice(target).load(ptx).launch("kernel", images)
    np.testing.assert_array_equal(after[:, :SIZE], images[:, :SIZE])
    places = np.arange(176, 176 + 592 * 32, 592, dtype=np.uint32) % SIZE
    opcode = f"ldmatrix.sync.aligned.{shape}.x{number}{trans}{suffix}.{kind}"
    page = oracle.ldmatrix(opcode, images[:, :SIZE], np.broadcast_to(places, (3, 32)))
    np.testing.assert_array_equal(after[:, SIZE:].view(np.uint32).reshape(3, 32, registers), page)


@given(st.integers(0, 63))
@settings(max_examples=10, deadline=None)
def test_lanes_that_give_no_row_may_hold_any_address_from_sm_80(wild: int) -> None:
    addresses = f"""
    setp.lt.u32 %p6, %r7, 8;
    mul.lo.u32 %r21, %r7, 16;
    selp.b32 %r20, %r21, {2 * wild + 1}, %p6;"""
    images = np.zeros((2, SIZE + 128), np.uint8)
    ptx = ldmatrix("m8n8.x1@.b16", 1, addresses=addresses, target="sm_75")
    SimulatedDevice("sm_80").load(ptx).launch("kernel", images)
    with pytest.raises(SimulatedTrap) as caught:
        SimulatedDevice("sm_75").load(ptx).launch("kernel", images)
    assert caught.value.trap.kind is TrapKind.MISALIGNED


@pytest.mark.parametrize(
    ("addresses", "kind"),
    [
        ("    mul.lo.u32 %r20, %r7, 8;", TrapKind.MISALIGNED),
        ("    mul.lo.u32 %r20, %r7, 16;\n    add.u32 %r20, %r20, 65536;", TrapKind.OUT_OF_BOUNDS),
    ],
)
def test_rows_are_aligned_and_inside_the_blocks_shared_memory(
    addresses: str, kind: TrapKind
) -> None:
    module = SimulatedDevice("sm_90").load(ldmatrix("m8n8.x4@.b16", 4, addresses=addresses))
    images = np.zeros((2, SIZE + 512), np.uint8)
    with pytest.raises(SimulatedTrap) as caught:
        module.launch("kernel", images)
    assert caught.value.trap.kind is kind


def test_a_generic_address_of_global_memory_traps() -> None:
    ptx = kernel(
        f"    ldmatrix.sync.aligned.m8n8.x1.b16 {names('m', 1)}, [%rd2];",
        image_bytes=64,
        registers="    .reg .b32 %m<1>;",
    )
    with pytest.raises(SimulatedTrap, match="outside what the kernel has of shared memory"):
        SimulatedDevice("sm_90").load(ptx).launch("kernel", np.zeros((1, 64), np.uint8))


@pytest.mark.parametrize("target", ["sm_90", "sm_100", "sm_120"])
def test_narrow_rows_need_an_architecture_or_family_specific_target(target: str) -> None:
    ptx = ldmatrix("m16n16.x1.trans@.b8", 2, target=target)
    with pytest.raises(SimulatedTrap, match="sm_100a"):
        SimulatedDevice(target).load(ptx)


@pytest.mark.parametrize("target", ["sm_100a", "sm_101a", "sm_120a", "sm_100f", "sm_120f"])
def test_narrow_rows_run_on_the_targets_of_the_page(target: str) -> None:
    assert SimulatedDevice(target).load(ldmatrix("m16n16.x1.trans@.b8", 2, target=target))


def test_ldmatrix_needs_sm_75() -> None:
    with pytest.raises(SimulatedTrap, match="sm_75"):
        SimulatedDevice("sm_70").load(ldmatrix("m8n8.x1@.b16", 1, target="sm_70"))
