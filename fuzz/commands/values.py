"""`warpfuzz run` on something that computes: the simulated device or a GPU."""

from __future__ import annotations

import secrets
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from corpus import create_corpus
from fuzz.commands.campaign import budget_of, check_report, known_with
from fuzz.commands.findings import generator
from fuzz.console import by_severity, finding_row, print_report, view, write_report
from fuzz.instruction_rounds import Selection
from fuzz.output import console, emit
from fuzz.runner_choice import LAYOUTS, OpenRunner, RunnerChoice, opened
from fuzz.value_campaign import ValueCampaign, ValueProgress
from oracle.errors import WarpfuzzError


@dataclass(frozen=True, kw_only=True)
class ValueRequest:
    """Options of `warpfuzz run --runner sim` and `--runner cuda`."""

    choice: RunnerChoice
    time: str | None
    cases: int | None
    seed: int | None
    corpus: Path
    only: str
    known: Path | None
    report: Path | None
    json: bool


def run_values(request: ValueRequest) -> bool:
    """Run a campaign; tell whether it found something that is not known.

    Raises
    ------
    DeviceLostError
        If the device went away; what was found until then is reported all the same.
    WarpfuzzError
        If the request is wrong, or the runner or the corpus does not work.
    """
    budget = budget_of(request.time, request.cases)
    known = known_with(request.known)
    check_report(request.report)
    seed = secrets.randbits(32) if request.seed is None else request.seed
    choice = request.choice
    if choice.name == "sim":
        choice = replace(choice, layout=seed % LAYOUTS)
    with opened(choice) as ready:
        corpus = create_corpus(request.corpus, generator=generator())
        with view(budget, json=request.json) as watching:
            campaign = ValueCampaign(
                ready,
                selection=Selection(pattern=request.only),
                budget=budget,
                seed=seed,
                corpus=corpus,
                known=known,
                observer=watching,
            )
            _end_on_signals(campaign)
            failure = None
            try:
                campaign.run()
            except (WarpfuzzError, OSError) as error:
                # What was found until then is reported all the same.
                failure = error
        progress = campaign.progress
        _report(request, progress, ready)
    if failure is not None:
        raise failure
    return bool(progress.findings)


def _report(request: ValueRequest, progress: ValueProgress, ready: OpenRunner) -> None:
    if request.json:
        emit(_summary(progress, ready))
    else:
        print_report(progress, request.corpus, console())
    if request.report is not None:
        write_report(progress, request.corpus, request.report)


def _summary(progress: ValueProgress, ready: OpenRunner) -> dict[str, object]:
    return {
        "summary": {
            "cases": progress.cases,
            "compared": progress.judged,
            "missing": progress.missing,
            "programs": {"compiled": progress.compiled, "failed": progress.uncompiled},
            "seconds": round(progress.seconds, 3),
            "seed": progress.seed,
            "rounds": progress.rounds,
            "forms": {"reached": len(progress.reached), "documented": progress.forms},
            "runner": ready.choice.name,
            "device": ready.device,
            "options": ready.choice.options,
            "target": ready.target,
            "ptx_version": ready.ptx_version,
            "verdicts": {kind.value: count for kind, count in progress.by_kind.items()},
            "stopped": progress.stopped,
            "findings": [finding_row(family) for family in by_severity(progress)],
        }
    }


def _end_on_signals(campaign: ValueCampaign) -> None:
    """End the campaign on SIGINT and SIGTERM; a second signal ends the program.

    No clock is needed: every batch has a deadline.
    """

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        campaign.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
