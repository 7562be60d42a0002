"""The way to the helpers of other tests, and to the stand-ins for PyCUDA."""

import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[2]
sys.path[:0] = [
    str(_TESTS / "fuzz"), str(_TESTS / "fuzz" / "checks"), str(_TESTS / "runners" / "cuda"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def started_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork children from a process that has imported them: `tests/meta/cuda` starts real ones."""
    from command_line import fast_tool

    monkeypatch.setattr("runners.processes.Tool", fast_tool)
