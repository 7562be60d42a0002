"""What a device says of itself, and what PyCUDA lacks: the driver through ctypes, and NVML.

Used in the child, which does without where one of them is not there.
"""

from __future__ import annotations

import ctypes
import uuid
from typing import Any

import msgspec

_SUCCESS = 0  # CUDA_SUCCESS (CUDA Driver API, CUresult)
_JIT_OPTIMIZATION_LEVEL, _JIT_INPUT_PTX = 7, 1
"""CU_JIT_OPTIMIZATION_LEVEL, CU_JIT_INPUT_PTX (CUDA Driver API, CUjit_option, CUjitInputType)."""


class DeviceFacts(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What is known of a device and its software. Empty or None: not known."""

    name: str
    uuid: str = ""  # as `nvidia-smi -L` prints it: "GPU-…"
    compute_capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    driver: str = ""  # version, from NVML: "580.159.04"
    cuda: str = ""  # highest version of CUDA that the driver supports: "13.0"
    pycuda: str = ""
    host_memory: str = ""  # how images reach it: "registered", or "staged" through pinned buffers

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
    ecc_corrected: int | None = None  # volatile counts, since the driver was loaded
    ecc_uncorrected: int | None = None
    throttle_reasons: int | None = None  # bit mask of NVML's clocksEventReasons
    note: str = ""


class DriverLibrary:
    """The driver's library; every call fails quietly where it is not there."""

    def __init__(self) -> None:
        self._library: ctypes.CDLL | None
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError:
            self._library = None

    def register(self, address: int, size: int) -> bool:
        """Pin host memory, so that copies overlap with kernels; return whether that worked.

        `pycuda.driver.register_host_memory` of PyCUDA 2026.1 registers the memory and then raises
        SystemError ("Cannot set the NumPy array 'base' dependency more than once").
        """
        arguments = (ctypes.c_void_p(address), ctypes.c_size_t(size), ctypes.c_uint(0))
        return self._call("cuMemHostRegister_v2", *arguments)

    def unregister(self, address: int) -> bool:
        """Undo `register`."""
        return self._call("cuMemHostUnregister", ctypes.c_void_p(address))

    def uuid(self, ordinal: int) -> str:
        """Return a device's UUID as `nvidia-smi -L` prints it; "" if the driver does not tell."""
        device = ctypes.c_int()
        if not self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(ordinal)):
            return ""
        found = []
        for name in ("cuDeviceGetUuid", "cuDeviceGetUuid_v2"):
            told = (ctypes.c_ubyte * 16)()
            if self._call(name, ctypes.byref(told), device):
                found.append(str(uuid.UUID(bytes=bytes(told))))
        # Of a slice the second one is its own (CUDA Driver API, cuDeviceGetUuid_v2).
        gpu, own = (found or [""])[0], (found or [""])[-1]
        return f"MIG-{own}" if own != gpu else f"GPU-{gpu}" if gpu else ""

    def compile(self, ptx: bytes, level: int) -> bytes | None:
        """Compile PTX at -O0 to -O3 to relocatable machine code; None if the driver refuses it."""
        state, code, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        options = (ctypes.c_int * 1)(_JIT_OPTIMIZATION_LEVEL)
        values = (ctypes.c_void_p * 1)(level)
        created = ctypes.c_uint(1), options, values, ctypes.byref(state)
        if not self._call("cuLinkCreate_v2", *created):
            return None
        try:
            # The text ends in a zero byte, as PTX must.
            text = ctypes.create_string_buffer(ptx)
            added = self._call(
                "cuLinkAddData_v2", state, ctypes.c_int(_JIT_INPUT_PTX), text,
                ctypes.c_size_t(len(text)), b"module", ctypes.c_uint(0), None, None,
            )  # fmt: skip
            if added and self._call(
                "cuLinkComplete", state, ctypes.byref(code), ctypes.byref(size)
            ):
                return ctypes.string_at(code, size.value)
            return None
        finally:
            self._call("cuLinkDestroy", state)

    def _call(self, name: str, *arguments: object) -> bool:
        try:
            status: int = getattr(self._library, name)(*arguments)
        except AttributeError:
            return False
        return status == _SUCCESS


class Monitor:
    """Readings of the device of a PCI bus id, as the driver prints it: "0000:19:00.0"."""

    def __init__(self, pci_bus_id: str) -> None:
        self._device: Any = None
        self.note = self.driver = self.uuid = ""
        try:
            import pynvml
        except ImportError:
            self.note = "nvidia-ml-py is not installed; `pip install nvidia-ml-py` gives readings"
            return
        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self._device = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode())
            self.driver = _text(pynvml.nvmlSystemGetDriverVersion())
            self.uuid = _text(pynvml.nvmlDeviceGetUUID(self._device))
        except pynvml.NVMLError as error:
            self.note = f"NVML gives no readings: {error}"

    def health(self) -> DeviceHealth:
        """Read what can be read; the rest stays None."""
        if self._device is None:
            return DeviceHealth(note=self.note)
        nvml = self._nvml
        return DeviceHealth(
            sm_clock_mhz=self._read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            memory_clock_mhz=self._read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            temperature_c=self._read("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            power_mw=self._read("nvmlDeviceGetPowerUsage"),
            power_limit_mw=self._read("nvmlDeviceGetEnforcedPowerLimit"),
            busy_percent=self._read("nvmlDeviceGetUtilizationRates"),
            ecc_corrected=self._errors(nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            ecc_uncorrected=self._errors(nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
            throttle_reasons=self._read("nvmlDeviceGetCurrentClocksThrottleReasons"),
            note=self.note,
        )

    def _errors(self, kind: int) -> int | None:
        return self._read("nvmlDeviceGetTotalEccErrors", kind, self._nvml.NVML_VOLATILE_ECC)

    def _read(self, name: str, *arguments: int) -> int | None:
        # AttributeError: a reading that this version of the module no longer has.
        try:
            found = getattr(self._nvml, name)(self._device, *arguments)
            return int(getattr(found, "gpu", found))
        except (self._nvml.NVMLError, AttributeError):
            return None


def _text(value: str | bytes) -> str:
    """Return text; older versions of nvidia-ml-py give bytes."""
    return value.decode() if isinstance(value, bytes) else value
