"""A small set, and the way to what other tests have."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fuzz.screening.sets import ScreeningSet
from runners import simulated_runner
from runners.simulated import device, warps

for folder in (Path(__file__).parent, Path(__file__).parents[1]):
    sys.path.insert(0, str(folder))

from small_sets import MULTIPROCESSORS, distilled  # noqa: E402


@pytest.fixture(autouse=True)
def _small_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have few multiprocessors: each one costs processor time in every launch."""
    for module in (simulated_runner, device, warps):
        monkeypatch.setattr(module, "MULTIPROCESSORS", MULTIPROCESSORS)


@pytest.fixture(scope="session")
def small_set() -> ScreeningSet:
    """A set of few programs."""
    return distilled()
