"""A screening as it runs, and at its end: what came of each device and its multiprocessors."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fuzz.campaign.status import untested_words
from fuzz.checks.protocol import DeviceStatus, device_status
from fuzz.console.metrics import throttling
from fuzz.findings.families import stored_row
from fuzz.kinds import sentence
from fuzz.options.operating import Screen as Screening
from fuzz.output import Report, ReportColumn, ReportRow, Section, Test, counted, typed
from fuzz.runner import RunnerChoice
from fuzz.screening.examining import ScreenFinding
from fuzz.screening.screen import ScreenRun
from fuzz.screening.sets import SetProgram, SetScope, coverage
from oracle.errors import DeviceLostError, WarpfuzzError
from runners.cuda.libraries import DeviceHealth
from runners.emission import emit as emit_module
from runners.faults import idle_faults
from runners.ledger import CONFIDENCE, Rate

NOTHING_COMPARED = "no image was compared in the time; give it longer (--time)"
STOPPED_BEFORE = "it was stopped before anything was compared"


class Soundness(StrEnum):
    """What a screening says of a GPU."""

    SOUND = "sound"
    WRONG = "wrong"
    LOST = "lost"
    NOT_SCREENED = "not screened"


@dataclass(kw_only=True)
class ScreenedDevice:
    """One device and what became of it."""

    name: str
    choice: RunnerChoice
    screen: ScreenRun | None = None
    error: WarpfuzzError | None = None
    started: float = 0.0
    seconds: float = 0.0
    stopped: bool = False  # whether a signal ended it before its time
    kept: list[ScreenFinding] = field(default_factory=list)  # what was stored for it
    thread: threading.Thread | None = None  # what screens it
    scope: SetScope | None = None  # what a preflight looks at
    programs: dict[str, SetProgram] = field(default_factory=dict)
    """Those that were taken in, by their names."""

    @property
    def works(self) -> bool:
        """Whether it has not come to its end."""
        return self.thread is not None and self.thread.is_alive()

    @property
    def cases(self) -> int:
        """How many images were compared on it."""
        return self.screen.tally.total.cases if self.screen is not None else 0

    @property
    def is_wrong(self) -> bool:
        """Whether something differed, or brought it down, that nobody has explained."""
        wrong = set(self.screen.tally.programs) if self.screen is not None else set[str]()
        explained = {name for found in self.kept if found.known for name in found.programs}
        return any(found.known is None for found in self.kept) or not wrong <= explained

    @property
    def untested(self) -> str:
        """Which planted faults applied to no program that ran; empty where each did."""
        if self.screen is None or not self.choice.faults:
            return ""
        ran = [self.programs[entry] for entry in sorted(self.screen.ran)]
        texts = [emit_module(one.program, module=one.module).ptx for one in ran]
        return untested_words(idle_faults(self.choice.faults, texts), len(texts))

    @property
    def status(self) -> DeviceStatus:
        """What its sensors say; only for one that is there."""
        assert self.screen is not None
        ready, health = self.screen.ready, self.screen.health or DeviceHealth()
        return device_status(f"{self.name}: {ready.device}", ready.uuid, health)

    @property
    def per_second(self) -> float:
        """Images that its multiprocessors compared in a second, over all of the time."""
        return self.cases / max(self.seconds or time.monotonic() - self.started, 1e-9)

    @property
    def line(self) -> str:
        """How it stands while it is screened."""
        if (screen := self.screen) is None:
            return f"{self.name}: it begins"
        programs = counted(len(screen.ran), "program")
        return (
            f"{self.name}: {programs}, {self.per_second:,.0f} images a second, {screen.tally.total}"
        )

    @property
    def standing(self) -> tuple[Soundness, str]:
        """What a screening says of it, and why."""
        screen = self.screen
        if self.is_wrong:
            return Soundness.WRONG, "; ".join(found.title for found in self.kept)
        if self.error is not None:
            lost = isinstance(self.error, DeviceLostError)
            return Soundness.LOST if lost else Soundness.NOT_SCREENED, str(self.error)
        why = ""
        if screen is None or not self.cases:
            why = STOPPED_BEFORE if self.stopped else NOTHING_COMPARED
        elif self.scope is not None:
            # Kinds of instructions that a preflight was to look at, and did not.
            rows = coverage(self.scope, self.programs, screen.tally)
            missing = ", ".join(one for one, row in rows.items() if row["known"] and not row["ran"])
            if missing:
                ended = (
                    "it was stopped"
                    if self.stopped
                    else "give it longer (--time), or leave a set out"
                )
                why = f"nothing of {missing} was compared: {ended}"
        why = why or self.untested
        return Soundness.NOT_SCREENED if why else Soundness.SOUND, why


# Rows of JSON


def finding_row(found: ScreenFinding) -> dict[str, object]:
    """Return a finding and where it is stored."""
    return {
        **stored_row(found.case, found.saved, found.known),
        "title": sentence(found.case),
        "message": found.sentence,
        "instructions": found.instructions,
        "programs": found.programs,
    }


def _health(screen: ScreenRun) -> dict[str, object]:
    health = screen.health
    said = throttling(health.throttle_reasons) if health is not None else ""
    return {"health": health, "throttling": said}


def preflight_row(device: ScreenedDevice) -> dict[str, object]:
    """Return the line about a GPU before a job starts."""
    screen, (found, why) = device.screen, device.standing
    row: dict[str, object] = {
        "gpu": device.name, "uuid": device.choice.visible, "verdict": found, "reason": why,
    }  # fmt: skip
    if screen is None or device.scope is None:
        return row
    tally = screen.tally
    return {
        **row,
        "uuid": screen.ready.uuid or device.choice.visible,
        "device": screen.ready.device,
        "target": screen.ready.target,
        "seconds": round(device.seconds, 3),
        "images": tally.total.cases,
        "wrong": tally.total.wrong,
        "bound": tally.total.bound,
        "multiprocessor_bound": tally.least.bound,
        "confidence": CONFIDENCE,
        "groups": coverage(device.scope, device.programs, tally),
        "multiprocessors": len(tally.multiprocessors),
        "wrong_multiprocessors": tally.faulty.tolist(),
        "findings": [*map(finding_row, device.kept)],
        **_health(screen),
    }


def _rated(rate: Rate) -> dict[str, object]:
    return {"cases": rate.cases, "wrong": rate.wrong, "rate": rate.value, "bound": rate.bound}


def device_row(device: ScreenedDevice) -> dict[str, object]:
    """Return the verdict on a device and each of its multiprocessors."""
    screen = device.screen
    if screen is None:
        return {
            "device": device.name, "cases": 0, "wrong": 0, "error": str(device.error),
            "multiprocessors": [],
        }  # fmt: skip
    tally, seconds = screen.tally, device.seconds
    return {
        "device": f"{device.name}: {screen.ready.device}",
        **_rated(tally.total),
        "confidence": CONFIDENCE,
        "pattern": tally.pattern,
        "seconds": round(seconds, 3),
        "cases_per_second": round(tally.total.cases / seconds) if seconds else None,
        "busy": round(screen.busy / seconds, 4) if seconds else None,
        "programs": screen.programs,
        "programs_run": len(screen.ran),
        "launches": screen.launches,
        "device_reference": None if screen.fresh is None else {"images": screen.fresh},
        "untested": device.untested or None,
        "left_out": [one._asdict() for one in screen.left_out],
        "wrong_code": [one._asdict() for one in screen.miscompiled.values()],
        **_health(screen),
        "error": str(device.error) if device.error is not None else None,
        "multiprocessors": [
            {"number": number, **_rated(tally.rate(number))}
            for number in tally.multiprocessors.tolist()
        ],
    }


# The result

_DEVICES = (
    ReportColumn("device"),
    ReportColumn("images", "cases", number=True),
    ReportColumn("a second", lambda row: row.get("cases_per_second") or 0, number=True),
    ReportColumn("busy", lambda row: f"{row.get('busy') or 0:.0%}", number=True),
    ReportColumn("errors", "wrong", number=True),
)
_ASIDE = {
    "wrong_code": ("skipped", "its code is wrong"),
    "left_out": ("failure", "it brought the device down and was left out"),
}
"""What programs that say nothing of a device are to JUnit."""


def screening_report(
    options: Screening,
    rows: Sequence[Mapping[str, Any]],
    findings: Sequence[Mapping[str, object]],
    seconds: float,
    **others: object,
) -> Report:
    """Return what a screening came to, from the rows of devices."""
    stored = [f"{one['title']}: {one['path']}" for one in findings]
    if stored:
        command = typed(("warpfuzz", "replay", options.corpus))
        stored.append(f"{counted(len(stored), 'finding')} stored. Replay: {command}")
    fields: dict[str, object] = {
        "host": socket.gethostname(),
        "cases": sum(row["cases"] for row in rows),
        "wrong": sum(row["wrong"] for row in rows),
        "seconds": round(seconds, 3),
        "seed": options.seed,
        "pattern": options.pattern,
        "set": str(options.path) if options.path is not None else None,
    }
    listed = [
        ReportRow(data=row, style="worst" if row["wrong"] or row["error"] else "") for row in rows
    ]
    said = "\n".join(str(one.get("message", one["title"])) for one in findings)
    return Report(
        title="warpfuzz screen",
        before=[Section(columns=_DEVICES, rows=listed)],
        sentences=[f"{row['device']}: {one}" for row in rows for one in _remarks(row)] + stored,
        summary=fields | others | {"devices": rows, "findings": findings},
        tests=[test for row in rows for test in _tests(row, said)],
    )


def _rate(row: Mapping[str, int]) -> Rate:
    return Rate(cases=row["cases"], wrong=row["wrong"])


def _remarks(row: Mapping[str, Any]) -> Iterator[str]:
    units = row["multiprocessors"]
    if row["cases"]:
        yield str(_rate(row))
        if least := min((one["cases"] for one in units if not one["wrong"]), default=0):
            each = f"each multiprocessor without errors: at least {counted(least, 'image')}"
            yield f"{each} ({Rate(cases=least, wrong=0).below})"
        yield from filter(None, (row.get("pattern"), row.get("untested")))
    if told := row.get("device_reference"):
        yield f"{counted(told['images'], 'image')} compared with the device's reference"
    yield from (f"multiprocessor {one['number']}: {_rate(one)}" for one in units if one["wrong"])
    yield from (one["why"] for kind in _ASIDE for one in row.get(kind, ()))


def _tests(row: Mapping[str, Any], said: str) -> Iterator[Test]:
    """Yield a test for each multiprocessor, and for each program that was left out."""
    name, seconds = row["device"], row.get("seconds") or 0.0
    group, units = f"warpfuzz.screen.{name}", row["multiprocessors"]
    if row["error"] or not row["cases"]:
        why = row["error"] or NOTHING_COMPARED
        yield Test("warpfuzz.screen", name, seconds, "error", "it could not be screened", why)
    elif row.get("untested"):
        message = "a planted fault was not tested"
        yield Test(group, "the planted faults", 0.0, "error", message, row["untested"])
    for one in units:
        result = "failure" if one["wrong"] else "passed"
        # All of a device take their turns at once: together its time.
        each = seconds / len(units)
        yield Test(group, f"multiprocessor {one['number']}", each, result, str(_rate(one)), said)
    for kind, (result, message) in _ASIDE.items():
        for one in row.get(kind, ()):
            yield Test(group, one["program"], 0.0, result, message, one["why"])
