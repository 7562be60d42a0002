"""Rounds of programs on one runner: failures by bucket, and comparison with another device."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from corpus import Kind, ShrinkStatus
from fuzz.checks import protocol
from fuzz.checks.rounds import Rounds
from fuzz.compilers.members import Built, BuiltVariant, Member, failed_in
from fuzz.diagnosis.culprit import shared_register_culprits
from fuzz.diagnosis.experiments import Culprit, ExperimentDevice, Remembered, key_of
from fuzz.findings import families
from fuzz.findings.case import Evidence, case_of, files_of
from fuzz.findings.families import Bucket
from fuzz.findings.verdicts import Attempt, Subject, attempt, judge, other_kernels
from fuzz.runner import BeatingRunner, OpenRunner, kind_of_failure
from oracle.bounds.permission import contradicting
from oracle.execution.execution import CHUNK_IMAGES, execute
from oracle.isa.forms import Form
from oracle.isa.targets import Module
from oracle.program.operands import Buffer
from oracle.program.program import Program
from oracle.program.steps import Barrier
from runners.emission import emit
from runners.faults import by_name
from runners.isolation import FailingImage, Isolation, isolate
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Images, Pending, Ran, Runner, Trouble
from runners.ptx_text import entry_text
from strategies.contents import expand, expand_by_class
from strategies.draws import PtxVersions
from strategies.rounds import Batch

_BYTES_AT_ONCE = 64 << 20
"""Of images that are filled, run and compared together: a worker holds them twice."""
_TRIED_COPIES = 32  # images that are run in company of their copies, until a run fails
_FAILED_RUNS = 12  # failed runs that end a search: one culprit among 4096 images takes 13
_COSTLY = Trouble.STICKY_ERROR
"""From this on a runner starts anew, in a second or two: the next that fails so is counted."""
_HANGING_RUNS = 1  # runs in which images that hang are looked for: each costs a deadline
_JUDGED = 8
"""Differing images of a batch that are looked at: the bounds of 32 took four times as long, a
tenth of a worker's time with a fault in every sixth image (2026-11-23)."""
_TRIED_ALONE = 4  # wrong images that are run by themselves, until one is wrong again


def nothing_compiles(runner: Runner, module: Module) -> bool:
    """Whether the least of programs is not compiled: what is wrong is about no instruction."""
    word = Buffer(name="word", space="global", size=4)
    least = Program(buffers=(word,), steps=(Barrier(),))
    return isinstance(runner.compile(emit(least, module=module)), Failure)


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageLaunch:
    """Images of a program that went to the runner together."""

    batch: Batch
    built: Built
    compiled: Compiled
    round: int
    images: Images = field(default_factory=lambda: np.zeros((0, 0), np.uint8))  # before it
    numbers: NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.intp))
    """The number of each of them among those of the program, (count,)."""


_Begun = tuple[ImageLaunch, Pending]
_Group = tuple[protocol.Found, list[int]]
"""Wrong images of one bucket, and the places of those of them that were judged."""


