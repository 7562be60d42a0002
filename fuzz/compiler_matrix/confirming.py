"""Confirming what a matrix found, making it smaller and storing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from corpus import Case, Corpus, Family, Kind, Origin, Saved, ShrinkStatus
from corpus.known import Known
from fuzz.compiler_matrix.cases import Refusal, family_of, value_case
from fuzz.compiler_matrix.matrix import Matrix
from fuzz.compiler_matrix.members import Member, MemberRunner
from fuzz.compiler_matrix.progress import MatrixProgress
from fuzz.instruction_progress import FamilyState, Observer
from fuzz.runner_choice import OpenRunner
from fuzz.shrinking import runner_verdicts, shrink
from fuzz.value_families import family_of_flaky
from fuzz.value_findings import MODULE, Evidence, files_of
from fuzz.value_replaying import Attempt, Subject, attempt, conclusion, replays_of
from fuzz.value_rounds import main_form

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
