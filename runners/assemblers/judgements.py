"""What an assembler prints and how it ends, and what that says: from accepting to hanging."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from runners.instruction_modules import ABOVE_THE_INSTRUCTION, is_contained, minimal_module
from runners.processes import Finished
from runners.ptx_text import CUBIN_HEADER_BYTES, is_cubin

# "ptxas a.ptx, line 6; error   : ...", "ptxas <builtin>, line 22; error   : ...",
# "ptxas fatal   : ..." (ptxas 11.7 to 13.5, 2026-11).
_MESSAGE = re.compile(
    r"\S+\s+(?:(\S[^,]*), line (\d+); )?"
    r"(info|advisory|warning|error|fatal)\s*: (.*)"
)
_TRAILER = "Ptx assembly aborted due to errors"
_CORE = re.compile(
    r"segmentation fault|core dumped|bus error|illegal instruction|terminate called"
    r"|assertion .*failed|stack smashing|double free|stack trace|\baborted\b(?! due to errors)",
    re.IGNORECASE,
)
_FROM_INSIDE = re.compile(
    r"internal (?:compiler |assembler )?error|unresolved extern|undefined function"
    r"|call prototype|assertion|unreachable|unexpected exception",
    re.IGNORECASE,
)
_INTERNAL_NAME = re.compile(r"(?<![\w$])__\w+")
_NAMED_INSTRUCTION = re.compile(r"(?:instruction|specified for) '([a-z_]\w*)[^']*'")
_NEAR = re.compile(r"Parsing error near '(.*)'")
_QUOTED = re.compile(r"''[^']*'[^']*'|'[^']*'")
_NUMBER = re.compile(r"(?<![\dC])\d+(?:\.\d+)?")
"""A number, but not that of an internal error: "(C7907) Internal compiler error"."""
_SIGNAL_CODES = range(129, 192)
"""A shell reports that a signal ended a program as 128 + its number (POSIX.1-2017, 2.8.2); ptxas
itself exits with 255 (11.7 to 13.5, 2026-11)."""
_STRANGE_LINES = 20
"""Lines of no known kind that a verdict keeps."""


class Message(NamedTuple):
    """One line of an assembler's output; a tuple, because tens of thousands a second are made."""

    severity: str
    """"info", "advisory", "warning", "error" or "fatal"."""
    text: str
    file: str | None = None
    """File that the message names; "<builtin>" and the like where it is none of ours."""
    line: int | None = None
    """Line in that file, counted from 1."""

    @property
    def is_foreign(self) -> bool:
        """Whether the message is about text that the assembler brought along."""
        return self.file is not None and self.file.startswith("<")

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.text}" if self.is_foreign else self.text


class Output(NamedTuple):
    """What one process printed, sorted."""

    messages: tuple[Message, ...]
    strange: tuple[str, ...]
    """Lines of no known kind."""

    @property
    def errors(self) -> tuple[Message, ...]:
        """The messages that reject a module, each alone."""
        return tuple(one for one in self.messages if one.severity in ("error", "fatal"))


def parse(output: str) -> Output:
    """Sort the lines of an assembler's output."""
    messages, strange = [], []
    for line in output.splitlines():
        match = _MESSAGE.fullmatch(line)
        if match is None:
            if line.strip():
                strange.append(line)
            continue
        file, number, severity, text = match.groups()
        if text != _TRAILER:
            messages.append(Message(severity, text.rstrip(), file, int(number) if number else None))
    return Output(tuple(messages), tuple(strange))


def comes_from_inside(
    message: Message, *, instruction: str, contained: bool, at: int | None, lines: int
) -> bool:
    """Whether an error message is about the assembler's own inside, not about the instruction.

    It is where it names text that the assembler brought along, a helper function or another
    instruction than was given, a token or a line that the input does not have, or no line at all.

    `message`, `instruction`: an error of a module that holds one instruction, and that.
    `contained`: whether it is one whole statement; if not, an error may stand behind it. `at`,
    `lines`: line of the instruction in the module, None where it is not known; lines of the module.
    """
    if message.is_foreign or message.line is None:
        return True
    # A statement that is not closed has its error behind the last line.
    if not 1 <= message.line <= lines + (not contained):
        return True
    if contained and at is not None and message.line != at:
        return True
    return text_comes_from_inside(message.text, instruction=instruction, contained=contained)


def text_comes_from_inside(text: str, *, instruction: str, contained: bool) -> bool:
    """Whether the text of an error alone shows that; parameters as for `comes_from_inside`."""
    admitted, names, named, near = _claims(text)
    return (
        admitted
        or any(name not in instruction for name in names)
        or (named is not None and not _begins_with(instruction, named))
        or (contained and near is not None and near not in instruction)
    )


