"""`warpfuzz gate`: whether a compiler may be taken in place of another one."""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from rich.text import Text

from corpus import Case, Kind, create_corpus
from corpus.finding import MODULE
from corpus.known import RECORD, Known, known_with, load_known, named_corpus
from corpus.store import Entry, read_entry
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.pool import ProcessPool
from fuzz.campaign.status import TOLD_APART, CampaignStatus, figures
from fuzz.campaign.store import Budget, CampaignStore
from fuzz.checks.compilers import Compilers
from fuzz.checks.protocol import BY_MEMBER, Facts
from fuzz.compilers.members import COMPILE_SECONDS, NOWHERE, Member, placed, survey_programs
from fuzz.console.report import ended_by_signals, watching
from fuzz.findings.case import ReplayOptions, commands_of, is_runnable
from fuzz.findings.families import FamilyState, asked_of
from fuzz.findings.replay import Replayed, Replays, rate_of, repeats_for
from fuzz.kinds import KILLS, sentence
from fuzz.options.declared import parse_duration
from fuzz.options.testing import Gate
from fuzz.output import (
    Report,
    ReportColumn,
    ReportRow,
    Section,
    Test,
    check_kind,
    console,
    counted,
    fetcher,
    generator,
    harmless,
    report_expired,
    rows_of,
    tracked,
)
from fuzz.runner import RunnerChoice, best_runner, cores
from oracle.errors import InfrastructureError, UsageError
from oracle.isa.targets import TARGETS, Module, parse_target
from runners.assemblers.assembler import Assembler
from runners.compilers import (
    LANGUAGES,
    all_fetched,
    fetched_compiler,
    find_front_end,
    parse_levels,
    select,
)
from runners.emission import emit_all
from runners.kernels import KernelModule
from runners.protocol import Failure
from runners.toolchains import DRIVER, Toolchain
from runners.variants import PLAIN, Variant, parse_variant
from strategies.draws import Selection
from strategies.rounds import selected_forms

_PROGRAMS_OF_A_MODULE = 8  # what is timed: modules like those of a campaign
_MODULES = 6
_TURNS, _MOST_TURNS = 3, 9
"""Times that both are timed in turn, and most before one is called slower; the fastest counts,
because other work takes its share of a core."""
_VARIANTS = ("maxrregcount=32", "regAllocOptLevel=2", "process=last")
"""Options that both are asked with besides siblings, where nobody names any."""
_LEAST_SHARE = 0.5  # share of the time that new programs get at least, however long the record took
_SOURCES = _RECORD, _DRAWN, _TIMED = "shipped findings", "new programs", "compile time"


class Standing(StrEnum):
    """What has become of something with the new compiler, as the table has it."""

    FIXED = "fixed"
    NEW = "new"
    BITS = "changed bits"
    SLOWER = "slower to compile"
    CRASH = "crashes"
    MORE = "accepts more"
    SAME = "unchanged"
    SKIPPED = "skipped"

    @property
    def is_news(self) -> bool:
        """Whether the new one alone does something that is wrong."""
        return self not in (Standing.FIXED, Standing.SAME, Standing.SKIPPED)


@dataclass(frozen=True, kw_only=True)
class GateItem:
    """One thing about which both compilers were asked."""

    standing: Standing
    what: str
    source: str  # one of `_SOURCES`
    entry: Entry | None = None  # the finding, where one is stored
    known: bool = False

    @property
    def counts(self) -> bool:
        """Whether it is a regression that nobody has explained."""
        return self.standing.is_news and self.standing is not Standing.MORE and not self.known

    @property
    def row(self) -> ReportRow:
        """The line of the report."""
        standing, ships = self.standing, self.source == _RECORD
        skipped = self.known or standing is Standing.SKIPPED
        # The id of a finding that ships with warpfuzz, or the folder of a new one.
        path = "" if self.entry is None else self.entry.id if ships else str(self.entry.path)
        outcome = "skipped" if skipped else "failure" if self.counts else "passed"
        group, name = f"warpfuzz.gate.{self.source}", f"{path} {self.what}".strip()
        return ReportRow(
            data={
                "standing": standing, "what": self.what, "source": self.source, "path": path,
                "known": self.known,
            },
            style="bad" if self.counts else "quiet",
            # What is as it was, of more than a hundred, decides nothing.
            listed=standing.is_news or not (skipped or ships),
            test=Test(group, name, 0.0, outcome, standing, self.what),
        )  # fmt: skip


