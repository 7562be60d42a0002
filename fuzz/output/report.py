"""The result of a command, for people and for programs.

A command makes a `Report`: rows with their columns, sentences, a summary and a verdict. One
function writes it: to the terminal or as JSON objects, and into the files of --junit and --report.
"""

from __future__ import annotations

import json as jsons
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
from markupsafe import Markup
from rich.console import Console
from rich.table import Table
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from corpus import durable
from fuzz.output import (
    THEME,
    console,
    duration,
    emit,
    emit_summary,
    harmless,
    plain,
    table,
)
from oracle.errors import UsageError


@dataclass(frozen=True)
class Test:
    """A result as a test of JUnit or TAP."""

    group: str
    """What it is about; dots make levels in some viewers."""
    name: str
    seconds: float
    result: str = "passed"
    """"passed", "failure", "error" or "skipped"."""
    message: str = ""
    """One line."""
    text: str = ""
    """All that is known."""


Data = Mapping[str, Any]
"""A row as its JSON object."""


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
    value: str | Callable[[Data], Any] = ""
    """Key of the row's data, or a function of them; by itself the heading is the key."""
    number: bool = False
    whole: bool = False
    """Whether a cell is never wrapped: an opcode, an id."""
    link: str = ""
    """Key of the anchor to which the cell leads on a page."""

    def text(self, row: ReportRow) -> Text:
        """Return the cell of a row."""
        value = (
            self.value(row.data) if callable(self.value) else row.data[self.value or self.heading]
        )
        if isinstance(value, Text):
            return value
        if value is None or isinstance(value, bool):
            return Text("yes" if value else "")
        if isinstance(value, int):
            return Text(f"{value:,}")
        if isinstance(value, str) and "\n" in value:
            return Text(harmless(value))
        return plain(str(value))


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


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a report: a table, and on a page also plots and what a terminal shows."""

    heading: str = ""
    columns: Sequence[ReportColumn] = ()
    rows: Sequence[ReportRow] = ()
    anchor: str = ""
    plots: Sequence[Mapping[str, str]] = ()
    """Of `plot`."""
    printed: Markup = Markup()  # noqa: RUF009 - it is a constant text
    """Of `printed`, or text that is shown as it is."""

    @property
    def listed(self) -> list[ReportRow]:
        """The rows that people are shown."""
        return [row for row in self.rows if row.listed]

    def table(self) -> Table:
        """Return the table for a terminal."""
        shown = table(*(column.heading for column in self.columns), title=self.heading)
        for drawn, column in zip(shown.columns, self.columns, strict=True):
            drawn.no_wrap = column.whole or column.number
            drawn.justify = "right" if column.number else "left"
        for row in self.listed:
            shown.add_row(*(column.text(row) for column in self.columns), style=row.style)
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
    details: Sequence[Section] = ()  # that only a page has
    summary: Mapping[str, Any] | None = None  # the last JSON object, without the verdict
    tests: Sequence[Test] = ()  # beside those of the rows

    def write(
        self,
        *,
        json: bool,
        junit: Path | None = None,
        report: Path | None = None,
    ) -> None:
        """Print it, and write the files that are asked for."""
        if json:
            for row in self.rows:
                emit(row.data)
            if self.summary is not None:
                said = {"verdict": self.verdict, "reason": self.reason} if self.verdict else {}
                emit_summary(**said | dict(self.summary))
        else:
            self.show(console())
        tests = [row.test for row in self.rows if row.test is not None] + list(self.tests)
        if junit is not None:
            write_junit(junit, tests, suite=self.title)
        if report is not None and report.suffix == ".svg":
            recorder = recording_console()
            self.show(recorder)
            save(recorder, report, title=self.title)
        elif report is not None:
            sentences = [*self._verdict, *map(str, self.sentences)]
            shown = page(self.title, sentences, [*self.sections, *self.details])
            durable.write_output(report, shown)

    def show(self, out: Console) -> None:
        """Print it for people."""
        whole = getattr(out, "has_lines", False)
        for verdict in self._verdict:
            out.print(plain(verdict, style="bold"), soft_wrap=whole)
        for section in self.sections:
            out.print(section.table())
        for said in self.sentences:
            line = plain(said) if isinstance(said, str) else said
            # A command has to be copied as it is.
            out.print(line, soft_wrap=whole or "warpfuzz " in line.plain)

    @property
    def _verdict(self) -> list[str]:
        return [f"{self.verdict}: {self.reason}"] if self.verdict else []

    @property
    def sections(self) -> list[Section]:
        """The tables that have rows."""
        rows = Section(heading=self.heading, columns=self.columns, rows=self.rows)
        return [one for one in (*self.before, rows) if one.columns and one.listed]


# JUnit XML and TAP

_FORBIDDEN = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Signs that XML 1.0 has not (XML 1.0, 2.2, production 2)."""


