"""A GPU made of NumPy: modules of PTX text are loaded, and kernels launched on memory images.

A kernel's steps are executed for all threads at once, apart only where branches part them. Threads
that are at the lowest step go first, so that those that a branch parted meet again behind it. Where
an instruction is for a whole warp, lanes wait until all others have come; when nobody is left who
could come, the program traps.
"""

import gc
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from runners.kernels import Kernel, Launch, launches_of, parameters_at
from runners.simulated.decoder import DecodedKernel, Step, Waits, WarpBarrier, decode
from runners.simulated.mbarriers import most_launches
from runners.simulated.parser import parse
from runners.simulated.races import WatchedMemory
from runners.simulated.scalar import LANE_BITS
from runners.simulated.silicon import Chip, Planted, Silicon, chip_of, runs, target_named
from runners.simulated.syntax import KernelText, SimulatedTrap, TrapKind, refuse
from runners.simulated.warps import (
    BASES,
    GARBAGE,
    LANES,
    MEMORY_GARBAGE,
    MULTIPROCESSORS,
    SLOTS,
    Mask,
    Memory,
    Segment,
    WarpState,
    holding,
)

LARGEST_STEP_COUNT = 200_000
"""Steps of one pass through a kernel after which it counts as hung; drawn kernels take hundreds."""
LONGEST_SECONDS = 5.0
"""Processor time of a small launch after which it is hung; a batch on a GPU may take 10 s."""
STEP_SECONDS = 1e-5
"""The same of a larger launch, for each warp, each step of the kernel and each image that a warp
takes: 2.6e-6 s at most in 44 launches of a preflight on two cores with seven processes, 2026-11-27.
"""
_CHUNK_IMAGES = 2048  # of one launch, which keeps every register of every lane
_BYTES_AT_ONCE = 1 << 20  # of images of one launch that is watched, in 100 bytes for each four
_LAST_BARRIER = 15  # number of a barrier of a block (PTX ISA 9.7.13.1)
_NOWHERE = np.iinfo(np.int64).max
"""Where threads are that have exited."""

Places = NDArray[np.int64]
"""(1 or 32 lanes, warps) index of the next step of each thread."""
Flags = NDArray[np.bool_]


def _holding(step: Step, warps: WarpState, mask: Mask) -> Mask:
    if step.guard is None:
        return mask
    predicate = warps.registers[step.guard]
    if step.negated:
        predicate = ~predicate
    return predicate if mask is None else predicate & mask


