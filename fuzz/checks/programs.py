"""The check of programs: compares what they compute on a device with the model of its target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

from fuzz.checks import protocol
from fuzz.checks.examining import Examiner
from fuzz.checks.fresh_rounds import FreshRounds
from fuzz.checks.program_rounds import ProgramRounds
from fuzz.checks.protocol import health_of
from fuzz.checks.rounds import Work
from fuzz.kinds import KINDS
from fuzz.runner import (
    BeatingRunner,
    OpenRunner,
    RunnerChoice,
    drawn_versions,
    open_runner,
    opened,
    without_figures,
)
from oracle.isa.forms import Form
from oracle.isa.targets import Module
from oracle.models import model_for
from oracle.program.program import undefined
from runners.emission import emit
from runners.protocol import Failure, Trouble
from strategies.contents import expand
from strategies.draws import Selection
from strategies.programs import GENERATOR_VERSION
from strategies.rounds import (
    EPOCH,
    MOST_OF_FORMS,
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


class UndefinedPrograms:
    """Runs undefined programs on a runner that is opened when it is first needed.

    Every sixteenth round is followed by eight of them on eight images each, a function of the seed
    and the number of the round alone. What they do to a device is nobody's fault: they are no
    cases, nor findings, and whatever becomes of their runner, ordinary batches never see it.
    `ready` is the runner of the ordinary rounds; another of its sort is opened, closed by `stack`.
    """

    def __init__(
        self, ready: OpenRunner, seed: int, forms: Sequence[Form], heartbeat: protocol.Heartbeat,
        stack: ExitStack,
    ) -> None:  # fmt: skip
        self._ready, self._seed, self._forms = ready, seed, forms
        self._heartbeat, self._stack = heartbeat, stack
        self._module = Module.named(ready.target, ready.ptx_version)

    @cached_property
    def _runner(self) -> BeatingRunner:
        choice = replace(self._ready.choice, deadline=_DEADLINE)
        runner = BeatingRunner(open_runner(choice).runner, self._heartbeat.beat)
        return self._stack.enter_context(runner)

    def counts(self, number: int) -> protocol.Counts | None:
        """Run the programs that belong to a round, in one of 16; None if that was interrupted.

        Raises WarpfuzzError if no second runner can be opened.
        """
        counts: protocol.Counts = Counter()
        if number % EPOCH:
            return counts
        self._heartbeat.enter(protocol.Stage.DRAW, round=number)
        drawn = [
            (program, expand(recipe, program, _IMAGES))
            for program, recipe in undefined_of_round(
                self._forms, self._module, seed=self._seed, number=number
            )
        ]
        for program, images in drawn:
            if self._heartbeat.interrupted:
                return None
            if reasons := undefined(program, target=self._ready.target):
                self._heartbeat.enter(protocol.Stage.RUN)
                made = self._runner.compile(emit(program, module=self._module))
                ran = made if isinstance(made, Failure) else self._runner.run(made, images)
                outcome = "ran"
                if isinstance(ran, Failure):
                    named = ran.trouble.name.lower().replace("_", " ")
                    outcome = _OUTCOMES.get(ran.trouble, named)
                counts["undefined", reasons[0].cause.value, outcome] += 1
        self._heartbeat.enter(protocol.Stage.WAIT)
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
        ready = replace(ready, ptx_version=versions.newest)
        forms = selected_forms(self.selection, target=ready.target, version=versions.newest)
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
            ptx_version=versions.newest,
            drawn=versions if len(versions.every) > 1 else None,
            version=ready.version,
            device=ready.device,
            left_out=tuple(filter(None, loosely)),
        )
        rounds = (FreshRounds if self.reference else ProgramRounds)(
            ready, versions=versions, seed=self.seed, selection=self.selection, heartbeat=heartbeat
        )
        undefined = UndefinedPrograms(ready, self.seed, forms, heartbeat, stack)
        idle = None if self.idle is None else self.idle(ready)
        if idle is not None:
            stack.callback(idle.close)
        examiner = Examiner(ready, heartbeat)
        stack.callback(examiner.close)

        def carry_out(job: protocol.RoundJob) -> protocol.RoundReport:
            report = rounds.report(job)
            if self.undefined and report.complete:
                counts = undefined.counts(job.round)
                # Interrupted: a resumption does all of them, and the round is not done before.
                report.complete = counts is not None
                report.counts.update(counts or {})
            if idle is not None:
                idle.after(job.round, report, rounds.verified)
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
            return protocol.RoundPlan(work=work, cases=len(focuses) * count)

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
