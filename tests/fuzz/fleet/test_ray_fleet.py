"""Campaigns on a real Ray cluster: three nodes on this machine, which go and come."""

from __future__ import annotations

import importlib.util
import os
import random
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from value_runs import LocalPool, Nobody

from corpus import create_corpus
from corpus.known import Known
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.pool import WorkerPool
from fuzz.campaign.status import CampaignStatus
from fuzz.campaign.store import Budget, CampaignStore
from fuzz.checks.programs import Programs
from fuzz.fleet.pool import FleetPool, cluster_at
from fuzz.runner import RunnerChoice, opened
from oracle.errors import InfrastructureError
from strategies.draws import Selection

# The clusters of these tests ask for no token.
os.environ["RAY_AUTH_MODE"] = "disabled"
pytestmark = [
    pytest.mark.fleet,
    # Importing it takes a second, in each of the tests' processes.
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None,
        reason="Ray is not installed (the extra `fleet`)",
    ),
]
CHECK = Programs(
    choice=RunnerChoice(name="sim", faults=("store-one-row-off",), layout=1),
    seed=11,
    selection=Selection(pattern="*m8n8k4*"),
)


class Nodes:
    """A cluster whose nodes have a core each, without the head."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        try:
            self._cluster = Cluster(
                initialize_head=True,
                head_node_args={"num_cpus": 0, "include_dashboard": False},
            )
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
            # Ray gives up after 30 s, which a machine may need that has much else to do.
            pytest.skip(f"Ray itself starts no cluster on this machine: {error}")
        self.nodes: list[Any] = []
        self.address = str(self._cluster.address)

    def add(self) -> str:
        for _ in range(5):
            # On a machine that is busy, Ray gives up the start of a node after 30 s.
            with suppress(Exception):
                self.nodes.append(self._cluster.add_node(num_cpus=1, wait=True))
                return str(self.nodes[-1].node_id)
        pytest.skip("Ray itself starts no node on this machine")

    def remove(self) -> str:
        node = self.nodes.pop(random.randrange(len(self.nodes)))
        self._cluster.remove_node(node, allow_graceful=False)
        return str(node.node_id)

    def close(self) -> None:
        self._cluster.shutdown()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    try:
        made.add()
        yield made
    finally:
        made.close()


def campaign(
    folder: Path, pool: WorkerPool, facts: Any, *, cases: int, observer: Any
) -> CampaignStatus:
    corpus = create_corpus(folder, generator="a test")
    with CampaignStore(corpus.path) as store:
        return Campaign(
            pool, facts, check=CHECK, budget=Budget(cases=cases), corpus=corpus,
            known=Known(entries=()), observer=observer.update, store=store, state=store.load(),
        ).run()  # fmt: skip


def outcome(status: CampaignStatus) -> tuple[object, ...]:
    """Return what a campaign found, with the cases of each line, and what it counted.

    A line has all kinds of a cause. Which of them a case is counted as that was not replayed by
    itself, depends on what had been replayed by then.
    """
    families = {(one.bucket.key, one.case.kind, one.case.shrink) for one in status.families}
    lines = Counter[object]()
    for one in status.families:
        lines[one.case.identity] += one.cases
    figures = status.cases, status.compared, status.unasked, status.counts, status.gone
    return families, lines, figures, dict(status.skipped)


def alone(folder: Path, cases: int) -> tuple[object, ...]:
    with opened(CHECK.choice) as ready:
        pool = LocalPool(ready, CHECK)
        return outcome(campaign(folder, pool, pool.facts, cases=cases, observer=Nobody()))


def on_fleet(folder: Path, address: str, cases: int, observer: Any) -> tuple[object, ...]:
    cluster = cluster_at(address, gpus=False, workers=1, most=3)
    with FleetPool(CHECK, cluster) as pool:
        return outcome(campaign(folder, pool, pool.facts(), cases=cases, observer=observer))


def test_a_campaign_on_a_cluster_finds_what_it_finds_here(tmp_path: Path) -> None:
    found = on_fleet(tmp_path / "fleet", "local", 16, Nobody())
    assert found == alone(tmp_path / "alone", 16)
    assert found[0]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_where_no_cluster_answers_that_is_said_at_once(address: str) -> None:
    with pytest.raises(InfrastructureError, match="cannot be joined"):
        cluster_at(address, gpus=False, workers=1)


def test_a_head_that_is_silent_for_long_ends_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    from fuzz.fleet import ray_cluster

    cluster = object.__new__(ray_cluster.RayCluster)
    with socket.create_server(("127.0.0.1", 0)) as head:
        port = head.getsockname()[1]
        cluster._head, cluster._silent = f"127.0.0.1:{port}", 0.0
        assert cluster.answers()
    # It may be started anew.
    assert not cluster.answers()
    with socket.create_server(("127.0.0.1", port)):
        assert cluster.answers()
    assert not cluster.answers()
    monkeypatch.setattr(ray_cluster, "_SILENT_SECONDS", 0.0)
    said = rf"its head, 127\.0\.0\.1:{port}, has not answered for 0 s: .*--resume goes on"
    with pytest.raises(InfrastructureError, match=said):
        cluster.answers()


class Changing:
    """Removes a node and adds another one, so many times, somewhere in a campaign's first half."""

    def __init__(self, nodes: Nodes, times: int, cases: int) -> None:
        self._nodes = nodes
        self._left = sorted(random.randrange(cases // 2) for _ in range(times))
        self.removed = 0

    def update(self, status: CampaignStatus) -> None:
        busy = any(worker.round >= 0 for worker in status.workers)
        if self._left and busy and status.cases >= self._left[0]:
            del self._left[0]
            self.removed += 1
            self._nodes.remove()
            self._nodes.add()


@pytest.mark.slow
def test_twenty_nodes_that_die_lose_no_finding_and_give_none_twice(
    nodes: Nodes, tmp_path: Path
) -> None:
    while len(nodes.nodes) < 3:
        nodes.add()
    cases = 3000
    changing = Changing(nodes, 20, cases)
    assert on_fleet(tmp_path / "fleet", nodes.address, cases, changing) == alone(
        tmp_path / "alone", cases
    )
    assert changing.removed == 20


@pytest.mark.parametrize(("address", "asked"), [("local", 1), ("auto", None)])
def test_a_cluster_of_this_machine_has_the_processors_that_this_process_is_bound_to(
    monkeypatch: pytest.MonkeyPatch, address: str, asked: int | None
) -> None:
    import ray

    from fuzz.fleet.ray_cluster import RayCluster

    said: dict[str, object] = {}

    def init(**given: object) -> None:
        said.update(given)
        raise ConnectionError("nothing is started here")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2}, raising=False)
    with pytest.raises(InfrastructureError, match="nothing is started here"):
        RayCluster(address, gpus=False, host=Nobody)
    assert said["num_cpus"] == asked
