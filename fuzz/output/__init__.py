"""Output: text that cannot steer a terminal, tables, styles, and JSON for programs."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding, PaddingDimensions
from rich.progress import Progress
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from corpus import Problem, durable
from corpus.known import Known
from fuzz import warpfuzz_version
from oracle.errors import InfrastructureError, UsageError
from runners.processes import quoted


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number and its noun: "1 family", "1,200 families"."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def typed(words: Iterable[str | Path]) -> str:
    """Return a command as a person types it in a shell (bash, zsh; `$'...'` is in POSIX of 2024).

    A path that begins with a dash is shown so that it is taken for no option.
    """
    return " ".join(
        shlex.quote(word) if word.isprintable() else quoted(word)
        for word in (
            f"./{one}" if isinstance(one, Path) and str(one)[0] == "-" else str(one)
            for one in words
        )
    )


T = TypeVar("T")


@contextmanager
def bars(*, json: bool, out: Console | None = None) -> Iterator[Progress]:
    """Give progress bars, which are seen where somebody can, and of which nothing stays."""
    out = out or console(stderr=True)
    progress = Progress(console=out, transient=True, disable=json or not is_watched(out))
    try:
        yield progress
    finally:
        # Whoever prints has met the same error, or will: here nobody could catch it.
        with suppress(OSError):
            progress.stop()


def tracked(
    things: Iterable[T], what: str, *, json: bool, out: Console | None = None
) -> Iterator[T]:
    """Iterate, with a progress bar where somebody can see it."""
    with bars(json=json, out=out) as progress:
        progress.start()
        yield from progress.track(things, description=what)


@contextmanager
def fetcher(
    fetch: Callable[[str, Callable[[int, int], None]], T], *, json: bool
) -> Iterator[Callable[[str], T]]:
    """Give a function that fetches a compiler by its name and shows how far it is."""
    with bars(json=False, out=console(stderr=json)) as bar:

        def fetch_one(name: str) -> T:
            task = bar.add_task(f"fetching {name if ':' in name else f'ptxas {name}'}", total=None)
            bar.start()
            try:
                return fetch(name, lambda done, all_: bar.update(task, completed=done, total=all_))
            finally:
                bar.remove_task(task)

        yield fetch_one


@contextmanager
def starting(*, lines: bool) -> Iterator[Callable[[str], None]]:
    """Give a function that says on standard error what is being done before there is more to see.

    With `lines`, it says so where no terminal is, too, in a line each; on a terminal nothing stays.
    """
    out = console(stderr=True)
    if not is_watched(out):
        yield lambda words: say(plain(words), stderr=True) if lines else None
        return
    status = out.status("")
    status.start()
    try:
        yield lambda words: status.update(plain(f"{words} …"))
    finally:
        # A terminal that is gone is met by whoever prints next.
        with suppress(OSError):
            status.stop()


THEME = Theme(
    {
        "legal": "green",
        "undefined": "yellow",
        "illegal": "red",
        "not judged": "dim",
        "known": "dim",
        "count": "bold cyan",
        "worst": "bold red",
        "bad": "red",
        "odd": "yellow",
        "quiet": "dim",
    }
)


_WIDTH_WITHOUT_TERMINAL = 160
"""Columns of a page in a pipe or a file; a table has a line for each row there."""


_MOST_COLUMNS = 1_000
"""More than a screen has; COLUMNS may say anything, and every line is filled up to there."""


class _Console(Console):
    """A console that no text can steer: neither the terminal nor Rich takes orders from it."""

    has_lines = False
    """Whether nobody looks at it who has a width."""
    on_terminal = False
    """Whether it is one; FORCE_COLOR and TTY_COMPATIBLE let Rich take a file for one, too."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Render something; what a text holds beside letters is shown as an escape."""
        for segment in super().render(renderable, options):
            if segment.control or (segment.text.isascii() and segment.text.isprintable()):
                yield segment
            else:
                yield segment._replace(text=harmless(segment.text))

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as Rich does; a table in a pipe or a file with each row in one line, for `grep`."""
        if not self.has_lines or len(objects) != 1 or not isinstance(objects[0], Table):
            super().print(*objects, **options)
            return
        width, self.width, objects[0].expand = self.width, _MOST_COLUMNS, False
        try:
            with self.capture() as caught:
                super().print(*objects, **options)
        finally:
            self.width = width
        lines = (line.rstrip() for line in caught.get().split("\n"))
        super().print("\n".join(lines), end="", soft_wrap=True)

    def on_broken_pipe(self) -> None:
        """Raise the error again: whoever started the command handles a reader that is gone."""
        raise


def console(**options: Any) -> _Console:
    """Return a console on standard output; plain where that is no terminal or NO_COLOR is set.

    It takes no markup: what stands in brackets in a module or a message is text, and styles are
    given as such.
    """
    made = _Console(theme=THEME, highlight=False, markup=False, emoji=False, **options)
    made.on_terminal = made.is_terminal and (made.file.isatty() or "force_terminal" in options)
    # Rich takes a COLUMNS of 0 for a width of nothing.
    unknown = not made.on_terminal and "COLUMNS" not in os.environ and "width" not in options
    if unknown or made.width < 1:
        made.width = _WIDTH_WITHOUT_TERMINAL
        made.has_lines = not made.is_terminal
    if made.width > _MOST_COLUMNS:
        made.width = _MOST_COLUMNS
    return made


def is_watched(out: Console) -> bool:
    """Whether a console can show what moves: a terminal that can take back what it has shown."""
    return getattr(out, "on_terminal", out.is_terminal) and not out.is_dumb_terminal


HEARTBEAT_SECONDS = 30.0
"""Between two lines that say how far a command is, in a pipe: 20,000 lines a week."""


def say(line: str | Text, style: str = "", *, stderr: bool = False) -> None:
    """Print one line, however long it is."""
    console(stderr=stderr).print(line, style=style, soft_wrap=True)


class _WholeWords(Table):
    """A table without lines that breaks no word: no opcode, path or id.

    Where its columns do not fit beside each other, each row is a block of lines.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        texts = [[_text(column.header), *map(_text, column.cells)] for column in self.columns]
        lines = [[line for cell in own for line in cell.plain.splitlines()] for own in texts]
        most = [max(map(cell_len, own), default=0) for own in lines]
        least = [
            widest if column.no_wrap else max(map(cell_len, " ".join(own).split()), default=0)
            for column, own, widest in zip(self.columns, lines, most, strict=True)
        ]
        room = options.max_width - (len(self.columns) - 1) * (self.padding[1] + self.padding[3])
        spare, wanted = room - sum(least), sum(most) - sum(least)
        if spare >= 0:
            for column, low, high in zip(self.columns, least, most, strict=True):
                column.width = low + min(high - low, (high - low) * spare // max(1, wanted))
            yield from super().__rich_console__(console, options)
            return
        if self.title:
            yield Text(str(self.title), style="italic")
        headings = [cells[0].plain for cells in texts]
        cells_of_rows = zip(*(cells[1:] for cells in texts), strict=True)
        for row, (first, *others) in zip(self.rows, cells_of_rows, strict=True):
            style = row.style or ""
            yield Text(style=style).append_text(first)
            rest = [Text(f"{heading}: " * bool(heading)).append_text(cell)
                    for heading, cell in zip(headings[1:], others, strict=True)
                    if cell.plain.strip()]  # fmt: skip
            yield Padding(Text("  ", style=style).join(rest), (0, 0, 0, 2))


def _text(cell: object) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def table(
    *headings: str, title: str = "", padding: PaddingDimensions = (0, 1), **columns: Any
) -> Table:
    """Return an empty table without lines, whose columns have these options of Rich."""
    made = _WholeWords(
        box=None, pad_edge=False, padding=padding, title=title or None, title_justify="left",
        show_header=any(headings),
    )  # fmt: skip
    for heading in headings:
        made.add_column(Text(heading), **columns)
    return made


class _Escapes(dict[int, str]):
    """For `str.translate`: an escape for every sign that is no letter, mark or plain space.

    Those move a cursor, change what is shown around them, end a line, or cannot be written: C0, C1
    with ESC and CSI, the marks of Unicode's UAX 9, and bytes that are no text, which Python keeps
    as lone surrogates.
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

    With `one_line`, ends of lines and tabs are shown as escapes, too.
    """
    if len(text) > _MOST_SHOWN:
        text = f"{text[:_MOST_SHOWN]}… ({len(text) - _MOST_SHOWN:,} more characters)"
    return text.translate(_IN_ONE_LINE if one_line else _IN_LINES)


def encoded(row: object) -> str:
    """Return a row as one line of JSON."""
    try:
        text = msgspec.json.encode(row).decode()
        # Lines end there, too, for programs that go by Unicode (such as Python's `splitlines`).
        is_plain = text.isascii() and "\x7f" not in text
        return (text if is_plain else text.translate(_IN_JSON)) + "\n"
    except UnicodeEncodeError:
        # Arguments and names of files may hold bytes that are no text; Python keeps each as a
        # lone surrogate, for which JSON has an escape.
        return json.dumps(msgspec.to_builtins(row), separators=(",", ":")) + "\n"


def emit(row: object = None, **fields: object) -> None:
    """Write one JSON object on a line of its own, at once: a row, or these fields."""
    sys.stdout.write(encoded(fields or row))
    sys.stdout.flush()


def emit_summary(**fields: object) -> None:
    """Write what a command came to, its last JSON object."""
    emit(summary=fields)


def generator() -> str:
    """Return what corpora name as their maker."""
    return f"warpfuzz {warpfuzz_version()}"


def duration(seconds: float) -> str:
    """Return seconds in words, of which the two largest units are kept."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours:02} h"
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def plain(text: str, style: str = "") -> Text:
    """Return a name from elsewhere as text that cannot move the cursor."""
    return Text(harmless(text, one_line=True), style=style)


def report_expired(known: Known) -> None:
    """Print which known discrepancies are over."""
    for entry in known.expired():
        console(stderr=True).print(
            f"known discrepancy {entry.id} expired on {entry.expires}: renew or remove it",
            soft_wrap=True,
        )


def report_problems(problems: Iterable[Problem], *, fail: bool = True) -> None:
    """Print what is wrong with a corpus, behind all that is right.

    Raises InfrastructureError if findings are broken, and `fail` is set.
    """
    errors = console(stderr=True)
    every = list(problems)
    for problem in every:
        errors.print(f"warpfuzz: {problem.sentence}", style="odd", markup=False, soft_wrap=True)
    if (broken := len(every)) and fail:
        entries = "entry of the corpus is" if broken == 1 else "entries of the corpus are"
        raise InfrastructureError(
            f"{broken} {entries} broken and left out; repair or remove what is named above"
        )


def check_output(what: str, path: Path | None) -> None:
    """Raise UsageError now for a file that could not be written when all is done.

    `what` is how the user gave it, such as "--junit".
    """
    if path is None or (path.exists() and not path.is_file() and not path.is_dir()):
        return  # A pipe or a device is written to as it is.
    try:
        if not path.is_dir():
            with durable.workspace(path.resolve().parent):
                return
    except OSError:
        pass
    raise UsageError(
        f"{what} {path} cannot be written: give a file in a folder that is there, and that takes "
        "files"
    )
