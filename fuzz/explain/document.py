"""A page as a document, and its two printed forms: for a terminal, by Rich, and as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text

from fuzz.explain.values import NOT_A_NUMBER, legend_words, level, level_words, units
from fuzz.findings.verdicts import Difference
from fuzz.output import harmless, in_ascii, plain, table
from oracle.formats import Format
from strategies.matrices import Result

EQUAL = "·"
_COLOURS = {
    "0": "black on #d9d9d9",
    "1": "black on #ffffb2",
    "2": "black on #fee187",
    "3": "black on #feca66",
    "4": "black on #feab49",
    "5": "black on #fd8c3c",
    "6": "white on #fc5b2e",
    "7": "white on #ed2e21",
    "8": "white on #d41020",
    "9": "white on #b00026",
    NOT_A_NUMBER: "white on #6a3d9a",
}
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
class Code:
    """Lines that are shown as they are."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Facts:
    """Names, each with what there is to say of it."""

    rows: Sequence[tuple[str, str]]
    commands: bool = False
    """Whether these are commands, to be copied whole."""


@dataclass(frozen=True)
class Grid:
    """A table; all its columns but the first are numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left_out: int = 0
    """Rows that are not shown."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One instruction in a listing."""

    text: str
    values: Sequence[str] = ()
    """What it gives, by column."""
    note: str = ""
    marked: bool = False
    indent: int = 0


