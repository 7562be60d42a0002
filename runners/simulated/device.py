"""A GPU made of NumPy: modules of PTX text are loaded, and kernels launched on memory images."""

import gc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from runners.kernels import Launch
from runners.simulated.decoder import DecodedKernel, decode
from runners.simulated.interpreter import run
from runners.simulated.memory import BASES, MEMORY_GARBAGE, Memory, Segment
from runners.simulated.parser import parse
from runners.simulated.races import WatchedMemory
from runners.simulated.silicon import Chip, Planted, Silicon, SiliconTarget, chip_of
from runners.simulated.traps import SimulatedTrap, TrapKind, refuse
from runners.simulated.warps import GARBAGE, LANES, MULTIPROCESSORS, SLOTS, WarpState

_ELSEWHERE = 0x5512_3456_7800
"""The other of two places at which an image is tried; a multiple of 256, as cudaMalloc gives
(CUDA C++ Programming Guide, Device Memory Accesses), and no byte is that of the first."""
_GARBAGE, _OTHER_GARBAGE = (GARBAGE, MEMORY_GARBAGE), (0x7F4A_5C33_7F4A_5C33, 0x3C)
"""What nobody wrote, of registers and of a byte of memory; of the second, no part is the same."""
_OTHER_BASE = 0x4000
"""In place of 0: where the first variable of a space lies, which the ISA leaves open. An address
that a text holds as a number is another variable's then, or nobody's; all of 48 KiB, the most of
static shared variables (CUDA C++ Programming Guide, Technical Specifications), still have 16
bits."""
_LARGEST_BLOCK = 1024
"""Threads of a block (CUDA's limit on every target)."""
_LAUNCH, _SCREEN = (64, 64, 32), (64, 64, 64, 64, 32, 32)
"""Bits of an entry's parameters, by the conventions of `runners.kernels`: addresses of images and
of SM numbers, and the count; of images, expected images, ledger and scratch, the count and the
limit."""
Bytes = NDArray[np.uint8]


class SimulatedDevice:
    """A simulated GPU.

    `target` is its architecture, such as `sm_90`; `layout_seed` says which fragment layout it uses:
    0 and 1 differ in every fragment, and so do others. `faults` are wrong with it, and with what
    compiles for it, in order; `chip` has its floating-point units, if not those of the target. With
    `otherwise`, all that the ISA leaves open to a launch is other than by itself: where images and
    shared variables lie, and what is in registers, memory and lanes that nobody wrote. Raises
    `UsageError` if no such target can be simulated.
    """

    def __init__(
        self, target: str, *, layout_seed: int = 0, faults: Sequence[Planted] = (),
        chip: Chip | None = None, otherwise: bool = False,
    ) -> None:  # fmt: skip
        self.otherwise = otherwise
        self.target = SiliconTarget.named(target)
        self.chip = chip_of(f"sm_{self.target.architecture}") if chip is None else chip
        self.layout_seed, self.faults = layout_seed, tuple(faults)
        self.launches = 0  # made so far
        self._decoded: dict[SiliconTarget, dict[Any, Any]] = {}
        """`Silicon.decoded` of the modules of each target."""

    def load(self, ptx: str) -> "LoadedModule":
        """Parse and check a module.

        Raises `SimulatedTrap` with a kind of which `at_load` holds: the text is outside the
        dialect, an instruction is unknown, or not allowed for the module's target or this device.
        """
        for fault in self.faults:
            ptx = fault.rewrite(ptx)
        # A module is thousands of objects that all stay. Python's cycle collector would look at
        # them again and again, which took half of the time of loading one (2026-11).
        collects = gc.isenabled()
        gc.disable()
        try:
            return self._loaded(ptx)
        finally:
            if collects:
                gc.enable()

    def _loaded(self, ptx: str) -> "LoadedModule":
        listing = parse(ptx)
        try:
            target = SiliconTarget.named(listing.target)
        except UsageError as error:
            refuse(TrapKind.ILLEGAL, 1, str(error))
        if not self.target.runs(target):
            said = f"a module for {target.name} does not run on {self.target.name}"
            refuse(TrapKind.ILLEGAL, 1, said)
        silicon = Silicon(
            architecture=self.target.architecture,
            chip=self.chip,
            target=target,
            layout_seed=self.layout_seed,
            damages=tuple(fault.damage for fault in self.faults if fault.damage is not None),
            otherwise=self.otherwise,
            base=_OTHER_BASE if self.otherwise else 0,
            decoded=self._decoded.setdefault(target, {}),
        )
        return LoadedModule(self, decode(listing, silicon))


