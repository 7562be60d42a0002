"""Where output goes: Rich for people, one JSON object per line for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from rich.console import Console
from rich.progress import track
from rich.theme import Theme


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number and its noun: "1 family", "1,200 families".

    Parameters
    ----------
    one
        The noun for 1.
    many
        The noun for all other numbers; with an s at its end unless it is given.
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


T = TypeVar("T")


def tracked(things: Iterable[T], what: str, *, json: bool) -> Iterator[T]:
    """Iterate, with a progress bar where somebody can see it; nothing of it stays.

    Parameters
    ----------
    things
        What is worked on; the bar knows how far it is if they have a length.
    what
        What is done to them, in a word.
    json
        Whether the output is for programs.
    """
    out = console(stderr=True)
    hidden = json or not out.is_terminal or out.is_dumb_terminal
    yield from track(things, what, console=out, transient=True, disable=hidden)


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


_WIDTH_WITHOUT_TERMINAL = 160
"""Columns in a pipe or a file: so many that no opcode is folded, and `grep` finds it."""


def console(**options: Any) -> Console:
    """Return a console on standard output; plain where that is no terminal or NO_COLOR is set."""
    made = Console(theme=THEME, highlight=False, **options)
    if not made.is_terminal and "COLUMNS" not in os.environ and "width" not in options:
        made.width = _WIDTH_WITHOUT_TERMINAL
    return made


_OTHER_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""Signs that end a line and that JSON lets stand in a text (Unicode, UAX 14, class BK and NL)."""


def encoded(row: object) -> str:
    """Return a row as one line of JSON."""
    try:
        text = msgspec.json.encode(row).decode()
        # Lines end there, too, for programs that go by Unicode (such as Python's `splitlines`).
        return (text if text.isascii() else text.translate(_OTHER_LINE_ENDS)) + "\n"
    except UnicodeEncodeError:
        # Arguments and names of files may hold bytes that are no text; Python keeps each as a
        # lone surrogate, for which JSON has an escape.
        return json.dumps(msgspec.to_builtins(row), separators=(",", ":")) + "\n"


def emit(row: object) -> None:
    """Write one JSON object on a line of its own, at once."""
    sys.stdout.write(encoded(row))
    sys.stdout.flush()


def printable(text: str) -> str:
    """Return a text in which nothing can move the cursor or change the colours of a terminal."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
