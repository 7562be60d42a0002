"""The check of programs: what they compute on a device, against the model of its target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from fuzz.campaign.heartbeat import health_of
from fuzz.checks.examining import Examiner
from fuzz.checks.fresh_rounds import FreshRounds
from fuzz.checks.program_rounds import ProgramRounds
from fuzz.checks.protocol import (
    Counts,
    Facts,
    Heartbeat,
    OpenCheck,
    Options,
    Plan,
    RoundJob,
    RoundPlan,
    RoundReport,
    ShownCounter,
    Words,
)
from fuzz.checks.rounds import Work
from fuzz.checks.undefined import UndefinedPrograms
from fuzz.kinds import KINDS
from fuzz.runner import OpenRunner, RunnerChoice, drawn_versions, opened, without_figures
from oracle.models import model_for
from strategies.coverage import Coverage
from strategies.draws import Selection
from strategies.program_coverage import Batch, ProgramCoverage
from strategies.program_draws import (
    Speed,
    fresh_per_program,
    images_per_program,
    round_focuses,
    selected_forms,
    unjudged_forms,
)
from strategies.programs import GENERATOR_VERSION

_STALL_SECONDS = {"sim": 300.0, "cuda": 900.0}
"""By runner: how long a worker may stay silent before it is killed, in seconds. A PTX pass may
take 60 s for a module, and the simulated device runs a batch within a few seconds. On a GPU one
batch may take 10 s, and bringing the device back after it four starts of 60 s and a module that
takes 120 s to load (the deadlines of `runners`)."""
_NOTHING_COMPILES = 16
"""Programs after which, if none of them was compiled, the compiler itself is called broken."""


class IdleWorker(Protocol):
    """Uses the idle time of a device."""

    def after(self, report: RoundReport, verified: Sequence[Batch]) -> None:
        """Hear of a round, and add to its report what came of idle time.

        Parameters
        ----------
        report
            Of the round.
        verified
            Its programs of which every image that was run came out as it must.
        """
        ...

    def close(self) -> None:
        """Close what it has opened."""
        ...


class Idle(Protocol):
    """What is done with the idle time of devices."""

    def opened(self, ready: OpenRunner) -> IdleWorker:
        """Return what uses that of a runner's device."""
        ...


