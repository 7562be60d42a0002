"""Members of a matrix: a compiler at a level, as a runner of its own on a shared device.

A `Place` is where the binaries of a matrix run; `fitting` are the members that compile for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Protocol, cast

from fuzz.runner import OpenRunner, RunnerChoice, newest_written, opened, version_for
from oracle.errors import InfrastructureError, UsageError
from oracle.targets import (
    DEFAULT_TARGET,
    VERSIONS,
    PtxVersion,
    newest_for_cuda,
    parse_target,
    parse_version,
)
from runners.assemblers.assembler import Assembler
from runners.compilers import DRIVER, Selected
from runners.cuda.compilation import Compiler, DriverCompiler, PtxasCompiler, is_ptx
from runners.front_ends.protocol import Installed
from runners.front_ends.runner import FrontEndCompiler
from runners.kernels import KernelModule
from runners.protocol import (
    ClosedAtTheEnd,
    Compiled,
    Failure,
    ForwardingRunner,
    Images,
    Runner,
    Trouble,
)
from strategies.program_draws import Versions, versions_up_to

NOWHERE = "ptxas"
"""Name of the runner that runs nothing: compilers alone."""
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

    here: Assembler | Installed | None
    """A ptxas or a front end; None: the driver's compiler."""
    level: int

    @property
    def assembler(self) -> Assembler | None:
        """The ptxas, if it is one."""
        return self.here if isinstance(self.here, Assembler) else None

    @property
    def has_level(self) -> bool:
        """Whether the compiler has such a level; a front end may have fewer."""
        return not isinstance(self.here, Installed) or self.level in self.here.levels

    @property
    def front_end(self) -> Installed | None:
        """The front end, if it is one."""
        return self.here if isinstance(self.here, Installed) else None

    @property
    def runner(self) -> str:
        """What a finding calls a compiler of its kind: "ptxas", "driver", or the language."""
        if isinstance(self.here, Installed):
            return self.here.language
        return DRIVER if self.here is None else NOWHERE

    @property
    def version(self) -> str:
        """Such as "V13.5.37", "llvm:15.0.7", or "driver"."""
        if isinstance(self.here, Installed):
            return self.here.spelled
        return DRIVER if self.here is None else self.here.version

    @property
    def named(self) -> str:
        """The compiler in a sentence: "ptxas V13.5.37", "llvm:15.0.7"."""
        return self.version if self.runner != NOWHERE else f"{NOWHERE} {self.version}"

    @property
    def name(self) -> str:
        """Such as "V13.5.37 -O3"."""
        return f"{self.version} -O{self.level}"

    @cached_property
    def compiler(self) -> Compiler:
        """What compiles; it remembers what it has compiled, and a front end holds a process."""
        if isinstance(self.here, Installed):
            return FrontEndCompiler(self.here.opened(self.level))
        if self.here is None:
            return DriverCompiler(level=self.level)
        return PtxasCompiler(
            self.here.path,
            level=self.level,
            deadline=COMPILE_SECONDS,
            text_taken=True,
            memory_bytes=_MEMORY_BYTES,
        )

    def knows(self, target: str, version: str, architecture: str) -> bool:
        """Whether it can compile modules of this target and PTX ISA version for a device."""
        if self.here is None:
            return True
        if isinstance(self.here, Installed):
            return _knows(self.here, target, version)
        return architecture in self.here.targets and self.here.accepts(version, target)

    def newest(self, place: Place) -> PtxVersion | None:
        """Return the newest PTX ISA version of modules that it compiles for a place; None: none."""
        row = parse_target(place.target)
        cuda = place.opened.cuda if place.opened is not None else ""
        driver = newest_for_cuda(cuda) if cuda else VERSIONS[-1]
        if isinstance(self.here, Installed):
            # What it writes, the driver reads.
            found = newest_written(self.here.spelled, place.target)
        elif self.here is None:
            found = VERSIONS[-1]
        else:
            found = self.here.highest_version if place.architecture in self.here.targets else None
        if not isinstance(self.here, Assembler):
            found = min(found, driver) if found is not None and driver is not None else None
        read = [one for one in VERSIONS if found is not None and one <= found]
        return max(filter(row.known_to, read), default=None)

    def choice(self, choice: RunnerChoice) -> RunnerChoice:
        """Return what a person would ask for to run with this member alone."""
        if isinstance(self.here, Installed):
            return replace(choice, front_end=self.here.spelled, level=self.level)
        path = None if self.here is None else str(self.here.path)
        return replace(choice, assembler=path, level=self.level)

    def close(self) -> None:
        """End what it has running."""
        if "compiler" in self.__dict__ and isinstance(self.compiler, FrontEndCompiler):
            self.compiler.close()
            del self.__dict__["compiler"]


@cache
def _knows(front_end: Installed, target: str, version: str) -> bool:
    """Ask a front end once: it is started for it."""
    return front_end.knows(target, version)


