"""`warpfuzz bisect`: the first compiler version and -O level that changes a finding's result."""

from __future__ import annotations

import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, partial
from itertools import pairwise
from operator import itemgetter
from typing import Any

from rich.text import Text

from corpus import Entry, open_corpus
from corpus.finding import RunnerVerdict
from corpus.known import named_entry
from corpus.store import MANIFEST
from fuzz import kinds
from fuzz.compilers.members import Member, MemberRunner, architecture_of, device_of
from fuzz.findings.case import ReplayOptions, is_by_hand, is_runnable, replay_options, subject_for
from fuzz.findings.replay import (
    ModuleProbe,
    missed,
    rate_of,
    repeats_for,
    shown_by,
    words_of,
)
from fuzz.findings.verdicts import Answer, Basis, CannotBeAskedError, Rerun, asked, by_way, probe
from fuzz.kinds import compiler_words, level_words
from fuzz.options.testing import Bisect
from fuzz.output import Report, ReportColumn, ReportRow, Section, counted, fetcher, rows_of
from fuzz.runner import OpenRunner, opened, rewriters
from oracle.errors import InfrastructureError, UsageError
from oracle.isa.targets import parse_version
from runners.compilers import Selected, fetched, fetched_compiler, parse_levels
from runners.faults import FaultPlace, by_name
from runners.foreign import Rewriter, RewritingRunner
from runners.front_ends.protocol import FrontEnd
from runners.protocol import Runner
from runners.toolchains import DRIVER


class Progression(StrEnum):
    """How the result goes from the oldest version to the newest, least eventful first."""

    UNKNOWN = "no version can be asked"
    NEVER = "never"  # all versions agree, and agree with the ISA
    ALWAYS = "always was so"  # all versions agree, and disagree with the ISA
    CHANGED = "changed"  # one change
    NOT_MONOTONIC = "not monotonic"  # several changes


