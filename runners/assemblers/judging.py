"""Judges instructions with an assembler: thousands at a time, each as if it were alone.

First they are sifted: rejected in bulk, by line number, since an error in parsing does not stop
ptxas. A syntax error ends its file, so there are many short files; a crash ends the process, so
each file ends with a marker that is always rejected; an error in text that ptxas brings along
spoils its checks of what comes behind, which the next process gets. What is not rejected is
assembled in groups that are halved where they fail. (18,800 near-legal instructions took 16
processes and one second with ptxas 13.5, 2026-11.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.assembler import MEMORY_BYTES, Assembler, asked
from runners.assemblers.judgements import (
    Judgement,
    Message,
    Response,
    ToolVerdict,
    assembly_module,
    checked,
    comes_from_inside,
    is_contained,
    minimal_module,
    parse,
    rejection_module,
    text_comes_from_inside,
    verdict_of,
)
from runners.folders import check_space, temporary_folder, writing
from runners.ptx_text import header

DEADLINE_SECONDS = 5.0  # time for one instruction on its own; ptxas 13.5 takes 0.02 s (2026-11)
_REMEMBERED = 200_000  # judgements, of about 1 kB
_BATCH = 8192  # instructions that are sifted at a time: bounds memory, and the files in the folder
_FILES_AT_ONCE = 2048
_PER_FILE, _MOST_PER_FILE = 16, 32  # instructions of a file, where sifting starts from, and at most
_OFTEN, _SELDOM = 0.25, 0.05
"""Shares of instructions to be parsed again from which on files get shorter, and longer below."""
_STALL_SECONDS = 2.0
"""2,048 files of 32 instructions take ptxas 13.5 a second; it prints all the while."""
_ENDING = "exit code 255"  # what ptxas alone would end with (11.7 to 13.5, 2026-11)
_PER_ENTRY = 8
_SECONDS_FOR_EACH, _LEAST_SECONDS = 0.02, 1.0
"""An instruction takes below 2 ms; a group that is stopped early is halved."""
_TARGET = re.compile(r"sm_\d{2,4}[a-z]?")
_VERSION = re.compile(r"\d+\.\d+")
_GOOD = ("mov.b32 %r0, %r1;", "add.s32 %r0, %r1, %r2;")
"""Of no matrix instruction, so that every target and version has them."""
_BAD = ("warpfuzz_bad_1 %r0;", "warpfuzz_bad_2 %r0;")


class Doubt(IntEnum):
    """How likely an instruction fails that was not rejected in bulk: a hint for speed alone."""

    NONE = 0
    """The instruction is expected to assemble."""
    SOME = 1
    STRONG = 2
    """One like it failed."""


_GROUPS = {Doubt.NONE: 256, Doubt.SOME: 16, Doubt.STRONG: 1}
"""Most instructions of a group. A process takes 25 ms to start, as long as 25 instructions take in
it (ptxas 13.5, 2026-11); a failing group costs log2 of its size in processes."""


@dataclass(kw_only=True)
class _File:
    """A file of instructions that is given to one process with others."""

    instructions: Sequence[str]
    lines: tuple[int, ...]
    errors: dict[int, list[Message]] = field(default_factory=dict)  # by line

    @property
    def marker(self) -> int:
        """Line of the marker."""
        return self.lines[-1] + 2

    @property
    def parsed_to(self) -> int | None:
        """Instructions that were parsed; None where the output does not tell."""
        for line, messages in self.errors.items():
            if any(message.severity == "fatal" for message in messages):
                return sum(at <= line for at in self.lines)
        return len(self.lines) if self.marker in self.errors else None

    @property
    def stray(self) -> list[Message]:
        """Errors behind the last instruction that are not the marker's own."""
        return [
            message
            for line, messages in self.errors.items()
            if line > self.lines[-1]
            for message in messages
            if line != self.marker or message.severity == "fatal"
        ]


