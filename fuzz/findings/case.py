"""Findings with images as the corpus keeps them, and as they are read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus import (
    Case,
    Entry,
    Identity,
    Kind,
    Making,
    OracleVerdict,
    Origin,
    RunnerVerdict,
    ShrinkStatus,
    Versions,
)
from corpus.finding import EXPECTED, INPUT, MODULE, PROGRAM, WRONG_STEP
from corpus.programs import decode_program, encode_program, pack, unpack
from fuzz import warpfuzz_version
from fuzz.diagnosis.experiments import CODE, Culprit
from fuzz.findings.families import Bucket, bucket_of_culprit
from fuzz.findings.launches import Setup, parse_launch, setup_of
from fuzz.findings.making import is_by_hand
from fuzz.findings.verdicts import NO_PROGRAM, Attempt, Subject, differences, most_copies
from fuzz.runner import OpenRunner, RunnerChoice
from oracle.errors import InfrastructureError, UndefinedProgramError, UsageError
from oracle.isa.lookup import is_available
from oracle.isa.targets import Module
from oracle.models import Confidence, model_for, weakest
from oracle.program.program import Program, check_defined, requirements, walk
from oracle.program.steps import is_lane_code
from runners.emission import emit
from runners.kernels import Kernel, KernelModule
from runners.protocol import NO_SM
from runners.ptx_text import kernel_name, with_header
from strategies.programs import GENERATOR_VERSION
from strategies.simplification.values import complexity

REWRITTEN = "rewritten.ptx"
ORIGINAL = "original.ptx"  # a judged kernel before it was made smaller
ACTUAL = "actual.npy"
LAUNCH = "launch.toml"
"""How a kernel with parameters of its own is launched (`fuzz.findings.launches`)."""
OTHER_KERNELS = "other kernels"
"""Detail of a case: how many more the module has, because without them it is right."""
JUDGED = "judged as"
"""Detail of a case: the target with its compiler (`oracle.isa.targets.split_compiler`)."""
_SHOWN_DIFFERENCES = 8
TEXT_CHARACTERS = 4000  # characters that are kept of a tool's output; the rest rarely helps


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """A finding, before it is written down."""

    kind: Kind
    bucket: Bucket
    subject: Subject
    attempts: Sequence[Attempt]  # of the subject, the one that shows it best first
    culprit: str = ""  # the step that experiments show to be wrong; "" where none tells

    @property
    def results(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]] | None:
        """What was expected, and one image that came out wrong, uint8 (image_bytes,) both."""
        for one in self.attempts:
            if one.actual is not None and one.expected is not None:
                different = (one.actual != one.expected).any(axis=1)
                if different.any():
                    return one.expected, one.actual[int(np.argmax(different))]
        return None

    def named(self, culprit: Culprit | None, *, builds: str = "") -> Evidence:
        """Return it named after what is wrong; as it is, where that is unknown.

        Of code whose wrong instructions are not told apart yet, what it ends in says more: findings
        of many causes would have one name. `builds` are the compilers that alone have it, or "".
        """
        if culprit is None or culprit.instructions == (CODE,):
            return self
        bucket = bucket_of_culprit(self.kind, culprit, builds)
        return replace(self, bucket=bucket, culprit=culprit.name)


def case_of(
    evidence: Evidence, opened: OpenRunner, *, origin: Origin, status: ShrinkStatus
) -> Case:
    """Describe a finding for the corpus."""
    subject, attempts, choice = evidence.subject, evidence.attempts, opened.choice
    program, shown = subject.program, attempts[0]
    compiled, failed = shown.compiled, [one.failed for one in attempts]
    architecture = compiled.architecture if compiled else opened.target
    sms = sorted({sm for one in attempts for sm in one.sms} - {NO_SM})
    details: dict[str, str | int | float | bool] = {
        "architecture": architecture,
        "copies": subject.copies,
        "runs": len(attempts),
        "failed runs": sum(map(bool, failed)),
        "rate": sum(failed) / (subject.copies * len(attempts)),
        "sms": " ".join(map(str, sms))[:TEXT_CHARACTERS],
    }
    if subject.others:
        details[OTHER_KERNELS] = len(subject.others)
    if evidence.culprit:
        details[WRONG_STEP] = evidence.culprit
    if compiled is not None:
        details["compiler"] = compiled.compiler
    message = ""
    if (results := evidence.results) is not None:
        found = differences(program, *results)
        details["differing elements"] = len(found)
        judged = architecture if compiled is None else compiled.oracle_target
        if judged != architecture:
            details[JUDGED] = judged
        model = model_for(judged)
        products = [form for form in requirements(program) if form.is_product]
        details["confidence"] = weakest((Confidence.MEASURED, *map(model.confidence_for, products)))
        details["model"] = model.name
        if model.file:
            details["model file"] = Path(model.file).name
        told = [*map(str, found[:_SHOWN_DIFFERENCES])]
        details |= {f"difference {number}": said for number, said in enumerate(told, 1)}
        message = "\n".join(told)
    if shown.failure is not None:
        message = f"{shown.failure}\n{shown.failure.detail}".strip()
    return case_by(
        opened,
        choice,
        evidence.kind,
        evidence.bucket.identity,
        message,
        instructions=instructions_of(program),
        target=opened.target,
        ptx_version=subject.module.version,
        oracle=OracleVerdict(verdict="legal"),
        versions=made_by(),
        origin=origin,
        shrink=status,
        complexity=complexity(program, subject.image),
        details=details,
    )


def case_by(
    opened: OpenRunner,
    choice: RunnerChoice,
    kind: Kind,
    identity: Identity,
    message: str,
    **rest: Any,
) -> Case:
    """Return the case that a runner shows, with other fields of it, and how it was made."""
    verdict = RunnerVerdict(
        runner=choice.label,
        version=opened.version,
        options=choice.options,
        outcome=kind.value,
        message=message[:TEXT_CHARACTERS],
        device=opened.device,
    )
    made = Making(
        runner=choice.name,
        layout=choice.layout,
        level=choice.level,
        assembler="" if choice.assembler is None else choice.assembler.spelled,
        faults=tuple(choice.faults),
        ptx_pass=choice.ptx_pass or "",
        front_end="" if choice.front_end is None else choice.front_end.spelled,
    )
    return Case(kind=kind, identity=identity, runners=(verdict,), made=made, **rest)


def made_by() -> Versions:
    """Return what makes findings of drawn programs and instructions here."""
    return Versions(warpfuzz=warpfuzz_version(), generator=GENERATOR_VERSION)


def files_of(evidence: Evidence) -> Mapping[str, bytes]:
    """Return the files of a finding by name."""
    subject, compiled = evidence.subject, evidence.attempts[0].compiled
    files = {
        MODULE: subject.module.ptx.encode(),
        PROGRAM: encode_program(subject.program),
        INPUT: pack(subject.image[None]),
    }
    if compiled is not None and compiled.module.ptx != subject.module.ptx:
        files[REWRITTEN] = compiled.module.ptx.encode()
    if evidence.results is not None:
        files |= {
            name: pack(image[None])
            for name, image in zip((EXPECTED, ACTUAL), evidence.results, strict=True)
        }
    return files


def instructions_of(program: Program) -> tuple[str, ...]:
    """Return the opcodes of a program's matrix instructions; without any, of its code of lanes."""
    steps = [*walk(program.steps)]
    found = tuple(step.instruction.opcode for step in steps if step.instruction)
    return found or tuple(opcode for step in steps if is_lane_code(step) for opcode in step.opcodes)


