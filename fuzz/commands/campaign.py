"""`warpfuzz run`."""

from __future__ import annotations

import secrets
import signal
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from corpus import create_corpus
from corpus.known import Known, load_known
from fuzz.budget import Budget, parse_duration
from fuzz.commands.findings import generator
from fuzz.console import print_report, summary, view, write_report
from fuzz.instruction_campaign import InstructionCampaign
from fuzz.instruction_rounds import Selection
from fuzz.output import console, emit
from oracle.errors import UsageError
from runners.assemblers.discovery import find

_DEFAULT_SECONDS = 60.0
"""Length of a campaign that nobody limits: what a person waits for."""


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
    budget = _budget(request)
    known = _known(request.known)
    if request.report is not None and request.report.suffix not in (".svg", ".html"):
        raise UsageError(f"{request.report} ends in neither .svg nor .html; choose one of the two")
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
        _stop_on_signals(campaign)
        progress = campaign.run()
    if request.json:
        emit(summary(progress))
    else:
        out = console()
        print_report(progress, request.corpus, out)
        for entry in known.expired():
            out.print(f"known discrepancy {entry.id} has expired: renew or remove it", style="odd")
    if request.report is not None:
        write_report(progress, request.corpus, request.report)
    return bool(progress.findings)


def _budget(request: Request) -> Budget:
    seconds = parse_duration(request.time) if request.time else None
    if seconds is None and request.cases is None:
        seconds = _DEFAULT_SECONDS
    return Budget(seconds=seconds, cases=request.cases)


def _known(path: Path | None) -> Known:
    packaged = load_known()
    if path is None:
        return packaged
    return Known(entries=(*packaged.entries, *load_known(path).entries))


def _stop_on_signals(campaign: InstructionCampaign) -> None:
    """End the campaign after its round on SIGINT or SIGTERM; a second signal ends it at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        campaign.stop()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
