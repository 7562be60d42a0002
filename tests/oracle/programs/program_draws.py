"""Programs drawn for tests of the oracle, and images of random bytes for them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracle.program.program import Program
from strategies import samples

SPECIAL = np.array(
    [0, 1, 0x7F, 0x80, 0xFF, 0x3C00, 0x7C00, 0x7E00, 0xFC00, 0x8000, 0x3F80, 0x7F80, 0xFF80],
    dtype=np.uint16,
)
"""Halfwords that make ones, zeros, infinities and NaNs of several formats."""


def programs(target: str = "sm_90", version: str | None = None) -> st.SearchStrategy[Program]:
    """Draw programs that the ISA defines, without the contents of a campaign."""
    return samples(target=target, ptx_version=version).map(lambda sample: sample.program)


def images(program: Program, seed: int, count: int) -> NDArray[np.uint8]:
    """Return images of random bytes, with some halfwords of special values."""
    rng = np.random.default_rng(seed)
    halves = rng.integers(0, 1 << 16, (count, program.image_bytes // 2), dtype=np.uint16)
    special = rng.random(halves.shape) < 0.05
    halves[special] = rng.choice(SPECIAL, int(special.sum()))
    return halves.view(np.uint8)
