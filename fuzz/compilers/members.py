"""Members of a matrix: a compiler at a level, and as a runner of its own on a shared device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import TracebackType
from typing import Protocol, Self, cast

from fuzz.compilers.candidates import DRIVER, Selected
from fuzz.runner import OpenRunner, RunnerChoice
from oracle.errors import UsageError
from runners.assemblers.assembler import Assembler
from runners.cuda.compilation import Compiler, DriverCompiler, PtxasCompiler
from runners.kernels import KernelModule
from runners.protocol import Capabilities, Compiled, Failure, Images, Pending, Ran, Runner, Trouble

COMPILE_SECONDS = 60.0
"""Time for a module; one of 60 programs takes ptxas 13.5 about 1 s (2026-11)."""

_MEMORY_BYTES = 4 << 20
"""Machine code that one member remembers, of 68 and more: a module of 60 programs has 0.4 MB."""


class Device(Runner, Protocol):
    """A runner that takes code of any compiler."""

    def compile_with(self, compiler: Compiler, module: KernelModule) -> Compiled | Failure:
        """Compile a module without loading it; several threads may do so."""
        ...

    def architecture(self, target: str) -> str | Failure:
        """Return the architecture for which modules of a target are compiled."""
        ...


@dataclass(frozen=True, kw_only=True)
class Member:
    """A compiler at an -O level."""

    assembler: Assembler | None
    """None: the driver's compiler."""
    level: int

    @property
    def version(self) -> str:
        """Such as "V13.5.37", or "driver"."""
        return DRIVER if self.assembler is None else self.assembler.version

    @property
    def name(self) -> str:
        """Such as "V13.5.37 -O3"."""
        return f"{self.version} -O{self.level}"

    @cached_property
    def compiler(self) -> Compiler:
        """What compiles; it remembers what it has compiled."""
        if self.assembler is None:
            return DriverCompiler(level=self.level)
        return PtxasCompiler(
            self.assembler.path,
            level=self.level,
            deadline=COMPILE_SECONDS,
            text_taken=True,
            memory_bytes=_MEMORY_BYTES,
        )

    def knows(self, target: str, version: str, architecture: str) -> bool:
        """Whether it can compile modules of this target and PTX ISA version for a device."""
        if self.assembler is None:
            return True
        return architecture in self.assembler.targets and self.assembler.accepts(version, target)

    def choice(self, choice: RunnerChoice) -> RunnerChoice:
        """Return what a person would ask for to run with this member alone."""
        path = None if self.assembler is None else str(self.assembler.path)
        return replace(choice, assembler=path, level=self.level)


def members_of(selected: Selected, levels: Sequence[int]) -> tuple[Member, ...]:
    """Return the members of a matrix, oldest version and lowest level first, the driver last.

    Raises
    ------
    UsageError
        If a compiler is not here.
    """
    for candidate in selected.candidates:
        if candidate.assembler is None:
            raise UsageError(
                f"ptxas {candidate.name} is not here; fetch it with `warpfuzz compilers fetch "
                f"{candidate.name}`"
            )
    found = [
        Member(assembler=candidate.assembler, level=level)
        for candidate in selected.candidates
        for level in levels
    ]
    if selected.driver:
        found += [Member(assembler=None, level=level) for level in levels]
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class _Refused:
    """A batch that is not run."""

    failure: Failure

    def collect(self) -> Failure:
        """Say why."""
        return self.failure


class NoDevice:
    """A device for compilers alone: nothing runs on it."""

    def capabilities(self) -> Failure:
        """Say that nothing runs here."""
        return Failure(
            trouble=Trouble.UNSUPPORTED,
            message="compilers alone run nothing; choose --runner cuda or sim",
        )

    def compile(self, module: KernelModule) -> Failure:
        """Say that nothing runs here."""
        return self.capabilities()

    def compile_with(self, compiler: Compiler, module: KernelModule) -> Compiled | Failure:
        """Compile a module for its own target."""
        return compiler.compile(module, module.target)

    def architecture(self, target: str) -> str:
        """Return the target itself."""
        return target

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> _Refused:
        """Say that nothing runs here."""
        return _Refused(failure=self.capabilities())

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Failure:
        """Say that nothing runs here."""
        return self.capabilities()

    def close(self) -> None:
        """Nothing is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class MemberRunner:
    """A device whose modules one member compiles; closing it leaves the device open."""

    def __init__(self, device: Device, member: Member) -> None:
        self._device, self._compiler = device, member.compiler

    def capabilities(self) -> Capabilities | Failure:
        """Say what the device can run."""
        return self._device.capabilities()

    def compile(self, module: KernelModule) -> Compiled | Failure:
        """Compile a module; the first batch loads it."""
        return self._device.compile_with(self._compiler, module)

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Pending:
        """Start a batch."""
        return self._device.submit(compiled, images, entry=entry)

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        """Run a batch and wait for it."""
        return self._device.run(compiled, images, entry=entry)

    def close(self) -> None:
        """Leave the device to its other members."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def device_of(opened: OpenRunner) -> Device:
    """Return the device that an opened runner is.

    Raises
    ------
    UsageError
        If it is one that changes PTX on its way.
    """
    runner = opened.runner
    if hasattr(runner, "compile_with"):
        return cast(Device, runner)
    raise UsageError(
        "planted faults and PTX passes change what every compiler gets, and compilers are compared "
        "on the same text; leave --fault and --ptx-pass out"
    )


def described(members: Sequence[Member], among: Sequence[Member]) -> str:
    """Name members, neighbouring versions with the same levels together.

    Parameters
    ----------
    among
        All members, oldest first: which versions are neighbours.
    """
    levels: dict[str, tuple[int, ...]] = {}
    for member in members:
        levels[member.version] = (*levels.get(member.version, ()), member.level)
    groups: list[tuple[tuple[int, ...], list[str]]] = []
    for version in dict.fromkeys(member.version for member in among):
        own = levels.get(version, ())
        if groups and groups[-1][0] == own:
            groups[-1][1].append(version)
        else:
            groups.append((own, [version]))
    return ", ".join(
        f"{_span(versions)} {' '.join(f'-O{level}' for level in sorted(own))}"
        for own, versions in groups
        if own
    )


def _span(versions: Sequence[str]) -> str:
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
