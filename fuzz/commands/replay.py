"""`warpfuzz replay`: saved cases again."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.progress import track
from rich.text import Text

from corpus import Entry, Problem
from corpus.entry import DESCRIPTION, read_entry
from corpus.known import load_known
from corpus.naming import named_corpus
from fuzz.commands.corpus import report_problems
from fuzz.commands.replay_rows import NOTHING, ReplayOptions, Replays, Row
from fuzz.findings.case import is_runnable
from fuzz.findings.replay_instructions import MODULE
from fuzz.output import console, counted, emit, harmless
from fuzz.runner import has_device_fault
from oracle.errors import DeviceLostError, InfrastructureError, UsageError, WarpfuzzError
from oracle.targets import parse_target
from runners.assemblers.discovery import find
from runners.assemblers.judgements import Outcome
from runners.assemblers.judging import judge_module

_FORBIDDEN = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Signs that XML 1.0 has not (XML 1.0, 2.2, production 2)."""


@dataclass(frozen=True, kw_only=True)
class Test:
    """One finding."""

    group: str
    """What it is about; dots make levels in some viewers."""
    name: str
    seconds: float
    result: str = "passed"
    """"passed", "failure", "error" or "skipped"."""
    message: str = ""
    """One line."""
    text: str = ""
    """All that is known."""


def check_junit(path: Path) -> None:
    """Raise UsageError for a file that could not be written after all replays."""
    if not path.parent.is_dir() or path.is_dir():
        raise UsageError(f"--junit {path} cannot be written: give a file in a folder that is there")


def write_junit(path: Path, tests: Sequence[Test], *, suite: str) -> None:
    """Write a file of JUnit XML.

    Raises
    ------
    InfrastructureError
        If it cannot be written.
    """
    counts = {
        "tests": str(len(tests)),
        "failures": str(sum(test.result == "failure" for test in tests)),
        "errors": str(sum(test.result == "error" for test in tests)),
        "skipped": str(sum(test.result == "skipped" for test in tests)),
        "time": f"{sum(test.seconds for test in tests):.3f}",
    }
    root = ElementTree.Element("testsuites", {"name": suite, **counts})
    inside = ElementTree.SubElement(root, "testsuite", {"name": suite, **counts})
    for test in tests:
        case = ElementTree.SubElement(
            inside,
            "testcase",
            {
                "classname": _clean(test.group),
                "name": _clean(test.name),
                "time": f"{test.seconds:.3f}",
            },
        )
        if test.result == "passed":
            continue
        result = ElementTree.SubElement(case, test.result, {"message": _clean(test.message)})
        if test.result != "skipped":
            result.set("type", _clean(test.group))
            result.text = _clean(test.text)
    ElementTree.indent(root)
    try:
        ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise InfrastructureError(
            f"{path} cannot be written: {error.strerror}; choose another file with --junit"
        ) from error


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)


_SUITE = "warpfuzz replay"


@dataclass(frozen=True, kw_only=True)
class Report:
    """How what is replayed is told."""

    times: int = 1
    baseline: str | None = None
    """A compiler; then only what comes out otherwise with it counts."""
    junit: Path | None = None
    """File for JUnit XML."""
    quiet: bool = False
    """Whether only what counts is printed."""
    json: bool = False


@dataclass(kw_only=True)
class _Told:
    """What was replayed so far."""

    rows: list[Row] = field(default_factory=list)
    left_out: list[WarpfuzzError] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)

    @property
    def findings(self) -> list[Row]:
        """What counts, known or not."""
        return [row for row in self.rows if row["counts"]]


