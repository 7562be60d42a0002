"""Counters of a campaign on instructions, as a panel."""

from __future__ import annotations

from rich.console import RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from fuzz.budget import Budget
from fuzz.console.styles import duration
from fuzz.finding_groups import group_counts
from fuzz.instruction_progress import Progress
from fuzz.output import printable
from fuzz.wording import counted


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
