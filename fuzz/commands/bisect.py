"""`warpfuzz bisect`: the first compiler version and -O level that changes a finding's result."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.table import Table
from rich.text import Text

from corpus import Entry
from corpus.naming import named_entry
from fuzz.commands.compilers import fetcher
from fuzz.compilers.bisection import (
    Cell,
    Column,
    Conclusion,
    Sample,
    ask,
    bisect,
    missed,
    rate_of,
    repeats_for,
)
from fuzz.compilers.candidates import (
    Candidate,
    Selected,
    fetched,
    parse_levels,
    select,
)
from fuzz.compilers.expansions import ExpansionProbe, is_expansion
from fuzz.compilers.members import Member, device_of
from fuzz.compilers.probes import FindingProbe, HandProbe, InstructionProbe, ValueProbe
from fuzz.findings.case import choice_of, is_runnable
from fuzz.findings.handwritten import is_by_hand
from fuzz.output import console, emit
from fuzz.runner import opened
from oracle.errors import UsageError
from runners.assemblers.disassembly import find_disassembler


def bisect_case(
    case: str,
    *,
    corpus: Path,
    compilers: str | None,
    levels: str | None,
    runner: str | None,
    ptx_version: str | None,
    times: int | None,
    disassembler: Path | None,
    json: bool,
) -> bool:
    """Bisect a finding; tell whether any compiler disagrees with the ISA.

    Parameters
    ----------
    case
        The folder of a finding, or the start of its id in `corpus`.
    compilers, levels
        As `select` and `parse_levels` take them.
    runner
        "sim" or "cuda", for findings with images; None: what found it.
    ptx_version
        Value of .version in place of the finding's, so that older compilers can be asked.
    times
        Runs of each compiler; None: as many as the finding's failure rate asks for.
    disassembler
        Path of an nvdisasm, for notes of changed expansions; None: the one that is here.

    Raises
    ------
    WarpfuzzError
        If there is no such finding or compiler, or it cannot be run.
    """
    entry = named_entry(case, corpus)
    wanted = parse_levels(levels)
    selected = select(compilers)
    _check(entry, selected, runner=runner, ptx_version=ptx_version, disassembler=disassembler)
    candidates = list(selected.candidates)
    rate = rate_of(entry.finding)
    runs = repeats_for(rate) if times is None else times
    started = time.monotonic()
    with _probe(entry, runner, ptx_version, disassembler) as probe, fetcher(json=json) as fetch_one:

        def sample(index: int, level: int) -> Sample | None:
            one = candidates[index] = fetched(candidates[index], fetch_one)
            return probe.sample(Member(assembler=one.assembler, level=level))

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
            level: ask(Cell(), lambda _, at: probe.sample(_driver(at)), 0, level, runs)
            for level in wanted
            if selected.driver
        }
    conclusion = Conclusion(names=[one.name for one in candidates], columns=columns, driver=driver)
    seconds = time.monotonic() - started
    if json:
        emit(_row(entry, conclusion, runs=runs, rate=rate, seconds=seconds))
    else:
        _print(entry, conclusion, runs=runs, rate=rate)
    return conclusion.bad


def _check(
    entry: Entry,
    selected: Selected,
    *,
    runner: str | None,
    ptx_version: str | None,
    disassembler: Path | None,
) -> None:
    """Raise UsageError for what could only be left out of account."""
    runs = is_runnable(entry)
    if is_by_hand(entry) and ptx_version is not None:
        raise UsageError(
            f"finding {entry.id} was written by hand, and its module is run as it is; leave "
            "--ptx-version out"
        )
    if runner is not None and not runs:
        raise UsageError(
            f"--runner {runner} says where programs run, and finding {entry.id} is of what "
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


@contextmanager
def _probe(
    entry: Entry, runner: str | None, ptx_version: str | None, disassembler: Path | None
) -> Iterator[FindingProbe]:
    """Give what asks compilers about a finding; its device is open meanwhile."""
    if is_expansion(entry):
        yield ExpansionProbe(entry, find_disassembler(disassembler), ptx_version=ptx_version)
        return
    if not is_runnable(entry):
        yield InstructionProbe(entry, ptx_version=ptx_version)
        return
    found_by = choice_of(entry, runner)
    choice = replace(found_by, assembler=None, level=None)
    with opened(choice) as ready:
        device = device_of(ready)
        if is_by_hand(entry):
            yield HandProbe(entry, device)
        else:
            yield ValueProbe(entry, device, ptx_version=ptx_version)


def _driver(level: int) -> Member:
    return Member(assembler=None, level=level)


def _at_hand(entry: Entry, candidates: Sequence[Candidate]) -> list[int]:
    """Return the candidates that are here, and those that found it."""
    found_with = {verdict.version for verdict in entry.finding.runners}
    return [
        index
        for index, one in enumerate(candidates)
        if one.assembler is not None or any(name.startswith(f"V{one.name}.") for name in found_with)
    ]


def _row(
    entry: Entry, conclusion: Conclusion, *, runs: int, rate: float, seconds: float
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
                f"-O{level}": {"outcome": cell.label, "bad": cell.bad, "runs": cell.runs}
                for level, cell in conclusion.driver.items()
            },
            "levels": [_level_row(column, conclusion) for column in conclusion.columns],
            "runs": runs,
            "rate": rate,
            "missed": missed(rate, runs),
            "seconds": round(seconds, 3),
            "sentence": conclusion.sentence,
        }
    }


def _level_row(column: Column, conclusion: Conclusion) -> dict[str, object]:
    names = conclusion.names
    return {
        "level": column.level,
        "course": column.course.value,
        "changes": [
            {"before": names[one.before], "after": names[one.after]} for one in column.changes
        ],
        "versions": {
            names[index]: {"outcome": cell.label, "bad": cell.bad, "runs": cell.runs}
            for index, cell in column.cells.items()
        },
    }


def _print(entry: Entry, conclusion: Conclusion, *, runs: int, rate: float) -> None:
    out = console()
    out.print(f"{entry.id}  {entry.finding.family.title}", markup=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("ptxas", no_wrap=True)
    for level in [one.level for one in conclusion.columns] or conclusion.driver:
        table.add_column(f"-O{level}", overflow="fold")
    asked = sorted({index for column in conclusion.columns for index in column.cells})
    for index in asked:
        cells = [column.cells.get(index) for column in conclusion.columns]
        table.add_row(conclusion.names[index], *map(_shown, cells))
    if conclusion.driver:
        table.add_row("driver", *map(_shown, conclusion.driver.values()))
    out.print(table)
    out.print(conclusion.sentence, markup=False, soft_wrap=True)
    if rate < 1:
        out.print(
            f"It fails in {rate:.1%} of runs; {runs} runs of each miss that with a probability of "
            f"{missed(rate, runs):.2g}.",
            markup=False,
            soft_wrap=True,
        )


def _shown(cell: Cell | None) -> Text:
    if cell is None:
        return Text("not asked", style="quiet")
    style = "odd" if cell.flaky else "bad" if cell.bad else "legal"
    return Text(cell.label, style=style if cell.known else "quiet")
