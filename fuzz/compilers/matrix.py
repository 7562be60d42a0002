"""One module built by every member: what each accepts, the machine code, and its results.

`BuildMatrix` compiles and compares; `listings` and `notes_of` tell which machine instructions each
compiler makes of a form, and where that changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple, Self, TypeVar

from corpus import Entry
from corpus.finding import MODULE, PROGRAM
from corpus.programs import decode_program
from fuzz.compilers.members import Device, Member
from fuzz.findings.replay import EXPANSION
from fuzz.findings.verdicts import Basis, CannotBeAskedError, Rerun
from oracle.errors import UsageError
from oracle.isa.forms import Form
from oracle.isa.lookup import is_available
from oracle.isa.targets import Module, PtxVersion, parse_target, parse_version
from oracle.program.program import Program, requirements
from runners.assemblers.disassembly import WHEEL, Disassembler, kernel_digests
from runners.emission import emit
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure
from runners.ptx_text import is_cubin, is_ptx, ptx_digests, with_header
from strategies.draws import derived_seed, draw
from strategies.features import FEATURES, Feature, Focus
from strategies.programs import programs

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Built:
    """One module as every member compiled it."""

    module: KernelModule
    made: Mapping[Member, Compiled | Failure]  # in the order of the members

    @property
    def failed(self) -> Mapping[Member, Failure]:
        """The members that did not compile it."""
        return {one: made for one, made in self.made.items() if isinstance(made, Failure)}


@dataclass(frozen=True, kw_only=True)
class BuiltVariant:
    """One binary of a kernel, and who made it."""

    members: tuple[Member, ...]
    compiled: Compiled  # code of the first member


@dataclass(kw_only=True)
class Building:
    """A module that is being compiled."""

    module: KernelModule
    waiting: Mapping[Member, Future[Compiled | Failure]] = field(repr=False)

    def wait(self, beat: Callable[[], None] = lambda: None) -> Built:
        """Wait for the results and return them; `beat` is called every second until then."""
        while wait_for(self.waiting.values(), timeout=1.0).not_done:
            beat()
        made = {member: future.result() for member, future in self.waiting.items()}
        return Built(module=self.module, made=made)


class BuildMatrix:
    """Compiles with all members at the same time, and runs on one device.

    Parameters
    ----------
    jobs
        Compilers that run at the same time.
    newest
        The newest PTX ISA version that a member reads; one that is not in it is given every module.
    """

    def __init__(
        self,
        device: Device,
        members: Sequence[Member],
        *,
        jobs: int,
        newest: Mapping[Member, PtxVersion] | None = None,
    ) -> None:
        self.device = device
        self.members = tuple(members)
        self._newest = newest or {}
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="compile")
        self._codes: dict[str, dict[str, str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for member in self.members:
            member.close()

    def readers(self, version: str) -> tuple[Member, ...]:
        """Return the members that read modules of a PTX ISA version."""
        own = parse_version(version)
        return tuple(one for one in self.members if own <= self._newest.get(one, own))

    def start(self, module: KernelModule, members: Sequence[Member] | None = None) -> Building:
        """Start compiling a module, by all members that read its version or by some members."""
        return Building(
            module=module,
            waiting={
                member: self._pool.submit(self.device.compile_with, member.compiler, module)
                for member in (self.readers(module.version) if members is None else members)
            },
        )

    def variants(self, built: Built, entry: str) -> Sequence[BuiltVariant]:
        """Return the distinct binaries of a kernel: identical machine code is run once."""
        groups: dict[str, tuple[Compiled, list[Member]]] = {}
        for member, compiled in built.made.items():
            if isinstance(compiled, Compiled):
                key = self._identity(compiled, entry)
                groups.setdefault(key, (compiled, []))[1].append(member)
        return [
            BuiltVariant(members=tuple(members), compiled=compiled)
            for compiled, members in groups.values()
        ]

    def each(self, codes: Iterable[bytes], work: Callable[[bytes], T]) -> dict[bytes, T]:
        """Do something with each code, with as many at a time as are compiled."""
        started = {code: self._pool.submit(work, code) for code in codes}
        return {code: future.result() for code, future in started.items()}

    def forget(self) -> None:
        """Forget the machine code of modules that are over."""
        self._codes.clear()

    def _identity(self, compiled: Compiled, entry: str) -> str:
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


def expansion_asker(
    entry: Entry, disassembler: Disassembler | None, version: str
) -> Callable[[Member], Rerun]:
    """Return what asks which matrix instructions a compiler makes of a note's module.

    The version takes the place of the note's .version, so that older compilers can be asked.
    Raises UsageError if there is no disassembler, and InfrastructureError if a file of the note is
    broken. What is returned compiles and disassembles once, and raises CannotBeAskedError if the
    compiler does not know the module's target or version, or is the driver's.
    """
    if disassembler is None:
        raise UsageError(
            f"{entry.id} is a note of which machine instructions compilers choose, and no "
            f"nvdisasm is here to show them; install one with `pip install {WHEEL}`, or name "
            "one with --disassembler"
        )
    program = decode_program(entry.read(PROGRAM), str(entry.path / PROGRAM))
    version = str(parse_version(version))
    made = emit(program, module=Module.named(entry.finding.target, entry.finding.ptx_version))
    text = entry.read(MODULE).decode(errors="replace")
    text = with_header(text, target=made.target, version=version)
    module, (kernel,) = replace(made, version=version, ptx=text), made.kernels

    def ask(member: Member) -> Rerun:
        target = module.target
        if member.assembler is None or not member.assembler.knows(target, version, target):
            raise CannotBeAskedError(
                f"{member.version} takes no module with .version {version} and .target {target}"
            )
        compiled = member.compiler.compile(module, target)
        if isinstance(compiled, Failure):
            return Rerun(label="not compiled", kind=None, way=Basis.JUDGED)
        found = disassembler.expansions(compiled.code).get(kernel.entry)
        # No expansion is against the ISA.
        return Rerun(label="none" if found is None else words(found), kind=None, way=Basis.JUDGED)

    return ask


_ANYWHERE: frozenset[Feature] = frozenset()
_SHARED = frozenset({FEATURES["load: .shared"], FEATURES["store: .shared"]})


class BuildNote(NamedTuple):
    """A form whose expansion is another one from some version on."""

    form: str
    before_version: str
    after_version: str
    levels: tuple[int, ...]  # -O levels at which it changed so
    before: str  # matrix instructions with their counts, such as "HMMA.1684 x4"
    after: str
    program: Program

    @property
    def shared(self) -> bool:
        """Whether the program has matrices in shared memory."""
        return in_shared_memory(self.program)

    @property
    def row(self) -> dict[str, object]:
        """The note as a JSON object says it."""
        return {
            "note": EXPANSION,
            "form": self.form,
            "shared": self.shared,
            "from_version": self.before_version,
            "to_version": self.after_version,
            "levels": list(self.levels),
            "before": self.before,
            "after": self.after,
        }


def survey_programs(
    forms: Sequence[Form], *, target: str, version: str, seed: int
) -> Iterator[tuple[Form, Program]]:
    """Iterate over forms and the simplest programs of each; those that need more are left out.

    A multiplication has two: with all matrices in global memory, and with A and D in shared memory,
    where compilers load with instructions of their own (LDSM).
    """
    row, number = parse_target(target), parse_version(version)
    for form in forms:
        for features in (_ANYWHERE, _SHARED)[: 2 if form.mnemonic == "wmma.mma" else 1]:
            focus = Focus(form=form, features=features)
            strategy = programs(focus, module=Module.named(target, version), forms=(form,))
            # The first example that Hypothesis makes is the simplest one there is.
            for program in draw(strategy, 1, derived_seed(seed, "survey", form.opcode)):
                if all(is_available(one, Module(row, number)) for one in requirements(program)):
                    yield form, program


def in_shared_memory(program: Program) -> bool:
    """Whether a program has buffers in shared memory."""
    return any(buffer.space == "shared" for buffer in program.buffers)


def listings(
    matrix: BuildMatrix, built: Built, disassemble: Callable[[bytes], dict[str, Counter[str]]]
) -> Mapping[Member, Mapping[str, Counter[str]]]:
    """Return the matrix instructions of each kernel in each member's binary of a module.

    Binaries whose kernels are all the same are disassembled once; members that did not compile the
    module, or wrote no machine code, are left out. Raises InfrastructureError if the disassembler
    does not take a binary.
    """
    alike: dict[object, bytes] = {}
    codes: dict[Member, bytes] = {}
    for member, made in built.made.items():
        if isinstance(made, Compiled) and is_cubin(made.code):
            kernels: object = made.code
            with suppress(ValueError):
                kernels = tuple(sorted(kernel_digests(made.code).items())) or made.code
            codes[member] = alike.setdefault(kernels, made.code)
    seen = matrix.each(alike.values(), disassemble)
    return {member: seen[code] for member, code in codes.items()}


def notes_of(form: Form, program: Program, seen: Mapping[Member, Counter[str]]) -> list[BuildNote]:
    """Return the changes of a form's expansion from version to version.

    `seen` are the matrix instructions in each member's binary; members oldest first.
    """
    changes: dict[tuple[str, str, str, str], list[int]] = {}
    for own in sorted({(member.level, f"{member.variant}") for member in seen}):
        columns = ((member, words(count)) for member, count in seen.items())
        column = [one for one in columns if own == (one[0].level, f"{one[0].variant}")]
        for (old, before), (new, after) in pairwise(column):
            if before != after:
                changes.setdefault((old.version, new.version, before, after), []).append(own[0])
    return [
        BuildNote(form.opcode, old, new, tuple(levels), before, after, program)
        for (old, new, before, after), levels in changes.items()
    ]


def words(instructions: Counter[str]) -> str:
    """Return matrix instructions with their counts, sorted."""
    counts = sorted(instructions.items())
    return ", ".join(f"{name} x{n}" if n > 1 else name for name, n in counts) or "none"
