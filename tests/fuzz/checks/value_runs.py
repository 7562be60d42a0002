"""Campaigns on values, in this process: one who carries out jobs at once, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from corpus import Case, Entry, Identity, Kind, Making, RunnerVerdict, create_corpus, open_corpus
from corpus.known import Known
from fuzz.campaign import campaign as coordinator
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.pool import (
    Broken,
    Event,
    RoundEnd,
    WorkerHeartbeat,
    WorkerPool,
    carry_out,
    shared_heartbeats,
)
from fuzz.campaign.status import CampaignStatus, WorkerStatus
from fuzz.campaign.store import Budget, CampaignStore
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import DeviceStatus, Found, FoundState, Job, RoundJob, RoundReport
from fuzz.findings.case import ReplayOptions
from fuzz.findings.families import Bucket
from fuzz.findings.replay import Replays
from fuzz.runner import OpenRunner, RunnerChoice, opened
from oracle.errors import DeviceLostError
from strategies.draws import Selection
from strategies.rounds import ProgramCoverage

# Seconds by the clock, of which a busy machine gives a core few.
coordinator.SHRINK_SECONDS = 600.0


class Nobody:
    """Watches nothing."""

    def update(self, status: object) -> None: ...


class FakePool(WorkerPool):
    """A pool of nobody, of whom there is nothing to be said."""

    workers = 1

    def interrupt(self) -> None: ...

    def statuses(self) -> Sequence[WorkerStatus]:
        return ()

    def close(self) -> None: ...


FAMILIES = 12


def found(number: int, *, complexity: int = 9) -> Found:
    """What some round finds that nobody has carried out: one of so many families."""
    name = f"family {number % FAMILIES}"
    case = Case(
        kind=Kind.VIOLATION, identity=Identity(failure="wrong result", instructions=(name,)),
        instructions=(f"wmma.{number % FAMILIES}.{complexity};",), target="sm_90",
        ptx_version="8.0", complexity=complexity, made=Making(runner="sim"),
        runners=(RunnerVerdict(runner="sim", version="1", outcome="violation"),),
    )  # fmt: skip
    return Found(
        bucket=Bucket(kind=case.kind, identity=case.identity),
        case=case,
        files={"module.ptx": name.encode()},
    )


class AnsweringPool(FakePool):
    """Whose rounds are answered by nobody: every so many-th has found something."""

    cases = 8
    """Of a round."""
    finds = 5

    def __init__(self) -> None:
        super().__init__()
        self._jobs: list[Job] = []

    def places_for_rounds(self) -> int:
        return self.workers - sum(isinstance(job, RoundJob) for job in self._jobs)

    def places_for_examinations(self, waiting: int = 1, *, everybody: bool) -> int:
        return 1 - sum(not isinstance(job, RoundJob) for job in self._jobs)

    def give(self, job: Job) -> None:
        self._jobs.append(job)

    def answered(self, job: Job) -> Event:
        if not isinstance(job, RoundJob):
            number = int(job.bucket.identity.instructions[0].split()[1])
            one = found(number, complexity=9 if job.seconds is None else 1)
            return RoundEnd(job=job, report=replace(one, state=FoundState.REPLAYED))
        size = self.cases - job.skip
        report = RoundReport(
            number=job.number, skip=job.skip, complete=True, cases=size, compared=size - 1,
            unasked=1, coverage=ProgramCoverage(),
            health=DeviceStatus(name="a GPU", uuid="GPU-1"),
        )  # fmt: skip
        report.coverage.programs = 1
        if job.number % self.finds == 0:
            one = found(job.number // self.finds)
            key = one.bucket.key
            report.suspects[key] = Found(bucket=one.bucket) if key in job.settled else one
        return RoundEnd(job=job, report=report)


class LocalPool(FakePool):
    """One worker in this process, who goes when the device does."""

    def __init__(self, ready: OpenRunner, check: Programs) -> None:
        super().__init__()
        opened_check = check.on_runner(ready, WorkerHeartbeat(shared_heartbeats(1), 0), ExitStack())
        self.facts, self._check = opened_check.facts, opened_check
        self._job: Job | None = None

    def places_for_rounds(self) -> int:
        return int(self._job is None and self.workers)

    def places_for_examinations(self, waiting: int = 1, *, everybody: bool) -> int:
        return self.places_for_rounds()

    def give(self, job: Job) -> None:
        assert self._job is None
        self._job = job

    def poll(self, seconds: float) -> list[Event]:
        job, self._job = self._job, None
        if job is None:
            return []
        report = carry_out(self._check, job)
        events: list[Event] = [RoundEnd(job=job, report=report)]
        if report.lost:
            self.workers = 0
            events.append(Broken(cause=DeviceLostError, message=report.lost))
        return events


def campaign(
    ready: OpenRunner,
    folder: Path,
    *,
    cases: int,
    seed: int = 1,
    only: str = "*",
    images: int | None = None,
    reference: bool = False,
    resumed: bool = False,
) -> Campaign:
    check = Programs(
        choice=ready.choice,
        seed=seed,
        selection=Selection(pattern=only),
        images=images,
        reference=reference,
    )
    pool = LocalPool(ready, check)
    corpus = create_corpus(folder, generator="test")
    store = CampaignStore(corpus.path)
    return Campaign(
        pool,
        pool.facts,
        check=check,
        budget=Budget(cases=cases),
        corpus=corpus,
        known=Known(entries=()),
        observer=Nobody().update,
        store=store,
        state=store.load() if resumed else None,
    )


def run(
    folder: Path,
    *,
    cases: int,
    seed: int = 1,
    only: str = "*",
    images: int | None = None,
    **planted: Any,
) -> CampaignStatus:
    """Run a campaign on the simulated device."""
    with opened(RunnerChoice(name="sim", layout=seed % 2, **planted)) as ready:
        return campaign(ready, folder, cases=cases, seed=seed, only=only, images=images).run()


def entries(folder: Path) -> list[Entry]:
    problems: list[object] = []
    found = list(open_corpus(folder).entries(problems.append))
    assert not problems
    return found


def replayed(folder: Path, *, times: int = 2, **options: Any) -> dict[str, str]:
    """Return the verdict of each finding of a corpus, by id."""
    with Replays(ReplayOptions(**options)) as replays:
        return {entry.id: replays.replay(entry, times=times).verdict for entry in entries(folder)}
