"""The LLVM inside an llvmlite, in a process of its own that may crash."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from oracle.errors import InfrastructureError
from runners.front_ends.llvm_texts import EMPTY, answered, feature, header, refused, written
from runners.kernels import KernelModule
from runners.processes import describe_status, kill_group, tail
from runners.protocol import Failure

_COMPILER = Path(__file__).with_name("llvmlite_compiler.py")
_START_SECONDS = 60.0
"""Time in which Python and LLVM must be loaded: 1 s here, and many times that on a busy machine."""
_MODULE_SECONDS = 60.0
"""Time that one module may take; the slowest of 1,000 drawn programs took less than a second."""
_ANSWER_BYTES = 64 << 20
"""Most bytes of one answer: a thousand times the largest drawn program."""


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
        self._packages, self._level, self._python = packages, level, python
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the front end)
        self._rest = b""
        answer = self._start()
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
        answer = self._asked(
            {"ir": text, "cpu": target, "features": f"+{feature(version)}", "level": self._level}
        )
        if isinstance(answer, Failure):
            return answer
        if "error" in answer:
            return refused("refused a module", answer["error"])
        return str(answer["ptx"])

    def _asked(self, request: Mapping[str, Any]) -> dict[str, Any] | Failure:
        if self._process is None and isinstance(started := self._start(), Failure):
            return started
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        return self._answer(_MODULE_SECONDS)

    def _start(self) -> dict[str, Any] | Failure:
        self._rest = b""
        try:
            self._process = subprocess.Popen(
                # -I: nothing is imported from the current folder, or by way of the environment.
                [self._python, "-I", _COMPILER, self._packages],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError as error:
            return refused(f"cannot be started ({error})")
        return self._answer(_START_SECONDS)

    def _answer(self, seconds: float) -> dict[str, Any] | Failure:
        """Return the next line of the process; without one, end it."""
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        descriptor = self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while b"\n" not in self._rest and len(self._rest) <= _ANSWER_BYTES:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    return self._ended(None)
                read = os.read(descriptor, 1 << 20)
                if not read:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self._process.wait(_START_SECONDS)
                    return self._ended(self._process.returncode)
                self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            return self._ended(0)
        return answer if isinstance(answer, dict) else self._ended(0)

    def _ended(self, status: int | None) -> Failure:
        said = tail(self._errors.fileno())
        self.close_process()
        what = "gave no answer" if status == 0 else describe_status(status)
        return refused(what, said)

    def close_process(self) -> None:
        """End the process; the next module starts another."""
        if self._process is not None:
            kill_group(self._process)
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            self._process = None

    def close(self) -> None:
        """End the process for good."""
        self.close_process()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
