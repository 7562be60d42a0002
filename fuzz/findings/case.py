"""Findings as the corpus keeps them, as they are read back, and how each was made.

A corpus may come from anybody: a command that it names is shown, and run only with the user's word,
which is `--trust`, the option given again, or the same command given in this folder before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from corpus import (
    Case,
    Entry,
    Finding,
    Identity,
    Kind,
    Making,
    OracleVerdict,
    Origin,
    RunnerVerdict,
    ShrinkStatus,
    Versions,
)
from corpus.finding import EXPECTED, INPUT, MODULE, PROGRAM, RIGHT, WRONG_STEP
from corpus.programs import decode_program, encode_program, pack, unpack
from fuzz import warpfuzz_version
from fuzz.diagnosis.experiments import CODE, Culprit, words_of
from fuzz.findings.families import Bucket, bucket_of_culprit, look_of
from fuzz.findings.launches import Setup, parse_launch, setup_of
from fuzz.findings.verdicts import (
    NO_PROGRAM,
    Attempt,
    Subject,
    differences,
    in_a_line,
    most_copies,
    other_kernels,
)
from fuzz.output import typed
from fuzz.runner import BUILT_IN, OpenRunner, RunnerChoice
from oracle.errors import InfrastructureError, UndefinedProgramError, UsageError
from oracle.isa.lookup import is_available
from oracle.isa.targets import Module, parse_target, parse_version
from oracle.models import Confidence, model_for, weakest
from oracle.program.definedness import check_defined
from oracle.program.program import Program, requirements, walk
from oracle.program.steps import is_lane_code
from runners.assemblers.assembler import Assembler
from runners.compilers import (
    Selected,
    find_front_end,
    find_front_ends,
    front_ends_of,
    front_ends_selected,
    is_discovered,
    named_assembler,
    select,
)
from runners.emission import emit
from runners.faults import FaultPlace, by_name
from runners.folders import cache_folder
from runners.foreign import is_command
from runners.kernels import Kernel, KernelModule
from runners.processes import quoted
from runners.protocol import NO_SM
from runners.ptx_text import kernel_name, with_header
from runners.toolchains import VERSION, names_program, parted
from runners.variants import NONE, PLAIN, Variant, parse_variant, split_variant
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


def named_after(
    evidence: Evidence, culprit: Culprit | None, *, builds: str | None = None
) -> Evidence:
    """Return a finding named after what is wrong; as it is, where that is unknown.

    `builds`: those that alone have it, where builds are compared. There wrong code of lanes, of
    which nothing more is known yet, is named after what it ends in, and no longer after a product.
    """
    results = None if builds is None else _results(evidence.attempts)
    if culprit is None or (culprit.instructions == (CODE,) and results is None):
        return evidence
    builds = builds or ""
    if culprit.instructions == (CODE,) and results is not None:
        expected, actual = (one[None] for one in results)
        name, condition = look_of(
            evidence.subject.program, evidence.subject.image[None], actual, expected=expected,
            target=evidence.subject.module.target, form=None,
        )  # fmt: skip
        bucket = Bucket.of(evidence.kind, name, condition=condition, builds=builds)
        return replace(evidence, bucket=bucket)
    bucket = bucket_of_culprit(evidence.kind, culprit, builds)
    return replace(evidence, bucket=bucket, culprit=culprit.which or words_of(culprit))


def _results(attempts: Iterable[Attempt]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]] | None:
    """Return what was expected, and one image that came out wrong, uint8 (image_bytes,) both."""
    for one in attempts:
        if one.actual is not None and one.expected is not None:
            different = (one.actual != one.expected).any(axis=1)
            if different.any():
                return one.expected, one.actual[int(np.argmax(different))]
    return None


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
    if others := other_kernels(subject):
        details[OTHER_KERNELS] = len(others)
    if evidence.culprit:
        details[WRONG_STEP] = evidence.culprit
    if compiled is not None:
        details["compiler"] = compiled.compiler
    message = ""
    if (results := _results(attempts)) is not None:
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
        told = [*map(in_a_line, found[:_SHOWN_DIFFERENCES])]
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
        target=subject.module.target,
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
    if (results := _results(evidence.attempts)) is not None:
        files |= {
            name: pack(image[None]) for name, image in zip((EXPECTED, ACTUAL), results, strict=True)
        }
    return files


def instructions_of(program: Program) -> tuple[str, ...]:
    """Return the opcodes of a program's matrix instructions, then of its code of lanes."""
    steps = [*walk(program.steps)]
    found = (step.instruction.opcode for step in steps if step.instruction)
    code = (opcode for step in steps if is_lane_code(step) for opcode in step.opcodes)
    return *found, *code


