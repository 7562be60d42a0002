"""`warpfuzz run --compilers`: compilers against each other and the oracle."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

from corpus import create_corpus
from corpus.known import known_with
from fuzz.campaign.draws import Selection
from fuzz.checks.compiler_progress import MatrixProgress
from fuzz.checks.compilers import MatrixCampaign, Plan
from fuzz.commands.compilers import fetcher
from fuzz.commands.corpus import generator
from fuzz.commands.run_instructions import budget_of, check_report
from fuzz.compilers.candidates import Selected, fetched, parse_levels, select
from fuzz.compilers.matrix import Matrix
from fuzz.compilers.members import Device, Member, NoDevice, device_of, members_of
from fuzz.console.progress_report import print_report, write_report
from fuzz.console.view_instructions import view
from fuzz.findings.groups import finding_rows
from fuzz.output import console, emit
from fuzz.runner import LAYOUTS, OpenRunner, RunnerChoice, best_runner, opened
from oracle.errors import InfrastructureError, UsageError, WarpfuzzError
from oracle.targets import DEFAULT_TARGET, DEFAULT_VERSION, parse_target, parse_version
from runners.assemblers.disassembly import find_disassembler
from runners.protocol import Failure

_IMAGES = {"cuda": 256, "sim": 32, "ptxas": 1}
"""Images of each program: what a runner does in the time of compiling it."""


def run_matrix(
    options: Mapping[str, Any], *, compilers: str, levels: str | None, disassembler: Path | None
) -> bool:
    """Run a campaign over a matrix; tell whether it found something that is not known.

    Parameters
    ----------
    options
        Those of `warpfuzz run`.
    compilers, levels
        As `select` and `parse_levels` take them.
    disassembler
        Path of an nvdisasm; None: the one that is here, if any.

    Raises
    ------
    WarpfuzzError
        If the request is wrong, or a compiler, the runner or the corpus does not work.
    """
    _check_options(options)
    budget = budget_of(
        options["time"],
        options["cases"],
        findings=options["findings"],
        quiet_time=options["quiet_time"],
    )
    known = known_with(options["known"])
    check_report(options["report"])
    seed = secrets.randbits(32) if options["seed"] is None else options["seed"]
    name = options["runner"] or best_runner(
        planted=False, device_faults=False, has_assembler=lambda: True
    )
    device = _device(options["devices"], name)
    wanted = parse_levels(levels)
    selected = with_fetched(select(compilers), json=options["json"])
    tool = find_disassembler(disassembler)
    jobs = options["workers"] or os.cpu_count() or 1
    with ready(name, options["target"], options["ptx_version"], seed, gpu=device) as place:
        fit = fitting(members_of(selected, wanted), place)
        corpus = create_corpus(options["corpus"], generator=generator())
        with (
            view(budget, json=options["json"]) as watching,
            Matrix(place.device, fit.members, jobs=jobs) as matrix,
        ):
            campaign = MatrixCampaign(
                matrix,
                Plan(
                    target=place.target,
                    ptx_version=place.ptx_version,
                    architecture=place.architecture,
                    selection=Selection(pattern=options["only"]),
                    budget=budget,
                    seed=seed,
                    images=_IMAGES[name],
                ),
                opened=place.opened,
                corpus=corpus,
                known=known,
                observer=watching,
                disassembler=tool,
            )
            campaign.progress.skipped_members = fit.skipped
            _end_on_signals(campaign)
            failure = None
            try:
                campaign.run()
            except (WarpfuzzError, OSError) as error:
                # What was found until then is reported all the same.
                failure = error
    _report(campaign.progress, options, name)
    if failure is not None:
        raise failure
    return bool(campaign.progress.findings)


def _check_options(options: Mapping[str, Any]) -> None:
    """Raise UsageError for an option that a matrix of compilers could only leave out of account."""
    if options["assemblers"]:
        raise UsageError("--compilers names all the compilers there are; leave --assembler out")
    if options["faults"] or options["ptx_pass"]:
        raise UsageError(
            "planted faults and PTX passes change what every compiler gets, and compilers are "
            "compared on the same text; leave --fault and --ptx-pass out"
        )
    if options["include_undefined"]:
        raise UsageError(
            "--include-undefined runs programs whose results nobody promises, and --compilers "
            "reports every result that differs; leave one of the two out"
        )
    if options["resume"]:
        raise UsageError(
            "--resume goes on with a campaign without --compilers, and one with them keeps no "
            "state; leave it out, and give another --seed for other programs"
        )


def _device(numbers: Sequence[int], name: str) -> int:
    """Return the number of the GPU that all binaries run on.

    Raises
    ------
    UsageError
        If several are named, or one although nothing runs on a GPU.
    """
    if numbers and name != "cuda":
        raise UsageError(
            f"--device {numbers[0]} names a GPU, and the runner is {name}; leave it out, or choose "
            "--runner cuda"
        )
    if len(numbers) > 1:
        raise UsageError(
            f"--device names {len(numbers)} GPUs, and compilers are compared on one and the same; "
            "name one"
        )
    return numbers[0] if numbers else 0


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where binaries run, and what is compiled for it."""

    device: Device
    opened: OpenRunner | None
    """None where nothing runs."""
    target: str
    ptx_version: str
    architecture: str


