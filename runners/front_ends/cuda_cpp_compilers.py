"""Compilers of CUDA C++ as front ends: nvcc, its library NVRTC, and other commands.

nvcc is that of toolkits and wheels, of any version; NVRTC is the same compiler, of which there are
wheels of every version.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import ClassVar

from oracle.errors import InfrastructureError, UsageError
from oracle.isa.targets import Module
from runners.cuda.compilation import version_told
from runners.front_ends.cuda_cpp import cuda_cpp
from runners.front_ends.protocol import (
    Child,
    FrontEnd,
    FrontEndToolchain,
    check_there,
    piped,
    refused,
    stages,
)
from runners.kernels import KernelModule
from runners.processes import run_tool
from runners.protocol import Failure, Trouble
from runners.ptx_text import header
from runners.toolchains import places, version_order
from runners.wheels import fetched_folders

_MODULE_SECONDS = 240.0
"""Time that one module may take: 100 drawn programs take 6 s on a quiet machine."""
_QUESTION_SECONDS = 60.0
_EMPTY = 'extern "C" __global__ void nothing() {}\n'
_COMPILE = "-ptx -x cu -arch={target} -Xcicc -O{level} -w -o - -"
"""nvcc's own -O is of host code; its compiler of device code takes 0 to 3 (13.0 and 13.4)."""
_TEMPORARY = re.compile(r"\S*tmpxft_\S*?_stdin")
"""What nvcc calls its standard input in messages: another file every time."""
_NVRTC = Path(__file__).with_name("nvrtc_compiler.py")
_NVRTC_OPTIONS: dict[int, tuple[str, ...]] = {0: ("-G",), 3: ()}
"""Options of the -O levels that it has ("if --dopt is not specified, then turns off all
optimizations": --device-debug, NVRTC, Supported Compile Options)."""
_LIBRARIES = ("lib", "lib64", "targets/x86_64-linux/lib")
_HEADERS = ("include", "include/cccl")


class CudaCppFrontEnd(FrontEnd):
    """A compiler of CUDA C++ at a level of device code.

    It chooses the PTX ISA version itself, the newest that it knows, whatever is asked for.
    """

    def __init__(self, who: str, level: int) -> None:
        super().__init__(who, level)
        self._known: dict[str, str | Failure] = {}
        """PTX ISA versions that it writes, by targets."""

    def _written(self, module: KernelModule) -> str | Failure:
        version = self._version(module.target)
        if isinstance(version, Failure):
            return Failure(
                trouble=Trouble.UNSUPPORTED,
                message=f"{self._who} does not know {module.target}; choose another --target",
                detail=version.detail,
            )
        if version_order(version) < version_order(module.version):
            return Failure(
                trouble=Trouble.UNSUPPORTED,
                message=f"{self._who} writes PTX ISA version {version}, and the programs are of "
                f"{module.version}; choose another --ptx-version",
            )
        place = Module.named(module.target, module.version)
        return cuda_cpp(module.programs, module.kernels, module=place)

    def writes(self, target: str, version: str) -> bool:
        """Whether it writes modules of a target that can have what a PTX ISA version has."""
        newest = self._version(target)
        return not isinstance(newest, Failure) and version_order(newest) >= version_order(version)

    def _version(self, target: str) -> str | Failure:
        """Return the PTX ISA version of its modules for a target, by asking it once."""
        if target not in self._known:
            ptx = self.compiled(_EMPTY, target, "")
            if isinstance(ptx, Failure):
                self._known[target] = ptx
            else:
                told, newest = header(ptx)
                known = newest and told == target
                self._known[target] = (
                    newest if known else refused(self._who, f"wrote no module of {target}")
                )
        return self._known[target]


class NvccFrontEnd(CudaCppFrontEnd):
    """A command, as `stages` takes it, at a level."""

    def __init__(self, command: str, *, who: str, level: int) -> None:
        super().__init__(who, level)
        self._programs = stages(command)

    def compiled(self, text: str, target: str, version: str) -> str | Failure:
        """Return the PTX that a translation unit becomes, or what the compiler said."""
        values = {"{level}": str(self._level), "{target}": target}
        ptx = piped(self._programs, text, values, who=self._who, seconds=_MODULE_SECONDS)
        if isinstance(ptx, Failure):
            return replace(ptx, detail=_TEMPORARY.sub("programs.cu", ptx.detail))
        return ptx


class NvrtcFrontEnd(CudaCppFrontEnd):
    """The NVRTC of a toolkit's folder with `lib` and `include`, in a process that may crash."""

    def __init__(self, folder: Path, *, level: int) -> None:
        if level not in _NVRTC_OPTIONS:
            raise UsageError(
                f"NVRTC has no -O{level} of device code; give --opt 0 (its -G) or --opt 3 (its "
                "default), or compile with nvcc, which has all"
            )
        library = _library(folder)
        if library is None:
            raise InfrastructureError(f"no libnvrtc.so is in {folder}/lib; fetch it again")
        headers = [str(folder / one) for one in _HEADERS if (folder / one).is_dir()]
        # -I: nothing is imported from the current folder, or by way of the environment.
        command: list[str | Path] = [sys.executable, "-I", _NVRTC]
        self._child = Child(command, library, *headers, who="NVRTC", seconds=_MODULE_SECONDS)
        self.version: str = self._child.greeting(str(library), "fetch it again")["nvrtc"]
        super().__init__(f"NVRTC {self.version}", level)

    def compiled(self, text: str, target: str, version: str) -> str | Failure:
        """Return the PTX that a translation unit becomes, or what the compiler said."""
        architecture = f"--gpu-architecture={target.replace('sm_', 'compute_')}"
        options = (architecture, "-w", *_NVRTC_OPTIONS[self._level])
        return self._ptx_in(self._child.asked({"source": text, "options": options}))

    def close(self) -> None:
        """End the process."""
        self._child.close()