@dataclass(frozen=True)
class LevelColumn:
    """What the versions do at one level."""

    level: int
    cells: dict[int, Answer]  # by the index of the version; those that were asked

    @property
    def known(self) -> list[int]:
        """The versions that answered, oldest first."""
        return [index for index in sorted(self.cells) if self.cells[index].known]

    @property
    def changes(self) -> list[tuple[int, int]]:
        """Versions with different results, with none between them that was asked, oldest first."""
        return [pair for pair in pairwise(self.known) if not self._same(*pair)]

    @property
    def progression(self) -> Progression:
        """How the result goes."""
        known, changes = self.known, len(self.changes)
        if not known:
            return Progression.UNKNOWN
        if not changes:
            return Progression.ALWAYS if self.cells[known[0]].bad else Progression.NEVER
        return Progression.CHANGED if changes == 1 else Progression.NOT_MONOTONIC

    @property
    def between(self) -> int | None:
        """A version that was not asked and lies between two that differ."""
        for before, after in pairwise(sorted(self.cells)):
            if after - before > 1 and not self._same(before, after):
                return (before + after) // 2
        # What cannot be asked on both sides of a version says nothing of it.
        for change in self.changes:
            if free := [one for one in range(*change) if one not in self.cells]:
                return free[len(free) // 2]
        return None

    def _same(self, before: int, after: int) -> bool:
        return self.cells[before].same(self.cells[after])


Probe = Callable[[int, int, int], Counter[Rerun] | None]
"""Run with the version of this index at this -O level, up to so many times at once; None, or
`CannotBeAskedError`, if it cannot be asked there."""


def bisect(
    probe: Probe, *, versions: int, level: int, at_hand: Collection[int], times: int
) -> LevelColumn:
    """Find the changes of a result over versions, at one level.

    The oldest and the newest of so many `versions` are asked, and those `at_hand`, which cost
    nothing; then, wherever two neighbours differ, the one in the middle between them, until none is
    left between. What lies on both sides of a change is asked as often again.
    """
    column = LevelColumn(level, {})

    def ask(index: int) -> None:
        into = column.cells.get(index)
        column.cells[index] = asked(lambda most: probe(index, level, most), times=times, into=into)

    for index in sorted({0, versions - 1, *at_hand}):
        ask(index)
    verified: set[int] = set()
    while True:
        if (middle := column.between) is not None:
            ask(middle)
        elif sides := {index for one in column.changes for index in one} - verified:
            for index in sorted(sides):
                ask(index)
            verified |= sides
        else:
            return LevelColumn(level, dict(sorted(column.cells.items())))


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What several columns say together."""

    names: Sequence[str]  # versions, oldest first
    columns: Sequence[LevelColumn]  # one for each level, lowest first
    driver: Mapping[int, Answer] = field(default_factory=dict)
    """What the driver's compiler does, by level; empty where it was not asked."""

    @property
    def progression(self) -> Progression:
        """The most eventful progression of all levels."""
        found = (column.progression for column in self.columns)
        return max(found, key=list(Progression).index, default=Progression.UNKNOWN)

    @property
    def cells(self) -> Sequence[tuple[str, int, Answer]]:
        """Every version, level and answer, oldest first; the driver's compiler stands behind."""
        found = [(at, one.level, cell) for one in self.columns for at, cell in one.cells.items()]
        own = [
            (self.names[at], level, cell) for at, level, cell in sorted(found, key=itemgetter(0))
        ]
        return [*own, *(("driver", level, cell) for level, cell in self.driver.items())]

    @property
    def answers(self) -> Sequence[Answer]:
        """Every answer."""
        return [cell for *_, cell in self.cells]

    @property
    def flaky(self) -> bool:
        """Whether some version was not the same every time."""
        return any(cell.flaky for cell in self.answers)

    @property
    def bad(self) -> bool:
        """Whether anything disagreed with the ISA."""
        return any(cell.bad for cell in self.answers)

    @property
    def first(self) -> dict[str, str | int | None] | None:
        """The first version and level that disagrees, where there is one and another does not.

        Beside them, the version before it, with another result; None if the oldest that was asked
        is it. Where nothing disagrees, of the first change.
        """
        agrees = any(not column.cells[at].bad for column in self.columns for at in column.known)
        found: list[tuple[int, int, int | None]] = []
        for column in self.columns:
            bad = [at for at in column.known if column.cells[at].bad]
            if bad and agrees:
                before = [at for at in column.known if at < bad[0]]
                found.append((bad[0], column.level, before[-1] if before else None))
            elif not self.bad:
                found += [(after, column.level, before) for before, after in column.changes[:1]]
        if not found:
            return None
        index, level, last = min(found, key=lambda at: at[:2])
        previous = None if last is None else self.names[last]
        return {"version": self.names[index], "level": level, "before": previous}

    @property
    def sentence(self) -> str:
        """Everything in one sentence."""
        told = [(self._words_of(column), column.level) for column in self.columns]
        told += [
            (f"{self._state(cell)} by the driver's compiler", level)
            for level, cell in self.driver.items()
        ]
        levels: defaultdict[str, list[str]] = defaultdict(list)
        for words, level in told:
            levels[words].append(f"-O{level}")
        parts = [f"{level_words(names)}: {words}" for words, names in levels.items()]
        return "; ".join(parts) + "; flaky: not the same in every run" * self.flaky

    def _words_of(self, column: LevelColumn) -> str:
        firsts = [*column.known[:1], *(after for _, after in column.changes)]
        words = [
            f"{self._state(column.cells[at])} from {self.names[at].removeprefix('V')}"
            for at in firsts
        ]
        return ", ".join(words or distinct(cell.reason for cell in column.cells.values()))

    def _state(self, cell: Answer) -> str:
        """Say what a version does: wrong or right, where a finding has such a thing."""
        said = words_of(cell) or cell.label
        if cell.bad:
            return f"wrong ({said})"
        if said == "match":
            return "right"
        return f"right ({said})" if self.bad else said


def distinct(reasons: Iterable[str]) -> list[str]:
    """Return the first of all reasons that differ in versions and levels alone."""
    found: dict[str, str] = {}
    for reason in filter(None, reasons):
        found.setdefault(re.sub(r"[0-9]+(\.[0-9]+)*", "#", reason), reason)
    return [*found.values()]


# The command

_ON_A_GPU = 1_000
"""Runs of each build there, at least: one launch, of what fails every time as far as is known."""

Ask = Callable[[Member, int], tuple[Counter[Rerun], str]]
"""Asks a compiler at a level about one finding, up to so many times at once; returns also the
.target and .version in which it was asked. CannotBeAskedError says that nothing can be learnt."""


def bisect_case(options: Bisect) -> bool:
    """Bisect a finding; tell whether any compiler disagrees with the ISA."""
    entry, made = named_entry(options.case, options.corpus), replay_options(options)
    runs = is_runnable(entry)
    wanted = parse_levels(options.levels)
    selected = made.compilers(entry, options.compilers, runs=runs)
    _check(entry, selected, options)
    candidates, rate = list(selected.candidates), rate_of(entry.finding)
    on_gpu = runs and made.choice(entry, compiled=False).name == "cuda"
    times = options.times or max(repeats_for(rate), _ON_A_GPU if on_gpu and rate == 1 else 0)
    started = time.monotonic()
    modules: dict[str, str] = {}
    found_with = {verdict.version for verdict in entry.finding.runners}
    at_hand = [
        index
        for index, one in enumerate(candidates)
        if one.here is not None or any(name.startswith(f"V{one.name}.") for name in found_with)
    ]
    with (
        _asking(entry, made) as (ask, device),
        fetcher(fetched_compiler, json=options.json) as fetch,
    ):

        def sample(index: int, level: int, most: int) -> Counter[Rerun]:
            one = candidates[index] = fetched(candidates[index], fetch)
            assert one.here is not None
            member = Member(toolchain=one.here, level=level)
            if not member.has_level:
                raise CannotBeAskedError(f"{one.name} has no -O{level}")
            with closing(member):
                found, modules[one.name] = ask(member, most)
            return found

        def of_driver(level: int) -> Answer:
            member = Member(toolchain=DRIVER, level=level)
            return asked(lambda most: ask(member, most)[0], times=times)

        columns = [
            bisect(sample, versions=len(candidates), level=level, at_hand=at_hand, times=times)
            for level in wanted
            if candidates
        ]
        driver = {level: of_driver(level) for level in wanted if selected.driver}
    names = [one.name for one in candidates]
    conclusion = Conclusion(names=names, columns=columns, driver=driver)
    changed = options.variant, options.target, options.ptx_version, options.faults
    if not any((*changed, options.ptx_pass, options.front_end)):
        _keep(entry, conclusion, device)
    answers = conclusion.answers
    good = [one.executions for one in answers if one.known and not one.bad]
    row = {
        **_row(entry, conclusion, modules),
        "runs": times,
        "good_executions": min(good, default=0),
        "rate": rate,
        "missed": missed(rate, times),
        "seconds": round(time.monotonic() - started, 3),
        "sentence": conclusion.sentence,
    }
    Report(
        before=[_section(entry, conclusion, modules)],
        rows=[ReportRow(data={"bisect": row}, listed=False)],
        sentences=[*_sentences(row, ran=runs)],
    ).write(json=options.json)
    way, least = Basis.COMPARED if runs else Basis.JUDGED, options.at_least or 1
    count = sum(one.way is way for one in answers)
    if not conclusion.bad and count < least:
        reasons = distinct(one.reason for one in answers)
        raise InfrastructureError(
            f"{count} of {counted(len(answers), 'build')} were {way.value}, and --at-least asks "
            f"for {least}{''.join(f'; {reason}' for reason in reasons)}"
        )
    return conclusion.bad


def _sentences(row: Mapping[str, Any], *, ran: bool) -> Iterator[str]:
    yield row["sentence"]
    if ran and (good := row["good_executions"]):
        yield (
            f"Each right build ran at least {good:,} times without a failure. One that fails in "
            f"{shown_by(good):.2%} of its runs would have failed with a probability of 95 %."
        )
    if row["rate"] < 1:
        yield (
            f"It fails in {row['rate']:.1%} of runs; {row['runs']} runs of each miss that with a "
            f"probability of {row['missed']:.2g}."
        )


def _keep(entry: Entry, conclusion: Conclusion, device: str) -> None:
    """Keep with a finding of a corpus what each build did of it."""
    found = [
        RunnerVerdict(
            runner="driver" if version == "driver" else "ptxas", version=version, device=device,
            options=f"-O{level}", outcome="match" if cell.kind is None else cell.kind.value,
        )
        for version, level, cell in conclusion.cells
        if cell.known and cell.way is not Basis.JUDGED and ":" not in version
    ]  # fmt: skip
    folder = entry.path.parents[1]
    if found and (folder / MANIFEST).is_file() and os.access(folder, os.W_OK):
        open_corpus(folder).add_bisected(entry, found)


def _check(entry: Entry, selected: Selected, options: Bisect) -> None:
    runs, name = is_runnable(entry), f"finding {entry.id}"
    by_hand = f"{name} was written by hand, and its module is run as it is; leave it out"
    for option, refused, why in (
        ("ptx_version", is_by_hand(entry), by_hand),
        ("target", is_by_hand(entry), by_hand),
        ("runner", not runs, f"{name} is of what compilers make of a module; leave it out"),
    ):
        if refused and (value := getattr(options, option)) is not None:
            raise UsageError(f"{options.spelled(option)} {value} cannot be: {why}")
    if selected.driver and not selected.candidates and not runs:
        raise UsageError(
            f"the driver's compiler can only be asked what its code computes, and {name} is of "
            "what assemblers make of a module; name a ptxas with --compilers"
        )


def _row(entry: Entry, conclusion: Conclusion, modules: Mapping[str, str]) -> dict[str, object]:
    names = conclusion.names
    ways = Counter(one.way for one in conclusion.answers)
    return {
        "id": entry.id,
        "kind": entry.finding.kind.value,
        "family": entry.finding.identity.text,
        "course": conclusion.progression.value,
        "flaky": conclusion.flaky,
        "first": conclusion.first,
        "driver": {f"-O{level}": _answer_row(cell) for level, cell in conclusion.driver.items()},
        "levels": [
            {
                "level": column.level,
                "course": column.progression.value,
                "changes": [
                    {"before": names[before], "after": names[after]}
                    for before, after in column.changes
                ],
                "versions": {names[at]: _answer_row(cell) for at, cell in column.cells.items()},
            }
            for column in conclusion.columns
        ],
        "modules": {name: modules[name] for name in names if name in modules},
        "counts": {way.value: some for way, some in by_way(ways.__getitem__).items()},
    }


def _answer_row(cell: Answer) -> dict[str, object]:
    row: dict[str, object] = {
        "outcome": cell.label, "bad": cell.bad, "runs": cell.runs, "failed": cell.failed,
        "executions": cell.executions,
    }  # fmt: skip
    return row if cell.known else {**row, "reason": cell.reason}


def _section(entry: Entry, conclusion: Conclusion, modules: Mapping[str, str]) -> Section:
    rows: dict[str, dict[str, Any]] = {}
    for name, level, cell in conclusion.cells:
        shown = {"compiler": compiler_words(name), "module": modules.get(name, "")}
        rows.setdefault(name, shown)[f"-O{level}"] = cell
    levels = sorted({f"-O{level}" for _, level, _ in conclusion.cells})
    return Section(
        heading=f"{entry.id}  {kinds.sentence(entry.finding)}",
        columns=(
            ReportColumn("compiler", whole=True),
            *(ReportColumn(level, partial(_shown, level)) for level in levels),
            ReportColumn("module"),
        ),
        rows=rows_of(rows.values()),
    )


def _shown(name: str, row: Mapping[str, Answer | None]) -> Text:
    cell = row.get(name)
    if cell is None or not cell.known:
        return Text("not tried" if cell is None else cell.label, style="quiet")
    style = "odd" if cell.flaky else "bad" if cell.bad else "legal"
    often = f"{cell.failed}/{cell.runs:,}" if cell.bad else f"0/{cell.executions:,}"
    label = words_of(cell) or cell.label
    return Text(label if cell.flaky else f"{label} ({often} failed)", style=style)


@contextmanager
def _asking(entry: Entry, options: ReplayOptions) -> Iterator[tuple[Ask, str]]:
    """Give what asks compilers about a finding, and the open device on which it does, if any."""
    if not is_runnable(entry):
        yield _of_module(entry, options), ""
    else:
        # The compilers that are asked may be front ends themselves.
        choice = options.choice(entry, compiled=False)
        # What changes the PTX stands before each ptxas, and behind each compiler that writes PTX;
        # what is wrong with the device, in it.
        in_device = [name for name in choice.faults if by_name(name).place is FaultPlace.DEVICE]
        with opened(replace(choice, faults=tuple(in_device), ptx_pass=None)) as ready:
            passes = rewriters(choice.faults, choice.ptx_pass)
            yield _of_program(entry, options, ready, passes), ready.device


def _of_module(entry: Entry, options: ReplayOptions) -> Ask:
    question = ModuleProbe(
        entry,
        target=options.target,
        version=options.ptx_version,
        rewriters=rewriters(options.planted(entry), options.chosen(entry, "ptx_pass")),
    )

    def ask(member: Member, _: int) -> tuple[Counter[Rerun], str]:
        if member.assembler is None:
            raise CannotBeAskedError(
                "the driver's compiler gives no verdict on a module that is not run"
            )
        found = Counter([question.ask([(member.assembler, member.level)])])
        return found, ", ".join(map(str, question.module_for([member.assembler])))

    return ask


def _of_program(
    entry: Entry, options: ReplayOptions, ready: OpenRunner, passes: list[Rewriter]
) -> Ask:
    device, target = device_of(ready), ready.target
    architecture = architecture_of(device, target)
    fixed = options.ptx_version is not None or is_by_hand(entry)
    subject = cache(lambda version: subject_for(entry, target=target, version=version))

    def ask(member: Member, most: int) -> tuple[Counter[Rerun], str]:
        version, asked = parse_version(ready.ptx_version), member.assembler
        if asked is not None and not fixed:
            version = min(version, asked.highest_version)
        if asked is not None and (said := asked.refusal(target, architecture)):
            raise CannotBeAskedError(f"{asked.named} does not take its options: {said}")
        if not member.toolchain.knows(target, str(version), architecture):
            raise CannotBeAskedError(
                f"{member.toolchain.named} compiles no module with .version {version} and .target "
                f"{target} for {architecture}; choose another --target"
            )
        try:
            own = subject(str(version))
        except UsageError as error:
            raise CannotBeAskedError(f"{member.toolchain.named}: {error}") from None
        runner: Runner = MemberRunner(device, member)
        if isinstance(member.compiler, FrontEnd):
            # What warpfuzz writes does not count there.
            member.compiler.rewriters = passes
        elif passes:
            runner = RewritingRunner(runner, passes)
        return probe(runner, own, most), f"{target}, {version}"

    return ask
