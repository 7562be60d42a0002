"""Screening kernels: a harness around a program that runs it on image after image and compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext

from oracle.isa.targets import Module
from oracle.program.program import Program, walk
from oracle.program.steps import accesses_matrix
from oracle.program.warpgroup import SYNCS
from runners import ledger
from runners.emission.body import Body
from runners.emission.modules import STATIC_SHARED_BYTES, module_of, warps_of_block
from runners.emission.prologue import framed, memory, threads
from runners.emission.registers import braced, displaced
from runners.emission.warpgroups import group_kernel
from runners.kernels import MAX_WARPS_PER_BLOCK, KernelModule, ScreeningKernel

_SHARED_LINE = 16
"""Alignment that wmma.load and wmma.store want of lines in shared memory, in bytes (measured on
H200, 2026-11-21; docs/findings.md)."""
_UNIT = 16  # bytes that a thread copies or compares at a time
_UNROLLED = 8
"""Most rounds of all threads that are written out; with more, groups of so many become a loop."""
_ENDING = "commit_group", "wait_group", "copy_commit", "copy_wait"
_HEARD_BYTES = 16
"""Shared memory in which the warps of a warpgroup hear of two numbers from the first thread."""


def emit_screening(
    programs: Mapping[str, Program], *, module: Module | None = None
) -> KernelModule:
    """Turn programs into a module with a screening kernel (`ScreeningKernel`) for each.

    A program runs in shared memory, as `.shared` in place of `.global`, where its image fits and no
    access asks for less alignment than that has; else, as one of a warpgroup does, in global
    memory. Raises as `emit_all` does.
    """
    return module_of(programs, _kernel, _text, module)


def _kernel(program: Program, entry: str) -> ScreeningKernel:
    if program.warps > 1:
        return ScreeningKernel(**vars(group_kernel(program, entry, _HEARD_BYTES)), scratch="global")
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
    runs = "every multiprocessor runs every image"
    head = [
        f".visible .entry {kernel.entry}(",
        "    .param .u64 images,",
        "    .param .u64 expected,",
        "    .param .u64 ledger,",
        "    .param .u64 scratch,",
        "    .param .u32 count,",
        "    .param .u32 limit",
        ")",
    ]
    registers = (
        ("b32", "%lane, %thread, %warp, %in_block, %place, %count, %limit, %sm, %next"),
        ("b32", "%taken, %number, %finished, %wrong, %record, %difference, %old"),
        ("b32", f"%part<{4 * _UNROLLED}>, %other<4>"),
        ("b64", "%images, %expected, %ledger, %row, %own, %before, %after, %offset"),
        ("b64", "%image, %image_generic, %kept, %time"),
        ("pred", "%done, %first, %differs"),
    )
    end = [  # who works on an image adds what it counted to its multiprocessor's row
        "END:",
        f"    @%first atom.global.add.u32 %old, [%row+{_at('finished')}], %finished;",
        f"    @%first atom.global.add.u32 %old, [%row+{_at('wrong')}], %wrong;",
    ]
    return framed(body, kernel, runs, head, registers, _prologue(kernel, body), end)


def _prologue(kernel: ScreeningKernel, body: Body) -> list[str]:
    """Return what a warp does once: its multiprocessor's row, and its own memory."""
    body.used |= {"%lane", "%thread"}
    thread = _thread(body.program)
    return [
        *threads(body),
        f"    setp.eq.u32 %first, {thread}, 0;",
        f"    shr.u32 %in_block, %thread, {body.program.threads.bit_length() - 1};",
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
        f"    mul.wide.u32 %own, {thread}, {_UNIT};",
        "    // the row of this multiprocessor in the ledger",
        "    mov.u32 %sm, %smid;",
        f"    and.b32 %sm, %sm, {ledger.ROWS - 1};",
        f"    mul.wide.u32 %row, %sm, {ledger.ROW.itemsize};",
        "    add.u64 %row, %ledger, %row;",
        "    // its own image in the scratch memory, where that is not its shared memory",
        "    mov.u32 %place, %ctaid.x;",
        f"    mad.lo.u32 %place, %place, {kernel.warps_per_block}, %in_block;",
        *memory(body, kernel, "scratch", "%place", "%in_block"),
        f"    @%first {_take()};",
    ]


