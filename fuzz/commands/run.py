"""`warpfuzz run`: a campaign with the check that the options ask for."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from corpus import Corpus, create_corpus
from corpus.known import known_with
from fuzz.campaign.campaign import Campaign, Observer, campaign_options, check_options
from fuzz.campaign.crew import ProcessCrew
from fuzz.campaign.rounds import Budget, parse_duration
from fuzz.campaign.shard import Shard, Sharded
from fuzz.campaign.status import CampaignStatus, summary
from fuzz.campaign.store import ABANDONED, CampaignStore, Limits, State, holds_campaign
from fuzz.checks.protocol import Check, Facts
from fuzz.console import Several, print_report, prometheus_there, watching, write_report
from fuzz.console.report import check_report
from fuzz.findings.making import check_trusted, remember
from fuzz.fleet.crew import FleetCrew, cluster_at, joining, starting_actors
from fuzz.output import console, counted, emit, fetcher, generator, report_expired, starting
from fuzz.runner import (
    LAYOUTS,
    RunnerChoice,
    best_runner,
    hardware_runner,
    has_device_fault,
    judge_by,
    visible_devices,
)
from fuzz.signals import ended_by_signals
from oracle.errors import InfrastructureError, UsageError, WarpfuzzError
from oracle.models import Confidence, model_for
from runners.compilers import (
    all_fetched,
    discover_assemblers,
    fetched_compiler,
    find_assembler,
    find_front_ends,
    front_ends_selected,
    named_assembler,
    parse_levels,
    select,
)
from runners.toolchains import each, names_program
from strategies.draws import Selection

_DEFAULT_SECONDS = 60.0
"""Length of a campaign that nobody limits: what a person waits for."""
RUNNERS = ("ptxas", "sim", "cuda")
"""What `--runner` may name."""
_KEPT: Mapping[str, type] = {
    **dict.fromkeys(("--runner", "--target", "--ptx-version", "--ptx-pass"), str),
    **dict.fromkeys(("--only", "--fault", "--compilers", "--shard", "--front-end", "levels"), str),
    "--include-undefined": bool,
    "--opt": int,
}
"""Options that a state keeps for a campaign that goes on, with their types; None: not given."""


_NOTHING_RUNS = (
    "--model judges what programs compute, and --runner ptxas runs none; leave it out, or choose "
    "--runner sim or cuda"
)


def run_on(options: Mapping[str, Any]) -> bool:
    """Run the campaign that the options of `warpfuzz run` ask for; tell whether it found something.

    Raises
    ------
    DeviceLostError
        If the device went away; what was found until then is reported all the same.
    WarpfuzzError
        If the options do not go together, something does not work, or less was compared than was
        asked for.
    """
    remember(options["ptx_pass"], *options["front_ends"], *options["assemblers"])
    with ExitStack() as stack:
        corpus = state = store = None
        if options["corpus"].is_dir() and (options["resume"] or holds_campaign(options["corpus"])):
            corpus, store = _opened(options["corpus"], stack)
            if options["resume"]:
                state = _last_state(store)
            elif not options["new"]:
                raise UsageError(_held(options["corpus"]))
        if state is not None:
            options = resumed(options, state)
        elif options["resume"]:
            console(stderr=True).print(
                f"no campaign is in {options['corpus']} yet; a new one begins", soft_wrap=True
            )
        options = _compiled_with(options)
        budget, known = budget_of(options, state), known_with(options["known"])
        check_report(options["report"])
        check, devices = _check(options, _seed(options, state))
        if options["shard"] is not None:
            check = Sharded(check=check, shard=_shard(options, state))
        with starting(lines=options["fleet"] is not None) as tell:
            crew = _crew(check, devices, options, tell)
            stack.enter_context(closing(crew))
            facts = crew.facts()
        if state is not None:
            check_options(state.options, campaign_options(check, facts))
            _say_spent(budget, state, options["corpus"])
        if _runner(options) != "ptxas":
            _say_how_sure(facts)
        if corpus is None or store is None:
            corpus, store = _opened(options["corpus"], stack)
        if state is None:
            _make_room(store)
        metrics = _metrics(options["metrics"], stack)
        with watching(budget, json=options["json"]) as watcher:
            campaign = Campaign(
                crew,
                facts,
                check=check,
                budget=budget,
                corpus=corpus,
                known=known,
                observer=Several(watchers=(watcher, *metrics)),
                store=store,
                state=state,
            )
            failure = None
            try:
                # No clock is needed: workers that do not come to an end in time are killed.
                with ended_by_signals(campaign.stop):
                    campaign.run()
            except (WarpfuzzError, OSError) as error:
                # What was found until then is reported all the same.
                failure = error
        status = campaign.status()
        _report(status, options, budget)
    report_expired(known)
    if failure is not None:
        raise failure
    _check_compared(status, options)
    return bool(status.findings)


def _compiled_with(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the one front end and level, or with the matrix, that they ask for.

    Raises
    ------
    UsageError
        If there is no such front end or level, or several levels and nothing that has them.
    """
    front_ends = find_front_ends(options["front_ends"])
    levels = () if options["levels"] is None else parse_levels(options["levels"])
    found = {
        **options,
        "level": levels[0] if levels else None,
        "front_ends": front_ends,
        "front_end": front_ends[0] if front_ends else None,
        "matrix": options["compilers"] is not None,
    }
    if options["compilers"] is None and (len(front_ends) > 1 or len(levels) > 1):
        if not front_ends:
            raise UsageError(
                f"--opt {options['levels']} names several levels; give 0, 1, 2 or 3, or name what "
                "is compared at all of them with --compilers or --front-end"
            )
        found["matrix"] = True
    return found


