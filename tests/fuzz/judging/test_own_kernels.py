"""Kernels of several warps and blocks do on the simulated device what NumPy says of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from own_kernels import KERNELS, Own

from fuzz.findings.launches import parse_launch, setup_of
from fuzz.judging.reference import Left, Reference, image_of

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
            for one, name in ((image, "in"), (after.image, "out"))
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
        "mov.u64 %rd1, own;; cvt.u32.u64 %y, %rd1;;",
        "mov.u64 %rd1, four;; cvt.u32.u64 %y, %rd1;;",
        "mov.u64 %rd1, tile;; cvt.u32.u64 %y, %rd1;;",
        "shr.u64 %rd1, %out, 40;; cvt.u32.u64 %y, %rd1;;",
        "mov.u32 %r0, 0;; div.u32 %y, %x, %r0;;",
        "mov.u32 %r0, 0;; rem.s32 %y, %x, %r0;;",
        "createpolicy.fractional.L2::evict_last.b64 %rd1, 0.5;; cvt.u32.u64 %y, %rd1;;",
    ],
)
def test_what_the_device_decides_has_no_result(line: str) -> None:
    module = ".const .u32 four[4] = {1, 2, 3, 4};"
    own = replace(KERNELS["leader"], body=f".local .b32 own[4];; {line}", module=module)
    setup = setup_of(own.ptx, parse_launch(own.launch.encode(), own.name))
    after = REFERENCE.after(own.ptx, setup, image_of(setup, seed=7, number=0))
    assert isinstance(after, Left)
    assert "it depends on an address" in after.why


@pytest.mark.parametrize(
    "lines",
    [
        "@%p0 setp.eq.u32 %p1, %x, %x;; selp.u32 %y, 1, 2, %p1;;",
        "@%p0 add.cc.u32 %r0, -1, 1;; addc.u32 %y, 0, 0;;",
        "@%p0 mov.u32 %y, 5;;",
        "@%p0 mov.u32 %r0, 5;; @%p0 mov.u32 %r1, 5;; sub.u32 %y, %r0, %r1;;",
        ".local .b32 own[2];; ld.local.u32 %r0, [own];; ld.local.u32 %r1, [own+4];;"
        "xor.b32 %y, %r0, %r1;;",
    ],
)
def test_what_a_thread_did_not_write_has_no_result(lines: str) -> None:
    own = replace(KERNELS["leader"], body=f"setp.lt.u32 %p0, %t, 40;; {lines}")
    setup = setup_of(own.ptx, parse_launch(own.launch.encode(), own.name))
    assert isinstance(REFERENCE.after(own.ptx, setup, image_of(setup, seed=7, number=0)), Left)


@pytest.mark.parametrize("load", ["ld.global.nc.u32", "ldu.global.u32"])
def test_what_a_load_takes_for_constant_is_written_by_nobody(load: str) -> None:
    own = replace(KERNELS["leader"], body=f"st.global.u32 [%in], %t;; {load} %y, [%in];;")
    setup = setup_of(own.ptx, parse_launch(own.launch.encode(), own.name))
    after = REFERENCE.after(own.ptx, setup, image_of(setup, seed=7, number=0))
    assert isinstance(after, Left)
    assert "what nobody writes" in after.why


def test_there_are_thirty() -> None:
    assert len(KERNELS) >= 30
