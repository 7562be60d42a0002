"""Images that the device makes by their numbers: made, run, and compared there."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from runners.cuda.messages import Compared, Fresh
from runners.cuda.modules import Modules
from runners.cuda.reference import DeviceProgram, DeviceReference
from runners.kernels import LANES
from runners.ledger import ROWS
from runners.reference.encoding import Encoded
from runners.reference.fresh import FreshWork, finished_by
from runners.reference.self_check import LISTED
from runners.reference.self_check import Compared as Found

_CHUNK_BYTES = 16 << 20
"""Bytes of the images of one launch: with their copies, less than the second-level cache of 50 MB
(NVIDIA H100 Tensor Core GPU Architecture)."""
_Row = tuple[int, bytes, bytes, bytes]
"""Number of an image, the image before and after, and its multiprocessor."""


class FreshImages:
    """Comparisons in a context of PyCUDA. Raises as `DeviceReference` does.

    Parameters
    ----------
    driver
        PyCUDA's driver module; the context is the present one.
    modules
        Those of the context.
    """

    def __init__(self, driver: Any, modules: Modules) -> None:
        self._driver, self._modules = driver, modules
        self._reference = DeviceReference(driver, modules)

    def compare(self, request: Fresh) -> Compared:
        """Run a kernel on images, and compare with the reference.

        Raises
        ------
        LaunchError
            If the kernel's module is not loaded.
        pycuda.driver.Error
            If something failed.
        """
        reference, size, warps = self._reference, request.image_bytes, request.warps_per_block
        kernel = self._modules.function(request.key, request.entry, "PPI")
        code = np.frombuffer(request.code, np.uint32)
        work = FreshWork(
            encoded=Encoded(words=code, image_bytes=size, work_bytes=request.work_bytes),
            contents=np.frombuffer(request.contents, np.uint64),
            first=request.first,
            count=request.count,
            sampled=request.sampled,
        )
        program, contents = reference.program(work.encoded), reference.contents(work.contents)
        most, end = min(work.count, max(1, _CHUNK_BYTES // size)), work.first + work.count
        memories = [self._driver.mem_alloc(most * one) for one in (size, size, 4)]
        images, copies, sms = map(int, memories)
        differing, listed, sampled = 0, list[_Row](), list[_Row]()
        finished, is_full = np.zeros(ROWS, np.uint32), False
        begun = time.perf_counter()
        for first in range(work.first, end, most):
            count = min(most, end - first)
            reference.fill(contents, size, first, count, images, copies)
            grid = (-(-count // warps), 1)
            kernel.prepared_async_call(grid, (LANES * warps, 1, 1), None, copies, sms, count)
            found = self._lowest(program, images, copies, first, count)
            differing += found.differing
            for rows, numbers in zip(
                (listed, sampled), work.kept(found, first, len(listed)), strict=True
            ):
                for number in numbers:
                    place = number - first
                    before = self._fetched(images + place * size, size)
                    after = self._fetched(copies + place * size, size)
                    rows.append((number, before, after, self._fetched(sms + place * 4, 4)))
            if not is_full:
                is_full = differing > len(listed)
                last = listed[-1][0] + 1 - first if is_full and listed else count
                units = np.frombuffer(self._fetched(sms, 4 * count), np.uint32)
                finished += finished_by(units, max(0, last))
        rows = [*listed, *sampled]
        return Compared(
            token=request.token,
            differing=differing,
            listed=len(listed),
            seconds=time.perf_counter() - begun,
            finished=finished.tobytes(),
            numbers=tuple(row[0] for row in rows),
            before=b"".join(row[1] for row in rows),
            after=b"".join(row[2] for row in rows),
            sms=b"".join(row[3] for row in rows),
        )

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

    def _fetched(self, address: int, size: int) -> bytes:
        data = np.empty(size, np.uint8)
        self._driver.memcpy_dtoh(data, address)
        return data.tobytes()
