"""What published modules have beside the instructions of other tests: each loads, and does it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import numpy as np
import pytest

from runners.kernels import Launch
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind
from runners.simulated.device import LaunchGrid

BLOCK = 64
DECLARED = """\
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 g,
                           .param .b64 c);
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.func stop(.param .b64 why) .noreturn;
.weak .func (.reg .b32 y) more(.reg .b32 x) { add.u32 y, x, 7; ret; }
.weak .func (.reg .b32 y) less(.reg .b32 x) { sub.u32 y, x, 7; ret; }
.func stop(.param .b64 why) .noreturn { trap; exit; }
.global .align 8 .u64 table[2] = {more, less};
"""


def launched(
    body: str, *, target: str = "sm_80", device: str = "", otherwise: bool = False
) -> tuple[np.ndarray, LaunchGrid]:
    """Run a block of 64 threads, of which thread i has words 4 i, 4 i + 1, … of a buffer.

    Return uint32 (64, 4) words afterwards; before, word j of all is j.
    """
    ptx = f""".version 8.6
.target {target}
.address_size 64
{DECLARED}.visible .entry k(.param .u64 io)
{{
.reg .pred %p<9>; .reg .b32 %t, %r<9>; .reg .b64 %o, %d<9>; .reg .f32 %f<9>; .reg .b128 %q<3>;
.reg .b16 %h<4>; .reg .v4 .u32 %v; .shared .align 16 .b32 tile[256]; .local .b32 own[4];
mov.u32 %t, %tid.x; ld.param.u64 %o, [io]; mul.wide.u32 %d0, %t, 16; add.u64 %o, %o, %d0;
ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%o];
{body}
ret;
}}
"""
    launch = Launch(
        grid=(1, 1, 1), block=(BLOCK, 1, 1), shared_bytes=0, parameters=bytes(8),
        pointers=((0, 0),), buffers=((0, 16 * BLOCK),),
    )  # fmt: skip
    simulated = SimulatedDevice(device or target, otherwise=otherwise)
    image = np.arange(4 * BLOCK, dtype=np.uint32).view(np.uint8)
    grid = simulated.load(ptx).launch_grid("k", image, launch)
    return grid.image.view(np.uint32).reshape(BLOCK, 4), grid


def single(number: float) -> int:
    return int.from_bytes(struct.pack("<f", number), "little")


CALL = "{ .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], 0; st.param.b64 [b], 0;"
INDIRECT = "mov.u64 %d1, more; setp.lt.u32 %p0, %t, 9; @%p0 mov.u64 %d1, less;"
KERNELS: dict[str, tuple[str, str, Callable[[int], int]]] = {
    "an assertion that holds": (
        "sm_80",
        "setp.lt.u32 %p0, %t, 64; @%p0 bra GOOD; { .param .b64 a; .param .b32 b; st.param.b64 [a], "
        "0; st.param.b32 [b], 0; call.uni __assertfail, (a, a, b, a, a); } GOOD: st.global.u32 "
        "[%o], %t;",
        lambda i: i,
    ),
    "a print": (
        "sm_80",
        f"{CALL} call.uni (r), vprintf, (a, b); ld.param.b32 %r1, [r]; }} st.global.u32 [%o], %t;",
        lambda i: i,
    ),
    "parameters of finished calls": (
        "sm_80",
        "{ .param .b64 a; st.param.b64 [a], %d0; ld.param.b32 %r1, [a]; }" * 2049
        + "st.global.u32 [%o], %r1;",
        lambda i: 16 * i,
    ),
    "a target of modules alone": ("sm_61", "st.global.u32 [%o], %t;", lambda i: i),
    "exchange without a mask": (
        "sm_60",
        "shfl.bfly.b32 %r1|%p1, %t, 1, 31; vote.ballot.b32 %r2, %p1; st.global.u32 [%o], %r1;",
        lambda i: i ^ 1,
    ),
    "a vector of special registers": (
        "sm_80", "mov.v4.u32 %v, %ntid; add.u32 %r1, %v.x, %v.w; st.global.u32 [%o], %r1;",
        lambda _: BLOCK,
    ),
    "a vector of 128 bits": (
        "sm_80",
        "ld.global.b128 %q0, [%o]; mov.b128 %q1, %q0; mov.b128 {%d1, %d2}, %q1; mov.b128 %q2, "
        "{%d2, %d1}; st.global.b128 [%o], %q2;",
        lambda i: 4 * i + 2,
    ),
    "packed single precision": (
        "sm_100",
        "mov.b64 %d1, {0f40000000, 0f3f800000}; fma.rn.f32x2 %d2, %d1, %d1, %d1; add.rz.ftz.f32x2 "
        "%d2, %d2, %d1; mul.f32x2 %d2, %d2, %d1; st.global.b64 [%o], %d2;",
        lambda _: single(16.0),
    ),
    "single precision of halves": (
        "sm_100",
        "cvt.rn.f32.u32 %f1, %t; cvt.rn.f16.u32 %h1, %t; mov.b16 %h2, 0x4000; add.rz.f32.f16 %f1, "
        "%h1, %f1; fma.rn.f32.f16 %f1, %h1, %h2, %f1; cvt.rn.bf16.u32 %h1, %t; sub.f32.bf16 %f1, "
        "%h1, %f1; add.sat.f32.bf16 %f2, %h1, %f1; st.global.v2.f32 [%o], {%f1, %f2};",
        lambda i: single(-3.0 * i if i else 0.0),
    ),
    "the greatest of a warp": (
        "sm_100", "cvt.rn.f32.u32 %f1, %t; neg.f32 %f1, %f1; redux.sync.max.abs.f32 %f2, %f1, -1;"
        "st.global.f32 [%o], %f2;",
        lambda i: single(float(i | 31)),
    ),
    "sums of single precision": (
        "sm_80", "st.global.f32 [%o], 0f3f800000; atom.global.add.f32 %f1, [%o], 0f40000000;"
        "red.add.f32 [%o], %f1; st.global.b32 [%o+4], 0x3c003c00;",
        lambda _: single(4.0),
    ),
    "sums of halves": (
        "sm_90", "mov.b16 %h1, 0x3c00; st.global.b32 [%o], 0x3c003c00; atom.add.noftz.f16 %h2, "
        "[%o], %h1; red.global.add.noftz.f16x2 [%o], 0x3c003c00; atom.add.noftz.bf16x2 %r1, "
        "[%o+4], 0x3f803f80;",
        lambda _: 0x40004200,
    ),
    "an order in another place": (
        "sm_80", "st.global.u32 [%o], 1; atom.add.release.gpu.u32 %r1, [%o], 5; "
        "atom.acq_rel.global.gpu.max.u32 %r1, [%o], %r1; red.relaxed.gpu.global.add.u32 [%o], 1;",
        lambda _: 7,
    ),
    "a call of what a list names": (
        "sm_80", f"{INDIRECT} LIST: .calltargets more, less; call (%r1), %d1, (%t), LIST;"
        "st.global.u32 [%o], %r1;",
        lambda i: (i - 7 if i < 9 else i + 7) & 0xFFFF_FFFF,
    ),
    "a call through a table": (
        "sm_80", "and.b32 %r1, %t, 1; mul.wide.u32 %d1, %r1, 8; mov.u64 %d2, table; add.u64 %d2, "
        "%d2, %d1; ld.global.u64 %d1, [%d2]; KIND: .callprototype (.reg .b32 _) _ (.reg .b32 _);"
        "call (%r1), %d1, (%t), KIND; st.global.u32 [%o], %r1;",
        lambda i: (i - 7 if i % 2 else i + 7) & 0xFFFF_FFFF,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", KERNELS)
def test_a_kernel_does_what_is_written(what: str) -> None:
    target, body, expected = KERNELS[what]
    device = "sm_100a" if target == "sm_100" else "sm_90"
    words, _ = launched(body, target=target, device=device)
    assert [int(word) for word in words[:, 0]] == [expected(i) for i in range(BLOCK)]


STOPPED = {
    "an assertion that fails": (
        "sm_80", "{ .param .b64 a; .param .b32 b; call.uni __assertfail, (a, a, b, a, a); }",
        TrapKind.STOPPED, "an assertion of the kernel fails",
    ),
    "an address of no function": (
        "sm_80", "KIND: .callprototype (.reg .b32 _) _ (.reg .b32 _); call (%r1), %d0, (%t), KIND;",
        TrapKind.STOPPED, "at which no function begins",
    ),
    "sums that meet": ("sm_80", "ld.param.u64 %o, [io]; red.global.add.f32 [%o], 0f3f800000;",
                       TrapKind.RACE, "no common barrier"),
    "an exchange that went": ("sm_80", "shfl.bfly.b32 %r1, %t, 1, 31;", TrapKind.ILLEGAL,
                              "a .target below sm_70"),
    "packed numbers before their time": ("sm_90", "add.f32x2 %d1, %d0, %d0;", TrapKind.ILLEGAL,
                                         "needs sm_100"),
    "a sum of bits": ("sm_80", "atom.global.add.b16 %h1, [%o], %h1;", TrapKind.UNSUPPORTED,
                      "no such operation of this type"),
    "a texture": ("sm_80", "tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%o, {%f1}];",
                  TrapKind.UNSUPPORTED, "tex.1d.v4.f32.f32 is not known"),
    "a pointer to nothing shared": (
        "sm_80", "cvta.to.shared.u64 %d1, %o; ld.shared.u32 %r1, [%d1];", TrapKind.OUT_OF_BOUNDS,
        "outside what the kernel has of shared memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", STOPPED)
def test_what_cannot_be_run_is_a_sentence(what: str) -> None:
    target, body, kind, said = STOPPED[what]
    with pytest.raises(SimulatedTrap, match=said) as caught:
        launched(body, target=target)
    assert caught.value.trap.kind is kind


@pytest.mark.parametrize(
    "line",
    [
        "mov.u32 %r1, %envreg3;",
        "{ .param .b32 r; .param .b64 a; call.uni (r), vprintf, (a, a); ld.param.b32 %r1, [r]; }",
        "mov.u64 %d1, more; cvt.u32.u64 %r1, %d1;",
        "atom.global.add.f32 %f1, [%o], 0f00000001; ld.global.u32 %r1, [%o];",
    ],
)
def test_what_is_left_open_differs_between_two_devices(line: str) -> None:
    body = f"st.global.u32 [%o], 3; {line} st.global.u32 [%o], %r1;"
    first, second = (launched(body, otherwise=otherwise)[0] for otherwise in (False, True))
    assert not np.array_equal(first, second)


PIPELINE = """
and.b32 %r5, %t, 31; shl.b32 %r5, %r5, 2; mov.u32 %r6, tile; add.u32 %r5, %r5, %r6;
mov.u32 %r7, 0; setp.lt.u32 %p0, %t, 32; @%p0 bra PRODUCER;
CONSUMER: {empty} bar.sync 2, 64; ld.shared.u32 %r1, [%r5]; add.u32 %r0, %r0, %r1;
add.u32 %r7, %r7, 1; setp.lt.u32 %p0, %r7, 3; @%p0 bra CONSUMER; st.global.u32 [%o], %r0; ret;
PRODUCER: {free} add.u32 %r0, %r0, 1; st.shared.u32 [%r5], %r0; {full}
add.u32 %r7, %r7, 1; setp.lt.u32 %p0, %r7, 3; @%p0 bra PRODUCER;
"""
ROLES = {"empty": "bar.arrive 1, 64;", "free": "bar.sync 1, 64;", "full": "bar.arrive 2, 64;"}


def test_who_only_arrives_at_a_barrier_goes_on() -> None:
    """Of a buffer that is filled three times; whoever fills it waits until it is empty."""
    words, _ = launched(PIPELINE.format(**ROLES))
    for i in range(32, BLOCK):
        assert words[i, 0] == 4 * i + sum(4 * (i - 32) + turn for turn in (1, 2, 3))


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"free": "bar.arrive 1, 64;"}, TrapKind.RACE),
        ({"full": "bar.arrive 3, 64;"}, TrapKind.DIVERGENT),
        ({"full": ""}, TrapKind.DIVERGENT),
        ({"full": "bar.arrive 2, 32;"}, TrapKind.UNSUPPORTED),
    ],
)
def test_who_waits_for_nobody_races_or_waits_for_ever(
    changed: dict[str, str], kind: TrapKind
) -> None:
    with pytest.raises(SimulatedTrap) as caught:
        launched(PIPELINE.format(**ROLES | changed))
    assert caught.value.trap.kind is kind


BOUNDS: dict[str, tuple[Callable[[float], float], str, float]] = {
    # Function, and its largest error as the ISA states it: relative, absolute, or in ulp.
    "ex2.approx.ftz.f32": (lambda x: 2.0**x, "relative", 2**-22),
    "lg2.approx.f32": (math.log2, "absolute", 2**-22),
    "rcp.approx.f32": (lambda x: 1 / x, "relative", 2**-23),
    "sqrt.approx.ftz.f32": (math.sqrt, "relative", 2**-23),
    "rsqrt.approx.f32": (lambda x: 1 / math.sqrt(x), "relative", 2**-22.9),
    "sin.approx.f32": (math.sin, "absolute", 2**-20.5),
    "cos.approx.f32": (math.cos, "absolute", 2**-20.5),
    "tanh.approx.f32": (math.tanh, "relative", 2**-11),
}


@pytest.mark.parametrize("opcode", BOUNDS)
def test_a_stand_in_keeps_the_bound_of_the_isa(opcode: str) -> None:
    function, sort, bound = BOUNDS[opcode]
    words, grid = launched(
        "cvt.rn.f32.u32 %f1, %t; fma.rn.f32 %f1, %f1, 0f3da00000, 0f3dcccccd; st.global.f32 [%o+4],"
        f" %f1; {opcode} %f2, %f1; st.global.f32 [%o], %f2;"
    )
    values = words.view(np.float32).astype(np.float64)
    for actual, given in values[:, :2]:
        exact = function(given)
        assert abs(actual - exact) <= bound * (abs(exact) if sort == "relative" else 1.0)
    assert grid.approximate.reshape(BLOCK, 16)[:, :4].all()
    assert not grid.approximate.reshape(BLOCK, 16)[:, 4:].any()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("div.approx.f32 %f2, 0f3f800000, 0f7f000000;", 0),
        ("div.approx.f32 %f2, 0f7f800000, 0f7f000000;", 0x7FFF_FFFF),
        ("div.full.f32 %f2, 0f3f800000, 0f7f000000;", single(2.0**-127)),
        ("rsqrt.approx.f32 %f2, 0f80000000;", 0xFF80_0000),
        ("ex2.approx.ftz.f32 %f2, 0f00000001;", single(1.0)),
        ("mov.b32 %r1, 0x40003c00; ex2.approx.f16x2 %r2, %r1; mov.b32 %f2, %r2;", 0x4400_4000),
        ("mov.b32 %r1, 0x40003f80; ex2.approx.ftz.bf16x2 %r2, %r1; mov.b32 %f2, %r2;", 0x4080_4000),
        ("mov.b64 %d1, 0d4008000000000000; rcp.approx.ftz.f64 %d1, %d1; cvt.u32.u64 %r1, %d1;"
         "mov.b32 %f2, %r1;", 0),
    ],
)  # fmt: skip
def test_a_stand_in_has_the_special_results_of_the_isa(line: str, expected: int) -> None:
    words, _ = launched(f"{line} st.global.f32 [%o], %f2;", target="sm_90")
    assert hex(words[0, 0]) == hex(expected)


NEAR = "cvt.rn.f32.u32 %f1, %t; ex2.approx.ftz.f32 %f2, %f1; mov.b32 %r5, %f2;"
MINE = "shl.b32 %r6, %t, 2; mov.u32 %r7, tile; add.u32 %r6, %r6, %r7;"
WAYS = {
    "arithmetic": ("add.u32 %r5, %r5, 1; st.global.u32 [%o], %r5;", 4),
    "nothing": ("st.global.u32 [%o], %t;", 0),
    "a store over it": ("st.global.u32 [%o], %r5; st.global.u32 [%o], %t;", 0),
    "the other words of a vector": ("st.global.v2.u32 [%o], {%t, %r5};", 8),
    "shared memory": (f"{MINE} st.shared.u32 [%r6], %r5; bar.sync 0; ld.shared.u32 %r1, [%r6];"
                      "st.global.u32 [%o+8], %r1;", 4),
    "its own memory": ("st.local.u32 [own], %r5; ld.local.u32 %r1, [own]; st.global.u32 [%o], %r1;",
                       4),
    "a parameter": ("{ .param .b32 a; st.param.b32 [a], %r5; ld.param.b32 %r1, [a]; }"
                    "st.global.u32 [%o], %r1;", 4),
    "a generic address": ("mov.u64 %d1, own; cvta.local.u64 %d1, %d1; st.u32 [%d1], %r5;"
                          "st.u32 [%o+4], %t; ld.u32 %r1, [%d1]; ld.u32 %r2, [%o+4];"
                          "st.u32 [%o], %r1; st.u32 [%o+8], %r2;", 4),
    "a function": ("call (%r1), more, (%r5); st.global.u32 [%o], %r1;", 4),
    "a buffer": ("st.global.u32 [%o], %r5; ld.global.u32 %r1, [%o]; st.global.u32 [%o+8], %r1;", 8),
    "a sum in memory": ("st.global.u32 [%o], 0; red.global.add.u32 [%o], %r5; red.global.add.u32 "
                        "[%o], 1;", 4),
    "another lane": ("shfl.sync.bfly.b32 %r1, %r5, 1, 31, -1; st.global.u32 [%o], %r1;", 4),
    "a selection": ("setp.lt.u32 %p0, %r5, 9; selp.u32 %r1, 1, 2, %p0; st.global.u32 [%o], %r1;",
                    4),
    "a guard of a move": ("setp.lt.u32 %p0, %r5, 9; mov.u32 %r1, 1; @%p0 mov.u32 %r1, 2; "
                          "st.global.u32 [%o], %r1;", 4),
    "a guard of a store": ("setp.lt.u32 %p0, %r5, 9; @%p0 st.global.u32 [%o], 1;", 16),
    "a branch": ("setp.lt.u32 %p0, %r5, 9; @%p0 bra OUT; st.global.u32 [%o], 1; OUT:", 16),
    "an exit": ("setp.lt.u32 %p0, %r5, 9; @%p0 exit; st.global.u32 [%o], 1;", 16),
    "an address": ("and.b32 %r1, %r5, 4; cvt.u64.u32 %d1, %r1; add.u64 %o, %o, %d1;"
                   "st.global.u32 [%o], 1;", 16),
}  # fmt: skip
"""Ways from an approximate result to memory, and how many of a thread's 16 bytes they reach."""


@pytest.mark.parametrize("way", WAYS)
def test_what_depends_on_an_approximate_result_is_known(way: str) -> None:
    lines, count = WAYS[way]
    for _ in range(2):
        _, grid = launched(NEAR + lines)
        assert set(grid.approximate.reshape(BLOCK, 16).sum(axis=1)) == {count}
