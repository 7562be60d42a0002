"""What NVML knows of a device. Runs in the child, and does without where NVML is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runners.cuda.messages import DeviceHealth


class Monitor:
    """Readings of one device.

    Parameters
    ----------
    pci_bus_id
        As the driver prints it: "0000:19:00.0".
    """

    def __init__(self, pci_bus_id: str) -> None:
        self._device: Any = None
        self.note = ""
        self.driver = ""
        self.uuid = ""
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
        nvml, device = self._nvml, self._device
        return DeviceHealth(
            sm_clock_mhz=self._read(
                lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM)
            ),
            memory_clock_mhz=self._read(
                lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_MEM)
            ),
            temperature_c=self._read(
                lambda: nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU)
            ),
            power_mw=self._read(lambda: nvml.nvmlDeviceGetPowerUsage(device)),
            power_limit_mw=self._read(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(device)),
            busy_percent=self._read(lambda: nvml.nvmlDeviceGetUtilizationRates(device).gpu),
            ecc_corrected=self._read(lambda: self._errors(nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED)),
            ecc_uncorrected=self._read(
                lambda: self._errors(nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
            ),
            throttle_reasons=self._read(
                lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device)
            ),
            note=self.note,
        )

    def _errors(self, kind: int) -> int:
        count: int = self._nvml.nvmlDeviceGetTotalEccErrors(
            self._device, kind, self._nvml.NVML_VOLATILE_ECC
        )
        return count

    def _read(self, reading: Callable[[], int]) -> int | None:
        # AttributeError: a reading that this version of the module no longer has.
        try:
            return int(reading())
        except (self._nvml.NVMLError, AttributeError):
            return None


def _text(value: str | bytes) -> str:
    """Return text; older versions of nvidia-ml-py give bytes."""
    return value.decode() if isinstance(value, bytes) else value