def write_junit(path: Path, tests: Sequence[Test], *, suite: str) -> None:
    """Write a file of JUnit XML."""
    results = Counter(test.result for test in tests)
    counts = {"tests": str(len(tests)), "time": f"{sum(test.seconds for test in tests):.3f}"}
    counts |= {"failures": str(results["failure"]), "errors": str(results["error"])}
    counts["skipped"] = str(results["skipped"])
    root = ElementTree.Element("testsuites", {"name": suite, **counts})
    inside = ElementTree.SubElement(root, "testsuite", {"name": suite, **counts})
    for test in tests:
        names = {"classname": _clean(test.group), "name": _clean(test.name)}
        names["time"] = f"{test.seconds:.3f}"
        case = ElementTree.SubElement(inside, "testcase", names)
        if test.result == "passed":
            continue
        result = ElementTree.SubElement(case, test.result, {"message": _clean(test.message)})
        if test.result != "skipped":
            result.set("type", _clean(test.group))
            result.text = _clean(test.text)
    ElementTree.indent(root)
    durable.write_output(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)


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


# Pages


def check_kind(path: Path | None, *kinds: str) -> None:
    """Raise UsageError now for a report that ends in none of these, such as ".html"."""
    if path is not None and path.suffix not in kinds:
        raise UsageError(f"--report {path}: give a name that ends in {' or '.join(kinds)}")


_DARK = TerminalTheme(
    (22, 24, 29),
    (236, 236, 236),
    [(139, 148, 158), (255, 123, 114), (126, 231, 135), (227, 179, 65),
     (121, 192, 255), (210, 168, 255), (86, 212, 221), (236, 236, 236)],
)  # fmt: skip
"""Colours of a terminal on a page: each has a contrast of at least 5.8 to the background, and
dimmed text of no colour 4.6 (WCAG 2.2, 1.4.3, asks for 4.5)."""
_REPORT_COLUMNS, _REPORT_ROWS = 120, 400
"""Columns of a report: what a page of a browser shows without scrolling; rows of a dashboard in
it: enough for every family that a person reads."""


def recording_console(columns: int = _REPORT_COLUMNS, rows: int = _REPORT_ROWS) -> Console:
    """Return a console that keeps what is printed, with its colours, whatever the terminal is."""
    return Console(
        record=True,
        width=columns,
        height=rows,
        file=StringIO(),
        theme=THEME,
        highlight=False,
        force_terminal=True,
        color_system="truecolor",
        no_color=False,
    )


def printed(recorder: Console) -> Markup:
    """Return console output as HTML, as `Section.printed` has it."""
    text = recorder.export_html(theme=_DARK, inline_styles=True, code_format="{code}")
    return Markup(text.rstrip())


def save(recorder: Console, path: Path, *, title: str) -> None:
    """Write what a console has kept as .svg."""
    shown = recorder.export_svg(title=title).encode(errors="backslashreplace")
    durable.write_output(path, shown)


def page(title: str, sentences: Sequence[str], sections: Sequence[Section]) -> bytes:
    """Return a page of HTML; nothing in a text of it can be markup."""
    shown = [harmless(one) for one in sentences]
    text = _template().render(title=harmless(title), sentences=shown, sections=sections)
    return text.encode(errors="backslashreplace")


@cache
def _template() -> jinja2.Template:
    source = files("fuzz.output").joinpath("page.html").read_text(encoding="utf-8")
    return jinja2.Environment(autoescape=True, trim_blocks=True).from_string(source)
