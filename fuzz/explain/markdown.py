"""The few parts of a page that are always written alike."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, most: int = 0) -> list[str]:
    """Return the lines of a table, an empty one around it.

    Parameters
    ----------
    most
        Rows that are shown, 0 for all; a last line says how many are not.
    """
    shown = rows[:most] if most else rows
    lines = ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in shown]
    if len(shown) < len(rows):
        lines += ["", f"… and {len(rows) - len(shown)} more."]
    return [*lines, ""]


def fenced(text: str, language: str = "") -> list[str]:
    """Return a block of text that is shown as it is."""
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return [f"{ticks}{language}", *text.rstrip("\n").split("\n"), ticks, ""]
