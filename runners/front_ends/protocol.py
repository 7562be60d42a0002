"""Front ends: compilers that write PTX from the programs of a module, here and at work."""

from __future__ import annotations

import hashlib
import re
import sys
import time
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Unpack

from oracle.errors import InfrastructureError, UsageError
from oracle.isa.targets import PtxVersion, parse_target, versions_of
from oracle.program.program import Program, by_register, walk
from oracle.program.steps import Op, Step, is_lane_code
from runners.cuda.compilation import DEFAULT_LEVEL, CompilerLimits
from runners.foreign import Rewriter, rewritten
from runners.kernels import Kernel, KernelModule
from runners.processes import (
    OUTPUT_LIMIT,
    NoAnswerError,
    SupervisedChild,
    check_program,
    quoted,
    run_tool,
    words_of,
)
from runners.protocol import ClosedAtTheEnd, Compiled, Failure, ForwardingRunner, Runner, Trouble
from runners.ptx_text import header
from runners.toolchains import Toolchain, fetched_folders, version_order

_PROCESS = Path(__file__).with_name("compiler_process.py")
_START_SECONDS = 60.0
"""Time in which a compiler must be loaded: 1 s here, and many times that on a busy machine."""
_TEMPORARY = re.compile(r"\S*tmpxft_\S*?_stdin")
"""What nvcc calls its standard input in messages: another file every time."""


class FrontEnd(ClosedAtTheEnd):
    """A compiler, in words "nvcc 13.0.88", that writes PTX from programs at one -O level."""

    rewriters: Sequence[Rewriter] = ()
    """What happens to the PTX that it writes as a compiler, in order."""

    def __init__(self, who: str, level: int, engine: Child | Piped) -> None:
        self._who, self._level, self._engine = who, level, engine

    @property
    def name(self) -> str:
        """The compiler in words, such as "LLVM 15.0.7 at -O2"."""
        return f"{self._who} at -O{self._level}"

    def __call__(self, module: KernelModule) -> KernelModule | Failure:
        """Return the module with its PTX; UNSUPPORTED if it cannot say the programs."""
        if not module.programs:
            return refused(self._who, "has no program to compile: the module was written by hand")
        try:
            text = self._written(module)
        except UsageError as error:
            return Failure(trouble=Trouble.UNSUPPORTED, message=f"{error}")
        if isinstance(text, Failure):
            return text
        ptx = self.compiled(text, module.target, module.version)
        if isinstance(ptx, Failure):
            return ptx
        target, version = header(ptx)
        known = target == module.target and version_order(version) >= version_order(module.version)
        # LLVM takes another target for one that it does not know, with a warning alone.
        if target and version and not known:
            return Failure(
                trouble=Trouble.UNSUPPORTED,
                message=f"{self._who} writes .target {target} and .version {version} where "
                f"{module.target} and {module.version} are asked for: it does not know them",
            )
        return replace(module, ptx=ptx)

    def compile(self, module: KernelModule, architecture: str) -> Compiled | Failure:
        """Return what it writes as code (`runners.cuda.compilation.Compiler`)."""
        made = self(module)
        if not isinstance(made, Failure):
            made = rewritten(made, self.rewriters)
        if isinstance(made, Failure):
            return made
        code = made.ptx.encode()
        return Compiled(
            module=made,
            architecture=architecture,
            compiler=self.name,
            key=hashlib.sha256(architecture.encode() + b"\0" + code).hexdigest(),
            code=code,
            optimization=DEFAULT_LEVEL,  # of the driver, which compiles what was written
        )

    def compiled(self, text: str, target: str, version: str) -> str | Failure:
        """Return the PTX that a text becomes, or what the compiler said."""
        return self._engine.made(text, target, version, self._level)

    @abstractmethod
    def writes(self, target: str, version: str) -> bool:
        """Whether it writes modules of a target that can have what a PTX ISA version has."""

    @abstractmethod
    def _written(self, module: KernelModule) -> str | Failure:
        """Return a module's programs in its language, or why not; or raise UsageError."""

    def close(self) -> None:
        """End what it has running."""
        self._engine.close()


