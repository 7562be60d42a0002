"""Findings of campaigns that compare compilers: stored, replayed and shrunk."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from corpus import (
    Case,
    Entry,
    Finding,
    Identity,
    Kind,
    OracleVerdict,
    Origin,
    RunnerVerdict,
    ShrinkStatus,
    open_corpus,
)
from corpus.entry import MODULE, PROGRAM
from corpus.finding import BESIDE, DIVERGED, RIGHT
from corpus.programs import encode_program
from fuzz.campaign.heartbeat import BeatingRunner
from fuzz.checks.examining import Examiner
from fuzz.checks.protocol import Examination, Found, FoundState, Heartbeat, Stage
from fuzz.compilers.failures import CompilerFailure
from fuzz.compilers.matrix import Matrix, Note
from fuzz.compilers.members import COMPILE_SECONDS, Member, MemberRunner, Place, with_outcomes
from fuzz.diagnosis.culprit import culprit_of
from fuzz.diagnosis.experiments import Culprit, ExperimentDevice
from fuzz.findings.case import TEXT_CHARACTERS, Evidence, made_by
from fuzz.findings.families import (
    Bucket,
    bucket_of_flaky,
    form_name,
    under_a_condition,
    what_was_said,
)
from fuzz.findings.making import is_value_finding
from fuzz.findings.replay import Attempt, Subject, attempt, conclusion
from fuzz.findings.stored import EXPANSION
from fuzz.kinds import BY_OUTCOME, KINDS, Named, described, versions_described
from fuzz.reducer import has_loop, instructions_in, opcodes_of, telling
from fuzz.runner import OpenRunner
from fuzz.shrinking import RunnerVerdicts, Verdicts
from oracle.instructions import INSTRUCTIONS
from oracle.isa import forms_by_opcode
from oracle.targets import Module
from runners.assemblers.judgements import Outcome, Verdict
from runners.assemblers.judging import judge_module
from runners.emission import emit
from runners.kernels import KernelModule
from runners.protocol import Failure
from strategies.features import main_form

_REFUSAL_SECONDS, _LAST_SECONDS = 120.0, 15.0
"""Time for making a module smaller that is not compiled, and for the rest of it at the end of a
campaign: 200 runs of ptxas take 5 s on a free core, and 30 s beside workers (2026-11-28)."""
REFUSED_BY = "refused by"
"""Detail of a case: compilers."""
_MATRIX = tuple(f"{name}." for name in INSTRUCTIONS)


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

    Parameters
    ----------
    name
        Of what the program is about (`form_name`).
    condition
        Without which it is right.
    failure
        Of the runner, if it failed: where it names the instruction that is to blame, this does;
        of a compiler, whose words say what is wrong with it, whatever the program is about.
    """
    if kind is Kind.DIVERGENCE and failure is not None:
        name, condition = under_a_condition(failure), DIVERGED
    builds = who_alone(kind, members, among) or "every compiler"
    if kind is Kind.COMPILE_FAILURE and failure is not None and failure.detail.strip():
        return Bucket.of(kind, message=what_was_said(failure), builds=builds)
    return Bucket.of(kind, name, condition=condition, builds=builds)


