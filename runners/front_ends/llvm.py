"""LLVM as a front end: that of an llvmlite, of any version, opt and llc, or any other command."""

from __future__ import annotations

import contextlib
import shlex
import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from oracle.errors import InfrastructureError, UsageError
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from runners.front_ends.llvm_ir import llvm_ir
from runners.front_ends.llvm_text import LATE_SINCE, rows_name
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
from runners.protocol import Failure, Trouble
from runners.ptx_text import header

_LLVMLITE = Path(__file__).with_name("llvmlite_compiler.py")
_MODULE_SECONDS = 60.0
"""Time that one module may take, or one stage of a command; the slowest of 1,000 drawn programs
took less than a second."""
_TRIPLE = "nvptx64-nvidia-cuda"
_EMPTY = f'target triple = "{_TRIPLE}"\ndefine ptx_kernel void @nothing() {{\n  ret void\n}}\n'
"""A module that every LLVM reads: its PTX says which target and version are known."""
_BUILD = (
    "{folder}/opt -S -passes='default<O{{level}}>' | "
    "{folder}/llc -O{{level}} -mcpu={{target}} -mattr=+{{ptx}}"
)
"""What the optimiser and the back end of a build are called with (opt --help, llc --help)."""
_ROW_STORE = next(form for form in FORMS if form.is_store and not form.opaque)
"""The first store of rows: of one register."""
_PROBES = {
    LATE_SINCE: (
        f"declare void @{rows_name(_ROW_STORE, llvm=LATE_SINCE)}.p3(ptr addrspace(3), i32)\n"
        "define ptx_kernel void @nothing(ptr addrspace(1) %p) {\n"
        f"  call void @{rows_name(_ROW_STORE, llvm=LATE_SINCE)}.p3(ptr addrspace(3) null, i32 0)\n"
        "  ret void\n}\n"
    ),
    16: "define ptx_kernel void @nothing(ptr addrspace(1) %p) {\n  ret void\n}\n",
    14: "define ptx_kernel void @nothing(i8 addrspace(1)* %p) {\n  ret void\n}\n",
}
"""By a major version: what it reads and what earlier ones do not."""


class LlvmFrontEnd(FrontEnd):
    """An LLVM at a level."""

    def __init__(self, who: str, level: int) -> None:
        super().__init__(who, level, refuser="LLVM")

    @abstractmethod
    def _major(self, module: KernelModule) -> int | Failure:
        """Return the major version of LLVM whose IR it reads, or why it reads none."""

    def _written(self, module: KernelModule) -> str | Failure:
        major = self._major(module)
        return major if isinstance(major, Failure) else llvm_text(module, llvm=major)

    def writes(self, target: str, version: str) -> bool:
        """Whether it knows a target and a PTX ISA version."""
        ptx = self.compiled(_EMPTY, target, version)
        return not isinstance(ptx, Failure) and header(ptx) == (target, version)

    def _answered(self, module: KernelModule, ptx: str) -> KernelModule | Failure:
        # LLVM takes another target for one that it does not know, with a warning alone.
        found = header(ptx)
        if found != (module.target, module.version) and all(found):
            return Failure(
                trouble=Trouble.UNSUPPORTED,
                message=f"{self._who} writes .target {found[0]} and .version {found[1]} where "
                f"{module.target} and {module.version} are asked for: it does not know them",
            )
        return super()._answered(module, ptx)


def llvm_text(module: KernelModule, *, llvm: int) -> str:
    """Return a module's programs as LLVM IR for a major version; UsageError if it has no way."""
    place = Module.named(module.target, module.version)
    return llvm_ir(module.programs, module.kernels, module=place, llvm=llvm)


class LlvmliteFrontEnd(LlvmFrontEnd):
    """The LLVM of the llvmlite in a folder, in a process of its own that may crash.

    Raises InfrastructureError if that llvmlite cannot be run.
    """

    def __init__(
        self, packages: Path, *, level: int = 2, python: Path = Path(sys.executable)
    ) -> None:
        # -I: nothing is imported from the current folder, or by way of the environment.
        self._child = Child(
            [python, "-I", _LLVMLITE], packages, who="LLVM", seconds=_MODULE_SECONDS
        )
        self.version: str = self._child.greeting(
            f"the llvmlite in {packages}",
            "install it (`pip install llvmlite`), or fetch one with `warpfuzz compilers fetch "
            "llvm:22`",
        )["llvm"]
        super().__init__(f"LLVM {self.version}", level)

    def _major(self, module: KernelModule) -> int:
        return int(self.version.partition(".")[0])

    def compiled(self, text: str, target: str, version: str) -> str | Failure:
        """Return the PTX that LLVM IR becomes, or what LLVM said."""
        features = f"+{_feature(version)}"
        request = {"ir": text, "cpu": target, "features": features, "level": self._level}
        return self._ptx_in(self._child.asked(request))

    def close(self) -> None:
        """End the process for good."""
        self._child.close()


