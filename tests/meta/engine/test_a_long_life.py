"""A day of rounds with findings, deaths of workers and full disks: nothing grows.

Rounds are answered at once, by nobody; all else is a campaign's own: its order of rounds, its
triage, its corpus and its state, which is resumed after each full disk. It prints what it saw:

pytest -m slow -s tests/meta/engine/test_a_long_life.py
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from value_runs import AnsweringPool

from corpus import create_corpus, durable
from corpus.known import Known
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.pool import Event, Lost, RoundEnd
from fuzz.campaign.status import CampaignStatus
from fuzz.campaign.store import Budget, CampaignStore
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import Facts, Found, FoundState, Job, RoundJob
from fuzz.runner import RunnerChoice
from oracle.errors import InfrastructureError
from strategies.draws import Selection

FACTS = Facts(target="sm_90", ptx_version="8.0", version="1", device="nothing")
CASES = 8
"""Of a round; one round a second makes a day."""
ROUNDS = int(os.environ.get("LONG_LIFE_ROUNDS", "86400"))


class Rough(AnsweringPool):
    """A pool that answers at once, and of which somebody dies now and then over anything.

    Every eighth family does not happen again.
    """

    workers = 2
    finds = 20
    _given = 0

    def poll(self, seconds: float) -> list[Event]:
        jobs, self._jobs = self._jobs, []
        return [self._event(job) for job in jobs]

    def _event(self, job: Job) -> Event:
        self._given += 1
        if self._given % 97 == 0:
            return Lost(job=job, how="was killed by SIGKILL", guilty=True)
        if not isinstance(job, RoundJob) and job.seconds is None:
            number = int(job.bucket.identity.instructions[0].split()[1])
            if number % 8 == 0:
                return RoundEnd(job=job, report=Found(bucket=job.bucket, state=FoundState.GONE))
        return self.answered(job)


@dataclass
class Looker:
    """Looks at memory, files and descriptors when so many rounds are done."""

    folder: Path
    left: list[int]
    looks: list[tuple[int, int, int]] = field(default_factory=list)

    def update(self, status: CampaignStatus) -> None:
        if self.left and status.rounds >= self.left[0]:
            self.left.pop(0)
            process = psutil.Process()
            files = sum(path.is_file() for path in self.folder.rglob("*"))
            self.looks.append((process.memory_info().rss >> 10, files, process.num_fds()))


@pytest.fixture
def full_disks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every 211th file finds no room; the list has one number for each."""
    times: list[int] = []
    written = 0
    write = durable.write_file

    def full(path: Path, data: bytes) -> None:
        nonlocal written
        written += 1
        if written % 211 == 0:
            times.append(written)
            with suppress(OSError):
                write(path, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, data)

    monkeypatch.setattr(durable, "write_file", full)
    # What a campaign of a day saves every 2 s, this one saves in every round or second round.
    monkeypatch.setattr("fuzz.campaign.campaign._SAVE_SECONDS", 0.0)
    monkeypatch.setattr("fuzz.campaign.campaign._STATISTICS_SECONDS", 0.1)
    return times


@pytest.mark.parametrize(
    "rounds", [600, pytest.param(ROUNDS, marks=pytest.mark.slow)], ids=lambda n: f"{n} rounds"
)
def test_a_campaign_of_many_rounds_holds_no_more_at_its_end(
    rounds: int, tmp_path: Path, full_disks: list[int]
) -> None:
    looker = Looker(tmp_path, [rounds // 2, rounds * 3 // 4, rounds - 1])
    status = None
    while status is None:
        pool = Rough()
        corpus = create_corpus(tmp_path / "corpus", generator="test")
        with CampaignStore(corpus.path) as store:
            state = store.load()
            campaign = Campaign(
                pool, FACTS, check=Programs(
                    choice=RunnerChoice(name="sim"), seed=1, selection=Selection(pattern="*m8n8k4*")
                ),
                budget=Budget(cases=rounds * CASES), corpus=corpus, known=Known(entries=()),
                observer=looker.update, store=store, state=state,
            )  # fmt: skip
            with suppress(InfrastructureError):
                campaign.run()
                status = campaign.status()
            if campaign.status().skipped:
                status = campaign.status()
    print(f"\n{rounds} rounds, {len(full_disks)} full disks; KiB, files, descriptors:")
    for look in looker.looks:
        print(f"  {look}")
    assert status.rounds == rounds
    assert status.cases == rounds * CASES
    assert len(full_disks) > 1
    half, _, end = looker.looks
    assert end[0] - half[0] < 8 << 10, "KiB of resident memory"
    assert end[1] - half[1] <= 4, "files"
    assert end[2] - half[2] <= 1, "descriptors"
    assert not list(tmp_path.rglob(".tmp-*"))
