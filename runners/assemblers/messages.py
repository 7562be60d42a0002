"""What an assembler prints: messages, their kinds, and which of them come from its own inside."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# "ptxas a.ptx, line 6; error   : ...", "ptxas <builtin>, line 22; error   : ...",
# "ptxas fatal   : ..." (ptxas 11.7 to 13.5, 2026-11).
_MESSAGE = re.compile(
    r"\S+\s+(?:(?P<file>\S.*?), line (?P<line>\d+); )?"
    r"(?P<severity>info|advisory|warning|error|fatal)\s*: (?P<text>.*)"
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
_NAMED_INSTRUCTION = re.compile(r"(?:instruction|specified for|prior to) '([a-z_]\w*)[^']*'")
_NEAR = re.compile(r"Parsing error near '(.*)'")
_QUOTED = re.compile(r"''[^']*'[^']*'|'[^']*'")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One line of an assembler's output."""

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
        elif match["text"] != _TRAILER:
            number = match["line"]
            messages.append(
                Message(
                    severity=match["severity"],
                    text=match["text"].strip(),
                    file=match["file"],
                    line=int(number) if number else None,
                )
            )
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
    if _FROM_INSIDE.search(message.text):
        return True
    if any(name not in instruction for name in _INTERNAL_NAME.findall(message.text)):
        return True
    named = _NAMED_INSTRUCTION.search(message.text)
    if named and re.search(rf"(?<![\w.%$]){named[1]}(?![\w$])", instruction) is None:
        return True
    near = _NEAR.match(message.text)
    return contained and near is not None and near[1] not in instruction


def normalised(messages: Iterable[str]) -> str:
    """Return messages with quoted names and numbers abstracted: a key to group by."""
    return "; ".join(sorted({_NUMBER.sub("N", _QUOTED.sub("'*'", text)) for text in messages}))