def _assembled(
    assembler: Assembler, module: str, folder: Path, *, target: str, deadline: float,
    options: tuple[str, ...] = (), memory_bytes: int = MEMORY_BYTES,
) -> tuple[ToolVerdict, str]:  # fmt: skip
    """Assemble one module in a folder; return what became of it, and all that was printed."""
    cubin = folder / "a.cubin"
    cubin.unlink(missing_ok=True)
    files = assembler.variant.files("a.ptx", module)
    with writing(folder):
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    command = *options, *assembler.variant.command(target), *files, "-o", "a.cubin"
    finished = asked(
        assembler.path, *command, folder=folder, deadline=deadline, memory_bytes=memory_bytes
    )
    verdict = verdict_of(finished, cubin, module)
    if verdict.outcome not in (Response.ACCEPTED, Response.REJECTED):
        check_space(folder)
    return verdict, finished.text


def judge_module(
    assembler: Assembler,
    module: str,
    *,
    target: str | None = None,
    level: int | None = None,
    deadline: float = DEADLINE_SECONDS,
    memory_bytes: int = MEMORY_BYTES,
) -> ToolVerdict:
    """Judge a whole module, such as the stored file of a finding, for its own or another target.

    `level`: of -O; None: the assembler's default. `deadline`: seconds after which it hangs. Raises
    UsageError without a target; InfrastructureError if it cannot be started, or the disk is full.
    """
    target = target or header(module)[0]
    if not target:
        raise UsageError("the module has no .target directive; name the target to assemble it for")
    options = () if level is None else (f"-O{level}",)
    with temporary_folder() as folder:
        return _assembled(
            assembler, module, folder, target=target, deadline=deadline, options=options,
            memory_bytes=memory_bytes,
        )[0]  # fmt: skip


