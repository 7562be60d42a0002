"""`warpfuzz screen`: whether one of these GPUs is wrong, and where.

`distill` makes a set.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

import msgspec

from corpus import Corpus, create_corpus
from corpus.known import Known, known_with
from fuzz.console.metrics import Row, screening_figures, serving
from fuzz.console.report import ended_by_signals
from fuzz.console.screening import (
    ScreenedDevice,
    Soundness,
    device_row,
    finding_row,
    preflight_row,
    screening_report,
)
from fuzz.findings.case import remember
from fuzz.options.declared import check_conflicts, parse_duration
from fuzz.options.operating import Distill, Screen
from fuzz.output import (
    Report,
    check_kind,
    check_output,
    emit,
    generator,
    report_expired,
    rows_of,
    say,
)
from fuzz.runner import (
    OpenRunner,
    RunnerChoice,
    drawn_versions,
    hardware_runner,
    judge_by,
    opened,
    visible_devices,
)
from fuzz.screening.examining import ScreenExaminer, ScreenFinding
from fuzz.screening.screen import ScreenRun as Screening
from fuzz.screening.sets import (
    ScreeningSet,
    SetProgram,
    SetScope,
    batches,
    candidates,
    describe,
    distill,
    judged,
    listed_devices,
    numbered,
    read_set,
    scope_of,
    write_set,
)
from oracle.errors import DeviceLostError, InfrastructureError, UsageError, WarpfuzzError
from oracle.isa.targets import Module
from oracle.models import model_for
from runners.compilers import named_assembler
from strategies.draws import Selection
from strategies.rounds import Batch, selected_forms

_LOOK_SECONDS = 0.1
_LINE_SECONDS = 10.0  # time between two lines about a device
_END_SECONDS = 90.0
"""How long after its end a device may still be waited for: a comparison that hangs is given up
after 70 s (`runners.cuda.runner`), and a process for the device starts anew."""
_IMAGES_WITHOUT_SET = 32
"""Images of each program where there is no set: all classes of values that a recipe has."""
_PROGRAMS_WITHOUT_SET = 256  # programs after which no more are made


def screen(options: Screen) -> bool:
    """Screen; tell whether something differed."""
    seconds = parse_duration(options.time)
    remember(options.ptx_pass)
    check_kind(options.report, ".html", ".svg")
    made = read_set(options.path) if options.path is not None else None
    known = known_with(options.known, nothing=options.no_known)
    try:
        devices = _devices(options, made)
    except InfrastructureError as error:
        if options.preflight:
            emit(gpu="", uuid="", verdict=Soundness.NOT_SCREENED, reason=str(error))
        raise
    corpus = create_corpus(options.corpus, generator=generator())
    job = _Job(made=made, options=options, corpus=corpus, known=known, seconds=seconds)
    begun = time.monotonic()

    def figures() -> Iterator[Row]:
        return screening_figures(
            (one.status, one.screen.tally.total.cases, one.screen.tally.total.wrong, one.per_second)
            for one in devices
            if one.screen is not None
        )

    with ended_by_signals(job.end), serving(options.metrics, figures):
        for device in devices:
            device.thread = threading.Thread(target=job.screen, args=(device,), daemon=True)
            device.thread.start()
        _watch(devices, begun, job)
        # Whoever still makes programs ends, too.
        stopped = job.stop.is_set()
        job.stop.set()
    for device in devices:
        device.stopped = stopped
        if device.works:
            device.seconds = time.monotonic() - (device.started or begun)
            device.error = DeviceLostError(
                f"{device.name}: what ran there has not come back {_END_SECONDS:g} s after the "
                "end; `nvidia-smi` says how the GPU is"
            )
    _report(options, devices, time.monotonic() - begun)
    report_expired(known)
    return _is_any_wrong(devices, preflight=options.preflight)


def _is_any_wrong(devices: Sequence[ScreenedDevice], *, preflight: bool) -> bool:
    """Return what the exit code says: 4 goes before 3; of a preflight, 1 before both."""
    found = [(device, *device.standing) for device in devices]
    wrong = any(standing is Soundness.WRONG for _, standing, _ in found)
    if wrong and preflight:
        return True
    errors = [device.error for device in devices if device.error is not None]
    for error in sorted(errors, key=lambda one: not isinstance(one, DeviceLostError)):
        raise error
    for device, standing, why in found:
        # What one GPU got wrong is told before what was not looked at on another.
        if standing is Soundness.NOT_SCREENED and not (wrong and device.cases):
            raise InfrastructureError(f"{device.name}: {why}")
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
    assembler = None if options.assembler is None else named_assembler(options.assembler)
    choice = RunnerChoice(
        name=name, target=target, ptx_version=version, assembler=assembler,
        **options.picked("faults", "ptx_pass", "level", "model"),
    )  # fmt: skip
    return [
        ScreenedDevice(name=shown, choice=replace(choice, device=number, visible=uuid))
        for shown, number, uuid in _named_devices(options, name)
    ]


def _named_devices(options: Screen, runner: str) -> list[tuple[str, int, str]]:
    """Return the name and number of each; the UUID where its process is to see nothing else."""
    if runner != "cuda":
        return [("simulated device", 0, "")]
    if options.preflight and not options.devices and "CUDA_VISIBLE_DEVICES" not in os.environ:
        listed = listed_devices()
        # A process sees one slice at most, and that only by its UUID (MIG User Guide, CUDA Device
        # Enumeration).
        if any(uuid.startswith("MIG-") for _, uuid in listed):
            return [(name, 0, uuid) for name, uuid in listed]
    numbers = options.devices or range(visible_devices())
    return [(f"GPU {number}", number, "") for number in numbers]


@dataclass
class _Making:
    """Programs that are being made, and what ended that."""

    programs: list[SetProgram] = field(default_factory=list)
    error: WarpfuzzError | None = None


@dataclass(kw_only=True)
class _Job:
    """What is screened with, how long, and where it is stored."""

    made: ScreeningSet | None
    options: Screen
    corpus: Corpus
    known: Known
    seconds: float
    stop: threading.Event = field(default_factory=threading.Event)
    making: dict[tuple[str, Module], _Making] = field(default_factory=dict)
    """Programs for devices that compute alike."""
    found: list[ScreenFinding] = field(default_factory=list)  # on any device
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: float = math.inf  # when somebody wanted an end (time.monotonic)

    def end(self) -> None:
        """End before the time is over."""
        self.ended = time.monotonic()
        self.stop.set()

    def is_late(self, device: ScreenedDevice) -> bool:
        """Whether a device has not come to its end long after it had to."""
        own = device.started + self.seconds if device.started else math.inf
        return time.monotonic() - min(own, self.ended) > _END_SECONDS

    def made_for(self, ready: OpenRunner, module: Module, scope: SetScope | None) -> _Making:
        """Return programs for a device, which are made while devices work on those there are."""
        key = ready.oracle_target, module
        with self.lock:
            if key not in self.making:
                made = self.making[key] = _Making()

                def make() -> None:
                    try:
                        for number, one in enumerate(self._batches(ready, module, scope)):
                            if self.stop.is_set():
                                return
                            made.programs.append(judged(one, number, ready.oracle_target))
                    except WarpfuzzError as error:
                        made.error = error

                threading.Thread(target=make, daemon=True).start()
            return self.making[key]

    def _batches(
        self, ready: OpenRunner, module: Module, scope: SetScope | None
    ) -> Iterable[Batch]:
        seed, most = self.options.seed, _PROGRAMS_WITHOUT_SET
        if self.made is not None:
            return self.made.programs
        if scope is not None:
            draws = batches(scope, module, seed)
            most = sum(len(group.known) for group in scope.values())
        else:
            forms = selected_forms(
                Selection(pattern=self.options.only), target=module.target.name,
                version=str(module.version), groups=bool(ready.groups),
            )  # fmt: skip
            # The simulated device, which takes a second for each turn of such a loop, has no load.
            draws = candidates(forms, module, seed, loads=ready.choice.name == "cuda")
        drawn = enumerate(islice(chain.from_iterable(draws), most))
        return (numbered(batch, number, _IMAGES_WITHOUT_SET) for number, batch in drawn)

    def is_over(self, device: ScreenedDevice) -> bool:
        return time.monotonic() - device.started >= self.seconds

    def screen(self, device: ScreenedDevice) -> None:
        """Screen a device until its time is over or somebody wants an end."""
        try:
            with opened(device.choice) as ready:
                self._screen(device, ready)
        except WarpfuzzError as error:
            device.error = error
            device.seconds = time.monotonic() - device.started if device.started else 0.0

    def _screen(self, device: ScreenedDevice, ready: OpenRunner) -> None:
        made, options = self.made, self.options
        if options.preflight and made is None:
            ready = replace(ready, ptx_version=drawn_versions(ready).every[-1])
        module = Module.named(ready.target, ready.ptx_version)
        if options.preflight:
            groups = made is not None or bool(ready.groups)
            device.scope = scope_of(module, ready.oracle_target, groups=groups)
        description = made.description if made else describe(module, seed=options.seed)
        screening = device.screen = Screening(
            ready, description, bursts=options.pattern == "bursts", seed=options.seed,
            fresh=options.fresh,
        )  # fmt: skip
        examiner = ScreenExaminer(screening, device=device.name)

        def examine() -> None:
            for found in examiner.new():
                found.keep(self.corpus, self.known)
                device.kept.append(found)
                self.found.append(found)

        making = self.made_for(ready, module, device.scope)
        while not (making.programs or making.error or self.stop.is_set()):
            time.sleep(_LOOK_SECONDS)
        device.started = time.monotonic()
        while not self.stop.is_set() and not self.is_over(device):
            if making.error is not None:
                raise making.error
            for program in making.programs[len(device.programs) :]:
                device.programs[program.entry] = program
                screening.add(program)
            screening.step()
            examine()
        screening.finish()
        device.seconds = time.monotonic() - device.started
        examine()
        if screening.doubtful and not device.is_wrong:
            raise InfrastructureError(
                f"{screening.doubtful}; there was no time to run it again: give it longer (--time)"
            )


def _watch(devices: Sequence[ScreenedDevice], begun: float, job: _Job) -> None:
    """Say what is found and how far devices are, until all are done or late."""
    options, shown, told, works = job.options, begun, 0, True
    apart = options.json or options.preflight
    while works:
        time.sleep(_LOOK_SECONDS)
        works = any(device.works and not job.is_late(device) for device in devices)
        for found in job.found[told:]:
            told += 1
            row = finding_row(found)
            if options.json and not options.preflight:
                emit({"finding": row})
            else:
                say(f"{found.title}\n  {found.sentence}\n  {row['path']}", stderr=apart)
        if works and time.monotonic() - shown >= _LINE_SECONDS:
            shown = time.monotonic()
            for device in devices:
                say(f"{shown - begun:.0f} s, {device.line}", stderr=apart)


def _report(options: Screen, devices: Sequence[ScreenedDevice], seconds: float) -> None:
    used = next((one.screen for one in devices if one.screen is not None), None)
    seed = used.description.seed if used else options.seed
    judged_by = model_for(used.ready.oracle_target).name if used else None
    found = [finding_row(found) for device in devices for found in device.kept]
    rows = [*map(device_row, devices)]
    report = screening_report(options, rows, found, seconds, seed=seed, model=judged_by)
    if options.preflight:
        report = replace(report, rows=rows_of(map(preflight_row, devices)), summary=None)
    json = options.json or options.preflight
    report.write(json=json, **options.picked("junit", "report"))


def make_set(options: Distill) -> None:
    """Make a set and write it."""
    output, target, json = options.output, options.target, options.json
    check_output("--output", output)
    module = Module.named(target, options.ptx_version)
    if options.model is not None:
        judge_by(Path(options.model), own=target, device="the set's target")
    forms = selected_forms(
        Selection(pattern=options.only), target=module.target.name, version=str(module.version),
        groups=True,
    )  # fmt: skip
    begun = time.monotonic()
    made = distill(forms, module, seed=options.seed, images=options.images)
    write_set(output, made)
    seconds, description = time.monotonic() - begun, made.description
    sentences = [
        f"{made.images:,} images of {len(made.programs)} programs for {target}, seed "
        f"{options.seed}, by the model {description.model}, in {seconds:.0f} s: {output}"
    ]
    for line in description.covers:
        missing = f"; not {', '.join(line.missing[:4])}" if line.missing else ""
        sentences.append(f"  {line.name}: {line.reached:,} of {line.total:,}{missing}")
    counts = {"images": made.images, "programs": len(made.programs)}
    more = {"path": str(output), "seconds": round(seconds, 3)}
    summary = counts | msgspec.structs.asdict(description) | more
    Report(sentences=sentences, summary=summary).write(json=json)
