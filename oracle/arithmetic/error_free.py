"""Sums and products of doubles with their exact errors, and what rounds by means of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_SPLITTER = 2.0**27 + 1.0
"""Veltkamp's constant for 53-bit significands."""


def split(x: Floats) -> tuple[Floats, Floats]:
    """Return parts of at most 26 bits whose sum is exactly x (Dekker 1971)."""
    product = x * _SPLITTER
    high = product - (product - x)
    return high, x - high


def two_sum(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the rounded sum and its exact error (Knuth, TAOCP 2, 4.2.2, theorem B)."""
    total = x + y
    part = total - x
    rest = total - part
    np.subtract(x, rest, out=rest)
    np.subtract(y, part, out=part)
    rest += part
    return total, rest


def product_error(product: Floats, a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> Floats:
    """Return what the rounded product of two split factors lacks (Dekker 1971)."""
    (a_high, a_low), (b_high, b_low) = a, b
    error = a_high * b_high
    error -= product
    term = a_high * b_low
    error += term
    error += np.multiply(a_low, b_high, out=term)
    error += np.multiply(a_low, b_low, out=term)
    return error


def odd_sum(x: Floats, y: Floats) -> Floats:
    """Return x + y rounded to odd: inexact sums go to the neighbour with an odd significand.

    Such a sum, rounded again to fewer bits, is as if it had been rounded once (Boldo and
    Melquiond 2008).
    """
    total, error = two_sum(x, y)
    inexact = error != 0.0
    pattern = total.view(np.int64)
    pattern += _toward_zero(total, error, inexact)
    pattern |= inexact
    return total


def directed_step(total: Floats, error: Floats, rounding: str) -> NDArray[np.int64]:
    """Return how many patterns from the nearest sum the directed one lies, away from zero.

    Parameters
    ----------
    total, error
        Of two_sum; `error` is lost.
    rounding
        "rz", "rm" or "rp".
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
