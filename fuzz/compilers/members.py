"""Members of a comparison, compilers at a level on a shared device; and what all make of a module.

A `RunPlace` is where binaries run, `fitting` are the members that compile for it, and a
`BuildMatrix` compiles with all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self, TypeAlias, cast

import msgspec

from corpus import Case, RunnerVerdict
from fuzz.runner import BUILT_IN, OpenRunner, RunnerChoice, opened, version_for
from oracle.errors import InfrastructureError, UsageError
from oracle.isa.forms import Form
from oracle.isa.lookup import is_available
from oracle.isa.targets import (
    DEFAULT_TARGET,
    VERSIONS,
    Module,
    PtxVersion,
    newest_for_cuda,
    parse_target,
    parse_version,
    versions_of,
)
from oracle.program.program import Program, requirements
from runners import protocol
from runners.assemblers.assembler import Assembler
from runners.assemblers.disassembly import kernel_digests
from runners.compilers import Selected
from runners.cuda.compilation import Compiler
from runners.front_ends.protocol import FrontEndToolchain
from runners.kernels import KernelModule
from runners.ptx_text import is_ptx, ptx_digests
from runners.toolchains import DRIVER, Toolchain
from runners.variants import PLAIN, Variant
from strategies.draws import PtxVersions, derived_seed, draw, only_version, versions_up_to
from strategies.features import FEATURES, Feature, Focus
from strategies.programs import programs
from strategies.rounds import GROUP_TARGETS

NOWHERE = "ptxas"  # name of the runner that runs nothing: compilers alone
COMPILE_SECONDS = 60.0  # time for a module; one of 60 programs takes ptxas 13.5 about 1 s (2026-11)

_MEMORY_BYTES = 4 << 20
"""Machine code that one member remembers, of 68 and more: a module of 60 programs has 0.4 MB."""


class Device(protocol.Runner, Protocol):
    """A runner that takes code of any compiler."""

    def compile_with(
        self, compiler: Compiler, module: KernelModule
    ) -> protocol.Compiled | protocol.Failure:
        """Compile a module without loading it; several threads may do so."""

    def load(
        self, compiled: protocol.Compiled
    ) -> protocol.Later[protocol.Compiled | protocol.Failure]:
        """Begin to load a module; what the driver compiles, it compiles then."""

    def architecture(self, target: str) -> str | protocol.Failure:
        """Return the architecture for which modules of a target are compiled."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A compiler at an -O level."""

    toolchain: Toolchain
    level: int

    @property
    def assembler(self) -> Assembler | None:
        """The ptxas, if it is one."""
        return self.toolchain if isinstance(self.toolchain, Assembler) else None

    @property
    def has_level(self) -> bool:
        """Whether the compiler has such a level; a front end may have fewer."""
        return self.level in self.toolchain.levels

    @property
    def runner(self) -> str:
        """What a finding calls a compiler of its kind: "ptxas", "driver", or the language."""
        return self.toolchain.kind

    @property
    def version(self) -> str:
        """Version with options: "V13.5.37", "V13.5.37+maxrregcount=32", "driver"."""
        return self.toolchain.label

    @property
    def variant(self) -> Variant:
        """Its options beside the level."""
        return PLAIN if self.assembler is None else self.assembler.variant

    @property
    def name(self) -> str:
        """Name, version and level, such as "V13.5.37 -O3"."""
        return f"{self.version} -O{self.level}"

    @cached_property
    def compiler(self) -> Compiler:
        """What compiles; it remembers what it has compiled, and a front end holds a process."""
        return self.toolchain.compiler(
            self.level, deadline=COMPILE_SECONDS, text_taken=True, memory_bytes=_MEMORY_BYTES
        )

    def newest(self, place: RunPlace) -> PtxVersion | None:
        """Return the newest PTX ISA version of modules that it compiles for a place; None: none."""
        found = self.toolchain.newest(place.target, place.architecture)
        if self.assembler is None:
            # What it hands on is PTX, which the driver reads.
            cuda = place.opened.cuda if place.opened is not None else ""
            driver = newest_for_cuda(cuda) if cuda else VERSIONS[-1]
            found = min(found, driver) if found is not None and driver is not None else None
        known = versions_of(parse_target(place.target))
        return max((one for one in known if found is not None and one <= found), default=None)

    def choice(self, choice: RunnerChoice) -> RunnerChoice:
        """Return what a person would ask for to run with this member alone."""
        front_end = self.toolchain if isinstance(self.toolchain, FrontEndToolchain) else None
        return replace(choice, assembler=self.assembler, front_end=front_end, level=self.level)

    def close(self) -> None:
        """End what it has running."""
        if "compiler" in self.__dict__:
            self.compiler.close()
            del self.__dict__["compiler"]


