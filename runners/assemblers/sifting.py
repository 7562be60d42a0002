"""Rejecting in bulk: thousands of instructions in one process, by line number.

An error that is found while parsing does not stop ptxas, so one module can hold many instructions.
Three things do stop it. A syntax error ends the parsing of its file; so the instructions are spread
over many files of a few lines, all given to one process. A crash ends the process; so each file
ends with a marker, a line that is always rejected, and the first file without its marker in the
output is the one that did it. An error in text that ptxas brings along spoils its checks of what
comes behind. So what comes behind a crash or such an error is given to the next process.

The marker also keeps every module from the later phases. So an instruction that is not rejected
here has survived, no more (`assembling` goes on from there).

Measured with ptxas 13.5, 2026-11: 18,800 different near-legal instructions, of which 3% are syntax
errors and 5 crash it, took 16 processes and one second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from runners.assemblers.judgements import Response, ToolVerdict
from runners.assemblers.messages import Message, comes_from_inside, parse, text_comes_from_inside
from runners.assemblers.session import ToolSession
from runners.folders import check_space
from runners.instruction_modules import is_contained, rejection_module

_MOST_PER_FILE = 32
# Where more than this share of the instructions has to be parsed again, files get shorter; below
# the second, longer. (Measured: 3% of syntax errors and 8 a file give 10%.)
_OFTEN, _SELDOM = 0.25, 0.05
# 2,048 files of 32 instructions take ptxas 13.5 a second; it prints all the while.
_STALL_SECONDS = 2.0
# What ptxas alone would end with (11.7 to 13.5, 2026-11).
_ENDING = "exit code 255"


@dataclass(kw_only=True)
class Sifted:
    """What became of the instructions."""

    rejected: dict[str, ToolVerdict] = field(default_factory=dict)
    """Instructions with ordinary error messages."""
    survivors: list[str] = field(default_factory=list)
    """Instructions that the parser does not reject."""
    suspects: list[str] = field(default_factory=list)
    """Instructions to be assembled alone: they stopped the process, or had an internal error."""


@dataclass(kw_only=True)
class _File:
    instructions: Sequence[str]
    lines: tuple[int, ...]
    marker: int
    errors: dict[int, list[Message]] = field(default_factory=dict)
    """Errors by line."""

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


def sift(session: ToolSession, instructions: Sequence[str]) -> Sifted:
    """Sort different instructions into rejected ones, survivors and suspects."""
    sifted = Sifted()
    contained: list[str] = []
    others: list[str] = []
    for text in instructions:
        (contained if is_contained(text) else others).append(text)
    left = contained
    per_file = session.per_file
    while left:
        again, singles = _pass(session, left, per_file, sifted)
        others += singles
        if left is contained:
            _adapt(session, len(again) / len(left))
        left = again
        per_file = max(1, per_file // 2)
    left = others
    while left:
        left, _ = _pass(session, left, 1, sifted)
    return sifted


def _adapt(session: ToolSession, share: float) -> None:
    if share > _OFTEN:
        session.per_file = max(1, session.per_file // 2)
    elif share < _SELDOM:
        session.per_file = min(_MOST_PER_FILE, session.per_file * 2)


def _pass(
    session: ToolSession, instructions: Sequence[str], per_file: int, sifted: Sifted
) -> tuple[list[str], list[str]]:
    """Sift once; return what was not reached, and what needs a file of its own."""
    again: list[str] = []
    singles: list[str] = []
    size = per_file * session.files_at_once
    for start in range(0, len(instructions), size):
        files = list(_write(session, instructions[start : start + size], per_file))
        first = 0
        while first < len(files):
            after = _run(session, files, first)
            for file in files[first:after]:
                _read(file, sifted, again, singles)
            first = after
    return again, singles


def _write(session: ToolSession, instructions: Sequence[str], per_file: int) -> Iterator[_File]:
    for index, start in enumerate(range(0, len(instructions), per_file)):
        part = instructions[start : start + per_file]
        listing, marker = rejection_module(
            part, entry=f"k{index}", target=session.target, version=session.version
        )
        session.write(f"{index}.ptx", listing.text)
        yield _File(instructions=part, lines=listing.lines, marker=marker)


def _run(session: ToolSession, files: Sequence[_File], first: int) -> int:
    """Give the files from `first` on to one process; return the index behind those it got to."""
    names = [f"{index}.ptx" for index in range(first, len(files))]
    stall = min(_STALL_SECONDS, session.deadline)
    finished = session.run(names, deadline=session.deadline + 0.01 * len(names), stall=stall)
    numbers = {name: index for index, name in enumerate(names, first)}
    read = first - 1  # the last file that was read to its end, or to its syntax error
    last = first - 1  # the last file that anything was printed about
    for error in parse(finished.output).errors:
        if error.is_foreign:
            # The text that it brought along is broken, and so are its checks from here on: ptxas
            # 11.8 to 12.9 no longer looks at versions and targets then (2026-11).
            last = min(read + 1, len(files) - 1)
            if last > read:
                files[last].errors.clear()
            return last + 1
        if error.file in numbers and error.line is not None:
            last = numbers[error.file]
            files[last].errors.setdefault(error.line, []).append(error)
            if error.line == files[last].marker or error.severity == "fatal":
                read = last
    if last + 1 < len(files):
        check_space(session.folder)
        # The next one printed nothing, not even for its marker: the process ended there.
        last += 1
    return last + 1


def _read(file: _File, sifted: Sifted, again: list[str], singles: list[str]) -> None:
    stray = file.stray
    reached = file.parsed_to
    if stray or not reached:
        # What cannot be told here is told by a file of its own, or else by a process of its own.
        if len(file.instructions) > 1:
            singles.extend(file.instructions)
            return
        if not reached:
            sifted.suspects.extend(file.instructions)
            return
    # What is not contained has a file of its own.
    contained = len(file.instructions) > 1 or is_contained(file.instructions[0])
    for index, (text, line) in enumerate(zip(file.instructions, file.lines, strict=True)):
        # Strays are those of the only instruction.
        errors = file.errors.get(line, []) + stray
        if index >= reached:
            again.append(text)
        elif not errors:
            sifted.survivors.append(text)
        elif any(
            comes_from_inside(
                error, instruction=text, contained=contained, at=line, lines=file.marker
            )
            for error in stray
        ) or any(
            text_comes_from_inside(error.text, instruction=text, contained=contained)
            for error in errors
        ):
            sifted.suspects.append(text)
        else:
            sifted.rejected[text] = ToolVerdict(
                outcome=Response.REJECTED, messages=tuple(map(str, errors)), ending=_ENDING
            )
