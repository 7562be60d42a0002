"""Where output goes: Rich for people, one JSON object per line for programs."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
from rich.console import Console
from rich.theme import Theme

THEME = Theme(
    {
        "legal": "green",
        "undefined": "yellow",
        "illegal": "red",
        "known": "dim",
        "count": "bold cyan",
        "worst": "bold red",
        "bad": "red",
        "odd": "yellow",
        "quiet": "dim",
    }
)


def console(**options: Any) -> Console:
    """Return a console on standard output; plain where that is no terminal or NO_COLOR is set."""
    return Console(theme=THEME, highlight=False, **options)


def emit(row: object) -> None:
    """Write one JSON object on a line of its own, at once."""
    sys.stdout.write(msgspec.json.encode(row).decode() + "\n")
    sys.stdout.flush()