@dataclass(kw_only=True)
class GateResult:
    """All that both compilers were asked, and what came of it."""

    old: Toolchain
    new: Toolchain
    runner: str
    options: Gate
    known: Known
    seed: int
    variants: tuple[Variant, ...] = ()  # with which both compiled new programs at one level
    items: list[GateItem] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    status: CampaignStatus | None = None
    stopped: bool = False  # whether a signal ended it before its time

    def programs(self, what: str) -> int:
        """Return of how many new programs both have something: "compiled", or "compared"."""
        counts = {} if self.status is None else self.status.counts
        return min(
            max((count for (kind, *names), count in counts.items()
                 if kind == BY_MEMBER and names[0].startswith(f"{toolchain.label} -")
                 and names[1] == what), default=0)
            for toolchain in (self.old, self.new)
        )  # fmt: skip

    @property
    def verdict(self) -> tuple[str, str]:
        """The verdict, and what it rests on."""
        new, stopped = self.new.named.replace(" V", " "), "stopped before the end; " * self.stopped
        if found := sum(item.counts for item in self.items):
            return "REJECT", f"{stopped}{counted(found, 'regression')} in {new}"
        compiled, programs = self.programs("compiled"), self.programs("compared")
        said, least = f"{stopped}no regression found in {new}", self.options.at_least
        ran = (
            f"both compilers compiled {compiled:,} and executed {counted(programs, 'new program')}"
        )
        if compiled and programs >= least and not self.stopped:
            return "ACCEPT", f"{said}; {ran}"
        how = "give it longer (--time), or a GPU, or set the limit with --at-least"
        return "UNKNOWN", f"{said}, but {ran} of at least {max(1, least):,}; {how}"

    def is_known(self, case: Case, standing: Standing) -> bool:
        """Whether a finding does not count: if the two differ in it, only if the user's file says.

        What ships as known of the new compiler is as new to who has the old one.
        """
        known, path = self.known, self.options.known
        if standing.is_news:
            known = Known() if path is None or self.options.no_known else load_known(path)
        return known.match(case) is not None


def gate(options: Gate) -> bool:
    """Compare two compilers; tell whether the new one has a regression.

    Raises InfrastructureError if too little was looked at to say so.
    """
    started = time.monotonic()
    seconds = parse_duration(options.time)
    check_kind(options.report, ".html")
    old, new = (_toolchain(name, options) for name in (options.old, options.new))
    if old == new:
        raise UsageError(f"{options.old} and {options.new} are the same compiler, {new.named}")
    if old.writes_ptx != new.writes_ptx:
        raise UsageError(
            f"{old.named} and {new.named} cannot be compared: one is given programs, and the "
            "other PTX; name two assemblers, or two front ends"
        )
    runner = options.runner or best_runner(
        planted=new.writes_ptx, device_faults=False, has_assembler=lambda: True
    )
    if runner == NOWHERE and new.writes_ptx:
        raise UsageError(f"{new.named} writes PTX, which has to run: choose --runner sim or cuda")
    result = GateResult(
        old=old, new=new, runner=runner, options=options,
        known=known_with(options.known, nothing=options.no_known),
        seed=secrets.randbits(32) if options.seed is None else options.seed,
    )  # fmt: skip
    try:
        _replay_record(result)
        _draw(result, seconds=seconds, until=started + seconds)
    except (KeyboardInterrupt, SystemExit):
        result.stopped = True
        raise
    finally:
        if result.status is not None or result.stopped:
            _write_report(result, time.monotonic() - started)
            report_expired(result.known)
    verdict, reason = result.verdict
    if result.stopped and verdict != "REJECT":
        raise KeyboardInterrupt
    if verdict == "UNKNOWN":
        raise InfrastructureError(f"{verdict}: {reason}")
    return verdict == "REJECT"


def _toolchain(name: str, options: Gate) -> Toolchain:
    if name == DRIVER.kind:
        return DRIVER
    if name.partition(":")[0] in LANGUAGES:
        return find_front_end(name)
    with fetcher(fetched_compiler, json=options.json) as fetch:
        found = all_fetched(select(name), fetch).toolchains
    if len(found) != 1:
        raise UsageError(f"{name!r} names {len(found)} compilers; give one version or a path")
    return found[0]


def _ptxas_name(toolchain: Toolchain) -> str:
    return toolchain.spelled or toolchain.version.removeprefix("V")


# The record