class _Threads:
    """Where the threads of a launch are; only one number as long as all are at the same step."""

    def __init__(self, kernel: DecodedKernel, warps: WarpState) -> None:
        self._steps, self._warps = kernel.steps, warps
        self._end = len(kernel.steps)
        self._most_steps = warps.most_steps or LARGEST_STEP_COUNT * warps.passes
        size = warps.indices.size * len(kernel.steps) * warps.passes
        self._most_seconds = max(LONGEST_SECONDS, STEP_SECONDS * size)
        self._begun, self._since = time.thread_time(), time.monotonic()
        self._at: Places | None = None  # where all are together
        warps.exited = lambda: None if self._at is None else self._at >= self._end
        if warps.threads % LANES:
            self._at = np.where(warps.places < warps.threads, 0, self._end)
        self._together = 0
        self._waiting: Flags | None = None  # like `_at`: who cannot go on alone
        self._came: dict[int, Flags] = {}  # by barriers: who of the launch has come there
        self._number = np.full((LANES, warps.indices.size), -1)  # of the one where each waits
        self._size = np.zeros(self._number.shape, np.int64)  # for how many threads that one is

    def run(self) -> None:
        """Execute until all threads have exited."""
        while True:
            here: Mask = None
            index, limit = self._together, self._end
            if self._at is not None:
                runnable = self._at
                if self._waiting is not None:
                    runnable = np.where(self._waiting, _NOWHERE, runnable)
                index = int(runnable.min(initial=_NOWHERE))
                if index >= self._end:
                    if self._waiting is None:
                        return
                    self._try_again()
                    continue
                here = runnable == index
                limit = min(int(runnable[~here].min(initial=_NOWHERE)), self._end)
            index = self._straight(index, limit, here)
            if self._at is None or here is None:
                self._together = index
                if index == self._end:
                    return
            else:
                self._at[here] = index
            if index < limit:
                self._turn(index, here)
            self._gather()

    def _straight(self, index: int, limit: int, here: Mask) -> int:
        """Execute steps up to one at which threads may part or wait; return its index."""
        warps, steps = self._warps, self._steps
        whole = here is None or here.shape[0] == 1
        while index < limit:
            step = steps[index]
            warps.line = step.line
            warps.steps += 1
            # Of the clocks, first the one that costs a tenth.
            if warps.steps > self._most_steps or (
                time.monotonic() - self._since > self._most_seconds
                and time.thread_time() - self._begun > self._most_seconds
            ):
                said = f"still running after {self._most_seconds:.3g} s or {warps.steps} steps"
                refuse(TrapKind.HANG, step.line, said, warps.names())
            if step.operation is None or step.ready or (step.waits is not None and not whole):
                break
            step.operation(warps, here if step.guard is None else _holding(step, warps, here))
            index += 1
        return index

    def _apart(self) -> Places:
        if self._at is None:
            self._at = np.full((1, self._warps.indices.size), self._together, np.int64)
        return self._at

    def _turn(self, index: int, here: Mask) -> None:
        """Execute a step at which threads may part, exit or wait."""
        step = self._steps[index]
        if step.waits is not None:
            self._wait(step, index, here)
            return
        leaving = _holding(step, self._warps, here)
        goal: int | Places = step.goals[0] if step.goals else _NOWHERE
        if step.index is not None:
            choice = step.index(self._warps)
            beyond = choice >= len(step.goals)
            if leaving is not None:
                beyond = beyond & leaving
            if beyond.any():
                said = f"a branch index is not below {len(step.goals)}"
                refuse(TrapKind.OUT_OF_BOUNDS, 0, said, self._warps.names(beyond))
            goals = np.array(step.goals, np.int64)[np.minimum(choice, len(step.goals) - 1)]
            goal = np.broadcast_to(goals, (goals.shape[0], self._warps.indices.size))
        elif here is None and (leaving is None or leaving.all()):
            self._together = min(int(goal), self._end)
            return
        elif here is None and leaving is not None and not leaving.any():
            self._together = index + 1
            return
        self._move(here, index + 1)
        self._move(leaving, goal)

    def _move(self, mask: Mask, goal: int | Places) -> None:
        """Let the threads of a mask be at a step."""
        at = self._apart()
        if mask is None:
            self._at = np.zeros_like(at) + goal
            return
        rows = max(mask.shape[0], np.shape(goal)[0] if np.ndim(goal) else 1)
        if at.shape[0] < rows:
            at = np.broadcast_to(at, (LANES, at.shape[1])).copy()
            if self._waiting is not None:
                self._waiting = np.broadcast_to(self._waiting, at.shape).copy()
        self._at = np.where(mask, goal, at)

    def _wait(self, step: Step, index: int, here: Mask) -> None:
        """Execute a step for those for whom all others have come; let the rest wait."""
        warps, barrier = self._warps, step.barrier
        if here is None and (step.ready or any(came.any() for came in self._came.values())):
            here = np.ones((1, warps.indices.size), np.bool_)
        if (
            here is None
            and barrier is not None
            and (barrier.sizes(warps, None) != warps.threads).any()
        ):
            here = np.ones((1, warps.indices.size), np.bool_)
        if here is None:
            if barrier is not None:
                warps.memory.synchronised(None, waited=not barrier.arrives)
                if barrier.joins is not None:
                    barrier.joins(warps, None)
            self._together = index + 1
            return
        if barrier is not None:
            self._come(barrier, index, here)
            return
        at = self._apart()
        come = at == index
        if step.ready is not None:
            done = step.ready(warps) | ~warps.all_of(_holding(step, warps, None))
            ready = come & done
            self._at = at = np.broadcast_to(at, ready.shape).copy()
        elif step.members is None:
            ready = np.broadcast_to(come.all(axis=0), come.shape)
        else:
            # Those whose members have all come or exited.
            there = warps.all_of(come | (at >= self._end))
            bits = np.where(there, LANE_BITS, np.uint64(0)).sum(axis=0)
            wanted = step.members(warps).astype(np.uint64)
            ready = np.logical_and(come, (wanted & ~bits[None]) == 0)
        if ready.any():
            mask = ready[:1] if step.members is None and step.ready is None else ready
            assert step.operation is not None
            step.operation(warps, _holding(step, warps, mask))
            at[ready] = index + 1
        self._hold(here & ~ready, ready)

    def _hold(self, held: Flags, released: Flags) -> None:
        waiting: Any = np.False_ if self._waiting is None else self._waiting
        waiting = (np.broadcast_to(waiting, self._apart().shape) | held) & ~released
        self._waiting = waiting if waiting.any() else None

    def _come(self, barrier: WarpBarrier, index: int, here: Flags) -> None:
        """Let threads wait at a barrier, or arrive; those go on of whom as many have come."""
        warps, those = self._warps, self._warps.all_of(here)
        self._at = at = np.broadcast_to(self._apart(), those.shape).copy()
        numbers = np.broadcast_to(barrier.number(warps), those.shape)
        if (beyond := those & (numbers > _LAST_BARRIER)).any():
            said = f"barriers have the numbers 0 to {_LAST_BARRIER}"
            refuse(TrapKind.OUT_OF_BOUNDS, 0, said, warps.names(beyond))
        sizes = np.where(those, barrier.sizes(warps, those), self._size[:, warps.indices])
        self._size[:, warps.indices] = sizes
        if barrier.arrives:
            warps.memory.synchronised(those, waited=False)
            at[those] = index + 1
        else:
            own = self._number[:, warps.indices]
            self._number[:, warps.indices] = np.where(those, numbers, own)
            self._hold(those, np.zeros_like(those))
        blocks, order = np.unique(warps.blocks, return_inverse=True)
        for number in np.unique(numbers[those]).tolist():
            came = self._came.setdefault(number, np.zeros(self._number.shape, np.bool_))
            now = came[:, warps.indices] | (those & (numbers == number))
            there = (now | (at >= self._end)).all(axis=0)
            full = np.ones(blocks.size, np.bool_)
            np.logical_and.at(full, order, there)
            there &= now.any(axis=0)
            parts = now & (sizes != warps.threads)
            if parts.any():
                full[order] = self._full(parts, sizes, there, order)
            released = now & (full[order] & there)
            came[:, warps.indices] = now & ~released
            own = self._number[:, warps.indices]
            released &= own == number
            self._number[:, warps.indices] = np.where(released, -1, own)
            if released.any():
                warps.memory.synchronised(released, waited=True)
                self._join(at, released)
                at[released] += 1
                self._hold(np.zeros_like(released), released)

    def _join(self, at: Places, released: Flags) -> None:
        """Let threads that go on behind a barrier join their predicates, if it is for that."""
        warps = self._warps
        for index in np.unique(at[released]).tolist():
            step, those = self._steps[index], released & (at == index)
            if step.barrier is None or step.barrier.joins is None:
                continue
            elsewhere = released & ~those & np.isin(warps.blocks, warps.blocks[those.any(axis=0)])
            if elsewhere.any():
                said = "threads of a block are at other barriers than the one that joins their "
                names = warps.names(elsewhere)
                refuse(TrapKind.DIVERGENT, step.line, f"{said}predicates", names)
            step.barrier.joins(warps, those)

    def _full(self, parts: Flags, sizes: Places, there: Flags, order: Places) -> Flags:
        """Return of each warp whether all have come whom a barrier for a part of its block is for.

        "The arrival count is incremented by the warp size" (9.7.13.1). Where a barrier has other
        sizes for others, or more have come than it is for, who belongs together is left open.
        """
        warps, come = self._warps, np.bincount(order, there * LANES)[order]
        most = np.zeros(come.size, np.int64)
        np.maximum.at(most, order, np.where(parts, sizes, 0).max(axis=0))
        wrong = parts & ((sizes != most[order]) | (come > most[order]))
        if wrong.any():
            said = f"more threads come to a barrier than the {int(most.max())} that it is for"
            refuse(TrapKind.DIVERGENT, 0, said, warps.names(wrong))
        return np.asarray(come == most[order])

    def _gather(self) -> None:
        """Forget warps that have exited, and keep no more places than differ."""
        at, waiting = self._at, self._waiting
        if at is None:
            return
        gone: Flags = np.all(at >= self._end, axis=0)
        if gone.any():
            if gone.all():
                self._at, self._waiting = at[:, :0], None
                return
            kept = np.logical_not(gone)
            self._warps.drop(kept)
            self._at = at = at[:, kept]
            self._waiting = waiting = None if waiting is None else waiting[:, kept]
        if waiting is None and (at == at[0, 0]).all():
            self._together, self._at = int(at[0, 0]), None
        elif at.shape[0] > 1 and all((each == each[:1]).all() for each in (at, waiting)
                                     if each is not None):  # fmt: skip
            self._at = at[:1].copy()
            self._waiting = None if waiting is None else waiting[:1].copy()

    def _try_again(self) -> None:
        """Let those go on who waited for threads that have exited since, or trap."""
        assert self._at is not None and self._waiting is not None  # noqa: PT018
        waited = [int(index) for index in np.unique(self._at[self._waiting])]
        for index in waited:
            held = int(self._waiting.sum())
            self._wait(self._steps[index], index, self._waiting & (self._at == index))
            if self._waiting is None or int(self._waiting.sum()) < held:
                self._gather()
                return
        # A matrix instruction is to blame before what only waits for those who are at it.
        index = min(waited, key=lambda each: (self._steps[each].waits is not Waits.WARP, each))
        bad = self._waiting & (self._at == index)
        said = "a warp-level instruction or barrier waits for threads that are elsewhere or gone"
        if self._steps[index].ready is not None:
            said = "threads wait for a phase of an mbarrier that nobody completes"
        refuse(TrapKind.DIVERGENT, self._steps[index].line, said, self._warps.names(bad))


