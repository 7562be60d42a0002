"""Languages of front ends: LLVM IR (llvmlite, opt and llc), CUDA C++ (nvcc, NVRTC); commands."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from oracle.errors import InfrastructureError, UsageError
from runners.cuda.compilation import version_told
from runners.front_ends.cuda_cpp import cuda_cpp
from runners.front_ends.intrinsics import LATE_SINCE
from runners.front_ends.llvm_ir import llvm_ir
from runners.front_ends.protocol import (
    Child,
    FrontEnd,
    FrontEndToolchain,
    Piped,
    check_there,
    filled_in,
    refused,
    stages,
)
from runners.kernels import KernelModule
from runners.processes import run_tool
from runners.protocol import Failure, Trouble
from runners.ptx_text import header
from runners.toolchains import fetched_folders, parted, places, version_order

_LLVM_SECONDS, _CUDA_SECONDS = 60.0, 240.0
"""Time that one module may take: the slowest of 1,000 drawn programs took LLVM less than a second,
and 100 take nvcc 6 s on a quiet machine."""
_QUESTION_SECONDS = 60.0
_TRIPLE = "nvptx64-nvidia-cuda"
_EMPTY_LLVM = f'target triple = "{_TRIPLE}"\ndefine ptx_kernel void @nothing() {{\n  ret void\n}}\n'
"""A module that every LLVM reads: its PTX says which target and version are known."""
_EMPTY_CUDA = 'extern "C" __global__ void nothing() {}\n'
_BUILD = (
    "{folder}/opt -S -passes='default<O{{level}}>' | "
    "{folder}/llc -O{{level}} -mcpu={{target}} -mattr=+{{ptx}}"
)
"""What the optimiser and the back end of a build are called with (opt --help, llc --help)."""
_ROWS = "@llvm.nvvm.stmatrix.sync.aligned.m8n8.x1.b16.p3(ptr addrspace(3)"
_PROBES = {
    LATE_SINCE: (
        f"declare void {_ROWS}, i32)\ndefine ptx_kernel void @nothing(ptr addrspace(1) %p) {{\n"
        f"  call void {_ROWS} null, i32 0)\n  ret void\n}}\n"
    ),
    16: "define ptx_kernel void @nothing(ptr addrspace(1) %p) {\n  ret void\n}\n",
    14: "define ptx_kernel void @nothing(i8 addrspace(1)* %p) {\n  ret void\n}\n",
}
"""By a major version: what it reads and what earlier ones do not."""
_NEWEST_LLVM = 22
"""Major version of the IR for an LLVM whose version is not known (llvmlite 0.50, 2026-11)."""
_COMPILE = "-ptx -x cu -arch={target} -Xcicc -O{level} -w -o - -"
"""nvcc's own -O is of host code; its compiler of device code takes 0 to 3 (13.0 and 13.4)."""
_LIBRARIES = ("lib", "lib64", "targets/x86_64-linux/lib")
_HEADERS = ("include", "include/cccl")


class LlvmFrontEnd(FrontEnd):
    """An LLVM at a level, whose `major` version is a number, or asked for each module."""

    def __init__(
        self, who: str, level: int, engine: Child | Piped, major: Callable[[KernelModule], int]
    ) -> None:
        super().__init__(who, level, engine)
        self._major = major

    def _written(self, module: KernelModule) -> str | Failure:
        try:
            return llvm_ir(module, llvm=self._major(module))
        except InfrastructureError as error:
            return refused("LLVM", f"{error}")

    def writes(self, target: str, version: str) -> bool:
        """Whether it knows a target and a PTX ISA version."""
        ptx = self.compiled(_EMPTY_LLVM, target, version)
        return not isinstance(ptx, Failure) and header(ptx) == (target, version)


def llvmlite_front_end(folder: Path, level: int, *, python: Path | None = None) -> LlvmFrontEnd:
    """Return the LLVM of the llvmlite in a folder; InfrastructureError if it cannot be run."""
    child = Child("llvm", folder, who="LLVM", seconds=_LLVM_SECONDS, python=python)
    version = child.version(
        f"the llvmlite in {folder}",
        "install it (`pip install llvmlite`), or fetch one with `warpfuzz compilers fetch llvm:22`",
    )
    major = int(version.partition(".")[0])
    return LlvmFrontEnd(f"LLVM {version}", level, child, lambda _: major)


@cache
def _version_of(folder: Path) -> str:
    with llvmlite_front_end(folder, 0) as front_end:
        return front_end.name.split()[1]