def image_of(entry: Entry, name: str, size: int | None = None) -> NDArray[np.uint8]:
    """Return a stored image, (bytes,), of a given size; InfrastructureError if it is not."""
    images = unpack(entry, name)
    size = (images.shape or (0,))[-1] if size is None else size
    if images.dtype != np.uint8 or images.shape != (1, size):
        raise InfrastructureError(
            f"{entry.path / name} holds {images.dtype} of shape {images.shape}, and an image here "
            f"is uint8 of shape (1, {size}); restore the folder from a backup"
        )
    image: NDArray[np.uint8] = images[0]
    return image


def subject_of(entry: Entry) -> Subject:
    """Return what a stored finding of a program runs, with the module that was stored.

    UsageError: its program cannot be emitted any more. InfrastructureError: a file is broken.
    """
    finding = entry.finding
    program = decode_program(entry.read(PROGRAM), str(entry.path / PROGRAM))
    try:
        check_defined(program, target=finding.target)
    except UndefinedProgramError as error:
        raise InfrastructureError(f"{entry.path / PROGRAM}: {error}") from None
    image = image_of(entry, INPUT, program.image_bytes)
    module = emit(program, module=Module.named(finding.target, finding.ptx_version))
    copies, most = finding.details.get("copies", 1), most_copies(program)
    if not isinstance(copies, int) or not 1 <= copies <= most:
        raise InfrastructureError(
            f"finding {finding.id} is to be run in {copies!r:.80} copies; 1 to {most} are possible"
        )
    module = replace(module, ptx=entry.read(MODULE).decode(errors="replace"))
    return Subject(module=module, program=program, image=image, copies=copies)


