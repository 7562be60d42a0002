"""Findings with images as the corpus keeps them, and as they are read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpus import (
    Case,
    Entry,
    Kind,
    OracleVerdict,
    Origin,
    RunnerVerdict,
    ShrinkStatus,
    Versions,
)
from corpus.entry import EXPECTED as EXPECTED
from corpus.entry import INPUT, PROGRAM
from corpus.entry import MODULE as MODULE
from corpus.finding import WRONG_STEP
from corpus.programs import decode_program, encode_program, pack, unpack
from fuzz import warpfuzz_version
from fuzz.diagnosis.experiments import Culprit
from fuzz.diagnosis.single_step import CODE
from fuzz.findings.families import Bucket, bucket_of_culprit
from fuzz.findings.making import is_runnable as is_runnable
from fuzz.findings.making import is_value_finding as is_value_finding
from fuzz.findings.making import lacks_images as lacks_images
from fuzz.findings.making import making_of
from fuzz.findings.replay import Attempt, Subject
from fuzz.findings.verdicts import Difference, differences
from fuzz.runner import OpenRunner
from oracle.definedness import check_defined
from oracle.errors import InfrastructureError, UndefinedProgramError
from oracle.models import Confidence, model_for, weakest
from oracle.program import Program, requirements, walk
from oracle.steps import is_lane_code
from oracle.targets import Module
from runners.emission import emit
from runners.protocol import NO_SM
from strategies.matrices import complexity
from strategies.programs import GENERATOR_VERSION

REWRITTEN = "rewritten.ptx"
ORIGINAL = "original.ptx"
"""A judged kernel before it was made smaller."""
ACTUAL = "actual.npy"
LAUNCH = "launch.toml"
"""How a kernel with parameters of its own is launched (`fuzz.findings.launches`)."""
OTHER_KERNELS = "other kernels"
"""Detail of a case: how many more the module has, because without them it is right."""
JUDGED = "judged as"
"""Detail of a case: the target with its compiler (`oracle.targets.split_compiler`)."""
_COPIED_BYTES = 1 << 28
"""Most bytes of all copies of an image that are run at once; the oracle takes several times that.
Images have 1 MiB at most (2026-11), and `fuzz.checks.examining` runs 256 copies."""
_SHOWN_DIFFERENCES = 8
TEXT_CHARACTERS = 4000
"""Characters that are kept of a tool's output; the rest rarely helps."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """A finding, before it is written down."""

    kind: Kind
    bucket: Bucket
    subject: Subject
    attempts: Sequence[Attempt]
    """Runs of the subject, the one that shows it best first."""
    culprit: str = ""
    """The step that experiments show to be wrong, in words; "" where none tells."""

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

    def named(self, culprit: Culprit | None, *, builds: str = "") -> Evidence:
        """Return it named after what is wrong; as it is, where that is unknown.

        Of code whose wrong instructions are not told apart yet, what it ends in says more: findings
        of many causes would have one name, and all but one of them be given up. `builds` are the
        compilers that alone have it; "" where it is not one of them.
        """
        if culprit is None or culprit.instructions == (CODE,):
            return self
        bucket = bucket_of_culprit(self.kind, culprit, builds)
        return replace(self, bucket=bucket, culprit=culprit.name)


