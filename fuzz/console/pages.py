"""The page of a finding of any kind."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from corpus import Entry
from fuzz.console.styles import plain
from fuzz.value_findings import is_value_finding


def page_of(entry: Entry) -> RenderableType:
    """Return the page of a finding: with images, or of an instruction that was judged.

    Raises
    ------
    WarpfuzzError
        If a file of it is broken.
    """
    if is_value_finding(entry):
        from fuzz.console.finding_page import finding_page

        return finding_page(entry)
    return _instruction_page(entry)


def _instruction_page(entry: Entry) -> RenderableType:
    """Return verdicts, reasons, versions and modules."""
    finding = entry.finding
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="quiet")
    table.add_column(overflow="fold")
    for name, value in _facts(entry):
        table.add_row(name, escape(value))
    parts: list[RenderableType] = [Text(finding.family.title, style="bold"), table]
    for name in finding.files:
        if name.endswith(".ptx"):
            text = entry.read(name).decode(errors="replace")
            parts.append(plain(str(entry.path / name), style="quiet"))
            parts.append(Syntax(text, "text", background_color="default"))
    return Group(*parts)


def _facts(entry: Entry) -> Iterable[tuple[str, str]]:
    finding = entry.finding
    yield "id", finding.id
    yield "kind", finding.kind
    yield "instruction", finding.text
    yield "module", f".target {finding.target}, .version {finding.ptx_version}"
    yield "ISA", finding.oracle.verdict
    for reason in finding.oracle.reasons:
        yield "", f"{reason.text} [PTX ISA {reason.section}]"
    for verdict in finding.runners:
        yield f"{verdict.runner} {verdict.version}", f"{verdict.outcome}: {verdict.message}"
    yield "shrinking", finding.shrink
    if finding.origin is not None:
        yield "found", f"seed {finding.origin.seed}, round {finding.origin.round}"
    yield "made by", f"warpfuzz {finding.versions.warpfuzz}"
    if finding.comment:
        yield "comment", finding.comment
