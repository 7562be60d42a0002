"""`warpfuzz gate`: whether a compiler may be taken in place of another one."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from corpus import Case, Kind, create_corpus
from corpus.known import RECORD, Known, known_with, load_known, named_corpus
from corpus.store import Entry, read_entry
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.pool import ProcessPool
from fuzz.campaign.store import Budget, CampaignStore, parse_duration
from fuzz.checks.compilers import Compilers
from fuzz.checks.protocol import Facts
from fuzz.compilers.bisection import rate_of, repeats_for
from fuzz.compilers.members import (
    COMPILE_SECONDS,
    NOWHERE,
    Member,
    RunPlace,
    placed,
    survey_programs,
)
from fuzz.console.report import ended_by_signals, watching
from fuzz.findings.case import ReplayOptions, is_runnable
from fuzz.findings.families import FamilyState, asked_of
from fuzz.findings.replay import Replayed, Replays, is_expansion
from fuzz.gating import (
    SOURCES,
    GateItem,
    GateResult,
    Standing,
    write_report,
)
from fuzz.kinds import KINDS, sentence
from fuzz.options.testing import Gate
from fuzz.output import (
    check_kind,
    console,
    counted,
    fetcher,
    generator,
    report_expired,
    starting,
    tracked,
)
from fuzz.runner import RunnerChoice, best_runner, cores, usual_workers
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
"""Share of the time that new programs get at least, however long the record took."""


def gate(options: Gate) -> bool:
    """Compare two compilers; tell whether the new one has a regression.

    Raises InfrastructureError if too little was looked at to say so.
    """
    started = time.monotonic()
    seconds = parse_duration(options.time)
    check_kind(options.report, ".html")
    known = known_with(options.known, nothing=options.no_known)
    old, new = (_toolchain(name, options) for name in (options.old, options.new))
    if old == new:
        raise UsageError(f"{options.old} and {options.new} are the same compiler, {new.named}")
    if old.writes_ptx != new.writes_ptx:
        raise UsageError(
            f"{old.named} and {new.named} cannot be compared: one is given programs, and the "
            "other PTX; name two assemblers, or two front ends"
        )
    result = GateResult(old=old, new=new, runner=_runner(options, new), options=options)
    seed = secrets.randbits(32) if options.seed is None else options.seed
    try:
        _replay_record(result, known, json=options.json)
        _draw(result, options, seed, known, seconds=seconds, until=started + seconds)
    except (KeyboardInterrupt, SystemExit):
        result.stopped = True
        raise
    finally:
        if result.status is not None or result.stopped:
            write_report(result, seed, time.monotonic() - started)
            report_expired(known)
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


def _replay_record(result: GateResult, known: Known, *, json: bool) -> None:
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
    begun = time.monotonic()
    try:
        with Replays(options, baseline=old) as replays, ThreadPoolExecutor(cores()) as pool:
            # What runs, runs on one device, one after the other.
            judged = [one for one in entries if not is_runnable(one)]
            answers = pool.map(partial(replays.replay, times=1), judged)
            rows.extend(tracked(answers, SOURCES[0], json=json))
            rare = [one for one in entries if is_runnable(one)]
            rows.extend(
                replays.replay(one, times=repeats_for(rate_of(one.finding)))
                for one in tracked(rare, "findings that fail rarely", json=json)
            )
    finally:
        _take_record(result, known, entries, rows)
        result.seconds[SOURCES[0]] = time.monotonic() - begun


def _leave_out(result: GateResult, entries: Sequence[Entry], why: str) -> None:
    """Note findings that ship with warpfuzz about which nobody was asked."""
    if entries:
        result.skipped.append(f"{counted(len(entries), 'shipped finding')}: {why}")
    for entry in entries:
        said = sentence(entry.finding)
        result.compared.append(
            GateItem(standing=Standing.SKIPPED, what=said, source=SOURCES[0], entry=entry)
        )


def _take_record(
    result: GateResult, known: Known, entries: Sequence[Entry], rows: Sequence[Replayed]
) -> None:
    """Note what came of the findings that both were asked about, as far as they were."""
    unasked, done = list[Entry](), {row.entry.id for row in rows}
    why = ""
    for row in rows:
        finding, standing = row.finding, _standing_of(row)
        if standing is None:
            unasked.append(row.entry)
            # What to do about it stands behind the semicolon, of a command that asks about one.
            reasons = (answer.reason for answer in (row.now, row.before) if answer)
            why = why or next(filter(None, reasons), "").partition(";")[0]
            continue
        what = sentence(finding)
        opcode, *others = finding.text.strip().split("\n")
        if standing.is_news and not others:
            # A title has what many findings have in common.
            what += f", as {opcode.split()[0]}"
        if is_runnable(row.entry):
            both = ((who, of) for who, of in (("new", row.now), ("old", row.before)) if of)
            often = ", ".join(f"{of.failed} of {of.runs:,} runs {who}" for who, of in both)
            what += f" ({often})"
        is_known = _known(finding, known, standing, result)
        result.compared.append(GateItem(
            standing=standing, what=what, source=SOURCES[0], entry=row.entry, known=is_known
        ))  # fmt: skip
    why = why or "one of the two compilers gave no answer"
    _leave_out(result, unasked, f"the first one because {why}")
    left = [entry for entry in entries if entry.id not in done]
    _leave_out(result, left, "the gate was stopped before")


def _known(case: Case, known: Known, standing: Standing, result: GateResult) -> bool:
    """Whether a finding does not count: of what the two differ in, only if the user's file says so.

    What ships as known of the new compiler is as new to who has the old one.
    """
    path = result.options.known
    if standing.is_news:
        known = Known() if path is None or result.options.no_known else load_known(path)
    return known.match(case) is not None


def _standing_of(row: Replayed) -> Standing | None:
    now, before = row.now, row.before
    if before is None or not now.known or not before.known:
        return None
    if not now.bad:
        return Standing.FIXED if before.bad else Standing.SAME
    worse = not before.bad or (
        now.kind is not None and before.kind is not None
        and now.kind.severity > before.kind.severity
    )  # fmt: skip
    return _worse(now.kind or row.finding.kind) if worse else Standing.SAME


def _worse(kind: Kind) -> Standing:
    """Return where something stands that only the new one gets wrong."""
    if KINDS[kind].kills or kind is Kind.INTERNAL:
        return Standing.CRASH
    # It changes no program that the old one takes.
    few = {Kind.DEVIATION: Standing.BITS, Kind.ACCEPTED: Standing.MORE}
    return few.get(kind, Standing.NEW)


# Fresh programs


def _draw(
    result: GateResult, options: Gate, seed: int, known: Known, *, seconds: float, until: float
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
            result.skipped += facts.left_out
            tell("timing the compilers")
            begun = time.monotonic()
            result.compared += _timed(result, facts, levels, options.slower)
            result.seconds["timing"] = time.monotonic() - begun
        budget = Budget(seconds=max(_LEAST_SHARE * seconds, until - time.monotonic()))
        # Standard output is for the result, whose first word is the verdict.
        with watching(json=False, out=console(stderr=True)) as watcher:
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
        result.seconds["new programs"] = result.status.seconds
    for family in result.status.families:
        words, standing = sentence(family.case), _standing_of_family(family, result)
        if standing is Standing.SKIPPED:
            result.skipped.append(f"one of both about {words}")
        result.compared.append(
            GateItem(
                standing=_sure(standing, family, result),
                what=words,
                source="new programs",
                entry=None if family.saved is None else read_entry(family.saved.path),
                known=_known(family.case, known, standing, result),
            )
        )


def _variants(result: GateResult, given: Sequence[str], place: RunPlace) -> Iterator[Variant]:
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
            result.skipped.append(f"programs with {variant} ({said})")
        else:
            yield variant


def _standing_of_family(family: FamilyState, result: GateResult) -> Standing:
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
        return Standing.SKIPPED
    if not any(wrong.values()):
        return _worse(family.kind)
    if not wrong[result.new]:
        return Standing.FIXED
    return _worse(family.kind) if wrong[result.new] - wrong[result.old] else Standing.SAME


def _sure(standing: Standing, family: FamilyState, result: GateResult) -> Standing:
    """Return a standing once the other compiler was asked as often as a rare failure asks for."""
    if family.saved is None or standing is Standing.SAME or result.new.writes_ptx:
        return standing
    entry = read_entry(family.saved.path)
    rate = rate_of(entry.finding)
    if rate >= 1 or not is_runnable(entry):
        return standing
    other = result.new if standing is Standing.FIXED else result.old
    if other == DRIVER:
        return standing
    options = ReplayOptions(assembler=other.spelled or other.version.removeprefix("V"))
    with Replays(options) as replays:
        again = replays.replay(entry, times=repeats_for(rate))
    return Standing.SAME if again.now.bad else standing


def _timed(
    result: GateResult, facts: Facts, levels: Sequence[int], limit: float
) -> Iterator[GateItem]:
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
        yield GateItem(
            standing=Standing.SLOWER if slower else Standing.SAME,
            what=f"-O{level}: {before:.2f} s before, {now:.2f} s now, for "
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
