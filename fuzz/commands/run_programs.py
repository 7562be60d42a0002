"""`warpfuzz run` on something that computes: the simulated device or a GPU."""

from __future__ import annotations

import os
import secrets
import signal
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from corpus import Corpus, create_corpus
from fuzz.campaign.campaign import Campaign, check_options, options_of
from fuzz.campaign.crew import ProcessCrew
from fuzz.campaign.figures import summary
from fuzz.campaign.messages import Plan
from fuzz.campaign.store import CampaignStore, State
from fuzz.commands.corpus import generator
from fuzz.commands.run_instructions import budget_of, check_report, known_with
from fuzz.console import print_report, watching, write_report
from fuzz.output import console, emit
from fuzz.runner import LAYOUTS, RunnerChoice, visible_devices
from oracle.errors import InfrastructureError, UsageError, WarpfuzzError


@dataclass(frozen=True, kw_only=True)
class ValueRequest:
    """Options of `warpfuzz run --runner sim` and `--runner cuda`."""

    choice: RunnerChoice
    time: str | None
    cases: int | None
    findings: int | None
    quiet_time: str | None
    seed: int | None
    corpus: Path
    resume: bool
    workers: int | None
    devices: tuple[int, ...]
    only: str
    include_undefined: bool
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
    budget = budget_of(
        request.time, request.cases, findings=request.findings, quiet_time=request.quiet_time
    )
    known = known_with(request.known)
    check_report(request.report)
    devices = _devices(request)
    with ExitStack() as stack:
        corpus = store = state = None
        if request.resume and request.corpus.is_dir():
            corpus, store = _opened(request, stack)
            state = _last_state(store)
        plan = _plan(request, state)
        workers = request.workers or _workers(plan.choice.name)
        crew = stack.enter_context(ProcessCrew(plan, workers=workers, devices=devices))
        facts = crew.facts()
        if state is not None:
            check_options(state.options, options_of(plan, facts))
        if corpus is None or store is None:
            corpus, store = _opened(request, stack)
        if state is None:
            _make_room(store)
        with watching(budget, json=request.json) as watcher:
            campaign = Campaign(
                crew,
                facts,
                plan=plan,
                budget=budget,
                corpus=corpus,
                known=known,
                observer=watcher,
                store=store,
                state=state,
            )
            _end_on_signals(campaign)
            failure = None
            try:
                campaign.run()
            except (WarpfuzzError, OSError) as error:
                # What was found until then is reported all the same.
                failure = error
        _report(request, campaign, plan.choice.faults)
    if failure is not None:
        raise failure
    return bool(campaign.progress.findings)


def _devices(request: ValueRequest) -> tuple[int, ...]:
    if request.choice.name != "cuda":
        if request.devices:
            raise UsageError(
                f"--device {request.devices[0]} names a GPU, and the runner is "
                f"{request.choice.name}; leave it out, or choose --runner cuda"
            )
        return (0,)
    return request.devices or tuple(range(visible_devices()))


def _workers(runner: str) -> int:
    """Return how many workers there are unless somebody says: on a GPU one core is left for it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (cores or 1) - (runner == "cuda"))


def _plan(request: ValueRequest, state: State | None) -> Plan:
    """Return what the workers have to know; a resumed campaign keeps its seed."""
    before = state.options.get("--seed") if state is not None else None
    seed = request.seed if request.seed is not None else before
    if not isinstance(seed, int):
        seed = secrets.randbits(32)
    choice = request.choice
    if choice.name == "sim":
        choice = replace(choice, layout=seed % LAYOUTS)
    return Plan(choice=choice, seed=seed, pattern=request.only, undefined=request.include_undefined)


def _opened(request: ValueRequest, stack: ExitStack) -> tuple[Corpus, CampaignStore]:
    corpus = create_corpus(request.corpus, generator=generator())
    return corpus, stack.enter_context(CampaignStore(corpus.path))


def _last_state(store: CampaignStore) -> State | None:
    state, said = store.load()
    if said:
        console(stderr=True).print(f"{said}; the one before is taken", markup=False)
    return state


def _make_room(store: CampaignStore) -> None:
    """Put what an earlier campaign left there aside."""
    try:
        earlier, _ = store.load()
    except InfrastructureError:
        earlier = None
    if earlier is not None and not earlier.ended:
        store.abandon()
        console(stderr=True).print(
            f"an unfinished campaign of seed {earlier.options.get('--seed')} was there, and a new "
            f"one begins; its state is kept as {store.folder / 'state.abandoned.json'}",
            markup=False,
            soft_wrap=True,
        )
    store.forget()


def _report(request: ValueRequest, campaign: Campaign, planted: tuple[str, ...]) -> None:
    progress = campaign.progress
    if request.json:
        emit({"summary": summary(campaign)})
    else:
        print_report(progress, request.corpus, console(), planted=planted)
    if request.report is not None:
        write_report(
            progress,
            request.corpus,
            request.report,
            status=campaign.status(),
            budget=campaign.budget,
        )


def _end_on_signals(campaign: Campaign) -> None:
    """End the campaign on SIGINT and SIGTERM; a second signal ends the program.

    No clock is needed: workers that do not come to an end in time are killed.
    """

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        campaign.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
