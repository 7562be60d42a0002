"""A kernel whose result is known: run on a new context before anything else is believed.

It follows the kernels' convention (`runners.kernels.Kernel`). An image is 32 words, one a lane,
which the kernel multiplies after adding the lane's number; padding; and a tile of 16 x 16 f32
that receives the product of two f16 matrices of ones, plus one: 17 everywhere, whatever the
fragments' layout.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ENTRY = "self_check"
IMAGE_BYTES = 256 + 16 * 16 * 4  # 32 words, one a lane, padding, and the tile
WARPS_PER_BLOCK = 8
_FACTOR = 2654435761
"""Odd, so that no two words of an image are the same: 2^32 divided by the golden ratio."""
_SEVENTEEN = 0x41880000  # 17.0 as f32

_ONES = "{" + ", ".join(["%one"] * 8) + "}"
_C = "{" + ", ".join(["%c"] * 8) + "}"
_D = "{" + ", ".join(f"%d_{index}" for index in range(8)) + "}"

PTX = f"""\
.version 6.3
.target sm_70
.address_size 64

.visible .entry {ENTRY}(
    .param .u64 images,
    .param .u64 sms,
    .param .u32 count
)
{{
    .reg .b32 %warp, %warps, %in_block, %lane, %count, %word, %sm, %one;
    .reg .f32 %c, %d_<8>;
    .reg .b64 %image, %offset, %sms;
    .reg .pred %done, %first;
    mov.u32 %warps, %ntid.x;
    shr.u32 %warps, %warps, 5;
    mov.u32 %in_block, %tid.x;
    shr.u32 %in_block, %in_block, 5;
    mov.u32 %warp, %ctaid.x;
    mad.lo.u32 %warp, %warp, %warps, %in_block;
    ld.param.u32 %count, [count];
    setp.ge.u32 %done, %warp, %count;
    @%done bra END;
    mov.u32 %lane, %laneid;
    ld.param.u64 %image, [images];
    cvta.to.global.u64 %image, %image;
    mul.wide.u32 %offset, %warp, {IMAGE_BYTES};
    add.u64 %image, %image, %offset;
    // word of this lane: (word + lane) * factor
    mul.wide.u32 %offset, %lane, 4;
    add.u64 %offset, %image, %offset;
    ld.global.b32 %word, [%offset];
    add.u32 %word, %word, %lane;
    mul.lo.u32 %word, %word, {_FACTOR};
    st.global.b32 [%offset], %word;
    // tile: ones times ones plus one
    mov.b32 %one, 0x3c003c00;
    mov.b32 %c, 0x3f800000;
    wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {_D}, {_ONES}, {_ONES}, {_C};
    wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%image+256], {_D};
    ld.param.u64 %sms, [sms];
    mul.wide.u32 %offset, %warp, 4;
    add.u64 %sms, %sms, %offset;
    cvta.to.global.u64 %sms, %sms;
    setp.eq.u32 %first, %lane, 0;
    mov.u32 %sm, %smid;
    @%first st.global.u32 [%sms], %sm;
END:
    ret;
}}
"""


def images(count: int) -> NDArray[np.uint8]:
    """Return `count` images, uint8 (count, IMAGE_BYTES), before the kernel."""
    words = np.zeros((count, IMAGE_BYTES // 4), np.uint32)
    words[:, :32] = np.arange(count, dtype=np.uint32)[:, None] << np.uint32(5)
    return words.view(np.uint8)


def expected(count: int) -> NDArray[np.uint8]:
    """Return the images of `images(count)` after the kernel."""
    words = np.zeros((count, IMAGE_BYTES // 4), np.uint32)
    words[:, :32] = np.arange(32 * count, dtype=np.uint32).reshape(count, 32)
    words[:, :32] *= np.uint32(_FACTOR)
    words[:, 64:] = _SEVENTEEN
    return words.view(np.uint8)
