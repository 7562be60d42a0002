"""The CUDA runner over a stand-in for PyCUDA, and its shared memory: every byte arrives."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cuda_fakes import IMAGE_BYTES, KILLS, MISALIGNED, compiled, fake_runner, images, module
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oracle.errors import UsageError
from runners.cuda.compilation import DriverCompiler, PtxasCompiler, release_of
from runners.cuda.libraries import DeviceFacts
from runners.cuda.runner import CudaRunner
from runners.cuda.supervisor import SlotPool, lease_of
from runners.processes import helper_environment
from runners.protocol import Capabilities, Compiled, Failure, Ran, Trouble

_CHUNK_IMAGES = 24
"""Images of a chunk: three blocks of eight warps."""


@pytest.fixture(scope="module", params=["", "unregistrable"])
def runner(request: pytest.FixtureRequest) -> Iterator[CudaRunner]:
    """A runner that registers its memory, and one that copies through pinned buffers."""
    with fake_runner(
        mode=request.param, chunk_bytes=_CHUNK_IMAGES * IMAGE_BYTES, deadline=30.0
    ) as made:
        facts = made.facts()
        assert isinstance(facts, DeviceFacts)
        assert facts.host_memory == ("staged" if request.param else "registered")
        yield made


@settings(
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    counts=st.lists(st.integers(0, 200), min_size=1, max_size=5),
    leased=st.booleans(),
    seed=st.integers(0, 99),
)
def test_every_batch_comes_back_whole_whatever_its_size(
    runner: CudaRunner, counts: list[int], leased: bool, seed: int
) -> None:
    code = compiled(runner)
    batches = [images(count, seed=seed + index) for index, count in enumerate(counts)]
    pending = []
    for batch in batches:
        given_images = batch
        if leased:
            given_images = runner.lease(batch.shape[0] + 1, IMAGE_BYTES)[1:]
            given_images[:] = batch
        pending.append(runner.submit(code, given_images))
    for batch, waiting in zip(batches, pending, strict=True):
        outcome = waiting.collect()
        assert isinstance(outcome, Ran)
        assert np.array_equal(outcome.images, batch + 1)
        # The stand-in numbers the images of each chunk.
        assert np.array_equal(outcome.sms, np.arange(batch.shape[0]) % _CHUNK_IMAGES)
        assert outcome.seconds >= 0


def test_a_batch_of_one_runner_runs_on_another(runner: CudaRunner) -> None:
    with fake_runner() as other:
        batch = runner.lease(5, IMAGE_BYTES)
        batch[:] = images(5)
        outcome = other.run(compiled(other), batch)
        assert isinstance(outcome, Ran)
        assert np.array_equal(outcome.images, images(5) + 1)


def test_code_compiled_before_a_restart_runs_after_it(runner: CudaRunner) -> None:
    codes = [compiled(runner, text=f"number {number}") for number in range(3)]
    starts = runner.starts
    bad = images(3)
    bad[0, 0] = 0xF1
    failure = runner.run(codes[0], bad)
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.STICKY_ERROR
    for code in codes:
        assert isinstance(runner.run(code, images(3)), Ran)
    assert runner.starts == starts + 1


def test_a_child_is_ready_when_the_next_one_dies_unless_the_device_is_to_blame() -> None:
    def after(behaviour: int) -> int | None:
        bad = images(1)
        bad[0, 0] = behaviour
        assert isinstance(runner.run(code, bad), Failure)
        assert isinstance(runner.facts(), DeviceFacts)
        return runner.pid

    with fake_runner() as runner:
        code = compiled(runner)
        after(KILLS)
        spare = runner._supervisor._spare
        assert spare is not None
        assert after(KILLS) == spare.process.pid
        spare = runner._supervisor._spare
        assert spare is not None
        assert after(MISALIGNED) != spare.process.pid
        assert spare.process.poll() is not None
        assert runner._supervisor._spare is None
        after(KILLS)
        spare = runner._supervisor._spare
    assert spare is not None
    assert spare.process.poll() is not None


def test_a_child_begins_without_the_programs_that_it_may_compare() -> None:
    look = "import runners.cuda.child, sys; print(*sys.modules)"
    child = [sys.executable, "-c", look]
    said = subprocess.run(child, env=helper_environment(), capture_output=True, text=True).stdout
    assert "runners.cuda.session" in said.split()
    assert not {"oracle.isa.lookup", "oracle.program.program"} & set(said.split())


def test_the_cache_of_the_driver_is_off_in_the_child(runner: CudaRunner) -> None:
    assert isinstance(runner.facts(), DeviceFacts)
    with open(f"/proc/{runner.pid}/environ", "rb") as file:  # noqa: PTH123
        assert b"CUDA_CACHE_DISABLE=1" in file.read().split(b"\0")


def test_it_runs_the_portable_targets_before_its_own_and_its_own_special_one(
    runner: CudaRunner,
) -> None:
    can = runner.capabilities()
    assert isinstance(can, Capabilities)
    assert {"sm_70", "sm_75", "sm_80", "sm_90", "sm_90a"} <= can.targets
    assert not {"sm_100", "sm_100a", "sm_100f", "sm_120"} & can.targets
    code = runner.compile(module())
    assert isinstance(code, Compiled)
    assert code.architecture == "sm_90"


def test_code_is_of_the_release_of_the_compiler_that_makes_it(
    runner: CudaRunner, tmp_path: Path
) -> None:
    facts = runner.facts()
    assert isinstance(facts, DeviceFacts)
    ours = module()
    by_driver = runner.compile_with(DriverCompiler(), ours)
    assert isinstance(by_driver, Compiled)
    assert by_driver.release == release_of(facts.cuda) == runner.release()
    assert by_driver.oracle_target == f"{by_driver.architecture}@{by_driver.release}"
    for said, release in (("V12.4.131", "12.4"), ("nothing", "unknown")):
        ptxas = tmp_path / said
        ptxas.write_text(f"#!/bin/sh\necho Cuda compilation tools, {said}\n")
        ptxas.chmod(0o755)
        assert release_of(PtxasCompiler(ptxas).version) == release


def test_options_that_make_no_sense_are_refused() -> None:
    for options in ({"deadline": 0.0}, {"chunk_bytes": 0}, {"device": -1}):
        with pytest.raises(UsageError, match="must be positive"):
            fake_runner(**options)


@given(
    sizes=st.lists(st.integers(1, 1 << 21), min_size=1, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_arrays_that_are_alive_never_share_memory(sizes: list[int], order: object) -> None:
    pool = SlotPool()
    arrays = {}
    for number, size in enumerate(sizes * 2):
        array = pool.lease(size).array(np.uint8, (size,))
        array[:] = number
        arrays[number] = array
        if order.random() < 0.4:  # type: ignore[attr-defined]
            del arrays[order.choice(sorted(arrays))]  # type: ignore[attr-defined]
    for number, array in arrays.items():
        assert (array == number).all()
    arrays.clear()
    del array
    pool.close()


def test_a_slot_is_used_again_once_the_last_view_of_it_is_gone() -> None:
    pool = SlotPool()
    array = pool.lease(1000).array(np.uint8, (10, 100))
    view = array[3:5].reshape(-1)[7:]
    found = lease_of(view)
    assert found is not None
    number, offset = found[0].slot.number, found[1]
    assert offset == 307
    assert lease_of(array[:, :50]) is lease_of(array.copy()) is None
    assert lease_of(array[2:]) is not None
    del array, found
    gc.collect()
    other = pool.lease(1000)
    assert other.slot.number != number
    del view
    assert pool.lease(1000).slot.number == number


def test_memory_beyond_what_is_kept_is_dropped_and_its_number_reported() -> None:
    pool = SlotPool(keep_bytes=3 << 20)
    leases = [pool.lease(1 << 20) for _ in range(5)]
    numbers = {lease.slot.number for lease in leases}
    leases.clear()
    assert len(pool.dropped) == 2
    assert set(pool.dropped) < numbers