def _planting(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("faults", "ptx_pass", "front_end", "level")}


def _runner(
    options: Mapping[str, Any],
    *,
    planted: bool | None = None,
    has_assembler: Callable[[], bool] = lambda: bool(discover_assemblers().assemblers),
) -> str:
    """Return the name of the runner that is asked for, or of the best there is.

    Parameters
    ----------
    planted
        Whether an assembler alone shows nothing; None: where something changes the programs.
    has_assembler
        Whether a ptxas is here.
    """
    if options["runner"] is not None or options["fleet"] is not None:
        # A fleet is one of GPUs, which the machine that drives it need not have.
        return hardware_runner(options["runner"])
    if planted is None:
        planted = any(value not in (None, ()) for value in _planting(options).values())
    return best_runner(
        planted=planted,
        device_faults=has_device_fault(options["faults"]),
        has_assembler=has_assembler,
    )


def _check(options: Mapping[str, Any], seed: int) -> tuple[Check, tuple[int, ...]]:
    """Return the check that is asked for, and the devices that workers are dealt."""
    if options["matrix"]:
        return _compilers_check(options, seed)
    name = _runner(options)
    selection = Selection(pattern=options["only"])
    if name == "ptxas":
        return _instructions(options, selection, seed), _devices(options, name)
    from fuzz.checks.programs import Programs
    from fuzz.checks.undefined import Undefined
    from fuzz.screening.idle_time import IdleTime

    assemblers = options["assemblers"]
    if len(assemblers) > 1:
        raise UsageError(
            f"{len(assemblers)} assemblers are given, and --runner {name} compiles with one; "
            "run a campaign for each"
        )
    choice = RunnerChoice(
        name=name,
        target=options["target"],
        ptx_version=options["ptx_version"],
        assembler=None
        if not assemblers
        else named_assembler(assemblers[0], elsewhere=options["fleet"] is not None),
        layout=seed % LAYOUTS if name == "sim" else 0,
        model=options["model"],
        **_planting(options),
    )
    if choice.model is not None:
        judge_by(Path(choice.model))
    undefined = Undefined(seed=seed, selection=selection)
    check = Programs(
        choice=choice,
        seed=seed,
        selection=selection,
        asides=(undefined,) if options["include_undefined"] else (),
        # The simulated device has no idle time; what a front end compiles is no screening kernel.
        idle=IdleTime(seed=seed)
        if name == "cuda" and options["screen"] and options["front_end"] is None
        else None,
    )
    return check, _devices(options, name)


def _shard(options: Mapping[str, Any], state: State | None) -> Shard:
    """Return the shard that is asked for.

    Raises
    ------
    UsageError
        If it is none, or no seed is given, without which shards have nothing to divide.
    """
    shard = Shard.parse(options["shard"])
    if options["seed"] is None and state is None:
        raise UsageError(
            f"--shard {shard} is one of {shard.count} campaigns that divide the rounds of one "
            "seed; give all of them the same --seed"
        )
    return shard


