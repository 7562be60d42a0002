"""Confirming what a matrix found, making it smaller and storing it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version as distribution_version

import msgspec

from corpus import (
    Case,
    Corpus,
    Family,
    Kind,
    OracleVerdict,
    Origin,
    RunnerVerdict,
    Saved,
    ShrinkStatus,
    Versions,
)
from corpus.known import Known
from fuzz.campaign.progress import Observer
from fuzz.checks.compiler_progress import MatrixProgress, described
from fuzz.compilers.expansions import Note
from fuzz.compilers.matrix import Matrix
from fuzz.compilers.members import Member, MemberRunner
from fuzz.findings.case import MODULE, PROGRAM, Evidence, case_of, files_of
from fuzz.findings.families import family_of_flaky, form_name
from fuzz.findings.groups import FamilyState
from fuzz.findings.program_files import encode_program
from fuzz.findings.replay import Attempt, Subject, attempt, conclusion, replays_of
from fuzz.findings.stored import EXPANSION
from fuzz.runner import OpenRunner
from fuzz.shrinking import runner_verdicts, shrink
from oracle.forms import LdmatrixForm, MmaForm
from oracle.targets import Module
from runners.assemblers.judgements import Outcome, Verdict
from runners.emission import emit
from runners.kernels import KernelModule
from strategies.features import main_form
from strategies.programs import GENERATOR_VERSION

_INSTRUCTION = re.compile(r"^\s*((?:wmma|ldmatrix)\.[^;]+);", re.MULTILINE)
_TEXT_CHARACTERS = 4000
"""Of what a tool said; the rest rarely helps."""

KINDS = {
    Outcome.CRASHED: Kind.CRASH,
    Outcome.HUNG: Kind.HANG,
    Outcome.INTERNAL: Kind.INTERNAL,
    Outcome.UNREADABLE: Kind.UNREADABLE,
}
"""What is wrong whatever the other compilers do."""


def family_of(
    kind: Kind,
    form: MmaForm | LdmatrixForm | None,
    members: Sequence[Member],
    among: Sequence[Member],
) -> Family:
    """Return the family of what some members do: instruction and members."""
    name = form_name(form) if form is not None else "a whole module"
    every = len(members) == len(among)
    who = "every compiler" if every else f"only {described(members, among)}"
    return Family(key=f"{kind}/{name}/{who}", title=f"{kind}: {name}: {who}")


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
            runner="ptxas" if member.assembler is not None else "driver",
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
    form: MmaForm | LdmatrixForm | None
    """What its program is about; None if it takes a module of several programs."""
    verdicts: Mapping[Member, Verdict]
    """What each member that was asked does with it."""

    @property
    def kind(self) -> Kind | None:
        """What a finding of it is called; None where all accept it."""
        outcomes = {verdict.outcome for verdict in self.verdicts.values()}
        worst = max(outcomes)
        if worst in KINDS:
            return KINDS[worst]
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
    return Versions(warpfuzz=distribution_version("warpfuzz"), generator=GENERATOR_VERSION)


_SHRINK_SECONDS = 20.0
"""Time for one finding; every candidate is compiled twice."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Suspect:
    """An image that the binaries of some members turned into something wrong."""

    subject: Subject
    kind: Kind
    wrong: tuple[Member, ...]
    right: tuple[Member, ...]
    """Members that do with it what the oracle does; may be none."""
    origin: Origin


