"""`warpfuzz measure`: the model of a device, found out by probes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rich.text import Text

from corpus import durable
from fuzz.measuring import (
    MeasuredResult,
    Measurer,
    ProbedDevice,
    confirm,
    confirmed_there,
    joined_model,
    measured_model,
)
from fuzz.options.declared import check_conflicts
from fuzz.options.testing import Measure
from fuzz.output import (
    Report,
    ReportColumn,
    ReportRow,
    Section,
    check_output,
    counted,
    rows_of,
    say,
    typed,
)
from fuzz.runner import OpenRunner, RunnerChoice, cores, hardware_runner, make_here, opened
from oracle.isa.forms import FORMATS
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module, parse_release, parse_target
from oracle.measuring.inference import Contradiction, module_of_all, units_of
from oracle.models import Confidence, Model, NanRule, model_for
from oracle.models.files import model_text
from runners.assemblers.assembler import Assembler
from runners.compilers import find_assembler, select
from runners.processes import process_pool
from strategies.programs import is_valued

_IMAGES = {"cuda": 1_048_576, "sim": 1_024}
"""Random images of each unit: a GPU takes a million a second, the simulated device a thousand."""


def measure_device(options: Measure) -> bool:
    """Measure, print what was found, and write the model; tell whether it is another than known."""
    check_output("--output", options.output)
    measured: list[_Measured] = []
    started = time.monotonic()
    try:
        for assembler in _assemblers(options):
            _measure(assembler, options, measured)
    except (KeyboardInterrupt, SystemExit):
        # What was measured until then is so, and may have taken an hour.
        if measured:
            _end(measured, options, time.monotonic() - started, stopped=True)
        raise
    return _end(measured, options, time.monotonic() - started)


def _assemblers(options: Measure) -> Sequence[Assembler | None]:
    """Return the assemblers whose code is measured, older ones first; None is the driver's."""
    if options.compilers is None:
        return [None if options.assembler is None else find_assembler(options.assembler)]
    check_conflicts(options, "measure")
    selected = select(options.compilers)
    found = [one if isinstance(one, Assembler) else None for one in selected.toolchains]
    return [*found, None] if selected.driver else found


@dataclass(kw_only=True)
class _Measured:
    """What was found out of the code of one compiler."""

    ready: OpenRunner
    known: Model
    release: str  # Release of CUDA of the compiler; empty if the device reads the PTX itself
    compiler: str  # As it is shown; empty where none was named
    results: list[MeasuredResult] = field(default_factory=list)

    @property
    def model(self) -> Model:
        day = datetime.now(tz=UTC).date().isoformat()
        with_ = f", {self.compiler}" if self.compiler else ""
        source = f"warpfuzz measure, {self.ready.device}{with_}, {day}"
        # Not that of the relative whose figures are built in: `--model` asks for the device's own.
        target = f"sm_{parse_target(self.known.target).number}"
        is_gpu = self.ready.choice.name == "cuda"
        confidence = Confidence.MEASURED if is_gpu else Confidence.SIMULATED
        return measured_model(target, self.results, source, confidence)


def _measure(assembler: Assembler | None, options: Measure, measured: list[_Measured]) -> None:
    choice = RunnerChoice(
        name=hardware_runner(options.runner), target=options.target,
        ptx_version=options.ptx_version, faults=options.faults, device=options.device,
        assembler=assembler,
    )  # fmt: skip
    most = None if assembler is None else assembler.highest_version
    with opened(choice) as ready, ExitStack() as stack:
        module = module_of_all(ready.target, most)
        if options.ptx_version:
            module = Module.named(ready.target, ready.ptx_version)
        units = units_of(module, options.only)
        forms = tuple(form for unit in units for form in unit.forms)
        device = ProbedDevice(ready.runner, module, forms)
        known = model_for(device.compiled.oracle_target)
        workers = options.workers or max(1, cores() - 1)
        map_fits: Callable[..., Any] = map
        confirmer: Callable[..., Any] = partial(map, partial(confirm, device=device))
        if choice.name == "cuda" and workers > 1:
            pool = stack.enter_context(
                process_pool(workers, make_here, ready.choice, ProbedDevice, module, forms)
            )
            map_fits, confirmer = pool.map, partial(pool.map, confirmed_there)
        measurer = Measurer(
            device, known, confirmer, images=options.images or _IMAGES.get(choice.name, 1_024),
            seed=options.seed, map_fits=map_fits,
        )  # fmt: skip
        compiler = "" if assembler is None else assembler.named
        now = _Measured(
            ready=ready, known=known, release=device.compiled.release, compiler=compiler
        )
        measured.append(now)
        if not options.json:
            say(f"Measuring {ready.device}{f' with code of {compiler}' if compiler else ''}.")
        for result in measurer.measure(units):
            now.results.append(result)
            row = {**_as_json(result), **({"compiler": compiler} if compiler else {})}
            _unit_report(result, row).write(json=options.json)


