"""How hard the tests look, and side by side: Hypothesis profiles, chosen by HYPOTHESIS_PROFILE.

`dev` is the default; `ci`, the default where CI=true, draws the same examples every time;
`thorough` draws eighty times as many. A test that sets its own number of examples keeps it.
"""

import compileall
import gc
import importlib.util
import multiprocessing
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import platformdirs
import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

# Whatever PYTHONDONTWRITEBYTECODE says: half of the time of collecting is rewriting of asserts, of
# Hypothesis's, too.
sys.dont_write_bytecode = False
from hypothesis import HealthCheck, Phase, settings  # noqa: E402

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
_FETCHED = ("assemblers", "front-ends")
"""Folders of a cache that hold what was fetched (`runners.toolchains`)."""
_CORES = len(os.sched_getaffinity(0))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Take a worker more than cores: waiting for processes, tests use two thirds of a core."""
    return _CORES + 1


def pytest_configure(config):
    """Compile once what hundreds of processes import, and rewrite once what every worker collects.

    All workers rewrite every module else, the same ones at the same time.
    """
    if hasattr(config, "workerinput"):
        return
    _have_a_cache(config)
    tests = Path(__file__).parent
    _compile_once(config, tests / "compile_once.py")
    files = [path for room in _ROOMS for path in (tests.parent / room).rglob("*.py")]
    if config.getoption("dist", "no") != "no":
        files += tests.rglob("test_*.py")
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=_compile, args=(files[n::_CORES],)) for n in range(_CORES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def _have_a_cache(config):
    """Give all tests, and what they start, a cache that is gone afterwards.

    What was remembered of commands and assemblers is nothing to tests, and what they leave is
    nothing to the user. Compilers that he has fetched are there, because they take minutes.
    """
    users = platformdirs.user_cache_path("warpfuzz")
    folder = Path(tempfile.mkdtemp(prefix="tests-of-warpfuzz-"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    (folder / "warpfuzz").mkdir()
    for name in _FETCHED:
        if (users / name).is_dir():
            (folder / "warpfuzz" / name).symlink_to(users / name)
    os.environ["XDG_CACHE_HOME"] = str(folder)


def _compile_once(config, script):
    """Have every process find a g++ that compiles the same text once: 5 s of a core."""
    compiler = shutil.which("g++")
    if compiler is None:
        return
    folder = Path(tempfile.mkdtemp(prefix="warpfuzz-tests-"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    (folder / "made").mkdir()
    (folder / "bin").mkdir()
    found = folder / "bin" / "g++"
    words = f"'{sys.executable}' -S -E '{script}' '{folder / 'made'}' '{compiler}'"
    found.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    found.chmod(0o755)
    os.environ["COMPILE_ONCE"] = str(found.parent)
    os.environ["PATH"] = f"{found.parent}:{os.environ['PATH']}"


def _compile(files):
    """Compile modules; those of tests as pytest does before it runs them."""
    finders = [one for one in sys.meta_path if isinstance(one, AssertionRewritingHook)]
    for path in files:
        if not path.name.startswith("test_"):
            compileall.compile_file(path, quiet=2)
            continue
        for finder in finders:
            spec = importlib.util.spec_from_file_location(path.stem, path, loader=finder)
            module = importlib.util.module_from_spec(spec)
            # Without builtins it ends at its first import, which pytest has put at its head.
            module.__builtins__ = {}
            with suppress(ImportError):
                finder.exec_module(module)


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
        # Hypothesis makes much garbage without cycles: 3 to 5 % of the time of its tests.
        gc.set_threshold(50_000)
