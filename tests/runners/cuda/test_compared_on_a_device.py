"""Images that a device makes by their numbers: a child whose PyCUDA is a stand-in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import cuda_fakes
import numpy as np
import pytest
from cuda_fakes import HANGS, fake_runner, module

from oracle.errors import InfrastructureError
from oracle.execution.execution import execute
from oracle.isa.lookup import form_of
from oracle.isa.targets import Module
from oracle.models import model_for
from oracle.program.program import Program, different
from oracle.program.steps import product_of
from runners.cuda import runner as cuda_runner
from runners.cuda.runner import CudaRunner
from runners.emission import emit
from runners.kernels import Kernel
from runners.ledger import ROWS
from runners.protocol import Compiled, Failure, Ran, Trouble
from runners.reference.encoding import encode
from runners.reference.fresh import FreshRan, FreshWork
from runners.reference.self_check import LISTED
from runners.simulated_runner import SimulatedRunner, host_reference
from strategies.contents import Recipe, ValueClass, expand
from strategies.contents.device import device_contents
from strategies.matrices import single_program
from strategies.programs.warpgroups import plain_multiplication

OPCODE = "mma.sync.aligned.m16n8k16.row.col.{}s32.s8.s8.s32"
RECIPE = Recipe(classes=(ValueClass.EXTREME, ValueClass.NORMAL), seed=28)
FIRST, COUNT = (1 << 32) - 100, 300
_LINE_BYTES = 1 << 18
"""More bytes than a line between two processes holds (212,992, Linux's net.core.wmem_default)."""


def program_of(opcode: str) -> Program:
    return single_program(product_of(form_of(opcode)))


PROGRAM = program_of(OPCODE.format(""))
CLAMPED = program_of(OPCODE.format("satfinite."))
"""The same where no sum passes an end of 32 bits."""


def work(said: Program, **others: Any) -> FreshWork:
    """Return images that are compared with what a program says."""
    return FreshWork(
        encoded=encode(said, model_for("sm_90")),
        contents=device_contents(RECIPE, PROGRAM),
        first=FIRST,
        count=COUNT,
        **others,
    )


@pytest.fixture(scope="module")
def runner() -> Iterator[CudaRunner]:
    try:
        host_reference()
    except InfrastructureError as error:
        pytest.skip(str(error))
    with fake_runner() as runner:
        yield runner


def ran(runner: CudaRunner | SimulatedRunner, asked: FreshWork) -> FreshRan:
    compiled = runner.compile(emit(PROGRAM))
    assert isinstance(compiled, Compiled), compiled
    found = runner.fresh(compiled, asked).collect()
    assert isinstance(found, FreshRan), found
    return found


def test_what_differs_is_listed_from_the_first_on_and_comes_back_as_numpy_makes_it(
    runner: CudaRunner,
) -> None:
    images = expand(RECIPE, PROGRAM, COUNT, first=FIRST)
    after, said = (execute(one, images).images for one in (PROGRAM, CLAMPED))
    wrong = different(said, after)
    assert LISTED < len(wrong) < COUNT
    found = ran(runner, work(CLAMPED, sampled=(FIRST,)))
    assert (found.images, found.differing, found.listed) == (COUNT, len(wrong), LISTED)
    assert found.numbers.tolist() == (FIRST + wrong[:LISTED]).tolist()
    assert np.array_equal(found.before, images[wrong[:LISTED]])
    assert np.array_equal(found.after, after[wrong[:LISTED]])
    assert found.sms.shape == (LISTED,)
    # What is not listed is not known by multiprocessor, so that neither is what lies behind.
    assert found.finished.sum() == wrong[LISTED - 1] + 1


def test_a_sample_of_what_agrees_comes_back(runner: CudaRunner) -> None:
    sampled = FIRST + 3, FIRST + COUNT - 1
    found = ran(runner, work(PROGRAM, sampled=sampled))
    assert (found.differing, found.listed, found.numbers.tolist()) == (0, 0, [*sampled])
    images = np.concatenate([expand(RECIPE, PROGRAM, 1, first=one) for one in sampled])
    assert np.array_equal(found.before, images)
    assert np.array_equal(found.after, execute(PROGRAM, images).images)
    assert found.finished.sum() == COUNT


def test_many_launches_find_the_same() -> None:
    assert (1 << 16) // PROGRAM.image_bytes < COUNT // 4
    sampled = tuple(range(FIRST + 5, FIRST + COUNT, 50))
    with fake_runner(mode="small launches") as launches:
        for said in (PROGRAM, CLAMPED):
            asked = work(said, sampled=sampled)
            one, other = ran(launches, asked), ran(SimulatedRunner(), asked)
            assert (one.images, one.differing, one.listed) == (COUNT, other.differing, other.listed)
            last = int(one.numbers[LISTED - 1]) + 1 - FIRST if one.differing else COUNT
            assert one.finished.sum() == last
            assert set(other.numbers[: other.listed].tolist()) == set(one.numbers[: one.listed])
            for number, before, after in zip(one.numbers, one.before, one.after, strict=True):
                image = expand(RECIPE, PROGRAM, 1, first=int(number))
                assert np.array_equal(before, image[0])
                assert np.array_equal(after, execute(PROGRAM, image).images[0])


def test_an_answer_and_requests_pass_each_other_where_neither_fits_the_line(
    runner: CudaRunner,
) -> None:
    compiled = runner.compile(emit(PROGRAM))
    assert isinstance(compiled, Compiled)
    numbers = range(FIRST, FIRST + COUNT)
    assert 2 * COUNT * PROGRAM.image_bytes > _LINE_BYTES
    # The device answers while it is sent what is not needed at once.
    comparison = runner.fresh(compiled, work(PROGRAM, sampled=tuple(numbers)))
    ahead = [runner.prepare(module(f"{name} {'-' * _LINE_BYTES}")) for name in "ab"]
    found = comparison.collect()
    assert isinstance(found, FreshRan), found
    assert found.numbers.tolist() == [*numbers]
    for one in ahead:
        assert isinstance(one, Compiled)
        assert isinstance(runner.run(one, cuda_fakes.images(2)), Ran)


def test_a_reference_that_finds_nothing_is_refused(runner: CudaRunner) -> None:
    with fake_runner(mode="misjudges") as other:
        compiled = other.compile(emit(PROGRAM))
        assert isinstance(compiled, Compiled)
        found = other.fresh(compiled, replace(work(PROGRAM), count=1)).collect()
        assert isinstance(found, Failure)
        assert found.trouble is Trouble.UNAVAILABLE
        assert "--no-device-reference" in found.message
        assert "compares wrongly what is known" in found.detail


def test_a_warpgroup_is_compared_and_its_multiprocessors_are_not_known(runner: CudaRunner) -> None:
    opcode = "wgmma.mma_async.sync.aligned.m64n8k32.f32.{0}.{0}"
    program, other = (
        plain_multiplication(form_of(opcode.format(name))) for name in ("e4m3", "e5m2")
    )
    compiled = runner.compile(emit(program, module=Module.named("sm_90a", "8.0")))
    assert isinstance(compiled, Compiled), compiled
    images = expand(RECIPE, program, 5, first=FIRST)
    after, said = (execute(one, images, target="sm_90a").images for one in (program, other))
    for judge, expected in ((program, after), (other, said)):
        asked = FreshWork(
            encoded=encode(judge, model_for("sm_90a")), contents=device_contents(RECIPE, program),
            first=FIRST, count=5, sampled=(FIRST + 2,),
        )  # fmt: skip
        found = runner.fresh(compiled, asked).collect()
        assert isinstance(found, FreshRan), found
        wrong = [FIRST + one for one in different(expected, after).tolist()]
        assert (found.images, found.differing) == (5, len(wrong))
        assert found.numbers.tolist() == (wrong or [FIRST + 2])
        assert np.array_equal(found.after, after[(found.numbers - FIRST).astype(int)])
        assert (found.sms >= ROWS).all()
    assert wrong


def stopping(runner: CudaRunner, behaviour: int) -> tuple[Compiled, FreshWork]:
    """Return a kernel, and the image that has the stand-in do something else."""
    anything = Recipe(classes=(ValueClass.ANY,), seed=28)
    images = expand(anything, PROGRAM, 4096)
    first = int(np.flatnonzero(images[:, 0] == behaviour)[0])
    kernel = Kernel(entry="increment", image_bytes=PROGRAM.image_bytes)
    stops = runner.compile(replace(module(), kernels=(kernel,)))
    assert isinstance(stops, Compiled)
    contents = device_contents(anything, PROGRAM)
    return stops, replace(work(PROGRAM), contents=contents, first=first, count=1)


def test_a_comparison_that_hangs_is_given_up_at_its_deadline_though_the_line_is_full(
    runner: CudaRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(runner, work(PROGRAM))
    hangs, asked = stopping(runner, HANGS)
    monkeypatch.setattr(cuda_runner, "_REFERENCE_SECONDS", 0.0)
    monkeypatch.setattr(runner, "deadline", 1.0)
    comparison = runner.fresh(hangs, asked)
    begun = time.monotonic()
    ahead = [runner.prepare(module(f"{name} {'+' * _LINE_BYTES}")) for name in "ab"]
    lost = comparison.collect()
    assert isinstance(lost, Failure)
    assert lost.trouble is Trouble.HANG
    # Far less than the two modules might take to be loaded; a process that starts again takes some.
    assert time.monotonic() - begun < 60
    for one in ahead:
        assert isinstance(one, Compiled)
        assert isinstance(runner.run(one, cuda_fakes.images(2)), Ran)
