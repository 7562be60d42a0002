"""What a worker does with a round of the matrix: draw, compile with every member, run, compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from corpus import Kind, Origin, ShrinkStatus
from fuzz.checks.compiler_suspects import (
    Refusal,
    family_of,
    note_case,
    value_case,
    verdicts_on,
)
from fuzz.checks.protocol import Note, Pulse, RoundJob, RoundReport, Stage, Stored, Suspect
from fuzz.compilers.matrix import Built, Matrix, Variant, listings, notes_of, survey_programs
from fuzz.compilers.members import NOWHERE, Member, MemberRunner, Place
from fuzz.findings.case import MODULE, Evidence, files_of
from fuzz.findings.families import under_a_condition
from fuzz.findings.replay import Subject, attempt
from fuzz.findings.verdicts import judge
from fuzz.runner import kind_of_failure
from oracle.errors import DeviceLostError, InfrastructureError
from oracle.execution import execute
from oracle.forms import MainForm
from oracle.image import different
from oracle.targets import Module
from runners.assemblers.disassembly import Disassembler
from runners.emission import emit, emit_all
from runners.front_ends import line_bytes
from runners.front_ends.protocol import is_named
from runners.protocol import Compiled, Failure, Trouble
from strategies.program_coverage import Batch, ProgramCoverage
from strategies.program_draws import round_batches, round_key, up_to

ROUNDS_OF_A_MODULE = {"cuda": 4, "sim": 1, NOWHERE: 4}
"""Draws whose programs share a module, by the runner: 32 programs, for which ptxas takes below a
second, and fewer where running them takes longest."""
_FORMS_OF_A_ROUND = 16
"""Forms whose expansions are looked at beside a round: at most 32 programs, as many as it has."""


@dataclass(kw_only=True)
class _Results:
    """What the variants of a program made of some images."""

    wrong: dict[int, list[Member]]
    """Members whose binaries differ from the oracle, by the first image that does."""
    failed: dict[tuple[Kind, str], tuple[Failure, list[Member]]]
    """The first failure of a kind and an instruction, and the members whose binaries fail so."""
    right: list[Member]
    actual: dict[int, NDArray[np.uint8]]
    """By image: what the first of its members' binaries made of it."""


