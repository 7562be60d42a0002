"""How many workers a campaign has if nobody says."""

from __future__ import annotations

from types import SimpleNamespace

import psutil
import pytest

from fuzz import runner
from fuzz.runner import usual_workers

GIB = 1 << 30


@pytest.mark.parametrize(
    ("name", "compares", "devices", "gpu", "host", "workers"),
    [
        ("sim", True, 1, 140, 128, 16),
        ("cuda", False, 1, 140, 128, 15),
        ("cuda", True, 1, 140, 128, 24),
        ("cuda", True, 1, 48, 24, 24),
        ("cuda", True, 1, 47, 128, 15),
        ("cuda", True, 5, 9, 128, 15),
        ("cuda", True, 1, 140, 23, 15),
        ("cuda", True, 1, 0, 128, 15),
    ],
)
def test_three_workers_for_two_cores_keep_a_gpu_busy_that_has_room_for_them(
    name, compares, devices, gpu, host, workers, monkeypatch
) -> None:
    memory = SimpleNamespace(available=host * GIB)
    monkeypatch.setattr(runner, "cores", lambda: 16)
    monkeypatch.setattr(runner, "smallest_memory", lambda: gpu * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    assert usual_workers(name, compares=compares, devices=devices) == workers
