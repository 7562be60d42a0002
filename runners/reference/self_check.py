"""Whether a built interpreter is right on fixed images, judged by the oracle, before its use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InfrastructureError
from oracle.execution.execution import execute
from oracle.isa.forms import LANES, WARPGROUP, Form
from oracle.isa.lookup import ACCESS_FORMS, FORMS, figures_of, form_of
from oracle.models import model_for
from oracle.program.lane_code import Assign, If, LaneCode, Leave, Repeat, Statement, row_of
from oracle.program.operands import Buffer, Place, Registers
from oracle.program.program import Program
from oracle.program.steps import Barrier, Copy, Op, Step, plain_load, plain_store, product_of
from oracle.program.warpgroup import THREADS, AsyncProduct, SharedTile, WarpgroupSync
from runners.protocol import Images
from runners.reference.encoding import Encoded, encode
from runners.reference.memory import matrix_bytes

IMAGES = 64  # images of each product
_TARGET, _NARROW = "sm_90", "sm_120a"
"""Whose figures the set has, on whatever device, for they are only numbers to the interpreter; the
second those of narrow floats and scaled blocks."""
_ONE = 0x3C00  # exponent of 1 in f16: every second image has small numbers, the others any bits
_SPECIAL = 0x7FF0
"""Exponent of infinities and NaN in f64, and in all shorter formats of 16 bits and more."""
_CHANGED = 41  # image of which a bit is changed; any


LISTED = 64  # images that differ of which the numbers come back; beyond these, their count


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What a comparison found."""

    images: int  # how many were compared
    differing: int  # how many of them differ
    numbers: tuple[int, ...]  # some of those, in rising order

    @classmethod
    def of(cls, images: int, found: NDArray[np.uint64]) -> Compared:
        """Read what `compare` in the interpreter found in so many images."""
        differing = int(found[0])
        numbers = sorted(found[2 : 2 + min(differing, LISTED)].tolist())
        return cls(images=images, differing=differing, numbers=tuple(numbers))


def nothing_found() -> NDArray[np.uint64]:
    """Return what a comparison adds to: how many images differ, most that are listed, numbers."""
    empty = np.zeros(2 + LISTED, np.uint64)
    empty[1] = LISTED
    return empty


Compare = Callable[[Encoded, Images, Images], Compared]
"""Executes a program on images and compares with what else was made of them."""


def check(compare: Compare) -> int:
    """Try an interpreter; return how many images it was tried on, or raise InfrastructureError."""
    count = 0
    for name, target, program in _programs():
        encoded = encode(program, model_for(target))
        before = _images(program)
        after = execute(program, before, target=target).images
        found = compare(encoded, before, after)
        after[_CHANGED, program.offset("d")] ^= 1
        changed = compare(encoded, before, after)
        if found.differing or changed.numbers != (_CHANGED,) or changed.differing != 1:
            raise InfrastructureError(
                f"the reference on this device gets {name} wrong on images whose results "
                f"are known (of {IMAGES}: {found.numbers}; with one changed: {changed.numbers}); "
                "another driver may compile it rightly, so try one"
            )
        count += 2 * IMAGES
    return count


def _programs() -> Iterator[tuple[str, str, Program]]:
    """Iterate over code of lanes, and products of each kind, each with a target."""
    yield "code of lanes", _TARGET, _lanes()
    model, found = model_for(_TARGET), dict[tuple[object, ...], Form]()
    for form in FORMS:
        if not form.is_product or (form.a_type.is_float and form.satfinite):
            continue
        if form.kind:  # of its many types those that have least bits
            scales = form.scales, form.texts["stype"]
            found[figures_of(form), form.kind, scales, form.d_type.name] = form
        elif model.judges(form):
            kind = figures_of(form), form.types, form.op, form.rounding, form.satfinite
            found.setdefault(kind, form)
    for form in found.values():
        yield form.opcode, _NARROW if form.kind else _TARGET, _program(form)
    form = form_of("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3")
    yield form.opcode, "sm_90a", _group(form)


