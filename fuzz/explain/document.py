"""A page as a document, how values are written on it, and its printed forms: Rich and Markdown."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text

from fuzz.output import harmless, plain, table
from oracle.arithmetic.conversions import unpacked
from oracle.arithmetic.dots import element_values
from oracle.isa.forms import FORMATS, Format

_MARKDOWN_WIDTH = 100  # columns of a listing in Markdown
_NAMED = 3  # groups of lanes that are named one by one
_PARTS = re.compile(r"([a-z]+([0-9]+)(?:m[0-9](?:b4)?)?)(?:x([24]))?")


@dataclass(frozen=True)
class Heading:
    """What the blocks behind it are about."""

    text: str


@dataclass(frozen=True)
class CodeBlock:
    """Lines that are shown as they are."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class FactTable:
    """Rows of texts. Without a head: names, each with what there is to say of it."""

    rows: Sequence[Sequence[str]]
    commands: bool = False  # whether these are commands, to be copied whole
    head: Sequence[str] = ()  # heads of columns, all but the first of numbers


@dataclass(frozen=True, kw_only=True)
class CodeLine:
    """One instruction in a listing."""

    text: str
    values: Sequence[str] = ()  # what it gives, by column
    note: str = ""
    marked: bool = False
    indent: int = 0
    reads: Sequence[str] = ()  # names of the registers that it reads
    writes: Sequence[str] = ()


@dataclass(frozen=True)
class CodeListing:
    """Instructions with what they give."""

    lines: Sequence[CodeLine]
    head: Sequence[str] = ()  # heads of the columns of values; without any, there is one


Block = Heading | str | CodeBlock | CodeListing | FactTable  # a string is a paragraph


@dataclass(frozen=True)
class Document:
    """A page."""

    sentence: str  # what it is about; its first line
    blocks: Sequence[Block]


def rows_of_code(listing: CodeListing, width: int) -> Iterator[Text]:
    """Yield lines of text, those of marked instructions bold; no word is broken."""
    columns = zip_longest(listing.head, *(line.values for line in listing.lines), fillvalue="")
    sizes = [max(map(len, column)) for column in columns]
    room = sum(sizes) + 2 * len(sizes)
    texts = [" " * 2 * line.indent + line.text for line in listing.lines]
    valued = (len(one) for one, line in zip(texts, listing.lines, strict=True) if line.values)
    aligned = min(max(valued, default=0), max(width - 4 - room, 24))
    apart = bool(listing.head) and room + 28 > width

    def row(values: Sequence[str]) -> str:
        return "".join(f"  {value:<{size}}" for value, size in zip(values, sizes, strict=False))

    if listing.head and not apart:
        yield Text(f"    {'':<{aligned}}{row(listing.head)}".rstrip())
    for text, line in zip(texts, listing.lines, strict=True):
        parts = _wrapped(text, width - 4)
        if apart:
            parts += [f"    {x}: {y}" for x, y in zip(listing.head, line.values, strict=False)]
        elif line.values:
            if len(parts[-1]) > aligned:
                parts.append("")
            parts[-1] = f"{parts[-1]:<{aligned}}{row(line.values)}".rstrip()
        if line.note and len(parts[-1]) + 7 + len(line.note) <= width:
            parts[-1] += f"   {line.note}"
        elif line.note:
            parts += [f"        {part}" for part in _wrapped(line.note, width - 12)]
        for number, part in enumerate(parts):
            mark = " >  " if line.marked and not number else "    "
            yield plain(f"{mark}{part}".rstrip(), style="bold" if line.marked else "")


