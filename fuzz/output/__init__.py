"""Output: the report of a command, tables, progress, JSON; nothing in it can steer a terminal.

A command makes a `Report`: rows with their columns, sentences, a summary and a verdict. One
function writes it: to the terminal or as JSON objects, and into the files of --junit and --report.
"""

from __future__ import annotations

import json as jsons
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

import msgspec
from markupsafe import Markup
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding, PaddingDimensions
from rich.progress import Progress
from rich.segment import Segment
from rich.table import Table
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from rich.theme import Theme

from corpus import Problem, durable
from corpus.known import Known
from fuzz import warpfuzz_version
from oracle.errors import InfrastructureError, UsageError
from runners.processes import quoted

T = TypeVar("T")
Data = Mapping[str, Any]
"""A row as its JSON object."""
THEME = Theme({
    "legal": "green", "undefined": "yellow", "illegal": "red", "not judged": "dim", "known": "dim",
    "count": "bold cyan", "worst": "bold red", "bad": "red", "odd": "yellow", "quiet": "dim",
})  # fmt: skip
_WIDTH_WITHOUT_TERMINAL = 160
REPORT_WIDTH = 120  # columns: as wide as a browser shows without scrolling
_MOST_COLUMNS = 1_000
"""More than a screen has; COLUMNS may say anything, and every line is filled up to there."""
_MOST_SHOWN = 200_000
"""Characters of one text that are shown: 2,000 lines; a terminal takes longer for more."""
_IN_JSON = {
    sign: f"\\u{sign:04x}"
    for sign in (
        *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A),
    )
}  # fmt: skip
"""What JSON lets stand in a text although it may move a cursor or end a line, with its escapes."""
_DARK = TerminalTheme(
    (22, 24, 29),
    (236, 236, 236),
    [(139, 148, 158), (255, 123, 114), (126, 231, 135), (227, 179, 65),
     (121, 192, 255), (210, 168, 255), (86, 212, 221), (236, 236, 236)],
)  # fmt: skip
"""Colours of a terminal on a page: each has a contrast of at least 5.8 to the background, and
dimmed text of no colour 4.6 (WCAG 2.2, 1.4.3, asks for 4.5)."""
_FORBIDDEN = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Signs that XML 1.0 has not (XML 1.0, 2.2, production 2)."""


# Words


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number and its noun: "1 family", "1,200 families"."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


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


def typed(words: Iterable[str | Path]) -> str:
    """Return a command as a person types it in a shell (bash, zsh; `$'...'` is in POSIX of 2024).

    A path that begins with a dash is shown so that it is taken for no option.
    """
    texts = (f"./{w}" if isinstance(w, Path) and str(w)[0] == "-" else str(w) for w in words)
    return " ".join(shlex.quote(text) if text.isprintable() else quoted(text) for text in texts)


def generator() -> str:
    """Return what corpora name as their maker."""
    return f"warpfuzz {warpfuzz_version()}"


def harmless(text: str, *, one_line: bool = False) -> str:
    """Return a text in which nothing can move the cursor or change the colours of a terminal.

    What is no letter, mark or plain space is shown as an escape: C0, C1 with ESC and CSI, the marks
    of Unicode's UAX 9, lone surrogates; with `one_line` also ends of lines and tabs.
    """
    if text.isprintable() and len(text) <= _MOST_SHOWN:
        return text
    if len(text) > _MOST_SHOWN:
        text = f"{text[:_MOST_SHOWN]}… ({len(text) - _MOST_SHOWN:,} more characters)"
    kept = "" if one_line else "\n\t"
    return "".join(
        sign if sign.isprintable() or sign in kept else sign.encode("unicode_escape").decode()
        for sign in text
    )


def plain(text: str, style: str = "") -> Text:
    """Return a name from elsewhere as text that cannot move the cursor."""
    return Text(harmless(text, one_line=True), style=style)


# The terminal


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
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield segment._replace(text=harmless(segment.text))

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
        made.width, made.has_lines = _WIDTH_WITHOUT_TERMINAL, not made.is_terminal
    made.width = min(made.width, _MOST_COLUMNS)
    return made


def recording_console(columns: int = REPORT_WIDTH, rows: int = 400) -> Console:
    """Return a console that keeps what is printed, with colours; `rows` bound a dashboard alone."""
    return Console(
        record=True, width=columns, height=rows, file=StringIO(), theme=THEME, highlight=False,
        force_terminal=True, color_system="truecolor", no_color=False,
    )  # fmt: skip


def is_watched(out: Console) -> bool:
    """Whether a console can show what moves: a terminal that can take back what it has shown."""
    return getattr(out, "on_terminal", out.is_terminal) and not out.is_dumb_terminal


def say(line: str | Text, style: str = "", *, stderr: bool = False) -> None:
    """Print one line, however long it is."""
    console(stderr=stderr).print(line, style=style, soft_wrap=True)


class _WholeWords(Table):
    """A table without lines that breaks no word: no opcode, path or id.

    Where its columns do not fit beside each other, each row is a block of lines; in a pipe or a
    file each row is one line, for `grep`.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        texts = [
            [cell if isinstance(cell, Text) else Text(str(cell)) for cell in (of.header, *of.cells)]
            for of in self.columns
        ]
        lines = [[line for cell in own for line in cell.plain.splitlines()] for own in texts]
        most = [max(map(cell_len, own), default=0) for own in lines]
        if getattr(console, "has_lines", False):
            yield from [Text(str(self.title))] if self.title else []
            for line in zip(*texts, strict=True):
                cells = zip(line, most, strict=True)
                padded = (cell.plain + " " * (wide - cell.cell_len) for cell, wide in cells)
                yield Text(" ".join(padded).rstrip())
            return
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