def who_alone(kind: Kind, members: Sequence[Named], among: Sequence[Named]) -> str:
    """Say which members alone do something, such as "only V13.1.115 -O3"; "" if all do."""
    if len(members) == len(among):
        return ""
    if kind is Kind.DIVERGENCE:
        # One pass does it, which other levels have as well.
        return f"only {versions_described(members, among)}"
    return f"only {described(members, among)}"


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A module that some members do not compile."""

    module: KernelModule
    verdicts: Mapping[Member, Verdict]
    """What each member that was asked does with it."""
    opcodes: tuple[str, ...] = ()
    """Of the program's matrix instructions; without any, of its scalar code. Of a module that was
    made smaller all its instructions, with their operands."""

    @property
    def kind(self) -> Kind | None:
        """What a finding of it is called; None where all accept it."""
        outcomes = {verdict.outcome for verdict in self.verdicts.values()}
        worst = max(outcomes)
        if worst in BY_OUTCOME:
            return BY_OUTCOME[worst]
        if outcomes == {Outcome.ACCEPTED}:
            return None
        return Kind.REJECTED if outcomes == {Outcome.REJECTED} else Kind.DIFFER

    @property
    def refusing(self) -> Sequence[Member]:
        """The members that do not accept it."""
        return [
            member
            for member, verdict in self.verdicts.items()
            if verdict.outcome is not Outcome.ACCEPTED
        ]

    def bucket(self, kind: Kind, status: ShrinkStatus) -> Bucket:
        """Return what a module that was made smaller is counted by.

        What is left of it, where that is all that is needed, and the compiler's words.
        """
        outcome = max(verdict.outcome for verdict in self.verdicts.values())
        said = next(one for one in self.verdicts.values() if one.outcome is outcome)
        forms, whole = forms_by_opcode(), status is ShrinkStatus.COMPLETE
        named = telling(self.opcodes) if whole else ()
        return Bucket.of(
            kind,
            # Scalar instructions of one first word are one to a compiler.
            *(form_name(forms[one]) if one in forms else one.partition(".")[0] for one in named),
            condition="in a loop" if whole and has_loop(self.module.ptx) else "",
            message=CompilerFailure(verdict=said).abstracted,
            builds=who_alone(kind, self.refusing, [*self.verdicts]) or "every compiler",
        )

    def case(self, kind: Kind, identity: Identity, origin: Origin) -> Case:
        """Describe it for the corpus."""
        return Case(
            kind=kind,
            identity=identity,
            instructions=self.opcodes or tuple(opcodes_of(instructions_in(self.module.ptx))),
            target=self.module.target,
            ptx_version=self.module.version,
            oracle=OracleVerdict(verdict="legal"),
            runners=tuple(
                RunnerVerdict(
                    runner="ptxas",
                    version=member.version,
                    options=f"-O{member.level}",
                    outcome=verdict.outcome.name.lower(),
                    message=("\n".join(verdict.messages) or verdict.ending)[:TEXT_CHARACTERS],
                )
                for member, verdict in self.verdicts.items()
            ),
            versions=made_by(),
            origin=origin,
            details={REFUSED_BY: described(self.refusing, list(self.verdicts))},
        )


def note_case(note: Note, *, target: str, version: str) -> tuple[Case, Mapping[str, bytes]]:
    """Describe a changed expansion for the corpus, with its files."""
    module = emit(note.program, module=Module.named(target, version))
    what = f"{note.before} in {note.before_version}, {note.after} in {note.after_version}"
    where = f"{target}, in shared memory" if note.shared else target
    identity = Identity(failure=EXPANSION, instructions=(note.form,), condition=f"{where}: {what}")
    case = Case(
        kind=Kind.NOTE,
        identity=identity,
        instructions=tuple(one for one in instructions_in(module.ptx) if one.startswith(_MATRIX)),
        target=target,
        ptx_version=version,
        oracle=OracleVerdict(verdict="legal"),
        runners=tuple(
            RunnerVerdict(runner="ptxas", version=who, options=options, outcome=outcome)
            for who, outcome in (
                (note.before_version, note.before),
                (note.after_version, note.after),
            )
            for options in (" ".join(f"-O{level}" for level in note.levels),)
        ),
        versions=made_by(),
    )
    files = {MODULE: module.ptx.encode(), PROGRAM: encode_program(note.program)}
    return case, files


def verdict_of(
    member: Member, ptx: str, *, architecture: str, seconds: float = COMPILE_SECONDS
) -> Verdict:
    """Ask a ptxas what it says of a module."""
    assert member.assembler is not None
    return judge_module(
        member.assembler, ptx, target=architecture, level=member.level, deadline=seconds
    )


def verdicts_on(
    module: KernelModule, failed: Sequence[Member], compiled: Sequence[Member], *, architecture: str
) -> Mapping[Member, Verdict]:
    """Ask those who did not compile a module what they say of it; the others accept it."""
    return dict.fromkeys(compiled, Verdict(outcome=Outcome.ACCEPTED)) | {
        member: verdict_of(member, module.ptx, architecture=architecture)
        for member in failed
        if member.assembler is not None
    }


class MatrixExaminer:
    """Examines findings of a matrix: replays them with the members that showed them."""

    def __init__(self, matrix: Matrix, place: Place, heartbeat: Heartbeat) -> None:
        self._matrix, self._place, self._heartbeat = matrix, place, heartbeat
        self._members = matrix.members

    def examine(self, job: Examination) -> Found:
        """Replay a finding, or make it smaller."""
        self._heartbeat.enter(Stage.RUN)
        entry = open_corpus(job.corpus).get(job.id)
        wrong, right = self._parties(entry)
        try:
            if not is_value_finding(entry):
                return self._refusal(entry, job, wrong, right)
            opened = self._place.opened
            if opened is None or entry.finding.origin is None or not wrong:
                return Found(bucket=job.bucket, state=FoundState.GONE)
        finally:
            self._heartbeat.enter(Stage.WAIT)
        return _MemberExaminer(self._matrix, opened, wrong, right, self._heartbeat).examine(job)

    def _parties(self, entry: Entry) -> tuple[list[Member], list[Member]]:
        """Return the members that showed a finding, and those that did as the oracle says."""
        said = {
            (one.version, one.options): one.outcome
            for one in entry.finding.runners
            if one.runner in {member.runner for member in self._members}
        }
        wrong: list[Member] = []
        right: list[Member] = []
        for member in self._members:
            outcome = said.get((member.version, f"-O{member.level}"))
            if outcome is not None:
                (right if outcome in RIGHT else wrong).append(member)
        return wrong, right

    def _refusal(
        self, entry: Entry, job: Examination, wrong: Sequence[Member], right: Sequence[Member]
    ) -> Found:
        finding, bucket, status = entry.finding, job.bucket, ShrinkStatus.RAW
        kept = [PROGRAM] if PROGRAM in finding.files and job.seconds is None else []
        text = entry.read(MODULE).decode(errors="replace")
        again = self._refused(text, wrong, right, finding)
        if again.kind is not finding.kind or finding.origin is None:
            return Found(bucket=bucket, state=FoundState.GONE)
        if job.seconds is not None:
            again, status = self._smaller(again, finding, job.seconds)
            bucket = bucket if status is ShrinkStatus.FLAKY else again.bucket(finding.kind, status)
        details = {**finding.details, REFUSED_BY: described(again.refusing, [*again.verdicts])}
        case = again.case(finding.kind, bucket.identity, finding.origin)
        return Found(
            bucket=bucket,
            case=msgspec.structs.replace(case, details=details, shrink=status),
            files={MODULE: again.module.ptx.encode(), **{one: entry.read(one) for one in kept}},
            state=FoundState.REPLAYED,
        )

    def _refused(
        self, ptx: str, wrong: Sequence[Member], right: Sequence[Member], finding: Finding
    ) -> Refusal:
        """Ask those about a module who did not accept a finding's; the others are taken to."""
        module = KernelModule(
            ptx=ptx, target=finding.target, version=finding.ptx_version, kernels=()
        )
        verdicts = verdicts_on(module, wrong, right, architecture=self._place.architecture)
        return Refusal(module=module, verdicts=verdicts, opcodes=finding.instructions)

    def _smaller(
        self, refusal: Refusal, finding: Finding, seconds: float
    ) -> tuple[Refusal, ShrinkStatus]:
        """Return the smallest module at which a member fails so, and what all do with it.

        A campaign that goes on has more time for it than one that comes to its end.
        """
        guilty = max(refusal.refusing, key=lambda one: refusal.verdicts[one].outcome)
        accepting = [one for one in refusal.verdicts if one not in refusal.refusing]
        begun, ending = time.monotonic(), self._heartbeat.interrupted
        failure = CompilerFailure(verdict=self._said(guilty, refusal.module.ptx, COMPILE_SECONDS))

        def said(ptx: str, deadline: float) -> Verdict:
            if self._heartbeat.interrupted and not ending:
                reducer.end = min(reducer.end, time.monotonic() + _LAST_SECONDS)
            return self._said(guilty, ptx, deadline)

        reducer = failure.reducer(
            refusal.module.ptx,
            said,
            partial(self._said, accepting[0]) if accepting else None,
            took=time.monotonic() - begun,
            end=begun + (seconds if ending else max(seconds, _REFUSAL_SECONDS)),
        )
        status = reducer.reduce()
        smaller = self._refused(reducer.text, [*refusal.verdicts], (), finding)
        if smaller.kind is not finding.kind:
            return refusal, ShrinkStatus.FLAKY
        return replace(smaller, opcodes=tuple(instructions_in(reducer.text))), status

    def _said(self, member: Member, ptx: str, seconds: float) -> Verdict:
        self._heartbeat.beat()
        return verdict_of(member, ptx, architecture=self._place.architecture, seconds=seconds)