def image_of(entry: Entry, name: str, size: int | None = None) -> NDArray[np.uint8]:
    """Return a stored image, (bytes,), of a given size; InfrastructureError if it is not."""
    images = unpack(entry, name)
    size = (images.shape or (0,))[-1] if size is None else size
    if images.dtype != np.uint8 or images.shape != (1, size):
        raise InfrastructureError(
            f"{entry.path / name} is of shape {images.shape}, not (1, {size})"
        )
    image: NDArray[np.uint8] = images[0]
    return image


def subject_of(entry: Entry) -> Subject:
    """Return what a stored finding of a program runs, with its module."""
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
    """Return what a stored finding runs for a .target and .version, or UsageError."""
    if is_by_hand(entry):
        return by_hand(entry)[0]
    subject, finding = subject_of(entry), entry.finding
    module = Module.named(target, version)
    for form in requirements(subject.program):
        if not is_available(form, module):
            raise UsageError(f"{target} with PTX {version} lacks {form.opcode} of {entry.id}")
    if target != finding.target:
        return replace(subject, module=emit(subject.program, module=module))
    if version != finding.ptx_version:
        text = with_header(subject.module.ptx, target=target, version=version)
        return replace(subject, module=replace(subject.module, ptx=text, version=version))
    return subject


def by_hand(entry: Entry) -> tuple[Subject, Setup | None]:
    """Return what a case runs that a person wrote, and its launch where it has a `launch.toml`.

    Without one the first entry keeps the convention of `runners.kernels`, and one warp runs. A
    difference is of the case's own kind. UsageError: it has no entry.
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
        raise InfrastructureError(f"{entry.path / LAUNCH} asks for {kernel.image_bytes} bytes")
    module = KernelModule(
        ptx=ptx, target=finding.target, version=finding.ptx_version, kernels=(kernel,)
    )
    return Subject(module=module, program=NO_PROGRAM, image=image, told=told), setup


# How it was made, and is made again

SINCE = "since when"  # what a bisection tells
NOTHING = "none"  # in place of a fault or a pass: nothing is planted


class UntrustedError(UsageError):
    """A corpus names a command, and nobody gave his word for it."""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What findings are to be run with; what is left out is as each finding was made."""

    runner: str | None = None  # by its name; None: the finding's
    target: str | None = None
    ptx_version: str | None = None
    faults: tuple[str, ...] | None = None
    """Names of planted faults; none where it is empty, or `NOTHING` alone."""
    ptx_pass: str | None = None  # a command; `NOTHING`: none
    front_end: str | None = None  # what writes the PTX; `NOTHING`: warpfuzz
    assembler: str | None = None
    variant: str | None = None
    """Its options; those of the finding where neither this nor `assembler` names some."""
    level: int | None = None
    trust: bool = False  # whether commands and programs that findings name may be run
    model: str | None = None  # path of the model that judges; None: the built-in one of the target

    def choice(self, entry: Entry, *, compiled: bool = True) -> RunnerChoice:
        """Return the runner for a finding, with its own compilers and level if `compiled`."""
        made, finding = entry.finding.made, entry.finding
        target, name = self.target or finding.target, self.runner or made.runner
        if self.model is None and "model file" in finding.details:
            raise UsageError(f"{entry.id} was judged by {finding.details['model']}: --model")
        if name in ("", "ptxas"):
            raise UsageError(f"finding {entry.id} does not say what found it; choose with --runner")
        if self.runner is None and is_command(name):
            self._check_trusted(entry, name, "--runner")
        again = name == made.runner
        version = max(parse_version(finding.ptx_version), parse_target(target).since)
        choice = RunnerChoice(
            name=name,
            target=target,
            ptx_version=self.ptx_version or str(version),
            layout=made.layout if again else 0,
            faults=self.planted(entry, name),
            ptx_pass=self.chosen(entry, "ptx_pass"),
            model=self.model,
        )
        if not compiled:
            return choice
        front_end, assembler = self.chosen(entry, "front_end"), self.assembler
        if assembler is None and again and made.assembler:
            self._check_trusted(entry, made.assembler, "--assembler")
            assembler = made.assembler
        return replace(
            choice,
            front_end=find_front_end(front_end) if front_end else None,
            assembler=self.having(named_assembler(assembler), variant_of(finding))
            if assembler
            else None,
            level=made.level if self.level is None and again else self.level,
        )

    def having(self, assembler: Assembler, own: Variant) -> Assembler:
        """Return an assembler with the options that are asked for, or else with a finding's own."""
        if self.variant is None:
            return assembler if assembler.variant else assembler.having(own)
        return assembler.having(parse_variant(self.variant))

    def planted(self, entry: Entry, runner: str | None = None) -> tuple[str, ...]:
        """Return the faults for a finding; those of the simulated device only there."""
        if self.faults is not None:
            return tuple(name for name in self.faults if name != NOTHING)
        faults = entry.finding.made.faults
        if runner in (None, "sim"):
            return faults
        return tuple(name for name in faults if by_name(name).place is FaultPlace.PTX)

    def chosen(self, entry: Entry, what: Literal["ptx_pass", "front_end"]) -> str | None:
        """Return the PTX pass for a finding, or what writes its PTX, if that is trusted."""
        given, made = getattr(self, what), getattr(entry.finding.made, what)
        if given is not None:
            return None if given == NOTHING else str(given)
        if made and (what == "ptx_pass" or names_program(made)):
            self._check_trusted(entry, made, f"--{what.replace('_', '-')}")
        return made or None

    def compilers(self, entry: Entry, named: str | None, *, runs: bool) -> Selected:
        """Return the compilers that a bisection asks; `runs`: the finding is of what ran.

        `named` is as `runners.compilers.select` takes it; None: of the front end, or those here.
        """
        front_end = self.chosen(entry, "front_end")
        if named is None and front_end is None:
            self.chosen(entry, "ptx_pass")  # the user's word comes first
            made = entry.finding.made
            device = self.runner or made.runner
            if runs and device == "sim" and not made.assembler:
                raise UsageError(f"{entry.id} came out on the simulated device: no compiler")
        if named is not None or front_end is None:
            given = variant_of(entry.finding) if self.variant is None else None
            return select(named).having(given or parse_variant(self.variant or NONE))
        if self.front_end is not None:
            return front_ends_selected(find_front_ends((front_end,)))
        return front_ends_of(parted(front_end)[0])

    def _check_trusted(self, entry: Entry, command: str, option: str) -> None:
        check_trusted(command, option=option, named_by=f"finding {entry.id}", trust=self.trust)

    def baseline(self, compiler: str) -> ReplayOptions:
        """Return the same with another compiler, or with `NOTHING` planted."""
        if compiler == NOTHING:
            return replace(self, faults=(), ptx_pass=NOTHING, front_end=NOTHING)
        return replace(self, assembler=compiler)


