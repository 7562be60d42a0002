"""The source that a front end is given, as a file: to compile it without warpfuzz."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runners.front_ends.cuda_cpp import cuda_cpp
from runners.front_ends.cuda_cpp_compilers import Nvcc
from runners.front_ends.llvm import Llvmlite
from runners.front_ends.llvm_ir import llvm_ir
from runners.kernels import KernelModule
from runners.toolchains import parted, version_order

_NEWEST_LLVM = 22
"""Major version of the IR for an LLVM whose version is not known (llvmlite 0.50, 2026-11)."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A program in the language of a front end."""

    compiler: str
    """The front end, as it is spelled."""
    name: str
    """Name of the file: "kernel.cu", "kernel.ll"."""
    text: str
    level: int
    """-O level."""
    commands: tuple[str, ...]
    """What makes PTX of it."""


def source_of(spelled: str, module: KernelModule, *, level: int | None) -> Source:
    """Return what a front end is given for a module.

    Parameters
    ----------
    spelled
        The name of the front end, such as "nvcc:13.0.88" or "llvm:15.0.7".
    level
        Its -O level; None: the language's default.

    Raises
    ------
    UsageError
        If its language cannot say the programs.
    """
    language, which = parted(spelled)
    feature = f"ptx{module.version.replace('.', '')}"
    if language == "llvm":
        level = Llvmlite.default_level if level is None else level
        major = (version_order(which) or (_NEWEST_LLVM,))[0]
        text = llvm_ir(module, llvm=major)
        return Source(
            compiler=spelled, name="kernel.ll", text=text, level=level,
            commands=_own(which, "kernel.ll", level, module.target, feature)
            or (
                f"opt -S -passes='default<O{level}>' kernel.ll -o optimised.ll",
                f"llc -O{level} -mcpu={module.target} -mattr=+{feature} optimised.ll -o new.ptx",
            ),
        )  # fmt: skip
    level = Nvcc.default_level if level is None else level
    text = cuda_cpp(module)
    commands = _own(which, "kernel.cu", level, module.target, feature)
    if not commands:
        commands = (f"nvcc -ptx -arch={module.target} -Xcicc -O{level} kernel.cu -o new.ptx",)
    return Source(compiler=spelled, name="kernel.cu", text=text, level=level, commands=commands)


def _own(which: str, name: str, level: int, target: str, feature: str) -> tuple[str, ...]:
    """Return a user's command on a file, if the front end is one."""
    if not which or version_order(which) or Path(which).is_dir():
        return ()
    for word, value in (("{level}", str(level)), ("{target}", target), ("{ptx}", feature)):
        which = which.replace(word, value)
    first, *rest = which.split(" | ", 1)
    return (" | ".join([f"{first} < {name}", *rest]) + " > new.ptx",)
