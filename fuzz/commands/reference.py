"""`warpfuzz explain`, `legal`, `isa` and `models`: what the oracle knows, without running anything.

What only one of them needs is imported where it is: `explain` takes a fraction of a second.
"""

from __future__ import annotations

import errno
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap

from rich.text import Text

from corpus import durable
from fuzz.options.operating import ModelsExport, ModelsList, ModelsShow
from fuzz.options.testing import Explain, Isa, Legal
from fuzz.output import (
    Report,
    ReportColumn,
    check_output,
    console,
    counted,
    emit,
    encoded,
    harmless,
    rows_of,
)
from oracle.errors import InfrastructureError, UsageError
from oracle.given_files import GIVEN_BYTES, read_given, reason_of
from oracle.isa import legality, targets
from oracle.isa.forms import Form
from oracle.isa.lookup import is_available, notes_of
from oracle.models import Model, model_for
from oracle.models.figures import DotUnit, DoubleChain, NanRule, Unit, figures_in, releases_text
from oracle.models.files import BASES, EXPORTS, read_model

# Verdicts


def explain_one(options: Explain) -> None:
    """Print the verdict on one instruction, with every reason."""
    target = options.target
    ptx_version = str(targets.Module.named(target, options.ptx_version).version)
    explanation = legality.explain(options.instruction, target=target, ptx_version=ptx_version)
    if options.json:
        emit(_verdict_row(explanation))
        return
    out = console()
    verdict = explanation.verdict
    out.print(Text.assemble((verdict, verdict), f" on {target}, PTX ISA {ptx_version}"))
    for reason in (*explanation.reasons, *explanation.remarks):
        out.print(f"  {reason}")
    if explanation.legal and explanation.form is not None:
        out.print(f"  a form of {explanation.form.mnemonic}: {explanation.form.page_family}")


def judge_file(options: Legal) -> None:
    """Print a verdict for each line that says something, or each matrix instruction of a module."""
    text = _read(options.file)
    plain = legality.without_comments(text) if options.file.suffix == ".ptx" else ""
    said = legality.directives(plain)
    is_module = said[1] is not None
    if is_module:
        numbered = list(legality.matrix_instructions(plain))
    else:
        # Not `splitlines`, for which a line ends at a form feed, too.
        lines = enumerate(text.removesuffix("\n").split("\n"), start=1)
        numbered = [
            (at, line.removesuffix("\r")) for at, line in lines if legality.says_something(line)
        ]
        said = (None, None)
    target = options.target or said[0] or targets.DEFAULT_TARGET
    ptx_version = str(targets.Module.named(target, options.ptx_version or said[1]).version)
    explanations = legality.explain_lines(
        (line for _, line in numbered), target=target, ptx_version=ptx_version
    )
    counts: Counter[str] = Counter()
    out = console()
    names = {}
    for verdict in legality.Verdict:
        with out.capture() as captured:
            out.print(Text(f"{verdict:<10}", verdict), end="")
        names[verdict] = captured.get()
    for (number, _), explanation in zip(numbered, explanations, strict=True):
        counts[explanation.verdict] += 1
        if options.json:
            # One write a line, without a flush for each: 100,000 lines take seconds.
            sys.stdout.write(encoded({"line": number, **_verdict_row(explanation)}))
        else:
            # Not through Rich: it takes half a millisecond for each line.
            shown = harmless(explanation.instruction.strip(), one_line=True)
            sys.stdout.write(f"{number:>6}  {names[explanation.verdict]}  {shown}\n")
            sys.stdout.writelines(
                f"{'':20}{harmless(str(reason), one_line=True)}\n"
                for reason in (*explanation.reasons, *explanation.remarks)
            )
    if not options.json:
        sys.stdout.flush()
        parts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        what = counted(counts.total(), "matrix instruction" if is_module else "line")
        rest = " (the rest is not judged)" if is_module else ""
        out.print(f"{what}{rest}: {parts or 'none'}")


def _verdict_row(explanation: legality.Explanation) -> dict[str, object]:
    def row(reason: legality.Reason) -> dict[str, str]:
        return {"text": reason.text, "section": reason.section, "rule": reason.rule.value}

    return {
        "instruction": explanation.instruction,
        "verdict": explanation.verdict.value,
        "reasons": [*map(row, explanation.reasons)],
        "remarks": [*map(row, explanation.remarks)],
    }


def _read(file: Path) -> str:
    try:
        if str(file) == "-":
            # None where the caller closed it.
            data = sys.stdin.buffer.read(GIVEN_BYTES + 1) if sys.stdin else b""
            if len(data) > GIVEN_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        else:
            data = read_given(file)
    except OSError as error:
        kind = IsADirectoryError | FileNotFoundError
        raise (UsageError if isinstance(error, kind) else InfrastructureError)(
            f"{file} cannot be read: {reason_of(error)}; give a file with an instruction per line"
        ) from None
    # Not a reason to fail: a line that is no text is malformed, and that is its verdict.
    return data.decode("utf-8-sig", errors="replace")


# Forms


