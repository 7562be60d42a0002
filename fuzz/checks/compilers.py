"""The check of compilers: every version at every level, against each other and the oracle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from fuzz.campaign.heartbeat import health_of
from fuzz.checks.compiler_rounds import ROUNDS_OF_A_MODULE, MatrixRounds
from fuzz.checks.compiler_suspects import MatrixExaminer
from fuzz.checks.protocol import (
    Facts,
    Heartbeat,
    OpenCheck,
    Options,
    Plan,
    RoundPlan,
    ShownCounter,
    Words,
)
from fuzz.checks.rounds import Work
from fuzz.compilers.matrix import Matrix
from fuzz.compilers.members import NOWHERE, Fitting, Member, Place, fitting, given, placed
from fuzz.findings.spans import described
from fuzz.kinds import KINDS
from fuzz.runner import RunnerChoice, without_figures
from oracle.forms import Form
from runners.assemblers.disassembly import Disassembler
from runners.cuda.compilation import release_of
from runners.toolchains import DRIVER
from strategies.draws import Selection
from strategies.program_coverage import ProgramCoverage
from strategies.program_draws import programs_of_round, selected_forms
from strategies.programs import GENERATOR_VERSION

_IMAGES = {"cuda": 256, "sim": 32, NOWHERE: 1}
"""Images of each program: what a runner does in the time of compiling it."""
_WRITTEN_IMAGES = 8
"""Images of each program that front ends write, on the simulated device: one of each of the
classes of values that reveal most, in a tenth of a second."""
_STALL_SECONDS = 900.0
"""How long a worker may stay silent before it is killed: bringing a GPU back takes four starts of
60 s and a module that takes 120 s to load (the deadlines of `runners`); compilers are waited for
with a sign of life every second."""


_COUNTERS = (
    ("programs", "program", "", False),
    ("binaries", "binary", "binaries", False),
    ("distinct", "distinct code", "", False),
    ("images", "image run", "images run", False),
    ("expansions", "expansion looked at", "expansions looked at", False),
    ("differences", "program with differences", "programs with differences", True),
    ("wrong", "program wrong", "programs wrong", True),
    ("uncompiled", "program not compiled by all", "programs not compiled by all", True),
    ("bounds alone", "program judged by the ISA's bounds alone",
     "programs judged by the ISA's bounds alone", True),
    ("unsupported", "unsupported", "unsupported", False),
    ("expansions not looked at", "expansion not looked at", "expansions not looked at", True),
)  # fmt: skip
"""Counters that people are shown, as `ShownCounter`: its key, one, many, and whether it is odd."""


@dataclass(frozen=True, kw_only=True)
class Compilers:
    """A check of what compilers make of programs."""

    choice: RunnerChoice
    """Where binaries run: "cuda", "sim", or NOWHERE."""
    members: tuple[Member, ...]
    """Who compiles; those that do not know the target are left out."""
    seed: int
    selection: Selection = field(default_factory=Selection)
    disassembler: Disassembler | None = None
    images: int | None = None
    """Images of each program; None: what the runner does in the time of compiling it."""
    read_by_all: bool = False
    """Whether programs are in PTX ISA versions that all members read, and in no newer one."""
    wanted: bool = True
    """Whether somebody asked for this runner; else it is the best there is."""
    patience: float = _STALL_SECONDS
    """Seconds of silence after which a worker is killed."""

    def on(self, device: int) -> Compilers:
        """Return the same for a worker that has this device."""
        return replace(self, choice=replace(self.choice, device=device))

    @contextmanager
    def opened(self, heartbeat: Heartbeat) -> Iterator[OpenCheck]:
        """Open the device and the compilers.

        Raises
        ------
        WarpfuzzError
            If no compiler is left, or the device cannot be opened.
        """
        with placed(self.choice) as place:
            fit = fitting(self.members, place, read_by_all=self.read_by_all)
            opened, newest = place.opened, fit.versions.newest
            forms = selected_forms(self.selection, target=place.target, version=newest)
            facts = Facts(
                target=place.target,
                ptx_version=newest,
                drawn=fit.versions if place.drawn else None,
                version="" if opened is None else opened.version,
                device="compilers alone" if opened is None else opened.device,
                members=tuple(member.name for member in fit.members),
                left_out=(*fit.skipped, *_judged_loosely(fit, place, forms)),
            )
            # One at a time: there is a worker for every core.
            with Matrix(place.device, fit.members, jobs=1, newest=fit.newest) as matrix:
                rounds = MatrixRounds(
                    matrix,
                    place,
                    forms=forms,
                    versions=fit.versions,
                    seed=self.seed,
                    disassembler=self.disassembler,
                    heartbeat=heartbeat,
                )
                yield OpenCheck(
                    facts=facts,
                    round=rounds.report,
                    examine=MatrixExaminer(matrix, place, heartbeat).examine,
                    health=lambda: None if opened is None else health_of(opened),
                )

    def plan(self, facts: Facts) -> Plan:
        """Return what programs there are.

        Raises
        ------
        UsageError
            If nothing is selected that the target has.
        """
        name = self.choice.name
        nowhere = name == NOWHERE
        members = [one for one in self.members if one.name in facts.members]
        forms = selected_forms(self.selection, target=facts.target, version=facts.ptx_version)
        written = name == "sim" and any(one.toolchain.writes_ptx for one in self.members)
        images = self.images or (_WRITTEN_IMAGES if written else _IMAGES[name])
        zeros = ("programs", "binaries", "distinct", "differences", "wrong", "uncompiled",
                 "expansions", "notes")  # fmt: skip
        words = Words(
            subject=described(members, members) + ("" if nowhere else f" on {facts.device}"),
            where=f"{facts.target} · PTX ISA {facts.versions}",
            case="program" if nowhere else "image",
            agreement="no binary ran; all compilers accept and reject the same of what they support"
            if nowhere
            else "all binaries that ran give what the oracle says",
            nothing_compared=self._nothing_compared(nowhere=nowhere),
            runner="the compilers" if nowhere else "compilers and device",
            unasked="that no compiler reads or that the device does not run",
            counters=tuple(
                ShownCounter(words=(word,), one=one, many=many, odd=odd)
                for word, one, many, odd in _COUNTERS
            ),
        )
        # Its number and the seed say all of a round.
        cases = ROUNDS_OF_A_MODULE[name] * programs_of_round(forms) * images
        drawn = RoundPlan(work=Work(count=images), cases=cases)
        return Plan(
            words=words,
            forms=frozenset(form.opcode for form in forms),
            coverage=ProgramCoverage,
            round=lambda number, known: drawn,
            shrinks=lambda case: KINDS[case.kind].shrinks,
            summary={
                **dict.fromkeys(zeros, 0),
                "runner": name,
                "device": "" if nowhere else facts.device,
                "target": facts.target,
                **facts.version_rows,
                "members": list(facts.members),
            },
        )

    def _nothing_compared(self, *, nowhere: bool) -> str:
        """Return why no binary may have run; empty where nobody asked for that."""
        if not nowhere:
            said = "no binary ran to its end; the findings and the counters say why"
            if self.choice.name == "sim":
                said += ". The simulated device runs no machine code: choose --runner cuda for that"
            return said
        if self.wanted:
            return ""
        return (
            "no GPU is here, so no binary ran, and the compilers were only asked what they accept. "
            f"Choose --runner cuda on a machine with a GPU, or say --runner {NOWHERE} if what each "
            "accepts is all that you want to know"
        )

    def options(self, facts: Facts) -> Options:
        """Return the options that decide which cases there are."""
        return {
            "--runner": self.choice.name,
            "--seed": self.seed,
            "--only": self.selection.pattern,
            "--target": facts.target,
            **facts.version_options,
            **given(self.members),
            "levels": ",".join(map(str, sorted({one.level for one in self.members}))),
            "images of a program": self.images,
            "layout of the simulated device": self.choice.layout,
            "version of the generator": GENERATOR_VERSION,
        }


def _judged_loosely(fit: Fitting, place: Place, forms: Sequence[Form]) -> Iterator[str]:
    """Yield a sentence for each compiler of whose code the model does not know all figures."""
    if place.opened is None or not place.opened.release:
        return
    for named, version in dict.fromkeys((one.toolchain.named, one.version) for one in fit.members):
        release = place.opened.release if version == DRIVER.label else release_of(version)
        said = without_figures(forms, f"{place.architecture}@{release}", named)
        if said:
            yield said
