"""A campaign on a fleet comes to the same as on one process, whatever dies on the way.

The cluster is one of this process (`fake_cluster`), and rounds are answered by nobody; the order in
which answers come, and what is lost with a node, is drawn. `test_ray_fleet` has real nodes.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_cluster import FakeCluster

from corpus import Case, Family, Kind, RunnerVerdict, create_corpus
from corpus.known import Known
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.crew import Event, Finished, GaveUp, Lost, Opened
from fuzz.campaign.heartbeat import Blame, Broken
from fuzz.campaign.rounds import Budget
from fuzz.campaign.status import CampaignStatus, WorkerStatus
from fuzz.campaign.store import CampaignStore
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import (
    Check,
    ConfirmJob,
    DeviceStatus,
    Examined,
    Facts,
    Job,
    RoundJob,
    RoundReport,
    Stage,
    Stored,
    Suspect,
)
from fuzz.commands.run import _devices
from fuzz.fleet import crew as fleet_crew
from fuzz.fleet.crew import FleetCrew
from fuzz.fleet.host import Begun, Code, Host
from fuzz.runner import RunnerChoice
from oracle.errors import DeviceLostError, InfrastructureError, UsageError
from strategies.program_coverage import ProgramCoverage

FACTS = Facts(target="sm_90", ptx_version="8.0", version="1", device="a device")
CHECK = Programs(choice=RunnerChoice(name="sim"), seed=1)
CASES, FAMILIES = 8, 12


def found(number: int, *, complexity: int = 9) -> Stored:
    name = f"family {number % FAMILIES}"
    case = Case(
        kind=Kind.VIOLATION, family=Family(key=name, title=name),
        instructions=(f"wmma.{number % FAMILIES}.{complexity};",), target="sm_90",
        ptx_version="8.0", complexity=complexity, details={"runner": "sim"},
        runners=(RunnerVerdict(runner="sim", version="1", outcome="violation"),),
    )  # fmt: skip
    return Stored(case=case, files={"module.ptx": name.encode()})


def report_of(job: RoundJob) -> RoundReport:
    size = CASES - job.skip
    report = RoundReport(
        number=job.number, skip=job.skip, complete=True, cases=size, compared=size - 1, unasked=1,
        coverage=ProgramCoverage(), health=DeviceStatus(name="a GPU", uuid="GPU-1"),
    )  # fmt: skip
    report.coverage.programs = 1
    if job.number % 5 == 0:
        stored = found(job.number // 5)
        family = stored.case.family
        report.suspects[family.key] = Suspect(
            family=family,
            kind=Kind.VIOLATION,
            cases=1,
            stored=None if family.key in job.settled else stored,
        )
    return report


class Answering:
    """A crew whose answers come in any order, some of them late."""

    facts: Facts = FACTS

    def __init__(self, check: Check, *, workers: int) -> None:
        self.workers = workers
        self._chance = random.Random(2026)
        self._jobs: list[Job] = []
        self._events: list[Event] = [Opened(facts=self.facts)]

    def places_for_rounds(self) -> int:
        return self.workers - sum(isinstance(job, RoundJob) for job in self._jobs)

    def places_for_examinations(self, *, everybody: bool) -> int:
        return 1 - sum(not isinstance(job, RoundJob) for job in self._jobs)

    def give(self, job: Job) -> None:
        self._jobs.append(job)

    def poll(self, seconds: float) -> list[Event]:
        events, self._events = self._events, []
        for job in self._chance.sample(self._jobs, self._chance.randint(0, len(self._jobs))):
            self._jobs.remove(job)
            events.append(self._event(job))
        return events

    def _event(self, job: Job) -> Event:
        if isinstance(job, RoundJob):
            return Finished(job=job, report=report_of(job))
        number = int(job.family.key.split()[1])
        # The finding came with the job: the corpus is another host's.
        assert (job.corpus / "findings" / job.id).is_dir() or list(job.corpus.rglob(job.id))
        stored = found(number, complexity=9 if isinstance(job, ConfirmJob) else 1)
        report = Examined(id=job.id, kind=Kind.VIOLATION, family=job.family, stored=stored)
        return Finished(job=job, report=report)

    def interrupt(self) -> None:
        """Nothing goes on."""

    def remarks(self) -> Sequence[str]:
        return ()

    def statuses(self) -> Sequence[WorkerStatus]:
        return [
            WorkerStatus(
                number=0, device="a device", round=3, stage=Stage.RUN, seconds=0.0, cases=8,
                stalled=False, shares={Stage.RUN: 1.0},
            )
        ]  # fmt: skip

    def close(self) -> None:
        """Nothing is open."""


def host_of(make_crew: type[Answering]) -> Callable[[str], Host]:
    class Named(Host):
        def begin(self) -> Begun:
            return replace(super().begin(), host=self.place)

    return lambda node: Named(place=node, make_crew=make_crew)


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
    with FleetCrew(CHECK, cluster) as crew:
        campaign = Campaign(
            crew, crew.facts(), check=CHECK, budget=Budget(cases=rounds * CASES), corpus=corpus,
            known=Known(entries=()), observer=Watcher(deeds), store=CampaignStore(corpus.path),
        )  # fmt: skip
        status = campaign.run()
    families = {(one.key, one.cases, one.kind) for one in status.families}
    ids = sorted(entry.id for entry in corpus.entries())
    figures = (status.cases, status.compared, status.unasked, status.rounds, status.gone)
    return families, ids, figures, dict(status.skipped), campaign.drawing.forms


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_crew, "_TEND_SECONDS", 0.0)
    monkeypatch.setattr(fleet_crew, "_IDLE_SECONDS", 0.0)
    monkeypatch.setattr("fuzz.fleet.host._TURN_SECONDS", 0.001)
    monkeypatch.setattr(fleet_crew, "_POLL_SECONDS", 0.002)


@pytest.mark.usefixtures("_quick")
def test_twenty_nodes_that_go_and_come_change_nothing(tmp_path: Path) -> None:
    alone = outcome(tmp_path / "alone", FakeCluster([1], host_of(Answering)), {}, 100)
    assert alone[2] == (800, 700, 100, 100, 0)
    assert len(alone[1]) == FAMILIES
    cluster = FakeCluster([2, 1, 2], host_of(Answering), workers=2)
    removed = []
    chance = random.Random(2026)

    def change(number: int) -> Callable[[], None]:
        def deed() -> None:
            node = chance.choice(sorted(cluster.nodes))
            places = cluster.nodes[node]
            cluster.remove(node)
            removed.append(node)
            cluster.add(10 + number, places)

        return deed

    deeds = {5 + 4 * number: change(number) for number in range(20)}
    assert outcome(tmp_path / "many", cluster, deeds, 100) == alone
    assert len(removed) == 20
    # The rounds that were lost with a node were given again, to others.
    assert len(cluster.actors) > 5


@pytest.mark.usefixtures("_quick")
def test_a_campaign_waits_for_nodes_when_all_are_gone(tmp_path: Path) -> None:
    cluster = FakeCluster([1, 1], host_of(Answering))
    looks = []

    def go() -> None:
        for node in list(cluster.nodes):
            cluster.remove(node)

    real = cluster.places

    def places() -> int:
        looks.append(len(cluster.nodes))
        if looks.count(0) > 3 and not cluster.nodes:
            cluster.add(7, 1)
        return real()

    cluster.places = places  # type: ignore[method-assign]
    assert outcome(tmp_path, cluster, {10: go}, 30)[2][3] == 30
    assert 0 in looks


class Broke(Answering):
    """A crew whose GPU does not pass its self-check."""

    def __init__(self, check: Check, *, workers: int) -> None:
        super().__init__(check, workers=0)
        message = "the device does not multiply two ones"
        self._events = [GaveUp(broken=Broken(blame=Blame.DEVICE_LOST, message=message))]


@pytest.mark.usefixtures("_quick")
def test_a_device_that_fails_its_self_check_is_left_out_and_named(tmp_path: Path) -> None:
    hosts = {"node0": host_of(Broke), "node1": host_of(Answering)}
    cluster = FakeCluster([1, 1], lambda node: hosts[node](node))
    corpus = create_corpus(tmp_path, generator="a test")
    with FleetCrew(CHECK, cluster) as crew:
        campaign = Campaign(
            crew, crew.facts(), check=CHECK, budget=Budget(cases=40), corpus=corpus,
            known=Known(entries=()), observer=Watcher({}), store=CampaignStore(corpus.path),
        )  # fmt: skip
        status = campaign.run()
    assert status.cases == 40
    (remark,) = status.remarks
    assert "node0" in remark
    assert "self" in remark or "multiply" in remark
    assert [one.host for one in status.devices] == ["node1"]


@pytest.mark.usefixtures("_quick")
def test_where_every_device_is_left_out_that_is_said() -> None:
    with (
        FleetCrew(CHECK, FakeCluster([1, 1], host_of(Broke))) as crew,
        pytest.raises(DeviceLostError, match="multiply"),
    ):
        crew.facts()


@pytest.mark.usefixtures("_quick")
def test_other_code_on_a_host_is_refused() -> None:
    class Older(Host):
        def begin(self) -> Begun:
            return replace(super().begin(), code=Code(version="0.0", digest="0", python="3.9"))

    with (
        FleetCrew(CHECK, FakeCluster([1], lambda node: Older(place=node))) as crew,
        pytest.raises(UsageError, match=r"warpfuzz 0\.0 \(0\) on Python 3\.9"),
    ):
        crew.facts()


class Elsewhere(Answering):
    facts = replace(FACTS, target="sm_80")


@pytest.mark.usefixtures("_quick")
def test_a_device_of_another_target_takes_no_part() -> None:
    hosts = {"node0": host_of(Answering), "node1": host_of(Elsewhere)}
    with FleetCrew(CHECK, FakeCluster([1, 1], lambda node: hosts[node](node))) as crew:
        first = crew.facts()
        for _ in range(10):
            crew.poll(0.0)
        assert crew.workers == 1
        (remark,) = crew.remarks()
        assert {"sm_80", "sm_90"} <= set(remark.replace(",", " ").split())
        assert first.target in ("sm_80", "sm_90")


@pytest.mark.usefixtures("_quick")
def test_a_round_that_takes_every_node_along_is_skipped_in_the_end() -> None:
    cluster = FakeCluster([1], host_of(Answering))
    with FleetCrew(CHECK, cluster) as crew:
        drawn = CHECK.drawing(crew.facts()).round(0, ProgramCoverage())
        verdicts = []
        while len(verdicts) < fleet_crew._JOB_DEATHS:
            while not crew.places_for_rounds():
                crew.poll(0.0)
            crew.give(RoundJob(number=0, drawn=drawn))
            cluster.actors[-1].gone = "its node died"
            while not (lost := [one for one in crew.poll(0.0) if isinstance(one, Lost)]):
                pass
            verdicts.append(lost[0].guilty)
    assert verdicts == [False] * (fleet_crew._JOB_DEATHS - 1) + [True]


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
    with FleetCrew(CHECK, cluster) as crew, pytest.raises(InfrastructureError, match="No module"):
        crew.facts()


def test_without_ray_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "fuzz.fleet.ray_cluster", raising=False)
    with pytest.raises(UsageError, match=r"warpfuzz\[fleet\]"):
        fleet_crew.cluster_at("auto", gpus=False, workers=None)


def test_a_fleet_takes_all_gpus() -> None:
    with pytest.raises(UsageError, match="--fleet takes all"):
        _devices({"devices": (1,), "fleet": "auto"}, "cuda")


@pytest.mark.usefixtures("_quick")
def test_a_host_gets_rounds_from_the_moment_that_it_said_what_it_has() -> None:
    with FleetCrew(CHECK, FakeCluster([1], host_of(Answering))) as crew:
        opened = False
        for _ in range(50):
            assert (crew.places_for_rounds() > 0) == opened
            opened = opened or any(isinstance(event, Opened) for event in crew.poll(0.0))
        assert opened


@pytest.mark.usefixtures("_quick")
def test_who_waits_for_a_place_or_for_work_is_not_stalled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster([1], host_of(Answering))
    with FleetCrew(CHECK, cluster) as crew:
        now = time.monotonic()
        later = SimpleNamespace(monotonic=lambda: now + 1000)
        with monkeypatch.context() as patched:
            patched.setattr(fleet_crew, "time", later)
            (waiting,) = crew.statuses()
        assert (waiting.stalled, waiting.seconds) == (False, 0.0)
        assert waiting.device == "waiting for a place in the cluster"
        crew.facts()
        with monkeypatch.context() as patched:
            patched.setattr(fleet_crew, "time", later)
            (idle,) = crew.statuses()
        assert not idle.stalled