@dataclass(frozen=True, kw_only=True)
class Programs:
    """A check of what programs compute."""

    choice: RunnerChoice
    """Where they run."""
    seed: int
    selection: Selection = field(default_factory=Selection)
    undefined: bool = False
    """Whether programs that the ISA leaves undefined are run beside the rounds, and counted."""
    idle: Idle | None = None
    """What is done with the idle time of devices; None: nothing."""
    reference: bool = False
    """Whether programs that are verified go on with images which the device makes, and compares
    with its reference."""
    images: int | None = None
    """Images of each program; None: what the number of the round says."""
    smallest: bool = False
    """Whether every program is the smallest one of its form, as for measuring speed."""
    stall_seconds: float | None = None
    """Silence after which a worker is killed; None: what the runner may need."""

    @property
    def patience(self) -> float:
        """Seconds of silence after which a worker is killed."""
        most = max(_STALL_SECONDS.values())
        return self.stall_seconds or _STALL_SECONDS.get(self.choice.name, most)

    def on(self, device: int) -> Programs:
        """Return the same for a worker that has this device."""
        return replace(self, choice=replace(self.choice, device=device))

    @contextmanager
    def opened(self, heartbeat: Heartbeat) -> Iterator[OpenCheck]:
        """Open the runner. Raises as `fuzz.runner.opened` does."""
        with opened(self.choice) as ready, ExitStack() as stack:
            yield self.on_runner(ready, heartbeat, stack)

    def on_runner(self, ready: OpenRunner, heartbeat: Heartbeat, stack: ExitStack) -> OpenCheck:
        """Return what runs programs and examines findings on a runner.

        Parameters
        ----------
        stack
            Closes what is opened.
        """
        versions = drawn_versions(ready)
        # What is not drawn by rounds is written in the version that has all their forms.
        ready = replace(ready, ptx_version=versions.newest)
        forms = selected_forms(self.selection, target=ready.target, version=versions.newest)
        compiler = f"the compiler of CUDA {ready.release}"
        facts = Facts(
            target=ready.target,
            ptx_version=versions.newest,
            drawn=versions if len(versions.every) > 1 else None,
            version=ready.version,
            device=ready.device,
            left_out=(
                *_unjudged(ready, self.selection),
                *filter(None, (without_figures(forms, ready.oracle_target, compiler),)),
            ),
        )
        rounds = (FreshRounds if self.reference else ProgramRounds)(
            ready,
            versions=versions,
            seed=self.seed,
            selection=self.selection,
            smallest=self.smallest,
            heartbeat=heartbeat,
        )
        undefined = None
        if self.undefined:
            undefined = UndefinedPrograms(ready, self.seed, self.selection, heartbeat)
            stack.callback(undefined.close)
        idle = None if self.idle is None else self.idle.opened(ready)
        examiner = Examiner(ready, heartbeat)
        if idle is not None:
            stack.callback(idle.close)
        stack.callback(examiner.close)

        def carry_out(job: RoundJob) -> RoundReport:
            report = rounds.report(job)
            if undefined is not None and report.complete:
                counts = undefined.counts(job.number)
                # Interrupted: a resumption does all of them, and the round is not done before.
                report.complete = counts is not None
                report.counts.update(counts or {})
            if idle is not None:
                idle.after(report, rounds.verified)
            return report

        return OpenCheck(
            facts=facts,
            round=carry_out,
            examine=examiner.examine,
            health=lambda: health_of(ready),
        )

    def plan(self, facts: Facts) -> Plan:
        """Return what programs there are for a runner.

        Raises
        ------
        UsageError
            If nothing is selected that the target has.
        """
        choice = self.choice
        device = Speed.NATIVE if choice.name == "cuda" else Speed.INTERPRETED
        # Beside a reference the oracle vouches for the program: a few images do.
        speed = Speed.INTERPRETED if self.reference else device
        forms = selected_forms(self.selection, target=facts.target, version=facts.ptx_version)

        def round_of(number: int, known: Coverage) -> RoundPlan:
            reached = cast(ProgramCoverage, known)
            focuses = round_focuses(forms, seed=self.seed, number=number, reached=reached)
            count = self.images or images_per_program(number, speed)
            cases = len(focuses) * count
            fresh = fresh_per_program(number, device) if self.reference else 0
            work = Work(focuses=tuple(focuses), count=count, fresh=fresh)
            return RoundPlan(work=work, cases=cases)

        return Plan(
            words=Words(
                subject=", with ".join(filter(None, (facts.device, choice.options))),
                where=f"{facts.target} · PTX ISA {facts.versions}",
                case="image",
                agreement="every image that was compared is what the oracle says",
                nothing_compared="no program ran to its end",
                unasked="not run, because their program had failed already or is not supported",
                counters=(
                    ShownCounter(words=("programs", "compiled"), one="program"),
                    ShownCounter(
                        words=("programs", "failed"),
                        one="not compiled",
                        many="not compiled",
                        odd=True,
                    ),
                    ShownCounter(
                        words=("programs", "unsupported"), one="unsupported", many="unsupported"
                    ),
                ),
                replay=choice.replay_words,
            ),
            forms=frozenset(form.opcode for form in forms),
            coverage=ProgramCoverage,
            round=round_of,
            # A wrong result that one warp alone shows.
            shrinks=lambda case: KINDS[case.kind].shrinks and case.details.get("copies", 1) == 1,
            trouble=_trouble,
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

    def options(self, facts: Facts) -> Options:
        """Return the options that decide which cases there are."""
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
            "smallest programs": self.smallest,
            "layout of the simulated device": choice.layout,
            "version of the generator": GENERATOR_VERSION,
        }


def _trouble(counts: Counts, said: str) -> str:
    """Return why nothing can be run; empty while something can."""
    failed = counts["programs", "failed"] + counts["programs", "unsupported"]
    if counts["programs", "compiled"] or failed < _NOTHING_COMPILES:
        return ""
    return (
        f"none of {failed} programs was compiled, so nothing can be run; the last failed so: {said}"
    )


def _unjudged(ready: OpenRunner, selection: Selection) -> tuple[str, ...]:
    """Say what a model that was given leaves out, because it has no figures of it."""
    if ready.choice.model is None:
        return ()
    target = ready.target
    forms = unjudged_forms(selection, target=target, version=ready.ptx_version)
    if not forms:
        return ()
    name = model_for(target).name
    return (f"{len(forms)} of the forms that multiply: the model {name} has no figures of them",)
