"""`warpfuzz replay`: runs saved cases again."""

from __future__ import annotations

import time
from collections import Counter

from rich.text import Text

from corpus import Problem, open_corpus
from corpus.finding import KERNEL, MODULE
from corpus.known import Row, is_record, known_with, named_corpus, read_answers
from corpus.store import DESCRIPTION, MANIFEST, read_entry
from fuzz.campaign.status import check_tested, untested_words
from fuzz.findings.case import NOTHING, UntrustedError, is_runnable, replay_options
from fuzz.findings.replay import Replayed, Replays, ReplayStatus
from fuzz.findings.verdicts import Basis, by_way
from fuzz.kinds import sentence
from fuzz.options.declared import check_conflicts
from fuzz.options.testing import Replay
from fuzz.output import (
    Report,
    Test,
    console,
    counted,
    emit,
    harmless,
    report_expired,
    report_problems,
    say,
    tracked,
    typed,
)
from fuzz.runner import has_device_fault
from oracle.errors import InfrastructureError, UsageError
from oracle.given_files import read_text
from runners.assemblers.judgements import Response
from runners.assemblers.judging import judge_module
from runners.compilers import find_assembler
from runners.faults import by_name

_Rows = list[tuple[Replayed, Row | None]]  # what became of each finding, and what it is known as


def replay_path(options: Replay) -> bool:
    """Replay a corpus, a finding or a module; tell whether something unknown counts.

    Without a baseline, every finding that still disagrees does; with one, every finding that comes
    out otherwise than with the baseline.
    """
    path = options.path
    if path.suffix == ".ptx":
        check_conflicts(options, "module of replay")
        return _replay_module(options)
    started, problems = time.monotonic(), list[Problem]()
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
    if options.runner is not None and entries and not any(map(is_runnable, entries)):
        raise UsageError(
            f"--runner {options.runner} says where programs run, and nothing here has one: the "
            "findings are of what assemblers make of a module; leave it out"
        )
    has_device_fault(tuple(name for name in options.faults if name != NOTHING))
    known = known_with(options.known, nothing=options.no_known)
    out, rows, tests = console(stderr=options.json), _Rows(), list[Test]()
    answers = read_answers() if is_record(path) else None
    with Replays(
        replay_options(options), baseline=options.baseline, answers=answers, kernels=options.kernels
    ) as replays:
        for entry in tracked(entries, "replaying", json=options.json or options.quiet, out=out):
            begun = time.monotonic()
            told = replays.replay(entry, times=options.times)
            if told.error is not None and len(entries) == 1 and options.junit is None:
                raise told.error
            if told.kernel is not None:
                open_corpus(entry.path.parents[1]).attach_kernel(entry, told.kernel)
            match = known.match(entry.finding)
            rows.append((told, match))
            tests.append(_test(told, match, time.monotonic() - begun))
            if options.json:
                emit(_row(told, match))
            elif not options.quiet or (told.counts and match is None):
                out.print(_line(told, match), soft_wrap=True)
    for problem in problems:
        name, message = problem.path.name, f"{problem.cause.value}: it could not be read"
        tests.append(Test("warpfuzz.broken", name, 0.0, "error", message, problem.sentence))
    untested, seconds = _untested(rows, options), time.monotonic() - started
    errors = [told.error for told, _ in rows if told.error is not None]
    asked = [told for told, _ in rows]
    ways = by_way(Counter(told.way for told in asked).__getitem__)
    standings = Counter(told.standing for told in asked)
    every = {status.value: standings[status] for status in ReplayStatus}
    sentences = [
        f"{counted(len(asked), 'finding')} replayed {counted(options.times, 'time')} in "
        f"{seconds:.1f} s: {', '.join(f'{count} {way.value}' for way, count in ways.items())}, "
        f"{len(problems)} broken."
    ]
    what = "still wrong" if options.baseline is None else f"not as with {options.baseline}"
    sentences += [
        f"Of those {way.value}: {sum(some)} {what}, {len(some) - sum(some)} no longer."
        for way in (Basis.COMPARED, Basis.JUDGED, Basis.FAILED)
        if (some := [told.counts for told in asked if told.way is way])
    ]
    if answers is not None:
        told_of = ", ".join(f"{count} {status}" for status, count in every.items())
        sentences.append(f"Compared with the record (up to ptxas {answers.asked[-1]}): {told_of}.")
    Report(
        title="warpfuzz replay",
        sentences=() if options.quiet else sentences,
        summary={
            "cases": options.times * (len(rows) - len(errors)),
            "seconds": round(seconds, 3),
            "seed": None,
            "baseline": options.baseline,
            "findings": [_row(told, match) for told, match in rows if told.counts],
            "counts": {way.value: count for way, count in ways.items()},
            "standings": every if answers is not None else None,
            "left_out": [str(reason) for reason in errors],
            "broken": [problem.sentence for problem in problems],
            "untested": untested or None,
        },
        tests=tests,
    ).write(json=options.json, junit=options.junit)
    for reason, count in Counter(map(str, errors)).items():
        say(f"warpfuzz: {reason}{f' ({count} findings)' * (count > 1)}", stderr=True)
    report_expired(known)
    report_problems(problems, fail=False)
    if any(told.counts and match is None for told, match in rows):
        return True
    _check_told(rows, len(problems), options)
    check_tested(untested)
    return False


