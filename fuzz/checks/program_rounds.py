"""A round of programs: draw, compile, fill, run, compute, and compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fuzz.campaign.heartbeat import BeatingRunner
from fuzz.checks.program_reports import Code, Outcome, Reporter
from fuzz.checks.protocol import Pulse, RoundJob, RoundReport, Stage
from fuzz.diagnosis.experiments import Remembered
from fuzz.runner import OpenRunner, kind_of_failure
from oracle.errors import DeviceLostError
from oracle.execution import CHUNK_IMAGES, execute
from oracle.forms import Form
from oracle.permission import contradicting
from oracle.program import Program
from oracle.targets import Module
from runners.emission import emit_all
from runners.isolation import Isolation, isolate
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Images, Ran, Trouble
from strategies.contents import expand_by_class
from strategies.draws import Selection, simplest
from strategies.features import Focus
from strategies.program_coverage import Batch, ProgramCoverage
from strategies.program_draws import Versions, round_batches, round_key, selected_forms, up_to
from strategies.programs import programs


@lru_cache(maxsize=256)
def smallest_program(form: Form, *, target: str, version: str) -> Program:
    """Return the program towards which those of a form shrink."""
    strategy = programs(Focus(form=form), module=Module.named(target, version), forms=(form,))
    return simplest(strategy)


_BYTES_AT_ONCE = 64 << 20
"""Most bytes of images that are filled, run and compared together: a worker holds them twice."""
_BYTES_COMPARED_AT_ONCE = 4 << 20
"""Most bytes of images that the oracle is asked for together: they are compared while they are in
the cache."""
_TRIED_COPIES = 32
"""Images that are run in company of their copies, until a run fails."""
_FAILED_RUNS = 12
"""Failed runs after which the search for the images of a failure ends: one culprit among 4096
takes 13, and a runner may need seconds to recover from each."""
_COSTLY = Trouble.STICKY_ERROR
"""For this and worse a runner has to start anew, in a second or two on a GPU: once its images were
looked for in one program of a round, other programs that fail so are counted, and not taken
apart."""
_HANGING_RUNS = 1
"""The same of a program that hangs: each costs a deadline, and one image is shown."""


_Together = tuple[KernelModule, Compiled | Failure]
"""A module of several programs, and what became of it."""


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
    versions
        What rounds draw the PTX ISA version from.
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
        versions: Versions,
        seed: int,
        selection: Selection,
        smallest: bool,
        pulse: Pulse,
    ) -> None:
        self._ready, self._seed, self._smallest, self._heart = ready, seed, smallest, pulse
        self._versions = versions
        self._remembered = Remembered()
        self._runner = BeatingRunner(ready.runner, pulse)
        self.verified: list[Batch] = []
        """Programs of the last report of which every image that was run came out as it must."""
        self._forms = selected_forms(
            selection,
            target=ready.target,
            version=versions.newest,
        )

    def report(self, job: RoundJob) -> RoundReport:
        """Carry out a round, up to its limit or until the coordinator wants an end.

        Raises
        ------
        InfrastructureError
            If the runner lacks something.
        """
        report = RoundReport(number=job.number, skip=job.skip, coverage=ProgramCoverage())
        self.verified = []
        self._told = Reporter(
            self._ready, self._runner, seed=self._seed, job=job, report=report,
            remembered=self._remembered,
        )  # fmt: skip
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
        target = self._ready.target
        drawn = round_batches(
            self._forms,
            target=target,
            version=self._versions,
            key=round_key(self._seed, job.number),
            focuses=job.drawn.work.focuses,
            count=job.drawn.work.count,
            line_bytes=self._ready.choice.line_bytes,
            shares_registers=(self._ready.choice.shares_registers,),
        )
        if self._smallest:
            drawn = (
                replace(
                    batch,
                    program=smallest_program(batch.form, target=target, version=batch.version),
                )
                for batch in drawn
            )
        last = None if job.limit is None else job.skip + job.limit
        batches = up_to(last, drawn, lambda batch: batch.count)
        if not batches:
            return True
        built = self._built(batches)
        left_out = any(batch.entry not in built for batch in batches)
        if left_out or any(isinstance(together, Failure) for _, together in built.values()):
            # One that does not compile by itself is one case, so the others may have their turn.
            batches.extend(drawn)
        place = 0
        """Cases of the round before the program at hand."""
        for batch in batches:
            if job.limit is not None and report.cases >= job.limit:
                return False
            code = self._code(batch, built.get(batch.entry))
            count = 1 if isinstance(code, Failure) else batch.count
            if job.skip + report.cases < place + count:
                if job.skip <= place:
                    coverage.add(batch)
                    report.counts["programs", "compiled"] += not isinstance(code, Failure)
                done = report.compared
                self._work_on(batch, code, place, job, report)
                if report.compared > done and batch.entry not in self._told.odd:
                    self.verified.append(batch)
                if job.skip + report.cases < place + count:
                    return False
            place += count
        return True

    def _built(self, batches: Sequence[Batch]) -> Mapping[str, _Together]:
        """Compile programs, those of a PTX ISA version in one module; return each by its entry.

        What a front end cannot say is left out: it would cost the others their module.
        """
        programs: dict[str, dict[str, Program]] = {}
        for batch in batches:
            if self._ready.choice.says(batch.program):
                programs.setdefault(batch.version, {})[batch.entry] = batch.program
        modules = [
            emit_all(some, module=Module.named(self._ready.target, version))
            for version, some in programs.items()
        ]
        self._heart.enter(Stage.COMPILE)
        built: dict[str, _Together] = {}
        for module in modules:
            together = self._runner.compile(module)
            if isinstance(together, Failure) and together.trouble is not Trouble.UNSUPPORTED:
                kind_of_failure(together)
            built.update((kernel.entry, (module, together)) for kernel in module.kernels)
        return built

    def _code(self, batch: Batch, built: _Together | None) -> Code | Failure:
        module, together = built or (None, None)
        if module is not None and isinstance(together, Compiled):
            return Code(compiled=together, rewritten=together.module.ptx != module.ptx)
        # Its neighbours in the module may be to blame; by itself it may compile.
        alone = self._told.module(batch, batch.entry)
        self._heart.enter(Stage.COMPILE)
        compiled = self._runner.compile(alone)
        if isinstance(compiled, Failure):
            return compiled
        return Code(compiled=compiled, rewritten=compiled.module.ptx != alone.ptx)

    def _work_on(
        self, batch: Batch, code: Code | Failure, place: int, job: RoundJob, report: RoundReport
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
        report.failed += 1
        report.said = failure.line
        self._told.failure(batch, image[0], 0, failure)

    def _unsupported(self, failure: Failure, images: int, report: RoundReport) -> None:
        """Count a program that the front end cannot say, or whose PTX the device does not run."""
        report.counts["programs", "unsupported"] += 1
        report.unasked += images
        report.said = failure.line

    def _run(
        self,
        batch: Batch,
        code: Code,
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
            failed = len(isolation.culprits)
            wrong = self._wrong(batch, compiled, images, lambda: isolation)
            wrong = wrong[isolation.ran[wrong]]
        else:
            actual, sms, judged, failed = ran.images, ran.sms, count, 0
        self._told.outcomes(batch, images, actual if judged == count else None, numbers)
        report.cases += count
        report.compared += judged
        report.failed += failed
        report.unasked += count - judged - failed
        heart.count(judged)
        if len(wrong):
            outcome = Outcome(images=images, actual=actual, sms=sms)
            self._told.differing(batch, code, outcome, wrong, numbers)

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
            target = compiled.oracle_target
            expected = execute(batch.program, images[part], target=target).images
            self._heart.enter(Stage.RUN)
            ran = collect()
            if isinstance(ran, Failure):
                break
            self._heart.enter(Stage.COMPARE)
            wrong = contradicting(
                batch.program, images[part], ran.images[part], target=target, expected=expected
            )
            found.append(start + wrong)
        return np.concatenate(found) if found else np.zeros(0, np.intp)

    def _isolated(
        self,
        batch: Batch,
        code: Code,
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
            if failure.trouble >= _COSTLY and self._told.settled(batch, failure):
                self._told.failure(batch, images[0], int(numbers[0]), failure)
                return Isolation.of_nothing(images, failure)
            limit = _HANGING_RUNS if hangs else _FAILED_RUNS
            isolation = isolate(self._runner, code.compiled, images, entry=batch.entry, limit=limit)
        last = failure if isolation is None else isolation.last or failure
        if isolation is None or last.trouble is Trouble.DEVICE_LOST:
            index = 0 if isolation is None else int(np.argmin(isolation.ran))
            report.lost = f"{last} {last.detail.strip()}".strip()
            self._told.failure(batch, images[index], int(numbers[index]), last)
            return None
        kind_of_failure(last)
        for culprit in isolation.culprits:
            index = culprit.index
            self._told.failure(batch, images[index], int(numbers[index]), culprit.failure)
        if not isolation.culprits:
            # It failed in company, and no image does alone: one may in that of its own copies.
            tried = range(0 if self._told.settled(batch, last) else min(len(images), _TRIED_COPIES))
            index = next(
                (index for index in tried if self._fails_in_copies(batch, code, images[index])),
                int(np.argmin(isolation.ran)),
            )
            self._told.failure(batch, images[index], int(numbers[index]), last)
        return isolation

    def _fails_in_copies(self, batch: Batch, code: Code, image: NDArray[np.uint8]) -> bool:
        """Whether a block whose warps all have this image fails: memory that they share ends."""
        warps = code.compiled.module.kernel(batch.entry).warps_per_block
        copies = np.repeat(image[None], warps, axis=0)
        return isinstance(self._runner.run(code.compiled, copies, entry=batch.entry), Failure)
