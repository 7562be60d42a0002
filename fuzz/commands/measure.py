"""`warpfuzz measure`: the model of a device, found out by probes."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from corpus import durable
from fuzz.measuring.device import Crew, Device, Here, crew_of
from fuzz.measuring.measurement import (
    MeasuredFigure,
    MeasuredResult,
    Measurer,
    joined_model,
    measured_model,
)
from fuzz.options import Measure, check_conflicts
from fuzz.output import console, counted, emit
from fuzz.runner import OpenRunner, RunnerChoice, cores, hardware_runner, opened
from oracle.errors import UsageError
from oracle.formats import FORMATS
from oracle.forms import Form
from oracle.isa import FORMS
from oracle.measuring.inference import Contradiction
from oracle.measuring.units import module_of_all, units_of
from oracle.models import Model, NanRule, model_for
from oracle.models.files import model_text
from oracle.targets import Module, parse_release
from runners.assemblers.assembler import Assembler
from runners.assemblers.discovery import find
from runners.compilers import select
from strategies.programs import is_valued

_IMAGES = {"cuda": 1_048_576, "sim": 1_024}
"""Random images of each unit: a GPU takes a million a second, the simulated device a thousand."""


def measure_device(options: Measure) -> bool:
    """Measure, print what was found, and write the model; tell whether it is another than known.

    Raises
    ------
    WarpfuzzError
        If the request is wrong, or the runner or the file does not work.
    """
    name = hardware_runner(options.runner)
    report = _Report(options)
    started = time.monotonic()
    for assembler in _assemblers(options):
        choice = RunnerChoice(
            name=name, target=options.target, ptx_version=options.ptx_version,
            faults=options.faults, device=options.device,
            assembler=None if assembler is None else str(assembler.path),
        )  # fmt: skip
        _measure(choice, assembler, options, report)
    return report.end(seconds=time.monotonic() - started)


def _assemblers(options: Measure) -> Sequence[Assembler | None]:
    """Return the assemblers whose code is measured, older ones first; None is the driver's."""
    if options.compilers is None:
        return [None if options.assembler is None else find(options.assembler)]
    check_conflicts(options, "measure")
    selected = select(options.compilers)
    found: list[Assembler | None] = []
    for candidate in selected.candidates:
        if not isinstance(candidate.here, Assembler):
            raise UsageError(
                f"ptxas {candidate.name} is not here; fetch it with `warpfuzz compilers fetch "
                f"{candidate.name}`"
            )
        found.append(candidate.here)
    return [*found, None] if selected.driver else found


def _measure(
    choice: RunnerChoice, assembler: Assembler | None, options: Measure, report: _Report
) -> None:
    """Measure a device with the code of one compiler."""
    most = None if assembler is None else assembler.highest_version
    with opened(choice) as ready:
        module = (
            Module.named(ready.target, ready.ptx_version)
            if options.ptx_version
            else module_of_all(ready.target, most)
        )
        units = units_of(module, options.only)
        forms = tuple(form for unit in units for form in unit.forms)
        device = Device(ready.runner, module, forms)
        known = model_for(device.compiled.oracle_target)
        with _confirmers(options, ready, device, module, forms) as (confirmer, map_fits):
            measurer = Measurer(
                device, known, confirmer, images=options.images or _IMAGES[choice.name],
                seed=options.seed, map_fits=map_fits,
            )  # fmt: skip
            report.begin(ready, known, device.compiled.release, assembler)
            for result in measurer.measure(units):
                report.unit(result)


@contextmanager
def _confirmers(
    options: Measure,
    ready: OpenRunner,
    device: Device,
    module: Module,
    forms: tuple[Form, ...],
) -> Iterator[tuple[Here | Crew, Callable[..., Any]]]:
    """Return what confirms, and what computes fits: processes with a GPU, else this one."""
    workers = options.workers or max(1, cores() - 1)
    if ready.choice.name != "cuda" or workers == 1:
        yield Here(device), map
        return
    with crew_of(ready.choice, module, forms, workers) as crew:
        yield crew, crew.pool.map


@dataclass(kw_only=True)
class _Measured:
    """What was found with one compiler."""

    ready: OpenRunner
    known: Model
    release: str
    """Of CUDA; empty where the device reads the PTX itself."""
    compiler: str
    """As it is shown; empty where none was named."""
    results: list[MeasuredResult]

    @property
    def model(self) -> Model:
        """The model of these results."""
        day = datetime.now(tz=UTC).date().isoformat()
        with_ = f", {self.compiler}" if self.compiler else ""
        source = f"warpfuzz measure, {self.ready.device}{with_}, {day}"
        return measured_model(self.known.base, self.results, source)


