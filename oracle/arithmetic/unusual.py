"""Chains of truncated fused dot products whose figures no GPU measured so far has.

The rule is that of `oracle.arithmetic.truncated`, but zeros may have any exponent, products may be
normalised or of limited range, and sums be rounded otherwise. In double precision, one step after
the other: several times slower, and as exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import CANONICAL_NAN, rounded
from oracle.arithmetic.multiplicands import element_values
from oracle.isa.formats import Format
from oracle.models import TruncatedDot

Array = NDArray[Any]
Floats = NDArray[np.float64]

_INFINITE = 2.0**128
"""Where products of limited range end: beyond the largest f32."""


class _Factors:
    def __init__(self, bits: Array, fmt: Format, least: int | None = None) -> None:
        self.values: Floats = element_values(bits, fmt).astype(np.float64)
        magnitude = (bits >> fmt.ignored_bits) & ((1 << fmt.exponent_bits + fmt.fraction_bits) - 1)
        field = (magnitude >> fmt.fraction_bits).astype(np.int32)
        self.exponents: NDArray[np.int32] = np.maximum(field, 1) - fmt.bias
        if least is not None:
            np.maximum(self.exponents, least, out=self.exponents)
        self.finite = bool((field <= 2 * fmt.bias).all())


def unusual_dot(
    a: Array, b: Array, c: Array, *, multiplicand: Format, rule: TruncatedDot, blocks: list[slice]
) -> Array:
    """Return a @ b + c, on raw bit patterns; parameters and result as of `truncated_dot`."""
    with np.errstate(all="ignore"):  # specials are garbage until the end of a block
        least, least_b = rule.least_exponents
        left = _Factors(a.transpose(2, 1, 0), multiplicand, least)
        right = _Factors(b.transpose(1, 2, 0), multiplicand, least_b)
        total = np.ascontiguousarray(c.transpose(1, 2, 0))
        for block in blocks:
            total = _add_block(left, right, total, block, rule)
    return total


def units_of(
    a: Array, b: Array, c: Array, *, multiplicand: Format, rule: TruncatedDot
) -> tuple[float, Sequence[float], Sequence[float]]:
    """Return how the terms of a block, (k,), (k,) and (), of one element of D are aligned.

    Returns unit: What terms are truncated to multiples of. values: The exact terms, the addend
    last; not finite where one is not. counts: The truncated terms, in units.
    """
    with np.errstate(all="ignore"):
        left, right = (
            _Factors(x[:, None, None], multiplicand, least)
            for x, least in zip((a, b), rule.least_exponents, strict=True)
        )
        addend, block = _Factors(c[None, None, None], rule.accumulator_format), slice(0, len(a))
        largest = _largest_exponents(left, right, addend, block, rule)
        unit = float(np.ldexp(1.0, largest - rule.fraction_bits.value)[0, 0, 0])
        values = [float(x[0, 0, 0] * y[0, 0, 0]) for x, y, _ in _products(left, right, block)]
        values.append(float(addend.values[0, 0, 0]))
        return unit, values, np.trunc(np.array(values) / unit).tolist()


def _largest_exponents(
    a: _Factors, b: _Factors, addend: _Factors, block: slice, rule: TruncatedDot
) -> Array:
    zero = rule.zero_exponent.value
    largest = np.where(addend.values == 0.0, zero, addend.exponents)
    for x, y, exponents in _products(a, b, block):
        product = x * y
        if rule.product_exponent.value == "normalised":
            exponents = exponents + (np.abs(product) >= np.ldexp(2.0, exponents))
        np.maximum(largest, np.where(product == 0.0, zero, exponents), out=largest)
    return largest


def _add_block(a: _Factors, b: _Factors, c: Array, block: slice, rule: TruncatedDot) -> Array:
    fmt = rule.accumulator_format
    addend = _Factors(c, fmt)
    largest = _largest_exponents(a, b, addend, block, rule)
    scale = np.ldexp(1.0, rule.fraction_bits.value - largest)
    total = np.trunc(addend.values * scale)
    for x, y, _ in _products(a, b, block):
        total += np.trunc(x * y * scale)
    total /= scale
    sign = -1.0 if rule.zero.value == "-" else 1.0
    finite = np.where(np.isfinite(total), total, 0.0)
    result = rounded(finite, rule.sum_format, rule.rounding.value, rule.overflow.value)
    magnitude = result & result.dtype.type(fmt.magnitude)
    signed_zero = rounded(np.array([sign * 0.0]), fmt, "rn", "infinity")[0]
    result = np.where(magnitude == 0, signed_zero, result)
    limited = rule.product_range.value == "f32"
    if limited or not (a.finite and b.finite and addend.finite):
        plain = _plain_sum(a, b, addend, block, limited=limited)
        result[plain == np.inf] = fmt.infinity
        result[plain == -np.inf] = fmt.infinity | (fmt.magnitude + 1)
        result[np.isnan(plain)] = CANONICAL_NAN[fmt.name]
    return result


def _products(a: _Factors, b: _Factors, block: slice) -> Any:
    """Return the factors of each product of a block, and the sums of their exponents."""
    for k in range(block.start, block.stop):
        exponents = a.exponents[k][:, None] + b.exponents[k][None]
        yield a.values[k][:, None], b.values[k][None], exponents


def _plain_sum(
    a: _Factors, b: _Factors, addend: _Factors, block: slice, *, limited: bool
) -> Floats:
    """Return the sum of a block as IEEE 754 adds, which is special exactly where the block's is."""
    total = addend.values.copy()
    for x, y, _ in _products(a, b, block):
        product = x * y
        if limited:
            over = np.abs(product) >= _INFINITE
            product = np.where(over, np.copysign(np.inf, product), product)
        total += product
    return total
