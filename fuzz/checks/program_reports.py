"""What a round of programs reports: suspects by family, and what two devices disagree about."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from corpus import Family, Kind, Origin, ShrinkStatus
from fuzz.checks.protocol import Outcomes, RoundJob, RoundReport, Stored, Suspect
from fuzz.diagnosis.experiments import Bench, Culprit, Remembered
from fuzz.diagnosis.shared_registers import shared_register_culprits
from fuzz.findings.case import Evidence, case_of, files_of
from fuzz.findings.families import (
    MOST_SEEN,
    Seen,
    family_of_culprit,
    family_of_difference,
    family_of_disagreement,
    family_of_failure,
)
from fuzz.findings.replay import Attempt, Subject, attempt
from fuzz.findings.verdicts import Verdict, differences, judge
from fuzz.runner import OpenRunner, kind_of_failure
from oracle.execution import execute
from oracle.permission import contradicting
from oracle.places import Buffer
from oracle.program import Program
from oracle.steps import Barrier
from oracle.targets import Module
from runners.emission import emit
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, ForwardingRunner, Images, Runner, Trouble
from strategies.program_coverage import Batch

_JUDGED = 32
"""Differing images of one batch whose bounds are computed; the rest counts with the first."""
_TRIED_ALONE = 4
"""Images that came out wrong in one way and are run by themselves, until one is wrong again."""


def nothing_compiles(runner: Runner, module: Module) -> bool:
    """Whether the least of programs is not compiled: what is wrong is about no instruction."""
    word = Buffer(name="word", space="global", size=4)
    least = Program(buffers=(word,), steps=(Barrier(),))
    return isinstance(runner.compile(emit(least, module=module)), Failure)


@dataclass(frozen=True, kw_only=True)
class Code:
    """A program that can be run."""

    compiled: Compiled
    rewritten: bool
    """Whether its PTX is not what was emitted."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """Images of one batch, each array of shape (count, image_bytes)."""

    images: Images
    """Before the program."""
    actual: Images
    sms: NDArray[np.uint32]
    """(count,): multiprocessor that ran each."""


class _Compiled(ForwardingRunner):
    """A runner for one module: it is compiled once, however often that is asked for."""

    def __init__(self, runner: Runner, module: KernelModule) -> None:
        super().__init__(runner)
        self.module = module
        self._code: Compiled | Failure | None = None

    def compile(self, module: KernelModule) -> Compiled | Failure:
        """Return the module's code."""
        assert module is self.module
        if self._code is None:
            self._code = self._runner.compile(module)
        return self._code


@dataclass(kw_only=True, eq=False)
class _Group:
    """Images of one batch that came out wrong in one way."""

    kind: Kind
    family: Family
    chosen: list[int]
    """Their places among those that were judged."""
    count: int


