"""`warpfuzz run`."""

from __future__ import annotations

import secrets
import signal
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from corpus import create_corpus
from corpus.known import known_with
from fuzz.campaign.draws import Selection
from fuzz.campaign.limits import Budget, parse_duration
from fuzz.checks.instructions import BUDGET_SPENT, InstructionCampaign
from fuzz.commands.corpus import generator
from fuzz.console.progress_report import print_report, summary, write_report
from fuzz.console.view_instructions import view
from fuzz.output import console, emit
from oracle.errors import InfrastructureError, UsageError, WarpfuzzError
from runners.assemblers.discovery import find

_DEFAULT_SECONDS = 60.0
"""Length of a campaign that nobody limits: what a person waits for."""
_LATE_SECONDS, _LATE_SHARE = 5.0, 0.05
"""How much longer the last batch may take, and the findings in it."""
_LONGEST_TIMER = 2.0**31 - 1
"""Seconds that setitimer takes on any system: time_t has 32 bits on some."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Options of `warpfuzz run`."""

    runner: str
    time: str | None
    cases: int | None
    seed: int | None
    corpus: Path
    target: str | None
    ptx_version: str | None
    only: str
    assemblers: tuple[str, ...]
    known: Path | None
    report: Path | None
    json: bool


def run_campaign(request: Request) -> bool:
    """Run a campaign; tell whether it found something that is not known."""
    budget = budget_of(request.time, request.cases)
    known = known_with(request.known)
    check_report(request.report)
    assemblers = tuple(find(wanted) for wanted in request.assemblers) or (find(),)
    corpus = create_corpus(request.corpus, generator=generator())
    seed = secrets.randbits(32) if request.seed is None else request.seed
    with view(budget, json=request.json) as watching:
        campaign = InstructionCampaign(
            assemblers,
            selection=Selection(pattern=request.only),
            budget=budget,
            seed=seed,
            corpus=corpus,
            known=known,
            observer=watching,
            target=request.target,
            ptx_version=request.ptx_version,
        )
        _end_on_signals(campaign, budget)
        failure = None
        try:
            campaign.run()
        except (WarpfuzzError, OSError) as error:
            # What was found until then is reported all the same.
            failure = error
    progress = campaign.progress
    if not progress.cases and failure is None and progress.stopped == BUDGET_SPENT:
        failure = InfrastructureError(
            "no instruction was judged in the time: the assembler is slow, or hangs on many "
            "instructions; give it longer (--time), or select fewer forms (--only)"
        )
    if failure is not None and not progress.cases:
        raise failure
    if request.json:
        emit(summary(progress))
    else:
        out = console()
        print_report(progress, request.corpus, out)
        for entry in known.expired():
            out.print(f"known discrepancy {entry.id} has expired: renew or remove it", style="odd")
    if request.report is not None:
        write_report(progress, request.corpus, request.report)
    if failure is not None:
        raise failure
    return bool(progress.findings)


def budget_of(
    time: str | None,
    cases: int | None,
    *,
    findings: int | None = None,
    quiet_time: str | None = None,
) -> Budget:
    """Return the limits that options give; a minute without any."""
    seconds = None if time is None else parse_duration(time)
    quiet = None if quiet_time is None else parse_duration(quiet_time)
    if all(limit is None for limit in (seconds, cases, findings, quiet)):
        seconds = _DEFAULT_SECONDS
    return Budget(seconds=seconds, cases=cases, findings=findings, quiet=quiet)


def check_report(path: Path | None) -> None:
    """Raise UsageError now for what could not be written at the end of a long campaign."""
    if path is None:
        return
    if path.suffix not in (".svg", ".html"):
        raise UsageError(f"{path} ends in neither .svg nor .html; choose one of the two")
    if not path.parent.is_dir() or path.is_dir():
        raise UsageError(
            f"the report {path} cannot be written: give a file in a folder that is there"
        )


def _end_on_signals(campaign: InstructionCampaign, budget: Budget) -> None:
    """End the campaign on SIGINT, SIGTERM and SIGHUP; a second signal ends the program.

    A third comes from ourselves, when the time is long past: batches end in time, unless the
    assembler hangs on many instructions.
    """

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        campaign.interrupt()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, end)
    if budget.seconds is not None:
        late = _LATE_SECONDS + _LATE_SHARE * budget.seconds
        signal.setitimer(signal.ITIMER_REAL, min(budget.seconds + late, _LONGEST_TIMER))
