"""Integer and single-bit matrix multiplication: exact, then wrapped or clamped (9.7.14.4.5)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

S32_LEAST = -(2**31)
S32_GREATEST = 2**31 - 1


def integer_products(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int32]:
    """Return a @ b exactly; shapes (tiles, m, k) and (tiles, k, n), 8-bit elements.

    float32 holds every partial sum exactly, in any order of summation: the largest is
    16 * 255 * 255 = 1,040,400 for u8, far below 2^24.
    """
    products: NDArray[np.float32] = np.matmul(a.astype(np.float32), b.astype(np.float32))
    return products.astype(np.int32)


def bit_counts(a: NDArray[np.uint8], b: NDArray[np.uint8], op: str) -> NDArray[np.int32]:
    """Return the set bits of `a op b` for each row of a and column of b; op is "xor" or "and".

    The bits of an AND are counted by the product; popc(x ^ y) = popc(x) + popc(y) - 2 popc(x & y).
    """
    both = integer_products(a, b)
    if op == "and":
        return both
    rows = a.sum(axis=2, dtype=np.int32)
    columns = b.sum(axis=1, dtype=np.int32)
    different: NDArray[np.int32] = rows[:, :, None] + columns[:, None, :] - 2 * both
    return different


def accumulate(
    products: NDArray[np.int32], c: NDArray[np.int32], *, clamped: bool
) -> NDArray[np.int32]:
    """Return products + c: clamped once, or wrapped to 32 bits."""
    if not clamped:
        # NumPy's int32 addition wraps (two's complement) on arrays, as the page asks.
        wrapped: NDArray[np.int32] = products + c
        return wrapped
    exact: NDArray[np.int64] = products.astype(np.int64) + c
    return exact.clip(S32_LEAST, S32_GREATEST).astype(np.int32)