class MatrixRounds:
    """Carries out rounds of a matrix.

    Parameters
    ----------
    matrix
        Who compiles, and the device.
    place
        Where binaries run.
    forms
        What is selected.
    seed
        Of the campaign.
    disassembler
        What shows machine instructions; None if none is here.
    pulse
        Is told of every stage.
    """

    def __init__(
        self,
        matrix: Matrix,
        place: Place,
        *,
        forms: Sequence[MainForm],
        seed: int,
        disassembler: Disassembler | None,
        pulse: Pulse,
    ) -> None:
        self._matrix, self._place, self._forms = matrix, place, tuple(forms)
        self._seed, self._disassembler, self._pulse = seed, disassembler, pulse
        name = NOWHERE if place.opened is None else place.opened.choice.name
        self._parts = ROUNDS_OF_A_MODULE[name]
        self._module = Module.named(place.target, place.ptx_version)
        self._front_ends = [one.front_end for one in matrix.members if one.front_end is not None]
        self._line_bytes = max((line_bytes(one.spelled) for one in self._front_ends), default=1)

    def report(self, job: RoundJob) -> RoundReport:
        """Carry out a round, up to its limit or until the coordinator wants an end.

        Raises
        ------
        WarpfuzzError
            If the device cannot run what compilers write, or lacks something.
        """
        report = RoundReport(number=job.number, skip=job.skip, coverage=ProgramCoverage())
        try:
            report.complete = self._carry_out(job, report)
            if job.skip == 0 and not self._pulse.interrupted:
                self._note_expansions(job.number, report)
        except DeviceLostError as error:
            report.lost = str(error)
        finally:
            self._matrix.forget()
            self._pulse.enter(Stage.WAIT)
        return report

    def _carry_out(self, job: RoundJob, report: RoundReport) -> bool:
        """Tell whether all of the round was done."""
        self._pulse.enter(Stage.DRAW, round=job.number)
        drawn = (
            replace(batch, entry=f"r{part}_{batch.entry}")
            for part in range(self._parts)
            for batch in round_batches(
                self._forms,
                target=self._place.target,
                version=self._place.ptx_version,
                key=round_key(self._seed, job.number * self._parts + part),
                count=job.drawn.work,
                line_bytes=self._line_bytes,
            )
        )
        last = None if job.limit is None else job.skip + job.limit
        batches = up_to(last, drawn, self._cases)
        if not batches:
            return True
        programs = {batch.entry: batch.program for batch in batches}
        if self._front_ends:
            # One that a front end cannot say would cost the others their module.
            said = {name: program for name, program in programs.items() if is_named(program)}
            programs = said or dict([programs.popitem()])
        self._pulse.enter(Stage.COMPILE)
        building = self._matrix.start(emit_all(programs, module=self._module))
        built = building.wait(self._pulse.beat)
        alone: set[Member] = set()
        place = 0
        """Cases of the round before the program at hand."""
        for batch in batches:
            count = self._cases(batch)
            if job.skip + report.cases >= place + count:
                place += count
                continue
            if self._pulse.interrupted or (job.limit is not None and report.cases >= job.limit):
                return False
            first = job.skip + report.cases - place
            left = count - first
            some = left if job.limit is None else min(left, job.limit - report.cases)
            if batch.entry not in programs:
                own = self._by_itself(batch, built, self._matrix.members)
            else:
                own = self._by_itself(batch, built, list(built.failed)) if built.failed else built
            alone.update(own.failed)
            self._program(batch, own, (first, some), job, report)
            report.cases += some
            if some < left:
                return False
            place += count
        together = [
            member
            for member in built.failed
            if member not in alone and member.assembler is not None
        ]
        if together:
            self._refused(built, None, together, job, report)
        return True

    def _cases(self, batch: Batch) -> int:
        """Return the cases of a program: its images, where they are run."""
        return 1 if self._place.opened is None else batch.count

    def _by_itself(self, batch: Batch, built: Built, members: Sequence[Member]) -> Built:
        """Compile one program with members that did not compile it in the module."""
        self._pulse.enter(Stage.COMPILE)
        module = emit(batch.program, module=self._module, entry=batch.entry)
        again = self._matrix.start(module, members).wait(self._pulse.beat)
        return Built(module=module, made={**built.made, **again.made})

    def _program(
        self, batch: Batch, built: Built, some: tuple[int, int], job: RoundJob, report: RoundReport
    ) -> None:
        """Compare what the members make of some images of one program."""
        first, count = some
        variants = self._matrix.variants(built, batch.entry)
        different = bool(built.failed) and bool(variants)
        if first == 0:
            assert isinstance(report.coverage, ProgramCoverage)
            report.coverage.add(batch)
            report.counts["programs",] += 1
            report.counts["binaries",] += sum(len(variant.members) for variant in variants)
            report.counts["distinct",] += len(variants)
            failed = self._not_said(batch, built, job, report)
            if failed:
                report.counts["uncompiled",] += 1
                self._refused(built, batch.form, failed, job, report)
        if self._place.opened is None or not variants:
            report.answered += count
        else:
            different |= self._compare(batch, variants, some, job, report)
        if first == 0:
            report.counts["differences",] += different

    def _not_said(
        self, batch: Batch, built: Built, job: RoundJob, report: RoundReport
    ) -> list[Member]:
        """Count and keep what front ends did not compile; return the assemblers that did not."""
        rest = []
        failed: dict[Kind, list[Member]] = {}
        for member, failure in built.failed.items():
            if failure.trouble is Trouble.UNSUPPORTED:
                self._unsupported(failure, [member], report)
            elif member.front_end is not None:
                failed.setdefault(kind_of_failure(failure), []).append(member)
            else:
                rest.append(member)
        right = [member for member in built.made if member not in built.failed]
        for kind, members in failed.items():
            report.counts["uncompiled",] += 1
            self._suspect(batch, batch.images(1)[0], 0, kind, members, right, job, report)
        return rest

    def _compare(
        self,
        batch: Batch,
        variants: Sequence[Variant],
        some: tuple[int, int],
        job: RoundJob,
        report: RoundReport,
    ) -> bool:
        """Run the variants of a program; tell whether they differ."""
        for variant in variants:
            self._place.check_runs(variant.compiled)
        first, count = some
        self._pulse.enter(Stage.EXPAND)
        images = batch.images(count, first=first)
        self._pulse.enter(Stage.RUN)
        pending = self._matrix.submit(variants, images, batch.entry)
        self._pulse.enter(Stage.ORACLE)
        architecture = variants[0].compiled.architecture
        expected = execute(batch.program, images, target=architecture).images
        self._pulse.enter(Stage.COMPARE)
        results = _Results(wrong={}, failed={}, right=[], actual={})
        distinct, ran = set[bytes](), 0
        for variant, one in zip(variants, pending, strict=True):
            outcome = one.collect()
            self._pulse.beat()
            if isinstance(outcome, Failure) and outcome.trouble is Trouble.UNSUPPORTED:
                self._unsupported(outcome, variant.members, report)
                continue
            if isinstance(outcome, Failure):
                kind = kind_of_failure(outcome)
                what = under_a_condition(outcome) if kind is Kind.DIVERGENCE else ""
                same = results.failed.setdefault((kind, what), (outcome, []))
                same[1].extend(variant.members)
                distinct.add(b"failed")
                continue
            distinct.add(outcome.images.tobytes())
            differ = different(expected, outcome.images)
            if len(differ):
                index = int(differ[0])
                results.wrong.setdefault(index, []).extend(variant.members)
                results.actual.setdefault(index, outcome.images[index].copy())
            else:
                results.right.extend(variant.members)
            ran += 1
        report.compared += count if ran else 0
        report.unasked += 0 if ran else count
        report.counts["images",] += ran * count
        report.counts["wrong",] += bool(results.wrong)
        self._pulse.count(count)
        for (kind, _), (failure, failing) in results.failed.items():
            self._suspect(
                batch, images[0], first, kind, failing, results.right, job, report, failure
            )
        for index, wrong in results.wrong.items():
            image, actual = images[index], results.actual[index]
            verdict = judge(
                batch.program, image[None], actual[None], target=architecture,
                expected=expected[index][None],
            )[0]  # fmt: skip
            self._suspect(
                batch, image, first + index, verdict.kind, wrong, results.right, job, report
            )
        return len(distinct) > 1

    def _suspect(
        self,
        batch: Batch,
        image: NDArray[np.uint8],
        index: int,
        kind: Kind,
        wrong: Sequence[Member],
        right: Sequence[Member],
        job: RoundJob,
        report: RoundReport,
        failure: Failure | None = None,
    ) -> None:
        """Add an image that some members' binaries do not turn into what the oracle says."""
        guilty, innocent = self._ordered(wrong), self._ordered(right)
        family = family_of(kind, batch.form, guilty, self._matrix.members, failure)
        there = report.suspects.get(family.key)
        if there is not None:
            there.cases += 1
            return
        stored = None
        opened = self._place.opened
        if family.key not in job.settled and opened is not None:
            self._pulse.enter(Stage.RUN)
            module = emit(batch.program, module=self._module)
            subject = Subject(module=module, program=batch.program, image=image.copy())
            shown = attempt(MemberRunner(self._matrix.device, guilty[0]), subject)
            if shown.kind is None:
                # By itself it comes out right: what fails only in company is not told apart here.
                report.counts["unconfirmed",] += 1
                return
            evidence = Evidence(kind=kind, family=family, subject=subject, attempts=[shown])
            case = value_case(
                evidence,
                opened,
                origin=Origin(seed=self._seed, round=job.number, image=index),
                status=ShrinkStatus.RAW,
                outcomes={
                    member: kind.value if member in guilty else "match"
                    for member in self._matrix.members
                    if member in guilty or member in innocent
                },
                wrong=guilty[0],
            )
            stored = Stored(case=case, files=files_of(evidence))
        report.suspects[family.key] = Suspect(family=family, kind=kind, cases=1, stored=stored)

    def _refused(
        self,
        built: Built,
        form: MainForm | None,
        failed: Sequence[Member],
        job: RoundJob,
        report: RoundReport,
    ) -> None:
        """Ask those who did not compile a module what they say of it."""
        compiled = [one for one, made in built.made.items() if isinstance(made, Compiled)]
        verdicts = verdicts_on(
            built.module, failed, compiled, architecture=self._place.architecture
        )
        refusal = Refusal(
            module=built.module,
            form=form,
            verdicts={one: verdicts[one] for one in self._matrix.members if one in verdicts},
        )
        kind = refusal.kind
        if kind is None:
            report.counts["unconfirmed",] += 1
            return
        family = family_of(kind, form, refusal.refusing, list(refusal.verdicts))
        there = report.suspects.get(family.key)
        if there is not None:
            there.cases += 1
            return
        origin = Origin(seed=self._seed, round=job.number)
        stored = None
        if family.key not in job.settled:
            case = refusal.case(kind, family, origin)
            stored = Stored(case=case, files={MODULE: built.module.ptx.encode()})
        report.suspects[family.key] = Suspect(family=family, kind=kind, cases=1, stored=stored)

    def _ordered(self, members: Sequence[Member]) -> tuple[Member, ...]:
        """Return some members in their own order."""
        return tuple(member for member in self._matrix.members if member in members)

    def _unsupported(
        self, failure: Failure, members: Sequence[Member], report: RoundReport
    ) -> None:
        """Count a program that some members cannot say, or whose code the device does not run."""
        report.counts["unsupported",] += len(members)
        report.said = f"{members[0].name}: {failure.line}"

    def _note_expansions(self, number: int, report: RoundReport) -> None:
        """Look at the matrix instructions of the round's forms, while some are left."""
        first = number * _FORMS_OF_A_ROUND
        forms = self._forms[first : first + _FORMS_OF_A_ROUND]
        if self._disassembler is None or not forms:
            return
        target, version = self._place.target, self._place.ptx_version
        some = list(survey_programs(forms, target=target, version=version, seed=self._seed))
        if not some:
            return
        self._pulse.enter(Stage.COMPILE)
        entries = {f"form_{index}": program for index, (_, program) in enumerate(some)}
        built = self._matrix.start(emit_all(entries, module=self._module)).wait(self._pulse.beat)
        try:
            made = listings(self._matrix, built, self._disassembler.expansions)
        except InfrastructureError as error:
            # What compilers are compared for needs no disassembler.
            self._disassembler = None
            report.said = f"expansions are not looked at: {error}"
            report.counts["expansions not looked at",] += len(some)
            return
        report.counts["expansions",] += len(some)
        for entry, (form, program) in zip(entries, some, strict=True):
            seen = {member: own.get(entry, Counter()) for member, own in made.items()}
            for note in notes_of(form, program, seen):
                case, files = note_case(note, target=target, version=version)
                report.counts["notes",] += 1
                report.notes.append(Note(stored=Stored(case=case, files=files), row=note.row))
