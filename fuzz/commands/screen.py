"""`warpfuzz screen`: whether one of these GPUs is wrong, and which of its multiprocessors."""

from __future__ import annotations

import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count as counting
from pathlib import Path
from types import FrameType

from rich.live import Live

from corpus import Corpus, create_corpus
from fuzz.campaign.draws import Selection
from fuzz.campaign.rounds import parse_duration
from fuzz.checks.program_draws import selected_forms
from fuzz.console.report import check_report, recording_console, save
from fuzz.console.screening import DeviceView, screening_view, sensors, throttling
from fuzz.output import Test, check_junit, console, counted, emit, generator, write_junit
from fuzz.runner import RunnerChoice, best_runner, has_device_fault, opened, visible_devices
from fuzz.screening.distilling import candidates, describe, set_program
from fuzz.screening.examining import Examiner, ScreenFinding
from fuzz.screening.screen import Pattern, Screen, Sighting
from fuzz.screening.sets import Description, ScreeningSet, SetProgram, read_set
from oracle.errors import UsageError, WarpfuzzError
from oracle.targets import Module

_VIEW_SECONDS = 0.5
_LINE_SECONDS = 10.0
"""Time between two lines where nobody sees a live view."""
_IMAGES_WITHOUT_SET = 32
"""Images of each program where there is no set: all classes of values that a recipe has."""
_PROGRAMS_WITHOUT_SET = 256
"""Programs after which no more are made."""


@dataclass(frozen=True, kw_only=True)
class ScreenRequest:
    """Options of `warpfuzz screen`."""

    path: Path | None
    """The set; None: one is made meanwhile."""
    runner: str | None
    time: str
    devices: tuple[int, ...]
    pattern: str
    seed: int
    target: str | None
    corpus: Path
    faults: tuple[str, ...]
    ptx_pass: str | None
    assembler: str | None
    level: int | None
    junit: Path | None
    report: Path | None
    json: bool


@dataclass(kw_only=True)
class _Device:
    """One device and what became of it."""

    name: str
    choice: RunnerChoice
    screen: Screen | None = None
    examiner: Examiner | None = None
    error: WarpfuzzError | None = None
    started: float = 0.0
    seconds: float = 0.0
    news: list[ScreenFinding] = field(default_factory=list)
    incoming: list[SetProgram] = field(default_factory=list)
    """Programs that the screen has yet to take in."""

    @property
    def findings(self) -> list[ScreenFinding]:
        """What was stored for it."""
        return list(self.examiner.findings.values()) if self.examiner else []

    @property
    def is_wrong(self) -> bool:
        """Whether something differed, or brought it down."""
        wrong = self.screen is not None and self.screen.tally.total.wrong > 0
        return wrong or bool(self.findings)

    def view(self) -> DeviceView | None:
        """Return it as it is now; None until it is there."""
        screen = self.screen
        if screen is None:
            return None
        seconds = self.seconds or time.monotonic() - self.started
        return DeviceView(
            name=f"{self.name}: {screen.ready.device}",
            tally=screen.tally,
            health=screen.health,
            programs=screen.programs,
            launches=screen.launches,
            left_out=len(screen.left_out),
            per_second=screen.tally.total.cases / max(seconds, 1e-9),
        )


def run_screening(request: ScreenRequest) -> bool:
    """Screen; tell whether something differed.

    Raises
    ------
    UsageError
        If the options do not go together, or the set is damaged or for another target.
    DeviceLostError, InfrastructureError
        If a device is gone, or nothing can be run.
    """
    seconds = parse_duration(request.time)
    check_report(request.report)
    if request.junit is not None:
        check_junit(request.junit)
    made = read_set(request.path) if request.path is not None else None
    devices = _devices(request, made)
    corpus = create_corpus(request.corpus, generator=generator())
    stop = threading.Event()
    begun = time.monotonic()
    with _ending(stop):
        threads = [
            threading.Thread(
                target=_screen_one, args=(device, made, request, corpus, stop, seconds), daemon=True
            )
            for device in devices
        ]
        for thread in threads:
            thread.start()
        _watch(devices, threads, begun, json=request.json)
    took = time.monotonic() - begun
    _report(request, devices, made, took)
    errors = [device.error for device in devices if device.error is not None]
    if errors:
        raise errors[0]
    return any(device.is_wrong for device in devices)