def members_of(selected: Selected, levels: Sequence[int]) -> tuple[Member, ...]:
    """Return the members of a matrix, oldest version and lowest level first, the driver last.

    Raises
    ------
    UsageError
        If a compiler is not here.
    """
    for candidate in selected.candidates:
        if candidate.here is None:
            raise UsageError(
                f"ptxas {candidate.name} is not here; fetch it with `warpfuzz compilers fetch "
                f"{candidate.name}`"
            )
    found = [
        member
        for candidate in selected.candidates
        for level in levels
        if (member := Member(here=candidate.here, level=level)).has_level
    ]
    if selected.driver:
        found += [Member(here=None, level=level) for level in levels]
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class _Refused:
    """A batch that is not run."""

    failure: Failure

    def collect(self) -> Failure:
        """Say why."""
        return self.failure


class NoDevice(ClosedAtTheEnd):
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


class MemberRunner(ForwardingRunner):
    """A device whose modules one member compiles; closing it leaves the device open."""

    def __init__(self, device: Device, member: Member) -> None:
        super().__init__(device)
        self._device, self._compiler = device, member.compiler

    def compile(self, module: KernelModule) -> Compiled | Failure:
        """Compile a module; the first batch loads it."""
        return self._device.compile_with(self._compiler, module)

    def close(self) -> None:
        """Leave the device to its other members."""


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


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where binaries run, and what is compiled for it."""

    device: Device
    opened: OpenRunner | None
    """None where nothing runs."""
    target: str
    ptx_version: str
    architecture: str
    """Whose machine code is made."""
    drawn: bool = False
    """Whether nobody asked for a version, so that rounds draw it from what members read."""

    def check_runs(self, compiled: Compiled) -> None:
        """Raise UsageError if the device cannot show what a compiler made of a module."""
        simulated = self.opened is not None and self.opened.choice.name == "sim"
        if simulated and not is_ptx(compiled.code):
            raise UsageError(
                f"{compiled.compiler} writes machine code, and the simulated device reads PTX "
                "text: no binary can be run on it. Choose --runner cuda on a machine with a GPU, "
                f"or --runner {NOWHERE} to compare only what each compiler accepts"
            )


@contextmanager
def placed(choice: RunnerChoice) -> Iterator[Place]:
    """Open the device of a matrix.

    Parameters
    ----------
    choice
        The runner by its name, NOWHERE for compilers alone, with target and PTX ISA version.

    Raises
    ------
    UsageError, DeviceLostError, InfrastructureError
        As `fuzz.runner.opened` does.
    """
    with ExitStack() as stack:
        device: Device
        if choice.name == NOWHERE:
            device, found = NoDevice(), None
            target = choice.target or DEFAULT_TARGET
            ptx_version = version_for(choice.ptx_version, target)
        else:
            found = stack.enter_context(opened(choice))
            device, target, ptx_version = device_of(found), found.target, found.ptx_version
        architecture = device.architecture(target)
        if isinstance(architecture, Failure):
            raise InfrastructureError(f"{architecture}")
        yield Place(
            device=device,
            opened=found,
            target=target,
            ptx_version=ptx_version,
            architecture=architecture,
            drawn=choice.ptx_version is None,
        )


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """The members that can compile for a place."""

    members: tuple[Member, ...]
    skipped: tuple[str, ...]
    """Sentences about the others."""
    versions: Versions
    """PTX ISA versions that rounds draw from: those that some member reads, and most often one
    that all of them do."""
    newest: Mapping[Member, PtxVersion]
    """The newest that a member reads, of each."""


def fitting(members: Sequence[Member], place: Place) -> Fitting:
    """Leave out compilers that do not know the target or the PTX ISA version.

    Raises
    ------
    UsageError
        If none is left.
    """
    fit: dict[Member, PtxVersion] = {}
    skipped = []
    asked = place.ptx_version
    advice = "choose --runner cuda, or name others with --compilers"
    on_gpu = place.opened is not None and place.opened.choice.name == "cuda"
    for member in members:
        if member.here is None and not on_gpu:
            skipped.append("the driver's compiler is left out: it needs --runner cuda")
        elif place.drawn and (newest := member.newest(place)) is not None:
            fit[member] = newest
        elif not place.drawn and member.knows(place.target, asked, place.architecture):
            fit[member] = parse_version(asked)
        else:
            advice = "choose another --target or --ptx-version, or name others with --compilers"
            which = "any PTX ISA" if place.drawn else f"PTX ISA {asked}"
            skipped.append(
                f"{member.named} is left out: it does not know {place.target} with {which} on "
                f"{place.architecture}"
            )
    sentences = tuple(dict.fromkeys(skipped))
    if not fit:
        raise UsageError(f"no compiler is left: {'; '.join(sentences)}; {advice}")
    versions = Versions.only(asked)
    if place.drawn:
        versions = versions_up_to(place.target, max(fit.values()), main=min(fit.values()))
    return Fitting(members=tuple(fit), skipped=sentences, versions=versions, newest=fit)
