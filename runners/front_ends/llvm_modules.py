"""What every LLVM front end does with a module: the IR that it gets, the PTX that it must write."""

from __future__ import annotations

import re
from dataclasses import replace

from oracle.errors import UsageError
from oracle.targets import Module
from runners.front_ends.child import refused
from runners.front_ends.llvm_ir import llvm_ir
from runners.kernels import KernelModule
from runners.protocol import Failure, Trouble

TRIPLE = "nvptx64-nvidia-cuda"
EMPTY = f'target triple = "{TRIPLE}"\ndefine ptx_kernel void @nothing() {{\n  ret void\n}}\n'
"""A module that every LLVM reads: its PTX says which target and version are known."""
_VERSION = re.compile(r"^\s*\.version\s+(\d+\.\d+)", re.MULTILINE)
_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)


def written(module: KernelModule, *, llvm: int) -> str | Failure:
    """Return a module's programs as LLVM IR for a major version of LLVM, or why there is none."""
    if not module.programs:
        return refused("LLVM", "has no program to compile: the module was written by hand")
    place = Module.named(module.target, module.version)
    try:
        return llvm_ir(module.programs, module.kernels, module=place, llvm=llvm)
    except UsageError as error:
        return Failure(trouble=Trouble.UNSUPPORTED, message=f"{error}")


def feature(version: str) -> str:
    """Return the feature of the back end that means a PTX ISA version: "ptx71"."""
    return f"ptx{version.replace('.', '')}"


def header(ptx: str) -> tuple[str, str]:
    """Return the target and the version of PTX; "" where it has none."""
    target, version = _TARGET.search(ptx), _VERSION.search(ptx)
    return (target[1] if target else "", version[1] if version else "")


def answered(module: KernelModule, ptx: str, *, who: str) -> KernelModule | Failure:
    """Return a module with the PTX of a front end, if it is for the target that was asked for.

    LLVM takes another target for one that it does not know, with a warning alone.
    """
    found = header(ptx)
    if found != (module.target, module.version) and all(found):
        return Failure(
            trouble=Trouble.UNSUPPORTED,
            message=f"{who} writes .target {found[0]} and .version {found[1]} where "
            f"{module.target} and {module.version} are asked for: it does not know them",
        )
    return replace(module, ptx=ptx)
