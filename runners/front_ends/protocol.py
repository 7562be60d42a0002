"""Front ends: compilers that write PTX from the programs of a module, here and at work."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Unpack

from oracle.errors import UsageError
from oracle.isa.targets import VERSIONS, PtxVersion, parse_target
from oracle.program.ops import AnyOp, Op
from oracle.program.program import Program, by_register, walk
from oracle.program.steps import (
    Barrier,
    Branch,
    Copy,
    Elementwise,
    Loop,
    PlainAccess,
    Scalar,
    Step,
    is_lane_code,
)
from runners.cuda.compilation import DEFAULT_LEVEL, CompilerLimits
from runners.front_ends.child import refused
from runners.kernels import KernelModule
from runners.protocol import ClosedAtTheEnd, Compiled, Failure, Runner, Trouble
from runners.ptx_pass import Rewriter, RewritingRunner, rewritten
from runners.toolchains import Toolchain, version_order
from runners.wheels import fetched_folders


class FrontEnd(ClosedAtTheEnd):
    """A compiler that writes PTX from the programs of a module, at one -O level.

    Parameters
    ----------
    who
        The compiler in words: "nvcc 13.0.88".
    refuser
        The compiler as failures name it; as `who` where it is not given.
    """

    def __init__(self, who: str, level: int, *, refuser: str = "") -> None:
        self._who, self._level, self._refuser = who, level, refuser or who

    @property
    def name(self) -> str:
        """The compiler in words, such as "LLVM 15.0.7 at -O2"."""
        return f"{self._who} at -O{self._level}"

    def __call__(self, module: KernelModule) -> KernelModule | Failure:
        """Return the module with the PTX that it wrote, or why there is none.

        The trouble is UNSUPPORTED where the language or this version of it has no way to say the
        programs; that is no fault of the compiler.
        """
        if not module.programs:
            return refused(
                self._refuser, "has no program to compile: the module was written by hand"
            )
        try:
            text = self._written(module)
        except UsageError as error:
            return Failure(trouble=Trouble.UNSUPPORTED, message=f"{error}")
        if isinstance(text, Failure):
            return text
        ptx = self.compiled(text, module.target, module.version)
        return ptx if isinstance(ptx, Failure) else self._answered(module, ptx)

    @abstractmethod
    def writes(self, target: str, version: str) -> bool:
        """Whether it writes modules of a target that can have what a PTX ISA version has."""

    @abstractmethod
    def _written(self, module: KernelModule) -> str | Failure:
        """Return a module's programs in its language, or why not; or raise UsageError."""

    @abstractmethod
    def compiled(self, text: str, target: str, version: str) -> str | Failure:
        """Return the PTX that a text becomes, or what the compiler said."""

    @abstractmethod
    def _answered(self, module: KernelModule, ptx: str) -> KernelModule | Failure:
        """Return a module with the PTX that was written for it, if that is what was asked for."""

    def _ptx_in(self, answer: Mapping[str, Any] | Failure) -> str | Failure:
        if isinstance(answer, Failure):
            return answer
        if "error" in answer:
            return refused(self._refuser, "refused a module", answer["error"])
        return str(answer["ptx"])

    def close(self) -> None:
        """End what it has running; a command holds nothing open."""


@dataclass(frozen=True, kw_only=True)
class FrontEndToolchain(Toolchain):
    """A front end that is here; a finding names it as a person types it: "llvm:15.0.7"."""

    path: str
    """Where it is; of a command the command."""
    writes_ptx: ClassVar[bool] = True
    takes_commands: ClassVar[bool] = False
    """Whether `by_command` gives one."""
    version_of: ClassVar[Callable[[Path], str] | None] = None
    """As `runners.wheels.unpacked` takes it."""

    @property
    def label(self) -> str:
        """What a finding calls it."""
        return self.spelled

    def says(self, program: Program) -> bool:
        """Whether its language can say a program."""
        return is_named(program)

    def knows(self, target: str, version: str, architecture: str) -> bool:
        """Whether it writes modules of this target and PTX ISA version, by asking it once."""
        return _writes(self, target, version)

    def newest(self, target: str, architecture: str) -> PtxVersion | None:
        """Return the newest PTX ISA version that it writes for a target, by asking it once."""
        return _newest(self, target)

    @abstractmethod
    def opened(self, level: int) -> FrontEnd:
        """Return the compiler, ready to work; UsageError if it has no such level."""

    @classmethod
    def discover(cls) -> Sequence[FrontEndToolchain]:
        """Return those that were installed or fetched, newest first, each version once."""
        found = [
            one
            for folder, version in fetched_folders(cls.kind)
            if version_order(version) and (one := cls.in_cache(folder, version)) is not None
        ]
        return sorted(found, key=lambda one: one.order, reverse=True)

    @classmethod
    @abstractmethod
    def in_cache(cls, folder: Path, version: str) -> FrontEndToolchain | None:
        """Return that of a folder of the cache; None if it holds none."""

    @classmethod
    @abstractmethod
    def in_folder(cls, folder: Path) -> FrontEndToolchain:
        """Return that of a build's or a toolkit's folder, or of its bin; UsageError without one."""

    @classmethod
    def by_command(cls, command: str) -> FrontEndToolchain:
        """Return a command that reads the language and writes PTX; UsageError if it is none."""
        raise UsageError(
            f"{f'{cls.kind}:{command}'!r:.200} names no folder, and commands of {cls.kind} are not "
            "known"
        )

    def compiler(self, level: int, **limits: Unpack[CompilerLimits]) -> FrontEndCompiler:
        """Return what writes PTX at a level; raises as `opened` does."""
        return FrontEndCompiler(self.opened(level))


