"""`warpfuzz gate`: whether a compiler may be taken in place of another one."""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path

from corpus import Kind, create_corpus, durable
from corpus.entry import Entry, read_entry
from corpus.known import Known, known_with
from corpus.opening import RECORD, named_corpus
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.pool import ProcessPool
from fuzz.campaign.rounds import parse_duration
from fuzz.campaign.status import CampaignStatus, told_apart
from fuzz.campaign.store import Budget, CampaignStore
from fuzz.checks.compilers import Compilers
from fuzz.checks.protocol import Facts
from fuzz.compilers.bisection import rate_of, repeats_for
from fuzz.compilers.matrix import survey_programs
from fuzz.compilers.members import COMPILE_SECONDS, NOWHERE, Member, Place, placed
from fuzz.console import ended_by_signals, watching
from fuzz.console.report import Cell, Section, page
from fuzz.findings.case import is_runnable
from fuzz.findings.families import PROVISIONAL, FamilyState, asked_of
from fuzz.findings.making import ReplayOptions
from fuzz.findings.stored import Replayed, Replays, is_expansion
from fuzz.kinds import KINDS, sentence
from fuzz.options import Gate
from fuzz.output import (
    Test,
    console,
    counted,
    duration,
    emit,
    emit_summary,
    fetcher,
    generator,
    plain,
    report_expired,
    say,
    starting,
    table,
    tracked,
    write_junit,
)
from fuzz.runner import RunnerChoice, best_runner, cores, usual_workers
from oracle.errors import InfrastructureError, UsageError
from oracle.targets import TARGETS, Module, parse_target
from runners.assemblers.assembler import Assembler
from runners.assemblers.disassembly import find_disassembler
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
from strategies.program_draws import selected_forms

_PROGRAMS_OF_A_MODULE = 8
"""What is timed: modules like those of a campaign."""
_MODULES = 6
_TURNS = 3
"""Times that each is compiled; the fastest counts, because other work takes its share of a core."""
_AGAIN = 3
"""Times that both are timed again before one is called slower."""
_VARIANTS = ("maxrregcount=32", "regAllocOptLevel=2", "process=last")
"""Options that both are asked with besides siblings, where nobody names any."""
_LEAST_SHARE = 0.5
"""Share of the time that fresh programs get at least, however long the record took."""


class Standing(StrEnum):
    """What has become of something with the new compiler, as the table has it."""

    MENDED = "mended"
    NEW = "new"
    BITS = "changed bits"
    SLOWER = "slower to compile"
    CRASH = "crashes"
    MORE = "accepts more"
    KEPT = "as before"
    UNASKED = "not asked"

    @property
    def speaks_against(self) -> bool:
        """Whether the new compiler is not to be taken because of it."""
        return self.is_news and self is not Standing.MORE

    @property
    def is_news(self) -> bool:
        """Whether the new one alone does something that is wrong."""
        return self not in (Standing.MENDED, Standing.KEPT, Standing.UNASKED)


