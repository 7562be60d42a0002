"""What stands around the steps of every kernel: its registers, its threads, and its memory."""

from __future__ import annotations

from collections.abc import Sequence

from oracle.program.operands import IMAGE_ALIGNMENT
from runners.emission import bulk
from runners.emission.body import Body
from runners.emission.registers import declared
from runners.kernels import Kernel


def framed(
    body: Body, kernel: Kernel, runs: str, head: Sequence[str],
    registers: Sequence[tuple[str, str]], prologue: Sequence[str], end: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return the text of a kernel: steps, these lines around them, and what declares registers.

    The comment above says what it `runs` on an image, and where the buffers lie in that. `head` are
    the lines up to the body; `registers` those of the prologue that are not for certain steps.
    """
    comments = [f"// {kernel.entry}: {runs} of {kernel.image_bytes} bytes"]
    for buffer in body.program.buffers:
        lies = f"{buffer.space} memory at {body.program.offset(buffer.name)}"
        comments.append(f"//   {buffer.name}: {buffer.size} bytes of {lies}")
    shared, own = [], [*registers]
    if kernel.shared_bytes:
        size = kernel.shared_bytes * kernel.warps_per_block
        shared = [f"    .shared .align {IMAGE_ALIGNMENT} .b8 shared_memory[{size}];"]
    if kernel.shared_bytes or kernel.dynamic_bytes:
        own.append(("b64", "%shared"))
    if "%shared_generic" in body.used:
        own.append(("b64", "%shared_generic"))
    if "%zero" in body.used:
        own += [("b32", "%zero"), ("b64", "%high")]
    return "\n".join([
        *comments, *head, "{", *shared, *declared((*own, *body.registers)),
        "", *prologue, "", *body.lines, *end, "    ret;", "}", "",
    ])  # fmt: skip


def threads(body: Body) -> list[str]:
    """Return what says which thread this is, in the ways that are used."""
    lines = ["    mov.u32 %lane, %laneid;"] if "%lane" in body.used else []
    if body.used & {"%thread", "%warp"} or body.program.mbarriers:
        lines.append("    mov.u32 %thread, %tid.x;")
    if "%warp" in body.used:
        lines += [
            "    // as kernels say it, so that compilers know it to be the same in all lanes of a "
            "warp",
            "    shr.u32 %warp, %thread, 5;",
            "    shfl.sync.idx.b32 %warp, %warp, 0, 31, 0xffffffff;",
        ]
    return lines


def memory(
    body: Body, kernel: Kernel, images: str, number: str = "", in_block: str = ""
) -> list[str]:
    """Return what makes the bases of addresses, and a zero, where it is used.

    `images` is the parameter with the address of the first image. Of the registers, `number` says
    which one this is, `in_block` which part of the block's shared memory; without, it is the first.
    """
    lines = list[str]()
    if body.image_space == "global":
        lines.append(f"    ld.param.u64 %image_generic, [{images}];")
        if number:
            size = kernel.image_bytes
            lines.append(f"    mad.wide.u32 %image_generic, {number}, {size}, %image_generic;")
        lines.append("    cvta.to.global.u64 %image, %image_generic;")
    if kernel.dynamic_bytes:
        lines.append("    mov.u64 %shared, dynamic_memory;")
    elif kernel.shared_bytes:
        if in_block:
            lines.append("    // this warp's slice of the block's shared memory")
        lines.append("    mov.u64 %shared, shared_memory;")
        if in_block:
            size = kernel.shared_bytes
            lines.append(f"    mad.wide.u32 %shared, {in_block}, {size}, %shared;")
    if body.image_space == "shared":
        lines += [
            "    mov.u64 %image, %shared;",
            "    cvta.shared.u64 %image_generic, %image;",
            f"    add.u64 %shared, %shared, {kernel.image_bytes};",
        ]
    if "%shared_generic" in body.used:
        lines.append("    cvta.shared.u64 %shared_generic, %shared;")
    if "%zero" in body.used:
        lines += [
            "    // a zero that no compiler can fold: no address reaches 2^60",
            "    shr.u64 %high, %image_generic, 60;",
            "    cvt.u32.u64 %zero, %high;",
        ]
    if body.program.mbarriers:
        lines += bulk.initialised([*map(body.mbarrier, body.program.mbarriers)])
    return lines