@dataclass(frozen=True, kw_only=True)
class Nvcc(FrontEndToolchain):
    """A command that reads CUDA C++ from standard input and writes PTX to standard output.

    In its words `{level}` stands for the -O level of device code, and `{target}` for the value of
    .target ("sm_80").
    """

    kind: str = "nvcc"
    command: str
    who: str
    """The compiler in words."""
    default_level: ClassVar[int] = 3
    """cicc's own (the same PTX with and without `-Xcicc -O3`, 13.0)."""
    # `nvcuda::wmma` takes "256-bit aligned" pointers alone (CUDA C++ Programming Guide,
    # load_matrix_sync); programs with others are inline PTX.
    line_bytes: ClassVar[int] = 32
    takes_commands: ClassVar[bool] = True

    def opened(self, level: int) -> CudaCppFrontEnd:
        """Return the compiler."""
        return NvccFrontEnd(self.command, who=self.who, level=level)

    @classmethod
    def discover(cls) -> Sequence[FrontEndToolchain]:
        """Return the nvcc of PATH, toolkits and wheels, newest first, each version once."""
        paths = [path for path, _ in places("nvcc")]
        paths += [folder / "bin/nvcc" for folder, _ in fetched_folders("nvcc")]
        versions = {
            path: version
            for path in paths
            if path.is_file() and (version := _nvcc_version(path)) is not None
        }
        found: dict[str, Nvcc] = {}
        for path in sorted(versions, key=lambda one: version_order(versions[one]), reverse=True):
            # The wheel of nvcc alone has neither the compiler of device code nor all headers.
            if versions[path] not in found and _works(path):
                found[versions[path]] = cls._at(path, versions[path])
        return list(found.values())

    @classmethod
    def in_cache(cls, folder: Path, version: str) -> Nvcc | None:
        """Return the nvcc of a folder that was fetched; None if it has none."""
        path = folder / "bin/nvcc"
        return cls._at(path, _nvcc_version(path) or version) if path.is_file() else None

    @classmethod
    def in_folder(cls, folder: Path) -> Nvcc:
        """Return the nvcc of a toolkit's folder, or of its bin."""
        path = next((p for p in (folder / "bin/nvcc", folder / "nvcc") if p.is_file()), None)
        version = None if path is None else _nvcc_version(path)
        if path is None or version is None:
            raise UsageError(f"no nvcc is in {folder}, or in its bin; give a toolkit's folder")
        return cls._at(path.resolve(), version, spelled=f"nvcc:{folder}")

    @classmethod
    def by_command(cls, command: str) -> Nvcc:
        """Return a command that makes PTX of CUDA C++."""
        check_there(stages(command), f"nvcc:{command}")
        return cls(
            version=command, spelled=f"nvcc:{command}", path=command, command=command,
            who=f"nvcc ({command})",
        )  # fmt: skip

    @classmethod
    def _at(cls, path: Path, version: str, *, spelled: str = "") -> Nvcc:
        return cls(
            version=version, spelled=spelled or f"nvcc:{version}", path=str(path),
            command=f"{shlex.quote(str(path))} {_COMPILE}", who=f"nvcc {version}",
        )  # fmt: skip


@cache
def _nvcc_version(path: Path) -> str | None:
    try:
        finished = run_tool([str(path), "--version"], deadline=_QUESTION_SECONDS)
    except OSError:
        return None
    return version_told(finished.output.decode(errors="replace"))


@cache
def _works(path: Path) -> bool:
    """Tell whether an nvcc compiles a kernel with the headers of half precision."""
    command = [str(path), *_COMPILE.format(target="sm_80", level=Nvcc.default_level).split()]
    source = b"#include <cuda_fp16.h>\n__global__ void nothing() {}\n"
    try:
        return run_tool(command, deadline=_QUESTION_SECONDS, given=source).status == 0
    except OSError:
        return False


@dataclass(frozen=True, kw_only=True)
class Nvrtc(FrontEndToolchain):
    """The NVRTC of a toolkit's folder, which is its `path`."""

    kind: str = "nvrtc"
    line_bytes: ClassVar[int] = Nvcc.line_bytes

    @property
    def levels(self) -> tuple[int, ...]:
        """-O levels that it has."""
        return tuple(_NVRTC_OPTIONS)

    def opened(self, level: int) -> CudaCppFrontEnd:
        """Return the compiler, with a process of its own."""
        return NvrtcFrontEnd(Path(self.path), level=level)

    @classmethod
    def in_cache(cls, folder: Path, version: str) -> Nvrtc | None:
        """Return the NVRTC of a folder that was fetched; None if it has none."""
        if _library(folder) is None:
            return None
        return cls(version=version, spelled=f"nvrtc:{version}", path=str(folder))

    @classmethod
    def in_folder(cls, folder: Path) -> Nvrtc:
        """Return the NVRTC of a toolkit's folder."""
        if _library(folder) is None:
            raise UsageError(f"no libnvrtc.so is in {folder}/lib; give a toolkit's folder")
        path = folder.resolve()
        with NvrtcFrontEnd(path, level=cls.default_level) as front_end:
            return cls(version=front_end.version, spelled=f"nvrtc:{folder}", path=str(path))


def _library(folder: Path) -> Path | None:
    found = (path for one in _LIBRARIES for path in sorted((folder / one).glob("libnvrtc.so*")))
    return next(found, None)
