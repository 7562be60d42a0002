"""A kernel of parameters of its own runs in one grid for each image, on every runner alike."""

from __future__ import annotations

import numpy as np
import pytest

from runners.kernels import Kernel, KernelModule, Launch
from runners.protocol import Compiled, Ran, Runner

PTX = """\
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 4 .b32 tile[];
.visible .entry turned(.param .u64 out, .param .u32 added, .param .u64 in)
{
    .reg .b32 %r<12>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [out];
    ld.param.u64 %rd2, [in];
    ld.param.u32 %r1, [added];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.y;
    mad.lo.u32 %r2, %r4, %r3, %r2;
    mov.u32 %r4, %ntid.y;
    mul.lo.u32 %r3, %r3, %r4;
    mov.u32 %r4, %ctaid.y;
    mad.lo.u32 %r5, %r4, %r3, %r2;
    mul.wide.u32 %rd3, %r5, 4;
    add.u64 %rd2, %rd2, %rd3;
    add.u64 %rd1, %rd1, %rd3;
    ld.global.u32 %r6, [%rd2];
    mov.u32 %r7, tile;
    mad.lo.u32 %r8, %r2, 4, %r7;
    st.shared.u32 [%r8], %r6;
    bar.sync 0;
    sub.u32 %r9, %r3, 1;
    sub.u32 %r9, %r9, %r2;
    mad.lo.u32 %r8, %r9, 4, %r7;
    ld.shared.u32 %r6, [%r8];
    add.u32 %r6, %r6, %r1;
    st.global.u32 [%rd1], %r6;
    ret;
}
"""
BLOCKS, THREADS = 3, 45
OUT, IN, BYTES = 256, 1024, 2048
LAUNCH = Launch(
    grid=(1, BLOCKS, 1), block=(15, 3, 1), shared_bytes=4 * THREADS,
    parameters=bytes(8) + (7).to_bytes(8, "little") + bytes(8), pointers=((0, OUT), (16, IN)),
    buffers=((OUT, 4 * BLOCKS * THREADS), (IN, 4 * BLOCKS * THREADS)),
)  # fmt: skip
MODULE = KernelModule(
    ptx=PTX, target="sm_80", version="8.0",
    kernels=(Kernel(entry="turned", image_bytes=BYTES, launch=LAUNCH),),
)  # fmt: skip


@pytest.mark.stand_in
@pytest.mark.parametrize("count", [1, 5])
def test_every_image_has_a_grid_of_its_own(runner: Runner, count: int) -> None:
    before = np.random.default_rng(count).integers(0, 256, (count, BYTES), np.uint8)
    expected = before.copy().view(np.uint32)
    size = BLOCKS * THREADS
    given = expected[:, IN // 4 : IN // 4 + size].reshape(count, BLOCKS, THREADS)
    turned = given[:, :, ::-1].reshape(count, size) + np.uint32(7)
    expected[:, OUT // 4 : OUT // 4 + size] = turned
    compiled = runner.compile(MODULE)
    assert isinstance(compiled, Compiled), compiled
    ran = runner.run(compiled, before.copy())
    assert isinstance(ran, Ran), ran
    assert np.array_equal(ran.images, expected.view(np.uint8))
    assert (ran.sms == 0xFFFFFFFF).all()
