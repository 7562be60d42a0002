"""The reference on a device: compares what a program made of images there with its own result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.cuda.modules import Modules
from runners.kernels import LANES
from runners.reference.encoding import Encoded
from runners.reference.self_check import LISTED, Compared, Images, check
from runners.reference.shipped import shipped

_KEY = "reference"
_COMPARE = "compare", "PPPIIQQPP"
"""As in the interpreter: code, images, results, sizes, first, count, memory, found."""
_FILL = "fill", "PQQPPI"
"""As in the interpreter: contents, first, count, images, copies, shared memory of a warp."""
_LEVEL = 3
"""-O level of the driver's compiler; at -O0 the reference would be the slower of the two."""
_WARPS = 4
"""Of a block: the bound that `compare` is compiled for."""
_RESIDENT = 16
"""Warps of a multiprocessor, by its registers: 128 for each thread (interpreter.cu)."""
_SHARED_BYTES = 48 << 10
"""Shared memory that a block has without asking (CUDA C++ Programming Guide, "Shared Memory")."""
_FILL_BYTES = _SHARED_BYTES - 512
"""What `fill` leaves of it: its four warps have 64 numbers of 16 bits each."""
_GLOBAL_BYTES = 1 << 30
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
        most = _GLOBAL_BYTES // encoded.work_bytes
        blocks = max(1, min(_RESIDENT * self._multiprocessors, most))
        memory = self._driver.mem_alloc(blocks * encoded.work_bytes)
        return DeviceProgram(encoded, code, 1, blocks, memory)

    def contents(self, words: NDArray[np.uint64]) -> Any:
        """Put contents (`DeviceContents.words`) into the device's memory."""
        return self._driver.to_device(words)

    def fill(
        self,
        contents: Any,
        image_bytes: int,
        first: int,
        count: int,
        images: int,
        copies: int,
        stream: Any = None,
    ) -> None:
        """Queue the making of images, numbered from `first` on, at two addresses each."""
        shared = 2 * image_bytes if 2 * _WARPS * image_bytes <= _FILL_BYTES else 0
        blocks = min(-(-count // _WARPS), _RESIDENT // _WARPS * self._multiprocessors)
        self._fill.prepared_async_call(
            (blocks, 1),
            (LANES * _WARPS, 1, 1),
            stream,
            *(int(contents), first, count, images, copies, shared),
            shared_size=_WARPS * shared,
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
        empty = np.zeros(2 + LISTED, np.uint64)
        empty[1] = LISTED
        self._driver.memcpy_htod(self._found, empty)
        self.add(program, before, after, first, count, stream)

    def add(
        self,
        program: DeviceProgram,
        before: int,
        after: int,
        first: int,
        count: int,
        stream: Any = None,
    ) -> None:
        """Queue a comparison of further images, which are numbered from `first` on."""
        encoded, blocks = program.encoded, -(-count // program.warps)
        self._function.prepared_async_call(
            (min(blocks, program.blocks), 1),
            (LANES * program.warps, 1, 1),
            stream,
            *(int(program.code), before, after, encoded.image_bytes, encoded.work_bytes),
            *(first, count, int(program.memory or 0), int(self._found)),
            shared_size=0 if program.memory else program.warps * encoded.work_bytes,
        )

    def end(self, images: int) -> Compared:
        """Wait for what was started, of so many images, and return what it found."""
        found: NDArray[np.uint64] = np.empty(2 + LISTED, np.uint64)
        self._driver.Context.synchronize()
        self._driver.memcpy_dtoh(found, self._found)
        return Compared.of(images, found)


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