def _compilers_check(options: Mapping[str, Any], seed: int) -> tuple[Check, tuple[int, ...]]:
    """Return the check of compilers against each other, and the one GPU that binaries run on.

    Raises
    ------
    UsageError
        For an option that it could only leave out of account, or a compiler that is not here.
    """
    from fuzz.checks.compilers import Compilers
    from fuzz.compilers.members import members_of
    from runners.assemblers.disassembly import find_disassembler

    if options["assemblers"]:
        raise UsageError(
            "--compilers, or several of --front-end, name all the compilers there are; leave "
            "--assembler out"
        )
    if options["faults"] or options["ptx_pass"]:
        raise UsageError(
            "planted faults and PTX passes change what every compiler gets or writes, and they are "
            "compared on the same program; leave --fault and --ptx-pass out"
        )
    if options["compilers"] is not None and options["front_ends"]:
        raise UsageError(
            "--compilers names assemblers, which are compared on the same PTX, and --front-end "
            "what writes PTX; leave one of the two out"
        )
    if options["include_undefined"]:
        raise UsageError(
            "--include-undefined runs programs whose results nobody promises, and --compilers "
            "reports every result that differs; leave one of the two out"
        )
    # What front ends write, the simulated device runs.
    name = _runner(options, planted=bool(options["front_ends"]), has_assembler=lambda: True)
    if options["front_ends"] and name == "ptxas":
        raise UsageError(
            "--front-end writes programs that run, and --runner ptxas runs none; choose --runner "
            "sim or cuda"
        )
    devices = _devices(options, name)
    if len(options["devices"]) > 1:
        raise UsageError(
            f"--device names {len(devices)} GPUs, and compilers are compared on one and the same; "
            "name one"
        )
    levels = parse_levels(options["levels"])
    disassembler = find_disassembler(options["disassembler"])
    if options["front_ends"]:
        selected = front_ends_selected(options["front_ends"])
    else:
        with fetcher(fetched_compiler, json=options["json"]) as fetch_one:
            selected = all_fetched(select(options["compilers"]), fetch_one)
    choice = RunnerChoice(
        name=name,
        target=options["target"],
        ptx_version=options["ptx_version"],
        layout=seed % LAYOUTS if name == "sim" else 0,
        model=options["model"],
    )
    if choice.model is not None:
        if name == "ptxas":
            raise UsageError(_NOTHING_RUNS)
        judge_by(Path(choice.model))
    check = Compilers(
        choice=choice,
        members=members_of(selected, levels),
        seed=seed,
        selection=Selection(pattern=options["only"]),
        disassembler=disassembler,
        wanted=options["runner"] is not None,
    )
    return check, devices[:1]


def _instructions(options: Mapping[str, Any], selection: Selection, seed: int) -> Check:
    """Return the check of what assemblers accept."""
    from fuzz.checks.instructions import Instructions

    if any(value not in (None, ()) for value in _planting(options).values()):
        raise UsageError(
            "--fault, --ptx-pass, --front-end and --opt change programs that run, and --runner "
            "ptxas only asks whether instructions are accepted; choose --runner sim or cuda"
        )
    if options["model"] is not None:
        raise UsageError(_NOTHING_RUNS)
    if options["include_undefined"]:
        raise UsageError(
            "--include-undefined is for campaigns that run programs, and --runner ptxas only asks "
            "whether instructions are accepted; leave it out, or choose --runner sim or cuda"
        )
    return Instructions(
        assemblers=tuple(find_assembler(wanted) for wanted in options["assemblers"])
        or (find_assembler(),),
        seed=seed,
        selection=selection,
        target=options["target"],
        ptx_version=options["ptx_version"],
    )