def _replay_record(result: GateResult) -> None:
    """Ask both about every finding that ships; rare ones as often as they have to be."""
    json = result.options.json
    entries = list(named_corpus(Path(RECORD)).entries())
    if result.new.writes_ptx or DRIVER in (result.old, result.new):
        _leave_out(result, entries, "they are about ptxas, and these are other compilers")
        return
    judged = [entry for entry in entries if not is_runnable(entry)]
    ran = [entry for entry in entries if is_runnable(entry)]
    if result.runner != "cuda":
        _leave_out(result, ran, "they need a GPU")
        ran = []
    rows: list[Replayed] = []
    with (
        Replays(
            ReplayOptions(assembler=_ptxas_name(result.new)), baseline=_ptxas_name(result.old)
        ) as replays,
        ThreadPoolExecutor(cores()) as pool,
    ):
        try:
            answers = pool.map(partial(replays.replay, times=1), judged)
            rows.extend(tracked(answers, _RECORD, json=json))
            # What runs, runs on one device, one after the other.
            rows.extend(
                replays.replay(entry, times=repeats_for(rate_of(entry.finding)))
                for entry in tracked(ran, "findings that fail rarely", json=json)
            )
        finally:
            why, asked = "the gate was stopped before", set[str]()
            for row in rows:
                standing = _standing_of(row)
                if standing is None:
                    # What to do about it stands behind the semicolon.
                    said = row.now.reason or (row.before.reason if row.before else "")
                    why = said.partition(";")[0] or why
                    continue
                asked.add(row.entry.id)
                result.items.append(GateItem(
                    standing=standing, what=sentence(row.finding), source=_RECORD,
                    entry=row.entry, known=result.is_known(row.finding, standing),
                ))  # fmt: skip
            _leave_out(result, [one for one in (*judged, *ran) if one.id not in asked], why)


def _leave_out(result: GateResult, entries: Sequence[Entry], why: str) -> None:
    if entries:
        result.skipped.append(f"{counted(len(entries), 'shipped finding')}: {why}")
    standing = Standing.SKIPPED
    result.items += [
        GateItem(standing=standing, what=sentence(one.finding), source=_RECORD, entry=one)
        for one in entries
    ]


def _standing_of(row: Replayed) -> Standing | None:
    """Return what has become of a shipped finding; None if one of both gave no answer."""
    now, before = row.now, row.before
    if before is None or not now.known or not before.known:
        return None
    if not now.bad:
        return Standing.FIXED if before.bad else Standing.SAME
    is_worse = not before.bad or (
        now.kind is not None and before.kind is not None
        and now.kind.severity > before.kind.severity
    )  # fmt: skip
    return _worse(now.kind or row.finding.kind) if is_worse else Standing.SAME


def _worse(kind: Kind) -> Standing:
    """Return where something stands that only the new one gets wrong."""
    if kind in KILLS or kind is Kind.INTERNAL:
        return Standing.CRASH
    # It changes no program that the old one takes.
    few = {Kind.DEVIATION: Standing.BITS, Kind.ACCEPTED: Standing.MORE}
    return few.get(kind, Standing.NEW)


# Fresh programs


def _draw(result: GateResult, *, seconds: float, until: float) -> None:
    """Run a campaign with both at all levels, and time what they compile."""
    options, both = result.options, (result.old, result.new)
    levels = parse_levels(options.levels)
    choice = RunnerChoice(name=result.runner, target=options.target, device=options.device)
    with placed(choice) as place:
        result.variants = tuple(_variants(result, place.architecture, place.target))
    built = [(toolchain, level) for toolchain in both for level in levels]
    built += [
        (toolchain.having(variant), max(levels))
        for variant in result.variants
        for toolchain in both
        if isinstance(toolchain, Assembler)
    ]
    members = (Member(toolchain=toolchain, level=level) for toolchain, level in built)
    check = Compilers(
        choice=choice,
        members=tuple(member for member in members if member.has_level),
        seed=result.seed,
        selection=Selection(pattern=options.only),
        read_by_all=True,
    )
    name = re.sub(r"[^\w.-]+", "-", f"gate-{result.old.label}-{result.new.label}")
    corpus = create_corpus(options.corpus or Path(name), generator=generator())
    workers = options.workers or cores()
    with (
        CampaignStore(corpus.path) as store,
        closing(ProcessPool(check, workers=workers, devices=(options.device,))) as pool,
    ):
        store.abandon()
        store.forget()
        facts = pool.facts()
        result.skipped += facts.left_out
        result.items += _timed(result, facts, levels, options.slower)
        budget = Budget(seconds=max(_LEAST_SHARE * seconds, until - time.monotonic()))
        # Standard output is for the result, whose first word is the verdict.
        with watching(json=False, out=console(stderr=True)) as watcher:
            campaign = Campaign(
                pool, facts, check=check, budget=budget, corpus=corpus, known=result.known,
                observer=watcher, store=store,
            )  # fmt: skip

            def stop() -> None:
                result.stopped = True
                campaign.stop()

            with ended_by_signals(stop):
                campaign.run()
        result.status = campaign.status()
    for family in result.status.families:
        words, standing = sentence(family.case), _standing_of_family(family, result)
        if standing is Standing.SKIPPED:
            result.skipped.append(f"one of both about {words}")
        result.items.append(GateItem(
            standing=_sure(standing, family, result), what=words, source=_DRAWN,
            entry=None if family.saved is None else read_entry(family.saved.path),
            known=result.is_known(family.case, standing),
        ))  # fmt: skip


