"""Images that the device makes by their numbers: made, run, and compared there."""

from __future__ import annotations

import errno
import itertools
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from runners.cuda.modules import GrowingMemory, Modules
from runners.cuda.reference import (
    DeviceProgram,
    DeviceReference,
    FilledContents,
    nothing_found,
    share,
)
from runners.kernels import LANES
from runners.ledger import ROWS
from runners.reference.fresh import FreshRan, FreshWork, finished_by
from runners.reference.self_check import LISTED
from runners.reference.self_check import Compared as Found

_CHUNK_BYTES = 256 << 20
"""Most bytes of the images of one launch: 3 % more images a second than with a quarter of it, and
2.5 times as many as with 4 MiB (H200, 2026-11-23)."""
_TURNS = 2
"""Processes that compare at once: with one, nobody uses the GPU while that launches, or waits for
its last results. In turns of ten seconds of a campaign with 15 workers, without those in which
programs hung, one made 11.2 and two 11.8 million images a second, the GPU 89 and 93 % busy (H200,
2026-11-28)."""
_PATIENCE, _PAUSE = 1.0, 0.0005
"""Seconds after which a process no longer waits for its turn, and between two looks."""
_IMAGES = "images", "copies"
_Row = tuple[int, NDArray[np.uint8], NDArray[np.uint8], int]
"""Number of an image, the image before and after, and its multiprocessor."""


class _Buffers:
    """Memory of one launch, here and on the device, which grows."""

    def __init__(self, driver: Any) -> None:
        self.memory = GrowingMemory(driver.mem_alloc)
        """Of the device."""
        self._pinned = GrowingMemory(lambda count: driver.pagelocked_empty(count, np.uint32))
        self.head: NDArray[np.uint64] = driver.pagelocked_empty(2 + LISTED, np.uint64)
        """What was found, once it is here."""
        self.found = driver.mem_alloc(self.head.nbytes)
        self.copied = driver.Event(driver.event_flags.BLOCKING_SYNC)
        self.first = self.count = 0
        """Numbers of its images."""

    def units(self, count: int) -> NDArray[np.uint32]:
        """Return where the multiprocessors of images come to."""
        return cast("NDArray[np.uint32]", self._pinned("units", count)[:count])


@dataclass(kw_only=True, eq=False)
class _Result:
    """What was found so far."""

    differing: int = 0
    listed: list[_Row] = field(default_factory=list)
    sampled: list[_Row] = field(default_factory=list)
    finished: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(ROWS, np.uint32))
    is_full: bool = False


@contextmanager
def turn(device: str) -> Iterator[None]:
    """Have no more than `_TURNS` of the processes that compare on a device do so at once.

    A device goes back and forth between the contexts of those that do so at once; one that waits
    for too long goes on beside the others.

    Parameters
    ----------
    device
        Name of it, the same in all processes.
    """
    # Whoever has this address, in Linux's namespace without files, loses it at its end.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        end = time.monotonic() + _PATIENCE
        for number in itertools.cycle(range(_TURNS)):
            if time.monotonic() > end:
                break
            try:
                own.bind(f"\0warpfuzz {device} {number}")
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    time.sleep(_PAUSE)
                    continue
            break
        yield


