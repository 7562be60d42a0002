"""A round of programs: draw, compile, fill, run, compute, compare, and report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from corpus import Family, Kind, Origin, ShrinkStatus
from fuzz.campaign.heartbeat import BeatingRunner
from fuzz.checks.program_repeats import add_outcomes
from fuzz.checks.protocol import Pulse, RoundJob, RoundReport, Stage, Stored, Suspect
from fuzz.diagnosis.culprit import in_place_culprits
from fuzz.diagnosis.experiments import Bench
from fuzz.findings.case import Evidence, case_of, files_of
from fuzz.findings.families import (
    MOST_SEEN,
    Seen,
    family_of_culprit,
    family_of_difference,
    family_of_failure,
)
from fuzz.findings.replay import Attempt, Subject, attempt
from fuzz.findings.verdicts import Verdict, differences, judge
from fuzz.runner import OpenRunner, kind_of_failure
from oracle.errors import DeviceLostError
from oracle.execution import CHUNK_IMAGES, execute
from oracle.forms import MainForm
from oracle.program import Program
from oracle.targets import Module
from runners.emission import emit, emit_all
from runners.front_ends import line_bytes
from runners.isolation import Isolation, isolate
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Images, Ran, Trouble
from strategies.contents import expand_by_class
from strategies.draws import Selection, simplest
from strategies.features import Focus
from strategies.program_draws import (
    Batch,
    ProgramCoverage,
    round_batches,
    round_key,
    selected_forms,
    up_to,
)
from strategies.programs import programs


@lru_cache(maxsize=256)
def smallest_program(form: MainForm, *, target: str, version: str) -> Program:
    """Return the program towards which those of a form shrink."""
    strategy = programs(Focus(form=form), module=Module.named(target, version), forms=(form,))
    return simplest(strategy)


_BYTES_AT_ONCE = 64 << 20
"""Most bytes of images that are filled, run and compared together: a worker holds them twice."""
_BYTES_COMPARED_AT_ONCE = 4 << 20
"""Most bytes of images that the oracle is asked for together: they are compared while they are in
the cache."""
_JUDGED = 32
"""Differing images of one batch whose bounds are computed; the rest counts with the first."""
_TRIED_ALONE = 4
"""Images that came out wrong in one way and are run by themselves, until one is wrong again."""
_TRIED_COPIES = 32
"""Images that are run in company of their copies, until a run fails."""
_FAILED_RUNS = 12
"""Failed runs after which the search for the images of a failure ends: one culprit among 4096
takes 13, and a runner may need seconds to recover from each."""
_HANGING_RUNS = 1
"""The same of a program that hangs: each costs a deadline, and one image is shown."""


@dataclass(frozen=True, kw_only=True)
class _Code:
    """A program that can be run."""

    compiled: Compiled
    rewritten: bool
    """Whether its PTX is not what was emitted."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Outcome:
    """Images of one batch, each array of shape (count, image_bytes)."""

    images: Images
    """Before the program."""
    actual: Images
    sms: NDArray[np.uint32]
    """(count,): multiprocessor that ran each."""


