"""A campaign that runs for weeks: what its coordinator keeps does not grow with the rounds."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from types import FunctionType, MethodType, ModuleType

import pytest

from corpus import create_corpus
from corpus.known import Known
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.pool import Event, Finished
from fuzz.campaign.status import CampaignStatus, WorkerStatus
from fuzz.campaign.store import Budget, CampaignStore
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import Facts, Job, RoundJob, RoundReport
from fuzz.runner import RunnerChoice
from strategies.coverage import ProgramCoverage
from strategies.draws import Selection
from strategies.rounds import round_batches, round_key, selected_forms

FACTS = Facts(target="sm_90", ptx_version="8.0", version="1", device="nothing")
PATTERN = "*m8n8k4*"
EPOCH = 256
SETTLED = 3 * EPOCH
"""From here on, the coverage of as many rounds is kept after each of the longest epochs."""


class Instant:
    """A pool that answers every round at once, with what some round has reached."""

    workers = 1

    def __init__(self) -> None:
        forms = selected_forms(Selection(pattern=PATTERN), target="sm_90", version="8.0")
        self._jobs: list[Job] = []
        self._reached = [ProgramCoverage() for _ in range(4)]
        for n, reached in enumerate(self._reached):
            key = round_key(1, n)
            for batch in round_batches(forms, target="sm_90", version="8.0", key=key, count=8):
                reached.add(batch)

    def places_for_rounds(self) -> int:
        return 1 - len(self._jobs)

    def places_for_examinations(self, *, everybody: bool) -> int:
        return 0

    def give(self, job: Job) -> None:
        self._jobs.append(job)

    def poll(self, seconds: float) -> list[Event]:
        (job,), self._jobs = self._jobs, []
        assert isinstance(job, RoundJob)
        reached = ProgramCoverage()
        reached.merge(self._reached[job.number % 4])
        report = RoundReport(
            number=job.number, skip=0, complete=True, cases=64, compared=64,
            coverage=reached,
        )  # fmt: skip
        return [Finished(job=job, report=report)]

    def interrupt(self) -> None:
        """Nothing goes on."""

    def remarks(self) -> Sequence[str]:
        return ()

    def statuses(self) -> Sequence[WorkerStatus]:
        return []

    def close(self) -> None:
        """Nothing is open."""


class Looker:
    """Counts what a campaign holds when so many rounds are done."""

    def __init__(self, rounds: Sequence[int]) -> None:
        self._left = list(rounds)
        self.counts: list[int] = []
        self.campaign: Campaign | None = None

    def update(self, status: CampaignStatus) -> None:
        if self._left and status.rounds >= self._left[0]:
            self._left.pop(0)
            assert self.campaign is not None
            # What was saved last is kept, and is as large as at that moment.
            self.campaign.save()
            self.counts.append(_held(self.campaign))


_LEFT_OUT = type, ModuleType, FunctionType, MethodType, Looker, int, float
"""What leads out of a campaign to everything else; and numbers, of which small ones are shared."""


def _held(root: object) -> int:
    """Return how many objects can be reached from one."""
    seen = {id(root): root}
    new = [root]
    while new:
        found = gc.get_referents(*new)
        new = []
        for one in found:
            if id(one) not in seen and not isinstance(one, _LEFT_OUT):
                seen[id(one)] = one
                new.append(one)
    return len(seen)


def test_the_coordinator_keeps_no_more_after_many_rounds_than_after_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Looks at the rate of the last ten seconds, which is longer than this takes.
    monkeypatch.setattr("fuzz.campaign.campaign._RECENT_SECONDS", 0.01)
    corpus = create_corpus(tmp_path / "corpus", generator="test")
    looks = [SETTLED, SETTLED + EPOCH, SETTLED + 2 * EPOCH]
    looker = Looker(looks)
    with CampaignStore(corpus.path) as store:
        campaign = Campaign(
            Instant(), FACTS, check=Programs(
                choice=RunnerChoice(name="sim"), seed=1, selection=Selection(pattern=PATTERN)
            ),
            budget=Budget(cases=64 * looks[-1] + 64), corpus=corpus, known=Known(entries=()),
            observer=looker, store=store,
        )  # fmt: skip
        looker.campaign = campaign
        campaign.run()
    first, second, third = looker.counts
    # An entry for each round would be 256 of them.
    assert third - second < EPOCH // 2
    assert second - first < EPOCH // 2
