"""Instructions in modules of PTX, and what an assembler says of them: from accepting to hanging.

A module declares the registers that are named in the usual way: `%r<N>` (.b32), `%f<N>` (.f32),
`%d<N>` (.f64), `%h<N>` (.b16), `%p<N>` (.pred), `%addr` (.b64), `%stride` (.b32); and `tile`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from oracle.errors import UsageError
from runners.processes import Finished
from runners.ptx_text import CUBIN_HEADER_BYTES, is_cubin, opening

_TYPES = {"r": "b32", "f": "f32", "d": "f64", "h": "b16", "p": "pred"}
"""PTX type of the registers with each prefix."""
_SINGLE = {"addr": "b64", "stride": "b32"}  # PTX type of the registers that have no number
_TILE = ".shared .align 128 .b8 tile[4096];"
"""The shared buffer: aligned for the largest fragment (PTX ISA 9.7.14.4.2), 16 x 16 of 16 bytes."""
_ABOVE = "// the instruction:"  # comment on the line above the instruction of a minimal module
MARKER = "warpfuzz_marker;"
"""A line that every assembler rejects: the sign in its output that it read a file to the end."""
_PARAMETERS = ".param .u64 results"
_SETUP = (".reg .b64 %results;", "ld.param.u64 %results, [results];")
# Four digits are more registers than any instruction has; a longer number stays undeclared rather
# than make the assembler allocate.
_REGISTER = re.compile(r"%(?:([rfdhp])(0|[1-9]\d{0,3})|(addr|stride))(?![\w$])")
_NAMES_TILE = re.compile(r"(?<![\w$%.])tile(?![\w$])")
_FIRST_VECTOR = re.compile(r"\{([^{}]*)\}")
# One semicolon, at the end; braces in pairs, one deep; of colons only the pair of `shared::cta`.
_CONTAINED = re.compile(r"""(?![.{])(?:[^{};:"'\\#/]++|::|\{[^{};:"'\\#/]*+\})+;""")
_CONTROL = re.compile(r"(?:@!?\s*\S+\s+)?(?:bra|brx|call|exit|ret|trap)\b")
# Bytes that one vector store writes at most (PTX ISA 9.7.9.12, st: .v4 of .b32, .v2 of .b64).
_STORE_BYTES = 16
_BYTES = {"b32": 4, "f32": 4, "f64": 8, "b16": 2}
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
_STRANGE_LINES = 20  # lines of no known kind that a verdict keeps


# Modules


def declarations(instructions: Iterable[str]) -> tuple[str, ...]:
    """Return the declarations that the instructions need, one line each."""
    text = "\n".join(instructions)
    counts: dict[str, int] = {}
    for prefix, number, single in set(_REGISTER.findall(text)):
        name = prefix or single
        counts[name] = max(counts.get(name, 0), int(number or 0) + 1)
    return (
        *(f".reg .{type_} %{name}<{counts[name]}>;" for name, type_ in _TYPES.items()
          if name in counts),
        *(f".reg .{type_} %{name};" for name, type_ in _SINGLE.items() if name in counts),
        *((_TILE,) if "tile" in text and _NAMES_TILE.search(text) else ()),
    )  # fmt: skip


def is_contained(instruction: str) -> bool:
    """Whether the text is one statement that cannot change the meaning of its neighbours.

    A text that is none is given a file of its own.
    """
    return _CONTAINED.fullmatch(instruction) is not None


def checked(instruction: str) -> str:
    """Return the instruction if it can stand on a line of a module; else raise UsageError."""
    text = instruction.strip()
    lines = text.encode(errors="replace").decode().splitlines()
    if lines != [text] or "\0" in text:
        raise UsageError(
            f"{instruction!r} is not one line of text; pass one instruction at a time, without "
            "line breaks"
        )
    return text


def minimal_module(
    instruction: str, *, target: str, version: str, results_stored: bool = False
) -> str:
    """Return a smallest module that holds the instruction; UsageError if that is not one line.

    `results_stored`: whether its first vector is stored, so that no optimiser may drop it.
    """
    text = checked(instruction)
    stores = _stores(text) if results_stored else ()
    parameters, setup = (_PARAMETERS, _SETUP) if stores else ("", ())
    lines = [
        f".visible .entry k({parameters})", "{", *setup, *declarations([text]), _ABOVE, text,
        *stores, "ret;", "}",
    ]  # fmt: skip
    return opening(target, version) + "\n".join(lines) + "\n"


def _stores(instruction: str) -> tuple[str, ...]:
    """Store the registers of the first vector: of every instruction but wmma.store, its result."""
    vector = _FIRST_VECTOR.search(instruction)
    if vector is None:
        return ()
    registers: dict[str, list[str]] = {}
    for prefix, number, _ in _REGISTER.findall(vector[1]):
        if prefix not in ("", "p"):
            registers.setdefault(_TYPES[prefix], []).append(f"%{prefix}{number}")
    lines: list[str] = []
    for type_, left in registers.items():
        while left:
            width = min(4, _STORE_BYTES // _BYTES[type_])
            while width > len(left):
                width //= 2
            part, left = left[:width], left[width:]
            operand = f"{{{', '.join(part)}}}" if width > 1 else part[0]
            kind = f"v{width}.{type_}" if width > 1 else type_
            lines.append(f"st.global.{kind} [%results+{_STORE_BYTES * len(lines)}], {operand};")
    return tuple(lines)


def rejection_module(
    instructions: Sequence[str], *, entry: str, target: str, version: str
) -> tuple[str, tuple[int, ...]]:
    """Return a module to find lines that are rejected, and the line of each, from 1.

    The marker, two lines behind the last instruction, makes the module an error whatever the
    instructions are, so no later phase runs. The line between is that of a minimal module, so that
    an instruction which is not one whole statement has the same error in both. The line before the
    first is a harmless instruction: modifiers that a syntax error of another file left unused are
    counted for it (ptxas 11.7 to 13.5, 2026-11), so its errors mean nothing.
    """
    before = [f".visible .entry {entry}()", "{", *declarations(instructions), "ret;"]
    text = opening(target, version) + "\n".join([*before, *instructions, "ret;", MARKER, "}", ""])
    first = 3 + len(before) + 1  # behind the three lines of the header
    return text, tuple(range(first, first + len(instructions)))


def assembly_module(
    instructions: Sequence[str], *, per_entry: int, target: str, version: str
) -> tuple[str, tuple[int, ...]]:
    """Return a module that takes instructions through every phase, and the line of each, from 1.

    Several share an entry, which costs less than an entry each; each one's results are stored. An
    instruction that transfers control, or is not contained, has an entry of its own.
    """
    lines = opening(target, version).splitlines()
    at: list[int] = []
    while (index := len(at)) < len(instructions):
        shared = takewhile(_shares_an_entry, instructions[index : index + per_entry])
        group = [*shared] or [instructions[index]]
        lines += [f".visible .entry k{index}({_PARAMETERS})", "{", *_SETUP, *declarations(group)]
        for text in group:
            lines.append(text)
            at.append(len(lines))
            lines += _stores(text)
        lines += ["ret;", "}"]
    return "\n".join(lines) + "\n", tuple(at)


def _shares_an_entry(instruction: str) -> bool:
    return is_contained(instruction) and _CONTROL.match(instruction) is None


# What is said of them


class Message(NamedTuple):
    """One line of an assembler's output; a tuple, because tens of thousands a second are made."""

    severity: str  # "info", "advisory", "warning", "error" or "fatal"
    text: str
    file: str | None = None  # that it names; "<builtin>" and the like where it is none of ours
    line: int | None = None  # in that file, counted from 1

    @property
    def is_foreign(self) -> bool:
        """Whether the message is about text that the assembler brought along."""
        return self.file is not None and self.file.startswith("<")

    @property
    def is_error(self) -> bool:
        """Whether it rejects a module."""
        return self.severity in ("error", "fatal")

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.text}" if self.is_foreign else self.text


def parse(output: str) -> tuple[list[Message], list[str]]:
    """Sort an assembler's output; return messages, and lines of no known kind."""
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
    return messages, strange


def comes_from_inside(
    message: Message, *, instruction: str, contained: bool, at: int | None, lines: int
) -> bool:
    """Whether an error message is about the assembler's own inside, not about the instruction.

    It names text that the assembler brought along, a helper or another instruction, a token or line
    that the input lacks, or no line. `contained`: whether the instruction is one whole statement;
    if not, an error may stand behind it. `at`, `lines`: its line if known; lines of the module.
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
        or (named is not None and named.search(instruction) is None)
        or (contained and near is not None and near not in instruction)
    )


@lru_cache(maxsize=4096)
def _claims(text: str) -> tuple[bool, tuple[str, ...], re.Pattern[str] | None, str | None]:
    """Return what the text of an error says about the input.

    Whether it calls itself internal; names of the assembler's own; instruction; token at the end.
    """
    named, near = _NAMED_INSTRUCTION.search(text), _NEAR.match(text)
    return (
        _FROM_INSIDE.search(text) is not None,
        tuple(_INTERNAL_NAME.findall(text)),
        named and re.compile(rf"(?<![\w.%$]){re.escape(named[1])}(?![\w$])"),
        near and near[1],
    )


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
    ending: str = "exit code 0"  # how the process ended, in words

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
    return lines.index(_ABOVE) + 2 if _ABOVE in lines[:-1] else None


def verdict_of(finished: Finished, cubin: Path, module: str) -> ToolVerdict:
    """Return the verdict of a process that read a module, and should have written a cubin."""
    messages, strange = parse(finished.text)
    errors = [message for message in messages if message.is_error]
    outcome = _outcome(finished, errors, strange, cubin, module)
    texts = [*map(str, messages if outcome is Response.ACCEPTED else errors)]
    if outcome in (Response.CRASHED, Response.UNREADABLE):
        texts += strange[:_STRANGE_LINES]
    ending = f"exit code {finished.status}"
    if finished.status is None:
        ending = "did not end in time"
    elif finished.overflowed or finished.status < 0:
        ending = finished.ending.removeprefix("was ")
    return ToolVerdict(outcome=outcome, messages=tuple(texts), ending=ending)


def _outcome(
    finished: Finished, errors: Sequence[Message], strange: Sequence[str], cubin: Path, module: str
) -> Response:
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
        return Response.ACCEPTED if is_cubin(start) and not errors else Response.UNREADABLE
    # A shell, a run-time library or a handler reports a crash.
    if any(map(_CORE.search, strange)):
        return Response.CRASHED
    if not errors:
        return Response.UNREADABLE
    lines, at = module.splitlines(), instruction_line(module)
    # Without a known line, anything in the module counts as the input.
    text = lines[at - 1] if at is not None else module
    contained = at is not None and is_contained(text)
    inside = any(
        comes_from_inside(error, instruction=text, contained=contained, at=at, lines=len(lines))
        for error in errors
    )
    return Response.INTERNAL if inside else Response.REJECTED
