"""What an assembler prints: messages, their kinds, and which of them come from its own inside."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

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


class Message(NamedTuple):
    """One line of an assembler's output.

    A tuple, because tens of thousands a second are made.
    """

    severity: str
    """"info", "advisory", "warning", "error" or "fatal"."""
    text: str
    file: str | None = None
    """File that the message names; "<builtin>" and the like where it is none of ours."""
    line: int | None = None
    """Line in that file, counted from 1."""

    @property
    def is_error(self) -> bool:
        """Whether the message alone rejects the module."""
        return self.severity in ("error", "fatal")

    @property
    def is_foreign(self) -> bool:
        """Whether the message is about text that the assembler brought along."""
        return self.file is not None and self.file.startswith("<")

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.text}" if self.is_foreign else self.text


@dataclass(frozen=True, kw_only=True)
class Output:
    """What one process printed, sorted."""

    messages: tuple[Message, ...]
    strange: tuple[str, ...]
    """Lines of no known kind."""

    @property
    def errors(self) -> tuple[Message, ...]:
        """The messages that reject."""
        return tuple(message for message in self.messages if message.is_error)

    @property
    def tells_of_a_crash(self) -> bool:
        """Whether a shell, a run-time library or a handler reports a crash."""
        return any(_CORE.search(line) for line in self.strange)


def parse(output: str) -> Output:
    """Sort the lines of an assembler's output."""
    messages = []
    strange = []
    for line in output.splitlines():
        match = _MESSAGE.fullmatch(line)
        if match is None:
            if line.strip():
                strange.append(line)
            continue
        file, number, severity, text = match.groups()
        if text != _TRAILER:
            at = int(number) if number else None
            messages.append(Message(severity, text.rstrip(), file, at))
    return Output(messages=tuple(messages), strange=tuple(strange))


def comes_from_inside(
    message: Message, *, instruction: str, contained: bool, at: int | None, lines: int
) -> bool:
    """Whether an error message is about the assembler's own inside, not about the instruction.

    It is where it names text that the assembler brought along, a helper function or another
    instruction than was given, a token or a line that the input does not have, or no line at all.

    Parameters
    ----------
    message : Message
        An error of a module that holds one instruction.
    instruction : str
        The instruction.
    contained : bool
        Whether it is one whole statement; if not, an error may stand behind it.
    at : int or None
        Line of the instruction in the module; None where it is not known.
    lines : int
        Lines of the module.
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
    claim = _claim(text)
    if not claim.admitted and not claim.names and claim.near is None:
        return claim.instruction is not None and not _begins_with(instruction, claim.instruction)
    return (
        claim.admitted
        or any(name not in instruction for name in claim.names)
        or (claim.instruction is not None and not _begins_with(instruction, claim.instruction))
        or (contained and claim.near is not None and claim.near not in instruction)
    )


@dataclass(frozen=True, kw_only=True)
class _Claim:
    """What the text of an error says about the input."""

    admitted: bool
    """Whether it calls itself internal, or is about a function."""
    names: tuple[str, ...]
    """Names that only the assembler gives."""
    instruction: str | None
    """First word of the instruction that it is about."""
    near: str | None
    """Token at which parsing ended."""


@lru_cache(maxsize=4096)
def _claim(text: str) -> _Claim:
    named = _NAMED_INSTRUCTION.search(text)
    near = _NEAR.match(text)
    return _Claim(
        admitted=_FROM_INSIDE.search(text) is not None,
        names=tuple(_INTERNAL_NAME.findall(text)),
        instruction=named[1] if named else None,
        near=near[1] if near else None,
    )


def _begins_with(instruction: str, name: str) -> bool:
    """Whether a word of the text begins with the name, such as wmma.mma with wmma."""
    if instruction.startswith(f"{name}."):
        return True
    return re.search(rf"(?<![\w.%$]){re.escape(name)}(?![\w$])", instruction) is not None


def normalised(messages: Iterable[str]) -> str:
    """Return messages with quoted names and numbers abstracted: a key to group by."""
    return "; ".join(sorted({_NUMBER.sub("N", _QUOTED.sub("'*'", text)) for text in messages}))