def _program(form: Form) -> Program:
    """Return plain loads of A, B and C, their product, and a plain store of D."""
    product = product_of(form)
    steps: list[Step] = []
    buffers = []
    for use in (*product.reads, product.writes):
        assert use is not None
        place = Place(buffer=use.field)
        if isinstance(use.holds, Registers):
            access = plain_store if use.written else plain_load
            size = LANES * use.holds.words * 4
            step: Step = access(
                registers=use.name, count=use.holds.registers, bits=use.holds.bits, place=place
            )
        else:
            size = matrix_bytes(form.matrix(use.field))
            layout = {"a": form.a_layout, "b": form.b_layout}.get(use.field, "row")
            own = ACCESS_FORMS[form.matrix(use.field), layout, "global"]
            step = Op.of(own, fragment=use.name, place=place)
        if use.written:
            steps.append(product)
        steps.append(step)
        buffers.append(Buffer(name=use.field, space="global", size=size))
    return Program(buffers=tuple(buffers), steps=tuple(steps))


def _group(form: Form) -> Program:
    """Return loads of A and D, a copy of B, their product by a warpgroup, and a store of D."""
    access: dict[str, Any] = {"count": 4, "lanes": THREADS}
    tile = SharedTile(place=Place(buffer="s"), leading=128, stride=256)
    fence, commit, wait, proxy = (
        WarpgroupSync(kind=kind) for kind in ("fence", "commit_group", "wait_group", "proxy_fence")
    )
    size = tile.stride  # of eight columns of 32 bytes
    return Program(
        buffers=(
            *(Buffer(name=name, space="global", size=4 * 4 * THREADS) for name in "acd"),
            Buffer(name="b", space="global", size=size),
            Buffer(name="s", space="shared", size=size),
        ),
        steps=(
            *(plain_load(registers=name, place=Place(buffer=name), **access) for name in "ac"),
            Copy(source=Place(buffer="b"), destination=Place(buffer="s"), size=size),
            *(proxy, Barrier(), fence),
            AsyncProduct(form=form, d="c", a="a", b_tile=tile),
            *(commit, wait),
            plain_store(registers="c", place=Place(buffer="d"), **access),
        ),
        warps=WARPGROUP,
    )


_LANE_INSTRUCTIONS = (
    "mov.b64.pack d0 r0 r1", "mov.b64.pack d1 r2 r3", "cvt.u16.u32 h0 r4", "cvt.u16.u32 h1 r5",
    "setp.lt.s32 p0 r6 r7", "mul.hi.s64 d2 d0 d1", "mul.hi.s32 r10 r0 r1", "sad.u64 d3 d0 d1 d2",
    "div.s32 r11 r0 7", "rem.u64 d4 d0 1000003", "add.sat.s32 r12 r0 r1", "mul24.hi.s32 r13 r2 r3",
    "shf.l.wrap.b32 r14 r0 r1 r2", "shr.s64 d5 d0 r4", "shl.b16 h2 h0 r5", "bfe.s64 d6 d1 r0 r1",
    "bfi.b32 r15 r0 r1 r2 r3", "bfind.s64 r16 d1", "popc.b64 r17 d0", "brev.b32 r18 r3",
    "fns.b32 r19 r0 16 r5", "lop3.b32 r20 r0 r1 r2 178", "prmt.b32 r21 r0 r1 r2",
    "add.cc.u64 d7 d0 d1", "addc.u64 d8 d1 d2", "sub.cc.u32 r22 r0 r1", "subc.u32 r23 r2 r3",
    "fma.rn.relu.f16x2 r24 r0 r1 r2", "add.rm.sat.f32 r25 r0 r1", "min.ftz.NaN.f32 r26 r2 r3",
    "setp.leu.f64 p1 d0 d1", "slct.u32.f32 r27 r0 r1 r2", "cvt.rpi.s64.f64 d9 d1",
    "cvt.rn.f32.u64 r28 d0", "cvt.rn.satfinite.e4m3x2.f16x2 h3 r0",
    "cvt.rn.relu.f16x2.e4m3x2 r29 h3", "cvt.rz.sat.f16.f64 h4 d1", "cvt.sat.s8.s32 r30 r6",
    "vabsdiff4.s32.u32.s32.sat r31 r0 r1 r2", "selp.b32 r32 r0 r1 p1", "dp4a.s32.u32 r33 r0 r1 r2",
    "shfl.sync.bfly.b32 r34,p2 r0 5 31 4294967295", "shfl.sync.up.b32 r35,p3 r1 r2 0 4294967295",
    "vote.sync.ballot.b32 r36 p0 4294967295", "match.any.sync.b32 r37 r3 4294967295",
    "redux.sync.min.s32 r38 r0 4294967295", "redux.sync.add.u32 r39 r1 4294967295",
)  # fmt: skip
"""Instructions of each kind that the interpreter does for code of lanes."""
_RESULTS = tuple(f"r{50 + index}" for index in range(8))


