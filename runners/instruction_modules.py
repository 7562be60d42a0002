"""PTX modules around single instructions: one to show a verdict, many to reach verdicts quickly.

Registers have conventional names, and a module declares those that its instructions name:
`%r<N>` (.b32), `%f<N>` (.f32), `%d<N>` (.f64), `%h<N>` (.b16), `%p<N>` (.pred), `%addr` (.b64, an
address), `%stride` (.b32) and the shared buffer `tile`. Any other name stays undeclared, which is
an ordinary error of whoever wrote the instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from oracle.errors import UsageError

REGISTER_TYPES = {"r": "b32", "f": "f32", "d": "f64", "h": "b16", "p": "pred"}
"""PTX type of the registers with each prefix."""
SINGLE_REGISTERS = {"addr": "b64", "stride": "b32"}
"""PTX type of the registers that have no number."""
TILE = ".shared .align 128 .b8 tile[4096];"
"""The shared buffer: aligned for the largest fragment (PTX ISA 9.7.14.4.2), 16 x 16 of 16 bytes."""
ABOVE_THE_INSTRUCTION = "// the instruction:"
"""Comment on the line above the instruction of a minimal module."""
MARKER = "warpfuzz_marker;"
"""A line that every assembler rejects: the sign in its output that it read a file to the end."""

# Four digits are more registers than any instruction has; a longer number stays undeclared rather
# than make the assembler allocate.
_REGISTER = re.compile(r"%(?:([rfdhp])(0|[1-9]\d{0,3})|(addr|stride))(?![\w$])")
_RENAMED = re.compile(r"%([rfdhp])(0|[1-9]\d{0,3})(?![\w$])")
_TILE = re.compile(r"(?<![\w$%.])tile(?![\w$])")
_SPACES = re.compile(r"\s+")
_FIRST_VECTOR = re.compile(r"\{([^{}]*)\}")
# One semicolon, at the end; braces in pairs, one deep; of colons only the pair of `shared::cta`.
_CONTAINED = re.compile(r"""(?![.{])(?:[^{};:"'\\#/]++|::|\{[^{};:"'\\#/]*+\})+;""")
_CONTROL = re.compile(r"(?:@!?\s*\S+\s+)?(?:bra|brx|call|exit|ret|trap)\b")
# Bytes that one vector store writes at most (PTX ISA 9.7.9.12, st: .v4 of .b32, .v2 of .b64).
_STORE_BYTES = 16
_BYTES = {"b32": 4, "f32": 4, "f64": 8, "b16": 2}


def canonical(instruction: str) -> str:
    """Return the instruction with its registers numbered from 0 in order of appearance.

    Spaces are made uniform too. Instructions that differ in nothing else have one canonical text,
    so a judge that remembers texts judges them once. A register that occurs twice still does.
    """
    numbers: dict[tuple[str, str], int] = {}
    counts: dict[str, int] = {}

    def rename(match: re.Match[str]) -> str:
        prefix, number = match[1], match[2]
        if (prefix, number) not in numbers:
            numbers[prefix, number] = counts.get(prefix, 0)
            counts[prefix] = numbers[prefix, number] + 1
        return f"%{prefix}{numbers[prefix, number]}"

    return _RENAMED.sub(rename, _SPACES.sub(" ", instruction.strip()))


def declarations(instructions: Iterable[str]) -> tuple[str, ...]:
    """Return the declarations that the instructions need, one line each."""
    text = "\n".join(instructions)
    counts: dict[str, int] = {}
    for prefix, number, single in set(_REGISTER.findall(text)):
        name = prefix or single
        counts[name] = max(counts.get(name, 0), int(number or 0) + 1)
    return (
        *(f".reg .{type_} %{name}<{counts[name]}>;" for name, type_ in REGISTER_TYPES.items()
          if name in counts),
        *(f".reg .{type_} %{name};" for name, type_ in SINGLE_REGISTERS.items() if name in counts),
        *((TILE,) if "tile" in text and _TILE.search(text) else ()),
    )  # fmt: skip


def is_contained(instruction: str) -> bool:
    """Whether the text is one statement that cannot change the meaning of its neighbours.

    A missing or second semicolon, an open brace, a quote, a comment, a label, a directive or a
    line marker could; such a text is given a file of its own.
    """
    return _CONTAINED.fullmatch(instruction) is not None


def checked(instruction: str) -> str:
    """Return the instruction if it can stand on a line of a module.

    Raises UsageError if it is empty, or holds a line break or anything that UTF-8 cannot encode.
    """
    text = instruction.strip()
    if not text or len(text.splitlines()) != 1 or "\0" in text:
        raise UsageError(
            f"{instruction!r} is not one line of text; pass one instruction at a time, without "
            "line breaks"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{instruction!r} is not text that a file can hold: {error}") from None
    return text


def header(target: str, version: str) -> str:
    """Return the three directives that open a module."""
    return f".version {version}\n.target {target}\n.address_size 64\n"


def minimal_module(
    instruction: str, *, target: str, version: str, results_stored: bool = False
) -> str:
    """Return a smallest module that holds the instruction.

    `instruction`: one line of text. `target`, `version`: values of the directives, such as "sm_90"
    and "8.0". `results_stored`: whether the first vector of registers is stored to memory
    afterwards, so that no optimiser may drop the instruction. Raises UsageError if the text is not
    one line.
    """
    text = checked(instruction)
    stores = _stores(text) if results_stored else ()
    parameters, setup = (_PARAMETERS, _SETUP) if stores else ("", ())
    lines = [
        f".visible .entry k({parameters})", "{", *setup, *declarations([text]),
        ABOVE_THE_INSTRUCTION, text, *stores, "ret;", "}",
    ]  # fmt: skip
    return header(target, version) + "\n".join(lines) + "\n"


_PARAMETERS = ".param .u64 results"
_SETUP = (".reg .b64 %results;", "ld.param.u64 %results, [results];")


def _stores(instruction: str) -> tuple[str, ...]:
    """Store the registers of the first vector: of every instruction but wmma.store, its result."""
    vector = _FIRST_VECTOR.search(instruction)
    if vector is None:
        return ()
    registers: dict[str, list[str]] = {}
    for prefix, number in _RENAMED.findall(vector[1]):
        if prefix != "p":
            registers.setdefault(REGISTER_TYPES[prefix], []).append(f"%{prefix}{number}")
    lines = []
    offset = 0
    for type_, left in registers.items():
        while left:
            width = min(4, _STORE_BYTES // _BYTES[type_])
            while width > len(left):
                width //= 2
            part, left = left[:width], left[width:]
            operand = f"{{{', '.join(part)}}}" if width > 1 else part[0]
            suffix = f".v{width}" if width > 1 else ""
            lines.append(f"st.global{suffix}.{type_} [%results+{offset}], {operand};")
            offset += _STORE_BYTES
    return tuple(lines)


class TextListing(NamedTuple):
    """A module of many instructions, and the line on which each stands."""

    text: str
    lines: tuple[int, ...]
    """Line of each instruction, counted from 1, in the order given."""


def rejection_module(
    instructions: Sequence[str], *, entry: str, target: str, version: str
) -> tuple[TextListing, int]:
    """Return a module to find lines that are rejected, and the line of the marker at its end.

    The marker makes the module an error whatever the instructions are, so no later phase runs. The
    line behind the last instruction is that of a minimal module, so that an instruction which is
    not one whole statement has the same error in both. The line before the first is a harmless
    instruction: modifiers that a syntax error of another file left unused are counted for it
    (ptxas 11.7 to 13.5, 2026-11), so its errors mean nothing.
    """
    opening = [f".visible .entry {entry}()", "{", *declarations(instructions), "ret;"]
    first = 3 + len(opening) + 1  # behind the three lines of the header
    lines = [*opening, *instructions, "ret;", MARKER, "}"]
    listing = TextListing(
        text=header(target, version) + "\n".join(lines) + "\n",
        lines=tuple(range(first, first + len(instructions))),
    )
    return listing, first + len(instructions) + 1


def assembly_module(
    instructions: Sequence[str], *, per_entry: int, target: str, version: str
) -> TextListing:
    """Return a module that takes the instructions through every phase.

    Several share an entry, which costs less than an entry each; each one's results are stored. An
    instruction that transfers control, or is not contained, has an entry of its own.
    """
    lines = header(target, version).splitlines()
    at: list[int] = []
    index = 0
    while index < len(instructions):
        shared = takewhile(_shares_an_entry, instructions[index : index + per_entry])
        group = [*shared] or [instructions[index]]
        lines += [f".visible .entry k{index}({_PARAMETERS})", "{", *_SETUP, *declarations(group)]
        for text in group:
            lines.append(text)
            at.append(len(lines))
            lines += _stores(text)
        lines += ["ret;", "}"]
        index += len(group)
    return TextListing(text="\n".join(lines) + "\n", lines=tuple(at))


def _shares_an_entry(instruction: str) -> bool:
    return is_contained(instruction) and _CONTROL.match(instruction) is None
