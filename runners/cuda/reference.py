"""The reference on a device: compares what a program made of images there with its own result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.cuda.modules import Modules
from runners.kernels import LANES
from runners.reference.encoding import Encoded
from runners.reference.fresh import fill_bytes
from runners.reference.self_check import LISTED, Compared, Images, check
from runners.reference.shipped import shipped

_KEY = "reference"
_COMPARE = "compare", "PPPIIQQPP"
"""As in the interpreter: code, images, results, sizes, first, count, memory, found."""
_FILL = "fill", "PQQPPP"
"""As in the interpreter: contents, first, count, images, copies, memory."""
_LEVEL = 3
"""-O level of the driver's compiler; at -O0 the reference would be the slower of the two."""
_WARPS = 4
"""Of a block: the bound that `compare` is compiled for."""
_RESIDENT = 16
"""Warps of a multiprocessor, by its registers: 128 for each thread (interpreter.cu)."""
_FILLING = 32
"""The same of `fill`: 64 for each thread, and a block for each warp."""
_SHARED_BYTES = 48 << 10
"""Shared memory that a block has without asking (CUDA C++ Programming Guide, "Shared Memory")."""
_GLOBAL_BYTES = 1 << 28
"""Most memory for warps whose images are too large for shared memory."""


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
        modules.load(_KEY, shipped().encode(), _LEVEL)
        self._function = modules.function(_KEY, *_COMPARE)
        self._fill = modules.function(_KEY, *_FILL)
        self._multiprocessors = driver.Context.get_device().get_attribute(
            driver.device_attribute.MULTIPROCESSOR_COUNT
        )
        self._found = driver.mem_alloc(8 * (2 + LISTED))
        check(self.compare)

    def program(self, encoded: Encoded) -> DeviceProgram:
        """Put a program into the device's memory.

        Raises
        ------
        pycuda.driver.Error
            If there is no room for it, or the device is lost.
        """
        code = self._driver.to_device(encoded.words)
        warps = min(_WARPS, _SHARED_BYTES // encoded.work_bytes)
        if warps:
            blocks = _RESIDENT // warps * self._multiprocessors
            return DeviceProgram(encoded, code, warps, blocks, None)
        blocks, memory = self._memory(encoded.work_bytes, _RESIDENT)
        return DeviceProgram(encoded, code, 1, blocks, memory)

    def contents(self, words: NDArray[np.uint64]) -> FilledContents:
        """Put contents (`DeviceContents.words`) into the device's memory. Raises as `program`."""
        code, size = self._driver.to_device(words), fill_bytes(words)
        if size <= _SHARED_BYTES:
            return FilledContents(code, size, _FILLING * self._multiprocessors, None)
        return FilledContents(code, 0, *self._memory(size, _FILLING))

    def _memory(self, size: int, resident: int) -> tuple[int, Any]:
        """Return how many warps have memory of some size each, and this memory."""
        count = max(1, min(resident * self._multiprocessors, _GLOBAL_BYTES // size))
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
        self._fill.prepared_async_call(
            (min(count, contents.blocks), 1),
            (LANES, 1, 1),
            stream,
            *(int(contents.code), first, count, images, copies, int(contents.memory or 0)),
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
        encoded, blocks = program.encoded, -(-count // program.warps)
        self._function.prepared_async_call(
            (min(blocks, program.blocks), 1),
            (LANES * program.warps, 1, 1),
            stream,
            *(int(program.code), before, after, encoded.image_bytes, encoded.work_bytes),
            *(first, count, int(program.memory or 0), int(found or self._found)),
            shared_size=0 if program.memory else program.warps * encoded.work_bytes,
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
    """Shared memory of a warp."""
    blocks: int
    """At most, in one launch, of one warp each."""
    memory: Any
    """Global memory for its warps; None: they have shared memory."""


@dataclass(eq=False)
class DeviceProgram:
    """A program in the device's memory, and how it is launched."""

    encoded: Encoded
    code: Any
    warps: int
    """Of a block."""
    blocks: int
    """At most, in one launch."""
    memory: Any
    """Global memory for its warps; None: they have shared memory."""