def _wrapped(text: str, width: int) -> list[str]:
    indent = " " * (len(text) - len(text.lstrip()) + 8)
    return textwrap.wrap(
        text,
        max(width, 20),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [text]


def markdown_of(page: Document) -> str:
    """Return a page as Markdown."""
    lines = [f"# {escaped(page.sentence)}", ""]
    for block in page.blocks:
        lines += [*_in_markdown(block), ""]
    return "\n".join(lines).rstrip() + "\n"


def rendered(page: Document, width: int) -> Group:
    """Return a page for a console of so many columns.

    Printed without `crop`, it has each command whole, in one line, so that it can be copied.
    """
    parts: list[RenderableType] = [plain(page.sentence, style="bold")]
    for block in page.blocks:
        parts += [Text(), *_on_terminal(block, width)]
    return Group(*parts)


def _on_terminal(block: Block, width: int) -> Iterator[RenderableType]:
    match block:
        case Heading():
            yield Rule(plain(block.text, style="bold"), align="left", style="quiet")
        case str():
            yield plain(block)
        case CodeBlock():
            for line in harmless(block.text).rstrip("\n").split("\n"):
                yield Text(f"    {line}", overflow="fold")
        case CodeListing():
            yield from rows_of_code(block, width)
        case FactTable() if block.commands:
            wide = max(len(what) for what, _ in block.rows)
            for what, command in block.rows:
                parts = (f"{what:<{wide}}  ", "quiet"), plain(command)
                yield Text.assemble(*parts, no_wrap=True, overflow="ignore")
        case FactTable():
            made = RichTable.grid(padding=(0, 2))
            if block.head:
                made = table(*block.head, padding=(0, 2, 0, 0), justify="right")
                made.columns[0].justify = "left"
            else:
                made.add_column(style="quiet", no_wrap=True)
                made.add_column(overflow="fold")
            for row in block.rows:
                made.add_row(*map(plain, row))
            yield made


def _in_markdown(block: Block) -> Iterator[str]:
    match block:
        case Heading():
            yield f"## {escaped(block.text)}"
        case str():
            yield escaped(block)
        case CodeBlock():
            yield from fenced(block.text, block.language)
        case CodeListing():
            rows = rows_of_code(block, _MARKDOWN_WIDTH)
            yield from fenced("\n".join(row.plain for row in rows))
        case FactTable() if block.commands:
            texts = (f"{command}  # {what}" for what, command in block.rows)
            yield from fenced("\n".join(texts), "sh")
        case FactTable():
            yield f"| {' | '.join(map(escaped, block.head or ('', '')))} |"
            yield "|---" + ("|--:" * (len(block.head) - 1) if block.head else "|---") + "|"
            yield from (f"| {' | '.join(map(escaped, row))} |" for row in block.rows)


_MEANT = str.maketrans({sign: f"\\{sign}" for sign in "\\`*[]<>|&"})
"""Signs that make code, emphasis, links, pictures, HTML and cells of a table (CommonMark 0.31)."""


def escaped(text: str) -> str:
    """Return a text so that Markdown shows it as it is, on one line."""
    return harmless(" ".join(text.split()), one_line=True).translate(_MEANT)


def fenced(text: str, language: str = "") -> list[str]:
    """Return a block of text that Markdown shows as it is."""
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return [f"{ticks}{language}", *harmless(text).rstrip("\n").split("\n"), ticks]


# Values


def hexadecimal(bits: int, size: int) -> str:
    """Return raw bits with all of their digits."""
    return f"0x{bits:0{-(-size // 4)}x}"


def notation(bits: int, type_: str) -> str:
    """Return a pattern as PTX's type has it: "1.0", "true", "{1.0, 0.0}" (low half first)."""
    if type_ == "pred":
        return "true" if bits else "false"
    found = _PARTS.fullmatch(type_)
    if found is None or is_plain(type_):
        return ""
    name, size, count = found[1], int(found[2]), int(found[3] or 1)
    if count > 1:
        size = FORMATS[name].bits if name in FORMATS else size
        parts = ((bits >> size * at) & ((1 << size) - 1) for at in range(count))
        return f"{{{', '.join(notation(part, name) for part in parts)}}}"
    if name[0] in "us":
        negative = name[0] == "s" and bits >> (size - 1)
        return str(bits - (1 << size) if negative else bits)
    return decimal(bits, FORMATS[name]) if name in FORMATS else ""


def is_plain(type_: str) -> bool:
    """Whether a type is of plain bits: ".b32", and not ".bf16"."""
    return type_.startswith("b") and not type_.startswith("bf")


def width_of(kind: str) -> int:
    """Return the bits of a register of a class, such as "b16"; 1 of a predicate."""
    return 1 if kind == "pred" else int(kind[1:])


def packed_type(fmt: Format) -> str:
    """Return the type of a register that holds elements of a format: "f16x2"; "" below 8 bits."""
    count = 32 // fmt.bits if fmt.bits < 32 else 1
    if count == 1:
        return fmt.name
    return f"{fmt.name}x{count}" if fmt.bits >= 8 else ""


def shown(bits: int, size: int, type_: str) -> str:
    """Return a pattern in hexadecimal, and in the notation of its type behind it."""
    if type_ == "pred":
        return notation(bits, type_)
    return f"{hexadecimal(bits, size)} {notation(bits, type_)}".rstrip()


def float_of(bits: int, fmt: Format) -> float:
    """Return the number that a pattern of a floating-point format stands for."""
    if fmt.name == "f64":
        return float(np.array(bits, np.uint64).view(np.float64))
    if fmt.bits <= 8:
        bits, fmt = int(unpacked(np.array([bits], np.uint8), fmt.name)[0]), FORMATS["f16"]
    return float(element_values(np.array([bits], fmt.raw), fmt)[0])


def number(value: float, digits: int = 9) -> str:
    """Return a number with a sign that it is no integer: "1.0", "1e-30", "infinity"."""
    if math.isinf(value) or math.isnan(value):
        return "NaN" if math.isnan(value) else "infinity" if value > 0 else "-infinity"
    return repr(float(f"{value:.{digits}g}"))


def decimal(bits: int, fmt: Format) -> str:
    """Return a float as a person reads it: the digits that tell it from its neighbours."""
    # As many as tell any two values of a format apart (IEEE 754-2019, 5.12.2).
    most = 1 + math.ceil((fmt.fraction_bits + 1) * math.log10(2))
    value = float_of(bits, fmt)
    tried = (number(value, digits) for digits in range(1, max(most, 9)))
    return next((text for text in tried if float(text) == value), number(value, most))


def spans(numbers: Sequence[int]) -> str:
    """Return numbers in rising order as spans: "0 to 3, 8"."""
    parts: list[list[int]] = []
    for one in numbers:
        if parts and parts[-1][-1] == one - 1:
            parts[-1].append(one)
        else:
            parts.append([one])
    return ", ".join(
        str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts
    )


def register_of(words: NDArray[np.uint32], lane: int, index: int, bits: int) -> int:
    """Return a register of a lane out of words, uint32 (32, words), the low one of two first."""
    if bits == 32:
        return int(words[lane, index])
    return int(words[lane, 2 * index]) | int(words[lane, 2 * index + 1]) << 32


def by_lanes(values: NDArray[np.uint64], bits: int) -> str:
    """Say what all lanes hold: those with one value together."""
    groups: dict[int, list[int]] = {}
    for lane, value in enumerate(values.tolist()):
        groups.setdefault(int(value), []).append(lane)
    if len(groups) == 1:
        return f"{shown(next(iter(groups)), bits, '')} in every lane"
    if len(groups) > _NAMED:
        return f"another in each of {len(groups)} groups of lanes"
    return ", ".join(
        f"{shown(one, bits, '')} in lanes {spans(some)}" for one, some in groups.items()
    )