@dataclass(frozen=True, kw_only=True)
class FrontEndToolchain(Toolchain):
    """A front end that is here; a finding names it as a person types it: "llvm:15.0.7"."""

    path: str  # where it is; of a command the command
    writes_ptx: ClassVar[bool] = True
    takes_commands: ClassVar[bool] = False  # whether `by_command` gives one
    version_of: ClassVar[Callable[[Path], str] | None] = None  # as `runners.toolchains` takes it

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
            toolchain
            for folder, version in fetched_folders(cls.kind)
            if version_order(version) and (toolchain := cls.in_cache(folder, version)) is not None
        ]
        return sorted(found, key=lambda each: each.order, reverse=True)

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

    def compiler(self, level: int, **limits: Unpack[CompilerLimits]) -> FrontEnd:
        """Return what writes PTX at a level; raises as `opened` does."""
        return self.opened(level)


@cache
def _writes(toolchain: FrontEndToolchain, target: str, version: str) -> bool:
    with toolchain.opened(toolchain.default_level) as front_end:
        return front_end.writes(target, version)


@cache
def _newest(toolchain: FrontEndToolchain, target: str) -> PtxVersion | None:
    known = versions_of(parse_target(target))
    with toolchain.opened(toolchain.default_level) as front_end:
        # It knows all versions up to its newest, of those that know the target.
        count = bisect_left(known, True, key=lambda each: not front_end.writes(target, str(each)))
    return known[count - 1] if count else None


class FrontEndRunner(ForwardingRunner):
    """A runner behind what writes the PTX of its modules, which is closed together with it."""

    def __init__(self, runner: Runner, front_end: FrontEnd) -> None:
        super().__init__(runner)
        self._front_end = front_end

    def compile(self, module: KernelModule) -> Compiled | Failure:
        """Translate a module and compile it; the compiled module holds the front end's text."""
        made = self._front_end(module)
        return made if isinstance(made, Failure) else super().compile(made)

    def close(self) -> None:
        """Close the front end and the runner."""
        self._front_end.close()
        super().close()


def refused(who: str, what: str, detail: str = "") -> Failure:
    """Return the failure of a front end that gave no PTX: `what` became of it, and its words."""
    return Failure(
        trouble=Trouble.COMPILE_FAILURE, message=f"the front end {who} {what}", detail=detail
    )


class Child:
    """A process of `compiler_process` that is started when it is asked, again after it died."""

    def __init__(
        self, kind: str, *arguments: str | Path, who: str, seconds: float,
        python: Path | None = None,
    ) -> None:  # fmt: skip
        # -I: nothing is imported from the current folder, or by way of the environment.
        self._command = [str(python or sys.executable), "-I", str(_PROCESS), kind]
        self._arguments = [*map(str, arguments)]
        self._who, self._seconds = who, seconds
        self._child: SupervisedChild | None = None

    def version(self, what: str, advice: str) -> str:
        """Start the process; return the version that it says, or raise InfrastructureError."""
        answer = self._start()
        if isinstance(answer, Failure):
            raise InfrastructureError(f"{what} cannot be run: {answer.message}; {advice}")
        return str(answer["version"])

    def made(self, text: str, target: str, version: str, level: int) -> str | Failure:
        """Return the PTX that a text becomes, or what the compiler said."""
        answer = self.asked({"text": text, "target": target, "version": version, "level": level})
        if isinstance(answer, Failure):
            return answer
        if "error" in answer:
            return refused(self._who, "refused a module", answer["error"])
        return str(answer["ptx"])

    def _start(self) -> dict[str, Any] | Failure:
        try:
            self._child = SupervisedChild(self._command, *self._arguments)
        except OSError as error:
            return refused(self._who, f"cannot be started ({error})")
        return self._answer(self._child, _START_SECONDS)

    def asked(self, request: Mapping[str, Any]) -> dict[str, Any] | Failure:
        """Return the answer to a request."""
        if self._child is None and isinstance(started := self._start(), Failure):
            return started
        assert self._child is not None
        # Of a failure only its own words are told.
        self._child.forget_log()
        self._child.send(request)
        return self._answer(self._child, self._seconds)

    def _answer(self, child: SupervisedChild, seconds: float) -> dict[str, Any] | Failure:
        """Return the next answer of the process; without one, end it."""
        how, log = "gave no answer", ""
        try:
            answer = child.receive(deadline=time.monotonic() + seconds)
            if isinstance(answer, dict):
                return answer
        except NoAnswerError as error:
            log = error.log
            if error.trouble is not Trouble.CORRUPTED_REPLY and child.process.returncode != 0:
                how = error.how
        self.close()
        return refused(self._who, how, log)

    def close(self) -> None:
        """End the process; the next request starts another."""
        if self._child is not None:
            self._child.end()
            self._child = None


