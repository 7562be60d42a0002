"""Kernels of divergent integer code against an interpreter of one lane at a time."""

import numpy as np
import pytest
from lane_kernels import IMAGE_BYTES, SIMPLE, lane_contents, lane_program

from runners.simulated import SimulatedDevice

DEVICE = SimulatedDevice("sm_90")


def check(seed: int, warps: int) -> None:
    program, contents = lane_program(seed), lane_contents(seed, warps)
    images = np.zeros((warps, IMAGE_BYTES), np.uint8)
    images.view(np.uint32)[:, :256] = np.array(contents, np.uint32).reshape(warps, 256)
    after, _ = DEVICE.load(program.ptx).launch("kernel", images)
    found = after.view(np.uint32)[:, 256:].reshape(warps, 32, 8)
    expected = np.array([program.run(each) for each in contents], np.uint32)
    np.testing.assert_array_equal(found, expected, f"seed {seed}\n{program.ptx}")


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_lanes_end_with_the_words_that_one_lane_at_a_time_has(first: int) -> None:
    for seed in range(first, first + 10):
        check(seed, warps=2)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_lanes_of_many_kernels_end_with_the_words_of_one_at_a_time(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed, warps=2)


def test_drawn_kernels_have_what_compilers_stumble_over() -> None:
    text = "".join(lane_program(seed).ptx for seed in range(200))
    for stem in SIMPLE.keys() - {"video"}:
        assert f"{stem}." in text
    for part in (
        "@%q",
        "@!%q",
        "bra L",
        "selp",
        "vsub4",
        "shfl.sync",
        "ballot",
        ".and.",
        "setp.lt.xor.s64",
    ):
        assert part in text
