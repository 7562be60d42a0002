"""How hard the tests look, and side by side: Hypothesis profiles, chosen by HYPOTHESIS_PROFILE.

`dev` is the default; `ci`, the default where CI=true, draws the same examples every time;
`thorough` draws eighty times as many. A test that sets its own number of examples keeps it.
"""

import compileall
import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

# Nothing is timed here: the machines are shared. Speed is measured by benchmarks/.
settings.register_profile(
    "dev", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "ci", settings.get_profile("dev"), derandomize=True, database=None, print_blob=True
)
settings.register_profile(
    "thorough", settings.get_profile("dev"), max_examples=2000, phases=list(Phase)
)

_default = "ci" if os.environ.get("CI", "").lower() == "true" else "dev"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or _default)

# Flushing is for power cuts, which no test can make, and takes milliseconds for each file. Where it
# stands in the order of things is tested in tests/meta/corpus.
os.fsync = lambda descriptor: None

_ROOMS = ("oracle", "strategies", "runners", "corpus", "fuzz")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Take a worker more than cores: waiting for processes, tests use two thirds of a core."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_configure(config):
    """Compile once what hundreds of processes import, whatever PYTHONDONTWRITEBYTECODE says."""
    if not hasattr(config, "workerinput"):
        for room in _ROOMS:
            compileall.compile_dir(Path(__file__).parents[1] / room, quiet=2)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Have the garbage collector look at nothing that collecting makes: it stays to the end.

    Looking through it again and again takes a sixth of the time of collecting.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
