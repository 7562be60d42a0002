"""Findings of a value campaign as the corpus keeps them, and as they are read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version as distribution_version
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from corpus import (
    Case,
    Entry,
    Family,
    Kind,
    OracleVerdict,
    Origin,
    RunnerVerdict,
    ShrinkStatus,
    Versions,
)
from corpus.images import pack, unpack
from fuzz.checks.program_draws import GENERATOR_VERSION
from fuzz.findings.replay import Attempt, Subject
from fuzz.findings.verdicts import Difference, differences
from fuzz.runner import OpenRunner, RunnerChoice
from fuzz.shrinking import complexity
from oracle.errors import InfrastructureError, UsageError
from oracle.formats import format_named
from oracle.forms import Form, MmaForm
from oracle.isa import form_of
from oracle.matrices import SHAPES, Matrix
from oracle.models import Confidence, model_for, weakest
from oracle.operations import Operation
from oracle.places import Buffer, Place, Word
from oracle.program import Program, requirements, walk
from oracle.steps import (
    Barrier,
    Branch,
    Copy,
    Elementwise,
    Load,
    LoadRows,
    Loop,
    Multiply,
    Step,
    Store,
    StoreRegisters,
)
from oracle.targets import Module
from runners.emission import emit

_STEPS: dict[str, type[Any]] = {
    step.__name__: step
    for step in (
        Load, Multiply, Store, Elementwise, LoadRows, StoreRegisters, Copy, Barrier, Branch, Loop,
    )
}  # fmt: skip
_FORMAT = 1
"""Version of what is written here."""


def encode_program(program: Program) -> bytes:
    """Return a program as indented JSON: forms as opcodes, matrices by shape and type."""
    document = {
        "format": _FORMAT,
        "buffers": [_row(buffer) for buffer in program.buffers],
        "steps": [_step(step) for step in program.steps],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def decode_program(data: bytes, source: str) -> Program:
    """Return the program that `encode_program` wrote.

    Parameters
    ----------
    source
        Name of the file, for the message.

    Raises
    ------
    InfrastructureError
        If it is none.
    """
    try:
        document = msgspec.json.decode(data)
        if document["format"] != _FORMAT:
            raise UsageError(f"its format is {document['format']}, and {_FORMAT} is known here")
        return Program(
            buffers=tuple(Buffer(**row) for row in document["buffers"]),
            steps=_made_steps(document["steps"]),
        )
    except (msgspec.DecodeError, LookupError, TypeError, ValueError, UsageError) as error:
        raise InfrastructureError(
            f"{source} describes no program ({type(error).__name__}: {error}); restore it from a "
            "backup, or read it with the version of warpfuzz that wrote it"
        ) from error


def _row(value: Any) -> dict[str, object]:
    return {name: _value(getattr(value, name)) for name in value.__dataclass_fields__}


def _step(step: Step) -> dict[str, object]:
    return {"step": type(step).__name__, **_row(step)}


def _value(value: Any) -> object:
    if isinstance(value, Form):
        return value.opcode
    if isinstance(value, Matrix):
        return {"operand": value.operand, "shape": value.shape.name, "type": value.type.name}
    if isinstance(value, Place | Word):
        return _row(value)
    if isinstance(value, tuple):
        return [_step(one) if type(one).__name__ in _STEPS else one for one in value]
    return value


def _made_steps(rows: list[dict[str, Any]]) -> tuple[Step, ...]:
    return tuple(_made_step(row) for row in rows)


def _made_step(row: dict[str, Any]) -> Step:
    fields = {name: _made(name, value) for name, value in row.items() if name != "step"}
    step: Step = _STEPS[row["step"]](**fields)
    return step


def _made(name: str, value: Any) -> object:
    match name:
        case "form":
            return form_of(value)
        case "matrix":
            return Matrix(
                operand=value["operand"],
                shape=SHAPES[value["shape"]],
                type=format_named(value["type"]),
            )
        case "operation":
            return Operation(value)
        case "place" | "source" | "destination" if isinstance(value, dict):
            return Place(**value)
        case "condition" | "count" if isinstance(value, dict):
            return Word(place=Place(**value["place"]), mask=value["mask"])
        case "then" | "otherwise" | "body":
            return _made_steps(value)
        case "addresses":
            return tuple(value)
    return value


MODULE, REWRITTEN, PROGRAM = "module.ptx", "rewritten.ptx", "program.json"
INPUT, EXPECTED, ACTUAL = "input.npy", "expected.npy", "actual.npy"
_SHOWN_DIFFERENCES = 8
_TEXT_CHARACTERS = 4000
"""Of what a tool said; the rest rarely helps."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """A finding, before it is written down."""

    kind: Kind
    family: Family
    subject: Subject
    attempts: Sequence[Attempt]
    """Runs of the subject, the one that shows it best first."""

    @property
    def shown(self) -> Attempt:
        """The run that shows it best."""
        return self.attempts[0]

    @property
    def wrong(self) -> NDArray[np.uint8] | None:
        """One image that came out wrong, uint8 (image_bytes,); None if there is none."""
        for attempt in self.attempts:
            if attempt.actual is not None and attempt.expected is not None:
                different = (attempt.actual != attempt.expected).any(axis=1)
                if different.any():
                    image: NDArray[np.uint8] = attempt.actual[int(np.argmax(different))]
                    return image
        return None

    def differences(self) -> Sequence[Difference]:
        """List what differs in the image that came out wrong."""
        wrong = self.wrong
        if wrong is None:
            return ()
        (expected, *_) = [
            attempt.expected for attempt in self.attempts if attempt.expected is not None
        ]
        return differences(self.subject.program, expected, wrong)


def case_of(
    evidence: Evidence, opened: OpenRunner, *, origin: Origin, status: ShrinkStatus
) -> Case:
    """Describe a finding for the corpus."""
    subject, shown = evidence.subject, evidence.shown
    choice = opened.choice
    architecture = shown.compiled.architecture if shown.compiled else opened.target
    details: dict[str, str | int | float | bool] = {
        "runner": choice.name,
        "layout": choice.layout,
        "architecture": architecture,
        "copies": subject.copies,
        "runs": len(evidence.attempts),
        "failed runs": sum(attempt.failed > 0 for attempt in evidence.attempts),
        "rate": sum(attempt.failed for attempt in evidence.attempts)
        / (subject.copies * len(evidence.attempts)),
        "sms": " ".join(
            map(str, sorted({sm for attempt in evidence.attempts for sm in attempt.sms}))
        )[:_TEXT_CHARACTERS],
    }
    if shown.compiled is not None:
        details["compiler"] = shown.compiled.compiler
    if choice.level is not None:
        details["opt"] = choice.level
    if choice.assembler is not None:
        details["assembler"] = choice.assembler
    found = evidence.differences()
    if found:
        details["differing elements"] = len(found)
        details["confidence"] = confidence(subject.program, architecture)
    for number, difference in enumerate(found[:_SHOWN_DIFFERENCES], start=1):
        details[f"difference {number}"] = str(difference)
    return Case(
        kind=evidence.kind,
        family=evidence.family,
        instructions=instructions_of(subject.program),
        target=opened.target,
        ptx_version=opened.ptx_version,
        oracle=OracleVerdict(verdict="legal"),
        runners=(
            RunnerVerdict(
                runner=choice.name,
                version=opened.version,
                options=choice.options,
                outcome=evidence.kind.value,
                message=_message(shown, found),
                device=opened.device,
            ),
        ),
        versions=Versions(warpfuzz=distribution_version("warpfuzz"), generator=GENERATOR_VERSION),
        origin=origin,
        shrink=status,
        complexity=complexity(subject.program, subject.image),
        details=details,
    )


def _message(shown: Attempt, found: Sequence[Difference]) -> str:
    if shown.failure is not None:
        return f"{shown.failure}\n{shown.failure.detail}".strip()[:_TEXT_CHARACTERS]
    return "\n".join(map(str, found[:_SHOWN_DIFFERENCES]))


def files_of(evidence: Evidence) -> Mapping[str, bytes]:
    """Return the files of a finding by name."""
    subject, shown = evidence.subject, evidence.shown
    files = {
        MODULE: subject.module.ptx.encode(),
        PROGRAM: encode_program(subject.program),
        INPUT: pack(subject.image[None]),
    }
    if shown.compiled is not None and shown.compiled.module.ptx != subject.module.ptx:
        files[REWRITTEN] = shown.compiled.module.ptx.encode()
    wrong = evidence.wrong
    if wrong is not None:
        expected = next(one.expected for one in evidence.attempts if one.expected is not None)
        files[EXPECTED] = pack(expected[None])
        files[ACTUAL] = pack(wrong[None])
    return files


def instructions_of(program: Program) -> tuple[str, ...]:
    """Return the opcodes of a program's matrix instructions in their order."""
    return tuple(
        step.form.opcode
        for step in walk(program.steps)
        if isinstance(step, Load | Multiply | Store | LoadRows)
    )


