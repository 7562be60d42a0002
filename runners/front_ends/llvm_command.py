"""LLVM as a command: opt and llc of a folder, or whatever reads LLVM IR and writes PTX."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

from oracle.errors import InfrastructureError, UsageError
from runners.front_ends.child import refused
from runners.front_ends.commands import piped, stages
from runners.front_ends.llvm_modules import (
    EMPTY,
    TRIPLE,
    answered,
    feature,
    header,
    written,
)
from runners.front_ends.protocol import Installed
from runners.kernels import KernelModule
from runners.protocol import Failure

_DEADLINE = 60.0
"""Seconds that one stage may take for a module."""
_BUILD = (
    "{folder}/opt -S -passes='default<O{{level}}>' | "
    "{folder}/llc -O{{level}} -mcpu={{target}} -mattr=+{{ptx}}"
)
"""What the optimiser and the back end of a build are called with (opt --help, llc --help)."""
_PROBES = {
    22: "declare void @llvm.nvvm.stmatrix.sync.aligned.m8n8.x1.b16.p3(ptr addrspace(3), i32)\n"
    "define ptx_kernel void @nothing(ptr addrspace(1) %p) {\n"
    "  call void @llvm.nvvm.stmatrix.sync.aligned.m8n8.x1.b16.p3(ptr addrspace(3) null, i32 0)\n"
    "  ret void\n}\n",
    16: "define ptx_kernel void @nothing(ptr addrspace(1) %p) {\n  ret void\n}\n",
    14: "define ptx_kernel void @nothing(i8 addrspace(1)* %p) {\n  ret void\n}\n",
}
"""By a major version: what it reads and what earlier ones do not."""


def build_command(folder: Path) -> str:
    """Return the command that runs opt and llc of a folder, or of its bin.

    Raises
    ------
    UsageError
        If they are not there.
    """
    found = next((one for one in (folder, folder / "bin") if (one / "llc").is_file()), None)
    if found is None or not (found / "opt").is_file():
        raise UsageError(
            f"no opt and llc are in {folder}, or in its bin; give the folder that has them"
        )
    return _BUILD.format(folder=shlex.quote(str(found.resolve())))


@dataclass(frozen=True, kw_only=True)
class LlvmCommand(Installed):
    """Programs that read LLVM IR from standard input and write PTX to standard output.

    In their words `{level}` stands for the -O level, `{target}` for the value of .target ("sm_80"),
    and `{ptx}` for the feature that means the PTX ISA version ("ptx71").
    """

    level: int
    """-O level where nobody says."""

    @property
    def default_level(self) -> int:
        """-O level where nobody says."""
        return self.level

    def knows(self, target: str, version: str) -> bool:
        """Whether it writes modules of this target and PTX ISA version, by asking it."""
        with self.opened(self.level) as front_end:
            return front_end.writes(target, version)

    def opened(self, level: int) -> LlvmCommandFrontEnd:
        """Return the compiler."""
        return LlvmCommandFrontEnd(self.version, spelled=self.spelled, level=level)


class LlvmCommandFrontEnd:
    """A command at a level.

    Parameters
    ----------
    command
        As `stages` takes it.
    spelled
        What a person calls it.
    level
        Stands for `{level}`.
    """

    def __init__(self, command: str, *, spelled: str, level: int) -> None:
        self._stages = stages(command)
        self._command, self._spelled, self._level = command, spelled, level

    @property
    def name(self) -> str:
        """The compiler in words."""
        return f"{self._spelled} at -O{self._level}"

    def __call__(self, module: KernelModule) -> KernelModule | Failure:
        """Return the module as PTX that the command wrote from its programs."""
        try:
            llvm = _dialect(self._command, module.target, module.version)
        except InfrastructureError as error:
            return refused("LLVM", f"{error}")
        text = written(module, llvm=llvm)
        if isinstance(text, Failure):
            return text
        ptx = self._compiled(text, module.target, module.version)
        return ptx if isinstance(ptx, Failure) else answered(module, ptx, who=self._spelled)

    def writes(self, target: str, version: str) -> bool:
        """Whether it knows a target and a PTX ISA version."""
        ptx = self._compiled(EMPTY, target, version)
        return not isinstance(ptx, Failure) and header(ptx) == (target, version)

    def _compiled(self, text: str, target: str, version: str) -> str | Failure:
        return _run(self._stages, text, self._level, target, version)

    def close(self) -> None:
        """Nothing is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@cache
def _dialect(command: str, target: str, version: str) -> int:
    """Return the major version of LLVM whose IR a command reads, by asking it.

    Raises
    ------
    InfrastructureError
        If it reads none.
    """
    said = ""
    for major, text in _PROBES.items():
        made = _run(stages(command), f'target triple = "{TRIPLE}"\n{text}', 0, target, version)
        if isinstance(made, str) and ".entry nothing" in made:
            return major
        said = made.detail if isinstance(made, Failure) else "it wrote no entry"
    raise InfrastructureError(f"({command}) compiles no empty kernel: {said.strip()[-400:]}")


def _run(
    programs: list[list[str]], text: str, level: int, target: str, version: str
) -> str | Failure:
    """Return the PTX that programs, one after the other, make of LLVM IR."""
    values = {"{level}": str(level), "{target}": target, "{ptx}": feature(version)}
    return piped(programs, text, values, who="LLVM", seconds=_DEADLINE)
