"""How many programs that the ISA leaves undefined came to which end."""

from __future__ import annotations

from collections import Counter

UndefinedCounts = Counter[tuple[str, str]]
"""Undefined programs by why they are (the first reason) and by what became of them."""


def nested(counts: UndefinedCounts) -> dict[str, dict[str, int]]:
    """Return counts as JSON takes them: by reason, then by outcome."""
    table: dict[str, dict[str, int]] = {}
    for (reason, outcome), count in sorted(counts.items()):
        table.setdefault(reason, {})[outcome] = count
    return table
