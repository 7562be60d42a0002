"""A round of programs, for any builds: draw, compile, fill, run, compute, compare.

`Rounds` is the loop, whoever compiles; what depends on that are the methods at its end. That an
image is wrong is decided by `oracle.bounds.permission.contradicting` alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from corpus import Origin
from fuzz.checks.protocol import Heartbeat, RoundJob, RoundReport, Stage, Stored, add_suspect
from fuzz.compilers.members import Built, BuiltVariant, Member, failed_in
from fuzz.findings.families import Bucket
from fuzz.findings.verdicts import Attempt, Subject, attempt
from oracle.bounds.permission import contradicting
from oracle.errors import DeviceLostError, UndefinedProgramError, UsageError
from oracle.execution.execution import CHUNK_IMAGES, execute, expansions
from oracle.isa.forms import Form
from oracle.isa.targets import Module
from oracle.program.program import Program
from runners.emission import emit, emit_all
from runners.isolation import Isolation
from runners.kernels import KernelModule
from runners.protocol import Failure, Images, Ran, Runner
from runners.toolchains import Toolchain
from strategies.draws import PtxVersions
from strategies.features import Focus
from strategies.rounds import Batch, ProgramCoverage, round_batches, round_key, up_to

_BYTES_COMPARED_AT_ONCE = 4 << 20
"""Of images that the oracle is asked for together, and the cache holds."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a round is about."""

    focuses: tuple[Focus, ...] | None = None
    """What each program should be about; None: what the key of the round chooses."""
    count: int  # images of each program


