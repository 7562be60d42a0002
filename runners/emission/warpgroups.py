"""Kernels of programs of a warpgroup: one block of 128 threads works on one image.

Shared memory is dynamic, so that there can be more of it than a block can declare.
"""

from __future__ import annotations

from oracle.errors import UsageError
from oracle.program.program import Program, walk
from oracle.program.warpgroup import ALIGNMENT, AsyncProduct
from runners.emission.descriptors import DESCRIPTOR_BYTES
from runners.kernels import Kernel, Launch

MEMORY = f".extern .shared .align {ALIGNMENT} .b8 dynamic_memory[];"
"""What a module with such kernels declares once."""
SHARED_BYTES = 227 << 10
"""Most shared memory of a block of sm_90 (CUDA C++ Programming Guide, Technical Specifications per
Compute Capability), in bytes, of which descriptors reach all."""


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
