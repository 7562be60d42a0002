"""Every runner that can screen runs all images on every multiprocessor, and sees every byte."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from outcomes import compiled_of
from single_multiplies import VARIANTS, Access, contents

from oracle.errors import UsageError
from oracle.execution.execution import execute
from oracle.isa.lookup import mma_form, warpgroup_forms
from oracle.isa.targets import Module
from oracle.program.program import Program
from oracle.program.steps import Copy
from oracle.program.warpgroup import AsyncProduct, WarpgroupSync
from runners.emission import emit, emit_screening
from runners.kernels import KernelModule, ScreeningKernel
from runners.ledger import RECORDS
from runners.protocol import Failure, Trouble
from runners.screening import References, Screened, Screener
from runners.simulated import device
from runners.simulated_runner import SimulatedRunner
from strategies.contents import Recipe, ValueClass, expand
from strategies.programs.warpgroups import plain_multiplication

pytestmark = pytest.mark.stand_in

# Its B has rows of 8 bytes: not aligned as shared memory wants it.
_NARROW = mma_form("wmma.mma.sync.aligned.row.row.m32n8k16.s32.s8.s8.s32")
_HALF = mma_form("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32")
_GROUP = next(one for one in warpgroup_forms() if "m64n24k16.f32.f16" in one.opcode)
COUNT = 3


def _references(form=_HALF, access: Access | None = None) -> tuple[Program, References]:
    if form.warps > 1:
        program = plain_multiplication(form)
        images = expand(Recipe(classes=(ValueClass.BITS,), seed=3), program, COUNT)
    else:
        program, images = contents(form, access or Access(), COUNT, seed=3)
    return program, References(images=images, expected=execute(program, images).images)


def _emitted(program: Program) -> KernelModule:
    module = Module.named("sm_90a") if program.warps > 1 else None
    return emit_screening({"screen": program}, module=module)


def _screened(outcome: Screened | Failure) -> Screened:
    assert isinstance(outcome, Screened), f"{outcome} {outcome.detail}"
    return outcome


@pytest.mark.parametrize(
    ("form", "scratch"), [(_HALF, "shared"), (_NARROW, "global"), (_GROUP, "global")]
)
def test_every_multiprocessor_runs_as_many_images_as_it_is_told_and_none_differs(
    runner: Screener, form, scratch: str
) -> None:
    program, references = _references(form)
    compiled = compiled_of(runner, _emitted(program))
    kernel = compiled.module.kernel()
    assert isinstance(kernel, ScreeningKernel)
    assert kernel.scratch == scratch
    for limit in (1, 2 * COUNT + 1):
        ledger = _screened(runner.screen(compiled, references, limit=limit).collect()).ledger
        ran = ledger.finished[ledger.finished > 0]
        assert len(ran) >= 100
        assert (ran == limit).all()
        assert not ledger.wrong.any()
        assert not ledger.differing


@pytest.mark.parametrize("form", [_HALF, _NARROW, _GROUP])
def test_one_other_byte_is_seen_wherever_it_is_on_every_multiprocessor(
    runner: Screener, form
) -> None:
    program, right = _references(form)
    compiled = compiled_of(runner, _emitted(program))
    size = program.image_bytes
    for place in (255, size - 1):
        expected = right.expected.copy()
        expected[1, place] ^= 0x10
        references = References(images=right.images, expected=expected)
        outcome = runner.screen(compiled, references, limit=2 * COUNT).collect()
        ledger = _screened(outcome).ledger
        ran = ledger.finished > 0
        assert (ledger.wrong[ran] == 2).all()
        assert not ledger.wrong[~ran].any()
        assert len(ledger.differing) == RECORDS
        for one in ledger.differing:
            assert one.image == 1
            assert one.turn % COUNT == 1
            assert ran[one.sm]
            assert np.array_equal(one.actual, right.expected[1])


def test_nothing_of_a_warpgroup_is_in_flight_when_its_next_image_begins(runner: Screener) -> None:
    """Of a program that multiplies once more and never asks for the result."""
    program, _ = _references(_GROUP)
    (product,) = (step for step in program.steps if isinstance(step, AsyncProduct))
    end = WarpgroupSync(kind="fence"), product, WarpgroupSync(kind="commit_group")
    unended = replace(program, steps=(*program.steps, *end))
    images = expand(Recipe(classes=(ValueClass.BITS,), seed=4), unended, COUNT)
    references = References(images=images, expected=execute(unended, images).images)
    compiled = compiled_of(runner, _emitted(unended))
    outcome = _screened(runner.screen(compiled, references, limit=2 * COUNT).collect())
    assert not outcome.ledger.wrong.any()


def test_what_is_copied_in_bulk_is_that_of_each_image(runner: Screener) -> None:
    """The mbarrier goes on from image to image, each of an odd number of phases."""
    program, references = _references(_GROUP)
    wait = WarpgroupSync(kind="bulk_wait", mbarrier=0)
    steps = [replace(one, mbarrier=0) if isinstance(one, Copy) else one for one in program.steps]
    at = next(at for at, one in enumerate(steps) if isinstance(one, Copy))
    in_bulk = replace(program, steps=(*steps[: at + 1], wait, *steps[at + 1 :]))
    compiled = compiled_of(runner, _emitted(in_bulk))
    ledger = _screened(runner.screen(compiled, references, limit=2 * COUNT).collect()).ledger
    assert (ledger.finished[ledger.finished > 0] == 2 * COUNT).all()
    assert not ledger.wrong.any()


def test_the_same_references_are_given_once_and_new_ones_are_told_apart(runner: Screener) -> None:
    program, right = _references()
    compiled = compiled_of(runner, emit_screening({"screen": program}))
    wrong = References(images=right.images, expected=right.images)
    pending = [
        runner.screen(compiled, references, limit=COUNT)
        for references in (right, wrong, right, wrong)
    ]
    ledgers = [_screened(one.collect()).ledger for one in pending]
    assert [bool(ledger.wrong.any()) for ledger in ledgers] == [False, True, False, True]


def test_kernels_are_not_mistaken_for_each_other(runner: Screener) -> None:
    program, references = _references()
    once = compiled_of(runner, emit(program, entry="once"))
    screening = compiled_of(runner, emit_screening({"screen": program}))
    with pytest.raises(UsageError, match="emit_screening"):
        runner.screen(once, references, limit=1)
    with pytest.raises(UsageError, match="call screen"):
        runner.run(screening, references.images)
    with pytest.raises(UsageError, match="limit"):
        runner.screen(screening, references, limit=0)
    short = References(images=references.images[:, :-1], expected=references.expected[:, :-1])
    with pytest.raises(UsageError, match="must be uint8"):
        runner.screen(screening, short, limit=1)


def test_references_are_alike_and_there_are_some() -> None:
    images = np.zeros((2, 256), np.uint8)
    for other in (images[:1], images[:, :1]):
        with pytest.raises(UsageError, match="as many"):
            References(images=images, expected=other)
    with pytest.raises(UsageError, match="at least one"):
        References(images=images[:0], expected=images[:0])


@pytest.mark.parametrize("space", ["global", ""])
@pytest.mark.parametrize("form", VARIANTS[::46], ids=lambda form: form.opcode)
def test_programs_in_shared_memory_give_what_they_give_in_global_memory(
    runner: Screener, form, space: str
) -> None:
    program, references = _references(form, Access(space=space))
    compiled = compiled_of(runner, emit_screening({"screen": program}))
    outcome = _screened(runner.screen(compiled, references, limit=COUNT).collect())
    assert not outcome.ledger.wrong.any()


def test_a_simulated_launch_of_many_images_is_called_a_hang_by_its_size_and_not_by_the_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At high load 1,048 images on each multiprocessor took 2.5 s and more, of 5 s (2026-11-27)."""
    program, references = _references()
    module = emit_screening({"screen": program})
    # Each step takes 20 ms: 5 s are over after 500 steps, by both clocks.
    clock = SimpleNamespace(
        thread_time=count(step=0.02).__next__, monotonic=count(step=0.02).__next__
    )
    monkeypatch.setattr(device, "time", clock)
    with SimulatedRunner() as runner:
        ran = _screened(runner.screen(compiled_of(runner, module), references, limit=50).collect())
        assert not ran.ledger.wrong.any()
        # One that does not end is stopped all the same.
        label = re.search(r"(?m)^(\w+):$", module.ptx)
        assert label is not None
        endless = module.ptx[: label.end()] + f"\n    bra {label[1]};" + module.ptx[label.end() :]
        compiled = compiled_of(runner, replace(module, ptx=endless))
        failure = runner.screen(compiled, references, limit=50).collect()
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.HANG
    assert "still running after" in failure.detail
