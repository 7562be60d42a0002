"""What a matrix found: how the corpus keeps it, and replaying and shrinking it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

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
    open_corpus,
)
from corpus.programs import encode_program
from fuzz import warpfuzz_version
from fuzz.campaign.heartbeat import BeatingRunner
from fuzz.checks.protocol import (
    ConfirmJob,
    Examination,
    Examined,
    Gone,
    Pulse,
    ShrinkJob,
    Stage,
    Stored,
)
from fuzz.compilers.matrix import Matrix, Note
from fuzz.compilers.members import (
    COMPILE_SECONDS,
    Member,
    MemberRunner,
    Place,
)
from fuzz.diagnosis.culprit import culprit_of, in_company
from fuzz.diagnosis.experiments import Bench, Culprit
from fuzz.findings.case import (
    MODULE,
    PROGRAM,
    Evidence,
    case_of,
    files_of,
    is_value_finding,
    subject_of,
)
from fuzz.findings.families import (
    family_of_flaky,
    form_name,
    under_a_condition,
    what_was_said,
)
from fuzz.findings.replay import Subject, attempt, conclusion, replays_of
from fuzz.findings.spans import Named, described, versions_described
from fuzz.findings.stored import EXPANSION
from fuzz.kinds import BY_OUTCOME, KINDS
from fuzz.runner import OpenRunner
from fuzz.shrinking import runner_verdicts, shrink
from oracle.forms import Form
from oracle.instructions import INSTRUCTIONS
from oracle.targets import Module
from runners.assemblers.judgements import Outcome, Verdict
from runners.assemblers.judging import judge_module
from runners.emission import emit
from runners.kernels import KernelModule
from runners.protocol import Failure, Runner
from strategies.features import main_form
from strategies.programs import GENERATOR_VERSION

_INSTRUCTION = re.compile(
    rf"^\s*((?:{'|'.join(map(re.escape, INSTRUCTIONS))})\.[^;]+);", re.MULTILINE
)
_TEXT_CHARACTERS = 4000
"""Of what a tool said; the rest rarely helps."""


def family_of(
    kind: Kind,
    form: Form | None,
    members: Sequence[Member],
    among: Sequence[Member],
    failure: Failure | None = None,
) -> Family:
    """Return the family of what some members do: instruction and members.

    Parameters
    ----------
    failure
        Of the runner, if it failed: where it names the instruction that is to blame, this does;
        of a compiler, whose words say what is wrong with it, whatever the program is about.
    """
    name = form_name(form) if form is not None else "a whole module"
    if kind is Kind.DIVERGENCE and failure is not None:
        name = under_a_condition(failure)
    if kind is Kind.COMPILE_FAILURE and failure is not None and failure.detail.strip():
        name = what_was_said(failure)
    who = who_alone(kind, members, among) or "every compiler"
    return Family.of(kind, name, blame=who)


def who_alone(kind: Kind, members: Sequence[Named], among: Sequence[Named]) -> str:
    """Say which members alone do something, such as "only V13.1.115 -O3"; "" if all do."""
    if len(members) == len(among):
        return ""
    if kind is Kind.DIVERGENCE:
        # One pass does it, which other levels have as well.
        return f"only {versions_described(members, among)}"
    return f"only {described(members, among)}"


def value_case(
    evidence: Evidence,
    opened: OpenRunner,
    *,
    origin: Origin,
    status: ShrinkStatus,
    outcomes: Mapping[Member, str],
    wrong: Member,
) -> Case:
    """Describe a program that some members compile to another result.

    Parameters
    ----------
    outcomes
        What each member's binary does with the image.
    wrong
        The member that the evidence is of.
    """
    ready = replace(opened, choice=wrong.choice(opened.choice))
    case = case_of(evidence, ready, origin=origin, status=status)
    (own, *_) = case.runners
    others = [
        RunnerVerdict(
            runner=member.runner,
            version=member.version,
            options=f"-O{member.level}",
            outcome=outcome,
            device=opened.device,
        )
        for member, outcome in outcomes.items()
    ]
    agree = [member for member, outcome in outcomes.items() if outcome == "match"]
    disagree = [member for member in outcomes if member not in agree]
    details = {
        **case.details,
        "agree with the oracle": described(agree, list(outcomes)),
        "disagree with the oracle": described(disagree, list(outcomes)),
    }
    return msgspec.structs.replace(case, runners=(*others, own), details=details)


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A module that some members do not compile."""

    module: KernelModule
    form: Form | None
    """What its program is about; None if it takes a module of several programs."""
    verdicts: Mapping[Member, Verdict]
    """What each member that was asked does with it."""

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

    def case(self, kind: Kind, family: Family, origin: Origin) -> Case:
        """Describe it for the corpus."""
        return Case(
            kind=kind,
            family=family,
            instructions=instructions_of(self.module.ptx),
            target=self.module.target,
            ptx_version=self.module.version,
            oracle=OracleVerdict(verdict="legal"),
            runners=tuple(
                RunnerVerdict(
                    runner="ptxas",
                    version=member.version,
                    options=f"-O{member.level}",
                    outcome=verdict.outcome.name.lower(),
                    message=("\n".join(verdict.messages) or verdict.ending)[:_TEXT_CHARACTERS],
                )
                for member, verdict in self.verdicts.items()
            ),
            versions=_versions(),
            origin=origin,
            details={"refused by": described(self.refusing, list(self.verdicts))},
        )