def resumed(options: Mapping[str, Any], state: State) -> dict[str, Any]:
    """Return the options of `warpfuzz run`, those that were not given from the campaign's state.

    What was given stays, and is refused later if the campaign was begun with something else.
    """
    before = {name: _kept(state, name, kind) for name, kind in _KEPT.items()}
    if before["--runner"] not in (None, *RUNNERS):
        raise InfrastructureError(
            f"the campaign's state has {before['--runner']!r:.80} for --runner, and there are "
            f"{', '.join(RUNNERS)}; --new in place of --resume begins another campaign there (the "
            "findings stay)"
        )
    if before["--compilers"] and options["compilers"] is None:
        raise UsageError(
            f"the campaign compares the compilers {before['--compilers']}; name them again with "
            "--compilers (what a corpus names is not run by itself)"
        )
    kept: dict[str, Any] = {
        "runner": before["--runner"],
        "target": before["--target"],
        "ptx_version": before["--ptx-version"],
        "ptx_pass": before["--ptx-pass"],
        "include_undefined": before["--include-undefined"],
        "only": before["--only"],
        "shard": before["--shard"],
        "faults": tuple((before["--fault"] or "").split()),
        "levels": before["levels"] if before["--opt"] is None else str(before["--opt"]),
        "front_ends": _several(before["--front-end"]),
        "assemblers": _several(state.options.get("--assembler")),
    }
    if options["compilers"] is not None:
        kept = {name: kept[name] for name in ("runner", "target", "ptx_version", "only", "shard")}
    nothing = {
        "only": "*", "include_undefined": False, "faults": (), "assemblers": (), "front_ends": (),
    }  # fmt: skip
    taken = {
        name: value
        for name, value in kept.items()
        if value is not None and options[name] == nothing.get(name)
    }
    commands = [("--ptx-pass", taken.get("ptx_pass"))]
    commands += [("--assembler", one) for one in taken.get("assemblers", ())]
    commands += [
        ("--front-end", one) for one in each(taken.get("front_ends", ())) if names_program(one)
    ]
    for option, command in commands:
        if command is not None:
            check_trusted(
                command, option=option, named_by="the campaign's state", trust=options["trust"]
            )
    return {**options, **taken}


def _several(value: object) -> tuple[str, ...]:
    """Return the values of an option that may be given several times."""
    if value is None:
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def _kept(state: State, name: str, kind: type) -> Any:
    value = state.options.get(name)
    if value is not None and type(value) is not kind:
        raise InfrastructureError(
            f"the campaign's state has {value!r:.80} for {name}; --new in place of --resume begins "
            "another there (the findings stay)"
        )
    return value


def _seed(options: Mapping[str, Any], state: State | None) -> int:
    """Return the seed; a resumed campaign keeps its own."""
    if options["seed"] is not None:
        return int(options["seed"])
    before = None if state is None else _kept(state, "--seed", int)
    if before is not None and not 0 <= before < 1 << 64:
        raise InfrastructureError(
            f"the campaign's state has the seed {before}, and seeds have 64 bits; --new in place "
            "of --resume begins another campaign there (the findings stay)"
        )
    return secrets.randbits(32) if before is None else int(before)


def budget_of(options: Mapping[str, Any], state: State | None = None) -> Budget:
    """Return the limits that options give; without any those of the campaign, else a minute."""
    time, quiet = options["time"], options["quiet_time"]
    budget = Budget(
        seconds=None if time is None else parse_duration(time),
        cases=options["cases"],
        findings=options["findings"],
        quiet=None if quiet is None else parse_duration(quiet),
    )
    if budget == Budget() and state is not None and state.limits != Limits():
        return Budget(**to_builtins(state.limits))
    return replace(budget, seconds=_DEFAULT_SECONDS) if budget == Budget() else budget


def _say_spent(budget: Budget, state: State, corpus: Path) -> None:
    """Say on the error stream that a campaign is at its end, and how it goes on."""
    if not budget.spent(state.seconds, state.cases):
        return
    # The seconds of all resumptions count, as the cases do.
    console(stderr=True).print(
        f"the campaign in {corpus} has reached its limit ({budget.words()}); a higher one goes on: "
        "--time, --cases",
        markup=False, soft_wrap=True,
    )  # fmt: skip


def _devices(options: Mapping[str, Any], name: str) -> tuple[int, ...]:
    numbers, fleet = options["devices"], options["fleet"]
    if fleet is not None:
        if numbers:
            raise UsageError(
                f"--device {numbers[0]} names a GPU of this machine, and --fleet takes all that "
                "the cluster has; leave one of the two out"
            )
        return (0,)
    if name != "cuda":
        if numbers:
            raise UsageError(
                f"--device {numbers[0]} names a GPU, and the runner is {name}; leave it out, or "
                "choose --runner cuda"
            )
        return (0,)
    return tuple(numbers) or tuple(range(visible_devices()))


