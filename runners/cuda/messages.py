"""What is said of batches, launches and devices between the supervisor and its child.

A request is a token, the name of a method of the child's `Session`, and its arguments; the answer
is the token and what the method returns, or a `Failure`. Requests are answered in order, those
without a token never.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from runners.kernels import Kernel, ScreeningKernel


@dataclass(frozen=True, kw_only=True)
class RunBatch:
    """Run one kernel on images in a slot; images and multiprocessors go to another slot."""

    key: str
    """Of the module."""
    kernel: Kernel
    count: int
    source: int = 0
    source_offset: int = 0
    """Bytes from the start of the source slot to the first image."""
    destination: int = 0
    sms_offset: int = 0
    """Bytes from the start of the destination slot to the numbers of the multiprocessors."""
    chunk_images: int
    """Images of one copy and launch; chunks overlap on several streams."""


@dataclass(frozen=True, kw_only=True)
class ScreenRequest:
    """Run a screening kernel, on images that the child keeps under a number."""

    key: str
    kernel: ScreeningKernel
    references: int
    """Number of the images."""
    count: int
    limit: int
    """Images that every multiprocessor takes."""
    blocks: int
    examine: bool
    """Whether to read the sensors while the launch runs."""


class DeviceFacts(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What is known of a device and its software. Empty or None: not known."""

    name: str
    uuid: str = ""
    """As `nvidia-smi -L` prints it: "GPU-…"."""
    pci_bus_id: str = ""
    compute_capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    driver: str = ""
    """Version of the driver, from NVML: "580.159.04"."""
    cuda: str = ""
    """Highest version of CUDA that the driver supports: "13.0"."""
    pycuda: str = ""
    python: str = ""
    host_memory: str = ""
    """How images reach the device: "registered", or "staged" through pinned buffers."""

    @property
    def number(self) -> int:
        """The device's number among targets: 90 for compute capability 9.0."""
        major, minor = self.compute_capability
        return 10 * major + minor


class DeviceHealth(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The device's state at one moment, from NVML. None: not known, `note` says why."""

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_mw: int | None = None
    power_limit_mw: int | None = None
    busy_percent: int | None = None
    """Time in which a kernel ran, over the last sample period of NVML (1/6 s to 1 s)."""
    ecc_corrected: int | None = None
    """Volatile count, since the driver was loaded."""
    ecc_uncorrected: int | None = None
    throttle_reasons: int | None = None
    """Bit mask of NVML's clocksEventReasons."""
    note: str = ""
