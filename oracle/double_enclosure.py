"""The enclosure of f64 multiplications: see oracle.enclosure for what an enclosure is.

The page (9.7.14.4.5) gives the rounding mode and nothing else: neither an order, nor whether
products are rounded on their own. It says nothing of subnormal inputs, so they are kept.

Assumptions: the result is the value of some tree of exact or rounded products and sums of two or
more values, each rounded in the instruction's mode to binary64 or a wider format, or not rounded.

Bound: the argument of oracle.enclosure holds with p = 52 and the subnormal grid of 2^-1074; a
product that is rounded on its own is a node with one child. With .rm no operation increases
anything, so the exact sum is an upper bound; with .rp it is a lower one.

Computation: every output has a frame, the largest exponent of its leaves. In it, products are
unevaluated sums of two doubles, and so is their sum, to which a margin of 2^-95 of the sum of
magnitudes is given, more than its less than 100 rounding errors below 2^-104 can make.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.error_free import two_sum
from oracle.arithmetic.fma import Decoded, two_product
from oracle.forms import Form

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
Bounds = tuple[Floats, Floats, Bools]
Classes = NDArray[np.float32]
"""What matters where operands are special: 0, 1, -1, infinities and NaN. The IEEE 754 sum of
products of classes is infinite or NaN exactly where that of the operands is because of an operand
(9.7.14.4.5 says nothing else of them)."""

_LEAST_FRAME = -1300
"""Frames below this are raised to it, so that 2^-1074 is representable inside the frame."""
_FAR = -400
"""Terms this far below the frame are raised to it: what they add is far below the margin."""
_MARGIN = 2.0**-95
_GROWTH = 1 + 2.0**-45
"""1 + 2 m 2^-52 with m of 17 at most, and the rounding of the sums of magnitudes."""


@dataclass(frozen=True)
class _Doubles:
    """Elements of one operand; infinite and NaN ones count as 0, but have their class."""

    decoded: Decoded
    grids: Floats
    """Largest power of two that divides the significand in [0.5, 1); infinite for 0."""
    classes: NDArray[np.float32]

    @classmethod
    def of(cls, bits: NDArray[np.uint64]) -> _Doubles:
        values = bits.view(np.float64)
        finite = np.isfinite(values)
        decoded = Decoded.of(np.where(finite, bits, np.uint64(0)))
        field = (bits >> np.uint64(52)).astype(np.int64) & 0x7FF
        fraction = bits.view(np.int64) & ((1 << 52) - 1)
        significand = fraction | ((field > 0).astype(np.int64) << 52)
        lowest = (significand & -significand).astype(np.float64)
        grids = np.ldexp(lowest, np.maximum(field, 1) - 1075 - decoded.exponent)
        present = finite & (values != 0.0)
        classes = np.where(finite, np.sign(values), values).astype(np.float32)
        return cls(decoded, np.where(present, grids, np.inf), classes)

    def scaled(self, frame: Ints) -> Floats:
        exponent = np.maximum(self.decoded.exponent - frame, _FAR)
        scaled: Floats = np.ldexp(self.decoded.significand, exponent)
        return scaled

    def grids_in(self, frame: Ints) -> Floats:
        grids: Floats = np.ldexp(self.grids, np.maximum(self.decoded.exponent - frame, 2 * _FAR))
        return grids


def double_chunk(
    form: Form, a_bits: NDArray[Any], b_bits: NDArray[Any], c_low_bits: NDArray[Any],
    c_high_bits: NDArray[Any],
) -> Bounds:  # fmt: skip
    """Bound one chunk; shapes (k, m, tiles), (k, n, tiles), (m, n, tiles)."""
    a, b = _Doubles.of(a_bits[:, :, None]), _Doubles.of(b_bits[:, None])
    c_low, c_high = _Doubles.of(c_low_bits), _Doubles.of(c_high_bits)
    frame = np.maximum(c_low.decoded.exponent, c_high.decoded.exponent)
    for left, right in zip(a.decoded.exponent, b.decoded.exponent, strict=True):
        frame = np.maximum(frame, left + right)
    frame = np.maximum(frame, _LEAST_FRAME)

    ends = c_low.scaled(frame), c_high.scaled(frame)
    apart = are_apart(c_low.classes, c_high.classes) | (c_low_bits != c_high_bits)
    positive, negative = np.maximum(ends[1], 0.0), np.maximum(-ends[0], 0.0)
    positive[apart & np.isposinf(c_high.classes)] = np.inf
    negative[apart & np.isneginf(c_low.classes)] = np.inf
    grids = [np.where(apart, 0.0, c_low.grids_in(frame))]
    head, tail = np.zeros_like(positive), np.zeros_like(positive)
    for k in range(len(a_bits)):
        left, right = a.decoded.at(k), b.decoded.at(k)
        shift = left.exponent + right.exponent - frame
        scale = np.ldexp(1.0, np.maximum(shift, _FAR))
        product, error = two_product(left, right)
        product, error = product * scale, error * scale
        head, rest = two_sum(head, product)
        tail += rest + error
        positive += np.maximum(product, 0.0)
        negative += np.maximum(-product, 0.0)
        grids.append(np.ldexp(a.grids[k] * b.grids[k], np.maximum(shift, 2 * _FAR)))

    total = positive + negative
    positive, negative = positive * _GROWTH, negative * _GROWTH
    _, exponent = np.frexp(np.maximum(positive, negative))
    unit = np.maximum(np.ldexp(1.0, exponent - 53), np.ldexp(1.0, -1074 - frame))
    error = sum((np.maximum(unit - grid, 0.0) for grid in grids), np.zeros_like(unit))
    down = 0.0 if form.rounding == "rp" else error
    up = 0.0 if form.rounding == "rm" else error
    # Without an error all leaves are multiples of `unit`, and the sum of doubles is exact.
    margin = np.where(error > 0.0, total * _MARGIN, 0.0)
    low = _inward(*_sum(head, tail, ends[0], -down - margin), frame, np.inf)
    high = _inward(*_sum(head, tail, ends[1], up + margin), frame, -np.inf)

    positive, negative = np.ldexp(positive, frame), np.ldexp(negative, frame)
    over, under = np.isinf(positive), np.isinf(negative)
    low = np.where(under, -np.inf, np.where(over, -negative, low))
    high = np.where(over, np.inf, np.where(under, positive, high))
    classes = class_sum(a.classes, b.classes, c_low.classes, c_high.classes)
    return with_special((low, high, over & under), over, under, classes, classes)


def _sum(head: Floats, tail: Floats, c: Floats, error: Floats) -> tuple[Floats, Floats]:
    """Return head + tail + c + error as a double and what is left."""
    upper, rest = two_sum(head, c)
    return two_sum(upper, tail + rest + error)


def _inward(value: Floats, rest: Floats, frame: Ints, toward: float) -> Floats:
    """Return the nearest double to (value + rest) * 2^frame in one direction."""
    direction = 1.0 if toward > 0 else -1.0
    value = np.where(rest * direction > 0.0, np.nextafter(value, toward), value)
    result = np.ldexp(value, frame)
    short = np.ldexp(result, -frame) * direction < value * direction
    return np.where(short, np.nextafter(result, toward), result)


def are_apart(low: Classes, high: Classes) -> Bools:
    """Return where an element may be of several classes; two NaNs are one class."""
    apart: Bools = (low != high) & ~(np.isnan(low) & np.isnan(high))
    return apart


def class_sum(a: Classes, b: Classes, c_low: Classes, c_high: Classes) -> Classes:
    """Sum over k of a * b (k, m, 1, tiles), (k, 1, n, tiles), and c where that is of one class."""
    total = np.where(are_apart(c_low, c_high), np.float32(0), c_low)
    for left, right in zip(a, b, strict=True):
        total += left * right
    return total


def with_special(
    bounds: Bounds, over: Bools, under: Bools, kept: Classes, flushed: Classes
) -> Bounds:
    """Put what special operands permit in the place of bounds of finite ones.

    `over`, `under`: Whether a partial sum of the finite operands may overflow.
    `kept`, `flushed`: Class sums with subnormal operands as they are, and flushed to zero.
    """
    low, high, nan_ok = bounds
    infinite, nan = np.isinf(kept), np.isnan(kept)
    decided = infinite | nan
    low, high = np.where(decided, kept, low), np.where(decided, kept, high)
    nan_ok = np.where(infinite, np.where(kept > 0, under, over), nan_ok) | nan | np.isnan(flushed)
    return low, high, nan_ok