def _end(
    measured: Sequence[_Measured], options: Measure, seconds: float, *, stopped: bool = False
) -> bool:
    """Print the sum, and write the file; tell whether something is another than known."""
    # `stopped`: whether a signal ended it before all units were measured.
    ready, known = measured[-1].ready, measured[-1].known
    results = [result for one in measured for result in one.results]
    refused = sum(result.contradiction is not None for result in results)
    figures = [figure for result in results for figure in result.figures.values()]
    told = [figure for figure in figures if figure.is_told or not figure.is_known]
    same, open_ = sum(figure.is_known for figure in told), len(figures) - len(told)
    images = sum(result.images for result in results)
    ordered = sorted(measured, key=lambda one: parse_release(one.release or "unknown"))
    model = joined_model([(one.release, one.model) for one in ordered])
    output = options.output
    sentences = [f"Stopped before the end, after {counted(len(results), 'unit')}."] * stopped
    sentences.append(
        f"{same} of {counted(len(told), 'figure')} as in the model of {known.base}"
        + (f"; {open_} more not told apart from other values" if open_ else "")
        + (f"; {counted(refused, 'unit')} refused" if refused else "")
        + f". {images:,} random images agree. {seconds:.0f} s."
    )
    if output is not None:
        durable.write_output(output, model_text(model).encode())
        name = ready.choice.name
        # By itself `run` takes a GPU, or else asks ptxas, and a simulated sm_90.
        where = () if name == "cuda" else ("--runner", name, "--target", ready.target)
        command = typed(("warpfuzz", "run", *where, "--model", output))
        module = module_of_all(ready.target)
        judged = [form for form in FORMS if form.is_product and is_valued(form, module)]
        left = sum(not model.judges(form) for form in judged)
        rest = (
            f", and leaves out {counted(left, 'form')} of which it has no figures" if left else ""
        )
        sentences.append(f"Written to {output}: `{command}` judges by it{rest}.")
        if model.confidence is not Confidence.MEASURED:
            sentences.append(f"Its figures are marked {model.confidence}: no GPU was measured.")
    summary = {
        "device": ready.device, "target": known.base, "figures": len(told), "as_in_model": same,
        "not_told_apart": open_, "refused": refused, "images": images,
        "seconds": round(seconds, 1), "seed": options.seed, "known_model": known.name,
        "model": model.digest[:12], "output": None if output is None else str(output),
        "stopped": stopped,
    }  # fmt: skip
    Report(sentences=sentences, summary=summary).write(json=options.json)
    return bool(refused) or not all(figure.is_known for figure in figures)


def _as_json(result: MeasuredResult) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        return asdict(value) if isinstance(value, NanRule) else value

    refusal = result.contradiction
    return {
        "unit": result.unit.name,
        "probes": result.probes,
        "images": result.images,
        "figures": {
            name: {
                "value": plain(figure.chosen), "known": plain(figure.known),
                "same": figure.is_known, "refuting": figure.refuting,
                "not_told_apart": list(map(plain, figure.rivals)),
            }
            for name, figure in result.figures.items()
        },
        "refused": None if refusal is None else asdict(refusal),
    }  # fmt: skip


def _shown(value: Any) -> str:
    if isinstance(value, NanRule):
        kept = f"of {', '.join(value.order)}" if value.order else f"{value.canonical:#x}"
        return f"{kept}; invalid {value.invalid:#x}"
    return f"{value:#x}" if isinstance(value, int) and value > 999 else str(value).lower()


_COLUMNS = (
    *(ReportColumn(name) for name in ("figure", "value", "model")),
    ReportColumn("probes against others", number=True),
    ReportColumn("not told apart"),
)


def _unit_report(result: MeasuredResult, row: Mapping[str, Any]) -> Report:
    rows, refusal = [ReportRow(data=row, listed=False)], result.contradiction
    if refusal is not None:
        return Report(rows=rows, sentences=[Text(_refusal(result, refusal), style="bad"), ""])
    figures = [
        {
            "figure": name.replace("_", " "),
            "value": _shown(figure.chosen),
            "model": "same" if figure.is_known else Text(_shown(figure.known), "worst"),
            "probes against others": figure.refuting or "",
            "not told apart": _not_told_apart(figure.rivals),
        }
        for name, figure in result.figures.items()
    ]
    images = counted(result.images, "random image")
    return Report(
        before=[Section(heading=result.unit.name, columns=_COLUMNS, rows=rows_of(figures))],
        rows=rows,
        sentences=[f"{counted(result.probes, 'probe')}, and {images}: 0 differ.", ""],
    )


def _not_told_apart(others: Sequence[Any]) -> str:
    if len(others) > 3 and all(isinstance(one, int) for one in others):
        return f"{len(others)} from {min(others)} to {max(others)}"
    return ", ".join(map(_shown, others))


def _refusal(result: MeasuredResult, refusal: Contradiction) -> str:
    d, multiplicand, _, c = (FORMATS[name] for name in result.unit.types.split("."))
    products = [f"{x:#x} x {y:#x}" for x, y in zip(refusal.a, refusal.b, strict=True) if x or y]
    returned, nearest = (
        "" if one is None else f"{one:#0{d.bits // 4 + 2}x}"
        for one in (refusal.returned, refusal.nearest)
    )
    return (
        f"{result.unit.name}: refused. No rule that a model can express gives what the device "
        f"returns for {counted(refusal.differing, 'probe')} of {refusal.among:,}. The first one "
        f"shows {refusal.family}: {multiplicand.name} products {', '.join(products)}, "
        f"C {refusal.c:#x} ({c.name}): the device returns {returned}"
        + (f", and the nearest figures give {nearest}." if nearest else ".")
    )
