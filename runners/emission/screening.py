"""Screening kernels: a harness around a program that runs it on image after image and compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext

from oracle.errors import UsageError
from oracle.isa.targets import Module
from oracle.program.program import Program, walk
from oracle.program.steps import accesses_matrix
from runners import ledger
from runners.emission.body import Body, braced, displaced
from runners.emission.modules import STATIC_SHARED_BYTES, module_of, warps_of_block
from runners.kernels import LANES, MAX_WARPS_PER_BLOCK, KernelModule, ScreeningKernel

_SHARED_LINE = 16
"""Alignment that wmma.load and wmma.store want of lines in shared memory, in bytes (measured on
H200, 2026-11-21; docs/findings.md)."""
_UNIT = 16  # bytes that a lane copies or compares at a time
_ROUND = LANES * _UNIT
_UNROLLED = 8
"""Most rounds of 512 bytes that are written out; with more, groups of so many become a loop."""


def emit_screening(
    programs: Mapping[str, Program], *, module: Module | None = None
) -> KernelModule:
    """Turn programs into a module with a screening kernel (`ScreeningKernel`) for each.

    A program runs in shared memory, as `.shared` in place of `.global`, where its image fits and no
    access asks for less alignment than that has; else in global memory. Raises as `emit_all` does.
    """
    return module_of(programs, _kernel, _text, module)


def _kernel(program: Program, entry: str) -> ScreeningKernel:
    if program.warps > 1:
        raise UsageError(f"{entry} is a warpgroup's program; programs of one warp are screened")
    both = program.image_bytes + program.shared_bytes
    room = STATIC_SHARED_BYTES // both
    # Faster even where a block has one warp: 1.3 to 1.8 times, for images of 1 KiB to 38 KiB (144
    # programs, H200, 2026-11-22).
    if room and _fits_shared(program):
        scratch, warps = "shared", min(MAX_WARPS_PER_BLOCK, room)
    else:
        scratch, both, warps = "global", program.shared_bytes, warps_of_block(program, entry)
    return ScreeningKernel(
        entry=entry, image_bytes=program.image_bytes, warps_per_block=warps, shared_bytes=both,
        scratch=scratch,
    )  # fmt: skip


def _fits_shared(program: Program) -> bool:
    """Whether all lines of matrices in the image are aligned as shared memory wants them."""
    for step in walk(program.steps):
        if accesses_matrix(step):
            place = step.memory.place
            start = program.offset(place.buffer) + place.offset
            if start % _SHARED_LINE or step.tile.pitch % _SHARED_LINE:
                return False
    return True


def _text(program: Program, kernel: ScreeningKernel, aligned: bool) -> str:
    body = Body(program, aligned, image_space=kernel.scratch)
    _start(kernel, body)
    body.write(program.steps)
    _comparison(kernel, body)
    lines = [
        f"// {kernel.entry}: every multiprocessor runs every image of {kernel.image_bytes} bytes",
        f".visible .entry {kernel.entry}(",
        "    .param .u64 images,",
        "    .param .u64 expected,",
        "    .param .u64 ledger,",
        "    .param .u64 scratch,",
        "    .param .u32 count,",
        "    .param .u32 limit",
        ")",
        "{",
        "    .reg .b32 %warp, %warps, %in_block, %lane, %count, %limit, %sm, %next, %taken;",
        "    .reg .b32 %number, %finished, %wrong, %record, %difference, %old;",
        "    .reg .b64 %images, %expected, %ledger, %row, %own, %before, %after, %offset;",
        "    .reg .b64 %image, %image_generic, %kept, %time;",
        "    .reg .pred %done, %first, %differs;",
        f"    .reg .b32 %part<{4 * _UNROLLED}>, %other<4>;",
    ]
    lines += body.declarations(kernel, "%shared, %shared_generic")
    end = [  # a warp adds what it counted to its multiprocessor's row
        "END:",
        f"    @%first atom.global.add.u32 %old, [%row+{_at('finished')}], %finished;",
        f"    @%first atom.global.add.u32 %old, [%row+{_at('wrong')}], %wrong;",
        "    ret;",
    ]
    lines += ["", *_prologue(kernel), *body.zero(), "", *body.lines, *end, "}", ""]
    return "\n".join(lines)


def _prologue(kernel: ScreeningKernel) -> list[str]:
    """Return what a warp does once: its multiprocessor's row, and its own memory."""
    lines = [
        "    mov.u32 %lane, %laneid;",
        "    setp.eq.u32 %first, %lane, 0;",
        "    mov.u32 %in_block, %tid.x;",
        "    shr.u32 %in_block, %in_block, 5;",
        "    ld.param.u64 %images, [images];",
        "    cvta.to.global.u64 %images, %images;",
        "    ld.param.u64 %expected, [expected];",
        "    cvta.to.global.u64 %expected, %expected;",
        "    ld.param.u64 %ledger, [ledger];",
        "    cvta.to.global.u64 %ledger, %ledger;",
        "    ld.param.u32 %count, [count];",
        "    ld.param.u32 %limit, [limit];",
        "    mov.u32 %finished, 0;",
        "    mov.u32 %wrong, 0;",
        "    mul.wide.u32 %own, %lane, 16;",
        "    // the row of this multiprocessor in the ledger",
        "    mov.u32 %sm, %smid;",
        f"    and.b32 %sm, %sm, {ledger.ROWS - 1};",
        f"    mul.wide.u32 %row, %sm, {ledger.ROW.itemsize};",
        "    add.u64 %row, %ledger, %row;",
    ]
    if kernel.shared_bytes:
        lines += [
            "    // this warp's slice of the block's shared memory",
            "    mov.u64 %shared, shared_memory;",
            f"    mul.wide.u32 %offset, %in_block, {kernel.shared_bytes};",
            "    add.u64 %shared, %shared, %offset;",
        ]
    if kernel.scratch == "shared":
        lines += [
            "    mov.u64 %image, %shared;",
            "    cvta.shared.u64 %image_generic, %image;",
            f"    add.u64 %shared, %shared, {kernel.image_bytes};",
        ]
    else:
        lines += [
            "    // this warp's image in the scratch memory",
            "    mov.u32 %warps, %ntid.x;",
            "    shr.u32 %warps, %warps, 5;",
            "    mov.u32 %warp, %ctaid.x;",
            "    mad.lo.u32 %warp, %warp, %warps, %in_block;",
            "    ld.param.u64 %image_generic, [scratch];",
            f"    mul.wide.u32 %offset, %warp, {kernel.image_bytes};",
            "    add.u64 %image_generic, %image_generic, %offset;",
            "    cvta.to.global.u64 %image, %image_generic;",
        ]
    if kernel.shared_bytes:
        lines.append("    cvta.shared.u64 %shared_generic, %shared;")
    lines.append(f"    @%first {_take()};")
    return lines


