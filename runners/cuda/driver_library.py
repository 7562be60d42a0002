"""Calls of the CUDA driver that PyCUDA lacks or gets wrong, through ctypes. Used in the child."""

from __future__ import annotations

import ctypes

_SUCCESS = 0
"""CUDA_SUCCESS (CUDA Driver API, CUresult)."""


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
        device, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        if not self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(ordinal)):
            return ""
        if not self._call("cuDeviceGetUuid", ctypes.byref(uuid), device):
            return ""
        text = bytes(uuid).hex()
        groups = (text[:8], text[8:12], text[12:16], text[16:20], text[20:])
        return "GPU-" + "-".join(groups)

    def _call(self, name: str, *arguments: object) -> bool:
        try:
            status: int = getattr(self._library, name)(*arguments)
        except AttributeError:
            return False
        return status == _SUCCESS
