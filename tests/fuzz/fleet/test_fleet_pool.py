"""A campaign on a fleet comes to the same as on one process, whatever dies on the way.

The cluster is one of this process (`fake_cluster`), and rounds are answered by nobody; the order in
which answers come, and what is lost with a node, is drawn. `test_ray_fleet` has real nodes.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster
from rich.console import Console
from value_runs import AnsweringPool

from corpus import create_corpus
from corpus.known import Known
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.pool import Broken, Event, Lost
from fuzz.campaign.status import (
    CampaignStatus,
    Life,
    WorkerStatus,
    read_figures,
    summary,
)
from fuzz.campaign.store import Budget, CampaignStore, decode
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import (
    Check,
    Facts,
    RoundJob,
    Stage,
)
from fuzz.console.report import watching
from fuzz.fleet import pool as fleet_pool
from fuzz.fleet.host import Begun, Host
from fuzz.fleet.pool import FleetPool
from fuzz.runner import RunnerChoice
from oracle.errors import DeviceLostError, InfrastructureError, UsageError
from strategies.rounds import ProgramCoverage

FACTS = Facts(target="sm_90", ptx_version="8.0", version="1", device="a device")
CHECK = Programs(choice=RunnerChoice(name="sim"), seed=1)
CASES = 8


def test_a_cluster_without_a_gpu_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet_pool, "_PLACE_SECONDS", 0.0)
    cluster = FakeCluster([], lambda node: Host(place=node))
    with (
        FleetPool(CHECK, cluster) as pool,
        pytest.raises(InfrastructureError, match="the cluster has no GPU that Ray sees"),
    ):
        pool.facts()


class Answering(AnsweringPool):
    """A pool whose answers come in any order, some of them late."""

    facts: Facts = FACTS

    def __init__(self, check: Check, *, workers: int) -> None:
        super().__init__()
        self.workers = workers
        self._chance = random.Random(2026)
        self._events: list[Event] = [self.facts]

    def poll(self, seconds: float) -> list[Event]:
        events, self._events = self._events, []
        for job in self._chance.sample(self._jobs, self._chance.randint(0, len(self._jobs))):
            self._jobs.remove(job)
            # The finding came with the job: the corpus is another host's.
            assert isinstance(job, RoundJob) or list(job.corpus.rglob(job.id))
            events.append(self.answered(job))
        return events

    def statuses(self) -> Sequence[WorkerStatus]:
        return [
            WorkerStatus(
                number=0, device="a device", round=3, stage=Stage.RUN, seconds=0.0, cases=8,
                stalled=False, shares={Stage.RUN: 1.0},
            )
        ]  # fmt: skip


def host_of(make_pool: type[Answering], host: str = "") -> Callable[[str], Host]:
    class Named(Host):
        def begin(self) -> Begun:
            begun = super().begin()
            return replace(begun, host=host or self.place, place="" if host else self.place)

    return lambda node: Named(place=node, node=node.removeprefix("node"), make_pool=make_pool)


class Watcher:
    """Does something to the cluster when so many rounds are committed."""

    def __init__(self, deeds: dict[int, Callable[[], None]]) -> None:
        self._deeds = dict(sorted(deeds.items()))

    def update(self, status: CampaignStatus) -> None:
        while self._deeds and status.rounds >= next(iter(self._deeds)):
            self._deeds.pop(next(iter(self._deeds)))()


def outcome(
    folder: Path, cluster: FakeCluster, deeds: dict[int, Callable[[], None]], rounds: int
) -> tuple[object, ...]:
    corpus = create_corpus(folder, generator="a test")
    with CampaignStore(corpus.path) as store, FleetPool(CHECK, cluster) as pool:
        campaign = Campaign(
            pool, pool.facts(), check=CHECK, budget=Budget(cases=rounds * CASES), corpus=corpus,
            known=Known(entries=()), observer=Watcher(deeds).update, store=store,
            state=store.load(),
        )  # fmt: skip
        status = campaign.run()
    families = {(one.bucket.key, one.cases, one.case.kind) for one in status.families}
    ids = sorted(entry.id for entry in corpus.entries())
    figures = (status.cases, status.compared, status.unasked, status.rounds, status.gone)
    return families, ids, figures, dict(status.skipped), campaign.plan.forms


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_pool, "_TEND_SECONDS", 0.0)
    monkeypatch.setattr("fuzz.fleet.host._TURN_SECONDS", 0.001)
    monkeypatch.setattr(fleet_pool, "_POLL_SECONDS", 0.002)


@pytest.mark.usefixtures("_quick")
def test_nodes_that_go_and_come_change_nothing(tmp_path: Path) -> None:
    alone = outcome(tmp_path / "alone", FakeCluster([1], host_of(Answering)), {}, 40)
    assert alone[2] == (320, 280, 40, 40, 0)
    cluster = FakeCluster([2, 1, 2], host_of(Answering), workers=2)
    chance = random.Random(2026)

    def change() -> None:
        node = chance.choice(sorted(cluster.nodes))
        places = cluster.nodes[node]
        cluster.remove(node)
        cluster.add(10 + len(cluster.actors), places)

    deeds = dict.fromkeys(range(5, 35, 3), change)
    assert outcome(tmp_path / "many", cluster, deeds, 40) == alone
    # The rounds that were lost with a node were given again, to others.
    assert len(cluster.actors) > 10


class Recording:
    """Keeps the lines that are printed and figures of the files, and removes and adds nodes."""

    def __init__(self, folder: Path, cluster: FakeCluster, tell: Any) -> None:
        self.folder, self.cluster, self.tell = folder, cluster, tell
        self.step = 0
        self.gone: list[dict[str, Any]] = []

    def update(self, status: CampaignStatus) -> None:
        assert status.cases or not status.recent_rate, "a rate of nothing"
        self.tell(status)
        missing = sum(one.nodes_missing for one in status.hosts)
        if self.step == 0 and status.rounds >= 10:
            self.step = 1
            for node in (0, 1, 2):
                self.cluster.remove(node)
        elif self.step == 1 and missing == 3:
            self.step = 2
        elif self.step == 2:
            # A tick later, so that it is in the files.
            self.step = 3
            self.gone = read_figures(self.folder).rows["summary"]["fleet"]["hosts"]
            for node in (0, 1, 2):
                self.cluster.add(node, 1)


@pytest.mark.usefixtures("_quick")
def test_nodes_that_are_gone_and_back_are_told_of(tmp_path: Path) -> None:
    cluster = FakeCluster([1, 1, 1, 1], host_of(Answering))
    corpus = create_corpus(tmp_path, generator="a test")
    out = Console(file=StringIO(), width=200)
    with watching(json=False, out=out) as tell, FleetPool(CHECK, cluster) as pool:
        watcher = Recording(corpus.path, cluster, tell)
        status = Campaign(
            pool, pool.facts(), check=CHECK, budget=Budget(cases=40 * CASES), corpus=corpus,
            known=Known(entries=()), observer=watcher.update, store=CampaignStore(corpus.path),
        ).run()  # fmt: skip
    assert sum(one["nodes_missing"] for one in watcher.gone) == 3
    log = out.file.getvalue()
    for node, host in enumerate(("node0", "node1", "node2")):
        assert f"node {host} ({node}) is gone, and 1 actor with it: it was unplugged\n" in log
        assert re.search(rf"UTC: node {host} \({node}\) is back after \d s\n", log)
        assert f"actor on {host} {host} ({node}) is gone: its node died\n" in log
        assert f"actor on {host} {host} ({node}) is back\n" in log
    fleet = summary(status)["fleet"]
    assert (fleet["nodes"], fleet["nodes_lost"], fleet["nodes_back"]) == (4, 3, 3)
    state = decode((corpus.path / "campaign" / "state.json").read_bytes())
    assert (state.hosts["node1"].nodes_lost, len(state.events)) == (1, 12)


@pytest.mark.usefixtures("_quick")
def test_a_campaign_whose_cluster_is_gone_says_so_in_its_files_and_is_resumed(
    tmp_path: Path,
) -> None:
    cluster = FakeCluster([1, 1], host_of(Answering))

    def gone() -> int:
        raise InfrastructureError("the Ray cluster is gone")

    def go() -> None:
        cluster.places = gone  # type: ignore[method-assign]

    folder = tmp_path / "fleet"
    with pytest.raises(InfrastructureError, match="the Ray cluster is gone"):
        outcome(folder, cluster, {5: go}, 16)
    figures = read_figures(folder)
    assert (figures.life, figures.status.stopped) == (Life.ENDED, "the Ray cluster is gone")
    assert figures.status.rounds >= 5
    resumed = outcome(folder, FakeCluster([1], host_of(Answering)), {}, 16)
    assert resumed == outcome(tmp_path / "alone", FakeCluster([1], host_of(Answering)), {}, 16)


class Broke(Answering):
    """A pool whose GPU does not pass its self-check."""

    def __init__(self, check: Check, *, workers: int) -> None:
        super().__init__(check, workers=0)
        message = "the device does not multiply two ones"
        self._events = [Broken(cause=DeviceLostError, message=message)]


@pytest.mark.usefixtures("_quick")
def test_a_device_that_fails_its_self_check_is_left_out_and_named(tmp_path: Path) -> None:
    hosts = {"node0": host_of(Broke), "node1": host_of(Answering)}
    cluster = FakeCluster([1, 1], lambda node: hosts[node](node))
    corpus = create_corpus(tmp_path, generator="a test")
    with FleetPool(CHECK, cluster) as pool:
        campaign = Campaign(
            pool, pool.facts(), check=CHECK, budget=Budget(cases=40), corpus=corpus,
            known=Known(entries=()), observer=Watcher({}).update, store=CampaignStore(corpus.path),
        )  # fmt: skip
        status = campaign.run()
    assert status.cases == 40
    (remark,) = status.remarks
    assert "node0" in remark
    assert "self" in remark or "multiply" in remark
    assert [one.host for one in status.devices] == ["node1"]


@pytest.mark.usefixtures("_quick")
def test_other_code_on_a_host_is_refused() -> None:
    class Older(Host):
        def begin(self) -> Begun:
            return replace(super().begin(), code="warpfuzz 0.0 (0) on Python 3.9")

    with (
        FleetPool(CHECK, FakeCluster([1], lambda node: Older(place=node))) as pool,
        pytest.raises(UsageError, match=r"warpfuzz 0\.0 \(0\) on Python 3\.9"),
    ):
        pool.facts()


class Elsewhere(Answering):
    facts = replace(FACTS, target="sm_80")


@pytest.mark.usefixtures("_quick")
def test_a_device_of_another_target_takes_no_part() -> None:
    hosts = {"node0": host_of(Answering), "node1": host_of(Elsewhere)}
    with FleetPool(CHECK, FakeCluster([1, 1], lambda node: hosts[node](node))) as pool:
        first = pool.facts()
        for _ in range(10):
            pool.poll(0.0)
        assert pool.workers == 1
        (remark,) = pool.remarks
        assert {"sm_80", "sm_90"} <= set(remark.replace(",", " ").split())
        assert first.target in ("sm_80", "sm_90")


@pytest.mark.usefixtures("_quick")
def test_a_round_that_takes_every_node_along_is_skipped_in_the_end() -> None:
    cluster = FakeCluster([1], host_of(Answering))
    with FleetPool(CHECK, cluster) as pool:
        drawn = CHECK.plan(pool.facts()).round(0, ProgramCoverage())
        verdicts = []
        while len(verdicts) < fleet_pool._JOB_DEATHS:
            while not pool.places_for_rounds():
                pool.poll(0.0)
            pool.give(RoundJob(number=0, plan=drawn))
            cluster.actors[-1].gone = "its node died"
            while not (lost := [one for one in pool.poll(0.0) if isinstance(one, Lost)]):
                pass
            verdicts.append(lost[0].guilty)
    assert verdicts == [False] * (fleet_pool._JOB_DEATHS - 1) + [True]


@pytest.mark.usefixtures("_quick")
def test_actors_that_cannot_begin_end_it_with_what_was_said() -> None:
    class Absent(Host):
        def begin(self) -> Begun:
            raise AssertionError

    cluster = FakeCluster([1], lambda node: Absent())
    original = cluster.wait

    def wait(calls: Sequence[object], seconds: float) -> list[object]:
        for call in calls:
            call.actor.gone = "No module named 'fuzz'"  # type: ignore[attr-defined]
        return original(calls, seconds)  # type: ignore[arg-type, return-value]

    cluster.wait = wait  # type: ignore[method-assign, assignment]
    with FleetPool(CHECK, cluster) as pool, pytest.raises(InfrastructureError, match="No module"):
        pool.facts()


def test_without_ray_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "fuzz.fleet.ray_cluster", raising=False)
    with pytest.raises(UsageError, match=r"\.\[fleet\]. in the clone"):
        fleet_pool.cluster_at("auto", gpus=False, workers=None)