@cache
def _dialect(command: str, target: str, version: str) -> int:
    """Ask a command which LLVM's IR it reads, by major version; InfrastructureError if none."""
    said = ""
    for major, text in _PROBES.items():
        piped = Piped(command, who="LLVM", seconds=_LLVM_SECONDS)
        made = piped.made(f'target triple = "{_TRIPLE}"\n{text}', target, version, 0)
        if isinstance(made, str) and ".entry nothing" in made:
            return major
        said = made.detail if isinstance(made, Failure) else "it wrote no entry"
    said = said.strip()[-400:] or "it says nothing"
    raise InfrastructureError(f"({command}) compiles no empty kernel: {said}")


@dataclass(frozen=True, kw_only=True)
class Llvmlite(FrontEndToolchain):
    """The LLVM inside an llvmlite, whose folder is its `path`; or a command that reads LLVM IR."""

    kind: str = "llvm"
    command: str = ""  # as `Piped` takes it, from standard input to standard output
    default_level: ClassVar[int] = 2  # that of clang -O2
    takes_commands: ClassVar[bool] = True
    version_of: ClassVar[Callable[[Path], str]] = staticmethod(_version_of)

    def opened(self, level: int) -> LlvmFrontEnd:
        """Return the compiler, with a process of its own."""
        if not self.command:
            return llvmlite_front_end(Path(self.path), level)
        engine = Piped(self.command, who="LLVM", seconds=_LLVM_SECONDS)
        return LlvmFrontEnd(self.spelled, level, engine, lambda module: (
            _dialect(self.command, module.target, module.version)))  # fmt: skip

    @classmethod
    def discover(cls) -> Sequence[FrontEndToolchain]:
        """Return the LLVM of this Python's llvmlite and those that were fetched, newest first."""
        found = {each.version: each for each in super().discover()}
        spec = find_spec("llvmlite")
        if spec is not None and spec.origin is not None:
            folder = Path(spec.origin).parent.parent
            with contextlib.suppress(InfrastructureError):
                own = cls.in_cache(folder, _version_of(folder))
                if own is not None:
                    found.setdefault(own.version, own)
        return sorted(found.values(), key=lambda each: each.order, reverse=True)

    @classmethod
    def in_cache(cls, folder: Path, version: str) -> Llvmlite | None:
        """Return the LLVM of a folder with an llvmlite; None if it has none."""
        if not (folder / "llvmlite").is_dir():
            return None
        return cls(version=version, spelled=f"llvm:{version}", path=str(folder))

    @classmethod
    def in_folder(cls, folder: Path) -> Llvmlite:
        """Return opt and llc of a folder, or of its bin."""
        found = next((each for each in (folder, folder / "bin") if (each / "llc").is_file()), None)
        if found is None or not (found / "opt").is_file():
            raise UsageError(
                f"no opt and llc are in {folder}, or in its bin; give the folder that has them"
            )
        command = _BUILD.format(folder=shlex.quote(str(found.resolve())))
        return cls(version=command, command=command, spelled=f"llvm:{folder}", path=str(folder))

    @classmethod
    def by_command(cls, command: str) -> Llvmlite:
        """Return a command that makes PTX of LLVM IR."""
        check_there(stages(command), f"llvm:{command}")
        return cls(version=command, command=command, spelled=f"llvm:{command}", path=command)


class CudaCppFrontEnd(FrontEnd):
    """A compiler of CUDA C++ at a level of device code; it chooses its newest PTX ISA version."""

    def __init__(self, who: str, level: int, engine: Child | Piped) -> None:
        super().__init__(who, level, engine)
        self._known: dict[str, str | Failure] = {}
        """PTX ISA versions that it writes, by targets."""

    def _written(self, module: KernelModule) -> str | Failure:
        version, detail = self._version(module.target), ""
        if isinstance(version, Failure):
            said, detail = f"does not know {module.target}; choose another --target", version.detail
        elif version_order(version) >= version_order(module.version):
            return cuda_cpp(module)
        else:
            said = f"writes PTX ISA version {version}, and the programs are of {module.version}; "
            said += "choose another --ptx-version"
        return Failure(trouble=Trouble.UNSUPPORTED, message=f"{self._who} {said}", detail=detail)

    def writes(self, target: str, version: str) -> bool:
        """Whether it writes modules of a target that can have what a PTX ISA version has."""
        newest = self._version(target)
        return not isinstance(newest, Failure) and version_order(newest) >= version_order(version)

    def _version(self, target: str) -> str | Failure:
        """Return the PTX ISA version of its modules for a target, by asking it once."""
        if target not in self._known:
            ptx = self.compiled(_EMPTY_CUDA, target, "")
            if isinstance(ptx, Failure):
                self._known[target] = ptx
            else:
                told, newest = header(ptx)
                known = newest and told == target
                said = f"wrote no module of {target}"
                self._known[target] = newest if known else refused(self._who, said)
        return self._known[target]


