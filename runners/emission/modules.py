"""Modules: the header, and a kernel for each program, or the smallest kernel of one.

`emit` writes a kernel that many warps run on many images and that records their multiprocessors.
Whoever reads a finding needs none of that: `emit_single` writes one warp, one pointer to one image.
Each constant of an address stands in its brackets; the rest of what can go is for `fuzz.reducer`
to take away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from oracle.errors import UsageError
from oracle.isa.forms import LANES
from oracle.isa.targets import Module
from oracle.program.program import Program
from runners.emission.body import Body
from runners.emission.prologue import framed, memory, threads
from runners.emission.warpgroups import MEMORY, group_kernel
from runners.kernels import MAX_WARPS_PER_BLOCK, Kernel, KernelModule, Launch
from runners.ptx_text import opening

STATIC_SHARED_BYTES = 48 << 10
"""Most statically declared shared memory of a block, in bytes, on every target (CUDA C++
Programming Guide, Technical Specifications per Compute Capability)."""
_IDENTIFIER = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
""""[a-zA-Z][a-zA-Z0-9_$]*" (PTX ISA 4.4, Identifiers), less the dollar sign."""


def emit(program: Program, *, module: Module | None = None, entry: str = "kernel") -> KernelModule:
    """Turn a program, legal or not, into a PTX module of one kernel, for `Module.named()` if None.

    Raises UsageError if the entry's name is no PTX identifier, a buffer is accessed through another
    state space than it lies in, or one warp needs more shared memory than a block has.
    """
    return emit_all({entry: program}, module=module)


def emit_all(programs: Mapping[str, Program], *, module: Module | None = None) -> KernelModule:
    """Turn programs into a module with a kernel for each, by their names; UsageError as `emit`."""
    return module_of(programs, _kernel, _text, module)


def emit_single(
    program: Program, *, module: Module | None = None, entry: str = "kernel"
) -> KernelModule:
    """Turn a program into a module of one kernel, which one warp runs on `.param .u64 image`."""
    return module_of({entry: program}, _single_kernel, _single_text, module)


K = TypeVar("K", bound=Kernel)


def module_of(
    programs: Mapping[str, Program], kernel_of: Callable[[Program, str], K],
    text_of: Callable[[Program, K, bool], str], module: Module | None,
) -> KernelModule:  # fmt: skip
    """Return a module with a kernel for each program; UsageError if a name is no identifier.

    `kernel_of` makes a program's kernel under a name, `text_of` its text, with `.aligned` or not.
    """
    if not programs:
        raise UsageError("a module needs at least one program, and none was given")
    module = module or Module.named()
    target, version = module.target.name, str(module.version)
    # ".aligned is required from 6.3 onwards, and considered implicit" before (9.7.14.4.3);
    # ptxas 11.7 to 13.5 reject it in a module of an earlier version.
    aligned = module.version >= (6, 3)
    texts, kernels = [opening(target, version)], list[K]()
    if any(program.warps > 1 for program in programs.values()):
        texts.append(f"{MEMORY}\n")
    for entry, program in programs.items():
        if not _IDENTIFIER.fullmatch(entry):
            raise UsageError(
                f"{entry!r} cannot name a kernel: a name is a letter followed by letters, digits "
                "and underscores"
            )
        kernels.append(kernel := kernel_of(program, entry))
        texts.append(text_of(program, kernel, aligned))
    return KernelModule(
        ptx="\n".join(texts), target=target, version=version, kernels=tuple(kernels),
        programs=dict(programs),
    )  # fmt: skip


def warps_of_block(program: Program, entry: str) -> int:
    """Return the most warps of a block by their shared memory; UsageError if one needs too much."""
    room = STATIC_SHARED_BYTES // max(1, program.shared_bytes)
    if not room:
        raise UsageError(
            f"one warp of {entry} needs {program.shared_bytes} bytes of shared memory; a block "
            f"has at most {STATIC_SHARED_BYTES}, so make the shared buffers smaller"
        )
    return min(MAX_WARPS_PER_BLOCK, room)


# Kernels of many images


def _kernel(program: Program, entry: str) -> Kernel:
    if program.warps > 1:
        return group_kernel(program, entry)
    warps, shared = warps_of_block(program, entry), program.shared_bytes
    size = program.image_bytes
    return Kernel(entry=entry, image_bytes=size, warps_per_block=warps, shared_bytes=shared)


def _text(program: Program, kernel: Kernel, aligned: bool) -> str:
    body = Body(program, aligned)
    body.write(program.steps)
    if program.warps > 1:
        return _image_text(body, kernel)
    body.use("%lane")
    head = [
        f".visible .entry {kernel.entry}(",
        "    .param .u64 images,",
        "    .param .u64 sms,",
        "    .param .u32 count",
        ")",
    ]
    registers = (
        ("b32", "%warp, %warps, %in_block, %lane, %count, %sm"),
        ("b64", "%image_generic, %image, %sms"), ("pred", "%done, %record"),
    )  # fmt: skip
    prologue = [
        "    // warp = ctaid.x * (ntid.x / 32) + tid.x / 32: the number of its image",
        "    mov.u32 %warps, %ntid.x;",
        "    shr.u32 %warps, %warps, 5;",
        "    mov.u32 %in_block, %tid.x;",
        "    shr.u32 %in_block, %in_block, 5;",
        "    mov.u32 %warp, %ctaid.x;",
        "    mad.lo.u32 %warp, %warp, %warps, %in_block;",
        "    ld.param.u32 %count, [count];",
        "    setp.ge.u32 %done, %warp, %count;",
        "    @%done bra END;",
        *threads(body),
        *memory(body, kernel, "images", "%warp", "%in_block"),
        "    // lane 0 records the multiprocessor, where the launcher wants to know it",
        "    ld.param.u64 %sms, [sms];",
        "    setp.ne.u64 %record, %sms, 0;",
        "    setp.eq.and.u32 %record, %lane, 0, %record;",
        "    mad.wide.u32 %sms, %warp, 4, %sms;",
        "    cvta.to.global.u64 %sms, %sms;",
        "    mov.u32 %sm, %smid;",
        "    @%record st.global.u32 [%sms], %sm;",
    ]
    return framed(body, kernel, "one warp per image", head, registers, prologue, ["END:"])


# The smallest kernel


def _single_kernel(program: Program, entry: str) -> Kernel:
    if program.warps > 1:
        return group_kernel(program, entry)
    warps_of_block(program, entry)  # raises UsageError where shared memory is too small
    size = program.image_bytes
    launch = Launch(
        grid=(1, 1, 1), block=(LANES, 1, 1), shared_bytes=0, parameters=bytes(8),
        pointers=((0, 0),), buffers=((0, size),),
    )  # fmt: skip
    return Kernel(
        entry=entry, image_bytes=size, warps_per_block=1, shared_bytes=program.shared_bytes,
        launch=launch,
    )  # fmt: skip


def _single_text(program: Program, kernel: Kernel, aligned: bool) -> str:
    body = Body(program, aligned, brief=True)
    body.write(program.steps)
    text = _image_text(body, kernel)
    lines = text.splitlines(keepends=True)
    return "".join(one for one in lines if one.strip() and not one.lstrip().startswith("//"))


def _image_text(body: Body, kernel: Kernel) -> str:
    """Return the text of a kernel with a pointer to its image, or to those of its blocks."""
    head = [f".visible .entry {kernel.entry}(.param .u64 image)"]
    registers, block = [("b64", "%image_generic, %image"), ("b32", "%lane")], list[str]()
    if body.program.registers:
        head.append(f".maxnreg {body.program.registers}")
    if batched := body.program.warps > 1:
        registers.append(("b32", "%thread, %warp, %block"))
        block = [
            "    // each block works on an image of its own",
            "    mov.u32 %block, %ctaid.x;",
        ]
    bases = memory(body, kernel, "image", "%block" if batched else "")
    prologue = [*threads(body), *block, *bases]
    return framed(body, kernel, "one warpgroup on an image", head, registers, prologue)
