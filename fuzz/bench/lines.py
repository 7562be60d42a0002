"""The lines that a campaign with one planted fault ends with, and whether they name the culprit.

It is the campaign itself, in one process: its rounds, its examinations and its triage. Only what
changes no line is left out: findings are not made smaller.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from corpus import Kind, create_corpus
from corpus.known import Known
from fuzz.bench.pooling import Report, Stopping
from fuzz.campaign.triage import Triage
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import RoundJob, Stage
from fuzz.findings.families import finding_groups
from fuzz.runner import RunnerChoice
from runners.faults import by_name


@dataclass(frozen=True, kw_only=True)
class LinesTask:
    """One campaign. It goes to other processes."""

    fault: str
    target: str
    version: str
    seed: int
    images: int
    known: Known


@dataclass(frozen=True, kw_only=True)
class Lines:
    """What a campaign ended with."""

    fault: str
    titles: tuple[str, ...]
    named: int
    """Lines that name an instruction that the fault touches."""
    known: int
    """Lines that are taken for a known discrepancy."""
    flaky: int
    """Lines of what did not come out the same every time."""
    images: int
    """Images that were run."""


class _Silence:
    """Nobody watches."""

    interrupted = False

    def enter(self, stage: Stage, *, round: int | None = None) -> None:  # noqa: A002
        pass

    def count(self, cases: int) -> None:
        pass

    def beat(self) -> None:
        pass


def lines_of(task: LinesTask, report: Report, stopping: Stopping) -> Lines:
    """Run a campaign on the simulated device and return its lines.

    Raises
    ------
    WarpfuzzError
        As a campaign does.
    """
    choice = RunnerChoice(
        name="sim", target=task.target, ptx_version=task.version, faults=(task.fault,)
    )
    check = Programs(choice=choice, seed=task.seed)
    with TemporaryDirectory() as folder, check.opened(_Silence()) as trier:
        drawing = check.drawing(trier.facts)
        triage = Triage(
            corpus=create_corpus(Path(folder) / "corpus", generator="bench"),
            known=task.known,
            shrinks=lambda case: False,
        )
        images = number = 0
        reached = drawing.coverage()
        while images < task.images and not stopping():
            job = RoundJob(
                number=number,
                drawn=drawing.round(number, reached),
                limit=task.images - images,
                settled=triage.settled,
            )
            done = trier.round(job)
            images, number = images + done.cases, number + 1
            reached.merge(done.coverage)
            for suspect in done.suspects.values():
                triage.suspect(suspect)
            while (examination := triage.next_job(0, shrinking=False)) is not None:
                triage.examined(examination, trier.examine(examination))
            report(images, task.images - images)
        groups = finding_groups(triage.families.values())
    guilty = by_name(task.fault).guilty
    return Lines(
        fault=task.fault,
        titles=tuple(group.title for group in groups),
        named=sum(any(name in group.shown.key for name in guilty) for group in groups),
        known=sum(group.known is not None for group in groups),
        flaky=sum(group.kind is Kind.FLAKY for group in groups),
        images=images,
    )