def stages(command: str) -> list[list[str]]:
    """Return the words of a command's programs, between ` | `; UsageError if one is missing."""
    found: list[list[str]] = [[]]
    for word in words_of(command):
        if word == "|":
            found.append([])
        else:
            found[-1].append(word)
    if not all(found):
        raise UsageError(
            f"{quoted(command)} is no command: a program is missing; name a program and its "
            "options, with ' | ' before a second one"
        )
    return found


def check_there(programs: Sequence[Sequence[str]], spelled: str) -> None:
    """Raise UsageError if a program of a command cannot be executed."""
    for words in programs:
        check_program(words[0], f"--front-end {quoted(spelled)}")


class Piped:
    """A command, as `stages` takes it, each program of which may take so many seconds.

    `{level}`, `{target}` ("sm_80") and `{ptx}` (LLVM's feature, "ptx71") are filled in.
    """

    def __init__(self, command: str, *, who: str, seconds: float) -> None:
        self._programs, self._who, self._seconds = stages(command), who, seconds

    def made(self, text: str, target: str, version: str, level: int) -> str | Failure:
        """Return what the programs, one after the other, make of a text."""
        given = text.encode()
        for words in self._programs:
            program = Path(words[0]).name
            words = [filled_in(word, target, version, level) for word in words]
            try:
                finished = run_tool(words, deadline=self._seconds, given=given)
            except OSError as error:
                return refused(self._who, f"cannot be run ({words[0]}: {error}); check its path")
            errors = _TEMPORARY.sub("programs.cu", finished.errors)
            if len(finished.output) >= OUTPUT_LIMIT:
                said = f"({program}) wrote {OUTPUT_LIMIT >> 20} MiB and more"
                return refused(self._who, said, errors)
            if finished.status != 0:
                return refused(self._who, f"({program}) {finished.ending}", errors)
            given = finished.output
        return given.decode(errors="replace")

    def close(self) -> None:
        """Hold nothing open."""


def filled_in(command: str, target: str, version: str, level: int) -> str:
    """Return a command with what stands for a part of a word replaced (`Piped`)."""
    feature = f"ptx{version.replace('.', '')}"
    for word, value in (("{level}", str(level)), ("{target}", target), ("{ptx}", feature)):
        command = command.replace(word, value)
    return command


def is_named(program: Program) -> bool:
    """Tell whether a program can be said where values have names, and no registers."""
    return _unnamed(program) is None


def check_named(programs: Iterable[Program]) -> None:
    """Raise UsageError if a language where values have names, and no registers, lacks a program."""
    for program in programs:
        if (reason := _unnamed(program)) is not None:
            raise UsageError(reason)


def _unnamed(program: Program) -> str | None:
    if program.warps > 1:
        return "a warpgroup's program is said in PTX alone; run it without --front-end"
    steps = list(walk(program.steps))
    for step in steps:
        registers = step.copies and not step.reads[0].is_fragment
        if registers or any(by_register(step, use) for use in step.uses):
            return (
                f"the step {str(step)!r:.200} says which registers it uses; only PTX can, so run "
                "the program without --front-end"
            )
    if any(map(is_lane_code, steps)):
        return "the program has scalar code, which is said in PTX alone; run it without --front-end"
    return None


_VERBS = {"multiply_registers": "multiply", "load": "access", "store": "access"}
_VERBS |= {"load_rows": "rows", "store_rows": "rows"}
"""What `Op.action` is called here."""


@dataclass(kw_only=True)
class NamedStepWriter:
    """Writes a program (`check_named`) as a kernel of a language without registers, by lines.

    A language has a method for each kind of step: `_multiply`, `_access`, `_rows`, `_move`, ….
    """

    program: Program  # what the kernel does to one image
    kernel: Kernel  # its name, and the sizes of its image and of its shared memory
    lines: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)  # variables of the module that it reads
    count: int = 0  # names that were made
    remark: ClassVar[str]  # what a comment begins with

    def add(self, *texts: str) -> None:
        """Append lines."""
        raise NotImplementedError

    def write(self, steps: tuple[Step, ...]) -> None:
        """Append steps, each behind what it is as a comment."""
        for step in steps:
            self.add(f"{self.remark} {step}")
            verb = step.action if isinstance(step, Op) else type(step).__name__.lower()
            getattr(self, f"_{_VERBS.get(verb, verb)}")(step)
