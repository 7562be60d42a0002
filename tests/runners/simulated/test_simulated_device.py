"""Launches: identities of warps, shared memory, branches, and everything that traps."""

import gc
import re
import time
from contextlib import suppress
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from simulated_kernels import VARIANTS, kernel, multiplication, transfer

from oracle.errors import UsageError
from runners.simulated import SimulatedDevice, SimulatedTrap, Trap, TrapKind, device
from runners.simulated.warps import MULTIPROCESSORS, Memory

DEVICE = SimulatedDevice("sm_90")


def launch(
    body: str, images: NDArray[np.uint8], *, registers: str = "", threads: int = 128
) -> NDArray[np.uint8]:
    ptx = kernel(body, image_bytes=images.shape[1], registers=registers)
    return DEVICE.load(ptx).launch("kernel", images, threads=threads)[0]


def trapped(body: str, *, count: int = 6, size: int = 64, registers: str = "") -> Trap:
    with pytest.raises(SimulatedTrap) as caught:
        launch(body, np.zeros((count, size), np.uint8), registers=registers)
    assert not caught.value.trap.kind.at_load
    return caught.value.trap


def words(images: NDArray[np.uint8]) -> NDArray[np.uint32]:
    return images.view(np.uint32)


@given(st.integers(1, 70), st.sampled_from([32, 64, 128, 256, 1024]))
@settings(max_examples=30, deadline=None)
def test_each_warp_works_on_its_own_image_whatever_the_block(count: int, threads: int) -> None:
    images = np.zeros((count, 128), np.uint8)
    after = launch(
        """
    mul.wide.u32 %rd10, %r7, 4;
    add.s64 %rd11, %rd2, %rd10;
    mad.lo.u32 %r20, %r5, 100, %r7;
    st.global.b32 [%rd11], %r20;
    """,
        images,
        threads=threads,
    )
    warps, lanes = np.meshgrid(np.arange(count), np.arange(32), indexing="ij")
    np.testing.assert_array_equal(words(after), 100 * warps + lanes)
    assert not images.any(), "the images that are given stay as they are"


@pytest.mark.parametrize("body", ["", "trap;", "loop: bra loop;"])
def test_the_memory_of_a_launch_is_gone_without_the_garbage_collector(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "LARGEST_STEP_COUNT", 2_000)
    gc.collect()
    gc.disable()
    try:
        with suppress(SimulatedTrap):
            launch(body, np.zeros((3, 16), np.uint8))
        assert not any(isinstance(one, Memory) for one in gc.get_objects())
    finally:
        gc.enable()