# What is seen of something that takes long


@contextmanager
def bars(*, json: bool, out: Console | None = None) -> Iterator[Progress]:
    """Give progress bars, which are seen where somebody can, and of which nothing stays."""
    out = out or console(stderr=True)
    progress = Progress(console=out, transient=True, disable=json or not is_watched(out))
    try:
        progress.start()
        yield progress
    finally:
        # Whoever prints has met the same error, or will: here nobody could catch it.
        with suppress(OSError):
            progress.stop()


def tracked(
    things: Iterable[T], what: str, *, json: bool, out: Console | None = None,
    total: int | None = None,
) -> Iterator[T]:  # fmt: skip
    """Iterate, with a progress bar where somebody can see it; `total` where they have no length."""
    with bars(json=json, out=out) as progress:
        yield from progress.track(things, total=total, description=what)


@contextmanager
def fetcher(fetch: Callable[[str], T], *, json: bool) -> Iterator[Callable[[str], T]]:
    """Give a function that fetches a compiler by its name and shows that it does."""
    with bars(json=False, out=console(stderr=json)) as bar:

        def fetch_one(name: str) -> T:
            task = bar.add_task(f"fetching {name if ':' in name else f'ptxas {name}'}", total=None)
            try:
                return fetch(name)
            finally:
                bar.remove_task(task)

        yield fetch_one


@contextmanager
def starting(*, lines: bool) -> Iterator[Callable[[str], None]]:
    """Give a function that says on standard error what is being done before there is more to see.

    With `lines`, it says so where no terminal is, too, in a line each; on a terminal nothing stays.
    """
    with bars(json=False) as bar:
        task = None if bar.disable else bar.add_task("starting", total=None)

        def tell(words: str) -> None:
            if task is not None:
                bar.update(task, description=harmless(words, one_line=True))
            elif lines:
                say(plain(words), stderr=True)

        yield tell


# JSON


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
        return jsons.dumps(msgspec.to_builtins(row), separators=(",", ":")) + "\n"


def emit(row: object = None, **fields: object) -> None:
    """Write one JSON object on a line of its own, at once: a row, or these fields."""
    sys.stdout.write(encoded(fields or row))
    sys.stdout.flush()


# What several commands say


def report_expired(known: Known) -> None:
    """Print which known discrepancies are over."""
    for entry in known.expired():
        say(f"known discrepancy {entry.id} expired on {entry.expires}: renew or remove it",
            stderr=True)  # fmt: skip