def _devices(request: ScreenRequest, made: ScreeningSet | None) -> list[_Device]:
    name = request.runner or best_runner(
        planted=True,
        device_faults=has_device_fault(request.faults),
        has_assembler=lambda: False,
    )
    if name != "cuda" and request.devices:
        raise UsageError(
            f"--device {request.devices[0]} names a GPU, and the runner is {name}; leave it out, "
            "or choose --runner cuda"
        )
    target, version = request.target, None
    if made is not None:
        target, version = made.description.target, made.description.ptx_version
        if request.target not in (None, target):
            raise UsageError(
                f"the set {request.path} is for {target}, and --target is {request.target}; leave "
                "it out, or distill a set for it"
            )
    numbers = request.devices or tuple(range(visible_devices() if name == "cuda" else 1))
    return [
        _Device(
            name=f"GPU {number}" if name == "cuda" else "simulated device",
            choice=RunnerChoice(
                name=name,
                target=target,
                ptx_version=version,
                faults=request.faults,
                ptx_pass=request.ptx_pass,
                assembler=request.assembler,
                level=request.level,
                device=number,
            ),
        )
        for number in numbers
    ]


def _screen_one(
    device: _Device,
    made: ScreeningSet | None,
    request: ScreenRequest,
    corpus: Corpus,
    stop: threading.Event,
    seconds: float,
) -> None:
    """Screen a device until its time is over or somebody wants an end."""
    try:
        with opened(device.choice) as ready:
            module = Module.named(ready.target, ready.ptx_version)
            description = (
                made.description
                if made is not None
                else describe(module, seed=request.seed, covers={})
            )
            examiner = Examiner(description=description, corpus=corpus, device=device.name)
            sightings: list[Sighting] = []
            screen = Screen(
                ready,
                description,
                pattern=Pattern(request.pattern),
                seed=request.seed,
                seen=sightings.append,
            )
            device.examiner, device.screen = examiner, screen
            if made is not None:
                for program in made.programs:
                    screen.add(program)
            else:
                _make_meanwhile(device, module, request.seed, stop)
            device.started = time.monotonic()
            while not stop.is_set() and time.monotonic() - device.started < seconds:
                while device.incoming:
                    screen.add(device.incoming.pop())
                screen.step()
                while sightings:
                    found = examiner.examine(screen, sightings.pop())
                    if found is not None:
                        device.news.append(found)
            screen.finish()
            device.seconds = time.monotonic() - device.started
    except WarpfuzzError as error:
        device.error = error
        device.seconds = time.monotonic() - device.started if device.started else 0.0


def _make_meanwhile(device: _Device, module: Module, seed: int, stop: threading.Event) -> None:
    """Make programs while the device works on those that are there; the first one before."""
    forms = selected_forms(
        Selection(pattern="*"), target=module.target.name, version=str(module.version)
    )

    def programs() -> Iterator[SetProgram]:
        numbers = counting()
        for batches in candidates(forms, module, seed):
            for batch in batches:
                yield set_program(batch, next(numbers), _IMAGES_WITHOUT_SET, module)

    drawn = programs()
    device.incoming.append(next(drawn))

    def draw() -> None:
        for number, program in enumerate(drawn):
            if stop.is_set() or device.seconds or number >= _PROGRAMS_WITHOUT_SET:
                return
            device.incoming.append(program)

    threading.Thread(target=draw, daemon=True).start()


def _watch(
    devices: Sequence[_Device], threads: Sequence[threading.Thread], begun: float, *, json: bool
) -> None:
    """Show what happens until all devices are done."""
    out = console(stderr=json)

    def views() -> list[DeviceView]:
        return [view for view in (device.view() for device in devices) if view is not None]

    def wait(seconds: float, show: Callable[[], None]) -> None:
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(seconds / len(threads))
            for device in devices:
                while device.news:
                    _announce(device.news.pop(0), json=json)
            show()

    if out.is_terminal and not json and not out.is_dumb_terminal:
        with Live(console=out, auto_refresh=False, transient=True) as live:
            wait(
                _VIEW_SECONDS,
                lambda: live.update(
                    screening_view(views(), time.monotonic() - begun), refresh=True
                ),
            )
        return
    shown = [begun]

    def line() -> None:
        now = time.monotonic()
        if now - shown[0] < _LINE_SECONDS:
            return
        shown[0] = now
        for view in views():
            said = f", {sensors(view.health)}" if view.health else ""
            out.print(
                f"{now - begun:.0f} s, {view.name}: {view.per_second / 1e6:,.1f} million images a "
                f"second{said}; {view.tally.total}",
                markup=False,
                soft_wrap=True,
            )

    wait(_VIEW_SECONDS, line)