class Reporter:
    """Says in the report of a round what came out wrong, by family.

    Parameters
    ----------
    ready
        The runner.
    runner
        The same, with signs of life.
    seed
        Of the campaign.
    job
        The round.
    report
        Of the round; its cases are those before the images that are told of.
    remembered
        What experiments of the rounds before have shown.
    """

    def __init__(
        self,
        ready: OpenRunner,
        runner: Runner,
        *,
        seed: int,
        job: RoundJob,
        report: RoundReport,
        remembered: Remembered,
    ) -> None:
        self._remembered = remembered
        self._ready, self._runner, self._seed = ready, runner, seed
        self._job, self._report = job, report
        self.odd: set[str] = set()
        """Entries of programs that came out wrong."""

    @cached_property
    def _nothing_compiles(self) -> bool:
        module = Module.named(self._ready.target, self._ready.ptx_version)
        return nothing_compiles(self._runner, module)

    def module(self, batch: Batch, entry: str = "kernel") -> KernelModule:
        """Return the module of one program."""
        module = Module.named(self._ready.target, batch.version)
        return emit(batch.program, module=module, entry=entry)

    def settled(self, batch: Batch, failure: Failure) -> bool:
        """Whether nobody needs another case of what a failure is named."""
        return self._told(family_of_failure(kind_of_failure(failure), batch.form, failure))

    def _told(self, family: Family) -> bool:
        """Whether cases of a family are only counted: it is settled, or there is one already."""
        return family.key in self._job.settled or family.key in self._report.suspects

    def failure(
        self,
        batch: Batch,
        image: NDArray[np.uint8],
        index: int,
        failure: Failure,
    ) -> None:
        """Report an image at which the runner failed."""
        lost = failure.trouble is Trouble.DEVICE_LOST
        kind = Kind.DEVICE_LOST if lost else kind_of_failure(failure)
        alone = kind is Kind.COMPILE_FAILURE and self._nothing_compiles
        family = family_of_failure(kind, None if alone else batch.form, failure)
        attempt = Attempt(kind=kind, failure=failure, failed=1)
        self._suspect(batch, image, index, family, attempt, 1)

    def differing(
        self,
        batch: Batch,
        code: Code,
        outcome: Outcome,
        wrong: NDArray[np.intp],
        numbers: NDArray[np.intp],
    ) -> None:
        """Report images that came out wrong, by family."""
        judged = wrong[:_JUDGED]
        target = code.compiled.oracle_target
        images, actual = outcome.images, outcome.actual
        expectations = execute(batch.program, images[judged], target=target).images
        verdicts = judge(
            batch.program, images[judged], actual[judged], target=target, expected=expectations
        )
        some = wrong[:MOST_SEEN]
        seen = Seen(program=batch.program, images=images[some], actual=actual[some], target=target)
        module = _Compiled(self._runner, self.module(batch))
        looks = self._looks(batch, seen, verdicts, expectations, actual[judged])

        def again() -> NDArray[np.bool_] | None:
            ran = self._runner.run(code.compiled, images[judged], entry=batch.entry)
            if isinstance(ran, Failure):
                return None
            bad = np.zeros(len(judged), bool)
            bad[
                contradicting(
                    batch.program, images[judged], ran.images, target=target, expected=expectations
                )
            ] = True
            return bad

        culprits: Sequence[Culprit | None] = [None] * len(judged)
        # What is counted with others like it anyway needs no experiments, each of which compiles.
        if any(family.key not in self._job.settled for family in looks.values()):
            bench = Bench(self._runner, module.module, remembered=self._remembered)
            culprits = shared_register_culprits(bench, batch.program, images[judged], again)
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
            self._report.counts["verdicts", kind.value] += count
            index = int(judged[chosen[0]])
            family = looks[verdict]
            if culprit is not None:
                found = differences(batch.program, expectations[chosen[0]], actual[index])
                family = family_of_culprit(kind, culprit, found)
            groups.append(_Group(kind=kind, family=family, chosen=chosen, count=count))
        new = [group for group in groups if not self._told(group.family)]
        if new:
            groups = self._by_themselves(batch, images[judged], groups, new, module)
        for group in groups:
            place = group.chosen[0]
            index = int(judged[place])
            seen_once = Attempt(
                kind=group.kind,
                actual=actual[index][None].copy(),
                expected=expectations[place].copy(),
                sms=(int(outcome.sms[index]),),
                failed=1,
                compiled=self._alone(code, module) if group in new else None,
            )
            self._suspect(
                batch, images[index], int(numbers[index]), group.family, seen_once, group.count,
            )  # fmt: skip

    def _looks(
        self,
        batch: Batch,
        seen: Seen,
        verdicts: Sequence[Verdict],
        expected: Images,
        actual: Images,
    ) -> Mapping[Verdict, Family]:
        """Return by verdict what wrong images are named after what they look like."""
        first: dict[Verdict, int] = {}
        for place, verdict in enumerate(verdicts):
            first.setdefault(verdict, place)
        return {
            verdict: family_of_difference(
                verdict.kind,
                batch.form,
                differences(batch.program, expected[place], actual[place]),
                seen,
            )
            for verdict, place in first.items()
        }

    def _by_themselves(
        self,
        batch: Batch,
        images: Images,
        groups: list[_Group],
        new: list[_Group],
        compiled: _Compiled,
    ) -> list[_Group]:
        """Return groups of wrong images, new ones with an image first that is wrong by itself.

        A store that goes astray may hit the image of another warp, which is right by itself. So
        groups in which none is wrong by itself count with one in which some is, if there is one.
        """

        @cache
        def first(number: int) -> int | None:
            for place in groups[number].chosen[:_TRIED_ALONE]:
                subject = Subject(
                    module=compiled.module, program=batch.program, image=images[place]
                )
                if attempt(compiled, subject).failed:
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

    def _alone(self, code: Code, own: _Compiled) -> Compiled | None:
        """Return the code of a program in a module of its own."""
        if not code.rewritten:
            return replace(code.compiled, module=own.module, code=b"")
        compiled = own.compile(own.module)
        return None if isinstance(compiled, Failure) else replace(compiled, code=b"")

    def _suspect(
        self,
        batch: Batch,
        image: NDArray[np.uint8],
        index: int,
        family: Family,
        attempt: Attempt,
        count: int,
    ) -> None:
        """Add cases of a family to the report, the first of the round with all that it takes."""
        self.odd.add(batch.entry)
        there = self._report.suspects.get(family.key)
        if there is not None:
            there.cases += count
            return
        kind = attempt.kind or Kind.FLAKY
        stored = None
        if family.key not in self._job.settled:
            subject = Subject(module=self.module(batch), program=batch.program, image=image.copy())
            evidence = Evidence(kind=kind, family=family, subject=subject, attempts=[attempt])
            origin = Origin(seed=self._seed, round=self._job.number, image=index)
            case = case_of(evidence, self._ready, origin=origin, status=ShrinkStatus.RAW)
            stored = Stored(case=case, files=files_of(evidence))
        self._report.suspects[family.key] = Suspect(
            family=family, kind=kind, cases=count, stored=stored
        )

    def outcomes(
        self, batch: Batch, images: Images, actual: Images | None, numbers: NDArray[np.intp]
    ) -> None:
        """Add sums of images to the report, and compare them with another device's.

        Parameters
        ----------
        batch
            The program.
        images, actual
            Before and after it; None where some did not run: then the round has no outcomes.
        numbers
            Of the images.
        """
        if not (self._job.summed or self._job.against is not None):
            return
        job, report, ready = self._job, self._report, self._ready
        place, before = job.skip + report.cases, report.outcomes
        if actual is None or (before.sums.size if before is not None else 0) != place:
            report.outcomes = None
            return
        sums = np.fromiter((zlib.crc32(image) for image in actual), np.uint32, len(actual))
        whole = sums if before is None else np.concatenate((before.sums, sums))
        name = f"{ready.uuid} ({job.device})" if ready.uuid else job.device
        report.outcomes = Outcomes(device=name, sums=whole)
        if job.against is None or report.disagreement is not None:
            return
        other = job.against.sums[place : place + len(sums)]
        differ = np.flatnonzero(sums[: len(other)] != other)
        if len(differ):
            index = int(differ[0])
            subject = Subject(
                module=self.module(batch),
                program=batch.program,
                image=images[index].copy(),
            )
            origin = Origin(seed=self._seed, round=job.number, image=int(numbers[index]))
            devices = job.against.device, name
            report.disagreement = _disagreement(
                ready, batch, subject, actual[index].copy(), origin, devices, len(differ)
            )


def _disagreement(
    ready: OpenRunner,
    batch: Batch,
    subject: Subject,
    actual: NDArray[np.uint8],
    origin: Origin,
    devices: tuple[str, str],
    count: int,
) -> Suspect:
    """Return what two devices disagree about, with what came out on the second."""
    other, name = devices
    family = family_of_disagreement(other, name, batch.form)
    expected = execute(subject.program, subject.images, target=ready.target).images[0]
    agrees = "agrees" if np.array_equal(actual, expected) else "does not agree"
    attempt = Attempt(kind=Kind.FLAKY, actual=actual[None], expected=expected, failed=1)
    evidence = Evidence(kind=Kind.FLAKY, family=family, subject=subject, attempts=[attempt])
    case = case_of(evidence, ready, origin=origin, status=ShrinkStatus.RAW)
    said = f"{name} {agrees} with the oracle; {other} gave something else"
    case = msgspec.structs.replace(case, details={**case.details, "devices": said})
    stored = Stored(case=case, files=files_of(evidence))
    return Suspect(family=family, kind=Kind.FLAKY, cases=count, stored=stored, replayed=True)