class Desk:
    """Where suspects are confirmed, shrunk, and stored as the first of their family."""

    def __init__(
        self,
        *,
        matrix: Matrix,
        opened: OpenRunner | None,
        corpus: Corpus,
        known: Known,
        observer: Observer,
        progress: MatrixProgress,
    ) -> None:
        self._matrix, self._opened = matrix, opened
        self._device, self._members = matrix.device, matrix.members
        self._corpus, self._known, self._observer = corpus, known, observer
        self._progress = progress
        self._unconfirmed: set[str] = set()

    def difference(self, suspect: Suspect) -> None:
        """Keep a program that some members compile to another result."""
        if self._opened is None:
            return
        form = main_form(suspect.subject.program)
        family = family_of(suspect.kind, form, suspect.wrong, self._members)
        if self._counted(family):
            return
        culprit = suspect.wrong[0]
        runner = MemberRunner(self._device, culprit)
        subject = suspect.subject
        attempts = [attempt(runner, subject) for _ in range(replays_of(suspect.kind))]
        kind = conclusion(attempts)
        if kind is None:
            # Gone in every replay: the first run is all the evidence there is.
            self._progress.unconfirmed += 1
            self._unconfirmed.add(family.key)
            return
        if kind is not suspect.kind:
            family = (
                family_of_flaky(form)
                if kind is Kind.FLAKY
                else family_of(kind, form, suspect.wrong, self._members)
            )
            if self._counted(family):
                return
        evidence = Evidence(kind=kind, family=family, subject=subject, attempts=attempts)
        status = ShrinkStatus.RAW
        saved = None
        outcomes = {
            member: kind.value if member in suspect.wrong else "match"
            for member in self._members
            if member in suspect.wrong or member in suspect.right
        }
        case = value_case(
            evidence,
            self._opened,
            origin=suspect.origin,
            status=status,
            outcomes=outcomes,
            wrong=culprit,
        )
        try:
            saved = self._corpus.add(case, files_of(evidence))
            if kind in (Kind.DEVIATION, Kind.VIOLATION):
                evidence, status = self._shrunk(evidence, runner, suspect)
            if status is not ShrinkStatus.RAW:
                case = value_case(
                    evidence,
                    self._opened,
                    origin=suspect.origin,
                    status=status,
                    outcomes=self._outcomes(evidence.subject),
                    wrong=culprit,
                )
                saved = self._corpus.replace(saved.id, case, files_of(evidence))
        finally:
            self._tell(case, saved, main_form(evidence.subject.program).opcode)

    def refusal(self, refusal: Refusal, origin: Origin) -> None:
        """Keep a module that some members do not compile."""
        kind = refusal.kind
        if kind is None:
            self._progress.unconfirmed += 1
            return
        family = family_of(kind, refusal.form, refusal.refusing, list(refusal.verdicts))
        if self._counted(family):
            return
        case = refusal.case(kind, family, origin)
        saved = None
        try:
            saved = self._corpus.add(case, {MODULE: refusal.module.ptx.encode()})
        finally:
            text = refusal.form.opcode if refusal.form is not None else family.title
            self._tell(case, saved, text)

    def _counted(self, family: Family) -> bool:
        state = self._progress.families.get(family.key)
        if state is not None:
            state.cases += 1
        return state is not None or family.key in self._unconfirmed

    def _outcomes(self, subject: Subject) -> Mapping[Member, str]:
        """Compile a subject with every member, and run what is distinct."""
        built = self._matrix.start(subject.module).wait()
        found = dict.fromkeys(built.failed, Kind.COMPILE_FAILURE.value)
        for variant in self._matrix.variants(built, subject.module.kernels[0].entry):
            one = attempt(MemberRunner(self._device, variant.members[0]), subject)
            said = "match" if one.kind is None else one.kind.value
            found.update(dict.fromkeys(variant.members, said))
        return {member: found[member] for member in self._members}

    def _shrunk(
        self, evidence: Evidence, runner: MemberRunner, suspect: Suspect
    ) -> tuple[Evidence, ShrinkStatus]:
        """Return the same in fewer steps and elements, wrong only where it was wrong."""
        wrong = runner_verdicts(runner)
        right = (
            runner_verdicts(MemberRunner(self._device, suspect.right[0])) if suspect.right else None
        )

        def verdicts(subjects: Sequence[Subject]) -> Sequence[Kind | None]:
            found = wrong(subjects)
            if right is None:
                return found
            return [
                None if there is not None else here
                for here, there in zip(found, right(subjects), strict=True)
            ]

        shrunk = shrink(evidence.subject, verdicts, wanted=evidence.kind, seconds=_SHRINK_SECONDS)
        if shrunk.status is ShrinkStatus.FLAKY:
            return evidence, shrunk.status
        attempts: list[Attempt] = [
            attempt(runner, shrunk.subject) for _ in range(replays_of(evidence.kind))
        ]
        if conclusion(attempts) is not evidence.kind:
            return evidence, ShrinkStatus.FLAKY
        return replace(evidence, subject=shrunk.subject, attempts=attempts), shrunk.status

    def _tell(self, case: Case, saved: Saved | None, text: str) -> None:
        state = FamilyState(
            kind=case.kind,
            key=case.family.key,
            title=case.family.title,
            text=text,
            verdict=case.oracle.verdict,
            message=case.runners[-1].message,
            known=self._known.match(case),
            cases=1,
            saved=saved,
            shrink=case.shrink,
        )
        self._progress.families[case.family.key] = state
        self._observer.found(self._progress, state)
