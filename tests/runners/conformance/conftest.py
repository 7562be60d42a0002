"""The fixture `runner`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from command_line import fast_tool
from runners_under_test import OVER_STAND_IN, RUNNERS, UNOPTIMIZED_RUNNERS, make_runner

from runners.protocol import Failure, Runner
from runners.simulated import device


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of tests that also try the CUDA runner without a GPU."""
    config.addinivalue_line("markers", f"stand_in: also run on {OVER_STAND_IN!r}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that asks for a runner on each of them."""
    if "runner" in metafunc.fixturenames:
        names = list(RUNNERS)
        if metafunc.definition.get_closest_marker("stand_in") is not None:
            names.append(OVER_STAND_IN)
        metafunc.parametrize("runner", names, indirect=True, scope="module")
    if "unoptimized_runner" in metafunc.fixturenames:
        metafunc.parametrize(
            "unoptimized_runner", UNOPTIMIZED_RUNNERS, indirect=True, scope="module"
        )


@pytest.fixture(scope="module")
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    """The runner that the test's parameter names."""
    with pytest.MonkeyPatch.context() as patch, make_runner(request.param) as made:
        if request.param == OVER_STAND_IN:
            patch.setattr("runners.processes.Tool", fast_tool)
        can = made.capabilities()
        if isinstance(can, Failure):
            pytest.fail(f"{request.param}: {can}; {can.detail}")
        yield made


@pytest.fixture(scope="module")
def unoptimized_runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    """The runner that the test's parameter names, whose compiler optimises nothing."""
    with make_runner(request.param, level=0) as made:
        yield made


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the simulated device call a kernel endless after fewer steps than it gives others."""
    monkeypatch.setattr(device, "LARGEST_STEP_COUNT", device.LARGEST_STEP_COUNT // 40)
