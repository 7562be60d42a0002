"""Kernels of several warps and blocks do on the simulated device what NumPy says of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from own_kernels import KERNELS, Own

from fuzz.findings.launches import parse_launch, setup_of
from fuzz.judging.filling import image_of
from fuzz.judging.reference import Left, Reference

REFERENCE = Reference(target="sm_90")


@pytest.mark.parametrize("own", KERNELS.values(), ids=KERNELS)
def test_a_kernel_does_what_numpy_says_of_it(own: Own) -> None:
    setup = setup_of(own.ptx, parse_launch(own.launch.encode(), own.name))
    for number in range(4):
        image = image_of(setup, seed=7, number=number)
        after = REFERENCE.after(own.ptx, setup, image)
        assert not isinstance(after, Left), after.why
        size = 4 * int(np.prod(own.threads))
        given, result = (
            one[setup.offsets[name] : setup.offsets[name] + size].view(np.uint32)
            for one, name in ((image, "in"), (after, "out"))
        )
        expected = own.describe(given.reshape(own.threads))
        assert np.array_equal(result.reshape(own.threads), expected.astype(np.uint32))


@pytest.mark.parametrize(
    "line",
    [
        "activemask.b32 %y;;",
        "elect.sync %y|%p0, -1;;",
        "mov.u32 %y, %clock;;",
        "mov.u32 %y, %smid;;",
    ],
)
def test_what_the_device_decides_has_no_result(line: str) -> None:
    own = replace(KERNELS["leader"], body=line)
    setup = setup_of(own.ptx, parse_launch(own.launch.encode(), own.name))
    after = REFERENCE.after(own.ptx, setup, image_of(setup, seed=7, number=0))
    assert isinstance(after, Left)
    assert "who is active" in after.why


@pytest.mark.parametrize(
    "lines",
    [
        "@%p0 setp.eq.u32 %p1, %x, %x;; selp.u32 %y, 1, 2, %p1;;",
        "@%p0 add.cc.u32 %r0, -1, 1;; addc.u32 %y, 0, 0;;",
        "@%p0 mov.u32 %y, 5;;",
    ],
)
def test_what_a_thread_did_not_write_has_no_result(lines: str) -> None:
    own = replace(KERNELS["leader"], body=f"setp.lt.u32 %p0, %t, 40;; {lines}")
    setup = setup_of(own.ptx, parse_launch(own.launch.encode(), own.name))
    assert isinstance(REFERENCE.after(own.ptx, setup, image_of(setup, seed=7, number=0)), Left)


def test_there_are_thirty() -> None:
    assert len(KERNELS) >= 30
