"""`warpfuzz screen --fleet`: every GPU of a cluster at once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from corpus import create_corpus
from corpus.known import known_with
from fuzz.campaign.rounds import parse_duration
from fuzz.console import ended_by_signals
from fuzz.console.screening import NOTHING_COMPARED, STOPPED_BEFORE, emit_summary, rate_words
from fuzz.fleet.pool import cluster_at, joining, starting_actors
from fuzz.fleet.screening import FleetDevice, FleetScreening, ScreenHost
from fuzz.options import Screen, check_conflicts
from fuzz.output import Test, counted, generator, plain, report_expired, say, starting, write_junit
from fuzz.runner import hardware_runner
from oracle.errors import InfrastructureError, UsageError

_LINE_SECONDS = 10.0
"""Time between two lines for each GPU."""
_PASSED_ON = ("time", "pattern", "seed", "target", "ptx_pass", "assembler", "level")
"""Options that each GPU's screening is given as they are."""


def screen_fleet(options: Screen) -> bool:
    """Screen; tell whether something differed that is not known."""
    parse_duration(options.time)
    check_conflicts(options, "screen --fleet")
    runner = hardware_runner(options.runner)
    words, files = _arguments(options, runner)
    known = known_with(options.known)
    corpus = create_corpus(options.corpus, generator=generator())
    fleet = options.fleet or ""
    with starting(lines=True) as tell:
        tell(joining(fleet))
        cluster = cluster_at(
            fleet, gpus=runner == "cuda", workers=None if runner == "cuda" else 1,
            most=options.gpus, host=ScreenHost,
        )  # fmt: skip
        tell(starting_actors(cluster))
    begun = time.monotonic()
    with (
        closing(FleetScreening(cluster=cluster, words=words, files=files)) as screening,
        ended_by_signals(screening.stop.set),
    ):
        _watch(screening, begun, json=options.json)
    devices = screening.devices
    rows = []
    for device in devices:
        for finding, data in device.harvest.findings if device.harvest else ():
            saved = corpus.deposit(finding, data)
            match = known.match(finding)
            rows.append(
                {
                    "id": saved.id,
                    "family": finding.family.key,
                    "kind": finding.kind.value,
                    "verdict": finding.kind.value,
                    "known": match is not None,
                    "path": str(saved.path),
                    "title": finding.family.title,
                    "device": device.name,
                }
            )
    _report(options, devices, rows, time.monotonic() - begun)
    report_expired(known)
    failed = [f"{device.name}: {device.error}" for device in devices if device.error]
    idle = [row for row in _rows(devices) if not row["error"] and not row["cases"]]
    why = STOPPED_BEFORE if screening.stop.is_set() else NOTHING_COMPARED
    failed += [f"{row['device']}: {why}" for row in idle]
    if failed:
        raise InfrastructureError(
            f"{len(failed)} of {counted(len(devices), 'GPU')} could not be screened to the end: "
            f"{failed[0]}"
        )
    return any(not row["known"] for row in rows)


def _arguments(options: Screen, runner: str) -> tuple[Sequence[str], Mapping[str, bytes]]:
    words, files = ["--runner", runner], {}
    for name, value in options.picked(*_PASSED_ON).items():
        if value is not None:
            words += [options.spelled(name), str(value)]
    for fault in options.faults:
        words += ["--fault", fault]
    for option, path in (("", options.path), ("--model", options.model)):
        if path is None:
            continue
        # Its own name stands in what is said of it.
        name = f"{option.lstrip('-') or 'set'}-{Path(path).name}"
        try:
            files[name] = Path(path).read_bytes()
        except OSError as error:
            raise UsageError(f"{path} cannot be read ({error.strerror}); give a file") from None
        words += [*filter(None, (option,)), f"@{name}"]
    return words, files


def _watch(screening: FleetScreening, begun: float, *, json: bool) -> None:
    """Print a line for each GPU now and then, and a word about each that is gone."""
    shown, told, placed = begun, set(), set()
    for devices in screening.run():
        for device in devices:
            if device.begun is not None and id(device) not in placed:
                placed.add(id(device))
                say(plain(f"{device.name}: begins"), stderr=json)
            if device.error and id(device) not in told:
                told.add(id(device))
                say(plain(f"{device.name}: {device.error}", style="bad"), stderr=json)
        now = time.monotonic()
        if now - shown >= _LINE_SECONDS:
            shown = now
            for device in devices:
                if not device.done:
                    say(plain(f"{device.name}: {device.line or 'begins'}"), stderr=json)


def _rows(devices: Sequence[FleetDevice]) -> list[dict[str, Any]]:
    return [row for device in devices for row in _rows_of(device)]


def _rows_of(device: FleetDevice) -> list[dict[str, Any]]:
    host = device.begun.host if device.begun is not None else ""
    summary = device.harvest.summary if device.harvest is not None else None
    if summary is None:
        nothing = {"device": device.name, "host": host, "cases": 0, "wrong": 0}
        return [{**nothing, "multiprocessors": [], "error": device.error}]
    return [
        {
            **row,
            "device": f"{device.name}: {row['device'].partition(': ')[2] or row['device']}",
            "host": host,
            "error": row.get("error") or device.error or None,
        }
        for row in summary["devices"]
    ]


def _report(
    options: Screen,
    devices: Sequence[FleetDevice],
    found: Sequence[Mapping[str, Any]],
    seconds: float,
) -> None:
    rows = _rows(devices)
    if options.junit is not None:
        write_junit(options.junit, _tests(rows), suite="warpfuzz screen")
    if options.json:
        emit_summary(options, rows, found, seconds)
        return
    for row in rows:
        rate = row.get("cases_per_second") or 0
        busy = f", busy {100 * row['busy']:.0f} %" if row.get("busy") else ""
        line = plain(f"{row['device']}: {row['cases']:,} images, {rate_words(rate)}{busy}; ")
        wrong = "worst" if row["wrong"] else "legal"
        line.append(f"{row['wrong']:,} wrong", style=wrong)
        for sm in row["multiprocessors"]:
            if sm["wrong"]:
                line.append(
                    f"; multiprocessor {sm['number']}: {sm['wrong']:,} of {sm['cases']:,}",
                    style="worst",
                )
        say(line)
    for finding in found:
        say(plain(f"{finding['device']}: {finding['title']}"))
        say(plain(f"  {finding['path']}"))


def _tests(rows: Sequence[Mapping[str, Any]]) -> list[Test]:
    tests = []
    for row in rows:
        if row["error"]:
            message = "it could not be screened"
            tests.append(
                Test("warpfuzz.screen", row["device"], 0.0, "error", message, row["error"])
            )
        for sm in row["multiprocessors"]:
            name, group = f"multiprocessor {sm['number']}", f"warpfuzz.screen.{row['device']}"
            result = "failure" if sm["wrong"] else "passed"
            tests.append(Test(group, name, 0.0, result, f"{sm['wrong']:,} of {sm['cases']:,}"))
    return tests
