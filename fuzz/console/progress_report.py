"""The end of a campaign with a driver of its own: its summary and its report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fuzz.campaign.limits import Budget
from fuzz.campaign.progress import Progress
from fuzz.console.report import print_pages, recording_console, save
from fuzz.console.styles import duration
from fuzz.console.tables import families_table
from fuzz.findings.groups import finding_rows, group_counts
from fuzz.output import counted


def counters(progress: Progress, budget: Budget, seconds: float) -> RenderableType:
    """Return the panel: cases, forms, budget, findings."""
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(style="quiet", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    rate = progress.cases / seconds
    grid.add_row(
        "cases",
        Text.assemble(
            (f"{progress.cases:,}", "count"), f" drawn, {progress.judged:,} {progress.judged_so}"
        ),
        Text.assemble((f"{rate:,.0f}", "count"), " a second"),
    )
    grid.add_row(
        "forms",
        Text.assemble(
            (f"{len(progress.reached)}", "count"), f" of {progress.forms} {progress.forms_are}"
        ),
        ProgressBar(total=progress.forms, completed=len(progress.reached)),
    )
    if progress.stopped:
        grid.add_row("time", duration(seconds), f"ended: {progress.stopped}")
    else:
        total, done, left = spent(budget, seconds, progress.cases)
        grid.add_row("budget", left, ProgressBar(total=total, completed=done))
    unknown, known = group_counts(progress.families.values())
    found = Text.assemble((f"{unknown:,}", "count"), " family" if unknown == 1 else " families")
    found.append(f", {known:,} known" if known else "")
    found.append(f", {progress.unconfirmed:,} not confirmed" if progress.unconfirmed else "")
    grid.add_row("findings", found, progress.pair)
    title = Text.assemble(
        ("warpfuzz", "bold"), f" against {progress.subject} · seed {progress.seed}"
    )
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
            "findings": finding_rows(progress.families.values()),
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
        out.print(families_table(progress.families.values()))
    elif progress.cases:
        out.print(progress.agreement)
    else:
        out.print("Nothing was judged.")
    out.print(f"Checked {progress.checked} in {duration(progress.seconds)}: {_found(progress)}.")
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

    Raises
    ------
    UsageError
        If the file ends in neither .svg nor .html.
    InfrastructureError
        If it cannot be written.
    """
    recorder = recording_console()
    print_report(progress, corpus, recorder)
    print_pages(progress.families.values(), corpus, recorder, path)
    save(recorder, path, title="warpfuzz run")
