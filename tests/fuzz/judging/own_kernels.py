"""Thirty small kernels of several warps and blocks, each with what NumPy says it does.

`python own_kernels.py FOLDER` writes them, each with its launch, for `warpfuzz judge`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Words = np.ndarray
"""uint32 (blocks, threads of a block): an element of each thread."""

HEAD = """\
.version 8.0
.target {target}
.address_size 64
{module}
.visible .entry {name}(.param .u64 in, .param .u64 out)
{{
.reg .pred %p<8>;
.reg .b16 %h<8>;
.reg .b32 %r<32>, %t, %b, %n, %i, %x, %y, %s, %tile;
.reg .f32 %f<8>;
.reg .f64 %d<8>;
.reg .b64 %rd<16>, %in, %out;
.shared .align 16 .b8 tile[4096];
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
mov.u32 %t, %tid.x;
{linear}
mul.wide.u32 %rd0, %i, 4;
add.u64 %in, %in, %rd0;
add.u64 %out, %out, %rd0;
ld.global.u32 %x, [%in];
mov.u32 %tile, tile;
mad.lo.u32 %s, %t, 4, %tile;
"""
ONE_AXIS = "mov.u32 %b, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmad.lo.u32 %i, %b, %n, %t;"
TAIL = "st.global.u32 [%out], %y;\nret;\n}\n"


@dataclass(frozen=True, kw_only=True)
class Own:
    """A kernel of an element for each thread."""

    name: str
    body: str
    """What makes %y of %x; %s is the thread's word of `tile`."""
    describe: Callable[[Words], Words]
    grid: tuple[int, ...] = (3,)
    block: tuple[int, ...] = (96,)
    shared: int = 0
    module: str = ""
    linear: str = ONE_AXIS
    target: str = "sm_80"

    @property
    def ptx(self) -> str:
        head = HEAD.format(
            name=self.name, module=self.module, linear=self.linear, target=self.target
        )
        lines = (" ".join(line.split()).rstrip(";") for line in self.body.split(";;"))
        ended = (line if line[-1] in ":{}" else f"{line};" for line in lines if line)
        return head + "\n".join(ended) + "\n" + TAIL

    @property
    def threads(self) -> tuple[int, int]:
        return int(np.prod(self.grid)), int(np.prod(self.block))

    @property
    def launch(self) -> str:
        size = 4 * int(np.prod(self.threads))
        return (
            f"grid = {list(self.grid)}\nblock = {list(self.block)}\nshared = {self.shared}\n"
            f'[arguments]\nin = {{ bytes = {size}, type = "u32" }}\n'
            f'out = {{ bytes = {size}, type = "u32", fill = "zeros" }}\n'
        )


KERNELS: dict[str, Own] = {}


def own(name: str, body: str, describe: Callable[[Words], Words], **others: object) -> None:
    KERNELS[name] = Own(name=name, body=body, describe=describe, **others)  # type: ignore[arg-type]


SHARE = "st.shared.u32 [%s], %x;;bar.sync 0;;"


def fetch(index: str, target: str = "%y") -> str:
    """Fetch the word of the tile with an index from a register."""
    return f"mad.lo.u32 %r31, {index}, 4, %tile;; ld.shared.u32 {target}, [%r31];;"


def u32(value: np.ndarray) -> Words:
    return (value & 0xFFFF_FFFF).astype(np.uint32)


own(
    "turned",
    f"{SHARE} sub.u32 %r0, %n, 1;; sub.u32 %r0, %r0, %t;; {fetch('%r0')}",
    lambda x: x[:, ::-1],
)
own(
    "rotated",
    f"{SHARE} add.u32 %r0, %t, 33;; rem.u32 %r0, %r0, %n;; {fetch('%r0')}",
    lambda x: np.roll(x, -33, axis=1),
)
own(
    "neighbours",
    f"""{SHARE} add.u32 %r0, %t, 1;; rem.u32 %r0, %r0, %n;; {fetch("%r0", "%r1")}
    add.u32 %r0, %t, %n;; sub.u32 %r0, %r0, 1;; rem.u32 %r0, %r0, %n;; {fetch("%r0", "%r2")}
    add.u32 %y, %r1, %r2;; sub.u32 %y, %y, %x;; sub.u32 %y, %y, %x;;""",
    lambda x: np.roll(x, -1, 1) + np.roll(x, 1, 1) - 2 * x,
)
own(
    "tree",
    """st.shared.u32 [%s], %x;; mov.u32 %r0, 64;; L:;; bar.sync 0;;
    setp.ge.u32 %p0, %t, %r0;; @%p0 bra N;; mad.lo.u32 %r1, %r0, 4, %s;; ld.shared.u32 %r2, [%r1];;
    ld.shared.u32 %r3, [%s];; add.u32 %r3, %r3, %r2;; st.shared.u32 [%s], %r3;; N:;;
    shr.u32 %r0, %r0, 1;; setp.ne.u32 %p1, %r0, 0;; @%p1 bra L;; bar.sync 0;;
    ld.shared.u32 %y, [tile];;""",
    lambda x: np.repeat(u32(x.sum(1, dtype=np.uint64))[:, None], x.shape[1], 1),
    block=(128,),
)
own(
    "scan",
    """mov.u32 %y, %x;; mov.u32 %r0, 1;; L:;; st.shared.u32 [%s], %y;; bar.sync 0;;
    setp.lt.u32 %p0, %t, %r0;; @%p0 bra N;; shl.b32 %r1, %r0, 2;; sub.u32 %r1, %s, %r1;;
    ld.shared.u32 %r2, [%r1];; add.u32 %y, %y, %r2;; N:;; bar.sync 0;; shl.b32 %r0, %r0, 1;;
    setp.lt.u32 %p1, %r0, %n;; @%p1 bra L;;""",
    lambda x: u32(np.cumsum(x, axis=1, dtype=np.uint64)),
)
own(
    "greatest",
    f"""{SHARE} mov.u32 %y, 0;; mov.u32 %r0, 0;; L:;; {fetch("%r0", "%r1")}
    max.s32 %y, %y, %r1;; add.u32 %r0, %r0, 1;; setp.lt.u32 %p0, %r0, %n;; @%p0 bra L;;""",
    lambda x: np.repeat(
        np.maximum(x.view(np.int32).max(1), 0).view(np.uint32)[:, None], x.shape[1], 1
    ),
)
own(
    "transposed",
    f"""{SHARE} div.u32 %r0, %t, 8;; rem.u32 %r1, %t, 8;; mad.lo.u32 %r2, %r1, 12, %r0;;
    {fetch("%r2")}""",
    lambda x: x.reshape(-1, 8, 12).transpose(0, 2, 1).reshape(x.shape),
)
own(
    "histogram",
    f"""setp.ge.u32 %p0, %t, 16;; @%p0 bra N;; st.shared.u32 [%s], 0;; N:;; bar.sync 0;;
    and.b32 %r0, %x, 15;; mad.lo.u32 %r1, %r0, 4, %tile;; red.shared.add.u32 [%r1], 1;; bar.sync 0;;
    {fetch("%r0")}""",
    lambda x: np.array([[(row & 15 == one & 15).sum() for one in row] for row in x]),
)
own(
    "lowest",
    """setp.eq.u32 %p0, %t, 0;; @%p0 st.shared.u32 [tile], -1;; bar.sync 0;;
    red.shared.min.u32 [tile], %x;; bar.sync 0;; ld.shared.u32 %y, [tile];;""",
    lambda x: np.repeat(x.min(1)[:, None], x.shape[1], 1),
)
own(
    "sorted",
    """st.shared.u32 [%s], %x;; mov.u32 %r0, 0;; L:;; bar.sync 0;; add.u32 %r1, %t, %r0;;
    and.b32 %r1, %r1, 1;; add.u32 %r2, %t, 1;; setp.eq.u32 %p0, %r1, 0;;
    setp.lt.and.u32 %p0, %r2, %n, %p0;;
    @!%p0 bra N;; ld.shared.u32 %r3, [%s];; ld.shared.u32 %r4, [%s+4];; min.u32 %r5, %r3, %r4;;
    max.u32 %r6, %r3, %r4;; st.shared.u32 [%s], %r5;; st.shared.u32 [%s+4], %r6;; N:;;
    add.u32 %r0, %r0, 1;; setp.lt.u32 %p1, %r0, %n;; @%p1 bra L;; bar.sync 0;;
    ld.shared.u32 %y, [%s];;""",
    lambda x: np.sort(x, axis=1),
    block=(40,),
)
own(
    "warp_sums",
    f"""mov.u32 %y, %x;; mov.u32 %r0, 16;; L:;; shfl.sync.bfly.b32 %r1, %y, %r0, 31, -1;;
    add.u32 %y, %y, %r1;; shr.u32 %r0, %r0, 1;; setp.ne.u32 %p0, %r0, 0;; @%p0 bra L;;
    shr.u32 %r2, %t, 5;; and.b32 %r3, %t, 31;; setp.eq.u32 %p1, %r3, 0;;
    mad.lo.u32 %r4, %r2, 4, %tile;;
    @%p1 st.shared.u32 [%r4], %y;; bar.sync 0;; rem.u32 %r5, %t, 3;; {fetch("%r5")}""",
    lambda x: u32(x.reshape(-1, 3, 32).sum(2, dtype=np.uint64))[:, np.arange(96) % 3],
)
own(
    "ballots",
    f"""and.b32 %r0, %x, 1;; setp.eq.u32 %p0, %r0, 1;; vote.sync.ballot.b32 %r1, %p0, -1;;
    popc.b32 %r2, %r1;; shr.u32 %r3, %t, 5;; and.b32 %r4, %t, 31;; setp.eq.u32 %p1, %r4, 5;;
    mad.lo.u32 %r5, %r3, 4, %tile;; @%p1 st.shared.u32 [%r5], %r2;; bar.sync 0;;
    sub.u32 %r6, 2, %r3;; {fetch("%r6")}""",
    lambda x: np.repeat((x & 1).reshape(-1, 3, 32).sum(2)[:, ::-1], 32, axis=1),
)
own(
    "prefix_of_lanes",
    """mov.u32 %y, %x;; mov.u32 %r0, 1;; and.b32 %r2, %t, 31;; L:;;
    shfl.sync.up.b32 %r1|%p0, %y, %r0, 0, -1;; @%p0 add.u32 %y, %y, %r1;; shl.b32 %r0, %r0, 1;;
    setp.lt.u32 %p1, %r0, 32;; @%p1 bra L;;""",
    lambda x: u32(np.cumsum(x.reshape(-1, 3, 32), axis=2, dtype=np.uint64)).reshape(x.shape),
)
own(
    "within_warps",
    """st.shared.u32 [%s], %x;; bar.warp.sync -1;; xor.b32 %r0, %t, 21;;
    mad.lo.u32 %r0, %r0, 4, %tile;; ld.shared.u32 %y, [%r0];;""",
    lambda x: x[:, np.arange(96) ^ 21],
)
own(
    "product",
    f"""{SHARE} shr.u32 %r0, %t, 3;; and.b32 %r1, %t, 7;; mov.u32 %y, 0;; mov.u32 %r2, 0;; L:;;
    mad.lo.u32 %r3, %r0, 8, %r2;; {fetch("%r3", "%r4")} mad.lo.u32 %r5, %r2, 8, %r1;;
    {fetch("%r5", "%r6")} mad.lo.u32 %y, %r4, %r6, %y;; add.u32 %r2, %r2, 1;;
    setp.lt.u32 %p0, %r2, 8;;
    @%p0 bra L;;""",
    lambda x: (x.reshape(-1, 8, 8) @ x.reshape(-1, 8, 8)).reshape(x.shape),
    block=(64,),
)
own(
    "collatz",
    f"""and.b32 %r0, %x, 63;; mov.u32 %r1, 0;; L:;; setp.le.u32 %p0, %r0, 1;; @%p0 bra N;;
    and.b32 %r2, %r0, 1;; setp.eq.u32 %p1, %r2, 0;; @%p1 shr.u32 %r0, %r0, 1;;
    @!%p1 mad.lo.u32 %r0, %r0, 3, 1;; add.u32 %r1, %r1, 1;; bra L;; N:;; st.shared.u32 [%s], %r1;;
    bar.sync 0;; xor.b32 %r3, %t, 1;; {fetch("%r3")}""",
    lambda x: np.vectorize(collatz)(x & 63)[:, np.arange(x.shape[1]) ^ 1],
)
own(
    "ping_pong",
    """mov.u32 %y, %x;; mov.u32 %r0, 0;; mov.u32 %r5, 0;; L:;; add.u32 %r1, %s, %r5;;
    st.shared.u32 [%r1], %y;; bar.sync 0;; xor.b32 %r2, %t, 32;; mad.lo.u32 %r2, %r2, 4, %tile;;
    add.u32 %r2, %r2, %r5;; ld.shared.u32 %r3, [%r2];; mad.lo.u32 %y, %y, 5, %r3;;
    xor.b32 %r5, %r5, 2048;;
    add.u32 %r0, %r0, 1;; setp.lt.u32 %p0, %r0, 6;; @%p0 bra L;;""",
    lambda x: ping_pong(x),
    block=(128,),
)
own(
    "votes",
    """setp.gt.s32 %p0, %x, 0;; vote.sync.all.pred %p1, %p0, -1;; vote.sync.any.pred %p2, %p0, -1;;
    selp.u32 %r0, 2, 0, %p1;; selp.u32 %r1, 1, 0, %p2;; or.b32 %y, %r0, %r1;;""",
    lambda x: np.repeat(votes(x.view(np.int32).reshape(-1, 3, 32) > 0), 32, axis=1),
)
own(
    "high_parts",
    f"""{SHARE} xor.b32 %r0, %t, 64;; setp.ge.u32 %p0, %r0, %n;; selp.u32 %r0, %t, %r0, %p0;;
    {fetch("%r0", "%r1")} mul.hi.u32 %r2, %x, %r1;; mul.lo.u32 %r3, %x, %r1;;
    xor.b32 %y, %r2, %r3;;""",
    lambda x: high_parts(x, np.where((np.arange(96) ^ 64) < 96, np.arange(96) ^ 64, np.arange(96))),
)
own(
    "long_words",
    """cvt.u64.u32 %rd1, %x;; mul.lo.u64 %rd2, %rd1, 0x9E3779B97F4A7C15;; mov.u32 %r0, 29;;
    shr.u64 %rd3, %rd2, %r0;; xor.b64 %rd2, %rd2, %rd3;; mad.lo.u32 %r1, %t, 8, %tile;;
    st.shared.u64 [%r1], %rd2;; bar.sync 0;; xor.b32 %r2, %t, 3;; mad.lo.u32 %r2, %r2, 8, %tile;;
    ld.shared.u64 %rd4, [%r2];; mov.b64 {%r3, %r4}, %rd4;; add.u32 %y, %r3, %r4;;""",
    lambda x: long_words(x)[:, np.arange(96) ^ 3],
)
own(
    "floats",
    f"""and.b32 %r0, %x, 0xffff;; cvt.rn.f32.u32 %f0, %r0;;
    fma.rn.f32 %f1, %f0, 0f3F8CCCCD, 0f3FA00000;;
    mov.b32 %r1, %f1;; st.shared.u32 [%s], %r1;; bar.sync 0;; xor.b32 %r2, %t, 7;;
    {fetch("%r2", "%r3")}
    mov.b32 %f2, %r3;; add.rn.f32 %f3, %f1, %f2;; mov.b32 %y, %f3;;""",
    lambda x: floats(x),
)
own(
    "doubles",
    """cvt.rn.f64.u32 %d0, %x;; mul.rn.f64 %d1, %d0, 0d3FD5555555555555;;
    fma.rn.f64 %d2, %d1, %d1, %d0;; mov.b64 {%r0, %r1}, %d2;;
    shfl.sync.idx.b32 %r2, %r1, 3, 31, -1;;
    xor.b32 %y, %r0, %r2;;""",
    lambda x: doubles(x),
)
own(
    "dynamic",
    """mov.u32 %r0, more;; mad.lo.u32 %r1, %t, 4, %r0;; st.shared.u32 [%r1], %x;; bar.sync 0;;
    sub.u32 %r2, %n, %t;; mad.lo.u32 %r1, %r2, 4, %r0;; ld.shared.u32 %y, [%r1+-4];;""",
    lambda x: x[:, ::-1],
    shared=384,
    module=".extern .shared .align 16 .b8 more[];",
)
own(
    "two_axes",
    f"""{SHARE} mov.u32 %r1, %tid.y;; mov.u32 %r2, %tid.x;; mad.lo.u32 %r0, %r2, 6, %r1;;
    {fetch("%r0")}""",
    lambda x: x.reshape(-1, 16, 6).transpose(0, 2, 1).reshape(x.shape),
    block=(16, 6),
    linear="""mov.u32 %r0, %tid.y;\nmad.lo.u32 %t, %r0, 16, %t;\nmov.u32 %b, %ctaid.x;
mad.lo.u32 %i, %b, 96, %t;\nmov.u32 %n, 96;""",
)
own(
    "three_axes",
    f"""{SHARE} xor.b32 %r0, %t, 1;; {fetch("%r0", "%r1")} mad.lo.u32 %y, %b, 1000, %r1;;""",
    lambda x: x[:, np.arange(60) ^ 1] + 1000 * np.arange(len(x), dtype=np.uint32)[:, None],
    grid=(2, 3, 2),
    block=(5, 4, 3),
    linear="""mov.u32 %r0, %tid.y;\nmad.lo.u32 %t, %r0, 5, %t;\nmov.u32 %r0, %tid.z;
mad.lo.u32 %t, %r0, 20, %t;\nmov.u32 %b, %ctaid.z;
mov.u32 %r0, %ctaid.y;\nmad.lo.u32 %b, %b, 3, %r0;
mov.u32 %r0, %ctaid.x;\nmad.lo.u32 %b, %b, 2, %r0;\nmov.u32 %n, 60;\nmad.lo.u32 %i, %b, %n, %t;""",
)
own(
    "last_warp_is_short",
    f"{SHARE} sub.u32 %r0, 49, %t;; {fetch('%r0')}",
    lambda x: x[:, ::-1],
    block=(50,),
)
own(
    "called",
    f"""{SHARE} {{;; .param .b32 a;; .param .b32 b;; st.param.b32 [a], %x;;
    call (b), scramble, (a);; ld.param.b32 %r0, [b];; }};; rem.u32 %r1, %r0, %n;; {fetch("%r1")}""",
    lambda x: np.take_along_axis(x, (scrambled(x) % 96).astype(np.int64), axis=1),
    module=""".func (.param .b32 result) scramble(.param .b32 word)
{
.reg .b32 %q<4>;
ld.param.b32 %q0, [word];
mul.lo.u32 %q1, %q0, 2654435761;
shf.l.wrap.b32 %q2, %q1, %q1, 13;
st.param.b32 [result], %q2;
ret;
}""",
)
own(
    "chosen",
    f"""and.b32 %r0, %x, 3;; LIST: .branchtargets A, B, C, D;; brx.idx %r0, LIST;;
    A:;; add.u32 %y, %x, 7;; bra E;; B:;; not.b32 %y, %x;; bra E;; C:;; shr.s32 %y, %x, 3;; bra E;;
    D:;; brev.b32 %y, %x;; E:;; st.shared.u32 [%s], %y;; bar.sync 0;; xor.b32 %r1, %t, 2;;
    {fetch("%r1")}""",
    lambda x: chosen(x)[:, np.arange(96) ^ 2],
)
own(
    "bytes",
    """add.u32 %r0, %tile, %t;; cvt.u16.u32 %h0, %x;; st.shared.u8 [%r0], %h0;; bar.sync 0;;
    shr.u32 %r1, %t, 2;; shl.b32 %r1, %r1, 2;; add.u32 %r1, %r1, %tile;; ld.shared.u32 %r2, [%r1];;
    prmt.b32 %y, %r2, %t, 0x4123;;""",
    lambda x: bytes_of(x),
)
own(
    "four_at_once",
    """st.shared.u32 [%s], %x;; bar.sync 0;; and.b32 %r0, %t, 0xfffffffc;;
    mad.lo.u32 %r1, %r0, 4, %tile;; ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r1];;
    lop3.b32 %r6, %r2, %r3, %r4, 0x96;;
    mad.lo.u32 %y, %r5, 3, %r6;;""",
    lambda x: np.repeat(four(x.reshape(len(x), -1, 4)), 4, axis=1),
)
own(
    "own_memory",
    """.local .align 4 .b32 own[4];; mov.u32 %r0, own;; xor.b32 %r8, %x, -1;;
    st.local.u32 [own], %x;;
    st.local.u32 [own+4], %r8;; st.local.u32 [own+8], %t;; st.local.u32 [own+12], 5;;
    and.b32 %r1, %x, 3;;
    mad.lo.u32 %r2, %r1, 4, %r0;; ld.local.u32 %y, [%r2];;""",
    lambda x: np.choose(
        x & 3, [x, ~x, np.broadcast_to(np.arange(96, dtype=np.uint32), x.shape), np.full_like(x, 5)]
    ),
)
own(
    "table",
    """and.b32 %r0, %x, 7;; mul.lo.u32 %r0, %r0, 4;; mov.u32 %r1, primes;; add.u32 %r1, %r1, %r0;;
    ld.const.u32 %r2, [%r1];; mad.lo.u32 %y, %r2, %x, %t;;""",
    lambda x: (
        np.array([2, 3, 5, 7, 11, 13, 17, 19], np.uint32)[x & 7] * x
        + np.arange(96, dtype=np.uint32)
    ),
    module=".const .align 4 .b32 primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};",
)

own(
    "counted",
    """and.b32 %r0, %x, 1;; setp.eq.u32 %p0, %r0, 1;; setp.lt.u32 %p1, %t, 64;; @%p1 bra N;;
    add.u32 %x, %x, 9;; N:;; bar.red.popc.u32 %r1, 0, %p0;; barrier.red.and.pred %p2, 0, 96, !%p0;;
    @%p1 bar.sync 1, 96;; @!%p1 bar.sync 1, 96;;
    barrier.cta.red.or.aligned.pred %p3, 1, %p0;; selp.u32 %r2, 256, 0, %p2;;
    selp.u32 %r3, 512, 0, %p3;; add.u32 %y, %r1, %r2;; add.u32 %y, %y, %r3;;
    add.u32 %y, %y, %x;;""",
    lambda x: u32(x + 9 * (np.arange(x.shape[1]) >= 64) + counted(x & 1)[:, None]),
)
own(
    "leader",
    """elect.sync %r0|%p0, -1;; activemask.b32 %r1;; mov.u32 %r2, %clock;; setp.eq.u32 %p1, %r1, 0;;
    @%p1 mov.u32 %x, 7;; shr.u32 %r3, %t, 5;; mad.lo.u32 %r4, %r3, 4, %tile;;
    @%p0 st.shared.u32 [%r4], %t;; bar.sync 0;; ld.shared.u32 %r5, [%r4];; shr.u32 %r5, %r5, 5;;
    mov.pred %p2, %is_explicit_cluster;; selp.u32 %r6, 5, 0, %p2;; add.u32 %y, %x, %r5;;
    add.u32 %y, %y, %r6;;""",
    lambda x: u32(x + np.arange(x.shape[1]) // 32),
    target="sm_90",
)


def collatz(number: int) -> int:
    steps = 0
    while number > 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


def ping_pong(x: Words) -> Words:
    for _ in range(6):
        x = 5 * x + x[:, np.arange(x.shape[1]) ^ 32]
    return x


def votes(flags: np.ndarray) -> Words:
    return 2 * flags.all(2) + flags.any(2)


def high_parts(x: Words, partner: np.ndarray) -> Words:
    whole = x.astype(np.uint64) * x[:, partner].astype(np.uint64)
    return u32((whole >> 32) ^ whole)


def long_words(x: Words) -> Words:
    whole = x.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    whole ^= whole >> np.uint64(29)
    return u32((whole >> np.uint64(32)) + (whole & np.uint64(0xFFFF_FFFF)))


def floats(x: Words) -> Words:
    factor, more = (np.array(bits, np.uint32).view(np.float32) for bits in (0x3F8CCCCD, 0x3FA00000))
    # 16 bits times 24 bits, and the sum, are exact in binary64; rounded once.
    exact = (x & 0xFFFF).astype(np.float64) * np.float64(factor) + np.float64(more)
    each = exact.astype(np.float32)
    return (each + each[:, np.arange(x.shape[1]) ^ 7]).view(np.uint32)


def doubles(x: Words) -> Words:
    from fractions import Fraction

    third = np.array(0x3FD5555555555555, np.uint64).view(np.float64)
    whole = x.astype(np.float64)
    scaled = whole * third
    fused = np.array(
        [
            float(Fraction(one) * Fraction(one) + Fraction(other))
            for one, other in zip(scaled.flat, whole.flat, strict=True)
        ]
    ).reshape(x.shape)
    bits = fused.view(np.uint64)
    high = u32(bits >> np.uint64(32)).reshape(len(x), -1, 32)[:, :, 3]
    return u32(bits) ^ np.repeat(high, 32, axis=1)


def scrambled(x: Words) -> Words:
    word = x * np.uint32(2654435761)
    return (word << np.uint32(13)) | (word >> np.uint32(19))


def chosen(x: Words) -> Words:
    reverse = np.vectorize(lambda word: int(f"{word:032b}"[::-1], 2))(x).astype(np.uint32)
    return np.choose(x & 3, [x + 7, ~x, (x.view(np.int32) >> 3).view(np.uint32), reverse])


def bytes_of(x: Words) -> Words:
    groups = (x & 0xFF).reshape(len(x), -1, 4)
    t = np.arange(x.shape[1])
    spread = np.repeat(groups, 4, axis=1)
    return u32((t & 0xFF) << 24 | spread[..., 1] << 16 | spread[..., 2] << 8 | spread[..., 3])


def counted(odd: np.ndarray) -> Words:
    return (odd.sum(1, dtype=np.uint32) + 256 * ~odd.any(1) + 512 * odd.any(1)).astype(np.uint32)


def four(x: np.ndarray) -> Words:
    return (x[..., 0] ^ x[..., 1] ^ x[..., 2]) + 3 * x[..., 3]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for one in KERNELS.values():
        (folder / f"{one.name}.ptx").write_text(one.ptx)
        (folder / f"{one.name}.toml").write_text(one.launch)
