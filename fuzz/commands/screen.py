"""`warpfuzz screen`: whether one of these GPUs is wrong, and which of its multiprocessors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count as counting
from pathlib import Path

from rich.live import Live

from corpus import Corpus, create_corpus
from corpus.known import Known, known_with
from fuzz.campaign.rounds import parse_duration
from fuzz.console import serving
from fuzz.console.devices import readings
from fuzz.console.report import check_report, recording_console, save
from fuzz.console.screening import (
    NOTHING_COMPARED,
    ScreenedDevice,
    announce,
    device_row,
    emit_summary,
    finding_row,
    print_screening,
    rate_words,
    refuted_words,
    screening_view,
    tests_of,
    views,
)
from fuzz.options import Screen, check_conflicts
from fuzz.output import (
    check_junit,
    console,
    generator,
    report_expired,
    say,
    write_junit,
)
from fuzz.runner import (
    OpenRunner,
    RunnerChoice,
    hardware_runner,
    opened,
    visible_devices,
)
from fuzz.screening.distilling import candidates, describe, set_program
from fuzz.screening.examining import Examiner
from fuzz.screening.screen import Pattern, Sighting
from fuzz.screening.screen import Screen as Screening
from fuzz.screening.sets import Description, ScreeningSet, SetProgram, read_set
from fuzz.signals import ended_by_signals
from oracle.errors import InfrastructureError, UsageError, WarpfuzzError
from oracle.models import model_for
from oracle.targets import Module
from runners.compilers import named_assembler
from strategies.draws import Selection
from strategies.program_draws import selected_forms

_VIEW_SECONDS = 0.5
_LINE_SECONDS = 10.0
"""Time between two lines where nobody sees a live view."""
_IMAGES_WITHOUT_SET = 32
"""Images of each program where there is no set: all classes of values that a recipe has."""
_PROGRAMS_WITHOUT_SET = 256
"""Programs after which no more are made."""


def screen(options: Screen) -> bool:
    """Screen; tell whether something differed."""
    seconds = parse_duration(options.time)
    check_report(options.report)
    if options.junit is not None:
        check_junit(options.junit)
    made = read_set(options.path) if options.path is not None else None
    known = known_with(options.known)
    devices = _devices(options, made)
    corpus = create_corpus(options.corpus, generator=generator())
    job = _Job(made=made, options=options, corpus=corpus, known=known, seconds=seconds)
    begun = time.monotonic()
    metrics = serving(options.metrics, "ScreeningMetrics", lambda: views(devices))
    with ended_by_signals(job.stop.set), metrics:
        threads = [
            threading.Thread(target=job.screen, args=(device,), daemon=True) for device in devices
        ]
        for thread in threads:
            thread.start()
        _watch(devices, threads, begun, json=options.json)
    _report(options, devices, made, time.monotonic() - begun)
    report_expired(known)
    errors = [device.error for device in devices if device.error is not None]
    if errors:
        raise errors[0]
    idle = [device.name for device in devices if not device.cases]
    if idle and not job.stop.is_set():
        raise InfrastructureError(f"{', '.join(idle)}: {NOTHING_COMPARED}")
    wrong = any(device.is_wrong for device in devices)
    refuted = [
        refuted_words(device, one)
        for device in devices
        if device.screen is not None
        for one in device.screen.refuted
    ]
    if refuted and not wrong:
        raise InfrastructureError(
            f"{refuted[0]}; nothing else is wrong. Distill the set again, or get it from where it "
            "is right"
        )
    return wrong


def _devices(options: Screen, made: ScreeningSet | None) -> list[ScreenedDevice]:
    name = hardware_runner(options.runner)
    check_conflicts(options.but(runner=name), "screen")
    target, version = options.target, None
    if made is not None:
        target, version = made.description.target, made.description.ptx_version
        if options.target not in (None, target):
            raise UsageError(
                f"the set {options.path} is for {target}, and --target is {options.target}; leave "
                "it out, or distill a set for it"
            )
    numbers = options.devices or tuple(range(visible_devices() if name == "cuda" else 1))
    assembler = None if options.assembler is None else named_assembler(options.assembler)
    return [
        ScreenedDevice(
            name=f"GPU {number}" if name == "cuda" else "simulated device",
            set_name=str(options.path or ""),
            choice=RunnerChoice(
                name=name,
                target=target,
                ptx_version=version,
                device=number,
                assembler=assembler,
                **options.picked("faults", "ptx_pass", "level", "model"),
            ),
        )
        for number in numbers
    ]


@dataclass(kw_only=True)
class _Job:
    """What is screened with, how long, and where it is stored."""

    made: ScreeningSet | None
    options: Screen
    corpus: Corpus
    known: Known
    seconds: float
    stop: threading.Event = field(default_factory=threading.Event)

    def screen(self, device: ScreenedDevice) -> None:
        """Screen a device until its time is over or somebody wants an end."""
        try:
            with opened(device.choice) as ready:
                self._screen(device, ready)
        except WarpfuzzError as error:
            device.error = error
            device.seconds = time.monotonic() - device.started if device.started else 0.0

    def _screen(self, device: ScreenedDevice, ready: OpenRunner) -> None:
        made, options, stop = self.made, self.options, self.stop
        module = Module.named(ready.target, ready.ptx_version)
        if made is None:
            description = describe(module, seed=options.seed, covers={})
        else:
            description = made.description
            if options.model is not None:
                _check_model(description, options.model)
        examiner = Examiner(
            description=description,
            device=device.name,
            uuid=ready.uuid,
            set_name=Path(device.set_name).name,
        )
        sightings: list[Sighting] = []
        screening = device.screen = Screening(
            ready,
            description,
            pattern=Pattern(options.pattern),
            seed=options.seed,
            grows=made is None,
            seen=sightings.append,
        )

        def examine() -> None:
            while sightings:
                for found in examiner.examine(screening, sightings.pop(0)):
                    if found.keep(self.corpus, self.known):
                        device.kept.append(found)
                        device.news.append(found)

        if made is None:
            _make_meanwhile(device, module, options.seed, stop)
        for program in made.programs if made is not None else ():
            screening.add(program)
        device.started = time.monotonic()
        while not stop.is_set() and time.monotonic() - device.started < self.seconds:
            while device.incoming:
                screening.add(device.incoming.pop())
            screening.step()
            examine()
        screening.finish()
        device.seconds = time.monotonic() - device.started
        examine()


def _check_model(description: Description, model: str) -> None:
    used = model_for(description.architecture).name
    if used.rpartition(" ")[2] != description.model.rpartition(" ")[2]:
        raise UsageError(
            f"the set's images are judged by the model {description.model or 'of its time'}, and "
            f"--model {model} is {used}; leave --model out, or distill a set with it"
        )


def _make_meanwhile(
    device: ScreenedDevice, module: Module, seed: int, stop: threading.Event
) -> None:
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
    devices: Sequence[ScreenedDevice],
    threads: Sequence[threading.Thread],
    begun: float,
    *,
    json: bool,
) -> None:
    out = console(stderr=json)

    def wait(seconds: float, show: Callable[[], None]) -> None:
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(seconds / len(threads))
            for device in devices:
                while device.news:
                    announce(device.news.pop(0), out, json=json)
            show()

    if out.is_terminal and not json and not out.is_dumb_terminal:
        with Live(console=out, auto_refresh=False, transient=True) as live:
            wait(
                _VIEW_SECONDS,
                lambda: live.update(
                    screening_view(devices, time.monotonic() - begun), refresh=True
                ),
            )
        return
    shown = [begun]

    def line() -> None:
        now = time.monotonic()
        if now - shown[0] < _LINE_SECONDS:
            return
        shown[0] = now
        for view in views(devices):
            say(
                f"{now - begun:.0f} s, {view.device.name}: {rate_words(view.per_second)}"
                f"{readings(view.device)}; {view.screen.tally.total}",
                stderr=json,
            )

    wait(_VIEW_SECONDS, line)


def _report(
    options: Screen,
    devices: Sequence[ScreenedDevice],
    made: ScreeningSet | None,
    seconds: float,
) -> None:
    if options.json:
        seed, judged_by = options.seed, None
        targets = [device.screen.ready.target for device in devices if device.screen is not None]
        if made is not None:
            seed, judged_by = made.description.seed, made.description.model or None
        elif targets:
            judged_by = model_for(targets[0]).name
        rows = [device_row(device) for device in devices]
        found = [finding_row(one) for device in devices for one in device.kept]
        emit_summary(options, rows, found, seconds, seed=seed, model=judged_by)
    else:
        print_screening(devices, seconds, options.corpus)
    if options.report is not None:
        recorder = recording_console()
        recorder.print(screening_view(devices, seconds))
        save(recorder, options.report, title="warpfuzz screen")
    if options.junit is not None:
        write_junit(options.junit, tests_of(devices), suite="warpfuzz screen")
