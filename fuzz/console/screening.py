"""A screening as it runs, and at its end: a map of the multiprocessors of each device."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from fuzz.campaign.heartbeat import device_status
from fuzz.campaign.status import untested_words
from fuzz.checks.protocol import DeviceStatus
from fuzz.console.dashboard import readings, throttling
from fuzz.kinds import sentence
from fuzz.options import Screen as Screening
from fuzz.output import counted, duration, emit, plain, typed
from fuzz.output.report import Report, ReportColumn, ReportRow, Section, Test
from fuzz.runner import RunnerChoice
from fuzz.screening.distilling import Scope, coverage
from fuzz.screening.examining import ScreenFinding
from fuzz.screening.screen import Refuted, Screen, Tally
from oracle.errors import DeviceLostError, WarpfuzzError
from oracle.program import Program
from oracle.targets import Module
from runners.cuda.messages import DeviceHealth
from runners.emission import emit as emit_module
from runners.faults import by_name
from runners.ledger import CONFIDENCE, Rate

_COLUMNS = 44
"""Multiprocessors in a row of the map: three rows for an H200."""


NOTHING_COMPARED = "no image was compared in the time; give it longer (--time)"
STOPPED_BEFORE = "it was stopped before anything was compared"


@dataclass(frozen=True, kw_only=True)
class DeviceView:
    """One device at one moment."""

    device: DeviceStatus
    screen: Screen
    per_second: float
    """Images times multiprocessors in a second, over all of the time."""


def rate_words(per_second: float) -> str:
    """Say how many images are compared in a second: millions on a GPU, thousands if simulated."""
    if per_second >= 1e6:
        return f"{per_second / 1e6:,.1f} million images a second"
    return f"{per_second:,.0f} images a second"


def _device(view: DeviceView) -> list[Text]:
    screen, tally = view.screen, view.screen.tally
    total = tally.total
    head = plain(view.device.name, style="bold")
    head.append(f"  {rate_words(view.per_second)}", style="count")
    lines = [head]
    if told := readings(view.device):
        lines.append(told)
    ran = len(screen.ran)
    programs = f"{ran:,} of {counted(max(screen.programs, ran), 'program')} run"
    counts = f"  {programs}, {counted(screen.launches, 'launch', 'launches')}"
    if screen.left_out:
        counts += f", {len(screen.left_out)} left out"
    lines.append(plain(counts, style="quiet"))
    if screen.fresh is not None:
        text = f"  {counted(screen.fresh, 'image')} of these compared with the device's reference"
        odd = f", which was wrong {screen.once:,} times and not again" if screen.once else ""
        lines.append(plain(text + odd, style="worst" if odd else "quiet"))
    lines += _map(tally)
    style = "worst" if total.wrong else "legal" if total.cases else "quiet"
    lines.append(plain(f"  {total}", style=style))
    if (least := tally.least).cases:
        each = f"each multiprocessor without errors: at least {counted(least.cases, 'image')}"
        lines.append(plain(f"  {each} ({least.below})", style="quiet"))
    if tally.pattern:
        lines.append(plain(f"  {tally.pattern}", style="worst"))
    return lines


def _map(tally: Tally) -> list[Text]:
    """Return rows with a sign for each multiprocessor: "." it runs, "X" it was wrong."""
    numbers = tally.multiprocessors
    if not numbers.size:
        return []
    highest = int(numbers[-1]) + 1
    rows = []
    for first in range(0, highest, _COLUMNS):
        row = plain(f"  {first:>4} ", style="quiet")
        for number in range(first, min(first + _COLUMNS, highest)):
            if tally.wrong[number]:
                row.append("X", style="worst")
            else:
                row.append("." if tally.cases[number] else " ", style="legal")
        rows.append(row)
    rows.append(
        plain("       . a multiprocessor that runs images, X one that got some wrong", "quiet")
    )
    return rows


@dataclass(kw_only=True)
class ScreenedDevice:
    """One device and what became of it."""

    name: str
    choice: RunnerChoice
    set_name: str = ""
    """The file of the set; empty where programs are made meanwhile."""
    screen: Screen | None = None
    error: WarpfuzzError | None = None
    started: float = 0.0
    seconds: float = 0.0
    stopped: bool = False
    """Whether a signal ended it before its time."""
    kept: list[ScreenFinding] = field(default_factory=list)
    """What was stored for it."""
    news: list[ScreenFinding] = field(default_factory=list)
    """Findings that were not shown yet."""
    scope: Scope | None = None
    """What a preflight looks at."""
    programs: dict[str, Program] = field(default_factory=dict)
    """By their names: those that the screen has taken in."""

    @property
    def cases(self) -> int:
        """How many images were compared on it."""
        return self.screen.tally.total.cases if self.screen is not None else 0

    @property
    def is_wrong(self) -> bool:
        """Whether something differed, or brought it down, that nobody has explained."""
        wrong = set(self.screen.tally.programs) if self.screen is not None else set[str]()
        for one in self.kept:
            if one.known is None:
                return True
            wrong -= set(one.programs)
        return bool(wrong)

    @property
    def untested(self) -> str:
        """Which planted faults applied to no program that ran; empty where each did."""
        if self.screen is None or not self.choice.faults:
            return ""
        ready = self.screen.ready
        module = Module.named(ready.target, ready.ptx_version)
        programs = [self.programs[entry] for entry in sorted(self.screen.ran)]
        idle = [
            name
            for name in self.choice.faults
            if not any(
                by_name(name).applies(emit_module(one, module=module).ptx) for one in programs
            )
        ]
        return untested_words(idle, len(programs))

    def view(self) -> DeviceView | None:
        """Return it as it is now; None until it is there."""
        screen = self.screen
        if screen is None:
            return None
        seconds = self.seconds or time.monotonic() - self.started
        name = f"{self.name}: {screen.ready.device}"
        return DeviceView(
            device=device_status(name, screen.ready.uuid, screen.health or DeviceHealth()),
            screen=screen,
            per_second=screen.tally.total.cases / max(seconds, 1e-9),
        )


def views(devices: Sequence[ScreenedDevice]) -> list[DeviceView]:
    """Return the devices that are there, as they are now."""
    return [view for view in (device.view() for device in devices) if view is not None]


def announce(found: ScreenFinding, out: Console, *, json: bool) -> None:
    """Print a finding as soon as it is stored.

    `out` is the console that shows the live view: what another one prints would stand in its way.
    """
    if json:
        emit({"finding": finding_row(found)})
    else:
        out.print(f"{found.title}\n  {found.sentence}\n  {found.path}", soft_wrap=True)


def finding_row(found: ScreenFinding) -> dict[str, object]:
    """Return a finding as JSON has it."""
    case = found.case
    return {
        "id": None if found.saved is None else found.saved.id,
        "family": case.identity.text,
        "kind": case.kind.value,
        "verdict": case.kind.value,
        "known": found.known is not None,
        "known_as": found.known.id if found.known is not None else None,
        "path": found.path,
        "title": sentence(case),
        "message": found.sentence,
        "instructions": found.instructions,
        "programs": found.programs,
    }


def screening_view(devices: Sequence[ScreenedDevice], seconds: float) -> RenderableType:
    """Return the view of all devices that are there."""
    return Group(
        plain(f"warpfuzz screen, {duration(seconds)}", style="quiet"),
        *(line for view in views(devices) for line in _device(view)),
    )


def refuted_words(device: ScreenedDevice, one: Refuted) -> str:
    """Say that a set is wrong, and what became of its program."""
    fate = "it is judged by the oracle" if one.images else "it is left out"
    return f"the set {device.set_name} is wrong: {one.entry}: {one.sentence}; {fate}"


class Soundness(StrEnum):
    """What a preflight says of a GPU."""

    SOUND = "sound"
    WRONG = "wrong"
    LOST = "lost"
    NOT_SCREENED = "not screened"


def standing(device: ScreenedDevice) -> tuple[Soundness, str]:
    """Return what a preflight says of a GPU, and why."""
    screen = device.screen
    if device.is_wrong:
        return Soundness.WRONG, "; ".join(one.title for one in device.kept)
    if device.error is not None:
        lost = isinstance(device.error, DeviceLostError)
        return Soundness.LOST if lost else Soundness.NOT_SCREENED, str(device.error)
    if screen is None or device.scope is None or not device.cases:
        return Soundness.NOT_SCREENED, STOPPED_BEFORE if device.stopped else NOTHING_COMPARED
    if screen.refuted:
        return Soundness.NOT_SCREENED, refuted_words(device, screen.refuted[0])
    groups = coverage(device.scope, device.programs, screen.tally)
    missing = [name for name, row in groups.items() if row["known"] and not row["ran"]]
    if missing:
        whys = ["the set has none of it"] * bool(device.set_name)
        whys.append(
            "it was stopped before" if device.stopped else "the time was too short (--time)"
        )
        return Soundness.NOT_SCREENED, (
            f"nothing of {', '.join(missing)} was compared: {', or '.join(whys)}"
        )
    if device.untested:
        return Soundness.NOT_SCREENED, device.untested
    return Soundness.SOUND, ""


def preflight_row(device: ScreenedDevice) -> dict[str, object]:
    """Return the line about a GPU before a job starts."""
    screen = device.screen
    found, why = standing(device)
    row: dict[str, object] = {
        "gpu": device.name, "uuid": device.choice.visible, "verdict": found, "reason": why,
    }  # fmt: skip
    if screen is None or device.scope is None:
        return row
    tally, health = screen.tally, screen.health
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
        "findings": [finding_row(one) for one in device.kept],
        "health": health,
        "throttling": throttling(health.throttle_reasons) if health is not None else "",
    }


def device_row(device: ScreenedDevice) -> dict[str, object]:
    """Return the verdict on a device and each of its multiprocessors, as JSON has it."""
    screen = device.screen
    if screen is None:
        return {
            "device": device.name, "cases": 0, "wrong": 0, "error": str(device.error),
            "multiprocessors": [],
        }  # fmt: skip
    tally, health = screen.tally, screen.health
    total = tally.total
    return {
        "device": f"{device.name}: {screen.ready.device}",
        "cases": total.cases,
        "wrong": total.wrong,
        "rate": total.value,
        "bound": total.bound,
        "confidence": CONFIDENCE,
        "pattern": tally.pattern,
        "seconds": round(device.seconds, 3),
        "cases_per_second": round(total.cases / device.seconds) if device.seconds else None,
        "busy": round(screen.busy / device.seconds, 4) if device.seconds else None,
        "programs": screen.programs,
        "programs_run": len(screen.ran),
        "launches": screen.launches,
        "device_reference": None
        if screen.fresh is None
        else {"images": screen.fresh, "once": screen.once},
        "untested": device.untested or None,
        "left_out": [
            {"program": item.source.entry, "why": str(item.failures[-1])}
            for item in screen.left_out
        ],
        "wrong_code": [
            {
                "program": one.entry,
                "image": one.image,
                "multiprocessors": one.sms,
                "why": one.sentence,
            }
            for one in screen.miscompiled.values()
        ],
        "wrong_in_the_set": [
            {"program": one.entry, "images": one.images, "why": refuted_words(device, one)}
            for one in screen.refuted
        ],
        "health": health,
        "throttling": throttling(health.throttle_reasons) if health is not None else "",
        "error": str(device.error) if device.error is not None else None,
        "multiprocessors": [
            {
                "number": int(number),
                "cases": tally.rate(number).cases,
                "wrong": tally.rate(number).wrong,
                "rate": tally.rate(number).value,
                "bound": tally.rate(number).bound,
            }
            for number in tally.multiprocessors.tolist()
        ],
    }


_DEVICES = (
    ReportColumn("device"),
    ReportColumn("images", "cases", number=True),
    ReportColumn("a second", lambda row: row.get("cases_per_second") or 0, number=True),
    ReportColumn(
        "busy", lambda row: f"{100 * row['busy']:.0f} %" if row.get("busy") else "", number=True
    ),
    ReportColumn("errors", "wrong", number=True),
)


def screening_report(
    options: Screening,
    rows: Sequence[Mapping[str, Any]],
    findings: Sequence[Mapping[str, object]],
    seconds: float,
    **others: object,
) -> Report:
    """Return what a screening came to, of this machine or of a fleet, from the rows of devices."""
    stored = [f"{one['title']}: {one['path']}" for one in findings]
    if stored:
        corpus, many = options.corpus, counted(len(stored), "finding")
        command = typed(("warpfuzz", "replay", corpus))
        stored.append(f"{many} stored in {corpus}. Replay: {command}")
    styles = ["worst" if row["wrong"] or row["error"] else "" for row in rows]
    fields: dict[str, object] = {
        "cases": sum(row["cases"] for row in rows),
        "wrong": sum(row["wrong"] for row in rows),
        "seconds": round(seconds, 3),
        "seed": options.seed,
        "pattern": options.pattern,
        "set": str(options.path) if options.path is not None else None,
    }
    said = "\n".join(str(one.get("message", one["title"])) for one in findings)
    return Report(
        title="warpfuzz screen",
        before=[
            Section(
                columns=_DEVICES,
                rows=[
                    ReportRow(data=row, style=style)
                    for row, style in zip(rows, styles, strict=True)
                ],
            )
        ],
        sentences=[f"{row['device']}: {one}" for row in rows for one in _remarks(row)] + stored,
        summary=fields | others | {"devices": rows, "findings": findings},
        tests=[test for row in rows for test in _tests(row, said)],
    )


def _remarks(row: Mapping[str, Any]) -> Iterator[str]:
    if row["cases"]:
        yield str(Rate(cases=row["cases"], wrong=row["wrong"]))
        if row.get("untested"):
            yield row["untested"]
    for one in row["multiprocessors"]:
        if one["wrong"]:
            yield f"multiprocessor {one['number']}: {_rate(one)}"
    for kind in ("wrong_in_the_set", "wrong_code"):
        yield from (one["why"] for one in row.get(kind, ()))
    for one in row.get("left_out", ()):
        yield f"{one['program']} left out: {one['why']}"


def _rate(one: Mapping[str, int]) -> Rate:
    return Rate(cases=one["cases"], wrong=one["wrong"])


def _tests(row: Mapping[str, Any], said: str) -> Iterator[Test]:
    """Yield a test for each multiprocessor, and for each program that was left out."""
    name, seconds = row["device"], row.get("seconds") or 0.0
    group, sms = f"warpfuzz.screen.{name}", row["multiprocessors"]
    if row["error"] or not row["cases"]:
        why = row["error"] or NOTHING_COMPARED
        yield Test("warpfuzz.screen", name, seconds, "error", "it could not be screened", why)
    if row["cases"] and row.get("untested"):
        message = "a planted fault was not tested"
        yield Test(group, "the planted faults", 0.0, "error", message, row["untested"])
    for one in sms:
        result = "failure" if one["wrong"] else "passed"
        # All of a device take their turns at once: together its time.
        each = seconds / len(sms)
        yield Test(group, f"multiprocessor {one['number']}", each, result, str(_rate(one)), said)
    for kind, result, message in (
        ("wrong_in_the_set", "error", "the set is wrong"),
        ("wrong_code", "skipped", "its code is wrong"),
        ("left_out", "failure", "it brought the device down and was left out"),
    ):
        for one in row.get(kind, ()):
            yield Test(group, one["program"], 0.0, result, message, one["why"])