@contextmanager
def ready(
    name: str, target: str | None, ptx_version: str | None, seed: int, *, gpu: int = 0
) -> Iterator[Where]:
    """Open the device of a matrix.

    Parameters
    ----------
    name
        "cuda", "sim", or "ptxas" for compilers alone.
    seed
        Chooses the fragment layout of the simulated device.
    gpu
        Number of the GPU that "cuda" runs on.

    Raises
    ------
    UsageError, DeviceLostError, InfrastructureError
        As `fuzz.runner_choice.opened` does.
    """
    with ExitStack() as stack:
        device: Device
        if name == "ptxas":
            device, found = NoDevice(), None
            row = parse_target(target or DEFAULT_TARGET)
            number = parse_version(
                ptx_version or str(max(parse_version(DEFAULT_VERSION), row.since))
            )
            target, ptx_version = row.name, str(number)
        else:
            layout = seed % LAYOUTS if name == "sim" else 0
            choice = RunnerChoice(
                name=name, target=target, ptx_version=ptx_version, layout=layout, device=gpu
            )
            found = stack.enter_context(opened(choice))
            device, target, ptx_version = device_of(found), found.target, found.ptx_version
        architecture = device.architecture(target)
        if isinstance(architecture, Failure):
            raise InfrastructureError(f"{architecture}")
        yield Where(
            device=device,
            opened=found,
            target=target,
            ptx_version=ptx_version,
            architecture=architecture,
        )


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """The members that can compile for a device."""

    members: tuple[Member, ...]
    skipped: tuple[str, ...]
    """Sentences about the others."""


def fitting(members: Sequence[Member], place: Where) -> Fitting:
    """Leave out compilers that do not know the target or the PTX ISA version.

    Raises
    ------
    UsageError
        If none is left.
    """
    fit, skipped = [], []
    advice = "choose --runner cuda, or name others with --compilers"
    on_gpu = place.opened is not None and place.opened.choice.name == "cuda"
    for member in members:
        if member.assembler is None and not on_gpu:
            skipped.append("the driver's compiler is skipped: it needs --runner cuda")
        elif member.knows(place.target, place.ptx_version, place.architecture):
            fit.append(member)
        else:
            advice = "choose another --target or --ptx-version, or name others with --compilers"
            skipped.append(
                f"ptxas {member.version} is skipped: it does not know {place.target} with PTX ISA "
                f"{place.ptx_version} on {place.architecture}"
            )
    sentences = tuple(dict.fromkeys(skipped))
    if not fit:
        raise UsageError(f"no compiler is left: {'; '.join(sentences)}; {advice}")
    return Fitting(members=tuple(fit), skipped=sentences)


def with_fetched(selected: Selected, *, json: bool) -> Selected:
    """Return compilers that are all here, with a progress bar for those that were not.

    Raises
    ------
    UsageError, InfrastructureError
        As `fetch` does.
    """
    if all(one.assembler is not None for one in selected.candidates):
        return selected
    with fetcher(json=json) as fetch_one:
        candidates = tuple(fetched(one, fetch_one) for one in selected.candidates)
    return replace(selected, candidates=candidates)


def _report(progress: MatrixProgress, options: Mapping[str, Any], name: str) -> None:
    if options["json"]:
        for note in progress.notes:
            emit(note.row)
        emit({"summary": summary(progress, name)})
    else:
        out = console()
        print_report(progress, options["corpus"], out)
        print_matrix(progress, out)
    if options["report"] is not None:
        write_report(progress, options["corpus"], options["report"])


def summary(progress: MatrixProgress, name: str) -> dict[str, object]:
    """Return what a campaign did, as the last JSON object says it."""
    return {
        "cases": progress.cases,
        "compared": progress.judged,
        "seconds": round(progress.seconds, 3),
        "compile_seconds": round(progress.compile_seconds, 3),
        "run_seconds": round(progress.run_seconds, 3),
        "seed": progress.seed,
        "rounds": progress.rounds,
        "forms": {"reached": len(progress.reached), "documented": progress.forms},
        "runner": name,
        "device": progress.device,
        "members": [member.name for member in progress.members],
        "skipped": list(progress.skipped_members),
        "programs": progress.programs,
        "binaries": progress.binaries,
        "distinct": progress.distinct,
        "differences": progress.differences,
        "wrong": progress.wrong,
        "uncompiled": progress.uncompiled,
        "unconfirmed": progress.unconfirmed,
        "expansions": progress.surveyed,
        "notes": len(progress.notes),
        "stopped": progress.stopped,
        "findings": finding_rows(progress.families.values()),
    }


def print_matrix(progress: MatrixProgress, out: Console) -> None:
    """Print the counters of a matrix, who was left out, and which expansions changed."""
    table = Table(box=None, pad_edge=False)
    for heading in ("compilers", "programs", "binaries", "different", "differences", "time"):
        table.add_column(heading, justify="left" if heading == "compilers" else "right")
    table.add_row(
        str(len(progress.members)),
        f"{progress.programs:,}",
        f"{progress.binaries:,}",
        f"{progress.distinct:,}",
        f"{progress.differences:,}",
        f"{progress.seconds:.0f} s",
    )
    out.print(table)
    for sentence in progress.skipped_members:
        out.print(sentence, style="quiet", markup=False, soft_wrap=True)
    if progress.surveyed:
        out.print(
            f"Matrix instructions of {progress.surveyed} programs compared: "
            f"{len(progress.notes) or 'no'} changes from version to version.",
            markup=False,
            soft_wrap=True,
        )
    for note in progress.notes:
        out.print(
            f"note: {note.form}: {note.before} up to {note.before_version}, {note.after} from "
            f"{note.after_version} on",
            style="odd",
            markup=False,
            soft_wrap=True,
        )


def _end_on_signals(campaign: MatrixCampaign) -> None:
    """End the campaign on SIGINT, SIGTERM and SIGHUP; a second signal ends the program."""

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        campaign.stop()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, end)