def _check_told(rows: _Rows, broken: int, options: Replay) -> None:
    """Raise an error where less is known than was asked for."""
    errors = [told.error for told, _ in rows if told.error is not None]
    if errors:
        # What no finding at all can be run with is the fault of the options, not of a finding.
        alike = len(errors) == len(rows) and len(set(map(str, errors))) == 1
        untrusted = any(isinstance(error, UntrustedError) for error in errors)
        usage = untrusted or (alike and isinstance(errors[0], UsageError))
        raise (UsageError if usage else InfrastructureError)(
            f"{len(errors)} of {counted(len(rows), 'finding')} could not be asked, as said above"
        )
    answered = sum(told.answered for told, _ in rows)
    least = options.at_least if options.at_least is not None else min(len(rows), 1)
    if broken or answered < least:
        raise InfrastructureError(
            f"{counted(answered, 'finding')} compared or judged, of which {least} are needed "
            f"(--at-least), and {counted(broken, 'entry', 'entries')} of the corpus broken: "
            "nothing is known of the others"
        )


def _untested(rows: _Rows, options: Replay) -> str:
    """Say which faults that were asked for applied to no finding's module; "" where each did.

    What a front end writes is not kept: of its findings nothing is said.
    """
    faults = [name for name in options.faults if name != NOTHING]
    entries = [told.entry for told, _ in rows if told.error is None]
    entries = [entry for entry in entries if MODULE in entry.finding.files] if faults else []
    if not entries or any(entry.finding.made.front_end for entry in entries) or options.front_end:
        return ""
    texts = [entry.read(MODULE).decode(errors="replace") for entry in entries]
    idle = [name for name in faults if not any(map(by_name(name).applies, texts))]
    return untested_words(idle, len(texts))


def _row(told: Replayed, known: Row | None) -> dict[str, object]:
    return {
        **told.row(),
        "known": known is not None,
        "known_as": None if known is None else known.id,
        "kernel_lines": told.kernel.count("\n") if told.kernel is not None else None,
    }


_STYLES = {"reproduced": "bad", "changed": "odd", "flaky": "odd", Basis.NOT_ASKED.value: "odd"}


def _line(told: Replayed, known: Row | None) -> Text:
    now = told.now
    line = Text(f"{told.standing or told.verdict:<10}", style=_STYLES.get(told.verdict, "legal"))
    if told.counts and told.before:
        line.append(f" (baseline: {told.before.verdict(told.finding.kind)})")
    if now.executions > 1:
        line.append(f" {now.failed} of {now.runs:,} times ({now.executions:,} executions)", "count")
    line.append(f" {told.entry.id}  {harmless(sentence(told.finding), one_line=True)}")
    if known is not None:
        line.append(f" known: {known.id}", "known")
    if told.kernel is not None:
        line.append(f" {KERNEL}: {told.kernel.count(chr(10))} lines")
    if told.standing is not None:
        line.append(f"; now {now.label}; the record: {told.recorded}")
    return line


def _test(told: Replayed, known: Row | None, seconds: float) -> Test:
    title, group = sentence(told.finding), f"warpfuzz.{told.finding.kind}"
    name = f"{told.entry.id} {title}"
    if told.error is not None:
        return Test(group, name, seconds, "error", "it could not be asked", str(told.error))
    result = "passed" if not told.counts else "failure" if known is None else "skipped"
    text = [f"{label}: {counted(count, 'time')}" for label, count in told.now.counts.items()]
    text += [f"{label}: {value}" for label, value in told.where.items() if value]
    text += [told.way.value, told.now.message, str(told.entry.path)]
    message = f"known: {known.id}" if known is not None else f"{told.verdict}: {title}"
    return Test(group, name, seconds, result, message, "\n".join(filter(None, text)))


def _replay_module(options: Replay) -> bool:
    """Assemble a module by itself; without a description there is nothing to compare it with."""
    module, assembler = read_text(options.path, "module"), find_assembler(options.assembler)
    started, bad = time.monotonic(), False
    for _ in range(options.times):
        verdict = judge_module(assembler, module)
        bad = bad or verdict.outcome not in (Response.ACCEPTED, Response.REJECTED)
        outcome, messages = verdict.outcome.name.lower(), list(verdict.messages)
        if options.json:
            row = {"path": str(options.path), "verdict": outcome, "assembler": assembler.version}
            emit({**row, "messages": messages})
        elif not options.quiet:
            said = [f"  {message}" for message in messages or [verdict.ending]]
            say("\n".join((f"{outcome} by ptxas {assembler.version}", *said)))
    if options.json:
        seconds = round(time.monotonic() - started, 3)
        emit(summary={"cases": options.times, "seconds": seconds, "seed": None, "findings": []})
    return bad
