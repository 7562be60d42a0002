"""The check of programs: what they compute on a device, against the model of its target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from corpus import Case
from fuzz.campaign.heartbeat import health_of
from fuzz.checks.program_rounds import ProgramRounds
from fuzz.checks.program_suspects import Examiner
from fuzz.checks.protocol import (
    Counts,
    DeviceStatus,
    Drawn,
    Examination,
    Examined,
    Facts,
    Options,
    Pulse,
    RoundJob,
    RoundReport,
    Shown,
    Words,
)
from fuzz.checks.rounds import Work
from fuzz.kinds import KINDS
from fuzz.runner import OpenRunner, RunnerChoice, drawn_versions, opened, without_figures
from oracle.models import model_for
from strategies.coverage import Coverage
from strategies.draws import Selection
from strategies.program_coverage import Batch, ProgramCoverage
from strategies.program_draws import (
    PROGRAMS,
    Speed,
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


class AsideWorker(Protocol):
    """Runs what is run beside rounds, and counts it."""

    def counts(self, number: int) -> Counts | None:
        """Run what belongs to a round; None if the coordinator wants an end before."""
        ...

    def close(self) -> None:
        """Close what it has opened."""
        ...


class Aside(Protocol):
    """What is run beside the rounds, and no case."""

    def opened(self, ready: OpenRunner, pulse: Pulse) -> AsideWorker:
        """Return what runs it beside a runner."""
        ...


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
    asides: tuple[Aside, ...] = ()
    """What is run beside the rounds."""
    idle: Idle | None = None
    """What is done with the idle time of devices; None: nothing."""
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
    def opened(self, pulse: Pulse) -> Iterator[ProgramTrier]:
        """Open the runner. Raises as `fuzz.runner.opened` does."""
        with opened(self.choice) as ready, ExitStack() as stack:
            yield ProgramTrier(ready, self, pulse, stack)

    def drawing(self, facts: Facts) -> ProgramDrawing:
        """Return what programs there are for a runner.

        Raises
        ------
        UsageError
            If nothing is selected that the target has.
        """
        return ProgramDrawing(self, facts)

    def options(self, facts: Facts) -> Options:
        """Return the options that decide which cases there are."""
        choice = self.choice
        return {
            "--runner": choice.name,
            "--seed": self.seed,
            "--only": self.selection.pattern,
            "--target": facts.target,
            **facts.version_options,
            "--fault": " ".join(choice.faults),
            "--ptx-pass": choice.ptx_pass,
            "--front-end": choice.front_end,
            "--opt": choice.level,
            "--assembler": choice.assembler,
            "--model": choice.model,
            "figures of the model": model_for(facts.target).digest if choice.model else None,
            "--include-undefined": bool(self.asides) or None,
            "images of a program": self.images,
            "smallest programs": self.smallest,
            "layout of the simulated device": choice.layout,
            "version of the generator": GENERATOR_VERSION,
        }


class ProgramDrawing:
    """What programs a campaign runs, and how it is told."""

    coverage: type[Coverage] = ProgramCoverage

    def __init__(self, check: Programs, facts: Facts) -> None:
        self._check, self._facts = check, facts
        self._forms = selected_forms(
            check.selection,
            target=facts.target,
            version=facts.ptx_version,
        )
        self.forms = len(self._forms)
        sim = check.choice.name == "sim"
        self._speed = Speed.INTERPRETED if sim else Speed.NATIVE
        self.words = Words(
            subject=", with ".join(filter(None, (facts.device, check.choice.options))),
            where=f"{facts.target} · PTX ISA {facts.versions}",
            case="image",
            agreement="every image that was compared is what the oracle says",
            nothing_compared="no program ran to its end",
            counters=(
                Shown(words=("programs", "compiled"), one="program"),
                Shown(
                    words=("programs", "failed"), one="not compiled", many="not compiled", odd=True
                ),
                Shown(words=("programs", "unsupported"), one="unsupported", many="unsupported"),
            ),
            replay=_replay_options(check.choice),
        )

    def round(self, number: int, known: Coverage) -> Drawn:
        """Return what the programs of a round are about."""
        focuses = round_focuses(
            self._forms,
            seed=self._check.seed,
            number=number,
            reached=cast(ProgramCoverage, known),
        )
        count = self._check.images or images_per_program(number, self._speed)
        return Drawn(work=Work(focuses=tuple(focuses), count=count), cases=PROGRAMS * count)

    def shrinks(self, case: Case) -> bool:
        """Whether a finding is made smaller: a wrong result that one warp alone shows."""
        return KINDS[case.kind].shrinks and case.details.get("copies", 1) == 1

    def trouble(self, counts: Counts, said: str) -> str:
        """Return why nothing can be run; empty while something can."""
        failed = counts["programs", "failed"] + counts["programs", "unsupported"]
        if counts["programs", "compiled"] or failed < _NOTHING_COMPILES:
            return ""
        return (
            f"none of {failed} programs was compiled, so nothing can be run; the last failed so: "
            f"{said}"
        )

    def summary(self) -> Mapping[str, Any]:
        """Return what was run where."""
        choice, facts = self._check.choice, self._facts
        return {
            "verdicts": {},
            "runner": choice.name,
            "device": facts.device,
            "options": choice.options,
            "target": facts.target,
            **facts.version_rows,
            "model": model_for(facts.target).name,
            "confidence": model_for(facts.target).confidence.value,
        }


def _replay_options(choice: RunnerChoice) -> tuple[str, ...]:
    """Return what a replay has to be told to plant the same again."""
    words = [word for name in choice.faults for word in ("--fault", name)]
    words += ["--ptx-pass", choice.ptx_pass] if choice.ptx_pass else []
    words += ["--front-end", choice.front_end] if choice.front_end else []
    words += ["--model", choice.model] if choice.model else []
    return tuple(words)


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


class ProgramTrier:
    """Runs programs and examines findings on one runner.

    Parameters
    ----------
    ready
        The runner.
    check
        What is run.
    pulse
        Is told of every stage.
    stack
        Closes what is opened.
    """

    def __init__(self, ready: OpenRunner, check: Programs, pulse: Pulse, stack: ExitStack) -> None:
        versions = drawn_versions(ready)
        # What is not drawn by rounds is written in the version that has all their forms.
        self._ready = ready = replace(ready, ptx_version=versions.newest)
        self.facts = Facts(
            target=ready.target,
            ptx_version=versions.newest,
            drawn=versions if len(versions.every) > 1 else None,
            version=ready.version,
            device=ready.device,
            left_out=(
                *_unjudged(ready, check.selection),
                *filter(None, (self._without_figures(ready, check),)),
            ),
        )
        self._rounds = ProgramRounds(
            ready,
            versions=versions,
            seed=check.seed,
            selection=check.selection,
            smallest=check.smallest,
            pulse=pulse,
        )
        self._asides: Sequence[AsideWorker] = [one.opened(ready, pulse) for one in check.asides]
        self._idle = None if check.idle is None else check.idle.opened(ready)
        self._examiner = Examiner(ready, pulse)
        if self._idle is not None:
            stack.callback(self._idle.close)
        stack.callback(self._examiner.close)
        for aside in self._asides:
            stack.callback(aside.close)

    @staticmethod
    def _without_figures(ready: OpenRunner, check: Programs) -> str:
        forms = selected_forms(check.selection, target=ready.target, version=ready.ptx_version)
        compiler = f"the compiler of CUDA {ready.release}"
        return without_figures(forms, ready.oracle_target, compiler)

    def round(self, job: RoundJob) -> RoundReport:
        """Carry out a round, and what is run beside it."""
        report = self._rounds.report(job)
        for aside in self._asides if report.complete else ():
            counts = aside.counts(job.number)
            # Interrupted: a resumption does all of them, and the round is not done before.
            report.complete = counts is not None
            report.counts.update(counts or {})
        if self._idle is not None:
            self._idle.after(report, self._rounds.verified)
        return report

    def examine(self, job: Examination) -> Examined:
        """Replay a finding, or make it smaller."""
        return self._examiner.examine(job)

    def health(self) -> DeviceStatus | None:
        """Return what the device says of itself."""
        return health_of(self._ready)
