"""`warpfuzz replay`: runs saved cases again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.text import Text

from corpus import Cause, Entry, Problem, open_corpus
from corpus.finding import KERNEL, MODULE
from corpus.known import Answers, Known, Row, is_record, known_with, named_corpus, read_answers
from corpus.store import DESCRIPTION, MANIFEST, read_entry
from fuzz.campaign.status import check_tested, untested_words
from fuzz.findings.making import NOTHING, UntrustedError, is_runnable, replay_options
from fuzz.findings.replay import Replayed, Replays, ReplayStatus, is_expansion
from fuzz.findings.verdicts import Basis, by_way
from fuzz.kinds import sentence
from fuzz.options.conflicts import check_conflicts
from fuzz.options.testing import Replay
from fuzz.output import (
    console,
    counted,
    emit,
    emit_summary,
    harmless,
    report_expired,
    report_problems,
    say,
    tracked,
    typed,
)
from fuzz.output.report import Report, Test
from fuzz.runner import has_device_fault
from oracle.errors import InfrastructureError, UsageError, WarpfuzzError
from oracle.given_files import read_given, reason_of
from oracle.isa.targets import parse_target
from runners.assemblers.judgements import Response
from runners.assemblers.judging import judge_module
from runners.compilers import find_assembler
from runners.faults import by_name
from runners.ptx_pass import PtxPass


@dataclass(kw_only=True)
class _Results:
    rows: list[tuple[Replayed, Row | None]] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)
    broken: list[Problem] = field(default_factory=list)
    """Entries that cannot be read."""

    @property
    def unknown(self) -> bool:
        """Whether anything counts that nobody has explained."""
        return any(one.counts and known is None for one, known in self.rows)

    @property
    def errors(self) -> list[WarpfuzzError]:
        return [one.error for one, _ in self.rows if one.error is not None]

    @property
    def asked(self) -> list[Replayed]:
        """Findings of which anything could be known: all but notes."""
        return [one for one, _ in self.rows if not is_expansion(one.entry)]


def replay_path(options: Replay) -> bool:
    """Replay a corpus, a finding or a module; tell whether something unknown counts.

    Without a baseline, every finding that still disagrees does; with one, every finding that comes
    out otherwise than with the baseline.
    """
    path = options.path
    if path.suffix == ".ptx":
        check_conflicts(options, "module of replay")
        return _replay_module(options)
    started = time.monotonic()
    told, problems = _Results(), list[Problem]()
    if (path / DESCRIPTION).exists():
        entries = [read_entry(path)]
    elif path.is_dir() and not (path / MANIFEST).exists():
        raise UsageError(
            f"{path} is neither a corpus nor a finding: it has no {MANIFEST} and no {DESCRIPTION}; "
            "give the folder of one of them, or a .ptx file with a module"
        )
    else:
        entries = list(named_corpus(path).entries(problems.append))
    if not entries and not problems:
        command = typed(("warpfuzz", "run", "--corpus", path))
        raise UsageError(f"{path} holds no findings; `{command}` looks for some")
    _check(entries, options)
    # What a killed writer left is no finding.
    told.broken = [one for one in problems if one.cause is not Cause.LEFTOVER]
    answers = read_answers() if is_record(path) else None
    known = known_with(options.known, nothing=options.no_known)
    with Replays(
        replay_options(options), baseline=options.baseline, answers=answers, kernels=options.kernels
    ) as replays:
        _replay(entries, replays, told, options, known)
    for problem in told.broken:
        name, message = problem.path.name, f"{problem.cause.value}: it could not be read"
        told.tests.append(Test("warpfuzz.broken", name, 0.0, "error", message, problem.sentence))
    untested = _untested(told, options)
    _summarise(told, answers, options, time.monotonic() - started, untested)
    for reason, count in Counter(map(str, told.errors)).items():
        of = f" ({count} findings)" if count > 1 else ""
        say(f"warpfuzz: {reason}{of}", stderr=True)
    report_expired(known)
    report_problems(problems, fail=False)
    if not told.unknown:
        _check_told(told, options)
        check_tested(untested)
    return told.unknown


def _untested(told: _Results, options: Replay) -> str:
    """Say which faults that were asked for applied to no finding's module; "" where each did.

    What a front end writes is not kept: of its findings nothing is said.
    """
    faults = [name for name in options.faults if name != NOTHING]
    entries = [one.entry for one, _ in told.rows if one.error is None]
    entries = [one for one in entries if MODULE in one.finding.files] if faults else []
    if not entries or any(one.finding.made.front_end for one in entries) or options.front_end:
        return ""
    texts = [one.read(MODULE).decode(errors="replace") for one in entries]
    idle = [name for name in faults if not any(map(by_name(name).applies, texts))]
    return untested_words(idle, len(texts))


def _check_told(told: _Results, options: Replay) -> None:
    if errors := told.errors:
        # What no finding at all can be run with is the fault of the options, not of a finding.
        alike = len(errors) == len(told.rows) and len(set(map(str, errors))) == 1
        untrusted = any(isinstance(error, UntrustedError) for error in errors)
        usage = untrusted or (alike and isinstance(errors[0], UsageError))
        raise (UsageError if usage else InfrastructureError)(
            f"{len(errors)} of {counted(len(told.rows), 'finding')} could not be asked, as said "
            "above"
        )
    if told.broken:
        raise InfrastructureError(
            f"{counted(len(told.broken), 'entry', 'entries')} of the corpus broken and left out; "
            "repair or remove what is named above"
        )
    answered = sum(one.answered for one, _ in told.rows)
    least = options.at_least if options.at_least is not None else min(len(told.asked), 1)
    if answered < least:
        raise InfrastructureError(
            f"{counted(answered, 'finding')} compared or judged, and --at-least {least} asks "
            "for more: nothing is known of the others"
        )


def _check(entries: Sequence[Entry], options: Replay) -> None:
    """Raise UsageError for what is wrong with every finding, once and before hours of replays."""
    if options.runner is not None and entries and not any(map(is_runnable, entries)):
        raise UsageError(
            f"--runner {options.runner} says where programs run, and nothing here has one: the "
            "findings are of what assemblers make of a module; leave it out"
        )
    has_device_fault(tuple(name for name in options.faults if name != NOTHING))
    if options.target is not None:
        parse_target(options.target)
    if options.ptx_pass not in (None, NOTHING):
        PtxPass(str(options.ptx_pass))
    baseline = None if options.baseline == NOTHING else options.baseline
    for wanted in (options.assembler, baseline):
        if wanted is not None and not Path(wanted).is_file():
            find_assembler(wanted)


def _replay(
    entries: Sequence[Entry], replays: Replays, told: _Results, options: Replay, known: Known
) -> None:
    out = console(stderr=options.json)
    silent = options.json or options.quiet
    for entry in tracked(entries, "replaying", json=silent, out=out):
        started = time.monotonic()
        one = replays.replay(entry, times=options.times)
        if one.error is not None and len(entries) == 1 and options.junit is None:
            raise one.error
        if one.kernel is not None:
            open_corpus(entry.path.parents[1]).attach_kernel(entry, one.kernel)
        match = known.match(entry.finding)
        told.rows.append((one, match))
        told.tests.append(_test(one, match, time.monotonic() - started))
        if options.json:
            emit(_row(one, match))
        elif not options.quiet or (one.counts and match is None):
            out.print(_line(one, match), soft_wrap=True)


def _row(one: Replayed, known: Row | None) -> dict[str, object]:
    return {
        **one.row(),
        "known": known is not None,
        "known_as": None if known is None else known.id,
        "kernel_lines": one.kernel.count("\n") if one.kernel is not None else None,
    }


def _summarise(
    told: _Results, answers: Answers | None, options: Replay, seconds: float, untested: str
) -> None:
    ways = by_way(Counter(one.way for one in told.asked).__getitem__)
    standings = Counter(one.standing for one, _ in told.rows if one.standing is not None)
    said = ", ".join(f"{count} {way.value}" for way, count in ways.items())
    sentences = [
        f"{counted(len(told.asked), 'finding')} replayed {counted(options.times, 'time')} in "
        f"{seconds:.1f} s: {said}, {len(told.broken)} broken."
    ]
    for way in (Basis.COMPARED, Basis.JUDGED, Basis.FAILED):
        if rows := [one for one in told.asked if one.way is way]:
            shown = sum(one.counts for one in rows)
            what, others = "still wrong", "no longer"
            if options.baseline is not None:
                what, others = f"not as with {options.baseline}", "the same"
            sentences.append(f"Of those {way.value}: {shown} {what}, {len(rows) - shown} {others}.")
    if not sentences[1:]:
        sentences.append("Nothing could be compared or judged.")
    if answers is not None:
        mended, kept, changed = (standings[one] for one in ReplayStatus)
        sentences.append(
            f"Compared with the newest answer of the record (up to ptxas {answers.asked[-1]}): "
            f"{mended} fixed, {kept} unchanged, {changed} wrong in another way."
        )
    every = {one.value: standings[one] for one in ReplayStatus}
    Report(
        title="warpfuzz replay",
        sentences=() if options.quiet else sentences,
        summary={
            "cases": options.times * (len(told.rows) - len(told.errors)),
            "seconds": round(seconds, 3),
            "seed": None,
            "baseline": options.baseline,
            "findings": [_row(one, known) for one, known in told.rows if one.counts],
            "counts": {way.value: count for way, count in ways.items()},
            "standings": every if answers is not None else None,
            "left_out": [str(reason) for reason in told.errors],
            "broken": [problem.sentence for problem in told.broken],
            "untested": untested or None,
        },
        tests=told.tests,
    ).write(json=options.json, junit=options.junit)


_STYLES = {
    "reproduced": "bad", "changed": "odd", "flaky": "odd", Basis.NOT_ASKED.value: "odd",
    "note": "quiet",
}  # fmt: skip


def _line(one: Replayed, known: Row | None) -> Text:
    became, width = one.verdict, 10
    if one.standing is not None:
        right = "right" if one.now.kind is None else "wrong"
        became, width = (
            {
                ReplayStatus.MENDED: "fixed",
                ReplayStatus.KEPT: f"{right}, unchanged",
                ReplayStatus.CHANGED: "wrong in another way",
            }[one.standing],
            20,
        )
    line = Text(f"{became:<{width}}", style=_STYLES.get(one.verdict, "legal"))
    parts = [
        (
            one.counts and one.before and f" (baseline: {one.before.verdict(one.finding.kind)})",
            "odd",
        ),
        (one.now.runs > 1 and f" {one.now.failed} of {one.now.runs:,} times", "count"),
        (one.now.executions > one.now.runs and f" ({one.now.executions:,} executions)", "count"),
        (f" {one.entry.id}  {harmless(sentence(one.finding), one_line=True)}", ""),
        (known and f" known: {known.id}", "known"),
        (one.kernel and f" {KERNEL}: {one.kernel.count(chr(10))} lines", "quiet"),
        (one.standing and f"; now {one.now.label}; the record: {one.recorded}", "quiet"),
    ]
    for text, style in parts:
        line.append(text or "", style=style)
    return line


def _test(one: Replayed, known: Row | None, seconds: float) -> Test:
    title, group = sentence(one.finding), f"warpfuzz.{one.finding.kind}"
    name = f"{one.entry.id} {title}"
    if one.error is not None:
        return Test(group, name, seconds, "error", "it could not be asked", str(one.error))
    result = "passed"
    if one.counts:
        result = "skipped" if known is not None else "failure"
    text = [f"{label}: {counted(count, 'time')}" for label, count in one.now.counts.items()]
    text += [f"{label}: {value}" for label, value in one.where.items() if value]
    if one.before is not None:
        text.append(f"{one.baseline}: {one.before.label}")
    text += [one.way.value, one.now.message, str(one.entry.path)]
    message = f"known: {known.id}" if known is not None else f"{one.verdict}: {title}"
    return Test(group, name, seconds, result, message, "\n".join(filter(None, text)))


def _replay_module(options: Replay) -> bool:
    """Assemble a module by itself; without a description there is nothing to compare it with."""
    path = options.path
    try:
        module = read_given(path).decode(errors="replace")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {reason_of(error)}; give a corpus, the folder of a "
            f"finding, or a {MODULE}"
        ) from None
    assembler, started, bad = find_assembler(options.assembler), time.monotonic(), False
    for _ in range(options.times):
        verdict = judge_module(assembler, module)
        bad = bad or verdict.outcome not in (Response.ACCEPTED, Response.REJECTED)
        outcome = verdict.outcome.name.lower()
        if options.json:
            row = {"path": str(path), "verdict": outcome, "assembler": assembler.version}
            emit({**row, "messages": list(verdict.messages)})
        elif not options.quiet:
            say(f"{outcome} by ptxas {assembler.version}")
            for message in verdict.messages or (verdict.ending,):
                say(f"  {message}")
    if options.json:
        seconds = round(time.monotonic() - started, 3)
        emit_summary(cases=options.times, seconds=seconds, seed=None, findings=[])
    return bad
