"""Modules: the header, and a kernel for each program."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from oracle.errors import UsageError
from oracle.isa.targets import Module
from oracle.program.operands import IMAGE_ALIGNMENT
from oracle.program.program import Program
from runners.emission.body import Body, operand_registers
from runners.emission.steps import StepWriter
from runners.instruction_modules import header
from runners.kernels import MAX_WARPS_PER_BLOCK, Kernel, KernelModule

STATIC_SHARED_BYTES = 48 << 10
"""Most statically declared shared memory of a block, in bytes, on every target (CUDA C++
Programming Guide, Technical Specifications per Compute Capability)."""
# "[a-zA-Z][a-zA-Z0-9_$]*" (PTX ISA 4.4, Identifiers), less the dollar sign.
_IDENTIFIER = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")


def emit(program: Program, *, module: Module | None = None, entry: str = "kernel") -> KernelModule:
    """Turn a program into a PTX module of one kernel.

    `program`: any program, legal for the target or not: the assembler is the judge of that.
    `module`: the target and the PTX ISA version; `Module.named()` if None. `entry`: name of the
    kernel. Raises UsageError if the entry's name is no PTX identifier, a buffer is accessed through
    a state space in which it does not lie, or one warp needs more shared memory than a block has.
    """
    return emit_all({entry: program}, module=module)


def emit_all(programs: Mapping[str, Program], *, module: Module | None = None) -> KernelModule:
    """Turn programs into a PTX module with a kernel for each, under the name that it has here.

    Raises UsageError as `emit` does, and if there is no program.
    """
    return module_of(programs, _kernel, _text, module)


K = TypeVar("K", bound=Kernel)


def module_of(
    programs: Mapping[str, Program], kernel_of: Callable[[Program, str], K],
    text_of: Callable[[Program, K, bool], str], module: Module | None,
) -> KernelModule:  # fmt: skip
    """Return a module with a kernel for each program, by the names of their entries.

    `kernel_of` makes the kernel of a program under a name, `text_of` its text; the last argument is
    whether wmma is spelled with `.aligned`. Raises UsageError if a name is no PTX identifier, or
    there is no program.
    """
    if not programs:
        raise UsageError("a module needs at least one program, and none was given")
    module = module or Module.named()
    target, version = module.target.name, str(module.version)
    # ".aligned is required from 6.3 onwards, and considered implicit" before (9.7.14.4.3);
    # ptxas 11.7 to 13.5 reject it in a module of an earlier version.
    aligned = module.version >= (6, 3)
    texts = [header(target, version)]
    kernels = []
    for entry, program in programs.items():
        if not _IDENTIFIER.fullmatch(entry):
            raise UsageError(
                f"{entry!r} cannot name a kernel: a name is a letter followed by letters, digits "
                "and underscores"
            )
        kernel = kernel_of(program, entry)
        texts.append(text_of(program, kernel, aligned))
        kernels.append(kernel)
    return KernelModule(
        ptx="\n".join(texts), target=target, version=version, kernels=tuple(kernels),
        programs=dict(programs),
    )  # fmt: skip


def warps_of_block(program: Program, entry: str) -> int:
    """Return how many warps of a program a block has at most, by the shared memory they need.

    Raises UsageError if one needs more than a block has.
    """
    room = STATIC_SHARED_BYTES // max(1, program.shared_bytes)
    if not room:
        raise UsageError(
            f"one warp of {entry} needs {program.shared_bytes} bytes of shared memory; a block "
            f"has at most {STATIC_SHARED_BYTES}, so make the shared buffers smaller"
        )
    return min(MAX_WARPS_PER_BLOCK, room)


def _kernel(program: Program, entry: str) -> Kernel:
    warps, shared = warps_of_block(program, entry), program.shared_bytes
    size = program.image_bytes
    return Kernel(entry=entry, image_bytes=size, warps_per_block=warps, shared_bytes=shared)


def declarations(program: Program, body: Body, kernel: Kernel, of_shared: str) -> list[str]:
    """Declare the shared memory of a block, its registers `of_shared`, and those of the steps."""
    lines = []
    if kernel.shared_bytes:
        size = kernel.shared_bytes * kernel.warps_per_block
        lines = [
            f"    .reg .b64 {of_shared};",
            f"    .shared .align {IMAGE_ALIGNMENT} .b8 shared_memory[{size}];",
        ]
    if "%zero" in body.used:
        lines.append("    .reg .b32 %zero; .reg .b64 %high;")
    return [*lines, *operand_registers(program).declarations(), *body.declarations()]


def zero(body: Body) -> list[str]:
    """Return what computes a zero that no compiler can fold, if it is used."""
    if "%zero" not in body.used:
        return []
    return [
        "    // a zero that no compiler can fold: no address reaches 2^60",
        "    shr.u64 %high, %image_generic, 60;",
        "    cvt.u32.u64 %zero, %high;",
    ]


def _text(program: Program, kernel: Kernel, aligned: bool) -> str:
    body = Body()
    StepWriter(program, body, aligned).write(program.steps)
    entry = kernel.entry
    lines = [
        f"// {entry}: one warp per image of {kernel.image_bytes} bytes",
        *(
            f"//   {buffer.name}: {buffer.size} bytes of {buffer.space} memory at "
            f"{program.offset(buffer.name)}"
            for buffer in program.buffers
        ),
        f".visible .entry {entry}(",
        "    .param .u64 images,",
        "    .param .u64 sms,",
        "    .param .u32 count",
        ")",
        "{",
        "    .reg .b32 %warp, %warps, %in_block, %lane, %count, %sm;",
        "    .reg .b64 %image_generic, %image, %sms, %position;",
        "    .reg .pred %done, %record;",
        *declarations(program, body, kernel, "%shared, %shared_generic, %slice"),
        "", *_prologue(kernel, body), "", *body.lines, "END:", "    ret;", "}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _prologue(kernel: Kernel, body: Body) -> list[str]:
    """Return what comes before the first step: which image, where it lies, on which SM."""
    lines = [
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
        "    mov.u32 %lane, %laneid;",
        "    ld.param.u64 %image_generic, [images];",
        *zero(body),
        f"    mul.wide.u32 %image, %warp, {kernel.image_bytes};",
        "    add.u64 %image_generic, %image_generic, %image;",
        "    cvta.to.global.u64 %image, %image_generic;",
    ]
    if kernel.shared_bytes:
        lines += [
            "    // this warp's slice of the block's shared memory",
            "    mov.u64 %shared, shared_memory;",
            f"    mul.wide.u32 %slice, %in_block, {kernel.shared_bytes};",
            "    add.u64 %shared, %shared, %slice;",
            "    cvta.shared.u64 %shared_generic, %shared;",
        ]
    lines += [
        "    // lane 0 records the multiprocessor, where the launcher wants to know it",
        "    ld.param.u64 %sms, [sms];",
        "    setp.ne.u64 %record, %sms, 0;",
        "    @!%record bra START;",
        "    mul.wide.u32 %position, %warp, 4;",
        "    add.u64 %sms, %sms, %position;",
        "    cvta.to.global.u64 %sms, %sms;",
        "    setp.eq.u32 %record, %lane, 0;",
        "    mov.u32 %sm, %smid;",
        "    @%record st.global.u32 [%sms], %sm;",
        "START:",
    ]
    return lines