def _variants(result: GateResult, own: str, target: str) -> Iterator[Variant]:
    """Yield the options that both are asked with, for an architecture.

    Raises UsageError if somebody names some that one of them does not take.
    """
    given = result.options.variants
    both = [one for one in (result.old, result.new) if isinstance(one, Assembler)]
    if len(both) < 2 or any(assembler.variant for assembler in both):
        if given:
            raise UsageError("--variant is for two ptxas that are named without options")
        return
    number = parse_target(own).number
    siblings = [row.name for row in TARGETS.values() if row.number == number and row.name != own]
    named = given or (*_VARIANTS, *(f"target={name}" for name in siblings))
    for variant in filter(None, map(parse_variant, named)):
        refusals = ((one.named, one.having(variant).refusal(target, own)) for one in both)
        said = "; ".join(f"{name}: {refusal}" for name, refusal in refusals if refusal)
        if said and given:
            raise UsageError(f"not both of them take the options {variant}: {said}")
        if said:
            result.skipped.append(f"programs with {variant} ({said})")
        else:
            yield variant


def _standing_of_family(family: FamilyState, result: GateResult) -> Standing:
    asked = asked_of(family.case)
    names = [
        {f"{toolchain.label}{variant}" for variant in (PLAIN, *result.variants)}
        for toolchain in (result.old, result.new)
    ]
    if asked and not all(any(one.version in own for one in asked) for own in names):
        return Standing.SKIPPED
    old, new = (
        {
            (one.version.partition("+")[2], one.level)
            for one in asked
            if one.wrong and one.version in own
        }
        for own in names
    )
    if not new:
        return Standing.FIXED if old else _worse(family.case.kind)
    return _worse(family.case.kind) if new - old else Standing.SAME


def _sure(standing: Standing, family: FamilyState, result: GateResult) -> Standing:
    """Return a standing once the other compiler was asked as often as a rare failure asks for."""
    other = result.new if standing is Standing.FIXED else result.old
    if family.saved is None or standing is Standing.SAME or other.writes_ptx or other == DRIVER:
        return standing
    entry = read_entry(family.saved.path)
    rate = rate_of(entry.finding)
    if rate >= 1 or not is_runnable(entry):
        return standing
    with Replays(ReplayOptions(assembler=_ptxas_name(other))) as replays:
        again = replays.replay(entry, times=repeats_for(rate))
    return Standing.SAME if again.now.bad else standing


