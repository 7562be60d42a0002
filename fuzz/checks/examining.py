"""What a worker does with a finding that was stored raw: replay it, and make it smaller."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import cast

import msgspec
import numpy as np

from corpus import Case, Entry, Kind, ShrinkStatus, open_corpus
from corpus.finding import (
    AGREES,
    BESIDE,
    DIVERGED,
    EXPECTED,
    KERNEL,
    WRONG_RESULT,
    WRONG_STEP,
)
from corpus.programs import unpack
from fuzz.checks.program_rounds import nothing_compiles
from fuzz.checks.protocol import Examination, Found, FoundState, Heartbeat, Stage
from fuzz.compilers.members import (
    BuildMatrix,
    Device,
    Member,
    MemberRunner,
    failed_in,
    with_outcomes,
)
from fuzz.diagnosis.culprit import culprit_of, in_company
from fuzz.diagnosis.experiments import Culprit, ExperimentDevice, Remembered, key_of, words_of
from fuzz.diagnosis.hangs import what_hangs
from fuzz.diagnosis.scalar import refused_code
from fuzz.findings import families
from fuzz.findings.case import ACTUAL, Evidence, case_of, files_of, named_after, subject_of
from fuzz.findings.families import Bucket
from fuzz.findings.verdicts import (
    COPIES,
    KERNEL_SECONDS,
    Attempt,
    Subject,
    attempt,
    conclusion,
    most_copies,
    other_kernels,
    replays_of,
    smallest_kernel,
    worst_of,
)
from fuzz.kinds import KINDS, Named, described
from fuzz.runner import BeatingRunner, OpenRunner, RunnerChoice, open_runner
from fuzz.shrinking import Verdicts, shrink, verdicts_by
from oracle.errors import DeviceLostError, InfrastructureError, UsageError, WarpfuzzError
from oracle.program.program import Program
from runners.emission import emit
from runners.protocol import Failure, ForwardingRunner, Runner, Trouble
from runners.ptx_text import without_kernel
from runners.toolchains import DRIVER
from strategies.features import main_form

_RATE_FAILURES = 10  # after which a rate is known: to a third (one standard deviation, Poisson)
_RATE_EXECUTIONS, _RATE_SECONDS = 10_000, 5.0  # after which it is told as it is by then
_COPIES_IN_FLIGHT = 64, 512
"""Copies of an image of a warpgroup that a launch makes wrong or not, and where few of these are:
of four programs whose registers are overwritten while a multiplication reads them, the least was
wrong in a third of its copies, of another one in 64 (H200, 2026-11-29); one that stores registers
which nothing wrote was in none of 64, and in 184 of 256 (2026-11-30)."""
_FEW_IN_FLIGHT = 8  # copies where every one of the replays was wrong in the same way
CODE_SECONDS = 15.0  # for scalar code that crashes a compiler: a run of one takes 0.1 s
ON_A_GPU = "on a GPU"
"""Detail of a case that the simulated device tells: what a GPU did with the same PTX."""


def who_alone(kind: Kind, members: Sequence[Named], among: Sequence[Named]) -> str:
    """Say which members alone do something, such as "only V13.1.115 -O3"; "" if all do."""
    if len(members) == len(among):
        return ""
    # What makes lanes part, one pass does, which other levels have as well.
    return f"only {described(members, among, levels=kind is not Kind.DIVERGENCE)}"


def bucket_of_builds(
    kind: Kind,
    name: str,
    members: Sequence[Member],
    among: Sequence[Member],
    failure: Failure | None = None,
    *,
    condition: str = "",
) -> Bucket:
    """Return the bucket of what some members do: instruction and members.

    `name` is of what the program is about (`form_name`), `condition` that without which it is
    right. A `failure` of the runner may name the instruction that is to blame; the words of a
    compiler say what is wrong with it, whatever the program is about.
    """
    if kind is Kind.DIVERGENCE and failure is not None:
        name, condition = families.under_a_condition(failure), DIVERGED
    builds = who_alone(kind, members, among) or "every compiler"
    if kind is Kind.COMPILE_FAILURE and failure is not None and failure.detail.strip():
        return Bucket.of(kind, message=families.what_was_said(failure), builds=builds)
    return Bucket.of(kind, name, condition=condition, builds=builds)


@dataclass(frozen=True, kw_only=True)
class Parties:
    """The members of a matrix that answered about a finding: others read no such module."""

    matrix: BuildMatrix
    wrong: tuple[Member, ...]  # that showed it
    right: tuple[Member, ...]  # that did as the oracle says

    @property
    def asked(self) -> Sequence[Member]:
        """All of them, in the order of the matrix."""
        answered = {*self.wrong, *self.right}
        return [member for member in self.matrix.members if member in answered]

    def opened(self, ready: OpenRunner) -> OpenRunner:
        """Return a device with the first member that showed it as its compiler."""
        runner = MemberRunner(self.matrix.device, self.wrong[0])
        return replace(ready, runner=runner, choice=self.wrong[0].choice(ready.choice))


def _concluded(attempts: Sequence[Attempt], subject: Subject, stored: Kind) -> Kind | None:
    """Return what several runs say together, of a finding that is called so.

    What a warpgroup multiplies while a register changes need not be the same every time: what is
    wrong each time is no less wrong.
    """
    kinds = [one.kind for one in attempts if one.kind is not None]
    if (
        subject.program.warps == 1
        or len(kinds) < len(attempts)
        or not all(kind.failure == WRONG_RESULT for kind in kinds)
    ):
        return conclusion(attempts)
    return stored if stored in kinds else worst_of(kinds)


def _in_copies(subject: Subject, copies: int) -> Subject:
    """Return a subject in so many copies, or in as many as may be run at once."""
    return replace(subject, copies=min(copies, most_copies(subject.program)))


class Examiner:
    """Examines findings on one runner; what is replayed is compiled each time."""

    def __init__(
        self, ready: OpenRunner, heartbeat: Heartbeat, parties: Parties | None = None
    ) -> None:
        self._heartbeat, self._parties = heartbeat, parties
        self._ready = replace(ready, runner=BeatingRunner(ready.runner, heartbeat.beat))
        self._once = BeatingRunner(ready.runner, heartbeat.beat, keeps=True)
        self._remembered = defaultdict[int, Remembered](Remembered)  # by copies of an image
        self._levels: dict[int, Runner] = {}  # runners at other levels, opened when one is needed
        self._opened = ExitStack()

    def close(self) -> None:
        """Close the simulated device and the other levels, where they were opened."""
        self._opened.close()

    def examine(self, job: Examination) -> Found:
        """Replay a finding, or make it smaller."""
        self._heartbeat.enter(Stage.RUN)
        entry = open_corpus(job.corpus).get(job.id)
        subject, same = subject_of(entry), self._same_code
        try:
            if same is not None and attempt(same.runner, subject).kind is Kind.DIVERGENCE:
                return self._on_simulated_device(entry, same, job)
            return self._examine(entry, subject, job)
        except DeviceLostError as error:
            return self._lost(entry, subject, error)
        finally:
            self._once.kept.clear()
            self._heartbeat.enter(Stage.WAIT)

    def _examine(self, entry: Entry, subject: Subject, job: Examination) -> Found:
        end = time.monotonic() + (job.seconds or 0.0)
        if job.seconds is None:
            found, status = self._confirmed(entry, subject, job), ShrinkStatus.RAW
        else:
            wrong = entry.finding.kind.failure == WRONG_RESULT  # no other has a smallest kernel
            for_kernel = min(KERNEL_SECONDS, job.seconds / 2) * wrong
            found, status = self._shrunk(entry, subject, job, end - for_kernel)
        if found is None:
            return Found(bucket=job.bucket, state=FoundState.GONE)
        is_there = found.bucket in job.replayed
        return self._examined(entry, found, status, end, is_there=is_there)

    @cached_property
    def _same_code(self) -> OpenRunner | None:
        """The simulated device, given the PTX that a GPU is given; None if it is warpfuzz's own."""
        ready = self._ready
        if self._parties or ready.choice.name != "cuda" or not ready.choice.changes_ptx:
            return None
        choice = replace(
            ready.choice, name="sim", target=ready.target, ptx_version=ready.ptx_version,
            assembler=None, device=0, deadline=None,
        )  # fmt: skip
        try:
            same = open_runner(choice)
        except WarpfuzzError:
            return None
        self._opened.enter_context(same.runner)
        return same

    def _on_simulated_device(self, entry: Entry, ready: OpenRunner, job: Examination) -> Found:
        """Examine a finding there, and keep what the GPU did first."""
        examiner = Examiner(ready, self._heartbeat)
        with closing(examiner):
            examined = examiner.examine(job)
        first = entry.finding
        said = f"{self._ready.device}: {first.runners[-1].message or first.kind}"
        if examined.case is None:
            return examined
        told = {**examined.case.details, ON_A_GPU: first.details.get(ON_A_GPU, said)}
        return replace(examined, case=msgspec.structs.replace(examined.case, details=told))

    def _examined(
        self, entry: Entry, evidence: Evidence, status: ShrinkStatus, end: float, lost: str = "",
        *, is_there: bool = False,
    ) -> Found:  # fmt: skip
        """Return a finding as it is stored; its kernel is made smaller until `end` (monotonic).

        Of one that `is_there` under its name nothing more is found out: it is counted.
        """
        origin, subject = entry.finding.origin, evidence.subject
        if origin is None:
            raise InfrastructureError(
                f"finding {entry.id} does not say where it was found; a campaign did not store it"
            )
        case = case_of(evidence, self._ready, origin=origin, status=status)
        files = dict(files_of(evidence))
        if not (lost or is_there):
            case = self._compared(case, evidence)
            # What the program has left of its half is for the kernel.
            left = min(2 * KERNEL_SECONDS, max(0.0, end - time.monotonic()))
            kernel = smallest_kernel(self._ready.runner, subject, evidence.kind, seconds=left)
            if kernel is not None:
                files[KERNEL] = kernel.encode()
        state = FoundState.REPLAYED
        return Found(bucket=evidence.bucket, case=case, files=files, state=state, lost=lost)

    def _lost(self, entry: Entry, subject: Subject, error: DeviceLostError) -> Found:
        failure, kind = Failure(trouble=Trouble.DEVICE_LOST, message=str(error)), Kind.DEVICE_LOST
        evidence = Evidence(
            kind=kind,
            bucket=families.bucket_of_failure(kind, main_form(subject.program), failure),
            subject=subject,
            attempts=[Attempt(kind=kind, failure=failure, failed=1)],
        )
        return self._examined(entry, evidence, ShrinkStatus.RAW, time.monotonic(), str(error))

    # What others make of it

    def _compared(self, case: Case, evidence: Evidence) -> Case:
        """Return a case with what the members of a matrix make of it, or another -O level."""
        parties = self._parties
        if parties is None:
            return self._at_another_level(case, evidence)
        if case.shrink is not ShrinkStatus.RAW:
            return with_outcomes(case, self._now(parties.matrix, evidence.subject))
        # Raw, it is told what each member did when the finding was made.
        kind = case.kind.value
        outcomes = {one: kind if one in parties.wrong else "match" for one in parties.asked}
        return with_outcomes(case, outcomes)

    def _at_another_level(self, case: Case, evidence: Evidence) -> Case:
        """Return a case of a GPU with what comes out at -O0, or, if it was built so, at -O3."""
        choice, subject = self._ready.choice, evidence.subject
        if choice.name != "cuda" or not KINDS[evidence.kind].shrinks:
            return case
        level = 3 if choice.level == 0 else 0

        def same_device(_: RunnerChoice) -> Runner:
            device = self._ready.runner
            while isinstance(device, ForwardingRunner):
                device = device.inner
            member = Member(toolchain=choice.assembler or DRIVER, level=level)
            return MemberRunner(cast(Device, device), member)

        try:
            if level not in self._levels:
                at_level = open_runner(replace(choice, level=level, maker=same_device)).runner
                self._levels[level] = self._opened.enter_context(at_level)
            other = attempt(self._levels[level], subject)
        except DeviceLostError:
            raise
        except WarpfuzzError:
            return case
        said = str(other.failure or other.kind or AGREES)
        return msgspec.structs.replace(case, details={**case.details, f"at -O{level}": said})

    def _now(self, matrix: BuildMatrix, subject: Subject) -> Mapping[Member, str]:
        """Compile a subject with every member, and run what is distinct."""
        (built,) = matrix.build(subject.module, beat=self._heartbeat.beat)
        found = {
            member: Kind.COMPILE_FAILURE.value
            for member, failure in failed_in(built).items()
            if failure.trouble is not Trouble.UNSUPPORTED
        }
        for variant in matrix.variants(built, subject.module.kernels[0].entry):
            runner = MemberRunner(matrix.device, variant.members[0])
            one = attempt(BeatingRunner(runner, self._heartbeat.beat), subject)
            said = "match" if one.kind is None else one.kind.value
            found.update(dict.fromkeys(variant.members, said))
        matrix.forget()
        # All others that can be wrong about it do not read its module, or have no registers for it.
        return {member: found[member] for member in matrix.members if member in found}

    # Replays

    def _confirmed(self, entry: Entry, subject: Subject, job: Examination) -> Evidence | None:
        kind, subject, attempts = self._replayed(entry, subject)
        if kind is None:
            return None
        bucket = job.bucket
        if kind is not entry.finding.kind:
            bucket = self._bucket(kind, subject, attempts)
        evidence = Evidence(kind=kind, bucket=bucket, subject=subject, attempts=attempts)
        shown = attempts[0].failure
        # What an assembler of a matrix refuses is no finding of values.
        if kind is Kind.COMPILE_FAILURE and shown is not None and self._parties is None:
            module = subject.module.header
            if nothing_compiles(self._ready.runner, module):
                named = families.bucket_of_failure(kind, None, shown)
                evidence = replace(evidence, bucket=named)
            elif not shown.detail.strip() and (code := self._refused(subject, shown)):
                return code
        culprit = self._culprit(kind, subject)
        told = self._named(evidence, culprit)
        if told.bucket in job.replayed:
            return told
        # A campaign may end before it comes to making this smaller.
        bare = self._bare(kind, subject, culprit)
        if bare is not subject and conclusion(again := self._repeated(bare, kind)) is kind:
            evidence = replace(evidence, subject=bare, attempts=again)
        # What is wrong together has its name once nothing else is around it, or if it is there with
        # another verdict.
        names = {(one.identity, one.builds) for one in job.replayed}
        is_new = (told.bucket.identity, told.bucket.builds) not in names
        waits = in_company(culprit) and is_new and told.culprit
        return evidence if waits else self._named(evidence, culprit)

    def _refused(self, subject: Subject, failure: Failure) -> Evidence | None:
        """Return scalar code at which a compiler dies without a word."""
        module = subject.module.header
        kind, said = Kind.COMPILE_FAILURE, families.what_was_said(failure)

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
            told = None if one is None else self._ready.runner.compile(one.module)
            return isinstance(told, Failure) and families.what_was_said(told) == said

        found = refused_code(subject.program, refuses, CODE_SECONDS)
        left = None if found is None or found.witness is None else smaller(found.witness.program)
        if found is None or left is None:
            return None
        attempts = self._repeated(left, kind)
        if conclusion(attempts) is not kind:
            return None
        return Evidence(
            kind=kind,
            bucket=Bucket.of(kind, *found.instructions, condition=found.condition, message=said),
            subject=left,
            attempts=attempts,
            culprit=words_of(found),
        )

    def _replayed(
        self, entry: Entry, subject: Subject
    ) -> tuple[Kind | None, Subject, Sequence[Attempt]]:
        """Run a finding again; return what it is now called, what ran, and the runs."""
        stored, attempts = entry.finding.kind, self._repeated(subject, entry.finding.kind)
        more: tuple[Subject, ...] = ()
        if subject.program.warps > 1 and conclusion(attempts) in (None, Kind.FLAKY):
            more = tuple(_in_copies(subject, copies) for copies in _COPIES_IN_FLIGHT)
        elif self._parties is None and not any(one.failed for one in attempts):
            # What fails only in some places of the device, or of a block, needs warps in many.
            more = (replace(subject, copies=COPIES),)
        for wide in more:
            in_many = self._repeated(wide, stored)
            if any(one.failed for one in in_many):
                subject, attempts = wide, in_many
            if _concluded(attempts, subject, stored) not in (None, Kind.FLAKY):
                break
        kind = _concluded(attempts, subject, stored)
        if kind is None and (self._parties is None or stored is Kind.FLAKY):
            kind = Kind.FLAKY
        if kind is Kind.FLAKY:
            return kind, *self._measured(entry, subject, attempts)
        return kind, subject, attempts

    def _measured(
        self, entry: Entry, subject: Subject, before: Sequence[Attempt]
    ) -> tuple[Subject, Sequence[Attempt]]:
        """Run what does not fail always until its rate is known; return what ran, and the runs."""
        wide = _in_copies(subject, COPIES)
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

    def _repeated(self, subject: Subject, kind: Kind) -> list[Attempt]:
        """Run a subject again: the build that experiments have, and in the end one of its own."""
        again = [attempt(self._once, subject) for _ in range(replays_of(kind) - 1)]
        return [*again, attempt(self._ready.runner, subject)]

    # Names

    def _bucket(self, kind: Kind, subject: Subject, attempts: Sequence[Attempt]) -> Bucket:
        form, parties = main_form(subject.program), self._parties
        if kind is Kind.FLAKY:
            return families.bucket_of_flaky(form)
        if parties is not None:
            name, beside = families.form_name(form), BESIDE if other_kernels(subject) else ""
            return bucket_of_builds(
                kind, name, parties.wrong, parties.asked, attempts[-1].failure, condition=beside
            )
        if attempts[0].failure is not None:
            return families.bucket_of_failure(kind, form, attempts[0].failure)
        bucket = families.bucket_of_difference(kind, form)
        return families.beside_other_kernels(bucket) if other_kernels(subject) else bucket

    def _named(self, evidence: Evidence, culprit: Culprit | None) -> Evidence:
        """Name a finding after what is wrong, and after the members that alone have it."""
        parties = self._parties
        alone = who_alone(evidence.kind, parties.wrong, parties.asked) if parties else None
        return named_after(evidence, culprit, builds=alone)

    def _culprit(self, kind: Kind, subject: Subject) -> Culprit | None:
        # Experiments have no other kernels beside them.
        hangs = kind is Kind.HANG
        if not (hangs or KINDS[kind].has_culprit) or other_kernels(subject):
            return None
        if self._parties is not None and kind is Kind.DIVERGENCE:
            return None  # it names it itself
        copies = subject.copies
        if subject.program.warps > 1 and not hangs:
            copies = max(copies, _FEW_IN_FLIGHT)
        if kind is Kind.FLAKY:
            copies = COPIES if self._parties is None else 1
        device = ExperimentDevice(
            self._once, subject.module, copies=copies, remembered=self._remembered[copies]
        )
        find = what_hangs if hangs else culprit_of
        return find(device, subject.program, subject.image)

    def _bare(self, kind: Kind, subject: Subject, culprit: Culprit | None) -> Subject:
        """Return a case of nothing but the step that is wrong, if there is one of this kind."""
        if self._parties is not None or culprit is None or culprit.witness is None:
            return subject
        program = culprit.witness.program
        module = emit(program, module=subject.module.header)
        for image in culprit.witness.images:
            smaller = replace(subject, module=module, program=program, image=image)
            if attempt(self._once, smaller).kind is kind:
                return smaller
        return subject

    # Shrinking

    def _shrunk(
        self, entry: Entry, subject: Subject, job: Examination, end: float
    ) -> tuple[Evidence | None, ShrinkStatus]:
        """Return a finding, smaller and confirmed; as it was, where it does not last.

        It is as it was, too, if its name has come to be there since it was replayed.
        """
        kind, step = entry.finding.kind, str(entry.finding.details.get(WRONG_STEP, ""))
        subject = self._fewer_kernels(kind, subject, end)
        seen = _first(entry, subject)
        made = Evidence(
            kind=kind, bucket=job.bucket, subject=subject, attempts=[seen], culprit=step
        )
        # Of several less may be left, and what says which of several it is, may be another one.
        identity = entry.finding.identity
        is_named = (step,) == tuple(identity.instructions)
        # What experiments said when it was replayed: of a warpgroup they take as long as 20 trials.
        is_told = bool(step and identity.condition) and subject.program.warps > 1
        culprit = None if is_named or is_told else self._culprit(kind, subject)
        if culprit and (told := self._named(made, culprit)).bucket in job.replayed:
            return told, ShrinkStatus.RAW
        begin = self._bare(kind, subject, culprit)
        more = _COPIES_IN_FLIGHT if begin.program.warps > 1 else ()
        for copies in (begin.copies, *(many for many in more if many > begin.copies)):
            begin, left = _in_copies(begin, copies), max(0.0, end - time.monotonic())
            shrunk = shrink(begin, self._verdicts(), wanted=kind, seconds=left)
            begin = smaller = self._fewer_kernels(kind, shrunk.subject, end)
            attempts, status = self._repeated(smaller, kind), shrunk.status
            lasts = _concluded(attempts, smaller, kind) is kind
            if lasts and status is not ShrinkStatus.FLAKY:
                break
        if lasts:
            subject, other = smaller, None if is_named else self._culprit(kind, smaller)
            # What is left may show less than there was, and never is it another's name.
            if is_told:
                is_same = other is not None and self._named(made, other).bucket == job.bucket
                culprit = other if is_same else None
            elif culprit is None or (
                other is not None and (key_of(other) == key_of(culprit) or in_company(culprit))
            ):
                culprit = other
        else:
            again = seen if self._parties is None else attempt(self._ready.runner, subject)
            attempts, status = [again], ShrinkStatus.FLAKY
            if again.kind is None:
                return None, status
        made = replace(made, subject=subject, attempts=attempts)
        return self._named(made, culprit), status

    def _fewer_kernels(self, kind: Kind, subject: Subject, end: float) -> Subject:
        """Return a subject without those of the other kernels that it does not need."""
        others = other_kernels(subject)
        for names in (others, *((name,) for name in others)):
            if not other_kernels(subject) or time.monotonic() >= end:
                break
            text = reduce(without_kernel, names, subject.module.ptx)
            fewer = subject.in_module(replace(subject.module, ptx=text))
            if attempt(self._once, fewer).kind is kind:
                subject = fewer
        return subject

    def _verdicts(self) -> Verdicts:
        """Return what judges smaller candidates, which have to be wrong where the finding was."""
        if self._parties is None:
            return verdicts_by(self._once)
        bad = verdicts_by(self._ready.runner)
        if not self._parties.right:
            return bad
        right = MemberRunner(self._parties.matrix.device, self._parties.right[0])
        good = verdicts_by(BeatingRunner(right, self._heartbeat.beat))

        def verdicts(subjects: Sequence[Subject]) -> Sequence[Kind | None]:
            kinds = [*bad(subjects)]
            # Most are right, and are not compiled again.
            wrong = [at for at, kind in enumerate(kinds) if kind is not None]
            if wrong:
                for at, there in zip(wrong, good([subjects[at] for at in wrong]), strict=True):
                    kinds[at] = kinds[at] if there is None else None
            return kinds

        return verdicts


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
