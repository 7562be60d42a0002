"""`warpfuzz bisect`: the first compiler version and -O level that changes a finding's result."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from rich.text import Text

from corpus import Entry, open_corpus
from corpus.finding import RunnerVerdict
from corpus.opening import MANIFEST, named_entry
from fuzz import kinds
from fuzz.compilers.bisection import (
    Column,
    Conclusion,
    bisect,
    distinct,
    missed,
    rate_of,
    repeats_for,
    shown_by,
)
from fuzz.compilers.matrix import ExpansionProbe
from fuzz.compilers.members import Device, Member, MemberRunner, device_of
from fuzz.findings.case import subject_for
from fuzz.findings.making import ReplayOptions, is_by_hand, is_runnable, replay_options
from fuzz.findings.replay import Answer, CannotBeAskedError, Sample, Way, asked, by_way, probe
from fuzz.findings.stored import ModuleProbe, is_expansion, words_of
from fuzz.kinds import compiler_words
from fuzz.options import Bisect
from fuzz.output import counted, fetcher
from fuzz.output.report import Report, ReportColumn, ReportRow, Section, rows_of
from fuzz.runner import OpenRunner, opened, rewriters
from oracle.errors import InfrastructureError, UsageError
from oracle.isa import is_available
from oracle.program import requirements
from oracle.targets import Module, parse_target, parse_version
from runners.assemblers.assembler import Assembler
from runners.assemblers.disassembly import find_disassembler
from runners.compilers import Candidate, Selected, fetched, fetched_compiler, parse_levels
from runners.faults import Place, by_name
from runners.front_ends.protocol import FrontEndCompiler
from runners.protocol import Failure, Runner
from runners.ptx_pass import Rewriter, RewritingRunner
from runners.toolchains import DRIVER
from runners.variants import split_variant
from runners.wheels import WHEELS

_ON_A_GPU = 1_000
"""Runs of each build there, at least: one launch, of what fails every time as far as is known."""


def bisect_case(options: Bisect) -> bool:
    """Bisect a finding; tell whether any compiler disagrees with the ISA."""
    entry, made = named_entry(options.case, options.corpus), replay_options(options)
    wanted = parse_levels(options.levels)
    selected = made.compilers(entry, options.compilers, runs=is_runnable(entry))
    _check(entry, selected, options)
    candidates = list(selected.candidates)
    rate = rate_of(entry.finding)
    on_gpu = is_runnable(entry) and made.choice(entry, compiled=False).name == "cuda"
    runs = options.times or max(repeats_for(rate), _ON_A_GPU if on_gpu and rate == 1 else 0)
    started = time.monotonic()
    modules: dict[int, str] = {}
    with (
        probing(entry, made, options.disassembler) as probe,
        fetcher(fetched_compiler, json=options.json) as fetch_one,
    ):

        def sample(index: int, level: int, most: int) -> Counter[Sample]:
            one = candidates[index] = fetched(candidates[index], fetch_one)
            member = Member(toolchain=one.toolchain, level=level)
            if not member.has_level:
                raise CannotBeAskedError(f"{one.name} has no -O{level}")
            try:
                found = probe.ask(member, most)
                modules[index] = _module(probe, member)
                return found
            finally:
                member.close()

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
            level: asked(partial(probe.ask, Member(toolchain=DRIVER, level=level)), times=runs)
            for level in wanted
            if selected.driver
        }
    conclusion = Conclusion(names=[one.name for one in candidates], columns=columns, driver=driver)
    seconds = time.monotonic() - started
    changed = options.variant, options.target, options.ptx_version, options.faults
    if not any((*changed, options.ptx_pass, options.front_end)):
        _keep(entry, conclusion, probe.device)
    row = _row(entry, conclusion, modules, runs=runs, rate=rate, seconds=seconds)
    Report(
        before=[_section(entry, conclusion, modules)],
        rows=[ReportRow(data=row, listed=False)],
        sentences=[*_sentences(entry, conclusion, runs=runs, rate=rate)],
    ).write(json=options.json)
    _check_answers(entry, conclusion, least=options.at_least or 1)
    return conclusion.bad


def _keep(entry: Entry, conclusion: Conclusion, device: str) -> None:
    """Keep with a finding of a corpus what each build did of it."""
    cells = [
        ("ptxas", conclusion.names[index], column.level, cell)
        for column in conclusion.columns
        for index, cell in column.cells.items()
    ]
    cells += [("driver", "driver", level, cell) for level, cell in conclusion.driver.items()]
    found = [
        RunnerVerdict(
            runner=runner, version=version, options=f"-O{level}", device=device,
            outcome="match" if cell.kind is None else cell.kind.value,
        )
        for runner, version, level, cell in cells
        if cell.known and cell.way is not Way.JUDGED and ":" not in version
    ]  # fmt: skip
    folder = entry.path.parents[1]
    if found and (folder / MANIFEST).is_file() and os.access(folder, os.W_OK):
        open_corpus(folder).add_bisected(entry, found)


def _module(probe: Probe, member: Member) -> str:
    try:
        return ", ".join(probe.module_for(member))
    except CannotBeAskedError:
        return ""


def _check_answers(entry: Entry, conclusion: Conclusion, *, least: int) -> None:
    wanted = Way.COMPARED if is_runnable(entry) else Way.JUDGED
    count = conclusion.count(wanted)
    if conclusion.bad or count >= least:
        return
    reasons = distinct(one.reason for one in conclusion.answers)
    raise InfrastructureError(
        f"{count} of {counted(len(conclusion.answers), 'build')} were {wanted.value}, and "
        f"--at-least asks for {least}{''.join(f'; {reason}' for reason in reasons)}"
    )


def _check(entry: Entry, selected: Selected, options: Bisect) -> None:
    runs, by_hand = is_runnable(entry), is_by_hand(entry)
    as_it_is = f"finding {entry.id} was written by hand, and its module is run as it is; leave"
    for refused, sentence in (
        (by_hand and options.ptx_version is not None, f"{as_it_is} --ptx-version out"),
        (by_hand and options.target is not None, f"{as_it_is} --target out"),
        (
            options.runner is not None and not runs,
            f"--runner {options.runner} says where programs run, and finding {entry.id} is of what "
            "compilers make of a module; leave it out",
        ),
        (
            selected.driver and not selected.candidates and not runs,
            f"the driver's compiler can only be asked what its code computes, and finding "
            f"{entry.id} is of what assemblers make of a module; name a ptxas with --compilers",
        ),
        (
            options.disassembler is not None and not is_expansion(entry),
            f"--disassembler {options.disassembler} is for notes of changed machine code, and "
            f"{entry.id} is none; leave it out",
        ),
        (
            options.target is not None and is_expansion(entry),
            f"--target {options.target} would look at other machine code than {entry.id}; leave "
            "it out",
        ),
    ):
        if refused:
            raise UsageError(sentence)


def _at_hand(entry: Entry, candidates: Sequence[Candidate]) -> list[int]:
    found_with = {verdict.version for verdict in entry.finding.runners}
    return [
        index
        for index, one in enumerate(candidates)
        if one.here is not None or any(name.startswith(f"V{one.name}.") for name in found_with)
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
            "family": entry.finding.identity.text,
            "course": conclusion.progression.value,
            "flaky": conclusion.flaky,
            "first": None if first is None else first._asdict(),
            "driver": {
                f"-O{level}": _answer_row(cell) for level, cell in conclusion.driver.items()
            },
            "levels": [_level_row(column, conclusion) for column in conclusion.columns],
            "modules": {conclusion.names[index]: told for index, told in sorted(modules.items())},
            "counts": {way.value: some for way, some in by_way(conclusion.count).items()},
            "runs": runs,
            "good_executions": _behind_good(conclusion),
            "rate": rate,
            "missed": missed(rate, runs),
            "seconds": round(seconds, 3),
            "sentence": conclusion.sentence,
        }
    }


def _answer_row(cell: Answer) -> dict[str, object]:
    row: dict[str, object] = {
        "outcome": cell.label, "bad": cell.bad, "runs": cell.runs, "failed": cell.failed,
        "executions": cell.executions,
    }  # fmt: skip
    return row if cell.known else {**row, "reason": cell.reason}


def _level_row(column: Column, conclusion: Conclusion) -> dict[str, object]:
    names = conclusion.names
    return {
        "level": column.level,
        "course": column.progression.value,
        "changes": [
            {"before": names[one.before], "after": names[one.after]} for one in column.changes
        ],
        "versions": {names[index]: _answer_row(cell) for index, cell in column.cells.items()},
    }


def _section(entry: Entry, conclusion: Conclusion, modules: Mapping[int, str]) -> Section:
    names, driver = conclusion.names, conclusion.driver
    levels = [one.level for one in conclusion.columns] or list(driver)
    asked = {index for column in conclusion.columns for index in column.cells}
    rows: list[dict[str, Any]] = [
        {"compiler": compiler_words(names[index]), "module": modules.get(index, "")}
        | {f"-O{column.level}": column.cells.get(index) for column in conclusion.columns}
        for index in sorted(asked)
    ]
    if driver:
        cells = {f"-O{level}": cell for level, cell in driver.items()}
        rows.append({"compiler": "driver", "module": ""} | cells)
    return Section(
        heading=f"{entry.id}  {kinds.sentence(entry.finding)}",
        columns=(
            ReportColumn("compiler", whole=True),
            *(ReportColumn(name, partial(_shown, name)) for name in (f"-O{one}" for one in levels)),
            ReportColumn("module"),
        ),
        rows=rows_of(rows),
    )


def _sentences(entry: Entry, conclusion: Conclusion, *, runs: int, rate: float) -> Iterator[str]:
    releases = " ".join(_narrower(conclusion))
    hint = f"; `warpfuzz compilers fetch {releases}` narrows it" if releases else ""
    yield f"{conclusion.sentence}{hint}"
    yield f"{_counts(entry, conclusion)}."
    good = _behind_good(conclusion)
    if good and is_runnable(entry):
        yield (
            f"Each right build ran at least {good:,} times without a failure. One that fails in "
            f"{shown_by(good):.2%} of its runs would have failed with a probability of 95 %."
        )
    if rate < 1:
        yield (
            f"It fails in {rate:.1%} of runs; {runs} runs of each miss that with a probability of "
            f"{missed(rate, runs):.2g}."
        )


def _counts(entry: Entry, conclusion: Conclusion) -> str:
    """Say how many builds were right, how many wrong, and of how many nothing is known."""
    answers = conclusion.answers
    known = [one for one in answers if one.known]
    wrong = sum(one.bad for one in known)
    runs = is_runnable(entry) and not is_expansion(entry)
    said = [f"{len(known) - wrong} right", f"{wrong} wrong"] if conclusion.bad or runs else []
    said += [f"{len(known)} looked at"] if not said else []
    if len(known) < len(answers):
        said.append(f"{len(answers) - len(known)} could not be asked")
    what = counted(len(answers), "build") if runs else f"{len(answers)} times assembled, not run"
    return f"{what}: {', '.join(said)}"


def _narrower(conclusion: Conclusion) -> list[str]:
    """Return the releases that can be fetched and lie between two versions that differ."""
    found: dict[str, None] = {}
    for change in (change for column in conclusion.columns for change in column.changes):
        named = conclusion.names[change.before], conclusion.names[change.after]
        (kind, before), (_, after) = (_versioned(split_variant(name)[0]) for name in named)
        for release in WHEELS[kind].releases if before and after else ():
            digits = _digits(release)
            if before[: len(digits)] < digits < after[: len(digits)]:
                found[WHEELS[kind].spelled + release] = None
    return list(found)


def _versioned(name: str) -> tuple[str, tuple[int, ...]]:
    kind, colon, version = name.removeprefix("V").rpartition(":")
    return (kind if colon else "ptxas"), _digits(version)


def _digits(version: str) -> tuple[int, ...]:
    parts = version.split(".")
    return tuple(map(int, parts)) if all(map(str.isdecimal, parts)) else ()


def _behind_good(conclusion: Conclusion) -> int:
    """Return the fewest executions behind an answer that nothing is wrong; 0 if there is none."""
    good = (one for one in conclusion.answers if one.known and not one.bad)
    return min((one.executions for one in good), default=0)


def _shown(name: str, row: Mapping[str, Answer | None]) -> Text:
    cell = row.get(name)
    if cell is None or not cell.known:
        return Text("not tried" if cell is None else cell.label, style="quiet")
    style = "odd" if cell.flaky else "bad" if cell.bad else "legal"
    often = f"{cell.failed}/{cell.runs:,}" if cell.bad else f"0/{cell.executions:,}"
    label = words_of(cell) or cell.label
    return Text(label if cell.flaky else f"{label} ({often} failed)", style=style)


@dataclass(frozen=True)
class Probe:
    """What asks a compiler at a level about one finding.

    Both raise CannotBeAskedError where nothing can be learnt from this compiler.
    """

    ask: Callable[[Member, int], Counter[Sample]]
    """Asks up to so many times at once."""
    module_for: Callable[[Member], tuple[str, str]]
    """Returns the .target and .version in which it is asked."""
    device: str = ""
    """The device on which it runs; "" where nothing runs."""


@contextmanager
def probing(entry: Entry, options: ReplayOptions, disassembler: Path | None) -> Iterator[Probe]:
    """Give what asks compilers about a finding; its device is open meanwhile."""
    if is_expansion(entry):
        version = options.ptx_version
        note = ExpansionProbe(entry, find_disassembler(disassembler), ptx_version=version)
        module = entry.finding.target, version or entry.finding.ptx_version
        yield Probe(lambda member, _: Counter([note.ask(member)]), lambda member: module)
    elif not is_runnable(entry):
        yield _of_module(entry, options)
    else:
        # The compilers that are asked may be front ends themselves.
        choice = options.choice(entry, compiled=False)
        # What changes the PTX stands before each ptxas, and behind each compiler that writes PTX;
        # what is wrong with the device, in it.
        in_device = [name for name in choice.faults if by_name(name).place is Place.DEVICE]
        with opened(replace(choice, faults=tuple(in_device), ptx_pass=None)) as ready:
            passes = rewriters(choice.faults, choice.ptx_pass)
            programs = _Programs(entry, device_of(ready), options, ready, passes)
            yield Probe(programs.ask, programs.module_for, ready.device)


def _of_module(entry: Entry, options: ReplayOptions) -> Probe:
    question = ModuleProbe(
        entry,
        target=options.target,
        version=options.ptx_version,
        rewriters=rewriters(options.planted(entry), options.chosen(entry, "ptx_pass")),
    )

    def assembler(member: Member) -> Assembler:
        if member.assembler is None:
            raise CannotBeAskedError(
                "the driver's compiler gives no verdict on a module that is not run"
            )
        return member.assembler

    def module_for(member: Member) -> tuple[str, str]:
        target, version = question.module_for([assembler(member)])
        return target, str(version)

    return Probe(
        lambda member, _: Counter([question.ask([(assembler(member), member.level)])]), module_for
    )


class _Programs:
    def __init__(
        self,
        entry: Entry,
        device: Device,
        options: ReplayOptions,
        ready: OpenRunner,
        passes: list[Rewriter],
    ) -> None:
        architecture = device.architecture(ready.target)
        if isinstance(architecture, Failure):
            raise InfrastructureError(f"{architecture}")
        self._device, self._architecture, self._passes = device, architecture, passes
        self._target, self._version = ready.target, ready.ptx_version
        self._fixed = options.ptx_version is not None or is_by_hand(entry)
        self._subject = cache(
            lambda version: subject_for(entry, target=ready.target, version=version)
        )

    def ask(self, member: Member, most: int) -> Counter[Sample]:
        subject = self._subject(self.module_for(member)[1])
        runner: Runner = MemberRunner(self._device, member)
        if isinstance(member.compiler, FrontEndCompiler):
            # What warpfuzz writes does not count there.
            member.compiler.rewriters = self._passes
        elif self._passes:
            runner = RewritingRunner(runner, self._passes)
        return probe(runner, subject, most)

    def module_for(self, member: Member) -> tuple[str, str]:
        version, asked = parse_version(self._version), member.assembler
        if asked is not None and not self._fixed:
            version = min(version, asked.highest_version)
        if asked is not None and (said := asked.refusal(self._target, self._architecture)):
            raise CannotBeAskedError(f"{asked.named} does not take its options: {said}")
        if not member.toolchain.knows(self._target, str(version), self._architecture):
            raise CannotBeAskedError(
                f"{member.toolchain.named} compiles no module with .version {version} and .target "
                f"{self._target} for {self._architecture}; choose another --target"
            )
        module = Module(parse_target(self._target), version)
        for form in requirements(self._subject(self._version).program):
            if not is_available(form, module):
                raise CannotBeAskedError(
                    f"{member.toolchain.named} knows PTX ISA {version} at most, which has no "
                    f"{form.opcode} for {self._target}"
                )
        return self._target, str(version)