def confidence(program: Program, architecture: str) -> Confidence:
    """Return how sure the model of a program's multiplications is."""
    model = model_for(architecture)
    forms = [form for form in requirements(program) if isinstance(form, MmaForm)]
    return weakest((Confidence.MEASURED, *(model.confidence_for(form) for form in forms)))


def is_value_finding(entry: Entry) -> bool:
    """Whether a finding has a program and an image, so that a runner can replay it."""
    return PROGRAM in entry.finding.files and INPUT in entry.finding.files


def is_runnable(entry: Entry) -> bool:
    """Whether a runner can replay a finding: it has a program, or images that a person wrote."""
    return is_value_finding(entry) or {MODULE, INPUT, EXPECTED} <= entry.finding.files.keys()


def subject_of(entry: Entry) -> Subject:
    """Return what a stored finding runs, with the module that was stored.

    Raises
    ------
    UsageError
        If its program cannot be emitted any more.
    InfrastructureError
        If a file is broken, or does not fit the others.
    """
    finding = entry.finding
    program = decode_program(entry.read(PROGRAM), str(entry.path / PROGRAM))
    images = unpack(entry, INPUT)
    if images.dtype != np.uint8 or images.shape != (1, program.image_bytes):
        raise InfrastructureError(
            f"{entry.path / INPUT} holds {images.dtype} of shape {images.shape}, and the program "
            f"takes uint8 (1, {program.image_bytes}); restore the folder from a backup"
        )
    module = emit(program, module=Module.named(finding.target, finding.ptx_version))
    copies = finding.details.get("copies", 1)
    if not isinstance(copies, int) or not 1 <= copies <= 1 << 16:
        raise InfrastructureError(
            f"finding {finding.id} is to be run in {copies!r} copies; 1 to 65536 are possible"
        )
    return Subject(
        module=replace(module, ptx=entry.read(MODULE).decode(errors="replace")),
        program=program,
        image=images[0],
        copies=copies,
    )


def choice_of(entry: Entry, wanted: str | None = None) -> RunnerChoice:
    """Return the runner that found a finding, or another one, with nothing planted in it.

    Raises
    ------
    UsageError
        If the finding does not tell.
    """
    details = entry.finding.details
    name, layout = details.get("runner"), details.get("layout", 0)
    level, assembler = details.get("opt"), details.get("assembler")
    if wanted is not None and wanted != name:
        finding = entry.finding
        return RunnerChoice(name=wanted, target=finding.target, ptx_version=finding.ptx_version)
    if name not in ("sim", "cuda") or not isinstance(layout, int):
        raise UsageError(f"finding {entry.id} does not say what found it; choose with --runner")
    return RunnerChoice(
        name=str(name),
        target=entry.finding.target,
        ptx_version=entry.finding.ptx_version,
        layout=layout,
        level=level if isinstance(level, int) else None,
        assembler=assembler if isinstance(assembler, str) else None,
    )