def subject_for(entry: Entry, *, target: str, version: str) -> Subject:
    """Return what a stored finding runs, for values of .target and .version.

    A program is written anew for another target. UsageError: it lacks an instruction of it.
    """
    if is_by_hand(entry):
        return by_hand(entry)[0]
    subject, finding = subject_of(entry), entry.finding
    module = Module.named(target, version)
    for form in requirements(subject.program):
        if not is_available(form, module):
            raise UsageError(
                f"finding {entry.id} has {form.opcode}, which {target} lacks with PTX ISA "
                f"{version}; choose another --target or --ptx-version"
            )
    if target != finding.target:
        return replace(subject, module=emit(subject.program, module=module))
    if version != finding.ptx_version:
        text = with_header(subject.module.ptx, target=target, version=version)
        return replace(subject, module=replace(subject.module, ptx=text, version=version))
    return subject


def by_hand(entry: Entry) -> tuple[Subject, Setup | None]:
    """Return what a case runs that a person wrote, and its launch where it has one of its own.

    Its images are uint8 (1, bytes). The module's first entry keeps the convention of
    `runners.kernels`, and one warp runs; or there is a `launch.toml`. A difference is of the case's
    own kind: what the ISA says of it, the person knows. UsageError: it has no entry.
    """
    finding = entry.finding
    ptx = entry.read(MODULE).decode(errors="replace")
    name = kernel_name(ptx)
    if name is None:
        raise UsageError(f"{entry.path / MODULE} has no .entry; write the kernel that is to run")
    image = image_of(entry, INPUT)
    told = image_of(entry, EXPECTED, len(image)), finding.kind
    kernel = Kernel(entry=name, image_bytes=len(image), warps_per_block=1)
    setup = None
    if LAUNCH in finding.files:
        setup = setup_of(ptx, parse_launch(entry.read(LAUNCH), str(entry.path / LAUNCH)))
        (kernel,) = setup.module(ptx).kernels
    if kernel.image_bytes != len(image):
        raise InfrastructureError(
            f"{entry.path / LAUNCH} asks for images of {kernel.image_bytes} bytes, and "
            f"{INPUT} has {len(image)}; restore the folder from a backup"
        )
    module = KernelModule(
        ptx=ptx, target=finding.target, version=finding.ptx_version, kernels=(kernel,)
    )
    return Subject(module=module, program=NO_PROGRAM, image=image, told=told), setup