def _announce(finding: ScreenFinding, *, json: bool) -> None:
    if json:
        emit({"finding": _finding_row(finding)})
        return
    console().print(
        f"{finding.family.title}\n  {finding.sentence}\n  {finding.saved.path}",
        markup=False,
        soft_wrap=True,
    )


def _finding_row(finding: ScreenFinding) -> dict[str, object]:
    return {
        "id": finding.saved.id,
        "family": finding.family.key,
        "kind": finding.kind.value,
        "verdict": finding.kind.value,
        "known": False,
        "path": str(finding.saved.path),
        "title": finding.family.title,
        "message": finding.sentence,
    }


def _report(
    request: ScreenRequest,
    devices: Sequence[_Device],
    made: ScreeningSet | None,
    seconds: float,
) -> None:
    rows = [_device_row(device) for device in devices]
    if request.json:
        description: Description | None = made.description if made is not None else None
        emit(
            {
                "summary": {
                    "cases": sum(int(str(row["cases"])) for row in rows),
                    "wrong": sum(int(str(row["wrong"])) for row in rows),
                    "seconds": round(seconds, 3),
                    "seed": description.seed if description is not None else request.seed,
                    "pattern": request.pattern,
                    "set": str(request.path) if request.path is not None else None,
                    "devices": rows,
                    "findings": [
                        _finding_row(one) for device in devices for one in device.findings
                    ],
                }
            }
        )
    else:
        _print_report(request, devices, seconds)
    if request.report is not None:
        recorder = recording_console()
        recorder.print(_final_view(devices, seconds))
        save(recorder, request.report, title="warpfuzz screen")
    if request.junit is not None:
        write_junit(request.junit, _tests(devices), suite="warpfuzz screen")


def _final_view(devices: Sequence[_Device], seconds: float) -> object:
    views = [view for view in (device.view() for device in devices) if view is not None]
    return screening_view(views, seconds)


def _print_report(request: ScreenRequest, devices: Sequence[_Device], seconds: float) -> None:
    out = console()
    out.print(_final_view(devices, seconds))
    for device in devices:
        screen = device.screen
        if screen is None:
            continue
        for number in screen.tally.faulty.tolist():
            out.print(
                f"{device.name}, multiprocessor {number}: {screen.tally.rate(number)}",
                style="worst",
                markup=False,
                soft_wrap=True,
            )
        for item in screen.left_out:
            out.print(
                f"{device.name}: {item.source.entry} left out: {item.failures[-1]}",
                style="bad",
                markup=False,
                soft_wrap=True,
            )
    stored = sum(len(device.findings) for device in devices)
    if stored:
        out.print(
            f"{counted(stored, 'finding')} stored in {request.corpus}. Replay: "
            f"{shlex.join(('warpfuzz', 'replay', str(request.corpus)))}",
            markup=False,
            soft_wrap=True,
        )


def _device_row(device: _Device) -> dict[str, object]:
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
        "pattern": tally.pattern,
        "cases_per_second": round(total.cases / device.seconds) if device.seconds else None,
        "busy": round(screen.busy / device.seconds, 4) if device.seconds else None,
        "programs": screen.programs,
        "launches": screen.launches,
        "left_out": [
            {"program": item.source.entry, "why": str(item.failures[-1])}
            for item in screen.left_out
        ],
        "health": health,
        "throttling": throttling(health) if health is not None else "",
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


def _tests(devices: Sequence[_Device]) -> list[Test]:
    """Return a test for each multiprocessor, and for each program that was left out."""
    tests = []
    for device in devices:
        screen = device.screen
        if screen is None or device.error is not None:
            said = str(device.error)
            tests.append(
                Test(
                    group="warpfuzz.screen",
                    name=device.name,
                    seconds=device.seconds,
                    result="error",
                    message="it could not be screened",
                    text=said,
                )
            )
        if screen is None:
            continue
        for number in screen.tally.multiprocessors.tolist():
            rate = screen.tally.rate(number)
            tests.append(
                Test(
                    group=f"warpfuzz.screen.{device.name}",
                    name=f"multiprocessor {number}",
                    seconds=device.seconds,
                    result="failure" if rate.wrong else "passed",
                    message=str(rate),
                    text="\n".join(one.sentence for one in device.findings),
                )
            )
        tests += [
            Test(
                group=f"warpfuzz.screen.{device.name}",
                name=item.source.entry,
                seconds=0.0,
                result="failure",
                message="it brought the device down and was left out",
                text=str(item.failures[-1]),
            )
            for item in screen.left_out
        ]
    return tests


@contextmanager
def _ending(stop: threading.Event) -> Iterator[None]:
    """End the screening on SIGINT and SIGTERM; a second signal ends the program."""

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
