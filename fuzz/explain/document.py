"""A page as a document, and its two printed forms: for a terminal, by Rich, and as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text

from fuzz.output import harmless, plain, table

_MARKDOWN_WIDTH = 100
"""Columns of a listing in Markdown."""


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
    commands: bool = False
    """Whether these are commands, to be copied whole."""
    head: Sequence[str] = ()
    """Heads of columns, all but the first of numbers."""


@dataclass(frozen=True, kw_only=True)
class CodeLine:
    """One instruction in a listing."""

    text: str
    values: Sequence[str] = ()
    """What it gives, by column."""
    note: str = ""
    marked: bool = False
    indent: int = 0
    reads: Sequence[str] = ()
    """Names of the registers that it reads."""
    writes: Sequence[str] = ()


@dataclass(frozen=True)
class CodeListing:
    """Instructions with what they give."""

    lines: Sequence[CodeLine]
    head: Sequence[str] = ()
    """Heads of the columns of values; without any, there is one."""

    def rows(self, width: int) -> Iterator[Text]:
        """Yield lines of text, those of marked instructions bold; no word is broken."""
        columns = zip_longest(self.head, *(line.values for line in self.lines), fillvalue="")
        sizes = [max(map(len, column)) for column in columns]
        room = sum(sizes) + 2 * len(sizes)
        texts = [" " * 2 * line.indent + line.text for line in self.lines]
        valued = (len(one) for one, line in zip(texts, self.lines, strict=True) if line.values)
        aligned = min(max(valued, default=0), max(width - 4 - room, 24))
        apart = bool(self.head) and room + 28 > width

        def row(values: Sequence[str]) -> str:
            return "".join(f"  {value:<{size}}" for value, size in zip(values, sizes, strict=False))

        if self.head and not apart:
            yield Text(f"    {'':<{aligned}}{row(self.head)}".rstrip())
        for text, line in zip(texts, self.lines, strict=True):
            parts = _wrapped(text, width - 4)
            if apart:
                parts += [f"    {x}: {y}" for x, y in zip(self.head, line.values, strict=False)]
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


Block = Heading | str | CodeBlock | CodeListing | FactTable
"""A string is a paragraph."""


@dataclass(frozen=True)
class Document:
    """A page."""

    sentence: str
    """What it is about; its first line."""
    blocks: Sequence[Block]

    def markdown(self) -> str:
        """Return it as Markdown."""
        lines = [f"# {escaped(self.sentence)}", ""]
        for block in self.blocks:
            lines += [*_in_markdown(block), ""]
        return "\n".join(lines).rstrip() + "\n"

    def show(self, console: Console) -> None:
        """Print it; commands whole, each in one line, so that they can be copied."""
        console.print(self, crop=False)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Show it within something else."""
        yield plain(self.sentence, style="bold")
        for block in self.blocks:
            yield Text()
            yield Group(*_on_terminal(block, options.max_width))


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
            yield from block.rows(width)
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
            yield from fenced("\n".join(row.plain for row in block.rows(_MARKDOWN_WIDTH)))
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