def list_forms(options: Isa) -> None:
    """Print every documented form that is available on a target and in a version.

    Where neither is given, everything that was ever documented.
    """
    from strategies.draws import Selection

    forms = Selection(pattern=options.only).forms()
    if options.target or options.ptx_version:
        modules = list(_modules(options.target, options.ptx_version))
        forms = tuple(form for form in forms if any(is_available(form, one) for one in modules))
    counts = Counter(form.mnemonic for form in forms)
    parts = ", ".join(f"{count} {mnemonic}" for mnemonic, count in counts.items())
    Report(
        columns=(
            ReportColumn("form", "opcode"),
            ReportColumn(
                "registers",
                lambda row: " ".join(f"{name}:{count}" for name, count in row["registers"].items()),
            ),
            ReportColumn("since"),
            ReportColumn("target"),
            ReportColumn(f"section of {legality.SECTIONS}", "section"),
        ),
        rows=rows_of(map(_form_row, forms)),
        sentences=[f"{counted(len(forms), 'form')}: {parts or 'none'}"],
    ).write(json=options.json)


def _modules(target: str | None, ptx_version: str | None) -> Iterator[targets.Module]:
    """Yield modules of the target or any, and of the version or any, as far as they go together."""
    if target and ptx_version:
        yield targets.Module.named(target, ptx_version)
        return
    chips = [targets.parse_target(target)] if target else targets.TARGETS.values()
    versions = [targets.parse_version(ptx_version)] if ptx_version else targets.VERSIONS
    yield from (targets.Module(chip, version) for chip in chips for version in versions)


def _form_row(form: Form) -> dict[str, object]:
    from strategies.instructions import canonical

    notes = notes_of(form)
    until = [note.until for note in notes if note.until is not None]
    specific = [note for note in notes if note.specific]
    also = [note.also for note in specific if note.also]
    places = ", ".join((*also, "sm_100a, sm_101a/sm_110a, sm_120a")) + " and families"
    only = "".join(note.only for note in notes)
    smallest = max((note.target for note in notes if note.target is not None), default=None)
    return {
        "text": canonical(form).text,
        "opcode": form.opcode,
        "mnemonic": form.mnemonic,
        "registers": {kind: vector.registers for kind, vector in form.vectors.items()},
        "since": str(max(note.since for note in notes if note.since is not None)),
        "until": str(until[0]) if until else None,
        "target": places if specific else only or f"sm_{smallest}",
        "section": form.section,
        "section_of": legality.SECTIONS,
        "block": form.page_family,
        "notes": [note.text for note in notes],
    }


# Models

_COLUMNS = 100
"""Columns of what is shown of a unit, at most."""


def list_models(options: ModelsList) -> None:
    """Print the target of every built-in model, and how sure its figures are."""
    kinds = ("measured", "published", "inferred")
    rows = []
    for number, base in BASES.items():
        model = model_for(f"sm_{number}")
        figures = (figure for unit in model.units for figure in figures_in(unit).values())
        sure = Counter(figure.confidence.value for figure in figures)
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
    """Print every unit of a model with its figures, and where they come from."""
    model = _named(options.name)
    rows = []
    for unit in model.units:
        name, types = _named_unit(unit)
        figures = figures_in(unit)
        known = {figure: asdict(value) for figure, value in figures.items()}
        row = {"model": model.name, "unit": name, "types": types, "figures": known}
        shown = ", ".join(f"{name} {_words(figure.value)}" for name, figure in figures.items())
        sources = dict.fromkeys(f"{one.confidence}: {one.source}" for one in figures.values())
        rows.append((row, f"{name} {types}", shown, "; ".join(sources)))
    if options.json:
        for row, *_ in rows:
            emit(row)
        return
    out = console()
    for _, *texts in rows:
        for text, indent in zip(texts, ("", "  ", "  "), strict=True):
            # By `textwrap`: Rich breaks words that are longer than a line.
            lines = wrap(harmless(text), min(out.width, _COLUMNS), initial_indent=indent,
                         subsequent_indent="    ")  # fmt: skip
            out.print("\n".join(lines), soft_wrap=True)
    out.print(f"{model.name}: {counted(len(rows), 'unit')}, {model.confidence}")


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
    """Return the model of a target, or of a file."""
    if name in targets.TARGETS:
        return model_for(name)
    if name and Path(name).exists():
        return read_model(Path(name))
    raise UsageError(
        f"{name!r} is neither a target nor a file; `warpfuzz models list` lists the targets"
    )


def _named_unit(unit: Unit) -> tuple[str, str]:
    """Return what a unit computes, and the formats of D, A, B and C where it is for some alone."""
    if isinstance(unit, DotUnit):
        compilers = f"CUDA {releases_text(unit.compilers)}" if unit.compilers else ""
        return " ".join(filter(None, (unit.instruction, *unit.shapes, compilers))), unit.types
    return ("f64" if isinstance(unit, DoubleChain) else "integers and single bits"), ""


def _words(value: object) -> str:
    if isinstance(value, NanRule):
        order = ", ".join(value.order) or "none"
        return f"of {order}; invalid {value.invalid:#x}, canonical {value.canonical:#x}"
    return f"{value:#x}" if isinstance(value, int) and value > 0xFFF else str(value)
