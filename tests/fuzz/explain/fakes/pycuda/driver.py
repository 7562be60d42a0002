"""As much of `pycuda.driver` as repro.py uses, on the simulated device.

Machine code is PTX behind the first bytes of an ELF file (tests/fuzz/explain/fake_ptxas.py).
"""

from __future__ import annotations

import os

import numpy as np

from runners.kernels import Launch
from runners.simulated import SimulatedDevice, SimulatedTrap

ELF = b"\x7fELF"


class Error(Exception):
    pass


class jit_option:  # noqa: N801
    OPTIMIZATION_LEVEL = 7


_memory: dict[int, np.ndarray] = {}
_shape: dict[int, int] = {}


def init() -> None:
    if os.environ.get("FAKE_DEVICE") == "gone":
        raise Error("cuInit failed: no CUDA-capable device is detected")


def get_driver_version() -> int:
    return 13000


class Context:
    @staticmethod
    def synchronize() -> None:
        if os.environ.get("FAKE_DEVICE") == "misaligned":
            raise Error("cuCtxSynchronize failed: misaligned address")

    def pop(self) -> None: ...


class Device:
    def __init__(self, ordinal: int) -> None:
        if ordinal:
            raise Error("cuDeviceGet failed: invalid device ordinal")

    def make_context(self) -> Context:
        return Context()

    def name(self) -> str:
        return "Fake Device"

    def compute_capability(self) -> tuple[int, int]:
        return (9, 0)


class DeviceAllocation:
    def __init__(self, size: int) -> None:
        self.address = 4096 * (1 + len(_memory))
        _memory[self.address] = np.full(size, 0xCD, np.uint8)

    def __int__(self) -> int:
        return self.address

    def free(self) -> None:
        _memory[self.address] = np.zeros(0, np.uint8)


mem_alloc = DeviceAllocation


def memcpy_htod(destination: DeviceAllocation, source: np.ndarray) -> None:
    assert source.flags.c_contiguous
    assert source.nbytes == _memory[int(destination)].size
    _memory[int(destination)][:] = source.reshape(-1).view(np.uint8)


def memcpy_dtoh(destination: np.ndarray, source: DeviceAllocation) -> None:
    destination.reshape(-1).view(np.uint8)[:] = _memory[int(source)]


class Function:
    def __init__(self, module: Module, name: str) -> None:
        self.module, self.name, self.format = module, name, ""

    def prepare(self, format_: str) -> Function:
        self.format = format_
        return self

    def prepared_call(self, grid, block, *arguments, shared_size=0) -> None:
        if self.format != "PPI":
            (parameters,) = arguments
            assert self.format == f"{len(parameters)}s"
            self._own(grid, block, parameters, shared_size)
            return
        assert all(isinstance(argument, int) for argument in arguments)
        images, numbers, count = arguments
        assert grid == (-(-count // (block[0] // 32)), 1)
        memory = _memory[images].reshape(count, -1)
        try:
            after, sms = self.module.code.launch(self.name, memory.copy(), threads=block[0])
        except SimulatedTrap as trap:
            raise Error(f"cuLaunchKernel failed: {trap}") from None
        memory[:] = after
        _memory[numbers].view(np.uint32)[:] = sms

    def _own(self, grid, block, parameters, shared) -> None:
        """Run a grid whose parameters are addresses in the only image, or numbers."""
        memory = _memory[4096]
        values = [
            int.from_bytes(parameters[at : at + 8], "little")
            for at in range(0, len(parameters) - 7, 8)
        ]
        pointers = tuple(
            (8 * at, value - 4096)
            for at, value in enumerate(values)
            if 4096 <= value < 4096 + memory.size
        )
        launch = Launch(
            grid=grid, block=block, shared_bytes=shared, parameters=parameters, pointers=pointers,
            buffers=((0, memory.size),),
        )  # fmt: skip
        memory[:] = self.module.code.launch_grid(self.name, memory, launch).image


class Module:
    def __init__(self, ptx: str) -> None:
        try:
            self.code = SimulatedDevice("sm_90").load(ptx)
        except SimulatedTrap as trap:
            raise Error(f"cuModuleLoadDataEx failed: {trap}") from None

    def get_function(self, name: str) -> Function:
        return Function(self, name)


def module_from_buffer(code: bytes, options: list) -> Module:
    if code.startswith(ELF):
        assert not options
        return Module(code.removeprefix(ELF).decode())
    assert [name for name, _ in options] == [jit_option.OPTIMIZATION_LEVEL]
    assert all(0 <= level <= 3 for _, level in options)
    return Module(code.decode())