@dataclass(kw_only=True, eq=False)
class _Group:
    """Images of one batch that came out wrong in one way."""

    kind: Kind
    family: Family
    chosen: list[int]
    """Their places among those that were judged."""
    count: int


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a round is about."""

    focuses: tuple[Focus, ...]
    """What each program should be about."""
    count: int
    """Images of each program."""


class RoundWorker:
    """Carries out rounds on one runner.

    Parameters
    ----------
    ready
        The runner.
    seed
        Of the campaign.
    selection
        Which forms it is about.
    smallest
        Whether every program is the smallest one of its form, as for measuring speed.
    pulse
        Is told of every stage.
    """

    def __init__(
        self,
        ready: OpenRunner,
        *,
        seed: int,
        selection: Selection,
        smallest: bool,
        pulse: Pulse,
    ) -> None:
        self._ready, self._seed, self._smallest, self._heart = ready, seed, smallest, pulse
        self._runner = BeatingRunner(ready.runner, pulse)
        self.verified: list[Batch] = []
        """Programs of the last report of which every image that was run came out as it must."""
        self._odd: set[str] = set()
        """Entries of those that did not."""
        self._forms = selected_forms(
            selection,
            target=ready.target,
            version=ready.ptx_version,
        )

    def report(self, job: RoundJob) -> RoundReport:
        """Carry out a round, up to its limit or until the coordinator wants an end.

        Raises
        ------
        InfrastructureError
            If the runner lacks something.
        """
        report = RoundReport(number=job.number, skip=job.skip, coverage=ProgramCoverage())
        self.verified, self._odd = [], set()
        try:
            report.complete = self._carry_out(job, report)
        except DeviceLostError as error:
            report.lost = str(error)
        self._heart.enter(Stage.WAIT)
        return report

    def _carry_out(self, job: RoundJob, report: RoundReport) -> bool:
        """Tell whether all of the round was done."""
        coverage = report.coverage = ProgramCoverage()
        self._heart.enter(Stage.DRAW, round=job.number)
        target, version = self._ready.target, self._ready.ptx_version
        drawn = round_batches(
            self._forms,
            target=target,
            version=version,
            key=round_key(self._seed, job.number),
            focuses=job.drawn.work.focuses,
            count=job.drawn.work.count,
            line_bytes=line_bytes(self._ready.choice.front_end),
        )
        if self._smallest:
            drawn = (
                replace(batch, program=smallest_program(batch.form, target=target, version=version))
                for batch in drawn
            )
        last = None if job.limit is None else job.skip + job.limit
        batches = up_to(last, drawn, lambda batch: batch.count)
        if not batches:
            return True
        programs = {batch.entry: batch.program for batch in batches}
        module = emit_all(programs, module=Module.named(target, version))
        self._heart.enter(Stage.COMPILE)
        together = self._runner.compile(module)
        if isinstance(together, Failure):
            if together.trouble is not Trouble.UNSUPPORTED:
                kind_of_failure(together)
            # One that does not compile by itself is one case, so the others may have their turn.
            batches.extend(drawn)
        place = 0
        """Cases of the round before the program at hand."""
        for batch in batches:
            if job.limit is not None and report.cases >= job.limit:
                return False
            code = self._code(batch, module, together)
            count = 1 if isinstance(code, Failure) else batch.count
            if job.skip + report.cases < place + count:
                if job.skip <= place:
                    coverage.add(batch)
                    report.counts["programs", "compiled"] += not isinstance(code, Failure)
                done = report.compared
                self._work_on(batch, code, place, job, report)
                if report.compared > done and batch.entry not in self._odd:
                    self.verified.append(batch)
                if job.skip + report.cases < place + count:
                    return False
            place += count
        return True

    def _code(
        self, batch: Batch, module: KernelModule, together: Compiled | Failure
    ) -> _Code | Failure:
        if not isinstance(together, Failure):
            return _Code(compiled=together, rewritten=together.module.ptx != module.ptx)
        # Its neighbours in the module may be to blame; by itself it may compile.
        alone = self._module(batch, batch.entry)
        self._heart.enter(Stage.COMPILE)
        compiled = self._runner.compile(alone)
        if isinstance(compiled, Failure):
            return compiled
        return _Code(compiled=compiled, rewritten=compiled.module.ptx != alone.ptx)

    def _module(self, batch: Batch, entry: str) -> KernelModule:
        target, version = self._ready.target, self._ready.ptx_version
        return emit(batch.program, module=Module.named(target, version), entry=entry)

    def _work_on(
        self, batch: Batch, code: _Code | Failure, place: int, job: RoundJob, report: RoundReport
    ) -> None:
        """Work on the images of a program until they are done, or there is a reason to stop."""
        # Images of a class are next to each other: what the oracle computes at once is of one.
        size = CHUNK_IMAGES * len(batch.recipe.classes)
        size = max(1, min(size, _BYTES_AT_ONCE // batch.program.image_bytes))
        while not self._heart.interrupted and not report.lost:
            first = job.skip + report.cases - place
            left = batch.count - first
            if job.limit is not None:
                left = min(left, job.limit - report.cases)
            if left <= 0:
                return
            if isinstance(code, Failure):
                self._uncompiled(batch, code, job, report)
                return
            self._run(batch, code, (first, min(size, left)), job, report)

    def _uncompiled(
        self, batch: Batch, failure: Failure, job: RoundJob, report: RoundReport
    ) -> None:
        """Report a program that does not compile, or cannot be asked about."""
        if failure.trouble is Trouble.UNSUPPORTED:
            report.cases += 1
            self._unsupported(failure, 1, report)
            return
        image = batch.images(1)
        report.counts["programs", "failed"] += 1
        report.cases += 1
        report.answered += 1
        report.said = f"{failure} {failure.detail.strip()[:400]}"
        self._failure(batch, image[0], 0, failure, job, report)

    def _unsupported(self, failure: Failure, images: int, report: RoundReport) -> None:
        """Count a program that the front end cannot say, or whose PTX the device does not run."""
        report.counts["programs", "unsupported"] += 1
        report.unasked += images
        report.said = f"{failure} {failure.detail.strip()[:400]}".strip()

    def _run(
        self,
        batch: Batch,
        code: _Code,
        part: tuple[int, int],
        job: RoundJob,
        report: RoundReport,
    ) -> None:
        """Fill some images of a program, run them, and compare them with what the oracle says."""
        first, count = part
        heart, compiled = self._heart, code.compiled
        heart.enter(Stage.EXPAND)
        # What the oracle works on together is of one kind: special values slow down their company.
        images = self._runner.lease(count, batch.program.image_bytes)
        numbers = expand_by_class(batch.recipe, batch.program, images, first=first)
        heart.enter(Stage.RUN)
        pending = self._runner.submit(compiled, images, entry=batch.entry)
        wrong = self._wrong(batch, compiled, images, pending.collect)
        ran = pending.collect()
        if isinstance(ran, Failure) and ran.trouble is Trouble.UNSUPPORTED:
            report.cases += count
            self._unsupported(ran, count, report)
            return
        if isinstance(ran, Failure):
            isolation = self._isolated(batch, code, images, numbers, ran, job, report)
            if isolation is None:
                return
            actual, sms, judged = isolation.images, isolation.sms, int(isolation.ran.sum())
            wrong = self._wrong(batch, compiled, images, lambda: isolation)
            wrong = wrong[isolation.ran[wrong]]
        else:
            actual, sms, judged = ran.images, ran.sms, count
        if job.summed or job.against is not None:
            whole = images, (actual if judged == count else None), numbers
            add_outcomes(self._ready, batch, whole, job, report, seed=self._seed)
        report.cases += count
        report.compared += judged
        report.unasked += count - judged
        heart.count(judged)
        if len(wrong):
            outcome = _Outcome(images=images, actual=actual, sms=sms)
            self._differing(batch, code, outcome, wrong, numbers, job, report)

    def _wrong(
        self,
        batch: Batch,
        compiled: Compiled,
        images: Images,
        collect: Callable[[], Ran | Isolation | Failure],
    ) -> NDArray[np.intp]:
        """Return the numbers of the images that came out wrong, as far as the device brings any."""
        size = _BYTES_COMPARED_AT_ONCE // batch.program.image_bytes
        size = max(1, min(CHUNK_IMAGES, size))
        found = []
        for start in range(0, len(images), size):
            self._heart.enter(Stage.ORACLE)  # while the device works
            part = slice(start, start + size)
            expected = execute(batch.program, images[part], target=compiled.architecture).images
            self._heart.enter(Stage.RUN)
            ran = collect()
            if isinstance(ran, Failure):
                break
            self._heart.enter(Stage.COMPARE)
            found.append(start + different(expected, ran.images[part]))
        return np.concatenate(found) if found else np.zeros(0, np.intp)

    def _isolated(
        self,
        batch: Batch,
        code: _Code,
        images: Images,
        numbers: NDArray[np.intp],
        failure: Failure,
        job: RoundJob,
        report: RoundReport,
    ) -> Isolation | None:
        """Run images at which the runner failed again, in parts; None if the device is lost."""
        isolation = None
        if failure.trouble is not Trouble.DEVICE_LOST:
            kind_of_failure(failure)
            hangs = failure.trouble is Trouble.HANG
            if hangs and self._settled(batch, failure, job):
                self._failure(batch, images[0], int(numbers[0]), failure, job, report)
                return Isolation.of_nothing(images, failure)
            limit = _HANGING_RUNS if hangs else _FAILED_RUNS
            isolation = isolate(self._runner, code.compiled, images, entry=batch.entry, limit=limit)
        last = failure if isolation is None else isolation.last or failure
        if isolation is None or last.trouble is Trouble.DEVICE_LOST:
            index = 0 if isolation is None else int(np.argmin(isolation.ran))
            report.lost = f"{last} {last.detail.strip()}".strip()
            self._failure(batch, images[index], int(numbers[index]), last, job, report)
            return None
        kind_of_failure(last)
        for culprit in isolation.culprits:
            index = culprit.index
            self._failure(batch, images[index], int(numbers[index]), culprit.failure, job, report)
        if not isolation.culprits:
            # It failed in company, and no image does alone: one may in that of its own copies.
            tried = range(0 if self._settled(batch, last, job) else min(len(images), _TRIED_COPIES))
            index = next(
                (index for index in tried if self._fails_in_copies(batch, code, images[index])),
                int(np.argmin(isolation.ran)),
            )
            self._failure(batch, images[index], int(numbers[index]), last, job, report)
        return isolation

    def _settled(self, batch: Batch, failure: Failure, job: RoundJob) -> bool:
        family = family_of_failure(kind_of_failure(failure), batch.form, failure)
        return family.key in job.settled

    def _fails_in_copies(self, batch: Batch, code: _Code, image: NDArray[np.uint8]) -> bool:
        """Whether a block whose warps all have this image fails: memory that they share ends."""
        warps = code.compiled.module.kernel(batch.entry).warps_per_block
        copies = np.repeat(image[None], warps, axis=0)
        return isinstance(self._runner.run(code.compiled, copies, entry=batch.entry), Failure)

    def _failure(
        self,
        batch: Batch,
        image: NDArray[np.uint8],
        index: int,
        failure: Failure,
        job: RoundJob,
        report: RoundReport,
    ) -> None:
        """Report an image at which the runner failed."""
        lost = failure.trouble is Trouble.DEVICE_LOST
        kind = Kind.DEVICE_LOST if lost else kind_of_failure(failure)
        family = family_of_failure(kind, batch.form, failure)
        attempt = Attempt(kind=kind, failure=failure, failed=1)
        self._suspect(batch, image, index, family, attempt, 1, job, report)

    def _differing(
        self,
        batch: Batch,
        code: _Code,
        outcome: _Outcome,
        wrong: NDArray[np.intp],
        numbers: NDArray[np.intp],
        job: RoundJob,
        report: RoundReport,
    ) -> None:
        """Report images that came out wrong, by family."""
        judged = wrong[:_JUDGED]
        target = code.compiled.architecture
        images, actual = outcome.images, outcome.actual
        expectations = execute(batch.program, images[judged], target=target).images
        verdicts = judge(
            batch.program, images[judged], actual[judged], target=target, expected=expectations
        )
        some = wrong[:MOST_SEEN]
        seen = Seen(program=batch.program, images=images[some], actual=actual[some], target=target)
        bench = Bench(self._runner, self._module(batch, "kernel"))
        culprits = in_place_culprits(bench, batch.program, images[judged])
        places: dict[tuple[Verdict, str], list[int]] = {}
        for place, (verdict, culprit) in enumerate(zip(verdicts, culprits, strict=True)):
            key = "" if culprit is None else culprit.key
            places.setdefault((verdict, key), []).append(place)
        rest = len(wrong) - len(judged)
        groups: list[_Group] = []
        for (verdict, _), chosen in sorted(places.items(), key=lambda item: -item[0][0]):
            # What was not judged counts with the first.
            count = len(chosen) + rest * (chosen[0] == 0)
            kind, culprit = verdict.kind, culprits[chosen[0]]
            report.counts["verdicts", kind.value] += count
            index = int(judged[chosen[0]])
            found = differences(batch.program, expectations[chosen[0]], actual[index])
            family = (
                family_of_difference(kind, batch.form, found, seen)
                if culprit is None
                else family_of_culprit(kind, culprit, found)
            )
            groups.append(_Group(kind=kind, family=family, chosen=chosen, count=count))
        new = [group for group in groups if group.family.key not in job.settled]
        for group in self._by_themselves(batch, images[judged], groups, new) if new else groups:
            place = group.chosen[0]
            index = int(judged[place])
            seen_once = Attempt(
                kind=group.kind,
                actual=actual[index][None].copy(),
                expected=expectations[place].copy(),
                sms=(int(outcome.sms[index]),),
                failed=1,
                compiled=self._alone(batch, code) if group in new else None,
            )
            self._suspect(
                batch, images[index], int(numbers[index]), group.family, seen_once, group.count,
                job, report,
            )  # fmt: skip

    def _by_themselves(
        self, batch: Batch, images: Images, groups: list[_Group], new: list[_Group]
    ) -> list[_Group]:
        """Return groups of wrong images, new ones with an image first that is wrong by itself.

        A store that goes astray may hit the image of another warp, which is right by itself. So
        groups in which none is wrong by itself count with one in which some is, if there is one.
        """
        module = self._module(batch, "kernel")

        @cache
        def first(number: int) -> int | None:
            for place in groups[number].chosen[:_TRIED_ALONE]:
                subject = Subject(module=module, program=batch.program, image=images[place])
                if attempt(self._runner, subject).failed:
                    return place
            return None

        hit = 0
        kept = []
        for number, group in enumerate(groups):
            if group in new:
                place = first(number)
                if place is None and any(first(other) is not None for other in range(len(groups))):
                    hit += group.count
                    continue
                group.chosen = [group.chosen[0] if place is None else place]
            kept.append(group)
        for group in kept[:1]:
            group.count += hit
        return kept

    def _alone(self, batch: Batch, code: _Code) -> Compiled | None:
        """Return the code of a program in a module of its own."""
        module = self._module(batch, "kernel")
        if not code.rewritten:
            return replace(code.compiled, module=module, code=b"")
        compiled = self._runner.compile(module)
        return None if isinstance(compiled, Failure) else replace(compiled, code=b"")

    def _suspect(
        self,
        batch: Batch,
        image: NDArray[np.uint8],
        index: int,
        family: Family,
        attempt: Attempt,
        count: int,
        job: RoundJob,
        report: RoundReport,
    ) -> None:
        """Add cases of a family to the report, the first of the round with all that it takes."""
        self._odd.add(batch.entry)
        there = report.suspects.get(family.key)
        if there is not None:
            there.cases += count
            return
        kind = attempt.kind or Kind.FLAKY
        stored = None
        if family.key not in job.settled:
            subject = Subject(
                module=self._module(batch, "kernel"), program=batch.program, image=image.copy()
            )
            evidence = Evidence(kind=kind, family=family, subject=subject, attempts=[attempt])
            origin = Origin(seed=self._seed, round=job.number, image=index)
            case = case_of(evidence, self._ready, origin=origin, status=ShrinkStatus.RAW)
            stored = Stored(case=case, files=files_of(evidence))
        report.suspects[family.key] = Suspect(family=family, kind=kind, cases=count, stored=stored)


def different(expected: Images, actual: Images) -> NDArray[np.intp]:
    """Return the numbers of the images that differ.

    Whole batches are compared in words first, at the speed of memory: nearly all of them agree.
    """
    if _words_agree(expected, actual):
        return np.zeros(0, np.intp)
    return np.flatnonzero((expected != actual).any(axis=1))


def _words_agree(one: Images, other: Images) -> bool:
    flat, also = (np.ascontiguousarray(images).reshape(-1) for images in (one, other))
    whole = len(flat) // 8 * 8
    return np.array_equal(flat[:whole].view(np.uint64), also[:whole].view(np.uint64)) and (
        np.array_equal(flat[whole:], also[whole:])
    )
