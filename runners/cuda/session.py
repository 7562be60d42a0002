"""One CUDA context and what runs in it. Lives in the child; the only user of PyCUDA."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InfrastructureError
from runners import ledger
from runners.cuda.libraries import DeviceFacts, DeviceHealth, DriverLibrary, Monitor
from runners.cuda.modules import GrowingMemory, Launcher, LaunchError, LoadError, Modules
from runners.kernels import Kernel, ScreeningKernel
from runners.protocol import Failure, Trouble
from runners.screening import Screened

if TYPE_CHECKING:
    from runners.cuda.fresh import FreshImages
    from runners.reference.fresh import FreshRan, FreshWork

Bytes = NDArray[np.uint8]
_STREAMS = 3  # one chunk on its way in, one running, one on its way out
SCREENS = 2
"""Screening kernels on their way: one runs, and the next one is queued behind it, so that the
device goes on while this process compiles."""


@dataclass(frozen=True, kw_only=True)
class RunBatch:
    """Run one kernel on images in a slot; images and multiprocessors go to another slot."""

    key: str  # of the module
    kernel: Kernel
    count: int
    source: int = 0
    source_offset: int = 0  # bytes from the start of the source slot to the first image
    destination: int = 0
    sms_offset: int = 0
    """Bytes from the start of the destination slot to the numbers of the multiprocessors."""
    chunk_images: int  # of one copy and launch; chunks overlap on several streams


@dataclass(frozen=True, kw_only=True)
class ScreenRequest:
    """Run a screening kernel, on images that the child keeps under a number."""

    key: str
    kernel: ScreeningKernel
    references: int  # number of the images
    count: int
    limit: int  # images that every multiprocessor takes
    blocks: int
    examine: bool  # whether to read the sensors while the launch runs


class NotReadyError(Exception):
    """There is nothing to run on."""

    def __init__(
        self, text: str, detail: str = "", *, trouble: Trouble = Trouble.DEVICE_LOST
    ) -> None:
        super().__init__(text)
        self.failure = Failure(trouble=trouble, message=text, detail=detail)


def import_driver() -> Any:
    """Return PyCUDA's driver module, initialised.

    Raises NotReadyError if PyCUDA, the driver or the device is not there.
    """
    try:
        import pycuda.driver as driver
    except ImportError as error:
        text = "PyCUDA cannot be imported; `pip install pycuda` builds it for this CUDA and NumPy"
        if "libcuda" in str(error):
            text = "there is no NVIDIA driver (libcuda.so.1 cannot be loaded); install the driver"
        detail = f"{type(error).__name__}: {error}"
        raise NotReadyError(text, detail, trouble=Trouble.UNAVAILABLE) from None
    try:
        driver.init()
    except driver.Error as error:
        text = "the NVIDIA driver finds no device; `nvidia-smi` should list one"
        raise NotReadyError(text, str(error)) from None
    return driver


@dataclass(kw_only=True)
class _Channel:
    stream: Any
    memory: GrowingMemory  # device memory for the images of one chunk, and their multiprocessors
    staging: GrowingMemory  # pinned host memory, where the slots could not be registered
    outputs: list[tuple[Bytes, Bytes]] = field(default_factory=list)
    """Pairs (staging, destination) to copy once the stream is done."""

    def finish(self) -> None:
        """Wait until all is done and where it belongs."""
        self.stream.synchronize()
        for staging, destination in self.outputs:
            np.copyto(destination, staging)
        self.outputs.clear()


class Session:
    """A context on one device, by its number as the driver counts.

    Raises NotReadyError if there is no such device or no context can be made on it.
    """

    def __init__(self, ordinal: int) -> None:
        self._driver: Any = import_driver()
        driver = self._driver
        try:
            count = driver.Device.count()
            if ordinal >= count:
                raise NotReadyError(
                    f"there is no device {ordinal}; the driver sees {count}, counted from 0"
                )
            self._device = driver.Device(ordinal)
            # Blocking: a waiting host leaves its core to the oracle.
            self._context = self._device.make_context(driver.ctx_flags.SCHED_BLOCKING_SYNC)
            self._channels = [self._channel() for _ in range(_STREAMS)]
        except driver.Error as error:
            raise NotReadyError(
                f"no context can be made on device {ordinal}; it may be lost or in use by another "
                "process alone: `nvidia-smi` says more",
                str(error),
            ) from None
        self._ordinal = ordinal
        self._slots: dict[int, tuple[Bytes, bool]] = {}
        """Shared memory by its number, and whether the driver has it registered."""
        self._library = DriverLibrary()
        # Some virtual machines cannot register shared memory.
        probe = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), np.uint8)
        address = probe.ctypes.data
        self._staged = not (
            self._library.register(address, probe.size) and self._library.unregister(address)
        )
        self._monitor = Monitor(self._device.pci_bus_id())
        capability = "{}.{}".format(*self._device.compute_capability())
        version = self._monitor.driver
        self.modules = Modules(
            driver, self._library, f"driver {version}, {capability}" if version else ""
        )
        self._fresh: FreshImages | None = None
        self._references: dict[int, tuple[Any, Any]] = {}
        """Device memory with the images before and after that screening has, by their number."""
        # A screening kernel that is on its way may use what is too small.
        self._area = GrowingMemory(driver.mem_alloc, self._channels[0].stream.synchronize)
        self._pinned = GrowingMemory(lambda size: driver.pagelocked_empty(size, np.uint8))
        """Pinned host memory for the starts of ledgers, one for each launch that is on its way."""
        self._screen = 0

    def _channel(self) -> _Channel:
        driver, stream = self._driver, self._driver.Stream()
        return _Channel(
            stream=stream,
            memory=GrowingMemory(driver.mem_alloc, stream.synchronize),
            staging=GrowingMemory(lambda size: driver.pagelocked_empty(size, np.uint8)),
        )

    def _failed(self, error: Exception) -> LaunchError:
        """Return what an error of the driver says of a batch; waits for what is still running."""
        return LaunchError(str(error), sticky=self._is_dead())

    def _is_dead(self) -> bool:
        """Whether the context fails at everything now; also waits for what is still running."""
        for channel in self._channels:
            channel.outputs.clear()
        try:
            self._driver.Context.synchronize()
            self._driver.mem_alloc(4).free()
        except self._driver.MemoryError:
            return False
        except self._driver.Error:
            return True
        return False

    # Slots

    def map_slot(self, slot: int, size: int, descriptor: int) -> None:
        """Map shared memory, and register it with the driver where that is possible."""
        array = np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
        os.close(descriptor)
        # Where it fails (a limit on locked memory, say), copies are right and only slow.
        registered = not self._staged and self._library.register(array.ctypes.data, size)
        self._slots[slot] = array, registered

    def unmap_slot(self, slot: int) -> None:
        """Give shared memory back."""
        array, registered = self._slots.pop(slot)
        if registered:
            self._library.unregister(array.ctypes.data)

    # Batches

    def run(self, batch: RunBatch) -> float:
        """Run a batch between slots; return the seconds that it took, or raise LaunchError."""
        size = batch.count * batch.kernel.image_bytes
        source = self._slots[batch.source][0][batch.source_offset :][:size]
        memory = self._slots[batch.destination][0]
        return self.run_arrays(
            batch, source, memory[:size], memory[batch.sms_offset :][: 4 * batch.count]
        )

    def run_arrays(self, batch: RunBatch, source: Bytes, destination: Bytes, sms: Bytes) -> float:
        """Run a batch between flat arrays of bytes in host memory; as `run`."""
        start, kernel, size = time.perf_counter(), batch.kernel, batch.kernel.image_bytes
        try:
            queued = self.modules.launcher(batch.key, kernel)
            for index, first in enumerate(range(0, batch.count, batch.chunk_images)):
                channel = self._channels[index % len(self._channels)]
                end = min(first + batch.chunk_images, batch.count)
                chunk = slice(first * size, end * size)
                arrays = source[chunk], destination[chunk], sms[4 * first : 4 * end]
                self._start_chunk(channel, queued, batch, end - first, arrays)
            for channel in self._channels:
                channel.finish()
        except self._driver.Error as error:
            raise self._failed(error) from None
        return time.perf_counter() - start

    def _start_chunk(
        self,
        channel: _Channel,
        queued: Launcher,
        batch: RunBatch,
        images: int,
        arrays: tuple[Bytes, Bytes, Bytes],
    ) -> None:
        driver, stream, kernel = self._driver, channel.stream, batch.kernel
        source, destination, sms = arrays
        image_bytes, sms_bytes = batch.chunk_images * kernel.image_bytes, 4 * batch.chunk_images
        if self._staged:
            channel.finish()
            staged = channel.staging("in", image_bytes)[: source.size]
            np.copyto(staged, source)
            source = staged
            outputs = ("out", image_bytes, destination), ("sms", sms_bytes, sms)
            channel.outputs = [
                (channel.staging(name, size)[: wanted.size], wanted)
                for name, size, wanted in outputs
            ]
            destination, sms = (staging for staging, _ in channel.outputs)
        images_there = channel.memory("images", image_bytes)
        sms_there = channel.memory("sms", sms_bytes)
        driver.memcpy_htod_async(images_there, source, stream)
        queued(int(images_there), int(sms_there), images, stream)
        driver.memcpy_dtoh_async(destination, images_there, stream)
        if kernel.launch is None:
            driver.memcpy_dtoh_async(sms, sms_there, stream)
        else:
            sms[:] = 0xFF

    def compare(self, key: str, kernel: Kernel, work: FreshWork) -> FreshRan | Failure:
        """Run a kernel on images that are made by their numbers; return what differs.

        Raises LaunchError if that failed.
        """
        try:
            if self._fresh is None:
                from runners.cuda.fresh import FreshImages

                self._fresh = FreshImages(self._driver, self.modules)
            return self._fresh.compare(key, kernel, work)
        except self._driver.Error as error:
            raise self._failed(error) from None
        except (LoadError, InfrastructureError) as error:
            return Failure(
                trouble=Trouble.UNAVAILABLE,
                message="the reference on the device cannot be used; leave it out "
                "(--no-device-reference)",
                detail=str(error),
            )

    # Screening

    def screen(self, launch: ScreenRequest, upload: int | None) -> Callable[[], Screened]:
        """Queue a screening kernel behind those that are on their way, at most one.

        Raises LaunchError if that failed, or one of those before did and has poisoned the context;
        and so does what is returned, which waits for the kernel. `upload` is the slot that holds
        the images and, behind them, the expected ones; None: they are there.
        """
        # What the kernels must not wait for goes over the other stream.
        driver, stream, kernel = self._driver, self._channels[0].stream, launch.kernel
        self._screen = (self._screen + 1) % SCREENS
        try:
            if upload is not None:
                self._upload(launch, upload)
            if launch.references not in self._references:
                raise LaunchError("its images are not there", sticky=False)
            images = self._references[launch.references]
            dynamic = kernel.dynamic_bytes
            function = self.modules.function(launch.key, kernel.entry, "PPPPII", dynamic)
            book = self._area(f"ledger {self._screen}", ledger.ledger_bytes(kernel.image_bytes))
            warps, scratch = kernel.warps_per_block * launch.blocks, 0
            if kernel.scratch == "global":
                scratch = self._area("scratch", kernel.image_bytes * warps)
            head = self._pinned(f"{self._screen}", ledger.IMAGES_AT)
            begin, end = (driver.Event(driver.event_flags.BLOCKING_SYNC) for _ in range(2))
            # Pinned: from other memory, the copy would wait for the kernels before.
            driver.memcpy_htod_async(book, self._blank, stream)
            begin.record(stream)
            function.prepared_async_call(
                (launch.blocks, 1), (kernel.threads, 1, 1), stream,
                *(int(address) for address in (*images, book, scratch)), launch.count, launch.limit,
                shared_size=dynamic,
            )  # fmt: skip
            end.record(stream)
            driver.memcpy_dtoh_async(head, book, stream)
            copied = driver.Event(driver.event_flags.BLOCKING_SYNC)
            copied.record(stream)
        except self._driver.Error as error:
            raise self._failed(error) from None
        health = self.health() if launch.examine else None
        return partial(self._screened, kernel.image_bytes, (begin, end, copied), head, book, health)

    def _screened(
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
        stream = self._channels[1].stream
        try:
            copied.synchronize()
            seconds = begin.time_till(end) / 1000
            kept = ledger.recorded(head)
            if kept:
                head = np.zeros(ledger.IMAGES_AT + kept * image_bytes, np.uint8)
                self._driver.memcpy_dtoh_async(head, book, stream)
                stream.synchronize()
        except self._driver.Error as error:
            raise self._failed(error) from None
        return Screened(
            ledger=ledger.read_ledger(head, image_bytes), seconds=seconds, health=health
        )

    @cached_property
    def _blank(self) -> Bytes:
        blank: Bytes = self._driver.pagelocked_empty(ledger.IMAGES_AT, np.uint8)
        blank[:] = 0
        return blank

    def _upload(self, launch: ScreenRequest, slot: int) -> None:
        self.forget_references(launch.references)
        stream, size = self._channels[1].stream, launch.count * launch.kernel.image_bytes
        memory = self._slots[slot][0]
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

    # Facts

    def facts(self) -> DeviceFacts:
        """Describe device and software."""
        import pycuda

        cuda = self._driver.get_driver_version()
        uuid = self._library.uuid(self._ordinal)
        return DeviceFacts(
            name=self._device.name(),
            # NVML is asked for the whole GPU, whatever slice of it this is.
            uuid=uuid if uuid.startswith("MIG-") else self._monitor.uuid or uuid,
            compute_capability=tuple(self._device.compute_capability()),
            multiprocessors=self._device.get_attribute(
                self._driver.device_attribute.MULTIPROCESSOR_COUNT
            ),
            memory_bytes=self._device.total_memory(),
            driver=self._monitor.driver,
            cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
            pycuda=pycuda.VERSION_TEXT,
            host_memory="staged" if self._staged else "registered",
        )

    def health(self) -> DeviceHealth:
        """Read the device's sensors and counters."""
        return self._monitor.health()