class _Report:
    """Prints results as they come, and what they amount to."""

    def __init__(self, options: Measure) -> None:
        self.options = options
        self.measured: list[_Measured] = []
        self.out = console()

    def begin(
        self, ready: OpenRunner, known: Model, release: str, assembler: Assembler | None
    ) -> None:
        """Say what is measured now."""
        compiler = "" if assembler is None else f"ptxas {assembler.version}"
        self.measured.append(
            _Measured(ready=ready, known=known, release=release, compiler=compiler, results=[])
        )
        if not self.options.json:
            with_ = f" with code of {compiler}" if compiler else ""
            self.out.print(f"Measuring {ready.device}{with_}.", markup=False, soft_wrap=True)

    def unit(self, result: MeasuredResult) -> None:
        """Print one unit."""
        now = self.measured[-1]
        now.results.append(result)
        if self.options.json:
            emit({**_as_json(result), **({"compiler": now.compiler} if now.compiler else {})})
        elif result.contradiction is not None:
            _print_refusal(self.out, result, result.contradiction)
        else:
            _print_figures(self.out, result)

    def end(self, *, seconds: float) -> bool:
        """Print the sum, and write the file; tell whether something is another than known."""
        ready, known = self.measured[-1].ready, self.measured[-1].known
        results = [result for one in self.measured for result in one.results]
        refused = [result.unit.name for result in results if result.contradiction is not None]
        figures = [figure for result in results for figure in result.figures]
        told = [figure for figure in figures if figure.is_told]
        open_ = sum(not figure.is_told and figure.is_known for figure in figures)
        asked, same = len(figures) - open_, sum(figure.is_known for figure in told)
        differs = not all(figure.is_known for figure in figures)
        images = sum(result.images for result in results)
        ordered = sorted(self.measured, key=lambda one: parse_release(one.release or "unknown"))
        model = joined_model([(one.release, one.model) for one in ordered])
        output = self.options.output
        if output is not None:
            durable.write_output(output, model_text(model).encode())
        if self.options.json:
            emit({"summary": {
                "device": ready.device, "target": known.base, "figures": asked,
                "as_in_model": same, "not_told_apart": open_, "refused": refused, "images": images,
                "seconds": round(seconds, 1), "seed": self.options.seed,
                "known_model": known.name, "model": model.digest[:12],
                "output": None if output is None else str(output),
            }})  # fmt: skip
            return bool(refused) or differs
        self.out.print(
            f"{same} of {counted(asked, 'figure')} as in the model of {known.base}"
            + (f"; {open_} more not told apart from other values" if open_ else "")
            + (f"; {counted(len(refused), 'unit')} refused" if refused else "")
            + f". {images:,} random images agree. {seconds:.0f} s.",
            markup=False, soft_wrap=True,
        )  # fmt: skip
        if output is not None:
            command = shlex.join(("warpfuzz", "run", "--model", str(output)))
            self.out.print(
                f"Written to {output}: `{command}` judges by it"
                + _left_out(model, ready.target),
                markup=False, soft_wrap=True,
            )  # fmt: skip
        return bool(refused) or differs


def _left_out(model: Model, target: str) -> str:
    """Say what a campaign that is judged by the model leaves out."""
    forms = [
        form
        for form in FORMS
        if form.is_product and is_valued(form, module_of_all(target)) and not model.judges(form)
    ]
    if not forms:
        return "."
    return f", and leaves out {counted(len(forms), 'form')} of which it has no figures."


def _as_json(result: MeasuredResult) -> dict[str, Any]:
    refusal = result.contradiction
    return {
        "unit": result.unit.name,
        "probes": result.probes,
        "images": result.images,
        "figures": {
            figure.name: {
                "value": _plain(figure.value), "known": _plain(figure.known),
                "same": figure.is_known, "refuting": figure.finding.refuting,
                "not_told_apart": [
                    _plain(other)
                    for other in (figure.finding.value, *figure.finding.others)
                    if other != figure.value
                ],
            }
            for figure in result.figures
        },
        "refused": None if refusal is None else asdict(refusal),
    }  # fmt: skip


def _plain(value: Any) -> Any:
    return asdict(value) if isinstance(value, NanRule) else value


def _shown(figure: MeasuredFigure, value: Any) -> str:
    if isinstance(value, NanRule):
        kept = f"of {', '.join(value.order)}" if value.order else f"{value.canonical:#x}"
        return f"{kept}; invalid {value.invalid:#x}"
    return f"{value:#x}" if figure.name == "nan" and isinstance(value, int) else str(value)


def _print_figures(out: Console, result: MeasuredResult) -> None:
    table = Table(box=None, pad_edge=False, title=escape(result.unit.name), title_justify="left")
    for heading in ("figure", "value", "model", "probes against others", "not told apart"):
        table.add_column(heading, overflow="fold")
    for figure in result.figures:
        finding = figure.finding
        known = "same" if figure.is_known else f"[worst]{escape(_shown(figure, figure.known))}[/]"
        others = [one for one in (finding.value, *finding.others) if one != figure.value]
        apart = "" if not others else _range(others) if len(others) > 3 else str(others)[1:-1]
        table.add_row(
            figure.name.replace("_", " "), escape(_shown(figure, figure.value)), known,
            f"{finding.refuting:,}" if finding.refuting else "", escape(apart),
        )  # fmt: skip
    out.print(table)
    out.print(
        f"{counted(result.probes, 'probe')}, and {counted(result.images, 'random image')}: 0 differ"
        ".\n", markup=False, soft_wrap=True,
    )  # fmt: skip


def _range(values: list[Any]) -> str:
    if all(isinstance(value, int) for value in values):
        return f"{len(values)} from {min(values)} to {max(values)}"
    return ", ".join(map(str, values))


def _print_refusal(out: Console, result: MeasuredResult, refusal: Contradiction) -> None:
    """Say which probe no figures explain, with its values."""
    d, multiplicand, _, c = (FORMATS[name] for name in result.unit.types.split("."))
    products = [f"{x:#x} x {y:#x}" for x, y in zip(refusal.a, refusal.b, strict=True) if x or y]
    nearest = (
        ""
        if refusal.nearest is None
        else (f", and the nearest figures give {refusal.nearest:#0{d.bits // 4 + 2}x}")
    )
    out.print(
        f"{result.unit.name}: refused. No rule that a model can express gives what the device "
        f"returns for {counted(refusal.differing, 'probe')} of {refusal.among:,}. The first one "
        f"shows {refusal.family}: {multiplicand.name} products {', '.join(products)}, "
        f"C {refusal.c:#x} ({c.name}): the device returns "
        f"{refusal.returned:#0{d.bits // 4 + 2}x}{nearest}.\n",
        style="bad", markup=False, soft_wrap=True,
    )  # fmt: skip
