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
from corpus.finding import MODULE, PROGRAM, RIGHT
from fuzz.checks.examining import Examiner, Parties, who_alone
from fuzz.checks.protocol import Examination, Found, FoundState, Heartbeat, Stage
from fuzz.compilers.failures import CompilerFailure
from fuzz.compilers.members import (
    COMPILE_SECONDS,
    BuildMatrix,
    Member,
    RunPlace,
    architecture_of,
)
from fuzz.findings.case import TEXT_CHARACTERS, is_value_finding, made_by
from fuzz.findings.families import Bucket, form_name
from fuzz.kinds import BY_OUTCOME, described
from fuzz.reducer import has_loop, instructions_in, opcodes_of, telling
from oracle.isa.lookup import INSTRUCTIONS, forms_by_opcode
from runners.assemblers.judgements import Response, ToolVerdict
from runners.assemblers.judging import judge_module
from runners.kernels import KernelModule
from runners.ptx_text import header

_REFUSAL_SECONDS, _LAST_SECONDS = 120.0, 15.0
"""For making a module smaller; 200 runs of ptxas take 5 to 30 s (2026-11-28)."""
REFUSED_BY = "refused by"  # detail of a case: compilers
_MATRIX = tuple(f"{name}." for name in INSTRUCTIONS)


@dataclass(frozen=True, kw_only=True)
class BuildRefusal:
    """A module that some members do not compile."""

    module: KernelModule
    verdicts: Mapping[Member, ToolVerdict]  # of each member that was asked
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
        if outcomes == {Response.ACCEPTED}:
            return None
        return Kind.REJECTED if outcomes == {Response.REJECTED} else Kind.DIFFER

    @property
    def refusing(self) -> Sequence[Member]:
        """The members that do not accept it."""
        given = self.verdicts.items()
        return [member for member, said in given if said.outcome is not Response.ACCEPTED]

    def bucket(self, kind: Kind, status: ShrinkStatus) -> Bucket:
        """Return what a module that was made smaller is counted by."""
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


def verdict_of(
    member: Member, ptx: str, *, architecture: str, seconds: float = COMPILE_SECONDS
) -> ToolVerdict:
    """Ask a ptxas what it says of a module."""
    assert member.assembler is not None
    return judge_module(
        member.assembler, ptx, target=architecture, level=member.level, deadline=seconds
    )


def verdicts_on(
    module: KernelModule, failed: Sequence[Member], compiled: Sequence[Member], *, architecture: str
) -> Mapping[Member, ToolVerdict]:
    """Ask those who did not compile a module what they say of it; the others accept it."""
    return dict.fromkeys(compiled, ToolVerdict(outcome=Response.ACCEPTED)) | {
        member: verdict_of(member, module.ptx, architecture=architecture)
        for member in failed
        if member.assembler is not None
    }


class MatrixExaminer:
    """Examines findings of a matrix: replays them with the members that showed them."""

    def __init__(self, matrix: BuildMatrix, place: RunPlace, heartbeat: Heartbeat) -> None:
        self._matrix, self._place, self._heartbeat = matrix, place, heartbeat

    def examine(self, job: Examination) -> Found:
        """Replay a finding, or make it smaller."""
        self._heartbeat.enter(Stage.RUN)
        entry, opened = open_corpus(job.corpus).get(job.id), self._place.opened
        parties = self._parties(entry)
        try:
            if not is_value_finding(entry):
                return self._refusal(entry, job, parties)
        finally:
            self._heartbeat.enter(Stage.WAIT)
        if opened is None or entry.finding.origin is None or not parties.wrong:
            return Found(bucket=job.bucket, state=FoundState.GONE)
        return Examiner(parties.opened(opened), self._heartbeat, parties).examine(job)

    def _parties(self, entry: Entry) -> Parties:
        members = self._matrix.members
        runners = {member.runner for member in members}
        said = {
            (one.version, one.options): one.outcome
            for one in entry.finding.runners
            if one.runner in runners
        }
        told = [(one, said.get((one.version, f"-O{one.level}"))) for one in members]
        return Parties(
            matrix=self._matrix,
            wrong=tuple(one for one, what in told if what is not None and what not in RIGHT),
            right=tuple(one for one, what in told if what in RIGHT),
        )

    def _refusal(self, entry: Entry, job: Examination, parties: Parties) -> Found:
        finding, bucket, status = entry.finding, job.bucket, ShrinkStatus.RAW
        kept = [PROGRAM] if PROGRAM in finding.files and job.seconds is None else []
        text = entry.read(MODULE).decode(errors="replace")
        again = self._refused(text, parties.wrong, parties.right, finding)
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
    ) -> BuildRefusal:
        """Ask those about a module who did not accept a finding's; the others are taken to."""
        module = KernelModule(
            ptx=ptx, target=finding.target, version=finding.ptx_version, kernels=()
        )
        own = architecture_of(self._place.device, module.target)
        verdicts = verdicts_on(module, wrong, right, architecture=own)
        return BuildRefusal(module=module, verdicts=verdicts, opcodes=finding.instructions)

    def _smaller(
        self, refusal: BuildRefusal, finding: Finding, seconds: float
    ) -> tuple[BuildRefusal, ShrinkStatus]:
        """Return the smallest module at which a member fails so, and what all do with it."""
        guilty = max(refusal.refusing, key=lambda one: refusal.verdicts[one].outcome)
        accepting = [one for one in refusal.verdicts if one not in refusal.refusing]
        begun, ending = time.monotonic(), self._heartbeat.interrupted
        failure = CompilerFailure(verdict=self._said(guilty, refusal.module.ptx, COMPILE_SECONDS))

        def said(ptx: str, deadline: float) -> ToolVerdict:
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

    def _said(self, member: Member, ptx: str, seconds: float) -> ToolVerdict:
        self._heartbeat.beat()
        own = architecture_of(self._place.device, header(ptx)[0])
        return verdict_of(member, ptx, architecture=own, seconds=seconds)