def test_lane_zero_reports_the_multiprocessor() -> None:
    module = DEVICE.load(kernel("", image_bytes=16))
    count = 4 * MULTIPROCESSORS + 9
    _, sms = module.launch("kernel", np.zeros((count, 16), np.uint8))
    np.testing.assert_array_equal(sms, np.arange(count) // 4 % MULTIPROCESSORS)


def test_shared_memory_belongs_to_the_block_and_starts_as_no_zeros() -> None:
    images = np.zeros((8, 16), np.uint8)
    after = launch(
        """
    .shared .align 4 .b8 cells[8];
    mov.u64 %rd10, cells;
    ld.shared.b32 %r20, [cells+4];
    setp.eq.u32 %p4, %r3, 0;
    @%p4 st.shared.b32 [%rd10], %r5;
    bar.sync 0;
    cvta.shared.u64 %rd11, %rd10;
    ld.b32 %r21, [%rd11];
    st.global.v2.b32 [%rd2], {%r20, %r21};
    """,
        images,
        threads=128,
    )
    assert (words(after)[:, 0] == 0xA5A5_A5A5).all()
    np.testing.assert_array_equal(words(after)[:, 1], [0] * 4 + [4] * 4)


LOAD_A = "    wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {{{}}}, [%rd10], {};"
A_REGISTERS = "    .reg .b32 %a<8>;"


def load_a(offset: int, stride: int = 16) -> str:
    names = ", ".join(f"%a{i}" for i in range(8))
    return f"    add.s64 %rd10, %rd2, {offset};\n" + LOAD_A.format(names, stride)


def load_bytes(stride: int) -> str:
    return f"    wmma.load.a.sync.aligned.row.m16n16k16.global.s8 {{%a0, %a1}}, [%rd2], {stride};"


@pytest.mark.parametrize(
    ("body", "traps"),
    [
        # Of a base address multiples of 4 work, 1 and 2 raise "misaligned address".
        *((load_a(offset), offset % 4 > 0) for offset in (0, 4, 1, 2)),
        # Short and odd strides of halves give overlapping rows.
        *((load_a(0, stride), False) for stride in (0, 1, 8, 15, 17)),
        # Rows of bytes start at multiples of four.
        *((load_bytes(stride), stride == 18) for stride in (16, 20, 18)),
    ],
)
def test_addresses_and_strides_are_aligned_as_an_h200_wants_them(body: str, traps: bool) -> None:
    if traps:
        trap = trapped(body, size=1024, registers=A_REGISTERS)
        assert (trap.kind, trap.warps) == (TrapKind.MISALIGNED, tuple(range(6)))
    else:
        launch(body, np.zeros((6, 1024), np.uint8), registers=A_REGISTERS)


@pytest.mark.parametrize("stride", [0x1000_0000, 0xFFFF_FFFF])
def test_strides_far_beyond_memory_are_out_of_bounds(stride: int) -> None:
    trap = trapped(load_a(0, stride), size=1024, registers=A_REGISTERS)
    assert trap.kind is TrapKind.OUT_OF_BOUNDS


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("    ld.global.b32 %r20, [%rd2+2];", TrapKind.MISALIGNED),
        ("    ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd2+8];", TrapKind.MISALIGNED),
        ("    st.global.b64 [%rd2+4], %rd2;", TrapKind.MISALIGNED),
        ("    ld.global.b32 %r20, [%rd2+100000];", TrapKind.OUT_OF_BOUNDS),
        ("    ld.global.b32 %r20, [%rd2+-4];", TrapKind.OUT_OF_BOUNDS),
        ("    ld.shared.b32 %r20, [%rd2];", TrapKind.OUT_OF_BOUNDS),
        ("    ld.b32 %r20, [%rd0+-1024];", TrapKind.OUT_OF_BOUNDS),
        ("    st.global.b32 [%rd2], %r50;", TrapKind.UNINITIALISED),
        ("    @%p7 bra DONE;", TrapKind.UNINITIALISED),
        ("    trap;", TrapKind.STOPPED),
        ("STAY:\n    bra STAY;", TrapKind.HANG),
        # One lane of each warp, whose data never end it.
        (
            "    ld.global.u32 %r20, [%rd2];\n    add.u32 %r20, %r20, %r7;\n"
            "    setp.eq.u32 %p4, %r20, 3;\nSTAY:\n    @%p4 bra STAY;",
            TrapKind.HANG,
        ),
    ],
)
def test_what_a_device_would_not_survive_traps_at_its_line(
    line: str, kind: TrapKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "LARGEST_STEP_COUNT", 2_000)
    trap = trapped(line)
    assert trap.kind is kind
    last = line.splitlines()[-1]
    assert kernel(line, image_bytes=64).splitlines()[trap.line - 1] in (last, "STAY:")