def case_of(
    evidence: Evidence, opened: OpenRunner, *, origin: Origin, status: ShrinkStatus
) -> Case:
    """Describe a finding for the corpus."""
    subject, shown = evidence.subject, evidence.shown
    choice = opened.choice
    architecture = shown.compiled.architecture if shown.compiled else opened.target
    details: dict[str, str | int | float | bool] = {
        "architecture": architecture,
        "copies": subject.copies,
        "runs": len(evidence.attempts),
        "failed runs": sum(attempt.failed > 0 for attempt in evidence.attempts),
        "rate": sum(attempt.failed for attempt in evidence.attempts)
        / (subject.copies * len(evidence.attempts)),
        "sms": " ".join(
            map(str, sorted({sm for attempt in evidence.attempts for sm in attempt.sms} - {NO_SM}))
        )[:TEXT_CHARACTERS],
    }
    if subject.others:
        details[OTHER_KERNELS] = len(subject.others)
    if evidence.culprit:
        details[WRONG_STEP] = evidence.culprit
    if shown.compiled is not None:
        details["compiler"] = shown.compiled.compiler
    found = evidence.differences()
    if found:
        details["differing elements"] = len(found)
        judged = architecture if shown.compiled is None else shown.compiled.oracle_target
        if judged != architecture:
            details[JUDGED] = judged
        details["confidence"] = confidence(subject.program, judged)
        model = model_for(judged)
        details["model"] = model.name
        if model.file:
            details["model file"] = Path(model.file).name
    for number, difference in enumerate(found[:_SHOWN_DIFFERENCES], start=1):
        details[f"difference {number}"] = str(difference)
    return Case(
        kind=evidence.kind,
        identity=evidence.bucket.identity,
        instructions=instructions_of(subject.program),
        target=opened.target,
        ptx_version=subject.module.version,
        oracle=OracleVerdict(verdict="legal"),
        runners=(
            RunnerVerdict(
                runner=choice.label,
                version=opened.version,
                options=choice.options,
                outcome=evidence.kind.value,
                message=_message(shown, found),
                device=opened.device,
            ),
        ),
        versions=made_by(),
        origin=origin,
        made=making_of(choice),
        shrink=status,
        complexity=complexity(subject.program, subject.image),
        details=details,
    )


def made_by() -> Versions:
    """Return what makes findings of drawn programs and instructions here."""
    return Versions(warpfuzz=warpfuzz_version(), generator=GENERATOR_VERSION)


def _message(shown: Attempt, found: Sequence[Difference]) -> str:
    if shown.failure is not None:
        return f"{shown.failure}\n{shown.failure.detail}".strip()[:TEXT_CHARACTERS]
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
    """Return the opcodes of a program's matrix instructions; without any, of its code of lanes."""
    steps = [*walk(program.steps)]
    found = tuple(step.instruction.opcode for step in steps if step.instruction)
    return found or tuple(opcode for step in steps if is_lane_code(step) for opcode in step.opcodes)


def confidence(program: Program, architecture: str) -> Confidence:
    """Return how sure the model of a program's multiplications is."""
    model = model_for(architecture)
    forms = [form for form in requirements(program) if form.is_product]
    return weakest((Confidence.MEASURED, *(model.confidence_for(form) for form in forms)))


def most_copies(program: Program) -> int:
    """Return how many copies of an image of a program may be run at once."""
    return max(1, _COPIED_BYTES // (program.image_bytes + program.shared_bytes))


def image_of(entry: Entry, name: str, program: Program) -> NDArray[np.uint8]:
    """Return an image of a stored finding, (bytes,); InfrastructureError if it is another's."""
    images = unpack(entry, name)
    if images.dtype != np.uint8 or images.shape != (1, program.image_bytes):
        raise InfrastructureError(
            f"{entry.path / name} holds {images.dtype} of shape {images.shape}, and an image of "
            f"the program is uint8 (1, {program.image_bytes}); restore the folder from a backup"
        )
    image: NDArray[np.uint8] = images[0]
    return image


def subject_of(entry: Entry) -> Subject:
    """Return what a stored finding runs, with the module that was stored.

    Raises UsageError if its program cannot be emitted any more, and InfrastructureError if a file
    is broken, or does not fit the others.
    """
    finding = entry.finding
    program = decode_program(entry.read(PROGRAM), str(entry.path / PROGRAM))
    try:
        check_defined(program, target=finding.target)
    except UndefinedProgramError as error:
        raise InfrastructureError(f"{entry.path / PROGRAM}: {error}") from None
    image = image_of(entry, INPUT, program)
    module = emit(program, module=Module.named(finding.target, finding.ptx_version))
    copies, most = finding.details.get("copies", 1), most_copies(program)
    if not isinstance(copies, int) or not 1 <= copies <= most:
        raise InfrastructureError(
            f"finding {finding.id} is to be run in {copies!r:.80} copies; 1 to {most} are possible"
        )
    return Subject(
        module=replace(module, ptx=entry.read(MODULE).decode(errors="replace")),
        program=program,
        image=image,
        copies=copies,
    )
