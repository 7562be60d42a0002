"""NVRTC as a front end: the compiler of nvcc as a library, which wheels have of every version."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from oracle.errors import InfrastructureError, UsageError
from runners.front_ends.child import Child, refused
from runners.front_ends.cuda_cpp_front_end import (
    LEVEL,
    MODULE_SECONDS,
    CudaCppFrontEnd,
    CudaCppInstalled,
)
from runners.front_ends.cuda_wheels import fetched, fetched_folders
from runners.front_ends.protocol import RELEASE, Installed
from runners.protocol import Failure
from runners.wheels import Progress

_COMPILER = Path(__file__).with_name("nvrtc_compiler.py")
_OPTIONS: dict[int, tuple[str, ...]] = {0: ("-G",), 3: ()}
"""Options of the -O levels that it has ("if --dopt is not specified, then turns off all
optimizations": --device-debug, NVRTC, Supported Compile Options)."""
_LIBRARIES = ("lib", "lib64", "targets/x86_64-linux/lib")
_HEADERS = ("include", "include/cccl")


@dataclass(frozen=True, kw_only=True)
class Nvrtc(CudaCppInstalled):
    """The NVRTC of a toolkit's folder, which is its `path`."""

    @property
    def levels(self) -> tuple[int, ...]:
        """-O levels that it has."""
        return tuple(_OPTIONS)

    def opened(self, level: int) -> NvrtcFrontEnd:
        """Return the compiler, with a process of its own.

        Raises
        ------
        UsageError
            If it has no such level.
        InfrastructureError
            If it cannot be run.
        """
        return NvrtcFrontEnd(Path(self.path), level=level)


class NvrtcFrontEnd(CudaCppFrontEnd):
    """The NVRTC of a toolkit's folder, in a process that may crash.

    Parameters
    ----------
    folder
        With `lib` and `include`.
    level
        0 or 3.

    Raises
    ------
    UsageError
        If it has no such level.
    InfrastructureError
        If it cannot be run.
    """

    def __init__(self, folder: Path, *, level: int) -> None:
        if level not in _OPTIONS:
            raise UsageError(
                f"NVRTC has no -O{level} of device code; give --opt 0 (its -G) or --opt 3 (its "
                "default), or compile with nvcc, which has all"
            )
        library = _library(folder)
        if library is None:
            raise InfrastructureError(f"no libnvrtc.so is in {folder}/lib; fetch it again")
        headers = [str(folder / one) for one in _HEADERS if (folder / one).is_dir()]
        # -I: nothing is imported from the current folder, or by way of the environment.
        command: list[str | Path] = [sys.executable, "-I", _COMPILER, library, *headers]
        self._child = Child(command, who="NVRTC", seconds=MODULE_SECONDS)
        answer = self._child.start()
        if isinstance(answer, Failure):
            self._child.close()
            raise InfrastructureError(f"{library} cannot be run: {answer.message}; fetch it again")
        self.version: str = answer["nvrtc"]
        super().__init__(f"NVRTC {self.version}", level)

    def compiled(self, text: str, target: str) -> str | Failure:
        """Return the PTX that the library makes of a translation unit."""
        architecture = f"--gpu-architecture={target.replace('sm_', 'compute_')}"
        options = (architecture, "-w", *_OPTIONS[self._level])
        answer = self._child.asked({"source": text, "options": options})
        if isinstance(answer, Failure):
            return answer
        if "error" in answer:
            return refused(self._who, "refused a module", answer["error"])
        return str(answer["ptx"])

    def close(self) -> None:
        """End the process."""
        self._child.close()


def _library(folder: Path) -> Path | None:
    found = (path for one in _LIBRARIES for path in sorted((folder / one).glob("libnvrtc.so*")))
    return next(found, None)


@cache
def _version(folder: Path) -> str:
    with NvrtcFrontEnd(folder, level=LEVEL) as front_end:
        return front_end.version


def _of(folder: Path, version: str, *, spelled: str = "") -> Nvrtc:
    name = spelled or f"nvrtc:{version}"
    return Nvrtc(language="nvrtc", version=version, spelled=name, path=str(folder))


def in_folder(folder: Path) -> Installed:
    """Return the NVRTC of a toolkit's folder.

    Raises
    ------
    UsageError
        If it has none.
    InfrastructureError
        If it cannot be run.
    """
    if _library(folder) is None:
        raise UsageError(f"no libnvrtc.so is in {folder}/lib; give a toolkit's folder")
    return _of(folder.resolve(), _version(folder.resolve()), spelled=f"nvrtc:{folder}")


def discover() -> list[Installed]:
    """Return those that were fetched, newest first."""
    found: dict[str, Installed] = {}
    for folder in fetched_folders("nvrtc"):
        version = folder.name.removeprefix("nvrtc-")
        if RELEASE.fullmatch(version) and _library(folder) is not None:
            found[version] = _of(folder, version)
    return sorted(found.values(), key=lambda one: one.order, reverse=True)


def download(version: str, progress: Progress | None = None) -> Installed:
    """Download an NVRTC and unpack it into the user's cache folder.

    Raises
    ------
    UsageError
        If there is no wheel of this version.
    InfrastructureError
        If it cannot be downloaded, or does not work.
    """
    folder = fetched("nvrtc", version, progress)
    return _of(folder, _version(folder))
