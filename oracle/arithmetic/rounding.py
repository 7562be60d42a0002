"""Rounding of doubles to f16 and f32, in every mode that a model can name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from oracle.formats import Format

    Floats = NDArray[np.float64]

_FLOATS = {"f16": np.float16, "f32": np.float32}


def integral(values: Floats, rounding: str) -> Floats:
    """Round to integers: "rn", "rz", "rm", "rp" or "rna" (nearest, ties away); zeros keep signs."""
    rounded: Floats
    match rounding:
        case "rn":
            rounded = np.rint(values)
        case "rz":
            rounded = np.trunc(values)
        case "rm":
            rounded = np.floor(values)
        case "rp":
            rounded = np.ceil(values)
        case _:
            # Exact, and so no tie is missed: what is rounded here is below 2^25.
            rounded = np.copysign(np.floor(np.abs(values) + 0.5), values)
    return rounded


def rounded(values: Floats, fmt: Format, rounding: str, overflow: str) -> NDArray[Any]:
    """Round doubles once, to bit patterns.

    Parameters
    ----------
    values
        Finite doubles of any shape. One that was itself rounded to odd is as good as exact.
    fmt
        f16 or f32.
    rounding
        One of `oracle.models.figures.ROUNDINGS`.
    overflow
        What a value that is too large for the format becomes: "infinity", "largest" (the largest
        finite number), or "IEEE" (whichever the rounding asks for, IEEE 754-2019, 7.4).

    Returns
    -------
    Patterns, uint16 or uint32; zeros have the sign of the value.
    """
    _, exponent = np.frexp(values)
    np.maximum(exponent, 2 - fmt.bias, out=exponent)  # frexp's significands are below 1
    quantum = np.ldexp(1.0, exponent - 1 - fmt.fraction_bits)
    numbers = integral(values / quantum, rounding) * quantum
    largest = (2.0 - 2.0**-fmt.fraction_bits) * 2.0**fmt.bias
    over = np.abs(numbers) > largest
    if over.any():
        limit = np.full(numbers.shape, largest if overflow == "largest" else np.inf)
        if overflow == "IEEE" and rounding in ("rz", "rm", "rp"):
            inward = {"rz": over, "rm": numbers > 0, "rp": numbers < 0}[rounding]
            limit[inward] = largest
        numbers = np.where(over, np.copysign(limit, numbers), numbers)
    patterns: NDArray[Any] = numbers.astype(_FLOATS[fmt.name]).view(fmt.raw)
    return patterns