@dataclass(frozen=True)
class Listing:
    """Instructions with what they give."""

    lines: Sequence[Line]
    head: Sequence[str] = ()
    """Heads of the columns of values; without any, there is one."""

    def rows(self, width: int) -> Iterator[tuple[str, bool]]:
        """Yield lines of text, and whether each is marked; no word is broken."""
        texts = [" " * 2 * line.indent + line.text for line in self.lines]
        count = max((len(line.values) for line in self.lines), default=0)
        sizes = [
            max(
                len(row[at])
                for row in (self.head, *(x.values for x in self.lines))
                if at < len(row)
            )
            for at in range(count)
        ]
        room = sum(sizes) + 2 * count
        longest = max((len(text) for text, line in zip(texts, self.lines, strict=True)
                       if line.values), default=0)  # fmt: skip
        aligned = min(longest, max(width - 4 - room, 24))
        apart = bool(self.head) and room + 28 > width
        if self.head and not apart:
            yield f"    {'':<{aligned}}{_columns(self.head, sizes)}".rstrip(), False
        for text, line in zip(texts, self.lines, strict=True):
            parts, values = _wrapped(text, width - 4), _columns(line.values, sizes)
            if apart:
                named = [f"{x}: {y}" for x, y in zip(self.head, line.values, strict=False)]
                row = "   ".join(named)
                rows = [row] if len(row) + 12 <= width else named
                parts += [f"        {one}" for one in rows if one]
                values = ""
            if values and len(parts[-1]) > aligned:
                parts.append("")
            parts[-1] = f"{parts[-1]:<{aligned}}{values}".rstrip()
            if line.note and len(parts[-1]) + 7 + len(line.note) <= width:
                parts[-1] += f"   {line.note}"
            elif line.note:
                parts += [f"        {part}" for part in _wrapped(line.note, width - 12)]
            for number, part in enumerate(parts):
                mark = " >  " if line.marked and not number else "    "
                yield f"{mark}{part}".rstrip(), line.marked


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
        turned = self.result.is_registers
        names = ("register", "lane") if turned else ("row", "column")
        across = self.result.rows if turned else self.result.columns
        margin = max(map(len, names)) + 3
        cell = 3 if margin + 3 * across <= width else 2
        step = max(1, (width - margin) // cell)
        for start in range(0, across, step):
            if start:
                yield Text()
            part = range(start, min(start + step, across))
            yield from self._part(part, names, margin, cell)
        yield Text()
        yield self._legend()

    def _part(self, part: range, names: tuple[str, str], margin: int, cell: int) -> Iterator[Text]:
        turned = self.result.is_registers
        numbers = [str(index) for index in part]
        # Two columns have no room for a gap between two numbers: tens stand above ones.
        above = [number[:-1] for number in numbers] if cell == 2 else []
        heads = [above, [number[-1] for number in numbers]] if any(above) else [numbers]
        for number, row in enumerate(heads, start=1):
            name = names[1] if number == len(heads) else ""
            cells = "".join(f"{one:>{cell}}" for one in row)
            yield Text(f"{name:<{margin}}{cells}", style="quiet")
        for index in range(self.result.columns if turned else self.result.rows):
            name = names[0] if index == 0 else ""
            line = Text().append(f"{name}{index:>{margin - len(name)}}", style="quiet")
            for other in part:
                one = self.found.get((other, index) if turned else (index, other))
                if one is None:
                    line.append(f"{EQUAL:>{cell}}", style="quiet")
                else:
                    sign = level(units(one, self.type))
                    line.append(" " * (cell - 2)).append(f" {sign}", style=_COLOURS[sign])
            yield line

    def _legend(self) -> Text:
        line = Text().append(f"{EQUAL} equal", style="quiet")
        for sign in sorted({level(units(one, self.type)) for one in self.found.values()}):
            line.append("   ").append(f" {sign} ", style=_COLOURS[sign])
            line.append(f" {level_words(sign)}", style="quiet")
        return line.append(f"   ({legend_words(self.type)})", style="quiet")


Block = Heading | Paragraph | Code | Facts | Grid | Listing | Map


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
            whole = isinstance(block, Facts) and block.commands
            console.print(Group(*_on_terminal(block, console.options)), soft_wrap=whole)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Show it within something else."""
        yield plain(self.sentence, style="bold")
        for block in self.blocks:
            yield Text()
            yield Group(*_on_terminal(block, options))


def _on_terminal(block: Block, options: ConsoleOptions) -> Iterator[RenderableType]:
    width = options.max_width
    match block:
        case Heading():
            yield Rule(plain(block.text, style="bold"), align="left", style="quiet")
        case Paragraph():
            yield plain(block.text)
        case Code():
            for line in harmless(block.text).rstrip("\n").split("\n"):
                yield Text(f"    {line}", no_wrap=False, overflow="fold")
        case Facts() if block.commands:
            wide = max(len(what) for what, _ in block.rows)
            for what, command in block.rows:
                yield Text.assemble((f"{what:<{wide}}  ", "quiet"), plain(command))
        case Facts():
            grid = RichTable.grid(padding=(0, 2))
            grid.add_column(style="quiet", no_wrap=True)
            grid.add_column(overflow="fold")
            for name, value in block.rows:
                grid.add_row(plain(name), plain(value))
            yield grid
        case Grid():
            made = table(*block.head, padding=(0, 2, 0, 0), justify="right")
            made.columns[0].justify = "left"
            for row in block.rows:
                made.add_row(*map(plain, row))
            yield made
            if block.left_out:
                yield Text(f"… and {block.left_out:,} more", style="quiet")
        case Listing():
            for line, marked in block.rows(width):
                yield plain(line, style="bold" if marked else "")
        case Map():
            for text in block.rows(width):
                yield in_ascii(text) if options.ascii_only else text


def _in_markdown(block: Block) -> Iterator[str]:
    match block:
        case Heading():
            yield f"## {escaped(block.text)}"
        case Paragraph():
            yield escaped(block.text)
        case Code():
            yield from fenced(block.text, block.language)
        case Facts() if block.commands:
            texts = (f"{command}  # {what}" for what, command in block.rows)
            yield from fenced("\n".join(texts), "sh")
        case Facts():
            yield from ("| | |", "|---|---|")
            for name, value in block.rows:
                yield f"| {escaped(name)} | {escaped(value)} |"
        case Grid():
            yield f"| {' | '.join(map(escaped, block.head))} |"
            yield "|---" + "|--:" * (len(block.head) - 1) + "|"
            for row in block.rows:
                yield f"| {' | '.join(map(escaped, row))} |"
            if block.left_out:
                yield from ("", f"… and {block.left_out:,} more.")
        case Listing():
            yield from fenced("\n".join(text for text, _ in block.rows(_MARKDOWN_WIDTH)))
        case Map():
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