@cache
def _version_of(folder: Path) -> str:
    with LlvmliteFrontEnd(folder, level=0) as front_end:
        return front_end.version


class LlvmCommandFrontEnd(LlvmFrontEnd):
    """A command, as `stages` takes it, at a level."""

    def __init__(self, command: str, *, spelled: str, level: int) -> None:
        super().__init__(spelled, level)
        self._command = command

    def _major(self, module: KernelModule) -> int | Failure:
        try:
            return _dialect(self._command, module.target, module.version)
        except InfrastructureError as error:
            return refused("LLVM", f"{error}")

    def compiled(self, text: str, target: str, version: str) -> str | Failure:
        """Return the PTX that LLVM IR becomes, or what LLVM said."""
        return _run(self._command, text, self._level, target, version)


@cache
def _dialect(command: str, target: str, version: str) -> int:
    """Return the major version of LLVM whose IR a command reads, by asking it.

    Raises InfrastructureError if it reads none.
    """
    said = ""
    for major, text in _PROBES.items():
        made = _run(command, f'target triple = "{_TRIPLE}"\n{text}', 0, target, version)
        if isinstance(made, str) and ".entry nothing" in made:
            return major
        said = made.detail if isinstance(made, Failure) else "it wrote no entry"
    said = said.strip()[-400:] or "it says nothing"
    raise InfrastructureError(f"({command}) compiles no empty kernel: {said}")


def _run(command: str, text: str, level: int, target: str, version: str) -> str | Failure:
    """Return the PTX that programs, one after the other, make of LLVM IR."""
    values = {"{level}": str(level), "{target}": target, "{ptx}": _feature(version)}
    return piped(stages(command), text, values, who="LLVM", seconds=_MODULE_SECONDS)


def _feature(version: str) -> str:
    """Return the feature of the back end that means a PTX ISA version: "ptx71"."""
    return f"ptx{version.replace('.', '')}"


@dataclass(frozen=True, kw_only=True)
class Llvmlite(FrontEndToolchain):
    """The LLVM inside an llvmlite; its `path` is the folder in which the package lies."""

    kind: str = "llvm"
    default_level: ClassVar[int] = 2
    """The level of clang -O2."""
    takes_commands: ClassVar[bool] = True
    version_of: ClassVar[Callable[[Path], str]] = staticmethod(_version_of)

    def opened(self, level: int) -> LlvmFrontEnd:
        """Return the compiler, with a process of its own."""
        return LlvmliteFrontEnd(Path(self.path), level=level)

    @classmethod
    def discover(cls) -> Sequence[FrontEndToolchain]:
        """Return the LLVM of this Python's llvmlite and those that were fetched, newest first."""
        found = {one.version: one for one in super().discover()}
        spec = find_spec("llvmlite")
        if spec is not None and spec.origin is not None:
            folder = Path(spec.origin).parent.parent
            with contextlib.suppress(InfrastructureError):
                own = cls.in_cache(folder, _version_of(folder))
                if own is not None:
                    found.setdefault(own.version, own)
        return sorted(found.values(), key=lambda one: one.order, reverse=True)

    @classmethod
    def in_cache(cls, folder: Path, version: str) -> FrontEndToolchain | None:
        """Return the LLVM of a folder with an llvmlite; None if it has none."""
        if not (folder / "llvmlite").is_dir():
            return None
        return Llvmlite(version=version, spelled=f"llvm:{version}", path=str(folder))

    @classmethod
    def in_folder(cls, folder: Path) -> FrontEndToolchain:
        """Return opt and llc of a folder, or of its bin."""
        found = next((one for one in (folder, folder / "bin") if (one / "llc").is_file()), None)
        if found is None or not (found / "opt").is_file():
            raise UsageError(
                f"no opt and llc are in {folder}, or in its bin; give the folder that has them"
            )
        command = _BUILD.format(folder=shlex.quote(str(found.resolve())))
        return LlvmCommand(version=command, spelled=f"llvm:{folder}", path=str(folder))

    @classmethod
    def by_command(cls, command: str) -> FrontEndToolchain:
        """Return a command that makes PTX of LLVM IR."""
        check_there(stages(command), f"llvm:{command}")
        return LlvmCommand(version=command, spelled=f"llvm:{command}", path=command)


@dataclass(frozen=True, kw_only=True)
class LlvmCommand(Llvmlite):
    """Programs that read LLVM IR from standard input and write PTX to standard output.

    In its version, the command, `{level}` stands for the -O level, `{target}` for the value of
    .target ("sm_80"), and `{ptx}` for the feature that means the PTX ISA version ("ptx71").
    """

    def opened(self, level: int) -> LlvmFrontEnd:
        """Return the compiler."""
        return LlvmCommandFrontEnd(self.version, spelled=self.spelled, level=level)
