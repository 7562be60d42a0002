"""The check of programs: compares what they compute on a device with the model of its target.

Where the device compares with a reference, the oracle judges some images of a program first. If
all came out as they must, the device makes those that follow by their numbers, runs them and
compares them, while the next program is verified. What differs is made again here and judged by the
oracle, the only judge, as is a sample of what agrees: so a reference that is wrong is found out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fuzz.checks import protocol
from fuzz.checks.examining import Examiner
from fuzz.checks.program_rounds import ImageLaunch, ProgramRounds
from fuzz.checks.protocol import health_of
from fuzz.checks.rounds import Work
from fuzz.compilers.members import Built
from fuzz.kinds import KINDS
from fuzz.runner import (
    BeatingRunner,
    OpenRunner,
    RunnerChoice,
    drawn_versions,
    kind_of_failure,
    open_runner,
    opened,
    without_figures,
)
from oracle.errors import UsageError
from oracle.execution.execution import execute
from oracle.isa.forms import Form
from oracle.isa.targets import Module
from oracle.models import model_for
from oracle.program.program import Program, different, requirements, undefined
from runners.emission import emit
from runners.protocol import Failure, Images, Trouble
from runners.reference.encoding import encode
from runners.reference.fresh import FreshRan, FreshWork, PendingFresh, fresh_runner, images_of
from strategies.contents import Recipe, expand
from strategies.contents.device import device_contents
from strategies.draws import Selection
from strategies.features import main_form
from strategies.programs import GENERATOR_VERSION
from strategies.rounds import (
    EPOCH,
    LANES_TAKE,
    MOST_OF_FORMS,
    Batch,
    Coverage,
    ProgramCoverage,
    Speed,
    fresh_per_program,
    images_per_program,
    round_focuses,
    selected_forms,
    undefined_of_round,
    unjudged_forms,
)

_IMAGES = 8  # of each undefined program; 64 take 0.3 s on a simulated device (2026-11)
_DEADLINE = 2.0  # seconds that one may take on a GPU: eight images are done in milliseconds
_OUTCOMES = {Trouble.COMPILE_FAILURE: "refused by the compiler", Trouble.STICKY_ERROR: "trap"}
"""That differ from the runner's names."""
_STALL_SECONDS = {"sim": 300.0, "cuda": 900.0}
"""Seconds of silence, by runner, then a worker is killed: a PTX pass may take 60 s for a module,
and bringing a GPU back four starts of 60 s and a module that takes 120 s to load."""
_NOTHING_COMPILES = 16  # programs after which, if none was compiled, the compiler is called broken
SAMPLED = 99_991
"""One image in so many is judged even if it agrees: a prime, for classes come in turn."""
_TOGETHER = 1 << 18  # images of one comparison: an end waits for one (10^8 a second, H100)
_ISOLATED = 4096  # images of which those are looked for at which a comparison failed


_Started = tuple[ImageLaunch, FreshWork, PendingFresh]
"""A program whose images are compared, without any of its images; which; and what becomes of it."""


