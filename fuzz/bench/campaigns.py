"""Coverage of drawn programs without running them, and the report of a campaign with a fault."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from corpus import Kind, create_corpus
from corpus.known import Known
from fuzz.bench import Report, Stopping, run_all
from fuzz.campaign.campaign import SHRINK_SECONDS
from fuzz.campaign.triage import Triage
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import RoundJob, Stage
from fuzz.findings.families import finding_groups
from fuzz.runner import RunnerChoice
from oracle.forms import Form
from oracle.isa import FORMS, is_available
from oracle.targets import Module
from strategies.contents import ValueClass
from strategies.coverage import ProgramCoverage
from strategies.features import FEATURES
from strategies.programs import is_valued
from strategies.rounds import Speed, campaign_rounds

CAMPAIGN_PROGRAMS = 1250
"""Programs of one campaign. Several are counted together, so that they can be drawn side by side,
and the counts are the same on any number of cores."""


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How many programs reached one thing."""

    dimension: str
    name: str
    count: int


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """What one campaign draws."""

    forms: tuple[Form, ...]
    target: str
    version: str
    seed: int
    programs: int


def campaigns_of(whole: Campaign) -> tuple[Campaign, ...]:
    """Cut a campaign into several; the first has its seed, those after it the next."""
    most = CAMPAIGN_PROGRAMS
    return tuple(
        replace(whole, seed=(whole.seed + number) % 2**64, programs=min(most, whole.programs - at))
        for number, at in enumerate(range(0, whole.programs, most))
    )


def measure_reach(campaigns: Sequence[Campaign], *, jobs: int, report: Report) -> tuple[Reach, ...]:
    """Draw programs as campaigns do, and count what they reach."""
    total = ProgramCoverage()
    for coverage in run_all(reached_by, campaigns, jobs=jobs, report=report):
        total.merge(coverage)
    return tuple(_reaches(total, campaigns[0].target, campaigns[0].version))


def reached_by(campaign: Campaign, report: Report, stopping: Stopping) -> ProgramCoverage:
    """Draw the programs of one campaign and count what they reach."""
    coverage = ProgramCoverage()
    rounds = campaign_rounds(
        campaign.forms,
        target=campaign.target,
        version=campaign.version,
        seed=campaign.seed,
        speed=Speed.INTERPRETED,
    )
    while coverage.programs < campaign.programs and not stopping():
        batches = next(rounds)[: campaign.programs - coverage.programs]
        for batch in batches:
            coverage.add(batch)
        report(len(batches))
    return coverage


def undrawn_forms(target: str, version: str) -> tuple[Form, ...]:
    """Return the forms of a target that no program is about, because nobody knows their values."""
    module = Module.named(target, version)
    return tuple(
        form
        for form in FORMS
        if form.is_main and is_available(form, module) and not is_valued(form, module)
    )


def _reaches(coverage: ProgramCoverage, target: str, version: str) -> Iterator[Reach]:
    """List what there is to reach, and how often it was: forms, features, classes of values."""
    module, left_out = Module.named(target, version), undrawn_forms(target, version)
    for form in FORMS:
        if is_available(form, module) and form not in left_out:
            count = coverage.counts["forms"][form.opcode]
            yield Reach(dimension=f"form of {form.mnemonic}", name=form.opcode, count=count)
    for feature in FEATURES.values():
        count = coverage.counts["features"][feature.value]
        yield Reach(dimension=feature.dimension.value, name=feature.value, count=count)
    for class_ in ValueClass:
        count = coverage.counts["classes"][class_]
        yield Reach(dimension="value class", name=class_.value, count=count)


@dataclass(frozen=True, kw_only=True)
class LinesTask:
    """One campaign with one thing wrong. It goes to other processes."""

    name: str
    guilty: tuple[str, ...]
    """Instructions, or other steps, of which a line has to name one."""
    choice: RunnerChoice
    seed: int
    images: int
    known: Known


@dataclass(frozen=True, kw_only=True)
class Lines:
    """What a campaign ended with."""

    name: str
    titles: tuple[str, ...]
    named: int
    """Lines that name something guilty."""
    known: int
    """Lines that were recognised as a known discrepancy."""
    flaky: int
    """Lines of what did not come out the same every time."""
    images: int
    seconds: tuple[float, ...]
    """Processor time to confirm, shrink and attribute each finding that was made smaller."""


class Silence:
    """Heartbeat that reports to nobody."""

    interrupted = False

    def enter(self, stage: Stage, *, round: int | None = None) -> None:  # noqa: A002
        """Say what is begun."""

    def count(self, cases: int) -> None:
        """Say that cases are done."""

    def beat(self) -> None:
        """Say that it goes on."""


def lines_of(task: LinesTask, report: Report, stopping: Stopping) -> Lines:
    """Run a campaign and return its lines."""
    check = Programs(choice=task.choice, seed=task.seed)
    with TemporaryDirectory() as folder, check.opened(Silence()) as opened_check:
        plan = check.plan(opened_check.facts)
        triage = Triage(
            corpus=create_corpus(Path(folder) / "corpus", generator="bench"),
            known=task.known,
            shrinks=plan.shrinks,
        )
        taken: dict[str, float] = {}
        seconds: list[float] = []
        images = number = 0
        reached = plan.coverage()
        while images < task.images and not stopping():
            job = RoundJob(
                number=number,
                plan=plan.round(number, reached),
                limit=task.images - images,
                settled=triage.settled,
            )
            done = opened_check.round(job)
            images, number = images + done.cases, number + 1
            reached.merge(done.coverage)
            for suspect in done.suspects.values():
                triage.suspect(suspect)
            while (examination := triage.next_job(SHRINK_SECONDS)) is not None:
                begun = time.process_time()
                examined = opened_check.examine(examination)
                triage.examined(examination, examined)
                triage.sweep()
                spent = time.process_time() - begun
                if examination.seconds is not None:
                    seconds.append(taken.get(examination.bucket.key, 0) + spent)
                taken[examined.bucket.key] = spent
            report(done.cases)
        groups = finding_groups(triage.members.values())
    return Lines(
        name=task.name,
        titles=tuple(group.title for group in groups),
        named=sum(
            any(name in group.shown.case.identity.text for name in task.guilty) for group in groups
        ),
        known=sum(group.known is not None for group in groups),
        flaky=sum(group.kind is Kind.FLAKY for group in groups),
        images=images,
        seconds=tuple(seconds),
    )
