"""The end of a campaign on instructions: its summary, its report, and the report as a page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

from corpus import open_corpus
from fuzz.campaign.limits import Budget
from fuzz.campaign.progress import Progress
from fuzz.campaign.status import CampaignStatus
from fuzz.console.dashboard import dashboard
from fuzz.console.styles import duration
from fuzz.console.tables import by_severity, counters, families_table, finding_row, undefined_table
from fuzz.findings.groups import group_counts
from fuzz.output import THEME, counted
from oracle.errors import InfrastructureError, UsageError, WarpfuzzError


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


def print_report(
    progress: Progress, corpus: Path, out: Console, *, planted: Sequence[str] = ()
) -> None:
    """Print what was checked, what was found, and the command that replays it.

    Parameters
    ----------
    planted
        Names of the faults that were planted: a replay has to plant them again.
    """
    out.print(counters(progress, Budget(), progress.seconds))
    if progress.families:
        out.print(families_table(progress))
    elif progress.cases:
        out.print(progress.agreement)
    else:
        out.print("Nothing was judged.")
    out.print(f"Checked {progress.checked} in {duration(progress.seconds)}: {_found(progress)}.")
    if progress.undefined:
        out.print(undefined_table(progress.undefined))
    if progress.families:
        faults = (word for name in planted for word in ("--fault", name))
        command = shlex.join(("warpfuzz", "replay", str(corpus), *faults))
        out.print(f"Stored in {corpus}. Replay: {command}", markup=False, soft_wrap=True)
    for family in progress.families.values():
        if family.saved is None:
            lost = f"Not stored ({progress.pair}), keep it: {family.text}"
            out.print(lost, style="worst", markup=False, soft_wrap=True)


def _found(progress: Progress) -> str:
    """Return how many groups of findings there are."""
    unknown, known = group_counts(progress.families.values())
    words = f"{counted(unknown, 'family', 'families')} of disagreements"
    return f"{words}, and {known:,} known" if known else words


def write_report(
    progress: Progress,
    corpus: Path,
    path: Path,
    *,
    status: CampaignStatus | None = None,
    budget: Budget | None = None,
) -> None:
    """Write the final report as an SVG or HTML page.

    A page has the report and the finding of every family, worst first; a picture, which cannot be
    searched, has the first of them alone.

    Parameters
    ----------
    corpus
        Where the findings are.
    path
        The file.
    status
        The campaign at its end, if it has many workers; the dashboard of it comes first.
    budget
        Its limits.

    Raises
    ------
    UsageError
        If the file ends in neither .svg nor .html.
    InfrastructureError
        If it cannot be written.
    """
    if path.suffix not in (".svg", ".html"):
        raise UsageError(f"{path} ends in neither .svg nor .html; choose one of the two")
    recorder = recording_console()
    if status is not None:
        recorder.print(dashboard(status, budget))
        recorder.print()
    print_report(progress, corpus, recorder)
    stored = [family.saved.id for family in by_severity(progress) if family.saved is not None]
    _print_pages(corpus, stored if path.suffix == ".html" else stored[:1], recorder)
    save(recorder, path, title="warpfuzz run")


_REPORT_COLUMNS, _REPORT_ROWS = 120, 400
"""Columns of a report: what a page of a browser shows without scrolling; rows of a dashboard in
it: enough for every family that a person reads."""


def recording_console(columns: int = _REPORT_COLUMNS, rows: int = _REPORT_ROWS) -> Console:
    """Return a console that keeps what is printed, with its colours, whatever the terminal is."""
    return Console(
        record=True,
        width=columns,
        height=rows,
        file=StringIO(),
        theme=THEME,
        highlight=False,
        force_terminal=True,
        color_system="truecolor",
        no_color=False,
    )


def save(recorder: Console, path: Path, *, title: str) -> None:
    """Write what a console has kept as .svg, or else as .html.

    Raises
    ------
    InfrastructureError
        If it cannot be written.
    """
    try:
        if path.suffix == ".svg":
            recorder.save_svg(str(path), title=title)
        else:
            recorder.save_html(str(path), theme=SVG_EXPORT_THEME)
    except OSError as error:
        raise InfrastructureError(f"{path} cannot be written: {error.strerror}") from None


def _print_pages(corpus: Path, ids: Sequence[str], out: Console) -> None:
    from fuzz.explain.page import page_of

    if not ids:
        return
    opened = open_corpus(corpus)
    for identity in ids:
        out.print()
        out.rule(style="quiet")
        try:
            out.print(page_of(opened.get(identity)))
        except WarpfuzzError as error:
            # One that cannot be shown must not cost the report of the others.
            out.print(f"{identity} cannot be shown: {error}", style="bad", markup=False)
