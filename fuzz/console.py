"""What a campaign looks like: live, as plain lines, and at its end."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from corpus import Kind
from fuzz.budget import Budget
from fuzz.instruction_progress import FamilyState, Progress
from fuzz.output import THEME, console, emit
from oracle.errors import InfrastructureError, UsageError
from oracle.isa import SHAPES

_STYLES = {
    Kind.CRASH: "worst",
    Kind.HANG: "worst",
    Kind.DEVICE_LOST: "worst",
    Kind.VIOLATION: "worst",
    Kind.FLAKY: "bad",
    Kind.LAUNCH_FAILURE: "bad",
    Kind.COMPILE_FAILURE: "bad",
    Kind.DEVIATION: "odd",
    Kind.UNREADABLE: "bad",
    Kind.INTERNAL: "bad",
    Kind.REJECTED: "bad",
    Kind.DIFFER: "odd",
    Kind.ACCEPTED: "odd",
}
_LINES_AROUND = 16
"""Lines of the live view that are no families."""


def by_severity(progress: Progress) -> list[FamilyState]:
    """Return the families worst first, what is known last."""
    return sorted(
        progress.families.values(),
        key=lambda family: (family.known is not None, -family.kind.severity, family.title),
    )


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
        return dashboard(self._progress, self._budget, self._newest, rows)


def dashboard(
    progress: Progress, budget: Budget, newest: FamilyState | None, rows: int
) -> RenderableType:
    """Return the view of a moment: counters, families, and the newest finding."""
    seconds = max(time.monotonic() - progress.started, 1e-9)
    if progress.stopped:
        seconds = progress.seconds
    parts = [_counters(progress, budget, seconds), families_table(progress, rows)]
    if newest is not None:
        parts.append(
            Panel(
                Text(newest.text, overflow="fold"),
                title=f"newest: {escape(newest.kind)}",
                title_align="left",
                border_style=_STYLES.get(newest.kind, "odd"),
            )
        )
    return Group(*parts)


def _counters(progress: Progress, budget: Budget, seconds: float) -> RenderableType:
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(style="quiet", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    rate = progress.cases / seconds
    grid.add_row(
        "cases",
        f"[count]{progress.cases:,}[/] drawn, {progress.judged:,} {progress.judged_so}",
        f"[count]{rate:,.0f}[/] a second",
    )
    grid.add_row(
        "forms",
        f"[count]{len(progress.reached)}[/] of {progress.forms} documented ones",
        ProgressBar(total=progress.forms, completed=len(progress.reached)),
    )
    total, done, left = _spent(budget, seconds, progress.cases)
    grid.add_row("budget", left, ProgressBar(total=total, completed=done))
    unknown = len(progress.findings)
    known = len(progress.families) - unknown
    unconfirmed = f", {progress.unconfirmed} not confirmed" if progress.unconfirmed else ""
    grid.add_row(
        "findings", f"[count]{unknown}[/] families, {known} known{unconfirmed}", progress.pair
    )
    title = f"[bold]warpfuzz[/] against {escape(progress.subject)} · seed {progress.seed}"
    return Panel(grid, title=title, title_align="left")


def _spent(budget: Budget, seconds: float, cases: int) -> tuple[float, float, str]:
    """Return total, done and words for the limit that is nearest."""
    choices = []
    if budget.seconds is not None:
        left = max(0.0, budget.seconds - seconds)
        words = f"{_duration(left)} left of {_duration(budget.seconds)}"
        choices.append((budget.seconds, min(seconds, budget.seconds), words))
    if budget.cases is not None:
        words = f"{max(0, budget.cases - cases):,} cases left"
        choices.append((float(budget.cases), float(min(cases, budget.cases)), words))
    if not choices:
        return 1.0, 0.0, f"{_duration(seconds)} so far, no limit"
    return max(choices, key=lambda choice: choice[1] / choice[0])


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


@dataclass(frozen=True, kw_only=True)
class _Line:
    """Families that a person reads as one: they differ in the shape alone."""

    kind: Kind
    known: str
    what: str
    shapes: tuple[str, ...]
    cases: int
    example: str


def _lines(progress: Progress) -> list[_Line]:
    groups: dict[tuple[Kind, str, str, str], list[tuple[str, FamilyState]]] = {}
    for family in by_severity(progress):
        what = family.title.removeprefix(f"{family.kind}: ").partition(": ")[0]
        shape = next((word for word in what.split(" ") if word.rstrip(",") in SHAPES), "")
        what = what.replace(shape, "").replace("  ", " ").strip() if shape else what
        known = family.known.id if family.known is not None else ""
        said = "" if family.kind is not Kind.REJECTED else family.message
        groups.setdefault((family.kind, known, what, said), []).append((shape, family))
    return [
        _Line(
            kind=kind,
            known=known,
            what=what,
            shapes=tuple(shape.rstrip(",") for shape, _ in members if shape),
            cases=sum(family.cases for _, family in members),
            example=min((family.text for _, family in members), key=len).partition(" ")[0],
        )
        for (kind, known, what, _), members in groups.items()
    ]


def families_table(progress: Progress, rows: int | None = None) -> RenderableType:
    """Return a table of the families, worst first; a line holds all that differ in shape alone."""
    table = Table(box=None, pad_edge=False, expand=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("cases", justify="right", no_wrap=True)
    table.add_column("what", ratio=4, overflow="fold")
    table.add_column("smallest, without operands", ratio=5, overflow="fold")
    lines = _lines(progress)
    shown = lines if rows is None else lines[:rows]
    for line in shown:
        style = "known" if line.known else _STYLES.get(line.kind, "odd")
        what = Text(" ".join((line.what, *line.shapes)))
        if line.known:
            what.append(f" (known: {line.known})", style="known")
        table.add_row(
            Text(_SHORT.get(line.kind, line.kind), style=style),
            f"{line.cases:,}",
            what,
            Text(line.example, style="quiet"),
        )
    if len(shown) < len(lines):
        table.add_row("", "", f"… and {len(lines) - len(shown)} lines more", "")
    return table


_SHORT = {Kind.ACCEPTED: "accepted", Kind.REJECTED: "rejected", Kind.INTERNAL: "internal error"}
"""What fits a column; the full name says "although undocumented" and "although documented"."""


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
                f"{seconds:.0f} s: {progress.cases} cases ({progress.cases / seconds:.0f}/s), "
                f"{len(progress.reached)} of {progress.forms} forms, "
                f"{len(progress.families)} families",
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


def finding_row(family: FamilyState) -> dict[str, object]:
    """Return a family as the summary lists it."""
    return {
        "id": family.saved.id if family.saved else None,
        "family": family.key,
        "kind": family.kind.value,
        "verdict": family.verdict,
        "known": family.known is not None,
        "known_as": family.known.id if family.known else None,
        "path": str(family.saved.path) if family.saved else None,
        "title": family.title,
        "text": family.text,
        "cases": family.cases,
        "shrink": family.shrink.value,
        "message": family.message,
    }


def summary(progress: Progress) -> dict[str, object]:
    """Return what a campaign did, as the last JSON object says it."""
    return {
        "summary": {
            "cases": progress.cases,
            "different": progress.judged,
            "seconds": round(progress.seconds, 3),
            "seed": progress.seed,
            "rounds": progress.rounds,
            "forms": {"reached": len(progress.reached), "documented": progress.forms},
            "oracle": dict(progress.agreements),
            "assemblers": [assembler.version for assembler in progress.assemblers],
            "skipped": progress.skipped,
            "unconfirmed": progress.unconfirmed,
            "stopped": progress.stopped,
            "findings": [finding_row(family) for family in by_severity(progress)],
        }
    }


def print_report(progress: Progress, corpus: Path, out: Console) -> None:
    """Print what was checked, what was found, and the command that replays it."""
    out.print(_counters(progress, Budget(), progress.seconds))
    if progress.families:
        out.print(families_table(progress))
    elif progress.cases:
        out.print(progress.agreement)
    else:
        out.print("Nothing was judged.")
    out.print(
        f"Checked {progress.checked} in {_duration(progress.seconds)}: "
        f"{len(progress.findings)} families of disagreements, "
        f"{len(progress.families) - len(progress.findings)} known.",
    )
    if progress.families:
        command = shlex.join(("warpfuzz", "replay", str(corpus)))
        out.print(f"Stored in {corpus}. Replay: {command}", markup=False, soft_wrap=True)
    for family in progress.families.values():
        if family.saved is None:
            lost = f"Not stored ({progress.pair}), keep it: {family.text}"
            out.print(lost, style="worst", markup=False, soft_wrap=True)


def write_report(progress: Progress, corpus: Path, path: Path) -> None:
    """Write the final report as an SVG or HTML page.

    Raises
    ------
    UsageError
        If the file ends in neither .svg nor .html.
    InfrastructureError
        If it cannot be written.
    """
    if path.suffix not in (".svg", ".html"):
        raise UsageError(f"{path} ends in neither .svg nor .html; choose one of the two")
    recorder = Console(record=True, width=160, file=StringIO(), theme=THEME, highlight=False)
    print_report(progress, corpus, recorder)
    try:
        if path.suffix == ".svg":
            recorder.save_svg(str(path), title="warpfuzz run")
        else:
            recorder.save_html(str(path))
    except OSError as error:
        raise InfrastructureError(f"{path} cannot be written: {error.strerror}") from None


def view(budget: Budget, *, json: bool) -> LiveView | PlainView | JsonView:
    """Return the view that fits where the output goes."""
    if json:
        return JsonView()
    out = console()
    # A dumb terminal cannot take back what it has shown.
    live = out.is_terminal and not out.is_dumb_terminal
    return LiveView(budget, out) if live else PlainView(out)