def _say_how_sure(facts: Facts) -> None:
    """Say on the error stream that nobody measured the device, and what to do about it."""
    model = model_for(facts.target)
    if model.confidence is Confidence.MEASURED:
        return
    console(stderr=True).print(
        f"The model of {facts.target} is {model.confidence}, not measured: where it is wrong, "
        "results are reported as deviations. `warpfuzz measure --output FILE` finds out how "
        f"{facts.device} computes, and `--model FILE` judges by it.",
        markup=False, soft_wrap=True,
    )  # fmt: skip


def _crew(
    check: Check,
    devices: Sequence[int],
    options: Mapping[str, Any],
    tell: Callable[[str], None],
) -> ProcessCrew | FleetCrew:
    """Return those who carry out jobs: processes of this machine, or actors of a cluster."""
    on_gpu = _runner(options) == "cuda"
    if options["fleet"] is None:
        workers = options["workers"] or _workers(on_gpu=on_gpu)
        tell(f"starting {counted(workers, 'worker')}")
        return ProcessCrew(check, workers=workers, devices=devices)
    tell(joining(options["fleet"]))
    cluster = cluster_at(
        options["fleet"], gpus=on_gpu, workers=options["workers"], most=options["gpus"]
    )
    tell(starting_actors(cluster))
    return FleetCrew(check.on(0), cluster, repeat=options["repeat"] / 100)


def _metrics(address: str | None, stack: ExitStack) -> Sequence[Observer]:
    """Return those who watch for Prometheus."""
    if address is None:
        return ()
    with prometheus_there(address):
        from fuzz.console.metrics import CampaignMetrics, served
    metrics = CampaignMetrics()
    stack.enter_context(served(metrics, address))
    return (metrics,)


def _workers(*, on_gpu: bool) -> int:
    """Return how many workers there are unless somebody says: on a GPU one core is left for it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (cores or 1) - on_gpu)


def _opened(folder: Path, stack: ExitStack) -> tuple[Corpus, CampaignStore]:
    corpus = create_corpus(folder, generator=generator())
    return corpus, stack.enter_context(CampaignStore(corpus.path))


def _last_state(store: CampaignStore) -> State | None:
    state, said = store.load()
    if said:
        console(stderr=True).print(f"{said}; the one before is taken", markup=False)
    return state


def _held(folder: Path) -> str:
    """Say that a folder holds a campaign, and both commands that go on from there."""
    resume, new = (
        shlex.join(("warpfuzz", "run", option, "--corpus", str(folder)))
        for option in ("--resume", "--new")
    )
    return (
        f"{folder} holds a campaign: `{resume}` goes on with it, and `{new}` begins another there "
        "(findings stay, and its state is put aside); or give another folder with --corpus"
    )


def _make_room(store: CampaignStore) -> None:
    """Put what an earlier campaign left there aside."""
    if store.abandon():
        console(stderr=True).print(
            "a campaign was there, and a new one begins; the state of the earlier one is kept as "
            f"{store.folder / ABANDONED}",
            markup=False,
            soft_wrap=True,
        )
    store.forget()


def _report(status: CampaignStatus, options: Mapping[str, Any], budget: Budget) -> None:
    if options["json"]:
        for note in status.notes:
            emit(note)
        emit({"summary": summary(status)})
    else:
        print_report(status, options["corpus"], console())
    if options["report"] is not None:
        write_report(status, options["corpus"], options["report"], budget=budget)


def _check_compared(status: CampaignStatus, options: Mapping[str, Any]) -> None:
    """Raise InfrastructureError if less was compared than somebody relies on."""
    least = options.get("at_least")
    if least is not None and status.compared < least:
        raise InfrastructureError(
            f"{counted(status.compared, status.words.case)} compared, and --at-least asks for "
            f"{least:,}; give it longer (--time, --cases), or select more (--only)"
        )
    if status.nothing_compared and status.stopped != "stopped on request":
        raise InfrastructureError(status.nothing_compared)