@cache
def _writes(toolchain: FrontEndToolchain, target: str, version: str) -> bool:
    with toolchain.opened(toolchain.default_level) as front_end:
        return front_end.writes(target, version)


@cache
def _newest(toolchain: FrontEndToolchain, target: str) -> PtxVersion | None:
    known = [one for one in VERSIONS if parse_target(target).known_to(one)]
    with toolchain.opened(toolchain.default_level) as front_end:
        # It knows all versions up to its newest, of those that know the target.
        count = bisect_left(known, True, key=lambda one: not front_end.writes(target, str(one)))
    return known[count - 1] if count else None


class FrontEndRunner(RewritingRunner):
    """A runner behind what writes the PTX of its modules, which is closed together with it."""

    def __init__(self, runner: Runner, front_end: FrontEnd) -> None:
        super().__init__(runner, [])
        self._front_end = front_end

    def compile(self, module: KernelModule) -> Compiled | Failure:
        """Translate a module and compile it; the compiled module holds the front end's text."""
        translated = self._front_end(module)
        if isinstance(translated, Failure):
            return translated
        return super().compile(translated)

    def close(self) -> None:
        """Close the front end and the runner."""
        self._front_end.close()
        super().close()


class FrontEndCompiler:
    """A front end as a compiler whose code is PTX (`runners.cuda.compilation.Compiler`)."""

    rewriters: Sequence[Rewriter] = ()
    """What happens to the PTX that the front end writes, in order."""

    def __init__(self, front_end: FrontEnd) -> None:
        self._front_end = front_end

    def compile(self, module: KernelModule, architecture: str) -> Compiled | Failure:
        """Return the PTX that the front end writes."""
        made = self._front_end(module)
        if not isinstance(made, Failure):
            made = rewritten(made, self.rewriters)
        if isinstance(made, Failure):
            return made
        code = made.ptx.encode()
        return Compiled(
            module=made,
            architecture=architecture,
            compiler=self._front_end.name,
            key=hashlib.sha256(architecture.encode() + b"\0" + code).hexdigest(),
            code=code,
            optimization=DEFAULT_LEVEL,  # of the driver, which compiles what was written
        )

    def close(self) -> None:
        """End what the front end has running."""
        self._front_end.close()


class NamedStepWriter:
    """Writes the steps of a program in a language without registers (`check_named`)."""

    _remark: ClassVar[str]
    """What a comment begins with."""
    add: Callable[[str], None]
    _op: Callable[[AnyOp], None]
    _elements: Callable[[Elementwise], None]
    _registers: Callable[[PlainAccess], None]
    _pack: Callable[[Scalar], None]
    _copy: Callable[[Copy], None]
    _barrier: Callable[[], None]
    _branch: Callable[[Branch], None]
    _loop: Callable[[Loop], None]

    def _write(self, steps: tuple[Step, ...]) -> None:
        """Append steps, each behind what it is as a comment."""
        for step in steps:
            self.add(f"{self._remark} {step}")
            match step:
                case Op():
                    self._op(step)
                case Elementwise():
                    self._elements(step)
                case PlainAccess():
                    self._registers(step)
                case Scalar():
                    self._pack(step)
                case Copy():
                    self._copy(step)
                case Barrier():
                    self._barrier()
                case Branch():
                    self._branch(step)
                case Loop():
                    self._loop(step)


def is_named(program: Program) -> bool:
    """Tell whether a program can be said where values have names, and no registers."""
    return _by_register(program) is None and not _has_lane_code(program)


def check_named(programs: Iterable[Program]) -> None:
    """Raise UsageError if a language without registers cannot say a program.

    There values have names, and the compiler chooses the registers. Code of lanes is PTX.
    """
    for program in programs:
        step = _by_register(program)
        if step is not None:
            raise UsageError(
                f"the step {str(step)!r:.200} says which registers it uses; only PTX can, so run "
                "the program without --front-end"
            )
        if _has_lane_code(program):
            raise UsageError(
                "the program has scalar code, which is said in PTX alone; run it without "
                "--front-end"
            )


def _has_lane_code(program: Program) -> bool:
    return any(is_lane_code(step) for step in walk(program.steps))


def _by_register(program: Program) -> Step | None:
    """Return the first step of a program that says which registers it uses."""
    for step in walk(program.steps):
        registers = step.copies and not step.reads[0].is_fragment
        if registers or any(by_register(step, use) for use in step.uses):
            return step
    return None