def replay_path(path: Path, *, options: ReplayOptions, report: Report) -> bool:
    """Replay a corpus, a finding or a module; tell whether something unknown counts.

    Without a baseline, every finding that still disagrees does; with one, every finding that comes
    out otherwise than with the baseline.

    Raises
    ------
    WarpfuzzError
        If something is missing, or findings could not be replayed and nothing else counts.
    """
    if path.suffix == ".ptx":
        _check_of_module(path, options, report)
        return _replay_module(path, wanted=options.assembler, report=report)
    started = time.monotonic()
    problems: list[Problem] = []
    entries = list(_entries(path, problems))
    if not entries and not problems:
        raise UsageError(f"{path} holds no findings; `warpfuzz run --corpus {path}` looks for some")
    _check(entries, options, report)
    told = _replayed(entries, options, report)
    if report.junit is not None:
        write_junit(report.junit, told.tests, suite=_SUITE)
    unknown = any(not row["known"] for row in told.findings)
    _summarise(told, problems, report, time.monotonic() - started)
    reasons = Counter(map(str, told.left_out))
    for reason, count in reasons.items():
        of = f" ({count} findings)" if count > 1 else ""
        console(stderr=True).print(f"warpfuzz: {reason}{of}", markup=False, soft_wrap=True)
    report_problems(problems, fail=not unknown)
    if told.left_out and not unknown:
        # What no finding at all can be run with is the fault of the options, not of a finding.
        options_fail = not told.rows and len(reasons) == 1
        usage = options_fail and isinstance(told.left_out[0], UsageError)
        raise (UsageError if usage else InfrastructureError)(
            f"{len(told.left_out)} of {len(entries)} findings could not be replayed, as said above"
        )
    return unknown


def _check(entries: Sequence[Entry], options: ReplayOptions, report: Report) -> None:
    """Raise UsageError for what is wrong with every finding, once and before hours of replays."""
    if options.runner is not None and entries and not any(map(is_runnable, entries)):
        raise UsageError(
            f"--runner {options.runner} says where programs run, and nothing here has one: the "
            "findings are of what assemblers make of a module; leave it out"
        )
    has_device_fault(options.faults)
    if options.target is not None:
        parse_target(options.target)
    baseline = None if report.baseline == NOTHING else report.baseline
    for wanted in (options.assembler, baseline):
        if wanted is not None and not Path(wanted).is_file():
            find(wanted)
    if report.junit is not None:
        check_junit(report.junit)


def _replayed(entries: list[Entry], options: ReplayOptions, report: Report) -> _Told:
    told, known = _Told(), load_known()
    out = console(stderr=report.json)
    silent = report.json or report.quiet
    with Replays(options, baseline=report.baseline) as replays:
        for entry in track(entries, "replaying", console=out, transient=True, disable=silent):
            started = time.monotonic()
            try:
                row = replays.replay(entry, times=report.times)
            except DeviceLostError:
                raise
            except WarpfuzzError as error:
                if len(entries) == 1 and report.junit is None:
                    raise
                told.left_out.append(error)
                told.tests.append(_left_out(entry, error, time.monotonic() - started))
                continue
            match = known.match(entry.finding)
            row |= {"known": match is not None, "known_as": match.id if match else None}
            told.rows.append(row)
            told.tests.append(_test(entry, row, time.monotonic() - started))
            if report.json:
                emit(row)
            elif not report.quiet or (row["counts"] and not row["known"]):
                _print(row, entry, out)
    return told


def _summarise(told: _Told, problems: list[Problem], report: Report, seconds: float) -> None:
    if report.json:
        emit(
            {
                "summary": {
                    "cases": report.times * len(told.rows),
                    "seconds": round(seconds, 3),
                    "seed": None,
                    "baseline": report.baseline,
                    "findings": told.findings,
                    "left_out": [str(reason) for reason in told.left_out],
                    "broken": [problem.sentence for problem in problems],
                }
            }
        )
    elif not report.quiet:
        shown = len(told.findings)
        what = "still disagree" if report.baseline is None else f"not as with {report.baseline}"
        others = "gone" if report.baseline is None else "the same"
        console().print(
            f"{counted(len(told.rows), 'finding')} replayed {counted(report.times, 'time')} in "
            f"{seconds:.1f} s: "
            f"{shown} {what}, {len(told.rows) - shown} {others}, {len(told.left_out)} left "
            f"out, {len(problems)} broken",
            markup=False,
            soft_wrap=True,
        )