class Rounds(ABC):
    """Carries out rounds."""

    def __init__(
        self,
        *,
        target: str,
        forms: Sequence[Form],
        versions: PtxVersions,
        seed: int,
        heartbeat: Heartbeat,
        toolchains: Iterable[Toolchain],
        parts: int = 1,
    ) -> None:
        self._target, self._forms, self._versions = target, tuple(forms), versions
        self._seed, self._heartbeat, self._parts = seed, heartbeat, parts
        self._toolchains = tuple(toolchains)
        self._line_bytes = max((one.line_bytes for one in self._toolchains), default=1)
        # Other members than front ends are asked about shared registers in every second program.
        named = {one.writes_ptx for one in self._toolchains}
        every = None if False in named else False
        self._shares_registers = (every, False) if True in named else (None,)

    def report(self, job: RoundJob) -> RoundReport:
        """Carry out a round, up to its limit or until the coordinator wants an end.

        Raises WarpfuzzError if the device cannot run what compilers write, or lacks something.
        """
        report = RoundReport(number=job.number, skip=job.skip, coverage=ProgramCoverage())
        self._job, self._report = job, report
        try:
            report.complete = self._carry_out()
        except DeviceLostError as error:
            report.lost = str(error)
        except UndefinedProgramError as error:
            raise RuntimeError(f"a program was drawn that has no expectation: {error}") from error
        finally:
            self._heartbeat.enter(Stage.WAIT)
        return report

    def _carry_out(self) -> bool:
        """Tell whether all of the round was done."""
        job, report = self._job, self._report
        self._heartbeat.enter(Stage.DRAW, round=job.plan.round)
        drawn = self._drawn(job)
        last = None if job.limit is None else job.skip + job.limit
        batches = up_to(last, drawn, self._cases)
        built = self._built((one.entry, one.module, one.program) for one in batches)
        if any(one.entry not in built or self._cases(one, built[one.entry]) < self._cases(one)
               for one in batches):  # fmt: skip
            # Some have fewer cases than was thought: others have their turn.
            batches.extend(drawn)
        self._begin(batches, built)
        place = 0  # cases of the round before the program at hand
        for batch in batches:
            if self._heartbeat.interrupted or (job.limit is not None and report.cases >= job.limit):
                return False
            own = self._own(batch, built.get(batch.entry))
            end = place + self._cases(batch, own)
            if job.skip + report.cases < end:
                self._work_on(batch, own, place, end)
                if job.skip + report.cases < end:
                    return False
            place = end
        self._ended(built)
        return True

    def _drawn(self, job: RoundJob) -> Iterator[Batch]:
        try:
            for part in range(self._parts):
                for batch in round_batches(
                    self._forms,
                    target=self._target,
                    version=self._versions,
                    key=round_key(self._seed, job.plan.round * self._parts + part),
                    focuses=job.plan.work.focuses,
                    count=job.plan.work.count,
                    line_bytes=self._line_bytes,
                    shares_registers=self._shares_registers,
                ):
                    yield self._as_compiled(batch, part)
        except UsageError as error:
            # Strategies may not draw it: nobody asked for anything wrong. The worker dies, as of
            # any other fault of warpfuzz, and the campaign goes on without this round, and says so.
            raise RuntimeError(f"a program could not be drawn: {error}") from error

    def _built(self, programs: Iterable[tuple[str, Module, Program]]) -> Mapping[str, Built]:
        """Compile programs, each with entry and header; those of a header in one module."""
        modules: dict[Module, dict[str, Program]] = {}
        for entry, module, program in programs:
            if all(one.says(program) for one in self._toolchains if one.writes_ptx):
                modules.setdefault(module, {})[entry] = program
        emitted = [emit_all(some, module=of) for of, some in modules.items()]
        self._heartbeat.enter(Stage.COMPILE)
        return {one.entry: made for made in self._build(emitted) for one in made.module.kernels}

    def _emitted(self, batch: Batch, entry: str = "kernel") -> KernelModule:
        return emit(batch.program, module=batch.module, entry=entry)

    def _by_itself(
        self, runner: Runner, batch: Batch, subject: Subject, built: Built | None
    ) -> tuple[Subject, Attempt]:
        """Run a program by itself and, where it is right so, beside those of its module."""
        alone = attempt(runner, subject)
        programs = {} if built is None else built.module.programs
        if alone.kind is None and len(programs) > 1:
            # It has the name that it has by itself, and is the only kernel that is launched.
            named = {"kernel" if name == batch.entry else name: programs[name] for name in programs}
            module = emit_all(named, module=batch.module)
            there = subject.in_module(replace(module, kernels=(module.kernel("kernel"),)))
            tried = attempt(runner, there)
            if tried.failure is None and tried.kind is not None:
                return there, tried
        return subject, alone

    def _own(self, batch: Batch, built: Built | None) -> Built:
        """Return a program as each member compiled it: by itself where not in the module."""
        if built is not None and not failed_in(built):
            return built
        made = {} if built is None else built.made
        module = self._emitted(batch, batch.entry)
        self._heartbeat.enter(Stage.COMPILE)
        (again,) = self._build([module], None if built is None else tuple(failed_in(built)))
        return Built(module=module, made={**made, **again.made})

    def _work_on(self, batch: Batch, built: Built, place: int, end: int) -> None:
        """Work on the images of a program until they are done, or there is a reason to stop."""
        job, report = self._job, self._report
        variants = self._variants(built, batch.entry)
        if job.skip <= place:
            assert isinstance(report.coverage, ProgramCoverage)
            report.coverage.add(batch)
            self._count(batch, built, variants)
        size = self._images_at_once(batch)
        while not self._heartbeat.interrupted and not report.lost:
            first = job.skip + report.cases - place
            left = end - place - first
            if job.limit is not None:
                left = min(left, job.limit - report.cases)
            if left <= 0:
                return
            self._compare(batch, built, variants, first, min(size, left))

    def _wrong(
        self,
        batch: Batch,
        target: str,
        images: Images,
        collect: Callable[[], Ran | Isolation | Failure],
        known: dict[tuple[str, ...], list[Images]] | None = None,
    ) -> NDArray[np.intp]:
        """Return the numbers of the images that came out wrong, as far as the device brings any.

        `target` is whose model says what is right; `known` what it expects, by what multiplications
        expand to there, and is added to. None where no other binary is judged by it.
        """
        size = max(1, min(CHUNK_IMAGES, _BYTES_COMPARED_AT_ONCE // batch.program.image_bytes))
        parts = [slice(start, start + size) for start in range(0, len(images), size)]
        every: list[Images] | None = None
        if known is not None:
            every = known.setdefault(expansions(batch.program, target=target), [])
        found = [np.zeros(0, np.intp)]
        for number, part in enumerate(parts):
            self._heartbeat.enter(Stage.ORACLE)  # while the device works
            if every is not None and number < len(every):
                expected = every[number]
            else:
                expected = execute(batch.program, images[part], target=target).images
                if every is not None:
                    every.append(expected)
            self._heartbeat.enter(Stage.RUN)
            ran = collect()
            if isinstance(ran, Failure):
                break
            self._heartbeat.enter(Stage.COMPARE)
            wrong = contradicting(
                batch.program, images[part], ran.images[part], target=target, expected=expected
            )
            found.append(part.start + wrong)
        return np.concatenate(found)

    def _told(self, bucket: Bucket) -> bool:
        """Whether cases of a family are only counted: it is settled, or there is one already."""
        return bucket.key in self._job.settled or bucket.key in self._report.suspects

    def _suspect(self, bucket: Bucket, store: Callable[[], Stored], cases: int = 1) -> None:
        add_suspect(self._report, self._job, bucket, store, cases)

    def _origin(self, image: int | None = None) -> Origin:
        return Origin(seed=self._seed, round=self._job.plan.round, image=image)

    # What depends on who compiles

    @abstractmethod
    def _build(
        self, modules: Sequence[KernelModule], members: Sequence[Member] | None = None
    ) -> Sequence[Built]:
        """Compile modules, by all who read their version or by some members."""

    @abstractmethod
    def _variants(self, built: Built, entry: str) -> Sequence[BuiltVariant]:
        """Return the distinct binaries of a kernel."""

    @abstractmethod
    def _cases(self, batch: Batch, built: Built | None = None) -> int:
        """Return the cases of a program; before it was compiled, the most."""

    def _as_compiled(self, batch: Batch, part: int) -> Batch:
        """Return a program of one of the round's draws as it stands in the module."""
        return batch

    def _images_at_once(self, batch: Batch) -> int:
        return batch.count

    @abstractmethod
    def _count(self, batch: Batch, built: Built, variants: Sequence[BuiltVariant]) -> None:
        """Count a program, and report who did not compile it."""

    @abstractmethod
    def _compare(
        self, batch: Batch, built: Built, variants: Sequence[BuiltVariant], first: int, count: int
    ) -> None:
        """Count some images of a program as cases, and report which came out wrong."""

    def _begin(self, batches: Sequence[Batch], built: Mapping[str, Built]) -> None:  # noqa: B027
        """Have a runner that works by itself begin with all programs of the round."""

    def _ended(self, built: Mapping[str, Built]) -> None:  # noqa: B027
        """Note that all programs of the round were tried."""
