"""Children that start at once."""

import pytest
from command_line import fast_tool


@pytest.fixture(autouse=True)
def started_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork children from a process that has imported them: `tests/meta/cuda` starts real ones."""
    monkeypatch.setattr("runners.processes.Tool", fast_tool)
