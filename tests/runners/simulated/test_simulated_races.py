"""Grids of any shape, and races: what has an order runs, and what has none is refused by line."""

from __future__ import annotations

import gc
import re
from contextlib import suppress

import numpy as np
import pytest

from oracle.errors import UsageError
from runners.kernels import Launch
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind
from runners.simulated.races import WatchedMemory

WORDS = 1024
HEAD = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 memory)
{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<10>; .reg .b16 %h<4>;
.shared .align 16 .b8 tile[4096];
ld.param.u64 %rd0, [memory]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;
mad.lo.u32 %r3, %r1, %r2, %r0; mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd0, %rd1;
ld.global.u32 %r4, [%rd1]; shl.b32 %r5, %r0, 2; mov.u32 %r6, tile; add.u32 %r7, %r6, %r5;
"""
FIRST = HEAD.count("\n") + 1
NEIGHBOUR = "xor.b32 %r8, %r5, 4; add.u32 %r8, %r6, %r8; ld.shared.u32 %r9, [%r8];"
KEEP = "st.global.u32 [%rd1], %r9;"


def run(
    *lines: str,
    block: tuple[int, int, int] = (64, 1, 1),
    grid: tuple[int, int, int] = (2, 1, 1),
    shared: int = 0,
    otherwise: bool = False,
    target: str = "sm_80",
) -> np.ndarray:
    ptx = HEAD.replace("sm_80", target) + "\n".join(lines) + "\nret;\n}\n"
    launch = Launch(
        grid=grid, block=block, shared_bytes=shared, parameters=bytes(8), pointers=((0, 256),),
        buffers=((256, 4 * WORDS),),
    )  # fmt: skip
    image = np.zeros(512 + 4 * WORDS, np.uint8)
    image[256:-256] = np.arange(WORDS, dtype=np.uint32).view(np.uint8)
    device = SimulatedDevice(target, otherwise=otherwise)
    after = device.load(ptx).launch_grid("kernel", image, launch).image
    assert not after[:256].any()
    assert not after[-256:].any()
    return after[256:-256].view(np.uint32)


@pytest.mark.parametrize(
    ("changed", "image", "words"),
    [
        ({}, np.zeros(512 + 4 * WORDS, np.float32), "dtype float32; .* flat array of uint8"),
        ({}, np.zeros(255 + 4 * WORDS, np.uint8), f"with {256 + 4 * WORDS} bytes or more"),
        ({"grid": (0, 1, 1)}, None, r"\(0, 1, 1\) blocks .* 1 or more along each axis"),
        ({"block": (1025, 1, 1)}, None, "up to 1024 threads a block"),
    ],
)
def test_a_launch_that_is_none_is_a_sentence(
    changed: dict[str, tuple[int, int, int]], image: np.ndarray | None, words: str
) -> None:
    given = {"grid": (1, 1, 1), "block": (64, 1, 1), **changed}
    launch = Launch(
        **given, shared_bytes=0, parameters=bytes(8), pointers=((0, 256),),
        buffers=((256, 4 * WORDS),),
    )  # fmt: skip
    module = SimulatedDevice("sm_80").load(HEAD + "ret;\n}\n")
    if image is None:
        image = np.zeros(512 + 4 * WORDS, np.uint8)
    with pytest.raises(UsageError, match=words):
        module.launch_grid("kernel", image, launch)


ORDERED = {
    "a barrier of the block": ("st.shared.u32 [%r7], %r4;", "bar.sync 0;", NEIGHBOUR),
    "a barrier of the warp": ("st.shared.u32 [%r7], %r4;", "bar.warp.sync -1;", NEIGHBOUR),
    "barriers in a loop": (
        "mov.u32 %r10, 0;", "LOOP:", "st.shared.u32 [%r7], %r4;", "bar.sync 0;", NEIGHBOUR,
        "bar.sync 0;", "add.u32 %r10, %r10, 1;", "setp.lt.u32 %p0, %r10, 3;", "@%p0 bra LOOP;",
    ),
    "one thread alone": ("st.shared.u32 [%r7], %r4;", "ld.shared.u32 %r9, [%r7];",
                         "xor.b32 %r9, %r9, 1;"),
    "all lanes store the same value": (
        "st.shared.u32 [tile], 6;", "add.u32 %r10, %r0, 1;", "st.shared.u32 [tile], 6;",
        "bar.sync 0;", "ld.shared.u32 %r9, [tile];", "sub.u32 %r9, %r9, 6;",
        "add.u32 %r9, %r9, %r4;", "xor.b32 %r9, %r9, 1;",
    ),
    "halves of the same value": (
        "mov.u32 %r10, 0x00070007;", "st.shared.u32 [tile], %r10;", "mov.u16 %h0, 7;",
        "st.shared.u16 [tile+2], %h0;", "bar.sync 0;", "xor.b32 %r9, %r4, 1;",
    ),
    "sums without asking": (
        "setp.eq.u32 %p0, %r0, 0;", "@%p0 st.shared.u32 [tile], 0;", "bar.sync 0;",
        "red.shared.add.u32 [tile], 1;", "bar.sync 0;", "ld.shared.u32 %r9, [tile];",
        "xor.b32 %r9, %r4, 1;",
    ),
    "sums whose answers nobody reads": (
        "setp.eq.u32 %p0, %r0, 0;", "@%p0 st.shared.u32 [tile], 0;", "bar.sync 0;",
        "atom.shared.add.u32 %r11, [tile], 1;", "bar.sync 0;", "ld.shared.u32 %r9, [tile];",
        "xor.b32 %r9, %r4, 1;",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lines", ORDERED.values(), ids=ORDERED)
@pytest.mark.parametrize("otherwise", [False, True])
def test_accesses_with_an_order_run(lines: tuple[str, ...], otherwise: bool) -> None:
    after = run(*lines, KEEP, otherwise=otherwise)
    assert np.array_equal(after[:128], np.arange(128) ^ 1)
    assert np.array_equal(after[128:], np.arange(128, WORDS))


RACES = {
    "no barrier": (("st.shared.u32 [%r7], %r4;", NEIGHBOUR), 1, 0),
    "a barrier of the warp, and another warp": (
        ("st.shared.u32 [%r7], %r4;", "bar.warp.sync -1;", "xor.b32 %r8, %r5, 128;",
         "add.u32 %r8, %r6, %r8;", "ld.shared.u32 %r9, [%r8];"), 4, 0,
    ),
    "a barrier of some lanes": (
        ("st.shared.u32 [%r7], %r4;", "and.b32 %r10, %r0, 31;", "setp.lt.u32 %p0, %r10, 16;",
         "@%p0 bar.warp.sync 0xffff;", NEIGHBOUR), 4, 0,
    ),
    "a read, then a write": (
        ("st.shared.u32 [%r7], %r4;", "bar.sync 0;", NEIGHBOUR, "st.shared.u32 [%r7], 0;"), 3, 2,
    ),
    "all lanes write the same word": (("st.shared.u32 [tile], %r4;",), 0, 0),
    "another value in another line": (
        ("st.shared.u32 [tile], 6;", "setp.eq.u32 %p0, %r0, 3;", "@%p0 st.shared.u32 [tile], 7;"),
        2, 0,
    ),
    "the same value, and a read": (
        ("st.shared.u32 [tile], 6;", "ld.shared.u32 %r9, [tile];"), 1, 0,
    ),
    "a sum, and a store": (
        ("st.shared.u32 [tile], 6;", "bar.sync 0;", "red.shared.add.u32 [tile], 0;",
         "st.shared.u32 [tile], 6;"), 3, 2,
    ),
    "blocks write the same words": (
        ("mul.wide.u32 %rd2, %r0, 4;", "add.u64 %rd2, %rd0, %rd2;",
         "st.global.u32 [%rd2+2048], %r1;"),
        2, 2,
    ),
    "blocks read what others write": (
        ("mul.wide.u32 %rd2, %r0, 4;", "add.u64 %rd2, %rd0, %rd2;", "ld.global.u32 %r9, [%rd2];",
         "bar.sync 0;", KEEP), 4, 2,
    ),
    "halves of a word": (
        ("st.shared.u32 [%r7], %r4;", "xor.b32 %r8, %r5, 6;", "add.u32 %r8, %r6, %r8;",
         "ld.shared.u16 %h0, [%r8];"), 3, 0,
    ),
    "sums of which one asks": (
        ("setp.eq.u32 %p0, %r0, 0;", "@%p0 st.shared.u32 [tile], 0;", "bar.sync 0;",
         "atom.shared.add.u32 %r9, [tile], 1;", "xor.b32 %r8, %r9, 1;"), 3, 3,
    ),
    "sums of two sorts": (
        ("setp.eq.u32 %p0, %r0, 0;", "@%p0 st.shared.u32 [tile], 0;", "bar.sync 0;",
         "red.shared.add.u32 [tile], 1;", "red.shared.max.u32 [tile], 1;"), 4, 3,
    ),
    "a sum, and a read": (
        ("setp.eq.u32 %p0, %r0, 0;", "@%p0 st.shared.u32 [tile], 0;", "bar.sync 0;",
         "red.shared.add.u32 [tile], 1;", "ld.shared.u32 %r9, [tile];"), 4, 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "later", "earlier"), RACES.values(), ids=RACES)
def test_a_race_is_refused_with_both_lines_and_threads(
    lines: tuple[str, ...], later: int, earlier: int
) -> None:
    with pytest.raises(SimulatedTrap) as stopped:
        run(*lines)
    trap = stopped.value.trap
    assert (trap.kind, trap.line) == (TrapKind.RACE, FIRST + later)
    assert f"in line {FIRST + earlier} by thread" in trap.message
    one, other = re.findall(r"thread (\d+) of block (\d+)", trap.message)
    assert one != other


@pytest.mark.parametrize("writer", [0, 1, 31])
@pytest.mark.parametrize("lane_first", [True, False])
def test_what_a_warp_does_as_a_whole_has_no_order_beside_one_of_its_threads(
    writer: int, lane_first: bool
) -> None:
    # Nobody says which thread of it reads or writes what, so that it is not its first one either.
    only = f"setp.eq.u32 %p0, %r0, {writer};"
    filled = ("st.shared.u32 [%r7], %r4;", "mov.u32 %r10, tile;", only, "bar.warp.sync -1;")
    one = "@%p0 st.shared.u32 [tile], 0;" if lane_first else "@%p0 ld.shared.u32 %r11, [tile];"
    all_of_it = (
        "wmma.load.a.sync.aligned.row.m8n8k32.shared.u4 {%r9}, [%r10];" if lane_first
        else "wmma.store.d.sync.aligned.row.m8n8k32.shared.s32 [%r10], {%r4, %r5};"
    )  # fmt: skip
    pair = (one, all_of_it) if lane_first else (all_of_it, one)
    end = "mov.u32 %r9, 0;", KEEP
    run(*filled, pair[0], "bar.warp.sync -1;", pair[1], *end, block=(32, 1, 1))
    with pytest.raises(SimulatedTrap, match=r"the warp of thread 0 of block 0 as a whole") as trap:
        run(*filled, *pair, *end, block=(32, 1, 1))
    assert trap.value.trap.kind is TrapKind.RACE
    assert f"thread {writer} of block 0" in str(trap.value)


@pytest.mark.parametrize(
    "second",
    ["wmma.load.c.sync.aligned.row.m8n8k32.shared.s32 {%r9, %r11}, [%r10];",
     "wmma.store.d.sync.aligned.col.m8n8k32.shared.s32 [%r10], {%r5, %r4};"],
)  # fmt: skip
def test_what_a_warp_does_as_a_whole_twice_has_an_order_by_a_barrier_alone(second: str) -> None:
    first = (
        "mov.u32 %r10, tile;",
        "wmma.store.d.sync.aligned.row.m8n8k32.shared.s32 [%r10], {%r4, %r5};",
    )
    end = "mov.u32 %r9, 0;", KEEP
    run(*first, "bar.warp.sync -1;", second, *end, block=(32, 1, 1))
    with pytest.raises(SimulatedTrap, match=rf"line {FIRST + 2}: race: .*in line {FIRST + 1} by"):
        run(*first, second, *end, block=(32, 1, 1))
    with pytest.raises(
        SimulatedTrap, match=rf"{FIRST + 1}: .*{FIRST + 1} by the warp of thread 32"
    ):
        run(*first, *end, block=(64, 1, 1))


def test_rows_of_one_store_lie_apart() -> None:
    lines = "mov.u32 %r10, tile;", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r10], {%r4};"
    apart = "shl.b32 %r9, %r0, 4;", "add.u32 %r10, %r10, %r9;"
    end = "mov.u32 %r9, 0;", KEEP
    run(lines[0], *apart, lines[1], *end, block=(32, 1, 1), target="sm_90")
    with pytest.raises(SimulatedTrap, match=r"byte 0x[0-9a-f]+ of .*, which it writes twice"):
        run(*lines, *end, block=(32, 1, 1), target="sm_90")


def test_a_variable_of_the_module_is_not_changed_from_launch_to_launch() -> None:
    declared = HEAD.replace(".visible", ".global .u32 count;\n.visible")
    launch = Launch(
        grid=(1, 1, 1), block=(1, 1, 1), shared_bytes=0, parameters=bytes(8), pointers=((0, 256),),
        buffers=((256, 4096),),
    )  # fmt: skip
    for line, fine in (("ld.global.u32 %r9, [count];", True), ("st.global.u32 [count], 1;", False)):
        module = SimulatedDevice("sm_80").load(f"{declared}{line}\nret;\n}}\n")
        if fine:
            module.launch_grid("kernel", np.zeros(8192, np.uint8), launch)
        else:
            with pytest.raises(SimulatedTrap, match="the next launch would find"):
                module.launch_grid("kernel", np.zeros(8192, np.uint8), launch)


def test_shared_memory_that_nobody_wrote_is_no_value() -> None:
    with pytest.raises(SimulatedTrap, match=f"line {FIRST}: .*nobody wrote"):
        run(NEIGHBOUR, KEEP)


def test_a_copy_that_nobody_waited_for_is_not_read() -> None:
    copy = "cp.async.ca.shared.global [%r7], [%rd1], 4;"
    wait = "cp.async.wait_all;"
    after = run(copy, wait, "bar.sync 0;", NEIGHBOUR, KEEP)
    assert np.array_equal(after[:128], np.arange(128) ^ 1)
    for line in ("ld.shared.u32 %r9, [%r7];", "st.shared.u32 [%r7], 0;", copy):
        with pytest.raises(SimulatedTrap, match="asynchronous copy"):
            run(copy, line, KEEP)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_wait_for_groups_of_copies_leaves_the_last_ones_under_way(left: int) -> None:
    """Three copies of a thread, of which the third has no end of its group yet."""
    copies = [
        f"cp.async.ca.shared.global [%r7+{at}], [%rd1], 4;{end}"
        for at, end in ((0, "cp.async.commit_group;"), (1024, "cp.async.commit_group;"), (2048, ""))
    ]
    for number in range(3):
        lines = (
            *copies, f"cp.async.wait_group {left};", "bar.sync 0;",
            NEIGHBOUR.replace("[%r8]", f"[%r8+{1024 * number}]"), KEEP,
        )  # fmt: skip
        if number < 2 - left:
            after = run(*lines, grid=(1, 1, 1), block=(128, 1, 1))
            assert np.array_equal(after[:128], np.arange(128) ^ 1)
        else:
            with pytest.raises(SimulatedTrap, match="asynchronous copy"):
                run(*lines, block=(96, 1, 1))


def test_threads_at_barriers_of_different_numbers_wait_for_ever() -> None:
    lines = ("setp.lt.u32 %p0, %r0, 32;", "@%p0 bar.sync {};", "@!%p0 bar.sync {};",
             "xor.b32 %r9, %r4, 1;", KEEP)  # fmt: skip
    with pytest.raises(SimulatedTrap, match=f"line {FIRST + 1}.*threads that are elsewhere"):
        run(*(line.format(index) for index, line in enumerate(lines)))
    assert np.array_equal(run(*(line.format(1) for line in lines))[:128], np.arange(128) ^ 1)
    with pytest.raises(SimulatedTrap, match="the one that joins their predicates"):
        run(lines[0], "@%p0 bar.sync 0;", "@!%p0 bar.red.popc.u32 %r9, 0, %p0;", KEEP)


HALF = ("shr.u32 %r10, %r0, 6;", "add.u32 %r11, %r10, 1;", "st.shared.u32 [%r7], %r4;")
"""Each 64 threads have a number of their own in %r11, and write."""
OTHERS = ("xor.b32 %r8, %r7, 256;", "ld.shared.u32 %r9, [%r8];")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("bar.sync %r11, 64;", NEIGHBOUR), ""),
        (("barrier.sync.aligned %r11, 64;", NEIGHBOUR, "bar.sync 0;", *OTHERS), ""),
        (("bar.sync %r11, 64;", NEIGHBOUR, "bar.sync %r11, 64;", "st.shared.u32 [%r7], 0;"), ""),
        # Ordered are those who waited for each other, no others.
        (("bar.sync %r11, 64;", *OTHERS), "with no common barrier"),
        (("bar.sync %r11, 32;", "xor.b32 %r8, %r7, 128;", "ld.shared.u32 %r9, [%r8];"), "more th"),
        (("bar.sync %r11, 64;", NEIGHBOUR, "st.shared.u32 [%r7], 0;"), "with no common barrier"),
        # Of those who come to one barrier, who belongs together is open.
        (("bar.sync 1, 64;", NEIGHBOUR), "more threads come to a barrier than the 64"),
        (("setp.lt.u32 %p0, %r0, 32;", "@!%p0 exit;", "bar.sync 1, 64;"), "elsewhere or gone"),
        (("bar.sync %r11, 48;", NEIGHBOUR), "another number of threads"),
        (("bar.sync %r11, 192;", NEIGHBOUR), "another number of threads"),
        (("bar.arrive %r11, 64;", NEIGHBOUR), "another number of threads"),
    ],
)
def test_a_barrier_for_some_warps_orders_these_alone(lines: tuple[str, ...], said: str) -> None:
    """PTX ISA 9.7.13.1: operand b is how many threads take part, a multiple of the warp's."""
    if said:
        with pytest.raises(SimulatedTrap, match=said):
            run(*HALF, *lines, KEEP, block=(128, 1, 1))
        return
    after = run(*HALF, *lines, KEEP, block=(128, 1, 1))
    other = 64 if OTHERS[0] in lines else 1
    assert np.array_equal(after[:256], np.arange(256) ^ other)


MASKS = {
    "nobody is named": ("shfl.sync.bfly.b32 %r9, %r4, 1, 31, 0;",),
    "a lane that does not come": (
        "setp.lt.u32 %p0, %r0, 8;", "@%p0 shfl.sync.bfly.b32 %r9, %r4, 1, 31, -1;",
    ),
    "a lane names others": (
        "setp.eq.u32 %p0, %r0, 3;", "selp.b32 %r10, 15, -1, %p0;",
        "shfl.sync.bfly.b32 %r9, %r4, 1, 31, %r10;",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lines", MASKS.values(), ids=MASKS)
def test_lanes_that_are_not_those_of_the_mask_are_refused(lines: tuple[str, ...]) -> None:
    with pytest.raises(SimulatedTrap, match="not those that their mask names") as stopped:
        run(*lines, "mov.u32 %r9, 0;", KEEP)
    assert stopped.value.trap.line == FIRST + len(lines) - 1


def test_lanes_that_have_exited_are_not_waited_for() -> None:
    after = run(
        "and.b32 %r10, %r0, 16;", "setp.ne.u32 %p0, %r10, 0;", "@%p0 exit;",
        "shfl.sync.bfly.b32 %r9, %r4, 1, 31, -1;", KEEP,
    )  # fmt: skip
    there = np.arange(128)
    assert np.array_equal(after[:128], np.where(there & 16, there, there ^ 1))


UNDECIDED = {
    "an address": ("cvt.u32.u64 %r9, %rd1;",),
    "the address of a variable": ("mov.u32 %r9, tile;",),
    "a register of some lanes": ("setp.lt.u32 %p0, %r0, 3;", "@%p0 mov.u32 %r9, 1;"),
    "a lane that is elsewhere": (
        "mov.u32 %r9, 0;", "setp.lt.u32 %p0, %r0, 8;", "@!%p0 bra L;",
        "shfl.sync.idx.b32 %r9, %r4, 9, 31, 0xff;", "L:",
    ),
    "a borrow that an addition reads": ("sub.cc.u32 %r9, %r4, 5;", "addc.u32 %r9, 0, 0;"),
    "a carry that a subtraction reads": ("add.cc.u32 %r9, %r4, -5;", "subc.u32 %r9, 0, 0;"),
    "local memory": (".local .b32 own[4];", "ld.local.u32 %r9, [own];"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["add", "sub"])
def test_carries_and_borrows_of_the_same_operation_are_decided(name: str) -> None:
    lines = (
        f"{name}.cc.u32 %r9, %r4, 5;",
        f"{name}c.cc.u32 %r9, %r4, 7;",
        f"{name}c.u32 %r9, %r9, 0;",
    )
    assert np.array_equal(run(*lines, KEEP), run(*lines, KEEP, otherwise=True))


@pytest.mark.parametrize("lines", UNDECIDED.values(), ids=UNDECIDED)
def test_what_a_kernel_does_not_decide_is_another_on_another_device(lines: tuple[str, ...]) -> None:
    assert not np.array_equal(run(*lines, KEEP), run(*lines, KEEP, otherwise=True))


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((1, 1, 1), (1, 1, 1)),
        ((3, 1, 1), (50, 1, 1)),
        ((2, 2, 3), (5, 3, 2)),
        ((1, 1, 1), (8, 8, 2)),
    ],
)
def test_threads_of_any_shape_know_who_they_are(
    grid: tuple[int, int, int], block: tuple[int, int, int]
) -> None:
    names = [(f"%ctaid.{a}", f"%nctaid.{a}") for a in "zyx"]
    names += [(f"%tid.{a}", f"%ntid.{a}") for a in "zyx"]
    linear = ["mov.u32 %r9, 0;"]
    for one, extent in names:
        linear += [f"mov.u32 %r10, {extent}; mov.u32 %r11, {one};",
                   "mad.lo.u32 %r9, %r9, %r10, %r11;"]  # fmt: skip
    threads = int(np.prod(grid) * np.prod(block))
    after = run(
        *linear, "mul.wide.u32 %rd2, %r9, 4; add.u64 %rd2, %rd0, %rd2;",
        "add.u32 %r9, %r9, 5000; bar.sync 0;", "st.global.u32 [%rd2+2048], %r9;",
        grid=grid, block=block,
    )  # fmt: skip
    assert np.array_equal(after[512 : 512 + threads], 5000 + np.arange(threads))
    assert np.array_equal(after[512 + threads :], np.arange(512 + threads, WORDS))


def test_dynamic_shared_memory_is_as_large_as_the_launch_says() -> None:
    lines = (
        ".extern .shared .align 4 .b32 more[];", "mov.u32 %r6, more; add.u32 %r7, %r6, %r5;",
        "st.shared.u32 [%r7], %r4;", "bar.sync 0;", NEIGHBOUR, KEEP,
    )  # fmt: skip
    assert np.array_equal(run(*lines, shared=256)[:128], np.arange(128) ^ 1)
    with pytest.raises(SimulatedTrap, match="outside what the kernel has of shared memory"):
        run(*lines, shared=252)


FENCE = "wgmma.fence.sync.aligned;"


@pytest.mark.parametrize("line", ["", "trap;", "st.global.u32 [%rd0], %r3;", FENCE])
def test_memory_that_was_watched_is_gone_without_the_garbage_collector(line: str) -> None:
    gc.collect()
    gc.disable()
    try:
        with suppress(SimulatedTrap):
            run(line, block=(128, 1, 1), target="sm_90a" if line == FENCE else "sm_80")
        assert not any(isinstance(one, WatchedMemory) for one in gc.get_objects())
    finally:
        gc.enable()
