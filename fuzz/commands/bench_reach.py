"""Tables and JSON of `warpfuzz bench --coverage`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.table import Table

from fuzz.bench import Reach
from fuzz.output import console, emit

_FORMS_SHOWN = 4
"""Forms of an instruction, those that were reached least, that stand in the table."""


def emit_reach(reached: Sequence[Reach], *, seed: int, programs: int, seconds: float) -> None:
    """Write a line for each thing to reach, and the summary."""
    for one in reached:
        emit({"dimension": one.dimension, "name": one.name, "programs": one.count})
    emit(
        {
            "summary": {
                "cases": programs,
                "seconds": round(seconds, 3),
                "seed": seed,
                "faults": [],
                "programs": programs,
                "missing": [
                    {"dimension": one.dimension, "name": one.name} for one in missing(reached)
                ],
            }
        }
    )


def missing(reached: Iterable[Reach]) -> list[Reach]:
    """Return what no program reached."""
    return [one for one in reached if not one.count]


def print_reach(reached: Sequence[Reach], *, seed: int, programs: int, seconds: float) -> None:
    """Print a table for each dimension, and what is missing."""
    out = console()
    for dimension, group in groupby(reached, key=lambda one: one.dimension):
        rows = list(group)
        there = len(rows) - len(missing(rows))
        table = Table(
            box=None, pad_edge=False, title=f"{dimension}: {there} of {len(rows)}",
            title_justify="left",
        )  # fmt: skip
        table.add_column("reached", no_wrap=True)
        table.add_column("programs", justify="right")
        for row in _shown(rows):
            table.add_row(row.name, f"{row.count:,}", style="" if row.count else "bad")
        out.print(table)
    for row in missing(reached):
        out.print(f"[bad]missing:[/] {row.dimension} {row.name}")
    out.print(f"{programs:,} programs, seed {seed}, in {seconds:,.0f} s")


def _shown(rows: Sequence[Reach]) -> Sequence[Reach]:
    """Leave out most of what is too long to list: forms that are reached."""
    if not rows[0].dimension.startswith("form"):
        return rows
    return sorted(rows, key=lambda row: row.count)[:_FORMS_SHOWN]
