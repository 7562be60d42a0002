"""`warpfuzz models`: how each GPU architecture computes, as far as it is known."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap

from corpus import durable
from fuzz.options.operating import ModelsExport, ModelsList, ModelsShow
from fuzz.output import check_output, console, counted, emit, harmless
from fuzz.output.report import Report, ReportColumn, rows_of
from oracle.errors import UsageError
from oracle.isa.targets import TARGETS
from oracle.models import Model, model_for
from oracle.models.figures import DotUnit, DoubleChain, NanRule, Unit
from oracle.models.files import BASES, EXPORTS, read_model

_COLUMNS = 100  # Columns of what is shown of a unit, at most


def list_models(options: ModelsList) -> None:
    """Print the target of every built-in model, and how sure its figures are."""
    kinds = ("measured", "published", "inferred")
    rows = []
    for number, base in BASES.items():
        model = model_for(f"sm_{number}")
        sure = Counter(figure.confidence.value for unit in model.units for figure in unit.figures)
        counts = {one: sure[one] for one in kinds} | sure
        rows.append({"target": model.target, "figures_of": base, "model": model.name, **counts})
    columns = (
        ReportColumn("target"),
        ReportColumn("figures of", "figures_of"),
        *(ReportColumn(one, number=True) for one in kinds),
        ReportColumn("model"),
    )
    Report(columns=columns, rows=rows_of(rows)).write(json=options.json)


def show_model(options: ModelsShow) -> None:
    """Print every unit of a model with its figures; those of units that are alike once."""
    model = _named(options.name)
    if options.json:
        for unit in model.units:
            name, types = _named_unit(unit)
            known = {figure: asdict(one) for figure, one in unit.named.items()}
            emit({"model": model.name, "unit": name, "types": types, "figures": known})
        return
    alike: dict[tuple[str, str, str], list[str]] = {}
    for unit in model.units:
        name, types = _named_unit(unit)
        figures = ", ".join(f"{one} {_words(value)}" for one, value in unit.values.items())
        said = dict.fromkeys(f"{one.confidence}: {one.source}" for one in unit.figures)
        alike.setdefault((name, figures, "; ".join(said)), []).append(types)
    out = console()
    width = min(out.width, _COLUMNS)
    for (name, figures, sources), every in alike.items():
        for text, indent in ((" ".join((name, *every)), ""), (figures, "  "), (sources, "  ")):
            # By `textwrap`: Rich breaks words that are longer than a line.
            lines = wrap(harmless(text), width, initial_indent=indent, subsequent_indent="    ")
            out.print("\n".join(lines), soft_wrap=True)
    out.print(f"{model.name}: {counted(len(list(model.units)), 'unit')}, {model.confidence}")


def export_model(options: ModelsExport) -> None:
    """Write a model in another format."""
    check_output("--output", options.output)
    text = EXPORTS[options.format](_named(options.name))
    if options.output is not None:
        durable.write_output(options.output, text.encode())
    if options.json:
        emit({"name": options.name, "format": options.format, "text": text})
    elif options.output is None:
        print(text, end="")


def _named(name: str) -> Model:
    if name in TARGETS:
        return model_for(name)
    if name and Path(name).exists():
        return read_model(Path(name))
    raise UsageError(
        f"{name!r} is neither a target nor a file; `warpfuzz models list` lists the targets"
    )


def _named_unit(unit: Unit) -> tuple[str, str]:
    if isinstance(unit, DotUnit):
        compilers = f"CUDA {unit.compilers}" if unit.compilers else ""
        return " ".join(filter(None, (unit.instruction, *unit.shapes, compilers))), unit.types
    return ("f64" if isinstance(unit, DoubleChain) else "integers and single bits"), ""


def _words(value: object) -> str:
    if isinstance(value, NanRule):
        order = ", ".join(value.order) or "none"
        return f"of {order}; invalid {value.invalid:#x}, canonical {value.canonical:#x}"
    return f"{value:#x}" if isinstance(value, int) and value > 0xFFF else str(value)