_SOURCES = ("record", "fresh programs", "compile time")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the result."""

    standing: Standing
    what: str
    source: str
    """One of `_SOURCES`."""
    path: str = ""
    known: bool = False

    @property
    def counts(self) -> bool:
        """Whether it speaks against the new compiler, and nobody has explained it."""
        return self.standing.speaks_against and not self.known


@dataclass(kw_only=True)
class _Result:
    old: Toolchain
    new: Toolchain
    runner: str
    variants: tuple[Variant, ...] = ()
    """Options with which both compiled fresh programs at one level."""
    rows: list[Row] = field(default_factory=list)
    recorded: int = 0
    """Findings of the record that both were asked about."""
    unasked: list[str] = field(default_factory=list)
    status: CampaignStatus | None = None
    stopped: bool = False
    """Whether a signal ended it before its time."""

    @property
    def drew(self) -> bool:
        """Whether a fresh program was given to both."""
        status = self.status
        return status is not None and bool(status.compared or status.answered)

    def count(self, standing: Standing) -> int:
        return sum(row.standing is standing for row in self.rows)

    @property
    def compared(self) -> str:
        status = self.status
        if status is None:
            return "No fresh program was drawn."
        if self.runner == NOWHERE:
            return (
                f"No result was compared: {counted(status.answered, 'fresh program')} given to "
                f"both {self._how(status)}, which accept or reject them."
            )
        different = status.counts.get(("differences",), 0)
        programs = counted(status.counts["programs",], "program")
        return (
            f"{counted(status.compared, 'image')} of {programs} compared bit for bit with the "
            f"oracle, by both {self._how(status)}; {counted(different, 'program')} not the same by "
            "all."
        )

    def _how(self, status: CampaignStatus) -> str:
        """Say with which levels and options programs were compiled, and how many were not."""
        if not self.variants:
            return "at all levels"
        named, left = ", ".join(map(str, self.variants)), status.counts.get(("unsupported",), 0)
        but = f" ({counted(left, 'build')} left out: too few registers)" if left else ""
        return f"at all levels, and at the highest with {named}{but}"


def gate(options: Gate) -> bool:
    """Compare two compilers; tell whether anything speaks against the new one."""
    started = time.monotonic()
    seconds = parse_duration(options.time)
    if options.report is not None and options.report.suffix != ".html":
        raise UsageError(
            f"--report {options.report}: the page is HTML; give a name that ends in .html"
        )
    known = known_with(options.known)
    old, new = (_toolchain(name, options) for name in (options.old, options.new))
    if old == new:
        raise UsageError(f"{options.old} and {options.new} are the same compiler, {new.named}")
    if old.writes_ptx != new.writes_ptx:
        raise UsageError(
            f"{old.named} and {new.named} cannot be compared: one is given programs, and the "
            "other PTX; name two assemblers, or two front ends"
        )
    result = _Result(old=old, new=new, runner=_runner(options, new))
    seed = secrets.randbits(32) if options.seed is None else options.seed
    try:
        _replay_record(result, known, json=options.json)
        _draw(result, options, seed, known, seconds=seconds, until=started + seconds)
    except (KeyboardInterrupt, SystemExit):
        result.stopped = True
        raise
    finally:
        if result.status is not None or result.stopped:
            _report(result, options, seed, time.monotonic() - started)
            report_expired(known)
    bad = any(row.counts for row in result.rows)
    if result.stopped and not bad:
        # As far as it came, nothing speaks against it; that is no answer.
        raise KeyboardInterrupt
    if not bad and not result.drew:
        status = result.status
        raise InfrastructureError((status and status.nothing_compared) or _NOTHING_FRESH)
    return bad


_NOTHING_FRESH = (
    "no fresh program was given to both in time, so nothing is said of any; give it longer (--time)"
)


def _toolchain(name: str, options: Gate) -> Toolchain:
    if name == DRIVER.kind:
        return DRIVER
    if name.partition(":")[0] in LANGUAGES:
        return find_front_end(name)
    with fetcher(fetched_compiler, json=options.json) as fetch_one:
        found = all_fetched(select(name), fetch_one).toolchains
    if len(found) != 1:
        names = ", ".join(one.label for one in found) or "none"
        raise UsageError(f"{name!r} names {names}; give one version or the path of one compiler")
    return found[0]


def _runner(options: Gate, new: Toolchain) -> str:
    """Return where programs run: nowhere, where assemblers are compared without a GPU."""
    found = options.runner or best_runner(
        planted=new.writes_ptx, device_faults=False, has_assembler=lambda: True
    )
    if found == NOWHERE and new.writes_ptx:
        raise UsageError(f"{new.named} writes PTX, which has to run: choose --runner sim or cuda")
    return found


# The record


def _replay_record(result: _Result, known: Known, *, json: bool) -> None:
    """Ask both about every finding that ships; rare ones as often as they have to be."""
    entries = [one for one in named_corpus(Path(RECORD)).entries() if not is_expansion(one)]
    if result.new.writes_ptx or DRIVER in (result.old, result.new):
        _leave_out(result, entries, "they are about ptxas, and these are other compilers")
        return
    ran = [one for one in entries if is_runnable(one)]
    if ran and result.runner != "cuda":
        _leave_out(result, ran, "they need a GPU")
        entries = [one for one in entries if one not in ran]
    options = ReplayOptions(assembler=result.new.spelled or result.new.version.removeprefix("V"))
    old = result.old.spelled or result.old.version.removeprefix("V")
    rows: list[Replayed] = []
    try:
        with Replays(options, baseline=old) as replays, ThreadPoolExecutor(cores()) as pool:
            # What runs, runs on one device, one after the other.
            judged = [one for one in entries if not is_runnable(one)]
            answers = pool.map(partial(replays.replay, times=1), judged)
            rows.extend(tracked(answers, "the record", json=json))
            rare = [one for one in entries if is_runnable(one)]
            rows.extend(
                replays.replay(one, times=repeats_for(rate_of(one.finding)))
                for one in tracked(rare, "rare ones", json=json)
            )
    finally:
        _take_record(result, known, entries, rows)


def _leave_out(result: _Result, entries: Sequence[Entry], why: str) -> None:
    """Note findings of the record about which nobody was asked."""
    if entries:
        result.unasked.append(f"{counted(len(entries), 'finding')} of the record: {why}")
    result.rows += [
        Row(standing=Standing.UNASKED, what=sentence(one.finding), source="record", path=one.id)
        for one in entries
    ]


def _take_record(
    result: _Result, known: Known, entries: Sequence[Entry], rows: Sequence[Replayed]
) -> None:
    """Note what became of the findings that both were asked about, as far as they were."""
    unasked = [row for row in rows if _standing_of(row) is None]
    reasons = [one.reason for row in unasked for one in (row.now, row.before) if one]
    # What to do about it stands behind the semicolon, and is of a command that asks about one.
    first = next(filter(None, reasons), "one of the two compilers gave no answer").partition(";")[0]
    _leave_out(result, [row.entry for row in unasked], f"the first one because {first}")
    done = {row.entry.id for row in rows}
    _leave_out(
        result, [one for one in entries if one.id not in done], "the gate was stopped before"
    )
    for row in rows:
        standing = _standing_of(row)
        if standing is None:
            continue
        result.recorded += 1
        result.rows.append(
            Row(
                standing=standing,
                what=f"{sentence(row.finding)}{_named(row, standing)}{_often(row)}",
                source="record",
                path=row.entry.id,
                known=known.match(row.finding) is not None,
            )
        )


def _named(row: Replayed, standing: Standing) -> str:
    """Return the opcode of what decides: a title has what many findings have in common."""
    opcode, *others = row.finding.text.strip().split("\n")
    return f", as {opcode.split()[0]}" if standing.is_news and not others else ""


def _often(row: Replayed) -> str:
    """Say how often something that runs was wrong with both."""
    both = (("new", row.now), ("old", row.before))
    said = [f"{one.failed} of {one.runs:,} runs {who}" for who, one in both if one is not None]
    return f" ({', '.join(said)})" if is_runnable(row.entry) else ""


def _standing_of(row: Replayed) -> Standing | None:
    now, before = row.now, row.before
    if before is None or not now.known or not before.known:
        return None
    if not now.bad:
        return Standing.MENDED if before.bad else Standing.KEPT
    worse = not before.bad or (
        now.kind is not None and before.kind is not None
        and now.kind.severity > before.kind.severity
    )  # fmt: skip
    return _worse(now.kind or row.finding.kind) if worse else Standing.KEPT


def _worse(kind: Kind) -> Standing:
    """Return where something stands that only the new one gets wrong."""
    if KINDS[kind].kills or kind is Kind.INTERNAL:
        return Standing.CRASH
    # It changes no program that the old one takes.
    few = {Kind.DEVIATION: Standing.BITS, Kind.ACCEPTED: Standing.MORE}
    return few.get(kind, Standing.NEW)


# Fresh programs


def _draw(
    result: _Result, options: Gate, seed: int, known: Known, *, seconds: float, until: float
) -> None:
    """Run a campaign with both at all levels, and time what they compile."""
    levels, both = parse_levels(options.levels), (result.old, result.new)
    choice = RunnerChoice(name=result.runner, target=options.target, device=options.device)
    with placed(choice) as place:
        result.variants = tuple(_variants(result, options.variants, place))
    members = tuple(
        member
        for one in both
        for level in levels
        if (member := Member(toolchain=one, level=level)).has_level
    ) + tuple(
        Member(toolchain=one.having(variant), level=max(levels))
        for variant in result.variants
        for one in both
        if isinstance(one, Assembler)
    )
    check = Compilers(
        choice=choice,
        members=members,
        seed=seed,
        selection=Selection(pattern=options.only),
        disassembler=find_disassembler(None),
        read_by_all=True,
    )
    folder = options.corpus or Path(
        re.sub(r"[^\w.-]+", "-", f"gate-{result.old.label}-{result.new.label}")
    )
    with ExitStack() as stack:
        corpus = create_corpus(folder, generator=generator())
        store = stack.enter_context(CampaignStore(corpus.path))
        store.abandon()
        store.forget()
        with starting(lines=False) as tell:
            workers = options.workers or usual_workers(result.runner)
            tell(f"starting {counted(workers, 'worker')}")
            pool = stack.enter_context(
                closing(ProcessPool(check, workers=workers, devices=(options.device,)))
            )
            facts = pool.facts()
            result.unasked += facts.left_out
            tell("timing the compilers")
            result.rows += _timed(result, facts, levels, options.slower)
        budget = Budget(seconds=max(_LEAST_SHARE * seconds, until - time.monotonic()))
        with watching(budget, json=options.json) as watcher:
            campaign = Campaign(
                pool, facts, check=check, budget=budget, corpus=corpus, known=known,
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
        if standing is Standing.UNASKED:
            result.unasked.append(f"one of both about {words}")
        result.rows.append(
            Row(
                standing=_sure(standing, family, result),
                what=f"{words} ({PROVISIONAL})" if family.provisional else words,
                source="fresh programs",
                path="" if family.saved is None else str(family.saved.path),
                known=family.known is not None,
            )
        )


def _variants(result: _Result, given: Sequence[str], place: Place) -> Iterator[Variant]:
    """Yield the options that both are asked with.

    Raises UsageError if somebody names some that one of them does not take.
    """
    both = [one for one in (result.old, result.new) if isinstance(one, Assembler)]
    if len(both) < 2 or any(one.variant for one in both):
        if given:
            raise UsageError("--variant is for two ptxas that are named without options")
        return
    own, target = place.architecture, place.target
    number = parse_target(own).number
    siblings = [one.name for one in TARGETS.values() if one.number == number and one.name != own]
    named = given or (*_VARIANTS, *(f"target={name}" for name in siblings))
    for variant in filter(None, map(parse_variant, named)):
        refusals = ((one.named, one.having(variant).refusal(target, own)) for one in both)
        said = "; ".join(f"{name}: {refusal}" for name, refusal in refusals if refusal)
        if said and given:
            raise UsageError(f"not both of them take the options {variant}: {said}")
        if said:
            result.unasked.append(f"programs with {variant} ({said})")
        else:
            yield variant


def _standing_of_family(family: FamilyState, result: _Result) -> Standing:
    wrong = {
        one: {
            (variant, asked.level)
            for asked in asked_of(family.case)
            for variant in (PLAIN, *result.variants)
            if asked.wrong and asked.version == f"{one.label}{variant}"
        }
        for one in (result.old, result.new)
    }
    labels = {asked.version for asked in asked_of(family.case)}
    if labels and not all(
        any(f"{one.label}{variant}" in labels for variant in (PLAIN, *result.variants))
        for one in (result.old, result.new)
    ):
        return Standing.UNASKED
    if not any(wrong.values()):
        return _worse(family.kind)
    if not wrong[result.new]:
        return Standing.MENDED
    return _worse(family.kind) if wrong[result.new] - wrong[result.old] else Standing.KEPT


def _sure(standing: Standing, family: FamilyState, result: _Result) -> Standing:
    """Return a standing once the other compiler was asked as often as a rare failure asks for."""
    if family.saved is None or standing is Standing.KEPT or result.new.writes_ptx:
        return standing
    entry = read_entry(family.saved.path)
    rate = rate_of(entry.finding)
    if rate >= 1 or not is_runnable(entry):
        return standing
    other = result.new if standing is Standing.MENDED else result.old
    if other == DRIVER:
        return standing
    options = ReplayOptions(assembler=other.spelled or other.version.removeprefix("V"))
    with Replays(options) as replays:
        again = replays.replay(entry, times=repeats_for(rate))
    return Standing.KEPT if again.now.bad else standing


def _timed(result: _Result, facts: Facts, levels: Sequence[int], limit: float) -> Iterator[Row]:
    """Yield a row for each level: how long both take over the same modules."""
    target, version = facts.target, facts.versions.main
    forms = selected_forms(Selection(), target=target, version=version)
    drawn = [one for _, one in survey_programs(forms, target=target, version=version, seed=0)]
    drawn = [one for one in drawn if result.new.says(one) and result.old.says(one)]
    count = _MODULES * _PROGRAMS_OF_A_MODULE
    drawn = drawn[:: max(1, len(drawn) // count)][:count]
    modules = [
        emit_all(
            {f"k{index}": one for index, one in enumerate(drawn[first::_MODULES])},
            module=Module.named(target, version),
        )
        for first in range(min(_MODULES, len(drawn)))
    ]
    for level in levels:
        took = [_seconds(one, level, modules, target) for one in (result.old, result.new)]
        if None in took:
            continue
        before, now = (one or 0.0 for one in took)
        for _ in range(_AGAIN):
            if now <= limit * before:
                break
            # Other work on the machine may have been what took so long.
            before, now = (
                min(least, _seconds(one, level, modules, target) or least)
                for least, one in ((before, result.old), (now, result.new))
            )
        slower = now > limit * before
        yield Row(
            standing=Standing.SLOWER if slower else Standing.KEPT,
            what=f"-O{level}: {now:.2f} s in place of {before:.2f} s for "
            f"{counted(len(drawn), 'program')}",
            source="compile time",
        )


def _seconds(
    toolchain: Toolchain, level: int, modules: Sequence[KernelModule], target: str
) -> float | None:
    """Return how long a compiler takes over modules; None where it has no such level, or fails."""
    if toolchain == DRIVER or level not in toolchain.levels:
        return None
    best = [float("inf")] * len(modules)
    for _ in range(_TURNS):
        # A new one each time: they remember what they have compiled.
        compiler = toolchain.compiler(level, deadline=COMPILE_SECONDS, text_taken=True)
        try:
            for index, module in enumerate(modules):
                begun = time.perf_counter()
                if isinstance(compiler.compile(module, target), Failure):
                    return None
                best[index] = min(best[index], time.perf_counter() - begun)
        finally:
            compiler.close()
    return sum(best)


# The result


def _report(result: _Result, options: Gate, seed: int, seconds: float) -> None:
    status = result.status
    counts = {one.value: result.count(one) for one in Standing}
    verdict = _verdict(result)
    quiet = (Standing.KEPT, Standing.UNASKED)
    shown = sorted(
        (row for row in result.rows if row.standing not in quiet),
        key=lambda row: (not row.counts, not row.standing.speaks_against),
    )
    if options.json:
        for row in shown:
            emit(_json(row))
        emit_summary(
            old=result.old.label,
            new=result.new.label,
            runner=result.runner,
            variants=[f"{one}" for one in result.variants],
            cases=0 if status is None else status.cases,
            **{} if status is None else told_apart(status),
            recorded=result.recorded,
            seconds=round(seconds, 3),
            seed=seed,
            standings=counts,
            findings=[_json(row) for row in shown if row.standing.speaks_against],
            left_out=result.unasked,
            compile_time=[row.what for row in result.rows if row.source == "compile time"],
            verdict=verdict,
        )
    else:
        _print(result, shown, verdict, seed, seconds)
    if options.junit is not None:
        tests = [_test(row) for row in result.rows]
        if not result.drew:
            name = "a fresh program is given to both"
            tests.append(Test("warpfuzz.gate.fresh programs", name, 0.0, "error", _NOTHING_FRESH))
        write_junit(options.junit, tests, suite="warpfuzz gate")
    if options.report is not None:
        durable.write_output(options.report, _page(result, shown, verdict, seed, seconds))


def _verdict(result: _Result) -> str:
    against = sum(row.counts for row in result.rows)
    said = f"Nothing that was looked at speaks against taking {result.new.named}."
    if against:
        said = f"{counted(against, 'line')} against taking {result.new.named}."
    elif not result.drew:
        said = f"Nothing can be said of taking {result.new.named}."
    if not result.drew:
        advice = "" if result.stopped else ": give it longer (--time)"
        said += f" NO FRESH PROGRAM WAS GIVEN TO BOTH{advice}."
    return f"STOPPED BEFORE THE END. {said}" if result.stopped else said


def _json(row: Row) -> dict[str, object]:
    return {
        "standing": row.standing.value, "what": row.what, "source": row.source, "path": row.path,
        "known": row.known,
    }  # fmt: skip


def _sentences(result: _Result, seed: int, seconds: float) -> list[str]:
    words = [result.compared, f"{counted(result.recorded, 'finding')} of the record asked again."]
    if result.unasked:
        words.append(f"Not asked: {'; '.join(result.unasked)}.")
    return [*words, f"Seed {seed}, {duration(seconds)}."]


def _print(result: _Result, shown: Sequence[Row], verdict: str, seed: int, seconds: float) -> None:
    out = console()
    say(f"{result.old.named} -> {result.new.named}")
    lines = table("", "count", *_HEADINGS)
    for standing in Standing:
        style = "bad" if standing.speaks_against and result.count(standing) else ""
        lines.add_row(standing.value, *_counts(result, standing), style=style)
    out.print(lines)
    found = table("", "what", "id or folder")
    for row in shown:
        if row.standing.is_news or row.source != "record":
            what = plain(f"{row.what}{' (known)' if row.known else ''}")
            style = "bad" if row.counts else "quiet"
            found.add_row(row.standing.value, what, plain(row.path), style=style)
    if found.row_count:
        out.print(found)
    mended = Counter(
        row.what.partition(": ")[0]
        for row in shown
        if row.standing is Standing.MENDED and row.source == "record"
    )
    if mended:
        kinds = ", ".join(f"{count} {kind}" for kind, count in mended.most_common())
        say(f"mended of the record: {kinds} (--report, --junit and --json list them)")
    if any(row.source == "record" for row in shown):
        say("What has an id is of the record: `warpfuzz corpus show ID --corpus record`.")
    for row in result.rows:
        if row.source == "compile time" and row.standing is Standing.KEPT:
            say(f"compile time at {row.what}", style="quiet")
    for said in (*_sentences(result, seed, seconds), verdict):
        say(plain(said))


def _counts(result: _Result, standing: Standing) -> list[str]:
    own = [row for row in result.rows if row.standing is standing]
    return [f"{len(own)}", *(f"{sum(one.source == source for one in own)}" for source in _SOURCES)]


_HEADINGS = ("of the record", "of fresh programs", "of compile time")


def _test(row: Row) -> Test:
    is_skipped = row.known or row.standing is Standing.UNASKED
    outcome = "skipped" if is_skipped else "failure" if row.counts else "passed"
    name = f"{row.path} {row.what}".strip()
    return Test(f"warpfuzz.gate.{row.source}", name, 0.0, outcome, row.standing.value, row.what)


def _page(result: _Result, shown: Sequence[Row], verdict: str, seed: int, seconds: float) -> bytes:
    sections = [
        Section(
            heading="What became of what",
            headings=("", "count", *_HEADINGS),
            rows=[
                [Cell(one.value), *(Cell(text, number=True) for text in _counts(result, one))]
                for one in Standing
            ],
        ),
        Section(
            heading="Lines",
            headings=("", "what", "from", "where"),
            rows=[
                [Cell(row.standing.value), Cell(row.what), Cell(row.source), Cell(row.path)]
                for row in shown
            ],
        ),
        Section(
            heading="Compile time",
            headings=("", "new in place of old"),
            rows=[
                [Cell(row.standing.value), Cell(row.what)]
                for row in result.rows
                if row.source == "compile time"
            ],
        ),
    ]
    title = f"warpfuzz gate {result.old.label} {result.new.label}"
    return page(title, [verdict, *_sentences(result, seed, seconds)], sections)