def _thread(program: Program) -> str:
    """Return the register with the number of a thread among those that work on an image."""
    return "%lane" if program.warps == 1 else "%thread"


def _together(body: Body) -> None:
    """Append a barrier of all threads that work on an image."""
    body.add("bar.warp.sync 0xffffffff" if body.program.warps == 1 else "bar.sync 0")


def _hear(kernel: ScreeningKernel, body: Body, register: str, source: str, slot: int) -> None:
    """Append what gives all threads a number of the first; of a warpgroup, through a slot."""
    if not kernel.launch:
        body.add(f"shfl.sync.idx.b32 {register}, {source}, 0, 31, 0xffffffff")
        return
    where = displaced("%shared", kernel.dynamic_bytes - _HEARD_BYTES + 4 * slot)
    body.add(f"st.shared.b32 {where}, {source}", guard="@%first")
    _together(body)
    body.add(f"ld.shared.b32 {register}, {where}")


_Two = tuple[str, str]
_Write = Callable[[Body, _Two, _Two, list[int], str], None]
"""Appends some rounds, given two pointers, their state spaces, the distances of the rounds from
the pointers in bytes, and a guard."""


def _start(kernel: ScreeningKernel, body: Body) -> None:
    """Append the start of the loop: take an image and copy it."""
    body.label("NEXT")
    body.comment("all threads hear of the image that the first one has taken")
    _together(body)
    _hear(kernel, body, "%taken", "%next", 0)
    body.add("setp.ge.u32 %done, %taken, %limit")
    body.add("bra END", guard="@%done")
    body.comment("and it takes the next one of this multiprocessor, while they work on that")
    body.add(_take(), guard="@%first")
    body.add("rem.u32 %number, %taken, %count")
    body.add(f"mul.wide.u32 %offset, %number, {kernel.image_bytes}")
    body.comment("copy it, a thread 16 bytes at a time")
    body.add("add.u64 %before, %images, %offset", "add.u64 %after, %expected, %offset")
    _rounds(kernel, body, _copy, ("%before", "%image"), ("global", kernel.scratch))
    if body.program.mbarriers:  # copies in bulk read it, and write where others have read
        body.add("fence.proxy.async")
    _together(body)
    body.comment("the program")


def _comparison(kernel: ScreeningKernel, body: Body) -> None:
    """Append the end of the loop: compare, count, and keep what differs."""
    vote = "vote.sync.any.pred %differs, %differs, 0xffffffff"
    if kernel.launch:
        body.comment("nothing of this image may be in flight when the next one begins")
        body.add(*(SYNCS[name].format(pending=0) for name in _ENDING))
        vote = "bar.red.or.pred %differs, 0, %differs"
    body.comment("compare all of it")
    _together(body)
    body.add("mov.b32 %difference, 0")
    _rounds(kernel, body, _compare, ("%after", "%image"), ("global", kernel.scratch))
    body.add("setp.ne.u32 %differs, %difference, 0", vote, "add.u32 %finished, %finished, 1")
    body.add("bra NEXT", guard="@!%differs")
    body.comment("keep it, if there is room")
    body.add("add.u32 %wrong, %wrong, 1")
    body.add("atom.global.add.u32 %record, [%ledger], 1", guard="@%first")
    _hear(kernel, body, "%record", "%record", 1)
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
    round_ = body.program.threads * _UNIT
    groups, rounds = divmod(kernel.image_bytes // round_, _UNROLLED)
    if groups:
        with body.repeated("ROUNDS", groups) if groups > 1 else nullcontext():
            write(body, pointers, spaces, [number * round_ for number in range(_UNROLLED)], "")
            body.add(*(f"add.u64 {one}, {one}, {_UNROLLED * round_}" for one in pointers))
    write(body, pointers, spaces, [number * round_ for number in range(rounds)], "")
    if rest := kernel.image_bytes % round_ // _UNIT:
        predicate = body.scratch("pred")
        body.add(f"setp.lt.u32 {predicate}, {_thread(body.program)}, {rest}")
        write(body, pointers, spaces, [rounds * round_], f"@{predicate}")


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
