"""The check of programs: compares what they compute on a device with the model of its target.

The oracle judges the first images of each program. If all came out as they must, the device goes
on with images that it makes by their numbers, in time that nothing else waits for, and compares
them with its reference (`fuzz.checks.idle`). What differs is made again and judged by the
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

from fuzz.checks import protocol
from fuzz.checks.examining import Examiner
from fuzz.checks.fresh import about, made_again, narrowed
from fuzz.checks.idle import IdleTime, Odd
from fuzz.checks.program_rounds import ImageLaunch, ProgramRounds
from fuzz.checks.protocol import health_of
from fuzz.checks.rounds import Work
from fuzz.compilers.members import not_read
from fuzz.findings.verdicts import COPIES
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
from oracle.isa.forms import Form
from oracle.isa.targets import Module
from oracle.models import model_for
from oracle.program.definedness import undefined
from runners.emission import emit
from runners.ledger import ROWS
from runners.protocol import Failure, Trouble
from runners.reference.fresh import FreshRan, FreshWork, fresh_runner
from strategies.contents import expand
from strategies.draws import Selection
from strategies.programs import GENERATOR_VERSION
from strategies.rounds import (
    EPOCH,
    Coverage,
    ProgramCoverage,
    group_target,
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
_ON_A_GPU = 64
"""Images of a program, from the first round on: with 64 in place of 128 a worker's Python takes 0.9
of the time (docs/hardware.md). Of 104 identities of campaigns on an H200 91 were first seen in an
image below 64 (2026-11-29); idle time has fresh images for the others."""
_ISOLATED = 4096  # images of which those are looked for at which a comparison failed


class FreshRounds(ProgramRounds):
    """Carries out rounds on one runner, and judges what came of programs in its idle time."""

    def __init__(self, *arguments: Any, idle: IdleTime, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._idle = idle

    def _carry_out(self) -> bool:
        complete = super()._carry_out()
        # What another device repeats is compared with that one alone.
        if self._job.against is None:
            self._idle.distrusted |= self._job.settled
            self._heartbeat.enter(protocol.Stage.RUN)
            with self._apart() as report:
                for odd in self._idle.after(report, self.verified):
                    self._judge(odd)
        return complete and not self._report.lost

    @contextmanager
    def _apart(self) -> Iterator[protocol.RoundReport]:
        """Report what is found apart: it may belong to a round that has been reported."""
        job, report = self._job, self._report
        self._report = protocol.RoundReport(
            number=report.number, skip=report.skip, coverage=report.coverage
        )
        try:
            yield report
        finally:
            report.counts.update(self._report.counts)
            report.apart += self._report.suspects.values()
            report.lost = report.lost or self._report.lost
            self._job, self._report = job, report

    def _judge(self, odd: Odd) -> None:
        """Say what is wrong by the oracle, or that it is the reference."""
        self._heartbeat.enter(protocol.Stage.ORACLE)
        launch, work, came, again = odd.launch, odd.work, odd.came, odd.again
        self._job = replace(self._job, plan=replace(self._job.plan, round=launch.round))
        if isinstance(came, Failure) or again is None:
            assert isinstance(came, Failure)
            self._failed(launch, work, came)
            return
        batch, counts = launch.batch, self._report.counts
        if images := len(again.mistaken):
            # If the reference is wrong about it again, a form is left out.
            number = int(came.numbers[again.mistaken[0]])
            alone = replace(work, first=number, count=1, sampled=(number,))
            tried = self._compared(launch, alone)
            self._heartbeat.enter(protocol.Stage.ORACLE)
            target = launch.compiled.oracle_target
            if isinstance(tried, Failure):
                self._failed(launch, work, tried)
            elif not len(made_again(batch.recipe, batch.program, tried, target=target).mistaken):
                counts[protocol.REFERENCE, "once"] += images
            else:
                counts[protocol.REFERENCE, "reference wrong", about(batch)] += images
                self._idle.distrusted.add(about(batch))
        if len(again.wrong):
            device = self._ready.uuid or f"device {self._ready.choice.device}"
            for unit in came.sms[again.wrong].tolist():
                known = str(unit) if unit < ROWS else ""
                counts[protocol.REFERENCE, "wrong on", device, known] += 1
            shown = replace(launch, images=again.images, numbers=came.numbers)
            unseen = came.differing - came.listed
            self._came_out_wrong(shown, came.after, came.sms, again.wrong, again.expected, unseen)

    def _compared(self, launch: ImageLaunch, work: FreshWork) -> FreshRan | Failure:
        """Compare on the runner of the rounds."""
        device = fresh_runner(self._ready.runner)
        return device.fresh(launch.compiled, work, entry=launch.batch.entry).collect()

    def _failed(self, launch: ImageLaunch, work: FreshWork, failure: Failure) -> None:
        """Look for the images at which a comparison failed, unless the program runs without it."""
        if failure.trouble in (Trouble.UNAVAILABLE, Trouble.UNSUPPORTED):
            kind_of_failure(failure)
        batch = launch.batch

        def runs(first: int, count: int) -> bool:
            part = replace(work, first=first, count=count, sampled=())
            return not isinstance(self._compared(launch, part), Failure)

        some = range(work.first, work.first + work.count)[:_ISOLATED]
        if failure.trouble is not Trouble.DEVICE_LOST:
            some = narrowed(runs, work.first, work.count, _ISOLATED)
        images = expand(batch.recipe, batch.program, len(some), first=some.start)
        again = self._runner.run(launch.compiled, images, entry=batch.entry)
        if isinstance(again, Failure):
            numbers = np.arange(len(some)) + some.start
            self._isolated(replace(launch, images=images, numbers=numbers), again)


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
    reference: bool = False
    """Whether they go on with images that the device makes, and compares with its reference."""
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
        newest, target, unread = versions.every[-1], ready.target, ""
        ready = replace(ready, ptx_version=newest)
        selected = partial(selected_forms, self.selection, target=target, version=newest)
        forms = selected(groups=bool(ready.groups))
        groups, assembler = group_target(forms, target), ready.choice.assembler
        if groups and assembler is not None and assembler.newest(groups, groups) is None:
            forms, groups, unread = selected(), "", not_read(assembler, groups)
        loosely = [
            without_figures(forms, ready.oracle_target, f"the compiler of CUDA {ready.release}"),
            unread,
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
            target=target,
            groups=groups,
            ptx_version=newest,
            drawn=versions if len(versions.every) > 1 else None,
            version=ready.version,
            device=ready.device,
            left_out=tuple(filter(None, loosely)),
        )
        idle = IdleTime(ready, heartbeat, compares=self.reference)
        stack.callback(idle.close)
        rounds = FreshRounds(
            ready, versions=versions, seed=self.seed, forms=forms, heartbeat=heartbeat, idle=idle,
        )  # fmt: skip

        @cache
        def second() -> BeatingRunner:
            choice = replace(ready.choice, deadline=_DEADLINE)
            return stack.enter_context(BeatingRunner(open_runner(choice).runner, heartbeat.beat))

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
            return report

        return protocol.OpenCheck(
            facts=facts, round=carry_out, examine=examiner.examine, health=lambda: health_of(ready)
        )

    def plan(self, facts: protocol.Facts) -> protocol.Plan:
        choice = self.choice
        forms = selected_forms(
            self.selection, target=facts.target, version=facts.ptx_version,
            groups=bool(facts.groups),
        )  # fmt: skip

        def round_of(number: int, known: Coverage) -> protocol.RoundPlan:
            reached = cast(ProgramCoverage, known)
            focuses = round_focuses(
                forms, target=facts.target, seed=self.seed, number=number, reached=reached
            )
            own = _ON_A_GPU if choice.name == "cuda" else images_per_program(number)
            count = self.images or own
            work = Work(focuses=tuple(focuses), count=count)
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
                where=facts.where,
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
            # A wrong result that one warp alone shows, or some warpgroups.
            shrinks=lambda case: (
                KINDS[case.kind].shrinks and int(case.details.get("copies", 1)) != COPIES
            ),
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
            "second target": facts.groups or None,
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
