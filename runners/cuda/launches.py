"""Screening kernels in the context of the child: one runs, and the next one waits behind it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners import ledger
from runners.cuda.messages import DeviceHealth, ScreenRequest
from runners.cuda.modules import GrowingMemory, LaunchError, Modules
from runners.screening import Screened

Bytes = NDArray[np.uint8]
_WARP = 32
LANES = 2
"""Screening kernels on their way: one runs, and the next one is queued behind it, so that the
device goes on while this process compiles."""


class Launches:
    """The screening kernels of a context, and the memory that they need.

    Parameters
    ----------
    driver
        PyCUDA's driver module.
    kernels, copies
        Two streams: one for kernels and what stands around them, one for what they must not wait
        for.
    modules
        Where the kernels are from.
    slot
        Returns the memory of a slot.
    health
        Reads the device's sensors.
    is_dead
        Whether the context fails at everything now.
    """

    def __init__(
        self,
        driver: Any,
        *,
        kernels: Any,
        copies: Any,
        modules: Modules,
        slot: Callable[[int], Bytes],
        health: Callable[[], DeviceHealth],
        is_dead: Callable[[], bool],
    ) -> None:
        self._driver, self._kernels, self._copies = driver, kernels, copies
        self._modules, self._slot = modules, slot
        self._health, self._is_dead = health, is_dead
        self._references: dict[int, tuple[Any, Any]] = {}
        """Device memory with the images before and after, by their number."""
        # A kernel that is on its way may use what is too small.
        self._area = GrowingMemory(driver.mem_alloc, kernels.synchronize)
        """Device memory that launches use in turn."""
        self._pinned = GrowingMemory(lambda size: driver.pagelocked_empty(size, np.uint8))
        """Pinned host memory for the starts of ledgers, one for each launch that is on its way."""
        self._lane = 0

    def start(self, launch: ScreenRequest, upload: int | None) -> Callable[[], Screened]:
        """Queue a screening kernel behind those that are on their way, at most one.

        Raises LaunchError if that failed, or one of those before did and has poisoned the context;
        and so does what is returned, which waits for the kernel.

        Parameters
        ----------
        upload
            The slot that holds the images and, behind them, the expected ones; None: they are
            there.
        """
        driver, stream = self._driver, self._kernels
        self._lane = (self._lane + 1) % LANES
        try:
            if upload is not None:
                self._upload(launch, upload)
            if launch.references not in self._references:
                raise LaunchError("its images are not there", sticky=False)
            images = self._references[launch.references]
            function = self._modules.function(launch.key, launch.entry, "PPPPII")
            book = self._area(f"ledger {self._lane}", ledger.ledger_bytes(launch.image_bytes))
            scratch = self._area("scratch", launch.scratch_bytes) if launch.scratch_bytes else 0
            head = self._pinned(f"{self._lane}", ledger.IMAGES_AT)
            begin, end = (driver.Event(driver.event_flags.BLOCKING_SYNC) for _ in range(2))
            # Pinned: from other memory, the copy would wait for the kernels before.
            driver.memcpy_htod_async(book, self._blank, stream)
            begin.record(stream)
            function.prepared_async_call(
                (launch.blocks, 1),
                (_WARP * launch.warps_per_block, 1, 1),
                stream,
                *(int(address) for address in (*images, book, scratch)),
                launch.count,
                launch.limit,
            )
            end.record(stream)
            driver.memcpy_dtoh_async(head, book, stream)
            copied = driver.Event(driver.event_flags.BLOCKING_SYNC)
            copied.record(stream)
        except self._driver.Error as error:
            raise LaunchError(str(error), sticky=self._is_dead()) from None
        health = self._health() if launch.examine else None
        return partial(self._finish, launch.image_bytes, (begin, end, copied), head, book, health)

    def _finish(
        self,
        image_bytes: int,
        events: tuple[Any, Any, Any],
        head: Bytes,
        book: Any,
        health: DeviceHealth | None,
    ) -> Screened:
        """Wait until a kernel has begun and ended and the head of its book is here; read that."""
        begin, end, copied = events
        # Not the stream of the kernels: the next one is on its way there.
        stream = self._copies
        try:
            copied.synchronize()
            seconds = begin.time_till(end) / 1000
            kept = ledger.recorded(head)
            if kept:
                head = np.zeros(ledger.IMAGES_AT + kept * image_bytes, np.uint8)
                self._driver.memcpy_dtoh_async(head, book, stream)
                stream.synchronize()
        except self._driver.Error as error:
            raise LaunchError(str(error), sticky=self._is_dead()) from None
        return Screened(
            ledger=ledger.read_ledger(head, image_bytes), seconds=seconds, health=health
        )

    @cached_property
    def _blank(self) -> Bytes:
        """What a ledger holds before a launch, in pinned host memory."""
        blank: Bytes = self._driver.pagelocked_empty(ledger.IMAGES_AT, np.uint8)
        blank[:] = 0
        return blank

    def _upload(self, launch: ScreenRequest, slot: int) -> None:
        """Copy images and expected images from a slot into device memory of their own."""
        self.forget_references(launch.references)
        stream, size = self._copies, launch.count * launch.image_bytes
        memory = self._slot(slot)
        both = []
        for part in (memory[:size], memory[size : 2 * size]):
            both.append(self._driver.mem_alloc(size))
            self._driver.memcpy_htod_async(both[-1], part, stream)
        stream.synchronize()
        self._references[launch.references] = (both[0], both[1])

    def forget_references(self, number: int) -> None:
        """Free the images of a number, if there are any."""
        for memory in self._references.pop(number, ()):
            memory.free()
