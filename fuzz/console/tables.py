"""Families of findings as lines and rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from corpus import Kind
from fuzz.campaign.status import CampaignStatus
from fuzz.checks.protocol import Counts
from fuzz.console.styles import kind_name, kind_style, plain
from fuzz.findings.families import (
    FamilyState,
    FindingGroup,
    finding_groups,
)
from fuzz.output import counted, harmless
from oracle.matrices import SHAPES


def undefined_table(counts: Counts) -> RenderableType:
    """Return the table: why programs are undefined, what they did, and how many."""
    table = Table(box=None, pad_edge=False)
    table.add_column("undefined, not judged")
    table.add_column("outcome")
    table.add_column("programs", justify="right")
    for words, count in sorted(counts.items()):
        if words[0] == "undefined":
            table.add_row(*words[1:], f"{count:,}")
    return table


def told_apart_words(status: CampaignStatus) -> str:
    """Say how many cases were compared, only accepted or rejected, and not asked."""
    words = f"{counted(status.compared, status.words.case)} compared"
    if status.answered:
        words += f", {status.answered:,} only accepted or rejected"
    if status.unasked:
        words += f", {status.unasked:,} not asked"
    shown = [
        f"{count:,} {one.one if count == 1 else one.many or one.one + 's'}"
        for one in status.words.counters
        if (count := status.counts[one.words]) or not one.odd
    ]
    return f"{words} ({', '.join(shown)})" if shown else words


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


def _lines(families: Iterable[FamilyState]) -> list[_Line]:
    lines: dict[tuple[Kind, str, str, str], list[tuple[str, FindingGroup]]] = {}
    for group in finding_groups(families):
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


def families_table(families: Iterable[FamilyState], rows: int | None = None) -> RenderableType:
    """Return a table of the families, worst first; a line holds all that differ in shape alone."""
    table = Table(box=None, pad_edge=False, expand=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("cases", justify="right", no_wrap=True)
    table.add_column("what", ratio=4, overflow="fold")
    table.add_column("smallest, without operands", ratio=5, overflow="fold")
    lines = _lines(families)
    shown = lines if rows is None else lines[:rows]
    for line in shown:
        what = plain(" ".join((line.what, *line.shapes)))
        if line.known:
            what.append(f" (known: {harmless(line.known, one_line=True)})", style="known")
        table.add_row(
            Text(kind_name(line.kind), style=kind_style(line.kind, known=bool(line.known))),
            f"{line.cases:,}",
            what,
            plain(line.example, style="quiet"),
        )
    if len(shown) < len(lines):
        table.add_row("", "", f"… and {counted(len(lines) - len(shown), 'line')} more", "")
    return table
