"""What goes wrong in the CUDA runner, one test each: the right value, soon, and nothing left."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cuda_fakes import (
    ANSWERS_ANOTHER,
    EXITS,
    FAKES,
    GARBLES,
    HANGS,
    KILLS,
    MISALIGNED,
    REFUSES,
    compiled,
    fake_runner,
    images,
    module,
)
from single_multiplies import VARIANTS, Access, program

from oracle.execution.execution import execute
from runners import processes
from runners.cuda import self_check, supervisor
from runners.cuda.runner import CudaRunner
from runners.emission import emit_screening
from runners.protocol import Compiled, Failure, Images, Ran, Trouble
from runners.screening import References, Screened
from runners.simulated import SimulatedDevice

_SOON = 120.0
"""Seconds in which all of this must be over, on a machine that does other things as well: what
hangs here does so for 1000."""
_PATIENCE = 60.0
"""Seconds that are allowed to what ends."""
_IMPATIENCE = 0.5
"""Seconds that are allowed to what hangs."""


def _group_is_gone(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    return False


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _bad(first_byte: int, count: int = 10) -> Images:
    batch = images(count)
    batch[count // 2, 0] = first_byte
    return batch


def _failure(outcome: object, trouble: Trouble) -> Failure:
    assert isinstance(outcome, Failure)
    assert outcome.trouble is trouble, outcome
    return outcome


def _works(runner: CudaRunner) -> None:
    """Check that the runner runs."""
    batch = images(10)
    ran = runner.run(compiled(runner), batch)
    assert isinstance(ran, Ran), ran
    assert np.array_equal(ran.images, batch + 1)


@pytest.fixture(scope="module")
def shared() -> Iterator[CudaRunner]:
    """A runner that works, whatever happened to it; afterwards nothing of it is left.

    One for all tests: each start takes two seconds, for an interpreter, NumPy and the self-check.
    """
    gc.collect()  # What an earlier test left open is not this runner's.
    processes._reaper.tell("-0")  # It has a pipe, and stays.
    descriptors = _descriptors()
    with fake_runner(deadline=_PATIENCE) as made:
        yield made
        pid = made.pid
    assert pid is None or _group_is_gone(pid)
    del made
    gc.collect()
    assert _descriptors() == descriptors


@pytest.fixture
def runner(shared: CudaRunner) -> Iterator[CudaRunner]:
    """The shared runner, working, and no child of it left but the last one."""
    start = time.monotonic()
    shared.deadline = _PATIENCE
    _works(shared)
    pid = shared.pid
    yield shared
    assert pid is None or pid == shared.pid or _group_is_gone(pid)
    assert time.monotonic() - start < _SOON


@pytest.mark.parametrize(
    ("first_byte", "trouble", "restarts"),
    [
        (MISALIGNED, Trouble.STICKY_ERROR, 1),
        (HANGS, Trouble.HANG, 1),
        (KILLS, Trouble.CRASH, 1),
        (EXITS, Trouble.CRASH, 1),
        (GARBLES, Trouble.CORRUPTED_REPLY, 1),
        (ANSWERS_ANOTHER, Trouble.CORRUPTED_REPLY, 1),
        (REFUSES, Trouble.LAUNCH_FAILURE, 0),
    ],
)
def test_trouble_costs_one_batch_and_is_called_by_its_name(
    runner: CudaRunner, first_byte: int, trouble: Trouble, restarts: int
) -> None:
    code = compiled(runner)
    pid, starts = runner.pid, runner.starts
    before, after = images(7, seed=1), images(9, seed=2)
    pending = []
    for batch in (before, _bad(first_byte), after):
        hangs = batch[:, 0].max() == HANGS
        runner.deadline = _IMPATIENCE if hangs else _PATIENCE
        pending.append(runner.submit(code, batch))
    first, second, third = (batch.collect() for batch in pending)
    _failure(second, trouble)
    assert isinstance(first, Ran)
    assert isinstance(third, Ran)
    assert np.array_equal(first.images, before + 1)
    assert np.array_equal(third.images, after + 1)
    assert runner.starts == starts + restarts
    assert _group_is_gone(pid) == bool(restarts)
    _works(runner)


def _screening(runner: CudaRunner, break_: tuple[str, str] = ("", "")) -> Compiled:
    """Return the screening kernel of one multiplication, with a text in it replaced."""
    module = emit_screening({"screen": program(VARIANTS[0], Access())})
    broken = replace(module, ptx=module.ptx.replace(*break_))
    compiled = runner.compile(broken)
    assert isinstance(compiled, Compiled), compiled
    return compiled


@pytest.mark.parametrize(
    ("break_", "trouble"),
    [
        (("wmma.load.a", "add.u64 %image, %image, 1;\n    wmma.load.a"), Trouble.STICKY_ERROR),
        (("setp.ge.u32 %done, %taken, %limit", "setp.ne.u32 %done, 0, 0"), Trouble.HANG),
    ],
)
def test_trouble_while_screening_costs_one_launch_and_the_others_have_their_images(
    runner: CudaRunner, break_: tuple[str, str], trouble: Trouble
) -> None:
    made = program(VARIANTS[0], Access())
    before = np.random.default_rng(0).integers(0, 256, (2, made.image_bytes), np.uint8)
    references = References(images=before, expected=execute(made, before).images)
    sound, broken = _screening(runner), _screening(runner, break_)
    starts = runner.starts
    pending = []
    for code in (sound, broken, sound, sound):
        hangs = code is broken and trouble is Trouble.HANG
        runner.deadline = _IMPATIENCE if hangs else _PATIENCE
        pending.append(runner.screen(code, references, limit=2))
    first, second, *others = (launch.collect() for launch in pending)
    failure = _failure(second, trouble)
    assert "screening with screen" in failure.message
    for outcome in (first, *others):
        assert isinstance(outcome, Screened), outcome
        assert not outcome.ledger.wrong.any()
        assert (outcome.ledger.finished[:100] == 2).all()
    assert runner.starts == starts + 1
    _works(runner)


def test_a_module_that_is_refused_between_launches_costs_its_own_launch_alone(
    runner: CudaRunner,
) -> None:
    made = program(VARIANTS[0], Access())
    before = np.zeros((1, made.image_bytes), np.uint8)
    references = References(images=before, expected=execute(made, before).images)
    sound = _screening(runner)
    module = emit_screening({"screen": made})
    refused = runner.prepare(replace(module, ptx=f"// unacceptable\n{module.ptx}"))
    assert isinstance(refused, Compiled)
    starts = runner.starts
    pending = [runner.screen(code, references, limit=1) for code in (sound, refused, sound)]
    first, second, third = (launch.collect() for launch in pending)
    _failure(second, Trouble.COMPILE_FAILURE)
    assert isinstance(first, Screened)
    assert isinstance(third, Screened)
    assert runner.starts == starts


def test_a_crash_tells_how_the_process_ended_and_what_it_said_last(runner: CudaRunner) -> None:
    code = compiled(runner)
    assert "killed by SIGKILL" in _failure(runner.run(code, _bad(KILLS)), Trouble.CRASH).message
    failure = _failure(runner.run(code, _bad(EXITS)), Trouble.CRASH)
    assert "ended with status 7" in failure.message
    assert "the fake driver prints this and exits" in failure.detail


def test_a_child_killed_in_the_middle_of_a_batch_or_between_two_is_a_crash(
    runner: CudaRunner,
) -> None:
    code = compiled(runner)
    assert runner.pid is not None
    batch = runner.submit(code, _bad(HANGS))
    threading.Timer(0.3, os.kill, (runner.pid, signal.SIGKILL)).start()
    _failure(batch.collect(), Trouble.CRASH)
    _works(runner)
    os.kill(runner.pid, signal.SIGKILL)
    outcome = runner.run(code, images(3))
    assert isinstance(outcome, Ran) or outcome.trouble is Trouble.CRASH
    _works(runner)


def test_a_late_collection_of_a_batch_that_ended_in_time_is_no_hang(
    runner: CudaRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, starts = compiled(runner), runner.starts
    pending = [runner.submit(code, images(3)) for _ in range(2)]
    child = runner._supervisor._child
    assert child is not None
    assert select.select([child._line], [], [], _PATIENCE)[0], "no batch ended"
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + 10 * _PATIENCE)
    assert all(isinstance(batch.collect(), Ran) for batch in pending)
    assert runner.starts == starts


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("unacceptable", Trouble.COMPILE_FAILURE),
        ("crash the compiler", Trouble.CRASH),
        ("hang the compiler", Trouble.HANG),
    ],
)
def test_a_module_on_which_the_drivers_compiler_breaks_is_a_failure(
    text: str, trouble: Trouble
) -> None:
    with fake_runner(load_deadline=1.5 if trouble is Trouble.HANG else _PATIENCE) as runner:
        _failure(runner.compile(module(text)), trouble)
        _works(runner)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("gone", "finds no device"),
        ("none", "there is no device 0"),
        ("dies", "was killed by SIGKILL before it was ready"),
        ("sleeps", "before it was ready, which may take 1.5 s"),
        ("babbles", "answered garbage"),
        ("miscalculates", "fails its self-check: 4 of 2048 warps are wrong"),
    ],
)
def test_a_device_that_is_not_there_at_the_start_is_lost(
    monkeypatch: pytest.MonkeyPatch, mode: str, words: str
) -> None:
    # What babbles does not end by itself.
    monkeypatch.setattr(processes, "_DYING_SECONDS", 1.0)
    start = time.monotonic()
    allowed = 1.5 if mode == "sleeps" else _PATIENCE
    with fake_runner(mode=mode, start_deadline=allowed) as runner:
        failure = _failure(runner.compile(module()), Trouble.DEVICE_LOST)
        assert words in failure.message
        assert runner.starts == 0
        assert runner.facts() == failure
        assert runner.pid is None
    assert time.monotonic() - start < _SOON


@pytest.mark.parametrize(
    ("fake", "words"), [("absent", "pip install pycuda"), ("driverless", "install the driver")]
)
def test_missing_software_is_named_with_what_to_install(fake: str, words: str) -> None:
    with fake_runner(fake) as runner:
        failure = _failure(runner.capabilities(), Trouble.UNAVAILABLE)
        assert words in failure.message
        assert _failure(runner.health(), Trouble.UNAVAILABLE) == failure


def test_a_device_that_does_not_come_back_after_a_hang_is_lost_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_PAUSE", 0.01)
    environment = {"FAKE_STATE": str(tmp_path / "state")}
    with fake_runner(deadline=0.5, environment=environment) as runner:
        code = compiled(runner)
        pending = [runner.submit(code, batch) for batch in (_bad(HANGS), images(3))]
        _failure(pending[0].collect(), Trouble.HANG)
        _failure(pending[1].collect(), Trouble.DEVICE_LOST)
        # Nobody asks it again.
        monkeypatch.delattr(supervisor, "SupervisedChild")
        _failure(runner.run(code, images(3)), Trouble.DEVICE_LOST)


_ORPHAN = """
import sys
sys.path[:0] = [{root!r}, {here!r}]
from cuda_fakes import HANGS, compiled, fake_runner, images
runner = fake_runner(deadline=100.0)
code = compiled(runner)
batch = images(3)
batch[1, 0] = HANGS
pending = runner.submit(code, batch)
print(runner.pid, flush=True)
pending.collect()
"""


def test_the_self_check_expects_what_the_simulated_device_computes() -> None:
    before = self_check.images(2048)
    loaded = SimulatedDevice("sm_90").load(self_check.PTX)
    after, _ = loaded.launch(
        self_check.ENTRY, before.copy(), threads=32 * self_check.WARPS_PER_BLOCK
    )
    assert np.array_equal(after, self_check.expected(2048))


def test_a_supervisor_that_is_killed_takes_its_child_along() -> None:
    here = str(FAKES.parent)
    script = _ORPHAN.format(root=str(FAKES.parents[3]), here=here)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    end = time.monotonic() + _SOON
    while not _group_is_gone(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert _group_is_gone(pid)


def test_a_runner_that_is_never_closed_is_cleared_away_with_its_last_reference() -> None:
    runner = fake_runner()
    _works(runner)
    pid = runner.pid
    assert pid is not None
    del runner
    assert _group_is_gone(pid)
