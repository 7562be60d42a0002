"""`warpfuzz isa`: the table of documented forms."""

from __future__ import annotations

from collections import Counter

from fuzz.options.testing import Isa
from fuzz.output import counted
from fuzz.output.report import Report, ReportColumn, rows_of
from oracle.isa.forms import Form
from oracle.isa.legality import SECTIONS
from oracle.isa.lookup import is_available, notes_of
from oracle.isa.targets import Module, parse_target, parse_version
from strategies.draws import Selection
from strategies.instructions import canonical


def list_forms(options: Isa) -> None:
    """Print every documented form that is available on a target and in a version.

    Where neither is given, everything that was ever documented.
    """
    target, ptx_version = options.target, options.ptx_version
    forms = Selection(pattern=options.only).forms()
    if target or ptx_version:
        forms = tuple(form for form in forms if _available(form, target, ptx_version))
    counts = Counter(form.mnemonic for form in forms)
    parts = ", ".join(f"{count} {mnemonic}" for mnemonic, count in counts.items())
    Report(
        columns=_COLUMNS,
        rows=rows_of(map(_row, forms)),
        sentences=[f"{counted(len(forms), 'form')}: {parts or 'none'}"],
    ).write(json=options.json)


_COLUMNS = (
    ReportColumn("form", "opcode"),
    ReportColumn(
        "registers",
        lambda row: " ".join(f"{name}:{count}" for name, count in row["registers"].items()),
    ),
    ReportColumn("since"),
    ReportColumn("target"),
    ReportColumn(f"section of {SECTIONS}", "section"),
)


def _available(form: Form, target: str | None, ptx_version: str | None) -> bool:
    notes = notes_of(form)
    if target and ptx_version:
        return is_available(form, Module.named(target, ptx_version))
    if ptx_version:
        version = parse_version(ptx_version)
        return all(
            (note.since is None or note.since <= version)
            and (note.until is None or version < note.until)
            for note in notes
        )
    goal = parse_target(target or "")
    return all(
        (note.target is None or note.target <= goal.number)
        and (
            not note.specific
            or goal.name == note.also
            or (goal.is_specific and goal.family is not None)
        )
        for note in notes
    )


def _row(form: Form) -> dict[str, object]:
    notes = notes_of(form)
    since = max(note.since for note in notes if note.since is not None)
    until = [note.until for note in notes if note.until is not None]
    smallest = max(note.target for note in notes if note.target is not None)
    specific = [note for note in notes if note.specific]
    return {
        "text": canonical(form).text,
        "opcode": form.opcode,
        "mnemonic": form.mnemonic,
        "registers": _registers(form),
        "since": str(since),
        "until": str(until[0]) if until else None,
        "target": ", ".join(
            (*(note.also for note in specific if note.also), "sm_100a, sm_101a/sm_110a, sm_120a")
        )
        + " and families"
        if specific
        else f"sm_{smallest}",
        "section": form.section,
        "section_of": SECTIONS,
        "block": form.page_family,
        "notes": [note.text for note in notes],
    }


def _registers(form: Form) -> dict[str, int]:
    return {kind: vector.registers for kind, vector in form.vectors.items()}