def run(kernel: DecodedKernel, warps: WarpState) -> None:
    """Run all warps until they have exited, or raise `SimulatedTrap` with those it concerns."""
    try:
        _Threads(kernel, warps).run()
    except SimulatedTrap as trap:
        raise trap.at(warps.line) from None
    finally:
        # Threads and warps hold each other: else all memory of the launch waits to be collected.
        warps.exited = lambda: None


_ELSEWHERE = 0x5512_3456_7800
"""The other of two places at which an image is tried; a multiple of 256, as cudaMalloc gives
(CUDA C++ Programming Guide, Device Memory Accesses), and no byte is that of the first."""
_GARBAGE, _OTHER_GARBAGE = (GARBAGE, MEMORY_GARBAGE), (0x7F4A_5C33_7F4A_5C33, 0x3C)
"""What nobody wrote, of registers and of a byte of memory; of the second, no part is the same."""
_OTHER_BASE = 0x4000
"""In place of 0: where the first variable of a space lies, which the ISA leaves open. An address
that a text holds as a number is another variable's then, or nobody's; 48 KiB still have 16 bits."""
_LARGEST_BLOCK = 1024  # threads (CUDA's limit on every target)
_LAUNCH, _SCREEN = (64, 64, 32), (64, 64, 64, 64, 32, 32)
"""Bits of an entry's parameters, by the conventions of `runners.kernels`."""
Bytes = NDArray[np.uint8]