def members_of(selected: Selected, levels: Sequence[int]) -> tuple[Member, ...]:
    """Return the members of a matrix, oldest version and lowest level first, the driver last.

    Raises UsageError if a compiler is not here.
    """
    toolchains = [*selected.toolchains, *([DRIVER] if selected.driver else [])]
    members = (Member(toolchain=one, level=level) for one in toolchains for level in levels)
    return tuple(member for member in members if member.has_level)


def given(members: Iterable[Member]) -> dict[str, str | None]:
    """Return the compilers of members by the options that name them."""
    found: dict[str, dict[str, None]] = {"--compilers": {}, "--front-end": {}}
    for one in members:
        found["--front-end" if one.toolchain.writes_ptx else "--compilers"][one.version] = None
    return {option: ", ".join(versions) or None for option, versions in found.items()}


def with_outcomes(case: Case, outcomes: Mapping[Member, str]) -> Case:
    """Return a case with what each member's binary does."""
    (own, *_) = case.runners
    others = [
        RunnerVerdict(
            runner=member.runner, version=member.version, options=f"-O{member.level}",
            outcome=outcome, device=own.device,
        )
        for member, outcome in outcomes.items()
    ]  # fmt: skip
    return msgspec.structs.replace(case, runners=(*others, own))


class NoDevice:
    """A device for compilers alone, which compile modules for their own targets; nothing runs."""

    def compile_with(
        self, compiler: Compiler, module: KernelModule
    ) -> protocol.Compiled | protocol.Failure:
        """Compile a module for its own target."""
        return compiler.compile(module, module.target)

    def architecture(self, target: str) -> str:
        """Return the target itself."""
        return target


class MemberRunner(protocol.ForwardingRunner):
    """A device whose modules one member compiles; closing it leaves the device open."""

    def __init__(self, device: Device, member: Member) -> None:
        super().__init__(device)
        self._device, self._compiler = device, member.compiler

    def compile(self, module: KernelModule) -> protocol.Compiled | protocol.Failure:
        """Compile a module; the first batch loads it."""
        return self._device.compile_with(self._compiler, module)

    def close(self) -> None:
        """Leave the device to its other members."""


def device_of(opened: OpenRunner) -> Device:
    """Return the device that an opened runner is.

    Raises UsageError if it is one that changes PTX on its way.
    """
    runner = opened.runner
    if hasattr(runner, "compile_with"):
        return cast(Device, runner)
    if opened.choice.name not in BUILT_IN:
        raise UsageError(
            f"the runner {opened.choice.name} reads the PTX itself, and compilers are compared by "
            "the code that they make; choose --runner cuda or sim"
        )
    raise UsageError(
        "planted faults and PTX passes change what every compiler gets, and compilers are compared "
        "on the same text; leave --fault and --ptx-pass out"
    )


def architecture_of(device: Device, target: str) -> str:
    """Return whose machine code is made of modules of a target; InfrastructureError: none."""
    architecture = device.architecture(target)
    if isinstance(architecture, protocol.Failure):
        raise InfrastructureError(f"{architecture}")
    return architecture


@dataclass(frozen=True, kw_only=True)
class RunPlace:
    """Where binaries run, and what is compiled for it."""

    device: Device
    opened: OpenRunner | None  # None where nothing runs
    target: str
    ptx_version: str
    architecture: str  # whose machine code is made
    drawn: bool = False
    """Whether nobody asked for a version, so that rounds draw it from what members read."""
    groups: str = ""  # as `OpenRunner` has it

    def check_runs(self, compiled: protocol.Compiled) -> None:
        """Raise UsageError if the device cannot show what a compiler made of a module."""
        simulated = self.opened is not None and self.opened.choice.name == "sim"
        if simulated and not is_ptx(compiled.code):
            raise UsageError(
                f"{compiled.compiler} writes machine code, and the simulated device reads PTX "
                "text: no binary can be run on it. Choose --runner cuda on a machine with a GPU, "
                f"or --runner {NOWHERE} to compare only what each compiler accepts"
            )


@contextmanager
def placed(choice: RunnerChoice) -> Iterator[RunPlace]:
    """Open the device of a matrix; a runner of the name NOWHERE is for compilers alone."""
    with ExitStack() as stack:
        device: Device
        if choice.name == NOWHERE:
            device, found = cast(Device, NoDevice()), None
            target = choice.target or DEFAULT_TARGET
            groups = "" if choice.target else GROUP_TARGETS.get(target, "")
            ptx_version = version_for(choice.ptx_version, target)
        else:
            found = stack.enter_context(opened(choice))
            device, target, ptx_version = device_of(found), found.target, found.ptx_version
            groups = found.groups
        yield RunPlace(
            device=device, opened=found, target=target, ptx_version=ptx_version, groups=groups,
            architecture=architecture_of(device, target), drawn=choice.ptx_version is None,
        )  # fmt: skip


