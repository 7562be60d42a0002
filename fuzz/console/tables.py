"""Families of findings as lines and rows."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from corpus import Kind
from corpus.families import cause_key
from fuzz.campaign.limits import Budget
from fuzz.campaign.progress import FamilyState, Progress, UndefinedCounts
from fuzz.console.styles import duration, kind_name, kind_style, plain
from fuzz.findings.groups import FindingGroup, finding_groups, group_counts
from fuzz.output import counted, printable
from oracle.matrices import SHAPES


def counters(progress: Progress, budget: Budget, seconds: float) -> RenderableType:
    """Return the panel: cases, forms, budget, findings."""
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
        f"[count]{len(progress.reached)}[/] of {progress.forms} {progress.forms_are}",
        ProgressBar(total=progress.forms, completed=len(progress.reached)),
    )
    if progress.stopped:
        grid.add_row("time", duration(seconds), f"ended: {escape(printable(progress.stopped))}")
    else:
        total, done, left = spent(budget, seconds, progress.cases)
        grid.add_row("budget", left, ProgressBar(total=total, completed=done))
    unknown, known = group_counts(progress.families.values())
    found = f"[count]{unknown:,}[/] {'family' if unknown == 1 else 'families'}"
    found += f", {known:,} known" if known else ""
    found += f", {progress.unconfirmed:,} not confirmed" if progress.unconfirmed else ""
    grid.add_row("findings", found, progress.pair)
    title = f"[bold]warpfuzz[/] against {escape(progress.subject)} · seed {progress.seed}"
    return Panel(grid, title=title, title_align="left")


def spent(budget: Budget, seconds: float, cases: int) -> tuple[float, float, str]:
    """Return total, done and words for the limit that is nearest."""
    choices = []
    if budget.seconds is not None:
        left = max(0.0, budget.seconds - seconds)
        words = f"{duration(left)} left of {duration(budget.seconds)}"
        choices.append((budget.seconds, min(seconds, budget.seconds), words))
    if budget.cases is not None:
        words = f"{counted(max(0, budget.cases - cases), 'case')} left"
        choices.append((float(budget.cases), float(min(cases, budget.cases)), words))
    if not choices:
        return 1.0, 0.0, f"{duration(seconds)} so far, no limit"
    return max(choices, key=lambda choice: choice[1] / choice[0])


def undefined_table(counts: UndefinedCounts) -> RenderableType:
    """Return the table: why programs are undefined, what they did, and how many."""
    table = Table(box=None, pad_edge=False)
    table.add_column("undefined, not judged")
    table.add_column("outcome")
    table.add_column("programs", justify="right")
    for (reason, outcome), count in sorted(counts.items()):
        table.add_row(reason, outcome, f"{count:,}")
    return table


def by_severity(progress: Progress) -> list[FamilyState]:
    """Return the families of a campaign, those of one cause together: worst first, known last."""
    return [
        family for group in finding_groups(progress.families.values()) for family in group.members
    ]


def finding_row(family: FamilyState) -> dict[str, object]:
    """Return a family as the summary lists it."""
    return {
        "id": family.saved.id if family.saved else None,
        "family": family.key,
        "group": cause_key(family.kind, family.key),
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


def what_of(group: FindingGroup) -> str:
    """Return the title of a group without its kind."""
    return group.title.removeprefix(f"{group.kind}: ")


@dataclass(frozen=True, kw_only=True)
class _Line:
    """Groups that a person reads as one: they differ in the shape alone."""

    kind: Kind
    known: str
    what: str
    shapes: tuple[str, ...]
    cases: int
    example: str


_TELLING = (Kind.INTERNAL, Kind.UNREADABLE, Kind.REJECTED)
"""Kinds with what an assembler said at the end of the title (`fuzz.families`), which is long."""


def _lines(progress: Progress) -> list[_Line]:
    lines: dict[tuple[Kind, str, str, str], list[tuple[str, FindingGroup]]] = {}
    for group in finding_groups(progress.families.values()):
        what, shape = what_of(group), ""
        head, _, said = what.partition(": ")
        if group.kind in _TELLING:
            what, said = head, ""
        if not said:
            # What is said of values stands for all shapes already: that of the title is an example.
            shape = next((word for word in what.split(" ") if word.rstrip(",") in SHAPES), "")
            what = what.replace(shape, "").replace("  ", " ").strip() if shape else what
        known = group.known.id if group.known is not None else ""
        message = "" if group.kind is not Kind.REJECTED else group.shown.message
        lines.setdefault((group.kind, known, what, message), []).append((shape, group))
    return [
        _Line(
            kind=kind,
            known=known,
            what=what,
            shapes=tuple(shape.rstrip(",") for shape, _ in members if shape),
            cases=sum(group.cases for _, group in members),
            example=min((group.shown.text for _, group in members), key=len).partition(" ")[0],
        )
        for (kind, known, what, _), members in lines.items()
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
        what = plain(" ".join((line.what, *line.shapes)))
        if line.known:
            what.append(f" (known: {printable(line.known)})", style="known")
        table.add_row(
            Text(kind_name(line.kind), style=kind_style(line.kind, known=bool(line.known))),
            f"{line.cases:,}",
            what,
            plain(line.example, style="quiet"),
        )
    if len(shown) < len(lines):
        table.add_row("", "", f"… and {counted(len(lines) - len(shown), 'line')} more", "")
    return table