def note_case(note: Note, *, target: str, version: str) -> tuple[Case, Mapping[str, bytes]]:
    """Describe a changed expansion for the corpus, with its files."""
    module = emit(note.program, module=Module.named(target, version))
    what = f"{note.before} in {note.before_version}, {note.after} in {note.after_version}"
    where = f"{target}, in shared memory" if note.shared else target
    family = Family(
        key=f"{EXPANSION}/{note.form}/{where}/{note.before_version}/{note.after_version}/{note.after}",
        title=f"expansion of {note.form} ({where}): {what}",
    )
    case = Case(
        kind=Kind.NOTE,
        family=family,
        instructions=instructions_of(module.ptx),
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
        versions=_versions(),
    )
    files = {MODULE: module.ptx.encode(), PROGRAM: encode_program(note.program)}
    return case, files


def instructions_of(ptx: str) -> tuple[str, ...]:
    """Return the matrix instructions of a module with their operands, in order."""
    return tuple(f"{' '.join(match.split())};" for match in _INSTRUCTION.findall(ptx))


def _versions() -> Versions:
    return Versions(warpfuzz=warpfuzz_version(), generator=GENERATOR_VERSION)


def verdicts_on(
    module: KernelModule,
    failed: Sequence[Member],
    compiled: Sequence[Member],
    *,
    architecture: str,
) -> Mapping[Member, Verdict]:
    """Ask those who did not compile a module what they say of it; the others accept it."""
    return {
        **{member: Verdict(outcome=Outcome.ACCEPTED) for member in compiled},
        **{
            member: judge_module(
                member.assembler,
                module.ptx,
                target=architecture,
                level=member.level,
                deadline=COMPILE_SECONDS,
            )
            for member in failed
            if member.assembler is not None
        },
    }


