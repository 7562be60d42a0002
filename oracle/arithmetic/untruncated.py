"""Sums of which no term is truncated: then it does not matter how they are added."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_LEAST = -126
"""Exponent of the least normal f32."""


def untruncated_sums(
    factors: tuple[NDArray[Any], NDArray[Any]], ends: tuple[int, ...], addend: NDArray[Any],
    rows: NDArray[np.intp] | None, *, bits: int, least: int,
) -> NDArray[np.float64] | None:  # fmt: skip
    """Return a @ b + c, exact, (m, n), if units that keep so many `bits` truncate no term.

    `factors`: A, (k, m), and B, (k, n), finite, none with an exponent above its operand's of
    `ends`; `addend`: C, (m, n). `rows`: The rows of B that a sparse A meets, (k, m). `least`: What
    an exponent of a sum is at least.
    """
    # F bits below the largest exponent of all is 2^unit. No sum is cut at a larger unit, so that
    # terms which are multiples of 2^unit are not. All partial sums of these are less than 2^38
    # times 2^unit (4 k + 2 times 2^F, k <= 32, F <= 30): float64 holds them, in whatever order they
    # are added. As unit >= -126, none but zero is a subnormal f32. A zero becomes +0, as that of
    # integers is, because an addend that is -0 becomes +0 first.
    exact = addend.astype(np.float64)
    largest = max(float(exact.max()), -float(exact.min()))
    if not np.isfinite(largest):
        return None
    own = int(np.frexp(largest)[1]) - 1 if largest else least
    unit = max(max(sum(ends), own, least) - bits, _LEAST)
    left, right = (one.astype(np.float64) for one in factors)
    lowest = 0  # exponent of the lowest bit of a product
    for values, end in zip((left, right), ends, strict=True):
        scaled = values * 2.0 ** (bits - end)
        numbers = scaled.astype(np.int64)
        if (numbers != scaled).any():  # some have bits that many below the largest
            return None
        every = int(np.bitwise_or.reduce(numbers, axis=None))
        # Where all are zero, so are all products.
        lowest += end - bits + (every & -every).bit_length() - 1 if every else 1 << 16
    scaled = exact * 2.0**-unit
    if lowest < unit or (np.trunc(scaled) != scaled).any():
        return None
    if rows is not None:
        # Where metadata have no meaning, two neighbours may be at one place: their sum, of F + 2
        # bits, meets an element of 11.
        whole = np.zeros((2, len(right), left.shape[1]))
        for half, place in enumerate(whole):
            np.put_along_axis(place, rows[half::2], left[half::2], axis=0)
        left = whole.sum(axis=0)
    exact += 0.0
    exact += left.T @ right
    return exact
