"""A round that two devices carry out comes to the same, or to a finding that names both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fake_cluster import FakeCluster
from test_fleet_pool import CHECK, Answering, host_of

from corpus import Kind
from fuzz.campaign.pool import RoundEnd, WorkerHeartbeat, shared_heartbeats
from fuzz.checks.programs import ProgramCoverage, Programs
from fuzz.checks.protocol import Found, FoundState, Outcomes, RoundJob, RoundReport
from fuzz.commands import run
from fuzz.findings.families import Bucket
from fuzz.fleet import pool as fleet_pool
from fuzz.fleet.pool import FleetPool
from fuzz.options.testing import Run
from fuzz.runner import RunnerChoice
from strategies.draws import Selection


def carried_out(*faults: str, **asked: Any) -> RoundReport:
    check = Programs(
        choice=RunnerChoice(name="sim", faults=faults),
        seed=5,
        selection=Selection(pattern="*m8n8k4*"),
        images=1,
    )
    with check.opened(WorkerHeartbeat(shared_heartbeats(1), 0)) as opened_check:
        drawn = check.plan(opened_check.facts).round(0, ProgramCoverage())
        return opened_check.round(RoundJob(number=0, plan=drawn, **asked))


def test_two_devices_that_disagree_are_a_finding_that_names_both() -> None:
    first = carried_out(summed=True, device="GPU 0 of a")
    outcomes = first.outcomes
    assert outcomes is not None
    assert len(outcomes.sums) == first.cases > 0
    again = carried_out(against=outcomes, device="GPU 3 of b")
    assert again.disagreement is None
    other = carried_out("store-one-row-off", against=outcomes, device="GPU 3 of b")
    found = other.disagreement
    assert found is not None
    assert found.state is FoundState.REPLAYED
    assert "GPU 0 of a and GPU 3 of b" in found.bucket.key
    assert found.case is not None
    assert found.case.kind is Kind.FLAKY
    assert "GPU 3 of b does not agree with the oracle" in found.case.details["devices"]


class Summing(Answering):
    """A pool that has sums of what its device made, all of them the same."""

    def answered(self, job: Any) -> Any:
        event = super().answered(job)
        if isinstance(job, RoundJob):
            report = event.report
            if job.summed or job.against is not None:
                report.outcomes = Outcomes(device=job.device, sums=np.zeros(8, np.uint32))
            if job.against is not None and job.number == 3:
                again = super().answered(replace(job, number=5))
                (suspect,) = again.report.suspects.values()
                title = f"{job.against.device} and {job.device}"
                suspect.bucket = Bucket.of(Kind.FLAKY, title)
                report.disagreement = suspect
        return event


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_fleet_repeats_rounds_on_another_actor_and_counts_them_once(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_pool, "_POLL_SECONDS", 0.002)
    cluster = FakeCluster([1, 1], host_of(Summing))
    finished, noticed = [], []
    with FleetPool(CHECK, cluster, repeat=share) as pool:
        plan = CHECK.plan(pool.facts())
        number = 0
        for _ in range(80):
            for _ in range(pool.places_for_rounds()):
                if number < 8:
                    pool.give(RoundJob(number=number, plan=plan.round(0, ProgramCoverage())))
                    number += 1
            for event in pool.poll(0.0):
                if isinstance(event, RoundEnd):
                    assert isinstance(event.report, RoundReport)
                    assert event.report.outcomes is None
                    finished.append(event.report.number)
                elif isinstance(event, Found):
                    noticed.append(*event.bucket.identity.instructions)
    assert sorted(finished) == list(range(8))
    assert len(noticed) == int(share)
    for title in noticed:
        assert set(title.split(" and ")) == {"node0 node0", "node1 node1"}


def test_the_share_is_asked_for_in_per_cent(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}
    monkeypatch.setattr(run, "cluster_at", lambda *_, **options: FakeCluster([1], host_of))
    monkeypatch.setattr(run, "FleetPool", lambda check, cluster, **options: asked.update(options))
    run._pool(CHECK, Run(fleet="here:1", repeat=25.0, runner="sim"), lambda text: None)
    assert asked == {"repeat": 0.25}