Newest: TypeAlias = Mapping[tuple[Member, str], PtxVersion]
"""The newest PTX ISA version that a member reads in modules of a `.target`, where it reads any."""


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """The members that can compile for a place."""

    members: tuple[Member, ...]
    skipped: tuple[str, ...]  # sentences about the others
    versions: PtxVersions
    """PTX ISA versions that rounds draw from: those that some member reads (or all), and most
    often one that all of them do."""
    newest: Newest
    groups: str = ""  # second `.target` (`GROUP_TARGETS`), if some member knows it (or all)
    without_groups: tuple[str, ...] = ()  # sentences about members that do not


def fitting(members: Sequence[Member], place: RunPlace, *, read_by_all: bool = False) -> Fitting:
    """Leave out compilers that do not know the target, the PTX ISA version or their options.

    With `read_by_all`, versions are left out that not all of the others read. Raises UsageError if
    none is left, or none with some options.
    """
    fit: dict[Member, PtxVersion] = {}
    skipped: dict[str, None] = {}
    on_gpu = place.opened is not None and place.opened.choice.name == "cuda"
    for member in members:
        toolchain = member.toolchain
        refused = member.assembler and member.assembler.refusal(place.target, place.architecture)
        if toolchain == DRIVER and not on_gpu:
            skipped["the driver's compiler needs --runner cuda; choose it, or other compilers"] = (
                None
            )
        elif refused:
            skipped[f"{toolchain.named}: {refused}; choose another --variant"] = None
        elif (newest := _newest(member, place)) is not None:
            fit[member] = newest
        else:
            which = "any PTX ISA" if place.drawn else f"PTX ISA {place.ptx_version}"
            skipped[
                f"{toolchain.named} does not know {place.target} with {which} on "
                f"{place.architecture}; choose another --target or --ptx-version"
            ] = None
    if not fit:
        raise UsageError(f"no compiler is left: {'; '.join(skipped)}")
    lost = {f"{one.variant}" for one in members} - {f"{one.variant}" for one in fit} - {""}
    if lost:
        said = "; ".join(one for one in skipped if any(f"{name}: " in one for name in lost))
        raise UsageError(f"nobody compiles with {', '.join(sorted(lost))}: {said}")
    versions = only_version(place.ptx_version)
    if place.drawn:
        main = min(fit.values())
        most = main if read_by_all else max(fit.values())
        versions = versions_up_to(place.target, most, main=main)
    unread: dict[str, None] = {}
    known: dict[tuple[Member, str], PtxVersion] = {(one, place.target): fit[one] for one in fit}
    if place.groups:
        own = architecture_of(place.device, place.groups)
        other = replace(place, target=place.groups, architecture=own)
        for member in fit:
            newest = None if member.toolchain.writes_ptx else _newest(member, other)
            if newest is not None:
                known[member, other.target] = newest
            else:
                unread[not_read(member.toolchain, other.target)] = None
    enough = len(known) == 2 * len(fit) if read_by_all else len(known) > len(fit)
    return Fitting(
        members=tuple(fit), skipped=tuple(skipped), versions=versions, newest=known,
        groups=place.groups if enough else "", without_groups=tuple(unread),
    )  # fmt: skip


def not_read(toolchain: Toolchain, target: str) -> str:
    """Say that a compiler does not get programs for a second target."""
    return f"programs for {target}: {toolchain.named} does not know it"


def _newest(member: Member, place: RunPlace) -> PtxVersion | None:
    """Return the newest PTX ISA version of a place's modules that a member reads; None: none."""
    if place.drawn:
        return member.newest(place)
    known = member.toolchain.knows(place.target, place.ptx_version, place.architecture)
    return parse_version(place.ptx_version) if known else None


@dataclass(frozen=True, kw_only=True)
class Built:
    """One module as every member compiled it."""

    module: KernelModule
    made: Mapping[Member, protocol.Compiled | protocol.Failure]  # in the order of the members


def failed_in(built: Built) -> Mapping[Member, protocol.Failure]:
    """Return the members that did not compile a module."""
    return {one: made for one, made in built.made.items() if isinstance(made, protocol.Failure)}


