"""`warpfuzz run`: a campaign with the check that the options ask for."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from corpus import create_corpus
from corpus.known import known_with
from fuzz import output
from fuzz.campaign.campaign import Campaign, campaign_options, check_options, limit_reached
from fuzz.campaign.pool import ProcessPool
from fuzz.campaign.status import (
    CampaignStatus,
    check_tested,
    uncompared_words,
    unexplained,
)
from fuzz.campaign.store import (
    ABANDONED,
    Budget,
    CampaignStore,
    State,
    holds_campaign,
)
from fuzz.checks.protocol import Check, Shard
from fuzz.compilers.members import Member, members_of
from fuzz.console.metrics import campaign_figures, serving
from fuzz.console.report import campaign_report, ended_by_signals, watching
from fuzz.findings.case import check_trusted
from fuzz.findings.families import finding_groups
from fuzz.fleet.pool import FleetPool, cluster_at
from fuzz.options.declared import check_conflicts, parse_duration
from fuzz.options.testing import Run
from fuzz.runner import (
    BUILT_IN,
    LAYOUTS,
    RunnerChoice,
    best_runner,
    cores,
    hardware_runner,
    has_device_fault,
    judge_by,
    visible_devices,
)
from oracle.errors import InfrastructureError, UsageError, WarpfuzzError
from oracle.models import Confidence, model_for
from runners import compilers
from runners.foreign import check_named, identity_of, is_command
from runners.front_ends.protocol import FrontEndToolchain
from runners.toolchains import each, names_program
from runners.variants import PLAIN, parse_variant
from strategies.draws import Selection

_DEFAULT_SECONDS = 60.0
"""Length of a campaign that nobody limits: what a person waits for."""
_CORES_OF_ONE_MORE = 8
"""Beside a GPU there is one more worker for so many cores, as some wait for it or for its process:
of 16 cores 16 workers left 1.2 idle, and 18 had 1 % and 6 % more programs in two pairs of 36 s, 20
had 10 % less (H200, the driver's compiler, 2026-11-30)."""
_BEGINNING = (
    *("runner", "seed", "only", "target", "ptx_version", "model", "shard", "compilers", "levels"),
    *("faults", "ptx_pass", "front_ends", "assemblers", "include_undefined", "device_reference"),
)
"""Options that say which campaign is meant: with one of them, `--resume` begins it where none is
yet, as a job does that may be put back into the queue."""
_KEPT = tuple(name for name in _BEGINNING if name not in ("seed", "model"))
"""Those of them that a state has for a campaign that goes on."""
_ANOTHER = "--new in place of --resume begins another campaign there (the findings stay)"


def run_campaign(options: Run) -> bool:
    """Run the campaign that is asked for; tell whether it found something that is not known."""
    check_conflicts(options, "run")
    with ExitStack() as stack:
        return _run(options, stack)


def _run(options: Run, stack: ExitStack) -> bool:
    store, state = _there(options, stack)
    if state is not None:
        options = resumed(options, state)
    elif options.resume:
        output.say(f"no campaign is in {options.corpus} yet; a new one begins", stderr=True)
    front_ends = compilers.find_front_ends(options.front_ends)
    options = _resolved(options, front_ends)
    budget, known = budget_of(options, state), known_with(options.known, nothing=options.no_known)
    output.check_kind(options.report, ".html", ".svg")
    check = _check(options, front_ends, _seed(options, state))
    shard = None if options.shard is None else Shard.parse(options.shard)
    if shard is not None and options.seed is None and state is None:
        raise UsageError(
            f"--shard {shard} is one of {shard.count} campaigns that divide the rounds of one "
            "seed; give all of them the same --seed"
        )
    with output.starting(lines=options.fleet is not None) as tell:
        pool = _pool(check, options, tell)
        stack.enter_context(closing(pool))
        facts = pool.facts()
    if state is not None:
        check_options(state.options, campaign_options(check, facts, shard))
        if limit_reached(budget, state.seconds, state.cases):
            limits = (("--time", budget.seconds), ("--cases", budget.cases))
            said = ", ".join(f"{name} {one:.15g}" for name, one in limits if one is not None)
            # The seconds of all resumptions count, as the cases do.
            output.say(
                f"the campaign in {options.corpus} has reached its limit ({said}); a "
                "higher one continues it: --time, --cases",
                stderr=True,
            )
    model = None if options.runner == "ptxas" else model_for(facts.target)
    if model is not None and model.confidence is not Confidence.MEASURED:
        output.say(
            f"The model of {facts.target} is {model.confidence}, not measured: where it is wrong, "
            "results are reported as deviations. `warpfuzz measure --output FILE` finds out how "
            f"{facts.device} computes, and `--model FILE` judges by it.",
            stderr=True,
        )
    corpus = create_corpus(options.corpus, generator=output.generator())
    store = store or stack.enter_context(CampaignStore(corpus.path))
    if state is None:
        if store.abandon():
            kept = store.folder / ABANDONED
            output.say(f"the state of the campaign that was there is kept as {kept}", stderr=True)
        store.forget()
    # Compilers as they were found: by the time of a resumption others may be here.
    asked = options.picked(*_KEPT) | {"front_ends": [one.spelled for one in front_ends]}
    if options.runner == "ptxas" and not options.matrix:
        asked["assemblers"] = check.options(facts)["--assembler"]
    failure = None
    with watching(json=options.json) as watcher:
        campaign = Campaign(
            pool, facts, check=check, budget=budget, corpus=corpus, known=known, observer=watcher,
            store=store, state=state, shard=shard, asked=asked,
        )  # fmt: skip
        stack.enter_context(serving(options.metrics, lambda: campaign_figures(campaign.told)))
        try:
            # No clock is needed: workers that do not come to an end in time are killed.
            with ended_by_signals(campaign.stop):
                campaign.run()
            if not corpus.findings.is_dir():
                raise InfrastructureError(
                    f"{corpus.findings} is not there (any more), and what was stored may be lost; "
                    "begin again with another folder (--corpus)"
                )
        except (WarpfuzzError, OSError) as error:
            # What was found until then is reported all the same.
            failure = error
    status = campaign.status()
    report = campaign_report(status, options.corpus, details=options.report is not None)
    report.write(**options.picked("json", "report"))
    output.report_expired(known)
    if failure is not None:
        raise failure
    _check_compared(status, options.at_least)
    return bool(unexplained(status))


def _there(options: Run, stack: ExitStack) -> tuple[CampaignStore | None, State | None]:
    """Return the campaign of the corpus, locked, and its state where it goes on."""
    holds, folder = holds_campaign(options.corpus), options.corpus
    if options.resume and not holds and not any(map(options.is_set, _BEGINNING)):
        raise UsageError(
            f"no campaign is in {folder}, so none can be resumed; check the folder (--corpus), or "
            "also give options for the campaign to begin there, such as --runner, --seed or --only"
        )
    if not folder.is_dir() or not (options.resume or holds):
        return None, None
    corpus = create_corpus(folder, generator=output.generator())
    store = stack.enter_context(CampaignStore(corpus.path))
    if options.resume:
        return store, store.load()
    if not options.new:
        resume, new = (
            output.typed(("warpfuzz", "run", option, "--corpus", folder))
            for option in ("--resume", "--new")
        )
        raise UsageError(
            f"{folder} holds a campaign: `{resume}` goes on with it, and `{new}` begins another "
            "there (findings stay); or give another folder with --corpus"
        )
    return store, None


def _resolved(options: Run, front_ends: Sequence[FrontEndToolchain]) -> Run:
    """Return options with the runner, and the one level or the matrix of compilers."""
    levels = () if options.levels is None else compilers.parse_levels(options.levels)
    matrix = options.compilers is not None or len(front_ends) > 1
    if not matrix and len(levels) > 1:
        if not front_ends:
            raise UsageError(
                f"--opt {options.levels} names several levels; give 0, 1, 2 or 3, or name what "
                "is compared at all of them with --compilers or --front-end"
            )
        matrix = True
    # What front ends write, the simulated device runs; a fleet is one of GPUs, which the machine
    # that drives it need not have.
    changed = bool(front_ends or (not matrix and (options.faults or options.ptx_pass)))
    if options.runner is None and options.fleet is None:
        runner = best_runner(
            planted=changed or (not matrix and options.levels is not None),
            device_faults=not matrix and has_device_fault(options.faults),
            has_assembler=lambda: matrix or bool(compilers.discover_assemblers().assemblers),
        )
    else:
        runner = hardware_runner(options.runner)
    # By itself only on a GPU, with one compiler, of programs that warpfuzz writes.
    able = runner == "cuda" and not matrix and not front_ends
    found = options.but(
        runner=runner,
        chosen=options.runner is not None,
        device_reference=options.device_reference and (able or "device_reference" in options.given),
        level=levels[0] if levels else None,
        matrix=matrix,
    )
    check_conflicts(found, "campaign")
    return found


def _check(options: Run, front_ends: Sequence[FrontEndToolchain], seed: int) -> Check:
    selection = Selection(pattern=options.only)
    if options.runner == "ptxas" and not options.matrix:
        from fuzz.checks.instructions import Instructions

        return Instructions(
            assemblers=tuple(map(compilers.find_assembler, options.assemblers or (None,))),
            seed=seed, selection=selection, **options.picked("target", "ptx_version"),
        )  # fmt: skip
    name = options.runner or ""
    choice = RunnerChoice(
        name=name,
        identity="" if name in ("ptxas", *BUILT_IN) else identity_of(name),
        layout=seed % LAYOUTS if name == "sim" else 0,
        **options.picked("target", "ptx_version", "model"),
    )
    members = _members(options, front_ends) if options.matrix else None
    if choice.model is not None:
        judge_by(Path(choice.model))
    if members is not None:
        from fuzz.checks.compilers import Compilers

        return Compilers(
            choice=choice, members=members, seed=seed, selection=selection, wanted=options.chosen,
        )  # fmt: skip
    from fuzz.checks.programs import Programs

    assembler = None
    if options.assemblers:
        assembler = compilers.named_assembler(
            options.assemblers[0], elsewhere=options.fleet is not None
        )
    return Programs(
        choice=replace(
            choice, assembler=assembler, front_end=front_ends[0] if front_ends else None,
            **options.picked("faults", "ptx_pass", "level"),
        ),
        seed=seed,
        selection=selection,
        undefined=options.include_undefined,
        reference=options.device_reference,
    )  # fmt: skip


def _members(options: Run, front_ends: Sequence[FrontEndToolchain]) -> tuple[Member, ...]:
    if front_ends:
        selected = compilers.front_ends_selected(front_ends)
    else:
        with output.fetcher(compilers.fetched_compiler, json=options.json) as fetch_one:
            selected = compilers.select(options.compilers)
            selected = selected.having(PLAIN, *map(parse_variant, options.variants))
            selected = compilers.all_fetched(selected, fetch_one)
    return members_of(selected, compilers.parse_levels(options.levels))


def resumed(options: Run, state: State) -> Run:
    """Return the options of `warpfuzz run`, those that were not given from the campaign's state.

    What was given stays, and is refused later if the campaign was begun with something else.
    """
    if options.compilers is None and state.asked.get("compilers"):
        raise UsageError(
            f"the campaign compares the compilers {state.asked['compilers']}; name them again "
            "with --compilers, and their options (what a corpus names is not run by itself)"
        )
    types, taken = get_type_hints(Run), dict[str, Any]()
    for name in _KEPT:
        if (value := state.asked.get(name)) is not None and not options.is_set(name):
            try:
                taken[name] = msgspec.convert(value, types[name])
            except msgspec.ValidationError:
                raise _unusable(options.spelled(name), value) from None
    runner, front_ends = taken.get("runner", ""), each(taken.get("front_ends", ()))
    try:
        check_named(runner or "sim", ("ptxas", *BUILT_IN))
    except UsageError as error:
        raise InfrastructureError(f"of the campaign's state: {error}; {_ANOTHER}") from None
    commands = [("--ptx-pass", taken.get("ptx_pass"))]
    commands += [("--assembler", one) for one in taken.get("assemblers", ())]
    commands += [("--runner", runner)] if is_command(runner) else []
    commands += [("--front-end", one) for one in front_ends if names_program(one)]
    for option, command in commands:
        if command is not None:
            check_trusted(
                command, option=option, named_by="the campaign's state", trust=options.trust
            )
    # One that goes on with the device's reference has it on any runner.
    has = {"device_reference"} if taken.get("device_reference") else set[str]()
    return options.but(given=options.given | has, **taken)


def _unusable(name: str, value: object) -> InfrastructureError:
    return InfrastructureError(f"the campaign's state has {value!r:.80} for {name}; {_ANOTHER}")


def _seed(options: Run, state: State | None) -> int:
    """Return the seed; a resumed campaign keeps its own."""
    before = None if state is None else state.options.get("--seed")
    if options.seed is not None or before is None:
        return secrets.randbits(32) if options.seed is None else options.seed
    if type(before) is not int or not 0 <= before < 1 << 64:
        raise _unusable("--seed", before)
    return before


def budget_of(options: Run, state: State | None = None) -> Budget:
    """Return the limits that options give; without any those of the campaign, else a minute."""
    seconds, quiet = (
        None if text is None else parse_duration(text)
        for text in (options.time, options.quiet_time)
    )
    budget = Budget(seconds=seconds, quiet=quiet, **options.picked("cases", "findings"))
    if budget == Budget() and state is not None:
        budget = state.limits
    return Budget(seconds=_DEFAULT_SECONDS) if budget == Budget() else budget


def _pool(check: Check, options: Run, tell: Callable[[str], None]) -> ProcessPool | FleetPool:
    on_gpu = options.runner == "cuda"
    if options.fleet is None:
        devices = options.devices or tuple(range(visible_devices() if on_gpu else 1))
        workers = options.workers or cores() + on_gpu * cores() // _CORES_OF_ONE_MORE
        tell(f"starting {output.counted(workers, 'worker')}")
        return ProcessPool(
            check, workers=workers, devices=devices[:1] if options.matrix else devices
        )
    cluster = cluster_at(
        options.fleet, gpus=on_gpu, workers=options.workers, most=options.gpus, tell=tell
    )
    return FleetPool(check.on(0), cluster, repeat=options.repeat / 100)


def _check_compared(status: CampaignStatus, least: int | None) -> None:
    if least is not None and status.compared < least:
        raise InfrastructureError(
            f"{output.counted(status.compared, status.words.case)} compared, and --at-least asks "
            f"for {least:,}; give it longer (--time, --cases), or select more (--only)"
        )
    if unexplained(status):
        return
    if waiting := len(finding_groups(status.suspects)) + status.unstored:
        raise InfrastructureError(
            f"{output.counted(waiting, 'suspect')} not replayed, so it is not known whether "
            "there is a finding; --resume replays what differed and goes on"
        )
    if why := uncompared_words(status):
        raise InfrastructureError(why)
    check_tested(status.untested)