class _MemberExaminer(Examiner):
    """Examines a finding with a member that showed it, beside those that do as the oracle says."""

    def __init__(
        self,
        matrix: Matrix,
        opened: OpenRunner,
        wrong: Sequence[Member],
        right: Sequence[Member],
        heartbeat: Heartbeat,
    ) -> None:
        self._matrix, self._wrong, self._right = matrix, wrong, right
        runner, choice = MemberRunner(matrix.device, wrong[0]), wrong[0].choice(opened.choice)
        super().__init__(replace(opened, runner=runner, choice=choice), heartbeat)

    def _lanes_apart(self, subject: Subject) -> None:
        # What the simulated device says of a front end's PTX is its own finding.
        return None

    def _replayed(
        self, entry: Entry, subject: Subject
    ) -> tuple[Kind | None, Subject, Sequence[Attempt]]:
        attempts = self._repeated(subject, entry.finding.kind)
        kind = conclusion(attempts)
        if kind is Kind.FLAKY or (kind is None and entry.finding.kind is Kind.FLAKY):
            return Kind.FLAKY, *self._measured(entry, subject, attempts)
        # Gone in every replay: the first run is all the evidence there is.
        return kind, subject, attempts

    def _nothing_compiles(self, subject: Subject) -> bool:
        return False

    def _refused(self, subject: Subject, failure: Failure) -> None:
        # What an assembler refuses is no finding of values (`MatrixExaminer`).
        return None

    def _bucket(self, kind: Kind, subject: Subject, attempts: Sequence[Attempt]) -> Bucket:
        form = main_form(subject.program)
        if kind is Kind.FLAKY:
            return bucket_of_flaky(form)
        beside = BESIDE if subject.others else ""
        return bucket_of_builds(
            kind, form_name(form), self._wrong, self._asked, attempts[-1].failure, condition=beside
        )

    def _named(self, evidence: Evidence, culprit: Culprit | None) -> Evidence:
        """Name a finding after what is wrong, and after the members that alone have it.

        What all have is no compiler's own: its name is that which a campaign with one compiler
        gives it.
        """
        return evidence.named(culprit, builds=who_alone(evidence.kind, self._wrong, self._asked))

    def _bare(self, kind: Kind, subject: Subject, culprit: Culprit | None) -> Subject:
        return subject

    @property
    def _verdicts(self) -> Verdicts:
        """Verdicts on smaller candidates, which have to be wrong only where the finding was."""
        bad = RunnerVerdicts(self._ready.runner)
        if not self._right:
            return bad
        right = MemberRunner(self._matrix.device, self._right[0])
        good = RunnerVerdicts(BeatingRunner(right, self._heartbeat))
        return lambda subjects: [
            None if there is not None else here
            for here, there in zip(bad(subjects), good(subjects), strict=True)
        ]

    def _as_it_was(self, entry: Entry, subject: Subject) -> list[Attempt]:
        again = attempt(self._ready.runner, subject)
        return [] if again.kind is None else [again]

    def _culprit(self, kind: Kind, subject: Subject) -> Culprit | None:
        # A divergence names it itself.
        if not KINDS[kind].has_culprit or kind is Kind.DIVERGENCE or subject.others:
            return None
        device = ExperimentDevice(self._ready.runner, subject.module)
        return culprit_of(device, subject.program, subject.image)

    @property
    def _asked(self) -> Sequence[Member]:
        """The members that answered: some read no such module, or do not compile it."""
        answered = {*self._wrong, *self._right}
        return [member for member in self._matrix.members if member in answered]

    def _compared(self, case: Case, evidence: Evidence) -> Case:
        # Raw, it is told what each member did when the finding was made.
        outcomes: Mapping[Member, str] = {
            member: case.kind.value if member in self._wrong else "match" for member in self._asked
        }
        if case.shrink is not ShrinkStatus.RAW:
            outcomes = self._now(evidence.subject)
        return with_outcomes(case, outcomes)

    def _now(self, subject: Subject) -> Mapping[Member, str]:
        """Compile a subject with every member, and run what is distinct."""
        built = self._matrix.start(subject.module).wait(self._heartbeat.beat)
        found = dict.fromkeys(built.failed, Kind.COMPILE_FAILURE.value)
        for variant in self._matrix.variants(built, subject.module.kernels[0].entry):
            runner = BeatingRunner(
                MemberRunner(self._matrix.device, variant.members[0]), self._heartbeat
            )
            one = attempt(runner, subject)
            said = "match" if one.kind is None else one.kind.value
            found.update(dict.fromkeys(variant.members, said))
        self._matrix.forget()
        # All others that can be wrong about it do not read its module.
        return {member: found[member] for member in self._matrix.readers(subject.module.version)}