def _check_of_module(path: Path, options: ReplayOptions, report: Report) -> None:
    """Raise UsageError for options that do nothing for a module by itself."""
    idle = {
        "--baseline": report.baseline,
        "--junit": report.junit,
        "--runner": options.runner,
        "--target": options.target,
        "--opt": options.level,
        "--fault": options.faults or None,
        "--ptx-pass": options.ptx_pass,
    }
    given = [name for name, value in idle.items() if value is not None]
    if given:
        raise UsageError(
            f"{given[0]} is for findings, and {path} is a module by itself, which is only given to "
            "ptxas; leave it out, or make a case of it (`warpfuzz corpus import`)"
        )


def _entries(path: Path, problems: list[Problem]) -> Iterator[Entry]:
    if (path / DESCRIPTION).exists():
        yield read_entry(path)
    else:
        yield from named_corpus(path).entries(problems.append)


def _print(row: Row, entry: Entry, out: Console) -> None:
    verdict = str(row["verdict"])
    style = {"reproduced": "bad", "changed": "odd", "flaky": "odd"}.get(verdict, "legal")
    note = f" known: {row['known_as']}" if row["known"] else ""
    before = f" (baseline: {row['baseline_verdict']})" if row.get("regressed") else ""
    line = Text.assemble(
        (f"{verdict:<10}", style),
        (before, "odd"),
        f" {entry.id}  {harmless(entry.finding.family.title, one_line=True)}",
        (note, "known"),
    )
    out.print(line, soft_wrap=True)


def _test(entry: Entry, row: Row, seconds: float) -> Test:
    result = "passed"
    if row["counts"]:
        result = "skipped" if row["known"] else "failure"
    outcomes = row["outcomes"]
    shown = outcomes if isinstance(outcomes, dict) else {}
    text = [f"{name}: {counted(count, 'time')}" for name, count in shown.items()]
    text += [f"{name}: {row[name]}" for name in ("runner", "device", "options") if row.get(name)]
    text += [f"{name}: {row[name]}" for name in ("baseline_verdict",) if name in row]
    text += [str(row["message"]), str(entry.path)]
    message = f"{row['verdict']}: {entry.finding.family.title}"
    if row["known"]:
        message = f"known: {row['known_as']}"
    return Test(
        group=f"warpfuzz.{entry.finding.kind}",
        name=f"{entry.id} {entry.finding.family.title}",
        seconds=seconds,
        result=result,
        message=message,
        text="\n".join(filter(None, text)),
    )


def _left_out(entry: Entry, error: WarpfuzzError, seconds: float) -> Test:
    return Test(
        group=f"warpfuzz.{entry.finding.kind}",
        name=f"{entry.id} {entry.finding.family.title}",
        seconds=seconds,
        result="error",
        message="it could not be replayed",
        text=str(error),
    )


def _replay_module(path: Path, *, wanted: str | None, report: Report) -> bool:
    """Assemble a module by itself; without a description there is nothing to compare it with."""
    try:
        module = path.read_text(errors="replace")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}; give a corpus, the folder of a finding, or "
            f"a {MODULE}"
        ) from None
    assembler = find(wanted)
    started = time.monotonic()
    bad = False
    for _ in range(report.times):
        verdict = judge_module(assembler, module)
        bad = bad or verdict.outcome not in (Outcome.ACCEPTED, Outcome.REJECTED)
        row = {
            "path": str(path),
            "verdict": verdict.outcome.name.lower(),
            "assembler": assembler.version,
            "messages": list(verdict.messages),
        }
        if report.json:
            emit(row)
        elif not report.quiet:
            out = console()
            out.print(f"{row['verdict']} by ptxas {assembler.version}", markup=False)
            for message in verdict.messages or (verdict.ending,):
                out.print(f"  {message}", markup=False, soft_wrap=True)
    if report.json:
        seconds = round(time.monotonic() - started, 3)
        emit({"summary": {"cases": report.times, "seconds": seconds, "seed": None, "findings": []}})
    return bad
