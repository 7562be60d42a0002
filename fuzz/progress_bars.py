"""A progress bar around anything that takes long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.progress import track

from fuzz.output import console

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
