"""Reports as pages of HTML: one file without scripts, for a browser or a CI artifact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import jinja2
from markupsafe import Markup
from rich.console import Console

from fuzz.output import duration, harmless


@dataclass(frozen=True)
class Cell:
    """One cell of a table."""

    text: str
    number: bool = False
    link: str = ""
    """Anchor of a section of the page that it leads to."""


@dataclass(frozen=True)
class Plot:
    """A line over time."""

    name: str
    seconds: Sequence[float]
    """Rising."""
    values: Sequence[float]
    """As many, none below 0."""

    @property
    def most(self) -> str:
        """The highest value, which is at the top."""
        return f"{max(self.values, default=0):,.0f}"

    @property
    def span(self) -> str:
        """The time from the left to the right."""
        return duration(max(self.seconds, default=0))

    @property
    def points(self) -> str:
        """The line in a square of 100, as SVG counts: from the top left."""
        right, top = max(self.seconds, default=0) or 1, max(self.values, default=0) or 1
        return " ".join(
            f"{100 * x / right:.2f},{100 - 96 * y / top:.2f}"
            for x, y in zip(self.seconds, self.values, strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page: a table, plots, and what a terminal shows."""

    heading: str
    anchor: str = ""
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[Cell]] = ()
    plots: Sequence[Plot] = ()
    printed: Markup = Markup()  # noqa: RUF009 - it is a constant text
    """Of `printed`."""


def printed(recorder: Console) -> Markup:
    """Return what a recording console was given since the last time, as HTML with its colours."""
    return Markup(recorder.export_html(inline_styles=True, code_format="{code}").rstrip())


def page(title: str, sentences: Sequence[str], sections: Sequence[Section]) -> bytes:
    """Return a page; nothing in a text of it can be markup."""
    shown = [harmless(one) for one in sentences]
    text = _template().render(title=harmless(title), sentences=shown, sections=sections)
    return text.encode(errors="backslashreplace")


@cache
def _template() -> jinja2.Template:
    source = files("fuzz.console").joinpath("page.html").read_text(encoding="utf-8")
    return jinja2.Environment(autoescape=True, trim_blocks=True).from_string(source)
