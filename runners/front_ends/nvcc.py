"""nvcc as a front end: of toolkits and wheels, of any version, or another command of CUDA C++."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from oracle.errors import UsageError
from runners.assemblers.discovery import places
from runners.front_ends.commands import check_there, piped, stages
from runners.front_ends.cuda_cpp_front_end import (
    LEVEL,
    MODULE_SECONDS,
    CudaCppFrontEnd,
    CudaCppInstalled,
)
from runners.front_ends.cuda_wheels import fetched, fetched_folders
from runners.front_ends.protocol import Installed, order
from runners.processes import run_tool
from runners.protocol import Failure
from runners.wheels import Progress

_COMPILE = "-ptx -x cu -arch={target} -Xcicc -O{level} -w -o - -"
"""nvcc's own -O is of host code; its compiler of device code takes 0 to 3 (13.0 and 13.4)."""
_QUESTION_SECONDS = 60.0
_TEMPORARY = re.compile(r"\S*tmpxft_\S*?_stdin")
"""What nvcc calls its standard input in messages: another file every time."""
_RELEASE = re.compile(r"release \d+\.\d+, V(\d+(?:\.\d+)+)")


@dataclass(frozen=True, kw_only=True)
class Nvcc(CudaCppInstalled):
    """A command that reads CUDA C++ from standard input and writes PTX to standard output.

    In its words `{level}` stands for the -O level of device code, and `{target}` for the value of
    .target ("sm_80").
    """

    command: str
    who: str
    """The compiler in words."""

    def opened(self, level: int) -> NvccFrontEnd:
        """Return the compiler."""
        return NvccFrontEnd(stages(self.command), who=self.who, level=level)


class NvccFrontEnd(CudaCppFrontEnd):
    """A command at a level.

    Parameters
    ----------
    programs
        The words of its programs.
    who
        The compiler in words.
    level
        Stands for `{level}`.
    """

    def __init__(self, programs: Sequence[Sequence[str]], *, who: str, level: int) -> None:
        super().__init__(who, level)
        self._programs = programs

    def compiled(self, text: str, target: str) -> str | Failure:
        """Return the PTX that the command makes of a translation unit."""
        values = {"{level}": str(self._level), "{target}": target}
        ptx = piped(self._programs, text, values, who=self._who, seconds=MODULE_SECONDS)
        if isinstance(ptx, Failure):
            return replace(ptx, detail=_TEMPORARY.sub("programs.cu", ptx.detail))
        return ptx

    def close(self) -> None:
        """Nothing is held open."""


def in_folder(folder: Path) -> Installed:
    """Return the nvcc of a toolkit's folder, or of its bin.

    Raises
    ------
    UsageError
        If there is none that works.
    """
    path = next((p for p in (folder / "bin/nvcc", folder / "nvcc") if p.is_file()), None)
    version = None if path is None else _version(path)
    if path is None or version is None:
        raise UsageError(f"no nvcc is in {folder}, or in its bin; give a toolkit's folder")
    return _of(path.resolve(), version, spelled=f"nvcc:{folder}")


def by_command(command: str) -> Installed:
    """Return a command that makes PTX of CUDA C++."""
    check_there(stages(command), f"nvcc:{command}")
    return Nvcc(
        language="nvcc", version=command, spelled=f"nvcc:{command}", path=command, command=command,
        who=f"nvcc ({command})",
    )  # fmt: skip


def discover() -> list[Installed]:
    """Return the nvcc of PATH, toolkits and wheels, newest first, each version once."""
    return list(_here())


def _here() -> Iterator[Nvcc]:
    """Iterate over what `discover` returns; each is asked to compile before it is taken."""
    versions: dict[Path, str] = {}
    for path in _paths():
        version = _version(path) if path.is_file() else None
        if version is not None:
            versions[path] = version
    ordered = sorted(versions.items(), key=lambda one: order(one[1]), reverse=True)
    taken = set()
    for path, version in ordered:
        # The wheel of nvcc alone has neither the compiler of device code nor all headers.
        if version not in taken and _works(path):
            taken.add(version)
            yield _of(path, version)


def _paths() -> Iterator[Path]:
    yield from (path for path, _ in places("nvcc"))
    yield from (folder / "bin/nvcc" for folder in fetched_folders("nvcc"))


def _of(path: Path, version: str, *, spelled: str = "") -> Nvcc:
    return Nvcc(
        language="nvcc", version=version, spelled=spelled or f"nvcc:{version}", path=str(path),
        command=f"{shlex.quote(str(path))} {_COMPILE}", who=f"nvcc {version}",
    )  # fmt: skip


@cache
def _version(path: Path) -> str | None:
    """Return the version that an nvcc tells; None where it tells none."""
    try:
        finished = run_tool([str(path), "--version"], deadline=_QUESTION_SECONDS)
    except OSError:
        return None
    told = _RELEASE.search(finished.output.decode(errors="replace"))
    return told[1] if told else None


@cache
def _works(path: Path) -> bool:
    """Tell whether an nvcc compiles a kernel with the headers of half precision."""
    command = [str(path), *_COMPILE.format(target="sm_80", level=LEVEL).split()]
    source = b"#include <cuda_fp16.h>\n__global__ void nothing() {}\n"
    try:
        return run_tool(command, deadline=_QUESTION_SECONDS, given=source).status == 0
    except OSError:
        return False


def download(version: str, progress: Progress | None = None) -> Installed:
    """Download an nvcc and unpack it into the user's cache folder.

    Raises
    ------
    UsageError
        If there is no wheel of this version.
    InfrastructureError
        If it cannot be downloaded, or does not work.
    """
    path = fetched("nvcc", version, progress) / "bin/nvcc"
    return _of(path, _version(path) or version)