_Two = tuple[str, str]
_Write = Callable[[Body, _Two, _Two, list[int], str], None]
"""Appends some rounds, given two pointers, their state spaces, the distances of the rounds from
the pointers in bytes, and a guard."""


def _start(kernel: ScreeningKernel, body: Body) -> None:
    """Append the start of the loop: take an image and copy it."""
    body.label("NEXT")
    body.comment("all lanes hear of the image that lane 0 has taken")
    body.add(
        "bar.warp.sync 0xffffffff",
        "shfl.sync.idx.b32 %taken, %next, 0, 31, 0xffffffff",
        "setp.ge.u32 %done, %taken, %limit",
    )
    body.add("bra END", guard="@%done")
    body.comment("and it takes the next one of this multiprocessor, while they work on that")
    body.add(_take(), guard="@%first")
    body.add("rem.u32 %number, %taken, %count")
    body.add(f"mul.wide.u32 %offset, %number, {kernel.image_bytes}")
    body.comment("copy it, a lane 16 bytes at a time")
    body.add("add.u64 %before, %images, %offset", "add.u64 %after, %expected, %offset")
    _rounds(kernel, body, _copy, ("%before", "%image"), ("global", kernel.scratch))
    body.add("bar.warp.sync 0xffffffff")
    body.comment("the program")


