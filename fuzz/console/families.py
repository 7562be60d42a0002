"""Families of findings as lines and rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from corpus import Kind
from fuzz.console.styles import kind_name, kind_style, plain
from fuzz.instruction_progress import FamilyState, Progress
from fuzz.output import printable
from oracle.isa import SHAPES


def sorted_families(families: Iterable[FamilyState]) -> list[FamilyState]:
    """Return families worst first, what is known last."""
    return sorted(
        families,
        key=lambda family: (family.known is not None, -family.kind.severity, family.title),
    )


def by_severity(progress: Progress) -> list[FamilyState]:
    """Return the families of a campaign worst first, what is known last."""
    return sorted_families(progress.families.values())


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


def what_of(family: FamilyState) -> str:
    """Return the title of a family without its kind."""
    return family.title.removeprefix(f"{family.kind}: ")


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
        what = what_of(family).partition(": ")[0]
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
        table.add_row("", "", f"… and {len(lines) - len(shown)} lines more", "")
    return table
