"""The campaign over a matrix: every compiler at every level, compared bit for bit."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from corpus import Corpus, Kind, Origin
from corpus.known import Known
from fuzz.campaign.draws import Selection
from fuzz.campaign.limits import Budget
from fuzz.campaign.progress import Observer
from fuzz.checks.compiler_progress import MatrixProgress
from fuzz.checks.compiler_suspects import Desk, Refusal, Suspect, note_case
from fuzz.checks.program_coverage import Batch
from fuzz.checks.program_draws import round_batches, round_key, selected_forms
from fuzz.compilers.expansions import (
    PROGRAMS_AT_ONCE,
    listings,
    notes_of,
    survey_programs,
)
from fuzz.compilers.matrix import Building, Built, Matrix, Variant
from fuzz.compilers.members import COMPILE_SECONDS, Member
from fuzz.findings.replay import Subject
from fuzz.findings.verdicts import judge, kind_of_failure
from fuzz.runner import OpenRunner
from oracle.errors import InfrastructureError, WarpfuzzError
from oracle.execution import execute
from oracle.forms import LdmatrixForm, MmaForm
from oracle.program import Program
from oracle.targets import Module
from runners.assemblers.disassembly import Disassembler
from runners.assemblers.judgements import Outcome, Verdict
from runners.assemblers.judging import judge_module
from runners.emission import emit, emit_all
from runners.protocol import Compiled, Failure, Images, Ran

ROUNDS_OF_A_MODULE = 4
"""Rounds whose programs share a module: 32 programs, for which ptxas takes below a second."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a campaign over a matrix is to do."""

    target: str
    ptx_version: str
    architecture: str
    """Whose machine code is made."""
    selection: Selection
    budget: Budget
    seed: int
    images: int
    """Images of each program."""
    programs: int | None = None
    """Programs after which it ends."""


@dataclass(kw_only=True)
class _Round:
    """Programs of one module, being compiled."""

    number: int
    batches: Sequence[Batch]
    building: Building