@dataclass(frozen=True, kw_only=True)
class BuiltVariant:
    """One binary of a kernel, and who made it."""

    members: tuple[Member, ...]
    compiled: protocol.Compiled  # code of the first member


class BuildMatrix:
    """Compiles with all members at the same time, and runs on one device."""

    def __init__(
        self,
        device: Device,
        members: Sequence[Member],
        *,
        jobs: int,
        newest: Newest | None = None,
    ) -> None:
        self.device = device
        self.members = tuple(members)
        self._newest = newest
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="compile")
        self._codes: dict[str, dict[str, str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for member in self.members:
            member.close()

    def readers(self, module: Module) -> tuple[Member, ...]:
        """Return the members that read such modules."""
        if self._newest is None:
            return self.members
        own = ((one, self._newest.get((one, module.target.name))) for one in self.members)
        return tuple(one for one, newest in own if newest and module.version <= newest)

    def build(
        self, *modules: KernelModule, members: Sequence[Member] | None = None,
        beat: Callable[[], None] = lambda: None,
    ) -> list[Built]:  # fmt: skip
        """Compile modules, by all members that read their version or by some members.

        `beat` is called every second until then.
        """
        compile_with, started = self.device.compile_with, []
        for module in modules:
            who = self.readers(module.header) if members is None else members
            drivers = [one for one in who if one.toolchain == DRIVER]
            # Beside the others; one that it refuses would take all kernels of the module along.
            loads = {one: self._begun(one, module) for one in drivers}
            futures = {
                one: self._pool.submit(compile_with, one.compiler, module)
                for one in who
                if one not in loads
            }
            started.append((module, futures, loads))
        every = [future for _, futures, _ in started for future in futures.values()]
        while wait_for(every, timeout=1.0).not_done:
            beat()
        built = []
        for module, futures, loads in started:
            made = {one: future.result() for one, future in futures.items()}
            made |= {one: load.collect() for one, load in loads.items()}
            built.append(Built(module=module, made=made))
        return built

    def _begun(
        self, member: Member, module: KernelModule
    ) -> protocol.Later[protocol.Compiled | protocol.Failure]:
        made = self.device.compile_with(member.compiler, module)
        if isinstance(made, protocol.Failure):
            return protocol.Collected(outcome=made)
        return self.device.load(made)

    def variants(self, built: Built, entry: str) -> Sequence[BuiltVariant]:
        """Return the distinct binaries of a kernel: identical machine code is run once."""
        groups: dict[str, tuple[protocol.Compiled, list[Member]]] = {}
        for member, compiled in built.made.items():
            if isinstance(compiled, protocol.Compiled):
                key = self._identity(compiled, entry)
                groups.setdefault(key, (compiled, []))[1].append(member)
        return [
            BuiltVariant(members=tuple(members), compiled=compiled)
            for compiled, members in groups.values()
        ]

    def forget(self) -> None:
        """Forget the machine code of modules that are over."""
        self._codes.clear()

    def _identity(self, compiled: protocol.Compiled, entry: str) -> str:
        """Return what is equal for code that does the same on this device."""
        if compiled.key not in self._codes:
            digests: dict[str, str] = {}
            if is_ptx(compiled.code):
                # For the driver, or for a device that reads it.
                driver = f"{compiled.optimization}"
                made = ptx_digests(compiled.code.decode(errors="replace"))
                digests = {name: f"{digest} {driver}" for name, digest in made.items()}
            with suppress(ValueError):
                digests = digests or kernel_digests(compiled.code)
            self._codes[compiled.key] = digests
        return self._codes[compiled.key].get(entry, compiled.key)


_PLACES: tuple[frozenset[Feature], ...] = (
    frozenset(),
    frozenset({FEATURES["load: .shared"], FEATURES["store: .shared"]}),
)


def survey_programs(
    forms: Sequence[Form], *, target: str, version: str, seed: int
) -> Iterator[tuple[Form, Program]]:
    """Iterate over forms and the simplest programs of each; those that need more are left out.

    A multiplication has two: with all matrices in global memory, and with A and D in shared memory,
    where compilers load with instructions of their own (LDSM).
    """
    row, number = parse_target(target), parse_version(version)
    for form in forms:
        for features in _PLACES[: 2 if form.mnemonic == "wmma.mma" else 1]:
            focus = Focus(form=form, features=features)
            strategy = programs(focus, module=Module.named(target, version), forms=(form,))
            # The first example that Hypothesis makes is the simplest one there is.
            for program in draw(strategy, 1, derived_seed(seed, "survey", form.opcode)):
                if all(is_available(one, Module(row, number)) for one in requirements(program)):
                    yield form, program
