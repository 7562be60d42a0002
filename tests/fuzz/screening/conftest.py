"""A small set, and the way to what other tests have."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fuzz.screening.sets import ScreeningSet

for folder in (Path(__file__).parent, Path(__file__).parents[1]):
    sys.path.insert(0, str(folder))

from small_sets import distilled, with_few_multiprocessors  # noqa: E402


@pytest.fixture(autouse=True)
def _small_device(monkeypatch: pytest.MonkeyPatch) -> None:
    with_few_multiprocessors(monkeypatch)


@pytest.fixture(scope="session")
def small_set() -> ScreeningSet:
    """A set of few programs."""
    return distilled()
