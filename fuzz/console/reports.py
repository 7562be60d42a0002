"""The end of a campaign on instructions: its summary, its report, and the report as a page."""

from __future__ import annotations

import shlex
from io import StringIO
from pathlib import Path

from rich.console import Console

from fuzz.budget import Budget
from fuzz.console.counters import counters
from fuzz.console.families import by_severity, families_table, finding_row
from fuzz.console.styles import duration
from fuzz.instruction_progress import Progress
from fuzz.output import THEME
from oracle.errors import InfrastructureError, UsageError


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
    out.print(counters(progress, Budget(), progress.seconds))
    if progress.families:
        out.print(families_table(progress))
    elif progress.cases:
        out.print(progress.agreement)
    else:
        out.print("Nothing was judged.")
    out.print(
        f"Checked {progress.checked} in {duration(progress.seconds)}: "
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