class SimulatedDevice:
    """A simulated GPU of a target such as `sm_90`.

    `layout_seed` says which fragment layouts it uses: of two, every fragment differs. `faults` are
    wrong with it, and with what compiles for it, in order; `chip` has its floating-point units, if
    not those of the target. With `otherwise`, all that the ISA leaves open to a launch is other
    than by itself: where images and shared variables lie, and what is in registers, memory and
    lanes that nobody wrote. Raises `UsageError` if no such target can be simulated.
    """

    def __init__(
        self, target: str, *, layout_seed: int = 0, faults: Sequence[Planted] = (),
        chip: Chip | None = None, otherwise: bool = False,
    ) -> None:  # fmt: skip
        self.otherwise = otherwise
        self.target = target_named(target)
        self.chip = chip_of(f"sm_{self.target.architecture}") if chip is None else chip
        self.layout_seed, self.faults = layout_seed, tuple(faults)
        self.launches = 0  # made so far
        self._decoded: dict[str, dict[Any, Any]] = {}  # of the modules of each target

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
            return self._loaded(parse(ptx))
        finally:
            if collects:
                gc.enable()

    def _loaded(self, listing: KernelText) -> "LoadedModule":
        try:
            target = target_named(listing.target)
        except UsageError as error:
            refuse(TrapKind.ILLEGAL, 1, str(error))
        if not runs(self.target, target):
            said = f"a module for {target.name} does not run on {self.target.name}"
            refuse(TrapKind.ILLEGAL, 1, said)
        silicon = Silicon(
            architecture=self.target.architecture, chip=self.chip, target=target,
            layout_seed=self.layout_seed, otherwise=self.otherwise,
            damages=tuple(fault.damage for fault in self.faults if fault.damage is not None),
            base=_OTHER_BASE if self.otherwise else 0,
            decoded=self._decoded.setdefault(target.name, {}),
        )  # fmt: skip
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
        """Run a kernel of the runners' convention with a warp for each of (count, bytes) images.

        Return what memory holds afterwards, and (count,) the multiprocessor that each warp
        reported, 0xffffffff if none. Raises `UsageError` if there is no such entry, or it, the
        images or the block are others, and `SimulatedTrap` if the kernel does what a device traps
        on; the images are lost then.
        """
        if images.ndim != 2 or images.dtype != np.uint8 or not images.size:
            said = f"images of shape {images.shape} and dtype {images.dtype}; give a nonempty "
            raise UsageError(f"{said}(count, bytes) array of uint8")
        count = images.shape[0]
        arrays = (images.reshape(-1), np.full(4 * count, 0xFF, np.uint8))
        blocks = -(-count // max(1, threads // LANES))
        kernel = self._entry(entry, _LAUNCH)
        flat, reported = self._run(kernel, arrays, (count,), blocks, threads)
        return flat.reshape(images.shape), reported.view(np.uint32)

    def launch_kernel(self, kernel: Kernel, images: Bytes) -> tuple[Bytes, NDArray[np.uint32]]:
        """Run a kernel, of the convention or not, on each of (count, bytes) images.

        Returns as `launch` does, in as many launches as it takes. A trap has numbers of images.
        """
        results, sms = np.empty_like(images), np.full(len(images), 0xFFFF_FFFF, np.uint32)
        size, launch = kernel.image_bytes, kernel.launch
        if launch is None:
            for first in range(0, len(images), _CHUNK_IMAGES):
                chunk = slice(first, first + _CHUNK_IMAGES)
                given, threads = np.ascontiguousarray(images[chunk]), LANES * kernel.warps_per_block
                results[chunk], sms[chunk] = self.launch(kernel.entry, given, threads=threads)
            return results, sms
        warps = -(-math.prod(launch.block) // LANES) * math.prod(launch.grid)
        most = most_launches(self._entry(kernel.entry).steps, warps, math.prod(launch.grid))
        for some, one in launches_of(launch, len(images), size, min(most, _BYTES_AT_ONCE // size)):
            try:
                made = self.launch_grid(kernel.entry, images[some].reshape(-1), one).image
            except SimulatedTrap as stopped:
                those = sorted({some.start + warp // warps for warp in stopped.trap.warps})
                raise SimulatedTrap(replace(stopped.trap, warps=tuple(those))) from None
            results[some] = made.reshape(-1, size)
        return results, sms

    def screen(
        self, entry: str, images: Bytes, expected: Bytes, ledger: Bytes, *, limit: int,
        scratch_bytes: int, threads: int, blocks: int, dynamic_bytes: int = 0,
    ) -> Bytes:  # fmt: skip
        """Run a screening kernel on all multiprocessors, so many blocks on each.

        Each takes up to `limit` of the (count, bytes) images. `scratch_bytes` are those of the
        launch, 0 for none. Return what the flat ledger holds afterwards. Raises as `launch` does.
        """
        scratch = np.zeros(scratch_bytes, np.uint8)
        arrays = (images.reshape(-1), expected.reshape(-1), ledger, scratch)
        together = 1 if dynamic_bytes else threads // LANES
        passes = -(-limit // max(1, together * blocks))
        kernel, blocks = self._entry(entry, _SCREEN), blocks * MULTIPROCESSORS
        numbers = len(images), limit
        return self._run(kernel, arrays, numbers, blocks, threads, passes, dynamic_bytes)[2]

    def launch_grid(
        self, entry: str, image: Bytes, launch: Launch, *, most_steps: int | None = None
    ) -> LaunchGrid:
        """Run a kernel of parameters of its own on one image, in one grid, and watch its threads.

        After `most_steps`, else as many as any launch may take, it counts as hung. Raises as
        `launch` does, and `SimulatedTrap` with kind `RACE` where what two threads do has no order.
        """
        kernel, otherwise = self._entry(entry), self.device.otherwise
        size = max((at + bits // 8 for at, bits in kernel.parameters), default=0)
        if size != (given := len(launch.parameters)):
            raise UsageError(f"entry {entry!r} has {size} bytes of parameters, the launch {given}")
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
        base, seen = _ELSEWHERE if otherwise else BASES[0], -1
        # Again, where something was read that the text alone does not call approximate.
        while seen < len(kernel.inexact_loads):
            seen = len(kernel.inexact_loads)
            buffers = tuple(
                holding(base + start, image[start : start + size]) for start, size in launch.buffers
            )
            warps = self._warps(
                kernel, buffers, parameters_at(launch, base), launch.grid, launch.block,
                dynamic_bytes=launch.shared_bytes,
                garbage=_OTHER_GARBAGE if otherwise else _GARBAGE, memory=WatchedMemory,
            )  # fmt: skip
            warps.most_steps, memory = most_steps, warps.memory
            assert isinstance(memory, WatchedMemory)
            try:
                run(memory.watch(kernel, warps), warps)
                memory.check_left()
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
        blocks: int, threads: int, passes: int = 1, dynamic_bytes: int = 0,
    ) -> list[Bytes]:  # fmt: skip
        """Launch a kernel on copies of flat arrays; return what these hold afterwards."""
        if threads % LANES or not LANES <= threads <= _LARGEST_BLOCK:
            raise UsageError(f"{threads} threads in a block; give a multiple of 32 up to 1024")
        segments = tuple(map(holding, BASES, arrays))
        block = bytearray()
        values = (*(segment.base for segment in segments), *numbers)
        for (offset, bits), value in zip(kernel.parameters, values, strict=True):
            block += bytes(offset - len(block)) + value.to_bytes(bits // 8, "little")
        warps = self._warps(
            kernel, segments, bytes(block), (blocks, 1, 1), (threads, 1, 1),
            dynamic_bytes=dynamic_bytes,
        )  # fmt: skip
        warps.passes = passes
        run(kernel, warps)
        return [segment.data[: segment.size] for segment in segments]

    def _warps(
        self, kernel: DecodedKernel, segments: tuple[Segment, ...], parameters: bytes,
        grid: tuple[int, int, int], block: tuple[int, int, int], *, dynamic_bytes: int = 0,
        garbage: tuple[int, int] = _GARBAGE, memory: type[Memory] = Memory,
    ) -> WarpState:  # fmt: skip
        """Return the warps of a launch, before they run."""
        per_block, blocks = -(-math.prod(block) // LANES), math.prod(grid)
        indices = np.arange(blocks * per_block)
        turns, sms = np.divmod(indices // per_block, MULTIPROCESSORS)
        self.device.launches += 1
        return WarpState(
            indices=indices, block=block, grid=grid, dynamic_bytes=dynamic_bytes,
            sms=sms.astype(np.uint32), launch=self.device.launches - 1, garbage=garbage[0],
            slots=((turns * per_block + indices % per_block) % SLOTS).astype(np.uint32),
            memory=memory(
                segments, static=kernel.static, parameters=parameters, blocks=blocks,
                warps=indices.size, dynamic_bytes=dynamic_bytes, garbage=garbage[1],
            ),
        )  # fmt: skip

    def _entry(self, entry: str, parameter_bits: tuple[int, ...] | None = None) -> DecodedKernel:
        kernel = self.kernels.get(entry)
        if kernel is None:
            known = ", ".join(self.kernels) or "none"
            raise UsageError(f"the module has no entry {entry!r}; it has {known}")
        if isinstance(kernel, SimulatedTrap):
            raise kernel
        bits = tuple(bits for _, bits in kernel.parameters)
        if parameter_bits not in (None, bits):
            said = f"entry {entry!r} has parameters of {bits} bits; a kernel that is run so takes "
            raise UsageError(f"{said}{parameter_bits}")
        return kernel