def _timed(
    result: GateResult, facts: Facts, levels: Sequence[int], limit: float
) -> Iterator[GateItem]:
    """Yield a line for each level: how long both take over the same modules."""
    target, version, both = facts.target, facts.versions.main, (result.old, result.new)
    forms = selected_forms(Selection(), target=target, version=version)
    survey = survey_programs(forms, target=target, version=version, seed=0)
    drawn = [program for _, program in survey if all(one.says(program) for one in both)]
    count = _MODULES * _PROGRAMS_OF_A_MODULE
    drawn = drawn[:: max(1, len(drawn) // count)][:count]
    modules = [
        emit_all(
            {f"k{index}": program for index, program in enumerate(drawn[first::_MODULES])},
            module=Module.named(target, version),
        )
        for first in range(min(_MODULES, len(drawn)))
    ]
    for level in levels:
        if any(one == DRIVER or level not in one.levels for one in both):
            continue
        before = now = float("inf")
        for turn in range(_MOST_TURNS):
            # Other work on the machine may be what takes so long.
            if turn < _TURNS or now > limit * before:
                before = min(before, _seconds(result.old, level, modules, target))
                now = min(now, _seconds(result.new, level, modules, target))
        if max(before, now) < float("inf"):
            yield GateItem(
                standing=Standing.SLOWER if now > limit * before else Standing.SAME,
                what=f"-O{level}: {before:.2f} s before, {now:.2f} s now, for "
                f"{counted(len(drawn), 'program')}",
                source=_TIMED,
            )


def _seconds(
    toolchain: Toolchain, level: int, modules: Sequence[KernelModule], target: str
) -> float:
    """Return how long a compiler takes over modules; infinity where it fails."""
    # A new one each time: they remember what they have compiled.
    with closing(toolchain.compiler(level, deadline=COMPILE_SECONDS, text_taken=True)) as compiler:
        begun = time.perf_counter()
        failed = any(isinstance(compiler.compile(one, target), Failure) for one in modules)
        return float("inf") if failed else time.perf_counter() - begun


# The result

_WAYS = ("executed", "compiled only", "not tried")
_OFTEN = (
    ReportColumn("", "standing"),
    ReportColumn("count", lambda data: sum(data[source] for source in _SOURCES), number=True),
    *(ReportColumn(source, number=True) for source in _SOURCES),
)
_EVIDENCE = (ReportColumn("", "what"), *(ReportColumn(way, number=True) for way in _WAYS))
_COLUMNS = (
    ReportColumn("", lambda data: f"{data['standing']}{' (known)' if data['known'] else ''}"),
    ReportColumn("what"),
    ReportColumn("id or folder", "path"),
)


def _write_report(result: GateResult, seconds: float) -> None:
    options, status, (verdict, reason) = result.options, result.status, result.verdict
    items = sorted(result.items, key=lambda item: (not item.counts, not item.standing.is_news))
    regressions, evidence = [item for item in items if item.counts], _evidence(result)
    often = Counter((item.standing, item.source) for item in items)
    counts = [
        {"standing": standing, **{source: often[standing, source] for source in _SOURCES}}
        for standing in Standing
    ]
    unknown = [Test(f"warpfuzz.gate.{_DRAWN}", "enough was executed", 0.0, "error", reason)]
    Report(
        title=f"warpfuzz gate {result.old.label} {result.new.label}",
        verdict=verdict,
        reason=reason,
        before=[
            Section(heading="Summary", columns=_OFTEN, rows=rows_of(counts)),
            Section(heading="Evidence", columns=_EVIDENCE, rows=rows_of(evidence)),
        ],
        heading="Regressions and news",
        columns=_COLUMNS,
        rows=[item.row for item in items],
        sentences=[*_sentences(result, seconds)],
        details=[*map(_detail, regressions)],
        summary={
            "old": result.old.label,
            "new": result.new.label,
            "runner": result.runner,
            "variants": [f"{variant}" for variant in result.variants],
            "cases": 0 if status is None else status.cases,
            **({} if status is None else figures(status, TOLD_APART)),
            "evidence": evidence,
            "at_least": options.at_least,
            "seconds": round(seconds, 3),
            "seed": result.seed,
            "standings": {row["standing"]: sum(map(row.get, _SOURCES)) for row in counts},
            "findings": [item.row.data for item in regressions],
            "skipped": result.skipped,
        },
        tests=unknown if verdict == "UNKNOWN" else (),
    ).write(**options.picked("json", "junit", "report"))


def _evidence(result: GateResult) -> list[dict[str, Any]]:
    ways = Counter(
        2 if item.standing is Standing.SKIPPED else int(not is_runnable(item.entry))
        for item in result.items
        if item.source == _RECORD and item.entry is not None
    )
    executed, compiled = result.programs("compared"), result.programs("compiled")
    drawn = 0 if result.status is None else result.status.counts["programs",]
    found = [ways[way] for way in range(3)], [executed, compiled - executed, drawn - compiled]
    return [
        {"what": source, **dict(zip(_WAYS, row, strict=True))}
        for source, row in zip((_RECORD, _DRAWN), found, strict=True)
    ]


def _sentences(result: GateResult, seconds: float) -> Iterator[str]:
    status = result.status
    if status is not None:
        yield (
            f"{counted(status.compared, 'image')} compared bit for bit with the oracle; "
            f"{counted(status.counts['differences',], 'program')} with different results."
        )
    if result.variants and status is not None:
        named = ", ".join(map(str, result.variants))
        yield f"New programs were compiled at all levels, and at the highest with {named}."
    yield "IDs refer to findings shipped with warpfuzz: `warpfuzz corpus show ID --corpus record`."
    if result.skipped:
        yield f"Skipped: {'; '.join(result.skipped)}."
    yield f"Seed {result.seed}, {seconds:.0f} s."


def _detail(item: GateItem) -> Section:
    text, entry = item.what, item.entry
    if entry is not None:
        commands = "\n".join(f"{words}: {command}" for words, command in commands_of(entry))
        text = f"{commands}\n\n{harmless(entry.read(MODULE).decode(errors='replace'))}"
    shown = Text(text, no_wrap=True, overflow="ignore")
    return Section(heading=f"{item.standing}: {item.what}", shown=shown)