@dataclass(frozen=True, kw_only=True)
class Nvcc(FrontEndToolchain):
    """A command that reads CUDA C++ from standard input and writes PTX to standard output."""

    kind: str = "nvcc"
    command: str  # as `Piped` takes it
    who: str  # the compiler in words
    default_level: ClassVar[int] = 3
    """cicc's own (the same PTX with and without `-Xcicc -O3`, 13.0)."""
    # `nvcuda::wmma` takes "256-bit aligned" pointers alone (CUDA C++ Programming Guide,
    # load_matrix_sync); programs with others are inline PTX.
    line_bytes: ClassVar[int] = 32
    takes_commands: ClassVar[bool] = True

    def opened(self, level: int) -> CudaCppFrontEnd:
        """Return the compiler."""
        engine = Piped(self.command, who=self.who, seconds=_CUDA_SECONDS)
        return CudaCppFrontEnd(self.who, level, engine)

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
        for path in sorted(versions, key=lambda each: version_order(versions[each]), reverse=True):
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
    """The NVRTC of a toolkit's folder with `lib` and `include`, which is its `path`."""

    kind: str = "nvrtc"
    line_bytes: ClassVar[int] = Nvcc.line_bytes
    levels: ClassVar[tuple[int, ...]] = (0, 3)

    def opened(self, level: int) -> CudaCppFrontEnd:
        """Return the compiler, with a process of its own."""
        if level not in self.levels:
            raise UsageError(
                f"NVRTC has no -O{level} of device code; give --opt 0 (its -G) or --opt 3 (its "
                "default), or compile with nvcc, which has all"
            )
        library, folder = _library(Path(self.path)), Path(self.path)
        if library is None:
            raise InfrastructureError(f"no libnvrtc.so is in {folder}/lib; fetch it again")
        headers = [folder / each for each in _HEADERS if (folder / each).is_dir()]
        child = Child("nvrtc", library, *headers, who="NVRTC", seconds=_CUDA_SECONDS)
        version = child.version(str(library), "fetch it again")
        return CudaCppFrontEnd(f"NVRTC {version}", level, child)

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
        path, spelled = str(folder.resolve()), f"nvrtc:{folder}"
        with cls(version="", spelled=spelled, path=path).opened(cls.default_level) as front_end:
            return cls(version=front_end.name.split()[1], spelled=spelled, path=path)


def _library(folder: Path) -> Path | None:
    found = (path for each in _LIBRARIES for path in sorted((folder / each).glob("libnvrtc.so*")))
    return next(found, None)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A program in the language of a front end, as a file: to compile it without warpfuzz."""

    compiler: str  # the front end, as it is spelled
    name: str  # of the file: "kernel.cu", "kernel.ll"
    text: str
    level: int  # of -O
    commands: tuple[str, ...]  # what makes PTX of it


def source_of(spelled: str, module: KernelModule, *, level: int | None) -> Source:
    """Return what "nvcc:13.0.88" or "llvm:15.0.7" is given for a module, or raise UsageError."""
    language, which = parted(spelled)
    is_llvm = language == "llvm"
    if level is None:
        level = (Llvmlite if is_llvm else Nvcc).default_level
    if is_llvm:
        name, text = "kernel.ll", llvm_ir(module, llvm=(version_order(which) or (_NEWEST_LLVM,))[0])
        commands: tuple[str, ...] = (
            "opt -S -passes='default<O{level}>' kernel.ll -o optimised.ll",
            "llc -O{level} -mcpu={target} -mattr=+{ptx} optimised.ll -o new.ptx",
        )
    else:
        name, text = "kernel.cu", cuda_cpp(module)
        commands = ("nvcc -ptx -arch={target} -Xcicc -O{level} kernel.cu -o new.ptx",)
    if which and not version_order(which) and not Path(which).is_dir():
        # A user's command, on a file.
        first, *rest = which.split(" | ", 1)
        commands = (" | ".join([f"{first} < {name}", *rest]) + " > new.ptx",)
    return Source(
        compiler=spelled, name=name, text=text, level=level,
        commands=tuple(filled_in(each, module.target, module.version, level) for each in commands),
    )  # fmt: skip