@pytest.mark.parametrize("copies", [1, 256])
def test_an_endless_loop_of_multiplications_is_bounded_in_processor_time(
    copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert device.LONGEST_SECONDS <= 5, "a batch may take 10 s, on a machine that is busy, too"
    monkeypatch.setattr(device, "LONGEST_SECONDS", 0.3)
    monkeypatch.setattr(device, "STEP_SECONDS", 1e-6)
    head, product, tail = re.split(r"(?m)^( *wmma\.mma[^;]*;)", multiplication(VARIANTS[0]).ptx)
    module = DEVICE.load(f"{head}STAY:\n{product * 50}\n bra STAY;{tail}")
    started = time.process_time()
    with pytest.raises(SimulatedTrap, match=r"still running after 0\.3 s") as caught:
        module.launch("kernel", np.zeros((copies, 4096), np.uint8))
    assert caught.value.trap.kind is TrapKind.HANG
    assert time.process_time() - started < 5


def test_time_that_others_have_the_processor_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(thread_time=time.thread_time, monotonic=count(step=1000).__next__)
    monkeypatch.setattr(device, "time", clock)
    launch(load_a(0), np.zeros((6, 1024), np.uint8), registers=A_REGISTERS)


def test_a_warp_level_instruction_under_a_divergent_guard_traps() -> None:
    body = "    setp.lt.u32 %p7, %r7, 16;\n" + load_a(0).replace("wmma", "@%p7 wmma")
    trap = trapped(body, size=1024, registers=A_REGISTERS)
    assert trap.kind is TrapKind.DIVERGENT


def test_an_address_that_differs_between_lanes_traps_in_wmma() -> None:
    body = "    mul.wide.u32 %rd11, %r7, 4;\n    add.s64 %rd10, %rd2, %rd11;\n"
    body += load_a(0).splitlines()[1]
    trap = trapped(body, size=1024, registers=A_REGISTERS)
    assert trap.kind is TrapKind.DIVERGENT


def test_a_masked_access_never_traps() -> None:
    body = """
    setp.eq.u32 %p7, %r7, 99;
    @%p7 st.global.b32 [%rd2+100001], %r7;
    mov.b32 %r21, 5;
    @%p7 ld.global.b32 %r21, [%rd2+100001];
    st.global.b32 [%rd2], %r21;
    """
    assert (words(launch(body, np.zeros((3, 8), np.uint8)))[:, 0] == 5).all()


def test_a_branch_to_an_exit_that_is_guarded_is_no_exit() -> None:
    body = """
    setp.ne.u32 %p4, %r5, 1;
    @%p4 bra LAST;
LAST:
    @!%p4 exit;
    st.global.b32 [%rd2], %r5;
    """
    after = words(launch(body, np.full((3, 4), 0xFF, np.uint8)))
    assert [row[0] for row in after] == [0, 0xFFFF_FFFF, 2]


def test_memory_ends_with_the_last_byte_of_the_last_image() -> None:
    launch("    ld.global.b32 %r20, [%rd2+60];", np.zeros((3, 64), np.uint8))
    trap = trapped("    ld.global.b32 %r20, [%rd2+64];", count=3)
    assert (trap.kind, trap.warps) == (TrapKind.OUT_OF_BOUNDS, (2,))


@pytest.mark.parametrize("target", ["sm_60", "sm_99", "hopper", "sm_90x", ""])
def test_an_unknown_target_is_answered_with_those_that_exist(target: str) -> None:
    with pytest.raises(UsageError, match="sm_120"):
        SimulatedDevice(target)


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((3, 8), np.uint32),
        np.zeros(8, np.uint8),
        np.zeros((0, 8), np.uint8),
        np.zeros((3, 0), np.uint8),
    ],
)
def test_images_of_the_wrong_kind_are_refused(images: NDArray[np.uint8]) -> None:
    module = DEVICE.load(kernel("", image_bytes=8))
    with pytest.raises(UsageError, match="uint8"):
        module.launch("kernel", images)


@pytest.mark.parametrize("threads", [0, 31, 48, 2048])
def test_blocks_of_the_wrong_size_are_refused(threads: int) -> None:
    module = DEVICE.load(kernel("", image_bytes=8))
    with pytest.raises(UsageError, match="multiple of 32"):
        module.launch("kernel", np.zeros((1, 8), np.uint8), threads=threads)


def test_an_unknown_entry_and_other_parameters_are_refused() -> None:
    ptx = kernel("", image_bytes=8)
    images = np.zeros((1, 8), np.uint8)
    with pytest.raises(UsageError, match="it has kernel"):
        DEVICE.load(ptx).launch("other", images)
    fewer = ptx.replace(".param .u64 sms,", "").replace(
        "ld.param.u64 %rd3, [sms]", "mov.b64 %rd3, 0"
    )
    with pytest.raises(UsageError, match="parameters"):
        DEVICE.load(fewer).launch("kernel", images)


def lanes_of(body: str, **given: str) -> NDArray[np.uint32]:
    """Return what each lane of the second warp leaves in %r20."""
    store = (
        "mul.wide.u32 %rd10, %r7, 4;\n add.s64 %rd11, %rd2, %rd10;\n st.global.b32 [%rd11], %r20;"
    )
    return words(launch(f"{body}\n{store}", np.zeros((3, 128), np.uint8), **given))[1]