class FreshImages:
    """Comparisons in a context of PyCUDA. Raises as `DeviceReference` does.

    Parameters
    ----------
    driver
        PyCUDA's driver module; the context is the present one.
    modules
        Those of the context.
    device
        Name of the device (`turn`).
    """

    def __init__(self, driver: Any, modules: Modules, device: str = "") -> None:
        self._driver, self._modules, self._name = driver, modules, device
        self._reference = DeviceReference(driver, modules)
        self._stream = driver.Stream()
        self._buffers = _Buffers(driver), _Buffers(driver)
        self._chunk_bytes = share(driver, _CHUNK_BYTES)

    def compare(self, key: str, entry: str, warps: int, work: FreshWork) -> FreshRan:
        """Run a kernel in blocks of so many warps on images, and compare with the reference.

        Raises
        ------
        LaunchError
            If the kernel's module is not loaded.
        pycuda.driver.Error
            If something failed.
        """
        reference, size = self._reference, work.encoded.image_bytes
        kernel = self._modules.function(key, entry, "PPI")
        program, contents = reference.program(work.encoded), reference.contents(work.contents)
        most = self._at_once(work)
        for buffers in self._buffers:
            self._driver.memcpy_htod(buffers.found, nothing_found())
            # All that most programs need, once, and before others wait for this process.
            for name in _IMAGES:
                buffers.memory(name, max(self._chunk_bytes, size))
            buffers.memory("sms", 4 * most)
            buffers.units(most)
        result = _Result()
        with turn(self._name):
            begun = time.perf_counter()
            last = self._launched(work, kernel, warps, program, contents, result)
            last.copied.synchronize()
            seconds = time.perf_counter() - begun
        # The device is for others meanwhile.
        self._look_at(last, work, program, result)
        rows = [*result.listed, *result.sampled]
        numbers, before, after, sms = zip(*rows, strict=True) if rows else ((), (), (), ())
        return FreshRan(
            images=work.count,
            differing=result.differing,
            listed=len(result.listed),
            seconds=seconds,
            finished=result.finished,
            numbers=np.array(numbers, np.uint64),
            sms=np.array(sms, np.uint32),
            before=np.array(before, np.uint8).reshape(-1, size),
            after=np.array(after, np.uint8).reshape(-1, size),
        )

    def _at_once(self, work: FreshWork) -> int:
        """Return how many images a launch has at most."""
        return min(work.count, max(1, self._chunk_bytes // work.encoded.image_bytes))

    def _launched(
        self,
        work: FreshWork,
        kernel: Any,
        warps: int,
        program: DeviceProgram,
        contents: FilledContents,
        result: _Result,
    ) -> _Buffers:
        """Launch after launch, have images made, run and compared; look at all but the last."""
        reference, most, end = self._reference, self._at_once(work), work.first + work.count
        buffers, before = self._buffers[0], None
        # One launch is looked at while the device has the next.
        for number, first in enumerate(range(work.first, end, most)):
            buffers, count = self._buffers[number % 2], min(most, end - first)
            images, copies, sms = (int(buffers.memory(name, 0)) for name in (*_IMAGES, "sms"))
            reference.fill(contents, first, count, images, copies, self._stream)
            grid = (-(-count // warps), 1)
            kernel.prepared_async_call(
                grid, (LANES * warps, 1, 1), self._stream, copies, sms, count
            )
            reference.add(program, images, copies, first, count, self._stream, buffers.found)
            self._driver.memcpy_dtoh_async(buffers.head, buffers.found, self._stream)
            self._driver.memcpy_dtoh_async(buffers.units(count), sms, self._stream)
            buffers.copied.record(self._stream)
            buffers.first, buffers.count = first, count
            if before is not None:
                self._look_at(before, work, program, result)
            before = buffers
        return buffers

    def _look_at(
        self, buffers: _Buffers, work: FreshWork, program: DeviceProgram, result: _Result
    ) -> None:
        """Wait for a launch, and add what it found."""
        buffers.copied.synchronize()
        first, count, size = buffers.first, buffers.count, work.encoded.image_bytes
        images, copies = (int(buffers.memory(name, 0)) for name in _IMAGES)
        found = Found.of(count, buffers.head)
        if found.differing:
            if found.differing > len(found.numbers):
                some = self._lowest(program, images, copies, first, count).numbers
                found = replace(found, numbers=some)
            self._driver.memcpy_htod(buffers.found, nothing_found())
        result.differing += found.differing
        units = buffers.units(count)
        for rows, numbers in zip(
            (result.listed, result.sampled),
            work.kept(found, first, len(result.listed)),
            strict=True,
        ):
            for number in numbers:
                place = number - first
                before = self._fetched(images + place * size, size)
                after = self._fetched(copies + place * size, size)
                rows.append((number, before, after, int(units[place])))
        if not result.is_full:
            result.is_full = result.differing > len(result.listed)
            last = count
            if result.is_full and result.listed:
                last = max(0, result.listed[-1][0] + 1 - first)
            result.finished += finished_by(units, last)

    def _lowest(
        self, program: DeviceProgram, images: int, copies: int, first: int, count: int
    ) -> Found:
        """Compare; of more images that differ than are listed, list the first ones."""
        self._reference.start(program, images, copies, count, first=first)
        found = self._reference.end(count)
        half, size = count // 2, program.encoded.image_bytes
        if found.differing > len(found.numbers) and half:
            numbers = self._lowest(program, images, copies, first, half).numbers
            if len(numbers) < LISTED:
                images, copies = images + half * size, copies + half * size
                rest = self._lowest(program, images, copies, first + half, count - half)
                numbers = (*numbers, *rest.numbers)[:LISTED]
            found = replace(found, numbers=numbers)
        return found

    def _fetched(self, address: int, size: int) -> NDArray[np.uint8]:
        data = np.empty(size, np.uint8)
        self._driver.memcpy_dtoh(data, address)
        return data