class ToolJudge:
    """Says what an assembler does with instructions, for one target and PTX ISA version.

    Every verdict but accepted and ordinarily rejected is that of the instruction alone. Identical
    texts are judged once. `deadline`: seconds for one instruction. Raises UsageError if it
    does not take the target or version; InfrastructureError if it does not work as one does.
    """

    def __init__(
        self,
        assembler: Assembler,
        *,
        target: str,
        version: str,
        deadline: float = DEADLINE_SECONDS,
    ) -> None:
        if not _TARGET.fullmatch(target) or not _VERSION.fullmatch(version):
            raise UsageError(
                f".target {target!r} with .version {version!r} cannot be asked for; they are "
                'written like "sm_90" and "8.0"'
            )
        if not deadline > 0:
            raise UsageError(f"a deadline of {deadline} s was given; give one above 0")
        self.assembler, self._deadline = assembler, deadline
        self._place = {"target": target, "version": version}
        self.processes = 0
        """Processes run so far."""
        self._folder = Path()
        self._files_at_once, self._per_file = _FILES_AT_ONCE, _PER_FILE
        """Modules that one process is given to reject, and instructions in each of them: adapted to
        how often one ends its module's parsing."""
        self._known: dict[str, Judgement] = {}
        self._check_itself()

    def judge(
        self,
        instructions: Sequence[str],
        doubt: Callable[[str], Doubt] = lambda instruction: Doubt.NONE,
    ) -> list[Judgement]:
        """Judge instructions, one line of text each; the result has the order of the input.

        `doubt`: how likely each fails after it was parsed, a hint for speed. Raises UsageError if a
        text is not one line, InfrastructureError if the assembler cannot be started.
        """
        texts = [checked(text) for text in instructions]
        judgements = {text: self._known[text] for text in texts if text in self._known}
        fresh = [text for text in dict.fromkeys(texts) if text not in judgements]
        for start in range(0, len(fresh), _BATCH):
            with self._within():
                self._sift(fresh[start : start + _BATCH])
                judged = (
                    *(self._judgement(*pair) for pair in self._rejected.items()),
                    *map(self._judge_alone, self._suspects),
                    *self._assemble(doubt),
                )
            judgements.update((judgement.instruction, judgement) for judgement in judged)
        self._known.update((text, judgements[text]) for text in fresh)
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return [judgements[text] for text in texts]

    @contextmanager
    def _within(self) -> Iterator[None]:
        """Work in a private folder, with nothing sifted yet."""
        with temporary_folder() as self._folder:
            self._rejected: dict[str, ToolVerdict] = {}
            """Sifted instructions with ordinary error messages."""
            self._survivors: list[str] = []
            """Those that the parser does not reject."""
            self._suspects: list[str] = []
            """Those to be assembled alone: they stopped the process, or had an internal error."""
            yield

    def _check_itself(self) -> None:
        # A program around an assembler may take one file only.
        for self._files_at_once in (_FILES_AT_ONCE, 1):
            with self._within():
                first = self._judge_alone(_GOOD[0])
                if first.outcome in (Response.REJECTED, Response.INTERNAL):
                    raise UsageError(
                        f"{self.assembler} does not take .target {first.target} with .version "
                        f"{first.version}: {first.messages[0]}"
                    )
                if first.outcome is not Response.ACCEPTED:
                    break
                self._per_file = 2
                self._sift([_GOOD[0], _BAD[0], _GOOD[1], _BAD[1]])
                self._per_file = _PER_FILE
                if {*self._survivors} == {*_GOOD} and {*self._rejected} == {*_BAD}:
                    return
        raise InfrastructureError(
            f"{self.assembler.path} does not work as an assembler does: {_GOOD[0]!r} was "
            f"{first.outcome.name.lower()} ({first.ending}), and lines that it must reject were "
            "not all named; give the path of a ptxas"
        )

    def _judgement(
        self, instruction: str, verdict: ToolVerdict, *, results_stored: bool = False
    ) -> Judgement:
        return Judgement(
            instruction=instruction, outcome=verdict.outcome, messages=verdict.messages,
            ending=verdict.ending, results_stored=results_stored, **self._place,
        )  # fmt: skip

    # Assembling

    def _try(self, module: str, deadline: float) -> tuple[ToolVerdict, str]:
        self.processes += 1
        target = self._place["target"]
        return _assembled(self.assembler, module, self._folder, target=target, deadline=deadline)

    def _judge_alone(self, instruction: str) -> Judgement:
        """Judge an instruction in a minimal module; where that is accepted, with results stored."""
        for stored in (False, True):
            module = minimal_module(instruction, results_stored=stored, **self._place)
            verdict, _ = self._try(module, self._deadline)
            if verdict.outcome is not Response.ACCEPTED:
                return self._judgement(instruction, verdict, results_stored=stored)
        return self._judgement(instruction, verdict)

    def _assemble(self, doubt: Callable[[str], Doubt]) -> Iterator[Judgement]:
        """Judge instructions that sifting did not reject; they come in no particular order."""
        doubted = {text: doubt(text) for text in self._survivors}
        for level, size in _GROUPS.items():
            # Those that are alike stand together, where a group holds what fails or what does not.
            alike = sorted(text for text, its in doubted.items() if its is level)
            for start in range(0, len(alike), size):
                yield from self._settle(alike[start : start + size])

    def _settle(self, group: Sequence[str], *, fails: bool = False) -> Iterator[Judgement]:
        """Judge a group; `fails`: it is known to, and need not be tried as a whole."""
        if len(group) == 1:
            yield self._judge_alone(group[0])
            return
        named: list[str] = []
        if not fails:
            module, lines = assembly_module(group, per_entry=_PER_ENTRY, **self._place)
            seconds = min(self._deadline, _LEAST_SECONDS + _SECONDS_FOR_EACH * len(group))
            verdict, output = self._try(module, seconds)
            told: dict[int, list[str]] = {}
            for message in parse(output)[0]:
                if message.line is not None and not message.is_foreign:
                    told.setdefault(message.line, []).append(str(message))
            if verdict.outcome is Response.ACCEPTED:
                for text, line in zip(group, lines, strict=True):
                    warnings = tuple(told.get(line, ()))
                    accepted = ToolVerdict(outcome=Response.ACCEPTED, messages=warnings)
                    yield self._judgement(text, accepted)
                return
            named = [text for text, line in zip(group, lines, strict=True) if line in told]
        if 0 < len(named) < len(group):
            yield from map(self._judge_alone, named)
            yield from self._settle([text for text in group if text not in named])
            return
        middle = len(group) // 2
        first = list(self._settle(group[:middle]))
        yield from first
        at_fault = all(judgement.outcome is Response.ACCEPTED for judgement in first)
        yield from self._settle(group[middle:], fails=at_fault)

    # Sifting

    def _sift(self, instructions: Sequence[str]) -> None:
        """Sort different instructions into rejected ones, survivors and suspects."""
        contained = [text for text in instructions if is_contained(text)]
        others = [text for text in instructions if not is_contained(text)]
        left, per_file = contained, self._per_file
        while left:
            again, singles = self._pass(left, per_file)
            others += singles
            if left is contained and len(again) > _OFTEN * len(left):
                self._per_file = max(1, self._per_file // 2)
            elif left is contained and len(again) < _SELDOM * len(left):
                self._per_file = min(_MOST_PER_FILE, self._per_file * 2)
            left, per_file = again, max(1, per_file // 2)
        left = others
        while left:
            left, _ = self._pass(left, 1)

    def _pass(self, instructions: Sequence[str], per_file: int) -> tuple[list[str], list[str]]:
        """Sift once; return what was not reached, and what needs a file of its own."""
        again: list[str] = []
        singles: list[str] = []
        size = per_file * self._files_at_once
        for start in range(0, len(instructions), size):
            part = instructions[start : start + size]
            files: list[_File] = []
            for first in range(0, len(part), per_file):
                some = part[first : first + per_file]
                module, lines = rejection_module(some, entry=f"k{len(files)}", **self._place)
                with writing(self._folder):
                    path = self._folder / f"{len(files)}.ptx"
                    path.write_text(module, encoding="utf-8")
                files.append(_File(instructions=some, lines=lines))
            first = 0
            while first < len(files):
                after = self._given(files, first)
                for file in files[first:after]:
                    self._read(file, again, singles)
                first = after
        return again, singles

    def _given(self, files: Sequence[_File], first: int) -> int:
        """Give files, from one on, to one process; return the index behind those it got to."""
        names = {f"{index}.ptx": index for index in range(first, len(files))}
        self.processes += 1
        finished = asked(
            self.assembler.path, *self.assembler.variant.command(self._place["target"]), *names,
            folder=self._folder, deadline=self._deadline + 0.01 * len(names),
            stall=min(_STALL_SECONDS, self._deadline),
        )  # fmt: skip
        read = first - 1  # the last file that was read to its end, or to its syntax error
        last = first - 1  # the last file that anything was printed about
        for error in parse(finished.text)[0]:
            if not error.is_error:
                continue
            if error.is_foreign:
                # The text that it brought along is broken, and so are its checks from here on:
                # ptxas 11.8 to 12.9 no longer looks at versions and targets then (2026-11).
                last = min(read + 1, len(files) - 1)
                if last > read:
                    files[last].errors.clear()
                return last + 1
            if error.file in names and error.line is not None:
                last = names[error.file]
                files[last].errors.setdefault(error.line, []).append(error)
                if error.line == files[last].marker or error.severity == "fatal":
                    read = last
        if last + 1 < len(files):
            check_space(self._folder)
            # The next one printed nothing, not even for its marker: the process ended there.
            last += 1
        return last + 1

    def _read(self, file: _File, again: list[str], singles: list[str]) -> None:
        stray, reached = file.stray, file.parsed_to
        if stray or not reached:
            # A file of its own tells what cannot be told here, or else a process of its own.
            if len(file.instructions) > 1:
                singles.extend(file.instructions)
                return
            if not reached:
                self._suspects.extend(file.instructions)
                return
        # What is not contained has a file of its own.
        contained = len(file.instructions) > 1 or is_contained(file.instructions[0])
        for index, (text, line) in enumerate(zip(file.instructions, file.lines, strict=True)):
            # Strays are those of the only instruction.
            errors = file.errors.get(line, []) + stray
            if index >= reached:
                again.append(text)
            elif not errors:
                self._survivors.append(text)
            elif any(
                comes_from_inside(
                    error, instruction=text, contained=contained, at=line, lines=file.marker
                )
                for error in stray
            ) or any(
                text_comes_from_inside(error.text, instruction=text, contained=contained)
                for error in errors
            ):
                self._suspects.append(text)
            else:
                self._rejected[text] = ToolVerdict(
                    outcome=Response.REJECTED, messages=tuple(map(str, errors)), ending=_ENDING
                )
