"""`warpfuzz measure`: the model of a device, found out by probes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

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
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module, parse_release, parse_target
from oracle.measuring.units import module_of_all, units_of
from oracle.models import Confidence, Model, NanRule, model_for
from oracle.models.files import model_text
from runners.assemblers.assembler import Assembler
from runners.compilers import find_assembler, select
from runners.processes import process_pool
from strategies.programs import is_valued

_IMAGES = {"cuda": 1_048_576}
"""Random images of each unit: a GPU takes a million a second, the simulated device a thousand."""
_COLUMNS = (
    *(ReportColumn(name) for name in ("figure", "value", "model")),
    ReportColumn("probes against others", number=True),
    ReportColumn("not told apart"),
)


class _MeasuredCode(NamedTuple):
    """What was found out of the code of one compiler."""

    ready: OpenRunner
    known: Model
    release: str  # of CUDA of the compiler; empty if the device reads the PTX itself
    compiler: str  # as it is shown; empty where none was named
    results: list[MeasuredResult]


def measure_device(options: Measure) -> bool:
    """Measure, print what was found, and write the model; tell whether it is another than known."""
    check_output("--output", options.output)
    check_conflicts(options, "measure")
    measured: list[_MeasuredCode] = []
    started, stopped = time.monotonic(), True
    try:
        for assembler in _assemblers(options):
            _measure(assembler, options, measured)
        stopped = False
    finally:
        # What was measured until an interrupt is so, and may have taken an hour.
        differs = bool(measured) and _end(measured, options, time.monotonic() - started, stopped)
    return differs


def _assemblers(options: Measure) -> Sequence[Assembler | None]:
    """Return the assemblers whose code is measured, older ones first; None is the driver's."""
    if options.compilers is None:
        return [None if options.assembler is None else find_assembler(options.assembler)]
    selected = select(options.compilers)
    found = [one if isinstance(one, Assembler) else None for one in selected.toolchains]
    return [*found, None] if selected.driver else found


def _measure(assembler: Assembler | None, options: Measure, measured: list[_MeasuredCode]) -> None:
    choice = RunnerChoice(
        name=hardware_runner(options.runner), assembler=assembler,
        **options.picked("target", "ptx_version", "faults", "device"),
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
        now = _MeasuredCode(ready, known, device.compiled.release, compiler, [])
        measured.append(now)
        if not options.json:
            say(f"Measuring {ready.device}{f' with code of {compiler}' if compiler else ''}.")
        for result in measurer.measure(units):
            now.results.append(result)
            _unit_report(result, compiler).write(json=options.json)


def _model(measured: _MeasuredCode) -> Model:
    ready, known, _, compiler, results = measured
    day = datetime.now(tz=UTC).date().isoformat()
    source = ", ".join(filter(None, (f"warpfuzz measure, {ready.device}", compiler, day)))
    # Not that of the relative whose figures are built in: `--model` asks for the device's own.
    target = f"sm_{parse_target(known.target).number}"
    is_gpu = ready.choice.name == "cuda"
    confidence = Confidence.MEASURED if is_gpu else Confidence.SIMULATED
    return measured_model(target, results, source, confidence)


def _end(
    measured: Sequence[_MeasuredCode], options: Measure, seconds: float, stopped: bool
) -> bool:
    """Print the sum, and write the file; tell whether something is another than known."""
    ready, known, output = measured[-1].ready, measured[-1].known, options.output
    results = [result for one in measured for result in one.results]
    refused = sum(result.contradiction is not None for result in results)
    figures = [figure for result in results for figure in result.figures.values()]
    told = [figure for figure in figures if figure.is_told or not figure.is_known]
    same, open_ = sum(figure.is_known for figure in told), len(figures) - len(told)
    images = sum(result.images for result in results)
    ordered = sorted(measured, key=lambda one: parse_release(one.release or "unknown"))
    model = joined_model([(one.release, _model(one)) for one in ordered])
    sentences = [f"Stopped before the end, after {counted(len(results), 'unit')}."] * stopped
    sentences.append(
        f"{same} of {counted(len(told), 'figure')} as in the model of {known.base}"
        + f"; {open_} more not told apart from other values" * bool(open_)
        + f"; {counted(refused, 'unit')} refused" * bool(refused)
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
        rest = f", and leaves out {counted(left, 'form')} of which it has no figures" * bool(left)
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


def _unit_report(result: MeasuredResult, compiler: str) -> Report:
    def json(value: Any) -> Any:
        return asdict(value) if isinstance(value, NanRule) else value

    name, refusal = result.unit.name, result.contradiction
    of_json = {
        of: {
            "value": json(figure.chosen), "known": json(figure.known), "same": figure.is_known,
            "refuting": figure.refuting, "not_told_apart": list(map(json, figure.rivals)),
        }
        for of, figure in result.figures.items()
    }  # fmt: skip
    row: dict[str, Any] = {
        "unit": name, "probes": result.probes, "images": result.images, "figures": of_json,
        "refused": None if refusal is None else asdict(refusal),
    }  # fmt: skip
    rows = [ReportRow(data=row | ({"compiler": compiler} if compiler else {}))]
    if refusal is not None:
        text = (
            f"{name}: refused. No rule that a model can express gives what the device returns for "
            f"{counted(refusal.differing, 'probe')} of {refusal.among:,}. The first one shows "
            f"{refusal.family}; --json has its products."
        )
        return Report(rows=rows, sentences=[Text(text, style="bad"), ""])
    figures = [
        {
            "figure": of.replace("_", " "),
            "value": _shown(figure.chosen),
            "model": "same" if figure.is_known else Text(_shown(figure.known), "worst"),
            "probes against others": figure.refuting or "",
            "not told apart": ", ".join(map(_shown, figure.rivals)),
        }
        for of, figure in result.figures.items()
    ]
    images = counted(result.images, "random image")
    return Report(
        before=[Section(heading=name, columns=_COLUMNS, rows=rows_of(figures))],
        rows=rows,
        sentences=[f"{counted(result.probes, 'probe')}, and {images}: 0 differ.", ""],
    )


def _shown(value: Any) -> str:
    if isinstance(value, NanRule):
        kept = f"of {', '.join(value.order)}" if value.order else f"{value.canonical:#x}"
        return f"{kept}; invalid {value.invalid:#x}"
    return f"{value:#x}" if isinstance(value, int) and value > 999 else str(value).lower()
