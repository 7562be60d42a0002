"""A small set."""

from __future__ import annotations

import pytest
from small_sets import distilled, with_few_multiprocessors

from fuzz.screening.sets import ScreeningSet


@pytest.fixture(autouse=True)
def _small_device(monkeypatch: pytest.MonkeyPatch) -> None:
    with_few_multiprocessors(monkeypatch)


@pytest.fixture(scope="session")
def small_set() -> ScreeningSet:
    """A set of few programs."""
    return distilled()
