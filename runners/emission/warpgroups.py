"""Kernels of programs of a warpgroup: one block of 128 threads works on one image.

Shared memory is dynamic, so that there can be more of it than a block can declare.
"""

from __future__ import annotations

from oracle.errors import UsageError
from oracle.program.program import Program, walk
from oracle.program.warpgroup import ALIGNMENT, AsyncProduct
from runners.emission.body import Body
from runners.emission.descriptors import DESCRIPTOR_BYTES
from runners.kernels import Kernel, Launch

MEMORY = f".extern .shared .align {ALIGNMENT} .b8 dynamic_memory[];"
"""What a module with such kernels declares once."""
SHARED_BYTES = 227 << 10
"""Most shared memory of a block of sm_90 (CUDA C++ Programming Guide, Technical Specifications per
Compute Capability), in bytes, of which descriptors reach all."""

WARP_NUMBER = (
    "    // as kernels say it, so that compilers know it to be the same in all lanes of a warp",
    "    shr.u32 %warp, %thread, 5;",
    "    shfl.sync.idx.b32 %warp, %warp, 0, 31, 0xffffffff;",
)


def group_kernel(program: Program, entry: str, more: int = 0) -> Kernel:
    """Return the kernel of a program, a block for an image; UsageError: too much shared memory.

    A block has so many bytes `more` behind those that the program needs.
    """
    size = program.shared_bytes + more
    if any(
        tile.built == "loaded"
        for step in walk(program.steps)
        if isinstance(step, AsyncProduct)
        for tile in step.tiles.values()
    ):
        size += DESCRIPTOR_BYTES * program.threads
    if size > SHARED_BYTES:
        raise UsageError(
            f"{entry} needs {size} bytes of shared memory; a block has at most "
            f"{SHARED_BYTES}, so make the shared buffers smaller"
        )
    launch = Launch(
        grid=(1, 1, 1), block=(program.threads, 1, 1), shared_bytes=size,
        parameters=bytes(8), pointers=((0, 0),), buffers=((0, program.image_bytes),), batched=True,
    )  # fmt: skip
    return Kernel(entry=entry, image_bytes=program.image_bytes, warps_per_block=1, launch=launch)


def group_text(body: Body, kernel: Kernel) -> str:
    """Return the text of a kernel."""
    program = body.program
    return "\n".join([
        f"// {kernel.entry}: one warpgroup on an image of {kernel.image_bytes} bytes",
        *(
            f"//   {buffer.name}: {buffer.size} bytes of {buffer.space} memory at "
            f"{program.offset(buffer.name)}"
            for buffer in program.buffers
        ),
        f".visible .entry {kernel.entry}(.param .u64 image)",
        *([f".maxnreg {program.registers}"] if program.registers else []),
        "{",
        *body.declarations(
            kernel, ("b32", "%lane, %thread, %warp, %block"),
            ("b64", "%image_generic, %image, %shared"),
        ),
        "",
        *(["    mov.u32 %lane, %laneid;"] if "%lane" in body.used else []),
        "    mov.u32 %thread, %tid.x;",
        *(WARP_NUMBER if "%warp" in body.used else []),
        "    ld.param.u64 %image_generic, [image];",
        "    // each block works on an image of its own",
        "    mov.u32 %block, %ctaid.x;",
        f"    mad.wide.u32 %image_generic, %block, {kernel.image_bytes}, %image_generic;",
        "    cvta.to.global.u64 %image, %image_generic;",
        "    mov.u64 %shared, dynamic_memory;",
        *body.prologue(),
        "", *body.lines, "    ret;", "}", "",
    ])  # fmt: skip
