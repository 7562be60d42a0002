"""What became of programs that the ISA leaves undefined, as a table."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table

from fuzz.undefined_counts import UndefinedCounts


def undefined_table(counts: UndefinedCounts) -> RenderableType:
    """Return the table: why programs are undefined, what they did, and how many."""
    table = Table(box=None, pad_edge=False)
    table.add_column("undefined, not judged")
    table.add_column("outcome")
    table.add_column("programs", justify="right")
    for (reason, outcome), count in sorted(counts.items()):
        table.add_row(reason, outcome, f"{count:,}")
    return table
