"""Addresses of 32 bits in shared memory wrap (H200, ptxas 13.0 at -O0 and -O3, 2026-11-23)."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_kernels import kernel

from runners.simulated import SimulatedDevice


@pytest.mark.parametrize("before", [0, 16, 4096, 1 << 31])
def test_a_register_and_an_immediate_of_shared_memory_make_32_bits(before: int) -> None:
    immediate = before if before < 1 << 31 else -(1 << 31)
    body = f"""
    .reg .b32 %base, %low, %word;
    .shared .align 4 .b8 cells[64];
    mov.u32 %base, cells;
    mov.b32 %word, 0x12345678;
    st.shared.b32 [%base+8], %word;
    sub.u32 %low, %base, {before};
    ld.shared.b32 %word, [%low+{immediate + 8}];
    st.global.b32 [%rd2], %word;
"""
    images = np.zeros((1, 256), np.uint8)
    found, _ = SimulatedDevice("sm_90").load(kernel(body, image_bytes=256)).launch("kernel", images)
    assert found.view("<u4")[0, 0] == 0x12345678
