"""The campaign against a device: draw programs and images, run, compare, shrink, store."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpus import Corpus, Family, Kind, Origin, Saved, ShrinkStatus
from corpus.known import Known
from fuzz.budget import Budget
from fuzz.device_lost import DeviceLostError
from fuzz.instruction_progress import FamilyState, Observer, Progress
from fuzz.instruction_rounds import Selection, derived_seed
from fuzz.runner_choice import OpenRunner
from fuzz.shrinking import runner_verdicts, shrink
from fuzz.value_families import family_of_difference, family_of_failure, family_of_flaky
from fuzz.value_findings import Evidence, case_of, files_of
from fuzz.value_replaying import Attempt, Subject, attempt, conclusion, replays_of
from fuzz.value_rounds import (
    GENERATOR_VERSION,
    IMAGES,
    Batch,
    main_form,
    round_batches,
    selected_forms,
)
from fuzz.verdicts import Verdict, differences, judge, kind_of_failure
from oracle.errors import InfrastructureError, WarpfuzzError
from oracle.execution import execute
from runners.emission import emit, emit_all
from runners.isolation import Isolation, isolate
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Images, Trouble

_JUDGED = 32
"""Failing images of one batch whose bounds are computed; the rest counts with the first of them."""
_FAILED_RUNS = 12
"""Failed runs after which the search for the images of a failure ends: one culprit among IMAGES
takes 9, and a runner may need seconds to recover from each."""
_NOTHING_COMPILES = 16
"""Programs after which, if none of them was compiled, the compiler itself is called broken."""

_TRIES = 8
"""Times that one family is confirmed before what does not replay is only counted."""


@dataclass
class ValueProgress(Progress):
    """What a campaign against a device has done so far."""

    runner: str = ""
    """What is judged, in words."""
    compiled: int = 0
    """Programs that were compiled."""
    uncompiled: int = 0
    """Programs that were not."""
    missing: int = 0
    """Images without a result, because something among them failed too often."""
    by_kind: dict[Kind, int] = field(default_factory=dict)
    """Images that were judged so, before they were replayed."""
    judged_so: ClassVar[str] = "compared"
    agreement: ClassVar[str] = "Every image is what the oracle says."

    @property
    def subject(self) -> str:
        """What is judged."""
        return self.runner

    @property
    def checked(self) -> str:
        """What was looked at, in words."""
        return f"{self.judged:,} whole images of {self.compiled:,} programs"


class ValueCampaign:
    """Compares what a device makes of memory images with what the oracle does."""

    def __init__(
        self,
        opened: OpenRunner,
        *,
        selection: Selection,
        budget: Budget,
        seed: int,
        corpus: Corpus,
        known: Known,
        observer: Observer,
    ) -> None:
        """Prepare a campaign.

        Raises
        ------
        UsageError
            If nothing is selected that the target has.
        """
        self._opened = opened
        self._runner = opened.runner
        self._forms = selected_forms(selection, target=opened.target, version=opened.ptx_version)
        self._budget, self._seed = budget, seed
        self._corpus, self._known, self._observer = corpus, known, observer
        self._stopping = False
        self._tries: dict[str, int] = {}
        """By the key of the family that the first run fell into: how often it was confirmed."""
        self._flaky: dict[str, FamilyState] = {}
        """The same: under which other family it went then."""
        self.progress = ValueProgress(
            seed=seed,
            assemblers=(),
            forms=len(self._forms),
            runner=opened.device,
            pair=f"{opened.target}, PTX ISA {opened.ptx_version}",
        )

    def stop(self) -> None:
        """End the campaign after the batch or the finding at hand."""
        self._stopping = True

    def run(self) -> ValueProgress:
        """Go on until the budget is spent or a stop is requested.

        Raises
        ------
        DeviceLostError
            If the device is gone; `progress` still holds what was found until then.
        WarpfuzzError
            If the runner lacks something, nothing compiles, or a finding cannot be stored.
        """
        progress = self.progress
        try:
            while not progress.stopped:
                self._round(progress.rounds)
                progress.rounds += 1
                if self._spent():
                    progress.stopped = "budget spent"
                elif self._stopping:
                    progress.stopped = "stopped on request"
                self._observer.progressed(progress)
        except WarpfuzzError as error:
            progress.stopped = str(error)
            raise
        finally:
            progress.seconds = time.monotonic() - progress.started
        return progress

    def _spent(self) -> bool:
        return self._budget.spent(time.monotonic() - self.progress.started, self.progress.cases)

    @property
    def _ending(self) -> bool:
        return self._stopping or self._spent()

    def _round(self, number: int) -> None:
        key = derived_seed(self._seed, "values", GENERATOR_VERSION, number)
        target, version = self._opened.target, self._opened.ptx_version
        batches = round_batches(self._forms, target=target, version=version, key=key)
        if not batches:
            return
        programs = {batch.entry: batch.program for batch in batches}
        compiled = self._runner.compile(emit_all(programs, target=target, version=version))
        for batch in batches:
            if self._ending:
                return
            code: Compiled | Failure = compiled
            if isinstance(compiled, Failure):
                kind_of_failure(compiled)
                # Its neighbours in the module may be to blame; by itself it may compile.
                code = self._runner.compile(self._module(batch))
            if isinstance(code, Failure):
                self._uncompiled(batch, code, number)
            else:
                self.progress.compiled += 1
                self._batch(batch, code, number)
            self._observer.progressed(self.progress)

    def _module(self, batch: Batch, entry: str | None = None) -> KernelModule:
        return emit(
            batch.program,
            target=self._opened.target,
            version=self._opened.ptx_version,
            entry=entry or batch.entry,
        )

    def _batch(self, batch: Batch, compiled: Compiled, number: int) -> None:
        """Run the images of one program, and look into whatever is wrong."""
        images = batch.images()
        limit = self._budget.cases
        if limit is not None:
            images = images[: limit - self.progress.cases]
        isolation = isolate(self._runner, compiled, images, entry=batch.entry, limit=_FAILED_RUNS)
        self.progress.cases += len(images)
        self.progress.judged += int(isolation.ran.sum())
        self.progress.missing += len(images) - int(isolation.ran.sum())
        self.progress.reached.add(batch.form.opcode)
        if isolation.last is not None:
            self._failed(batch, images, isolation, number)
        expected = execute(batch.program, images, target=compiled.architecture).images
        wrong = np.flatnonzero((expected != isolation.images).any(axis=1) & isolation.ran)
        if len(wrong):
            self._differing(batch, images, isolation.images, wrong, compiled, number)

    def _failed(self, batch: Batch, images: Images, isolation: Isolation, number: int) -> None:
        """Keep the images at which the runner failed, or what failed only now and then."""
        last = isolation.last
        if last is None:
            return
        if last.trouble is Trouble.DEVICE_LOST:
            self._lost(self._subject(batch, images[int(np.argmin(isolation.ran))]), last, number)
        kind_of_failure(last)
        for culprit in isolation.culprits:
            self._failure(batch, images, culprit.index, culprit.failure, number)
        if not isolation.culprits:
            # It failed in company, and no image does alone.
            index = int(np.argmin(isolation.ran))
            self._failure(batch, images, index, last, number)

    def _failure(
        self, batch: Batch, images: Images, index: int, failure: Failure, number: int
    ) -> None:
        kind = kind_of_failure(failure)
        family = family_of_failure(kind, batch.form, failure)
        if self._is_known_here(family):
            return
        subject = self._subject(batch, images[index])
        first = Attempt(kind=kind, failure=failure, failed=1)
        self._confirm(batch, subject, first, family, Origin(**self._where(number, index)), 1)

    def _uncompiled(self, batch: Batch, failure: Failure, number: int) -> None:
        """Keep a program that does not compile."""
        self.progress.uncompiled += 1
        self.progress.cases += 1
        self.progress.reached.add(batch.form.opcode)
        self._failure(batch, batch.images()[:1], 0, failure, number)
        if self.progress.compiled == 0 and self.progress.uncompiled >= _NOTHING_COMPILES:
            raise InfrastructureError(
                f"none of {self.progress.uncompiled} programs was compiled, so nothing can be run; "
                f"the last failed so: {failure} {failure.detail.strip()[:400]}"
            )

    def _differing(
        self,
        batch: Batch,
        images: Images,
        actual: Images,
        wrong: NDArray[np.intp],
        compiled: Compiled,
        number: int,
    ) -> None:
        """Sort images that came out wrong into families."""
        judged = wrong[:_JUDGED]
        target = compiled.architecture
        verdicts = judge(batch.program, images[judged], actual[judged], target=target)
        for verdict in (Verdict.VIOLATION, Verdict.DEVIATION):
            chosen = [int(i) for i, one in zip(judged, verdicts, strict=True) if one is verdict]
            if not chosen:
                continue
            image = images[chosen[0]]
            count = len(chosen) + (len(wrong) - len(judged)) * (verdict is verdicts[0])
            kind = verdict.kind
            self.progress.by_kind[kind] = self.progress.by_kind.get(kind, 0) + count
            expected = execute(batch.program, image[None], target=target).images[0]
            found = differences(batch.program, expected, actual[chosen[0]])
            family = family_of_difference(kind, batch.form, found)
            if self._is_known_here(family, count):
                continue
            first = Attempt(
                kind=kind, actual=actual[chosen[0]][None], expected=expected, failed=1,
                compiled=compiled,
            )  # fmt: skip
            origin = Origin(**self._where(number, chosen[0]))
            self._confirm(batch, self._subject(batch, image), first, family, origin, count)

    def _is_known_here(self, family: Family, count: int = 1) -> bool:
        """Count cases of a family that is established; those of others are to be confirmed.

        What did not replay a few times is not tried again: it is flaky, and each try costs runs.
        """
        key = family.key
        state = self.progress.families.get(key)
        if state is None and self._tries.get(key, 0) >= _TRIES:
            state = self._flaky.get(key)
        if state is None:
            return False
        state.cases += count
        return True

    def _subject(self, batch: Batch, image: NDArray[np.uint8]) -> Subject:
        return Subject(
            module=self._module(batch, "kernel"), program=batch.program, image=image.copy()
        )

    def _where(self, number: int, index: int) -> dict[str, int]:
        return {"seed": self._seed, "round": number, "image": index}

    def _lost(self, subject: Subject, failure: Failure, number: int) -> None:
        """Keep what ran when the device went away; the caller ends the campaign."""
        form = main_form(subject.program)
        family = family_of_failure(Kind.DEVICE_LOST, form, failure)
        first = Attempt(kind=Kind.DEVICE_LOST, failure=failure, failed=1)
        evidence = Evidence(kind=Kind.DEVICE_LOST, family=family, subject=subject, attempts=[first])
        self._establish(evidence, Origin(**self._where(number, 0)), 1)

    def _confirm(
        self,
        batch: Batch,
        subject: Subject,
        first: Attempt,
        family: Family,
        origin: Origin,
        count: int,
    ) -> None:
        """Run what failed again, by itself, and keep it under the name that it then deserves."""
        self._tries[family.key] = self._tries.get(family.key, 0) + 1
        kind = first.kind or Kind.FLAKY
        try:
            attempts = self._repeated(subject, kind)
            if not any(one.failed for one in attempts) and first.failure is None:
                # What fails only in some places of the device needs warps in many.
                wide = replace(subject, copies=IMAGES)
                in_company = self._repeated(wide, kind)
                if any(one.failed for one in in_company):
                    subject, attempts = wide, in_company
        except DeviceLostError as error:
            failure = Failure(trouble=Trouble.DEVICE_LOST, message=str(error))
            self._lost(subject, failure, origin.round)
            raise
        concluded = conclusion(attempts)
        if concluded is kind:
            evidence = Evidence(kind=kind, family=family, subject=subject, attempts=attempts)
            self._establish(evidence, origin, count)
            return
        if concluded in (None, Kind.FLAKY):
            # The first run is part of the evidence: it may be the only one that failed.
            flaky = family_of_flaky(batch.form)
            best = sorted([first, *attempts], key=lambda one: -one.failed)
            evidence = Evidence(kind=Kind.FLAKY, family=flaky, subject=subject, attempts=best)
        else:
            other = (
                family_of_failure(concluded, batch.form, attempts[0].failure)
                if attempts[0].failure is not None
                else family_of_difference(concluded, batch.form, ())
            )
            evidence = Evidence(kind=concluded, family=other, subject=subject, attempts=attempts)
        self._flaky[family.key] = self._establish(evidence, origin, count)

    def _repeated(self, subject: Subject, kind: Kind) -> list[Attempt]:
        return [attempt(self._runner, subject) for _ in range(replays_of(kind))]

    def _establish(self, evidence: Evidence, origin: Origin, count: int) -> FamilyState:
        """Store a confirmed finding, shrink it and store it again, and tell of its family."""
        families = self.progress.families
        key = evidence.family.key
        if key in families:
            families[key].cases += count
            return families[key]
        case = case_of(evidence, self._opened, origin=origin, status=ShrinkStatus.RAW)
        saved: Saved | None = None
        try:
            saved = self._corpus.add(case, files_of(evidence))
            smaller, status = self._shrunk(evidence)
            if status is not ShrinkStatus.RAW:
                shrunk = case_of(smaller, self._opened, origin=origin, status=status)
                saved = self._corpus.replace(saved.id, shrunk, files_of(smaller))
                case = shrunk
        finally:
            # Also what could not be stored, or not be shrunk any more, is a finding.
            state = families[key] = FamilyState(
                kind=case.kind,
                key=key,
                title=case.family.title,
                text=main_form(evidence.subject.program).opcode,
                verdict=case.kind.value,
                message=case.runners[-1].message,
                known=self._known.match(case),
                cases=count,
                saved=saved,
                shrink=case.shrink,
            )
            self._observer.found(self.progress, state)
        return state

    def _shrunk(self, evidence: Evidence) -> tuple[Evidence, ShrinkStatus]:
        """Return the same case, smaller, confirmed; RAW if it is not to be shrunk."""
        subject, compiled = evidence.subject, evidence.shown.compiled
        wanted = evidence.kind
        if wanted not in (Kind.DEVIATION, Kind.VIOLATION) or subject.copies > 1 or not compiled:
            return evidence, ShrinkStatus.RAW
        shrunk = shrink(subject, runner_verdicts(self._opened), wanted=wanted)
        attempts = self._repeated(shrunk.subject, wanted)
        if conclusion(attempts) is not wanted:
            return evidence, ShrinkStatus.FLAKY
        return replace(evidence, subject=shrunk.subject, attempts=attempts), shrunk.status