def report_problems(problems: Iterable[Problem], *, fail: bool = True) -> None:
    """Print what is wrong with a corpus, behind all that is right.

    Raises InfrastructureError if findings are broken, and `fail` is set.
    """
    broken = 0
    for problem in problems:
        say(f"warpfuzz: {problem.sentence}", "odd", stderr=True)
        broken += 1
    if broken and fail:
        raise InfrastructureError(
            f"{counted(broken, 'broken entry', 'broken entries')} of the corpus left out; repair "
            "or remove what is named above"
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


def check_kind(path: Path | None, *kinds: str) -> None:
    """Raise UsageError now for a report that ends in none of these, such as ".html"."""
    if path is not None and path.suffix not in kinds:
        raise UsageError(f"--report {path}: give a name that ends in {' or '.join(kinds)}")


# The result of a command


@dataclass(frozen=True)
class Test:
    """A result as a test of JUnit or TAP."""

    group: str  # what it is about; dots make levels in some viewers
    name: str
    seconds: float
    result: str = "passed"  # or "failure", "error", "skipped"
    message: str = ""  # one line
    text: str = ""  # all that is known


@dataclass(frozen=True, kw_only=True)
class ReportRow:
    """One thing that a command tells."""

    data: Data
    style: str = ""
    listed: bool = True
    """Whether people are shown it; it is a JSON object and a test in any case."""
    test: Test | None = None


def rows_of(data: Iterable[Data]) -> list[ReportRow]:
    """Return JSON objects as rows."""
    return [ReportRow(data=row) for row in data]


@dataclass(frozen=True)
class ReportColumn:
    """A column of what people are shown of rows."""

    heading: str
    value: str | Callable[[Data], Any] = ""  # a key of the row's data, by itself the heading
    number: bool = False
    whole: bool = False  # a cell is never wrapped: an opcode, an id
    link: str = ""  # key of the anchor to which the cell leads on a page


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a report: a table, and on a page also plots and what is printed behind them."""

    heading: str = ""
    columns: Sequence[ReportColumn] = ()
    rows: Sequence[ReportRow] = ()
    anchor: str = ""
    plots: Sequence[Mapping[str, str]] = ()  # of `plot`
    shown: RenderableType | None = None


def cell_text(column: ReportColumn, row: ReportRow) -> Text:
    """Return a cell as people are shown it."""
    of = column.value
    value = of(row.data) if callable(of) else row.data[of or column.heading]
    if isinstance(value, Text):
        return value
    if value is None or isinstance(value, bool):
        return Text("yes" if value else "")
    if isinstance(value, int):
        return Text(f"{value:,}")
    return Text(harmless(value)) if "\n" in str(value) else plain(str(value))


def shown_table(section: Section) -> Table:
    """Return the table of a section for a terminal, with the rows that people are shown."""
    shown = table(*(column.heading for column in section.columns), title=section.heading)
    for drawn, column in zip(shown.columns, section.columns, strict=True):
        drawn.no_wrap = column.whole or column.number
        drawn.justify = "right" if column.number else "left"
    for row in section.rows:
        if row.listed:
            shown.add_row(*(cell_text(of, row) for of in section.columns), style=row.style)
    return shown


@dataclass(frozen=True, kw_only=True)
class Report:
    """What came of a command."""

    title: str = ""  # what a page and a file of JUnit XML call it
    columns: Sequence[ReportColumn] = ()
    rows: Sequence[ReportRow] = ()
    """A JSON object each, and a row of a table; those with a test are in JUnit XML and TAP."""
    heading: str = ""
    verdict: str = ""  # one word
    reason: str = ""  # a sentence that says what it rests on
    sentences: Sequence[str | Text] = ()
    before: Sequence[Section] = ()  # tables for people, which stand before the rows
    details: Sequence[Section] = ()  # that only a page or a picture has
    summary: Mapping[str, Any] | None = None  # the last JSON object, without the verdict
    tests: Sequence[Test] = ()  # beside those of the rows

    def write(self, *, json: bool, junit: Path | None = None, report: Path | None = None) -> None:
        """Print it, and write the files that are asked for."""
        if json:
            for row in self.rows:
                emit(row.data)
            if self.summary is not None:
                said = {"verdict": self.verdict, "reason": self.reason} if self.verdict else {}
                emit({"summary": said | dict(self.summary)})
        else:
            self.show(console())
        if junit is not None:
            tests = [row.test for row in self.rows if row.test is not None] + list(self.tests)
            write_junit(junit, tests, suite=self.title)
        if report is not None and report.suffix == ".svg":
            recorder = recording_console()
            self.show(recorder)
            for one in self.details:
                recorder.print("", one.shown or "", crop=False)
            save(recorder, report, title=self.title)
        elif report is not None:
            verdict = [f"{self.verdict}: {self.reason}"] if self.verdict else []
            sentences = [*verdict, *map(str, self.sentences)]
            details = [one for one in self.details if one.rows or one.plots or one.shown]
            durable.write_output(report, page(self.title, sentences, [*self.sections, *details]))

    def show(self, out: Console) -> None:
        """Print it for people."""
        whole = getattr(out, "has_lines", False)
        if self.verdict:
            out.print(plain(f"{self.verdict}: {self.reason}", style="bold"), soft_wrap=whole)
        for section in self.sections:
            out.print(shown_table(section), soft_wrap=whole)
        for said in self.sentences:
            line = plain(said) if isinstance(said, str) else said
            # A command has to be copied as it is.
            out.print(line, soft_wrap=whole or "warpfuzz " in line.plain)

    @property
    def sections(self) -> list[Section]:
        """The tables that have rows."""
        rows = Section(heading=self.heading, columns=self.columns, rows=self.rows)
        every = (*self.before, rows)
        return [one for one in every if one.columns and any(row.listed for row in one.rows)]


def write_junit(path: Path, tests: Sequence[Test], *, suite: str) -> None:
    """Write a file of JUnit XML."""
    clean = partial(_FORBIDDEN.sub, "�")
    results = Counter(test.result for test in tests)
    counts = {"name": suite, "tests": str(len(tests))}
    counts |= {"time": f"{sum(test.seconds for test in tests):.3f}"}
    of_results = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    counts |= {name: str(results[result]) for name, result in of_results.items()}
    root = ElementTree.Element("testsuites", counts)
    inside = ElementTree.SubElement(root, "testsuite", counts)
    for test in tests:
        names = {"classname": clean(test.group), "name": clean(test.name)}
        names["time"] = f"{test.seconds:.3f}"
        case = ElementTree.SubElement(inside, "testcase", names)
        if test.result == "passed":
            continue
        result = ElementTree.SubElement(case, test.result, {"message": clean(test.message)})
        if test.result != "skipped":
            result.set("type", clean(test.group))
            result.text = clean(test.text)
    ElementTree.indent(root)
    durable.write_output(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def tap_test(number: int, test: Test, *, expected_to_fail: bool = False) -> Iterator[str]:
    """Return a test in TAP 14 (testanything.org): the outcome, and what is more to it.

    A test that is expected to fail is "not ok", and TODO says that it does not count.
    """
    skipped = test.result == "skipped" and not expected_to_fail
    word = "not ok" if expected_to_fail or test.result in ("failure", "error") else "ok"
    said = f": {test.message}" if test.message and not skipped else ""
    ending = " # TODO as expected" if expected_to_fail else f" # SKIP {test.message}" * skipped
    yield harmless(f"{word} {number} - {test.name}{said}{ending}", one_line=True)
    if test.text:
        yield "  ---"
        yield f"  message: {jsons.dumps(harmless(test.text, one_line=True))}"
        yield f"  seconds: {test.seconds:.3f}"
        yield "  ..."


def plot(name: str, seconds: Sequence[float], values: Sequence[float]) -> Mapping[str, str]:
    """Return a line over time for a page: its seconds, rising, and as many values from 0 on."""
    right, top = max(seconds, default=0) or 1, max(values, default=0) or 1
    # In a square of 100, as SVG counts: from the top left.
    points = (
        f"{100 * x / right:.2f},{100 - 96 * y / top:.2f}"
        for x, y in zip(seconds, values, strict=True)
    )
    said = f"{name}: up to {max(values, default=0):,.0f}, over {duration(max(seconds, default=0))}"
    return {"said": said, "points": " ".join(points)}


def _printed(shown: RenderableType) -> Markup:
    recorder = recording_console()
    recorder.print(shown, crop=False)
    text = recorder.export_html(theme=_DARK, inline_styles=True, code_format="{code}")
    return Markup(text.rstrip())


def save(recorder: Console, path: Path, *, title: str) -> None:
    """Write what a console has kept as .svg."""
    shown = recorder.export_svg(title=title).encode(errors="backslashreplace")
    durable.write_output(path, shown)


def page(title: str, sentences: Sequence[str], sections: Sequence[Section]) -> bytes:
    """Return a page of HTML; nothing in a text of it can be markup."""
    # Late: it takes a tenth of a second.
    import jinja2

    source = files("fuzz.output").joinpath("page.html").read_text(encoding="utf-8")
    template = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(source)
    text = template.render(
        title=harmless(title), sentences=[*map(harmless, sentences)], sections=sections,
        cell=cell_text, printed=_printed,
    )  # fmt: skip
    return text.encode(errors="backslashreplace")
