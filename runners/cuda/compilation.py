"""Compiles PTX for the device, with an assembler or the driver."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Protocol, TypedDict

from oracle.errors import InfrastructureError, UsageError
from runners.folders import check_space, temporary_folder, writing
from runners.kernels import KernelModule
from runners.processes import run_tool
from runners.protocol import Compiled, Failure, refused
from runners.ptx_text import is_cubin, is_ptx
from runners.variants import PLAIN, Variant

LEVELS = (0, 1, 2, 3)
"""-O levels of ptxas, of the driver's compiler (ptxas --help, 11.7 to 13.5) and of front ends."""
DEFAULT_LEVEL = 3
"""-O level of ptxas and of the driver's compiler where nobody says (ptxas --help, 13.0)."""
_VERSION_DEADLINE = 20.0
_SAID_BYTES = 16 << 10
"""Bytes of an assembler's standard output that are kept; its errors come on the other stream."""
_MEMORY_BYTES = 256 << 20
"""Machine code that a compiler remembers, in bytes, where nothing else is said."""


class Compiler(Protocol):
    """Makes code for one architecture."""

    def compile(self, module: KernelModule, architecture: str) -> Compiled | Failure:
        """Return code for an architecture such as "sm_90", or why there is none."""

    def close(self) -> None:
        """End what it has running."""


class CompilerLimits(TypedDict, total=False):
    """Limits that the caller of a compiler of machine code may choose (`PtxasCompiler`)."""

    deadline: float
    text_taken: bool
    memory_bytes: int


# "Cuda compilation tools, release 13.5, V13.5.37" (ptxas, nvcc and nvdisasm 11.7 to 13.5, 2026-11).
_TOLD = re.compile(r"release (\d+\.\d+)(?:, V(\d+(?:\.\d+)+))?")
_RELEASE = re.compile(r"V?(\d+\.\d+)(?:\.|$)")


def version_told(said: str) -> str | None:
    """Return the version that a tool of CUDA says it has; its release where it says no more."""
    match = _TOLD.search(said)
    return match and (match[2] or match[1])


def release_of(version: str) -> str:
    """Return the release of CUDA of a compiler's version: "12.4" of "V12.4.131"; else "unknown"."""
    match = _RELEASE.match(version)
    return "unknown" if match is None else match[1]


def _check_level(level: int) -> None:
    if level not in LEVELS:
        raise UsageError(
            f"optimisation level {level} does not exist; there are {', '.join(map(str, LEVELS))}"
        )


@dataclass(frozen=True, kw_only=True)
class DriverCompiler:
    """The compiler inside the driver; the child loads the PTX, and the driver's cache is off."""

    level: int = DEFAULT_LEVEL  # -O level, 0 to 3

    def __post_init__(self) -> None:
        _check_level(self.level)

    def compile(self, module: KernelModule, architecture: str) -> Compiled:
        """Return the PTX itself; what the driver makes of it shows when it is loaded."""
        text = module.ptx.encode()
        key = hashlib.sha256(f"driver {self.level} {architecture}\0".encode() + text).hexdigest()
        return Compiled(
            module=module,
            architecture=architecture,
            compiler=f"the driver's compiler, -O{self.level}",
            key=key,
            code=text,
            optimization=self.level,
        )

    def close(self) -> None:
        """Nothing is held open."""


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal; InfrastructureError if it cannot be read."""
    try:
        status = path.stat()
        return _digest_of(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise InfrastructureError(f"{path} cannot be read: {error.strerror}") from None


@cache
def _digest_of(path: Path, size: int, modified: int) -> str:
    """Return the hash of a file of this size and time, in nanoseconds, of its last change.

    A bisection has a compiler for every answer, and a ptxas takes 70 ms to be hashed.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class PtxasCompiler:
    """A ptxas of the user's choice.

    `path`: the program. `level`: -O level, 0 to 3. `deadline`: seconds that one module may take.
    `text_taken`: whether it may also write PTX in place of machine code: what it says it assembled,
    for a device that reads text (`is_ptx`). `memory_bytes`: machine code that it remembers, in
    bytes. `variant`: its further options; a target among them is compiled for in place of what is
    asked for. Raises UsageError if the level does not exist or there is no such file.
    """

    def __init__(
        self,
        path: Path,
        *,
        level: int = DEFAULT_LEVEL,
        deadline: float = 120.0,
        text_taken: bool = False,
        memory_bytes: int = _MEMORY_BYTES,
        variant: Variant = PLAIN,
    ) -> None:
        _check_level(level)
        if not path.is_file():
            raise UsageError(
                f"there is no assembler {path}; `warpfuzz compilers list` shows those that are here"
            )
        self.path, self.level, self.deadline, self.variant = path, level, deadline, variant
        self._text_taken, self._memory_bytes = text_taken, memory_bytes
        self._memory: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    @cached_property
    def _digest(self) -> str:
        return digest_of(self.path)

    @cached_property
    def version(self) -> str:
        """Version that the program prints, such as "V13.0.88"; "" if it prints none."""
        try:
            finished = run_tool([str(self.path), "--version"], deadline=_VERSION_DEADLINE)
        except OSError:
            return ""
        words = [word.strip(",") for word in finished.output.decode(errors="replace").split()]
        return next((word for word in words if word[:1] == "V" and word[1:2].isdigit()), "")

    def compile(self, module: KernelModule, architecture: str) -> Compiled | Failure:
        """Return a cubin; identical modules are compiled once."""
        recipe = f"{self._digest} -O{self.level}{self.variant} {architecture} {module.digest}"
        key = hashlib.sha256(recipe.encode()).hexdigest()
        code = self._memory.get(key) or self._assemble(module, architecture)
        if isinstance(code, Failure):
            return code
        self._remember(key, code)
        return Compiled(
            module=module,
            architecture=architecture,
            compiler=f"ptxas {self.version}{self.variant} -O{self.level}",
            key=key,
            code=code,
            release=release_of(self.version),
        )

    def close(self) -> None:
        """Nothing is held open."""

    def _remember(self, key: str, code: bytes) -> None:
        # Several threads may compile with one compiler.
        memory, most = self._memory, self._memory_bytes
        with self._lock:
            memory[key] = code
            memory.move_to_end(key)
            while len(memory) > 1 and sum(map(len, memory.values())) > most:
                memory.popitem(last=False)

    def _assemble(self, module: KernelModule, architecture: str) -> bytes | Failure:
        with temporary_folder() as folder:
            files, cubin = self.variant.files("module.ptx", module.ptx), folder / "module.cubin"
            with writing(folder):
                for name, text in files.items():
                    (folder / name).write_text(text, encoding="utf-8")
            flags = [f"-O{self.level}", *self.variant.command(architecture)]
            sources = [str(folder / name) for name in files]
            command = [str(self.path), *flags, *sources, "-o", str(cubin)]
            try:
                finished = run_tool(command, deadline=self.deadline)
            except OSError as error:
                return refused(f"{self.path} cannot be run ({error}); name another assembler", "")
            code = cubin.read_bytes() if cubin.is_file() else b""
            if finished.status != 0:
                check_space(folder)
        if finished.status == 0 and (is_cubin(code) or (self._text_taken and is_ptx(code))):
            return code
        said = finished.errors + finished.output[:_SAID_BYTES].decode(errors="backslashreplace")
        text = f"{self.path} {finished.ending} on the module"
        if finished.status == 0:
            text = (
                f"{self.path} reported success and wrote no machine code; it may be no ptxas, "
                "so name another assembler"
            )
        return refused(text, said, module.ptx, self.variant)
