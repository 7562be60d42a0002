"""What a worker does with a finding that was stored raw: replay it, and make it smaller."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, reduce
from pathlib import Path

import msgspec
import numpy as np

from corpus import Case, Entry, Kind, ShrinkStatus, open_corpus
from corpus.entry import EXPECTED, KERNEL
from corpus.finding import WRONG_STEP
from corpus.programs import unpack
from fuzz.campaign.heartbeat import BeatingRunner
from fuzz.checks.program_rounds import CompiledOnce, nothing_compiles
from fuzz.checks.protocol import Examination, Found, FoundState, Heartbeat, Stage
from fuzz.diagnosis.culprit import culprit_of, in_company
from fuzz.diagnosis.experiments import Culprit, ExperimentDevice, Remembered
from fuzz.diagnosis.lane_code import refused_code
from fuzz.findings.case import ACTUAL, Evidence, case_of, files_of, subject_of
from fuzz.findings.families import (
    Bucket,
    beside_other_kernels,
    bucket_of_difference,
    bucket_of_failure,
    bucket_of_flaky,
    what_was_said,
)
from fuzz.findings.replay import (
    COPIES,
    KERNEL_SECONDS,
    Attempt,
    Subject,
    attempt,
    conclusion,
    most_copies,
    replays_of,
    smallest_kernel,
)
from fuzz.kinds import KINDS
from fuzz.runner import OpenRunner, RunnerChoice, open_runner
from fuzz.shrinking import RunnerVerdicts, Verdicts, shrink
from oracle.errors import DeviceLostError, InfrastructureError, UsageError, WarpfuzzError
from oracle.program import Program
from oracle.targets import Module
from runners.emission import emit
from runners.protocol import ClosedAtTheEnd, Failure, Runner, Trouble
from runners.ptx_text import without_kernel
from strategies.features import main_form

_LEVELS = (0, 3)
"""-O levels of which the one is tried that was not used: without optimisation, and the default."""


_RATE_FAILURES = 10
"""Failures after which a rate is known: to a third (one standard deviation, Poisson)."""
_RATE_EXECUTIONS, _RATE_SECONDS = 10_000, 5.0
"""Executions and seconds after which it is told as it is by then."""
CODE_SECONDS = 15.0
"""Time for making scalar code that crashes a compiler smaller: a run of one takes 0.1 s."""


class OtherRunners(ClosedAtTheEnd):
    """Other runners than the one that found something, opened when they are needed."""

    def __init__(self, ready: OpenRunner) -> None:
        self._ready = ready
        self._stack = ExitStack()
        self._runners: dict[RunnerChoice, Runner | None] = {}

    def close(self) -> None:
        """Close the runners."""
        self._stack.close()

    @cached_property
    def same_code(self) -> OpenRunner | None:
        """The simulated device, given the PTX that the GPU is given; None if it is warpfuzz's own.

        It says where lanes are apart that have to be together, which a GPU does not.
        """
        choice = self._ready.choice
        if choice.name != "cuda" or not choice.changes_ptx:
            return None
        same = replace(
            choice, name="sim", target=self._ready.target, ptx_version=self._ready.ptx_version,
            assembler=None, device=0, deadline=None,
        )  # fmt: skip
        try:
            ready = open_runner(same)
        except WarpfuzzError:
            return None
        self._stack.enter_context(ready.runner)
        return ready

    def details(self, subject: Subject, shown: Attempt) -> dict[str, str]:
        """Return what became of a subject elsewhere, in words, by where that was."""
        if shown.actual is None or shown.expected is None:
            return {}
        found = {}
        choice = self._ready.choice
        if choice.name == "cuda":
            used = max(_LEVELS) if choice.level is None else choice.level
            level = next(level for level in _LEVELS if level != used)
            said = self._attempt(replace(choice, level=level), subject, shown)
            found[f"at -O{level}"] = said
        plain = RunnerChoice(
            name="sim", target=subject.module.target, ptx_version=subject.module.version
        )
        found["simulated device"] = self._attempt(plain, subject, shown)
        return found

    def _attempt(self, choice: RunnerChoice, subject: Subject, shown: Attempt) -> str:
        try:
            if choice not in self._runners:
                self._runners[choice] = None
                self._runners[choice] = self._stack.enter_context(open_runner(choice).runner)
            runner = self._runners[choice]
            if runner is None:
                return "not available"
            other = attempt(runner, subject)
        except DeviceLostError:
            raise
        except WarpfuzzError as error:
            return f"cannot be asked: {error}"
        return _words(other, shown)


def _words(other: Attempt, shown: Attempt) -> str:
    if other.failure is not None:
        return f"does not run it: {other.failure}"
    if other.kind is None:
        return "agrees with the oracle"
    if other.actual is not None and shown.actual is not None:
        wrong = (shown.actual != shown.expected).any(axis=1)
        if np.array_equal(other.actual[0], shown.actual[int(np.argmax(wrong))]):
            return "agrees with the device"
    return f"gives a third result: {other.kind}"


ON_A_GPU = "on a GPU"
"""Detail of a case that the simulated device tells: what a GPU did with the same PTX."""


BROKEN = "not examined for a defect of warpfuzz"
"""Detail of a case that keeps the name that it had: the exception that ended its examination."""


class Examiner:
    """Examines findings on one runner; what is replayed is compiled each time."""

    def __init__(self, ready: OpenRunner, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._ready = replace(ready, runner=BeatingRunner(ready.runner, heartbeat))
        self._once = CompiledOnce(self._ready.runner)
        self._others = OtherRunners(ready)
        self._alike: dict[tuple[str, str, Module], tuple[str, ...]] = {}

    def close(self) -> None:
        """Close the runners with which findings were compared."""
        self._others.close()

    def examine(self, job: Examination) -> Found:
        """Replay a finding, or make it smaller."""
        self._heartbeat.enter(Stage.RUN)
        entry = open_corpus(job.corpus).get(job.id)
        try:
            return self._examine(entry, subject_of(entry), job)
        finally:
            self._once.forget()
            self._heartbeat.enter(Stage.WAIT)

    def _examine(self, entry: Entry, subject: Subject, job: Examination) -> Found:
        apart = self._lanes_apart(subject)
        if apart is not None:
            return self._on_simulated_device(entry, apart, job)
        broken = ""
        try:
            try:
                if job.seconds is None:
                    found, status = self._confirmed(entry, subject, job.bucket), ShrinkStatus.RAW
                else:
                    found, status = self._shrunk(entry, subject, job.bucket, job.seconds)
            except (WarpfuzzError, OSError, MemoryError):
                raise
            except Exception as error:  # a finding is worth more than what can be told of it
                broken = _defect(error)
                found, status = self._as_named(entry, subject, job.bucket), entry.finding.shrink
        except DeviceLostError as error:
            return self._lost(entry, subject, error)
        if found is None:
            return Found(bucket=job.bucket, state=FoundState.GONE)
        examined = self._examined(entry, found, status)
        return _with_detail(examined, BROKEN, broken) if broken else examined

    def _lanes_apart(self, subject: Subject) -> OpenRunner | None:
        """Return the simulated device where it says that the PTX takes lanes apart, not the GPU.

        What a GPU does then is undefined: it hangs, or gives any values, and names nothing.
        """
        ready = self._others.same_code
        if ready is None or attempt(ready.runner, subject).kind is not Kind.DIVERGENCE:
            return None
        return ready

    def _on_simulated_device(self, entry: Entry, ready: OpenRunner, job: Examination) -> Found:
        """Examine a finding there, and keep what the GPU did first."""
        examiner = Examiner(ready, self._heartbeat)
        try:
            examined = examiner.examine(job)
        finally:
            examiner.close()
        first = entry.finding
        said = f"{self._ready.device}: {first.runners[-1].message or first.kind}"
        where = first.details.get(ON_A_GPU, said)
        return _with_detail(examined, ON_A_GPU, where)

    def _examined(
        self, entry: Entry, evidence: Evidence, status: ShrinkStatus, lost: str = ""
    ) -> Found:
        origin = entry.finding.origin
        if origin is None:
            raise InfrastructureError(
                f"finding {entry.id} does not say where it was found; a campaign did not store it"
            )
        case = case_of(evidence, self._ready, origin=origin, status=status)
        files = dict(files_of(evidence))
        if not lost:
            case = self._compared(case, evidence)
            seconds = 0.0 if status is ShrinkStatus.RAW else KERNEL_SECONDS
            kernel = smallest_kernel(
                self._ready.runner, evidence.subject, evidence.kind, seconds=seconds
            )
            if kernel is not None:
                files[KERNEL] = kernel.encode()
        state = FoundState.REPLAYED
        return Found(bucket=evidence.bucket, case=case, files=files, state=state, lost=lost)

    def _lost(self, entry: Entry, subject: Subject, error: DeviceLostError) -> Found:
        failure = Failure(trouble=Trouble.DEVICE_LOST, message=str(error))
        kind = Kind.DEVICE_LOST
        evidence = Evidence(
            kind=kind,
            bucket=bucket_of_failure(kind, main_form(subject.program), failure),
            subject=subject,
            attempts=[Attempt(kind=kind, failure=failure, failed=1)],
        )
        return self._examined(entry, evidence, ShrinkStatus.RAW, lost=str(error))

    def _compared(self, case: Case, evidence: Evidence) -> Case:
        """Return a case with what other runners make of it."""
        if not KINDS[evidence.kind].shrinks:
            return case
        known = self._others.details(evidence.subject, evidence.attempts[0])
        return msgspec.structs.replace(case, details={**case.details, **known})

    def _confirmed(self, entry: Entry, subject: Subject, bucket: Bucket) -> Evidence | None:
        kind, subject, attempts = self._replayed(entry, subject)
        if kind is None:
            return None
        if kind is not entry.finding.kind:
            bucket = self._bucket(kind, subject, attempts)
        shown = attempts[0].failure
        if kind is Kind.COMPILE_FAILURE and shown is not None:
            if self._nothing_compiles(subject):
                bucket = bucket_of_failure(kind, None, shown)
            elif not shown.detail.strip() and (code := self._refused(subject, shown)):
                return code
        culprit = self._culprit(kind, subject)
        # A campaign may end before it comes to making this smaller.
        bare = self._bare(kind, subject, culprit)
        if bare is not subject and conclusion(again := self._repeated(bare, kind)) is kind:
            subject, attempts = bare, again
        evidence = Evidence(kind=kind, bucket=bucket, subject=subject, attempts=attempts)
        # What is wrong together has its name once nothing else is around it.
        return evidence if in_company(culprit) else self._named(evidence, culprit)

    def _refused(self, subject: Subject, failure: Failure) -> Evidence | None:
        """Return scalar code at which a compiler dies without a word.

        None where it does not die of code alone: the name is the matrix instruction then.
        """
        module = Module.named(subject.module.target, subject.module.version)

        def smaller(program: Program) -> Subject | None:
            try:
                made = emit(program, module=module)
            except UsageError:
                return None
            image = np.zeros(program.image_bytes, np.uint8)
            return replace(subject, module=made, program=program, image=image)

        def refuses(program: Program) -> bool:
            self._heartbeat.beat()
            one = smaller(program)
            said = None if one is None else self._ready.runner.compile(one.module)
            return isinstance(said, Failure) and what_was_said(said) == what_was_said(failure)

        found = refused_code(subject.program, refuses, CODE_SECONDS)
        if found is None or found.witness is None:
            return None
        left = smaller(found.witness.program)
        if left is None:
            return None
        kind, said = Kind.COMPILE_FAILURE, what_was_said(failure)
        attempts = self._repeated(left, kind)
        if conclusion(attempts) is not kind:
            return None
        return Evidence(
            kind=kind,
            bucket=Bucket.of(kind, *found.instructions, condition=found.condition, message=said),
            subject=left,
            attempts=attempts,
            culprit=found.name,
        )

    def _as_named(self, entry: Entry, subject: Subject, bucket: Bucket) -> Evidence | None:
        """Run a finding again, and keep the name that it has."""
        kind, subject, attempts = self._replayed(entry, subject)
        if kind is None:
            return None
        if kind is not entry.finding.kind:
            bucket = self._bucket(kind, subject, attempts)
        told = str(entry.finding.details.get(WRONG_STEP, ""))
        return Evidence(kind=kind, bucket=bucket, subject=subject, attempts=attempts, culprit=told)

    def _replayed(
        self, entry: Entry, subject: Subject
    ) -> tuple[Kind | None, Subject, Sequence[Attempt]]:
        """Run a finding again; return what it is now called, what ran, and the runs."""
        attempts = self._repeated(subject, entry.finding.kind)
        if not any(one.failed for one in attempts):
            # What fails only in some places of the device, or of a block, needs warps in many.
            wide = replace(subject, copies=COPIES)
            in_company = self._repeated(wide, entry.finding.kind)
            if any(one.failed for one in in_company):
                subject, attempts = wide, in_company
        kind = conclusion(attempts)
        if kind is None or kind is Kind.FLAKY:
            return Kind.FLAKY, *self._measured(entry, subject, attempts)
        return kind, subject, attempts

    def _measured(
        self, entry: Entry, subject: Subject, before: Sequence[Attempt]
    ) -> tuple[Subject, Sequence[Attempt]]:
        """Run what does not fail always until its rate is known; return what ran, and the runs.

        The first run is part of the evidence where no other one failed.
        """
        wide = replace(subject, copies=min(COPIES, most_copies(subject.program)))
        attempts: list[Attempt] = []
        end = time.monotonic() + _RATE_SECONDS
        while not attempts or (
            sum(one.failed for one in attempts) < _RATE_FAILURES
            and len(attempts) * wide.copies < _RATE_EXECUTIONS
            and time.monotonic() < end
        ):
            one = attempt(self._ready.runner, wide)
            if one.actual is not None and one.expected is not None:
                # Of 40 launches the images that show nothing would fill the memory.
                one = replace(one, actual=one.actual[(one.actual != one.expected).any(axis=1)])
            attempts.append(one)
        if not any(one.failed for one in attempts):
            attempts.append(_first(entry, wide))
            if any(one.failed for one in before):
                wide, attempts = subject, [_first(entry, subject), *before]
        return wide, sorted(attempts, key=lambda one: -one.failed)

    def _nothing_compiles(self, subject: Subject) -> bool:
        module = Module.named(subject.module.target, subject.module.version)
        return nothing_compiles(self._ready.runner, module)

    def _bucket(self, kind: Kind, subject: Subject, attempts: Sequence[Attempt]) -> Bucket:
        form, failure = main_form(subject.program), attempts[0].failure
        if kind is Kind.FLAKY:
            return bucket_of_flaky(form)
        if failure is not None:
            return bucket_of_failure(kind, form, failure)
        bucket = bucket_of_difference(kind, form)
        return beside_other_kernels(bucket) if subject.others else bucket

    def _named(self, evidence: Evidence, culprit: Culprit | None) -> Evidence:
        return evidence.named(culprit)

    def _shrunk(
        self, entry: Entry, subject: Subject, bucket: Bucket, seconds: float
    ) -> tuple[Evidence | None, ShrinkStatus]:
        """Return a finding, smaller and confirmed; as it was, where it does not last."""
        kind = entry.finding.kind
        end = time.monotonic() + seconds
        subject = self._fewer_kernels(kind, subject, end)
        culprit = self._culprit(kind, subject)
        begin = self._bare(kind, subject, culprit)
        left = max(0.0, end - time.monotonic())
        shrunk = shrink(begin, self._verdicts, wanted=kind, seconds=left)
        smaller = self._fewer_kernels(kind, shrunk.subject, end)
        attempts, status = self._repeated(smaller, kind), shrunk.status
        if conclusion(attempts) is kind:
            subject, other = smaller, self._culprit(kind, smaller)
            # What is left may show less than there was, and never is it another's name.
            if culprit is None or (
                other is not None and (other.key == culprit.key or in_company(culprit))
            ):
                culprit = other
        else:
            attempts, status = self._as_it_was(entry, subject), ShrinkStatus.FLAKY
        if not attempts:
            return None, status
        made = Evidence(kind=kind, bucket=bucket, subject=subject, attempts=attempts)
        return self._named(made, culprit), status

    def _fewer_kernels(self, kind: Kind, subject: Subject, end: float) -> Subject:
        """Return a subject without those of the other kernels that it does not need."""
        for names in (subject.others, *((name,) for name in subject.others)):
            if not subject.others or time.monotonic() >= end:
                break
            text = reduce(without_kernel, names, subject.module.ptx)
            fewer = replace(subject, module=replace(subject.module, ptx=text))
            if attempt(self._once, fewer).kind is kind:
                subject = fewer
        return subject

    @property
    def _verdicts(self) -> Verdicts:
        """What becomes of candidates for a smaller finding."""
        return RunnerVerdicts(self._once)

    def _as_it_was(self, entry: Entry, subject: Subject) -> list[Attempt]:
        return [_first(entry, subject)]

    def _culprit(self, kind: Kind, subject: Subject) -> Culprit | None:
        # Experiments have no other kernels beside them.
        if not KINDS[kind].has_culprit or subject.others:
            return None
        copies = COPIES if kind is Kind.FLAKY else subject.copies
        device = ExperimentDevice(
            self._once, subject.module, copies=copies,
            remembered=Remembered(alike=self._alike),
        )  # fmt: skip
        return culprit_of(device, subject.program, subject.image)

    def _bare(self, kind: Kind, subject: Subject, culprit: Culprit | None) -> Subject:
        """Return a case of nothing but the step that is wrong, if there is one of this kind."""
        if culprit is None or culprit.witness is None:
            return subject
        program = culprit.witness.program
        module = emit(program, module=Module.named(subject.module.target, subject.module.version))
        for image in culprit.witness.images:
            smaller = replace(subject, module=module, program=program, image=image)
            if attempt(self._once, smaller).kind is kind:
                return smaller
        return subject

    def _repeated(self, subject: Subject, kind: Kind) -> list[Attempt]:
        return [attempt(self._ready.runner, subject) for _ in range(replays_of(kind))]


def _defect(error: Exception) -> str:
    """Say where an exception that nobody expected comes from."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(where.filename).name}, line {where.lineno}"
    return f"{type(error).__name__} in {place}: {error}"


def _with_detail(found: Found, name: str, text: str | float) -> Found:
    if found.case is None:
        return found
    details = {**found.case.details, name: text}
    return replace(found, case=msgspec.structs.replace(found.case, details=details))


def _first(entry: Entry, subject: Subject) -> Attempt:
    """Return the run in which a finding was seen first, from what is stored of it."""
    finding = entry.finding
    if ACTUAL in finding.files and EXPECTED in finding.files:
        return Attempt(
            kind=finding.kind,
            actual=unpack(entry, ACTUAL),
            expected=unpack(entry, EXPECTED)[0],
            failed=1,
        )
    said = finding.runners[-1].message if finding.runners else ""
    trouble, *_ = KINDS[finding.kind].troubles or (Trouble.LAUNCH_FAILURE,)
    failure = Failure(trouble=trouble, message=said or "it failed")
    return Attempt(kind=finding.kind, failure=failure, failed=subject.copies)
