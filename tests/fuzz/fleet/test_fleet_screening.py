"""Every GPU of a cluster is screened once, and one that cannot be is named."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from fake_cluster import FakeCluster

from fuzz.fleet.host import Begun, ScreenHost, ScreenNews, screened


class Screening(ScreenHost):
    """Screens nothing, and says so after two looks."""

    started = 0

    def begin(self) -> Begun:
        return Begun(host=self.place, place="GPU 0")

    def start(self, words: Sequence[str], files: Mapping[str, bytes]) -> ScreenNews:
        Screening.started += 1
        self._looks = 0
        return ScreenNews()

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


def test_every_gpu_is_screened_once_and_a_node_that_dies_is_named() -> None:
    cluster = FakeCluster(
        [2, 1, 1], lambda node: (Older if node == "node2" else Screening)(place=node)
    )
    Screening.started = 0
    looks = screened(cluster, ("--time", "9"), {}, threading.Event())
    seen = [*islice(looks, 3)]
    cluster.remove(1)
    devices = [*seen, *looks][-1]
    rows = {row["device"]: row for device in devices for row in device.rows}
    assert Screening.started == 3
    assert rows["node0 GPU 0: a device"]["cases"] == 9
    assert "its node died" in rows["node1 GPU 0"]["error"]
    assert "warpfuzz 0.0" in rows["node2 GPU 0"]["error"]
    assert sum(row["cases"] for device in devices for row in device.rows) == 18
