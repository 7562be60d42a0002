"""What compilers of CUDA C++ have in common: the text that they get, the PTX that they give."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

from oracle.errors import UsageError
from oracle.targets import Module
from runners.front_ends.child import refused
from runners.front_ends.cuda_cpp import cuda_cpp
from runners.front_ends.protocol import Installed
from runners.kernels import KernelModule
from runners.protocol import Failure, Trouble

LEVEL = 3
"""-O level where nobody says: cicc's own (the same PTX with and without `-Xcicc -O3`, 13.0)."""
MODULE_SECONDS = 240.0
"""Time that one module may take: 100 drawn programs take 6 s on a quiet machine."""
_EMPTY = 'extern "C" __global__ void nothing() {}\n'
_HEADER = re.compile(r"^\s*\.version\s+(\d+\.\d+).*?^\s*\.target\s+(\w+)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class CudaCppInstalled(Installed):
    """A compiler of CUDA C++ that is here, not opened."""

    @property
    def default_level(self) -> int:
        """-O level where nobody says."""
        return LEVEL

    def knows(self, target: str, version: str) -> bool:
        """Whether it writes modules of this target that can have what a PTX ISA version has."""
        with self.opened(LEVEL) as front_end:
            return front_end.writes(target, version)

    @abstractmethod
    def opened(self, level: int) -> CudaCppFrontEnd:
        """Return the compiler, ready to work; raises as that of any front end does."""


class CudaCppFrontEnd(ABC):
    """A compiler of CUDA C++ at a level.

    It chooses the PTX ISA version itself, the newest that it knows, whatever is asked for.

    Parameters
    ----------
    who
        The compiler in words: "nvcc 13.0.88".
    level
        -O level of device code.
    """

    def __init__(self, who: str, level: int) -> None:
        self._who, self._level = who, level
        self._known: dict[str, str | Failure] = {}
        """PTX ISA versions that it writes, by targets."""

    @property
    def name(self) -> str:
        """The compiler in words, such as "nvcc 13.0.88 at -O3"."""
        return f"{self._who} at -O{self._level}"

    def __call__(self, module: KernelModule) -> KernelModule | Failure:
        """Return the module as PTX that was written from its programs, or why there is none."""
        if not module.programs:
            return refused(self._who, "has no program to compile: the module was written by hand")
        version = self._version(module.target)
        if isinstance(version, Failure):
            return Failure(
                trouble=Trouble.UNSUPPORTED,
                message=f"{self._who} does not know {module.target}; choose another --target",
                detail=version.detail,
            )
        if _number(version) < _number(module.version):
            return Failure(
                trouble=Trouble.UNSUPPORTED,
                message=f"{self._who} writes PTX ISA version {version}, and the programs are of "
                f"{module.version}; choose another --ptx-version",
            )
        place = Module.named(module.target, module.version)
        try:
            text = cuda_cpp(module.programs, module.kernels, module=place)
        except UsageError as error:
            return Failure(trouble=Trouble.UNSUPPORTED, message=f"{error}")
        ptx = self.compiled(text, module.target)
        return ptx if isinstance(ptx, Failure) else replace(module, ptx=ptx)

    def writes(self, target: str, version: str) -> bool:
        """Whether it writes modules of a target that can have what a PTX ISA version has."""
        newest = self._version(target)
        return not isinstance(newest, Failure) and _number(newest) >= _number(version)

    def _version(self, target: str) -> str | Failure:
        """Return the PTX ISA version of its modules for a target, by asking it once."""
        if target not in self._known:
            ptx = self.compiled(_EMPTY, target)
            found = None if isinstance(ptx, Failure) else _HEADER.search(ptx)
            if found is not None and found[2] == target:
                self._known[target] = found[1]
            elif isinstance(ptx, Failure):
                self._known[target] = ptx
            else:
                self._known[target] = refused(self._who, f"wrote no module of {target}")
        return self._known[target]

    @abstractmethod
    def compiled(self, text: str, target: str) -> str | Failure:
        """Return the PTX that a translation unit becomes, or what the compiler said."""

    @abstractmethod
    def close(self) -> None:
        """End what it has running."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
