"""A page as a document, and its two printed forms: for a terminal, by Rich, and as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text

from fuzz.explain.values import NOT_A_NUMBER, level, level_words
from fuzz.findings.verdicts import Difference
from fuzz.output import harmless, in_ascii, plain, table
from oracle.isa.forms import Format
from strategies.matrices import Result

EQUAL = "·"
_COLOURS = {
    **dict.fromkeys("0", "black on #d9d9d9"), **dict.fromkeys("12", "black on #ffffb2"),
    **dict.fromkeys("34", "black on #feca66"), **dict.fromkeys("56", "white on #fc5b2e"),
    **dict.fromkeys("789", "white on #b00026"), NOT_A_NUMBER: "white on #6a3d9a",
}  # fmt: skip
"""From light to dark, as ColorBrewer's YlOrRd does; violet is on no such scale, as NaN is not.
Both colours of a cell are set, so that it reads the same on light and dark terminals."""
_MARKDOWN_WIDTH = 100
"""Columns of what Markdown shows in blocks of code."""


@dataclass(frozen=True)
class Heading:
    """What the blocks behind it are about."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Sentences."""

    text: str


@dataclass(frozen=True)
class CodeBlock:
    """Lines that are shown as they are."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class FactTable:
    """Names, each with what there is to say of it."""

    rows: Sequence[tuple[str, str]]
    commands: bool = False
    """Whether these are commands, to be copied whole."""


@dataclass(frozen=True)
class TextGrid:
    """A table; all its columns but the first are numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left_out: int = 0
    """Rows that are not shown."""


@dataclass(frozen=True, kw_only=True)
class CodeLine:
    """One instruction in a listing."""

    text: str
    values: Sequence[str] = ()
    """What it gives, by column."""
    note: str = ""
    marked: bool = False
    indent: int = 0


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
        if self.head and not apart:
            yield Text(f"    {'':<{aligned}}{_columns(self.head, sizes)}".rstrip())
        for text, line in zip(texts, self.lines, strict=True):
            parts = _wrapped(text, width - 4)
            if apart:
                named = [f"{x}: {y}" for x, y in zip(self.head, line.values, strict=False)]
                row = "   ".join(named)
                parts += [f"        {x}" for x in ([row] if len(row) + 12 <= width else named) if x]
            elif line.values:
                if len(parts[-1]) > aligned:
                    parts.append("")
                values = _columns(line.values, sizes)
                parts[-1] = f"{parts[-1]:<{aligned}}{values}".rstrip()
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
        text, max(width, 20), subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    ) or [text]  # fmt: skip


def _columns(values: Sequence[str], sizes: Sequence[int]) -> str:
    return "".join(f"  {value:<{size}}" for value, size in zip(values, sizes, strict=False))


@dataclass(frozen=True)
class Map:
    """A result: a digit for each element that differs, "·" for the others.

    The rows of a matrix go down and its columns to the right; registers, of which there are few, go
    down, and lanes to the right.
    """

    result: Result
    found: Mapping[tuple[int, int], Difference]
    """What differs, by row (or lane) and column (or register)."""
    type: Format | None

    def rows(self, width: int) -> Iterator[Text]:
        """Yield its lines; what is wider than `width` columns goes on below."""
        signs = {at: level(one, self.type) for at, one in self.found.items()}
        down, across = self.result.rows, self.result.columns
        names = ("row", "column")
        if self.result.is_registers:
            down, across, names = across, down, ("register", "lane")
            signs = {(index, other): sign for (other, index), sign in signs.items()}
        step = max(1, (width - 11) // 3)
        for start in range(0, across, step):
            part = range(start, min(start + step, across))
            yield Text(f"{names[1]:<11}{''.join(f'{one:>3}' for one in part)}", style="quiet")
            for index in range(down):
                line = Text(f"{names[0] if index == 0 else '':<8}{index:>3}", style="quiet")
                for other in part:
                    sign = signs.get((index, other), EQUAL)
                    line.append(" ").append(f" {sign}", style=_COLOURS.get(sign, "quiet"))
                yield line
            yield Text()
        words = {"0": "0 the other zero", NOT_A_NUMBER: f"{NOT_A_NUMBER} NaN"}
        others = [words[sign] for sign in words if sign in signs.values()]
        legend = (f"{EQUAL} equal", f"1 to 9 {level_words(self.type)}", *others)
        yield Text("   ".join(legend), style="quiet")


Block = Heading | Paragraph | CodeBlock | FactTable | TextGrid | CodeListing | Map


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
        console.print(plain(self.sentence, style="bold"))
        for block in self.blocks:
            console.print()
            whole = isinstance(block, FactTable) and block.commands
            console.print(Group(*_on_terminal(block, console.options)), soft_wrap=whole)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Show it within something else."""
        yield plain(self.sentence, style="bold")
        for block in self.blocks:
            yield Text()
            yield Group(*_on_terminal(block, options))


def _on_terminal(block: Block, options: ConsoleOptions) -> Iterator[RenderableType]:
    match block:
        case Heading():
            yield Rule(plain(block.text, style="bold"), align="left", style="quiet")
        case Paragraph():
            yield plain(block.text)
        case CodeBlock():
            for line in harmless(block.text).rstrip("\n").split("\n"):
                yield Text(f"    {line}", no_wrap=False, overflow="fold")
        case FactTable() if block.commands:
            wide = max(len(what) for what, _ in block.rows)
            for what, command in block.rows:
                yield Text.assemble((f"{what:<{wide}}  ", "quiet"), plain(command))
        case FactTable():
            grid = RichTable.grid(padding=(0, 2))
            grid.add_column(style="quiet", no_wrap=True)
            grid.add_column(overflow="fold")
            for name, value in block.rows:
                grid.add_row(plain(name), plain(value))
            yield grid
        case TextGrid():
            made = table(*block.head, padding=(0, 2, 0, 0), justify="right")
            made.columns[0].justify = "left"
            for row in block.rows:
                made.add_row(*map(plain, row))
            yield made
            if block.left_out:
                yield Text(f"… and {block.left_out:,} more", style="quiet")
        case CodeListing() | Map():
            for text in block.rows(options.max_width):
                yield in_ascii(text) if options.ascii_only and isinstance(block, Map) else text


def _in_markdown(block: Block) -> Iterator[str]:
    match block:
        case Heading():
            yield f"## {escaped(block.text)}"
        case Paragraph():
            yield escaped(block.text)
        case CodeBlock():
            yield from fenced(block.text, block.language)
        case FactTable() if block.commands:
            texts = (f"{command}  # {what}" for what, command in block.rows)
            yield from fenced("\n".join(texts), "sh")
        case FactTable(rows=rows):
            yield from ("| | |", "|---|---|")
            yield from (f"| {escaped(name)} | {escaped(value)} |" for name, value in rows)
        case TextGrid():
            yield f"| {' | '.join(map(escaped, block.head))} |"
            yield "|---" + "|--:" * (len(block.head) - 1) + "|"
            yield from (f"| {' | '.join(map(escaped, row))} |" for row in block.rows)
            if block.left_out:
                yield from ("", f"… and {block.left_out:,} more.")
        case CodeListing() | Map():
            yield from fenced("\n".join(row.plain for row in block.rows(_MARKDOWN_WIDTH)))


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