class ProgramRounds(Rounds):
    """Carries out rounds on one runner, which is the only build of its programs."""

    def __init__(
        self,
        ready: OpenRunner,
        *,
        versions: PtxVersions,
        seed: int,
        forms: Sequence[Form],
        heartbeat: protocol.Heartbeat,
    ) -> None:
        choice = ready.choice
        self._ready = ready
        # Behind a front end faults get text that is not seen here.
        named = () if choice.front_end is not None else choice.faults
        self._faults = [by_name(name) for name in named]
        self._runner = BeatingRunner(ready.runner, heartbeat.beat)
        self._member = Member(toolchain=choice.toolchain, level=choice.toolchain.default_level)
        self._remembered = Remembered()
        self.verified: list[ImageLaunch] = []
        """Programs that the last report ends, of which every image came out as it must."""
        self._odd: set[str] = set()  # entries of those that came out wrong
        self._begun: dict[tuple[str, int, int], _Begun] = {}
        """Images that the runner has, by entry of the program, number of the first, and count."""
        super().__init__(
            target=ready.target,
            forms=forms,
            versions=versions,
            seed=seed,
            heartbeat=heartbeat,
            toolchains=(choice.toolchain,),
        )

    def report(self, job: protocol.RoundJob) -> protocol.RoundReport:
        """Carry out a round, up to its limit or until the coordinator wants an end."""
        self.verified, self._odd, self._begun = [], set(), {}
        return super().report(job)

    def _build(
        self, modules: Sequence[KernelModule], members: Sequence[Member] | None = None
    ) -> Sequence[Built]:
        made = [self._runner.compile(one) for one in modules]
        for one in made:
            if isinstance(one, Failure) and one.trouble is not Trouble.UNSUPPORTED:
                kind_of_failure(one)  # raises where there is no device or no compiler
        return [Built(module=m, made={self._member: c}) for m, c in zip(modules, made, strict=True)]

    def _variants(self, built: Built, entry: str) -> Sequence[BuiltVariant]:
        made = (one for one in built.made.values() if isinstance(one, Compiled))
        return [BuiltVariant(members=(self._member,), compiled=one) for one in made]

    def _cases(self, batch: Batch, built: Built | None = None) -> int:
        # One that does not compile by itself is one case.
        return 1 if built is not None and failed_in(built) else batch.count

    def _images_at_once(self, batch: Batch) -> int:
        # Images of a class are next to each other: what the oracle computes at once is of one.
        size = CHUNK_IMAGES * len(batch.recipe.classes)
        return max(1, min(size, _BYTES_AT_ONCE // batch.program.image_bytes))

    def _count(self, batch: Batch, built: Built, variants: Sequence[BuiltVariant]) -> None:
        self._report.counts["programs", "compiled"] += bool(variants)
        for fault in self._faults if variants else ():
            applies = fault.applies(entry_text(built.module.ptx, batch.entry))
            self._report.counts[protocol.FAULTS, fault.name] += applies

    def _work_on(self, batch: Batch, built: Built, place: int, end: int) -> None:
        done = self._report.compared
        super()._work_on(batch, built, place, end)
        is_whole = self._job.skip + self._report.cases >= end and not self._report.lost
        if self._report.compared > done and is_whole and batch.entry not in self._odd:
            (variant,) = self._variants(built, batch.entry)
            number = self._job.plan.round
            self.verified.append(
                ImageLaunch(batch=batch, built=built, compiled=variant.compiled, round=number)
            )

    def _compare(
        self, batch: Batch, built: Built, variants: Sequence[BuiltVariant], first: int, count: int
    ) -> None:
        for failure in failed_in(built).values():
            self._report.cases += 1
            if failure.trouble is Trouble.UNSUPPORTED:
                self._unsupported(failure, 1)
                continue
            self._report.counts["programs", "failed"] += 1
            self._report.failed += 1
            self._report.said = failure.line
            self._failure(batch, expand(batch.recipe, batch.program, 1)[0], 0, failure)
        for variant in variants:
            self._run(batch, built, variant.compiled, first, count)

    def _unsupported(self, failure: Failure, images: int) -> None:
        self._report.counts["programs", "unsupported"] += 1
        self._report.unasked += images
        self._report.said = failure.line

    def _begin(self, batches: Sequence[Batch], built: Mapping[str, Built]) -> None:
        if self._ready.choice.name != "cuda" or self._job.skip or self._job.limit is not None:
            return
        room = _BYTES_AT_ONCE
        for batch in batches:
            count = min(self._images_at_once(batch), batch.count)
            room -= count * batch.program.image_bytes
            if room < 0:
                return
            if own := built.get(batch.entry):
                for variant in self._variants(own, batch.entry):
                    begun = self._submitted(batch, own, variant.compiled, 0, count)
                    self._begun[batch.entry, 0, count] = begun

    def _submitted(
        self, batch: Batch, built: Built, compiled: Compiled, first: int, count: int
    ) -> _Begun:
        self._heartbeat.enter(protocol.Stage.EXPAND)
        # What the oracle works on together is of one kind: special values slow down their company.
        images = self._runner.lease(count, batch.program.image_bytes)
        numbers = expand_by_class(batch.recipe, batch.program, images, first=first)
        launch = ImageLaunch(
            batch=batch, built=built, compiled=compiled, round=self._job.plan.round,
            images=images, numbers=numbers,
        )  # fmt: skip
        self._heartbeat.enter(protocol.Stage.RUN)
        return launch, self._runner.submit(compiled, images, entry=batch.entry)

    def _run(self, batch: Batch, built: Built, compiled: Compiled, first: int, count: int) -> None:
        report, target = self._report, compiled.oracle_target
        begun = self._begun.pop((batch.entry, first, count), None)
        launch, pending = begun or self._submitted(batch, built, compiled, first, count)
        images, known = launch.images, dict[tuple[str, ...], list[Images]]()
        wrong = self._wrong(batch, target, images, pending.collect, known)
        ran = pending.collect()
        if isinstance(ran, Failure) and ran.trouble is Trouble.UNSUPPORTED:
            report.cases += count
            self._unsupported(ran, count)
            return
        came: Ran | Isolation
        if not isinstance(ran, Failure):
            came, judged, failed = ran, count, 0
        else:
            isolation = self._isolated(launch, ran)
            if isolation is None:
                return
            came, judged, failed = isolation, int(isolation.ran.sum()), len(isolation.culprits)
            if judged:
                wrong = self._wrong(batch, target, images, lambda: isolation, known)
                wrong = wrong[isolation.ran[wrong]]
        self._compare_devices(launch, came.images if judged == count else None)
        report.cases += count
        report.compared += judged
        report.failed += failed
        report.unasked += count - judged - failed
        self._heartbeat.count(judged)
        if len(wrong):
            (expected,) = map(np.concatenate, known.values())
            self._came_out_wrong(launch, came.images, came.sms, wrong, expected)

    def _came_out_wrong(
        self,
        launch: ImageLaunch,
        actual: Images,
        sms: NDArray[np.uint32],
        wrong: NDArray[np.intp],
        expected: Images,
        unseen: int = 0,
    ) -> None:
        """Report images that came out wrong, by bucket.

        `sms`, (count,), are the multiprocessors that ran the images, `expected` what the oracle has
        them after the program; `unseen` is how many more came out wrong, of which nothing is known.
        """
        batch, compiled = launch.batch, launch.compiled
        program, target = batch.program, compiled.oracle_target
        some = wrong[:: -(-len(wrong) // _JUDGED)]
        images, actual, expected = launch.images[some], actual[some], expected[some]
        judgement = judge(program, images, actual, target=target, expected=expected)
        kinds = list(filter(None, judgement))
        name, condition = families.look_of(
            program, images, actual, expected=expected, target=target, form=batch.form
        )
        looks = {kind: Bucket.of(kind, name, condition=condition) for kind in kinds}
        emitted = cache(partial(self._emitted, batch))

        def again() -> NDArray[np.bool_] | None:
            ran = self._runner.run(compiled, images, entry=batch.entry)
            if isinstance(ran, Failure):
                return None
            differ = np.zeros(len(images), bool)
            still = contradicting(program, images, ran.images, target=target, expected=expected)
            differ[still] = True
            return differ

        culprits: Sequence[Culprit | None] = [None] * len(kinds)
        # What is counted with others like it anyway needs no experiments, each of which compiles.
        if any(bucket.key not in self._job.settled for bucket in looks.values()):
            device = ExperimentDevice(self._runner, emitted(), remembered=self._remembered)
            culprits = shared_register_culprits(device, program, images, again)
        places: dict[tuple[Kind, str], list[int]] = {}
        for place, (kind, culprit) in enumerate(zip(kinds, culprits, strict=True)):
            places.setdefault((kind, "" if culprit is None else key_of(culprit)), []).append(place)
        rest = len(wrong) + unseen - len(kinds)
        groups: list[_Group] = []
        for (kind, _), chosen in sorted(places.items(), key=lambda item: -item[0][0].severity):
            # What was not judged counts with the first.
            count = len(chosen) + rest * (chosen[0] == 0)
            culprit = culprits[chosen[0]]
            self._report.counts["verdicts", kind.value] += count
            own = looks[kind] if culprit is None else families.bucket_of_culprit(kind, culprit)
            groups.append((protocol.Found(bucket=own, cases=count), chosen))
        runner = BeatingRunner(self._ready.runner, self._heartbeat.beat, keeps=True)

        @cache
        def subject_of(place: int) -> Subject:
            one = Subject(module=emitted(), program=program, image=images[place])
            # By itself it mostly leaves the same: that was judged.
            one.known[target] = expected[place][None]
            one.known[target, actual[place].tobytes()] = judgement[place]
            return one

        def fails(place: int) -> bool:
            return attempt(runner, subject_of(place)).failed > 0

        new = [not self._told(found.bucket) for found, _ in groups]
        for found, (place, *_) in _by_themselves(groups, new, fails) if any(new) else groups:
            bucket, module, code = found.bucket, None, None
            if not self._told(bucket):
                # A front end writes kernels anew, from their programs.
                there = None if self._ready.choice.front_end is not None else launch.built
                subject, _ = self._by_itself(runner, batch, subject_of(place), there)
                module = subject.module
                if other_kernels(subject):
                    bucket = families.beside_other_kernels(bucket)
            if module is not None and not self._told(bucket):
                # The code is of the emitted text, unless a pass has rewritten it.
                own_text = compiled.module.ptx == launch.built.module.ptx
                made = replace(compiled, module=module) if own_text else runner.compile(module)
                code = None if isinstance(made, Failure) else replace(made, code=b"")
            seen_in = Attempt(
                kind=kinds[place], actual=actual[place][None], expected=expected[place],
                sms=(int(sms[some[place]]),), failed=1, compiled=code,
            )  # fmt: skip
            number = int(launch.numbers[some[place]])
            self._seen(batch, images[place], number, seen_in, bucket, found.cases, module)

    def _isolated(self, launch: ImageLaunch, failure: Failure) -> Isolation | None:
        """Run images at which the runner failed again, in parts; None if the device is lost."""
        batch, compiled, images = launch.batch, launch.compiled, launch.images

        def fails_at(index: int, how: Failure) -> None:
            self._failure(batch, images[index], int(launch.numbers[index]), how)

        def in_copies(index: int) -> Ran | Failure:
            """Run a block whose warps all have this image: memory that they share ends."""
            copies = np.repeat(images[index : index + 1], kernel.warps_per_block, axis=0)
            return self._runner.run(compiled, copies, entry=batch.entry)

        isolation, kernel = None, compiled.module.kernel(batch.entry)
        if failure.trouble is not Trouble.DEVICE_LOST:
            bucket = families.bucket_of_failure(kind_of_failure(failure), batch.form, failure)
            if failure.trouble >= _COSTLY and self._told(bucket):
                fails_at(0, failure)
                return Isolation.of_nothing(images, failure)
            if failure.trouble >= _COSTLY:
                # Most programs that fail so do it whatever their images hold: the first shows it.
                shown = in_copies(0)
                if isinstance(shown, Failure) and shown.trouble is not Trouble.DEVICE_LOST:
                    fails_at(0, shown)
                    first = FailingImage(index=0, failure=shown)
                    return Isolation.of_nothing(images, shown, culprits=(first,))
            limit = _HANGING_RUNS if failure.trouble is Trouble.HANG else _FAILED_RUNS
            isolation = isolate(
                self._runner, compiled, images, entry=batch.entry, limit=limit, failed=failure
            )
        last = failure if isolation is None else isolation.last or failure
        if isolation is None or last.trouble is Trouble.DEVICE_LOST:
            self._report.lost = f"{last} {last.detail.strip()}".strip()
            fails_at(0 if isolation is None else int(np.argmin(isolation.ran)), last)
            return None
        for culprit in isolation.culprits:
            fails_at(culprit.index, culprit.failure)
        if not isolation.culprits:
            # It failed in company, and no image does alone: one may in that of its own copies.
            told = self._told(families.bucket_of_failure(kind_of_failure(last), batch.form, last))
            tried = range(0 if told else min(len(images), _TRIED_COPIES))
            failing = (index for index in tried if isinstance(in_copies(index), Failure))
            fails_at(next(failing, int(np.argmin(isolation.ran))), last)
        return isolation

    # Suspects

    @cached_property
    def _nothing_compiles(self) -> bool:
        module = Module.named(self._target, self._ready.ptx_version)
        return nothing_compiles(self._runner, module)

    def _failure(
        self, batch: Batch, image: NDArray[np.uint8], number: int, failure: Failure
    ) -> None:
        lost = failure.trouble is Trouble.DEVICE_LOST
        kind = Kind.DEVICE_LOST if lost else kind_of_failure(failure)
        alone = kind is Kind.COMPILE_FAILURE and self._nothing_compiles
        bucket = families.bucket_of_failure(kind, None if alone else batch.form, failure)
        seen_in = Attempt(kind=kind, failure=failure, failed=1)
        self._seen(batch, image, number, seen_in, bucket)

    def _seen(
        self, batch: Batch, image: NDArray[np.uint8], number: int, seen_in: Attempt, bucket: Bucket,
        cases: int = 1, module: KernelModule | None = None,
    ) -> None:  # fmt: skip
        """Add cases of a family to the report, the first of the round with all that it takes.

        Without a `module`, the program ran by itself.
        """
        self._odd.add(batch.entry)
        store = partial(self._stored, batch, image, number, seen_in, bucket, module)
        self._suspect(bucket, store, cases)

    def _stored(
        self, batch: Batch, image: NDArray[np.uint8], number: int, seen_in: Attempt, bucket: Bucket,
        module: KernelModule | None = None, **details: str,
    ) -> protocol.Stored:  # fmt: skip
        module = module or self._emitted(batch)
        subject = Subject(module=module, program=batch.program, image=image.copy())
        kind = seen_in.kind or Kind.FLAKY
        evidence = Evidence(kind=kind, bucket=bucket, subject=subject, attempts=[seen_in])
        origin = self._origin(number)
        case = case_of(evidence, self._ready, origin=origin, status=ShrinkStatus.RAW)
        case = msgspec.structs.replace(case, details={**case.details, **details})
        return case, files_of(evidence)

    def _compare_devices(self, launch: ImageLaunch, actual: Images | None) -> None:
        """Add sums of images to the report, and compare them with another device's."""
        job, report, ready = self._job, self._report, self._ready
        if not (job.summed or job.against is not None):
            return
        place, before = job.skip + report.cases, report.outcomes
        if actual is None or (before.sums.size if before is not None else 0) != place:
            report.outcomes = None
            return
        sums = np.fromiter((zlib.crc32(image) for image in actual), np.uint32, len(actual))
        whole = sums if before is None else np.concatenate((before.sums, sums))
        name = f"{ready.uuid} ({job.device})" if ready.uuid else job.device
        report.outcomes = protocol.Outcomes(device=name, sums=whole)
        if job.against is None or report.disagreement is not None:
            return
        other = job.against.sums[place : place + len(sums)]
        differ = np.flatnonzero(sums[: len(other)] != other)
        if not len(differ):
            return
        index, its = int(differ[0]), job.against.device
        image, own = launch.images[index], actual[index].copy()
        target = launch.compiled.oracle_target
        expected = execute(launch.batch.program, image[None], target=target).images[0]
        agrees = "agrees" if np.array_equal(own, expected) else "does not agree"
        bucket = Bucket.of(Kind.FLAKY, f"{min(its, name)} and {max(its, name)} disagree")
        seen_in = Attempt(kind=Kind.FLAKY, actual=own[None], expected=expected, failed=1)
        number = int(launch.numbers[index])
        said = f"{name} {agrees} with the oracle; {its} gave something else"
        case, files = self._stored(launch.batch, image, number, seen_in, bucket, devices=said)
        report.disagreement = protocol.Found(
            bucket=bucket,
            case=case,
            files=files,
            cases=len(differ),
            state=protocol.FoundState.REPLAYED,
        )


def _by_themselves(
    groups: list[_Group], new: list[bool], fails: Callable[[int], bool]
) -> list[_Group]:
    """Return groups of wrong images, new ones with an image first that is wrong by itself.

    A store that goes astray may hit the image of another warp, which is right by itself. So
    groups in which none is wrong by itself count with one in which some is, if there is one.
    `fails` runs the image of a place by itself.
    """

    @cache
    def first(number: int) -> int | None:
        return next(filter(fails, groups[number][1][:_TRIED_ALONE]), None)

    hit = 0
    kept = []
    for number, (found, chosen) in enumerate(groups):
        if new[number]:
            place = first(number)
            if place is None and any(first(other) is not None for other in range(len(groups))):
                hit += found.cases
                continue
            chosen = [chosen[0] if place is None else place]
        kept.append((found, chosen))
    for found, _ in kept[:1]:
        found.cases += hit
    return kept
