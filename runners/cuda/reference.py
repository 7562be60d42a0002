"""The reference on a device: compares what a program made of images there with its own result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.cuda.modules import Modules
from runners.kernels import LANES
from runners.protocol import Images
from runners.reference.encoding import Encoded
from runners.reference.fresh import fill_bytes
from runners.reference.self_check import LISTED, Compared, check
from runners.reference.shipped import shipped

_KEY = "reference"
_COMPARE = "compare", "PPPIIIQIPP"
"""As in the interpreter: code, images, results, sizes, words of the code that each block copies to
shared memory, first, count, memory, found."""
_FILL = "fill", "PQQIPPP"
"""As in the interpreter: contents, first, count, batch, images, copies, memory."""
_LEVEL = 3
"""-O level of the driver's compiler; at -O0 the reference would be the slower of the two."""
_COMPARING, _MAKING = 16, 20
"""Warps of a multiprocessor that its registers have room for: 128 and 96 for each thread, as the
bounds of the kernels say (interpreter.cu). With 20 and 16 of them comparing made 179.1 and 191.2
million images a second, making 256.0 and 251.8 (H100, 2026-11-27)."""
_WAVES = 16
"""Blocks of a comparison for each that is resident: all are busy until the last ones."""
_PARTS = 8
"""Warps that make images for each that is resident: those that follow each other make images of
one class of contents, and some classes take longer."""
_TOGETHER = 4
"""Most warps of a block (interpreter.cu): they begin together, and have instructions in common."""
_SHARED_BYTES = 48 << 10
"""Most shared memory of a warp; images that need more are made and compared in global memory."""
_CODE_BYTES = 4 << 10
"""Most bytes of a program that blocks copy to shared memory, where its words are read in 30 cycles
and not, where the first-level cache has lost them, in 300 (H100, 2026-11-27); of longer programs
that would leave room for fewer warps."""
_GLOBAL_BYTES = 1 << 28
"""Most memory for warps whose images are too large for shared memory."""
_SHARES = 512
"""A device's memory has room for so many of what a worker holds at most: six, and there are dozens
of workers."""


