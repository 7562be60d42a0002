"""Every GPU of a cluster is screened once, and one that cannot be is named."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from fake_cluster import FakeCluster

from fuzz.commands.screen import _fleet_rows, _watch_fleet
from fuzz.fleet.host import Begun
from fuzz.fleet.screening import FleetScreening, ScreenHost, ScreenNews


class Screening(ScreenHost):
    """Screens nothing, and says so after two looks."""

    started = 0

    def begin(self) -> Begun:
        return Begun(host=self.place, place="GPU 0")

    def start(self, words: Sequence[str], files: Mapping[str, bytes]) -> None:
        Screening.started += 1
        self._looks = 0

    def news(self, stop: bool) -> ScreenNews:
        self._looks += 1
        row = {"device": "GPU 0: a device", "cases": 9, "wrong": 0, "multiprocessors": []}
        over = self._looks > 2
        return ScreenNews(line="10 s", over=over, summary={"devices": [row]} if over else None)

    def end(self) -> None:
        """Nothing is open."""


class Older(Screening):
    def begin(self) -> Begun:
        return replace(super().begin(), code="warpfuzz 0.0 (0) on Python 3.9")


def test_what_became_of_a_gpu_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = FakeCluster(
        [1, 1], lambda node: (Older if node == "node1" else Screening)(place=node)
    )
    screening = FleetScreening(cluster=cluster, words=("--time", "9"), files={})
    _watch_fleet(screening, time.monotonic(), json=False)
    screening.close()
    said = capsys.readouterr().out
    assert said.count("warpfuzz 0.0") == 1
    assert said.count("node0 GPU 0: begins") == 1


def test_every_gpu_is_screened_once_and_a_node_that_dies_is_named() -> None:
    cluster = FakeCluster(
        [2, 1, 1], lambda node: (Older if node == "node2" else Screening)(place=node)
    )
    Screening.started = 0
    screening = FleetScreening(cluster=cluster, words=("--time", "9"), files={})
    for number, _ in enumerate(screening.run()):
        if number == 2:
            cluster.remove(1)
    screening.close()
    rows = {row["device"]: row for row in _fleet_rows(screening.devices)}
    assert Screening.started == 3
    assert rows["node0 GPU 0: a device"]["cases"] == 9
    assert "its node died" in rows["node1 GPU 0"]["error"]
    assert "warpfuzz 0.0" in rows["node2 GPU 0"]["error"]
    assert sum(row["cases"] for row in _fleet_rows(screening.devices)) == 18
