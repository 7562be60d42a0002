"""Where output goes: Rich for people, one JSON object per line for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import track
from rich.segment import Segment
from rich.theme import Theme

from fuzz import warpfuzz_version


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


class _Console(Console):
    """A console that no text can steer: neither the terminal nor Rich takes orders from it."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Render something; what a text holds beside letters is shown as an escape."""
        for segment in super().render(renderable, options):
            if segment.control or (segment.text.isascii() and segment.text.isprintable()):
                yield segment
            else:
                yield segment._replace(text=harmless(segment.text))

    def on_broken_pipe(self) -> None:
        """Let whoever started the command say what a reader that is gone means."""
        raise


def console(**options: Any) -> Console:
    """Return a console on standard output; plain where that is no terminal or NO_COLOR is set.

    It takes no markup: what stands in brackets in a module or a message is text, and styles are
    given as such.
    """
    made = _Console(theme=THEME, highlight=False, markup=False, emoji=False, **options)
    if not made.is_terminal and "COLUMNS" not in os.environ and "width" not in options:
        made.width = _WIDTH_WITHOUT_TERMINAL
    return made


class _Escapes(dict[int, str]):
    """For `str.translate`: an escape for every sign that is no letter, mark or plain space.

    Those move a cursor, change what is shown around them, end a line, or cannot be written: C0, C1
    with ESC and CSI, the marks of Unicode's UAX 9, and bytes that are no text, which Python keeps
    as lone surrogates.

    Parameters
    ----------
    kept
        Signs that stay nevertheless.
    """

    def __init__(self, kept: str) -> None:
        super().__init__()
        self._kept = kept

    def __missing__(self, sign: int) -> str:
        text = chr(sign)
        if not (text.isprintable() or text in self._kept):
            text = text.encode("unicode_escape").decode()
        self[sign] = text
        return text


_IN_LINES, _IN_ONE_LINE = _Escapes("\n\t"), _Escapes("")
_IN_JSON = {
    sign: f"\\u{sign:04x}"
    for sign in (
        *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A),
    )
}  # fmt: skip
"""Signs of that sort that JSON lets stand in a text, with its own escapes; some programs, such as
Python's `splitlines`, end a line at three of them."""
_MOST_SHOWN = 200_000
"""Characters of one text that are shown: 2,000 lines; a terminal takes longer for more."""


def harmless(text: str, *, one_line: bool = False) -> str:
    """Return a text in which nothing can move the cursor or change the colours of a terminal.

    Parameters
    ----------
    one_line
        Whether ends of lines and tabs are shown as escapes, too.
    """
    if len(text) > _MOST_SHOWN:
        text = f"{text[:_MOST_SHOWN]}… ({len(text) - _MOST_SHOWN:,} more characters)"
    return text.translate(_IN_ONE_LINE if one_line else _IN_LINES)


def encoded(row: object) -> str:
    """Return a row as one line of JSON."""
    try:
        text = msgspec.json.encode(row).decode()
        # Lines end there, too, for programs that go by Unicode (such as Python's `splitlines`).
        plain = text.isascii() and "\x7f" not in text
        return (text if plain else text.translate(_IN_JSON)) + "\n"
    except UnicodeEncodeError:
        # Arguments and names of files may hold bytes that are no text; Python keeps each as a
        # lone surrogate, for which JSON has an escape.
        return json.dumps(msgspec.to_builtins(row), separators=(",", ":")) + "\n"


def emit(row: object) -> None:
    """Write one JSON object on a line of its own, at once."""
    sys.stdout.write(encoded(row))
    sys.stdout.flush()


def generator() -> str:
    """Return what corpora name as their maker."""
    return f"warpfuzz {warpfuzz_version()}"