class MatrixCampaign:
    """Draws programs, compiles each with all members, runs what is distinct, and compares."""

    def __init__(
        self,
        matrix: Matrix,
        plan: Plan,
        *,
        opened: OpenRunner | None,
        corpus: Corpus,
        known: Known,
        observer: Observer,
        disassembler: Disassembler | None = None,
    ) -> None:
        """Prepare a campaign.

        Parameters
        ----------
        opened
            The device that the matrix has; None where binaries are only compared as far as they
            are accepted.

        Raises
        ------
        UsageError
            If nothing is selected that the target has.
        """
        self._matrix, self._plan, self._opened = matrix, plan, opened
        self._corpus, self._observer = corpus, observer
        self._disassembler = disassembler
        self._forms = selected_forms(plan.selection, target=plan.target, version=plan.ptx_version)
        self._survey = survey_programs(
            self._forms, target=plan.target, version=plan.ptx_version, seed=plan.seed
        )
        self._stopping = False
        self._width, self._newest = 0, time.monotonic()
        """Families, forms and notes so far, and when the last of them came."""
        self.progress = MatrixProgress(
            seed=plan.seed,
            assemblers=(),
            forms=len(self._forms),
            members=matrix.members,
            device=opened.device if opened is not None else "",
            pair=f"{plan.target}, PTX ISA {plan.ptx_version}",
        )
        self._desk = Desk(
            matrix=matrix,
            opened=opened,
            corpus=corpus,
            known=known,
            observer=observer,
            progress=self.progress,
        )

    def stop(self) -> None:
        """End the campaign after the program or the finding at hand."""
        self._stopping = True

    def run(self) -> MatrixProgress:
        """Go on until the budget is spent or a stop is requested.

        Raises
        ------
        DeviceLostError
            If the device is gone; `progress` still holds what was found until then.
        WarpfuzzError
            If the runner lacks something, or a finding cannot be stored.
        """
        progress = self.progress
        try:
            ahead: _Round | None = None
            while not progress.stopped:
                at_hand = ahead or self._start(progress.rounds)
                # While binaries of one round run, those of the next are made.
                last = self._is_last(at_hand)
                ahead = None if last else self._start(at_hand.number + 1)
                self._note_expansions()
                self._round(at_hand)
                progress.rounds = at_hand.number + 1
                progress.stopped = self._spent()
                if self._stopping and not progress.stopped:
                    progress.stopped = "stopped on request"
                self._observer.progressed(progress)
        except WarpfuzzError as error:
            progress.stopped = str(error)
            raise
        finally:
            progress.seconds = time.monotonic() - progress.started
        return progress

    def _spent(self) -> str:
        """Return which limit is reached, in words; empty if none is."""
        progress, now = self.progress, time.monotonic()
        limit = self._plan.programs
        if limit is not None and progress.programs >= limit:
            return "budget spent"
        width = len(progress.families) + len(progress.reached) + len(progress.notes)
        if width > self._width:
            self._width, self._newest = width, now
        return self._plan.budget.reason(
            now - progress.started,
            progress.cases,
            found=len(progress.findings),
            quiet=now - self._newest,
        )

    def _is_last(self, at_hand: _Round) -> bool:
        """Whether a round uses up what is left, if all its programs are run."""
        progress, plan = self.progress, self._plan
        count = len(at_hand.batches)
        cases = count * (plan.images if self._opened is not None else 1)
        return (plan.budget.cases is not None and progress.cases + cases >= plan.budget.cases) or (
            plan.programs is not None and progress.programs + count >= plan.programs
        )

    @property
    def _ending(self) -> bool:
        return self._stopping or bool(self._spent())

    def _start(self, number: int) -> _Round:
        """Draw the programs of a round and start compiling them."""
        plan = self._plan
        batches = [
            replace(batch, entry=f"r{part}_{batch.entry}")
            for part in range(ROUNDS_OF_A_MODULE)
            for batch in round_batches(
                self._forms,
                target=plan.target,
                version=plan.ptx_version,
                key=round_key(plan.seed, number * ROUNDS_OF_A_MODULE + part),
                count=plan.images,
            )
        ]
        programs = {batch.entry: batch.program for batch in batches}
        module = emit_all(programs, module=Module.named(plan.target, plan.ptx_version))
        return _Round(number=number, batches=batches, building=self._matrix.start(module))

    def _round(self, at_hand: _Round) -> None:
        begun = time.monotonic()
        built = at_hand.building.wait()
        self.progress.compile_seconds += time.monotonic() - begun
        self._matrix.forget()
        alone: set[Member] = set()
        for batch in at_hand.batches:
            if self._ending:
                return
            own = self._by_itself(batch, built) if built.failed else built
            alone.update(own.failed)
            self.progress.programs += 1
            self.progress.reached.add(batch.form.opcode)
            self._program(batch, own, at_hand.number)
            self._observer.progressed(self.progress)
        together = [member for member in built.failed if member not in alone]
        if together:
            self._refused(built, None, together, Origin(seed=self._plan.seed, round=at_hand.number))

    def _by_itself(self, batch: Batch, built: Built) -> Built:
        """Compile one program of a module with those who did not compile the module."""
        plan = self._plan
        module = emit(
            batch.program, module=Module.named(plan.target, plan.ptx_version), entry=batch.entry
        )
        again = self._matrix.start(module, list(built.failed)).wait()
        return Built(module=module, made={**built.made, **again.made})

    def _program(self, batch: Batch, built: Built, number: int) -> None:
        """Compare what the members make of one program."""
        progress = self.progress
        variants = self._matrix.variants(built, batch.entry)
        progress.binaries += sum(len(variant.members) for variant in variants)
        progress.distinct += len(variants)
        origin = Origin(seed=self._plan.seed, round=number)
        if built.failed:
            progress.uncompiled += 1
            self._refused(built, batch.form, list(built.failed), origin)
        different = bool(built.failed) and bool(variants)
        if self._opened is None:
            progress.cases += 1
            progress.judged += 1
        elif variants:
            begun = time.monotonic()
            different |= self._compare(batch, variants, origin)
            progress.run_seconds += time.monotonic() - begun
        progress.differences += different

    def _refused(
        self,
        built: Built,
        form: MmaForm | LdmatrixForm | None,
        failed: Sequence[Member],
        origin: Origin,
    ) -> None:
        """Ask those who did not compile a module what they say of it."""
        verdicts = {}
        for member in self._matrix.members:
            if isinstance(built.made.get(member), Compiled):
                verdicts[member] = Verdict(outcome=Outcome.ACCEPTED)
            elif member in failed and member.assembler is not None:
                verdicts[member] = judge_module(
                    member.assembler,
                    built.module.ptx,
                    target=self._plan.architecture,
                    level=member.level,
                    deadline=COMPILE_SECONDS,
                )
        self._desk.refusal(Refusal(module=built.module, form=form, verdicts=verdicts), origin)

    def _compare(self, batch: Batch, variants: Sequence[Variant], origin: Origin) -> bool:
        """Run the variants of a program; tell whether they differ."""
        images = batch.images()
        limit = self._plan.budget.cases
        if limit is not None:
            images = images[: limit - self.progress.cases]
        pending = self._matrix.submit(variants, images, batch.entry)
        architecture = variants[0].compiled.architecture
        expected = execute(batch.program, images, target=architecture).images
        outcomes = list(self._matrix.collect(pending))
        self.progress.cases += len(images)
        results: dict[bytes, list[Variant]] = {}
        wrong: dict[int, list[Variant]] = {}
        failed: dict[Kind, list[Variant]] = {}
        right: list[Variant] = []
        for variant, outcome in zip(variants, outcomes, strict=True):
            if isinstance(outcome, Failure):
                failed.setdefault(kind_of_failure(outcome), []).append(variant)
                results.setdefault(b"failed", []).append(variant)
                continue
            self.progress.judged += len(images)
            results.setdefault(outcome.images.tobytes(), []).append(variant)
            differ = np.flatnonzero((outcome.images != expected).any(axis=1))
            if len(differ):
                wrong.setdefault(int(differ[0]), []).append(variant)
            else:
                right.append(variant)
        for kind, some in failed.items():
            self._failed(batch, images, kind, some, right, origin)
        for index, some in wrong.items():
            self._wrong(batch, images, index, some, right, origin)
        self.progress.wrong += bool(wrong)
        return len(results) > 1

    def _wrong(
        self,
        batch: Batch,
        images: Images,
        index: int,
        wrong: Sequence[Variant],
        right: Sequence[Variant],
        origin: Origin,
    ) -> None:
        """Hand on the image that some variants turn into something else than the oracle."""
        image = images[index]
        compiled = wrong[0].compiled
        ran = self._matrix.device.run(compiled, image[None], entry=batch.entry)
        if not isinstance(ran, Ran):
            self.progress.unconfirmed += 1
            return
        verdict = judge(batch.program, image[None], ran.images, target=compiled.architecture)[0]
        if not verdict:
            # By itself it comes out right: what fails only in company is not told apart here.
            self.progress.unconfirmed += 1
            return
        self._desk.difference(
            Suspect(
                subject=self._subject(batch, image),
                kind=verdict.kind,
                wrong=self._ordered(wrong),
                right=self._ordered(right),
                origin=Origin(seed=origin.seed, round=origin.round, image=index),
            )
        )

    def _failed(
        self,
        batch: Batch,
        images: Images,
        kind: Kind,
        failed: Sequence[Variant],
        right: Sequence[Variant],
        origin: Origin,
    ) -> None:
        """Hand on a program whose binaries bring the device down, or are not loaded."""
        self._desk.difference(
            Suspect(
                subject=self._subject(batch, images[0]),
                kind=kind,
                wrong=self._ordered(failed),
                right=self._ordered(right),
                origin=origin,
            )
        )

    def _subject(self, batch: Batch, image: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> Subject:
        module = emit(
            batch.program,
            module=Module.named(self._plan.target, self._plan.ptx_version),
            entry="kernel",
        )
        return Subject(module=module, program=batch.program, image=image.copy())

    def _ordered(self, variants: Sequence[Variant]) -> tuple[Member, ...]:
        """Return the members of some variants in their own order."""
        found = {member for variant in variants for member in variant.members}
        return tuple(member for member in self._matrix.members if member in found)

    def _note_expansions(self) -> None:
        """Look at the matrix instructions of the next forms, while some are left."""
        if self._disassembler is None or self._ending:
            return
        plan = self._plan
        some = _take(self._survey, PROGRAMS_AT_ONCE)
        if not some:
            return
        entries = {f"form_{index}": program for index, (_, program) in enumerate(some)}
        module = emit_all(entries, module=Module.named(plan.target, plan.ptx_version))
        built = self._matrix.start(module).wait()
        seen: dict[str, dict[Member, Counter[str]]] = {entry: {} for entry in entries}
        try:
            listings = self._listings(built)
        except InfrastructureError as error:
            # What compilers are compared for needs no disassembler.
            self._disassembler = None
            self.progress.skipped_members += (f"expansions are not looked at: {error}",)
            return
        for member, made in listings.items():
            for entry in entries:
                seen[entry][member] = made.get(entry, Counter())
        self.progress.surveyed += len(some)
        for entry, (form, program) in zip(entries, some, strict=True):
            for note in notes_of(form, program, seen[entry]):
                self.progress.notes.append(note)
                case, files = note_case(note, target=plan.target, version=plan.ptx_version)
                self._corpus.add(case, files)

    def _listings(self, built: Built) -> Mapping[Member, Mapping[str, Counter[str]]]:
        """Disassemble the binaries of a module; what was written in place of one is left out."""
        if self._disassembler is None:
            return {}
        return listings(self._matrix, built, self._disassembler.expansions)


def _take(
    survey: Iterator[tuple[MmaForm | LdmatrixForm, Program]], count: int
) -> Sequence[tuple[MmaForm | LdmatrixForm, Program]]:
    """Return the next items of an iterator."""
    return [item for _, item in zip(range(count), survey, strict=False)]
