"""What infinite and NaN operands permit: the part of an enclosure that follows IEEE 754.

Operands are reduced to classes, float32 numbers that are 0, 1, -1, infinite or NaN. The IEEE 754
sum of products of classes is infinite or NaN exactly where that of the operands is because of
an operand (9.7.14.4.5 says nothing else of them).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Classes = NDArray[np.float32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Bounds = tuple[Floats, Floats, Bools]


def are_apart(low: Classes, high: Classes) -> Bools:
    """Return where an element may be of several classes; two NaNs are one class."""
    apart: Bools = (low != high) & ~(np.isnan(low) & np.isnan(high))
    return apart


def class_sum(a: Classes, b: Classes, c_low: Classes, c_high: Classes) -> Classes:
    """Return the sum over k of a * b, and of c where that is of one class.

    Shapes (k, m, 1, tiles), (k, 1, n, tiles) and (m, n, tiles).
    """
    total = np.where(are_apart(c_low, c_high), np.float32(0), c_low)
    for left, right in zip(a, b, strict=True):
        total += left * right
    return total


def with_special(
    bounds: Bounds, over: Bools, under: Bools, kept: Classes, flushed: Classes
) -> Bounds:
    """Put what special operands permit in the place of bounds of finite ones.

    `bounds`: Low, high and nan_ok of the finite operands.
    `over`, `under`: Whether a partial sum of the finite operands may overflow, upwards or
        downwards.
    `kept`, `flushed`: Class sums with subnormal operands as they are, and flushed to zero.
    """
    low, high, nan_ok = bounds
    infinite, nan = np.isinf(kept), np.isnan(kept)
    decided = infinite | nan
    low, high = np.where(decided, kept, low), np.where(decided, kept, high)
    nan_ok = np.where(infinite, np.where(kept > 0, under, over), nan_ok) | nan | np.isnan(flushed)
    return low, high, nan_ok
