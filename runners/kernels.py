"""PTX modules that are ready to run: the text, and what a launcher has to know about it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from oracle.errors import UsageError
from oracle.isa.forms import LANES as LANES
from oracle.isa.targets import Module

if TYPE_CHECKING:
    from oracle.program.program import Program

MAX_WARPS_PER_BLOCK = 8
"""Most warps of one block. 8 warps of 255 registers a lane still fit the 65,536 registers of a
block on every target from sm_70 on (CUDA C++ Programming Guide, Technical Specifications)."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How an entry with parameters of its own is launched on an image: its buffers, one by one."""

    grid: tuple[int, int, int]  # blocks along x, y and z
    block: tuple[int, int, int]  # threads of a block along x, y and z
    shared_bytes: int  # dynamic shared memory of a block
    parameters: bytes  # of the entry as they lie in memory; zeros where a pointer is
    pointers: tuple[tuple[int, int], ...]
    """For each pointer into the image: its offset in `parameters`, and the byte of the image to
    which it points."""
    buffers: tuple[tuple[int, int], ...]
    """Offset and bytes of each buffer in the image; the bytes between them are no one's."""
    batched: bool = False
    """Whether each block works on the image behind that of the block before, so that one launch of
    as many blocks is for several images."""


def parameters_at(launch: Launch, address: int) -> bytes:
    """Return the parameters of a launch for an image at an address."""
    block = bytearray(launch.parameters)
    for place, offset in launch.pointers:
        block[place : place + 8] = (address + offset).to_bytes(8, "little")
    return bytes(block)


def launches_of(
    launch: Launch, count: int, image_bytes: int, most: int
) -> Iterator[tuple[slice, Launch]]:
    """Iterate over the launches for so many images, at most `most` of them in one."""
    step = max(1, most) if launch.batched else 1
    for start in range(0, count, step):
        images = min(step, count - start)
        x, y, z = launch.grid
        buffers = launch.buffers if images == 1 else ((0, images * image_bytes),)
        yield (
            slice(start, start + images),
            replace(launch, grid=(images * x, y, z), buffers=buffers),
        )


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One entry of a module, with `(.param .u64 images, .param .u64 sms, .param .u32 count)`.

    Warp `ctaid.x * (ntid.x / 32) + tid.x / 32` works on the image of that number, if it is below
    `count`. Where `sms` is not 0, lane 0 writes `%smid` as u32 to `sms + 4 * warp`.
    """

    entry: str  # its name
    image_bytes: int  # of one image; images lie back to back
    warps_per_block: int = MAX_WARPS_PER_BLOCK
    """Most warps that a block may have: the static shared memory is sliced for so many."""
    shared_bytes: int = 0  # of one warp
    launch: Launch | None = None
    """How it is launched where it does not keep the convention; runners say nothing of
    multiprocessors then."""

    @property
    def dynamic_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        return self.launch.shared_bytes if self.launch else 0


@dataclass(frozen=True, kw_only=True)
class ScreeningKernel(Kernel):
    """An entry whose warps go on until their multiprocessor has run all images, and compare.

    Parameters: u64 images, expected (after the program), ledger (`runners.ledger`), scratch (an
    image for each warp, where `scratch` is "global"); u32 count, limit of each multiprocessor. A
    warp takes the next image, copies it into its scratch, runs there, and compares every byte.
    Where a `launch` is given, a warpgroup does, which is a block as that says.
    """

    scratch: str  # state space in which the program runs: "shared" or "global"

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.launch.block[0] if self.launch else LANES * self.warps_per_block


@dataclass(frozen=True, kw_only=True)
class KernelModule:
    """PTX text and its kernels."""

    ptx: str
    target: str  # value of `.target`
    version: str  # value of `.version`
    kernels: tuple[Kernel, ...]
    programs: Mapping[str, Program] = field(default_factory=dict, compare=False, repr=False)
    """What it was written from, by the names of the kernels; empty where a person wrote it."""

    @property
    def header(self) -> Module:
        """What it is written for; UsageError if the ISA has no such target or version."""
        return Module.named(self.target, self.version)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text, in hexadecimal."""
        return hashlib.sha256(self.ptx.encode()).hexdigest()

    def kernel(self, entry: str | None = None) -> Kernel:
        """Return the kernel of this name, or the only one; UsageError if there is no such one."""
        found = [kernel for kernel in self.kernels if entry is None or kernel.entry == entry]
        if len(found) == 1:
            return found[0]
        names = ", ".join(kernel.entry for kernel in self.kernels)
        raise UsageError(
            f"{'a kernel' if entry is None else repr(entry)} was asked of a module whose kernels "
            f"are {names or 'none'}; name one of them"
        )
