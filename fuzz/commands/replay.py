"""`warpfuzz replay`: saved cases again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import track

from corpus import Entry, Problem, open_corpus
from corpus.entry import DESCRIPTION, read_entry
from corpus.known import load_known
from fuzz.commands.findings import report_problems
from fuzz.commands.value_replays import ReplayOptions, ValueReplays
from fuzz.device_lost import DeviceLostError
from fuzz.output import console, emit
from fuzz.replaying import MODULE, Replayed, replay
from fuzz.runner_choice import has_device_fault
from fuzz.value_findings import is_value_finding
from oracle.errors import InfrastructureError, UsageError, WarpfuzzError
from runners.assemblers.discovery import find
from runners.assemblers.judgements import Outcome
from runners.assemblers.judging import judge_module


def replay_path(path: Path, *, times: int, options: ReplayOptions, json: bool) -> bool:
    """Replay a corpus, a finding or a module; tell whether something unknown still disagrees."""
    if path.suffix == ".ptx":
        return _replay_module(path, times=times, wanted=options.assembler, json=json)
    started = time.monotonic()
    known = load_known()
    problems: list[Problem] = []
    entries = list(_entries(path, problems))
    if not entries and not problems:
        raise UsageError(f"{path} holds no findings; `warpfuzz run --corpus {path}` looks for some")
    shown = console(stderr=json)
    rows, cases = [], 0
    left_out: list[WarpfuzzError] = []
    has_device_fault(options.faults)  # a fault that does not exist is said now, and once
    with ValueReplays(options) as values:
        for entry in track(entries, "replaying", console=shown, transient=True, disable=json):
            try:
                if is_value_finding(entry):
                    row = values.replay(entry, times=times)
                else:
                    row = _row(replay(entry, times=times, wanted=options.assembler))
            except DeviceLostError:
                raise
            except WarpfuzzError as error:
                if len(entries) == 1:
                    raise
                left_out.append(error)
                continue
            cases += times
            entry_known = known.match(entry.finding)
            row["known"] = entry_known is not None
            row["known_as"] = entry_known.id if entry_known else None
            rows.append(row)
            if json:
                emit(row)
            else:
                _print(row, entry, shown)
    findings = [row for row in rows if row["verdict"] != "gone"]
    seconds = time.monotonic() - started
    if json:
        emit(
            {
                "summary": {
                    "cases": cases,
                    "seconds": round(seconds, 3),
                    "seed": None,
                    "findings": findings,
                    "left_out": [str(reason) for reason in left_out],
                    "broken": [problem.sentence for problem in problems],
                }
            }
        )
    else:
        gone = len(rows) - len(findings)
        shown.print(
            f"{len(rows)} findings replayed {times} time(s) in {seconds:.1f} s: "
            f"{len(findings)} still disagree, {gone} gone, {len(left_out)} left out, "
            f"{len(problems)} broken"
        )
    unknown = any(not row["known"] for row in findings)
    for reason in left_out:
        console(stderr=True).print(f"warpfuzz: {reason}", markup=False, soft_wrap=True)
    report_problems(problems, fail=not unknown)
    if left_out and not unknown:
        raise InfrastructureError(
            f"{len(left_out)} of {len(entries)} findings could not be replayed, as said above"
        )
    return unknown


def _entries(path: Path, problems: list[Problem]) -> Iterator[Entry]:
    if (path / DESCRIPTION).exists():
        yield read_entry(path)
    else:
        yield from open_corpus(path).entries(problems.append)


def _print(row: Mapping[str, object], entry: Entry, out: Console) -> None:
    verdict = str(row["verdict"])
    style = {"reproduced": "bad", "changed": "odd", "flaky": "odd"}.get(verdict, "legal")
    note = f" [known]known: {escape(str(row['known_as']))}[/]" if row["known"] else ""
    out.print(
        f"[{style}]{verdict:<10}[/] {entry.id}  {escape(entry.finding.family.title)}{note}",
        soft_wrap=True,
    )


def _row(replayed: Replayed) -> dict[str, object]:
    finding = replayed.entry.finding
    return {
        "id": finding.id,
        "family": finding.family.key,
        "kind": finding.kind.value,
        "verdict": replayed.verdict,
        "path": str(replayed.entry.path),
        "outcomes": {
            ", ".join(outcome.name.lower() for outcome in seen): count
            for seen, count in replayed.outcomes.items()
        },
        "assemblers": [assembler.version for assembler in replayed.assemblers],
        "message": replayed.message,
    }


def _replay_module(path: Path, *, times: int, wanted: str | None, json: bool) -> bool:
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
    for _ in range(times):
        verdict = judge_module(assembler, module)
        bad = bad or verdict.outcome not in (Outcome.ACCEPTED, Outcome.REJECTED)
        row = {
            "path": str(path),
            "verdict": verdict.outcome.name.lower(),
            "assembler": assembler.version,
            "messages": list(verdict.messages),
        }
        if json:
            emit(row)
        else:
            out = console()
            out.print(f"{row['verdict']} by ptxas {assembler.version}", markup=False)
            for message in verdict.messages or (verdict.ending,):
                out.print(f"  {message}", markup=False, soft_wrap=True)
    if json:
        seconds = round(time.monotonic() - started, 3)
        emit({"summary": {"cases": times, "seconds": seconds, "seed": None, "findings": []}})
    return bad
