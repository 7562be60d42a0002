"""Products of integers: exact, then wrapped or clamped (9.7.14.4.5)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

S32_LEAST = -(2**31)
S32_GREATEST = 2**31 - 1


def integer_products(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int32]:
    """Return a @ b, (tiles, m, n), of 8-bit elements: f32 holds sums up to 16 * 255 * 255."""
    products: NDArray[np.float32] = np.matmul(a.astype(np.float32), b.astype(np.float32))
    return products.astype(np.int32)