def variant_of(finding: Finding) -> Variant:
    """Return the options of ptxas that a finding has in all its compilers that are wrong."""
    named = finding.made.assembler
    names = {named} if named else {
        one.version for one in finding.runners
        if one.runner == "ptxas" and one.outcome not in RIGHT
    }  # fmt: skip
    found = {split_variant(name)[1] for name in names}
    return found.pop() if len(found) == 1 else PLAIN


def replay_options(options: object) -> ReplayOptions:
    """Return what the options of a command say of how findings are to be run."""
    names = [name for name in ReplayOptions.__dataclass_fields__ if hasattr(options, name)]
    given: dict[str, Any] = {name: getattr(options, name) for name in names}
    return ReplayOptions(**{**given, "faults": given["faults"] or None})


def is_value_finding(entry: Entry) -> bool:
    """Whether a finding has a program and an image, so that a runner can replay it."""
    return PROGRAM in entry.finding.files and INPUT in entry.finding.files


def is_by_hand(entry: Entry) -> bool:
    """Whether a finding has images and no program: its expected image is what a person says."""
    files = entry.finding.files
    return {MODULE, INPUT, EXPECTED} <= files.keys() and PROGRAM not in files


def is_runnable(entry: Entry) -> bool:
    """Whether a runner can replay a finding: it has a program, or images that a person wrote."""
    return is_value_finding(entry) or is_by_hand(entry)