def test_lanes_go_their_own_ways_and_come_together_again() -> None:
    found = lanes_of("""
    mov.u32 %r20, 0;
    mov.u32 %r21, %r7;
LOOP:
    setp.eq.u32 %p4, %r21, 0;
    @%p4 bra OUT;
    add.u32 %r20, %r20, %r21;
    sub.u32 %r21, %r21, 1;
    bra LOOP;
OUT:
    and.b32 %r22, %r7, 1;
    setp.eq.u32 %p5, %r22, 0;
    @%p5 bra EVEN;
    add.u32 %r20, %r20, 1000;
    bra MEET;
EVEN:
    add.u32 %r20, %r20, 2000;
MEET:
    vote.sync.ballot.b32 %r23, %p5, -1;
    shr.u32 %r23, %r23, 16;
    mul.lo.u32 %r23, %r23, 65536;
    add.u32 %r20, %r20, %r23;
    """)
    lanes = np.arange(32)
    expected = lanes * (lanes + 1) // 2 + np.where(lanes % 2, 1000, 2000) + 0x5555_0000
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "way",
    [
        "@%p7 bra ON;",  # some lanes never come
        "@%p7 exit;",  # some lanes are gone
        "@!%p7 bra OTHER;\n" + load_a(0) + "\n bra ON;\nOTHER:",  # a copy of it elsewhere
        "@!%p7 bra OTHER;\n bar.warp.sync -1;\n bra ON;\nOTHER:",  # others at a barrier before
    ],
)
def test_a_warp_level_instruction_that_meets_lanes_elsewhere_traps(way: str) -> None:
    body = f"    setp.lt.u32 %p7, %r7, 16;\n    {way}\n{load_a(0)}\nON:"
    trap = trapped(body, size=1024, registers=A_REGISTERS)
    assert trap.kind is TrapKind.DIVERGENT
    assert (
        "wmma.load.a"
        in kernel(body, image_bytes=1024, registers=A_REGISTERS).splitlines()[trap.line - 1]
    )
    assert trap.warps == tuple(range(6))


def test_a_shuffle_among_some_lanes_does_not_wait_for_the_others() -> None:
    found = lanes_of("""
    mov.u32 %r20, 0;
    setp.ge.u32 %p4, %r7, 8;
    @%p4 bra ON;
    shfl.sync.bfly.b32 %r20, %r7, 7, 0x1f, 0xff;
ON:
    """)
    assert found.tolist() == [7 - lane if lane < 8 else 0 for lane in range(32)]


@pytest.mark.parametrize(("kind", "alignment"), [("f16", 4), ("f32", 4), ("s32", 4), ("f64", 8)])
def test_an_accumulator_lies_at_any_multiple_of_its_alignment(kind: str, alignment: int) -> None:
    shape = "m8n8k4" if kind == "f64" else "m16n16k16"
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (6, 8192)).astype(np.uint8)
    for offset in (alignment, 3 * alignment, alignment // 2):
        ptx = transfer(kind, shape).replace("[%rd2]", f"[%rd2+{offset}]")
        module = DEVICE.load(ptx.replace("4096]", f"{4096 + 5 * offset}]"))
        if offset % alignment:
            with pytest.raises(SimulatedTrap) as caught:
                module.launch("kernel", images)
            assert caught.value.trap.kind is TrapKind.MISALIGNED
            continue
        after, _ = module.launch("kernel", images)
        size = 64 * 8 if kind == "f64" else 256 * (2 if kind == "f16" else 4)
        moved = after[:, 4096 + 5 * offset :][:, :size]
        assert np.array_equal(moved, images[:, offset : offset + size])


@pytest.mark.parametrize("before", [0, 16, 4096, 1 << 31])
def test_a_register_and_an_immediate_of_shared_memory_make_32_bits(before: int) -> None:
    # They wrap (H200, ptxas 13.0 at -O0 and -O3, 2026-11-23).
    immediate = before if before < 1 << 31 else -(1 << 31)
    body = f"""
    .reg .b32 %base, %low, %word;
    .shared .align 4 .b8 cells[64];
    mov.u32 %base, cells;
    mov.b32 %word, 0x12345678;
    st.shared.b32 [%base+8], %word;
    sub.u32 %low, %base, {before};
    ld.shared.b32 %word, [%low+{immediate + 8}];
    st.global.b32 [%rd2], %word;
"""
    found = launch(body, np.zeros((1, 256), np.uint8))
    assert found.view("<u4")[0, 0] == 0x12345678
