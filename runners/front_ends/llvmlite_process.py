"""The LLVM inside an llvmlite, in a process of its own that may crash."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Self

from oracle.errors import InfrastructureError
from runners.front_ends.child import Child, refused
from runners.front_ends.llvm_modules import EMPTY, answered, feature, header, written
from runners.kernels import KernelModule
from runners.protocol import Failure

_COMPILER = Path(__file__).with_name("llvmlite_compiler.py")
_MODULE_SECONDS = 60.0
"""Time that one module may take; the slowest of 1,000 drawn programs took less than a second."""


class LlvmliteFrontEnd:
    """The LLVM of an llvmlite, as a process that compiles module after module.

    Parameters
    ----------
    packages
        The folder in which llvmlite lies.
    level
        0 to 3: of the passes and of the back end.
    python
        What runs it.

    Raises
    ------
    InfrastructureError
        If that llvmlite cannot be run.
    """

    def __init__(
        self, packages: Path, *, level: int = 2, python: Path = Path(sys.executable)
    ) -> None:
        self._level = level
        # -I: nothing is imported from the current folder, or by way of the environment.
        self._child = Child(
            [python, "-I", _COMPILER, packages], who="LLVM", seconds=_MODULE_SECONDS
        )
        answer = self._child.start()
        if isinstance(answer, Failure):
            self.close()
            raise InfrastructureError(
                f"the llvmlite in {packages} cannot be run: {answer.message}; install it (`pip "
                "install llvmlite`), or fetch one with `warpfuzz compilers fetch llvm:22`"
            )
        self.version: str = answer["llvm"]

    @property
    def name(self) -> str:
        """The compiler in words, such as "LLVM 15.0.7 at -O2"."""
        return f"LLVM {self.version} at -O{self._level}"

    def __call__(self, module: KernelModule) -> KernelModule | Failure:
        """Return the module as PTX that LLVM wrote from its programs, or why there is none."""
        text = written(module, llvm=int(self.version.partition(".")[0]))
        if isinstance(text, Failure):
            return text
        ptx = self._compiled(text, module.target, module.version)
        if isinstance(ptx, Failure):
            return ptx
        return answered(module, ptx, who=f"LLVM {self.version}")

    def writes(self, target: str, version: str) -> bool:
        """Whether it knows a target and a PTX ISA version."""
        ptx = self._compiled(EMPTY, target, version)
        return not isinstance(ptx, Failure) and header(ptx) == (target, version)

    def _compiled(self, text: str, target: str, version: str) -> str | Failure:
        answer = self._child.asked(
            {"ir": text, "cpu": target, "features": f"+{feature(version)}", "level": self._level}
        )
        if isinstance(answer, Failure):
            return answer
        if "error" in answer:
            return refused("LLVM", "refused a module", answer["error"])
        return str(answer["ptx"])

    def close(self) -> None:
        """End the process for good."""
        self._child.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