class MatrixExaminer:
    """Examines findings of a matrix: replays them with the members that showed them.

    Parameters
    ----------
    matrix
        Who compiles, and the device.
    place
        Where binaries run.
    pulse
        Is told of every stage.
    """

    def __init__(self, matrix: Matrix, place: Place, pulse: Pulse) -> None:
        self._matrix, self._place, self._pulse = matrix, place, pulse
        self._members = matrix.members

    def examine(self, job: Examination) -> Examined | Gone:
        """Replay a finding, or make it smaller.

        Raises
        ------
        WarpfuzzError
            If it cannot be read or run at all.
        """
        self._pulse.enter(Stage.RUN)
        entry = open_corpus(job.corpus).get(job.id)
        try:
            if not is_value_finding(entry):
                return self._refusal(entry, job)
            if isinstance(job, ConfirmJob):
                return self._confirmed(entry, job)
            return self._shrunk(entry, job)
        finally:
            self._pulse.enter(Stage.WAIT)

    def _runner(self, member: Member) -> Runner:
        return BeatingRunner(MemberRunner(self._matrix.device, member), self._pulse)

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
                (right if outcome in ("match", "accepted") else wrong).append(member)
        return wrong, right

    def _refusal(self, entry: Entry, job: Examination) -> Examined | Gone:
        """Ask about a module again, of which compilers said different things."""
        finding = entry.finding
        text = entry.read(MODULE).decode(errors="replace")
        module = KernelModule(
            ptx=text, target=finding.target, version=finding.ptx_version, kernels=()
        )
        wrong, right = self._parties(entry)
        verdicts = verdicts_on(module, wrong, right, architecture=self._place.architecture)
        again = Refusal(module=module, form=None, verdicts=verdicts)
        if again.kind is not finding.kind or finding.origin is None:
            return Gone(id=job.id)
        case = again.case(finding.kind, job.family, finding.origin)
        case = msgspec.structs.replace(case, details=finding.details)
        return Examined(
            id=job.id,
            kind=finding.kind,
            family=job.family,
            stored=Stored(case=case, files={MODULE: entry.read(MODULE)}),
        )

    def _confirmed(self, entry: Entry, job: ConfirmJob) -> Examined | Gone:
        """Run a finding again, by itself."""
        wrong, right = self._parties(entry)
        opened, origin = self._place.opened, entry.finding.origin
        if opened is None or origin is None or not wrong:
            return Gone(id=job.id)
        subject, runner = subject_of(entry), self._runner(wrong[0])
        attempts = [attempt(runner, subject) for _ in range(replays_of(entry.finding.kind))]
        kind, family = conclusion(attempts), job.family
        if kind is None:
            # Gone in every replay: the first run is all the evidence there is.
            return Gone(id=job.id)
        if kind is not entry.finding.kind:
            form = main_form(subject.program)
            flaky = kind is Kind.FLAKY
            last = attempts[-1].failure
            family = (
                family_of_flaky(form)
                if flaky
                else family_of(kind, form, wrong, self._readers(subject), last)
            )
        evidence = Evidence(kind=kind, family=family, subject=subject, attempts=attempts)
        evidence = self._named(evidence, self._culprit(kind, subject, runner), wrong)
        outcomes = {
            member: kind.value if member in wrong else "match"
            for member in self._members
            if member in wrong or member in right
        }
        return self._examined(
            job, evidence, opened, origin, ShrinkStatus.RAW, outcomes=outcomes, wrong=wrong[0]
        )

    def _shrunk(self, entry: Entry, job: ShrinkJob) -> Examined | Gone:
        """Return a finding in fewer steps and elements, wrong only where it was wrong."""
        wrong, right = self._parties(entry)
        opened, origin = self._place.opened, entry.finding.origin
        if opened is None or origin is None or not wrong:
            return Gone(id=job.id)
        kind = entry.finding.kind
        runner = self._runner(wrong[0])
        bad = runner_verdicts(runner)
        good = runner_verdicts(self._runner(right[0])) if right else None

        def verdicts(subjects: Sequence[Subject]) -> Sequence[Kind | None]:
            found = bad(subjects)
            if good is None:
                return found
            return [
                None if there is not None else here
                for here, there in zip(found, good(subjects), strict=True)
            ]

        culprit = self._culprit(kind, subject_of(entry), runner)
        shrunk = shrink(subject_of(entry), verdicts, wanted=kind, seconds=job.seconds)
        attempts = [attempt(runner, shrunk.subject) for _ in range(replays_of(kind))]
        lasts = shrunk.status is not ShrinkStatus.FLAKY and conclusion(attempts) is kind
        subject = shrunk.subject if lasts else subject_of(entry)
        if not lasts:
            attempts = [attempt(runner, subject)]
            if attempts[0].kind is None:
                return Gone(id=job.id)
        evidence = Evidence(kind=kind, family=job.family, subject=subject, attempts=attempts)
        left = self._culprit(kind, subject, runner)
        if culprit is None or (
            left is not None and (left.key == culprit.key or in_company(culprit))
        ):
            culprit = left
        evidence = self._named(evidence, culprit, wrong)
        return self._examined(
            job,
            evidence,
            opened,
            origin,
            shrunk.status if lasts else ShrinkStatus.FLAKY,
            outcomes=self._outcomes(subject),
            wrong=wrong[0],
        )

    def _culprit(self, kind: Kind, subject: Subject, runner: Runner) -> Culprit | None:
        """Find out which step is wrong, by experiment; a divergence names it itself."""
        if not KINDS[kind].has_culprit or kind is Kind.DIVERGENCE:
            return None
        return culprit_of(Bench(runner, subject.module), subject.program, subject.image)

    def _named(
        self, evidence: Evidence, culprit: Culprit | None, wrong: Sequence[Member]
    ) -> Evidence:
        """Name a finding after what is wrong, and after the members that alone have it.

        What all have is no compiler's own: its name is that which a campaign with one compiler
        gives it.
        """
        among = self._readers(evidence.subject)
        return evidence.named(culprit, who=who_alone(evidence.kind, wrong, among))

    def _readers(self, subject: Subject) -> Sequence[Member]:
        """Return the members that read a subject's module: all that can be wrong about it."""
        return self._matrix.readers(subject.module.version)

    def _examined(
        self,
        job: Examination,
        evidence: Evidence,
        opened: OpenRunner,
        origin: Origin,
        status: ShrinkStatus,
        *,
        outcomes: Mapping[Member, str],
        wrong: Member,
    ) -> Examined:
        case = value_case(
            evidence, opened, origin=origin, status=status, outcomes=outcomes, wrong=wrong
        )
        return Examined(
            id=job.id,
            kind=evidence.kind,
            family=evidence.family,
            stored=Stored(case=case, files=files_of(evidence)),
        )

    def _outcomes(self, subject: Subject) -> Mapping[Member, str]:
        """Compile a subject with every member, and run what is distinct."""
        built = self._matrix.start(subject.module).wait(self._pulse.beat)
        found = dict.fromkeys(built.failed, Kind.COMPILE_FAILURE.value)
        for variant in self._matrix.variants(built, subject.module.kernels[0].entry):
            one = attempt(self._runner(variant.members[0]), subject)
            said = "match" if one.kind is None else one.kind.value
            found.update(dict.fromkeys(variant.members, said))
        self._matrix.forget()
        return {member: found[member] for member in self._readers(subject)}