def share(driver: Any, most: int) -> int:
    """Return how many bytes of the present device one allocation of a worker may have."""
    return min(most, int(driver.Context.get_device().total_memory()) // _SHARES)


class DeviceReference:
    """The interpreter in a context of PyCUDA.

    Parameters
    ----------
    driver
        PyCUDA's driver module; the context is the present one.
    modules
        Those of the context.

    Raises
    ------
    LoadError
        If the driver refuses the interpreter.
    InfrastructureError
        If what the driver made of it is wrong on a fixed set.
    """

    def __init__(self, driver: Any, modules: Modules) -> None:
        self._driver = driver
        modules.load_own(_KEY, shipped().encode(), _LEVEL)
        self._function = modules.function(_KEY, *_COMPARE)
        self._fill = modules.function(_KEY, *_FILL)
        device, names = driver.Context.get_device(), driver.device_attribute
        self._multiprocessors = device.get_attribute(names.MULTIPROCESSOR_COUNT)
        self._block_bytes = device.get_attribute(names.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        for function in (self._function, self._fill):
            asked = driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(asked, self._block_bytes)
        self._global_bytes = share(driver, _GLOBAL_BYTES)
        self._found = driver.mem_alloc(8 * (2 + LISTED))
        check(self.compare)

    def program(self, encoded: Encoded) -> DeviceProgram:
        """Put a program into the device's memory.

        Raises
        ------
        pycuda.driver.Error
            If there is no room for it, or the device is lost.
        """
        code, size = self._driver.to_device(encoded.words), encoded.work_bytes
        resident, memory = self._resident(size, _COMPARING)
        if memory:
            return DeviceProgram(encoded, code, 0, resident, memory, 1, 0)
        warps = min(_TOGETHER, resident // self._multiprocessors)
        copied = len(encoded.words)
        if 4 * copied > min(_CODE_BYTES, self._block_bytes - warps * size):
            copied = 0
        room = warps * size + 4 * copied
        return DeviceProgram(encoded, code, room, _WAVES * resident // warps, None, warps, copied)

    def contents(self, words: NDArray[np.uint64]) -> FilledContents:
        """Put contents (`DeviceContents.words`) into the device's memory. Raises as `program`."""
        code, size = self._driver.to_device(words), fill_bytes(words)
        resident, memory = self._resident(size, _MAKING)
        if memory:
            return FilledContents(code, 0, resident, memory, 1, resident)
        warps = min(_TOGETHER, resident // self._multiprocessors)
        blocks = _PARTS * resident // warps
        return FilledContents(code, warps * size, blocks, None, warps, resident)

    def _resident(self, size: int, most: int) -> tuple[int, Any]:
        """Return how many warps run at once that need so many bytes, and their global memory.

        `most` is of a multiprocessor, by their registers.
        """
        if size <= _SHARED_BYTES:
            room = self._block_bytes // size
            return min(most, room) * self._multiprocessors, None
        count = max(1, min(most * self._multiprocessors, self._global_bytes // size))
        return count, self._driver.mem_alloc(count * size)

    def fill(
        self,
        contents: FilledContents,
        first: int,
        count: int,
        images: int,
        copies: int,
        stream: Any = None,
    ) -> None:
        """Queue the making of images, numbered from `first` on, at two addresses each."""
        # Fewer at a time where there are few: all warps are to have some, and to end together.
        batch = max(1, count // (_PARTS * contents.resident))
        # Where two are made at once an odd number leaves half of the lanes without one.
        batch += batch % 2
        self._fill.prepared_async_call(
            (min(-(-count // contents.warps), contents.blocks), 1),
            (LANES * contents.warps, 1, 1),
            stream,
            *(int(contents.code), first, count, batch, images, copies),
            int(contents.memory or 0),
            shared_size=contents.shared_bytes,
        )

    def compare(self, encoded: Encoded, before: Images, after: Images) -> Compared:
        """Compare images of the host with what was made of them, and wait for what is found."""
        images, results = map(self._driver.to_device, map(np.ascontiguousarray, (before, after)))
        self.start(self.program(encoded), int(images), int(results), len(before))
        return self.end(len(before))

    def start(
        self,
        program: DeviceProgram,
        before: int,
        after: int,
        count: int,
        stream: Any = None,
        first: int = 0,
    ) -> None:
        """Queue a comparison.

        Parameters
        ----------
        before, after
            Addresses on the device of images, and of what the program under test made of them.
        count
            How many there are.
        first
            Number of the first; the others follow it.
        """
        self._driver.memcpy_htod(self._found, nothing_found())
        self.add(program, before, after, first, count, stream)

    def add(
        self,
        program: DeviceProgram,
        before: int,
        after: int,
        first: int,
        count: int,
        stream: Any = None,
        found: Any = None,
    ) -> None:
        """Queue a comparison of further images, which are numbered from `first` on.

        Parameters
        ----------
        found
            Where what differs is added on the device (`nothing_found`); None: for `end`.
        """
        encoded = program.encoded
        self._function.prepared_async_call(
            (min(-(-count // program.warps), program.blocks), 1),
            (LANES * program.warps, 1, 1),
            stream,
            *(int(program.code), before, after, encoded.image_bytes, encoded.work_bytes),
            program.shared_words,
            *(first, count, int(program.memory or 0), int(found or self._found)),
            shared_size=program.shared_bytes,
        )

    def end(self, images: int) -> Compared:
        """Wait for what was started, of so many images, and return what it found."""
        found: NDArray[np.uint64] = np.empty(2 + LISTED, np.uint64)
        self._driver.Context.synchronize()
        self._driver.memcpy_dtoh(found, self._found)
        return Compared.of(images, found)


def nothing_found() -> NDArray[np.uint64]:
    """Return what a comparison adds to: how many images differ, most that are listed, numbers."""
    empty = np.zeros(2 + LISTED, np.uint64)
    empty[1] = LISTED
    return empty


@dataclass(eq=False)
class FilledContents:
    """Contents in the device's memory, and how they are launched."""

    code: Any
    shared_bytes: int
    """Shared memory of a block."""
    blocks: int
    """At most, in one launch."""
    memory: Any
    """Global memory for its warps; None: they have shared memory."""
    warps: int
    """Warps of a block."""
    resident: int
    """Warps that run at once."""


@dataclass(eq=False)
class DeviceProgram:
    """A program in the device's memory, and how it is launched."""

    encoded: Encoded
    code: Any
    shared_bytes: int
    """Shared memory of a block."""
    blocks: int
    """At most, in one launch."""
    memory: Any
    """Global memory for its warps; None: they have shared memory."""
    warps: int
    """Warps of a block."""
    shared_words: int
    """Words of the program that each block copies to shared memory: all or none."""