@lru_cache(maxsize=4096)
def _claims(text: str) -> tuple[bool, tuple[str, ...], str | None, str | None]:
    """Return what the text of an error says about the input.

    Whether it calls itself internal, or is about a function; names that only the assembler gives;
    the first word of the instruction that it is about; the token at which parsing ended.
    """
    named, near = _NAMED_INSTRUCTION.search(text), _NEAR.match(text)
    return (
        _FROM_INSIDE.search(text) is not None,
        tuple(_INTERNAL_NAME.findall(text)),
        named and named[1],
        near and near[1],
    )


def _begins_with(instruction: str, name: str) -> bool:
    """Whether a word of the text begins with the name, such as wmma.mma with wmma."""
    if instruction.startswith(f"{name}."):
        return True
    return re.search(rf"(?<![\w.%$]){re.escape(name)}(?![\w$])", instruction) is not None


def normalised(messages: Iterable[str]) -> str:
    """Return messages with quoted names and numbers abstracted: a key to group by."""
    return "; ".join(sorted({_NUMBER.sub("N", _QUOTED.sub("'*'", text)) for text in messages}))


class Response(IntEnum):
    """What the assembler did, ordered from accepted to worst."""

    ACCEPTED = 0
    """Assembled down to a cubin."""
    REJECTED = 1
    """Rejected with a message about the instruction."""
    INTERNAL = 2
    """Rejected with a message from the assembler's own inside."""
    CRASHED = 3
    """Killed by a signal."""
    HUNG = 4
    """Did not end in time."""
    UNREADABLE = 5
    """Ended in no known way: no message, no cubin, or output without end."""


@dataclass(frozen=True, kw_only=True)
class ToolVerdict:
    """What one assembler did with one module."""

    outcome: Response
    messages: tuple[str, ...] = ()
    """Errors, in order, without the place; warnings where it was accepted."""
    ending: str = "exit code 0"
    """How the process ended, in words."""

    @cached_property
    def normalised(self) -> str:
        """The messages with names and numbers abstracted, or the ending where there are none."""
        return normalised(self.messages) if self.messages else self.ending


@dataclass(frozen=True, kw_only=True)
class Judgement(ToolVerdict):
    """What one assembler does with one instruction, for one target and PTX ISA version."""

    instruction: str
    target: str
    version: str
    results_stored: bool = False
    """Whether it takes the module that stores the results to see the outcome."""

    @property
    def module(self) -> str:
        """A minimal module that shows the outcome: `ptxas -arch=TARGET FILE`."""
        return minimal_module(
            self.instruction,
            target=self.target,
            version=self.version,
            results_stored=self.results_stored,
        )


def instruction_line(module: str) -> int | None:
    """Return the line of the instruction of a minimal module, from 1; None of any other module."""
    lines = module.splitlines()
    if ABOVE_THE_INSTRUCTION not in lines[:-1]:
        return None
    return lines.index(ABOVE_THE_INSTRUCTION) + 2


def ending_of(finished: Finished) -> str:
    """Return how an assembler ended: "exit code 255", "killed by SIGSEGV"."""
    if finished.status is None:
        return "did not end in time"
    if finished.overflowed or finished.status < 0:
        return finished.ending.removeprefix("was ")
    return f"exit code {finished.status}"


def verdict_of(finished: Finished, cubin: Path, module: str) -> ToolVerdict:
    """Return the verdict of a process that read a module, and should have written a cubin."""
    output = parse(finished.text)
    outcome = _outcome(finished, output, cubin, module)
    messages = output.messages if outcome is Response.ACCEPTED else output.errors
    texts = tuple(map(str, messages))
    if outcome in (Response.CRASHED, Response.UNREADABLE):
        texts += output.strange[:_STRANGE_LINES]
    return ToolVerdict(outcome=outcome, messages=texts, ending=ending_of(finished))


def _outcome(finished: Finished, output: Output, cubin: Path, module: str) -> Response:
    status = finished.status
    if status is None:
        return Response.HUNG
    if finished.overflowed:
        return Response.UNREADABLE
    if status < 0 or status in _SIGNAL_CODES:
        return Response.CRASHED
    if status == 0:
        start = b""
        if cubin.is_file():
            with cubin.open("rb") as file:
                start = file.read(CUBIN_HEADER_BYTES)
        good = is_cubin(start) and not output.errors
        return Response.ACCEPTED if good else Response.UNREADABLE
    # A shell, a run-time library or a handler reports a crash.
    if any(map(_CORE.search, output.strange)):
        return Response.CRASHED
    if not output.errors:
        return Response.UNREADABLE
    lines, at = module.splitlines(), instruction_line(module)
    # Without a known line, anything in the module counts as the input.
    text = lines[at - 1] if at is not None else module
    contained = at is not None and is_contained(text)
    inside = any(
        comes_from_inside(error, instruction=text, contained=contained, at=at, lines=len(lines))
        for error in output.errors
    )
    return Response.INTERNAL if inside else Response.REJECTED
