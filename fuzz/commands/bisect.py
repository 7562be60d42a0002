"""`warpfuzz bisect`: the first compiler version and -O level that changes a finding's result."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.table import Table
from rich.text import Text

from corpus import Entry
from corpus.naming import named_entry
from fuzz.compilers.bisection import Column, Conclusion, bisect, missed, rate_of, repeats_for
from fuzz.compilers.candidates import Candidate, Selected, fetched, fetcher, parse_levels, select
from fuzz.compilers.members import Member
from fuzz.compilers.probing import Probe, probing
from fuzz.findings.case import is_runnable
from fuzz.findings.making import ReplayOptions
from fuzz.findings.questions import is_by_hand
from fuzz.findings.replay import Answer, CannotBeAskedError, Sample, Way, asked
from fuzz.findings.stored import is_expansion
from fuzz.output import console, counted, emit
from oracle.errors import InfrastructureError, UsageError


def bisect_case(
    case: str,
    *,
    corpus: Path,
    compilers: str | None,
    levels: str | None,
    options: ReplayOptions,
    times: int | None,
    disassembler: Path | None,
    at_least: int | None,
    json: bool,
) -> bool:
    """Bisect a finding; tell whether any compiler disagrees with the ISA.

    Parameters
    ----------
    case
        The folder of a finding, or the start of its id in `corpus`.
    compilers, levels
        As `select` and `parse_levels` take them.
    options
        Where it runs, with what planted, and in which module; what is left out is as the finding
        was made.
    times
        Runs of each compiler; None: as many as the finding's failure rate asks for.
    disassembler
        Path of an nvdisasm, for notes of changed expansions; None: the one that is here.
    at_least
        Versions at a level that have to be compared (modules: judged).

    Raises
    ------
    WarpfuzzError
        If there is no such finding or compiler, or it cannot be run.
    """
    entry = named_entry(case, corpus)
    wanted = parse_levels(levels)
    selected = select(compilers)
    _check(entry, selected, options, disassembler=disassembler)
    candidates = list(selected.candidates)
    rate = rate_of(entry.finding)
    runs = repeats_for(rate) if times is None else times
    started = time.monotonic()
    modules: dict[int, str] = {}
    with probing(entry, options, disassembler) as probe, fetcher(json=json) as fetch_one:

        def sample(index: int, level: int) -> Sample:
            one = candidates[index] = fetched(candidates[index], fetch_one)
            member = Member(assembler=one.assembler, level=level)
            found = probe.ask(member)
            modules[index] = _module(probe, member)
            return found

        columns = [
            bisect(
                sample,
                versions=len(candidates),
                level=level,
                at_hand=_at_hand(entry, candidates),
                times=runs,
            )
            for level in wanted
            if candidates
        ]
        driver = {
            level: asked(partial(probe.ask, Member(assembler=None, level=level)), times=runs)
            for level in wanted
            if selected.driver
        }
    conclusion = Conclusion(names=[one.name for one in candidates], columns=columns, driver=driver)
    seconds = time.monotonic() - started
    if json:
        emit(_row(entry, conclusion, modules, runs=runs, rate=rate, seconds=seconds))
    else:
        _print(entry, conclusion, modules, runs=runs, rate=rate)
    _check_answers(entry, conclusion, at_least=at_least)
    return conclusion.bad


def _module(probe: Probe, member: Member) -> str:
    try:
        return ", ".join(probe.module_for(member))
    except CannotBeAskedError:
        return ""


def _check_answers(entry: Entry, conclusion: Conclusion, *, at_least: int | None) -> None:
    """Raise InfrastructureError where too little was learnt, and nothing disagrees."""
    wanted = Way.COMPARED if is_runnable(entry) else Way.JUDGED
    count = conclusion.count(wanted)
    least = at_least or 1
    if conclusion.bad or count >= least:
        return
    reasons = dict.fromkeys(one.reason for one in conclusion.answers if one.reason)
    raise InfrastructureError(
        f"{count} of {len(conclusion.answers)} answers are {wanted.value}, and at least "
        f"{least} have to be{''.join(f'; {reason}' for reason in reasons)}"
    )


def _check(
    entry: Entry, selected: Selected, options: ReplayOptions, *, disassembler: Path | None
) -> None:
    """Raise UsageError for what could only be left out of account."""
    runs = is_runnable(entry)
    if is_by_hand(entry):
        for name, value in (("--ptx-version", options.ptx_version), ("--target", options.target)):
            if value is not None:
                raise UsageError(
                    f"finding {entry.id} was written by hand, and its module is run as it is; "
                    f"leave {name} out"
                )
    if options.runner is not None and not runs:
        raise UsageError(
            f"--runner {options.runner} says where programs run, and finding {entry.id} is of what "
            "compilers make of a module; leave it out"
        )
    if selected.driver and not selected.candidates and not runs:
        raise UsageError(
            f"the driver's compiler can only be asked what its code computes, and finding "
            f"{entry.id} is of what assemblers make of a module; name a ptxas with --compilers"
        )
    if disassembler is not None and not is_expansion(entry):
        raise UsageError(
            f"--disassembler {disassembler} is for notes of changed expansions, and {entry.id} is "
            "none; leave it out"
        )
    if options.target is not None and is_expansion(entry):
        raise UsageError(
            f"--target {options.target} would be another expansion than that of {entry.id}; leave "
            "it out"
        )


def _at_hand(entry: Entry, candidates: Sequence[Candidate]) -> list[int]:
    """Return the candidates that are here, and those that found it."""
    found_with = {verdict.version for verdict in entry.finding.runners}
    return [
        index
        for index, one in enumerate(candidates)
        if one.assembler is not None or any(name.startswith(f"V{one.name}.") for name in found_with)
    ]


def _row(
    entry: Entry,
    conclusion: Conclusion,
    modules: Mapping[int, str],
    *,
    runs: int,
    rate: float,
    seconds: float,
) -> dict[str, object]:
    first = conclusion.first
    return {
        "bisect": {
            "id": entry.id,
            "kind": entry.finding.kind.value,
            "family": entry.finding.family.key,
            "course": conclusion.course.value,
            "flaky": conclusion.flaky,
            "first": None
            if first is None
            else {"version": first.version, "level": first.level, "before": first.before},
            "driver": {
                f"-O{level}": _answer_row(cell) for level, cell in conclusion.driver.items()
            },
            "levels": [_level_row(column, conclusion) for column in conclusion.columns],
            "modules": {conclusion.names[index]: told for index, told in sorted(modules.items())},
            "counts": {way.value: conclusion.count(way) for way in Way},
            "runs": runs,
            "rate": rate,
            "missed": missed(rate, runs),
            "seconds": round(seconds, 3),
            "sentence": conclusion.sentence,
        }
    }


def _answer_row(cell: Answer) -> dict[str, object]:
    row: dict[str, object] = {"outcome": cell.label, "bad": cell.bad, "runs": cell.runs}
    return row if cell.known else {**row, "reason": cell.reason}


def _level_row(column: Column, conclusion: Conclusion) -> dict[str, object]:
    names = conclusion.names
    return {
        "level": column.level,
        "course": column.course.value,
        "changes": [
            {"before": names[one.before], "after": names[one.after]} for one in column.changes
        ],
        "versions": {names[index]: _answer_row(cell) for index, cell in column.cells.items()},
    }


def _print(
    entry: Entry, conclusion: Conclusion, modules: Mapping[int, str], *, runs: int, rate: float
) -> None:
    out = console()
    out.print(f"{entry.id}  {entry.finding.family.title}", markup=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("ptxas", no_wrap=True)
    for level in [one.level for one in conclusion.columns] or conclusion.driver:
        table.add_column(f"-O{level}", overflow="fold")
    table.add_column("asked as", style="quiet", overflow="fold")
    for index in sorted({index for column in conclusion.columns for index in column.cells}):
        cells = [column.cells.get(index) for column in conclusion.columns]
        table.add_row(conclusion.names[index], *map(_shown, cells), modules.get(index, ""))
    if conclusion.driver:
        table.add_row("driver", *map(_shown, conclusion.driver.values()))
    out.print(table)
    out.print(conclusion.sentence, markup=False, soft_wrap=True)
    said = [f"{conclusion.count(way)} {way.value}" for way in Way]
    answers = counted(len(conclusion.answers), "answer")
    out.print(f"{answers}: {', '.join(said)}.", markup=False, soft_wrap=True)
    if rate < 1:
        out.print(
            f"It fails in {rate:.1%} of runs; {runs} runs of each miss that with a probability of "
            f"{missed(rate, runs):.2g}.",
            markup=False,
            soft_wrap=True,
        )


def _shown(cell: Answer | None) -> Text:
    if cell is None:
        return Text("not asked", style="quiet")
    style = "odd" if cell.flaky else "bad" if cell.bad else "legal"
    return Text(cell.label, style=style if cell.known else "quiet")
