"""The folder of a finding of an assembler: the module, the command line, and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from corpus import Entry, Finding
from fuzz.explain.facts import meaning_of, outcomes_of
from fuzz.explain.markdown import fenced, table
from fuzz.findings.case import MODULE
from oracle.errors import UsageError
from oracle.legality import Verdict, explain

_SCRIPT = """#!/bin/sh
# Assembles the module; PTXAS names the assembler. The exit code is the assembler's own: 0 if it
# accepts the module.
cd "$(dirname "$0")" || exit 3
exec "${{PTXAS:-ptxas}}" -arch={target} {module} -o "${{TMPDIR:-/tmp}}/repro-$$.cubin"
"""


def instruction_files(entry: Entry) -> Mapping[str, bytes]:
    """Return the files of the folder, by name.

    Raises
    ------
    UsageError
        If the finding has no module.
    InfrastructureError
        If a file of it is broken.
    """
    finding = entry.finding
    if MODULE not in finding.files:
        raise UsageError(
            f"finding {finding.id} has no {MODULE}, so there is nothing to assemble or to run; "
            "choose another finding"
        )
    module = entry.read(MODULE)
    return {
        "README.md": instruction_page(finding, module.decode(errors="replace")).encode(),
        MODULE: module,
        "repro.sh": _SCRIPT.format(target=finding.target, module=MODULE).encode(),
    }


def instruction_page(finding: Finding, module: str) -> str:
    """Return the page as Markdown."""
    lines = [
        f"# {finding.family.title}",
        "",
        f"{finding.kind}: {meaning_of(finding)}" if meaning_of(finding) else f"{finding.kind}.",
        "",
        *fenced(finding.text, "ptx"),
        *table(("what", "value"), _facts(finding)),
        "## What the PTX ISA says",
        "",
        *_expected(finding),
        "## What the assembler does",
        "",
        *_observed(finding),
        "## Seeing it again",
        "",
        *fenced(
            f"PTXAS=/path/to/ptxas sh repro.sh    # ptxas -arch={finding.target} {MODULE}", "sh"
        ),
        f"`{MODULE}`:",
        "",
        *fenced(module, "ptx"),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _facts(finding: Finding) -> Sequence[tuple[str, str]]:
    rows = [
        ("kind", str(finding.kind)),
        ("`.target`, `.version`", f"{finding.target}, {finding.ptx_version}"),
        ("assemblers", ", ".join(f"{one.runner} {one.version}" for one in finding.runners)),
        ("warpfuzz", finding.versions.warpfuzz),
        ("finding", f"{finding.id}, {finding.shrink}"),
    ]
    if finding.origin is not None:
        rows.append(("seed", f"{finding.origin.seed}, round {finding.origin.round}"))
    return rows


def _expected(finding: Finding) -> list[str]:
    lines = []
    for text in finding.instructions:
        explanation = explain(text, target=finding.target, ptx_version=finding.ptx_version)
        owed = {
            Verdict.LEGAL: "has to be accepted",
            Verdict.ILLEGAL: "has to be rejected",
            Verdict.UNDEFINED: "may be accepted or rejected: its behaviour is undefined",
        }[explanation.verdict]
        lines.append(f"`{text}` is **{explanation.verdict}** in this module, so that it {owed}.")
        lines += [
            f"- {f'{reason.section}: ' if reason.section else ''}{reason.text}"
            for reason in explanation.reasons
        ]
        lines.append("")
    return lines


def _observed(finding: Finding) -> list[str]:
    told = outcomes_of(finding)
    lines = [*table(("compiler", *told.levels), told.rows)] if told.rows else []
    for one in told.others:
        lines += [f"{one.runner} {one.version} {one.options}: **{one.outcome}**", ""]
        if one.message:
            lines += fenced(one.message)
    return lines
