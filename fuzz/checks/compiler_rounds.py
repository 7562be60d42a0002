"""What a worker does with a round of the matrix: draw, compile with every member, run, compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

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
from fuzz.checks.protocol import (
    BY_MEMBER,
    Note,
    Pulse,
    RoundJob,
    RoundReport,
    Stage,
    Stored,
    Suspect,
)
from fuzz.compilers.matrix import Built, Matrix, Variant, listings, notes_of, survey_programs
from fuzz.compilers.members import NOWHERE, Member, MemberRunner, Place
from fuzz.findings.case import MODULE, Evidence, files_of
from fuzz.findings.families import under_a_condition, what_was_said
from fuzz.findings.replay import Subject, attempt
from fuzz.findings.verdicts import judge
from fuzz.runner import kind_of_failure
from oracle.errors import DeviceLostError, InfrastructureError
from oracle.execution import execute, expansions, has_figures
from oracle.forms import Form
from oracle.models import NO_FIGURES
from oracle.permission import contradicting
from oracle.program import Program
from oracle.targets import Module
from runners.assemblers.disassembly import Disassembler
from runners.cuda.compilation import release_of
from runners.emission import emit, emit_all
from runners.protocol import Compiled, Failure, Images, Trouble
from strategies.program_coverage import Batch, ProgramCoverage
from strategies.program_draws import Versions, round_batches, round_key, up_to

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
    first: dict[int, tuple[NDArray[np.uint8], NDArray[np.uint8], str]]
    """By image: what the first of its members' binaries made of it, what was expected, and the
    target, with its compiler, whose figures expect that."""


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
    versions
        What rounds draw the PTX ISA version from.
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
        forms: Sequence[Form],
        versions: Versions,
        seed: int,
        disassembler: Disassembler | None,
        pulse: Pulse,
    ) -> None:
        self._matrix, self._place, self._forms = matrix, place, tuple(forms)
        self._seed, self._disassembler, self._pulse = seed, disassembler, pulse
        name = NOWHERE if place.opened is None else place.opened.choice.name
        self._parts = ROUNDS_OF_A_MODULE[name]
        self._versions = versions
        self._kinds = {one.runner: one.toolchain for one in matrix.members}.values()
        self._line_bytes = max((one.line_bytes for one in self._kinds), default=1)
        # Other members than front ends are asked about shared registers in every second program.
        named = {one.writes_ptx for one in self._kinds}
        every = None if False in named else False
        self._shares_registers = (every, False) if True in named else (None,)

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
                version=self._versions,
                key=round_key(self._seed, job.number * self._parts + part),
                count=job.drawn.work,
                line_bytes=self._line_bytes,
                shares_registers=self._shares_registers,
            )
        )
        last = None if job.limit is None else job.skip + job.limit
        batches = up_to(last, drawn, self._cases)
        if not batches:
            return True
        # One that a front end cannot say would cost the others their module.
        said = {
            one.entry
            for one in batches
            if all(toolchain.says(one.program) for toolchain in self._kinds)
        }
        built = self._built(
            [(one.entry, one.version, one.program) for one in batches if one.entry in said]
        )
        alone: set[tuple[str, Member]] = set()
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
            if batch.entry not in said:
                own = self._by_itself(batch, {}, self._matrix.readers(batch.version))
            else:
                own = built[batch.version]
                if own.failed:
                    own = self._by_itself(batch, own.made, list(own.failed))
            alone.update((batch.version, member) for member in own.failed)
            self._program(batch, own, (first, some), job, report)
            report.cases += some
            if some < left:
                return False
            place += count
        for version, module in built.items():
            together = [
                member
                for member in module.failed
                if (version, member) not in alone and member.assembler is not None
            ]
            if together:
                self._refused(module, None, together, job, report)
        return True

    def _built(self, programs: Iterable[tuple[str, str, Program]]) -> Mapping[str, Built]:
        """Compile programs, those of a PTX ISA version in one module.

        Parameters
        ----------
        programs
            The entry, the version, and the program of each.

        Returns
        -------
        Mapping
            By version: the module, as those made it who read that.
        """
        modules: dict[str, dict[str, Program]] = {}
        for entry, version, program in programs:
            modules.setdefault(version, {})[entry] = program
        self._pulse.enter(Stage.COMPILE)
        building = {
            version: self._matrix.start(emit_all(some, module=self._module(version)))
            for version, some in modules.items()
        }
        return {version: one.wait(self._pulse.beat) for version, one in building.items()}

    def _module(self, version: str) -> Module:
        return Module.named(self._place.target, version)

    def _cases(self, batch: Batch) -> int:
        """Return the cases of a program: its images, where they are run."""
        return 1 if self._place.opened is None else batch.count

    def _by_itself(
        self,
        batch: Batch,
        made: Mapping[Member, Compiled | Failure],
        members: Sequence[Member],
    ) -> Built:
        """Compile one program with members that did not compile it in the module."""
        self._pulse.enter(Stage.COMPILE)
        module = emit(batch.program, module=self._module(batch.version), entry=batch.entry)
        again = self._matrix.start(module, members).wait(self._pulse.beat)
        return Built(module=module, made={**made, **again.made})

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
            self._count_members(batch, built, report)
            report.counts["binaries",] += sum(len(variant.members) for variant in variants)
            report.counts["distinct",] += len(variants)
            failed = self._not_said(batch, built, job, report)
            if failed:
                report.counts["uncompiled",] += 1
                self._refused(built, batch.form, failed, job, report)
        if self._place.opened is None:
            report.answered += count
        elif not variants:
            said = any(one.trouble is not Trouble.UNSUPPORTED for one in built.failed.values())
            report.failed += count if said else 0
            report.unasked += 0 if said else count
        else:
            different |= self._compare(batch, variants, some, job, report)
        if first == 0:
            report.counts["differences",] += different

    def _count_members(self, batch: Batch, built: Built, report: RoundReport) -> None:
        """Count for each member whether it reads a program, and whether it compiles it."""
        readers = set(self._matrix.readers(batch.version))
        for member in self._matrix.members:
            own = BY_MEMBER, member.name
            compiled = isinstance(built.made.get(member), Compiled)
            report.counts[*own, "compiled"] += compiled
            report.counts[*own, "not compiled"] += member in readers and not compiled
            report.counts[*own, "not readable"] += member not in readers
            report.counts[*own, "compared"] += 0
            report.counts[*own, "images"] += 0

    def _not_said(
        self, batch: Batch, built: Built, job: RoundJob, report: RoundReport
    ) -> list[Member]:
        """Count and keep what front ends did not compile; return the assemblers that did not."""
        rest = []
        failed: dict[tuple[Kind, str], tuple[Failure, list[Member]]] = {}
        for member, failure in built.failed.items():
            if failure.trouble is Trouble.UNSUPPORTED:
                self._unsupported(failure, [member], report)
            elif member.toolchain.writes_ptx:
                said = kind_of_failure(failure), what_was_said(failure)
                failed.setdefault(said, (failure, []))[1].append(member)
            else:
                rest.append(member)
        right = [member for member in built.made if member not in built.failed]
        report.counts["uncompiled",] += bool(failed)
        for (kind, _), (failure, members) in failed.items():
            image = batch.images(1)[0]
            self._suspect(batch, image, 0, kind, members, right, job, report, failure)
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
        expectations: dict[tuple[str, ...], Images] = {}
        results = _Results(wrong={}, failed={}, right=[], first={})
        distinct, ran, bounds_alone = set[bytes](), 0, False
        for variant, one in zip(variants, pending, strict=True):
            self._pulse.enter(Stage.ORACLE)
            target = self._judged(batch, variant)
            figures = expansions(batch.program, target=target)
            if figures not in expectations:
                expectations[figures] = execute(batch.program, images, target=target).images
            expected = expectations[figures]
            bounds_alone |= NO_FIGURES in figures
            self._pulse.enter(Stage.COMPARE)
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
            differ = contradicting(
                batch.program, images, outcome.images, target=target, expected=expected
            )
            if len(differ):
                index = int(differ[0])
                results.wrong.setdefault(index, []).extend(variant.members)
                seen = outcome.images[index].copy(), expected[index], target
                results.first.setdefault(index, seen)
            else:
                results.right.extend(variant.members)
            ran += 1
            for member in variant.members:
                report.counts[BY_MEMBER, member.name, "compared"] += first == 0
                report.counts[BY_MEMBER, member.name, "images"] += count
        report.compared += count if ran else 0
        report.failed += count if results.failed and not ran else 0
        report.unasked += 0 if ran or results.failed else count
        report.counts["images",] += ran * count
        report.counts["wrong",] += bool(results.wrong)
        report.counts["bounds alone",] += bounds_alone and first == 0
        self._pulse.count(count)
        for (kind, _), (failure, failing) in results.failed.items():
            self._suspect(
                batch, images[0], first, kind, failing, results.right, job, report, failure
            )
        for index, wrong in results.wrong.items():
            image, (actual, wanted, target) = images[index], results.first[index]
            verdict = judge(
                batch.program, image[None], actual[None], target=target, expected=wanted[None]
            )[0]
            self._suspect(
                batch, image, first + index, verdict.kind, wrong, results.right, job, report
            )
        return len(distinct) > 1

    def _judged(self, batch: Batch, variant: Variant) -> str:
        """Return the oracle's target for a binary: of several compilers one with figures."""
        architecture = variant.compiled.architecture
        if not variant.compiled.release:
            return architecture
        targets = [
            f"{architecture}@{release_of(one.version)}"
            for one in variant.members
            if one.assembler is not None
        ] or [variant.compiled.oracle_target]
        known = [one for one in targets if has_figures(batch.program, target=one)]
        return (known or targets)[0]

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
        readers = self._matrix.readers(batch.version)
        family = family_of(kind, batch.form, guilty, readers, failure)
        there = report.suspects.get(family.key)
        if there is not None:
            there.cases += 1
            return
        stored = None
        opened = self._place.opened
        if family.key not in job.settled and opened is not None:
            self._pulse.enter(Stage.RUN)
            module = emit(batch.program, module=self._module(batch.version))
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
        form: Form | None,
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
        target, versions = self._place.target, self._versions
        some = [
            (form, version, program)
            for version, own in groupby(
                forms, key=lambda form: versions.having(form, target, versions.main)
            )
            for form, program in survey_programs(
                tuple(own), target=target, version=version, seed=self._seed
            )
        ]
        if not some:
            return
        entries = [(f"form_{index}", version, one) for index, (_, version, one) in enumerate(some)]
        built = self._built(entries)
        try:
            made = {
                version: listings(self._matrix, one, self._disassembler.expansions)
                for version, one in built.items()
            }
        except InfrastructureError as error:
            # What compilers are compared for needs no disassembler.
            self._disassembler = None
            report.said = f"expansions are not looked at: {error}"
            report.counts["expansions not looked at",] += len(some)
            return
        report.counts["expansions",] += len(some)
        for (entry, version, program), (form, *_) in zip(entries, some, strict=True):
            seen = {member: own.get(entry, Counter()) for member, own in made[version].items()}
            for note in notes_of(form, program, seen):
                case, files = note_case(note, target=target, version=version)
                report.counts["notes",] += 1
                report.notes.append(Note(stored=Stored(case=case, files=files), row=note.row))
