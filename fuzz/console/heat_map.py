"""Where in a result elements differ, and how much: a map of rows and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from fuzz.console.distances import NOT_A_NUMBER, level, level_words, unit_words, units
from fuzz.result_places import Result
from fuzz.verdicts import Difference
from oracle.formats import Format

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


def heat_map(
    result: Result,
    found: Mapping[tuple[int, int], Difference],
    type_: Format | None,
    *,
    width: int,
) -> list[Text]:
    """Return a map of a result: a digit for each element that differs, "·" for the others.

    Parameters
    ----------
    result
        A matrix, whose rows go down and columns to the right; or the registers of ldmatrix, of
        which there are few, and which go down, whereas lanes go to the right.
    found
        What differs, by row (or lane) and column (or register).
    type_
        Format of an element; None for registers.
    width
        Columns of the terminal; what is wider than that goes on below.
    """
    names = ("register", "lane") if result.is_registers else ("row", "column")
    across = result.rows if result.is_registers else result.columns
    margin = max(map(len, names)) + 3
    cell = 3 if margin + 3 * across <= width else 2
    step = max(1, (width - margin) // cell)
    lines: list[Text] = []
    for start in range(0, across, step):
        if start:
            lines.append(Text())
        part = range(start, min(start + step, across))
        lines += _part(result, found, type_, part, names=names, margin=margin, cell=cell)
    return lines


def _part(
    result: Result,
    found: Mapping[tuple[int, int], Difference],
    type_: Format | None,
    part: range,
    *,
    names: tuple[str, str],
    margin: int,
    cell: int,
) -> list[Text]:
    turned = result.is_registers
    head = Text(f"{names[1]:<{margin}}", style="quiet")
    for index in part:
        # Two columns have no room for a gap between two numbers of two digits.
        shown = str(index) if cell > 2 or index % 2 == 0 else ""
        head.append(f"{shown:>{cell}}")
    lines = [head]
    for index in range(result.columns if turned else result.rows):
        name = names[0] if index == 0 else ""
        line = Text().append(f"{name}{index:>{margin - len(name)}}", style="quiet")
        for other in part:
            one = found.get((other, index) if turned else (index, other))
            if one is None:
                line.append(f"{EQUAL:>{cell}}", style="quiet")
            else:
                sign = level(units(one, type_))
                line.append(" " * (cell - 2)).append(f" {sign}", style=_COLOURS[sign])
        lines.append(line)
    return lines


def legend(found: Sequence[Difference], type_: Format | None) -> Text:
    """Return what the signs of a map mean, as far as they are there."""
    signs = sorted({level(units(one, type_)) for one in found})
    line = Text().append(f"{EQUAL} equal", style="quiet")
    for sign in signs:
        line.append("   ").append(f" {sign} ", style=_COLOURS[sign])
        line.append(f" {level_words(sign)}", style="quiet")
    return line.append(f"   ({unit_words(type_)})", style="quiet")
