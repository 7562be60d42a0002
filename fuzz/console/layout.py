"""Lines of a fixed width, and blocks of them that share the rows of a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text


def fitted(line: Text, width: int, *, padded: bool = False) -> Text:
    """Return a line that takes at most `width` columns, or exactly as many."""
    line = line.copy()
    line.no_wrap = True
    line.truncate(max(width, 0), overflow="ellipsis", pad=padded)
    return line


def heading(title: str, width: int, note: Text | None = None) -> Text:
    """Return a rule with a title on its left and a note on its right."""
    line = Text().append("── ", style="quiet").append(title, style="bold").append(" ")
    right = Text() if note is None else Text(" ").append_text(note)
    dashes = width - line.cell_len - right.cell_len
    line.append("─" * max(dashes, 0), style="quiet")
    return fitted(line.append_text(right), width)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a view that can do with fewer rows than it would like."""

    title: str
    wanted: int
    """Rows that show everything, without the heading."""
    body: Callable[[int, int], Sequence[Text]]
    """From columns and rows to at most so many lines."""
    note: Text | None = None

    def lines(self, width: int, rows: int) -> list[Text]:
        """Return a heading and at most `rows` - 1 lines below it."""
        if rows <= 0:
            return []
        body = self.body(width, rows - 1) if rows > 1 else ()
        return [heading(self.title, width, self.note), *(fitted(line, width) for line in body)]


def shared_rows(blocks: Sequence[Block], rows: int) -> list[int]:
    """Return how many rows each block gets: the first ones some, then all of them one by one."""
    given = [0] * len(blocks)
    for index, block in enumerate(blocks):
        least = 1 + min(1, block.wanted)
        if least <= rows:
            given[index] = least
            rows -= least
    while rows > 0:
        hungry = [
            index for index, block in enumerate(blocks) if 0 < given[index] < 1 + block.wanted
        ]
        if not hungry:
            break
        for index in hungry[:rows]:
            given[index] += 1
        rows -= len(hungry[:rows])
    return given


def stacked(blocks: Sequence[Block], width: int, rows: int) -> list[Text]:
    """Return blocks below each other."""
    return [
        line
        for block, given in zip(blocks, shared_rows(blocks, rows), strict=True)
        for line in block.lines(width, given)
    ]


_GAP = 2
"""Columns between two columns of blocks."""


def beside(left: Sequence[Block], right: Sequence[Block], width: int, rows: int) -> list[Text]:
    """Return two columns of blocks."""
    first = (width - _GAP) // 2
    lefts, rights = stacked(left, first, rows), stacked(right, width - _GAP - first, rows)
    lines = []
    for index in range(max(len(lefts), len(rights))):
        line = fitted(lefts[index] if index < len(lefts) else Text(), first, padded=True)
        line.append(" " * _GAP)
        if index < len(rights):
            line.append_text(rights[index])
        lines.append(line)
    return lines


def listed(lines: Sequence[Text], rows: int, more: str) -> list[Text]:
    """Return as many lines as there is room for; the last one says how many are left out."""
    if len(lines) <= rows:
        return list(lines)
    if rows <= 0:
        return []
    left = len(lines) - (rows - 1)
    return [*lines[: rows - 1], Text(f"… and {left:,} {more}", style="quiet")]