def lacks_images(entry: Entry) -> bool:
    """Whether a finding is of what a program did, and has nothing that it could run on."""
    of_results = (Kind.DEVIATION, Kind.LAUNCH_FAILURE, Kind.DIVERGENCE, Kind.VIOLATION)
    return entry.finding.kind in of_results and not is_runnable(entry)


def commands_of(entry: Entry, *, sent: bool = False) -> list[tuple[str, str]]:
    """Return the commands of a page, each with what it does; by id if it is `sent`."""
    path, made = entry.id if sent else entry.path, entry.finding.made
    found = [("without warpfuzz", typed(("warpfuzz", "repro", path)))]
    if lacks_images(entry):
        return found
    passed = ["--runner", made.runner] if made.runner and is_command(made.runner) else []
    passed += ["--ptx-pass", made.ptx_pass] if made.ptx_pass else []
    if made.front_end and names_program(made.front_end):
        passed += ["--front-end", made.front_end]
    again = ["warpfuzz", "replay", path, *passed]
    if made.assembler and not _is_version(made.assembler):
        again += ["--assembler", made.assembler]
    if "model file" in entry.finding.details:
        again += ["--model", str(entry.finding.details["model file"])]
    # Others than a GPU run PTX: no ptxas has to do with what came out there.
    if made.runner in ("", "ptxas", "cuda") or made.front_end or made.assembler:
        found.insert(0, (SINCE, typed(("warpfuzz", "bisect", path, *passed))))
    return [("run it again", typed(again)), *found]


def _is_version(command: str) -> bool:
    return VERSION.fullmatch(split_variant(command)[0]) is not None


def remember(*commands: str | None) -> None:
    """Keep that the user gave these commands here (built-in names and versions are none)."""
    for command in filter(None, commands):
        if command in (NOTHING, *BUILT_IN) or _is_version(command):
            continue
        with suppress(OSError):
            path = _mark(command)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


def check_trusted(command: str, *, option: str, named_by: str, trust: bool) -> None:
    """Check that a command of a corpus may be run for an option; UntrustedError, which shows it."""
    if trust or _is_version(command) or _mark(command).exists():
        return
    if option == "--assembler" and is_discovered(split_variant(command)[0]):
        return
    raise UntrustedError(
        f"{named_by} names the command {quoted(command):.500}, which you have not given in "
        "this folder before: a corpus may come from anybody, so it is not run; give --trust if you "
        f"know it, or {option} with it or with another one"
    )


def _mark(command: str) -> Path:
    # Together with the folder: what a relative path names is another program elsewhere.
    key = f"{Path.cwd()}\0{split_variant(command)[0]}".encode(errors="surrogateescape")
    return cache_folder() / "trusted" / sha256(key).hexdigest()
