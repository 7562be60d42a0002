"""Toolchains: compilers that are here, as values that processes pass on to each other.

Each kind says the same of itself: which modules it takes, at which levels, and what compiles with
it. `runners.compilers` finds them by what a person types.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Unpack

from oracle.errors import UsageError
from oracle.isa.targets import VERSIONS, PtxVersion
from oracle.program.program import Program
from runners.cuda.compilation import DEFAULT_LEVEL, LEVELS, Compiler, CompilerLimits, DriverCompiler
from runners.wheels import HOLDING

VERSION = re.compile(r"\d{1,4}(\.\d{1,4}){0,3}")
"""What a person types for a version: "15", "12.4.131"."""
_NAMED = re.compile(r"([a-z]+)(?::(.*))?", re.DOTALL)
_TOOLKIT_VARIABLES = ("CUDA_HOME", "CUDA_PATH")
_TOOLKIT_FOLDER = Path("/usr/local")  # where NVIDIA's installers put cuda-13.5 and the like


@dataclass(frozen=True, kw_only=True)
class Toolchain(ABC):
    """A compiler that is here; an InfrastructureError says if it cannot be run after all."""

    kind: str
    """"ptxas", "driver", or the language that a front end reads: "llvm", "nvcc", "nvrtc"."""
    version: str  # version, such as "V13.5.37" or "15.0.7"; for a command, the command
    spelled: str = field(default="", compare=False)  # what a person types to have it

    writes_ptx: ClassVar[bool] = False  # whether it is given programs and writes PTX: a front end
    default_level: ClassVar[int] = DEFAULT_LEVEL  # -O level where nobody says
    line_bytes: ClassVar[int] = 1
    """Alignment of wmma addresses in bytes, if the language requires more than PTX."""

    @property
    def levels(self) -> tuple[int, ...]:
        """-O levels that it has."""
        return LEVELS

    @property
    def label(self) -> str:
        """What a finding calls it: "V13.5.37", "llvm:15.0.7", "driver"."""
        return self.version

    @property
    def named(self) -> str:
        """The compiler's name in a sentence: "ptxas V13.5.37", "llvm:15.0.7"."""
        return self.label

    @property
    def order(self) -> tuple[int, ...]:
        """Key that sorts older versions before newer ones; empty for what has none."""
        return version_order(self.version.removeprefix("V"))

    def has_version(self, version: str) -> bool:
        """Whether this is what "13", "13.5" or "13.5.37" names."""
        parts = version_order(version)
        return self.order[: len(parts)] == parts

    def says(self, program: Program) -> bool:
        """Whether it is given programs like this one; what reads PTX is given all."""
        return True

    @abstractmethod
    def knows(self, target: str, version: str, architecture: str) -> bool:
        """Whether it compiles modules of a target and PTX ISA version for an architecture."""

    @abstractmethod
    def newest(self, target: str, architecture: str) -> PtxVersion | None:
        """Return the newest PTX ISA version of such modules; None if it knows none."""

    @abstractmethod
    def compiler(self, level: int, **limits: Unpack[CompilerLimits]) -> Compiler:
        """Return what compiles at a level; the caller closes it."""


@dataclass(frozen=True, kw_only=True)
class Driver(Toolchain):
    """The compiler inside the driver of the device."""

    kind: str = "driver"
    version: str = "driver"
    spelled: str = field(default="driver", compare=False)

    def knows(self, target: str, version: str, architecture: str) -> bool:
        """Whether it compiles such modules: the device says so when it loads them."""
        return True

    def newest(self, target: str, architecture: str) -> PtxVersion:
        """Return the newest version there is: what the driver reads decides."""
        return VERSIONS[-1]

    def compiler(self, level: int, **limits: Unpack[CompilerLimits]) -> DriverCompiler:
        """Return what gives PTX to the driver at a level."""
        return DriverCompiler(level=level)


DRIVER = Driver()


def version_order(version: str) -> tuple[int, ...]:
    """Return a key that sorts older versions before newer ones; empty for what is none."""
    return tuple(map(int, version.split("."))) if VERSION.fullmatch(version) else ()


class ToolOrigin(StrEnum):
    """Where a program was found."""

    GIVEN = "given"
    PATH = "PATH"
    TOOLKIT = "toolkit"
    WHEEL = "wheel"
    CACHE = "cache"


def places(program: str) -> Iterator[tuple[Path, ToolOrigin]]:
    """Iterate over where a program of the toolkit may be: PATH, toolkit folders, wheels."""
    for folder in os.get_exec_path():
        if folder:
            yield Path(folder) / program, ToolOrigin.PATH
    given = [Path(folder) for folder in map(os.environ.get, _TOOLKIT_VARIABLES) if folder]
    for toolkit in (*given, *sorted(_TOOLKIT_FOLDER.glob("cuda*"), reverse=True)):
        yield toolkit / "bin" / program, ToolOrigin.TOOLKIT
    for name in HOLDING[program]:
        with suppress(importlib.metadata.PackageNotFoundError):
            for file in importlib.metadata.files(name) or []:
                if file.parts[-2:] == ("bin", program):
                    yield Path(str(file.locate())), ToolOrigin.WHEEL


def parted(spelled: str) -> tuple[str, str]:
    """Return the language that the name of a front end begins with, and what is after the colon.

    Raises UsageError if it begins with none.
    """
    found = _NAMED.fullmatch(spelled.strip())
    if found is None:
        raise UsageError(
            f"{spelled!r:.200} names no front end; give a language, and after a colon a version, a "
            "folder or a command, such as llvm, llvm:15 or 'llvm:my-llc {level}'"
        )
    return found[1], (found[2] or "").strip()


def names_program(spelled: str) -> bool:
    """Whether the name of a front end has a folder or a command in it, and no mere version."""
    which = parted(spelled)[1]
    return bool(which) and VERSION.fullmatch(which) is None


def each(spelled: Sequence[str]) -> tuple[str, ...]:
    """Return the front ends that texts name, each once: versions may have commas between them."""
    found: dict[str, None] = {}
    for text in spelled:
        parts = [part.strip() for part in text.split(",")]
        plain = all(_NAMED.fullmatch(part) and not names_program(part) for part in parts)
        found |= dict.fromkeys(parts if plain else [text])
    return tuple(found)
