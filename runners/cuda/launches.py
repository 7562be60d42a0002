"""Screening kernels in the context of the child: one runs, and the next one waits behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners import ledger
from runners.cuda.messages import DeviceHealth, LaunchEnded, Screen
from runners.cuda.modules import LaunchError, Modules

Bytes = NDArray[np.uint8]
_WARP = 32
LANES = 2
"""Screening kernels on their way: one runs, and the next one is queued behind it, so that the
device goes on while this process compiles."""


@dataclass(frozen=True, kw_only=True)
class Started:
    """A screening kernel on its way."""

    launch: Screen
    head: Bytes
    """The start of its ledger, once it is copied."""
    book: Any
    """Its ledger in device memory."""
    begin: Any
    end: Any
    copied: Any
    """Events: the kernel begins, ends, and `head` is there."""
    health: DeviceHealth | None


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
        self._areas: dict[str, tuple[Any, int]] = {}
        """Device memory that launches use in turn, and its bytes."""
        self._heads: dict[int, Bytes] = {}
        """Pinned host memory for the starts of ledgers, one for each launch that is on its way."""
        self._lane = 0

    def start(self, launch: Screen) -> Started:
        """Queue a screening kernel behind those that are on their way, at most one.

        Raises LaunchError if that failed, or one of those before did and has poisoned the context.
        """
        driver, stream = self._driver, self._kernels
        self._lane = (self._lane + 1) % LANES
        try:
            if launch.upload is not None:
                self._upload(launch, launch.upload)
            if launch.references not in self._references:
                raise LaunchError("its images are not there", sticky=False)
            images = self._references[launch.references]
            function = self._modules.function(launch.key, launch.entry, "PPPPII")
            book = self._area(f"ledger {self._lane}", ledger.ledger_bytes(launch.image_bytes))
            scratch = self._area("scratch", launch.scratch_bytes) if launch.scratch_bytes else 0
            head = self._head(self._lane)
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
        return Started(
            launch=launch, head=head, book=book, begin=begin, end=end, copied=copied,
            health=self._health() if launch.examine else None,
        )  # fmt: skip

    def finish(self, started: Started) -> LaunchEnded:
        """Wait for a screening kernel; return what its ledger says.

        Raises
        ------
        LaunchError
            If it failed, or the one behind it did and has poisoned the context.
        """
        launch, head = started.launch, started.head
        # Not the stream of the kernels: the next one is on its way there.
        stream = self._copies
        try:
            started.copied.synchronize()
            seconds = started.begin.time_till(started.end) / 1000
            kept = ledger.recorded(head)
            if kept:
                head = np.zeros(ledger.IMAGES_AT + kept * launch.image_bytes, np.uint8)
                self._driver.memcpy_dtoh_async(head, started.book, stream)
                stream.synchronize()
        except self._driver.Error as error:
            raise LaunchError(str(error), sticky=self._is_dead()) from None
        return LaunchEnded(
            token=launch.token, seconds=seconds, ledger=head.tobytes(), health=started.health
        )

    @cached_property
    def _blank(self) -> Bytes:
        """What a ledger holds before a launch, in pinned host memory."""
        blank: Bytes = self._driver.pagelocked_empty(ledger.IMAGES_AT, np.uint8)
        blank[:] = 0
        return blank

    def _head(self, lane: int) -> Bytes:
        if lane not in self._heads:
            self._heads[lane] = self._driver.pagelocked_empty(ledger.IMAGES_AT, np.uint8)
        return self._heads[lane]

    def _upload(self, launch: Screen, slot: int) -> None:
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

    def _area(self, name: str, size: int) -> Any:
        """Return device memory of at least a size, which is used again under its name."""
        memory, there = self._areas.get(name, (None, 0))
        if there < size:
            self._areas.pop(name, None)
            if memory is not None:
                # A kernel that is on its way may use it.
                self._kernels.synchronize()
                memory.free()
            memory = self._driver.mem_alloc(size)
            self._areas[name] = (memory, size)
        return memory
