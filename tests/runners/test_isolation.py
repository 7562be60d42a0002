"""Isolation finds what brings a runner down, whatever the company."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runners.isolation import isolate
from runners.kernels import Kernel, KernelModule
from runners.protocol import Compiled, Failure, Images, Ran, Trouble
from runners.simulated_runner import SimulatedRunner

_COMPILED = Compiled(
    module=KernelModule(
        ptx="", target="sm_90", version="8.0", kernels=(Kernel(entry="k", image_bytes=1),)
    ),
    architecture="sm_90",
    compiler="none",
    key="",
)


class _Fragile(SimulatedRunner):
    """Adds 1 to every byte; fails where an image is in `bad`."""

    def __init__(self, bad: set[int], trouble: Trouble, *, times: int = 1 << 30) -> None:
        super().__init__()
        self.bad = bad
        self.trouble = trouble
        self.left = times
        self.failed = 0

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        if self.left and self.bad & set(images[:, 0].tolist()):
            self.left -= 1
            self.failed += 1
            return Failure(trouble=self.trouble, message="fell over")
        return Ran(images=images + 1, sms=np.zeros(len(images), np.uint32), seconds=0.0)


def _images(count: int) -> Images:
    return np.arange(count, dtype=np.uint8)[:, None]


@given(count=st.integers(0, 120), bad=st.sets(st.integers(0, 119), max_size=6))
def test_it_finds_exactly_the_culprits_and_runs_all_others(count: int, bad: set[int]) -> None:
    found = isolate(_Fragile(bad, Trouble.HANG), _COMPILED, _images(count), limit=1000)
    there = sorted(index for index in bad if index < count)
    assert [culprit.index for culprit in found.culprits] == there
    assert found.complete
    assert np.array_equal(np.flatnonzero(~found.ran), there)
    assert np.array_equal(found.images[found.ran], _images(count)[found.ran] + 1)
    assert np.array_equal(found.images[~found.ran], _images(count)[~found.ran])


@given(bad=st.sets(st.integers(0, 31), min_size=1, max_size=3), copies=st.integers(2, 8))
def test_copies_of_an_image_are_culprits_together(bad: set[int], copies: int) -> None:
    numbers = {copies * image + image % copies for image in bad}  # one copy of each alone
    images = _images(32 * copies)
    runner = _Fragile(numbers, Trouble.STICKY_ERROR)
    found = isolate(runner, _COMPILED, images, copies=copies)
    several = [copies * image + copy for image in sorted(bad) for copy in range(copies)]
    assert [culprit.index for culprit in found.culprits] == several
    assert np.array_equal(np.flatnonzero(~found.ran), several)
    assert found.complete
    alone = _Fragile(bad, Trouble.STICKY_ERROR)
    isolate(alone, _COMPILED, images[:32])
    assert runner.failed == alone.failed


@given(culprit=st.integers(0, 127))
def test_one_culprit_costs_the_logarithm_of_the_batch(culprit: int) -> None:
    runner = _Fragile({culprit}, Trouble.STICKY_ERROR)
    found = isolate(runner, _COMPILED, _images(128))
    assert runner.failed == found.failures == 8


@given(culprit=st.integers(0, 199), known=st.booleans())
def test_one_image_that_hangs_costs_three_deadlines(culprit: int, known: bool) -> None:
    runner = _Fragile({culprit}, Trouble.HANG)
    failed = Failure(trouble=Trouble.HANG, message="fell over") if known else None
    found = isolate(runner, _COMPILED, _images(200), limit=1, failed=failed)
    assert [one.index for one in found.culprits] == [culprit]
    assert found.failures == runner.failed + known <= 3


@given(limit=st.integers(1, 30), trouble=st.sampled_from([Trouble.HANG, Trouble.STICKY_ERROR]))
def test_it_stops_at_its_limit_and_says_that_it_is_incomplete(limit: int, trouble: Trouble) -> None:
    runner = _Fragile(set(range(128)), trouble)
    found = isolate(runner, _COMPILED, _images(128), limit=limit)
    first = 2 if trouble is Trouble.HANG else 8  # so many until there is a culprit
    assert runner.failed == max(limit, first)
    assert not found.complete
    assert found.last is not None


def test_a_failure_that_does_not_come_again_has_no_culprit() -> None:
    found = isolate(_Fragile({5}, Trouble.CRASH, times=2), _COMPILED, _images(16))
    assert found.culprits == ()
    assert found.failures == 2
    assert found.complete


def test_it_does_not_halve_what_halving_cannot_help() -> None:
    for trouble in (Trouble.DEVICE_LOST, Trouble.UNAVAILABLE, Trouble.COMPILE_FAILURE):
        runner = _Fragile({5}, trouble)
        found = isolate(runner, _COMPILED, _images(16))
        assert runner.failed == 1
        assert not found.complete
        assert found.culprits == ()