class FreshRounds(ProgramRounds):
    """Carries out rounds on one runner, which compares. Takes what `ProgramRounds` does.

    Raises UsageError if the runner does not compare.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._device = fresh_runner(self._ready.runner)
        self._started: list[_Started] = []
        self._gone_on: set[str] = set()
        """Entries of programs of the last report that the device compared."""
        self._distrusted: set[str] = set()
        """What the reference was wrong about here; the job names what it was elsewhere."""

    def _carry_out(self) -> bool:
        self._started, self._gone_on = [], set()
        complete = super()._carry_out()
        self._end()
        # Screening repeats what was compared already.
        left_out = self._odd | self._gone_on
        self.verified = [one for one in self.verified if one.entry not in left_out]
        return complete and not self._report.lost

    def _work_on(self, batch: Batch, built: Built, place: int, end: int) -> None:
        verified = len(self.verified)
        super()._work_on(batch, built, place, end)
        all_done = self._job.skip + self._report.cases >= end and not self._report.lost
        # What another device repeats is compared with that one alone.
        if len(self.verified) == verified or not all_done or self._job.against is not None:
            return
        # Those of the program before come to their end.
        (compiled,) = (one.compiled for one in self._variants(built, batch.entry))
        self._heartbeat.enter(protocol.Stage.EXPAND)
        works = self._works(batch, compiled.oracle_target)
        self._report.counts[protocol.REFERENCE, "programs" if works else "programs left out"] += 1
        self._end()
        for work in works:
            self._gone_on.add(batch.entry)
            pending = self._device.fresh(compiled, work, entry=batch.entry)
            launch = ImageLaunch(batch=batch, built=built, compiled=compiled)
            self._started.append((launch, work, pending))

    def _works(self, batch: Batch, target: str) -> list[FreshWork]:
        """Return what is to be compared of a program; nothing if the reference cannot do it."""
        distrusted = self._distrusted | self._job.settled
        if distrusted & {_about(batch), *(one.opcode for one in requirements(batch.program))}:
            return []
        try:
            encoded = encode(batch.program, model_for(target))
        except UsageError:
            return []
        contents = device_contents(batch.recipe, batch.program)
        most = self._job.plan.work.fresh
        total = images_of(most // LANES_TAKE if batch.form is None else most, encoded)
        end = batch.count + total
        return [
            FreshWork(
                encoded=encoded, contents=contents, first=first, count=count,
                sampled=sample(batch.recipe, first, count),
            )
            for first in range(batch.count, end, _TOGETHER)
            for count in [min(_TOGETHER, end - first)]
        ]  # fmt: skip

    def _end(self) -> None:
        """Wait for the comparisons that were started, and judge what comes back."""
        started, self._started = self._started, []
        for launch, work, pending in started:
            self._heartbeat.enter(protocol.Stage.RUN)
            ran = pending.collect()
            if isinstance(ran, Failure):
                self._failed(launch, work, ran)
                continue
            self._report.counts[protocol.REFERENCE, "images"] += ran.images
            self._report.counts[protocol.REFERENCE, "differing"] += ran.differing
            if len(ran.numbers):
                self._judge(launch, work, ran)

    def _judge(self, launch: ImageLaunch, work: FreshWork, ran: FreshRan) -> None:
        """Have the oracle judge images that came back, and the reference by them."""
        self._heartbeat.enter(protocol.Stage.ORACLE)
        batch, counts = launch.batch, self._report.counts
        judged = partial(
            made_again, batch.recipe, batch.program, target=launch.compiled.oracle_target
        )
        again = judged(ran)
        counts[protocol.REFERENCE, "judged"] += len(again.images)
        if images := len(again.mistaken):
            # If the reference is wrong about it again, a form is left out.
            number = int(ran.numbers[again.mistaken[0]])
            alone = replace(work, first=number, count=1, sampled=(number,))
            tried = self._device.fresh(launch.compiled, alone, entry=batch.entry).collect()
            self._heartbeat.enter(protocol.Stage.ORACLE)
            if isinstance(tried, Failure):
                self._failed(launch, work, tried)
            elif not len(judged(tried).mistaken):
                counts[protocol.REFERENCE, "once"] += images
            else:
                counts[protocol.REFERENCE, "reference wrong", _about(batch)] += images
                self._distrusted.add(_about(batch))
        if len(again.wrong):
            device = self._ready.uuid or f"device {self._ready.choice.device}"
            for unit in ran.sms[again.wrong].tolist():
                counts[protocol.REFERENCE, "wrong on", device, str(unit)] += 1
            shown = replace(launch, images=again.images, numbers=ran.numbers)
            unseen = ran.differing - ran.listed
            self._came_out_wrong(shown, ran.after, ran.sms, again.wrong, unseen)

    def _failed(self, launch: ImageLaunch, work: FreshWork, failure: Failure) -> None:
        """Look for the images at which a comparison failed, unless the program runs without it."""
        if failure.trouble in (Trouble.UNAVAILABLE, Trouble.UNSUPPORTED):
            kind_of_failure(failure)
        batch, compiled = launch.batch, launch.compiled
        self._report.counts[protocol.REFERENCE, "failed"] += work.count
        self._report.said = failure.line
        if batch.entry in self._odd:
            return

        def runs(first: int, count: int) -> bool:
            part = replace(work, first=first, count=count, sampled=())
            ran = self._device.fresh(compiled, part, entry=batch.entry).collect()
            return not isinstance(ran, Failure)

        some = range(work.first, work.first + work.count)[:_ISOLATED]
        if failure.trouble is not Trouble.DEVICE_LOST:
            some = narrowed(runs, work.first, work.count, _ISOLATED)
        images = expand(batch.recipe, batch.program, len(some), first=some.start)
        again = self._runner.run(compiled, images, entry=batch.entry)
        if isinstance(again, Failure):
            numbers = np.arange(len(some)) + some.start
            self._isolated(replace(launch, images=images, numbers=numbers), again)


def narrowed(runs: Callable[[int, int], bool], first: int, count: int, enough: int) -> range:
    """Return at most `enough` of the images at which a run failed, one after the other.

    `runs` tells whether so many images run, from the first one on. One of those that are returned
    fails, if what fails does so each time. The first ones are tried at once: what does not end is
    waited for, and mostly does not whatever its images hold.
    """
    if count > enough and not runs(first, enough):
        count = enough
    while count > enough:
        half = count // 2
        if runs(first, half):
            first, count = first + half, count - half
        else:
            count = half
    return range(first, first + count)


def _about(batch: Batch) -> str:
    form = main_form(batch.program)
    return "programs without a form" if form is None else form.opcode


@dataclass(frozen=True, kw_only=True, eq=False)
class MadeAgain:
    """Images that a comparison brought back, as they are made and judged here."""

    images: Images  # uint8 (count, image_bytes)
    expected: Images  # after the program, by the oracle
    wrong: NDArray[np.intp]  # places of those that the program under test got wrong
    mistaken: NDArray[np.intp]
    """Places of those that the device made otherwise, or its reference judged otherwise."""


def made_again(recipe: Recipe, program: Program, ran: FreshRan, *, target: str) -> MadeAgain:
    """Make images again by their numbers; have the oracle judge what the device made of them."""
    each = [expand(recipe, program, 1, first=int(number)) for number in ran.numbers]
    images = np.concatenate([np.zeros((0, program.image_bytes), np.uint8), *each])
    expected = execute(program, images, target=target).images
    wrong, others = different(expected, ran.after), different(images, ran.before)
    # The reference says that the first ones are wrong, and no others.
    misjudged = np.setxor1d(wrong, np.arange(ran.listed))
    return MadeAgain(
        images=images,
        expected=expected,
        # What the program was run on has to be what is made here.
        wrong=np.setdiff1d(wrong, others),
        mistaken=np.union1d(misjudged, others),
    )


def sample(recipe: Recipe, first: int, count: int) -> tuple[int, ...]:
    """Return the numbers of the images of a range that the oracle judges even if they agree."""
    # Where it begins differs from program to program.
    begin = first + (recipe.seed - first) % SAMPLED
    return tuple(range(begin, first + count, SAMPLED))


def undefined_counts(
    runner: Callable[[], BeatingRunner], ready: OpenRunner, forms: Sequence[Form],
    heartbeat: protocol.Heartbeat, *, seed: int, number: int,
) -> protocol.Counts | None:  # fmt: skip
    """Run undefined programs on a second runner; None if that was interrupted.

    Every sixteenth round is followed by eight of them on eight images each, a function of the seed
    and the number of the round alone. What they do to a device is nobody's fault: they are no
    cases, nor findings, and whatever becomes of their runner, ordinary batches never see it.
    Raises WarpfuzzError if no second runner can be opened.
    """
    counts: protocol.Counts = Counter()
    if number % EPOCH:
        return counts
    heartbeat.enter(protocol.Stage.DRAW, round=number)
    module = Module.named(ready.target, ready.ptx_version)
    drawn = [
        (program, expand(recipe, program, _IMAGES))
        for program, recipe in undefined_of_round(forms, module, seed=seed, number=number)
    ]
    for program, images in drawn:
        if heartbeat.interrupted:
            return None
        if reasons := undefined(program, target=ready.target):
            heartbeat.enter(protocol.Stage.RUN)
            made = runner().compile(emit(program, module=module))
            ran = made if isinstance(made, Failure) else runner().run(made, images)
            outcome = "ran"
            if isinstance(ran, Failure):
                named = ran.trouble.name.lower().replace("_", " ")
                outcome = _OUTCOMES.get(ran.trouble, named)
            counts["undefined", reasons[0].cause.value, outcome] += 1
    heartbeat.enter(protocol.Stage.WAIT)
    return counts


@dataclass(frozen=True, kw_only=True)
class Programs:
    """A check of what programs compute."""

    choice: RunnerChoice
    seed: int
    selection: Selection = field(default_factory=Selection)
    undefined: bool = False  # whether undefined programs are run beside the rounds, and counted
    idle: Callable[[OpenRunner], Any] | None = None
    """Makes what uses the idle time of a runner's device (`fuzz.screening.examining`)."""
    reference: bool = False
    """Whether programs that are verified go on with images which the device makes, and compares
    with its reference."""
    images: int | None = None  # of each program; None: what the number of the round says
    stall_seconds: float | None = None  # before a silent worker is killed; None: the runner's

    @property
    def patience(self) -> float:
        most = max(_STALL_SECONDS.values())
        return self.stall_seconds or _STALL_SECONDS.get(self.choice.name, most)

    def on(self, device: int) -> Programs:
        return replace(self, choice=replace(self.choice, device=device))

    @contextmanager
    def opened(self, heartbeat: protocol.Heartbeat) -> Iterator[protocol.OpenCheck]:
        """Open the runner. Raises as `fuzz.runner.opened` does."""
        with opened(self.choice) as ready, ExitStack() as stack:
            yield self.on_runner(ready, heartbeat, stack)

    def on_runner(
        self, ready: OpenRunner, heartbeat: protocol.Heartbeat, stack: ExitStack
    ) -> protocol.OpenCheck:
        """Return what runs programs and examines findings on a runner."""
        versions = drawn_versions(ready)
        # What is not drawn by rounds is written in the version that has all their forms.
        ready = replace(ready, ptx_version=versions.every[-1])
        forms = selected_forms(self.selection, target=ready.target, version=versions.every[-1])
        loosely = [
            without_figures(forms, ready.oracle_target, f"the compiler of CUDA {ready.release}")
        ]
        unjudged = unjudged_forms(self.selection, target=ready.target, version=ready.ptx_version)
        if ready.choice.model is not None and unjudged:
            model = model_for(ready.target).name
            loosely.insert(
                0,
                f"{len(unjudged)} of the forms that multiply: the model {model} has no figures of "
                "them, so that any result that the ISA permits counts as right",
            )
        facts = protocol.Facts(
            target=ready.target,
            ptx_version=versions.every[-1],
            drawn=versions if len(versions.every) > 1 else None,
            version=ready.version,
            device=ready.device,
            left_out=tuple(filter(None, loosely)),
        )
        rounds = (FreshRounds if self.reference else ProgramRounds)(
            ready, versions=versions, seed=self.seed, selection=self.selection, heartbeat=heartbeat
        )

        @cache
        def second() -> BeatingRunner:
            choice = replace(ready.choice, deadline=_DEADLINE)
            return stack.enter_context(BeatingRunner(open_runner(choice).runner, heartbeat.beat))

        idle = None if self.idle is None else self.idle(ready)
        if idle is not None:
            stack.callback(idle.close)
        examiner = Examiner(ready, heartbeat)
        stack.callback(examiner.close)

        def carry_out(job: protocol.RoundJob) -> protocol.RoundReport:
            report = rounds.report(job)
            if self.undefined and report.complete:
                counts = undefined_counts(
                    second, ready, forms, heartbeat, seed=self.seed, number=job.plan.round
                )
                # Interrupted: a resumption does all of them, and the round is not done before.
                report.complete = counts is not None
                report.counts.update(counts or {})
            if idle is not None:
                idle.after(job.plan.round, report, rounds.verified)
            return report

        return protocol.OpenCheck(
            facts=facts, round=carry_out, examine=examiner.examine, health=lambda: health_of(ready)
        )

    def plan(self, facts: protocol.Facts) -> protocol.Plan:
        choice = self.choice
        device = Speed.NATIVE if choice.name == "cuda" else Speed.INTERPRETED
        # Beside a reference the oracle vouches for the program: a few images do.
        speed = Speed.INTERPRETED if self.reference else device
        forms = selected_forms(self.selection, target=facts.target, version=facts.ptx_version)

        def round_of(number: int, known: Coverage) -> protocol.RoundPlan:
            reached = cast(ProgramCoverage, known)
            focuses = round_focuses(forms, seed=self.seed, number=number, reached=reached)
            count = self.images or images_per_program(number, speed)
            fresh = fresh_per_program(number, device, len(forms)) if self.reference else 0
            work = Work(
                focuses=tuple(focuses),
                count=count,
                most_of_forms=self.images or MOST_OF_FORMS,
                fresh=fresh,
            )
            return protocol.RoundPlan(round=number, work=work, cases=len(focuses) * count)

        def trouble(counts: protocol.Counts, said: str) -> str:
            failed = counts["programs", "failed"] + counts["programs", "unsupported"]
            if counts["programs", "compiled"] or failed < _NOTHING_COMPILES:
                return ""
            none = f"none of {failed} programs was compiled, so nothing can be run"
            return f"{none}; the last failed so: {said}"

        counter = protocol.ShownCounter
        return protocol.Plan(
            words=protocol.CheckWords(
                subject=", with ".join(filter(None, (facts.device, choice.options))),
                where=f"{facts.target} · PTX ISA {facts.versions}",
                case="image",
                agreement="every image that was compared is what the oracle says",
                nothing_compared="no program ran to its end",
                unasked="not run, because their program had failed already or is not supported",
                counters=(
                    counter(("programs", "compiled"), "program"),
                    counter(("programs", "failed"), "not compiled", "not compiled", odd=True),
                    counter(("programs", "unsupported"), "unsupported", "unsupported"),
                ),
                replay=choice.replay_words,
            ),
            forms=frozenset(form.opcode for form in forms),
            coverage=ProgramCoverage,
            round=round_of,
            # A wrong result that one warp alone shows.
            shrinks=lambda case: KINDS[case.kind].shrinks and case.details.get("copies", 1) == 1,
            trouble=trouble,
            summary={
                "verdicts": {},
                "runner": choice.name,
                "device": facts.device,
                "options": choice.options,
                "target": facts.target,
                **facts.version_rows,
                "model": model_for(facts.target).name,
                "confidence": model_for(facts.target).confidence.value,
            },
        )

    def options(self, facts: protocol.Facts) -> protocol.Options:
        choice = self.choice
        return {
            "--runner": choice.name,
            "--seed": self.seed,
            "--only": self.selection.pattern,
            "--target": facts.target,
            **facts.version_options,
            **choice.given,
            "figures of the model": model_for(facts.target).digest if choice.model else None,
            "--include-undefined": self.undefined or None,
            "--device-reference": self.reference or None,
            "images of a program": self.images,
            "smallest programs": False,  # what states of earlier campaigns say
            "layout of the simulated device": choice.layout,
            "version of the generator": GENERATOR_VERSION,
        }
