"""Watching a campaign on instructions: live, as lines, or as JSON."""

from __future__ import annotations

import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from fuzz.campaign.limits import Budget
from fuzz.campaign.progress import Progress
from fuzz.console.progress_report import counters
from fuzz.console.styles import duration, kind_style
from fuzz.console.tables import families_table
from fuzz.findings.groups import FamilyState, finding_groups, finding_row
from fuzz.output import console, counted, emit

_LINES_AROUND = 16
"""Lines of the live view that are no families."""


class LiveView:
    """A view that redraws itself, for a terminal."""

    def __init__(self, budget: Budget, out: Console) -> None:
        self._budget, self._out = budget, out
        self._newest: FamilyState | None = None
        self._progress: Progress | None = None
        self._live = Live(
            console=out, get_renderable=self._render, refresh_per_second=4, transient=True
        )

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def progressed(self, progress: Progress) -> None:
        """Keep what the next redraw shows."""
        self._progress = progress

    def found(self, progress: Progress, family: FamilyState) -> None:
        """Keep what the next redraw shows."""
        self._progress, self._newest = progress, family

    def _render(self) -> RenderableType:
        if self._progress is None:
            return Text("starting …", style="quiet")
        rows = max(4, self._out.height - _LINES_AROUND)
        return progress_dashboard(self._progress, self._budget, self._newest, rows)


def progress_dashboard(
    progress: Progress, budget: Budget, newest: FamilyState | None, rows: int
) -> RenderableType:
    """Return the view of a moment: counters, families, and the newest finding."""
    seconds = max(time.monotonic() - progress.started, 1e-9)
    if progress.stopped:
        seconds = progress.seconds
    parts = [counters(progress, budget, seconds), families_table(progress.families.values(), rows)]
    if newest is not None:
        parts.append(
            Panel(
                Text(newest.text, overflow="fold"),
                title=Text(f"newest: {newest.kind}"),
                title_align="left",
                border_style=kind_style(newest.kind, known=False),
            )
        )
    return Group(*parts)


class PlainView:
    """A line now and then, for a pipe or a log."""

    _EVERY_SECONDS = 10.0
    """Time between two lines of progress: readable in the log of a long run."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._last = time.monotonic()

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held open."""

    def progressed(self, progress: Progress) -> None:
        """Print a line if the last one is a while ago."""
        now = time.monotonic()
        if now - self._last >= self._EVERY_SECONDS:
            self._last = now
            seconds = now - progress.started
            self._out.print(
                f"{duration(seconds)}: {counted(progress.cases, 'case')}, "
                f"{progress.cases / seconds:,.0f} a second; "
                f"{len(progress.reached)} of {counted(progress.forms, 'form')}; "
                f"{counted(len(finding_groups(progress.families.values())), 'family', 'families')}",
                markup=False,
                soft_wrap=True,
            )

    def found(self, progress: Progress, family: FamilyState) -> None:
        """Print the family."""
        known = f" (known: {family.known.id})" if family.known is not None else ""
        self._out.print(f"{family.title}{known}\n    {family.text}", markup=False, soft_wrap=True)


class JsonView:
    """One JSON object for each family as it is found."""

    def __enter__(self) -> JsonView:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held open."""

    def progressed(self, progress: Progress) -> None:
        """Say nothing: counters are in the summary."""

    def found(self, progress: Progress, family: FamilyState) -> None:
        """Print the family."""
        emit({"finding": finding_row(family)})


def view(budget: Budget, *, json: bool) -> LiveView | PlainView | JsonView:
    """Return the view that fits where the output goes."""
    if json:
        return JsonView()
    out = console()
    # A dumb terminal cannot take back what it has shown.
    live = out.is_terminal and not out.is_dumb_terminal
    return LiveView(budget, out) if live else PlainView(out)