def _lanes() -> Program:
    """Return code of lanes, with branches and loops, between a load and a store of 8 registers."""
    code: list[Statement] = [_assign(f"mov.b32 {name} 0") for name in _RESULTS]
    words = 0
    for one in map(_assign, _LANE_INSTRUCTIONS):
        code.append(one)
        for name in () if row_of(one).carry_out else one.destinations:
            parts, text = {
                "r": (name, ""),
                "h": ("r41", f"cvt.u32.u16 r41 {name}"),
                "p": ("r41", f"selp.b32 r41 1 0 {name}"),
                "d": ("r41 r42", f"mov.b64.unpack r41,r42 {name}"),
            }[name[0]]
            code += [_assign(text)] if text else []
            for part in parts.split():
                to = _RESULTS[words % len(_RESULTS)]
                code.append(_assign(f"mad.lo.u32 {to} {to} 31 {part}"))
                words += 1
    chosen = _assign("xor.b32 r51 r51 r50")
    body = (
        _assign("mad.lo.u32 r50 r50 r1 r40"),
        If(predicate="p0", then=(chosen,), otherwise=(Leave(predicate="p1"),)),
        Leave(predicate="!p1", turn=True),
        _assign("add.u32 r52 r52 r51"),
    )
    for down in (False, True):
        code.append(Repeat(count="r0", mask=3, counter="r40", down=down, body=body))
    step = LaneCode(source="x", count=8, destination="y", results=_RESULTS, code=tuple(code))
    access: dict[str, Any] = {"count": 8, "bits": 32}
    return Program(
        buffers=tuple(Buffer(name=name, space="global", size=8 * 4 * LANES) for name in "xd"),
        steps=(
            plain_load(registers="x", place=Place(buffer="x"), **access),
            step,
            plain_store(registers="y", place=Place(buffer="d"), **access),
        ),
    )


def _assign(text: str) -> Assign:
    opcode, destinations, *sources = text.split()
    return Assign(
        opcode=opcode,
        destinations=tuple(destinations.split(",")),
        sources=tuple(int(one) if one.isdigit() else one for one in sources),
    )


def _images(program: Program) -> Images:
    rng = np.random.Generator(np.random.Philox(28))
    halves = rng.integers(0, 1 << 16, (IMAGES, program.image_bytes // 8, 4))
    halves[::2] = halves[::2] & 0x83FF | _ONE
    # Of every fourth image, one word of 64 bits in sixteen is infinite or NaN as a float.
    halves[1::4] |= _SPECIAL * (rng.integers(0, 16, halves[1::4, :, :1].shape) == 0)
    return halves.astype("<u2").view(np.uint8).reshape(IMAGES, program.image_bytes)