def _comparison(kernel: ScreeningKernel, body: Body) -> None:
    """Append the end of the loop: compare, count, and keep what differs."""
    body.comment("compare all of it")
    body.add("bar.warp.sync 0xffffffff", "mov.b32 %difference, 0")
    _rounds(kernel, body, _compare, ("%after", "%image"), ("global", kernel.scratch))
    body.add(
        "setp.ne.u32 %differs, %difference, 0",
        "vote.sync.any.pred %differs, %differs, 0xffffffff",
        "add.u32 %finished, %finished, 1",
    )
    body.add("bra NEXT", guard="@!%differs")
    body.comment("keep it, if there is room")
    body.add("add.u32 %wrong, %wrong, 1")
    body.add("atom.global.add.u32 %record, [%ledger], 1", guard="@%first")
    body.add("shfl.sync.idx.b32 %record, %record, 0, 31, 0xffffffff")
    body.add(f"setp.ge.u32 %done, %record, {ledger.RECORDS}")
    body.add("bra NEXT", guard="@%done")
    body.add(
        f"mul.wide.u32 %kept, %record, {ledger.RECORD.itemsize}",
        "add.u64 %kept, %ledger, %kept",
        "mov.u32 %old, %warpid",
        "mov.u64 %time, %globaltimer",
    )
    for name, register in (
        ("image", "%number"), ("sm", "%sm"), ("warp", "%old"), ("turn", "%taken"),
    ):  # fmt: skip
        body.add(f"st.global.u32 [%kept+{_at(name)}], {register}", guard="@%first")
    body.add(f"st.global.u64 [%kept+{_at('nanoseconds')}], %time", guard="@%first")
    body.add(
        f"mul.wide.u32 %kept, %record, {kernel.image_bytes}",
        "add.u64 %kept, %ledger, %kept",
        f"add.u64 %kept, %kept, {ledger.IMAGES_AT}",
    )
    _rounds(kernel, body, _copy, ("%image", "%kept"), (kernel.scratch, "global"))
    body.add("bra NEXT")


def _rounds(
    kernel: ScreeningKernel, body: Body, write: _Write, sources: _Two, spaces: _Two
) -> None:
    """Append `write` for all of an image, in groups of at most _UNROLLED rounds."""
    pointers = body.scratch("b64"), body.scratch("b64")
    for pointer, source in zip(pointers, sources, strict=True):
        body.add(f"add.u64 {pointer}, {source}, %own")
    groups, rounds = divmod(kernel.image_bytes // _ROUND, _UNROLLED)
    if groups:
        with body.repeated("ROUNDS", groups) if groups > 1 else nullcontext():
            write(body, pointers, spaces, [number * _ROUND for number in range(_UNROLLED)], "")
            body.add(*(f"add.u64 {one}, {one}, {_UNROLLED * _ROUND}" for one in pointers))
    write(body, pointers, spaces, [number * _ROUND for number in range(rounds)], "")
    if rest := kernel.image_bytes % _ROUND // _UNIT:
        predicate = body.scratch("pred")
        body.add(f"setp.lt.u32 {predicate}, %lane, {rest}")
        write(body, pointers, spaces, [rounds * _ROUND], f"@{predicate}")


def _load(body: Body, pointer: str, space: str, distances: list[int], guard: str) -> None:
    for number, distance in enumerate(distances):
        where = displaced(pointer, distance)
        body.add(f"ld.{space}.v4.b32 {braced(_words(number))}, {where}", guard=guard)


def _copy(body: Body, pointers: _Two, spaces: _Two, distances: list[int], guard: str) -> None:
    _load(body, pointers[0], spaces[0], distances, guard)
    for number, distance in enumerate(distances):
        where = displaced(pointers[1], distance)
        body.add(f"st.{spaces[1]}.v4.b32 {where}, {braced(_words(number))}", guard=guard)


def _compare(body: Body, pointers: _Two, spaces: _Two, distances: list[int], guard: str) -> None:
    """Append loads of some rounds of one side, and the comparison with the other."""
    _load(body, pointers[0], spaces[0], distances, guard)
    for number, distance in enumerate(distances):
        where = displaced(pointers[1], distance)
        body.add(f"ld.{spaces[1]}.v4.b32 {braced(_OTHER)}, {where}", guard=guard)
        for one, other in zip(_words(number), _OTHER, strict=True):
            body.add(
                f"xor.b32 {other}, {other}, {one}",
                f"or.b32 %difference, %difference, {other}",
                guard=guard,
            )


_OTHER = tuple(f"%other{index}" for index in range(4))


def _words(number: int) -> tuple[str, ...]:
    return tuple(f"%part{4 * number + index}" for index in range(4))


def _take() -> str:
    """Return the instruction that takes an image: it takes long, and is begun early."""
    return f"atom.global.add.u32 %next, [%row+{_at('taken')}], 1"


def _at(name: str) -> int:
    """Return the byte of a number of the first row, or of the first record."""
    for start, type_ in ((ledger.ROWS_AT, ledger.ROW), (ledger.RECORDS_AT, ledger.RECORD)):
        if type_.fields is not None and name in type_.fields:
            return start + int(type_.fields[name][1])
    raise KeyError(name)
