"""The stand-in of tests/runners/cuda/fakes/working, with as much more as repro.py uses.

Machine code is PTX behind the first bytes of an ELF file (tests/fuzz/explain/echoing_ptxas.py).
"""

import os
from pathlib import Path

_WORKING = Path(__file__).parents[4] / "runners" / "cuda" / "fakes" / "working" / "pycuda"
exec(compile((_WORKING / "driver.py").read_text(), str(_WORKING / "driver.py"), "exec"))

_ELF = b"\x7fELF"
_load, _first_device = module_from_buffer, Device  # noqa: F821


class Context(Context):  # noqa: F821
    @staticmethod
    def synchronize() -> None:
        _default.synchronize()  # noqa: F821
        if os.environ.get("FAKE_DEVICE") == "misaligned":
            raise Error("cuCtxSynchronize failed: misaligned address")  # noqa: F821

    def pop(self) -> None: ...


def Device(ordinal: int):  # noqa: N802
    if ordinal:
        raise Error("cuDeviceGet failed: invalid device ordinal")  # noqa: F821
    return _first_device(ordinal)


def _prepared_call(self, grid, block, *arguments, shared_size=0) -> None:
    self.prepared_async_call(grid, block, None, *arguments, shared_size=shared_size)


Function.prepared_call = _prepared_call  # noqa: F821


def module_from_buffer(code: bytes, options: list):
    given = [name for name, _ in options]
    assert given == ([] if code.startswith(_ELF) else [jit_option.OPTIMIZATION_LEVEL])  # noqa: F821
    return _load(code.removeprefix(_ELF))
