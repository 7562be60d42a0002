"""One CUDA context and what runs in it. Lives in the child; the only user of PyCUDA."""

from __future__ import annotations

import mmap
import os
import platform
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners import ledger
from runners.cuda.driver_library import DriverLibrary
from runners.cuda.health import Monitor
from runners.cuda.messages import (
    DeviceFacts,
    DeviceHealth,
    LaunchEnded,
    Loaded,
    LoadModule,
    Refused,
    RunBatch,
    Screen,
)

_STREAMS = 3
"""One chunk on its way in, one running, one on its way out."""
_WARP = 32
_COMPILERS = 8
"""Threads that compile ahead: 31 ms a program on one, 6.7 ms on eight (H200, 2026-11-22)."""

LANES = 2
"""Screening kernels on their way: one runs, and the next one is queued behind it, so that the
device goes on while this process compiles."""

Bytes = NDArray[np.uint8]


class NotReadyError(Exception):
    """There is nothing to run on."""

    def __init__(self, text: str, *, missing: bool, detail: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.missing = missing
        self.detail = detail


class LoadError(Exception):
    """The driver refused a module."""


class LaunchError(Exception):
    """A batch failed."""

    def __init__(self, text: str, *, sticky: bool) -> None:
        super().__init__(text)
        self.text = text
        self.sticky = sticky


def import_driver() -> Any:
    """Return PyCUDA's driver module, initialised.

    Raises
    ------
    NotReadyError
        If PyCUDA, the driver or the device is not there.
    """
    try:
        import pycuda.driver as driver
    except ImportError as error:
        if (error.name or "").split(".")[0] == "pycuda" and "_driver" not in (error.name or ""):
            text = (
                "PyCUDA is not installed; `pip install pycuda` builds it against the "
                "machine's CUDA toolkit"
            )
        elif "libcuda" in str(error):
            text = (
                "there is no NVIDIA driver (libcuda.so.1 cannot be loaded); install the driver "
                "of your GPU"
            )
        else:
            text = "PyCUDA cannot be imported; install it anew against this CUDA and NumPy"
        raise NotReadyError(text, missing=True, detail=f"{type(error).__name__}: {error}") from None
    try:
        driver.init()
    except driver.Error as error:
        raise NotReadyError(
            "the NVIDIA driver finds no device; `nvidia-smi` should list one",
            missing=False,
            detail=str(error),
        ) from None
    return driver


@dataclass(kw_only=True)
class _Channel:
    """A stream with buffers of its own."""

    stream: Any
    images: Any = None
    """Device memory for the images of one chunk."""
    sms: Any = None
    image_bytes: int = 0
    sms_bytes: int = 0
    staging: dict[str, Bytes] = field(default_factory=dict)
    """Pinned host memory, where the slots could not be registered."""
    outputs: list[tuple[Bytes, Bytes]] = field(default_factory=list)
    """Pairs (staging, destination) to copy once the stream is done."""


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


@dataclass(kw_only=True)
class Loading:
    """A module on its way."""

    request: LoadModule
    code: Future[bytes | None] | None
    """Its machine code, where another thread compiles it."""
    reply: Loaded | Refused | None = None
    """What came of it."""


class Session:
    """A context on one device.

    Parameters
    ----------
    ordinal
        Number of the device, as the driver counts.

    Raises
    ------
    NotReadyError
        If there is no such device or no context can be made on it.
    """

    def __init__(self, ordinal: int) -> None:
        self._driver: Any = import_driver()
        driver = self._driver
        try:
            count = driver.Device.count()
            if ordinal >= count:
                raise NotReadyError(
                    f"there is no device {ordinal}; the driver sees {count}, counted from 0",
                    missing=False,
                )
            self._device = driver.Device(ordinal)
            # Blocking: a waiting host leaves its core to the oracle.
            self._context = self._device.make_context(driver.ctx_flags.SCHED_BLOCKING_SYNC)
            self._channels = [_Channel(stream=driver.Stream()) for _ in range(_STREAMS)]
        except driver.Error as error:
            raise NotReadyError(
                f"no context can be made on device {ordinal}; it may be lost or in use by another "
                "process alone: `nvidia-smi` says more",
                missing=False,
                detail=str(error),
            ) from None
        self._ordinal = ordinal
        self._slots: dict[int, _Mapping] = {}
        self._modules: dict[str, Any] = {}
        self._functions: dict[tuple[str, str], Any] = {}
        self._loading: dict[str, Loading] = {}
        """Modules whose loading has begun, by key."""
        self._pool = ThreadPoolExecutor(min(_COMPILERS, os.cpu_count() or 1))
        self._references: dict[int, tuple[Any, Any]] = {}
        """Device memory with the images before and after, by their number."""
        self._areas: dict[str, tuple[Any, int]] = {}
        """Device memory that launches use in turn, and its bytes."""
        self._heads: dict[int, Bytes] = {}
        """Pinned host memory for the starts of ledgers, one for each launch that is on its way."""
        self._lane = 0
        self._library = DriverLibrary()
        self._staged = not self._can_register()
        self._monitor = Monitor(self._device.pci_bus_id())

    # Slots

    def map_slot(self, slot: int, descriptor: int, size: int) -> None:
        """Map shared memory, and register it with the driver where that is possible."""
        mapping = _Mapping(array=np.frombuffer(mmap.mmap(descriptor, size), np.uint8))
        if not self._staged:
            # Where it fails (a limit on locked memory, say), copies are right and only slow.
            mapping.registered = self._library.register(mapping.address, size)
        self._slots[slot] = mapping

    def unmap_slot(self, slot: int) -> None:
        """Give shared memory back."""
        mapping = self._slots.pop(slot)
        if mapping.registered:
            self._library.unregister(mapping.address)

    def _can_register(self) -> bool:
        """Whether this driver can register shared memory: some virtual machines cannot."""
        probe = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), np.uint8)
        address = probe.ctypes.data
        return self._library.register(address, probe.size) and self._library.unregister(address)

    # Modules

    def begin_loading(self, request: LoadModule) -> Loading:
        """Begin to load a module; what is to be compiled ahead is compiled on another thread."""
        code = None
        if request.ahead and request.optimization is not None:
            code = self._pool.submit(
                self._library.compile, request.code, request.optimization, self._library.context()
            )
        loading = self._loading[request.key] = Loading(request=request, code=code)
        return loading

    def end_loading(self, loading: Loading) -> Loaded | Refused:
        """Load a module, once it is compiled; a second call returns the same."""
        if loading.reply is None:
            request = loading.request
            self._loading.pop(request.key, None)
            code = None if loading.code is None else loading.code.result()
            try:
                if code is None:
                    # Here the driver also says why it refuses something.
                    self.load_module(request.key, request.code, request.optimization)
                else:
                    self.load_module(request.key, code, None)
                loading.reply = Loaded(key=request.key)
            except LoadError as error:
                loading.reply = Refused(key=request.key, text=str(error))
        return loading.reply

    def load_module(self, key: str, code: bytes, optimization: int | None) -> None:
        """Load a cubin, or PTX at a level of optimisation.

        Raises
        ------
        LoadError
            If the driver refuses it; the message is the driver's.
        """
        options = []
        if optimization is not None:
            options = [(self._driver.jit_option.OPTIMIZATION_LEVEL, optimization)]
        try:
            # `bytes` ends in a zero byte, which PTX for cuModuleLoadDataEx must.
            self._modules[key] = self._driver.module_from_buffer(code, options)
        except self._driver.Error as error:
            raise LoadError(str(error)) from None

    def forget_module(self, key: str) -> None:
        """Unload a module."""
        for name in [name for name in self._functions if name[0] == key]:
            del self._functions[name]
        self._modules.pop(key, None)

    def _function(self, key: str, entry: str, parameters: str) -> Any:
        """Return a kernel that takes parameters as PyCUDA spells them."""
        if key in self._loading:
            self.end_loading(self._loading[key])
        if key not in self._modules:
            raise LaunchError("its module is not loaded", sticky=False)
        if (key, entry) not in self._functions:
            function = self._modules[key].get_function(entry)
            function.prepare(parameters)
            self._functions[key, entry] = function
        return self._functions[key, entry]

    # Batches

    def run(self, batch: RunBatch) -> float:
        """Run a batch between slots; return the seconds that it took.

        Raises
        ------
        LaunchError
            If it failed.
        """
        size = batch.count * batch.image_bytes
        source = self._slots[batch.source].array[batch.source_offset :][:size]
        memory = self._slots[batch.destination].array
        return self.run_arrays(
            batch, source, memory[:size], memory[batch.sms_offset :][: 4 * batch.count]
        )

    def run_arrays(self, batch: RunBatch, source: Bytes, destination: Bytes, sms: Bytes) -> float:
        """Run a batch between flat arrays of bytes in host memory; as `run`."""
        start = time.perf_counter()
        try:
            function = self._function(batch.key, batch.entry, "PPI")
            for index, first in enumerate(range(0, batch.count, batch.chunk_images)):
                channel = self._channels[index % len(self._channels)]
                images = min(batch.chunk_images, batch.count - first)
                chunk = slice(first * batch.image_bytes, (first + images) * batch.image_bytes)
                self._start_chunk(
                    channel,
                    function,
                    batch,
                    images,
                    (source[chunk], destination[chunk], sms[4 * first : 4 * (first + images)]),
                )
            for channel in self._channels:
                self._finish(channel)
        except self._driver.Error as error:
            raise LaunchError(str(error), sticky=self._is_dead()) from None
        return time.perf_counter() - start

    def _start_chunk(
        self,
        channel: _Channel,
        function: Any,
        batch: RunBatch,
        images: int,
        arrays: tuple[Bytes, Bytes, Bytes],
    ) -> None:
        """Queue the copies and the launch of one chunk on a channel's stream."""
        driver, stream = self._driver, channel.stream
        source, destination, sms = arrays
        if self._staged:
            self._finish(channel)
        self._reserve(channel, batch.chunk_images * batch.image_bytes, 4 * batch.chunk_images)
        if self._staged:
            source = _staged_copy(channel.staging["in"], source)
            destination = self._stage_output(channel, "out", destination)
            sms = self._stage_output(channel, "sms", sms)
        driver.memcpy_htod_async(channel.images, source, stream)
        warps = batch.warps_per_block
        function.prepared_async_call(
            (-(-images // warps), 1),
            (_WARP * warps, 1, 1),
            stream,
            int(channel.images),
            int(channel.sms),
            images,
        )
        driver.memcpy_dtoh_async(destination, channel.images, stream)
        driver.memcpy_dtoh_async(sms, channel.sms, stream)

    def _reserve(self, channel: _Channel, image_bytes: int, sms_bytes: int) -> None:
        """Make sure that a channel's buffers hold a chunk."""
        for name, wanted in (("image", image_bytes), ("sms", sms_bytes)):
            if getattr(channel, f"{name}_bytes") >= wanted:
                continue
            self._finish(channel)
            attribute = "images" if name == "image" else "sms"
            old = getattr(channel, attribute)
            setattr(channel, f"{name}_bytes", 0)
            setattr(channel, attribute, None)
            if old is not None:
                old.free()
            setattr(channel, attribute, self._driver.mem_alloc(wanted))
            setattr(channel, f"{name}_bytes", wanted)
            if self._staged:
                for staging in ("in", "out") if name == "image" else ("sms",):
                    channel.staging[staging] = self._driver.pagelocked_empty(wanted, np.uint8)

    def _stage_output(self, channel: _Channel, name: str, destination: Bytes) -> Bytes:
        staging = channel.staging[name][: destination.size]
        channel.outputs.append((staging, destination))
        return staging

    def _finish(self, channel: _Channel) -> None:
        """Wait for a channel's stream, and bring staged results home."""
        channel.stream.synchronize()
        for staging, destination in channel.outputs:
            np.copyto(destination, staging)
        channel.outputs.clear()

    # Screening

    def start_screening(self, launch: Screen) -> Started:
        """Queue a screening kernel behind those that are on their way, at most one.

        Raises
        ------
        LaunchError
            If that failed, or one of those before did and has poisoned the context.
        """
        driver, stream = self._driver, self._channels[0].stream
        self._lane = (self._lane + 1) % LANES
        try:
            if launch.upload is not None:
                self._upload(launch, launch.upload)
            if launch.references not in self._references:
                raise LaunchError("its images are not there", sticky=False)
            images = self._references[launch.references]
            function = self._function(launch.key, launch.entry, "PPPPII")
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
            health=self.health() if launch.examine else None,
        )  # fmt: skip

    def finish_screening(self, started: Started) -> LaunchEnded:
        """Wait for a screening kernel; return what its ledger says.

        Raises
        ------
        LaunchError
            If it failed, or the one behind it did and has poisoned the context.
        """
        launch, head = started.launch, started.head
        # Not the stream of the kernels: the next one is on its way there.
        stream = self._channels[1].stream
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
        """Return pinned memory for the start of a ledger."""
        if lane not in self._heads:
            self._heads[lane] = self._driver.pagelocked_empty(ledger.IMAGES_AT, np.uint8)
        return self._heads[lane]

    def _upload(self, launch: Screen, slot: int) -> None:
        """Copy images and expected images from a slot into device memory of their own."""
        self.forget_references(launch.references)
        stream, size = self._channels[1].stream, launch.count * launch.image_bytes
        memory = self._slots[slot].array
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
                self._channels[0].stream.synchronize()
                memory.free()
            memory = self._driver.mem_alloc(size)
            self._areas[name] = (memory, size)
        return memory

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

    # Facts

    def facts(self) -> DeviceFacts:
        """Describe device and software."""
        import pycuda

        cuda = self._driver.get_driver_version()
        return DeviceFacts(
            name=self._device.name(),
            uuid=self._monitor.uuid or self._library.uuid(self._ordinal),
            pci_bus_id=self._device.pci_bus_id(),
            compute_capability=tuple(self._device.compute_capability()),
            multiprocessors=self._device.get_attribute(
                self._driver.device_attribute.MULTIPROCESSOR_COUNT
            ),
            memory_bytes=self._device.total_memory(),
            driver=self._monitor.driver,
            cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
            pycuda=pycuda.VERSION_TEXT,
            python=platform.python_version(),
            host_memory="staged" if self._staged else "registered",
        )

    def health(self) -> DeviceHealth:
        """Read the device's sensors and counters."""
        return self._monitor.health()


@dataclass(kw_only=True)
class _Mapping:
    """A slot in the child."""

    array: Bytes
    registered: bool = False

    @property
    def address(self) -> int:
        """Where it lies."""
        return self.array.ctypes.data


def _staged_copy(staging: Bytes, source: Bytes) -> Bytes:
    part = staging[: source.size]
    np.copyto(part, source)
    return part
