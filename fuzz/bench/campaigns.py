"""Coverage of drawn programs without running them, and the report of a campaign with a fault."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from corpus import Kind, create_corpus
from corpus.known import Known
from fuzz.bench import Report, run_all
from fuzz.campaign.campaign import SHRINK_SECONDS
from fuzz.campaign.triage import Triage
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import RoundJob, Stage
from fuzz.findings.families import finding_groups
from fuzz.runner import RunnerChoice
from oracle.isa.forms import Form
from oracle.isa.lookup import FORMS, is_available
from oracle.isa.targets import Module
from strategies.contents import ValueClass
from strategies.coverage import ProgramCoverage
from strategies.features import FEATURES
from strategies.programs import is_valued
from strategies.rounds import Speed, campaign_rounds

CAMPAIGN_PROGRAMS = 1250
"""Programs of one campaign. Several are counted together, so that they can be drawn side by side,
and the counts are the same on any number of cores."""


Row = dict[str, Any]
"""What is said of one thing, as JSON has it."""


@dataclass(frozen=True, kw_only=True)
class CountedCampaign:
    """What one campaign draws."""

    forms: tuple[Form, ...]
    target: str
    version: str
    seed: int
    programs: int


def measure_reach(whole: CountedCampaign, *, jobs: int, report: Report) -> list[Row]:
    """Draw programs as campaigns do, `CAMPAIGN_PROGRAMS` each, and count what they reach.

    The first campaign has the seed, those after it the next. Returns the "dimension" and "name" of
    each thing that there is to reach (forms, features, classes of values) and how many "programs"
    reached it.
    """
    most, total = CAMPAIGN_PROGRAMS, ProgramCoverage()
    campaigns = [
        replace(whole, seed=(whole.seed + number) % 2**64, programs=min(most, whole.programs - at))
        for number, at in enumerate(range(0, whole.programs, most))
    ]
    for coverage in run_all(reached_by, campaigns, jobs=jobs, report=report):
        total.merge(coverage)
    module = Module.named(whole.target, whole.version)
    left_out = undrawn_forms(whole.target, whole.version)
    counts = total.counts
    reached = [
        (f"form of {form.mnemonic}", form.opcode, counts["forms"][form.opcode])
        for form in FORMS
        if is_available(form, module) and form not in left_out
    ]
    reached += [
        (feature.dimension.value, feature.value, counts["features"][feature.value])
        for feature in FEATURES.values()
    ]
    reached += [("value class", one.value, counts["classes"][one]) for one in ValueClass]
    return [dict(zip(("dimension", "name", "programs"), one, strict=True)) for one in reached]


def reached_by(campaign: CountedCampaign) -> ProgramCoverage:
    """Draw the programs of one campaign and count what they reach."""
    coverage = ProgramCoverage()
    rounds = campaign_rounds(
        campaign.forms, target=campaign.target, version=campaign.version, seed=campaign.seed,
        speed=Speed.INTERPRETED,
    )  # fmt: skip
    while coverage.programs < campaign.programs:
        for batch in next(rounds)[: campaign.programs - coverage.programs]:
            coverage.add(batch)
    return coverage


def undrawn_forms(target: str, version: str) -> tuple[Form, ...]:
    """Return the forms of a target that no program is about, because nobody knows their values."""
    module = Module.named(target, version)
    return tuple(
        form
        for form in FORMS
        if form.is_main and is_available(form, module) and not is_valued(form, module)
    )


@dataclass(frozen=True, kw_only=True)
class LinesTask:
    """One campaign with one thing wrong. It goes to other processes."""

    name: str
    guilty: tuple[str, ...]  # instructions, or other steps, of which a line has to name one
    choice: RunnerChoice
    seed: int
    images: int
    known: Known


class Silence:
    """Heartbeat that reports to nobody."""

    interrupted = False

    def enter(self, stage: Stage, *, round: int | None = None) -> None:  # noqa: A002
        """Say what is begun."""

    def count(self, cases: int) -> None:
        """Say that cases are done."""

    def beat(self) -> None:
        """Say that it goes on."""


def lines_of(task: LinesTask) -> Row:
    """Run a campaign and return what its lines are.

    That are the "titles", the lines that were "known" or "flaky", whether all of them "named"
    something guilty, and the processor "seconds" to confirm, shrink and attribute each finding.
    """
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
        while images < task.images:
            left, asked = task.images - images, plan.round(number, reached)
            job = RoundJob(number=number, plan=asked, limit=left, settled=triage.settled)
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
        groups = finding_groups(triage.members.values())
    told = [group.shown.case.identity.text for group in groups]
    return {
        "name": task.name,
        "found": bool(groups),
        "cases": images,
        "lines": len(groups),
        "titles": [group.title for group in groups],
        "known": sum(group.known is not None for group in groups),
        "flaky": sum(group.kind is Kind.FLAKY for group in groups),
        "named": bool(told) and all(any(one in text for one in task.guilty) for text in told),
        "seconds": [round(taken, 3) for taken in seconds],
    }
