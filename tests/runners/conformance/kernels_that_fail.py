"""Kernels in which the first word of an image decides what goes wrong."""

from __future__ import annotations

import numpy as np

from runners.kernels import Kernel, KernelModule
from runners.protocol import Images

IMAGE_BYTES = 256
MISALIGNED, ENDLESS = 1, 2
"""First words of images that fail; 0 makes the kernel add 1 to the image's second word."""

_PTX = """\
.version 7.8
.target sm_75
.address_size 64

.visible .entry fragile(
    .param .u64 images,
    .param .u64 sms,
    .param .u32 count
)
{
    .reg .b32 %warp, %warps, %in_block, %count, %word, %sm;
    .reg .b64 %image, %offset, %sms;
    .reg .pred %p;
    mov.u32 %warps, %ntid.x;
    shr.u32 %warps, %warps, 5;
    mov.u32 %in_block, %tid.x;
    shr.u32 %in_block, %in_block, 5;
    mov.u32 %warp, %ctaid.x;
    mad.lo.u32 %warp, %warp, %warps, %in_block;
    ld.param.u32 %count, [count];
    setp.ge.u32 %p, %warp, %count;
    @%p bra END;
    ld.param.u64 %image, [images];
    cvta.to.global.u64 %image, %image;
    mul.wide.u32 %offset, %warp, 256;
    add.u64 %image, %image, %offset;
    ld.param.u64 %sms, [sms];
    mul.wide.u32 %offset, %warp, 4;
    add.u64 %sms, %sms, %offset;
    cvta.to.global.u64 %sms, %sms;
    mov.u32 %sm, %smid;
    st.global.u32 [%sms], %sm;
    ld.global.b32 %word, [%image];
AGAIN:
    setp.eq.u32 %p, %word, 2;
    // without effects, the driver removes the endless loop (measured on H200, 2026-11-21)
    st.global.u32 [%sms], %sm;
    bar.warp.sync 0xffffffff;
    @%p bra AGAIN;
    // the word is an offset: 1 is no multiple of 4
    cvt.u64.u32 %offset, %word;
    add.u64 %offset, %image, %offset;
    ld.global.b32 %word, [%offset+4];
    add.u32 %word, %word, 1;
    st.global.b32 [%offset+4], %word;
END:
    ret;
}
"""

FRAGILE = KernelModule(
    ptx=_PTX,
    target="sm_75",
    version="7.8",
    kernels=(Kernel(entry="fragile", image_bytes=IMAGE_BYTES),),
)


def images(count: int, **failing: int) -> Images:
    """Return images; `failing` maps "image_NUMBER" to the first word of that image."""
    words = np.random.default_rng(count).integers(0, 1 << 32, (count, 64), np.uint32)
    words[:, 0] = 0
    for name, word in failing.items():
        words[int(name.removeprefix("image_")), 0] = word
    return words.view(np.uint8)


def expected(before: Images) -> Images:
    """Return what the kernel makes of images that do not fail."""
    words = before.copy().view(np.uint32)
    words[:, 1] += np.uint32(1)
    return words.view(np.uint8)
