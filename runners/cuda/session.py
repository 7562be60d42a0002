"""One CUDA context and what runs in it. Lives in the child; the only user of PyCUDA."""

from __future__ import annotations

import mmap
import os
import platform
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oracle.errors import InfrastructureError
from runners.cuda.fresh import FreshImages
from runners.cuda.launches import Bytes, Launches
from runners.cuda.libraries import DriverLibrary, Monitor
from runners.cuda.messages import DeviceFacts, DeviceHealth, RunBatch
from runners.cuda.modules import GrowingMemory, LaunchError, LoadError, Modules
from runners.protocol import Failure, Trouble
from runners.reference.fresh import FreshRan, FreshWork

_STREAMS = 3
"""One chunk on its way in, one running, one on its way out."""
_WARP = 32


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
    """A stream with buffers of its own."""

    stream: Any
    memory: GrowingMemory
    """Device memory for the images of one chunk, and their multiprocessors."""
    staging: GrowingMemory
    """Pinned host memory, where the slots could not be registered."""
    outputs: list[tuple[Bytes, Bytes]] = field(default_factory=list)
    """Pairs (staging, destination) to copy once the stream is done."""

    def finish(self) -> None:
        """Wait until all is done and where it belongs."""
        self.stream.synchronize()
        for staging, destination in self.outputs:
            np.copyto(destination, staging)
        self.outputs.clear()


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
        self._slots: dict[int, _Mapping] = {}
        self._library = DriverLibrary()
        self._staged = not self._can_register()
        self._monitor = Monitor(self._device.pci_bus_id())
        capability = "{}.{}".format(*self._device.compute_capability())
        version = self._monitor.driver
        self.modules = Modules(
            driver, self._library, f"driver {version}, {capability}" if version else ""
        )
        self.launches = Launches(
            driver,
            kernels=self._channels[0].stream,
            copies=self._channels[1].stream,
            modules=self.modules,
            slot=lambda number: self._slots[number].array,
            health=self.health,
            is_dead=self._is_dead,
        )
        self._fresh: FreshImages | None = None

    def _channel(self) -> _Channel:
        driver, stream = self._driver, self._driver.Stream()
        return _Channel(
            stream=stream,
            memory=GrowingMemory(driver.mem_alloc, stream.synchronize),
            staging=GrowingMemory(lambda size: driver.pagelocked_empty(size, np.uint8)),
        )

    # Slots

    def map_slot(self, slot: int, size: int, descriptor: int) -> None:
        """Map shared memory, and register it with the driver where that is possible."""
        mapping = _Mapping(array=np.frombuffer(mmap.mmap(descriptor, size), np.uint8))
        os.close(descriptor)
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
            own = batch.launch
            parameters = "PPI" if own is None else f"{len(own.parameters)}s"
            function = self.modules.function(batch.key, batch.entry, parameters)
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
                channel.finish()
        except self._driver.Error as error:
            raise LaunchError(str(error), sticky=self._is_dead()) from None
        return time.perf_counter() - start

    def compare(self, key: str, entry: str, warps: int, work: FreshWork) -> FreshRan | Failure:
        """Run a kernel on images that are made by their numbers; return what differs.

        Raises LaunchError if that failed.
        """
        try:
            if self._fresh is None:
                name = self._library.uuid(self._ordinal)
                self._fresh = FreshImages(self._driver, self.modules, name)
            return self._fresh.compare(key, entry, warps, work)
        except self._driver.Error as error:
            raise LaunchError(str(error), sticky=self._is_dead()) from None
        except (LoadError, InfrastructureError) as error:
            return Failure(
                trouble=Trouble.UNAVAILABLE,
                message="the reference on the device cannot be used; leave it out "
                "(--no-device-reference)",
                detail=str(error),
            )

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
        image_bytes, sms_bytes = batch.chunk_images * batch.image_bytes, 4 * batch.chunk_images
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
        warps, launch = batch.warps_per_block, batch.launch
        if launch is None:
            function.prepared_async_call(
                (-(-images // warps), 1),
                (_WARP * warps, 1, 1),
                stream,
                int(images_there),
                int(sms_there),
                images,
            )
        else:
            for image in range(images):
                function.prepared_async_call(
                    launch.grid,
                    launch.block,
                    stream,
                    launch.parameters_at(int(images_there) + image * batch.image_bytes),
                    shared_size=launch.shared_bytes,
                )
        driver.memcpy_dtoh_async(destination, images_there, stream)
        if launch is None:
            driver.memcpy_dtoh_async(sms, sms_there, stream)
        else:
            sms[:] = 0xFF

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
        uuid = self._library.uuid(self._ordinal)
        return DeviceFacts(
            name=self._device.name(),
            # NVML is asked for the whole GPU, whatever slice of it this is.
            uuid=uuid if uuid.startswith("MIG-") else self._monitor.uuid or uuid,
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
    array: Bytes
    registered: bool = False

    @property
    def address(self) -> int:
        return self.array.ctypes.data