class LaunchGrid(NamedTuple):
    """What a kernel of parameters of its own did."""

    image: Bytes  # (bytes,) memory holds afterwards
    steps: int  # instructions that some thread executed
    touched: tuple[int, ...]  # of each buffer: bytes up to the last that was read or written
    approximate: NDArray[np.bool_]
    """(bytes,) what depends on instructions of which the ISA bounds the error alone."""


@dataclass(frozen=True)
class LoadedModule:
    """A loaded module: its kernels by their names, or why one is not supported."""

    device: SimulatedDevice
    kernels: Mapping[str, DecodedKernel | SimulatedTrap]

    def launch(
        self, entry: str, images: Bytes, *, threads: int = 128
    ) -> tuple[Bytes, NDArray[np.uint32]]:
        """Run a kernel with a warp for each image, in blocks of so many threads.

        It takes the address of the (count, bytes) images, which are not changed, that of the SM
        numbers, and the number of images. Return what memory holds afterwards, and (count,) the
        multiprocessor that each warp reported; 0xffffffff where it reported none. Raises
        `UsageError` if there is no such entry, or it, the images or the block are others, and
        `SimulatedTrap` if the kernel does what a device traps on; the images are lost then.
        """
        if images.ndim != 2 or images.dtype != np.uint8 or not images.size:
            raise UsageError(
                f"images of shape {images.shape} and dtype {images.dtype}; "
                "give a nonempty (count, bytes) array of uint8"
            )
        count = images.shape[0]
        arrays = (images.reshape(-1), np.full(4 * count, 0xFF, np.uint8))
        blocks = -(-count // max(1, threads // LANES))
        kernel = self._entry(entry, _LAUNCH)
        flat, reported = self._run(kernel, arrays, (count,), blocks, threads)
        return flat.reshape(images.shape), reported.view(np.uint32)

    def screen(
        self, entry: str, images: Bytes, expected: Bytes, ledger: Bytes, *, limit: int,
        scratch_bytes: int, threads: int, blocks: int,
    ) -> Bytes:  # fmt: skip
        """Run a screening kernel on all multiprocessors, so many blocks on each.

        The (count, bytes) images are those before and after it; each multiprocessor takes up to
        `limit` of them. `scratch_bytes` are those of the launch, 0 for none. Return what the flat
        ledger holds afterwards. Raises as `launch` does.
        """
        scratch = np.zeros(scratch_bytes, np.uint8)
        arrays = (images.reshape(-1), expected.reshape(-1), ledger, scratch)
        passes = -(-limit // max(1, threads // LANES * blocks))
        kernel, blocks = self._entry(entry, _SCREEN), blocks * MULTIPROCESSORS
        return self._run(kernel, arrays, (len(images), limit), blocks, threads, passes)[2]

    def launch_grid(
        self, entry: str, image: Bytes, launch: Launch, *, most_steps: int | None = None,
        lenient: bool = False,
    ) -> LaunchGrid:  # fmt: skip
        """Run a kernel of parameters of its own on one image, in one grid, and watch its threads.

        The (bytes,) image of uint8 is not changed. After `most_steps`, else as many as any launch
        may take, it counts as hung; if it is `lenient`, races, and reading what nobody wrote, are
        passed over. Raises as `launch` does, and `SimulatedTrap` with kind `RACE` where what two
        threads do has no order.
        """
        kernel, otherwise = self._entry(entry), self.device.otherwise
        size = max((at + bits // 8 for at, bits in kernel.parameters), default=0)
        if size != len(launch.parameters):
            raise UsageError(
                f"entry {entry!r} has {size} bytes of parameters, and the launch gives "
                f"{len(launch.parameters)}"
            )
        least = max((start + size for start, size in launch.buffers), default=0)
        if image.ndim != 1 or image.dtype != np.uint8 or image.size < least:
            raise UsageError(
                f"an image of shape {image.shape} and dtype {image.dtype}; the buffers of the "
                f"launch need a flat array of uint8 with {least} bytes or more"
            )
        if min(*launch.grid, *launch.block) < 1 or math.prod(launch.block) > _LARGEST_BLOCK:
            raise UsageError(
                f"a grid of {launch.grid} blocks of {launch.block} threads; give 1 or more along "
                f"each axis, and up to {_LARGEST_BLOCK} threads a block"
            )
        base = _ELSEWHERE if otherwise else BASES[0]
        seen = -1
        # Again, where something was read that the text alone does not call approximate.
        while seen < len(kernel.inexact_loads):
            seen = len(kernel.inexact_loads)
            buffers = tuple(
                Segment.holding(base + start, image[start : start + size])
                for start, size in launch.buffers
            )
            warps = self._warps(
                kernel, buffers, launch.parameters_at(base), launch.grid, launch.block,
                dynamic_bytes=launch.shared_bytes,
                garbage=_OTHER_GARBAGE if otherwise else _GARBAGE, memory=WatchedMemory,
            )  # fmt: skip
            warps.most_steps, memory = most_steps, warps.memory
            assert isinstance(memory, WatchedMemory)
            try:
                run(memory.watch(kernel, warps, lenient=lenient), warps)
            finally:
                memory.end()
            kernel.inexact_loads.update(memory.inexact_loads)
        assert isinstance(memory, WatchedMemory)
        after, approximate = image.copy(), np.zeros(image.size, np.bool_)
        for (start, size), buffer in zip(launch.buffers, buffers, strict=True):
            after[start : start + size] = buffer.data[:size]
            approximate[start : start + size] = memory.approximate_bytes(buffer)
        return LaunchGrid(after, warps.steps, tuple(map(memory.touched, buffers)), approximate)

    def _run(
        self, kernel: DecodedKernel, arrays: Sequence[Bytes], numbers: tuple[int, ...],
        blocks: int, threads: int, passes: int = 1,
    ) -> list[Bytes]:  # fmt: skip
        """Launch a kernel on copies of flat arrays; return what these hold afterwards."""
        if threads % LANES or not LANES <= threads <= _LARGEST_BLOCK:
            raise UsageError(f"{threads} threads in a block; give a multiple of 32 up to 1024")
        segments = tuple(map(Segment.holding, BASES, arrays))
        block = bytearray()
        values = (*(segment.base for segment in segments), *numbers)
        for (offset, bits), value in zip(kernel.parameters, values, strict=True):
            block += bytes(offset - len(block)) + value.to_bytes(bits // 8, "little")
        warps = self._warps(kernel, segments, bytes(block), (blocks, 1, 1), (threads, 1, 1))
        warps.passes = passes
        run(kernel, warps)
        return [segment.data[: segment.size] for segment in segments]

    def _warps(
        self, kernel: DecodedKernel, segments: tuple[Segment, ...], parameters: bytes,
        grid: tuple[int, int, int], block: tuple[int, int, int], *, dynamic_bytes: int = 0,
        garbage: tuple[int, int] = _GARBAGE, memory: type[Memory] = Memory,
    ) -> WarpState:  # fmt: skip
        """Return the warps of a launch, before they run."""
        per_block = -(-math.prod(block) // LANES)
        blocks = math.prod(grid)
        indices = np.arange(blocks * per_block)
        turns, sms = np.divmod(indices // per_block, MULTIPROCESSORS)
        self.device.launches += 1
        return WarpState(
            indices=indices,
            block=block,
            sms=sms.astype(np.uint32),
            slots=((turns * per_block + indices % per_block) % SLOTS).astype(np.uint32),
            launch=self.device.launches - 1,
            grid=grid,
            dynamic_bytes=dynamic_bytes,
            garbage=garbage[0],
            memory=memory(
                segments, static=kernel.static, parameters=parameters, blocks=blocks,
                warps=indices.size, dynamic_bytes=dynamic_bytes, garbage=garbage[1],
            ),
        )  # fmt: skip

    def _entry(self, entry: str, parameter_bits: tuple[int, ...] | None = None) -> DecodedKernel:
        kernel = self.kernels.get(entry)
        if kernel is None:
            raise UsageError(
                f"the module has no entry {entry!r}; it has {', '.join(self.kernels) or 'none'}"
            )
        if isinstance(kernel, SimulatedTrap):
            raise kernel
        bits = tuple(bits for _, bits in kernel.parameters)
        if parameter_bits not in (None, bits):
            raise UsageError(
                f"entry {entry!r} has parameters of {bits} bits; a kernel that is run so takes "
                f"{parameter_bits}"
            )
        return kernel
