"""Sums and products of doubles with their exact errors, and what rounds by means of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Outputs = tuple[Floats | None, ...]

_SPLITTER = 2.0**27 + 1.0
"""Veltkamp's constant for 53-bit significands."""
_NEW = (None, None, None)


def split(x: Floats, *, out: Outputs = _NEW) -> tuple[Floats, Floats]:
    """Return parts of at most 26 bits whose sum is exactly x (Dekker 1971), in `out` if given."""
    product = np.multiply(x, _SPLITTER, out=out[0])
    rest = np.subtract(product, x, out=out[1])
    high = np.subtract(product, rest, out=product)
    return high, np.subtract(x, high, out=rest)


def two_sum(x: Floats, y: Floats, *, out: Outputs = _NEW) -> tuple[Floats, Floats]:
    """Return the rounded sum and its exact error (Knuth, TAOCP 2, 4.2.2, theorem B).

    `out` names arrays for the two and a third to work in, of which that of the error may be y.
    """
    total = np.add(x, y, out=out[0])
    part = np.subtract(total, x, out=out[2])
    rest = np.subtract(y, part, out=out[1])
    np.subtract(total, part, out=part)
    np.subtract(x, part, out=part)
    rest += part
    return total, rest


def product_error(
    product: Floats, a: tuple[Floats, Floats], b: tuple[Floats, Floats], *, out: Outputs = _NEW
) -> Floats:
    """Return what the rounded product of two split factors lacks (Dekker 1971)."""
    (a_high, a_low), (b_high, b_low) = a, b
    error = np.multiply(a_high, b_high, out=out[0])
    error -= product
    term = np.multiply(a_high, b_low, out=out[1])
    error += term
    error += np.multiply(a_low, b_high, out=term)
    error += np.multiply(a_low, b_low, out=term)
    return error


def odd_sum(x: Floats, y: Floats) -> Floats:
    """Return x + y rounded to odd: rounded again to fewer bits, it is as if rounded once.

    Inexact sums go to the neighbour with an odd significand (Boldo and Melquiond 2008).
    """
    total, error = two_sum(x, y)
    inexact = error != 0.0
    pattern = total.view(np.int64)
    pattern += _toward_zero(total, error, inexact)
    pattern |= inexact
    return total


def directed_step(total: Floats, error: Floats, rounding: str) -> NDArray[np.int64]:
    """Return how many patterns the directed sum is away from zero ("rz", "rm" or "rp").

    `total`, `error`: Of two_sum; `error` is lost.
    """
    if rounding == "rz":
        return _toward_zero(total, error, error != 0.0)
    moved = error < 0.0 if rounding == "rm" else error > 0.0
    step = error.view(np.int64)
    np.right_shift(total.view(np.int64), 63, out=step)
    step |= 1
    if rounding == "rm":
        np.negative(step, out=step)
    step *= moved
    return step


def _toward_zero(total: Floats, error: Floats, inexact: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return -1 where the rounded sum is farther from zero than the exact one; `error` is lost."""
    step = error.view(np.int64)
    step ^= total.view(np.int64)
    step >>= 63  # -1 where the signs differ
    step *= inexact
    return step
